//! The agent as a loader sees it: pages, bytes and relocations. Where it isn't the dynamic linker that loads it, the recorder does, into
//! a static program ([`super::inject`]) or a process that runs already ([`super::attach`]).

use super::agent::{Agent, Symbols, symbols};
use super::processor::RELATIVE;
use mcount_hooks::PAGE;
use nix::libc;
use object::elf::ProgramHeader64;
use object::read::elf::{ElfFile64, ProgramHeader};
use object::{Endianness, Object, ObjectSection, RelocationFlags};
use std::io;
use std::ops::Range;

/// The agent. All addresses are from its load bias on.
pub(super) struct Image {
    pub(super) symbols: Symbols,
    /// Its bytes by address, without the room for stubs.
    bytes: Vec<u8>,
    /// Its segments, in ascending order.
    pub(super) loads: Vec<Load>,
    /// Words that have the load bias in them, and the addends of these.
    relocations: Vec<(u64, i64)>,
    /// Its unwind information (`.eh_frame`).
    pub(super) frames: u64,
    /// The table of that (`.eh_frame_hdr`), and its size in bytes; without one, 0.
    pub(super) frame_table: (u64, u64),
    /// Where its code is.
    pub(super) code: (u64, u64),
    /// Bytes of memory that it takes, whole pages.
    pub(super) size: u64,
}

/// Whole pages of one kind.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    pub(super) start: u64,
    pub(super) end: u64,
    /// `PROT_READ` and its like.
    pub(super) protection: i32,
    /// Where the bytes end that the file has for it; what's behind them is zeroes. `start` if it has none.
    pub(super) file_end: u64,
}

impl Load {
    /// It's in the file.
    pub(super) fn has_bytes(self) -> bool {
        self.file_end != self.start
    }

    /// Where its bytes are among those of [`Image::relocated`].
    pub(super) fn range(self) -> io::Result<Range<usize>> {
        Ok(size(self.start)?..size(self.file_end)?)
    }
}

impl Image {
    /// The agent for this processor.
    ///
    /// # Errors
    ///
    /// There is none, or it was built wrong.
    pub(super) fn new() -> io::Result<Self> {
        let bytes = Agent::image()?;
        let file = ElfFile64::<Endianness>::parse(bytes).map_err(io::Error::other)?;
        let endian = file.endian();
        let section = |name| {
            let found = file.section_by_name(name);
            found.map_or((0, 0), |section| (section.address(), section.size()))
        };
        let mut image = Self {
            symbols: symbols(bytes)?,
            bytes: Vec::new(),
            loads: Vec::new(),
            relocations: Vec::new(),
            frames: section(".eh_frame").0,
            frame_table: section(".eh_frame_hdr"),
            code: (0, 0),
            size: 0,
        };
        for header in file.elf_program_headers().iter().filter(|one| one.p_type(endian).0 == 1) {
            image.add(header, endian, bytes)?;
        }
        for (offset, relocation) in file.dynamic_relocations().into_iter().flatten() {
            match relocation.flags() {
                RelocationFlags::Elf { r_type } if r_type.0 == RELATIVE => {
                    image.relocations.push((offset, relocation.addend()));
                }
                _ => return Err(io::Error::other("the agent has a relocation of another kind")),
            }
        }
        Ok(image)
    }

    /// Adds a segment.
    fn add(
        &mut self,
        header: &ProgramHeader64<Endianness>,
        endian: Endianness,
        bytes: &[u8],
    ) -> io::Result<()> {
        let (address, flags) = (header.p_vaddr(endian), header.p_flags(endian).0);
        let data = header.data(endian, bytes).unwrap_or_default();
        let end = (address + header.p_memsz(endian)).next_multiple_of(PAGE);
        let protection = [(4, libc::PROT_READ), (2, libc::PROT_WRITE), (1, libc::PROT_EXEC)];
        let protection = protection.iter().filter(|(flag, _)| flags & flag != 0);
        let protection = protection.fold(0, |all, (_, one)| all | one);
        let start = address & !(PAGE - 1);
        let mut file_end = start;
        if !data.is_empty() {
            file_end = address + data.len() as u64;
            self.bytes.resize(size(end)?.max(self.bytes.len()), 0);
            if let Some(room) = self.bytes.get_mut(size(address)?..size(file_end)?) {
                room.copy_from_slice(data);
            }
            if protection & libc::PROT_EXEC != 0 {
                self.code = (start, end);
            }
        }
        self.loads.push(Load { start, end, protection, file_end });
        self.size = self.size.max(end);
        Ok(())
    }

    /// The bytes of all segments that the file has, as they're at load bias `bias`.
    pub(super) fn relocated(&self, bias: u64) -> io::Result<Vec<u8>> {
        let mut bytes = self.bytes.clone();
        for (offset, addend) in &self.relocations {
            let value = bias.wrapping_add_signed(*addend).to_le_bytes();
            let place = size(*offset)?;
            if let Some(room) = bytes.get_mut(place..place + value.len()) {
                room.copy_from_slice(&value);
            }
        }
        Ok(bytes)
    }
}

/// A number of bytes as what indices are.
pub(super) fn size(bytes: u64) -> io::Result<usize> {
    usize::try_from(bytes).map_err(io::Error::other)
}
