//! A program that was just executed: the dynamic linker is to load the agent, and to stop when it has loaded
//! the program's libraries, before any code of theirs runs.
//!
//! The agent is named in `LD_PRELOAD` for the dynamic linker only: the variable is put on the new stack here,
//! and taken off again before the program sees it.

use super::agent::Agent;
use super::inject::{Loaded, inject};
use super::processor;
use super::space::{Recording, Rendezvous, Space};
use super::stack::Stack;
use crate::commit::Failure;
use mcount_cpu::here::outside::{BEHIND_BREAKPOINT, BREAKPOINT, RETURN};
use mcount_cpu::outside::{CallSites, LinkerCode};
use mcount_ptrace::{Memory, Tracee};
use nix::libc;
use object::read::elf::{ElfFile64, ProgramHeader};
use object::{Endianness, Object, ObjectSymbol};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// Kinds of entries of the auxiliary vector (`getauxval(3)`).
const AT_IGNORE: u64 = 1;
const AT_PHDR: u64 = 3;
const AT_PHNUM: u64 = 5;
const AT_BASE: u64 = 7;
const AT_SECURE: u64 = 23;

/// Kinds of program headers and dynamic entries (gABI).
const PT_DYNAMIC: u32 = 2;
const PT_PHDR: u32 = 6;
const DT_DEBUG: u64 = 21;

/// Why a program isn't traced.
#[derive(Debug)]
pub(super) enum Untraced {
    /// It runs with privileges of another user.
    Privileged,
    /// It's for another processor, or 32-bit.
    Foreign,
    /// It's statically linked and stripped, and its exceptions could not pass through traced calls.
    Static,
    /// System calls that the agent needs are forbidden to it, or may be.
    Confined,
    Other(Failure),
}

impl From<io::Error> for Untraced {
    fn from(error: io::Error) -> Self {
        Self::Other(error.into())
    }
}

impl std::fmt::Display for Untraced {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Privileged => {
                f.write_str("it runs with another user's privileges; start it as that user")
            }
            Self::Foreign => f.write_str(processor::FOREIGN),
            Self::Static => f.write_str(
                "it's statically linked, throws exceptions, and is stripped: keep its symbols",
            ),
            Self::Confined => {
                f.write_str("its sandbox (seccomp) may kill it for the system calls of tracing")
            }
            Self::Other(failure) => failure.fmt(f),
        }
    }
}

/// A program that's ready to run.
pub(super) struct Prepared {
    pub(super) space: Space,
    /// The agent is in it already, and this is the program's load bias.
    pub(super) bias: Option<u64>,
}

/// Prepares the program in `thread`, which is behind `exec`; `recording` is what it records.
pub(super) fn prepare(
    thread: Tracee,
    memory: &Memory,
    agent: &Agent,
    recording: Recording<'_>,
) -> Result<Prepared, Untraced> {
    let program = PathBuf::from(format!("/proc/{}/exe", thread.id()));
    is_native(&program)?;
    let stack = Stack::read(thread, memory)?;
    if stack.auxiliary(AT_SECURE).is_some_and(|secure| secure != 0) {
        return Err(Untraced::Privileged);
    }
    // Refuse now what would be refused when libraries are loaded. The dynamic linker complains if it can't map one.
    recording.trace.length_for(thread.id(), agent.symbols.size)?;
    let Some((interpreter, debug)) = interpreter(memory, &stack, &program)? else {
        return prepare_static(thread, memory, agent, (&stack, &program), recording);
    };
    let base = stack.auxiliary(AT_BASE).unwrap_or(0);
    let seen = Path::new("/proc").join(thread.id().to_string()).join("root");
    let beneath = |path: &Path| seen.join(path.strip_prefix("/").unwrap_or(path));
    if !beneath(&agent.path).exists() {
        return Err(io::Error::other("it has another root folder: run mcount in that one").into());
    }
    let linker = crate::files::Input::open(&beneath(&interpreter))?;
    let rendezvous = stop_at(thread, memory, base, linker.bytes())?;
    let hidden = preload(thread, memory, stack, &agent.path)?;
    let blocked = thread.unblock(libc::SIGURG)?;
    let rendezvous = Some(rendezvous);
    let space = Space { rendezvous, debug: Some(debug), hidden, blocked, ..Space::default() };
    Ok(Prepared { space, bias: None })
}

