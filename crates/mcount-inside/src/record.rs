//! The assembly, the handlers and this library share these: a record for each site, and a call.
//!
//! The layouts are known to the assembly in `arch` and, as far as handlers see them, to `include/mcount/live.h`.

pub use crate::registers::Registers;
use std::ffi::{c_char, c_int, c_void};
use std::sync::atomic::{AtomicBool, AtomicPtr, AtomicU32, AtomicU64};

/// A function that has a hook.
#[derive(Debug)]
#[repr(C)]
pub struct Function {
    /// As people write it, ended by a zero byte; empty if no symbol says it.
    pub(crate) name: *const c_char,
    /// As the symbol table has it.
    pub(crate) symbol: *const c_char,
    /// The path of the module's file.
    pub(crate) module: *const c_char,
    /// Where it is.
    pub(crate) address: AtomicU64,
    /// Its bytes; 0 if no symbol says it.
    pub(crate) size: u64,
}

// SAFETY: the strings are never changed and never freed.
unsafe impl Sync for Function {}
// SAFETY: as above.
unsafe impl Send for Function {}

/// The target of a site's stub, and the purpose of the site. Records are never freed.
#[derive(Debug)]
#[repr(C, align(64))]
pub(crate) struct Record {
    /// Where the call goes: the function behind its hook, or the one that replaces it.
    pub(crate) body: AtomicU64,
    /// The routine that the stub jumps to.
    pub(crate) enter: AtomicU64,
    /// The handlers that see the call; null: none.
    pub(crate) list: AtomicPtr<List>,
    /// Bits of [`flags`].
    pub(crate) flags: AtomicU32,
    /// The number of the function in traces.
    pub(crate) id: u32,
    pub(crate) function: *const Function,
    /// The function behind its hook.
    pub(crate) original: AtomicU64,
    /// Where the hook is.
    pub(crate) site: AtomicU64,
    /// The processor's own data about its frame, if the hook is after the prologue; i386: about its arguments.
    pub(crate) frame: u64,
}

// SAFETY: what isn't atomic is never changed.
unsafe impl Sync for Record {}
// SAFETY: as above.
unsafe impl Send for Record {}

/// Bits of [`Record::flags`] and [`List::flags`].
pub(crate) mod flags {
    /// A handler wants to see vector registers.
    pub(crate) const VECTORS: u32 = 1;
    /// A handler wants to see the return.
    pub(crate) const EXITS: u32 = 2;
    /// Calls are recorded in the trace.
    pub(crate) const TRACED: u32 = 4;
}

/// The handlers of a site. There's one list of each combination, and none is ever freed.
#[derive(Debug)]
pub(crate) struct List {
    /// Its place in the table of all lists.
    pub(crate) index: u16,
    /// Bits of [`flags`].
    pub(crate) flags: u32,
    pub(crate) all: Vec<&'static Handlers>,
}

/// Called when a function is entered; 0: the call goes on, 1: it returns at once.
pub(crate) type EntryHandler = unsafe extern "C" fn(*mut Call, *mut c_void) -> c_int;
/// Called when it returns.
pub(crate) type ExitHandler = unsafe extern "C" fn(*mut Call, *mut c_void);

/// A pair of handlers, for any number of functions. They're never freed, because a call may be under way.
#[derive(Debug)]
pub(crate) struct Handlers {
    pub(crate) entry: Option<EntryHandler>,
    pub(crate) exit: Option<ExitHandler>,
    pub(crate) data: *mut c_void,
    /// Bits of [`flags`].
    pub(crate) flags: u32,
    /// They're still to be called.
    pub(crate) is_alive: AtomicBool,
}

// SAFETY: handlers are called on all threads; who passes `data` promises that this is right.
unsafe impl Sync for Handlers {}
// SAFETY: as above.
unsafe impl Send for Handlers {}

/// A vector register of sixteen bytes: `xmm0`, `q0` and so on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(C, align(16))]
pub struct Vector(pub [u8; 16]);

