//! Stopping all other threads for a moment, so that code can be changed in which they may stand.
//!
//! No signal handler could do that unnoticed: system calls would fail with EINTR, and a thread that blocks the signal
//! would never stop. So a helper process, which shares the memory of this one and lives as long as it takes, is the
//! tracer of all threads but the caller's (`ptrace(2)`, `PTRACE_SEIZE`). The kernel lets it if it would let a
//! debugger of the same user; where it doesn't, nothing was changed.
//!
//! A thread that is inside an area is moved after it: what is there are NOPs. The same goes for code that
//! a signal has interrupted, so stacks are searched for the frames of signals.
//!
//! Other threads may hold any lock while they stand, that of `malloc` as well. So between stopping them and letting them
//! go, nothing is allocated, and the helper doesn't use the C library at all.

use super::{SIGNAL_FRAME, Stopped, interrupted, is_signal_return, system_call};
use crate::error::{Error, ErrorKind, Result};
use mcount_hooks::maps::{self, Mapping};
use std::ffi::{c_int, c_void};
use std::os::unix::fs::MetadataExt;
use std::sync::atomic::{AtomicI64, AtomicU32, Ordering::SeqCst};

const PTRACE_DETACH: u64 = 17;
const PTRACE_SEIZE: u64 = 0x4206;
const PTRACE_INTERRUPT: u64 = 0x4207;
const EVENT_STOP: u64 = 128;
const WNOHANG: u64 = 1;
const WALL: u64 = 0x4000_0000;
const WCLONE: u64 = 0x8000_0000;

/// Bytes of an address.
const WORD: u64 = size_of::<usize>() as u64;

/// Bytes of the helper's stack.
const STACK: usize = 1 << 16;
/// How long a thread may take to stop: that many looks, 50 microseconds apart.
const PATIENCE: u32 = 20_000;

/// States of the work.
const BEGINNING: u32 = 0;
const WORKING: u32 = 1;
const STANDING: u32 = 2;
const REFUSED: u32 = 3;
const GO_ON: u32 = 4;

/// A thread that is traced.
#[derive(Debug, Clone, Copy, Default)]
struct Thread {
    id: u64,
    /// A signal that it was about to get.
    signal: u64,
    stands: bool,
}

/// Data that the caller and the helper share.
struct Shared<'a> {
    state: AtomicU32,
    /// Why it was refused: `-errno`.
    error: AtomicI64,
    process: u64,
    caller: u64,
    /// In ascending order: first byte, and the one after the last.
    areas: &'a [(u64, u64)],
    maps: &'a [Mapping],
    threads: Vec<Thread>,
    count: usize,
}

/// Has `act` done while no other thread runs or is inside one of `areas`, which are in ascending order. It must not
/// allocate anything, or take a lock.
///
/// # Errors
///
/// The threads can't be stopped; `act` wasn't called then.
pub(crate) fn while_stopped<T>(areas: &[(u64, u64)], act: impl FnOnce() -> T) -> Result<T> {
    let maps = maps::read("self").unwrap_or_default();
    let now = std::fs::metadata("/proc/self/task").map_or(0, |folder| folder.nlink());
    let most = usize::try_from(now).unwrap_or(0) * 2 + 1024;
    let mut shared = Shared {
        state: AtomicU32::new(BEGINNING),
        error: AtomicI64::new(0),
        process: u64::from(std::process::id()),
        // SAFETY: takes nothing.
        caller: unsafe { system_call(libc::SYS_gettid, [0; 6]) }.cast_unsigned(),
        areas,
        maps: &maps,
        threads: vec![Thread::default(); most],
        count: 0,
    };
    let mut act = Some(act);
    let mut result = with_helper(&mut shared, false, &mut act);
    if result.is_none() && shared.error.load(SeqCst) == -i64::from(libc::EPERM) {
        // Where only a parent may trace, a process can name one more.
        result = with_helper(&mut shared, true, &mut act);
    }
    result.ok_or_else(|| {
        let number = i32::try_from(-shared.error.load(SeqCst)).unwrap_or(0);
        let why = std::io::Error::from_raw_os_error(number);
        let text = format!("other threads run, and they can't be stopped: {why}");
        Error::new(ErrorKind::Threads, text)
    })
}

