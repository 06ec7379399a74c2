//! How values are shown that are more than numbers: structures, arrays, lists, and targets of pointers. A tree says that. It becomes the words
//! of a recipe, which copy the value, and the description that the trace has. Both go over the tree in the same order, so they can't
//! differ.
//!
//! A value has a part of fixed size, at its place in the structure around it. The agent copies the rest after that structure.

use super::describe::{kind_of, name_of};
use crate::trace::scope::Reach;
use mcount_agent::recipe;
use mcount_cpu::outside::values::Type;
use mcount_trace::layout::{kind, type_flags};

/// The most words for a value, and the most bytes of its description: what's larger isn't followed.
const MOST_WORDS: usize = 2048;
const MOST_BYTES: usize = 8192;

/// How a value is shown. Offsets and sizes are bytes.
#[derive(Debug, Clone)]
pub(super) enum Shape {
    /// A number, or an address.
    Plain(Type),
    /// A pointer to a text that a zero ends.
    Text,
    /// A pointer, and what it leads to.
    Pointer(Box<Shape>),
    Object(Object),
    /// An array of characters.
    Characters {
        size: u64,
        has_more: bool,
    },
    Array(Array),
    /// Pointer and length of a text.
    String {
        pointer: u64,
        length: u64,
    },
    List(List),
    Variant(Variant),
}

/// A structure.
#[derive(Debug, Clone)]
pub(super) struct Object {
    /// As much of it as is copied.
    pub(super) size: u64,
    pub(super) fields: Vec<Member>,
    pub(super) has_more: bool,
}

/// A field.
#[derive(Debug, Clone)]
pub(super) struct Member {
    pub(super) name: String,
    pub(super) offset: u64,
    pub(super) shape: Shape,
}

/// An array inside of a structure.
#[derive(Debug, Clone)]
pub(super) struct Array {
    pub(super) count: u64,
    /// How many are shown.
    pub(super) shown: u64,
    /// Bytes from one element to the next.
    pub(super) size: u64,
    pub(super) of: Box<Shape>,
}

/// Elements elsewhere.
#[derive(Debug, Clone)]
pub(super) struct List {
    pub(super) place: Place,
    /// Bytes from one element to the next.
    pub(super) size: u64,
    /// How many are copied at most.
    pub(super) most: u64,
    /// `None`: the elements aren't understood.
    pub(super) of: Option<Box<Shape>>,
    pub(super) is_map: bool,
}

/// Where the elements are.
#[derive(Debug, Clone, Copy)]
pub(super) enum Place {
    /// From this pointer to that.
    Between(u64, u64),
    /// At this pointer, so many as there.
    Counted(u64, u64),
    /// In a tree whose first node is there, and the count.
    Tree { first: u64, count: u64, value: u64, links: [u64; 3] },
}

/// One of several cases.
#[derive(Debug, Clone)]
pub(super) struct Variant {
    pub(super) size: u64,
    /// Where the number is that says which.
    pub(super) at: u64,
    pub(super) of_number: u64,
    pub(super) cases: Vec<Case>,
}

#[derive(Debug, Clone)]
pub(super) struct Case {
    pub(super) name: String,
    /// `None`: all other numbers.
    pub(super) number: Option<u64>,
    /// `None`: there's nothing with it.
    pub(super) shape: Option<Shape>,
}

impl Shape {
    /// How much of it is copied where it is.
    pub(super) fn size(&self) -> u64 {
        match self {
            Self::Plain(kind) => kind.size(),
            Self::Text | Self::Pointer(_) => 8,
            Self::Object(of) => of.size,
            Self::Characters { size, .. } => *size,
            Self::Array(of) => of.shown * of.size,
            Self::String { pointer, length } => pointer.max(length) + 8,
            Self::List(of) => match of.place {
                Place::Between(one, other) | Place::Counted(one, other) => one.max(other) + 8,
                Place::Tree { first, count, .. } => first.max(count) + 8,
            },
            Self::Variant(of) => of.size,
        }
    }

    /// Does it say more than addresses and the fields of structures do?
    pub(super) fn is_more(&self) -> bool {
        match self {
            Self::Plain(_) => false,
            Self::Object(of) => of.fields.iter().any(|field| field.shape.is_more()),
            _ => true,
        }
    }

    /// Can its description say that `size` bytes of it are copied?
    fn fits(&self, size: u64) -> bool {
        let is_said = matches!(
            self,
            Self::Object(_) | Self::List(_) | Self::String { .. } | Self::Variant(_)
        );
        self.size() == size || is_said && self.size() < size
    }

