//! The sites of an image by decoding. All code is searched for calls that may reach a hook. That is most
//! of the work on an image, so several threads can share it.
//!
//! On most processors, we can start decoding at any instruction, so we look at each one. On x86, we must
//! know where an instruction begins. There we search for the bytes that calls begin with. Then we decode
//! from the start of the function, to see which of these bytes really begin an instruction.

use super::code::{CodeSection, ImageCode, Layout};
use super::hooks::Hooks;
use super::{Finder, Found};
use crate::arch::decode::{Branch, Goal};
use crate::helpers::Helpers;
use crate::scan::functions::FunctionIndex;
use crate::site::Source;
use foldhash::HashMap;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, PoisonError};

/// The least size of a piece of code, in bytes. It is large enough that the cost of a piece doesn't
/// matter, and small enough that all threads have work.
const PIECE: u64 = 1 << 18;

/// A part of a section that is code, in bytes from the start of the section. It starts with an
/// instruction.
#[derive(Clone, Copy)]
struct Region {
    start: u64,
    end: u64,
    alternate: bool,
    /// The number of bytes from one place at which an instruction may begin to the next. `None` if the
    /// length of each instruction tells.
    step: Option<u64>,
}

/// A region, and the position of its section in [`ImageCode::sections`].
#[derive(Clone, Copy)]
struct Piece {
    section: usize,
    region: Region,
}

/// The mapping symbols of each section: where code begins, and whether it is of the second instruction
/// set, or where data begins (`None`).
type Marks = HashMap<u32, Vec<(u64, Option<bool>)>>;

impl Finder<'_, '_, '_> {
    /// The sites by decoding all code.
    pub(super) fn by_decoding(&mut self, found: &mut Found) {
        if self.hooks.addresses.is_empty() && self.hooks.slots.is_empty() {
            return;
        }
        let pieces = self.pieces();
        let sweep = Sweep { code: &self.code, functions: self.functions, hooks: &self.hooks };
        let swept = sweep.all(&pieces, &self.helpers);
        for (piece, branches) in pieces.iter().zip(swept) {
            for branch in branches {
                self.add(found, piece.section, &branch, Source::Decoding);
            }
        }
    }

    /// All code, in pieces that can be decoded separately.
    fn pieces(&self) -> Vec<Piece> {
        let mut pieces = Vec::new();
        let marks = self.marks();
        for (section, code) in self.code.sections.iter().enumerate() {
            for region in self.regions(code, &marks) {
                let mut start = region.start;
                // Where a function begins, an instruction begins.
                while let Some(least) = start.checked_add(PIECE)
                    && let Some(end) = self.functions.next_start(code.index, least)
                    && end < region.end
                {
                    pieces.push(Piece { section, region: Region { start, end, ..region } });
                    start = end;
                }
                pieces.push(Piece { section, region: Region { start, ..region } });
            }
        }
        pieces
    }

    fn marks(&self) -> Marks {
        let mut marks = Marks::default();
        let symbols = self.target.symbols.as_ref().filter(|_| self.target.arch.mapping_symbols);
        for (_, symbol) in symbols.iter().flat_map(|symbols| symbols.iter()) {
            let name = symbols.map(|symbols| symbols.name(&symbol)).unwrap_or_default();
            let mark = match name {
                // $x may have the name of its instruction set: $xrv64i2p1.
                [b'$', b'x', ..] | [b'$', b'a'] | [b'$', b'a', b'.', ..] => Some(false),
                [b'$', b't'] | [b'$', b't', b'.', ..] => Some(true),
                [b'$', b'd'] | [b'$', b'd', b'.', ..] => None,
                _ => continue,
            };
            if let Some(section) = symbol.section {
                marks.entry(section).or_default().push((symbol.value, mark));
            }
        }
        marks
    }

    /// The parts of a section that are code.
    fn regions(&self, section: &CodeSection<'_>, marks: &Marks) -> Vec<Region> {
        let end = section.code.len();
        let own = marks.get(&section.index);
        if own.is_none() && self.target.arch.mapping_symbols && self.code.is_either {
            // The file is stripped, so any place may be code of either instruction set.
            let either = [(false, 4), (true, 2)];
            let regions = either.map(|(alternate, step)| Region {
                start: 0,
                end,
                alternate,
                step: Some(step),
            });
            return regions.to_vec();
        }
        let mut marks = vec![(0, Some(self.code.layout.alternate))];
        for (address, mark) in own.into_iter().flatten() {
            marks.push((address.wrapping_sub(section.header.address), *mark));
        }
        // If several are at one place, the last one counts.
        marks.sort_by_key(|mark| mark.0);
        let ends = marks.iter().skip(1).map(|mark| mark.0).chain([end]);
        let regions = marks.iter().zip(ends).filter_map(|((start, mark), next)| {
            Some(Region { start: *start, end: next.min(end), alternate: (*mark)?, step: None })
        });
        regions.collect()
    }
}

