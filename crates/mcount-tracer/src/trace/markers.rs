//! Markers that programs declare with `<sys/sdt.h>`: NOPs in the middle of functions, where a jump to the marker's unit takes
//! the place of the NOP and of the instructions behind it (`marker.rs`).
//!
//! The arguments are copied by the agent, by the words of a recipe, as the marker's note says (`mcount_hooks::usdt`). If there's a semaphore,
//! it's counted up while the marker is armed.

use super::function_names::{Aliases, FunctionNames};
use super::marker::Marker;
use super::probes::{Chosen, Probe, Refused, Subject};
use super::scope::Scope;
use mcount_cpu::recipe;
use mcount_hooks::probe::{Plan, Planner, Refusal};
use mcount_hooks::usdt::{self, Argument, Place};
use mcount_ptrace::Memory;
use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSymbol};
use std::collections::HashMap;
use std::io;
use std::ops::Range;

/// Markers that are wanted: those that get a jump, and those that can't.
#[derive(Default)]
pub(super) struct Choice {
    pub(super) chosen: Vec<Chosen>,
    pub(super) refused: Vec<Refused>,
}

/// The markers of a file that are wanted.
pub(super) fn wanted<'d>(
    file: &ElfFile64<'d, Endianness>,
    scope: &Scope,
    path: &str,
) -> Vec<usdt::Marker<'d>> {
    if scope.mark.is_empty() {
        return Vec::new();
    }
    let mut all = usdt::markers(file);
    all.retain(|marker| {
        let name = marker.full_name();
        scope.marks(&name, path) && !scope.leaves_out(&FunctionNames::new([&*name], path))
    });
    all
}

/// The semaphores of all markers of a file, by where the markers are.
pub(super) fn semaphores(file: &ElfFile64<'_, Endianness>) -> HashMap<u64, u64> {
    usdt::markers(file).iter().filter_map(|one| Some((one.site, one.semaphore?))).collect()
}

/// Plans these markers. Nothing of `taken` may be replaced.
pub(super) fn choose(
    of: &Subject<'_>,
    planner: &Planner<'_>,
    wanted: &[usdt::Marker<'_>],
    mut taken: Vec<Range<u64>>,
) -> Choice {
    let path = of.path.to_string_lossy();
    let file_name = path.rsplit('/').next().unwrap_or(&path);
    let mut choice = Choice::default();
    let mut symbols = Symbols::default();
    for marker in wanted {
        let plan = planner.plan_marker(marker.site).and_then(|plan| {
            let bytes = plan.entry..plan.entry + plan.moved.max(plan.replaced) as u64;
            let other = taken.iter().find(|one| one.start < bytes.end && bytes.start < one.end);
            if let Some(other) = other {
                return Err(Refusal::Taken(other.start));
            }
            taken.push(bytes);
            Ok(plan)
        });
        let probe = plan.map_err(|why| why.to_string()).and_then(|plan: Plan| {
            let facts = facts(of, marker, &mut symbols);
            Probe::of(plan, of.code).map(|probe| probe.with_marker(facts))
        });
        match probe {
            Ok(probe) => {
                let name = marker.full_name();
                choice.chosen.push(Chosen {
                    start: marker.site,
                    size: 1,
                    name,
                    aliases: Aliases::default(),
                    probe,
                });
            }
            Err(why) => {
                let name = format!("{}@{file_name}+{:#x}", marker.full_name(), marker.site);
                choice.refused.push(Refused { name, why, is_marker: true });
            }
        }
    }
    choice
}

/// Values of symbols, by their names, once they're needed.
#[derive(Default)]
struct Symbols(Option<HashMap<String, u64>>);

impl Symbols {
    fn value(&mut self, bytes: &[u8], name: &str) -> Option<u64> {
        let all = self.0.get_or_insert_with(|| {
            let Ok(file) = ElfFile64::<Endianness>::parse(bytes) else { return HashMap::new() };
            let symbols = file.dynamic_symbols().chain(file.symbols());
            let defined = symbols.filter(ObjectSymbol::is_definition);
            let named =
                defined.filter_map(|one| Some((one.name().ok()?.to_owned(), one.address())));
            let mut all = HashMap::new();
            let mut doubtful = Vec::new();
            for (name, address) in named {
                if all.insert(name.clone(), address).is_some_and(|other| other != address) {
                    doubtful.push(name);
                }
            }
            // Variables of several source files may have the same name.
            for name in doubtful {
                all.remove(&name);
            }
            all
        });
        all.get(name).copied()
    }
}

fn facts(of: &Subject<'_>, marker: &usdt::Marker<'_>, symbols: &mut Symbols) -> Marker {
    let arguments = usdt::arguments(marker.arguments);
    let mut words_of = |one: &Argument| {
        let place = one.place.as_ref();
        let words = place.and_then(|place| {
            words(one.size, place, |name| {
                symbols.value(of.bytes, name).map(|value| value.wrapping_sub(marker.site))
            })
        });
        words.unwrap_or_default()
    };
    let words = arguments.iter().map(&mut words_of).collect();
    Marker { arguments, words, semaphore: marker.semaphore }
}

/// The words of a recipe that copy `size` bytes; `distance` says how far a symbol is from the marker.
fn words(
    size: u8,
    place: &Place,
    mut distance: impl FnMut(&str) -> Option<u64>,
) -> Option<Vec<u64>> {
    let size_at = u64::from(size) << 24;
    match place {
        Place::Constant(value) => Some(vec![recipe::CONSTANT | size_at, value.cast_unsigned()]),
        Place::Register(register, offset) => {
            let (register, offset) = (u64::from(*register) << 8, u64::from(*offset) << 16);
            let is_whole = offset == 0 || size == 1;
            is_whole.then(|| vec![recipe::REGISTER | register | offset | size_at])
        }
        Place::Vector(register) => {
            let register = recipe::VECTORS + u64::from(*register);
            Some(vec![recipe::REGISTER | register << 8 | size_at])
        }
        Place::Memory(address) => {
            let (mut base, mut offset) = (address.base.map(u64::from), address.distance);
            let index = address.index.map(|(register, scale)| (u64::from(register), scale));
            let (mut index, scale) = index.unwrap_or((recipe::NO_REGISTER, 1));
            if let Some(symbol) = &address.symbol {
                offset = offset.checked_add(distance(symbol)?.cast_signed())?;
                // One of both has to be free for where the marker is.
                if base.is_none() {
                    base = Some(recipe::SITE);
                } else if index == recipe::NO_REGISTER {
                    index = recipe::SITE;
                } else {
                    return None;
                }
            }
            let base = base.unwrap_or(recipe::NO_REGISTER);
            let offset = i32::try_from(offset).ok()?.cast_unsigned();
            let operation = recipe::ADDRESSED | u64::from(scale.trailing_zeros());
            Some(vec![operation | base << 8 | index << 16 | size_at | u64::from(offset) << 32])
        }
    }
}

/// Counts a semaphore up, or down.
pub(super) fn count(memory: &Memory, semaphore: u64, is_up: bool) -> io::Result<()> {
    let mut now = [0; 2];
    memory.read(semaphore, &mut now)?;
    let now = u16::from_le_bytes(now);
    // Another tracer may have put it to 0.
    let new = if is_up { now.saturating_add(1) } else { now.saturating_sub(1) };
    memory.write(semaphore, &new.to_le_bytes())
}
