//! Traces as they are in files, compressed or not.

use crate::error::Error;
use crate::layout;
use crate::trace::Trace;
use crate::unpack::{Packed, is_packed};

/// Whether these bytes are a trace, compressed or not, by what they begin with.
#[must_use]
pub fn is_trace(bytes: &[u8]) -> bool {
    bytes.starts_with(&layout::MAGIC) || is_packed(bytes)
}

/// Shows `look` the trace that these bytes are, compressed or not.
///
/// # Errors
///
/// As [`Trace::parse`].
pub fn read<T>(bytes: &[u8], look: impl FnOnce(&mut Trace<'_>) -> T) -> Result<T, Error> {
    if is_packed(bytes) {
        let packed = Packed::open(bytes)?;
        Trace::unpack(&packed).map(|mut trace| look(&mut trace))
    } else {
        Trace::parse(bytes).map(|mut trace| look(&mut trace))
    }
}
