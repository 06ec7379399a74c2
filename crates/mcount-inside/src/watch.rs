//! What happens at the entry and the exit of a watched function: its handlers are called.
//!
//! The assembly has kept all registers before it calls these functions. They run in any thread, anywhere: in signal
//! handlers, between `fork` and `exec`, while the program holds any lock. So they take no lock and allocate nothing.
//!
//! A call that a handler makes isn't shown to handlers, nor is one that a signal handler makes while a handler runs in
//! the same thread: [`missed`] counts them.

use crate::agent::Return;
use crate::arch;
use crate::frames;
use crate::record::{Call, Handlers, List, Record, action, end, flags};
#[cfg(not(target_arch = "arm"))]
use crate::unwinders;
use crate::{agent, lists, records};
use mcount_recorder::pad_table;
use std::ffi::c_int;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many calls were not shown to handlers.
pub(crate) static MISSED: AtomicU64 = AtomicU64::new(0);

/// How many calls were not shown to handlers, because one was running.
pub(crate) fn missed() -> u64 {
    MISSED.load(Ordering::Relaxed)
}

pub(crate) fn miss() {
    MISSED.fetch_add(1, Ordering::Relaxed);
}

/// The time in which handlers run: `errno` is put back. The routines see to it that no others begin in this thread.
struct Turn {
    errno: c_int,
}

impl Turn {
    fn begin() -> Self {
        // SAFETY: this thread's own.
        Self { errno: unsafe { *libc::__errno_location() } }
    }
}

impl Drop for Turn {
    fn drop(&mut self) {
        // SAFETY: this thread's own.
        unsafe { *libc::__errno_location() = self.errno };
    }
}

/// A function is entered.
///
/// # Safety
///
/// Called by the entry routine only.
pub(crate) unsafe extern "C" fn entered(call: *mut Call) {
    // SAFETY: the routine has made the call, and the slot is on its stack.
    unsafe { begin(&mut *call) };
}

/// A function is entered whose hook is behind its prologue: there's no way to leave it out any more, or to send the
/// call elsewhere. It returns to the slot, so that is changed.
///
/// # Safety
///
/// Called by the entry routine only.
#[cfg_attr(target_arch = "s390x", expect(dead_code, reason = "all hooks are at entries there"))]
pub(crate) unsafe extern "C" fn entered_late(call: *mut Call) {
    // SAFETY: as above.
    unsafe {
        let call = &mut *call;
        begin(call);
        if call.action == action::CALL {
            arch::return_to(call, arch::return_address());
        }
        call.target = (*call.record).body.load(Ordering::Acquire);
    }
}

unsafe fn begin(call: &mut Call) {
    take_room();
    // SAFETY: records are never freed.
    let record = unsafe { &*call.record };
    call.target = record.body.load(Ordering::Acquire);
    call.action = action::JUMP;
    call.function = record.function;
    call.data = 0;
    call.end = end::RETURN;
    // SAFETY: lists are never freed.
    let list = unsafe { record.list.load(Ordering::Acquire).as_ref() };
    let _turn = Turn::begin();
    let returns_to = call.return_address;
    // SAFETY: the routine has made the call; a slot with an address of ours has shadows.
    unsafe {
        let is_tail_call = arch::is_return(returns_to);
        if is_tail_call {
            end_before(call, returns_to);
        }
        if let Some(list) = list {
            arch::show_vectors(call, list.flags);
            if !enter(call, list) {
                call.action = action::RETURN;
                return;
            }
        }
        follow(call, record, list, returns_to);
    }
}

/// Touches as much of the stack as [`follow`] needs. Where a thread runs out of it, that shows before handlers have seen a call that
/// can't begin.
#[inline(never)]
fn take_room() {
    const ROOM: usize = 3072;
    let mut room = core::mem::MaybeUninit::<[u8; ROOM]>::uninit();
    // The compiler has to keep all of it, as it doesn't know what is done with it here.
    let lowest = core::hint::black_box(&mut room).as_mut_ptr().cast::<u8>();
    // SAFETY: the lowest byte of a variable of this function.
    unsafe { lowest.write_volatile(0) };
}

