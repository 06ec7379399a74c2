//! Names of the numbers that system calls take and return, where programmers know them by name: flags, commands, errors.

use mcount_trace::Enumeration;
use nix::errno::Errno;
use nix::libc::{self, c_int};

/// Numbers that have names.
pub(super) struct Names {
    /// What [`super::signatures`] has for them.
    pub(super) letter: char,
    /// Several bits may be set.
    pub(super) are_flags: bool,
    /// Of each: its name, its value, and, of flags, which bits have to be so.
    entries: &'static [(&'static str, c_int, c_int)],
}

/// The number in the trace of the first of [`ALL`]; those of programs count from 1 on.
const FIRST: u32 = 0xffff_0000;

/// The number in the trace of the enumeration of errors.
pub(super) const ERRORS: u32 = FIRST - 1;

/// Flags by their names.
macro_rules! flags {
    ($($name:ident)*) => { &[$((stringify!($name), libc::$name, libc::$name)),*] };
}

/// Flags. The first ones are values of a field of several bits.
macro_rules! field {
    ($mask:expr; $($first:ident)*; $($name:ident)*) => { &[
        $((stringify!($first), libc::$first, $mask),)*
        $((stringify!($name), libc::$name, libc::$name)),*
    ] };
}

/// Other numbers by their names.
macro_rules! numbers {
    ($($name:ident)*) => { &[$((stringify!($name), libc::$name as c_int, 0)),*] };
}

const fn flags(letter: char, names: &'static [(&'static str, c_int, c_int)]) -> Names {
    Names { letter, are_flags: true, entries: names }
}

const fn numbers(letter: char, names: &'static [(&'static str, c_int, c_int)]) -> Names {
    Names { letter, are_flags: false, entries: names }
}

