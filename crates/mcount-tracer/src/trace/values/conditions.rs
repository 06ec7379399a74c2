//! Conditions on values (`--if`) as words for the agent, which decides them when a call begins or has returned.

use super::places::Located;
use super::shape::Shape;
use super::types::Type;
use mcount_agent::recipe::{self, condition as words};
use mcount_trace::condition::{
    Comparison, Condition, Node, Operand, RESULT, nearest_single, place_of,
};

/// Why a condition isn't decided for a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Undecided {
    /// The function has no value of that name: it isn't meant.
    NotMeant,
    /// It has, and where it is isn't known, or it can't be compared like that.
    Unknown,
}

/// Conditions on a function: on its arguments and on its result.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Decisions {
    pub(super) entry: Vec<u64>,
    pub(super) exit: Vec<u64>,
}

impl Decisions {
    /// Adds what `condition` says of a function with these values.
    pub(super) fn add(
        &mut self,
        condition: &Condition,
        values: &FunctionValues<'_>,
    ) -> Result<(), Undecided> {
        if condition.root.names().iter().any(|name| values.whole(name).is_none()) {
            return Err(Undecided::NotMeant);
        }
        let (arguments, result) = condition.split().map_err(|_| Undecided::NotMeant)?;
        let compile = |node: Option<Node>| node.map(|node| values.node(&node, 0)).transpose();
        let (arguments, result) = (compile(arguments)?, compile(result)?);
        join(&mut self.entry, arguments);
        join(&mut self.exit, result);
        Ok(())
    }
}

/// Both have to hold.
fn join(all: &mut Vec<u64>, more: Option<Vec<u64>>) {
    let Some(more) = more else { return };
    if !all.is_empty() {
        all.push(words::IF_SET | (more.len() as u64) << 8);
    }
    all.extend(more);
}

/// The values of a function, and where they are.
pub(super) struct FunctionValues<'p> {
    pub(super) arguments: Vec<Located<'p>>,
    pub(super) result: Option<Located<'p>>,
    /// The number that one of an enumeration has in the module's debug information.
    pub(super) enumerator: &'p dyn Fn(u32, &[u8]) -> Option<i64>,
    /// Whether some of an enumeration are below 0.
    pub(super) is_signed: &'p dyn Fn(u32) -> bool,
}

