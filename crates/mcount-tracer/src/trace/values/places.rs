//! Where arguments and results are at the entry and the exit of a function. The rules of each processor's ABI
//! for that have a file each, with the same names in it.
//!
//! Rust has rules of its own. As far as they're used here, they're those of C, but for a pair such as `&str`: its halves are passed
//! as two arguments, so one may be in a register and the other on the stack.

#[cfg_attr(target_arch = "x86_64", path = "places/x86_64.rs")]
#[cfg_attr(target_arch = "aarch64", path = "places/aarch64.rs")]
mod here;

pub(super) use here::{OF_STACK, OMITS_REFERENCES};

use super::describe::{Description, Role};
use super::types::{Evidence, Parameter, Signature, Type};
use mcount_agent::recipe;
use std::rc::Rc;

/// The most bytes of a structure in memory that are recorded.
const MOST: u64 = 64;

/// A word of a recipe that copies `size` bytes of a source.
fn copy(source: u64, size: u64, at: u64) -> u64 {
    recipe::COPY | source << 8 | size << 24 | at << 32
}

/// Where the values of a function are.
pub(super) struct Plan<'s> {
    signature: &'s Signature,
}

/// The registers that are taken already.
#[derive(Default)]
struct Taken {
    general: u64,
    vectors: u64,
    stack: u64,
}

/// A source and, on the stack, where there.
type ValueLocation = (u64, u64);

impl Taken {
    fn general(&mut self) -> Option<u64> {
        let free = (self.general < here::GENERAL).then_some(recipe::GENERAL + self.general)?;
        self.general += 1;
        Some(free)
    }

    fn stack(&mut self, size: u64, is_aligned_to_16: bool) -> u64 {
        if is_aligned_to_16 {
            self.stack = self.stack.next_multiple_of(16);
        }
        let at = self.stack;
        self.stack += size.next_multiple_of(8);
        at
    }
}

impl<'s> Plan<'s> {
    pub(super) fn new(signature: &'s Signature) -> Self {
        Self { signature }
    }

    fn taken_by_result(&self) -> Taken {
        self.signature.result.as_ref().map_or_else(Taken::default, here::taken_by_result)
    }

    /// The words that copy the arguments.
    pub(super) fn arguments(&self, description: &mut Description) -> Vec<u64> {
        let mut words = Vec::new();
        let mut taken = self.taken_by_result();
        if self.signature.result.as_ref().is_some_and(here::is_unknown) {
            // It may take a register for where it goes.
            return words;
        }
        let mut is_known = true;
        for (parameter, is_there) in self.signature.parameters.iter().zip(self.are_there()) {
            is_known &= !here::is_unknown(&parameter.kind);
            let before = words.len();
            if is_known {
                here::argument(&parameter.kind, &mut taken, self.signature.is_rust, &mut words);
            }
            if !is_there {
                words.truncate(before);
            }
            let is_recorded = words.len() > before;
            if here::is_nowhere(&parameter.kind) {
                let empty = Type::Structure(Rc::default());
                description.add(Role::Argument, &parameter.name, &empty, true);
            } else {
                description.add(Role::Argument, &parameter.name, &parameter.kind, is_recorded);
            }
        }
        words
    }

    /// Whether the compiler has left the parameters where the ABI has them.
    pub(super) fn is_abi_kept(&self) -> bool {
        self.are_there().iter().all(|is_there| *is_there)
    }

    /// Which parameters are where the ABI has them. If one is elsewhere, only those are that debug information confirms.
    fn are_there(&self) -> Vec<bool> {
        let mut taken = self.taken_by_result();
        let mut found = Vec::new();
        for parameter in &self.signature.parameters {
            let mut words = Vec::new();
            here::argument(&parameter.kind, &mut taken, self.signature.is_rust, &mut words);
            let is_there = |number: u16| {
                words.first().is_none_or(|word| {
                    let is_counted = word & 0xff == recipe::COUNTED;
                    here::register(word >> 8 & 0xff) == Some(number)
                        || is_counted && here::register(word >> 16 & 0xff) == Some(number)
                })
            };
            found.push(match parameter.evidence {
                Evidence::Expected | Evidence::Home => Some(true),
                Evidence::Register(number) => Some(is_there(number)),
                Evidence::Nowhere => None,
            });
        }
        // One that's elsewhere shows that some are missing, but not which.
        let is_changed = found.contains(&Some(false));
        let confirmed = |(is_there, parameter): (&Option<bool>, &Parameter)| {
            *is_there == Some(true)
                && (!is_changed || matches!(parameter.evidence, Evidence::Register(_)))
        };
        found.iter().zip(&self.signature.parameters).map(confirmed).collect()
    }

    /// The words that copy the result. At a late hook, which is after the prologue, less is known.
    pub(super) fn result(&self, is_late: bool, description: &mut Description) -> Vec<u64> {
        let Some(kind) = &self.signature.result else { return Vec::new() };
        let mut words = Vec::new();
        here::result(kind, (self.signature.is_rust, is_late), &mut words);
        description.add(Role::Result, "", kind, !words.is_empty());
        words
    }
}

/// The record of a value in one place.
fn single(kind: &Type, (source, at): ValueLocation) -> u64 {
    match kind {
        Type::Text => recipe::TEXT | source << 8 | at << 32,
        Type::StringReference => recipe::STRING | source << 8 | at << 32,
        _ => copy(source, kind.size(), at),
    }
}

fn view(first: ValueLocation, second: ValueLocation, is_pointer_first: bool) -> Option<u64> {
    let (pointer, length) = if is_pointer_first { (first, second) } else { (second, first) };
    let at = pointer.1 << 32 | length.1 << 48;
    (pointer.1 < 1 << 16 && length.1 < 1 << 16)
        .then_some(recipe::COUNTED | pointer.0 << 8 | length.0 << 16 | at)
}

/// Is it one that the trace has a type for?
fn is_shown(kind: &Type) -> bool {
    !matches!(kind, Type::Float(2 | 16) | Type::Unknown)
}
