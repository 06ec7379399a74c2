//! The process that was started: it makes the worker, waits for it, and hears signals.

use super::worker::{self, work};
use super::{Request, check, control};
use nix::libc;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM};
use std::fs::File;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};

/// Attaches, traces until it's time to stop, and leaves; the exit code of the worker, which has said all there is to say.
///
/// # Errors
///
/// The process can't be attached to, or the worker couldn't be made.
pub fn attach(request: Request) -> io::Result<u8> {
    if request.command.is_empty() {
        check(request.process)?;
        if let Some(answer) = control::ask(&request) {
            (request.say)(&answer?);
            return Ok(0);
        }
    }
    let process = request.process;
    if let Some(code) = divide(|pipe| work(request, pipe))? {
        return Ok(code);
    }
    if process != 0 {
        worker::recover(process)?;
    }
    Err(io::Error::other("the process that wrote the trace was killed; it isn't finished"))
}

/// Makes a process of its own for `work`, which is given what ends when it's time to stop, and waits for it. Its exit code;
/// `None` if it was killed.
///
/// # Errors
///
/// It couldn't be made.
pub(super) fn divide(work: impl FnOnce(&File) -> u8) -> io::Result<Option<u8>> {
    let mut ends = [0; 2];
    // SAFETY: there's room for two descriptors, which are new.
    let (read, write) = unsafe {
        if libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) != 0 {
            return Err(io::Error::last_os_error());
        }
        (OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1]))
    };
    // SAFETY: this process has one thread, so the child may do anything.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            drop(write);
            let code = work(&File::from(read));
            // SAFETY: ends the process; nothing of the other's is to be done twice.
            unsafe { libc::_exit(i32::from(code)) }
        }
        child => {
            drop(read);
            wait(child, write)
        }
    }
}

/// Waits for the worker; it's told to stop by the end of `pipe`.
fn wait(worker: i32, pipe: OwnedFd) -> io::Result<Option<u8>> {
    let mut signals = signal_hook::iterator::Signals::new([SIGHUP, SIGINT, SIGTERM])?;
    std::thread::spawn(move || {
        let _ = signals.forever().next();
        drop(pipe);
        // Once more, and again: it's being done.
        for _ in signals.forever() {}
    });
    let mut status = 0;
    loop {
        // SAFETY: the status is a number of ours.
        let found = unsafe { libc::waitpid(worker, &raw mut status, 0) };
        if found == worker {
            break;
        }
        let error = io::Error::last_os_error();
        if error.kind() != io::ErrorKind::Interrupted {
            return Err(error);
        }
    }
    let code = libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status));
    Ok(code.map(|code| u8::try_from(code).unwrap_or(2)))
}
