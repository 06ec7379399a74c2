//! Questions to the kernel about one thread (`ptrace(2)`): each request once, and all constants.

use crate::memory::proc_text;
use nix::errno::Errno;
use nix::libc;
use std::io;
use std::time::Duration;

/// A request, as glibc has its type.
#[cfg(not(target_env = "musl"))]
pub type Request = libc::c_uint;
/// A request, as musl has its type.
#[cfg(target_env = "musl")]
pub type Request = libc::c_int;

/// Requests that the C library's header has in newer versions only.
const PTRACE_PEEKSIGINFO: Request = 0x4209;
const PTRACE_GETSIGMASK: Request = 0x420a;
const PTRACE_SETSIGMASK: Request = 0x420b;
/// The signals of the process, not those of the thread.
const PTRACE_PEEKSIGINFO_SHARED: u32 = 1;
/// Bytes of the kernel's signal set.
const SIGNAL_SET: libc::c_long = 8;

/// The stop at a system call, which no signal looks like if `PTRACE_O_TRACESYSGOOD` is set.
pub(crate) const SYSTEM_CALL_STOP: i32 = libc::SIGTRAP | 0x80;

/// Makes a request that passes a number, or nothing.
fn plain(request: Request, thread: i32, number: libc::c_long) -> io::Result<()> {
    let nothing = std::ptr::null_mut::<libc::c_void>();
    // SAFETY: the requests of this file that come here pass no pointer.
    to_result(unsafe { libc::ptrace(request, thread, nothing, number) })
}

fn to_result(result: libc::c_long) -> io::Result<()> {
    if result == -1 { Err(Errno::last().into()) } else { Ok(()) }
}

/// Becomes the tracer of a thread, which runs on; `options` are `PTRACE_O_…`.
pub(crate) fn seize(thread: i32, options: i32) -> io::Result<()> {
    plain(libc::PTRACE_SEIZE, thread, libc::c_long::from(options))
}

/// Asks a thread to stop.
pub(crate) fn interrupt(thread: i32) -> io::Result<()> {
    plain(libc::PTRACE_INTERRUPT, thread, 0)
}

/// Lets a thread run on with this signal, or with none for 0.
pub(crate) fn resume(thread: i32, signal: i32) -> io::Result<()> {
    plain(libc::PTRACE_CONT, thread, libc::c_long::from(signal))
}

/// Lets a thread run on with this signal, or with none for 0, to where a system call begins or ends.
pub(crate) fn resume_to_system_call(thread: i32, signal: i32) -> io::Result<()> {
    plain(libc::PTRACE_SYSCALL, thread, libc::c_long::from(signal))
}

/// Lets a thread stay stopped, as a stop signal asks for.
pub(crate) fn listen(thread: i32) -> io::Result<()> {
    plain(libc::PTRACE_LISTEN, thread, 0)
}

/// Lets a thread run on, and traces it no more.
pub(crate) fn detach(thread: i32) -> io::Result<()> {
    plain(libc::PTRACE_DETACH, thread, 0)
}

/// Changes which events stop a thread; `options` are `PTRACE_O_…`.
pub(crate) fn set_options(thread: i32, options: i32) -> io::Result<()> {
    plain(libc::PTRACE_SETOPTIONS, thread, libc::c_long::from(options))
}

/// The signals that a thread has blocked.
pub(crate) fn blocked(thread: i32) -> io::Result<u64> {
    let mut set = 0_u64;
    // SAFETY: the kernel writes a signal set, and the word has room for one.
    let got = unsafe { libc::ptrace(PTRACE_GETSIGMASK, thread, SIGNAL_SET, &raw mut set) };
    to_result(got).map(|()| set)
}

/// Has a thread block these signals and no others.
pub(crate) fn set_blocked(thread: i32, set: u64) -> io::Result<()> {
    // SAFETY: the kernel reads a signal set, which the word is.
    to_result(unsafe { libc::ptrace(PTRACE_SETSIGMASK, thread, SIGNAL_SET, &raw const set) })
}

/// The signals that wait for a thread, or those that wait for its process: the first 32.
pub(crate) fn pending(thread: i32, are_shared: bool) -> u64 {
    #[repr(C)]
    struct Arguments {
        offset: u64,
        flags: u32,
        count: i32,
    }
    const COUNT: usize = 32;
    let flags = if are_shared { PTRACE_PEEKSIGINFO_SHARED } else { 0 };
    let arguments = Arguments { offset: 0, flags, count: 32 };
    // SAFETY: a signal's information is plain data. The kernel writes at most `COUNT` of them.
    let (count, found) = unsafe {
        let mut found: [libc::siginfo_t; COUNT] = std::mem::zeroed();
        let (arguments, room) = (&raw const arguments, found.as_mut_ptr());
        (libc::ptrace(PTRACE_PEEKSIGINFO, thread, arguments, room), found)
    };
    let count = usize::try_from(count).unwrap_or(0);
    let bit = |signal: &libc::siginfo_t| 1_u64 << (signal.si_signo.clamp(1, 64) - 1);
    found.iter().take(count).map(bit).fold(0, |all, one| all | one)
}

