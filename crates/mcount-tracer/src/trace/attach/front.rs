//! The process that was started: it makes the worker, waits for it, and hears signals.

use super::worker::{self, work};
use super::{Request, check, control};
use crate::trace::told::{self, Told};
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
    // The worker has to know of these signals from the start on.
    let told = Told::listen()?;
    if let Some(code) = divide(&told::SIGNALS, |pipe| work(request, pipe, told))? {
        return Ok(code);
    }
    if process != 0 {
        worker::recover(process)?;
    }
    Err(io::Error::other("the process that wrote the trace was killed; it isn't finished"))
}

/// Makes a process of its own for `work`, which is given what ends when it's time to stop, and waits for it. Its exit code;
/// `None` if it was killed. It knows of the signals in `passed`, and gets them too.
///
/// # Errors
///
/// It couldn't be made.
pub(super) fn divide(
    passed: &'static [libc::c_int],
    work: impl FnOnce(&File) -> u8,
) -> io::Result<Option<u8>> {
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
            wait(child, write, passed)
        }
    }
}

/// Waits for the worker; it's told to stop by the end of `pipe`.
fn wait(worker: i32, pipe: OwnedFd, passed: &'static [libc::c_int]) -> io::Result<Option<u8>> {
    let all = [SIGHUP, SIGINT, SIGTERM].into_iter().chain(passed.iter().copied());
    let mut signals = signal_hook::iterator::Signals::new(all)?;
    std::thread::spawn(move || {
        let mut pipe = Some(pipe);
        for signal in signals.forever() {
            if passed.contains(&signal) {
                // SAFETY: no pointer is passed.
                unsafe { libc::kill(worker, signal) };
            } else {
                // Once more, and again: it's being done.
                pipe = None;
            }
        }
        drop(pipe);
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
