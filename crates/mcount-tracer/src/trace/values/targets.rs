//! Reads from debug information how values are shown: the fields of structures, and the targets of pointers. DWARF 5,
//! 5.5 "Array Type Entries" to 5.7.10 "Variant Entries".
//!
//! Types lead to themselves, and damaged ones to anything. So it ends by the depth that the user wants, and by how many types are read.

use super::dwarf::Reader;
use super::entries::{At, Entry, base, children, entry_of, language, number};
use super::shape::{Array, Case, Member, Object, Shape, Variant};
use super::types::Type;
use gimli::AttributeValue;
use mcount_agent::recipe;
use std::rc::Rc;

/// How many types are read for a value.
const MOST_TYPES: usize = 200;
/// The most bytes of what a pointer leads to, or of an element: a record has no room for more.
pub(super) const LARGEST: u64 = 400;
/// How many elements are shown of an array or a list if they lead to something.
pub(super) const MOST_LEADING: u64 = 8;
/// How many cases there may be.
const MOST_CASES: usize = 64;

/// How far more is followed.
#[derive(Clone, Copy)]
pub(super) struct Budget {
    /// Pointers, one in the other.
    pub(super) pointers: u32,
    /// Lists, one in the other.
    pub(super) lists: u32,
    /// Words that belong to words.
    pub(super) words: usize,
    /// Types, one in the other.
    pub(super) types: usize,
    /// How many bytes are copied at most.
    pub(super) room: u64,
}

impl<'s> Reader<'s> {
    /// How a value of this type is shown; `None` if its type says that already.
    pub(super) fn shape_of(&mut self, at: &At<'s>) -> Option<Shape> {
        let depth = self.reach.depth;
        if depth == 0 {
            return None;
        }
        let place = at.offset.to_debug_info_offset(&at.unit.header)?.0;
        if let Some(known) = self.shapes.get(&place) {
            return known.clone();
        }
        let found = self.new_shape(at, depth);
        self.shapes.insert(place, found.clone());
        found
    }

    fn new_shape(&mut self, at: &At<'s>, depth: u32) -> Option<Shape> {
        self.left = MOST_TYPES;
        let words = recipe::DEEPEST - 1;
        let room = u64::from(self.reach.size);
        let budget = Budget { pointers: depth, lists: depth, words, types: 24, room };
        let shape = self.shape(at, budget)?;
        shape.is_more().then_some(shape)
    }

    /// Are there elements to be shown of values of this type?
    pub(super) fn is_list(&mut self, at: &At<'s>) -> bool {
        matches!(self.shape_of(at), Some(Shape::List(_)))
    }

    /// The same of a value in another one. `None`: it isn't understood.
    pub(super) fn shape(&mut self, at: &At<'s>, budget: Budget) -> Option<Shape> {
        self.left = self.left.checked_sub(1)?;
        let budget = Budget { types: budget.types.checked_sub(1)?, ..budget };
        let at = self.bare(at.clone())?;
        let entry = entry_of(&at)?;
        match entry.tag() {
            gimli::DW_TAG_base_type => {
                let name = self.name(&at, &entry).unwrap_or_default();
                plain(base(&entry, &name))
            }
            gimli::DW_TAG_enumeration_type => plain(self.enumeration(&at, &entry, 0)),
            gimli::DW_TAG_pointer_type
            | gimli::DW_TAG_reference_type
            | gimli::DW_TAG_rvalue_reference_type => Some(self.pointer_shape(&at, &entry, budget)),
            gimli::DW_TAG_structure_type | gimli::DW_TAG_class_type => {
                self.class_shape(&at, &entry, budget)
            }
            gimli::DW_TAG_array_type => self.array_shape(&at, &entry, budget),
            _ => None,
        }
    }

