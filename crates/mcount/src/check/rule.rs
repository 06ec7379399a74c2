//! The rules that `check` goes by: name, default level and explanation of each, as data.
//!
//! Its own file because it is the text that people read; what fires a rule is in the other files.

use std::fmt;

/// What can be wrong with a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Rule {
    /// The bytes that an entry leads to are no hook.
    NotACallSite,
    /// An entry leads beside a hook.
    WrongOffset,
    /// No function covers what an entry leads to.
    StaleEntry,
    /// A hook is in no table.
    MissingSite,
    /// A hook is in a table twice.
    Duplicate,
    /// The entries of an image do not ascend.
    Unsorted,
    /// An entry, or the table, is not aligned.
    Misaligned,
    /// The policy leaves out what an entry leads to.
    ExcludedSection,
    /// An entry is relocated against a symbol that may become another.
    NoBaseSymbol,
    /// The linker may delete bytes between the symbol of an entry and the hook.
    RelaxationUnsafe,
    /// Garbage collection takes the table as a whole.
    GcUnsafe,
    /// An entry leads into a COMDAT group from outside.
    ComdatUnsafe,
    /// The loader would have to write to a read-only table.
    TextRelocation,
    /// An area of NOPs has no room for a call.
    ShortArea,
    /// An entry is right with its bytes reversed.
    ForeignEndian,
}

/// What becomes of a finding.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Level {
    /// It is not mentioned.
    Allow,
    /// It is printed.
    Warn,
    /// It is printed, and the exit code is 1.
    Deny,
}

/// What is known of a rule.
struct Facts {
    rule: Rule,
    name: &'static str,
    level: Level,
    explanation: &'static str,
}

impl Rule {
    /// Every rule, in the order of the documentation.
    pub fn all() -> impl Iterator<Item = Self> {
        RULES.iter().map(|facts| facts.rule)
    }

    /// The rule of that name.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        RULES.iter().find(|facts| facts.name == name).map(|facts| facts.rule)
    }

    /// The name that the command line and machine output have for it.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.facts().map_or("", |facts| facts.name)
    }

    /// One paragraph: what it means, what happens if it is not heeded, what to do.
    #[must_use]
    pub fn explanation(self) -> &'static str {
        self.facts().map_or("", |facts| facts.explanation.trim_end())
    }

    /// What becomes of its findings unless somebody says otherwise.
    #[must_use]
    pub fn default_level(self) -> Level {
        self.facts().map_or(Level::Deny, |facts| facts.level)
    }

    fn facts(self) -> Option<&'static Facts> {
        RULES.iter().find(|facts| facts.rule == self)
    }
}

impl fmt::Display for Rule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

const fn facts(rule: Rule, name: &'static str, level: Level, explanation: &'static str) -> Facts {
    Facts { rule, name, level, explanation }
}

static RULES: &[Facts] = &[
    facts(
        Rule::NotACallSite,
        "not-a-call-site",
        Level::Deny,
        include_str!("rules/not-a-call-site.txt"),
    ),
    facts(Rule::WrongOffset, "wrong-offset", Level::Deny, include_str!("rules/wrong-offset.txt")),
    facts(Rule::StaleEntry, "stale-entry", Level::Deny, include_str!("rules/stale-entry.txt")),
    facts(Rule::MissingSite, "missing-site", Level::Deny, include_str!("rules/missing-site.txt")),
    facts(Rule::Duplicate, "duplicate", Level::Deny, include_str!("rules/duplicate.txt")),
    facts(Rule::Unsorted, "unsorted", Level::Warn, include_str!("rules/unsorted.txt")),
    facts(Rule::Misaligned, "misaligned", Level::Deny, include_str!("rules/misaligned.txt")),
    facts(
        Rule::ExcludedSection,
        "excluded-section",
        Level::Deny,
        include_str!("rules/excluded-section.txt"),
    ),
    facts(
        Rule::NoBaseSymbol,
        "no-base-symbol",
        Level::Deny,
        include_str!("rules/no-base-symbol.txt"),
    ),
    facts(
        Rule::RelaxationUnsafe,
        "relaxation-unsafe",
        Level::Deny,
        include_str!("rules/relaxation-unsafe.txt"),
    ),
    facts(Rule::GcUnsafe, "gc-unsafe", Level::Allow, include_str!("rules/gc-unsafe.txt")),
    facts(
        Rule::ComdatUnsafe,
        "comdat-unsafe",
        Level::Deny,
        include_str!("rules/comdat-unsafe.txt"),
    ),
    facts(
        Rule::TextRelocation,
        "text-relocation",
        Level::Warn,
        include_str!("rules/text-relocation.txt"),
    ),
    facts(Rule::ShortArea, "short-area", Level::Warn, include_str!("rules/short-area.txt")),
    facts(
        Rule::ForeignEndian,
        "foreign-endian",
        Level::Deny,
        include_str!("rules/foreign-endian.txt"),
    ),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_rules() {
        for rule in Rule::all() {
            assert_eq!(Rule::of_name(rule.name()), Some(rule));
            assert!(rule.explanation().len() > 100, "{rule} is not explained");
            assert!(!rule.explanation().contains("\n\n"), "{rule}: one paragraph");
        }
        assert_eq!(Rule::all().count(), 15);
        assert_eq!(Rule::of_name("all"), None);
    }
}