/// A call, as its handlers see it.
#[derive(Debug)]
#[repr(C, align(64))]
pub struct Call {
    pub(crate) registers: Registers,
    pub(crate) stack: u64,
    pub(crate) return_address: u64,
    pub(crate) function: *const Function,
    /// For the handlers: 0 at the entry, and kept for the exit.
    pub data: u64,
    /// At the entry: where the call goes.
    pub(crate) target: u64,
    /// `xmm0` to `xmm15`, or `q0` to `q15`; null unless the handlers have asked for them.
    pub(crate) vectors: *mut Vector,
    /// The upper halves, `ymm0` to `ymm15`; null as well on a processor without them.
    pub(crate) vectors_high: *mut Vector,
    /// At the exit: how the call ended, one of [`end`].
    pub(crate) end: u32,
    /// An order to the assembly.
    pub(crate) action: u32,
    pub(crate) record: *const Record,
    /// How vector registers are saved, and where.
    pub(crate) saved: u64,
    pub(crate) area: *mut Vector,
    /// Where a handler was running in this thread already, or 0.
    pub(crate) handler: u64,
    /// Where the caller's address is to be changed, on processors that have it in a register.
    pub(crate) link: *mut u64,
}

impl Call {
    /// A call of which nothing is known but the slot.
    pub(crate) fn at(stack: u64) -> Self {
        Self {
            registers: Registers::default(),
            stack,
            return_address: 0,
            function: std::ptr::null(),
            data: 0,
            target: 0,
            vectors: std::ptr::null_mut(),
            vectors_high: std::ptr::null_mut(),
            end: end::RETURN,
            action: action::JUMP,
            record: std::ptr::null(),
            saved: 0,
            area: std::ptr::null_mut(),
            handler: 0,
            link: std::ptr::null_mut(),
        }
    }
}

/// How a call ended.
pub mod end {
    /// It returned.
    pub const RETURN: u32 = 0;
    /// It jumped to another function that has handlers, which returns in its place.
    pub const TAIL_CALL: u32 = 1;
    /// An exception left it.
    pub const UNWOUND: u32 = 2;
}

/// The next step of the entry routine after the handlers.
pub(crate) mod action {
    /// Jump to the target; the return isn't seen.
    pub(crate) const JUMP: u32 = 0;
    /// Call it.
    pub(crate) const CALL: u32 = 1;
    /// Return to the caller.
    pub(crate) const RETURN: u32 = 2;
}

// Where addresses have 32 bits, the assembly is told.
#[cfg(target_pointer_width = "64")]
const _: () = {
    // After the registers, all is at the same distance.
    const FIRST: usize = size_of::<Registers>();
    // What `linked.s`, and what PowerPC's assembly has instead, take for granted.
    const LINKED: Option<usize> = if cfg!(target_arch = "powerpc64") {
        Some(88)
    } else if cfg!(any(
        target_arch = "aarch64",
        target_arch = "loongarch64",
        target_arch = "riscv64"
    )) {
        Some(96)
    } else {
        None
    };
    assert!(matches!(LINKED, None | Some(FIRST)));
    assert!(size_of::<Record>() == 64);
    assert!(std::mem::offset_of!(Record, enter) == 8);
    assert!(std::mem::offset_of!(Record, list) == 16);
    assert!(std::mem::offset_of!(Record, flags) == 24);
    assert!(std::mem::offset_of!(Record, id) == 28);
    assert!(std::mem::offset_of!(Record, site) == 48);
    assert!(std::mem::offset_of!(Record, frame) == 56);
    assert!(std::mem::offset_of!(Call, stack) == FIRST);
    assert!(std::mem::offset_of!(Call, return_address) == FIRST + 8);
    assert!(std::mem::offset_of!(Call, target) == FIRST + 32);
    assert!(std::mem::offset_of!(Call, vectors) == FIRST + 40);
    assert!(std::mem::offset_of!(Call, action) == FIRST + 60);
    assert!(std::mem::offset_of!(Call, record) == FIRST + 64);
    assert!(std::mem::offset_of!(Call, saved) == FIRST + 72);
    assert!(std::mem::offset_of!(Call, area) == FIRST + 80);
    assert!(std::mem::offset_of!(Call, handler) == FIRST + 88);
    assert!(std::mem::offset_of!(Call, link) == FIRST + 96);
};

// What the assembly knows of it that the agent has, too.
#[cfg(any(
    target_arch = "x86_64",
    target_arch = "aarch64",
    target_arch = "riscv64",
    target_arch = "powerpc64"
))]
const _: () = {
    assert!(std::mem::offset_of!(Record, body) == mcount_recorder::assembly::number("RECORD_BODY"));
    assert!(std::mem::offset_of!(Record, id) == mcount_recorder::assembly::number("RECORD_ID"));
};
