//! The mappings of a process, and which of them are this program's own.

pub(super) use mcount_hooks::maps::{Mapping, find, ranges, read, without_deleted};
use std::path::Path;

/// Is it of what `mcount patch` leaves in a process?
pub(super) fn is_patch(map: &Mapping) -> bool {
    map.path == Path::new("/memfd:mcount-patch (deleted)")
}
