//! Functions and their types, as debug information has them: DWARF 5, 3.3 "Subroutine and Entry Point Entries" and 5 "Type
//! Entries".
//!
//! Only the units are read that have wanted functions in them, and in these only what the functions refer to. The program
//! waits for it.

use super::describe::name_of;
use super::entries::{
    At, Entry, base, children, entry_of, is_c_plus_plus, is_changed, is_default, is_optimized,
    is_slice, is_understood, is_void, language, number, origin_of,
};
use super::shape::Shape;
use super::types::{Evidence, Field, Parameter, Signature, Structure, Type};
use crate::debug::{Sections, Slice};
use crate::trace::scope::Reach;
use gimli::{AttributeValue, Dwarf, Unit, UnitHeader, UnitOffset, UnitSectionOffset};
use mcount_cpu::outside::values::Conventions;
use std::collections::{BTreeSet, HashMap};
use std::rc::Rc;

/// The first bytes of the names of texts.
const STRING: &str = "basic_string<char,";
const VIEW: &str = "basic_string_view<char,";

/// How far types are followed.
const DEEPEST: usize = 12;
/// No type has more bytes, unless it's damaged.
const LARGEST: u64 = 1 << 32;

/// Reads functions.
pub(super) struct Reader<'s> {
    dwarf: Dwarf<Slice<'s>>,
    headers: Vec<UnitHeader<Slice<'s>>>,
    /// Units that were read, by where they begin.
    units: HashMap<usize, Rc<Unit<Slice<'s>>>>,
    /// Enumerations by where they are in `.debug_info`, with their numbers.
    known: HashMap<usize, u32>,
    /// The same for the trace.
    enumerations: Vec<(u32, Vec<u8>)>,
    /// How many enumerations the trace had before.
    first: u32,
    rules: &'static Conventions,
    pub(super) reach: Reach,
    /// How many more types are read for the value at hand.
    pub(super) left: usize,
    /// What is shown of values, by where their types are in `.debug_info`.
    pub(super) shapes: HashMap<usize, Option<Shape>>,
}

impl<'s> Reader<'s> {
    pub(super) fn new(
        sections: &'s Sections<'_>,
        first: u32,
        rules: &'static Conventions,
        reach: Reach,
    ) -> Self {
        let dwarf = sections.dwarf();
        let mut headers = Vec::new();
        let mut units = dwarf.units();
        while let Ok(Some(header)) = units.next() {
            headers.push(header);
        }
        Self {
            dwarf,
            headers,
            units: HashMap::new(),
            known: HashMap::new(),
            enumerations: Vec::new(),
            first,
            rules,
            reach,
            left: 0,
            shapes: HashMap::new(),
        }
    }

    /// Those that were met so far.
    pub(super) fn known_enumerations(&self) -> &[(u32, Vec<u8>)] {
        &self.enumerations
    }

    /// The trace's entries for the enumerations that were met.
    pub(super) fn enumerations(self) -> Vec<(u32, Vec<u8>)> {
        self.enumerations
    }

    /// The functions that begin at these addresses.
    pub(super) fn functions(&mut self, addresses: &BTreeSet<u64>) -> HashMap<u64, Signature> {
        let mut found = HashMap::new();
        for at in 0..self.headers.len() {
            let Some(unit) = self.unit(at) else { continue };
            if !self.may_have(&unit, addresses) {
                self.units.remove(&at);
                continue;
            }
            for (address, offset) in self.beginnings(&unit, addresses).unwrap_or_default() {
                let function = At { unit: Rc::clone(&unit), offset };
                if let Some(signature) = self.signature(&function, address) {
                    found.entry(address).or_insert(signature);
                }
            }
        }
        found
    }