    fn pointer_shape(&mut self, at: &At<'s>, entry: &Entry<'s>, budget: Budget) -> Shape {
        if matches!(self.kind(at, 0), Type::Text) {
            return Shape::Text;
        }
        let to = self.pointer_target(at, entry, budget);
        to.map_or(Shape::Plain(Type::Pointer), |to| Shape::Pointer(Box::new(to)))
    }

    fn pointer_target(&mut self, at: &At<'s>, entry: &Entry<'s>, budget: Budget) -> Option<Shape> {
        let pointers = budget.pointers.checked_sub(1)?;
        let words = budget.words.checked_sub(1)?;
        let target = self.refer(at, &entry.attr_value(gimli::DW_AT_type)?)?;
        let room = u64::from(self.reach.size);
        let shape = self.shape(&target, Budget { pointers, words, room, ..budget })?;
        (1..=LARGEST).contains(&shape.size()).then_some(shape)
    }

    fn class_shape(&mut self, at: &At<'s>, entry: &Entry<'s>, budget: Budget) -> Option<Shape> {
        if entry.attr_value(gimli::DW_AT_declaration).is_some() {
            return None;
        }
        let size = number(entry, gimli::DW_AT_byte_size)?;
        let name = self.name(at, entry).unwrap_or_default();
        if let Some(shape) = self.library_shape(at, &name, budget) {
            return Some(shape);
        }
        let is_part = |offset: &gimli::UnitOffset| {
            let at = At { unit: Rc::clone(&at.unit), offset: *offset };
            entry_of(&at).is_some_and(|entry| entry.tag() == gimli::DW_TAG_variant_part)
        };
        match children(at).into_iter().find(is_part) {
            Some(offset) => {
                let part = At { unit: Rc::clone(&at.unit), offset };
                self.variant(&part, size, budget).map(Shape::Variant)
            }
            None => Some(Shape::Object(self.object(at, size, budget))),
        }
    }

    /// The fields of a structure of `size` bytes.
    fn object(&mut self, at: &At<'s>, size: u64, budget: Budget) -> Object {
        let limit = size.min(budget.room);
        let (mut fields, mut has_more) = (Vec::new(), false);
        for offset in children(at) {
            let at = At { unit: Rc::clone(&at.unit), offset };
            let Some((offset, of)) = entry_of(&at).and_then(|entry| self.member(&at, &entry))
            else {
                continue;
            };
            if offset >= limit {
                has_more |= offset < size;
                continue;
            }
            let room = limit - offset;
            let Some(shape) = self.shape(&of, Budget { room, ..budget }) else {
                has_more |= self.left == 0;
                continue;
            };
            let is_empty = matches!(&shape, Shape::Object(of) if of.fields.is_empty());
            if offset + shape.size() > limit {
                has_more |= offset + shape.size() <= size;
            } else if !is_empty && fields.len() < 255 {
                let name = self.member_name(&at).unwrap_or_default();
                fields.push(Member { name, offset, shape });
            }
        }
        let end = fields.iter().map(|field| field.offset + field.shape.size()).max();
        let size = if limit == size { size } else { end.unwrap_or(0) };
        Object { size, fields, has_more }
    }

    /// Where a field is in its structure, and its type: whole bytes, and not of the class alone.
    pub(super) fn member(&mut self, at: &At<'s>, entry: &Entry<'s>) -> Option<(u64, At<'s>)> {
        let is_base = entry.tag() == gimli::DW_TAG_inheritance;
        if entry.tag() != gimli::DW_TAG_member && !is_base {
            return None;
        }
        let others = [
            gimli::DW_AT_external,
            gimli::DW_AT_declaration,
            gimli::DW_AT_bit_size,
            gimli::DW_AT_data_bit_offset,
        ];
        if others.into_iter().any(|name| entry.attr_value(name).is_some()) {
            return None;
        }
        let offset = match entry.attr_value(gimli::DW_AT_data_member_location) {
            // Of a virtual base, it's to be computed.
            Some(value) => value.udata_value()?,
            None => 0,
        };
        let name = self.name(at, entry);
        if offset > u64::from(u16::MAX) || name.is_some_and(|name| name.starts_with("_vptr")) {
            return None;
        }
        Some((offset, self.refer(at, &entry.attr_value(gimli::DW_AT_type)?)?))
    }

