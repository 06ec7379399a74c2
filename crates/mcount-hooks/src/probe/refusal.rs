//! Why a function, or a marker, can't have a probe: one variant for each rule.

use mcount_cpu::probe::Unmovable;
use std::fmt;

/// Why a function can't have a probe. Addresses are those of the file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Refusal {
    /// The module is the dynamic linker: it runs before there are stubs.
    DynamicLinker,
    /// The module is the vDSO: the kernel maps it, and all processes share its pages.
    Vdso,
    /// The module is of Go, OCaml or Haskell, whose runtimes look up the return addresses on the stack.
    WalksStack,
    /// It returns twice, keeps the address that it returns to, finds out the module of its caller, or belongs to a compiler.
    LeftOut,
    /// The dynamic linker calls it while it relocates modules, to choose another function.
    Resolver,
    /// It has a hook that a compiler left.
    HasHook,
    /// It is an entry of the procedure linkage table.
    Linkage,
    /// It is a signal trampoline: signal handlers return to it, and no code calls it.
    SignalReturn,
    /// No code calls it: it's the program's entry point, or the outermost frame of a thread.
    NoReturnAddress,
    /// Neither unwind information nor the size of a symbol tells where it ends.
    NoBounds,
    /// It's a part of another function, which jumps there.
    Part,
    /// The instruction here can't be decoded, or goes beyond the end.
    NotDecoded(u64),
    /// Its unwind information can't be read, or contradicts its instructions.
    Unwind,
    /// The return address isn't on top of the stack when it's entered.
    NotAtEntry,
    /// The instruction here uses the return address in another way than to return.
    UsesReturnAddress(u64),
    /// The instruction here can't run elsewhere.
    Instruction(u64),
    /// The call here isn't the last instruction that would move, so a frame could return to moved bytes.
    Call(u64),
    /// It is shorter than a jump, and what follows isn't padding.
    TooShort,
    /// Another function, or a label, is at this address inside the bytes.
    Label(u64),
    /// The instruction here jumps or calls into the bytes.
    Branch(u64),
    /// The instruction here, in the same function, jumps back to its beginning.
    Loop(u64),
    /// The word here leads into the bytes.
    Pointer(u64),
    /// The word here could belong to a jump table, relative to an address that code takes, and leads into the bytes.
    Table(u64),
    /// The instruction here takes the address of the bytes.
    Address(u64),
    /// An exception handler is at this address inside the bytes.
    LandingPad(u64),
    /// A range of the exception table begins or ends at this address inside the bytes, or exceptions of them are caught.
    CallSite(u64),
    /// The exception table can't be read.
    Exceptions,
    /// A row of the unwind information inside the bytes has rules that a stub's can't have.
    Row(u64),
    /// The dynamic linker changes code at this address.
    Relocated(u64),
    /// The stub would be too far from what the instruction here refers to.
    TooFar(u64),
    /// The marker's note leads to this address, where no instruction begins that does nothing.
    NoNop(u64),
    /// The marker is in a function without unwind information.
    NoUnwind,
    /// Instructions there take more room elsewhere than there is.
    TooLong,
    /// A jump of `mcount` for something else is there, at this address.
    Taken(u64),
    /// Markers can't be recorded on this processor yet.
    Markers,
}

impl From<Unmovable> for Refusal {
    fn from(why: Unmovable) -> Self {
        match why {
            Unmovable::NotDecoded(at) => Self::NotDecoded(at),
            Unmovable::Instruction(at) => Self::Instruction(at),
            Unmovable::Call(at) => Self::Call(at),
            Unmovable::TooFar(at) => Self::TooFar(at),
        }
    }
}

