//! Which functions have no hook, and why as far as symbols tell: one that is left out is one thing, a
//! source file that was compiled without `-pg` another.
//!
//! Pure data in, pure data out: it looks at no file.

use crate::functions::{Function, Functions};
use crate::names::is_cold_part;
use std::collections::{BTreeMap, BTreeSet};

/// Why a function has no hook.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Gap {
    /// No function of the whole file has one: it was built without.
    File,
    /// No function of this source file (`STT_FILE`) has one: that was built without, or is assembly.
    SourceFile(String),
    /// It is in a section that the policy leaves out, or the policy leaves it alone.
    Excluded(String),
    /// It is the part of a function that is rarely run, and has no entry (`.cold`).
    ColdPart,
    /// It is padding before a function that has a name of its own (`__pfx_`, `__cfi_`).
    Prefix,
    /// Its symbol has no size: assembly, as a rule.
    NoSize,
    /// Nothing in the symbols says it: `notrace` in the source, say, or assembly.
    Unknown,
}

impl Gap {
    /// The name that machine output has for it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::File => "file",
            Self::SourceFile(_) => "source-file",
            Self::Excluded(_) => "excluded",
            Self::ColdPart => "cold-part",
            Self::Prefix => "prefix",
            Self::NoSize => "no-size",
            Self::Unknown => "unknown",
        }
    }
}

/// What part of the functions of a file has a hook.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Coverage {
    /// Functions that have one.
    pub with_site: usize,
    /// Those without, by cause; positions in [`Functions::functions`].
    pub gaps: BTreeMap<Gap, Vec<usize>>,
}

impl Coverage {
    /// The number of functions without a hook.
    #[must_use]
    pub fn without_site(&self) -> usize {
        self.gaps.values().map(Vec::len).sum()
    }
}

/// Says which of `functions` have no hook, and why.
///
/// ```
/// # let image = testkit::tiny_elf::Object::of_program().build();
/// use mcount::Gap;
/// let functions = mcount::functions(&image, &mcount::Options::default())?;
/// let coverage = mcount::coverage(&functions);
/// assert_eq!((coverage.with_site, coverage.without_site()), (2, 1));
/// let without = coverage.gaps[&Gap::Unknown][0];
/// assert_eq!(functions.functions[without].name, "__fentry__");
/// # Ok::<(), mcount::Error>(())
/// ```
#[must_use]
pub fn coverage(functions: &Functions) -> Coverage {
    let has_site = |function: &&Function| !function.sites.is_empty();
    let with_site = functions.functions.iter().filter(has_site).count();
    let with_hooks: BTreeSet<&str> =
        functions.functions.iter().filter(has_site).filter_map(|f| f.file.as_deref()).collect();
    let mut found = Coverage { with_site, gaps: BTreeMap::new() };
    for (at, function) in functions.functions.iter().enumerate() {
        if function.sites.is_empty() {
            let gap = gap(function, with_site == 0, &with_hooks);
            found.gaps.entry(gap).or_default().push(at);
        }
    }
    found
}

fn gap(function: &Function, no_hooks_at_all: bool, with_hooks: &BTreeSet<&str>) -> Gap {
    let is_prefix = |name: &str| name.starts_with("__pfx_") || name.starts_with("__cfi_");
    if function.names().all(is_prefix) {
        return Gap::Prefix;
    }
    if function.excluded.is_some() {
        return Gap::Excluded(function.section.clone());
    }
    if no_hooks_at_all {
        return Gap::File;
    }
    if is_cold_part(&function.name) {
        return Gap::ColdPart;
    }
    match &function.file {
        Some(file) if !with_hooks.contains(file.as_str()) => Gap::SourceFile(file.clone()),
        _ if function.size == 0 => Gap::NoSize,
        _ => Gap::Unknown,
    }
}
