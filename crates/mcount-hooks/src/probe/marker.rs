//! Probes of markers (`usdt`): a jump takes the place of a NOP in the middle of a function, and of the instructions behind it.
//!
//! What leads to the NOP itself may do so: each time the marker is passed. The return address of the function stays as it is, so it
//! doesn't matter how the function is called, or what it does with that address.
//!
//! The middle of a function is less regular than its beginning: flags and the bytes below the stack pointer may be in use, and
//! registers are saved. So the stub keeps all that, and there has to be unwind information.

use super::image::Role;
use super::unwind::Context;
use super::{Plan, Planner, Refusal};
use mcount_cpu::probe::Probes;
use std::ops::Range;

/// How many bytes the instructions that move may have elsewhere, with the way back.
pub const MARKER_MOST: usize = 44;
/// Bytes of a jump that reaches everything, where [`Probes::relocate`] has one of [`Probes::jump`].
const FAR_JUMP: usize = 16;
/// How far away instructions are put to see how long they are there.
const SOMEWHERE: u64 = 1 << 16;

impl Planner<'_> {
    /// Whether a marker of the file's notes, whose NOP is at `site`, can have a probe.
    ///
    /// # Errors
    ///
    /// It can't, for this reason.
    pub fn plan_marker(&self, site: u64) -> Result<Plan, Refusal> {
        if !self.processor.has_markers {
            return Err(Refusal::Markers);
        }
        match self.image.role {
            Role::Ordinary => {}
            Role::DynamicLinker => return Err(Refusal::DynamicLinker),
            Role::Vdso => return Err(Refusal::Vdso),
            Role::WalksStack => return Err(Refusal::WalksStack),
        }
        if self.unwind.is_damaged {
            return Err(Refusal::Unwind);
        }
        // What leads to other places isn't known.
        if self.image.markers.binary_search(&site).is_err() {
            return Err(Refusal::NoNop(site));
        }
        let frame = self.unwind.frame_at(site).ok_or(Refusal::NoUnwind)?;
        if frame.is_signal {
            return Err(Refusal::SignalReturn);
        }
        let range = frame.start..frame.end;
        self.decodes(&range)?;
        let unit = self.units_in(&range).filter(|unit| unit.start <= site).last();
        let unit = unit.ok_or(Refusal::NoBounds)?;
        if !(self.processor.is_nop_at)(
            self.image.code_between(unit.start, range.end),
            unit.start,
            site,
        ) {
            return Err(Refusal::NoNop(site));
        }
        let code = self.image.code_between(site, range.end);
        let (moved, replaced) = self.beginning(code, site, &range)?;
        self.is_alone(&self.owners_of_part(&range), site..site.saturating_add(replaced as u64))?;
        let rows = self.rows(frame, (site, moved), &mut Context::new_in())?;
        let calls = self.processor.calls;
        let is_usual = |(register, _): (u16, i64)| {
            [calls.stack_pointer, calls.frame_pointer].contains(&register)
        };
        if rows.is_empty() || !rows.iter().all(|row| is_usual(row.cfa)) {
            return Err(Refusal::Row(site));
        }
        fits(self.processor, code.get(..moved).unwrap_or_default(), site)?;
        Ok(Plan { entry: site, moved, replaced, function: range, is_signed: false, rows })
    }

    /// The pieces of the function that `range` is, or that it's a part of.
    fn owners_of_part(&self, range: &Range<u64>) -> Vec<Range<u64>> {
        let mut owners = self.owners(range);
        for (source, part) in &self.parts {
            if *part == range.start
                && let Some(frame) = self.unwind.frame_at(*source)
            {
                owners.extend(self.owners(&(frame.start..frame.end)));
            }
        }
        owners
    }
}

/// Is there enough room elsewhere for these instructions, which are at `from`?
fn fits(processor: &Probes, moved: &[u8], from: u64) -> Result<(), Refusal> {
    let copy = (processor.relocate)(moved, from, from.wrapping_add(SOMEWHERE))?;
    let length = copy.code.len() + FAR_JUMP - processor.jump;
    if length > MARKER_MOST { Err(Refusal::TooLong) } else { Ok(()) }
}
