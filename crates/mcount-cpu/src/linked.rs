//! What processors have in common that keep the caller's address in a register: a call, as the agent's assembly makes it.
#![expect(clippy::cast_possible_truncation, reason = "there are few registers")]
#![expect(unsafe_code, reason = "memory is read and written whose place is in registers")]

use crate::assembly::number;
use crate::marker::Marker;
use crate::recipe::{RAX as RESULT, RDX as SECOND_RESULT, VECTOR};
use core::marker::PhantomData;
use core::mem::offset_of;

/// The registers and the place of a call. The assembly's numbers (`.set CALL_SP, 80`) are these.
#[derive(Debug)]
#[repr(C)]
pub struct Call {
    /// Those of arguments and results, first.
    pub registers: [u64; 10],
    /// The stack pointer of the caller.
    pub stack: u64,
    /// The address of the hook.
    pub place: u64,
    /// The slot.
    pub slot: u64,
    /// Where its function returns to.
    pub caller: u64,
    rest: [u64; 6],
    /// What its stub says about its function.
    pub record: *const Record,
    spare: u64,
    /// Where vector registers were saved, 16 bytes each, first.
    pub area: [u64; 2],
    /// Where the caller's address is to be changed.
    pub link: *mut u64,
}

/// A stub's data about its function.
#[derive(Debug)]
#[repr(C)]
pub struct Record {
    /// Where it goes on.
    pub body: u64,
    /// The routine of its entry.
    pub entry: u64,
    /// What has to be known of its frame if the hook is behind its prologue.
    pub frame: u64,
    zero: u32,
    /// Its number, and above it what it is for what is recorded.
    pub number: u32,
}

/// Are the numbers of this assembly those of the structures?
#[must_use]
pub const fn is_as_in(text: &str) -> bool {
    offset_of!(Call, stack) == number(text, "CALL_SP")
        && offset_of!(Call, slot) == number(text, "CALL_STACK")
        && offset_of!(Call, caller) == number(text, "CALL_RETURN")
        && offset_of!(Call, record) == number(text, "CALL_RECORD")
        && offset_of!(Call, area) == number(text, "CALL_AREA")
        && offset_of!(Call, link) == number(text, "CALL_LINK")
        && size_of::<Call>() <= number(text, "CALL_SIZE")
        && offset_of!(Record, body) == number(text, "RECORD_BODY")
        && offset_of!(Record, number) == number(text, "RECORD_ID")
}

/// No register leads to a thread's block: there's no value of this.
#[derive(Debug, Clone, Copy)]
pub enum NoRegister {}

impl NoRegister {
    /// Never called.
    ///
    /// # Safety
    ///
    /// Anything.
    #[must_use]
    pub unsafe fn word<const OFFSET: usize>(self) -> u64 {
        match self {}
    }

    /// Never called.
    ///
    /// # Safety
    ///
    /// Anything.
    pub unsafe fn set(self, _: u64, _: bool) {
        match self {}
    }
}

/// How functions keep the caller's address.
pub trait Link {
    /// An address to return to, as the function of this call keeps it.
    fn kept(call: &Call, address: u64) -> u64;
}

/// They keep it as it is.
#[derive(Debug)]
pub enum Plain {}

impl Link for Plain {
    #[inline]
    fn kept(_: &Call, address: u64) -> u64 {
        address
    }
}

/// A call whose hook is behind its function's prologue.
#[derive(Debug)]
pub struct LateCall<L> {
    call: *const Call,
    way: PhantomData<L>,
    /// The slot.
    pub slot: *mut u64,
    /// Where its function returns to.
    pub caller: u64,
    /// Its function's number, and above it what it is for what is recorded.
    pub word: u32,
}

impl<L: Link> LateCall<L> {
    /// That of a [`Call`].
    ///
    /// # Safety
    ///
    /// The routine of such entries has called with these arguments.
    #[inline]
    #[must_use]
    pub unsafe fn of(call: *mut u64, _: u32) -> Self {
        let call = call.cast_const().cast::<Call>();
        // SAFETY: the caller promises that the routine has made the call; the record is in a stub.
        unsafe {
            let Call { slot, caller, record, .. } = *call;
            Self { call, way: PhantomData, slot: slot as *mut u64, caller, word: (*record).number }
        }
    }

    /// The call itself.
    #[must_use]
    pub fn call(&self) -> &Call {
        // SAFETY: whoever has made this promised that it's there, and stays as long as the call isn't gone on with.
        unsafe { &*self.call }
    }

    /// The function returns to `address`, which is written where its prologue has stored that.
    ///
    /// # Safety
    ///
    /// The call is under way.
    #[inline]
    pub unsafe fn return_to(&self, address: u64) {
        let address = L::kept(self.call(), address);
        // SAFETY: the link is in a frame of this thread's.
        unsafe { self.call().link.write_volatile(address) };
    }
}

/// Where the value of a source of recipes was saved, in the call at `state`, and how many bytes that are.
///
/// # Safety
///
/// A routine has made that call, and saved vector registers at its area.
#[expect(clippy::cast_ptr_alignment, reason = "the routine has aligned the call")]
#[must_use]
pub unsafe fn saved(_: u64, state: *const u8, source: u64) -> (*const u8, usize) {
    let call = state.cast::<Call>();
    // SAFETY: the caller promises that the routine has made the call.
    unsafe {
        let (registers, area) = ((*call).registers.as_ptr(), (*call).area[0] as *const u8);
        match source {
            RESULT | SECOND_RESULT => (registers.add((source - RESULT) as usize).cast(), 8),
            0..VECTOR => (registers.add(source as usize).cast(), 8),
            _ => (area.add(16 * (source - VECTOR) as usize % 512), 16),
        }
    }
}

/// Markers in the middle of functions have no jump here.
///
/// # Safety
///
/// Nothing has to hold.
#[must_use]
pub unsafe fn marker(_: *const u64, _: *const u8) -> Option<Marker> {
    None
}
