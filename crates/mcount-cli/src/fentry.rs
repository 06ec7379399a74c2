//! Whether BPF programs of type fentry and fexit can be attached to a function: it must be in the table
//! *and* in BTF.
//!
//! Plain data in and out. `btf` reads BTF, `why` says why a function isn't in the table.

use crate::btf::{Functions as Known, Prototype};
use crate::why::{Answer, Reason};
use mcount::{CallSite, Function, Functions, Sites};
use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;

/// Functions that BPF itself calls around a program, so it attaches to none of them. Which of them a
/// kernel refuses depends on its configuration.
const DENIED: [&str; 7] = [
    "migrate_disable",
    "migrate_enable",
    "preempt_count_add",
    "preempt_count_sub",
    "__rcu_read_lock",
    "__rcu_read_unlock",
    "rcu_read_unlock_strict",
];

/// Code that a kernel frees after boot, or after a module was loaded.
#[derive(Debug, Clone, Copy)]
struct InitCode {
    /// Its addresses, where a kernel's symbols say that.
    range: Option<(u64, u64)>,
}

impl InitCode {
    fn of(functions: &Functions) -> Self {
        let at = |name: &str| {
            let mut all = functions.functions.iter();
            all.find(|one| one.names().any(|other| other == name)).and_then(|one| one.address)
        };
        Self { range: at("_sinittext").zip(at("_einittext")) }
    }

    fn has(self, section: Option<&str>, address: Option<u64>) -> bool {
        let is_in = |(start, end)| address.is_some_and(|address| (start..end).contains(&address));
        section.is_some_and(|name| name.starts_with(".init.text")) || self.range.is_some_and(is_in)
    }
}

/// Facts about a function and BPF.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Verdict {
    /// Whether BTF has it.
    pub in_btf: bool,
    /// Whether BPF can attach to it.
    pub attachable: bool,
    /// The same in words, with what is missing and why.
    pub words: String,
}

/// Whether the BTF `known` has the function of each of `sites`, by any of its names. If BTF has another of
/// its names, the site gets that one.
#[must_use]
pub fn mark(sites: &mut Sites, functions: &Functions, known: &Known) -> Vec<bool> {
    let by_place = names_by_place(functions, known);
    let marks = sites.sites.iter_mut().map(|site| {
        let names = known_names(site, &by_place, known);
        if let Some(name) = names.first() {
            site.symbol = Some(Arc::clone(name));
        }
        !names.is_empty()
    });
    marks.collect()
}

/// Keeps only the `sites` that are in the table, and in code that stays, with functions that the BTF `known` has: one for each name
/// that it has, because each of them is one that BPF finds the function by.
pub fn keep_attachable(sites: &mut Sites, functions: &Functions, known: &Known) {
    let by_place = names_by_place(functions, known);
    let init = InitCode::of(functions);
    let stays = |site: &&CallSite| !init.has(site.section.as_deref(), site.address);
    let mut kept = Vec::new();
    for site in sites.sites.iter().filter(|site| site.recorded && !site.stale).filter(stays) {
        for name in known_names(site, &by_place, known) {
            let mut site = site.clone();
            site.symbol = Some(name);
            kept.push(site);
        }
    }
    sites.sites = kept;
}

/// The names of functions that BTF has, by place.
type Names<'f> = HashMap<(u32, u64), Vec<&'f str>>;

fn names_by_place<'f>(functions: &'f Functions, known: &Known) -> Names<'f> {
    let mut by_place = Names::new();
    for function in &functions.functions {
        let place = (function.section_index, function.offset);
        let names = function.names().filter(|name| known.contains_key(*name));
        by_place.entry(place).or_default().extend(names);
    }
    by_place
}

/// The names of the function of `site` that BTF has. A site of an overridden function has the name of the function
/// before, and that one has a site of its own or none.
fn known_names(site: &CallSite, by_place: &Names<'_>, known: &Known) -> Vec<Arc<str>> {
    if site.stale {
        return Vec::new();
    }
    let own = site.symbol.iter().filter(|name| known.contains_key(&***name)).cloned();
    let mut names: Vec<Arc<str>> = own.collect();
    let others = start(site).and_then(|start| by_place.get(&start));
    for other in others.into_iter().flatten() {
        if names.iter().all(|name| **name != **other) {
            names.push(Arc::from(*other));
        }
    }
    names
}

/// Where the function of `site` starts.
fn start(site: &CallSite) -> Option<(u32, u64)> {
    let distance = site.symbol_offset?;
    Some((site.section_index?, site.offset?.checked_add_signed(distance.checked_neg()?)?))
}

