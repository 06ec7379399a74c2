//! Which functions have no hook, and why, as far as symbols tell. For example, a single function may be
//! excluded, or a source file may have been compiled without `-pg`.
//!
//! It works on data and doesn't look at the file.

use crate::functions::{Function, Functions};
use crate::names::is_cold_part;
use std::collections::{BTreeMap, BTreeSet};

/// Why a function has no hook.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Gap {
    /// No function of the whole file has a hook, so it was built without hooks.
    File,
    /// No function of this source file (`STT_FILE`) has a hook, so it was built without hooks, or is
    /// assembly.
    SourceFile(String),
    /// The policy excludes it, or its section, which is named here.
    Excluded(String),
    /// It is the cold part of a function (`.cold`), which is entered elsewhere.
    ColdPart,
    /// It is the padding before a function, which has its own name (`__pfx_`, `__cfi_`).
    Prefix,
    /// Its symbol has no size, so it is probably assembly.
    NoSize,
    /// The symbols don't tell. It may be `notrace` in the source, or assembly.
    Unknown,
}

impl Gap {
    /// Its name in machine-readable output.
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

/// Which functions of a file have a hook.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Coverage {
    /// How many functions have one.
    pub with_site: usize,
    /// The functions without one, by cause. They are positions in [`Functions::functions`].
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
    let with_site = functions.functions.iter().filter(|function| !function.sites.is_empty());
    let with_hooks: BTreeSet<&str> =
        with_site.clone().filter_map(|function| function.file.as_deref()).collect();
    let with_site = with_site.count();
    let mut found = Coverage { with_site, gaps: BTreeMap::new() };
    for (at, function) in functions.functions.iter().enumerate() {
        if function.sites.is_empty() {
            let gap = gap(function, with_site == 0, &with_hooks);
            found.gaps.entry(gap).or_default().push(at);
        }
    }
    found
}

/// Why `function` has no hook. `with_hooks` are the source files with hooks.
fn gap(function: &Function, no_hooks_at_all: bool, with_hooks: &BTreeSet<&str>) -> Gap {
    if function.names().all(|name| name.starts_with("__pfx_") || name.starts_with("__cfi_")) {
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
