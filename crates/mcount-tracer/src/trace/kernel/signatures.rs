//! What system calls take and return: the arguments of those that programs make often, as the kernel's header has them
//! (`linux/syscalls.h`).
//!
//! A line has the name of a system call, or several, then its arguments, each with its type:
//!
//! | type | what |
//! |---|---|
//! | `i`, `u` | a signed number of 4 bytes, an unsigned one of 4 |
//! | `j`, `z` | a signed number of 8 bytes, an unsigned one of 8 |
//! | `p` | an address |
//! | others | one of [`super::names`] |
//!
//! Behind `=` is the type of the result: an address, or, as of all others, a number. What isn't here has no arguments in the trace.

use super::names;
use mcount_trace::layout::kind;

const ALL: &str = "\
read fd:i buf:p count:z
write fd:i buf:p count:z
pread64 fd:i buf:p count:z pos:j
pwrite64 fd:i buf:p count:z pos:j
readv|writev fd:i vec:p vlen:z
preadv|pwritev fd:i vec:p vlen:z pos:j
open filename:p flags:o
creat pathname:p
openat dfd:d filename:p flags:o
openat2 dfd:d filename:p how:p size:z
close fd:i
close_range fd:u max_fd:u flags:u
stat|lstat filename:p statbuf:p
fstat fd:i statbuf:p
newfstatat dfd:d filename:p statbuf:p flag:A
statx dfd:d path:p flags:A mask:u buffer:p
statfs path:p buf:p
fstatfs fd:i buf:p
access filename:p mode:i
faccessat dfd:d filename:p mode:i
faccessat2 dfd:d filename:p mode:i flags:A
lseek fd:i offset:j whence:W
mmap addr:p len:z prot:r flags:m fd:i off:z =p
mprotect start:p len:z prot:r
munmap addr:p len:z
mremap addr:p old_len:z new_len:z flags:R =p
brk brk:p =p
madvise start:p len:z behavior:a
msync start:p len:z flags:i
mlock|munlock start:p len:z
ioctl fd:i cmd:T arg:p
fcntl fd:i cmd:f arg:j
flock fd:i cmd:L
fsync|fdatasync|syncfs fd:i
fallocate fd:i mode:i offset:j len:j
fadvise64 fd:i offset:j len:z advice:i
ftruncate fd:i length:j
truncate path:p length:j
dup fd:i
dup2 oldfd:i newfd:i
dup3 oldfd:i newfd:i flags:c
pipe fildes:p
pipe2 fildes:p flags:c
eventfd2 count:u flags:c
getcwd buf:p size:z
chdir|rmdir|unlink pathname:p
fchdir fd:i
mkdir pathname:p
mkdirat dfd:d pathname:p
unlinkat dfd:d pathname:p flag:A
rename|link|symlink oldname:p newname:p
renameat olddfd:d oldname:p newdfd:d newname:p
renameat2 olddfd:d oldname:p newdfd:d newname:p flags:u
linkat olddfd:d oldname:p newdfd:d newname:p flags:A
readlink path:p buf:p bufsiz:i
readlinkat dfd:d path:p buf:p bufsiz:i
getdents64 fd:i dirent:p count:u
poll ufds:p nfds:u timeout:i
ppoll ufds:p nfds:u tsp:p sigmask:p sigsetsize:z
select n:i inp:p outp:p exp:p tvp:p
pselect6 n:i inp:p outp:p exp:p tsp:p sig:p
epoll_create1 flags:E
epoll_ctl epfd:i op:e fd:i event:p
epoll_wait epfd:i events:p maxevents:i timeout:i
epoll_pwait epfd:i events:p maxevents:i timeout:i sigmask:p sigsetsize:z
sendfile out_fd:i in_fd:i offset:p count:z
splice fd_in:i off_in:p fd_out:i off_out:p len:z flags:u
copy_file_range fd_in:i off_in:p fd_out:i off_out:p len:z flags:u
socket family:F type:t protocol:i
socketpair family:F type:t protocol:i usockvec:p
connect|bind fd:i addr:p addrlen:i
listen fd:i backlog:i
accept fd:i addr:p addrlen:p
accept4 fd:i addr:p addrlen:p flags:t
getsockname|getpeername fd:i addr:p addrlen:p
sendto fd:i buf:p len:z flags:M addr:p addrlen:i
recvfrom fd:i buf:p len:z flags:M addr:p addrlen:p
sendmsg|recvmsg fd:i msg:p flags:M
shutdown fd:i how:H
setsockopt fd:i level:i optname:i optval:p optlen:i
getsockopt fd:i level:i optname:i optval:p optlen:p
futex uaddr:p op:x val:u utime:p uaddr2:p val3:u
set_robust_list head:p len:z
set_tid_address tidptr:p
rseq rseq:p len:u flags:i sig:u
clone flags:n newsp:p
clone3 args:p size:z
execve filename:p argv:p envp:p
execveat dfd:d filename:p argv:p envp:p flags:A
exit|exit_group status:i
wait4 pid:i status:p options:w rusage:p
waitid which:i pid:i infop:p options:w rusage:p
kill pid:i sig:s
tkill tid:i sig:s
tgkill tgid:i tid:i sig:s
rt_sigaction sig:s act:p oldact:p size:z
rt_sigprocmask how:h set:p oldset:p size:z
rt_sigsuspend set:p size:z
sigaltstack uss:p uoss:p
nanosleep rqtp:p rmtp:p
clock_nanosleep clock:k flags:i rqtp:p rmtp:p
clock_gettime|clock_getres clock:k tp:p
gettimeofday tv:p tz:p
getrandom buf:p count:z flags:G
getrusage who:U ru:p
prlimit64 pid:i resource:l new:p old:p
getrlimit|setrlimit resource:l rlim:p
setpgid pid:i pgid:i
getpgid|getsid|sched_getscheduler pid:i
setuid|setgid id:u
umask mask:i
uname name:p
sysinfo info:p
sched_getaffinity|sched_setaffinity pid:i len:u mask:p
inotify_init1 flags:c
memfd_create name:p flags:u
timerfd_create clock:k flags:c
alarm seconds:u
personality personality:u
";