/// The functions of a file by name, and those that its BTF knows.
pub struct Fentry<'k> {
    known: &'k Known,
    by_name: BTreeMap<&'k str, Vec<&'k Function>>,
    init: InitCode,
}

impl<'k> Fentry<'k> {
    /// The functions of a file, and those that its BTF knows.
    #[must_use]
    pub fn new(functions: &'k Functions, known: &'k Known) -> Self {
        let mut by_name: BTreeMap<&str, Vec<&Function>> = BTreeMap::new();
        for function in &functions.functions {
            for name in function.names() {
                by_name.entry(name).or_default().push(function);
            }
        }
        Self { known, by_name, init: InitCode::of(functions) }
    }

    /// Whether BPF can attach to the function that `answer` is about.
    #[must_use]
    pub fn verdict(&self, answer: &Answer) -> Verdict {
        let namesakes = self.by_name.get(answer.name.as_str()).map_or(&[][..], Vec::as_slice);
        let own = namesakes.iter().find(|function| {
            Some(&function.name) == answer.symbol.as_ref()
                && function.sites.iter().any(|site| site.address == answer.address)
        });
        let own = own.or_else(|| namesakes.first());
        let names = own.map_or_else(|| vec![answer.name.as_str()], |own| own.names().collect());
        let found = names.iter().find_map(|name| self.known.get_key_value(*name));
        // An overridden definition shares only its name with the one that BTF has.
        let found = found.filter(|_| answer.reason != Reason::Overridden);
        let is_recorded = answer.reason == Reason::Recorded;
        let name = found.map_or(answer.name.as_str(), |(name, _)| name);
        let prototypes = found.map(|(_, prototypes)| prototypes.as_slice());
        if is_recorded && self.init.has(answer.section.as_deref(), answer.address) {
            let words = "in the table, but the kernel frees its code after boot (.init.text), or that of a module when \
                         it's loaded";
            return Verdict { in_btf: found.is_some(), attachable: false, words: words.to_owned() };
        }
        if is_recorded {
            return of_recorded(name, prototypes, namesakes.len(), |base| {
                self.known.contains_key(base)
            });
        }
        let words = match found {
            Some(_) => "in BTF, but not in the table",
            None => "neither in the table nor in BTF",
        };
        Verdict { in_btf: found.is_some(), attachable: false, words: words.to_owned() }
    }
}

/// Whether BPF can attach to the function `name`, which is in the table, and which has these `prototypes` in
/// BTF if BTF has it. `namesakes` functions have the name. `is_known` says whether BTF has a name.
pub(crate) fn of_recorded(
    name: &str,
    prototypes: Option<&[Prototype]>,
    namesakes: usize,
    is_known: impl Fn(&str) -> bool,
) -> Verdict {
    let (attachable, words) = match prototypes {
        Some(prototypes) => with_both(name, prototypes, namesakes),
        None => (false, format!("not in BTF: {}", missing(name, namesakes, is_known))),
    };
    Verdict { in_btf: prototypes.is_some(), attachable, words }
}

/// Why BTF doesn't have the function `name`, which is in the table.
fn missing(name: &str, namesakes: usize, is_known: impl Fn(&str) -> bool) -> String {
    let base = mcount::source_name(name);
    if base != name {
        let suffix = name.get(base.len()..).unwrap_or_default();
        let of_base = if is_known(base) {
            format!("; BTF has {base}, but that is not the name of this code")
        } else {
            String::new()
        };
        return format!("{suffix} says that the compiler changed its parameters{of_base}");
    }
    if namesakes > 1 {
        return format!(
            "{namesakes} functions have this name, and BTF has it only if all have the same parameters"
        );
    }
    "the compiler optimized its parameters, or it's in assembly, which has no types".to_owned()
}

/// Whether BPF can attach to the function `name`, which is in the table and in BTF.
fn with_both(name: &str, prototypes: &[Prototype], namesakes: usize) -> (bool, String) {
    const BOTH: &str = "in the table and in BTF";
    if DENIED.contains(&name) {
        return (false, format!("{BOTH}, but BPF refuses it, because BPF itself calls it"));
    }
    let refused = prototypes.iter().map(|prototype| prototype.refused());
    match refused.collect::<Option<Vec<_>>>().and_then(|why| why.into_iter().next()) {
        Some(why) => (false, format!("{BOTH}, but BPF refuses it: {why}")),
        None if namesakes > 1 => {
            (true, format!("{BOTH}; {namesakes} functions have this name, and BPF takes only one"))
        }
        None => (true, BOTH.to_owned()),
    }
}