/// Has `thread` stop whenever the dynamic linker at `base`, whose file this is, calls its empty function for debuggers.
fn stop_at(thread: Tracee, memory: &Memory, base: u64, linker: &[u8]) -> io::Result<Rendezvous> {
    let function = rendezvous(linker)?;
    let place = base + function;
    let mut code = [0; 32];
    memory.read(place, &mut code)?;
    let room = processor::room_in(&code);
    let calls = if room < processor::SITE { linker_calls(linker, function, base) } else { None };
    let code = code.get(..BREAKPOINT.len()).unwrap_or_default().to_vec();
    let question = processor::question(thread.inner_id()?);
    if question.len() <= room {
        memory.write(place, &question)?;
        // After it is the return.
        let stopped = place + (question.len() - RETURN.len()) as u64;
        return Ok(Rendezvous { place, room, code, stopped, is_breakpoint: false, calls });
    }
    if room < processor::SITE && (calls.is_none() || room < BREAKPOINT.len()) {
        return Err(io::Error::other("its dynamic linker has no usable rendezvous"));
    }
    memory.write(place, BREAKPOINT)?;
    let stopped = place + BEHIND_BREAKPOINT;
    Ok(Rendezvous { place, room, code, stopped, is_breakpoint: true, calls })
}

/// Where the dynamic linker at `base` calls this function of its file, if that's known.
fn linker_calls(linker: &[u8], function: u64, base: u64) -> Option<CallSites> {
    let ways = processor::LINKER_CALLS?;
    let file = ElfFile64::<Endianness>::parse(linker).ok()?;
    let endian = file.endian();
    let is_code = |header: &&object::elf::ProgramHeader64<Endianness>| {
        header.p_type(endian) == object::elf::PT_LOAD
            && header.p_flags(endian).0 & object::elf::PF_X.0 != 0
    };
    let code = file.elf_program_headers().iter().find(is_code)?;
    let (bytes, start) = (code.data(endian, linker).ok()?, code.p_vaddr(endian));
    let CallSites { sites, spare } =
        (ways.find)(LinkerCode { bytes, start, entry: file.entry(), function })?;
    let at = |address: u64| base.wrapping_add(address);
    Some(CallSites { sites: sites.into_iter().map(at).collect(), spare: at(spare) })
}

fn prepare_static(
    thread: Tracee,
    memory: &Memory,
    agent: &Agent,
    (stack, program): (&Stack, &Path),
    recording: Recording<'_>,
) -> Result<Prepared, Untraced> {
    let input = crate::files::Input::open(program)?;
    let bytes = input.bytes();
    let file = ElfFile64::<Endianness>::parse(bytes).map_err(io::Error::other)?;
    let throws = |name: &[u8]| memchr::memmem::find(bytes, name).is_some();
    if file.symbols().next().is_none() && (throws(b"St9exception") || throws(b"rust_panic")) {
        return Err(Untraced::Static);
    }
    let mut space = Space::default();
    let loaded = Loaded { file, stack };
    let bias = inject(thread, memory, agent, &loaded, &mut space, recording)?;
    Ok(Prepared { space, bias: Some(bias) })
}

/// Is the program for this processor? Registers of others are read otherwise.
fn is_native(program: &Path) -> Result<(), Untraced> {
    let input = crate::files::Input::open(program)?;
    let bytes = input.bytes();
    // EI_CLASS and e_machine.
    if bytes.get(4) != Some(&2) || bytes.get(18..20) != Some(&processor::MACHINE.to_le_bytes()) {
        return Err(Untraced::Foreign);
    }
    Ok(())
}