fn with_helper<T, F: FnOnce() -> T>(
    shared: &mut Shared<'_>,
    names_it: bool,
    act: &mut Option<F>,
) -> Option<T> {
    shared.state.store(BEGINNING, SeqCst);
    shared.count = 0;
    let mut stack = vec![0_u8; STACK];
    let top = stack.as_mut_ptr().wrapping_add(STACK - 64);
    let top = top.wrapping_sub(top as usize % 64);
    let state = &raw const shared.state;
    let error = &raw const shared.error;
    // SAFETY: sets are plain data; the helper gets memory that lives until it has ended, and no signal.
    unsafe {
        let (mut all, mut before) = std::mem::zeroed::<(libc::sigset_t, libc::sigset_t)>();
        libc::sigfillset(&raw mut all);
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const all, &raw mut before);
        let argument = std::ptr::from_mut(shared).cast::<c_void>();
        let helper = libc::clone(help, top.cast(), libc::CLONE_VM, argument);
        let mut result = None;
        if helper < 0 {
            (*error).store(-i64::from(*libc::__errno_location()), SeqCst);
        } else {
            if names_it {
                libc::prctl(libc::PR_SET_PTRACER, helper);
            }
            set(&*state, WORKING);
            let helper = u64::from(helper.cast_unsigned());
            if wait_for_helper(&*state, helper) {
                if (*state).load(SeqCst) == STANDING {
                    result = act.take().map(|act| act());
                    set(&*state, GO_ON);
                }
                let wait = [helper, 0, WCLONE, 0, 0, 0];
                while system_call(libc::SYS_wait4, wait) == -i64::from(libc::EINTR) {}
            } else {
                (*error).store(-i64::from(libc::ESRCH), SeqCst);
            }
            if names_it {
                libc::prctl(libc::PR_SET_PTRACER, 0);
            }
        }
        libc::pthread_sigmask(libc::SIG_SETMASK, &raw const before, std::ptr::null_mut());
        result
    }
}

/// Waits until the helper is done stopping threads. `false` if it was killed.
unsafe fn wait_for_helper(state: &AtomicU32, helper: u64) -> bool {
    while state.load(SeqCst) == WORKING {
        wait(state, WORKING);
        // SAFETY: only asks.
        let ended = unsafe {
            system_call(libc::SYS_wait4, [helper, 0, WCLONE | WNOHANG, 0, 0, 0]).cast_unsigned()
        };
        if ended == helper {
            return matches!(state.load(SeqCst), STANDING | REFUSED);
        }
    }
    true
}

fn set(state: &AtomicU32, value: u32) {
    state.store(value, SeqCst);
    let address = std::ptr::from_ref(state) as u64;
    // SAFETY: wakes whoever waits.
    unsafe {
        system_call(libc::SYS_futex, [address, FUTEX_WAKE, u64::from(u32::MAX >> 1), 0, 0, 0])
    };
}

const FUTEX_WAIT: u64 = 128;
const FUTEX_WAKE: u64 = 129;

/// Waits while the state is `value`, a tenth of a second at most.
fn wait(state: &AtomicU32, value: u32) {
    let time: [usize; 2] = [0, 100_000_000];
    let address = std::ptr::from_ref(state) as u64;
    let time = (&raw const time) as u64;
    // SAFETY: both words live during the call.
    unsafe { system_call(libc::SYS_futex, [address, FUTEX_WAIT, u64::from(value), time, 0, 0]) };
}

/// The helper.
extern "C" fn help(shared: *mut c_void) -> c_int {
    // SAFETY: `with_helper` passes it, and waits.
    unsafe {
        let shared = &mut *shared.cast::<Shared<'_>>();
        // If the program ends meanwhile, so does the helper.
        let kill = [libc::PR_SET_PDEATHSIG as u64, libc::SIGKILL as u64, 0, 0, 0, 0];
        system_call(libc::SYS_prctl, kill);
        while shared.state.load(SeqCst) == BEGINNING {
            wait(&shared.state, BEGINNING);
        }
        let stopped = shared.stop_all();
        if stopped == 0 {
            set(&shared.state, STANDING);
            while shared.state.load(SeqCst) == STANDING {
                wait(&shared.state, STANDING);
            }
        } else {
            shared.error.store(stopped, SeqCst);
        }
        for index in 0..shared.count {
            if let Some(thread) = shared.threads.get(index) {
                ptrace(PTRACE_DETACH, thread.id, 0, thread.signal);
            }
        }
        if stopped != 0 {
            set(&shared.state, REFUSED);
        }
    }
    0
}

/// `ptrace(2)`.
unsafe fn ptrace(request: u64, thread: u64, address: u64, data: u64) -> i64 {
    // SAFETY: the caller promises that the request may be made, and writes to no more than is at `data`.
    unsafe { system_call(libc::SYS_ptrace, [request, thread, address, data, 0, 0]) }
}