/// Calls the entry handlers. `false`: the call is to return at once.
unsafe fn enter(call: &mut Call, list: &List) -> bool {
    for (index, handlers) in list.all.iter().enumerate() {
        let Some(entry) = handlers.entry else { continue };
        if !handlers.is_alive.load(Ordering::Acquire) {
            continue;
        }
        // SAFETY: who gave the handler says that it's a function of this type.
        if unsafe { entry(call, handlers.data) } != 0 {
            // To those who saw it begin, this is how it ends.
            let before = list.all.get(..index).unwrap_or_default();
            // SAFETY: as above.
            unsafe { leave(call, before) };
            return false;
        }
    }
    true
}

/// Calls exit handlers, the last one first.
unsafe fn leave(call: &mut Call, all: &[&'static Handlers]) {
    for handlers in all.iter().rev() {
        if let Some(exit) = handlers.exit
            && handlers.is_alive.load(Ordering::Acquire)
        {
            // SAFETY: who gave the handler says that it's a function of this type.
            unsafe { exit(call, handlers.data) };
        }
    }
}

/// Records the call, which `returns_to` an address of ours if it's a tail call, and sees to it that its return
/// is seen, if a handler wants that.
unsafe fn follow(call: &mut Call, record: &Record, list: Option<&List>, returns_to: u64) {
    let list = list.filter(|list| list.flags & flags::EXITS != 0);
    let is_traced = record.flags.load(Ordering::Acquire) & flags::TRACED != 0;
    if list.is_none() && !is_traced {
        return;
    }
    let slot = call.stack;
    // SAFETY: the shadows are there if the slot is covered.
    unsafe {
        if !frames::cover(slot) {
            return miss();
        }
        let who = list.map_or(0, |list| who(record, list));
        let mut seen = Return::AsBefore;
        if is_traced {
            seen = agent::enter(slot, returns_to, record.id);
        }
        if arch::is_return(returns_to) {
            frames::of(slot).data.write_volatile(call.data);
            agent::own_as_before(slot, returns_to, who);
            if arch::pads().number_of(returns_to).is_none() {
                arch::return_to(call, arch::return_address());
            }
            return;
        }
        if seen == Return::AsBefore && who != 0 {
            seen = agent::watch(slot, returns_to);
        }
        if seen != Return::AsBefore {
            frames::of(slot).data.write_volatile(call.data);
        }
        agent::own(slot, seen, who);
        match seen {
            Return::Stub => call.action = action::CALL,
            Return::Pad(pad) => arch::return_to(call, pad),
            Return::AsBefore if who != 0 => miss(),
            Return::AsBefore => {}
        }
    }
}

/// Function and handlers in one word, as `x86_64.s` knows it: the highest bit says that vector registers are wanted.
fn who(record: &Record, list: &List) -> u64 {
    let vectors = u64::from(list.flags & flags::VECTORS != 0);
    vectors << 63 | u64::from(list.index) << 32 | u64::from(record.id)
}

/// The call of the slot, which returns to `address`, has ended like this: calls the exit handlers of those who saw it begin.
unsafe fn finish(call: &mut Call, address: u64, how: u32) {
    let frame = frames::of(call.stack);
    // SAFETY: the caller's: the slot has shadows.
    unsafe {
        let who = frame.who.read_volatile() & !frames::OF_PAD;
        frame.who.write_volatile(0);
        let index = u16::try_from(who >> 32 & 0xffff).unwrap_or(0);
        let id = u32::try_from(who & 0xffff_ffff).unwrap_or(0);
        let (Some(list), Some(record)) = (lists::get(index), records::get(id)) else { return };
        call.function = record.function;
        call.data = frame.data.read_volatile();
        call.return_address = agent::caller(call.stack, address);
        call.target = 0;
        call.end = how;
        arch::show_vectors(call, list.flags);
        leave(call, &list.all);
    }
}

/// The call that begins takes the place of another one, which returns to `address` and has ended.
unsafe fn end_before(call: &mut Call, address: u64) {
    let mut ended = Call::at(call.stack);
    // SAFETY: the caller promises that the slot returns to `address`. A frame that was copied elsewhere has no shadows there.
    unsafe {
        agent::claim(call.stack, address);
        if frames::cover(call.stack) {
            finish(&mut ended, address, end::TAIL_CALL);
        }
        call.return_address = agent::caller(call.stack, address);
    }
}

/// The call of the slot, which returns to `address`, has ended like this: its caller's address.
unsafe fn conclude(call: &mut Call, address: u64, how: u32) -> u64 {
    // SAFETY: the caller's: the call has returned to this address.
    unsafe {
        agent::claim(call.stack, address);
        // It can't be busy: calls that begin in a handler aren't watched.
        if frames::cover(call.stack) && frames::of(call.stack).who.read_volatile() != 0 {
            let _turn = Turn::begin();
            finish(call, address, how);
        }
        agent::finish(call.stack, how == end::UNWOUND);
        agent::let_go(call.stack, address)
    }
}

/// A watched function has returned.
///
/// # Safety
///
/// Called by the exit routine only.
pub(crate) unsafe extern "C" fn left(call: *mut Call) {
    // SAFETY: the routine has made the call; its slot has shadows.
    unsafe {
        let call = &mut *call;
        let address = pad_table::returned_to(call.stack as *mut u64);
        call.return_address = conclude(call, address, end::RETURN);
    }
}

/// An exception has left a watched function; the caller's address.
///
/// # Safety
///
/// Called by the landing only.
#[cfg(not(any(target_arch = "arm", target_arch = "s390x")))]
pub(crate) unsafe extern "C" fn unwound(call: *mut Call) -> u64 {
    // SAFETY: the landing has made room for the call, and the stack in it; its slot has shadows.
    unsafe {
        let address = pad_table::returned_to((*call).stack as *mut u64);
        pass(&mut *call, address)
    }
}

/// The same where exceptions aren't stopped: the call has the address that it would have returned to.
///
/// # Safety
///
/// Called by the routine of the personality only.
#[cfg(any(target_arch = "arm", target_arch = "s390x"))]
pub(crate) unsafe extern "C" fn passed(call: *mut Call) -> u64 {
    // SAFETY: the routine has made room for the call, and the stack and the address in it; its slot has shadows.
    unsafe {
        let (slot, address) = ((*call).stack, (*call).return_address);
        let caller = pass(&mut *call, address);
        let has_pad = arch::pads().number_of(address).is_some();
        if arch::LOOK.is_some() && !has_pad && frames::cover(slot) {
            frames::of(slot).who.write_volatile(frames::LEFT);
        }
        caller
    }
}

/// An exception leaves a call that returns to `address`.
unsafe fn pass(call: &mut Call, address: u64) -> u64 {
    *call = Call { handler: call.handler, ..Call::at(call.stack) };
    // SAFETY: the caller's: the slot has shadows.
    unsafe { conclude(call, address, end::UNWOUND) }
}

/// An unwinder asks this when it comes through a watched call (Itanium C++ ABI, "Exception Handling", 1.3 and
/// 1.6).
///
/// The return address of a watched call is in the routine, whose unwind information finds the caller. Where two
/// frames have one canonical frame address for that, an unwinder takes the routine's for the one with the handler. This has it
/// stop there, in the cleanup phase: the stack is as it would be without the routine, and unwinding is resumed
/// from the caller. Where they can have two, unwinding goes on.
///
/// # Safety
///
/// Called by an unwinder only.
#[cfg(not(target_arch = "arm"))]
pub(crate) unsafe extern "C" fn personality(
    _version: c_int,
    actions: c_int,
    _class: u64,
    exception: u64,
    context: u64,
    caller: u64,
) -> c_int {
    const CLEANUP_PHASE: c_int = 2;
    const INSTALL_CONTEXT: c_int = 7;
    const CONTINUE_UNWIND: c_int = 8;
    if actions & CLEANUP_PHASE == 0 {
        return CONTINUE_UNWIND;
    }
    let Some(unwinder) = unwinders::of(caller) else { return CONTINUE_UNWIND };
    // SAFETY: the unwinder's own context.
    unsafe {
        let address = unwinder.address(context);
        if !arch::is_return(address) {
            return CONTINUE_UNWIND;
        }
        if let Some(look) = arch::LOOK {
            if let Some(above) = unwinder.above(context) {
                look(above, address);
            }
            return CONTINUE_UNWIND;
        }
        let [first, second] = arch::DATA_REGISTERS;
        unwinder.set_register(context, first, exception);
        unwinder.set_register(context, second, unwinder.resume());
        unwinder.set_address(context, arch::landing(address));
    }
    INSTALL_CONTEXT
}
