//! Changing what functions are armed for, and their sites accordingly.

use crate::arch::{self, code};
use crate::error::{Error, ErrorKind, Result};
use crate::hooks::{AREA, Hook};
use crate::lists;
use crate::module::{Module, State};
use crate::record::{Handlers, List, Record, flags};
use crate::system::code::Code;
use crate::system::{threads, trap};
use mcount_cpu::engine::{self, Change, Step};
use std::collections::HashMap;
use std::ops::Range;
use std::sync::atomic::Ordering::{Acquire, Release};

/// The wanted change of functions.
#[derive(Debug, Clone, Copy)]
pub(crate) enum Edit {
    /// Nothing yet, but they're made ready for it.
    Prepare,
    /// These handlers see their calls, too.
    Watch(&'static Handlers),
    /// These handlers don't see them any more.
    Unwatch(&'static Handlers),
    /// Their calls are recorded in the trace.
    Trace,
    /// Their calls are no longer recorded.
    Untrace,
    /// Their calls go there.
    Replace(u64),
    /// Their calls go where they went before.
    Restore,
}

/// How sites are changed while other threads run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum Protocol {
    /// One byte is changed, and no thread stops or traps.
    #[default]
    OneByte,
    /// A breakpoint is there meanwhile, and threads that run into it trap.
    Breakpoint,
    /// All other threads stand meanwhile. Where an instruction may be exchanged at any time (AArch64), they don't have to.
    Stopped,
}

/// A hook: the index of its module, and its own in it.
pub(crate) type HookIndex = (usize, usize);

/// The contents of a record before the change.
struct Before {
    record: &'static Record,
    body: u64,
    list: *mut List,
    flags: u32,
    enter: u64,
}

impl Before {
    fn of(record: &'static Record) -> Self {
        Self {
            record,
            body: record.body.load(Acquire),
            list: record.list.load(Acquire),
            flags: record.flags.load(Acquire),
            enter: record.enter.load(Acquire),
        }
    }

    fn put_back(&self) {
        self.record.body.store(self.body, Release);
        self.record.list.store(self.list, Release);
        self.record.flags.store(self.flags, Release);
        self.record.enter.store(self.enter, Release);
    }
}

/// The bytes to write.
#[derive(Default)]
struct Plan {
    before: Vec<Before>,
    /// Areas that are as the compiler made them.
    fresh: Vec<Change<AREA>>,
    /// Sites that are idle or armed.
    known: Vec<Change<AREA>>,
    /// Why some of these can't be changed while other threads run.
    alone: Option<&'static str>,
    /// Their states afterwards.
    states: Vec<(HookIndex, State)>,
    foreign: Option<String>,
    lists: HashMap<usize, Option<&'static List>>,
}

/// Makes the change for the hooks in `chosen`; what is wrong with some of them, if anything is. The dynamic linker
/// unloads nothing meanwhile.
///
/// # Errors
///
/// Nothing was changed.
pub(crate) fn apply(
    modules: &mut [Module],
    chosen: &[HookIndex],
    edit: Edit,
    protocol: Protocol,
) -> Result<Option<String>> {
    let mut plan = Plan::default();
    let result = plan.make(modules, chosen, edit).and_then(|()| plan.carry_out(protocol));
    if let Err(error) = result {
        plan.before.iter().for_each(Before::put_back);
        return Err(error);
    }
    for ((number, index), state) in plan.states {
        let sites = modules.get_mut(number).map(|module| &mut module.sites);
        if let Some(site) = sites.and_then(|sites| sites.get_mut(index)) {
            site.state = state;
        }
    }
    Ok(plan.foreign)
}

impl Plan {
    fn make(&mut self, modules: &mut [Module], chosen: &[HookIndex], edit: Edit) -> Result<()> {
        for place in chosen {
            let Some(module) = modules.get_mut(place.0) else { continue };
            module.prepare()?;
            self.add(module, *place, edit)?;
        }
        if self.states.is_empty()
            && let Some(text) = self.foreign.take()
        {
            return Err(Error::new(ErrorKind::Foreign, text));
        }
        self.fresh.sort_unstable_by_key(|change| change.address);
        self.known.sort_unstable_by_key(|change| change.address);
        Ok(())
    }

