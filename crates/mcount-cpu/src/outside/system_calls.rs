//! System calls as the kernel's tracepoints tell of them: names by number, and the instruction pointer among the registers.
//!
//! Processors that came late share one list (`asm-generic/unistd.h`).

/// What a processor's system calls are called.
#[derive(Debug, Clone, Copy)]
pub struct SystemCalls {
    /// Of 64-bit programs: a number says that of the name after it; the others follow each other.
    pub names: &'static str,
    /// The same of 32-bit programs; empty if their calls aren't named.
    pub names_32: &'static str,
    /// Which of the registers of `perf_event_open(2)` the instruction pointer is (`asm/perf_regs.h`).
    pub instruction: u32,
}

impl SystemCalls {
    /// The name of the one with this number.
    #[must_use]
    pub fn name(&self, number: u32, is_32_bit: bool) -> Option<&'static str> {
        let names = if is_32_bit { self.names_32 } else { self.names };
        let mut next = 0;
        for word in names.split_ascii_whitespace() {
            if let Ok(first) = word.parse() {
                next = first;
            } else if next == number {
                return Some(word);
            } else {
                next += 1;
            }
        }
        None
    }
}

/// Those of AArch64, LoongArch and RISC-V.
pub(crate) const GENERIC: &str = "\
    0 io_setup io_destroy io_submit io_cancel io_getevents setxattr lsetxattr fsetxattr getxattr \
    lgetxattr fgetxattr listxattr llistxattr flistxattr removexattr lremovexattr fremovexattr \
    getcwd lookup_dcookie eventfd2 epoll_create1 epoll_ctl epoll_pwait dup dup3 fcntl \
    inotify_init1 inotify_add_watch inotify_rm_watch ioctl ioprio_set ioprio_get flock mknodat \
    mkdirat unlinkat symlinkat linkat renameat umount2 mount pivot_root nfsservctl statfs \
    fstatfs truncate ftruncate fallocate faccessat chdir fchdir chroot fchmod fchmodat fchownat \
    fchown openat close vhangup pipe2 quotactl getdents64 lseek read write readv writev pread64 \
    pwrite64 preadv pwritev sendfile pselect6 ppoll signalfd4 vmsplice splice tee readlinkat \
    newfstatat fstat sync fsync fdatasync sync_file_range timerfd_create timerfd_settime \
    timerfd_gettime utimensat acct capget capset personality exit exit_group waitid \
    set_tid_address unshare futex set_robust_list get_robust_list nanosleep getitimer setitimer \
    kexec_load init_module delete_module timer_create timer_gettime timer_getoverrun \
    timer_settime timer_delete clock_settime clock_gettime clock_getres clock_nanosleep syslog \
    ptrace sched_setparam sched_setscheduler sched_getscheduler sched_getparam sched_setaffinity \
    sched_getaffinity sched_yield sched_get_priority_max sched_get_priority_min \
    sched_rr_get_interval restart_syscall kill tkill tgkill sigaltstack rt_sigsuspend \
    rt_sigaction rt_sigprocmask rt_sigpending rt_sigtimedwait rt_sigqueueinfo rt_sigreturn \
    setpriority getpriority reboot setregid setgid setreuid setuid setresuid getresuid setresgid \
    getresgid setfsuid setfsgid times setpgid getpgid getsid setsid getgroups setgroups uname \
    sethostname setdomainname getrlimit setrlimit getrusage umask prctl getcpu gettimeofday \
    settimeofday adjtimex getpid getppid getuid geteuid getgid getegid gettid sysinfo mq_open \
    mq_unlink mq_timedsend mq_timedreceive mq_notify mq_getsetattr msgget msgctl msgrcv msgsnd \
    semget semctl semtimedop semop shmget shmctl shmat shmdt socket socketpair bind listen \
    accept connect getsockname getpeername sendto recvfrom setsockopt getsockopt shutdown \
    sendmsg recvmsg readahead brk munmap mremap add_key request_key keyctl clone execve mmap \
    fadvise64 swapon swapoff mprotect msync mlock munlock mlockall munlockall mincore madvise \
    remap_file_pages mbind get_mempolicy set_mempolicy migrate_pages move_pages \
    rt_tgsigqueueinfo perf_event_open accept4 recvmmsg 260 wait4 prlimit64 fanotify_init \
    fanotify_mark name_to_handle_at open_by_handle_at clock_adjtime syncfs setns sendmmsg \
    process_vm_readv process_vm_writev kcmp finit_module sched_setattr sched_getattr renameat2 \
    seccomp getrandom memfd_create bpf execveat userfaultfd membarrier mlock2 copy_file_range \
    preadv2 pwritev2 pkey_mprotect pkey_alloc pkey_free statx io_pgetevents rseq kexec_file_load \
    424 pidfd_send_signal io_uring_setup io_uring_enter io_uring_register open_tree move_mount \
    fsopen fsconfig fsmount fspick pidfd_open clone3 close_range openat2 pidfd_getfd faccessat2 \
    process_madvise epoll_pwait2 mount_setattr quotactl_fd landlock_create_ruleset \
    landlock_add_rule landlock_restrict_self memfd_secret process_mrelease futex_waitv \
    set_mempolicy_home_node cachestat fchmodat2 map_shadow_stack futex_wake futex_wait \
    futex_requeue statmount listmount lsm_get_self_attr lsm_set_self_attr lsm_list_modules mseal \
    setxattrat getxattrat listxattrat removexattrat open_tree_attr file_getattr file_setattr";