/// Where an argument is recorded with a call, and its result.
const ARGUMENT: u8 = 4;
const RESULT: u8 = 5;

/// The arguments of the system call that's called this: names and types.
fn arguments(name: &str) -> impl Iterator<Item = (&'static str, char)> {
    let mut lines = ALL.lines().filter_map(|line| line.split_once(' '));
    let line = lines.find(|(names, _)| names.split('|').any(|one| one == name));
    let words = line.map_or("", |(_, rest)| rest).split(' ');
    let pairs = words.filter_map(|word| word.split_once(':'));
    pairs.filter_map(|(name, letter)| Some((name, letter.chars().next()?)))
}

/// Whether what the system call returns is an address.
fn returns_address(name: &str) -> bool {
    let mut lines = ALL.lines().filter_map(|line| line.split_once(' '));
    lines.any(|(names, rest)| names == name && rest.ends_with("=p"))
}

/// How many bytes of an argument are recorded.
fn size(letter: char) -> usize {
    if matches!(letter, 'j' | 'z' | 'p') { 8 } else { 4 }
}

/// The values of the system call that's called this, as the metadata of a trace describes them.
pub(super) fn description(name: &str) -> Vec<u8> {
    let mut bytes = Vec::new();
    let mut value = |role: u8, name: &str, kind: &[u8]| {
        bytes.extend([role, u8::try_from(name.len()).unwrap_or(0)]);
        bytes.extend(name.bytes());
        bytes.extend(kind);
    };
    for (name, letter) in arguments(name) {
        let kind = match letter {
            'i' | 'j' => vec![kind::SIGNED, if letter == 'i' { 4 } else { 8 }],
            'u' | 'z' => vec![kind::UNSIGNED, if letter == 'u' { 4 } else { 8 }],
            _ => match names::of(letter) {
                Some((names, number)) => {
                    let code = if names.are_flags { kind::FLAGS } else { kind::ENUMERATION };
                    [&[code, 4][..], &number.to_ne_bytes()].concat()
                }
                None => vec![kind::POINTER],
            },
        };
        value(ARGUMENT, name, &kind);
    }
    let form = if returns_address(name) { kind::POINTER } else { kind::SIGNED };
    value(RESULT, "", &[&[kind::RETURNED, form][..], &names::ERRORS.to_ne_bytes()].concat());
    bytes
}

