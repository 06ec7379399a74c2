//! Texts in memory that may not be there.

use crate::registers::read;
use mcount_layout as trace;
use mcount_recorder::payload::{TEXT, Values};

/// A text in memory.
pub(crate) struct Text {
    pointer: u64,
    /// How many bytes it has at most.
    length: u64,
    is_counted: bool,
    limit: usize,
    /// The address was added already.
    is_field: bool,
}

impl Text {
    /// One that a zero ends.
    pub(crate) fn ended(pointer: u64) -> Self {
        Self { pointer, length: u64::MAX, is_counted: false, limit: TEXT, is_field: false }
    }

    /// One of that length.
    pub(crate) fn counted(pointer: u64, length: u64) -> Self {
        Self { pointer, length, is_counted: true, limit: TEXT, is_field: false }
    }

    /// With at most so many bytes, unless that's 0.
    pub(crate) fn limited(self, limit: u64) -> Self {
        Self { limit: if limit == 0 { self.limit } else { limit as usize }, ..self }
    }

    /// One whose address was added already.
    pub(crate) fn of_field(self) -> Self {
        Self { is_field: true, ..self }
    }
}

/// Adds a text, or what can be read of it.
pub(crate) fn text(values: &mut Values, wanted: &Text) {
    let pointer = wanted.pointer;
    if !wanted.is_field {
        values.add(&pointer.to_le_bytes());
    }
    let head = values.used();
    values.add(&[0; 2]);
    // One more shows whether a text goes on.
    let limit = wanted.limit.min(values.room().saturating_sub(1));
    let count = wanted.length.min(limit as u64 + 1) as usize;
    let Some(room) = values.free(count) else {
        return values.set_head(head, if pointer == 0 { 0 } else { trace::value::CUT });
    };
    let found = if pointer == 0 || count == 0 { 0 } else { read(pointer, room) };
    let bytes = room.get(..found).unwrap_or_default();
    let end = if wanted.is_counted { None } else { bytes.iter().position(|byte| *byte == 0) };
    let is_bad = found < count && end.is_none() && pointer != 0;
    let is_cut = found > limit && end.is_none();
    let bad = if is_bad { trace::value::BAD } else { 0 };
    let cut = if is_cut { trace::value::CUT } else { 0 };
    let length = end.unwrap_or(found.min(limit));
    values.set_head(head, length as u16 | bad | cut);
    values.keep(length);
}