    fn member_name(&mut self, at: &At<'s>) -> Option<String> {
        let entry = entry_of(at)?;
        if entry.tag() == gimli::DW_TAG_inheritance {
            self.type_name(at, &entry)
        } else {
            self.name(at, &entry)
        }
    }

    fn array_shape(&mut self, at: &At<'s>, entry: &Entry<'s>, budget: Budget) -> Option<Shape> {
        if entry.attr_value(gimli::DW_AT_GNU_vector).is_some() {
            return None;
        }
        let element = self.refer(at, &entry.attr_value(gimli::DW_AT_type)?)?;
        let count = array_count(at)?;
        let of = self.shape(&element, budget)?;
        let limit = budget.room;
        let is_rust = language(&at.unit) == Some(gimli::DW_LANG_Rust);
        if matches!(of, Shape::Plain(Type::Character(1))) && !is_rust {
            let size = count.min(limit);
            return Some(Shape::Characters { size, has_more: size < count });
        }
        let size = self.size_of(&element).filter(|size| *size != 0)?;
        let is_leading = !of.words(0, self.reach).is_empty();
        let most = if is_leading { MOST_LEADING } else { u64::MAX };
        let shown = count.min(limit / size).min(most);
        let is_shown = shown != 0 && of.size() <= size;
        is_shown.then(|| Shape::Array(Array { count, shown, size, of: Box::new(of) }))
    }

    /// Bytes of a value of this type.
    pub(super) fn size_of(&mut self, at: &At<'s>) -> Option<u64> {
        let mut count = 1_u64;
        let mut at = at.clone();
        for _ in 0..8 {
            at = self.bare(at)?;
            let entry = entry_of(&at)?;
            if let Some(size) = number(&entry, gimli::DW_AT_byte_size) {
                return count.checked_mul(size).filter(|size| *size < 1 << 32);
            }
            match entry.tag() {
                gimli::DW_TAG_array_type => {
                    count = count.checked_mul(array_count(&at)?)?;
                    at = self.refer(&at, &entry.attr_value(gimli::DW_AT_type)?)?;
                }
                gimli::DW_TAG_pointer_type
                | gimli::DW_TAG_reference_type
                | gimli::DW_TAG_rvalue_reference_type => return count.checked_mul(8),
                _ => return None,
            }
        }
        None
    }

    /// The cases of an enumeration of Rust with `size` bytes.
    fn variant(&mut self, part: &At<'s>, size: u64, budget: Budget) -> Option<Variant> {
        if size > budget.room {
            return None;
        }
        let entry = entry_of(part)?;
        let (at, of_number) = match entry.attr_value(gimli::DW_AT_discr) {
            Some(value) => {
                let member = self.refer(part, &value)?;
                let entry = entry_of(&member)?;
                let (at, of) = self.member(&member, &entry)?;
                (at, self.size_of(&of)?)
            }
            None => (0, 0),
        };
        if of_number > 8 || at + of_number > size {
            return None;
        }
        let budget = Budget { words: budget.words.checked_sub(1)?, ..budget };
        let mut cases = Vec::new();
        for offset in children(part) {
            let at = At { unit: Rc::clone(&part.unit), offset };
            let Some(entry) = entry_of(&at) else { continue };
            if entry.tag() == gimli::DW_TAG_variant {
                cases.push(self.case(&at, &entry, (size, of_number), budget)?);
            }
        }
        (cases.len() <= MOST_CASES).then_some(Variant { size, at, of_number, cases })
    }

