//! Breakpoints that stand at sites while they change: a thread that runs into one goes on after the site.
//!
//! It's a signal handler for SIGTRAP, there from the first use on. A trap that isn't at a site is for whoever had the
//! signal before. The signal may come late, when the site has long been changed; so sites are known as long as
//! their module is loaded.

use crate::arch::{self, code};
use crate::error::{Error, ErrorKind, Result};
use std::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::sync::Mutex;
use std::sync::atomic::{AtomicPtr, AtomicUsize, Ordering::Acquire, Ordering::Release};

/// The sites of a module: address and length, in ascending order. It's never freed, because a handler may look at it.
#[derive(Debug)]
pub(crate) struct Traps(Vec<(u64, usize)>);

const MOST: usize = 4096;
static ALL: [AtomicPtr<Traps>; MOST] = [const { AtomicPtr::new(std::ptr::null_mut()) }; MOST];
static COUNT: AtomicUsize = AtomicUsize::new(0);

/// The handler that had the signal before.
static BEFORE: AtomicPtr<libc::sigaction> = AtomicPtr::new(std::ptr::null_mut());

/// Makes the sites of a module known. The caller holds the lock of the program.
pub(crate) fn add(sites: Vec<(u64, usize)>) -> Option<&'static Traps> {
    let place = ALL.iter().position(|place| place.load(Acquire).is_null())?;
    let traps = Box::leak(Box::new(Traps(sites)));
    ALL.get(place)?.store(traps, Release);
    COUNT.fetch_max(place + 1, Release);
    Some(traps)
}

/// The module is no longer there. The caller holds the lock of the program.
pub(crate) fn remove(traps: &'static Traps) {
    if let Some(place) = ALL.iter().find(|place| std::ptr::eq(place.load(Acquire), traps)) {
        place.store(std::ptr::null_mut(), Release);
    }
}

/// The length of the area of the site at `address`.
fn length(address: u64) -> Option<usize> {
    ALL.iter().take(COUNT.load(Acquire)).find_map(|place| {
        // SAFETY: never freed.
        let sites = unsafe { place.load(Acquire).as_ref() }?;
        let index = sites.0.binary_search_by_key(&address, |(address, _)| *address).ok()?;
        sites.0.get(index).map(|(_, length)| *length)
    })
}

/// Sees to it that the signal comes here.
pub(crate) fn prepare() -> Result<()> {
    static LOCK: Mutex<()> = Mutex::new(());
    let _lock = LOCK.lock();
    let wrong = || Error::system(ErrorKind::Denied, "SIGTRAP");
    // SAFETY: actions are plain data; ours is a function of this library, which isn't unloaded.
    unsafe {
        let mut now = MaybeUninit::<libc::sigaction>::zeroed();
        if libc::sigaction(libc::SIGTRAP, std::ptr::null(), now.as_mut_ptr()) != 0 {
            return Err(wrong());
        }
        let now = now.assume_init();
        let handler = trapped as *const () as usize;
        if now.sa_sigaction == handler {
            return Ok(());
        }
        // A handler may be looking at what was there before, so that isn't freed.
        BEFORE.store(Box::leak(Box::new(now)), Release);
        let mut ours = MaybeUninit::<libc::sigaction>::zeroed().assume_init();
        ours.sa_sigaction = handler;
        ours.sa_flags = libc::SA_SIGINFO | libc::SA_ONSTACK | libc::SA_RESTART | libc::SA_NODEFER;
        match libc::sigaction(libc::SIGTRAP, &raw const ours, std::ptr::null_mut()) {
            0 => Ok(()),
            _ => Err(wrong()),
        }
    }
}

extern "C" fn trapped(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the kernel passes these.
    unsafe {
        let address = arch::place_of_trap(context);
        if let Some(length) = length(address) {
            // Perhaps the site has changed since: then what is there now is to be executed.
            let is_trap = code::BREAKPOINT.iter().zip(address..).all(|(byte, at)| {
                // SAFETY: as above: the site is there.
                (at as *const u8).read_volatile() == *byte
            });
            arch::go_on(
                context,
                if is_trap { code::behind_trap(address, length) } else { address },
            );
            return;
        }
        pass_on(signal, info, context);
    }
}

/// Does what would have been done without this library.
unsafe fn pass_on(signal: c_int, info: *mut libc::siginfo_t, context: *mut c_void) {
    // SAFETY: the caller's; what was there before was a handler of the type that its flags say.
    unsafe {
        let before = BEFORE.load(Acquire).as_ref();
        let handler = before.map_or(libc::SIG_DFL, |before| before.sa_sigaction);
        if handler == libc::SIG_IGN {
            return;
        }
        if handler == libc::SIG_DFL {
            libc::signal(signal, libc::SIG_DFL);
            libc::raise(signal);
            return;
        }
        if before.is_some_and(|before| before.sa_flags & libc::SA_SIGINFO != 0) {
            let handler: extern "C" fn(c_int, *mut libc::siginfo_t, *mut c_void) =
                std::mem::transmute(handler);
            handler(signal, info, context);
        } else {
            let handler: extern "C" fn(c_int) = std::mem::transmute(handler);
            handler(signal);
        }
    }
}
