//! What people say to a recorder that runs: SIGUSR1 has it pause, and go on; SIGUSR2 has it write the newest calls to a trace of
//! their own.

use nix::libc;
use signal_hook::consts::{SIGUSR1, SIGUSR2};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};

/// What has been said, and not been done yet.
#[derive(Debug, Clone, Default)]
pub(super) struct Told {
    pause: Arc<AtomicBool>,
    snapshot: Arc<AtomicBool>,
}

/// The signals.
pub(super) const SIGNALS: [libc::c_int; 2] = [SIGUSR1, SIGUSR2];

impl Told {
    /// Listens from now on.
    pub(super) fn listen() -> io::Result<Self> {
        let told = Self::default();
        signal_hook::flag::register(SIGUSR1, Arc::clone(&told.pause))?;
        signal_hook::flag::register(SIGUSR2, Arc::clone(&told.snapshot))?;
        Ok(told)
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

/// What is said when a recorder has paused, or goes on.
pub(super) fn line(is_paused: bool) -> &'static str {
    if is_paused {
        "paused: nothing is recorded until SIGUSR1 comes again"
    } else {
        "recording again"
    }
}

/// What is said where there's no ring to be written.
pub(super) const NO_RING: &str = "nothing written: SIGUSR2 writes what --ring keeps";
