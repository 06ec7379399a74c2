//! Starting a program in order to attach to it: it's held before its `main`, when its libraries are loaded.
//!
//! It's held by a jump to itself, which takes the place of an instruction. So it needs no tracer while the
//! hooks are armed, which is then done as in any other process.

use crate::trace::inherited;
use mcount_cpu::here::outside::{BEHIND_BREAKPOINT, BREAKPOINT, HOLD};
use mcount_ptrace::{Memory, Standing, Tracee};
use nix::libc;
use std::ffi::{CString, OsString};
use std::fs::OpenOptions;
use std::io::{self, Read};
use std::os::unix::ffi::OsStrExt;

/// Kinds of entries of the auxiliary vector (`getauxval(3)`).
const AT_BASE: u64 = 7;
const AT_ENTRY: u64 = 9;

/// The input and output of a program that is started.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Streams {
    /// What this process does.
    Own,
    /// Its output goes to standard error.
    ToError,
    /// It's not to disturb the terminal, nor to hear from it.
    Hidden,
}

/// A program that's held.
pub(super) struct Launched {
    pub(super) process: i32,
    /// Where, and the bytes that belong there.
    place: u64,
    bytes: [u8; HOLD.len()],
}

impl Launched {
    /// Starts the program.
    ///
    /// # Errors
    ///
    /// It can't be executed, it isn't for this processor, or it ends at once.
    pub(super) fn start(command: &[OsString], streams: Streams) -> io::Result<Self> {
        let process = spawn(command, streams)?;
        hold(process).inspect_err(|_| {
            // SAFETY: no pointer is passed; it's a child of this process that nobody has waited for.
            unsafe {
                libc::kill(process, libc::SIGKILL);
                libc::waitpid(process, std::ptr::null_mut(), 0);
            }
        })
    }

    /// Lets it go on.
    pub(super) fn release(&self, memory: &Memory) -> io::Result<()> {
        let standing = Standing::of(self.process)?;
        memory.write(self.place, &self.bytes)?;
        drop(standing);
        Ok(())
    }
}

/// Ends a program that was started here, and waits for it.
pub(super) fn end(process: i32) {
    const TRIES: u32 = 200;
    // SAFETY: no pointer is passed; it's a child of this process that nobody has waited for.
    unsafe {
        libc::kill(process, libc::SIGTERM);
        for _ in 0..TRIES {
            if libc::waitpid(process, std::ptr::null_mut(), libc::WNOHANG) != 0 {
                return;
            }
            std::thread::sleep(std::time::Duration::from_millis(10));
        }
    }
}

/// Executes the program under this process as its tracer; it is behind `exec`.
fn spawn(command: &[OsString], streams: Streams) -> io::Result<i32> {
    let no_zero = |word: &OsString| CString::new(word.as_bytes()).map_err(io::Error::other);
    let words: Vec<CString> = command.iter().map(no_zero).collect::<io::Result<_>>()?;
    let Some(program) = words.first() else { return Err(io::Error::other("no program")) };
    let mut pointers: Vec<_> = words.iter().map(|word| word.as_ptr()).collect();
    pointers.push(std::ptr::null());
    let mut failed = [0; 2];
    // SAFETY: there's room for two descriptors. The child calls nothing but what may be called after fork.
    let child = unsafe {
        if libc::pipe2(failed.as_mut_ptr(), libc::O_CLOEXEC) != 0 {
            return Err(io::Error::last_os_error());
        }
        libc::fork()
    };
    if child == 0 {
        // SAFETY: as above; the strings and the list of pointers live on in the child.
        unsafe {
            set_up_streams(streams);
            inherited::restore_signals();
            libc::ptrace(libc::PTRACE_TRACEME, 0, 0, 0);
            libc::execvp(program.as_ptr(), pointers.as_ptr());
            let error = *libc::__errno_location();
            libc::write(failed[1], (&raw const error).cast(), 4);
            libc::_exit(127);
        }
    }
    let mut error = 0_i32;
    // SAFETY: descriptors of ours, and four bytes into a number.
    let read = unsafe {
        libc::close(failed[1]);
        // It stops when it has executed the program, which closes the pipe; or says why it couldn't.
        let read = libc::read(failed[0], (&raw mut error).cast(), 4);
        libc::close(failed[0]);
        read
    };
    if child < 0 || read == 4 {
        let error = if child < 0 {
            io::Error::last_os_error()
        } else {
            io::Error::from_raw_os_error(error)
        };
        let name = command.first().map(|name| name.display().to_string()).unwrap_or_default();
        return Err(io::Error::new(
            error.kind(),
            format!("{name}: {}", crate::commit::Failure::from(error)),
        ));
    }
    Ok(child)
}

