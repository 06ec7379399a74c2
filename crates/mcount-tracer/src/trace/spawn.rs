//! Starting the program: a child that stands until it's traced, and then executes it.

use super::inherited;
use super::switch::Waker;
use super::told::{self, Told};
use crate::commit::{Failure, about};
use crate::files;
use nix::libc;
use std::ffi::{CString, OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// A child that stands before `exec`.
pub(super) struct Child {
    pub(super) process: i32,
    /// It goes on when it reads a byte there.
    go: [libc::c_int; 2],
    /// It says there if it couldn't.
    failed: [libc::c_int; 2],
}

/// Starts the program under the recorder, which is its tracer. It stands until it's told to go.
pub(super) fn spawn(command: &[OsString]) -> io::Result<Child> {
    let no_zero = |word: &OsString| CString::new(word.as_bytes()).map_err(io::Error::other);
    let words: Vec<CString> = command.iter().map(no_zero).collect::<io::Result<_>>()?;
    let Some(program) = words.first() else { return Err(io::Error::other("no program")) };
    let mut pointers: Vec<_> = words.iter().map(|word| word.as_ptr()).collect();
    pointers.push(std::ptr::null());
    let (mut go, mut failed) = ([0; 2], [0; 2]);
    // SAFETY: both arrays have room for two descriptors.
    let piped = unsafe {
        libc::pipe2(go.as_mut_ptr(), libc::O_CLOEXEC)
            | libc::pipe2(failed.as_mut_ptr(), libc::O_CLOEXEC)
    };
    if piped != 0 {
        return Err(about(Path::new(program_name(command)), io::Error::last_os_error()));
    }
    // `execvp` gives what the kernel doesn't know to a shell, which is right for scripts without `#!` only.
    let is_elf =
        files::head::<4>(Path::new(program_name(command))).is_ok_and(|head| head == *b"\x7fELF");
    let is_elf = is_elf && program.to_bytes().contains(&b'/');
    // Where files may not grow any more, writing is to fail, and the program may still die of it.
    // SAFETY: no handler of ours is given.
    let too_large = unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    // SAFETY: the child calls nothing but what may be called after fork in a process with threads: read,
    // execvp's search uses memory that was there before, write and _exit.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: as above; the strings and the list of pointers live on in the child.
        unsafe {
            let mut byte = 0_u8;
            inherited::restore_signals();
            inherited::restore_descriptors();
            libc::signal(libc::SIGXFSZ, too_large);
            libc::close(go[1]);
            libc::read(go[0], (&raw mut byte).cast(), 1);
            if is_elf {
                libc::execv(program.as_ptr(), pointers.as_ptr());
            } else {
                libc::execvp(program.as_ptr(), pointers.as_ptr());
            }
            let error = *libc::__errno_location();
            libc::write(failed[1], (&raw const error).cast(), 4);
            libc::_exit(127);
        }
    }
    if child < 0 {
        return Err(io::Error::last_os_error());
    }
    seize(child, command)?;
    Ok(Child { process: child, go, failed })
}

impl Child {
    /// Lets it execute the program.
    pub(super) fn go(self) -> io::Result<()> {
        // SAFETY: descriptors of ours; the child waits for the byte.
        let error = unsafe {
            libc::close(self.go[0]);
            libc::close(self.failed[1]);
            libc::write(self.go[1], [1_u8].as_ptr().cast(), 1);
            libc::close(self.go[1]);
            // The pipe is closed by a successful exec; the recorder hears of that before it reads here.
            self.failed[0]
        };
        FAILED.set(error).map_err(|_| io::Error::other("one program at a time"))
    }
}

/// Attaches to the child, or ends it.
fn seize(child: i32, command: &[OsString]) -> io::Result<()> {
    let pid = nix::unistd::Pid::from_raw(child);
    let Err(error) = mcount_ptrace::seize(pid) else { return Ok(()) };
    // SAFETY: no pointer is passed. It hasn't executed anything yet, and nobody else waits for it.
    unsafe { libc::kill(child, libc::SIGKILL) };
    let _ = nix::sys::wait::waitpid(pid, None);
    let why = match error.raw_os_error() {
        Some(libc::EPERM) => "another program traces it, or the system doesn't allow it",
        _ => "it can't be traced",
    };
    let (kind, failure) = (error.kind(), Failure::from(error));
    Err(io::Error::new(kind, format!("{}: {why}: {failure}", name_of(command))))
}

/// The name of a program.
fn name_of(command: &[OsString]) -> String {
    program_name(command).display().to_string()
}

fn program_name(command: &[OsString]) -> &OsStr {
    command.first().map(OsString::as_os_str).unwrap_or_default()
}

/// Hears signals. SIGUSR1 and SIGUSR2 are for the recorder, which is woken by `waker`. A signal that is sent to the whole foreground group (^C, ^\\) is for the program to answer; one that is
/// sent to the recorder alone is passed on to the program.
pub(super) fn hear_signals(program: i32, told: Told, waker: Waker) {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
    let all = [SIGHUP, SIGINT, SIGQUIT, SIGTERM].into_iter().chain(told::SIGNALS);
    let Ok(mut signals) = signal_hook::iterator::Signals::new(all) else { return };
    std::thread::spawn(move || {
        for signal in signals.forever() {
            if told::SIGNALS.contains(&signal) {
                waker.wake_until(|| !told.is_something());
            } else if matches!(signal, SIGHUP | SIGTERM) {
                // SAFETY: no pointer is passed.
                unsafe { libc::kill(program, signal) };
            }
        }
    });
}

/// Where the child that became the program would say that it couldn't.
static FAILED: std::sync::OnceLock<i32> = std::sync::OnceLock::new();

/// Why `exec` failed, if it did.
pub(super) fn exec_error() -> Option<io::Error> {
    let mut error = 0_i32;
    // SAFETY: four bytes into a number; nobody has the other end any more.
    let read = FAILED.get().map(|pipe| unsafe { libc::read(*pipe, (&raw mut error).cast(), 4) });
    (read == Some(4)).then(|| io::Error::from_raw_os_error(error))
}