/// All of them. Flags that have bits of others come first.
#[expect(
    clippy::cast_possible_truncation,
    clippy::cast_possible_wrap,
    reason = "all are far below 2^31"
)]
pub(super) const ALL: &[Names] = &[
    flags(
        'o',
        field!(libc::O_ACCMODE; O_RDONLY O_WRONLY O_RDWR;
            O_CREAT O_EXCL O_NOCTTY O_TRUNC O_APPEND O_NONBLOCK O_SYNC O_ASYNC O_DSYNC O_DIRECT
            O_NOFOLLOW O_NOATIME O_CLOEXEC O_PATH O_TMPFILE O_DIRECTORY),
    ),
    flags('c', flags!(O_NONBLOCK O_DIRECT O_CLOEXEC)),
    flags('r', field!(-1; PROT_NONE; PROT_READ PROT_WRITE PROT_EXEC PROT_GROWSDOWN PROT_GROWSUP)),
    flags(
        'm',
        field!(15; MAP_SHARED MAP_PRIVATE MAP_SHARED_VALIDATE;
            MAP_FIXED MAP_ANONYMOUS MAP_NORESERVE MAP_POPULATE MAP_NONBLOCK MAP_GROWSDOWN
            MAP_DENYWRITE MAP_EXECUTABLE MAP_LOCKED MAP_STACK MAP_HUGETLB MAP_SYNC
            MAP_FIXED_NOREPLACE),
    ),
    flags(
        'n',
        field!(0xff; SIGCHLD; CLONE_VM CLONE_FS CLONE_FILES CLONE_SIGHAND CLONE_PTRACE CLONE_VFORK
            CLONE_PARENT CLONE_THREAD CLONE_NEWNS CLONE_SYSVSEM CLONE_SETTLS CLONE_PARENT_SETTID
            CLONE_CHILD_CLEARTID CLONE_UNTRACED CLONE_CHILD_SETTID CLONE_NEWCGROUP CLONE_NEWUTS
            CLONE_NEWIPC CLONE_NEWUSER CLONE_NEWPID CLONE_NEWNET CLONE_IO),
    ),
    flags(
        'A',
        flags!(AT_SYMLINK_NOFOLLOW AT_REMOVEDIR AT_SYMLINK_FOLLOW AT_NO_AUTOMOUNT AT_EMPTY_PATH),
    ),
    flags('w', flags!(WNOHANG WSTOPPED WEXITED WCONTINUED WNOWAIT __WNOTHREAD __WALL __WCLONE)),
    flags(
        'M',
        flags!(MSG_OOB MSG_PEEK MSG_DONTROUTE MSG_CTRUNC MSG_TRUNC MSG_DONTWAIT MSG_EOR MSG_WAITALL
            MSG_CONFIRM MSG_ERRQUEUE MSG_NOSIGNAL MSG_MORE MSG_WAITFORONE MSG_FASTOPEN
            MSG_CMSG_CLOEXEC),
    ),
    flags('G', flags_of_random()),
    flags('R', flags!(MREMAP_MAYMOVE MREMAP_FIXED MREMAP_DONTUNMAP)),
    flags('E', flags!(EPOLL_CLOEXEC)),
    flags(
        't',
        field!(15; SOCK_STREAM SOCK_DGRAM SOCK_RAW SOCK_RDM SOCK_SEQPACKET;
            SOCK_CLOEXEC SOCK_NONBLOCK),
    ),
    flags(
        'x',
        field!(0x7f; FUTEX_WAIT FUTEX_WAKE FUTEX_REQUEUE FUTEX_CMP_REQUEUE FUTEX_WAKE_OP
            FUTEX_LOCK_PI FUTEX_UNLOCK_PI FUTEX_TRYLOCK_PI FUTEX_WAIT_BITSET FUTEX_WAKE_BITSET
            FUTEX_WAIT_REQUEUE_PI FUTEX_CMP_REQUEUE_PI FUTEX_LOCK_PI2;
            FUTEX_PRIVATE_FLAG FUTEX_CLOCK_REALTIME),
    ),
    numbers('d', numbers!(AT_FDCWD)),
    numbers('W', numbers!(SEEK_SET SEEK_CUR SEEK_END SEEK_DATA SEEK_HOLE)),
    numbers(
        's',
        numbers!(SIGHUP SIGINT SIGQUIT SIGILL SIGTRAP SIGABRT SIGBUS SIGFPE SIGKILL SIGUSR1 SIGSEGV
            SIGUSR2 SIGPIPE SIGALRM SIGTERM SIGSTKFLT SIGCHLD SIGCONT SIGSTOP SIGTSTP SIGTTIN
            SIGTTOU SIGURG SIGXCPU SIGXFSZ SIGVTALRM SIGPROF SIGWINCH SIGIO SIGPWR SIGSYS),
    ),
    numbers('h', numbers!(SIG_BLOCK SIG_UNBLOCK SIG_SETMASK)),
    numbers(
        'a',
        numbers!(MADV_NORMAL MADV_RANDOM MADV_SEQUENTIAL MADV_WILLNEED MADV_DONTNEED MADV_FREE
            MADV_REMOVE MADV_DONTFORK MADV_DOFORK MADV_MERGEABLE MADV_UNMERGEABLE MADV_HUGEPAGE
            MADV_NOHUGEPAGE MADV_DONTDUMP MADV_DODUMP MADV_WIPEONFORK MADV_KEEPONFORK MADV_COLD
            MADV_PAGEOUT MADV_POPULATE_READ MADV_POPULATE_WRITE),
    ),
    numbers(
        'f',
        numbers!(F_DUPFD F_GETFD F_SETFD F_GETFL F_SETFL F_GETLK F_SETLK F_SETLKW F_SETOWN F_GETOWN
            F_OFD_GETLK F_OFD_SETLK F_OFD_SETLKW F_SETLEASE F_GETLEASE F_NOTIFY F_DUPFD_CLOEXEC
            F_SETPIPE_SZ F_GETPIPE_SZ F_ADD_SEALS F_GET_SEALS),
    ),
    numbers(
        'T',
        numbers!(TCGETS TCSETS TCSETSW TCSETSF TIOCGWINSZ TIOCSWINSZ TIOCGPGRP TIOCSPGRP TIOCSCTTY FIONREAD
            FIONBIO FIOCLEX FIONCLEX),
    ),
    numbers('e', numbers!(EPOLL_CTL_ADD EPOLL_CTL_DEL EPOLL_CTL_MOD)),
    numbers(
        'k',
        numbers!(CLOCK_REALTIME CLOCK_MONOTONIC CLOCK_PROCESS_CPUTIME_ID CLOCK_THREAD_CPUTIME_ID
            CLOCK_MONOTONIC_RAW CLOCK_REALTIME_COARSE CLOCK_MONOTONIC_COARSE CLOCK_BOOTTIME
            CLOCK_REALTIME_ALARM CLOCK_BOOTTIME_ALARM CLOCK_TAI),
    ),
    numbers('F', numbers!(AF_UNSPEC AF_UNIX AF_INET AF_INET6 AF_NETLINK AF_PACKET AF_VSOCK AF_ALG)),
    numbers('L', numbers!(LOCK_SH LOCK_EX LOCK_UN)),
    numbers(
        'l',
        numbers!(RLIMIT_CPU RLIMIT_FSIZE RLIMIT_DATA RLIMIT_STACK RLIMIT_CORE RLIMIT_RSS
            RLIMIT_NPROC RLIMIT_NOFILE RLIMIT_MEMLOCK RLIMIT_AS RLIMIT_LOCKS RLIMIT_SIGPENDING
            RLIMIT_MSGQUEUE RLIMIT_NICE RLIMIT_RTPRIO RLIMIT_RTTIME),
    ),
    numbers('U', numbers!(RUSAGE_SELF RUSAGE_CHILDREN RUSAGE_THREAD)),
    numbers('H', numbers!(SHUT_RD SHUT_WR SHUT_RDWR)),
];

