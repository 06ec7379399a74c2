//! x86-64: instructions have 1 to 15 bytes, and a jump that reaches a stub has five. So several may have to move, and anything
//! that leads to the second of them would land inside the jump.
//!
//! What names other places relative to itself is rewritten: a branch gets its long form, an operand another distance. All other
//! instructions are copied byte for byte. A call pushes the address that follows it, so in a stub that has to be done for it.
//!
//! Source: Intel SDM, volume 2; AMD APM, volume 3.

use super::Refusal;
use super::references::{Base, Kind, References};
use super::unwind::{Returns, Rules, STACK_POINTER};
use iced_x86::{Code, Decoder, DecoderOptions, Instruction, Mnemonic, OpKind, Register};

/// Bytes of the jump that takes the place of a function's first instructions.
pub const JUMP: usize = 5;

/// `endbr64`: where indirect branches may lead.
const ENDBR64: [u8; 4] = [0xf3, 0x0f, 0x1e, 0xfa];

/// What was found in a piece of code.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Scanned {
    /// The first address that couldn't be decoded.
    pub(super) undecoded: Option<u64>,
    /// The first instruction that uses the return address, other than to return.
    pub(super) uses_return: Option<u64>,
    /// It jumps by a register: by a table, perhaps.
    pub(super) jumps_by_register: bool,
    /// Its last instruction, if execution goes on behind that.
    pub(super) falls_from: Option<u64>,
}

fn decoder(bytes: &[u8], address: u64) -> Decoder<'_> {
    let options = DecoderOptions::NONE;
    Decoder::with_ip(64, bytes, address, options)
}

/// Where a function's first instruction is that may move.
pub(super) fn entry(bytes: &[u8], start: u64) -> u64 {
    if bytes.starts_with(&ENDBR64) { start.saturating_add(4) } else { start }
}

/// What the instruction does to the flow of execution.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Flow {
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

fn flow(one: &Instruction) -> Flow {
    let is_direct = one.op0_kind() == OpKind::NearBranch64;
    match one.mnemonic() {
        Mnemonic::Jmp if is_direct => Flow::Jump(one.near_branch_target()),
        Mnemonic::Call if is_direct => Flow::Call(one.near_branch_target()),
        Mnemonic::Jmp => Flow::IndirectJump,
        Mnemonic::Call => Flow::IndirectCall,
        Mnemonic::Ret | Mnemonic::Retf | Mnemonic::Ud0 | Mnemonic::Ud1 | Mnemonic::Ud2 => Flow::End,
        Mnemonic::Hlt | Mnemonic::Iret | Mnemonic::Iretd | Mnemonic::Iretq => Flow::End,
        _ if is_direct => Flow::Branch(one.near_branch_target()),
        _ => Flow::Next,
    }
}

/// Does it jump or call by a word that has a segment, too?
fn is_far(one: &Instruction) -> bool {
    let jumps = [Code::Jmp_m1616, Code::Jmp_m1632, Code::Jmp_m1664];
    let calls = [Code::Call_m1616, Code::Call_m1632, Code::Call_m1664];
    jumps.contains(&one.code()) || calls.contains(&one.code())
}

/// Code that is decoded in one go.
#[derive(Debug, Clone, Copy)]
pub(super) struct Piece<'d> {
    pub(super) bytes: &'d [u8],
    pub(super) start: u64,
    /// Addresses are those of the process, so that numbers can be addresses.
    pub(super) is_fixed: bool,
}

/// Looks through a piece of code: adds what its instructions lead to, and says what's odd. `rules` is what unwind information says of
/// it, if it does.
pub(super) fn scan(piece: Piece<'_>, rules: &[Rules], references: &mut References) -> Scanned {
    let mut scan = Scan {
        bytes: piece.bytes,
        start: piece.start,
        rules,
        is_fixed: piece.is_fixed,
        references,
        boundaries: vec![0; piece.bytes.len().div_ceil(64)],
        inner: Vec::new(),
        copies: 0,
        found: Scanned::default(),
    };
    scan.run();
    scan.found
}

