//! Linux's numbers of the system calls that a recorder makes, on processors that number calls in their own way.

/// The numbers of one processor, as a module.
macro_rules! numbers {
    (close: $close:literal, getpid: $getpid:literal, mmap: $mmap:literal, munmap: $munmap:literal, sched_yield: $sched_yield:literal, nanosleep: $nanosleep:literal, mremap: $mremap:literal, rt_sigprocmask: $rt_sigprocmask:literal, madvise: $madvise:literal, gettid: $gettid:literal, tgkill: $tgkill:literal, openat: $openat:literal) => {
        /// Linux's numbers of system calls.
        pub mod number {
            /// `close`.
            pub const CLOSE: u64 = $close;
            /// `getpid`.
            pub const GETPID: u64 = $getpid;
            /// `mmap`.
            pub const MMAP: u64 = $mmap;
            /// `munmap`.
            pub const MUNMAP: u64 = $munmap;
            /// `sched_yield`.
            pub const SCHED_YIELD: u64 = $sched_yield;
            /// `nanosleep`.
            pub const NANOSLEEP: u64 = $nanosleep;
            /// `mremap`.
            pub const MREMAP: u64 = $mremap;
            /// `rt_sigprocmask`.
            pub const RT_SIGPROCMASK: u64 = $rt_sigprocmask;
            /// `madvise`.
            pub const MADVISE: u64 = $madvise;
            /// `gettid`.
            pub const GETTID: u64 = $gettid;
            /// `tgkill`.
            pub const TGKILL: u64 = $tgkill;
            /// `openat`.
            pub const OPENAT: u64 = $openat;
        }
    };
}

pub(crate) use numbers;