    /// The words that copy what a value at `base` leads to.
    pub(super) fn words(&self, base: u64, reach: Reach) -> Vec<u64> {
        let field = |at: u64| recipe::FIELD << 8 | (base + at) << 32;
        match self {
            Self::Plain(_) | Self::Characters { .. } => Vec::new(),
            Self::Text => vec![recipe::TEXT | field(0) | limit(reach)],
            Self::Pointer(to) => pointer(field(0), to, reach),
            Self::Object(of) => {
                let words = |field: &Member| field.shape.words(base + field.offset, reach);
                of.fields.iter().flat_map(words).collect()
            }
            Self::Array(of) => {
                (0..of.shown).flat_map(|at| of.of.words(base + at * of.size, reach)).collect()
            }
            Self::String { pointer, length } => {
                let length = recipe::FIELD << 16 | (base + length) << 48;
                vec![recipe::COUNTED | field(*pointer) | length | limit(reach)]
            }
            Self::List(of) => of.words(base, reach),
            Self::Variant(of) => of.words(base, reach),
        }
    }

    /// Adds its type as the trace has it, for a value whose fixed part has `size` bytes.
    fn describe(&self, bytes: &mut Vec<u8>, size: u64) {
        match self {
            Self::Plain(kind) => kind_of(bytes, kind),
            Self::Text => bytes.push(kind::TEXT),
            Self::Pointer(to) => {
                bytes.push(kind::LEADS);
                to.describe(bytes, to.size());
            }
            Self::Object(of) => {
                bytes.push(kind::OBJECT);
                bytes.extend(half(size));
                bytes.push(if of.has_more { type_flags::MORE } else { 0 });
                bytes.push(u8::try_from(of.fields.len()).unwrap_or(0));
                for field in &of.fields {
                    bytes.extend(half(field.offset));
                    name_of(bytes, &field.name);
                    field.shape.describe(bytes, field.shape.size());
                }
            }
            Self::Characters { size, has_more } => {
                bytes.push(kind::CHARACTERS);
                bytes.extend(half(*size));
                bytes.push(if *has_more { type_flags::MORE } else { 0 });
            }
            Self::Array(of) => {
                bytes.push(kind::ARRAY);
                bytes.extend(of.count.to_ne_bytes());
                bytes.extend(half(of.shown));
                bytes.extend(u32::try_from(of.size).unwrap_or(0).to_ne_bytes());
                of.of.describe(bytes, of.size);
            }
            Self::String { pointer, .. } => {
                bytes.push(kind::STRING);
                bytes.extend(half(size));
                bytes.extend(half(*pointer));
            }
            Self::List(of) => of.describe(bytes, size),
            Self::Variant(of) => of.describe(bytes, size),
        }
    }
}

impl List {
    fn words(&self, base: u64, reach: Reach) -> Vec<u64> {
        let body = self.body(reach);
        let more = self.size | self.most << 16 | (body.len() as u64) << 32;
        let field = recipe::FIELD << 8 | recipe::FIELD << 16;
        let mut words = match self.place {
            Place::Between(first, end) => {
                vec![recipe::LIST | field | (base + first) << 32 | (base + end) << 48, more]
            }
            Place::Counted(first, count) => {
                let at = (base + first) << 32 | (base + count) << 48;
                vec![recipe::LIST | recipe::COUNTS | field | at, more]
            }
            Place::Tree { first, count, value, links: [parent, left, right] } => vec![
                recipe::TREE | field | (base + first) << 32 | (base + count) << 48,
                more | value << 48,
                parent | left << 16 | right << 32,
            ],
        };
        words.extend(body);
        words
    }

    fn body(&self, reach: Reach) -> Vec<u64> {
        self.of.as_ref().map(|of| of.words(0, reach)).unwrap_or_default()
    }

    fn describe(&self, bytes: &mut Vec<u8>, size: u64) {
        bytes.push(kind::LIST);
        bytes.extend(half(size));
        bytes.extend(u32::try_from(self.size).unwrap_or(0).to_ne_bytes());
        bytes.push(if self.is_map { type_flags::MAP } else { 0 });
        match &self.of {
            Some(of) => of.describe(bytes, of.size()),
            None => bytes.push(kind::NONE),
        }
    }
}

