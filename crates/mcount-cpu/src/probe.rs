//! What probes ask of a processor: which instructions a function begins with, what code leads to, and how an instruction moves.
//!
//! A probe is a hook in a function that no compiler gave one: its first instructions move, and a jump takes their place. Which functions
//! can have one is planned by `mcount-hooks`, for files of any processor that has [`Probes`]. All of it is about bytes and addresses.

pub use crate::references::{Base, Kind, Reference, References};

use alloc::vec::Vec;
use core::ops::Range;

/// A processor whose functions can have probes.
#[derive(Debug)]
pub struct Probes {
    /// What people call it.
    pub name: &'static str,
    /// `e_machine` of its files.
    pub machine: u16,
    /// The numbers of relocations.
    pub relocations: Relocations,
    /// How a function finds its caller.
    pub calls: Calls,
    /// Bytes of the jump that takes the place of a function's first instructions.
    pub jump: usize,
    /// Bytes of moved instructions elsewhere, at most.
    pub moved_most: usize,
    /// Markers in the middle of functions can have probes, too.
    pub has_markers: bool,
    /// Symbols say where data is between instructions (`$d` and `$x`).
    pub has_mapping_symbols: bool,
    /// Jump tables count in instructions, from an address in code. The alternative is words of four bytes that count bytes.
    pub has_scaled_tables: bool,
    /// Where a function's first instruction is that may move.
    pub entry: fn(&[u8], u64) -> Entry,
    /// The whole instructions at an address, of which the bytes have all that belong to the function, that a jump there replaces.
    pub beginning: fn(&[u8], u64) -> Result<Beginning, Unmovable>,
    /// Whether instructions that follow each other from the first address on lead to the second, and the one there does nothing. The
    /// bytes begin at the first.
    pub is_nop_at: fn(&[u8], u64, u64) -> bool,
    /// Whether the bytes begin with that many bytes of instructions that do nothing; the last may have more bytes.
    pub is_padding: fn(&[u8], usize) -> bool,
    /// The word that the code at an address jumps by, as entries of a procedure linkage table do.
    pub jumps_by: fn(&[u8], u64) -> Option<u64>,
    /// Looks through a piece of code: adds what its instructions lead to, and says what's odd. The rules are what unwind information
    /// says of it, if it does.
    pub scan: fn(Piece<'_>, &[Rules], &mut References) -> Scanned,
    /// Adds whatever the bytes at any offset would lead to, if they were an instruction that leads far: for code of which nobody knows
    /// where instructions begin.
    pub far: fn(&[u8], u64, &mut References),
    /// The instructions, which were at the first address, for execution at the second, and behind them a jump to what followed.
    /// Addresses are those of the process.
    pub relocate: fn(&[u8], u64, u64) -> Result<Relocated, Unmovable>,
    /// Where a jump can replace one of the function's first instructions by one byte, while threads run. The bytes begin with those
    /// that move, of which there are so many, and are at the address. Nothing else may lead to these.
    pub puns: Option<FindPuns>,
    /// The stubs of probes, which have the moved instructions in them: where stubs are near their modules anyway.
    pub stub: Option<ProbeStubs>,
}

/// Finds them, as [`Probes::puns`] says.
pub type FindPuns = fn(&[u8], usize, u64) -> Vec<Pun>;

/// A jump that differs in one byte from the code that it replaces.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pun {
    /// Where it begins, behind the function's first instruction.
    pub offset: usize,
    /// Which of its bytes it is that differs.
    pub place: usize,
    /// What can be there, and where that leads to: addresses of the process. If there are several, they ascend.
    pub targets: Vec<(u8, u64)>,
    /// The instructions that undo what is executed before the jump. A thread behind them goes on with the first instruction that moved.
    pub undo: Vec<u8>,
}