/// The sizes of a call's recorded arguments, in bytes.
pub(super) fn sizes(name: &str) -> Vec<usize> {
    arguments(name).map(|(_, letter)| size(letter)).collect()
}

/// The values of a call, by the sizes of its arguments; a result only if it has returned.
pub(super) fn append_values(
    sizes: &[usize],
    arguments: &[u64],
    result: Option<i64>,
    bytes: &mut Vec<u8>,
) {
    for (size, argument) in sizes.iter().zip(arguments) {
        match size {
            4 => bytes.extend(((argument & 0xffff_ffff) as u32).to_ne_bytes()),
            _ => bytes.extend(argument.to_ne_bytes()),
        }
    }
    bytes.extend(result.into_iter().flat_map(i64::to_ne_bytes));
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::BTreeSet;

    fn values(sizes: &[usize], arguments: &[u64], result: Option<i64>) -> Vec<u8> {
        let mut bytes = Vec::new();
        append_values(sizes, arguments, result, &mut bytes);
        bytes
    }

    #[test]
    fn each_type_is_known() {
        let mut used = BTreeSet::new();
        for line in ALL.lines() {
            let (names, rest) = line.split_once(' ').unwrap();
            let count = rest.split(' ').filter(|word| *word != "=p").count();
            for name in names.split('|') {
                let found: Vec<_> = arguments(name).collect();
                assert!(found.len() == count && count <= 6, "{line}");
                assert_eq!(sizes(name).len(), count);
                used.extend(found.iter().map(|(_, letter)| *letter));
            }
        }
        let known = |letter: &char| "ijuzp".contains(*letter) || names::of(*letter).is_some();
        assert_eq!(used.iter().find(|letter| !known(letter)), None);
        let unused: Vec<char> = names::ALL.iter().map(|names| names.letter).collect();
        assert_eq!(unused.iter().find(|letter| !used.contains(letter)), None);
    }

    #[test]
    fn each_has_a_number() {
        use mcount_cpu::here::outside::SYSTEM_CALLS;
        let numbered: BTreeSet<&str> =
            (0..1024).filter_map(|number| SYSTEM_CALLS.name(number, false)).collect();
        let named = ALL.lines().filter_map(|line| line.split_once(' '));
        let mut missing: Vec<&str> = named.flat_map(|(names, _)| names.split('|')).collect();
        missing.retain(|name| !numbered.contains(name));
        // Those that only old processors have.
        if cfg!(target_arch = "x86_64") {
            assert_eq!(missing, Vec::<&str>::new());
        }
    }

    #[test]
    fn values_have_the_sizes_of_their_types() {
        let bytes = values(&sizes("write"), &[3, 0x1000, 5, 9, 9, 9], Some(-2));
        let expected = [
            3_u32.to_ne_bytes().to_vec(),
            0x1000_u64.to_ne_bytes().to_vec(),
            5_u64.to_ne_bytes().to_vec(),
            (-2_i64).to_ne_bytes().to_vec(),
        ];
        assert_eq!(bytes, expected.concat());
        assert_eq!(values(&sizes("exit_group"), &[7], None), 7_u32.to_ne_bytes());
        assert_eq!(values(&sizes("getpid"), &[7], Some(1)), 1_i64.to_ne_bytes());
    }
}
