//! The unwinders of the process, and what they let a personality routine do. There may be several: one in a
//! library, others linked into programs. Each has its own context, so each is asked by its own functions.

#[cfg_attr(target_arch = "arm", path = "unwinders/ehabi.rs")]
#[cfg_attr(not(target_arch = "arm"), path = "unwinders/itanium.rs")]
mod here;

pub(crate) use here::{NAMES, own};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Addresses of these functions.
pub(crate) type Functions = [u64; NAMES.len()];

/// An address, or what a register has, as functions of an unwinder take it.
fn word(value: u64) -> usize {
    value as *const () as usize
}

/// An unwinder: where it is, and its functions in the order of [`NAMES`].
pub(crate) struct Unwinder {
    low: AtomicU64,
    high: AtomicU64,
    functions: [AtomicU64; NAMES.len()],
}

const MOST: usize = 16;

static ALL: [Unwinder; MOST] = [const {
    Unwinder {
        low: AtomicU64::new(0),
        high: AtomicU64::new(0),
        functions: [const { AtomicU64::new(0) }; NAMES.len()],
    }
}; MOST];

/// Takes note of the unwinder in the module at these addresses.
pub(crate) fn add((low, high): (u64, u64), functions: Functions) {
    let Some(room) = ALL.iter().find(|one| one.has_room_for(high)) else { return };
    for (room, function) in room.functions.iter().zip(functions) {
        room.store(function, Relaxed);
    }
    room.low.store(low, Relaxed);
    room.high.store(high, Relaxed);
}

/// The unwinder that code at `caller` is of.
pub(crate) fn of(caller: u64) -> Option<&'static Unwinder> {
    ALL.iter().find(|one| (one.low.load(Relaxed)..one.high.load(Relaxed)).contains(&caller))
}

impl Unwinder {
    /// Whether it is that of no module, or of the one that ends at `high`.
    fn has_room_for(&self, high: u64) -> bool {
        [0, high].contains(&self.high.load(Relaxed))
    }

    fn function(&self, index: usize) -> *const () {
        self.functions.get(index).map_or(0, |function| function.load(Relaxed)) as *const ()
    }
}
