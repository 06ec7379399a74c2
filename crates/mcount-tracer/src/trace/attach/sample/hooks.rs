//! The hooks of a process: those of each group, which windows arm, and those that are armed all the time.

use super::super::sites::{Switch, flip};
use super::super::worker::Worker;
use super::groups::Groups;
use foldhash::{HashMap, HashSet};
use std::collections::BTreeSet;
use std::io;

/// Where hooks are switched.
#[derive(Debug, Default)]
pub(super) struct Hooks {
    groups: HashMap<u32, Vec<Switch>>,
    /// Those of witnesses, once more.
    witnesses: Vec<Switch>,
    /// Those that are armed all the time, by function.
    watched: HashMap<u32, Vec<Switch>>,
}

impl Hooks {
    /// Those of the process as they are now. These functions are armed all the time, and witnesses in each window.
    pub(super) fn of(
        worker: &Worker,
        groups: &Groups,
        (watched, witnesses): (&HashSet<u32>, &BTreeSet<u32>),
    ) -> io::Result<Self> {
        let mut hooks = Self::default();
        for switch in worker.session.switches()? {
            let function = switch.function;
            if witnesses.contains(&function) {
                hooks.witnesses.push(switch.clone());
            }
            let place = if watched.contains(&function) {
                hooks.watched.entry(function).or_default()
            } else {
                hooks.groups.entry(groups.of(function)).or_default()
            };
            place.push(switch);
        }
        Ok(hooks)
    }

    /// Those that windows of this group arm, and those of witnesses.
    pub(super) fn of_group(&self, group: u32) -> [&[Switch]; 2] {
        [self.groups.get(&group).map(Vec::as_slice).unwrap_or_default(), &self.witnesses]
    }

    /// Has these functions armed all the time, or no longer.
    pub(super) fn watch(
        &mut self,
        worker: &Worker,
        (groups, functions): (&Groups, &BTreeSet<u32>),
        is_on: bool,
    ) -> io::Result<()> {
        if functions.is_empty() {
            return Ok(());
        }
        let session = &worker.session;
        let chosen =
            if is_on { self.take_of_groups(functions) } else { self.take_watched(functions) };
        let done = session.switch_instrumented(is_on, |function| functions.contains(&function));
        let done = done.and_then(|()| flip(&session.memory, chosen.iter(), is_on));
        for switch in chosen {
            let function = switch.function;
            let place = if is_on {
                self.watched.entry(function).or_default()
            } else {
                self.groups.entry(groups.of(function)).or_default()
            };
            place.push(switch);
        }
        if session.is_there() { done } else { Ok(()) }
    }

    /// Makes those idle that are armed all the time, or arms them again.
    pub(super) fn pause(&self, worker: &Worker, is_paused: bool) -> io::Result<()> {
        let session = &worker.session;
        let is_watched = |function| self.watched.contains_key(&function);
        let done = session.switch_instrumented(!is_paused, is_watched);
        let watched = self.watched.values().flatten();
        let done = done.and_then(|()| flip(&session.memory, watched, !is_paused));
        if session.is_there() { done } else { Ok(()) }
    }

    fn take_of_groups(&mut self, functions: &BTreeSet<u32>) -> Vec<Switch> {
        let is_chosen = |switch: &mut Switch| functions.contains(&switch.function);
        self.groups.values_mut().flat_map(|all| all.extract_if(.., is_chosen)).collect()
    }

    fn take_watched(&mut self, functions: &BTreeSet<u32>) -> Vec<Switch> {
        functions.iter().filter_map(|one| self.watched.remove(one)).flatten().collect()
    }
}