struct Scan<'s> {
    bytes: &'s [u8],
    start: u64,
    /// What holds from here on.
    rules: &'s [Rules],
    is_fixed: bool,
    references: &'s mut References,
    /// A bit for each byte at which an instruction begins.
    boundaries: Vec<u64>,
    /// Where branches lead inside.
    inner: Vec<u64>,
    /// A bit for each register that was made of the stack pointer.
    copies: u64,
    found: Scanned,
}

impl Scan<'_> {
    fn run(&mut self) {
        let mut decoder = decoder(self.bytes, self.start);
        let mut one = Instruction::default();
        while decoder.can_decode() {
            decoder.decode_out(&mut one);
            if one.is_invalid() {
                self.found.undecoded = Some(one.ip());
                break;
            }
            self.mark(one.ip());
            self.look(&one);
            self.look_at_stack(&one);
            let flow = flow(&one);
            let goes_on = matches!(flow, Flow::Next | Flow::Branch(_));
            self.found.falls_from = goes_on.then_some(one.ip());
        }
        if self.found.undecoded.is_none() {
            self.follow_odd();
        }
        if self.found.undecoded.is_some() {
            any(self.bytes, self.start, self.references);
        }
    }

    fn offset(&self, address: u64) -> Option<usize> {
        let offset = usize::try_from(address.checked_sub(self.start)?).ok()?;
        (offset < self.bytes.len()).then_some(offset)
    }

    /// Notes that an instruction begins at `address`.
    fn mark(&mut self, address: u64) {
        if let Some(offset) = self.offset(address)
            && let Some(word) = self.boundaries.get_mut(offset / 64)
        {
            *word |= 1 << (offset % 64);
        }
    }

    fn is_marked(&self, offset: usize) -> bool {
        self.boundaries.get(offset / 64).is_some_and(|word| word >> (offset % 64) & 1 == 1)
    }

    /// Adds what an instruction leads to.
    fn look(&mut self, one: &Instruction) {
        let source = one.ip();
        match flow(one) {
            Flow::Branch(target) | Flow::Jump(target) => {
                self.references.add(target, source, Kind::Jump);
                if self.offset(target).is_some() {
                    self.inner.push(target);
                }
            }
            Flow::Call(target) => self.references.add(target, source, Kind::Call),
            Flow::IndirectJump => {
                let by_word = one.op0_kind() == OpKind::Memory && one.is_ip_rel_memory_operand();
                self.found.jumps_by_register |= !by_word;
            }
            _ => {}
        }
        if one.is_ip_rel_memory_operand() {
            let address = one.ip_rel_memory_address();
            self.references.add(address, source, Kind::Address);
            if one.mnemonic() == Mnemonic::Lea {
                self.references.bases.push(Base { source, address });
            }
        }
        if self.is_fixed {
            self.look_at_numbers(one);
        }
    }

    /// In a file with fixed addresses, numbers can be addresses.
    fn look_at_numbers(&mut self, one: &Instruction) {
        for operand in 0..one.op_count() {
            let number = match one.op_kind(operand) {
                OpKind::Immediate32 => u64::from(one.immediate32()),
                OpKind::Immediate64 => one.immediate64(),
                OpKind::Immediate32to64 => one.immediate32to64().cast_unsigned(),
                OpKind::Memory if !one.is_ip_rel_memory_operand() => one.memory_displacement64(),
                _ => continue,
            };
            self.references.add(number, one.ip(), Kind::Address);
        }
    }

    /// Branches that lead inside an instruction, as around a `lock` prefix: decodes from there until both agree.
    fn follow_odd(&mut self) {
        let inner = std::mem::take(&mut self.inner);
        let mut left = 4 * self.bytes.len();
        for target in inner {
            let Some(mut offset) = self.offset(target) else { continue };
            while !self.is_marked(offset) {
                let Some(bytes) = self.bytes.get(offset..).filter(|rest| !rest.is_empty()) else {
                    break;
                };
                let one = decoder(bytes, self.start.wrapping_add(offset as u64)).decode();
                let (Some(rest), false) = (left.checked_sub(one.len().max(1)), one.is_invalid())
                else {
                    self.found.undecoded = Some(target);
                    return;
                };
                left = rest;
                self.look(&one);
                offset += one.len();
                if offset == self.bytes.len() {
                    break;
                }
            }
        }
        // What they lead to in turn can be odd as well, but no compiler does that.
        let odd = self
            .inner
            .iter()
            .copied()
            .find(|target| self.offset(*target).is_some_and(|offset| !self.is_marked(offset)));
        self.found.undecoded = odd;
    }

    /// Does an instruction use the return address, other than to return, or leave the stack?
    fn look_at_stack(&mut self, one: &Instruction) {
        while let [first, rest @ ..] = self.rules
            && first.end <= one.ip()
        {
            self.rules = rest;
        }
        if self.found.uses_return.is_some() {
            return;
        }
        self.note_copy(one);
        let rules = self.rules.first().filter(|rules| rules.start <= one.ip());
        let frame =
            rules.filter(|rules| rules.returns == Returns::At(-8)).and_then(|rules| rules.cfa);
        let uses =
            frame.is_some_and(|frame| uses_slot(one, frame)) || self.leaves_stack(one, frame);
        if uses {
            self.found.uses_return = Some(one.ip());
        }
    }

    fn note_copy(&mut self, one: &Instruction) {
        let is_copy = match one.mnemonic() {
            Mnemonic::Mov => {
                one.op_count() == 2
                    && one.op1_kind() == OpKind::Register
                    && one.op1_register() == Register::RSP
            }
            Mnemonic::Lea => one.memory_base() == Register::RSP,
            _ => false,
        };
        if is_copy && one.op0_kind() == OpKind::Register {
            self.copies |= bit(one.op0_register());
        }
    }

    /// Does it go to another stack?
    fn leaves_stack(&self, one: &Instruction, frame: Option<(u16, i64)>) -> bool {
        let is_frame = |register: Register| {
            register == Register::RBP
                || register == Register::RSP
                || self.copies & bit(register) != 0
                || frame.is_some_and(|(number, _)| dwarf(register) == Some(number))
        };
        if one.op0_kind() != OpKind::Register || one.op0_register() != Register::RSP {
            let other = one.mnemonic() == Mnemonic::Xchg && one.op1_kind() == OpKind::Register;
            return other && one.op1_register() == Register::RSP;
        }
        match one.mnemonic() {
            Mnemonic::Mov => one.op1_kind() != OpKind::Register || !is_frame(one.op1_register()),
            Mnemonic::Lea => !is_frame(one.memory_base()),
            Mnemonic::Pop | Mnemonic::Xchg => true,
            Mnemonic::Add => one.op1_kind() == OpKind::Register || one.op1_kind() == OpKind::Memory,
            _ => false,
        }
    }
}

