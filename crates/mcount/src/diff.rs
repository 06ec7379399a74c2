//! Which functions gained or lost a site between two builds.
//!
//! Functions are matched by their names in the source. Static functions of several files may have the
//! same name. They are matched by file if the symbols tell the file, and otherwise counted.

use crate::functions::{Binding, Function, Functions};
use crate::names::source_name;
use crate::site::Kind;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

/// The ways in which a tracer can use a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[non_exhaustive]
pub enum State {
    /// It has a site, which is in the table.
    Recorded(Kind),
    /// It has a site, which isn't in the table.
    Missing(Kind),
    /// The policy excludes it, whether it has a site or not.
    Excluded,
    /// It has no site.
    NoSite,
}

impl State {
    /// Its name in machine-readable output.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Recorded(_) => "recorded",
            Self::Missing(_) => "missing",
            Self::Excluded => "excluded",
            Self::NoSite => "no-site",
        }
    }

    /// The kind of its site.
    #[must_use]
    pub fn kind(self) -> Option<Kind> {
        match self {
            Self::Recorded(kind) | Self::Missing(kind) => Some(kind),
            Self::Excluded | Self::NoSite => None,
        }
    }

    fn of(function: &Function) -> Self {
        let site = function.sites.iter().find(|site| site.recorded).or(function.sites.first());
        let kind = site.and_then(|site| site.kind);
        match (site, kind) {
            (Some(site), Some(kind)) if site.recorded => Self::Recorded(kind),
            (Some(_), Some(kind)) if function.excluded.is_none() => Self::Missing(kind),
            (Some(_), _) => Self::Excluded,
            (None, _) if function.excluded.is_some() => Self::Excluded,
            (None, _) => Self::NoSite,
        }
    }
}

/// A function in one of the two files, with all the clones that a compiler made of it.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Instance {
    /// The symbol of the clone that a tracer can do most with.
    pub symbol: String,
    /// The section of that symbol.
    pub section: String,
    /// The source file (`STT_FILE`), if the symbols tell it.
    pub file: Option<String>,
    /// The binding of that symbol.
    pub binding: Binding,
    /// The ways in which a tracer can use that clone.
    pub state: State,
}

/// A function whose state differs between the two files.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct Difference {
    /// Its name.
    pub name: String,
    /// The function in the first file; `None` if it isn't there.
    pub old: Option<Instance>,
    /// The function in the second file; `None` if it isn't there.
    pub new: Option<Instance>,
}

impl Difference {
    /// What happened to the function, in one word.
    #[must_use]
    pub fn change(&self) -> &'static str {
        use State::{Excluded, Missing, NoSite, Recorded};
        let states =
            (self.old.as_ref().map(|old| old.state), self.new.as_ref().map(|new| new.state));
        match states {
            (None, _) => "added",
            (_, None) => "removed",
            (Some(Excluded), Some(Recorded(_) | Missing(_))) => "included",
            (Some(_), Some(Excluded)) => "excluded",
            (Some(NoSite | Excluded), Some(_)) => "gained",
            (Some(_), Some(NoSite)) => "lost",
            (Some(Recorded(_)), Some(Missing(_))) => "unrecorded",
            (Some(Missing(_)), Some(Recorded(_))) => "recorded",
            (Some(_), Some(_)) => "kind",
        }
    }
}

/// Lists the functions whose state differs between `old` and `new`, by name. A function without a site
/// that is in only one of them isn't listed.
///
/// With `exact`, a clone is a function of its own. Otherwise it counts as the function that it was made
/// from.
///
/// ```
/// # let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../../tests/prebuilt/");
/// # let object = std::fs::read(format!("{root}x86_64-fentry.o"))?;
/// # let options = mcount::Options::default();
/// let recording = mcount::record(&object, &options, &mcount::RecordOptions::default())?;
/// let recorded = recording.change.expect("there was no table").apply(&object);
///
/// let old = mcount::functions(&object, &options)?;
/// let new = mcount::functions(&recorded, &options)?;
/// let difference = &mcount::diff(&old, &new, false)[0];
/// assert_eq!((difference.name.as_str(), difference.change()), ("hook_address", "recorded"));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use]
pub fn diff(old: &Functions, new: &Functions, exact: bool) -> Vec<Difference> {
    let tells_files = [old, new].iter().all(|side| side.functions.iter().any(|f| f.file.is_some()));
    let (olds, news) = (Side::new(old, exact, tells_files), Side::new(new, exact, tells_files));
    let names: BTreeSet<&str> = olds.by_name.keys().chain(news.by_name.keys()).copied().collect();
    let mut differences = Vec::new();
    for name in names {
        let (lost, gained) = unmatched(olds.instances(name), news.instances(name));
        for (old, new) in pairs(lost, gained) {
            // The same code may be there under another name.
            let is_there = match (&old, &new) {
                (Some(old), None) => news.has(name, old.state),
                (None, Some(new)) => olds.has(name, new.state),
                _ => false,
            };
            let states = [&old, &new].map(|side| side.as_ref().map(|side| side.state));
            let is_of_sites = !is_there && states.iter().flatten().any(|state| has_site(*state));
            if is_of_sites || matches!(states, [Some(_), Some(_)]) {
                differences.push(Difference { name: name.to_owned(), old, new });
            }
        }
    }
    differences
}

fn has_site(state: State) -> bool {
    state.kind().is_some()
}

/// The functions of one file.
struct Side<'f> {
    by_name: BTreeMap<&'f str, Vec<&'f Function>>,
    /// The other names of functions, each with the states of the functions that have it.
    aliases: HashSet<(&'f str, State)>,
    exact: bool,
    /// Whether the symbols of both files tell source files. Otherwise a global function and its local clone look as if
    /// they were of different files in one of them alone.
    tells_files: bool,
}

