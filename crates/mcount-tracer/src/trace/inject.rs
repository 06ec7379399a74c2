//! The agent in a statically linked program, which has no dynamic linker to load it: the recorder maps it, and
//! puts its unwind information where the program's unwinder looks.
//!
//! A static program finds its own program headers by the auxiliary vector. So it's given a copy of them with
//! one more segment, the agent, and with a table of unwind information (`.eh_frame_hdr`, LSB
//! Core, "Exception Frames") that has both the program's and the agent's entries.

use super::agent::Agent;
use super::image::Image;
use super::processor::REACH;
use super::space::{Recording, Space, gaps, mapping};
use super::stack::Stack;
use mcount_cpu::here::outside::SYSTEM_CALL;
use mcount_hooks::PAGE;
use mcount_hooks::maps::{self, Mapping};
use mcount_ptrace::{CallEnd, Memory, Remote, Tracee, to_result};
use nix::libc;
use object::read::elf::{ElfFile64, ProgramHeader};
use object::{Endianness, Object};
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

impl Loaded<'_> {
    /// The difference to addresses in its file.
    fn bias(&self) -> u64 {
        let entry = self.stack.auxiliary(AT_ENTRY).unwrap_or(0);
        entry.wrapping_sub(self.file.entry())
    }
}

/// The mapping for the agent.
struct AgentLayout {
    /// Load bias of the agent.
    agent: u64,
    /// Pages that are in for thread-local storage until the program has its own.
    thread: u64,
    /// Program headers and unwind table.
    tables: u64,
    end: u64,
}

/// One entry of an unwind table: where code begins, and its description.
type FrameEntry = (u64, u64);

/// Puts the agent into the program of `thread`, which stands at its first instruction; the load bias of
/// the program.
pub(super) fn inject(
    thread: Tracee,
    memory: &Memory,
    agent: &Agent,
    program: &Loaded<'_>,
    space: &mut Space,
    recording: Recording<'_>,
) -> io::Result<u64> {
    let image = Image::new()?;
    let bias = program.bias();
    let maps = maps::read(thread.id())?;
    let entries = table(memory, program, bias)?;
    let place = find_room(&image, program, &maps, entries.len())?;
    let mut remote = Remote::at_exec(thread, memory, &maps)?;
    place.map(&mut remote, memory, &image)?;
    write_tables(memory, program, &place, (entries, &image))?;
    memory.write(place.thread, &place.thread.to_le_bytes())?;
    space.place(thread, memory, agent, place.agent, recording)?;
    let symbols = &agent.symbols;
    remote.registers().set_thread_pointer(place.thread);
    remote.registers().begin_thread(place.agent + symbols.nobody);
    let (done, is_done) = (place.agent + symbols.done, place.agent + symbols.is_done);
    let stack = remote.rescue_on_stack(is_done - SYSTEM_CALL.len() as u64)?;
    let end = CallEnd { done, is_done, stack };
    to_result(remote.function(place.agent + symbols.start, [0; 2], end)?)?;
    Ok(bias)
}

/// Where there's room for the agent, and for an unwind table with as many entries besides its own.
fn find_room(
    image: &Image,
    program: &Loaded<'_>,
    maps: &[Mapping],
    entries: usize,
) -> io::Result<AgentLayout> {
    let count = program.file.elf_program_headers().len() + 2;
    let tables = (count * HEADER_WORDS * 8 + entries * 8 + 32) as u64 + image.frame_table.1;
    let tables = tables.next_multiple_of(PAGE);
    let total = image.size + 3 * PAGE + tables;
    let found = gaps(&maps::ranges(maps), extent(program, program.bias()), total, REACH).next();
    let at = found.ok_or_else(|| io::Error::other("no free memory near it"))?;
    Ok(AgentLayout {
        agent: at,
        thread: at + image.size + PAGE,
        tables: at + image.size + 3 * PAGE,
        end: at + total,
    })
}

impl AgentLayout {
    /// Maps everything, and writes the agent.
    fn map(&self, remote: &mut Remote<'_>, memory: &Memory, image: &Image) -> io::Result<()> {
        let bytes = image.relocated(self.agent)?;
        for load in &image.loads {
            let (from, to) = (self.agent + load.start, self.agent + load.end);
            map(remote, from, to, load.protection)?;
            memory.write(from, bytes.get(load.range()?).unwrap_or_default())?;
        }
        let read_write = libc::PROT_READ | libc::PROT_WRITE;
        map(remote, self.agent + image.size, self.tables, read_write)?;
        map(remote, self.tables, self.end, libc::PROT_READ)
    }
}

/// Maps private memory where there's nothing yet.
fn map(remote: &mut Remote<'_>, from: u64, to: u64, protection: i32) -> io::Result<()> {
    let arguments = mapping(from, to - from, protection, libc::MAP_FIXED_NOREPLACE);
    remote.call(libc::SYS_mmap, &arguments).map(|_| ())
}

/// First address and the one after the last of the program in memory.
fn extent(program: &Loaded<'_>, bias: u64) -> (u64, u64) {
    use object::ObjectSegment;
    let low = program.file.segments().map(|one| one.address()).min().unwrap_or(0);
    let high = program.file.segments().map(|one| one.address() + one.size()).max().unwrap_or(0);
    (bias.wrapping_add(low), bias.wrapping_add(high))
}

/// The entries of an `.eh_frame_hdr` at `address`: where code begins, and its description. Empty if its
/// encoding isn't the one that all linkers write.
fn entries(memory: &Memory, address: u64) -> io::Result<Vec<FrameEntry>> {
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
fn table(memory: &Memory, program: &Loaded<'_>, bias: u64) -> io::Result<Vec<FrameEntry>> {
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
    place: &AgentLayout,
    (mut all, image): (Vec<FrameEntry>, &Image),
) -> io::Result<()> {
    let bias = program.bias();
    if image.frame_table.1 != 0 {
        all.extend(entries(memory, place.agent + image.frame_table.0)?);
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
fn add_search_table(bytes: &mut Vec<u8>, frames: u64, all: &[FrameEntry]) -> io::Result<()> {
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
