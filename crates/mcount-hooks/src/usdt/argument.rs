//! Where the arguments of a marker are, as a compiler has written it: operands of x86-64 assembly in AT&T's syntax, each with its
//! size and whether it has a sign: `-4@%eax 8@-16(%rbp) 4@$3`.
//!
//! Source: systemtap's wiki, `UserSpaceProbeImplementation`; GNU assembler's manual, "AT&T Syntax: Memory References".

/// A marker's argument.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Argument {
    /// Its bytes: 1, 2, 4 or 8.
    pub size: u8,
    /// What kind of number it is.
    pub kind: Kind,
    /// Where it is. `None` if that isn't understood.
    pub place: Option<Place>,
}

/// A kind of number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// An integer with a sign.
    Signed,
    /// An integer without one, or a pointer.
    Unsigned,
    /// A floating-point number.
    Float,
}

/// Where an argument is. Registers have the numbers of instructions: %rax, %rcx, %rdx, %rbx, %rsp, %rbp, %rsi, %rdi, then %r8 to %r15.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    /// It's this number.
    Constant(i64),
    /// It's in a general register, so many bytes above its lowest.
    Register(u8, u8),
    /// It's in this vector register.
    Vector(u8),
    /// It's in memory.
    Memory(Address),
}

/// An address in memory: a sum.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Address {
    /// Of the value of this symbol,
    pub symbol: Option<String>,
    /// this distance,
    pub distance: i64,
    /// this register,
    pub base: Option<u8>,
    /// and this one times 1, 2, 4 or 8.
    pub index: Option<(u8, u8)>,
}

/// The most arguments that are looked at: `<sys/sdt.h>` has no more than 12.
const MOST: usize = 16;

/// The arguments that `text` describes.
#[must_use]
pub fn arguments(text: &str) -> Vec<Argument> {
    text.split_ascii_whitespace().take(MOST).map(argument).collect()
}

fn argument(word: &str) -> Argument {
    // Old ones lack the size: they're words of the processor.
    let (size, operand) = word.split_once('@').unwrap_or(("8", word));
    let (size, is_float) = match size.strip_suffix('f') {
        Some(size) => (size, true),
        None => (size, false),
    };
    let (digits, is_signed) = match size.strip_prefix('-') {
        Some(digits) => (digits, true),
        None => (size, false),
    };
    let known = match digits {
        "1" => Some(1),
        "2" => Some(2),
        "4" => Some(4),
        "8" => Some(8),
        _ => None,
    };
    let kind = match (is_float, is_signed) {
        (true, _) => Kind::Float,
        (_, true) => Kind::Signed,
        _ => Kind::Unsigned,
    };
    let is_possible = known.is_some() && (!is_float || known >= Some(4));
    Argument { size: known.unwrap_or(8), kind, place: place(operand).filter(|_| is_possible) }
}

fn place(operand: &str) -> Option<Place> {
    if let Some(text) = operand.strip_prefix('$') {
        return number(text).map(Place::Constant);
    }
    if let Some(name) = operand.strip_prefix('%') {
        // A segment's register is before an address.
        let (number, offset) = match vector(name) {
            Some(number) => return Some(Place::Vector(number)),
            None => register(name)?,
        };
        return Some(Place::Register(number, offset));
    }
    address(operand).map(Place::Memory)
}

fn address(operand: &str) -> Option<Address> {
    let (distance, registers) = match operand.split_once('(') {
        Some((distance, rest)) => (distance, rest.strip_suffix(')')?),
        None => (operand, ""),
    };
    let mut found = sum(distance)?;
    if registers == "%rip" {
        // It's relative to that only in the instruction. The symbol's value is meant.
        return found.symbol.is_some().then_some(found);
    }
    let mut parts = registers.split(',');
    if let Some(base) = parts.next().filter(|base| !base.is_empty()) {
        found.base = Some(whole(base)?);
    }
    if let Some(index) = parts.next() {
        let scale = match parts.next().unwrap_or("1") {
            "1" => 1,
            "2" => 2,
            "4" => 4,
            "8" => 8,
            _ => return None,
        };
        let index = whole(index)?;
        // %rsp can't be one.
        found.index = Some((index, scale)).filter(|_| index != 4);
        found.index?;
    }
    // An empty text is no address.
    let is_something = !operand.is_empty() && operand != "()";
    (is_something && parts.next().is_none()).then_some(found)
}