/// The search for calls that may reach a hook. It doesn't depend on the ELF class, so that threads can
/// share it.
struct Sweep<'s, 'd> {
    code: &'s ImageCode<'d>,
    functions: &'s FunctionIndex<'d>,
    hooks: &'s Hooks,
}

/// Whether a call of each address may reach a hook.
type Reaches = HashMap<u64, bool>;

/// The position of a piece, and the calls in it.
type Done = (usize, Vec<Branch>);

impl Sweep<'_, '_> {
    /// For each of `pieces`, the calls that may reach a hook, in order.
    fn all(&self, pieces: &[Piece], helpers: &Helpers) -> Vec<Vec<Branch>> {
        let next = AtomicUsize::new(0);
        let done = Mutex::new(Vec::with_capacity(pieces.len()));
        helpers.run(&|| self.work(pieces, &next, &done));
        // If the helpers left anything.
        self.work(pieces, &next, &done);
        let mut done = done.into_inner().unwrap_or_else(PoisonError::into_inner);
        done.sort_by_key(|(at, _)| *at);
        done.into_iter().map(|(_, branches)| branches).collect()
    }

    /// Works on one piece after the other, until none is left.
    fn work(&self, pieces: &[Piece], next: &AtomicUsize, done: &Mutex<Vec<Done>>) {
        let mut known = Reaches::default();
        let mut own = Vec::new();
        loop {
            let at = next.fetch_add(1, Ordering::Relaxed);
            let Some(piece) = pieces.get(at) else { break };
            own.push((at, self.piece(&mut known, piece)));
        }
        done.lock().unwrap_or_else(PoisonError::into_inner).extend(own);
    }

    fn piece(&self, known: &mut Reaches, piece: &Piece) -> Vec<Branch> {
        let Some(section) = self.code.sections.get(piece.section) else { return Vec::new() };
        if self.code.decode.anchors.is_empty() {
            self.walk(known, section, piece.region)
        } else {
            self.search(known, section, piece.region)
        }
    }

    /// The call at `at` of `section`, if it may reach a hook.
    fn call(
        &self,
        known: &mut Reaches,
        layout: Layout,
        section: &CodeSection<'_>,
        at: u64,
    ) -> Option<Branch> {
        let branch = (self.code.decode.call)(&layout.place(section, at))?;
        self.may_reach(known, branch.target).then_some(branch)
    }

    /// The calls in a region in which we can start decoding at any instruction.
    fn walk(&self, known: &mut Reaches, section: &CodeSection<'_>, region: Region) -> Vec<Branch> {
        let layout = Layout { alternate: region.alternate, ..self.code.layout };
        let mut branches = Vec::new();
        let mut at = region.start;
        while at < region.end {
            branches.extend(self.call(known, layout, section, at));
            let step = match region.step {
                Some(step) => step,
                None => (self.code.decode.length)(&layout.place(section, at)),
            };
            at = at.saturating_add(step);
        }
        branches
    }

    /// The calls in a region that must be decoded from the starts of functions. First finds the bytes
    /// that would be such calls, and then those of them that begin an instruction.
    fn search(
        &self,
        known: &mut Reaches,
        section: &CodeSection<'_>,
        region: Region,
    ) -> Vec<Branch> {
        let mut candidates = Vec::new();
        let size = region.end.saturating_sub(region.start);
        let bytes = section.code.from(region.start);
        let bytes = usize::try_from(size).ok().and_then(|size| bytes.get(..size)).unwrap_or(bytes);
        for anchor in self.code.decode.anchors {
            for at in memchr::memmem::find_iter(bytes, anchor) {
                let at = region.start + at as u64;
                candidates.extend(self.call(known, self.code.layout, section, at));
            }
        }
        candidates.sort_by_key(|branch| branch.start);
        candidates.dedup_by_key(|branch| branch.start);
        let mut starts = self.functions.starts_from(section.index, region.start).peekable();
        let mut at = region.start;
        candidates.retain(|branch| {
            // Go on from the last candidate, if that was in the same function.
            while let Some(start) = starts.next_if(|start| *start <= branch.start) {
                at = start;
            }
            while at < branch.start {
                let length = (self.code.decode.length)(&self.code.place(section, at));
                at = at.saturating_add(length);
            }
            at == branch.start
        });
        candidates
    }

    /// Whether a call with this goal may reach a hook. This doesn't look up what slots hold.
    // Most instructions aren't calls. Without this inside, the code that looks at each of them stays
    // small.
    #[inline(never)]
    fn may_reach(&self, known: &mut Reaches, goal: Goal) -> bool {
        let Goal::Address(address) = goal else { return true };
        *known.entry(address).or_insert_with(|| {
            self.code.chain(goal).any(|goal| match goal {
                Goal::Address(address) => self.hooks.is_at(address),
                Goal::Slot(_) => true,
            })
        })
    }
}