fn bit(register: Register) -> u64 {
    dwarf(register).map_or(0, |number| 1 << number)
}

/// Does an instruction use the word below the frame address, which is a register and a distance?
fn uses_slot(one: &Instruction, (register, distance): (u16, i64)) -> bool {
    let is_of_stack = register == STACK_POINTER;
    match one.mnemonic() {
        Mnemonic::Pop | Mnemonic::Popfq if is_of_stack && distance == 8 => return true,
        Mnemonic::Add
            if is_of_stack
                && one.op0_kind() == OpKind::Register
                && one.op0_register() == Register::RSP =>
        {
            let amount = one.try_immediate(1).unwrap_or(0).cast_signed();
            return amount > distance - 8;
        }
        _ => {}
    }
    let has_operand = (0..one.op_count()).any(|operand| one.op_kind(operand) == OpKind::Memory);
    // Compilers copy the return address to where they align the stack.
    let is_copy = one.mnemonic() == Mnemonic::Push && !is_of_stack;
    has_operand
        && !is_copy
        && dwarf(one.memory_base()) == Some(register)
        && one.memory_index() == Register::None
        && one.memory_displacement64().cast_signed() == distance - 8
        && !matches!(flow(one), Flow::IndirectJump)
}

/// The number that DWARF has for a register.
fn dwarf(register: Register) -> Option<u16> {
    const REGISTERS: [Register; 16] = [
        Register::RAX,
        Register::RDX,
        Register::RCX,
        Register::RBX,
        Register::RSI,
        Register::RDI,
        Register::RBP,
        Register::RSP,
        Register::R8,
        Register::R9,
        Register::R10,
        Register::R11,
        Register::R12,
        Register::R13,
        Register::R14,
        Register::R15,
    ];
    (0..).zip(REGISTERS).find(|(_, one)| *one == register).map(|(number, _)| number)
}

