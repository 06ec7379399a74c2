//! Linux's numbers of system calls, which all newer processors have in common.

pub(crate) const OPENAT: u64 = 56;
pub(crate) const CLOSE: u64 = 57;
pub(crate) const NANOSLEEP: u64 = 101;
pub(crate) const SCHED_YIELD: u64 = 124;
pub(crate) const TGKILL: u64 = 131;
pub(crate) const RT_SIGPROCMASK: u64 = 135;
pub(crate) const GETPID: u64 = 172;
pub(crate) const GETTID: u64 = 178;
pub(crate) const MUNMAP: u64 = 215;
pub(crate) const MREMAP: u64 = 216;
pub(crate) const MMAP: u64 = 222;
pub(crate) const MADVISE: u64 = 233;
