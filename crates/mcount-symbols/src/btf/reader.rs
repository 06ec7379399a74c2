//! The bytes of BTF as types and strings. All numbers are checked: they come from a file.
//!
//! Format: `include/uapi/linux/btf.h`. From Linux 7.1 on, the header may have 32 bytes, and then a layout says how large
//! the types of each kind are, so that readers can pass over kinds that are newer than they.
//! `BTF_KIND_LOC_PARAM` (20), `BTF_KIND_LOC_PROTO` (21) and `BTF_KIND_LOCSEC` (22) are in no released kernel yet. They are read as
//! Alan Maguire's series "Bpf next base btf inline v4" has them (kernel-patches/bpf, pull request 13895, September 2026).

use super::Error;
use memchr::memmem;
use std::ops::Range;

const MAGIC: u16 = 0xeb9f;
/// The bytes of the header that every version has.
const HEADER: usize = 24;
/// The bytes of a header that tells where the layout is.
const LONG_HEADER: usize = 32;
/// The bytes of the layout for each kind: what follows a type, what each of its members takes, and flags.
const LAYOUT: usize = 4;
/// The kind that says where functions were inlined.
const PLACES: u32 = 22;
/// The bytes of each such place: function, location prototype, offset.
const PLACE: usize = 12;
/// The bytes that every type begins with.
const TYPE: usize = 12;

/// The kinds of types, as far as they differ for us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Function,
    Prototype,
    /// A number, an enumeration or a pointer.
    Scalar,
    /// A structure or union.
    Structure,
    /// Another name for a type, `const`, `volatile`, `restrict`, or a tag.
    Alias,
    /// Where functions were inlined, in the section of code that it's named after.
    Places,
    Other,
}

impl Kind {
    pub(super) fn is_scalar(self) -> bool {
        self == Self::Scalar
    }
}

/// One type.
#[derive(Debug, Clone, Copy)]
pub(super) struct Type {
    pub(super) kind: Kind,
    /// Where its name is.
    pub(super) name: u32,
    /// The type that it refers to, or its size in bytes.
    pub(super) target: u32,
    /// How many members, arguments or the like it has.
    count: usize,
    /// Where these are in the bytes of types.
    members: usize,
}

/// Types and strings, which may continue those of another part.
pub(super) struct Part<'d> {
    pub(super) types: Vec<Type>,
    /// The identity of the first of `types`.
    pub(super) first_type: u32,
    /// The offset of the first of its strings.
    pub(super) first_string: u32,
    order: Order,
    bytes: &'d [u8],
    strings: &'d [u8],
    layout: Layout<'d>,
}

/// The sections of BTF.
struct Sections<'d> {
    order: Order,
    types: &'d [u8],
    strings: &'d [u8],
    /// Empty if there is none.
    layout: &'d [u8],
    /// The bytes from the first of the header to the last of a section.
    size: usize,
}

/// How large the types of each kind are, by their own word.
#[derive(Debug, Clone, Copy)]
struct Layout<'d>(&'d [u8]);

impl Layout<'_> {
    /// The bytes that follow a type of `kind`, and those of each of its members. They are whole words.
    fn sizes(self, kind: u32) -> Option<(usize, usize)> {
        let at = usize::try_from(kind).ok()?.checked_mul(LAYOUT)?;
        let [fixed, each, ..] = *self.0.get(at..)?.first_chunk::<LAYOUT>()?;
        (fixed % 4 == 0 && each % 4 == 0).then(|| (fixed.into(), each.into()))
    }
}

/// The byte order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Order {
    Little,
    Big,
}

impl Order {
    fn of(bytes: &[u8]) -> Option<Self> {
        let magic = *bytes.first_chunk::<2>()?;
        if magic == MAGIC.to_le_bytes() {
            return Some(Self::Little);
        }
        (magic == MAGIC.to_be_bytes()).then_some(Self::Big)
    }

    /// The number at `offset`.
    fn number(self, bytes: &[u8], offset: usize) -> Option<u32> {
        let word = *bytes.get(offset..)?.first_chunk::<4>()?;
        Some(match self {
            Self::Little => u32::from_le_bytes(word),
            Self::Big => u32::from_be_bytes(word),
        })
    }
}

/// Whether `bytes` begin like BTF.
pub(super) fn is_btf(bytes: &[u8]) -> bool {
    Order::of(bytes).is_some() && bytes.len() >= HEADER
}