/// How the stub of a probe is made.
#[derive(Debug, Clone, Copy)]
pub struct ProbeStubs {
    /// Makes it. `None` if something is out of reach.
    pub make: fn(Stub<'_>) -> Option<Vec<u8>>,
    /// Its bytes.
    pub size: usize,
}

/// What the stub of a probe is made of. Addresses are those of the process.
#[derive(Debug, Clone, Copy)]
pub struct Stub<'m> {
    /// Where it is.
    pub at: u64,
    /// The routine that tells the recorder of a call.
    pub routine: u64,
    /// The function's number.
    pub number: u32,
    /// The instructions that move.
    pub moved: &'m [u8],
    /// Where they were.
    pub from: u64,
    /// The instruction before them, if that has signed the return address.
    pub before: Option<[u8; 4]>,
}

/// The relocations of a processor that give a word an address.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Relocations {
    /// That of a symbol, with an addend.
    pub absolute: u32,
    /// That of a symbol, for code that takes it from a table.
    pub glob_dat: u32,
    /// That of a function, for calls.
    pub jump_slot: u32,
    /// The load bias, with an addend.
    pub relative: u32,
    /// That which a function returns.
    pub irelative: u32,
}

/// How a function finds its caller when it's entered. Registers have the numbers of DWARF.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Calls {
    /// The stack pointer.
    pub stack_pointer: u16,
    /// The frame pointer.
    pub frame_pointer: u16,
    /// The return address.
    pub return_address: u16,
    /// How far above the stack pointer the canonical frame address (CFA) is.
    pub cfa: i64,
    /// Where the return address is.
    pub returns: Returns,
}

/// Where a return address is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Returns {
    /// This number of bytes from the CFA.
    At(i64),
    /// In the register that calls put it into.
    InRegister,
    /// Nowhere: this is the outermost frame.
    Nowhere,
    /// Somewhere else.
    Elsewhere,
}

/// The parts of a row of unwind information that concern the stack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    /// The first address of what it's about.
    pub start: u64,
    /// The address behind that.
    pub end: u64,
    /// A register and a distance; `None` if it takes an expression.
    pub cfa: Option<(u16, i64)>,
    /// Where the return address is.
    pub returns: Returns,
}

/// Where a function can have a probe.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// The first instruction that may move. What's before it stays where it is: a landing pad of indirect branches.
    pub at: u64,
    /// What's before it signs the return address. So nothing but the function's first instruction may lead here.
    pub is_signed: bool,
}

/// The first bytes of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Beginning {
    /// Bytes of the whole instructions that have to move.
    pub moved: usize,
    /// Execution goes on behind them.
    pub goes_on: bool,
}

/// Why instructions can't move. Addresses are where they are.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unmovable {
    /// The instruction here can't be decoded, or goes beyond the end.
    NotDecoded(u64),
    /// The instruction here can't run elsewhere.
    Instruction(u64),
    /// The call here isn't the last instruction.
    Call(u64),
    /// The instruction here refers to what is too far away.
    TooFar(u64),
}

/// Code that is decoded in one go.
#[derive(Debug, Clone, Copy)]
pub struct Piece<'d> {
    /// The code.
    pub bytes: &'d [u8],
    /// Where it is.
    pub start: u64,
    /// Addresses are those of the process, so that numbers can be addresses.
    pub is_fixed: bool,
}

/// Findings about a piece of code.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Scanned {
    /// The first address that couldn't be decoded.
    pub undecoded: Option<u64>,
    /// The first instruction that uses the return address, other than to return.
    pub uses_return: Option<u64>,
    /// It jumps by a register: by a table, perhaps.
    pub jumps_by_register: bool,
    /// Its last instruction, if execution goes on behind that.
    pub falls_from: Option<u64>,
}

/// Instructions that have moved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Relocated {
    /// They, and a jump to what followed them.
    pub code: Vec<u8>,
    /// Where each instruction was and where it is, in bytes from the first. A thread that stands at one goes on at
    /// the other.
    pub places: Vec<(usize, usize)>,
    /// Where in `code` the stack pointer is lower than it was in the original.
    pub lowered: Option<Lowered>,
}

/// A range of moved code in which the canonical frame address is farther from the stack pointer than it was.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lowered {
    /// The range, in bytes from the start.
    pub code: Range<usize>,
    /// By how many bytes.
    pub bytes: i64,
}