impl FunctionValues<'_> {
    /// The argument or the result of this name, or that has what is named in it.
    fn whole(&self, name: &str) -> Option<&Located<'_>> {
        let name = name.split('.').next()?;
        if name == RESULT {
            return self.result.as_ref();
        }
        let named = self.arguments.iter().find(|one| one.name == name);
        named.or_else(|| place_of(name).and_then(|at| self.arguments.get(at)))
    }

    fn find(&self, name: &str) -> Result<Found<'_>, Undecided> {
        let whole = self.whole(name).ok_or(Undecided::NotMeant)?;
        let mut fields = name.split('.').skip(1).peekable();
        let is_optional =
            matches!((whole.kind, whole.shape), (Type::Structure(_), Some(Shape::Variant(_))));
        if fields.peek().is_none() && !is_optional {
            return Ok(Found::Whole(whole));
        }
        let mut found = Part::of(whole).ok_or(Undecided::Unknown)?;
        for field in fields {
            found = found.field(field).ok_or(Undecided::Unknown)?;
        }
        Ok(Found::Part(found.there().ok_or(Undecided::Unknown)?))
    }

    /// The words that decide it, where the stack has so many numbers.
    fn node(&self, node: &Node, used: usize) -> Result<Vec<u64>, Undecided> {
        // A comparison takes two.
        if used + 2 > words::ROOM {
            return Err(Undecided::Unknown);
        }
        Ok(match node {
            Node::And(one, other) => self.either((one, other), words::IF_SET, used)?,
            Node::Or(one, other) => self.either((one, other), words::UNLESS_SET, used)?,
            Node::Not(one) => [self.node(one, used)?, vec![words::NOT]].concat(),
            Node::IsSet(one) => self.compare(Comparison::NotEqual, one, &Operand::Number(0))?,
            Node::Compare(how, one, other) => self.compare(*how, one, other)?,
        })
    }

    fn either(
        &self,
        (one, other): (&Node, &Node),
        skip: u64,
        used: usize,
    ) -> Result<Vec<u64>, Undecided> {
        let (mut all, other) = (self.node(one, used)?, self.node(other, used)?);
        all.push(skip | (other.len() as u64) << 8);
        all.extend(other);
        Ok(all)
    }

    fn compare(
        &self,
        how: Comparison,
        one: &Operand,
        other: &Operand,
    ) -> Result<Vec<u64>, Undecided> {
        let ((Operand::Name(name), constant) | (constant, Operand::Name(name))) = (one, other)
        else {
            return Err(Undecided::Unknown);
        };
        let value = self.find(name)?;
        if let Operand::Text(text) = constant {
            return self.compare_text(how, &value, text);
        }
        if let Operand::Real(real) = constant
            && !value.is_real()
        {
            let is_first = one.name().is_some();
            let (how, number) = if is_first { how } else { how.mirrored() }.of_whole(*real);
            return self.compare(how, &Operand::Name(name.clone()), &Operand::Number(number));
        }
        let nearest = |operand: &Operand| match operand {
            Operand::Real(real) if value.is_single() => Operand::Real(nearest_single(*real)),
            other => other.clone(),
        };
        let (one, other) = (&nearest(one), &nearest(other));
        let kinds = [one, other].map(|operand| match operand {
            Operand::Name(name) => self.find(name).ok().map(|value| value.is_real()),
            _ => None,
        });
        // Whole numbers become others for a comparison, but only if they're known here.
        let is_real = match kinds {
            [Some(one), Some(other)] if one != other => return Err(Undecided::Unknown),
            [one, other] => one.or(other).unwrap_or(false),
        };
        let mut all = self.push(one, is_real)?;
        all.extend(self.push(other, is_real)?);
        all.push(words::COMPARE | code(how) << 8);
        Ok(all)
    }

    /// The words that put it on the stack.
    fn push(&self, operand: &Operand, is_real: bool) -> Result<Vec<u64>, Undecided> {
        #[expect(clippy::cast_precision_loss, reason = "as in C")]
        match operand {
            Operand::Name(name) => self.value(&self.find(name)?).ok_or(Undecided::Unknown),
            Operand::Number(number) if is_real => {
                Ok(constant(words::order((*number as f64).to_bits())))
            }
            Operand::Number(number) => Ok(constant(*number)),
            Operand::Real(number) if is_real => Ok(constant(words::order(number.to_bits()))),
            Operand::Real(_) | Operand::Text(_) => Err(Undecided::Unknown),
        }
    }

    /// The words that put a number on the stack.
    fn value(&self, value: &Found<'_>) -> Option<Vec<u64>> {
        match value {
            Found::Whole(value) => {
                let (how, size) = self.form(value.kind)?;
                let [word] = value.words.as_deref()? else { return None };
                let is_copied =
                    [recipe::COPY, recipe::TEXT, recipe::STRING].contains(&(word & 0xff));
                let (source, at) = (word >> 8 & 0xff, word >> 32 & 0xffff);
                let form = how << 16 | size << 24 | at << 32;
                is_copied.then(|| vec![words::VALUE | source << 8 | form])
            }
            Found::Part(value) => {
                let (how, size) = match value.shape {
                    Shape::Plain(kind) => self.form(kind)?,
                    Shape::Text | Shape::Pointer(_) => ADDRESS,
                    _ => return None,
                };
                value.read(how, size)
            }
        }
    }

    /// How a number of this type is read, and how many bytes it has.
    fn form(&self, kind: &Type) -> Option<(u64, u64)> {
        let (how, size) = match kind {
            Type::Signed(size) => (words::SIGNED, *size),
            Type::Unsigned(size) | Type::Boolean(size) | Type::Character(size) => {
                (words::UNSIGNED, *size)
            }
            Type::Enumeration { size, number } if (self.is_signed)(*number) => {
                (words::SIGNED, *size)
            }
            Type::Enumeration { size, .. } => (words::UNSIGNED, *size),
            Type::Pointer | Type::Text | Type::StringReference => return Some(ADDRESS),
            Type::Float(size @ (4 | 8)) => (words::FLOAT, *size),
            _ => return None,
        };
        (size <= 8).then_some((how, u64::from(size)))
    }

    fn compare_text(
        &self,
        how: Comparison,
        value: &Found<'_>,
        text: &[u8],
    ) -> Result<Vec<u64>, Undecided> {
        if let Some(Type::Enumeration { number, .. }) = value.kind() {
            let number = (self.enumerator)(*number, text).ok_or(Undecided::Unknown)?;
            let mut all = self.value(value).ok_or(Undecided::Unknown)?;
            all.extend(constant(i128::from(number)));
            all.push(words::COMPARE | code(how) << 8);
            return Ok(all);
        }
        if let Found::Part(part) = value
            && let Shape::Characters { size, .. } = part.shape
        {
            let mut all = part.is_characters(*size, text).ok_or(Undecided::Unknown)?;
            match how {
                Comparison::Equal => {}
                Comparison::NotEqual => all.push(words::NOT),
                _ => return Err(Undecided::Unknown),
            }
            return Ok(all);
        }
        let (mut all, word) = value.text().ok_or(Undecided::Unknown)?;
        let size = text.len() as u64;
        all.push(words::TEXT | word | size << 24);
        for piece in text.chunks(8) {
            let mut bytes = [0; 8];
            bytes.iter_mut().zip(piece).for_each(|(room, byte)| *room = *byte);
            all.push(u64::from_le_bytes(bytes));
        }
        match how {
            Comparison::Equal => {}
            Comparison::NotEqual => all.push(words::NOT),
            _ => return Err(Undecided::Unknown),
        }
        Ok(all)
    }
}

