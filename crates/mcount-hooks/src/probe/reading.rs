//! Reads the code and the data of a file, once for all functions: what leads where.

use super::image::{self, Image};
use super::units::{Unit, gaps};
use super::unwind::{self, Context, Frame, Unwind};
use super::{Planner, tables};
use crate::parallel::{part_size, side_by_side};
use mcount_cpu::probe::{Kind, Piece, Probes, References};

impl Planner<'_> {
    /// Decodes all code.
    pub(super) fn read_code(&mut self) {
        let Self { units, references, image, unwind, processor, .. } = self;
        let size = part_size(units.len());
        let parts = side_by_side(units.chunks_mut(size).collect(), |units| {
            let mut references = references.part();
            read_units(units, (image, unwind), processor, &mut references);
            references
        });
        for part in parts {
            references.append(part);
        }
        for (start, bytes) in &self.image.code {
            let end = start.saturating_add(bytes.len() as u64);
            for gap in gaps(*start..end, &self.units, &self.symbols) {
                let bytes = self.image.code_between(gap.start, gap.end);
                let piece = Piece { bytes, start: gap.start, is_fixed: self.image.is_fixed };
                // What decodes may be data all the same. So everything that could lead far is added, too.
                (self.processor.far)(bytes, gap.start, &mut self.references);
                let found = (self.processor.scan)(piece, &[], &mut self.references);
                if let Some(from) = found.falls_from {
                    self.references.add(gap.end, from, Kind::Jump);
                }
            }
        }
    }

    /// Adds all that isn't code and leads to code.
    pub(super) fn read_data(&mut self) {
        for word in &self.image.words {
            self.references.add(word.target, word.at, Kind::Pointer);
        }
        if self.image.is_fixed {
            for (start, bytes) in &self.image.data {
                for (offset, word) in bytes.windows(8).enumerate() {
                    let target = image::word(word, 0);
                    self.references.add(target, start + offset as u64, Kind::Pointer);
                }
            }
        }
        for symbol in &self.symbols {
            self.references.add(symbol.address, symbol.address, Kind::Label);
        }
        for unit in &self.units {
            self.references.add(unit.start, unit.start, Kind::Label);
        }
        for frame in &self.unwind.frames {
            for site in unwind::call_sites(&self.image, frame).unwrap_or_default() {
                self.references.add(site.start, site.start, Kind::CallSite);
                self.references.add(site.end, site.end, Kind::CallSite);
                if let Some(pad) = site.pad {
                    self.references.add(pad, pad, Kind::LandingPad);
                }
            }
        }
        tables::walk(&self.image, &mut self.references);
    }
}

/// Decodes the code of functions, which ascend.
fn read_units(
    units: &mut [Unit],
    (image, unwind): (&Image<'_>, &Unwind<'_>),
    processor: &Probes,
    references: &mut References,
) {
    let mut context = Context::new_in();
    let mut rules = (None, Vec::new());
    for unit in units {
        let frame = unwind.frame_at(unit.start);
        let id = frame.map(Frame::id);
        if id != rules.0 {
            let new = frame.and_then(|frame| unwind.rules(frame, &mut context));
            rules = (id, new.unwrap_or_default());
        }
        let bytes = image.code_between(unit.start, unit.end);
        let piece = Piece { bytes, start: unit.start, is_fixed: image.is_fixed };
        unit.found = (processor.scan)(piece, &rules.1, references);
        if let Some(from) = unit.found.falls_from {
            references.add(unit.end, from, Kind::Jump);
        }
    }
}