#[cfg(test)]
mod tests {
    use super::*;
    use std::borrow::ToOwned;
    use std::collections::BTreeMap;
    use std::process::Command;
    use std::string::String;
    use std::vec::Vec;

    #[test]
    fn numbers_go_on_after_gaps() {
        let calls = SystemCalls { names: "0 a b 7 c", names_32: "", instruction: 0 };
        let found = [0, 1, 2, 6, 7, 8].map(|number| calls.name(number, false));
        assert_eq!(found, [Some("a"), Some("b"), None, None, Some("c"), None]);
        assert_eq!(calls.name(0, true), None);
    }

    /// The numbers and names of system calls that the headers of a compiler have, if it's installed.
    fn of_compiler(command: &[&str]) -> Option<Vec<(u32, String)>> {
        let (program, options) = command.split_first()?;
        let mut command = Command::new(program);
        command.args(options).args([
            "-E",
            "-dM",
            "-include",
            "asm/unistd.h",
            "-x",
            "c",
            "/dev/null",
        ]);
        let output = command.output().ok().filter(|output| output.status.success())?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let defined: BTreeMap<&str, &str> = text
            .lines()
            .filter_map(|line| line.strip_prefix("#define ")?.split_once(' '))
            .collect();
        let number = |name: &str| {
            let mut value = *defined.get(name)?;
            // Some are defined by another name.
            while let Some(next) = defined.get(value) {
                value = next;
            }
            value.parse().ok()
        };
        let found = defined.keys().filter_map(|name| {
            let short = name.strip_prefix("__NR_")?;
            // Those are no system calls.
            let is_one = !matches!(short, "syscalls" | "arch_specific_syscall");
            Some((number(name).filter(|_| is_one)?, short.to_owned()))
        });
        Some(found.collect())
    }

    #[test]
    fn headers_have_the_same_names() {
        let table: [(&[&str], SystemCalls, bool); 5] = [
            (&["x86_64-linux-gnu-gcc"], crate::x86_64::outside::SYSTEM_CALLS, false),
            (&["x86_64-linux-gnu-gcc", "-m32"], crate::x86_64::outside::SYSTEM_CALLS, true),
            (&["aarch64-linux-gnu-gcc"], crate::aarch64::outside::SYSTEM_CALLS, false),
            (&["powerpc64le-linux-gnu-gcc"], crate::powerpc64::outside::SYSTEM_CALLS, false),
            (&["riscv64-linux-gnu-gcc"], crate::riscv64::outside::SYSTEM_CALLS, false),
        ];
        for (command, calls, is_32_bit) in table {
            let Some(numbers) = of_compiler(command) else { continue };
            assert!(numbers.len() > 250, "{command:?}: {} names", numbers.len());
            for (number, name) in numbers {
                let found = calls.name(number, is_32_bit);
                assert_eq!(found, Some(name.as_str()), "{command:?}: {number}");
            }
        }
    }
}
