//! Linux's numbers of system calls, which all newer processors have in common.

/// `openat`.
pub const OPENAT: u64 = 56;
/// `close`.
pub const CLOSE: u64 = 57;
/// `get_robust_list`.
pub const GET_ROBUST_LIST: u64 = 100;
/// `nanosleep`.
pub const NANOSLEEP: u64 = 101;
/// `sched_yield`.
pub const SCHED_YIELD: u64 = 124;
/// `tgkill`.
pub const TGKILL: u64 = 131;
/// `prctl`.
pub const PRCTL: u64 = 167;
/// `rt_sigprocmask`.
pub const RT_SIGPROCMASK: u64 = 135;
/// `getpid`.
pub const GETPID: u64 = 172;
/// `gettid`.
pub const GETTID: u64 = 178;
/// `munmap`.
pub const MUNMAP: u64 = 215;
/// `mremap`.
pub const MREMAP: u64 = 216;
/// `process_vm_readv`.
pub const PROCESS_VM_READV: u64 = 270;
/// `seccomp`.
pub const SECCOMP: u64 = 277;
/// `perf_event_open`.
pub const PERF_EVENT_OPEN: u64 = 241;
/// `mmap`.
pub const MMAP: u64 = 222;
/// `madvise`.
pub const MADVISE: u64 = 233;
