//! The threads of the process.

use std::os::unix::fs::MetadataExt;

/// Does no other thread run? Where that can't be found out, one may.
pub(crate) fn is_alone() -> bool {
    // A folder has a link in each folder that is in it, besides its own two.
    std::fs::metadata("/proc/self/task").is_ok_and(|folder| folder.nlink() == 3)
}
