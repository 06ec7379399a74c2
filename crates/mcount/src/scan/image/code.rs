//! The code of an image, and how it is read. Nothing here depends on the ELF class, so that threads can
//! share it.

use crate::arch::Code;
use crate::arch::decode::{Decode, Goal, Place};
use crate::elf::Section;

/// The most goals from a call to its end. A stub may lead to another stub, such as a veneer to a PLT
/// entry.
const LONGEST_CHAIN: usize = 4;

/// A section of code of an image.
pub(super) struct CodeSection<'d> {
    pub(super) index: u32,
    pub(super) header: Section,
    pub(super) code: Code<'d>,
}

/// The input of a processor's decoder besides the place.
#[derive(Clone, Copy)]
pub(super) struct Layout {
    /// Whether the code is of the second instruction set, if nothing else tells.
    pub(super) alternate: bool,
    /// The address that code finds its data by.
    pub(super) data_base: u64,
    pub(super) is_64: bool,
    pub(super) big_endian_data: bool,
}

impl Layout {
    /// The place `at` of `section`, in bytes from its start.
    pub(super) fn place<'d>(&self, section: &CodeSection<'d>, at: u64) -> Place<'d> {
        Place {
            code: section.code,
            base: section.header.address,
            at,
            alternate: self.alternate,
            data_base: self.data_base,
            is_64: self.is_64,
            big_endian_data: self.big_endian_data,
        }
    }
}

/// All code of an image.
pub(super) struct ImageCode<'d> {
    pub(super) decode: Decode,
    pub(super) layout: Layout,
    /// Whether there are two instruction sets, and any place may be of either.
    pub(super) is_either: bool,
    pub(super) sections: Vec<CodeSection<'d>>,
    /// The addresses and positions of those of `sections` that have bytes, in ascending order.
    starts: Vec<(u64, usize)>,
}

impl<'d> ImageCode<'d> {
    pub(super) fn new(
        decode: Decode,
        layout: Layout,
        is_either: bool,
        sections: Vec<CodeSection<'d>>,
    ) -> Self {
        let sized = sections.iter().enumerate().filter(|(_, section)| section.header.size != 0);
        let mut starts: Vec<_> = sized.map(|(at, section)| (section.header.address, at)).collect();
        starts.sort_unstable();
        Self { decode, layout, is_either, sections, starts }
    }

    pub(super) fn place(&self, section: &CodeSection<'d>, at: u64) -> Place<'d> {
        self.layout.place(section, at)
    }

    /// The section at `address`.
    pub(super) fn section_of(&self, address: u64) -> Option<&CodeSection<'d>> {
        let after = self.starts.partition_point(|(start, _)| *start <= address);
        let (start, position) = self.starts.get(after.checked_sub(1)?)?;
        let section = self.sections.get(*position)?;
        (address - start < section.header.size).then_some(section)
    }

    /// The position of section `index` of the file among those of code.
    pub(super) fn position(&self, index: u32) -> Option<usize> {
        self.sections.binary_search_by_key(&index, |section| section.index).ok()
    }

    /// Where a call with this goal goes: first there, and if there is a stub, to where that leads, and so
    /// on.
    pub(super) fn chain(&self, goal: Goal) -> impl Iterator<Item = Goal> + use<'_, 'd> {
        let chain = std::iter::successors(Some(goal), |goal| match goal {
            Goal::Address(address) => self.stub_at(*address),
            Goal::Slot(_) => None,
        });
        chain.take(LONGEST_CHAIN)
    }

    /// Where the stub at `address` leads, if there is one.
    pub(super) fn stub_at(&self, address: u64) -> Option<Goal> {
        let section = self.section_of(address)?;
        let place = self.place(section, address - section.header.address);
        let goal = (self.decode.stub)(&place);
        if goal.is_some() || !self.is_either {
            return goal;
        }
        (self.decode.stub)(&Place { alternate: true, ..place })
    }
}