impl Shared<'_> {
    /// Stops all threads but the caller's; 0, or `-errno`.
    unsafe fn stop_all(&mut self) -> i64 {
        // A thread that hasn't stopped yet can make others. So it's done when a look finds none that is new.
        loop {
            let known = self.count;
            // SAFETY: the caller promises to be the helper, which is the only tracer.
            unsafe {
                let error = self.seize_all();
                if error != 0 {
                    return error;
                }
                for index in known..self.count {
                    let error = self.wait_for(index);
                    if error != 0 {
                        return error;
                    }
                }
            }
            if self.count == known {
                return 0;
            }
        }
    }

    /// Becomes the tracer of threads that are new, and asks them to stop; 0, or `-errno`.
    unsafe fn seize_all(&mut self) -> i64 {
        let mut path = [0_u8; 32];
        write_path(&mut path, self.process);
        let flags = (libc::O_RDONLY | libc::O_DIRECTORY | libc::O_CLOEXEC) as u64;
        let at = i64::from(libc::AT_FDCWD).cast_unsigned();
        let mut entries = [0_u64; 1024];
        // SAFETY: the path ends with a zero byte, and entries are read into memory of ours.
        unsafe {
            let folder = system_call(libc::SYS_openat, [at, path.as_ptr() as u64, flags, 0, 0, 0]);
            let Ok(folder) = u64::try_from(folder) else { return folder };
            let result = loop {
                let room = entries.as_mut_ptr() as u64;
                let size = size_of_val(&entries) as u64;
                let read = system_call(libc::SYS_getdents64, [folder, room, size, 0, 0, 0]);
                let Ok(length) = usize::try_from(read) else { break read };
                if length == 0 {
                    break 0;
                }
                let error = self.seize_listed(entries.as_ptr().cast(), length);
                if error != 0 {
                    break error;
                }
            };
            system_call(libc::SYS_close, [folder, 0, 0, 0, 0, 0]);
            result
        }
    }

    /// The same for those in `length` bytes of directory entries.
    unsafe fn seize_listed(&mut self, entries: *const u8, length: usize) -> i64 {
        // `struct linux_dirent64`: inode, offset, length of the entry, type, name.
        const LENGTH: usize = 16;
        const NAME: usize = 19;
        let mut at = 0;
        while at + NAME < length {
            // SAFETY: the kernel has written that many bytes of whole entries.
            unsafe {
                let entry = entries.add(at);
                at += usize::from(entry.add(LENGTH).cast::<u16>().read_unaligned());
                let id = number(entry.add(NAME));
                if id == 0 || id == self.caller || self.knows(id) {
                    continue;
                }
                let error = ptrace(PTRACE_SEIZE, id, 0, 0);
                if error == -i64::from(libc::ESRCH) {
                    continue;
                }
                if error != 0 {
                    return error;
                }
                let Some(room) = self.threads.get_mut(self.count) else {
                    return -i64::from(libc::EAGAIN);
                };
                *room = Thread { id, signal: 0, stands: false };
                self.count += 1;
                ptrace(PTRACE_INTERRUPT, id, 0, 0);
            }
        }
        0
    }

    fn knows(&self, id: u64) -> bool {
        self.threads.iter().take(self.count).any(|thread| thread.id == id)
    }

    /// Waits until a thread stands, and moves it out of the areas; 0, or `-errno`.
    unsafe fn wait_for(&mut self, index: usize) -> i64 {
        let Some(thread) = self.threads.get_mut(index) else { return 0 };
        for _ in 0..PATIENCE {
            let mut status = 0_u32;
            let place = (&raw mut status) as u64;
            // SAFETY: the status is ours.
            let found = unsafe {
                system_call(libc::SYS_wait4, [thread.id, place, WALL | WNOHANG, 0, 0, 0])
            };
            if found == 0 {
                nap();
                continue;
            }
            let stopped = u64::from(status);
            if found < 0 || stopped & 0xff != 0x7f {
                // It has ended.
                return 0;
            }
            thread.stands = true;
            // A signal that it was about to get is for it to have; a stop by a signal isn't one.
            thread.signal = if stopped >> 16 == EVENT_STOP { 0 } else { stopped >> 8 & 0xff };
            let id = thread.id;
            // SAFETY: it stands.
            unsafe { self.move_out(id) };
            return 0;
        }
        -i64::from(libc::ETIMEDOUT)
    }

    /// Moves a thread that is inside an area after it, now and when its signal handlers return.
    unsafe fn move_out(&self, id: u64) {
        // SAFETY: the thread stands, and its stacks are mapped.
        unsafe {
            let Some(mut registers) = Stopped::of(id) else { return };
            if let Some(end) = self.end_of_area(registers.place()) {
                registers.go_on_at(id, end);
            }
            let mut stack = registers.stack();
            // Handlers may run on stacks of their own, one upon the other.
            for _ in 0..8 {
                match self.search(stack) {
                    Some(next) => stack = next,
                    None => break,
                }
            }
        }
    }

    /// Looks for frames of signals on a stack, from `start` on to its end; where the code that was interrupted has its
    /// own, if that's another one.
    unsafe fn search(&self, start: u64) -> Option<u64> {
        let map = maps::find(self.maps, start).filter(|map| map.is_readable())?;
        let mut at = start & !(WORD - 1);
        let mut elsewhere = None;
        while at + SIGNAL_FRAME <= map.end {
            // SAFETY: within the mapping, and nobody unmaps it while all threads stand.
            unsafe {
                let word = (at as *const usize).read_volatile() as u64;
                if maps::find(self.maps, word).is_some_and(|map| map.is_code() && map.is_readable())
                    && is_signal_return(word)
                {
                    let (place, stack) = interrupted(at);
                    if let Some(end) = self.end_of_area(place.read_volatile() as u64) {
                        place.cast::<*const ()>().write_volatile(end as *const ());
                    }
                    if !(start..map.end).contains(&stack) {
                        elsewhere = Some(stack);
                    }
                }
            }
            at += WORD;
        }
        elsewhere
    }

    /// The end of the area that `address` is inside of, and not at the start of.
    fn end_of_area(&self, address: u64) -> Option<u64> {
        let behind = self.areas.partition_point(|(start, _)| *start < address);
        let (_, end) = self.areas.get(behind.checked_sub(1)?)?;
        (address < *end).then_some(*end)
    }
}

