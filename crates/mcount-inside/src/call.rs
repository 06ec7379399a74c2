//! What handlers in Rust see of a call, and what they can do to it.
//!
//! To look is safe. To change registers is not: the compiler relies on what it has put there.

use crate::record::{Call, Function, Registers, Vector};
use std::borrow::Cow;
use std::ffi::{CStr, c_char};
use std::sync::atomic::Ordering;

unsafe fn text<'a>(string: *const c_char) -> Cow<'a, str> {
    // SAFETY: the caller's: it ends with a zero byte, and stays.
    unsafe { CStr::from_ptr(string) }.to_string_lossy()
}

impl Function {
    /// Its name as people write it; empty if no symbol says it.
    #[must_use]
    pub fn name(&self) -> Cow<'_, str> {
        // SAFETY: the strings are never changed and never freed.
        unsafe { text(self.name) }
    }

    /// Its name as the symbol table has it.
    #[must_use]
    pub fn symbol(&self) -> Cow<'_, str> {
        // SAFETY: as above.
        unsafe { text(self.symbol) }
    }

    /// The path of the file that it's in.
    #[must_use]
    pub fn module(&self) -> Cow<'_, str> {
        // SAFETY: as above.
        unsafe { text(self.module) }
    }

    /// Where it is.
    #[must_use]
    pub fn address(&self) -> u64 {
        self.address.load(Ordering::Acquire)
    }

    /// Its bytes; 0 if no symbol says it.
    #[must_use]
    pub fn size(&self) -> u64 {
        self.size
    }
}

impl Call {
    /// The function that is called.
    #[must_use]
    pub fn function(&self) -> &Function {
        // SAFETY: handlers see calls only after this was set, and functions are never freed.
        unsafe { &*self.function }
    }

    /// The registers: arguments at the entry, the result at the exit.
    #[must_use]
    pub fn registers(&self) -> &Registers {
        &self.registers
    }

    /// The same, to be changed. They get into the processor when the handlers are done.
    ///
    /// # Safety
    ///
    /// The function, or its caller, must be able to go on with what is put there.
    pub unsafe fn registers_mut(&mut self) -> &mut Registers {
        &mut self.registers
    }

    /// `xmm0` to `xmm15`. `None` unless the handlers have asked for them.
    #[must_use]
    pub fn vectors(&self) -> Option<&[Vector; 16]> {
        // SAFETY: there are sixteen, on the stack of the routine that has called the handler.
        unsafe { self.vectors.cast::<[Vector; 16]>().as_ref() }
    }

    /// The same, to be changed.
    ///
    /// # Safety
    ///
    /// As [`Self::registers_mut`].
    pub unsafe fn vectors_mut(&mut self) -> Option<&mut [Vector; 16]> {
        // SAFETY: as above.
        unsafe { self.vectors.cast::<[Vector; 16]>().as_mut() }
    }

    /// The upper halves of `ymm0` to `ymm15`. `None` also on a processor without AVX.
    #[must_use]
    pub fn vectors_high(&self) -> Option<&[Vector; 16]> {
        // SAFETY: as above.
        unsafe { self.vectors_high.cast::<[Vector; 16]>().as_ref() }
    }

    /// Where on the stack the return address is. After it are the arguments that aren't in registers.
    #[must_use]
    pub fn stack(&self) -> u64 {
        self.stack
    }

    /// Where the function returns to.
    #[must_use]
    pub fn return_address(&self) -> u64 {
        self.return_address
    }

    /// At the entry: sends the call to another function.
    ///
    /// # Safety
    ///
    /// It must have the type of the function that is called.
    pub unsafe fn redirect(&mut self, function: usize) {
        self.target = function as u64;
    }

    /// At the exit: how the call ended, one of [`end`](crate::end).
    #[must_use]
    pub fn end(&self) -> u32 {
        self.end
    }
}
