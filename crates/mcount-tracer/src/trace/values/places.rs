//! Where arguments and results are at the entry and the exit of a function, by the rules of the processor's ABI (`values.rs` in its folder
//! of `mcount-cpu`).
//!
//! Rust has rules of its own. As far as they're used here, they're those of C, but for a pair such as `&str`: its halves are passed
//! as two arguments, so one may be in a register and the other on the stack.

use super::describe::{Description, Role};
use super::shape::{Shape, followed, limited};
use super::types::{Evidence, Parameter, Signature, Type};
use crate::trace::scope::Reach;
use mcount_agent::recipe;
use mcount_cpu::outside::values::{Conventions, Language, Returning, Taken};
use std::rc::Rc;

/// A value, and what copies it.
pub(super) struct Located<'s> {
    pub(super) name: &'s str,
    pub(super) kind: &'s Type,
    /// What is shown of it, if that's more than its type says.
    pub(super) shape: Option<&'s Shape>,
    /// `None`: it isn't known where it is.
    pub(super) words: Option<Vec<u64>>,
}

/// Where the values of a function are.
pub(super) struct Plan<'s> {
    signature: &'s Signature,
    rules: &'static Conventions,
}

impl<'s> Plan<'s> {
    pub(super) fn new(signature: &'s Signature, rules: &'static Conventions) -> Self {
        Self { signature, rules }
    }

    fn language(&self) -> Language {
        if self.signature.is_rust { Language::Rust } else { Language::C }
    }

    fn taken_by_result(&self) -> Taken {
        self.signature.result.as_ref().map_or_else(Taken::default, self.rules.taken_by_result)
    }

    /// The arguments, and what copies each. None if nothing is known of any.
    pub(super) fn located(&self) -> Vec<Located<'s>> {
        let mut taken = self.taken_by_result();
        let is_unknown = self.signature.result.as_ref().is_some_and(self.rules.is_unknown);
        if is_unknown && !self.signature.is_result_small {
            // It may take a register for where it goes.
            return Vec::new();
        }
        let mut is_known = true;
        let mut all = Vec::new();
        for (parameter, is_there) in self.signature.parameters.iter().zip(self.are_there()) {
            is_known &= !(self.rules.is_unknown)(&parameter.kind);
            let mut words = Vec::new();
            if is_known {
                (self.rules.argument)(&parameter.kind, &mut taken, self.language(), &mut words);
            }
            let words = Some(words).filter(|words| is_there && !words.is_empty());
            let (name, kind) = (parameter.name.as_str(), &parameter.kind);
            all.push(Located { name, kind, shape: parameter.shape.as_ref(), words });
        }
        all
    }

    /// The words that copy the arguments, and what they lead to.
    pub(super) fn arguments(&self, description: &mut Description, reach: Reach) -> Vec<u64> {
        let mut all = Vec::new();
        for one in self.located() {
            if (self.rules.is_nowhere)(one.kind) {
                let empty = Type::Structure(Rc::default());
                description.add(Role::Argument, one.name, &empty, true);
            } else {
                all.extend(one.copied(Role::Argument, description, reach));
            }
        }
        all
    }

    /// The result, and what copies it.
    pub(super) fn located_result(&self, is_late: bool) -> Option<Located<'s>> {
        let kind = self.signature.result.as_ref()?;
        let mut words = Vec::new();
        let returning = Returning { language: self.language(), is_late };
        (self.rules.result)(kind, returning, &mut words);
        let words = Some(words).filter(|words| !words.is_empty() && self.signature.is_result_sure);
        Some(Located { name: "", kind, shape: self.signature.result_shape.as_ref(), words })
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
            (self.rules.argument)(&parameter.kind, &mut taken, self.language(), &mut words);
            let is_there = |number: u16| {
                words.first().is_none_or(|word| {
                    let is_counted = word & 0xff == recipe::COUNTED;
                    (self.rules.register)(word >> 8 & 0xff) == Some(number)
                        || is_counted && (self.rules.register)(word >> 16 & 0xff) == Some(number)
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
    pub(super) fn result(
        &self,
        is_late: bool,
        description: &mut Description,
        reach: Reach,
    ) -> Vec<u64> {
        let result = self.located_result(is_late);
        result.map(|one| one.copied(Role::Result, description, reach)).unwrap_or_default()
    }
}

impl Located<'_> {
    /// The words that copy it, and what it leads to; and its description.
    fn copied(self, role: Role, description: &mut Description, reach: Reach) -> Vec<u64> {
        /// The most bytes of a function's description with which more is followed: it has to fit in a chunk of the trace.
        const MOST: usize = 16_384;
        let words = self.words.unwrap_or_default();
        let shape = self.shape.filter(|_| !words.is_empty() && description.size() < MOST);
        if let Some((words, kind)) =
            shape.and_then(|shape| followed(self.kind, shape, &words, reach))
        {
            description.add_described(role, self.name, &kind);
            return words;
        }
        // What a class is that has functions to copy it isn't said by its fields; and nobody would take a slice for a text.
        let is_opaque = matches!(self.kind, Type::Structure(of) if of.is_by_reference && !of.is_string)
            || matches!((self.kind, self.shape), (Type::View { .. }, Some(Shape::List(_))));
        let words = if is_opaque { Vec::new() } else { limited(words, reach) };
        description.add(role, self.name, self.kind, !words.is_empty());
        words
    }
}
