//! Library functions that may wait: a recorder records calls of these by default, and statistics count time in them as waiting.
//!
//! Sources: the cancellation points of POSIX.1-2008 (XSH 2.9.5.2, as pthreads(7) has them), which are the functions that may
//! block indefinitely; locks, barriers and joins, which POSIX leaves out of that list on purpose; and what Linux and C libraries have in
//! addition of the same kind. Of those that only "may" be cancellation points, functions that read are here. Functions that
//! print aren't: they seldom wait, and take long for other reasons. C++ has the same in its own library, through which programs
//! call them. Rust's library, which is part of each program, calls those of C.

use std::collections::BTreeSet;
use std::sync::LazyLock;

/// Cancellation points of POSIX, but for `pthread_testcancel`.
const CANCELLATION_POINTS: &str = "
    accept aio_suspend clock_nanosleep close connect creat fcntl fdatasync fsync getmsg getpmsg lockf mq_receive mq_send
    mq_timedreceive mq_timedsend msgrcv msgsnd msync nanosleep open openat pause poll pread pselect pthread_cond_clockwait
    pthread_cond_timedwait pthread_cond_wait pthread_join putmsg putpmsg pwrite read readv recv recvfrom recvmsg select
    sem_clockwait sem_timedwait sem_wait send sendmsg sendto sigsuspend sigtimedwait sigwait sigwaitinfo sleep system
    tcdrain usleep wait waitid waitpid write writev";

/// Functions that may be, by which programs read, or ask others.
const READERS: &str = "
    fclose fflush fgetc fgets fgetwc fgetws fread fscanf getaddrinfo getc getc_unlocked getchar getchar_unlocked getdelim
    gethostbyaddr gethostbyname getline getnameinfo getwc getwchar pclose scanf";

/// Locks: another thread has what is waited for. By `syscall`, Rust's library waits for a lock, or for something else.
const LOCKS: &str = "
    call_once mtx_lock mtx_timedlock pthread_mutex_clocklock pthread_mutex_lock pthread_mutex_timedlock pthread_once
    pthread_rwlock_clockrdlock pthread_rwlock_clockwrlock pthread_rwlock_rdlock pthread_rwlock_timedrdlock
    pthread_rwlock_timedwrlock pthread_rwlock_wrlock pthread_spin_lock syscall";

/// Barriers, and other waits of threads for each other that POSIX leaves out.
const OTHERS: &str = "cnd_timedwait cnd_wait pthread_barrier_wait thrd_join thrd_sleep";

/// What Linux and its C libraries have in addition.
const LINUX: &str = "
    accept4 copy_file_range epoll_pwait epoll_pwait2 epoll_wait flock gethostbyaddr_r gethostbyname2 gethostbyname2_r
    gethostbyname_r io_getevents ppoll preadv preadv2 pthread_clockjoin_np pthread_timedjoin_np pwritev pwritev2 recvmmsg
    semop semtimedop sendfile sendmmsg splice sync sync_file_range syncfs tee vmsplice wait3 wait4";

/// What the standard libraries of C++ wait by, without arguments and inline namespaces.
const CPP: [&str; 18] = [
    "std::condition_variable::wait",
    "std::condition_variable::wait_for",
    "std::condition_variable::wait_until",
    "std::condition_variable::__do_timed_wait",
    "std::__condvar::wait",
    "std::thread::join",
    "std::jthread::join",
    "std::this_thread::__sleep_for",
    "std::this_thread::sleep_for",
    "std::mutex::lock",
    "std::recursive_mutex::lock",
    "std::timed_mutex::lock",
    "std::recursive_timed_mutex::lock",
    "std::shared_timed_mutex::lock",
    "std::shared_timed_mutex::lock_shared",
    "std::__shared_mutex_base::lock",
    "std::__shared_mutex_base::lock_shared",
    "std::__atomic_futex_unsigned_base::_M_futex_wait_until",
];

/// The names of all of C's.
static NAMES: LazyLock<BTreeSet<&str>> = LazyLock::new(|| {
    let lists = [CANCELLATION_POINTS, READERS, LOCKS, OTHERS, LINUX];
    lists.into_iter().flat_map(str::split_whitespace).collect()
});

/// Is it a function that may wait? `name` is as in the source, `symbol` as in the symbol table.
#[must_use]
pub fn may_wait(name: &str, symbol: &str) -> bool {
    if symbol.starts_with("_Z") {
        let name = name.split('(').next().unwrap_or_default();
        return CPP.contains(&without_inline_namespace(name).as_str());
    }
    NAMES.contains(plain(symbol))
}