/// Adds whatever the bytes at any offset would lead to, if they were an instruction: for code of which we don't know where
/// instructions begin.
pub(super) fn any(bytes: &[u8], start: u64, references: &mut References) {
    for offset in 0..bytes.len() {
        let Some(rest) = bytes.get(offset..) else { return };
        let source = start.wrapping_add(offset as u64);
        let (length, distance, kind) = match *rest {
            [0xe8, a, b, c, d, ..] => (5, i32::from_le_bytes([a, b, c, d]), Kind::Call),
            [0xe9, a, b, c, d, ..] => (5, i32::from_le_bytes([a, b, c, d]), Kind::Jump),
            [0x0f, 0x80..=0x8f, a, b, c, d, ..] => {
                (6, i32::from_le_bytes([a, b, c, d]), Kind::Jump)
            }
            [0xc7, 0xf8, a, b, c, d, ..] => (6, i32::from_le_bytes([a, b, c, d]), Kind::Jump),
            [0x8d, modrm, a, b, c, d, ..] if modrm & 0xc7 == 5 => {
                (6, i32::from_le_bytes([a, b, c, d]), Kind::Address)
            }
            [0xeb | 0x70..=0x7f | 0xe0..=0xe3, a, ..] => {
                (2, i32::from(a.cast_signed()), Kind::Jump)
            }
            _ => continue,
        };
        let target = source.wrapping_add(length).wrapping_add_signed(i64::from(distance));
        references.add(target, source, kind);
        if kind == Kind::Address {
            references.bases.push(Base { source, address: target });
        }
    }
}

/// The first bytes of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Beginning {
    /// Bytes of the whole instructions that have to move.
    pub(super) moved: usize,
    /// Where the last of them begins.
    pub(super) last: u64,
    /// Execution goes on behind them.
    pub(super) goes_on: bool,
}

/// The whole instructions at `entry`, of which `bytes` has all that belong to the function, that a jump there replaces.
pub(super) fn beginning(bytes: &[u8], entry: u64) -> Result<Beginning, Refusal> {
    let mut decoder = decoder(bytes, entry);
    let mut found = Beginning { moved: 0, last: entry, goes_on: true };
    let mut call = None;
    while found.moved < JUMP && decoder.can_decode() {
        let one = decoder.decode();
        if one.is_invalid() {
            return Err(Refusal::NotDecoded(one.ip()));
        }
        if let Some(at) = call {
            return Err(Refusal::Call(at));
        }
        if !can_move(&one) {
            return Err(Refusal::Instruction(one.ip()));
        }
        let flow = flow(&one);
        call = matches!(flow, Flow::Call(_) | Flow::IndirectCall).then_some(one.ip());
        found.moved += one.len();
        found.last = one.ip();
        found.goes_on =
            matches!(flow, Flow::Next | Flow::Branch(_) | Flow::Call(_) | Flow::IndirectCall);
    }
    Ok(found)
}

