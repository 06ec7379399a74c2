//! Types of values, as far as they're understood, and as far as it matters where they are passed.

use super::shape::Shape;
pub(super) use mcount_cpu::outside::values::{Field, Structure, Type};

/// What debug information says about a function.
#[derive(Debug, Clone)]
pub(super) struct Signature {
    pub(super) parameters: Vec<Parameter>,
    /// `None`: it returns nothing.
    pub(super) result: Option<Type>,
    /// What is shown of it, if that's more than its type says.
    pub(super) result_shape: Option<Shape>,
    /// Whatever it is, it's in registers.
    pub(super) is_result_small: bool,
    /// It leaves its result where the ABI has it, as far as is known. LLVM leaves unused results out.
    pub(super) is_result_sure: bool,
    /// It follows the rules of Rust, which differ from those of C in what is passed in two registers.
    pub(super) is_rust: bool,
}

impl Signature {
    /// Has it no values?
    pub(super) fn is_empty(&self) -> bool {
        self.parameters.is_empty() && self.result.is_none()
    }

    /// Are all parameters understood?
    pub(super) fn is_whole(&self) -> bool {
        let is_known = |kind: &Type| !matches!(kind, Type::Unknown);
        self.parameters.iter().all(|parameter| is_known(&parameter.kind))
            && self.result.as_ref().is_none_or(is_known)
    }
}

#[derive(Debug, Clone)]
pub(super) struct Parameter {
    pub(super) name: String,
    pub(super) kind: Type,
    /// What is shown of it, if that's more than its type says.
    pub(super) shape: Option<Shape>,
    pub(super) evidence: Evidence,
}

/// Where debug information says a parameter is when the function begins. LLVM leaves unused parameters out, and
/// then the others are elsewhere than the ABI has them.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Evidence {
    /// Where the ABI has it, as far as is known.
    Expected,
    /// In the frame, where the function itself puts it.
    Home,
    /// In this register, by its number in DWARF.
    Register(u16),
    /// Nowhere: it may not be passed at all.
    Nowhere,
}