/// A register of an address, as a whole.
fn whole(text: &str) -> Option<u8> {
    let name = text.strip_prefix('%')?;
    let is_whole = WHOLE.contains(&name);
    register(name).filter(|_| is_whole).map(|(number, _)| number)
}

/// Numbers and at most one symbol, with signs between them.
fn sum(text: &str) -> Option<Address> {
    let mut found = Address::default();
    let mut rest = text;
    while !rest.is_empty() {
        let (is_minus, behind) = match rest.split_at_checked(1) {
            Some(("-", behind)) => (true, behind),
            Some(("+", behind)) => (false, behind),
            _ => (false, rest),
        };
        let end = behind.find(['+', '-']).unwrap_or(behind.len());
        let (term, next) = behind.split_at(end);
        rest = next;
        if let Some(value) = number(term) {
            let value = if is_minus { value.checked_neg()? } else { value };
            found.distance = found.distance.checked_add(value)?;
        } else if is_symbol(term) && found.symbol.is_none() && !is_minus {
            found.symbol = Some(term.to_owned());
        } else {
            return None;
        }
    }
    Some(found)
}

/// Is this a symbol's name, without anything that says how it's meant (`@GOTPCREL`)?
fn is_symbol(text: &str) -> bool {
    let is_part = |one: char| one.is_ascii_alphanumeric() || "_.$".contains(one) || !one.is_ascii();
    text.starts_with(|one: char| !one.is_ascii_digit()) && text.chars().all(is_part)
}

fn number(text: &str) -> Option<i64> {
    let (digits, is_minus) = match text.strip_prefix('-') {
        Some(digits) => (digits, true),
        None => (text, false),
    };
    let value = match digits.strip_prefix("0x") {
        Some(hex) => u64::from_str_radix(hex, 16).ok(),
        None => digits.parse().ok(),
    };
    let is_number = digits.starts_with(|one: char| one.is_ascii_digit());
    let value = value.filter(|_| is_number)?.cast_signed();
    Some(if is_minus { value.wrapping_neg() } else { value })
}

/// The general registers of 64 bits, by number, and then the names of their parts.
const WHOLE: [&str; 16] = [
    "rax", "rcx", "rdx", "rbx", "rsp", "rbp", "rsi", "rdi", "r8", "r9", "r10", "r11", "r12", "r13",
    "r14", "r15",
];
const HALF: [&str; 8] = ["eax", "ecx", "edx", "ebx", "esp", "ebp", "esi", "edi"];
const SHORT: [&str; 8] = ["ax", "cx", "dx", "bx", "sp", "bp", "si", "di"];
const LOW: [&str; 8] = ["al", "cl", "dl", "bl", "spl", "bpl", "sil", "dil"];
const HIGH: [&str; 4] = ["ah", "ch", "dh", "bh"];

/// A general register or a part of it: its number, and how many bytes the part is above the lowest.
fn register(name: &str) -> Option<(u8, u8)> {
    let at = |names: &[&str]| {
        names.iter().position(|one| *one == name).and_then(|at| u8::try_from(at).ok())
    };
    let low = at(&WHOLE).or_else(|| at(&HALF)).or_else(|| at(&SHORT)).or_else(|| at(&LOW));
    if let Some(number) = low {
        return Some((number, 0));
    }
    if let Some(number) = at(&HIGH) {
        return Some((number, 1));
    }
    // %r8d, %r8w, %r8b, and gas's other name for the last.
    let stem = name.strip_suffix(['d', 'w', 'b', 'l'])?;
    let number = WHOLE.iter().skip(8).position(|one| *one == stem)?;
    u8::try_from(number + 8).ok().map(|number| (number, 0))
}