/// `getrandom`'s are unsigned in the C library.
const fn flags_of_random() -> &'static [(&'static str, c_int, c_int)] {
    &[("GRND_NONBLOCK", 1, 1), ("GRND_RANDOM", 2, 2), ("GRND_INSECURE", 4, 4)]
}

/// The names behind `letter`, and their number in the trace.
pub(super) fn of(letter: char) -> Option<(&'static Names, u32)> {
    (FIRST..)
        .zip(ALL)
        .find(|(_, names)| names.letter == letter)
        .map(|(number, names)| (names, number))
}

/// Shows `add` the enumerations as the trace has them.
pub(super) fn describe(mut add: impl FnMut(Enumeration<'_>)) {
    for (number, names) in (FIRST..).zip(ALL) {
        let all = names.entries.iter().map(|(name, value, mask)| {
            let part = |bits: &c_int| u64::from(bits.cast_unsigned());
            let value = if names.are_flags {
                part(mask) << 32 | part(value)
            } else {
                i64::from(*value).cast_unsigned()
            };
            (value, (*name).to_owned())
        });
        add(Enumeration { number, enumerators: &enumerators(all.collect()) });
    }
    add(Enumeration { number: ERRORS, enumerators: &enumerators(errors()) });
}

/// Errors of system calls, as strace prints them.
fn errors() -> Vec<(u64, String)> {
    /// The kernel restarts the system call after these. No program sees them.
    const AGAIN: [(i32, &str); 4] = [
        (512, "ERESTARTSYS"),
        (513, "ERESTARTNOINTR"),
        (514, "ERESTARTNOHAND"),
        (516, "ERESTART_RESTARTBLOCK"),
    ];
    let value = |number: i32| i64::from(-number).cast_unsigned();
    let known = (1..512).map(|number| (number, Errno::from_raw(number)));
    let known = known.filter(|(_, errno)| *errno != Errno::UnknownErrno);
    let known = known.map(|(number, errno)| (value(number), format!("-1 {errno:?}")));
    let again = AGAIN.iter().map(|(number, name)| (value(*number), format!("? {name}")));
    known.chain(again).collect()
}

/// Values and names as the metadata of a trace has them.
fn enumerators(all: Vec<(u64, String)>) -> Vec<u8> {
    let mut bytes = u32::try_from(all.len()).unwrap_or(0).to_ne_bytes().to_vec();
    for (value, name) in all {
        bytes.extend(value.to_ne_bytes());
        bytes.push(u8::try_from(name.len()).unwrap_or(0));
        bytes.extend(name.bytes());
    }
    bytes
}
