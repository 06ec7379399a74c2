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
            c::AT => {
                let Some(number) = number_at(*word, stack.pop()) else { return false };
                stack.push(number);
            }
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
                let (source, place) = (word >> 8 & 0xff, word >> 32 & 0xffff);
                let pointer = match source {
                    c::ON_STACK => address(stack.pop()).map_or(0, |one| one.wrapping_add(place)),
                    _ => registers.word(source, place),
                };
                let Some(is_it) = is_text(*word, (text, length), (pointer, registers)) else {
                    return false;
                };
                stack.push(i128::from(is_it));
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
    let mut room = [0; 8];
    if let Some(room) = room.get_mut(..size_of_value(word)) {
        registers.copy(word >> 8 & 0xff, word >> 32 & 0xffff, room);
    }
    number(word, u64::from_le_bytes(room))
}

/// A number in memory, some bytes behind an address. `None`: it can't be read.
fn number_at(word: u64, place: i128) -> Option<i128> {
    let mut room = [0; 8];
    let wanted = room.get_mut(..size_of_value(word))?;
    let place = address(place)?.wrapping_add(word >> 32 & 0xffff);
    (read(place, wanted) == wanted.len()).then(|| number(word, u64::from_le_bytes(room)))
}

/// A number as an address, unless that's null.
fn address(number: i128) -> Option<u64> {
    u64::try_from(number).ok().filter(|address| *address != 0)
}

/// The bytes of a value.
fn size_of_value(word: u64) -> usize {
    (word >> 24 & 0xff) as usize
}

/// A value of these bits as a number.
fn number(word: u64, bits: u64) -> i128 {
    let (how, size) = (word >> 16 & 0xff, size_of_value(word));
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

/// Whether the text at an address, or its pointer and length, is this one of `length` bytes. `None`: what these are in can't be read.
fn is_text(
    word: u64,
    (text, length): (&[u64], usize),
    (mut pointer, registers): (u64, &Registers),
) -> Option<bool> {
    let of_length = word >> 16 & 0xff;
    // A zero that ends a text belongs to what is compared.
    let is_ended = of_length == c::UP_TO_ZERO;
    let found = match of_length {
        c::UP_TO_ZERO => length as u64,
        c::INDIRECT => {
            let mut fields = [0; 16];
            if read(pointer, &mut fields) != fields.len() {
                return (word >> 8 & 0xff != c::ON_STACK).then_some(false);
            }
            let field =
                |bytes: Option<&[u8; 8]>| bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes));
            pointer = field(fields.first_chunk());
            field(fields.last_chunk())
        }
        _ => registers.word(of_length, word >> 48),
    };
    if found != length as u64 || pointer == 0 {
        return Some(false);
    }
    let mut room = [0_u8; TEXT_MOST + 1];
    let wanted = length + usize::from(is_ended);
    let room = room.get_mut(..wanted)?;
    if wanted != 0 && read(pointer, room) != wanted {
        return Some(false);
    }
    let expected = text.iter().flat_map(|word| word.to_le_bytes()).take(length);
    let end = if is_ended { Some(0) } else { None };
    Some(expected.chain(end).zip(room.iter()).all(|(expected, byte)| expected == *byte))
}