    fn add(&mut self, module: &Module, place: HookIndex, edit: Edit) -> Result<()> {
        let index = place.1;
        let (Some(hook), Some(site)) = (module.hooks.get(index), module.sites.get(index)) else {
            return Ok(());
        };
        let (Some(address), Some(stub)) = (module.address(index), module.stub(index)) else {
            return Ok(());
        };
        let Some((idle, armed, telling)) = arch::states(&hook.area, address, stub) else {
            return Err(Error::new(ErrorKind::NoRoom, "a stub is out of reach"));
        };
        // SAFETY: the module is loaded, and the hook is in its code.
        let there = unsafe { read(address, hook.area.length) };
        let state = match &there {
            _ if there.get(..telling) == idle.get(..telling) => State::Idle,
            _ if there.get(..telling) == armed.get(..telling) => State::Armed,
            _ if there == hook.bytes => State::Untouched,
            _ => {
                let (name, module) = (name(hook), module.path.display());
                let text =
                    format!("{module}: {name}: a debugger or another tracer has changed the hook");
                self.foreign.get_or_insert(text);
                return Ok(());
            }
        };
        self.change_record(site.record, hook, edit)?;
        let (wanted, to) =
            if is_wanted(site.record) { (State::Armed, armed) } else { (State::Idle, idle) };
        match state {
            State::Untouched if wanted == State::Idle && !matches!(edit, Edit::Prepare) => {
                self.states.push((place, state));
            }
            State::Untouched => {
                let length = hook.area.length;
                self.fresh.push(Change { address, length, from: hook.bytes, to });
                self.states.push((place, wanted));
            }
            _ => {
                if state != wanted {
                    self.alone = self.alone.or(arch::wants_one_thread(&hook.area));
                    let from = if state == State::Idle { idle } else { armed };
                    self.known.push(part(arch::changed(&hook.area), address, (from, to)));
                }
                self.states.push((place, wanted));
            }
        }
        Ok(())
    }

    fn change_record(&mut self, record: &'static Record, hook: &Hook, edit: Edit) -> Result<()> {
        let before = Before::of(record);
        let old = before.list;
        self.before.push(before);
        match edit {
            Edit::Prepare => {}
            Edit::Watch(_) | Edit::Unwatch(_) => {
                let known = self.lists.get(&(old as usize)).copied();
                let new = if let Some(known) = known { known } else { edited(old, edit)? };
                self.lists.insert(old as usize, new);
                let new =
                    new.map_or(std::ptr::null_mut(), |list| std::ptr::from_ref(list).cast_mut());
                set_list(record, new, hook.is_after_prologue, is_traced(record));
            }
            Edit::Trace | Edit::Untrace => {
                set_list(record, old, hook.is_after_prologue, matches!(edit, Edit::Trace));
            }
            Edit::Replace(_) if hook.is_after_prologue => {
                let text = format!(
                    "{} has its hook after the prologue (-pg): it can't be replaced",
                    name(hook)
                );
                return Err(Error::new(ErrorKind::Unsuitable, text));
            }
            Edit::Replace(target) => record.body.store(target, Release),
            Edit::Restore => record.body.store(record.original.load(Acquire), Release),
        }
        Ok(())
    }

    fn carry_out(&self, protocol: Protocol) -> Result<()> {
        let alone = threads::is_alone();
        if alone {
            write(code::ALL_STAND, &self.fresh)?;
            return write(code::ALL_STAND, &self.known);
        }
        if let Some(text) = self.alone {
            return Err(Error::new(ErrorKind::Threads, text));
        }
        self.write_fresh()?;
        match protocol {
            Protocol::OneByte => write(arch::AT_ONCE, &self.known),
            Protocol::Breakpoint => {
                trap::prepare()?;
                write(code::BY_BREAKPOINT, &self.known)
            }
            // Each is one instruction before and afterwards, so nobody is inside.
            Protocol::Stopped => write_while_stopped(&[], &self.known)?,
        }
    }