/// Does it wait for what another thread has locked? `name` and `symbol` are those of a function that [may wait](may_wait).
#[must_use]
pub fn is_lock(name: &str, symbol: &str) -> bool {
    if symbol.starts_with("_Z") {
        let name = name.split('(').next().unwrap_or_default();
        return name.ends_with("::lock") || name.ends_with("::lock_shared");
    }
    LOCKS.split_whitespace().any(|lock| lock == plain(symbol))
}

/// Does it wait for the end of a thread or process? `name` and `symbol` are those of a function that [may wait](may_wait).
#[must_use]
pub fn is_join(name: &str, symbol: &str) -> bool {
    const JOINS: &str = "pclose pthread_clockjoin_np pthread_join pthread_timedjoin_np system thrd_join wait wait3 wait4 waitid waitpid";
    if symbol.starts_with("_Z") {
        return name.split('(').next().unwrap_or_default().ends_with("::join");
    }
    JOINS.split_whitespace().any(|join| join == plain(symbol))
}

/// The cause of a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// Another thread or process: a lock, a condition variable, a semaphore, a barrier.
    Lock,
    /// A file on a disk.
    Disk,
    /// Another machine or process by a socket, or events of descriptors, which mostly are sockets.
    Network,
    /// A time, or a signal.
    Sleep,
    /// The end of a thread or process.
    End,
    /// Something else, or what isn't known by the name: `read` reads from files, pipes, terminals and sockets.
    Other,
}

/// Waits for another thread that aren't in [`LOCKS`]. System calls are among these, and below.
const CONDITIONS: &str = "
    cnd_timedwait cnd_wait flock futex futex_wait futex_waitv lockf pthread_barrier_wait pthread_cond_clockwait
    pthread_cond_timedwait pthread_cond_wait sem_clockwait sem_timedwait sem_wait semop semtimedop";

/// Programs wait for a disk in these calls, which take a name, or descriptors of files only.
const DISK: &str = "
    access chdir chmod chown copy_file_range creat execve execveat faccessat faccessat2 fadvise fallocate fchmod fchmodat
    fchown fchownat fdatasync fstatfs fsync ftruncate getdents link linkat lstat mkdir mkdirat mknod mknodat mount msync
    newfstatat open openat openat2 pread preadv preadv2 pwrite pwritev pwritev2 readahead readlink readlinkat rename
    renameat renameat2 rmdir stat statfs statx swapoff swapon symlink symlinkat sync sync_file_range syncfs truncate
    umount2 unlink unlinkat utimensat";

/// Calls for sockets only, and those that wait until one of several descriptors is ready.
const NETWORK: &str = "
    accept accept4 connect epoll_pwait epoll_pwait2 epoll_wait getaddrinfo gethostbyaddr gethostbyaddr_r gethostbyname
    gethostbyname2 gethostbyname2_r gethostbyname_r getnameinfo newselect poll ppoll pselect pselect6 recv recvfrom
    recvmmsg recvmsg select send sendmmsg sendmsg sendto shutdown";

/// Calls that wait for a time or a signal.
const SLEEPS: &str = "
    clock_nanosleep nanosleep pause rt_sigsuspend rt_sigtimedwait sigsuspend sigtimedwait sigwait sigwaitinfo sleep
    thrd_sleep usleep";

/// The cause of waits in a library function or system call of this name.
#[must_use]
pub fn cause(name: &str, symbol: &str) -> Cause {
    let has = |list: &str, name: &str| list.split_whitespace().any(|one| one == name);
    if is_join(name, symbol) {
        return Cause::End;
    }
    if symbol.starts_with("_Z") {
        let name = name.split('(').next().unwrap_or_default();
        let is_sleep = name.ends_with("::sleep_for") || name.ends_with("::__sleep_for");
        return if is_sleep { Cause::Sleep } else { Cause::Lock };
    }
    let plain = plain(symbol);
    // Rust's library waits for locks by `syscall`, and a trace of system calls has the call itself.
    match plain {
        _ if has(LOCKS, plain) || has(CONDITIONS, plain) => Cause::Lock,
        _ if has(DISK, plain) => Cause::Disk,
        _ if has(NETWORK, plain) => Cause::Network,
        _ if has(SLEEPS, plain) => Cause::Sleep,
        _ => Cause::Other,
    }
}