impl Refusal {
    /// A short name, for machines and counts.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::DynamicLinker => "dynamic-linker",
            Self::Vdso => "vdso",
            Self::WalksStack => "walks-stack",
            Self::LeftOut => "left-out",
            Self::Resolver => "resolver",
            Self::HasHook => "has-hook",
            Self::Linkage => "linkage",
            Self::SignalReturn => "signal-return",
            Self::NoReturnAddress => "no-return-address",
            Self::NoBounds => "no-bounds",
            Self::Part => "part",
            Self::NotDecoded(_) => "not-decoded",
            Self::Unwind => "unwind",
            Self::NotAtEntry => "not-at-entry",
            Self::UsesReturnAddress(_) => "uses-return-address",
            Self::Instruction(_) => "instruction",
            Self::Call(_) => "call",
            Self::TooShort => "too-short",
            Self::Label(_) => "label",
            Self::Branch(_) => "branch",
            Self::Loop(_) => "loop",
            Self::Pointer(_) => "pointer",
            Self::Table(_) => "table",
            Self::Address(_) => "address",
            Self::LandingPad(_) => "landing-pad",
            Self::CallSite(_) => "call-site",
            Self::Exceptions => "exceptions",
            Self::Row(_) => "row",
            Self::Relocated(_) => "relocated",
            Self::TooFar(_) => "too-far",
            Self::NoNop(_) => "no-nop",
            Self::NoUnwind => "no-unwind",
            Self::TooLong => "too-long",
            Self::Taken(_) => "taken",
            Self::Markers => "markers",
        }
    }

    /// The sentence, without the address.
    fn words(self) -> &'static str {
        match self {
            Self::DynamicLinker => "the dynamic linker runs before there can be probes",
            Self::Vdso => "all processes share the code of the vDSO",
            Self::WalksStack => {
                "the runtime of its language looks up the return addresses on the stack"
            }
            Self::LeftOut => {
                "it returns twice, keeps its return address, depends on its caller, or belongs to the compiler"
            }
            Self::Resolver => "the dynamic linker calls it while it relocates modules",
            Self::HasHook => "it has a compiler's hook, which needs no probe",
            Self::Linkage => "it belongs to the procedure linkage table",
            Self::SignalReturn => "signal handlers return to it",
            Self::NoReturnAddress => "nothing calls it: it has no return address",
            Self::NoBounds => "neither unwind information nor its symbol tells where it ends",
            Self::Part => "it is a part of another function, which jumps to it",
            Self::NotDecoded(_) => "it doesn't decode from end to end: see",
            Self::Unwind => "its unwind information is damaged or contradicts its instructions",
            Self::NotAtEntry => "its return address isn't on top of the stack at its beginning",
            Self::UsesReturnAddress(_) => "it uses its return address other than to return, at",
            Self::Instruction(_) => "an instruction at its beginning can't run elsewhere: at",
            Self::Call(_) => "its first bytes contain a call before their end, at",
            Self::TooShort => "it is shorter than a jump, and no padding follows",
            Self::Label(_) => "its first bytes contain another symbol, at",
            Self::Branch(_) => "a branch leads into its first bytes, from",
            Self::Loop(_) => "it jumps back to its first instruction, from",
            Self::Pointer(_) => "a pointer leads into its first bytes, from",
            Self::Table(_) => "what could be a jump table leads into its first bytes, from",
            Self::Address(_) => "code takes the address of its first bytes, at",
            Self::LandingPad(_) => "its first bytes contain an exception handler, at",
            Self::CallSite(_) => "the exception table refers to its first bytes, at",
            Self::Exceptions => "its exception table can't be read",
            Self::Row(_) => "unwinding through its first bytes is too unusual for a stub, at",
            Self::Relocated(_) => "the dynamic linker changes its first bytes, at",
            Self::TooFar(_) => "a stub would be too far from what its first bytes refer to, at",
            Self::NoNop(_) => "its note leads to where no NOP is, at",
            Self::NoUnwind => "no unwind information tells of the function that it's in",
            Self::TooLong => "its first bytes would need too much room elsewhere",
            Self::Taken(_) => "a hook, or another marker, has some of its first bytes, at",
            Self::Markers => "markers can only be recorded on x86-64 yet",
        }
    }

    /// The address that the sentence ends with.
    fn address(self) -> Option<u64> {
        match self {
            Self::NotDecoded(at)
            | Self::UsesReturnAddress(at)
            | Self::Instruction(at)
            | Self::Call(at)
            | Self::Label(at)
            | Self::Branch(at)
            | Self::Loop(at)
            | Self::Pointer(at)
            | Self::Table(at)
            | Self::Address(at)
            | Self::LandingPad(at)
            | Self::CallSite(at)
            | Self::Row(at)
            | Self::Relocated(at)
            | Self::TooFar(at)
            | Self::NoNop(at)
            | Self::Taken(at) => Some(at),
            _ => None,
        }
    }
}

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.words())?;
        self.address().map_or(Ok(()), |at| write!(f, " {at:#x}"))
    }
}

impl std::error::Error for Refusal {}