/// Reads the registers of this kind (`NT_…`) into `room`; how many bytes they are.
pub(crate) fn registers(thread: i32, kind: libc::c_int, room: &mut [u8]) -> io::Result<usize> {
    let mut piece = libc::iovec { iov_base: room.as_mut_ptr().cast(), iov_len: room.len() };
    let kind = libc::c_long::from(kind);
    // SAFETY: the kernel writes at most as many bytes as `room` has, and says how many.
    to_result(unsafe { libc::ptrace(libc::PTRACE_GETREGSET, thread, kind, &raw mut piece) })?;
    Ok(piece.iov_len)
}

/// Writes the registers of this kind (`NT_…`).
pub(crate) fn set_registers(thread: i32, kind: libc::c_int, bytes: &[u8]) -> io::Result<()> {
    let base = bytes.as_ptr().cast_mut().cast();
    let piece = libc::iovec { iov_base: base, iov_len: bytes.len() };
    let kind = libc::c_long::from(kind);
    // SAFETY: the kernel reads at most as many bytes as `bytes` has.
    to_result(unsafe { libc::ptrace(libc::PTRACE_SETREGSET, thread, kind, &raw const piece) })
}

/// Sends a signal to a thread again that came at a bad time.
pub(crate) fn send_again(thread: i32, signal: i32) {
    // SAFETY: no pointer is passed.
    unsafe { libc::syscall(libc::SYS_tkill, thread, signal) };
}

/// Waits until a traced thread stops; its wait status. `None` if it ends instead.
pub(crate) fn wait(thread: i32) -> io::Result<Option<i32>> {
    let mut wait = Wait::of(thread);
    loop {
        match look(thread, libc::__WALL | libc::WNOHANG)? {
            Some(Change::Stopped(status)) => return Ok(Some(status)),
            None if wait.goes_on() => {}
            Some(Change::Ended) | None => return Ok(None),
        }
    }
}

/// Waiting for one thread, which is asked for again and again.
///
/// The kernel doesn't tell of the end of a process's first thread before all others were waited for. So who waits for that one alone would
/// wait forever for a process that was killed. Mostly the answer comes within some microseconds.
pub(crate) struct Wait {
    thread: i32,
    turns: u32,
    has_ended: bool,
}

impl Wait {
    pub(crate) const fn of(thread: i32) -> Self {
        Self { thread, turns: 0, has_ended: false }
    }

    /// The thread was asked for, and there was no answer: waits a little, longer the more often it was. `false` if the thread has ended;
    /// what it did before that has been asked for since.
    pub(crate) fn goes_on(&mut self) -> bool {
        /// How often it's asked for before this process sleeps, and between looks whether it has ended.
        const TURNS: u32 = 200;
        const LOOKS: u32 = 16;
        const STEP: Duration = Duration::from_micros(50);
        const LONGEST: u32 = 20;
        if self.has_ended {
            return false;
        }
        self.turns = self.turns.saturating_add(1);
        let Some(sleeps) = self.turns.checked_sub(TURNS) else {
            std::thread::yield_now();
            return true;
        };
        if sleeps % LOOKS == 0 {
            self.has_ended = has_ended(&format!("/proc/{}/stat", self.thread));
        }
        if !self.has_ended {
            std::thread::sleep(STEP * (sleeps / LOOKS + 1).min(LONGEST));
        }
        true
    }
}

/// Is the thread of this file of `/proc` gone, but for what its process has to know of it?
pub(crate) fn has_ended(stat: &str) -> bool {
    let text = proc_text(stat);
    // The name may have spaces and parentheses in it.
    text.map_or(true, |text| {
        text.rsplit_once(") ").is_none_or(|(_, rest)| rest.starts_with(['Z', 'X']))
    })
}

/// The state of a thread.
pub(crate) enum Change {
    /// It stands, with this wait status.
    Stopped(i32),
    /// It's gone.
    Ended,
}

/// Asks once what has become of a thread; `None` if nothing has yet, or a signal for this process came first.
pub(crate) fn look(thread: i32, flags: i32) -> io::Result<Option<Change>> {
    let mut status = 0;
    // SAFETY: the status is a number of this function.
    match unsafe { libc::waitpid(thread, &raw mut status, flags) } {
        0 => Ok(None),
        found if found < 0 => match Errno::last() {
            Errno::EINTR => Ok(None),
            error => Err(error.into()),
        },
        _ if libc::WIFSTOPPED(status) => Ok(Some(Change::Stopped(status))),
        _ => Ok(Some(Change::Ended)),
    }
}
