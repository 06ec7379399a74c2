//! What people say to a recorder that runs: SIGUSR1 pauses it, or lets it go on; SIGUSR2 makes it write the newest calls to a trace of
//! their own.

use nix::libc;
use signal_hook::consts::{SIGHUP, SIGINT, SIGTERM, SIGUSR1, SIGUSR2};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// The pending requests. By default it listens to nothing.
#[derive(Debug, Clone, Default)]
pub(super) struct Told {
    pause: Arc<AtomicBool>,
    snapshot: Arc<AtomicBool>,
    end: Arc<AtomicBool>,
}

/// The signals.
pub(super) const SIGNALS: [libc::c_int; 2] = [SIGUSR1, SIGUSR2];

impl Told {
    /// Listens from now on. Ignored signals stay ignored, because programs inherit that.
    pub(super) fn listen() -> io::Result<Self> {
        let told = Self::default();
        for (signal, flag) in [(SIGUSR1, &told.pause), (SIGUSR2, &told.snapshot)] {
            if !is_ignored(signal) {
                signal_hook::flag::register(signal, Arc::clone(flag))?;
            }
        }
        Ok(told)
    }

    /// Listens to signals that end a program, too.
    pub(super) fn listen_for_end(&self) -> io::Result<()> {
        for signal in [SIGHUP, SIGINT, SIGTERM] {
            signal_hook::flag::register(signal, Arc::clone(&self.end))?;
        }
        Ok(())
    }

    /// Is it to end?
    pub(super) fn to_end(&self) -> bool {
        self.end.load(SeqCst)
    }

    /// Is there something to be done?
    pub(super) fn is_something(&self) -> bool {
        self.pause.load(SeqCst) || self.snapshot.load(SeqCst)
    }

    /// Is it to pause, or to go on? It's said once.
    pub(super) fn to_pause(&self) -> bool {
        self.pause.swap(false, SeqCst)
    }

    /// Are the newest calls to be written? It's said once.
    pub(super) fn to_write(&self) -> bool {
        self.snapshot.swap(false, SeqCst)
    }
}

/// Does this process ignore a signal?
pub(super) fn is_ignored(signal: libc::c_int) -> bool {
    // SAFETY: nothing is changed, and what there is goes to a value of ours.
    unsafe {
        let mut action: libc::sigaction = std::mem::zeroed();
        libc::sigaction(signal, std::ptr::null(), &raw mut action) == 0
            && action.sa_sigaction == libc::SIG_IGN
    }
}

/// The message when a recorder has paused, or goes on.
pub(super) fn line(is_paused: bool) -> &'static str {
    if is_paused { "paused: send SIGUSR1 again to go on" } else { "recording again" }
}

/// The message where there's no ring to write.
pub(super) const NO_RING: &str = "nothing written: SIGUSR2 needs --ring";
