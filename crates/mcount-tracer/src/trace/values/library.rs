//! Types of standard libraries, known by the names of their fields: those of libstdc++, some of LLVM's libc++, and Rust's. Where a field is
//! in its type is what debug information says.

use super::dwarf::Reader;
use super::entries::{At, children, entry_of, language};
use super::shape::{Case, List, Member, Object, Place, Shape, Variant};
use super::targets::{Budget, LARGEST, MOST_LEADING};
use gimli::UnitOffset;
use std::collections::VecDeque;
use std::rc::Rc;

/// How many fields of a type are looked at, with those of its fields.
const MOST_FIELDS: usize = 64;

/// How many elements of a list are copied at least.
const LEAST: u64 = 4;

/// A field, or one of a field.
struct Part<'s> {
    name: String,
    offset: u64,
    of: At<'s>,
}

impl<'s> Reader<'s> {
    /// How a type of a standard library is shown; `None` if it's none.
    pub(super) fn library_shape(
        &mut self,
        at: &At<'s>,
        name: &str,
        budget: Budget,
    ) -> Option<Shape> {
        if language(&at.unit) == Some(gimli::DW_LANG_Rust) {
            return self.rust_shape(at, name, budget);
        }
        match name.split_once('<')?.0 {
            "vector" => {
                let all = self.parts(at);
                let first = pointer_named(&all, &["_M_start", "__begin_"])?;
                let end = pointer_named(&all, &["_M_finish", "__end_"])?;
                let element = self.pointee(&first.of)?;
                let place = Place::Between(first.offset, end.offset);
                self.list(place, &element, false, budget)
            }
            "basic_string" | "basic_string_view" if is_of_characters(name) => {
                let all = self.parts(at);
                let pointer = pointer_named(&all, &["_M_p", "_M_str", "__data_"])?.offset;
                let names = ["_M_string_length", "_M_len", "__size_"];
                let length = part_named(&all, &names)?.offset;
                Some(Shape::String { pointer, length })
            }
            "unique_ptr" | "shared_ptr" | "__shared_ptr" => {
                let all = self.parts(at);
                let names = ["_M_head_impl", "_M_ptr", "__ptr_", "__value_"];
                let pointer = pointer_named(&all, &names).filter(|one| one.offset == 0)?;
                self.shape(&pointer.of, budget)
            }
            "optional" => self.optional(at, budget),
            "map" | "multimap" => self.tree(at, true, budget),
            "set" | "multiset" => self.tree(at, false, budget),
            _ => None,
        }
    }

    fn optional(&mut self, at: &At<'s>, budget: Budget) -> Option<Shape> {
        let all = self.parts(at);
        let engaged = part_named(&all, &["_M_engaged", "__engaged_"])?;
        let value = part_named(&all, &["_M_value", "__val_"])?;
        let of_number = self.size_of(&engaged.of).filter(|size| *size <= 8)?;
        let budget = Budget { words: budget.words.checked_sub(1)?, ..budget };
        let shape = self.shape(&value.of, budget);
        let (at, size) = (engaged.offset, engaged.offset + of_number);
        if value.offset != 0 || size > budget.room {
            return None;
        }
        let shape = shape.or_else(|| Some(Shape::Object(empty())));
        let none = Case { name: "nullopt".to_owned(), number: Some(0), shape: None };
        let cases = vec![none, Case { name: String::new(), number: None, shape }];
        Some(Shape::Variant(Variant { size, at, of_number, cases }))
    }

    /// A red-black tree of libstdc++.
    fn tree(&mut self, at: &At<'s>, is_map: bool, budget: Budget) -> Option<Shape> {
        let all = self.parts(at);
        let tree = part_named(&all, &["_M_t"])?.of.clone();
        let header = part_named(&all, &["_M_header"])?;
        let count = part_named(&all, &["_M_node_count"])?.offset;
        let element = self.type_parameter(&tree, "_Val")?;
        let (header, node) = (header.offset, header.of.clone());
        let value = self.size_of(&node)?;
        let links = self.parts(&node);
        let link = |name| Some(pointer_named(&links, &[name])?.offset);
        let links = [link("_M_parent")?, link("_M_left")?, link("_M_right")?];
        let [_, left, _] = links;
        // So much of a node is read.
        if links.iter().any(|link| link + 8 > 64) || value > u64::from(u16::MAX) {
            return None;
        }
        let place = Place::Tree { first: header + left, count, value, links };
        self.list(place, &element, is_map, budget)
    }