/// Where BTF that continues no other is in `image`, which has no sections.
pub(super) fn find(image: &[u8]) -> Option<Range<usize>> {
    [MAGIC.to_le_bytes(), MAGIC.to_be_bytes()].iter().find_map(|magic| {
        memmem::find_iter(image, magic)
            .find_map(|at| image.get(at..).and_then(of_kernel).map(|length| at..at + length))
    })
}

/// How many bytes the BTF has that `bytes` begin with, if it is that of a kernel: there are types, maybe a layout, and
/// strings, one after the other.
fn of_kernel(bytes: &[u8]) -> Option<usize> {
    let order = Order::of(bytes)?;
    let header = |at: usize| usize::try_from(order.number(bytes, at)?).ok();
    let Sections { types, strings, layout, size, .. } = sections(bytes).ok()?;
    let is_one = matches!(header(4)?, HEADER | LONG_HEADER)
        && header(8)? == 0
        && header(16)? == types.len() + layout.len();
    let is_whole = strings.first() == Some(&0) && strings.last() == Some(&0);
    (is_one && is_whole && !types.is_empty()).then_some(size)
}

/// Whether the BTF in `bytes` continues no other: the first of its strings is empty.
pub(super) fn is_whole(bytes: &[u8]) -> Result<bool, Error> {
    let Sections { types, strings, .. } = sections(bytes)?;
    Ok(strings.first().map_or(types.is_empty(), |first| *first == 0))
}

/// The sections in `bytes`.
fn sections(bytes: &[u8]) -> Result<Sections<'_>, Error> {
    let order = Order::of(bytes).ok_or(Error::Malformed("its first bytes aren't those of BTF"))?;
    if bytes.get(2) != Some(&1) {
        return Err(Error::Malformed("its version isn't 1"));
    }
    let header = |at: usize| -> Result<usize, Error> {
        let number = order.number(bytes, at).ok_or(Error::Malformed("its header is truncated"))?;
        usize::try_from(number).map_err(|_| Error::Malformed("it is too large"))
    };
    let length = header(4)?;
    if length < HEADER {
        return Err(Error::Malformed("its header is too short"));
    }
    let rest = bytes.get(length..).ok_or(Error::Malformed("its header is truncated"))?;
    let range = |at: usize| -> Result<(usize, &[u8]), Error> {
        let (offset, length) = (header(at)?, header(at + 4)?);
        let end = offset.checked_add(length);
        let found = end.and_then(|end| Some((end, rest.get(offset..end)?)));
        found.ok_or(Error::Malformed("it is truncated"))
    };
    let (_, types) = range(8)?;
    let (end, strings) = range(16)?;
    let (end_of_layout, layout) = if length < LONG_HEADER { (0, &[][..]) } else { range(24)? };
    if layout.len() % LAYOUT != 0 {
        return Err(Error::Malformed("its layout has a part of an entry"));
    }
    let size = length + end.max(end_of_layout);
    Ok(Sections { order, types, strings, layout, size })
}

impl<'d> Part<'d> {
    /// The BTF in `bytes`, which continues `base` if there is one.
    pub(super) fn read(bytes: &'d [u8], base: Option<&Self>) -> Result<Self, Error> {
        let Sections { order, types: bytes, strings, layout, .. } = sections(bytes)?;
        let (first_type, first_string) = match base {
            // 0 is void, which isn't written down.
            None => (1, 0),
            Some(base) if base.order != order => {
                return Err(Error::Malformed("its byte order isn't that of its base"));
            }
            Some(base) => (base.end_of_types()?, base.end_of_strings()?),
        };
        // What continues other BTF need not say the same again.
        let layout = match base {
            Some(base) if layout.is_empty() => base.layout,
            _ => Layout(layout),
        };
        let types = types(order, bytes, layout)?;
        Ok(Self { types, first_type, first_string, order, bytes, strings, layout })
    }

    fn end_of_types(&self) -> Result<u32, Error> {
        let count = u32::try_from(self.types.len()).ok();
        let end = count.and_then(|count| self.first_type.checked_add(count));
        end.ok_or(Error::Malformed("it is too large"))
    }