    /// Changes areas for the first time. Where an area is several instructions, no thread may be between them.
    fn write_fresh(&self) -> Result<()> {
        if self.fresh.is_empty() {
            return Ok(());
        }
        let area = |change: &Change<AREA>| (change.address, change.address + change.length as u64);
        let areas: Vec<_> = self.fresh.iter().map(area).collect();
        match write_while_stopped(&areas, &self.fresh) {
            Ok(result) => result,
            Err(error) => {
                let is_one = |change: &Change<AREA>| {
                    code::is_one_instruction(change.before(), change.length)
                };
                if !self.fresh.iter().all(is_one) {
                    return Err(error);
                }
                trap::prepare()?;
                write(code::BY_BREAKPOINT, &self.fresh)
            }
        }
    }
}

/// Writes while all other threads stand, none of them inside one of `areas`.
///
/// # Errors
///
/// They can't be stopped. What's returned else is the result of writing.
fn write_while_stopped<const N: usize>(
    areas: &[(u64, u64)],
    changes: &[Change<N>],
) -> Result<Result<()>> {
    if changes.is_empty() {
        return Ok(Ok(()));
    }
    let mut code = Code::open();
    let change = || engine::change(&mut code, code::ALL_STAND, changes);
    let result = arch::while_none_is_inside(areas, change)?;
    Ok(result.map_err(|failure| failure.error.into()))
}

fn write<const N: usize>(steps: &[Step], changes: &[Change<N>]) -> Result<()> {
    if changes.is_empty() {
        return Ok(());
    }
    let result = engine::change(&mut Code::open(), steps, changes);
    result.map_err(|failure| failure.error.into())
}

/// The list that takes the place of `old`.
fn edited(old: *const List, edit: Edit) -> Result<Option<&'static List>> {
    // SAFETY: lists are never freed.
    let mut all = unsafe { old.as_ref() }.map_or_else(Vec::new, |list| list.all.clone());
    match edit {
        Edit::Watch(handlers) if !all.iter().any(|one| std::ptr::eq(*one, handlers)) => {
            all.push(handlers);
        }
        Edit::Unwatch(handlers) => all.retain(|one| !std::ptr::eq(*one, handlers)),
        _ => {}
    }
    lists::of(&all)
}

/// Has the record's calls seen by the handlers of this list, and recorded. A thread may read it at any time: whatever
/// mixture it finds makes sense.
fn set_list(record: &Record, list: *mut List, is_after_prologue: bool, is_traced: bool) {
    // SAFETY: lists are never freed.
    let wanted = unsafe { list.as_ref() }.map_or(0, |list| list.flags);
    let enter = match (list.is_null(), is_traced, is_after_prologue) {
        (true, false, _) => arch::pass(),
        (true, true, false) => arch::enter_traced(),
        (true, true, true) => arch::enter_traced_late(),
        (false, _, false) => arch::enter(),
        (false, _, true) => arch::enter_late(),
    };
    let traced = if is_traced { flags::TRACED } else { 0 };
    record.list.store(list, Release);
    record.flags.store(wanted & flags::VECTORS | traced, Release);
    record.enter.store(enter, Release);
}

/// Are its calls recorded?
pub(crate) fn is_traced(record: &Record) -> bool {
    record.flags.load(Acquire) & flags::TRACED != 0
}

fn is_wanted(record: &Record) -> bool {
    !record.list.load(Acquire).is_null()
        || is_traced(record)
        || record.body.load(Acquire) != record.original.load(Acquire)
}

fn name(hook: &Hook) -> String {
    let symbol = hook.names.first().map_or("a function without a name", String::as_str);
    mcount::demangled(symbol).into_owned()
}

/// The change of a part of an area.
fn part(part: Range<usize>, area: u64, (from, to): ([u8; AREA], [u8; AREA])) -> Change<AREA> {
    let cut = |bytes: [u8; AREA]| {
        let mut cut = [0; AREA];
        for (room, byte) in cut.iter_mut().zip(bytes.get(part.clone()).unwrap_or_default()) {
            *room = *byte;
        }
        cut
    };
    let address = area + part.start as u64;
    Change { address, length: part.len(), from: cut(from), to: cut(to) }
}

/// The first bytes of the code at `address`; zeroes behind them.
unsafe fn read(address: u64, length: usize) -> [u8; AREA] {
    let mut bytes = [0; AREA];
    for (at, room) in (address..).zip(bytes.iter_mut().take(length)) {
        // SAFETY: the caller promises that as many bytes of code are mapped there.
        *room = unsafe { (at as *const u8).read_volatile() };
    }
    bytes
}
