//! The policy: which sections and functions are recorded, and what happens to the calls in the others.

use crate::setters::setters;
use globset::GlobSet;

/// The sections of code that Linux traces, besides those that begin with `.text`.
const LINUX: &[&[u8]] = &[
    b".init.text",
    b".ref.text",
    b".sched.text",
    b".spinlock.text",
    b".irqentry.text",
    b".softirqentry.text",
    b".kprobes.text",
    b".cpuidle.text",
];

/// The sections reserved for functions that a recorder must leave alone.
const LINUX_RESERVED: &[&[u8]] = &[b".text..nomcount", b".text..ftrace"];

/// The rule of a policy for sections that none of its patterns matches.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
#[non_exhaustive]
pub enum Base {
    /// Records the sections that Linux traces.
    #[default]
    Linux,
    /// Records every section of code.
    All,
    /// Records none.
    None,
}

/// Which sections and functions are recorded. Patterns win over the base, and exclusion wins over
/// inclusion.
#[derive(Debug, Clone, Default)]
#[non_exhaustive]
pub struct Policy {
    /// What to do with a section that no pattern matches.
    pub base: Base,
    /// More sections to record.
    pub sections: GlobSet,
    /// Sections whose calls become NOPs.
    pub exclude_sections: GlobSet,
    /// Functions to leave alone.
    pub exclude_symbols: GlobSet,
    /// Source files (`STT_FILE`) whose functions to leave alone. A function belongs to the file if it has
    /// a local symbol behind that of the file, or is between two such functions in its section. If the
    /// object has only one source file, all its functions belong to it.
    pub exclude_file_symbols: GlobSet,
}

/// What happens to the calls of a section.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[non_exhaustive]
pub enum Treatment {
    /// They are recorded.
    Record,
    /// They become NOPs.
    Nop,
    /// They stay as they are, and aren't recorded.
    LeaveAlone,
}

setters!(Policy {
    base: Base,
    sections: GlobSet,
    exclude_sections: GlobSet,
    exclude_symbols: GlobSet,
    exclude_file_symbols: GlobSet,
});

impl Policy {
    /// The policy `base`, without patterns.
    #[must_use]
    pub fn of(base: Base) -> Self {
        Self { base, ..Self::default() }
    }

    /// What happens to the calls of the section `name`, which has code.
    #[must_use]
    pub fn section(&self, name: &[u8]) -> Treatment {
        if matches(&self.exclude_sections, name) {
            Treatment::Nop
        } else if matches(&self.sections, name) {
            Treatment::Record
        } else {
            match self.base {
                Base::All => Treatment::Record,
                Base::None => Treatment::LeaveAlone,
                Base::Linux => linux(name),
            }
        }
    }

    /// Whether the function `name` is left alone.
    #[must_use]
    pub fn excludes_symbol(&self, name: &[u8]) -> bool {
        matches(&self.exclude_symbols, name)
    }

    /// Whether the functions of the source file `name` are left alone.
    #[must_use]
    pub fn excludes_file_symbol(&self, name: &[u8]) -> bool {
        matches(&self.exclude_file_symbols, name)
    }
}

fn linux(name: &[u8]) -> Treatment {
    if LINUX_RESERVED.contains(&name) {
        Treatment::LeaveAlone
    } else if name.starts_with(b".text") || LINUX.contains(&name) {
        Treatment::Record
    } else {
        Treatment::Nop
    }
}

fn matches(globs: &GlobSet, name: &[u8]) -> bool {
    !globs.is_empty() && globs.is_match(&*crate::names::lossy(name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn linux_policy() {
        let policy = Policy::default();
        for name in [".text", ".text.unlikely", ".text.hot.f", ".init.text", ".cpuidle.text"] {
            assert_eq!(policy.section(name.as_bytes()), Treatment::Record, "{name}");
        }
        for name in [".exit.text", ".noinstr.text", ".init.text.f", "text", ""] {
            assert_eq!(policy.section(name.as_bytes()), Treatment::Nop, "{name}");
        }
        for name in [".text..nomcount", ".text..ftrace"] {
            assert_eq!(policy.section(name.as_bytes()), Treatment::LeaveAlone, "{name}");
        }
    }
}