/// `std::x` of `std::__1::x`.
fn without_inline_namespace(name: &str) -> String {
    ["std::__1::", "std::__ndk1::", "std::_V2::"]
        .iter()
        .find_map(|inline| name.strip_prefix(inline))
        .map_or_else(|| name.to_owned(), |rest| format!("std::{rest}"))
}

/// The function that headers have made `symbol` of: of another size of offsets or times, checked, or of a certain standard of C.
fn plain(symbol: &str) -> &str {
    let name =
        ["__isoc99_", "__isoc23_", "_IO_"].iter().find_map(|prefix| symbol.strip_prefix(prefix));
    let name = name.unwrap_or_else(|| symbol.trim_start_matches('_'));
    let name = name.strip_suffix("_chk").unwrap_or(name);
    let name = name.strip_suffix("_time64").unwrap_or(name);
    name.strip_suffix("64").unwrap_or(name)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn causes_of_waits() {
        let of = |symbol| cause(symbol, symbol);
        for (symbols, expected) in [
            ("pthread_mutex_lock futex sem_wait futex_time64 pthread_cond_wait flock", Cause::Lock),
            ("fsync openat pread64 __pread64_chk newfstatat statx getdents64", Cause::Disk),
            ("recvfrom __recv_chk epoll_wait _newselect pselect6_time64", Cause::Network),
            ("nanosleep clock_nanosleep_time64 usleep", Cause::Sleep),
            ("wait4 waitid pthread_join system", Cause::End),
            ("read write readv ioctl", Cause::Other),
        ] {
            for symbol in symbols.split_whitespace() {
                assert_eq!(of(symbol), expected, "{symbol}");
            }
        }
        assert_eq!(cause("std::mutex::lock()", "_ZNSt5mutex4lockEv"), Cause::Lock);
        let sleep = "std::this_thread::__sleep_for(std::chrono::duration<long>)";
        assert_eq!(cause(sleep, "_ZNSt11this_thread11__sleep_forE"), Cause::Sleep);
        assert_eq!(cause("std::thread::join()", "_ZNSt6thread4joinEv"), Cause::End);
    }

    #[test]
    fn names_that_headers_make_of_those_that_wait() {
        let all = [
            "read",
            "__read_chk",
            "pread64",
            "__pread64_chk",
            "__poll_chk",
            "lockf64",
            "__isoc99_scanf",
            "_IO_getc",
            "__select",
            "__pthread_mutex_lock",
            "fcntl64",
            "__nanosleep64",
            "__clock_nanosleep_time64",
            "syscall",
        ];
        for symbol in all {
            assert!(may_wait(symbol, symbol), "{symbol}");
        }
        for symbol in [
            "malloc",
            "printf",
            "memcpy",
            "pthread_mutex_unlock",
            "readlink",
            "pthread_testcancel",
            "",
            "64",
        ] {
            assert!(!may_wait(symbol, symbol), "{symbol}");
        }
    }

    #[test]
    fn locks_and_joins() {
        let table = [
            ("pthread_mutex_lock", [true, false]),
            ("__pthread_rwlock_wrlock", [true, false]),
            ("pthread_cond_wait", [false, false]),
            ("pthread_join", [false, true]),
            ("_ZNSt6thread4joinEv", [false, true]),
            ("_ZNSt3__15mutex4lockEv", [true, false]),
            ("flock", [false, false]),
            ("read", [false, false]),
        ];
        for (symbol, expected) in table {
            let name = crate::names::name_of(symbol, true);
            assert!(may_wait(&name, symbol), "{symbol}");
            assert_eq!([is_lock(&name, symbol), is_join(&name, symbol)], expected, "{symbol}");
        }
    }

    #[test]
    fn functions_of_cpp_that_wait() {
        let table = [
            ("_ZNSt18condition_variable4waitERSt11unique_lockISt5mutexE", true),
            ("_ZNSt6thread4joinEv", true),
            ("_ZNSt3__15mutex4lockEv", true),
            ("_ZNSt3__118condition_variable4waitERNS_11unique_lockINS_5mutexEEE", true),
            ("_ZNSt18condition_variable10notify_oneEv", false),
            ("_ZNSt6thread6detachEv", false),
            ("_ZN4shop4readEv", false),
        ];
        for (symbol, expected) in table {
            let name = crate::names::name_of(symbol, true);
            assert_eq!(may_wait(&name, symbol), expected, "{symbol} {name}");
        }
    }
}