/// The program's dynamic linker, and where the program will have the address of `r_debug`.
fn interpreter(
    memory: &Memory,
    stack: &Stack,
    program: &Path,
) -> Result<Option<(PathBuf, u64)>, Untraced> {
    let input = crate::files::Input::open(program)?;
    let bytes = input.bytes();
    let file = ElfFile64::<Endianness>::parse(bytes).map_err(io::Error::other)?;
    let endian = file.endian();
    let mut found = None;
    for header in file.elf_program_headers() {
        if let Ok(Some(path)) = header.interpreter(endian, bytes) {
            found = Some(PathBuf::from(std::ffi::OsString::from_vec(path.to_vec())));
        }
    }
    let Some(path) = found else { return Ok(None) };
    let (headers, count) = (stack.auxiliary(AT_PHDR), stack.auxiliary(AT_PHNUM));
    let (Some(headers), Some(count)) = (headers, count) else { return Ok(None) };
    let count = usize::try_from(count).unwrap_or(0).min(1 << 16);
    let headers_at = headers;
    let headers = memory.words(headers_at, count * 7)?;
    let field = |kind: u32| {
        let of_kind =
            |one: &&[u64]| one.first().is_some_and(|first| *first & 0xffff_ffff == u64::from(kind));
        headers.chunks_exact(7).find(of_kind)
    };
    let address = |kind: u32| field(kind).and_then(|one| one.get(2).copied());
    // A program linked at a fixed address may have no PT_PHDR; then it has no bias either.
    let bias = address(PT_PHDR).map_or(0, |linked| headers_at.wrapping_sub(linked));
    let Some(dynamic) = address(PT_DYNAMIC) else { return Ok(None) };
    let mut at = bias.wrapping_add(dynamic);
    loop {
        match memory.word(at)? {
            0 => return Err(io::Error::other("it has no DT_DEBUG").into()),
            DT_DEBUG => return Ok(Some((path, at + 8))),
            _ => at += 16,
        }
    }
}

/// Where in the dynamic linker the function is that it calls for debuggers, from its base on.
fn rendezvous(linker: &[u8]) -> io::Result<u64> {
    let file = ElfFile64::<Endianness>::parse(linker).map_err(io::Error::other)?;
    let is_it = |name: &str| matches!(name, "_dl_debug_state" | "_r_debug_state");
    let found = file
        .dynamic_symbols()
        .chain(file.symbols())
        .find(|symbol| symbol.is_definition() && symbol.name().is_ok_and(is_it));
    let none = || io::Error::other("its dynamic linker has no rendezvous for debuggers");
    found.map(|symbol| symbol.address()).ok_or_else(none)
}

/// Adds the agent to `LD_PRELOAD`; what to put back when it's loaded.
fn preload(
    thread: Tracee,
    memory: &Memory,
    stack: Stack,
    agent: &Path,
) -> io::Result<Vec<(u64, u64)>> {
    const NAME: &[u8] = b"LD_PRELOAD=";
    const OF_LINKERS: [&[u8]; 4] = [b"LD_", b"GLIBC_", b"MALLOC_", b"DL_"];
    let mut value = [NAME, agent.as_os_str().as_bytes()].concat();
    let mut replaced = None;
    for index in stack.environment..stack.auxiliary.saturating_sub(1) {
        let address = stack.words.get(index).copied().unwrap_or(0);
        let variable = memory.string(address)?;
        if let Some(others) = variable.strip_prefix(NAME) {
            value.push(b':');
            value.extend_from_slice(others);
            replaced = Some((index, address));
            break;
        }
        // Any variable will do that the dynamic linker doesn't read: nobody else is there yet to miss it.
        if !OF_LINKERS.iter().any(|name| variable.starts_with(name)) {
            replaced = Some((index, address));
        }
    }
    value.push(0);
    let mut words = stack.words;
    let count = words.len() + if replaced.is_some() { 0 } else { 2 };
    let size = (8 * count + value.len()) as u64;
    // Below what is there: should the recorder be killed before the registers are set, nothing has changed.
    let start = stack.start - size.next_multiple_of(16);
    let shifted = |index: usize| start + 8 * index as u64;
    let text = start + 8 * count as u64;
    let hidden = if let Some((index, address)) = replaced {
        if let Some(word) = words.get_mut(index) {
            *word = text;
        }
        vec![(shifted(index), address)]
    } else {
        // Two more variables: what is left of them is the end of the environment, and an entry of the
        // auxiliary vector that's to be ignored, so that both are still one after the other.
        let end = stack.auxiliary - 1;
        words.splice(end..end, [text, text]);
        vec![(shifted(end), 0), (shifted(end + 1), AT_IGNORE), (shifted(end + 2), 0)]
    };
    let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    memory.write(start, &bytes)?;
    memory.write(text, &value)?;
    let mut registers = thread.registers()?;
    registers.set_stack(start);
    thread.set_registers(&registers)?;
    Ok(hidden)
}