fn vector(name: &str) -> Option<u8> {
    let digits = name.strip_prefix("xmm").or_else(|| name.strip_prefix("ymm"))?;
    let number = digits.parse().ok()?;
    // Those above 15 aren't kept where the others are.
    (number < 16 && digits.starts_with(|one: char| one.is_ascii_digit())).then_some(number)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(symbol: &str, distance: i64, base: Option<u8>, index: Option<(u8, u8)>) -> Place {
        let symbol = (!symbol.is_empty()).then(|| symbol.to_owned());
        Place::Memory(Address { symbol, distance, base, index })
    }

    #[test]
    fn all_forms_of_operands_are_understood() {
        use Kind::{Float, Signed, Unsigned};
        let rows = [
            ("-4@%eax", 4, Signed, Place::Register(0, 0)),
            ("1@%bh", 1, Unsigned, Place::Register(3, 1)),
            ("2@%r13w", 2, Unsigned, Place::Register(13, 0)),
            ("1@%sil", 1, Unsigned, Place::Register(6, 0)),
            ("-1@%r9b", 1, Signed, Place::Register(9, 0)),
            ("%rdi", 8, Unsigned, Place::Register(7, 0)),
            ("8f@%xmm11", 8, Float, Place::Vector(11)),
            ("-4f@%xmm0", 4, Float, Place::Vector(0)),
            ("4@$3", 4, Unsigned, Place::Constant(3)),
            ("-8@$-1", 8, Signed, Place::Constant(-1)),
            ("8@$0xffffffffffffffff", 8, Unsigned, Place::Constant(-1)),
            ("8@-16(%rbp)", 8, Unsigned, memory("", -16, Some(5), None)),
            ("8@(%rsp)", 8, Unsigned, memory("", 0, Some(4), None)),
            ("-2@8(%rax,%r9,4)", 2, Signed, memory("", 8, Some(0), Some((9, 4)))),
            ("8@(%rax,%rbx)", 8, Unsigned, memory("", 0, Some(0), Some((3, 1)))),
            ("8@table(,%rcx,8)", 8, Unsigned, memory("table", 0, None, Some((1, 8)))),
            ("4@count(%rip)", 4, Unsigned, memory("count", 0, None, None)),
            ("4@16+count(%rip)", 4, Unsigned, memory("count", 16, None, None)),
            ("4@count+16(%rip)", 4, Unsigned, memory("count", 16, None, None)),
            ("4@count-0x10+4(%rip)", 4, Unsigned, memory("count", -12, None, None)),
            ("4@buf.0(%rip)", 4, Unsigned, memory("buf.0", 0, None, None)),
            ("8f@.LC3(%rip)", 8, Float, memory(".LC3", 0, None, None)),
            ("8@4096", 8, Unsigned, memory("", 4096, None, None)),
        ];
        for (text, size, kind, place) in rows {
            assert_eq!(argument(text), Argument { size, kind, place: Some(place) }, "{text}");
        }
    }

    #[test]
    fn other_operands_are_not_guessed() {
        let rows = [
            "",
            "4@",
            "3@%eax",
            "16@%rax",
            "@%eax",
            "2f@%xmm0",
            "4@%foo",
            "8@%xmm16",
            "8@%fs:0x28",
            "8@%fs:x@tpoff",
            "4@x@GOTPCREL(%rip)",
            "8@16(%rip)",
            "8@()",
            "8@(%eax)",
            "8@(%rax",
            "8@(%rax,%rsp,1)",
            "8@(%rax,%rbx,3)",
            "8@(%rax,%rbx,1,2)",
            "8@a+b(%rip)",
            "8@-a(%rip)",
            "8@$x",
            "8@$",
            "8@$99999999999999999999",
            "8@9223372036854775807+1(%rax)",
            "8@--1(%rax)x",
            "8@ä",
            "é@é",
            "8@r%15",
            "8@%r15dd",
            "8@%xmm+1",
        ];
        for text in rows {
            let found = argument(text).place;
            let is_symbol = matches!(&found, Some(Place::Memory(Address { symbol: Some(_), .. })));
            // A name alone is the symbol's memory.
            assert!(found.is_none() || is_symbol && text == "8@ä", "{text}: {found:?}");
        }
    }

    #[test]
    fn there_are_as_many_arguments_as_words() {
        let all = arguments("-4@%eax 8@-16(%rbp)  4@$3 x@y");
        assert_eq!(all.len(), 4);
        assert!(all.last().is_some_and(|last| last.place.is_none()));
        assert_eq!(arguments("").len(), 0);
        assert_eq!(arguments(&"4@%eax ".repeat(1000)).len(), MOST);
    }
}
