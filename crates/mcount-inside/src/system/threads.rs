//! The threads of the process.

use super::code;
use std::os::unix::fs::MetadataExt;

/// Does no other thread run? Where that can't be found out, one may.
pub(crate) fn is_alone() -> bool {
    let Ok(folder) = std::fs::metadata("/proc/self/task") else { return false };
    // A folder has a link in each folder that is in it, besides its own two.
    match folder.nlink() {
        3 => true,
        // QEMU has a thread of its own, from its start on.
        4 => code::is_emulated(),
        _ => false,
    }
}