/// How an address is read, and its bytes.
const ADDRESS: (u64, u64) = (words::UNSIGNED, 8);

/// What a condition names.
enum Found<'v> {
    /// An argument, or the result.
    Whole(&'v Located<'v>),
    /// A field of one, or of what it leads to.
    Part(Part<'v>),
}

impl<'v> Found<'v> {
    fn kind(&self) -> Option<&'v Type> {
        match self {
            Self::Whole(value) => Some(value.kind),
            Self::Part(Part { shape: Shape::Plain(kind), .. }) => Some(kind),
            Self::Part(_) => None,
        }
    }

    fn is_real(&self) -> bool {
        matches!(self.kind(), Some(Type::Float(_) | Type::Extended))
    }

    fn is_single(&self) -> bool {
        matches!(self.kind(), Some(Type::Float(4)))
    }

    /// The words before the one that compares it as a text; and where that finds it, and the text's length. `None` if it isn't one.
    fn text(&self) -> Option<(Vec<u64>, u64)> {
        let value = match self {
            Self::Whole(value) => value,
            Self::Part(value) => return value.text(),
        };
        let [word] = value.words.as_deref()? else { return None };
        let (source, at) = (word >> 8 & 0xff, word >> 32 & 0xffff);
        let (of_length, length_at) = match word & 0xff {
            recipe::TEXT => (words::UP_TO_ZERO, 0),
            recipe::STRING => (words::INDIRECT, 0),
            recipe::COUNTED => (word >> 16 & 0xff, word >> 48),
            _ => return None,
        };
        Some((Vec::new(), source << 8 | of_length << 16 | at << 32 | length_at << 48))
    }
}

/// A value in a structure.
struct Part<'v> {
    base: Base<'v>,
    /// How many bytes behind the start of that it is.
    offset: u64,
    shape: &'v Shape,
}

/// Where a structure is.
enum Base<'v> {
    /// In memory: these words put its address on the stack.
    Address(Vec<u64>),
    /// In registers and on the stack, as these words of a recipe say. The first ones, of a condition, come before it's read.
    Copied(Vec<u64>, &'v [u64]),
}

impl<'v> Part<'v> {
    /// What an argument or a result leads to, or is.
    fn of(value: &'v Located<'v>) -> Option<Self> {
        let (shape, words) = (value.shape?, value.words.as_deref()?);
        let (base, shape) = match (words, value.kind, shape) {
            ([word], Type::Pointer, Shape::Pointer(to)) if word & 0xff == recipe::COPY => {
                (Base::Address(address(*word)), &**to)
            }
            ([word], Type::Structure(_), shape @ (Shape::Object(_) | Shape::Variant(_)))
                if word & 0xff == recipe::MEMORY =>
            {
                (Base::Address(address(*word)), shape)
            }
            (words, Type::Structure(_), shape @ (Shape::Object(_) | Shape::Variant(_)))
                if words.iter().all(|word| word & 0xff == recipe::COPY) =>
            {
                (Base::Copied(Vec::new(), words), shape)
            }
            _ => return None,
        };
        Some(Self { base, offset: 0, shape })
    }

    /// A field of it, or of what it leads to.
    fn field(mut self, name: &str) -> Option<Self> {
        self = self.there()?;
        while let Shape::Pointer(to) = self.shape {
            let (how, size) = ADDRESS;
            let base = Base::Address(self.read(how, size)?);
            self = Self { base, offset: 0, shape: to }.there()?;
        }
        let Shape::Object(of) = self.shape else { return None };
        let field = of.fields.iter().find(|field| field.name == name)?;
        let offset = self.offset + field.offset;
        (offset <= 0xffff).then_some(Self { offset, shape: &field.shape, ..self })
    }

    /// Itself, or the value in an optional one. If there's none, the condition doesn't hold.
    fn there(self) -> Option<Self> {
        let Shape::Variant(of) = self.shape else { return Some(self) };
        let [none, some] = of.cases.as_slice() else { return None };
        if none.number != Some(0) || some.number.is_some() || !some.name.is_empty() {
            return None;
        }
        let mut before = self.read_at(of.at, words::UNSIGNED, of.of_number)?;
        let (how, size) = ADDRESS;
        // Nothing can be read at null.
        let unreadable = [words::NUMBER, 0, words::AT | how << 16 | size << 24];
        before.push(words::UNLESS_SET | (unreadable.len() as u64) << 8);
        before.extend(unreadable);
        before.push(words::IF_SET);
        let base = match self.base {
            Base::Address(words) => Base::Address([before, words].concat()),
            Base::Copied(_, words) => Base::Copied(before, words),
        };
        Some(Self { base, shape: some.shape.as_ref()?, ..self })
    }