impl Variant {
    fn words(&self, base: u64, reach: Reach) -> Vec<u64> {
        let numbers: Vec<u64> = self.cases.iter().filter_map(|case| case.number).collect();
        let mut all = Vec::new();
        for case in &self.cases {
            let body = case.shape.as_ref().map(|shape| shape.words(base, reach));
            let Some(body) = body.filter(|body| !body.is_empty()) else { continue };
            let (head, numbers) = match case.number {
                Some(number) => (recipe::CASE, vec![number]),
                None => (recipe::CASE | recipe::NONE_OF, numbers.clone()),
            };
            let count = numbers.len() as u64;
            let at = self.of_number << 24 | (base + self.at) << 32 | (body.len() as u64) << 48;
            all.push(head | count << 16 | at);
            all.extend(numbers);
            all.extend(body);
        }
        all
    }

    fn describe(&self, bytes: &mut Vec<u8>, size: u64) {
        bytes.push(kind::VARIANT);
        bytes.extend(half(size));
        bytes.extend(half(self.at));
        bytes.push(u8::try_from(self.of_number).unwrap_or(0));
        bytes.push(u8::try_from(self.cases.len()).unwrap_or(0));
        for case in &self.cases {
            bytes.push(if case.number.is_none() { type_flags::DEFAULT } else { 0 });
            bytes.extend(case.number.unwrap_or(0).to_ne_bytes());
            name_of(bytes, &case.name);
            match &case.shape {
                Some(shape) => shape.describe(bytes, shape.size()),
                None => bytes.push(kind::NONE),
            }
        }
    }
}

/// The words that copy a value of this type and shape, and its description; `words` copy the part in registers or on the stack. `None` if it
/// isn't followed.
pub(super) fn followed(
    kind: &Type,
    shape: &Shape,
    words: &[u64],
    reach: Reach,
) -> Option<(Vec<u64>, Vec<u8>)> {
    const SOURCES: u64 = 0xffff_ffff_00ff_ff00;
    let all = match (kind, shape, words) {
        (Type::Pointer, Shape::Pointer(to), [word]) if word & 0xff == recipe::COPY => {
            pointer(word & (0xff << 8 | 0xffff << 32), to, reach)
        }
        (Type::View { .. }, Shape::List(list), [word]) if word & 0xff == recipe::COUNTED => {
            let body = list.body(reach);
            let more = list.size | list.most << 16 | (body.len() as u64) << 32;
            let mut all = vec![recipe::LIST | recipe::COUNTS | word & SOURCES, more];
            all.extend(body);
            all
        }
        // A text is copied by a word of its own, from where its bytes are.
        (Type::Structure(of), ..) if of.is_string => return None,
        // The description of a pointer doesn't say how large the class is that it's in.
        (Type::Structure(of), Shape::Pointer(_), [word])
            if word & 0xff == recipe::MEMORY && shape.size() < of.size =>
        {
            let body = shape.words(0, reach);
            let within = recipe::WITHIN | shape.size() << 32 | (body.len() as u64) << 48;
            let memory = word & !(0xff << 24) | shape.size() << 24;
            [memory, within].into_iter().chain(body).collect()
        }
        (Type::Structure(of), shape, words) if shape.is_more() && shape.fits(of.size) => {
            let body = shape.words(0, reach);
            let within = recipe::WITHIN | of.size << 32 | (body.len() as u64) << 48;
            let within = (!body.is_empty()).then_some(within);
            words.iter().copied().chain(within).chain(body).collect()
        }
        _ => return None,
    };
    let mut bytes = Vec::new();
    match (kind, shape) {
        // Pointer and count are in registers.
        (Type::View { .. }, Shape::List(list)) => list.describe(&mut bytes, 0),
        (Type::Structure(of), shape) if shape.fits(of.size) => shape.describe(&mut bytes, of.size),
        (_, shape) => shape.describe(&mut bytes, shape.size()),
    }
    (all.len() <= MOST_WORDS && bytes.len() <= MOST_BYTES).then_some((all, bytes))
}

/// The same words, with the limit for texts.
pub(super) fn limited(words: Vec<u64>, reach: Reach) -> Vec<u64> {
    let is_text =
        |word: u64| [recipe::TEXT, recipe::COUNTED, recipe::STRING].contains(&(word & 0xff));
    let limited = |word| if is_text(word) { word | limit(reach) } else { word };
    words.into_iter().map(limited).collect()
}

fn pointer(source: u64, to: &Shape, reach: Reach) -> Vec<u64> {
    let body = to.words(0, reach);
    let mut words = vec![recipe::FOLLOW | source, to.size() | (body.len() as u64) << 32];
    words.extend(body);
    words
}

/// The most bytes of a text, where words have it.
fn limit(reach: Reach) -> u64 {
    u64::from(reach.size) << 24
}

fn half(number: u64) -> [u8; 2] {
    u16::try_from(number).unwrap_or(0).to_ne_bytes()
}
