//! Unwinders as on most processors (Itanium C++ ABI, "Exception Handling"): a personality routine is told of each frame, and says where
//! unwinding stops.

use super::{Functions, Unwinder, word};
use std::ffi::c_int;

/// Their names in symbol tables. A program may have been linked without the last one.
pub(crate) const NAMES: [&str; 5] =
    ["_Unwind_GetIP", "_Unwind_SetIP", "_Unwind_SetGR", "_Unwind_Resume", "_Unwind_GetCFA"];

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

impl Unwinder {
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

    /// Makes it go on at `address`.
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

    /// Makes it go on with this value in a register, which has its number in DWARF.
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