/// Whether the instruction means the same elsewhere, or can be rewritten so that it does.
fn can_move(one: &Instruction) -> bool {
    let is_call = flow(one) == Flow::IndirectCall;
    let uses_stack = one.memory_base() == Register::RSP || one.op0_register() == Register::RSP;
    if is_call && uses_stack || one.memory_base() == Register::EIP {
        return false;
    }
    if is_far(one) {
        return false;
    }
    use Mnemonic as M;
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

/// Whether `bytes` begin with `length` bytes of instructions that do nothing; the last may have more bytes.
pub(super) fn is_padding(bytes: &[u8], length: usize) -> bool {
    let mut decoder = decoder(bytes, 0);
    let mut known = 0;
    while known < length && decoder.can_decode() {
        let one = decoder.decode();
        let does_nothing = matches!(one.mnemonic(), Mnemonic::Nop | Mnemonic::Int3)
            || one.code() == Code::Xchg_r16_AX && one.op0_register() == Register::AX;
        if !does_nothing {
            return false;
        }
        known += one.len();
    }
    known >= length
}

/// The word by which the first instruction jumps, if that's what it does: as an entry of a procedure linkage table.
pub(super) fn jumps_by(bytes: &[u8], address: u64) -> Option<u64> {
    let one = decoder(bytes, address).decode();
    let by_word = flow(&one) == Flow::IndirectJump && one.is_ip_rel_memory_operand();
    by_word.then(|| one.ip_rel_memory_address())
}

/// Instructions that have moved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Relocated {
    /// They, and a jump to what followed them.
    pub code: Vec<u8>,
    /// Where each instruction was and where it is, in bytes from the first. What is between the last pair and the end of the moved
    /// bytes is the instruction that follows them: where a thread that's at the jump goes next.
    pub places: Vec<(usize, usize)>,
    /// A call was among them. From here on, in bytes of `code`, its return address has been pushed, and the CFA is 8 bytes
    /// farther from the stack pointer.
    pub pushed: Option<usize>,
}

/// The instructions `moved`, which were at `from`, for execution at `to`, and behind them a jump to what followed. Addresses are those
/// of the process. Uses no more than [`MOVED_MOST`] bytes.
///
/// # Errors
///
/// An instruction can't move, or refers to what is too far from `to`.
pub fn relocate(moved: &[u8], from: u64, to: u64) -> Result<Relocated, Refusal> {
    let mut new = Relocated { code: Vec::new(), places: Vec::new(), pushed: None };
    let mut decoder = decoder(moved, from);
    let mut goes_on = true;
    while decoder.can_decode() {
        let start = decoder.position();
        let one = decoder.decode();
        let Some(bytes) = moved.get(start..decoder.position()).filter(|_| !one.is_invalid()) else {
            return Err(Refusal::NotDecoded(one.ip()));
        };
        if new.pushed.is_some() {
            return Err(Refusal::Call(one.ip()));
        }
        if !can_move(&one) {
            return Err(Refusal::Instruction(one.ip()));
        }
        new.places.push((start, new.code.len()));
        let distance = decoder.get_constant_offsets(&one);
        let operand = one.is_ip_rel_memory_operand().then(|| distance.displacement_offset());
        let at = Moving { one, bytes, operand, to };
        goes_on = at.write(&mut new)?;
    }
    if goes_on {
        let end = from.wrapping_add(moved.len() as u64);
        jump(&mut new.code, to, end, from)?;
    }
    Ok(new)
}

/// The bytes that [`relocate`] uses at most: 4 bytes of instructions that are jumps (two of 2 bytes, which grow to 9), one of 15 bytes, a call
/// and a jump.
pub const MOVED_MOST: usize = 64;

/// An instruction that moves.
struct Moving<'m> {
    one: Instruction,
    bytes: &'m [u8],
    /// Where its distance to an operand is.
    operand: Option<usize>,
    /// Where all of the code will be.
    to: u64,
}

