//! The agent in a statically linked program, which has no dynamic linker to load it: the recorder maps it, and
//! puts its unwind information where the program's unwinder looks.
//!
//! A static program finds its own program headers by the auxiliary vector. So it's given a copy of them with
//! one more segment, the agent, and with a table of unwind information (`.eh_frame_hdr`, LSB
//! Core, "Exception Frames") that has both the program's and the agent's entries.

use super::agent::Agent;
use super::file::TraceFile;
use super::processor::{GATE, GATE_TRAP, RELATIVE};
use super::scope::Scope;
use super::space::{Space, gaps, mapping};
use super::stack::Stack;
use super::tracee::{Memory, Tracee};
use mcount_hooks::PAGE;
use mcount_hooks::maps;
use nix::libc;
use object::read::elf::{ElfFile64, ProgramHeader};
use object::{Endianness, Object, ObjectSection, RelocationFlags};
use std::io;

const AT_PHDR: u64 = 3;
const AT_PHNUM: u64 = 5;
const AT_ENTRY: u64 = 9;
const PT_LOAD: u64 = 1;
const PT_PHDR: u64 = 6;
const PT_GNU_EH_FRAME: u64 = 0x6474_e550;
/// Words of a program header; in the first, the flags are above the type.
const HEADER_WORDS: usize = 7;

/// The program as it's loaded.
pub(super) struct Loaded<'d> {
    pub(super) file: ElfFile64<'d, Endianness>,
    pub(super) stack: &'d Stack,
}

/// What is mapped for the agent.
struct AgentLayout {
    /// Load bias of the agent.
    agent: u64,
    /// Pages that stand in for thread-local storage until the program has its own.
    thread: u64,
    /// Program headers and unwind table.
    tables: u64,
    end: u64,
}

/// Puts the agent into the program of `thread`, which stands at its first instruction; the load bias of
/// the program.
pub(super) fn inject(
    thread: Tracee,
    memory: &Memory,
    agent: &Agent,
    program: &Loaded<'_>,
    space: &mut Space,
    (trace, scope): (&TraceFile, &Scope),
) -> io::Result<u64> {
    let image = ElfFile64::<Endianness>::parse(Agent::image()?).map_err(io::Error::other)?;
    let entry = program.stack.auxiliary(AT_ENTRY).unwrap_or(0);
    let bias = entry.wrapping_sub(program.file.entry());
    let start = thread.registers()?.instruction();
    let mut before = GATE.to_vec();
    memory.read(start, &mut before)?;
    memory.write(start, GATE)?;
    thread.leave_exec(start + GATE_TRAP)?;
    let entries = table(memory, program, bias)?;
    let result = map_agent(thread, memory, start, &image, (program, bias), entries.len());
    memory.write(start, &before)?;
    let place = result?;
    write_tables(memory, program, bias, &place, (entries, &image))?;
    memory.write(place.thread, &place.thread.to_le_bytes())?;
    let mut registers = thread.registers()?;
    registers.set_thread_pointer(place.thread);
    thread.set_registers(&registers)?;
    space.place(thread, memory, agent, place.agent, (trace, scope))?;
    space.start(thread, memory, agent)?;
    Ok(bias)
}

