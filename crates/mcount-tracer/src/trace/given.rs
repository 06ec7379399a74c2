//! Signatures that the user gives, for functions without debug information: `SSL_write(p, s, i32) -> i32`.
//!
//! What stands between the parentheses tells them from patterns: there, patterns have the types of C++ (`area(shape const&)`), and signatures
//! only have the words below.

use crate::pattern::{Language, Pattern};

/// A type, as it's given. Sizes are bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum GivenType {
    Signed(u8),
    Unsigned(u8),
    Float(u8),
    Boolean,
    Character,
    Pointer,
    Text,
    /// An integer or a pointer that isn't recorded.
    Skipped,
}

/// The words that types are given by.
const WORDS: [(&str, GivenType); 15] = [
    ("i8", GivenType::Signed(1)),
    ("i16", GivenType::Signed(2)),
    ("i32", GivenType::Signed(4)),
    ("i64", GivenType::Signed(8)),
    ("u8", GivenType::Unsigned(1)),
    ("u16", GivenType::Unsigned(2)),
    ("u32", GivenType::Unsigned(4)),
    ("u64", GivenType::Unsigned(8)),
    ("f32", GivenType::Float(4)),
    ("f64", GivenType::Float(8)),
    ("bool", GivenType::Boolean),
    ("c", GivenType::Character),
    ("p", GivenType::Pointer),
    ("s", GivenType::Text),
    ("_", GivenType::Skipped),
];

impl GivenType {
    fn of(word: &str) -> Option<Self> {
        WORDS.iter().find(|(one, _)| *one == word).map(|(_, kind)| *kind)
    }
}

/// The signature of some functions.
#[derive(Debug, Clone)]
pub struct GivenSignature {
    /// Which functions.
    pub pattern: Pattern,
    pub(super) parameters: Vec<GivenType>,
    pub(super) result: Option<GivenType>,
}

impl GivenSignature {
    /// Reads `NAME(TYPE, …)`, with `-> TYPE` or without, and with `@MODULE` behind it or without. `None` if it's a pattern.
    ///
    /// # Errors
    ///
    /// Part of it is a signature; the text says what's wrong with the rest.
    pub fn parse(text: &str) -> Result<Option<Self>, String> {
        let (head, result) = match text.split_once("->") {
            Some((head, result)) => (head.trim_end(), Some(result.trim())),
            None => (text, None),
        };
        // The module may be behind either.
        let (result, after_result) = match result.map(|result| result.split_once('@')) {
            Some(Some((result, module))) => (Some(result.trim()), Some(module)),
            _ => (result, None),
        };
        let Some((name, rest)) = head.rsplit_once('(') else { return Ok(None) };
        let Some((types, rest)) = rest.split_once(')') else { return Ok(None) };
        let module = match rest.trim().strip_prefix('@') {
            Some(module) => Some(module),
            None if rest.trim().is_empty() => after_result,
            None => return Ok(None),
        };
        let words: Vec<&str> = types.split(',').map(str::trim).collect();
        let is_empty = words == [""];
        let types: Vec<GivenType> = words.iter().filter_map(|word| GivenType::of(word)).collect();
        // `area()` is a name of C++.
        if is_empty && result.is_none() || types.is_empty() && !is_empty {
            return Ok(None);
        }
        if let Some(word) = words.iter().find(|word| !is_empty && GivenType::of(word).is_none()) {
            return Err(wrong(text, word));
        }
        let of_result = |word: &str| GivenType::of(word).ok_or_else(|| wrong(text, word));
        let result = result.map(of_result).transpose()?;
        let module = module.map(|module| format!("@{module}")).unwrap_or_default();
        let pattern = Pattern::new(&format!("{}{module}", name.trim_end()), Language::Glob)?;
        Ok(Some(Self { pattern, parameters: types, result }))
    }

    /// Does it say what is returned?
    #[must_use]
    pub fn has_result(&self) -> bool {
        self.result.is_some()
    }
}

fn wrong(text: &str, word: &str) -> String {
    let words = WORDS.map(|(word, _)| word).join(", ");
    format!("signature '{text}': '{word}' is no type; there are {words}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn signatures_are_told_from_patterns() {
        use GivenType::{Float, Pointer, Signed, Skipped, Text};
        type Expected = Option<(&'static str, Vec<GivenType>, Option<GivenType>)>;
        let rows: [(&str, Expected); 12] = [
            ("SSL_write(p, s, i32)", Some(("SSL_write", vec![Pointer, Text, Signed(4)], None))),
            ("f(_,f64)->i64", Some(("f", vec![Skipped, Float(8)], Some(Signed(8))))),
            ("f() -> p", Some(("f", vec![], Some(Pointer)))),
            ("f(s)@libfoo*", Some(("f@libfoo*", vec![Text], None))),
            ("f(s)@libfoo* -> s", Some(("f@libfoo*", vec![Text], Some(Text)))),
            ("f(s) -> s@libfoo*", Some(("f@libfoo*", vec![Text], Some(Text)))),
            ("SSL_* (p)", Some(("SSL_*", vec![Pointer], None))),
            ("SSL_write", None),
            ("shop::handle(int)", None),
            ("shop::handle()", None),
            ("area(shape const&, int)@libshape*", None),
            ("operator()(p) const", None),
        ];
        for (text, expected) in rows {
            let found = GivenSignature::parse(text).unwrap();
            let found =
                found.as_ref().map(|one| (one.pattern.text(), one.parameters.clone(), one.result));
            assert_eq!(found, expected, "{text}");
        }
    }

    #[test]
    fn wrong_words_are_named() {
        for (text, word) in [("f(p, int)", "int"), ("f(p) -> void", "void"), ("f(p, )", "")] {
            let error = GivenSignature::parse(text).unwrap_err();
            assert!(error.contains(&format!("'{word}' is no type")), "{text}: {error}");
        }
    }
}