    fn unit(&mut self, at: usize) -> Option<Rc<Unit<Slice<'s>>>> {
        if let Some(unit) = self.units.get(&at) {
            return Some(Rc::clone(unit));
        }
        let unit = Rc::new(self.dwarf.unit(*self.headers.get(at)?).ok()?);
        self.units.insert(at, Rc::clone(&unit));
        Some(unit)
    }

    fn may_have(&self, unit: &Unit<Slice<'s>>, addresses: &BTreeSet<u64>) -> bool {
        let Ok(mut ranges) = self.dwarf.unit_ranges(unit) else { return true };
        while let Ok(Some(range)) = ranges.next() {
            if range.begin < range.end && addresses.range(range.begin..range.end).next().is_some() {
                return true;
            }
        }
        false
    }

    /// Where in a unit the functions are that begin at these addresses.
    fn beginnings(
        &self,
        unit: &Unit<Slice<'s>>,
        addresses: &BTreeSet<u64>,
    ) -> gimli::Result<Vec<(u64, UnitOffset)>> {
        let mut found = Vec::new();
        let mut entries = unit.entries_raw(None)?;
        let mut entry = Entry::null();
        while !entries.is_empty() {
            if !entries.read_entry(&mut entry)? || entry.tag() != gimli::DW_TAG_subprogram {
                continue;
            }
            let mut ranges = self.dwarf.die_ranges(unit, &entry)?;
            if let Ok(Some(range)) = ranges.next()
                && addresses.contains(&range.begin)
            {
                found.push((range.begin, entry.offset()));
            }
        }
        Ok(found)
    }

    /// The function, whose code begins at `address`.
    fn signature(&mut self, function: &At<'s>, address: u64) -> Option<Signature> {
        let language = language(&function.unit);
        if !is_understood(language) {
            return None;
        }
        let entry = entry_of(function)?;
        let result = self.attribute(function, &entry, gimli::DW_AT_type);
        let result = result.map(|(of, value)| self.refer(&of, &value));
        let place = result.as_ref().and_then(Option::as_ref);
        let is_result_small = place.is_some_and(|at| self.is_small(at));
        let result_shape = place.and_then(|at| self.shape_of(at));
        let result = result.map(|at| at.map_or(Type::Unknown, |at| self.kind(&at, 0)));
        let result = result.filter(|kind| !is_void(kind));
        // gcc gives functions other names when it changes their parameters. LLVM changes those that nobody else calls.
        let is_external = self.attribute(function, &entry, gimli::DW_AT_external).is_some();
        let is_rust = language == Some(gimli::DW_LANG_Rust);
        // Newer LLVM says which. Of these, parameters that are in the frame may have been put there as constants.
        let is_changed = is_changed(&entry);
        let is_sure = (is_external && !is_rust || self.is_gcc(function)) && !is_changed;
        let mut parameters = Vec::new();
        for offset in children(function) {
            let at = At { unit: Rc::clone(&function.unit), offset };
            let Some(entry) = entry_of(&at) else { continue };
            if entry.tag() != gimli::DW_TAG_formal_parameter {
                continue;
            }
            let name = self.name(&at, &entry).unwrap_or_default();
            let place = self.attribute(&at, &entry, gimli::DW_AT_type);
            let place = place.and_then(|(of, value)| self.refer(&of, &value));
            let kind = place.as_ref().map_or(Type::Unknown, |at| self.kind(at, 0));
            let shape = place.and_then(|at| self.shape_of(&at));
            let evidence = match self.evidence(&at, &entry, (address, is_sure)) {
                Evidence::Home if is_changed => Evidence::Nowhere,
                evidence => evidence,
            };
            parameters.push(Parameter { name, kind, shape, evidence });
        }
        // Without optimization all parameters are put into the frame.
        let is_home = |parameter: &Parameter| parameter.evidence == Evidence::Home;
        let is_plain = !parameters.is_empty() && parameters.iter().all(is_home);
        let is_unoptimized = is_plain && !is_optimized(&entry) && !self.is_gcc(function);
        if is_unoptimized && self.rules.omits_references && is_c_plus_plus(language) {
            for parameter in &mut parameters {
                parameter.evidence = Evidence::Nowhere;
            }
        }
        let is_result_sure = is_sure || is_plain;
        Some(Signature {
            parameters,
            result,
            result_shape,
            is_result_small,
            is_result_sure,
            is_rust,
        })
    }

    fn is_gcc(&self, at: &At<'s>) -> bool {
        let root = at.unit.entry(at.unit.header.root_offset()).ok();
        let producer = root.and_then(|root| root.attr_value(gimli::DW_AT_producer));
        let producer = producer.and_then(|producer| self.text(&at.unit, producer));
        producer.is_some_and(|producer| producer.starts_with("GNU "))
    }

    /// Where the parameter `entry` is at `address`. If that isn't said, `is_sure` tells whether it's where the ABI has it.
    fn evidence(
        &self,
        at: &At<'s>,
        entry: &Entry<'s>,
        (address, is_sure): (u64, bool),
    ) -> Evidence {
        let unknown = if is_sure { Evidence::Expected } else { Evidence::Nowhere };
        let location = entry.attr_value(gimli::DW_AT_location);
        let expression = match location {
            Some(AttributeValue::Exprloc(expression)) => Some(expression),
            Some(value) => self.location(at, value, address),
            None => None,
        };
        let Some(expression) = expression else { return unknown };
        let is_one = matches!(location, Some(AttributeValue::Exprloc(_)));
        if is_one && self.is_gcc(at) && self.is_by_register(expression, at) {
            // gcc says there where it has put the address of a parameter that's passed by one, for the whole function.
            return Evidence::Home;
        }
        match expression.operations(at.unit.encoding()).next() {
            Ok(Some(operation)) => self.place(&operation, at).unwrap_or(unknown),
            _ => unknown,
        }
    }

    /// The location of `address` in a list of locations.
    fn location(
        &self,
        at: &At<'s>,
        value: AttributeValue<Slice<'s>>,
        address: u64,
    ) -> Option<gimli::Expression<Slice<'s>>> {
        let mut list = self.dwarf.attr_locations(&at.unit, value).ok()??;
        while let Ok(Some(entry)) = list.next() {
            if (entry.range.begin..entry.range.end).contains(&address) {
                return Some(entry.data);
            }
        }
        None
    }

    /// Is a value in the memory that a register other than those of the stack leads to?
    fn is_by_register(&self, expression: gimli::Expression<Slice<'_>>, at: &At<'_>) -> bool {
        let first = expression.operations(at.unit.encoding()).next();
        matches!(first, Ok(Some(gimli::Operation::RegisterOffset { register, .. })) if !self.rules.of_stack.contains(&register.0))
    }

    /// Where a value is whose location begins with this operation; `None` if that isn't said.
    fn place(&self, operation: &gimli::Operation<Slice<'_>>, at: &At<'_>) -> Option<Evidence> {
        match operation {
            gimli::Operation::Register { register } => Some(Evidence::Register(register.0)),
            gimli::Operation::RegisterOffset { register, .. }
                if !self.rules.of_stack.contains(&register.0) =>
            {
                Some(Evidence::Register(register.0))
            }
            gimli::Operation::RegisterOffset { .. }
            | gimli::Operation::FrameOffset { .. }
            | gimli::Operation::CallFrameCFA => Some(Evidence::Home),
            gimli::Operation::EntryValue { expression } => {
                let inner = gimli::Expression(*expression);
                match inner.operations(at.unit.encoding()).next() {
                    Ok(Some(gimli::Operation::Register { register })) => {
                        Some(Evidence::Register(register.0))
                    }
                    _ => None,
                }
            }
            _ => Some(Evidence::Nowhere),
        }
    }

    /// The value of an attribute of an entry, or of what it's an instance of; and whose it is.
    pub(super) fn attribute(
        &mut self,
        at: &At<'s>,
        entry: &Entry<'s>,
        name: gimli::DwAt,
    ) -> Option<(At<'s>, AttributeValue<Slice<'s>>)> {
        let (mut at, mut value) = (at.clone(), entry.attr_value(name));
        let mut origin = origin_of(entry);
        for _ in 0..4 {
            if let Some(value) = value {
                return Some((at, value));
            }
            at = self.refer(&at, &origin?)?;
            let entry = entry_of(&at)?;
            value = entry.attr_value(name);
            origin = origin_of(&entry);
        }
        None
    }

    pub(super) fn name(&mut self, at: &At<'s>, entry: &Entry<'s>) -> Option<String> {
        let (of, value) = self.attribute(at, entry, gimli::DW_AT_name)?;
        self.text(&of.unit, value)
    }

    pub(super) fn text(
        &self,
        unit: &Unit<Slice<'s>>,
        value: AttributeValue<Slice<'s>>,
    ) -> Option<String> {
        let text = self.dwarf.attr_string(unit, value).ok()?;
        Some(text.to_string_lossy().into_owned())
    }

    /// The target of an entry's attribute.
    pub(super) fn refer(
        &mut self,
        from: &At<'s>,
        value: &AttributeValue<Slice<'s>>,
    ) -> Option<At<'s>> {
        match value {
            AttributeValue::UnitRef(offset) => {
                Some(At { unit: Rc::clone(&from.unit), offset: *offset })
            }
            AttributeValue::DebugInfoRef(offset) => {
                let place = UnitSectionOffset(offset.0);
                let has_it =
                    |header: &UnitHeader<Slice<'s>>| place.to_unit_offset(header).is_some();
                let at = self.headers.iter().position(has_it)?;
                let offset = place.to_unit_offset(self.headers.get(at)?)?;
                Some(At { unit: self.unit(at)?, offset })
            }
            _ => None,
        }
    }

    /// The name of an entry's type.
    pub(super) fn type_name(&mut self, at: &At<'s>, entry: &Entry<'s>) -> Option<String> {
        let of = self.refer(at, &entry.attr_value(gimli::DW_AT_type)?)?;
        let entry = entry_of(&of)?;
        self.name(&of, &entry)
    }

    /// The type of an entry.
    fn target(&mut self, at: &At<'s>, entry: &Entry<'s>, depth: usize) -> Option<Type> {
        let value = entry.attr_value(gimli::DW_AT_type)?;
        let of = self.refer(at, &value)?;
        Some(self.kind(&of, depth + 1))
    }

    pub(super) fn kind(&mut self, at: &At<'s>, depth: usize) -> Type {
        let Some(entry) = entry_of(at).filter(|_| depth < DEEPEST) else { return Type::Unknown };
        match entry.tag() {
            gimli::DW_TAG_typedef
            | gimli::DW_TAG_const_type
            | gimli::DW_TAG_volatile_type
            | gimli::DW_TAG_restrict_type
            | gimli::DW_TAG_atomic_type => self.target(at, &entry, depth).unwrap_or(Type::Unknown),
            gimli::DW_TAG_base_type => base(&entry, &self.name(at, &entry).unwrap_or_default()),
            gimli::DW_TAG_pointer_type
            | gimli::DW_TAG_reference_type
            | gimli::DW_TAG_rvalue_reference_type => self.pointer(at, &entry, depth),
            gimli::DW_TAG_enumeration_type => self.enumeration(at, &entry, depth),
            gimli::DW_TAG_structure_type
            | gimli::DW_TAG_class_type
            | gimli::DW_TAG_union_type
            | gimli::DW_TAG_array_type => self.structure(at, &entry, depth),
            // `decltype(nullptr)`.
            gimli::DW_TAG_unspecified_type => Type::Pointer,
            _ => Type::Unknown,
        }
    }

    /// The kind of a pointer: whether it's one to a text.
    fn pointer(&mut self, at: &At<'s>, entry: &Entry<'s>, depth: usize) -> Type {
        let is_pointer = entry.tag() == gimli::DW_TAG_pointer_type;
        let is_rust = language(&at.unit) == Some(gimli::DW_LANG_Rust);
        let value = entry.attr_value(gimli::DW_AT_type);
        let target = value.and_then(|value| self.refer(at, &value));
        let Some(target) = target.and_then(|at| self.bare(at)) else { return Type::Pointer };
        let Some(entry) = entry_of(&target) else { return Type::Pointer };
        if entry.tag() == gimli::DW_TAG_base_type {
            let name = self.name(&target, &entry).unwrap_or_default();
            let is_text = matches!(base(&entry, &name), Type::Character(1)) && is_pointer;
            return if is_text && !is_rust { Type::Text } else { Type::Pointer };
        }
        let is_class =
            [gimli::DW_TAG_class_type, gimli::DW_TAG_structure_type].contains(&entry.tag());
        if !is_class || depth > 2 || is_rust {
            return Type::Pointer;
        }
        let name = self.name(&target, &entry).unwrap_or_default();
        let is_string = name.starts_with(STRING)
            && matches!(self.kind(&target, depth + 1), Type::Structure(of) if of.is_string);
        if is_string { Type::StringReference } else { Type::Pointer }
    }

    /// A type without its names and qualifiers.
    pub(super) fn bare(&mut self, mut at: At<'s>) -> Option<At<'s>> {
        for _ in 0..DEEPEST {
            let entry = entry_of(&at)?;
            let is_name = [
                gimli::DW_TAG_typedef,
                gimli::DW_TAG_const_type,
                gimli::DW_TAG_volatile_type,
                gimli::DW_TAG_restrict_type,
            ]
            .contains(&entry.tag());
            if !is_name {
                return Some(at);
            }
            at = self.refer(&at, &entry.attr_value(gimli::DW_AT_type)?)?;
        }
        None
    }

    pub(super) fn enumeration(&mut self, at: &At<'s>, entry: &Entry<'s>, depth: usize) -> Type {
        let of = self.target(at, entry, depth);
        let size = number(entry, gimli::DW_AT_byte_size).or_else(|| of.map(|of| of.size()));
        let Some(size) = size.and_then(|size| u8::try_from(size).ok()).filter(|size| *size <= 8)
        else {
            return Type::Unknown;
        };
        let Some(place) = at.offset.to_debug_info_offset(&at.unit.header) else {
            return Type::Unknown;
        };
        if let Some(number) = self.known.get(&place.0) {
            return Type::Enumeration { size, number: *number };
        }
        let mut enumerators = Vec::new();
        let mut count = 0_u32;
        for offset in children(at) {
            let at = At { unit: Rc::clone(&at.unit), offset };
            let Some(entry) = entry_of(&at) else { continue };
            let value = entry.attr_value(gimli::DW_AT_const_value);
            let value = value.and_then(|value| {
                value.sdata_value().map(i64::cast_unsigned).or_else(|| value.udata_value())
            });
            if let (Some(name), Some(value)) = (self.name(&at, &entry), value)
                && count < 4096
            {
                enumerators.extend(value.to_ne_bytes());
                name_of(&mut enumerators, &name);
                count += 1;
            }
        }
        let next = u32::try_from(self.enumerations.len()).unwrap_or(u32::MAX);
        let number = self.first.saturating_add(next);
        self.known.insert(place.0, number);
        let enumerators = [&count.to_ne_bytes()[..], &enumerators].concat();
        self.enumerations.push((number, enumerators));
        Type::Enumeration { size, number }
    }

    fn structure(&mut self, at: &At<'s>, entry: &Entry<'s>, depth: usize) -> Type {
        let name = self.name(at, entry).unwrap_or_default();
        let is_rust = language(&at.unit) == Some(gimli::DW_LANG_Rust);
        if entry.attr_value(gimli::DW_AT_declaration).is_some() {
            return Type::Unknown;
        }
        let fields = if entry.tag() == gimli::DW_TAG_array_type {
            return self.array(at, entry, depth);
        } else {
            self.fields(at, depth)
        };
        let size = number(entry, gimli::DW_AT_byte_size).filter(|size| *size <= LARGEST);
        let Some(size) = size else { return Type::Unknown };
        let named = |name: &str, offset: u64| {
            fields.iter().any(|field| field.name == name && field.offset == offset)
        };
        if is_rust {
            let is_pair = named("data_ptr", 0) && named("length", 8);
            return match name.as_str() {
                "&str" if is_pair => Type::View { is_pointer_first: true },
                name if is_pair && depth == 0 && is_slice(name) && self.is_list(at) => {
                    Type::View { is_pointer_first: true }
                }
                // What's larger than two registers is passed by a pointer to it.
                _ if size > 16 && depth == 0 && self.reach.depth != 0 && !self.has_wide(at, 0) => {
                    let all = Structure { size, is_by_reference: true, ..Structure::default() };
                    Type::Structure(Rc::new(all))
                }
                _ => Type::Unknown,
            };
        }
        if name.starts_with(VIEW) && named("_M_len", 0) && named("_M_str", 8) {
            return Type::View { is_pointer_first: false };
        }
        let is_string =
            name.starts_with(STRING) && named("_M_dataplus", 0) && named("_M_string_length", 8);
        let is_by_reference = is_string || self.is_by_reference(at, entry, &fields);
        let alignment = number(entry, gimli::DW_AT_alignment).unwrap_or(1);
        let is_aligned_to_16 = alignment >= 16
            || fields.iter().any(|field| match &field.kind {
                Type::Structure(of) => of.is_aligned_to_16,
                Type::Extended | Type::Wide | Type::Float(16) => true,
                _ => false,
            });
        let all = Structure { size, is_aligned_to_16, is_by_reference, is_string, fields };
        Type::Structure(Rc::new(all))
    }

    /// The fields of a structure, class or union.
    fn fields(&mut self, at: &At<'s>, depth: usize) -> Vec<Field> {
        let mut fields = Vec::new();
        let is_union = entry_of(at).is_some_and(|entry| entry.tag() == gimli::DW_TAG_union_type);
        for offset in children(at) {
            let at = At { unit: Rc::clone(&at.unit), offset };
            let Some(entry) = entry_of(&at) else { continue };
            let is_base = entry.tag() == gimli::DW_TAG_inheritance;
            let is_static = entry.attr_value(gimli::DW_AT_external).is_some()
                || entry.attr_value(gimli::DW_AT_declaration).is_some();
            if entry.tag() != gimli::DW_TAG_member && !is_base || is_static {
                continue;
            }
            let kind = self.target(&at, &entry, depth).unwrap_or(Type::Unknown);
            let bits = number(&entry, gimli::DW_AT_data_bit_offset);
            let is_bits = bits.is_some() || entry.attr_value(gimli::DW_AT_bit_size).is_some();
            let (mut offset, mut kind) = (number(&entry, gimli::DW_AT_data_member_location), kind);
            if let Some(bits) = bits {
                (offset, kind) = (Some(bits / 8), Type::Unsigned(1));
            }
            let is_whole = matches!(&kind, Type::Structure(of) if of.fields.iter().all(|field| field.is_hidden) && !of.fields.is_empty());
            let is_hidden = is_bits || is_union || is_whole;
            let name = if is_base { self.type_name(&at, &entry) } else { self.name(&at, &entry) };
            let name = name.unwrap_or_default();
            let offset = offset.unwrap_or(0).min(LARGEST);
            fields.push(Field { name, offset, kind, is_hidden });
        }
        fields
    }

    /// An array inside a structure.
    fn array(&mut self, at: &At<'s>, entry: &Entry<'s>, depth: usize) -> Type {
        /// What's larger is in memory, whatever it is: on AArch64, four numbers of 16 bytes may be in registers.
        const MOST_IN_REGISTERS: u64 = 64;
        let Some(of) = self.target(at, entry, depth) else { return Type::Unknown };
        let is_vector = entry.attr_value(gimli::DW_AT_GNU_vector).is_some();
        let mut count = Some(1_u64);
        for offset in children(at) {
            let at = At { unit: Rc::clone(&at.unit), offset };
            let Some(entry) = entry_of(&at) else { continue };
            let own = number(&entry, gimli::DW_AT_count).or_else(|| {
                number(&entry, gimli::DW_AT_upper_bound).map(|last| last.wrapping_add(1))
            });
            count = count.and_then(|count| count.checked_mul(own.unwrap_or(0)));
        }
        let size = count.and_then(|count| count.checked_mul(of.size()));
        let Some(size) = size.filter(|_| !is_vector) else { return Type::Unknown };
        let count = if size > MOST_IN_REGISTERS { 0 } else { count.unwrap_or(0) };
        let field = |at: u64| Field {
            name: String::new(),
            offset: at * of.size(),
            kind: of.clone(),
            is_hidden: true,
        };
        let fields = (0..count).map(field).collect();
        Type::Structure(Rc::new(Structure { size, fields, ..Structure::default() }))
    }

    /// Does copying it take a function? Compilers say so in DWARF 5.
    fn is_by_reference(&mut self, at: &At<'s>, entry: &Entry<'s>, fields: &[Field]) -> bool {
        match entry.attr_value(gimli::DW_AT_calling_convention) {
            Some(AttributeValue::CallingConvention(gimli::DW_CC_pass_by_reference)) => return true,
            Some(AttributeValue::CallingConvention(gimli::DW_CC_pass_by_value)) => return false,
            _ => {}
        }
        let is_in = |field: &Field| {
            field.name.starts_with("_vptr")
                || matches!(&field.kind, Type::Structure(of) if of.is_by_reference)
        };
        fields.iter().any(is_in)
            || children(at).into_iter().any(|offset| {
                let at = At { unit: Rc::clone(&at.unit), offset };
                let Some(entry) = entry_of(&at) else { return false };
                entry.tag() == gimli::DW_TAG_subprogram
                    && !is_default(&entry)
                    && self.name(&at, &entry).is_some_and(|name| name.starts_with('~'))
            })
    }
}
