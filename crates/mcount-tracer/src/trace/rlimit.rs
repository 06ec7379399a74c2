//! The kernel's limits for a process.
//!
//! They're read from `/proc/PID/limits` and not by `prlimit(2)`: for a process of another user, that takes
//! `CAP_SYS_RESOURCE`, although `ptrace(2)` doesn't.

use std::io;

/// A limit, as `/proc/PID/limits` names it.
#[derive(Clone, Copy)]
pub(super) enum Limit {
    /// `RLIMIT_AS`.
    AddressSpace,
    /// `RLIMIT_STACK`.
    Stack,
}

impl Limit {
    fn name(self) -> &'static str {
        match self {
            Self::AddressSpace => "Max address space ",
            Self::Stack => "Max stack size ",
        }
    }

    /// How many bytes `process` may have; `None` if there's no limit.
    ///
    /// # Errors
    ///
    /// If `/proc/PID/limits` can't be read, or doesn't have the limit.
    pub(super) fn of(self, process: i32) -> io::Result<Option<u64>> {
        self.read(&std::fs::read_to_string(format!("/proc/{process}/limits"))?)
    }

    /// The soft limit in the lines of `/proc/PID/limits`.
    fn read(self, text: &str) -> io::Result<Option<u64>> {
        let error = || io::Error::other(format!("/proc/PID/limits has no `{}`", self.name()));
        let values = text.lines().find_map(|line| line.strip_prefix(self.name()));
        let soft = values.and_then(|values| values.split_ascii_whitespace().next());
        match soft.ok_or_else(error)? {
            "unlimited" => Ok(None),
            bytes => bytes.parse().map(Some).map_err(|_| error()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use nix::libc;

    #[test]
    fn limits_are_those_that_the_kernel_tells() {
        for (limit, number) in
            [(Limit::AddressSpace, libc::RLIMIT_AS), (Limit::Stack, libc::RLIMIT_STACK)]
        {
            let mut told = libc::rlimit { rlim_cur: 0, rlim_max: 0 };
            // SAFETY: the limit goes to a value of ours.
            assert_eq!(unsafe { libc::getrlimit(number, &raw mut told) }, 0);
            let told = (told.rlim_cur != libc::RLIM_INFINITY).then_some(told.rlim_cur);
            let process = i32::try_from(std::process::id()).unwrap();
            assert_eq!(limit.of(process).unwrap(), told, "{}", limit.name());
        }
    }

    #[test]
    fn a_soft_limit_is_the_first_number() {
        let text = "Limit        Soft Limit  Hard Limit  Units\n\
                    Max stack size            8388608              unlimited            bytes     \n\
                    Max address space         unlimited            unlimited            bytes     \n";
        assert_eq!(Limit::Stack.read(text).unwrap(), Some(8_388_608));
        assert_eq!(Limit::AddressSpace.read(text).unwrap(), None);
        assert!(Limit::Stack.read("Max stack size \n").is_err());
        assert!(Limit::Stack.read("").is_err());
    }
}
