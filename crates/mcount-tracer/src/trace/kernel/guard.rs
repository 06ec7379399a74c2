//! A process that ends the recorder's instance if the recorder is killed. Otherwise the kernel would go on recording.
//!
//! It waits for the end of a pipe that only the recorder holds open. It has a process group of its own, and no parent that
//! waits for it.

use nix::libc::{self, c_int};
use std::ffi::{CStr, CString};
use std::fs::File;
use std::io;
use std::os::fd::{AsRawFd, FromRawFd, OwnedFd, RawFd};

/// The pipe. The process waits until it's closed.
pub(super) struct Guard {
    _pipe: OwnedFd,
}

/// The data of the process. All of it is there before the process begins, because it can't ask for memory.
struct Duty<'d> {
    /// Its end of the pipe, and the folder of instances.
    pipe: c_int,
    instances: c_int,
    /// The descriptors that it keeps, in order.
    kept: [c_int; 3],
    /// The instance in that folder, and its tracer.
    instance: &'d CStr,
    tracer: &'d CStr,
}

impl Guard {
    /// Watches over the instance of this name in the folder of instances, which is there as long as `mount` is open.
    ///
    /// # Errors
    ///
    /// There can be no other process.
    pub(super) fn start(instances: &File, name: &str, mount: Option<RawFd>) -> io::Result<Self> {
        let text = |text: String| CString::new(text).map_err(io::Error::other);
        let (instance, tracer) = (text(name.to_owned())?, text(format!("{name}/current_tracer"))?);
        let mut ends = [0; 2];
        // SAFETY: the array has room for two descriptors.
        if unsafe { libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) } != 0 {
            return Err(io::Error::last_os_error());
        }
        // SAFETY: both descriptors are new.
        let (pipe, own) = unsafe { (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])) };
        let (pipe, instances) = (pipe.as_raw_fd(), instances.as_raw_fd());
        let mut kept = [pipe, instances, mount.unwrap_or(instances)];
        kept.sort_unstable();
        let duty = Duty { pipe, instances, kept, instance: &instance, tracer: &tracer };
        // SAFETY: the child calls nothing but what may be called after fork in a process with threads.
        let child = unsafe { libc::fork() };
        if child == 0 {
            // SAFETY: as above. The second child belongs to no process that waits for any of its children.
            unsafe {
                if libc::fork() == 0 {
                    watch(&duty);
                }
                libc::_exit(0);
            }
        }
        if child < 0 {
            return Err(io::Error::last_os_error());
        }
        let mut status = 0;
        // SAFETY: the status is ours.
        while unsafe { libc::waitpid(child, &raw mut status, 0) } < 0 && errno() == libc::EINTR {}
        Ok(Self { _pipe: own })
    }
}

fn errno() -> c_int {
    io::Error::last_os_error().raw_os_error().unwrap_or(0)
}

/// Waits until the recorder has ended, and ends its instance if it's still there.
///
/// # Safety
///
/// This process was made by `fork`, and does nothing else.
unsafe fn watch(duty: &Duty<'_>) -> ! {
    /// How often it's tried to remove the instance, which others may read, and how long one waits between.
    const TRIES: usize = 500;
    const PAUSE: libc::useconds_t = 10_000;
    // SAFETY: all of these may be called after fork; the pointers are to what lives on in this process.
    unsafe {
        libc::setpgid(0, 0);
        libc::prctl(libc::PR_SET_NAME, c"mcount-guard".as_ptr());
        let mut all: libc::sigset_t = std::mem::zeroed();
        libc::sigfillset(&raw mut all);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const all, std::ptr::null_mut());
        let mut next = 0;
        for kept in duty.kept {
            close(next, kept - 1);
            next = kept + 1;
        }
        close(next, c_int::MAX);
        libc::chdir(c"/".as_ptr());
        let mut byte = 0_u8;
        while libc::read(duty.pipe, (&raw mut byte).cast(), 1) < 0
            && *libc::__errno_location() == libc::EINTR
        {}
        let tracer = libc::openat(duty.instances, duty.tracer.as_ptr(), libc::O_WRONLY);
        if tracer >= 0 {
            libc::write(tracer, c"nop\n".as_ptr().cast(), 4);
            libc::close(tracer);
        }
        for _ in 0..TRIES {
            let removed =
                libc::unlinkat(duty.instances, duty.instance.as_ptr(), libc::AT_REMOVEDIR);
            if removed == 0 || *libc::__errno_location() != libc::EBUSY {
                break;
            }
            libc::usleep(PAUSE);
        }
        libc::_exit(0)
    }
}

/// Closes the descriptors from the first to the last one, if there are any.
///
/// # Safety
///
/// As for [`watch`].
unsafe fn close(first: c_int, last: c_int) {
    /// More descriptors than processes have, where the kernel doesn't know the system call.
    const MANY: c_int = 1 << 16;
    if first > last {
        return;
    }
    // SAFETY: no pointer is passed, and nobody else uses the descriptors of this process.
    unsafe {
        if libc::syscall(libc::SYS_close_range, first, last, 0) != 0 {
            for one in first..=last.min(MANY) {
                libc::close(one);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::super::tracefs::Tracefs;
    use super::*;
    use std::fs::OpenOptions;
    use std::time::{Duration, Instant};

    /// When the other end of the pipe is closed, the instance goes. Where that's forbidden, there is none.
    #[test]
    fn instances_end_with_the_pipe() {
        let Ok(tracefs) = Tracefs::find() else { return };
        let name = format!("guard-test-{}", std::process::id());
        let folder = tracefs.path("instances").join(&name);
        if std::fs::create_dir(&folder).is_err() {
            return;
        }
        let instances = OpenOptions::new().read(true).open(tracefs.path("instances")).unwrap();
        let mount = tracefs.mount.as_ref().map(AsRawFd::as_raw_fd);
        let guard = Guard::start(&instances, &name, mount).unwrap();
        assert!(folder.exists());
        drop(guard);
        let end = Instant::now() + Duration::from_secs(60);
        while folder.exists() && Instant::now() < end {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(!folder.exists());
    }
}