fn nap() {
    let time: [usize; 2] = [0, 50_000];
    // SAFETY: the time lives during the call.
    unsafe { system_call(libc::SYS_nanosleep, [(&raw const time) as u64, 0, 0, 0, 0, 0]) };
}

/// The number that a string of digits begins with.
unsafe fn number(mut text: *const u8) -> u64 {
    let mut number = 0;
    // SAFETY: the string ends with a zero byte.
    unsafe {
        while (*text).is_ascii_digit() {
            number = number * 10 + u64::from(*text - b'0');
            text = text.add(1);
        }
    }
    number
}

/// Writes `/proc/PROCESS/task`.
fn write_path(room: &mut [u8; 32], process: u64) {
    let mut digits = [0; 20];
    let mut count = 0;
    let mut rest = process;
    for digit in &mut digits {
        *digit = b'0' + u8::try_from(rest % 10).unwrap_or(0);
        rest /= 10;
        count += 1;
        if rest == 0 {
            break;
        }
    }
    let digits = digits.into_iter().take(count).rev();
    let text = b"/proc/".iter().copied().chain(digits).chain(*b"/task\0");
    for (room, byte) in room.iter_mut().zip(text) {
        *room = byte;
    }
}

#[cfg(test)]
mod tests {
    use super::{while_stopped, write_path};
    use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
    use std::thread;
    use std::time::Duration;

    #[test]
    fn a_path() {
        let mut path = [0; 32];
        write_path(&mut path, 1203);
        assert!(path.starts_with(b"/proc/1203/task\0"));
    }

    #[test]
    fn others_stand_and_go_on() {
        let (count, stop) = (AtomicU64::new(0), AtomicBool::new(false));
        thread::scope(|scope| {
            for _ in 0..3 {
                scope.spawn(|| {
                    while !stop.load(SeqCst) {
                        count.fetch_add(1, SeqCst);
                    }
                });
            }
            // One that is in a system call.
            scope.spawn(|| thread::sleep(Duration::from_millis(200)));
            while count.load(SeqCst) < 1000 {}
            for _ in 0..20 {
                let moved = while_stopped(&[], || {
                    let before = count.load(SeqCst);
                    for _ in 0..100_000 {
                        std::hint::spin_loop();
                    }
                    count.load(SeqCst) - before
                });
                assert_eq!(moved, Ok(0));
                let before = count.load(SeqCst);
                while count.load(SeqCst) < before + 1000 {}
            }
            stop.store(true, SeqCst);
        });
    }
}