    fn rust_shape(&mut self, at: &At<'s>, name: &str, budget: Budget) -> Option<Shape> {
        const PAIRS: [&str; 3] = ["&", "Box<", "alloc::boxed::Box<"];
        if PAIRS.iter().any(|start| name.starts_with(start)) {
            let all = self.parts(at);
            let pointer = pointer_named(&all, &["data_ptr"])?;
            let (first, count) = (pointer.offset, part_named(&all, &["length"])?.offset);
            if name.ends_with("str") || name.contains("<str") {
                return Some(Shape::String { pointer: first, length: count });
            }
            let element = self.pointee(&pointer.of)?;
            return self.list(Place::Counted(first, count), &element, false, budget);
        }
        let is_string = name == "String";
        if !is_string && !name.starts_with("Vec<") {
            return None;
        }
        let all = self.parts(at);
        let own = children(at).len();
        // What another `String` has is deeper.
        if is_string && !all.iter().take(own).any(|part| part.name == "vec") {
            return None;
        }
        let pointer = pointer_named(&all, &["pointer"])?.offset;
        let length = part_named(&all, &["len"])?.offset;
        if is_string {
            return Some(Shape::String { pointer, length });
        }
        let element = self.type_parameter(at, "T")?;
        self.list(Place::Counted(pointer, length), &element, false, budget)
    }

    /// The elements of a list.
    fn list(
        &mut self,
        place: Place,
        element: &At<'s>,
        is_map: bool,
        budget: Budget,
    ) -> Option<Shape> {
        // It says how many there are, whatever they are.
        let size = self.size_of(element).filter(|size| u16::try_from(*size).is_ok())?;
        let inner = match (budget.lists.checked_sub(1), budget.words.checked_sub(1)) {
            (Some(lists), Some(words)) => {
                Some(Budget { lists, words, room: u64::from(self.reach.size), ..budget })
            }
            _ => None,
        };
        let of = inner.and_then(|budget| self.shape(element, budget));
        let of = of.filter(|of| (1..=LARGEST).contains(&size) && of.size() <= size).map(Box::new);
        let is_leading = of.as_ref().is_some_and(|of| !of.words(0, self.reach).is_empty());
        let room = LARGEST / size.max(1);
        let most = (u64::from(self.reach.size) / size.max(1)).max(LEAST).min(room);
        let most = match &of {
            None => 0,
            Some(_) if is_leading => most.min(MOST_LEADING),
            Some(_) => most,
        };
        Some(Shape::List(List { place, size, most, of, is_map }))
    }

    /// The fields of a type, then those of its fields, and so on.
    fn parts(&mut self, at: &At<'s>) -> Vec<Part<'s>> {
        let mut found = Vec::new();
        let mut next = VecDeque::from([(0, at.clone())]);
        while let Some((base, at)) = next.pop_front() {
            for offset in children(&at) {
                if found.len() == MOST_FIELDS {
                    return found;
                }
                let at = At { unit: Rc::clone(&at.unit), offset };
                let Some(entry) = entry_of(&at) else { continue };
                let Some((offset, of)) = self.member(&at, &entry) else { continue };
                let Some(of) = self.bare(of) else { continue };
                let name = self.name(&at, &entry).unwrap_or_default();
                let (offset, tag) = (base + offset, entry_of(&of).map(|entry| entry.tag()));
                let classes = [
                    gimli::DW_TAG_structure_type,
                    gimli::DW_TAG_class_type,
                    gimli::DW_TAG_union_type,
                ];
                if tag.is_some_and(|tag| classes.contains(&tag)) && offset < 1 << 12 {
                    next.push_back((offset, of.clone()));
                }
                found.push(Part { name, offset, of });
            }
        }
        found
    }

    fn pointee(&mut self, at: &At<'s>) -> Option<At<'s>> {
        let entry = entry_of(at)?;
        self.refer(at, &entry.attr_value(gimli::DW_AT_type)?)
    }

    /// The type that a template, or a generic type, is made with.
    fn type_parameter(&mut self, of: &At<'s>, name: &str) -> Option<At<'s>> {
        let mut is_it = |offset: &UnitOffset| {
            let at = At { unit: Rc::clone(&of.unit), offset: *offset };
            let Some(entry) = entry_of(&at) else { return false };
            entry.tag() == gimli::DW_TAG_template_type_parameter
                && self.name(&at, &entry).as_deref() == Some(name)
        };
        let offset = children(of).into_iter().find(|offset| is_it(offset))?;
        self.pointee(&At { unit: Rc::clone(&of.unit), offset })
    }
}

fn part_named<'p, 's>(all: &'p [Part<'s>], names: &[&str]) -> Option<&'p Part<'s>> {
    all.iter().find(|part| names.contains(&part.name.as_str()))
}

/// The first one with such a name that's a pointer.
fn pointer_named<'p, 's>(all: &'p [Part<'s>], names: &[&str]) -> Option<&'p Part<'s>> {
    let is_pointer = |part: &&Part<'s>| {
        let tag = entry_of(&part.of).map(|entry| entry.tag());
        tag == Some(gimli::DW_TAG_pointer_type)
    };
    all.iter().filter(|part| names.contains(&part.name.as_str())).find(is_pointer)
}

fn is_of_characters(name: &str) -> bool {
    name.contains("<char,") || name.ends_with("<char>")
}

fn empty() -> Object {
    Object { size: 0, fields: Vec::<Member>::new(), has_more: false }
}
