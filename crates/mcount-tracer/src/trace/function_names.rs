//! The names by which patterns may mean a function: it has one for each symbol at its address.

use crate::pattern::Pattern;
use std::borrow::Cow;
use std::sync::Arc;

/// All names of a function, if it has several.
pub(super) type Aliases = Arc<[Arc<str>]>;

/// These names, if they are several.
pub(super) fn aliases(names: &[&str]) -> Aliases {
    names.iter().filter(|_| names.len() > 1).map(|name| Arc::from(*name)).collect()
}

/// The names of a function, and where it is.
pub(super) struct FunctionNames<'n> {
    /// Each as its source has it, and as the symbol table does. The first is the one that is shown.
    all: Vec<(Cow<'n, str>, &'n str)>,
    module: &'n str,
}

impl<'n> FunctionNames<'n> {
    /// Those of a function with these symbols, in the module with this path.
    pub(super) fn new(symbols: impl IntoIterator<Item = &'n str>, module: &'n str) -> Self {
        let named = |symbol| (crate::names::name_of(symbol, true), symbol);
        Self { all: symbols.into_iter().map(named).collect(), module }
    }

    /// The symbol by which `pattern` means the function, if it does.
    pub(super) fn meant_by(&self, pattern: &Pattern) -> Option<&'n str> {
        let is_meant =
            |(name, symbol): &&(Cow<'n, str>, &'n str)| pattern.is_match(name, symbol, self.module);
        self.all.iter().find(is_meant).map(|(_, symbol)| *symbol)
    }

    pub(super) fn are_meant_by(&self, pattern: &Pattern) -> bool {
        self.meant_by(pattern).is_some()
    }
}