fn map_agent(
    thread: Tracee,
    memory: &Memory,
    gate: u64,
    image: &ElfFile64<'_, Endianness>,
    (program, bias): (&Loaded<'_>, u64),
    entries: usize,
) -> io::Result<AgentLayout> {
    let endian = image.endian();
    let headers = image.elf_program_headers();
    let loads = headers.iter().filter(|header| header.p_type(endian).0 == 1);
    let end = |header: &&object::elf::ProgramHeader64<Endianness>| {
        header.p_vaddr(endian) + header.p_memsz(endian)
    };
    let size = loads.clone().map(|header| end(&header)).max().unwrap_or(0).next_multiple_of(PAGE);
    let count = program.file.elf_program_headers().len() + 2;
    let own = image.section_by_name(".eh_frame_hdr").map_or(0, |section| section.size());
    let tables = (count * HEADER_WORDS * 8 + entries * 8 + 32) as u64 + own;
    let tables = tables.next_multiple_of(PAGE);
    let total = size + 3 * PAGE + tables;
    let extent = extent(program, bias);
    let maps = maps::ranges(&maps::read(thread.id())?);
    let at = gaps(&maps, extent, total)
        .next()
        .ok_or_else(|| io::Error::other("no free memory near it"))?;
    let place = AgentLayout {
        agent: at,
        thread: at + size + PAGE,
        tables: at + size + 3 * PAGE,
        end: at + total,
    };
    let fixed = libc::MAP_FIXED_NOREPLACE;
    for header in loads {
        let flags = header.p_flags(endian).0;
        let protection = [(4, libc::PROT_READ), (2, libc::PROT_WRITE), (1, libc::PROT_EXEC)];
        let protection = protection.iter().filter(|(flag, _)| flags & flag != 0);
        let protection = protection.fold(0, |all, (_, one)| all | one);
        let from = at + header.p_vaddr(endian);
        let low = from & !(PAGE - 1);
        let size = (at + end(&header)).next_multiple_of(PAGE) - low;
        map(thread, gate, low, size, protection, fixed)?;
        memory.write(from, header.data(endian, image.data()).unwrap_or_default())?;
    }
    let read_write = libc::PROT_READ | libc::PROT_WRITE;
    map(thread, gate, at + size, 3 * PAGE, read_write, fixed)?;
    map(thread, gate, place.tables, tables, libc::PROT_READ, fixed)?;
    for (offset, relocation) in image.dynamic_relocations().into_iter().flatten() {
        if matches!(relocation.flags(), RelocationFlags::Elf { r_type } if r_type.0 == RELATIVE) {
            let value = at.wrapping_add_signed(relocation.addend());
            memory.write(at + offset, &value.to_le_bytes())?;
        }
    }
    Ok(place)
}

/// Maps private memory, in a thread that stands at [`GATE`].
fn map(
    thread: Tracee,
    gate: u64,
    address: u64,
    size: u64,
    protection: i32,
    flags: i32,
) -> io::Result<u64> {
    thread.system_call(gate, libc::SYS_mmap, &mapping(address, size, protection, flags))
}

/// First address and the one behind the last of the program in memory.
fn extent(program: &Loaded<'_>, bias: u64) -> (u64, u64) {
    use object::ObjectSegment;
    let low = program.file.segments().map(|one| one.address()).min().unwrap_or(0);
    let high = program.file.segments().map(|one| one.address() + one.size()).max().unwrap_or(0);
    (bias.wrapping_add(low), bias.wrapping_add(high))
}

/// The entries of an `.eh_frame_hdr` at `address`: where code begins, and its description. Empty if its
/// encoding isn't the one that all linkers write.
fn entries(memory: &Memory, address: u64) -> io::Result<Vec<(u64, u64)>> {
    const LIMIT: u32 = 1 << 24;
    let mut head = [0; 12];
    memory.read(address, &mut head)?;
    let [1, _, 0x03, 0x3b, _, _, _, _, count @ ..] = head else { return Ok(Vec::new()) };
    let count = u32::from_le_bytes(count).min(LIMIT) as usize;
    let mut bytes = vec![0; count * 8];
    memory.read(address + 12, &mut bytes)?;
    let number = |bytes: &[u8]| bytes.try_into().map_or(0, i32::from_le_bytes);
    let entry = |pair: &[u8]| {
        let (code, description) = pair.split_at(4);
        let place = |value: i32| address.wrapping_add_signed(i64::from(value));
        (place(number(code)), place(number(description)))
    };
    Ok(bytes.chunks_exact(8).map(entry).collect())
}

/// The program's own table.
fn table(memory: &Memory, program: &Loaded<'_>, bias: u64) -> io::Result<Vec<(u64, u64)>> {
    let endian = program.file.endian();
    let headers = program.file.elf_program_headers();
    let of_frames = |header: &&object::elf::ProgramHeader64<Endianness>| {
        u64::from(header.p_type(endian).0) == PT_GNU_EH_FRAME
    };
    match headers.iter().find(of_frames) {
        Some(header) => entries(memory, bias.wrapping_add(header.p_vaddr(endian))),
        None => Ok(Vec::new()),
    }
}

fn write_tables(
    memory: &Memory,
    program: &Loaded<'_>,
    bias: u64,
    place: &AgentLayout,
    (mut all, image): (Vec<(u64, u64)>, &ElfFile64<'_, Endianness>),
) -> io::Result<()> {
    if let Some(own) = image.section_by_name(".eh_frame_hdr") {
        all.extend(entries(memory, place.agent + own.address())?);
    }
    all.sort_unstable();
    let stack = program.stack;
    let (Some(at), Some(count)) = (stack.auxiliary(AT_PHDR), stack.auxiliary(AT_PHNUM)) else {
        return Err(io::Error::other("it doesn't know its program headers"));
    };
    let count = usize::try_from(count).unwrap_or(0).min(1 << 16);
    let mut headers = memory.words(at, count * HEADER_WORDS)?;
    let frames = place.tables + ((count + 2) * HEADER_WORDS * 8) as u64;
    let size = 12 + 8 * all.len() as u64;
    let mut has_frames = false;
    for header in headers.chunks_exact_mut(HEADER_WORDS) {
        let [kind, _, address, physical, file_size, memory_size, _] = header else { continue };
        if *kind & 0xffff_ffff == PT_PHDR {
            *address = place.tables.wrapping_sub(bias);
            *physical = *address;
        } else if *kind & 0xffff_ffff == PT_GNU_EH_FRAME {
            has_frames = true;
            *address = frames.wrapping_sub(bias);
            (*physical, *file_size, *memory_size) = (*address, size, size);
        }
    }
    let length = place.end - place.agent;
    let start = place.agent.wrapping_sub(bias);
    // Readable and executable.
    headers.extend([PT_LOAD | 5 << 32, 0, start, start, length, length, PAGE]);
    if !has_frames {
        // The program has registered its own (`__register_frame_info`); this is only where to look next.
        let start = frames.wrapping_sub(bias);
        headers.extend([PT_GNU_EH_FRAME | 4 << 32, 0, start, start, size, size, 4]);
    }
    let count = headers.len() / HEADER_WORDS;
    let mut bytes: Vec<u8> = headers.iter().flat_map(|word| word.to_le_bytes()).collect();
    bytes.resize(usize::try_from(frames - place.tables).unwrap_or(0), 0);
    add_search_table(&mut bytes, frames, &all)?;
    memory.write(place.tables, &bytes)?;
    stack.set_auxiliary(memory, AT_PHDR, place.tables)?;
    stack.set_auxiliary(memory, AT_PHNUM, count as u64)
}

/// Appends what `.eh_frame_hdr` is at `frames`: a sorted table of the code that each frame description is
/// for, as distances.
fn add_search_table(bytes: &mut Vec<u8>, frames: u64, all: &[(u64, u64)]) -> io::Result<()> {
    bytes.extend_from_slice(&[1, 0x1b, 0x03, 0x3b]);
    let frame = all.iter().map(|(_, description)| *description).min().unwrap_or(frames);
    add_distance(bytes, frame, frames + 4)?;
    add_distance(bytes, all.len() as u64, 0)?;
    for (code, description) in all {
        add_distance(bytes, *code, frames)?;
        add_distance(bytes, *description, frames)?;
    }
    Ok(())
}

fn add_distance(bytes: &mut Vec<u8>, to: u64, from: u64) -> io::Result<()> {
    let distance = i32::try_from(to.wrapping_sub(from).cast_signed()).map_err(io::Error::other)?;
    bytes.extend_from_slice(&distance.to_le_bytes());
    Ok(())
}