    fn end_of_strings(&self) -> Result<u32, Error> {
        let length = u32::try_from(self.strings.len()).ok();
        let end = length.and_then(|length| self.first_string.checked_add(length));
        end.ok_or(Error::Malformed("it is too large"))
    }

    /// The string at `offset`, without its zero.
    pub(super) fn string(&self, offset: u32) -> Option<&'d [u8]> {
        let start = usize::try_from(offset.checked_sub(self.first_string)?).ok()?;
        let rest = self.strings.get(start..)?;
        rest.get(..memchr::memchr(0, rest)?)
    }

    /// The type `id`.
    pub(super) fn get(&self, id: u32) -> Option<&Type> {
        self.types.get(usize::try_from(id.checked_sub(self.first_type)?).ok()?)
    }

    /// The types of the arguments of `prototype`. That of `...` is 0.
    pub(super) fn arguments(&self, prototype: &Type) -> impl Iterator<Item = u32> {
        let start = prototype.members;
        (0..prototype.count).map_while(move |at| self.order.number(self.bytes, start + at * 8 + 4))
    }

    /// The functions that were inlined by `places`, and the offset of each place in the section.
    pub(super) fn places(&self, places: &Type) -> impl Iterator<Item = (u32, u32)> {
        let number = |at: usize| self.order.number(self.bytes, at);
        let start = places.members;
        (0..places.count).map_while(move |at| {
            Some((number(start + at * PLACE)?, number(start + at * PLACE + 8)?))
        })
    }
}

/// All types in `bytes`.
fn types(order: Order, bytes: &[u8], layout: Layout<'_>) -> Result<Vec<Type>, Error> {
    let truncated = Error::Malformed("a type is truncated");
    let mut types = Vec::new();
    let mut at = 0;
    while at < bytes.len() {
        let field = |field: usize| order.number(bytes, at + field).ok_or(truncated);
        let (name, info, target) = (field(0)?, field(4)?, field(8)?);
        let count = usize::try_from(info & 0x00ff_ffff).unwrap_or(usize::MAX);
        let number = info >> 24 & 0x7f;
        let (kind, fixed, each) =
            kind(number, layout).ok_or(Error::UnknownKind { kind: number, offset: at })?;
        let size = count.checked_mul(each).and_then(|size| size.checked_add(fixed));
        let members = at + TYPE;
        let end = size.and_then(|size| members.checked_add(size));
        at = end.filter(|end| *end <= bytes.len()).ok_or(truncated)?;
        types.push(Type { kind, name, target, count, members });
    }
    Ok(types)
}

/// The kind `number`, how many bytes follow a type of it, and how many each of its members takes. `None` if nothing says
/// that.
fn kind(number: u32, layout: Layout<'_>) -> Option<(Kind, usize, usize)> {
    Some(match number {
        // Number; pointer; enumeration of 32 and of 64 bits.
        1 => (Kind::Scalar, 4, 0),
        2 => (Kind::Scalar, 0, 0),
        6 => (Kind::Scalar, 0, 8),
        19 => (Kind::Scalar, 0, 12),
        // Array.
        3 => (Kind::Other, 12, 0),
        // Structure; union.
        4 | 5 => (Kind::Structure, 0, 12),
        // Name for a type; volatile, const, restrict; tag of a type.
        8..=11 | 18 => (Kind::Alias, 0, 0),
        12 => (Kind::Function, 0, 0),
        13 => (Kind::Prototype, 0, 8),
        // Declaration of a structure; floating-point number.
        7 | 16 => (Kind::Other, 0, 0),
        // Variable; tag of a declaration.
        14 | 17 => (Kind::Other, 4, 0),
        // Section of data.
        15 => (Kind::Other, 0, 12),
        _ => return newer(number, layout),
    })
}

/// The same of a kind that isn't in Linux 7.2. The layout has the last word: the sizes changed while the kinds of inlined
/// functions were reviewed.
fn newer(number: u32, layout: Layout<'_>) -> Option<(Kind, usize, usize)> {
    let proposed = match number {
        20 => Some((4, 4)),
        21 => Some((0, 4)),
        PLACES => Some((0, PLACE)),
        _ => None,
    };
    let (fixed, each) = layout.sizes(number).filter(|_| number != 0).or(proposed)?;
    let is_read = number == PLACES && (fixed, each) == (0, PLACE);
    Some((if is_read { Kind::Places } else { Kind::Other }, fixed, each))
}