    /// The words that put it on the stack, read in this way.
    fn read(&self, how: u64, size: u64) -> Option<Vec<u64>> {
        self.read_at(0, how, size)
    }

    /// The same of what is so many bytes behind its start.
    fn read_at(&self, behind: u64, how: u64, size: u64) -> Option<Vec<u64>> {
        let offset = self.offset + behind;
        let form = how << 16 | size << 24;
        let (before, word) = match &self.base {
            Base::Address(words) => (words, words::AT | form | offset << 32),
            Base::Copied(before, words) => {
                let (mut start, mut all) = (0, words.iter());
                let word = all.find(|word| {
                    start += *word >> 24 & 0xff;
                    offset < start
                })?;
                let within = offset - (start - (word >> 24 & 0xff));
                let (source, at) = (word >> 8 & 0xff, word >> 32 & 0xffff);
                if offset + size > start {
                    return None;
                }
                (before, words::VALUE | source << 8 | form | (at + within) << 32)
            }
        };
        Some(before.iter().copied().chain([word]).collect())
    }

    /// The words that say whether this text is in an array of `size` characters.
    fn is_characters(&self, size: u64, text: &[u8]) -> Option<Vec<u64>> {
        let mut text = text.to_vec();
        if (text.len() as u64) < size {
            text.push(0);
        }
        if text.len() as u64 > size {
            // It has no room there.
            return Some(vec![words::NUMBER, 0]);
        }
        // A piece is in one register.
        let mut pieces: Vec<(u64, Vec<u8>)> = Vec::new();
        for (at, byte) in (self.offset..).zip(text) {
            match pieces.last_mut().filter(|_| at % 8 != 0) {
                Some((_, piece)) => piece.push(byte),
                None => pieces.push((at - self.offset, vec![byte])),
            }
        }
        let mut all = Vec::new();
        for (at, piece) in pieces.into_iter().rev() {
            let mut bytes = [0; 8];
            bytes.iter_mut().zip(&piece).for_each(|(room, byte)| *room = *byte);
            let read = self.read_at(at, words::UNSIGNED, piece.len() as u64)?;
            let compare = [words::NUMBER, u64::from_le_bytes(bytes)];
            let compare = compare.into_iter().chain([words::COMPARE | words::EQUAL << 8]);
            let skip = (!all.is_empty()).then_some(words::IF_SET | (all.len() as u64) << 8);
            all = read.into_iter().chain(compare).chain(skip).chain(all).collect();
        }
        Some(all)
    }

    /// As [`Found::text`].
    fn text(&self) -> Option<(Vec<u64>, u64)> {
        let (how, size) = ADDRESS;
        match (self.shape, &self.base) {
            (Shape::Text, _) => {
                Some((self.read(how, size)?, words::ON_STACK << 8 | words::UP_TO_ZERO << 16))
            }
            (Shape::String { pointer, length }, Base::Address(words)) if *length == pointer + 8 => {
                let at = (self.offset + pointer) << 32;
                Some((words.clone(), words::ON_STACK << 8 | words::INDIRECT << 16 | at))
            }
            _ => None,
        }
    }
}

/// The words that put the address on the stack that is where a word of a recipe says.
fn address(word: u64) -> Vec<u64> {
    let (how, size) = ADDRESS;
    let (source, at) = (word >> 8 & 0xff, word >> 32 & 0xffff);
    vec![words::VALUE | source << 8 | how << 16 | size << 24 | at << 32]
}

/// The words for a number, or for the nearest that fits.
fn constant(number: i128) -> Vec<u64> {
    match (u64::try_from(number), i64::try_from(number)) {
        (Ok(number), _) => vec![words::NUMBER, number],
        (_, Ok(number)) => vec![words::NUMBER | 1 << 8, number.cast_unsigned()],
        _ if number > 0 => vec![words::NUMBER, u64::MAX],
        _ => vec![words::NUMBER | 1 << 8, i64::MIN.cast_unsigned()],
    }
}

fn code(how: Comparison) -> u64 {
    match how {
        Comparison::Equal => words::EQUAL,
        Comparison::NotEqual => words::NOT_EQUAL,
        Comparison::Less => words::LESS,
        Comparison::NotGreater => words::NOT_GREATER,
        Comparison::Greater => words::GREATER,
        Comparison::NotLess => words::NOT_LESS,
    }
}
