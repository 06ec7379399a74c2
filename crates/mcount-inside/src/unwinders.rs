//! The unwinders of the process, and what they let a personality routine do. There may be several: one in a
//! library, others linked into programs. Each has its own context, so each is asked by its own functions.

use std::ffi::c_int;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// Their names in symbol tables. A program may have been linked without the last one.
pub(crate) const NAMES: [&str; 5] =
    ["_Unwind_GetIP", "_Unwind_SetIP", "_Unwind_SetGR", "_Unwind_Resume", "_Unwind_GetCFA"];

/// Addresses of these functions.
pub(crate) type Functions = [u64; NAMES.len()];

unsafe extern "C" {
    fn _Unwind_GetIP();
    fn _Unwind_SetIP();
    fn _Unwind_SetGR();
    fn _Unwind_Resume();
    fn _Unwind_GetCFA();
}

/// The functions of the unwinder that this library itself is linked to.
pub(crate) fn own() -> Functions {
    [
        _Unwind_GetIP as *const () as u64,
        _Unwind_SetIP as *const () as u64,
        _Unwind_SetGR as *const () as u64,
        _Unwind_Resume as *const () as u64,
        _Unwind_GetCFA as *const () as u64,
    ]
}

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

    /// The address that the frame of `context` goes on at.
    ///
    /// # Safety
    ///
    /// It's a context of this unwinder's.
    pub(crate) unsafe fn address(&self, context: u64) -> u64 {
        // SAFETY: the function was found by its name, which says its type.
        unsafe {
            let get: extern "C" fn(usize) -> usize = std::mem::transmute(self.function(0));
            get(word(context)) as u64
        }
    }

    /// Has it go on at `address`.
    ///
    /// # Safety
    ///
    /// As above.
    pub(crate) unsafe fn set_address(&self, context: u64, address: u64) {
        // SAFETY: as above.
        unsafe {
            let set: extern "C" fn(usize, usize) = std::mem::transmute(self.function(1));
            set(word(context), word(address));
        }
    }

    /// Has it go on with this value in a register, which has its number in DWARF.
    ///
    /// # Safety
    ///
    /// As above.
    pub(crate) unsafe fn set_register(&self, context: u64, register: c_int, value: u64) {
        // SAFETY: as above.
        unsafe {
            let set: extern "C" fn(usize, c_int, usize) = std::mem::transmute(self.function(2));
            set(word(context), register, word(value));
        }
    }

    /// The canonical frame address of the function that the frame of `context` has called. `None` if the unwinder doesn't say.
    ///
    /// # Safety
    ///
    /// As above.
    pub(crate) unsafe fn above(&self, context: u64) -> Option<u64> {
        let function = self.function(4);
        if function.is_null() {
            return None;
        }
        // SAFETY: as above.
        unsafe {
            let get: extern "C" fn(usize) -> usize = std::mem::transmute(function);
            Some(get(word(context)) as u64)
        }
    }

    /// Where unwinding is resumed.
    pub(crate) fn resume(&self) -> u64 {
        self.function(3) as u64
    }
}
