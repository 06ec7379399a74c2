//! The rules of `check`, as data: the name, default level and explanation of each.
//!
//! The other files decide when a rule is broken.

use std::fmt;

/// The possible flaws of a table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Rule {
    /// An entry leads to bytes that aren't a hook.
    NotACallSite,
    /// An entry leads to a place near a hook.
    WrongOffset,
    /// An entry leads to a place that no function covers.
    StaleEntry,
    /// An entry leads to what is left of an overridden function.
    OverriddenEntry,
    /// The same after a function that has no hook: who looks for that function's finds this one.
    MisleadingEntry,
    /// All entries of an image are zero.
    ZeroTable,
    /// No entry leads to a hook.
    MissingSite,
    /// Two entries of a table lead to the same hook.
    Duplicate,
    /// The entries of an image aren't in ascending order.
    Unsorted,
    /// An entry, or the table, is not aligned.
    Misaligned,
    /// An entry leads to a hook that the policy excludes.
    ExcludedSection,
    /// An entry refers to a symbol that may mean something else after linking.
    NoBaseSymbol,
    /// The linker may delete bytes between the symbol of an entry and the hook.
    RelaxationUnsafe,
    /// Garbage collection keeps or drops the table as a whole.
    GcUnsafe,
    /// An entry leads into a COMDAT group from outside.
    ComdatUnsafe,
    /// The loader must write to a read-only table.
    TextRelocation,
    /// A patchable area is too short.
    ShortArea,
    /// An entry would be right with its bytes reversed.
    ForeignEndian,
    /// The compiler's list of sleds is wrong.
    SledMap,
}

/// How serious a finding is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Level {
    /// The rule is off.
    Allow,
    /// A remark: no change is needed.
    Note,
    /// A warning.
    Warn,
    /// An error.
    Deny,
}

/// The data of a rule.
struct Facts {
    rule: Rule,
    name: &'static str,
    level: Level,
    explanation: &'static str,
}

impl Rule {
    /// All rules, in the order of the documentation.
    pub fn all() -> impl Iterator<Item = Self> {
        RULES.iter().map(|facts| facts.rule)
    }

    /// The rule called `name`.
    #[must_use]
    pub fn of_name(name: &str) -> Option<Self> {
        RULES.iter().find(|facts| facts.name == name).map(|facts| facts.rule)
    }

    /// Its name on the command line and in machine-readable output.
    #[must_use]
    pub fn name(self) -> &'static str {
        self.facts().map_or("", |facts| facts.name)
    }

    /// One paragraph: what a finding means, what happens if you ignore it, and what to do.
    #[must_use]
    pub fn explanation(self) -> &'static str {
        self.facts().map_or("", |facts| facts.explanation.trim_end())
    }

    /// How serious its findings are, unless the caller decides otherwise.
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
    facts(
        Rule::OverriddenEntry,
        "overridden-entry",
        Level::Note,
        include_str!("rules/overridden-entry.txt"),
    ),
    facts(
        Rule::MisleadingEntry,
        "misleading-entry",
        Level::Warn,
        include_str!("rules/misleading-entry.txt"),
    ),
    facts(Rule::ZeroTable, "zero-table", Level::Deny, include_str!("rules/zero-table.txt")),
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
    facts(Rule::SledMap, "sled-map", Level::Deny, include_str!("rules/sled-map.txt")),
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
        assert_eq!(Rule::all().count(), 19);
        assert_eq!(Rule::of_name("all"), None);
    }
}
