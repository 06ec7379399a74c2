//! Decides whether a call is recorded, by its arguments or its result: what `--if` says. Words of a recipe say what is compared
//! (`mcount_cpu::recipe::condition`).
//!
//! There's no arithmetic of floating-point numbers, whose registers belong to the program: they are compared as whole ones.

use crate::registers::{Registers, read};
use mcount_cpu::recipe::TEXT_MOST;
use mcount_cpu::recipe::condition as c;

/// What was put on the stack.
struct Stack {
    numbers: [i128; c::ROOM],
    used: usize,
}

impl Stack {
    fn push(&mut self, number: i128) {
        if let Some(room) = self.numbers.get_mut(self.used) {
            *room = number;
            self.used += 1;
        }
    }

    fn pop(&mut self) -> i128 {
        self.used = self.used.saturating_sub(1);
        self.numbers.get(self.used).copied().unwrap_or(0)
    }
}

/// Whether the condition holds that `words` say. Without words, it does.
pub(crate) fn holds(words: &[u64], registers: &Registers) -> bool {
    if words.is_empty() {
        return true;
    }
    let mut stack = Stack { numbers: [0; c::ROOM], used: 0 };
    let mut at = 0;
    while let Some(word) = words.get(at) {
        at += 1;
        match word & 0xff {
            c::VALUE => stack.push(value(*word, registers)),
            c::NUMBER => {
                let number = words.get(at).copied().unwrap_or(0);
                let is_signed = word >> 8 & 1 != 0;
                stack.push(if is_signed {
                    i128::from(number.cast_signed())
                } else {
                    i128::from(number)
                });
                at += 1;
            }
            c::COMPARE => {
                let (other, one) = (stack.pop(), stack.pop());
                stack.push(i128::from(compare(word >> 8 & 0xff, one, other)));
            }
            c::NOT => {
                let number = stack.pop();
                stack.push(i128::from(number == 0));
            }
            c::TEXT => {
                let length = (word >> 24 & 0xff) as usize;
                let end = at + length.div_ceil(8);
                let text = words.get(at..end).unwrap_or(&[]);
                stack.push(i128::from(is_text(*word, (text, length), registers)));
                at = end;
            }
            c::IF_SET | c::UNLESS_SET => {
                let number = stack.pop();
                if (number == 0) == (word & 0xff == c::IF_SET) {
                    stack.push(number);
                    at += (word >> 8 & 0xffff_ffff) as usize;
                }
            }
            _ => return true,
        }
    }
    stack.pop() != 0
}

fn compare(how: u64, one: i128, other: i128) -> bool {
    if one == c::NOTHING || other == c::NOTHING {
        return how == c::NOT_EQUAL;
    }
    match how {
        c::EQUAL => one == other,
        c::NOT_EQUAL => one != other,
        c::LESS => one < other,
        c::NOT_GREATER => one <= other,
        c::GREATER => one > other,
        _ => one >= other,
    }
}

/// A number in a register or on the stack.
fn value(word: u64, registers: &Registers) -> i128 {
    let (source, how, size) = (word >> 8 & 0xff, word >> 16 & 0xff, (word >> 24 & 0xff) as usize);
    let mut room = [0; 8];
    if let Some(room) = room.get_mut(..size) {
        registers.copy(source, word >> 32 & 0xffff, room);
    }
    let bits = u64::from_le_bytes(room);
    match how {
        c::SIGNED => {
            let unused = 64_u32.saturating_sub(8 * size as u32) & 63;
            i128::from((bits << unused).cast_signed() >> unused)
        }
        c::FLOAT if size == 4 => c::order(c::widen(bits as u32)),
        c::FLOAT => c::order(bits),
        _ => i128::from(bits),
    }
}

/// Whether the text that a source leads to is this one of `length` bytes.
fn is_text(word: u64, (text, length): (&[u64], usize), registers: &Registers) -> bool {
    let (source, of_length, at) = (word >> 8 & 0xff, word >> 16 & 0xff, word >> 32 & 0xffff);
    let mut pointer = registers.word(source, at);
    // A zero that ends a text belongs to what is compared.
    let is_ended = of_length == c::UP_TO_ZERO;
    let found = match of_length {
        c::UP_TO_ZERO => length as u64,
        c::INDIRECT => {
            let mut fields = [0; 16];
            if read(pointer, &mut fields) != fields.len() {
                return false;
            }
            let field =
                |bytes: Option<&[u8; 8]>| bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes));
            pointer = field(fields.first_chunk());
            field(fields.last_chunk())
        }
        _ => registers.word(of_length, word >> 48),
    };
    if found != length as u64 || pointer == 0 {
        return false;
    }
    let mut room = [0_u8; TEXT_MOST + 1];
    let wanted = length + usize::from(is_ended);
    let Some(room) = room.get_mut(..wanted) else { return false };
    if wanted != 0 && read(pointer, room) != wanted {
        return false;
    }
    let expected = text.iter().flat_map(|word| word.to_le_bytes()).take(length);
    let end = if is_ended { Some(0) } else { None };
    expected.chain(end).zip(room.iter()).all(|(expected, byte)| expected == *byte)
}