    fn case(
        &mut self,
        at: &At<'s>,
        entry: &Entry<'s>,
        (size, of_number): (u64, u64),
        budget: Budget,
    ) -> Option<Case> {
        let bits = u32::try_from(8 * of_number).ok()?;
        let mask = u64::MAX.checked_shr(64 - bits).unwrap_or(0);
        let number = entry.attr_value(gimli::DW_AT_discr_value);
        let number = number.and_then(|value| number_of(&value)).map(|number| number & mask);
        let is_member = |offset: &gimli::UnitOffset| {
            let at = At { unit: Rc::clone(&at.unit), offset: *offset };
            entry_of(&at).is_some_and(|entry| entry.tag() == gimli::DW_TAG_member)
        };
        let offset = children(at).into_iter().find(is_member)?;
        let member = At { unit: Rc::clone(&at.unit), offset };
        let entry = entry_of(&member)?;
        let name = self.name(&member, &entry)?;
        let (offset, of) = self.member(&member, &entry)?;
        let of = self.bare(of).filter(|_| offset == 0)?;
        let object = self.object(&of, size, budget);
        let shape = (!object.fields.is_empty()).then_some(Shape::Object(object));
        Some(Case { name, number, shape })
    }

    /// Whether values of Rust with this type are returned in registers, whatever is in them.
    pub(super) fn is_small(&mut self, at: &At<'s>) -> bool {
        const REGISTERS: u64 = 16;
        language(&at.unit) == Some(gimli::DW_LANG_Rust)
            && self.size_of(at).is_some_and(|size| size <= REGISTERS)
    }

    /// Has it a number of 16 bytes in it? Rust passes a pair of these in registers.
    pub(super) fn has_wide(&mut self, at: &At<'s>, depth: usize) -> bool {
        const DEEPEST: usize = 24;
        if depth == 0 {
            self.left = MOST_TYPES;
        }
        let Some(left) = self.left.checked_sub(1).filter(|_| depth < DEEPEST) else { return true };
        self.left = left;
        let Some(at) = self.bare(at.clone()) else { return true };
        let Some(entry) = entry_of(&at) else { return true };
        if entry.tag() == gimli::DW_TAG_base_type {
            return number(&entry, gimli::DW_AT_byte_size).is_none_or(|size| size > 8);
        }
        let is_whole = [
            gimli::DW_TAG_pointer_type,
            gimli::DW_TAG_enumeration_type,
            gimli::DW_TAG_subroutine_type,
        ];
        if is_whole.contains(&entry.tag()) {
            return false;
        }
        if let Some(of) = entry.attr_value(gimli::DW_AT_type) {
            // A field, or an array.
            return self.refer(&at, &of).is_none_or(|of| self.has_wide(&of, depth + 1));
        }
        children(&at).into_iter().any(|offset| {
            let at = At { unit: Rc::clone(&at.unit), offset };
            let tag = entry_of(&at).map(|entry| entry.tag());
            let parts = [gimli::DW_TAG_member, gimli::DW_TAG_variant_part, gimli::DW_TAG_variant];
            tag.is_some_and(|tag| parts.contains(&tag)) && self.has_wide(&at, depth + 1)
        })
    }
}

fn plain(kind: Type) -> Option<Shape> {
    let is_shown = !matches!(kind, Type::Unknown | Type::Float(2 | 16)) && kind.size() != 0;
    is_shown.then_some(Shape::Plain(kind))
}

/// How many elements an array has, of all dimensions.
fn array_count(at: &At<'_>) -> Option<u64> {
    let mut count = 1_u64;
    for offset in children(at) {
        let at = At { unit: Rc::clone(&at.unit), offset };
        let Some(entry) = entry_of(&at) else { continue };
        let last = || number(&entry, gimli::DW_AT_upper_bound)?.checked_add(1);
        count = count.checked_mul(number(&entry, gimli::DW_AT_count).or_else(last)?)?;
    }
    (count != 0).then_some(count)
}

fn number_of<R: gimli::Reader>(value: &AttributeValue<R>) -> Option<u64> {
    value.udata_value().or_else(|| value.sdata_value().map(i64::cast_unsigned))
}