impl<'f> Side<'f> {
    fn new(functions: &'f Functions, exact: bool, tells_files: bool) -> Self {
        let mut side =
            Self { by_name: BTreeMap::new(), aliases: HashSet::new(), exact, tells_files };
        for function in &functions.functions {
            side.by_name.entry(side.key(&function.name)).or_default().push(function);
            let state = State::of(function);
            for alias in &function.aliases {
                side.aliases.insert((side.key(alias), state));
            }
        }
        side
    }

    /// The name with which a function called `name` is matched.
    fn key(&self, name: &'f str) -> &'f str {
        if self.exact { name } else { source_name(name) }
    }

    /// Whether `name` is an alias of a function in this state.
    fn has(&self, name: &str, state: State) -> bool {
        self.aliases.contains(&(name, state))
    }

    /// The functions called `name`. Of several clones, only the best one.
    fn instances(&self, name: &str) -> Vec<Instance> {
        let mut by_file: BTreeMap<Option<&str>, Vec<Instance>> = BTreeMap::new();
        for function in self.by_name.get(name).into_iter().flatten() {
            let instance = Instance {
                symbol: function.name.clone(),
                section: function.section.clone(),
                file: function.file.clone(),
                binding: function.binding,
                state: State::of(function),
            };
            let file = function.file.as_deref().filter(|_| self.tells_files);
            by_file.entry(file).or_default().push(instance);
        }
        let mut instances = Vec::new();
        for (_, mut of_file) in by_file {
            of_file.sort_by(|a, b| (a.state, &a.symbol).cmp(&(b.state, &b.symbol)));
            let symbols: BTreeSet<&str> =
                of_file.iter().map(|instance| instance.symbol.as_str()).collect();
            // Different symbols are clones. The same symbol twice is two functions.
            let are_clones = !self.exact && symbols.len() == of_file.len();
            let kept = if are_clones { 1 } else { of_file.len() };
            instances.extend(of_file.into_iter().take(kept));
        }
        instances
    }
}

/// The rest of both sides after matching first those of the same file and state, and then those of the
/// same state that may be the same function.
fn unmatched(mut old: Vec<Instance>, mut new: Vec<Instance>) -> (Vec<Instance>, Vec<Instance>) {
    take_pairs(&mut old, &mut new, Match::SAME_FILE_AND_STATE);
    take_pairs(&mut old, &mut new, Match::SAME_STATE);
    (old, new)
}

/// Matches what changed: first those of the same file, then the others in their order.
fn pairs(
    mut old: Vec<Instance>,
    mut new: Vec<Instance>,
) -> Vec<(Option<Instance>, Option<Instance>)> {
    let mut all = take_pairs(&mut old, &mut new, Match::SAME_FILE);
    all.extend(take_pairs(&mut old, &mut new, Match::ANY));
    let both = all.into_iter().map(|(old, new)| (Some(old), Some(new)));
    let removed = old.into_iter().map(|old| (Some(old), None));
    both.chain(removed).chain(new.into_iter().map(|new| (None, Some(new)))).collect()
}

/// Which instances count as the same function.
#[derive(Clone, Copy)]
struct Match {
    /// Whether they must be of the same source file. Otherwise they may be.
    file: bool,
    /// Whether they must be in the same state.
    state: bool,
}

impl Match {
    const SAME_FILE_AND_STATE: Self = Self { file: true, state: true };
    const SAME_STATE: Self = Self { file: false, state: true };
    const SAME_FILE: Self = Self { file: true, state: false };
    const ANY: Self = Self { file: false, state: false };

    /// What instances of the same function have in common.
    fn key(self, one: &Instance) -> Key {
        let file = one.file.clone().filter(|_| self.file);
        Key { file, state: self.state.then_some(one.state) }
    }
}

/// What instances of the same function have in common. `None` if it doesn't matter, or isn't known.
#[derive(PartialEq, Eq, Hash)]
struct Key {
    file: Option<String>,
    state: Option<State>,
}

/// Whether an instance may be the same function as one of another file. Static functions of different
/// files can't.
fn is_of_any_file(one: &Instance) -> bool {
    one.file.is_none() || one.binding != Binding::Local
}

/// The positions of instances with one key that have no partner yet.
#[derive(Default)]
struct Waiting {
    all: BTreeSet<usize>,
    /// Those for which [`is_of_any_file`] holds.
    of_any_file: BTreeSet<usize>,
}

/// Removes the pairs that are the same function by `rule` from both sides, and returns them. Each of
/// `old` gets the first of `new` that is left.
fn take_pairs(
    old: &mut Vec<Instance>,
    new: &mut Vec<Instance>,
    rule: Match,
) -> Vec<(Instance, Instance)> {
    let mut waiting: HashMap<Key, Waiting> = HashMap::new();
    for (at, one) in new.iter().enumerate() {
        let of_key = waiting.entry(rule.key(one)).or_default();
        of_key.all.insert(at);
        if is_of_any_file(one) {
            of_key.of_any_file.insert(at);
        }
    }
    let mut partners: Vec<Option<Instance>> = new.drain(..).map(Some).collect();
    let mut pairs = Vec::new();
    let mut kept = Vec::new();
    for one in old.drain(..) {
        let partner = waiting.get_mut(&rule.key(&one)).and_then(|of_key| {
            let fits =
                if rule.file || is_of_any_file(&one) { &of_key.all } else { &of_key.of_any_file };
            let at = *fits.first()?;
            of_key.all.remove(&at);
            of_key.of_any_file.remove(&at);
            partners.get_mut(at)?.take()
        });
        match partner {
            Some(partner) => pairs.push((one, partner)),
            None => kept.push(one),
        }
    }
    *old = kept;
    new.extend(partners.into_iter().flatten());
    pairs
}
