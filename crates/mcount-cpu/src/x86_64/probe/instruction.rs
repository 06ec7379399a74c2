//! The effect of an instruction on the flow of execution, and whether it may run elsewhere.

use iced_x86::{Code, Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};

pub(super) fn decoder(bytes: &[u8], address: u64) -> Decoder<'_> {
    let options = DecoderOptions::NONE;
    Decoder::with_ip(64, bytes, address, options)
}

/// The effect of an instruction on the flow of execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Flow {
    Next,
    /// Perhaps to there, perhaps on.
    Branch(u64),
    Jump(u64),
    Call(u64),
    IndirectJump,
    IndirectCall,
    /// A return, or an instruction that stops the program.
    End,
}

pub(super) fn flow(one: &Instruction) -> Flow {
    let is_direct = one.op0_kind() == OpKind::NearBranch64;
    match one.mnemonic() {
        Mnemonic::Jmp if is_direct => Flow::Jump(one.near_branch_target()),
        Mnemonic::Call if is_direct => Flow::Call(one.near_branch_target()),
        Mnemonic::Jmp => Flow::IndirectJump,
        Mnemonic::Call => Flow::IndirectCall,
        Mnemonic::Ret
        | Mnemonic::Retf
        | Mnemonic::Ud0
        | Mnemonic::Ud1
        | Mnemonic::Ud2
        | Mnemonic::Hlt
        | Mnemonic::Iret
        | Mnemonic::Iretd
        | Mnemonic::Iretq => Flow::End,
        _ if is_direct => Flow::Branch(one.near_branch_target()),
        _ => Flow::Next,
    }
}

/// Does it jump or call by a word that has a segment, too?
pub(super) fn is_far(one: &Instruction) -> bool {
    let jumps = [Code::Jmp_m1616, Code::Jmp_m1632, Code::Jmp_m1664];
    let calls = [Code::Call_m1616, Code::Call_m1632, Code::Call_m1664];
    jumps.contains(&one.code()) || calls.contains(&one.code())
}

/// Whether the instruction means the same elsewhere, or can be rewritten so that it does.
pub(super) fn can_move(one: &Instruction) -> bool {
    use Mnemonic as M;
    let is_call = flow(one) == Flow::IndirectCall;
    let uses_stack = one.memory_base() == Register::RSP || one.op0_register() == Register::RSP;
    if is_call && uses_stack || one.memory_base() == Register::EIP {
        return false;
    }
    if is_far(one) {
        return false;
    }
    !matches!(
        one.mnemonic(),
        M::Syscall
            | M::Sysenter
            | M::Sysret
            | M::Sysexit
            | M::Sysretq
            | M::Sysexitq
            | M::Int
            | M::Int1
            | M::Int3
            | M::Into
            | M::Iret
            | M::Iretd
            | M::Iretq
            | M::Retf
            | M::Hlt
            | M::Ud0
            | M::Ud1
            | M::Ud2
            | M::Endbr64
            | M::Endbr32
            | M::Xbegin
            | M::Xabort
            | M::Xend
            | M::Rsm
            | M::Uiret
            | M::Incsspq
            | M::Rdsspq
            | M::Rstorssp
            | M::Saveprevssp
    )
}