/// # Safety
///
/// To be called in a child, between `fork` and `exec`.
unsafe fn set_up_streams(streams: Streams) {
    // SAFETY: the caller's; the path is a string.
    unsafe {
        match streams {
            Streams::Own => return inherited::restore_descriptors(),
            Streams::ToError => {
                libc::dup2(2, 1);
                return;
            }
            Streams::Hidden => {}
        }
        let nothing = libc::open(c"/dev/null".as_ptr(), libc::O_RDWR);
        for stream in 0..3 {
            if libc::isatty(stream) != 0 {
                libc::dup2(nothing, stream);
            }
        }
        libc::close(nothing);
    }
}

/// Lets the program run up to where it's held.
fn hold(process: i32) -> io::Result<Launched> {
    let thread = Tracee::new(process);
    wait(thread)?;
    super::check_program(process)?;
    let memory = Memory::open(process)?;
    let auxiliary = auxiliary(process)?;
    let value =
        |kind: u64| auxiliary.iter().find(|(found, _)| *found == kind).map(|(_, value)| *value);
    let place = match (value(AT_BASE), value(AT_ENTRY)) {
        (Some(base), Some(entry)) if base != 0 => {
            run_to(thread, &memory, entry)?;
            entry
        }
        // Until it has a thread pointer, nothing can be called in it.
        _ => run_to_thread_pointer(thread)?,
    };
    let mut bytes = [0; HOLD.len()];
    memory.read(place, &mut bytes)?;
    memory.write(place, HOLD)?;
    thread.let_go();
    Ok(Launched { process, place, bytes })
}

/// Lets it run to `place`.
fn run_to(thread: Tracee, memory: &Memory, place: u64) -> io::Result<()> {
    let mut before = [0; BREAKPOINT.len()];
    memory.read(place, &mut before)?;
    memory.write(place, BREAKPOINT)?;
    let mut signal = 0;
    loop {
        thread.resume_with(signal);
        signal = wait(thread)?;
        let mut registers = thread.registers()?;
        if signal == libc::SIGTRAP && registers.instruction() == place + BEHIND_BREAKPOINT {
            registers.set_instruction(place);
            thread.set_registers(&registers)?;
            return memory.write(place, &before);
        }
    }
}

/// Lets it run until it has a thread pointer; where it is then.
fn run_to_thread_pointer(thread: Tracee) -> io::Result<u64> {
    thread.tell_system_calls()?;
    let mut signal = 0;
    loop {
        thread.resume_to_system_call(signal)?;
        signal = wait(thread)?;
        if Tracee::stands_at_system_call(signal) {
            signal = 0;
            let registers = thread.registers()?;
            // At the end of the system call, of which the result is known.
            if registers.has_thread_pointer()
                && registers.result().cast_signed() != -i64::from(libc::ENOSYS)
            {
                return Ok(registers.instruction());
            }
        }
    }
}

/// Waits until it stops; the signal.
fn wait(thread: Tracee) -> io::Result<i32> {
    thread.wait()?.ok_or_else(|| io::Error::other("it ended before its main began"))
}

/// The kernel's words to the program: kinds and values.
fn auxiliary(process: i32) -> io::Result<Vec<(u64, u64)>> {
    let mut bytes = Vec::new();
    let path = format!("/proc/{process}/auxv");
    OpenOptions::new().read(true).open(path)?.read_to_end(&mut bytes)?;
    let words: Vec<u64> =
        bytes.as_chunks().0.iter().map(|word| u64::from_ne_bytes(*word)).collect();
    Ok(words.as_chunks().0.iter().map(|[kind, value]| (*kind, *value)).collect())
}
