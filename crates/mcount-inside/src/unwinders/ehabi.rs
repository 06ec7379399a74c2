//! Unwinders by the Exception Handling ABI for the Arm Architecture (EHABI): a personality routine gets and sets registers of the
//! frame that it unwinds.

use super::{Functions, Unwinder, word};

/// Their names in symbol tables. A program may have been linked without the last one.
pub(crate) const NAMES: [&str; 3] =
    ["_Unwind_VRS_Get", "_Unwind_VRS_Set", "_Unwind_GetLanguageSpecificData"];

unsafe extern "C" {
    fn _Unwind_VRS_Get();
    fn _Unwind_VRS_Set();
    fn _Unwind_GetLanguageSpecificData();
}

/// The functions of the unwinder that this library itself is linked to.
pub(crate) fn own() -> Functions {
    [
        _Unwind_VRS_Get as *const () as u64,
        _Unwind_VRS_Set as *const () as u64,
        _Unwind_GetLanguageSpecificData as *const () as u64,
    ]
}

/// Of a core register, and of 32 bits.
const CORE: u32 = 0;
const UINT32: u32 = 0;

/// `_Unwind_VRS_Get` and `_Unwind_VRS_Set`: context, kind of register, its number, of how many bits, and where the value is.
type Access = extern "C" fn(usize, u32, u32, u32, *mut u32) -> u32;

impl Unwinder {
    /// The value of a core register in the frame of `context`.
    ///
    /// # Safety
    ///
    /// It's a context of this unwinder's.
    pub(crate) unsafe fn register(&self, context: u32, register: u32) -> u32 {
        let mut value = 0;
        // SAFETY: the function was found by its name, which says its type.
        unsafe {
            let get: Access = std::mem::transmute(self.function(0));
            get(word(u64::from(context)), CORE, register, UINT32, &raw mut value);
        }
        value
    }

    /// Makes it go on with this value there.
    ///
    /// # Safety
    ///
    /// As above.
    pub(crate) unsafe fn set_register(&self, context: u32, register: u32, value: u32) {
        let mut value = value;
        // SAFETY: as above.
        unsafe {
            let set: Access = std::mem::transmute(self.function(1));
            set(word(u64::from(context)), CORE, register, UINT32, &raw mut value);
        }
    }
}