impl Moving<'_> {
    /// Writes the instruction. Whether execution goes on behind it.
    fn write(&self, new: &mut Relocated) -> Result<bool, Refusal> {
        let from = self.one.ip();
        match flow(&self.one) {
            Flow::Jump(target) => jump(&mut new.code, self.to, target, from).map(|()| false),
            Flow::Branch(target) => self.branch(&mut new.code, target).map(|()| true),
            Flow::Call(target) => {
                push(new, JUMP);
                jump(&mut new.code, self.to, target, from)?;
                new.code.extend(self.one.next_ip().to_le_bytes());
                Ok(false)
            }
            Flow::IndirectCall => {
                push(new, self.bytes.len());
                let start = new.code.len();
                self.copy(&mut new.code)?;
                // Of an indirect call and an indirect jump, the middle bits of the second byte differ: 2 and 4.
                let opcode = self.opcode().ok_or(Refusal::Instruction(from))?;
                let second = new.code.get_mut(start + opcode + 1);
                let second = second.ok_or(Refusal::Instruction(from))?;
                *second = *second & !0x38 | 4 << 3;
                new.code.extend(self.one.next_ip().to_le_bytes());
                Ok(false)
            }
            Flow::Next => self.copy(&mut new.code).map(|()| true),
            Flow::IndirectJump | Flow::End => self.copy(&mut new.code).map(|()| false),
        }
    }

    /// Where the byte `ff` of an indirect call is, behind its prefixes.
    fn opcode(&self) -> Option<usize> {
        self.bytes.iter().position(|byte| *byte == 0xff)
    }

    /// Copies it, with another distance to its operand.
    fn copy(&self, code: &mut Vec<u8>) -> Result<(), Refusal> {
        let start = code.len();
        code.extend(self.bytes);
        let Some(operand) = self.operand else { return Ok(()) };
        let end = self.to.wrapping_add(code.len() as u64);
        let from = self.one.ip();
        let distance = distance(end, self.one.ip_rel_memory_address(), from)?;
        let field = code.get_mut(start + operand..start + operand + 4);
        field.ok_or(Refusal::Instruction(from))?.copy_from_slice(&distance);
        Ok(())
    }

    /// Writes a conditional branch in its long form. Those that have none jump around a jump.
    fn branch(&self, code: &mut Vec<u8>, target: u64) -> Result<(), Refusal> {
        let from = self.one.ip();
        // Both forms have the condition in the low bits of the opcode.
        let condition = match self.bytes {
            [.., 0x0f, opcode @ 0x80..=0x8f, _, _, _, _] => Some(opcode & 0xf),
            [.., opcode @ 0x70..=0x7f, _] => Some(opcode & 0xf),
            _ => None,
        };
        if let Some(condition) = condition {
            let end = self.to.wrapping_add(code.len() as u64 + 6);
            let distance = distance(end, target, from)?;
            code.extend([0x0f, 0x80 | condition]);
            code.extend(distance);
            return Ok(());
        }
        let Some((_, opcode)) = self.bytes.split_last() else {
            return Err(Refusal::Instruction(from));
        };
        code.extend(opcode);
        code.extend([2, 0xeb, 5]);
        jump(code, self.to, target, from)
    }
}

/// Pushes the word that's behind the next instruction, of `next` bytes: the address to which a call returns.
fn push(new: &mut Relocated, next: usize) {
    new.code.extend([0xff, 0x35]);
    // An instruction has at most 15 bytes.
    new.code.extend(u32::try_from(next).unwrap_or(0).to_le_bytes());
    new.pushed = Some(new.code.len());
}

/// Appends a jump to `target`. The code is at `to`.
fn jump(code: &mut Vec<u8>, to: u64, target: u64, from: u64) -> Result<(), Refusal> {
    let end = to.wrapping_add((code.len() + JUMP) as u64);
    let distance = distance(end, target, from)?;
    code.push(0xe9);
    code.extend(distance);
    Ok(())
}

/// How far `target` is from `end`, for an instruction that was at `from`.
fn distance(end: u64, target: u64, from: u64) -> Result<[u8; 4], Refusal> {
    let distance = i32::try_from(target.wrapping_sub(end).cast_signed());
    distance.map(i32::to_le_bytes).map_err(|_| Refusal::TooFar(from))
}
