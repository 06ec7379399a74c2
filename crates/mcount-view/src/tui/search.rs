//! What is searched for: a part of a name, or, with `*`, `?`, `[` or `@`, a pattern as all commands have it.

use crate::pattern::{Language, Pattern};
use crate::replay::Names;
use std::collections::HashSet;

/// Some functions.
#[derive(Debug, Default)]
pub(super) struct Search {
    pub(super) text: String,
    functions: HashSet<u32>,
}

impl Search {
    /// The functions of a trace that `text` means; without it, none.
    ///
    /// # Errors
    ///
    /// It's a malformed pattern.
    pub(super) fn new(text: &str, names: &Names<'_, '_>) -> Result<Self, String> {
        let is_pattern = text.contains(['*', '?', '[', '@']);
        let pattern = is_pattern.then(|| Pattern::new(text, Language::Glob)).transpose()?;
        let part = text.to_lowercase();
        let is_meant = |number: u32| {
            let name = names.function(number);
            let symbol = names.trace.function(number).map_or(&b""[..], |one| one.name);
            let symbol = String::from_utf8_lossy(symbol);
            match &pattern {
                Some(pattern) => pattern.is_match(&name.text, &symbol, &name.module),
                None => {
                    [&*name.text, &*symbol].iter().any(|name| name.to_lowercase().contains(&part))
                }
            }
        };
        let numbers = names.trace.functions.iter().map(|function| function.number);
        let functions = numbers.filter(|number| !text.is_empty() && is_meant(*number)).collect();
        Ok(Self { text: text.to_owned(), functions })
    }

    /// Whether it means the function with this number.
    pub(super) fn is_match(&self, function: u32) -> bool {
        self.functions.contains(&function)
    }
}
