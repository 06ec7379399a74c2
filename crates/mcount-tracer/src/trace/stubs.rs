//! What arms a hook: its stub, the way there from its module and back, and the bytes of its site.
//!
//! One module's hooks are armed together. Their stubs lie one after the other and are written at once; so do thunks, in room near
//! the module, where the room for stubs is out of its reach.

use super::agent::Routines;
use super::modules::Hook;
use super::probes::{Probe, TRAP, Unit, are_in_stubs};
use super::processor as code;
use mcount_ptrace::Memory;
use std::io;

/// The longest area, and a jump before it.
pub(super) const LONGEST: usize = 24;

/// Code of ours that lies one after the other, in room that ends somewhere.
#[derive(Debug, Clone)]
pub(super) struct Batch {
    pub(super) start: u64,
    end: u64,
    pub(super) bytes: Vec<u8>,
}

impl Batch {
    pub(super) fn new((start, end): (u64, u64)) -> Self {
        Self { start, end, bytes: Vec::new() }
    }

    /// Where what is added next will be.
    pub(super) fn next(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    /// The end of its room.
    pub(super) fn end(&self) -> u64 {
        self.end
    }

    /// Adds code; where it is. `None` if there's no room.
    pub(super) fn add(&mut self, code: &[u8]) -> Option<u64> {
        let at = self.next();
        let end = at.checked_add(code.len() as u64)?;
        (end <= self.end).then(|| self.bytes.extend_from_slice(code))?;
        Some(at)
    }

    pub(super) fn write(&self, memory: &Memory) -> io::Result<()> {
        if self.bytes.is_empty() { Ok(()) } else { memory.write(self.start, &self.bytes) }
    }
}

/// The agent's routines that stubs call.
#[derive(Debug, Clone, Copy)]
pub(super) struct StubRoutines {
    /// The load bias of the agent.
    pub(super) bias: u64,
    /// What most call.
    pub(super) plain: Routines,
    /// What those of functions with recipes call.
    pub(super) with_values: Routines,
    /// What the units of markers call.
    pub(super) marker: u64,
    /// What the stubs of probes call, where these have the moved instructions in them.
    pub(super) probe: u64,
}

impl StubRoutines {
    /// The stub of `hook` for `at`, whose function goes on at `body`.
    fn stub(&self, hook: &Hook, at: u64, body: u64) -> Option<[u8; code::STUB]> {
        let routines = if hook.recipe.is_some() { self.with_values } else { self.plain };
        hook.stub(at, routines.at(self.bias), body)
    }
}

/// Makes stubs.
#[derive(Debug, Clone)]
pub(super) struct StubWriter {
    pub(super) routines: StubRoutines,
    pub(super) stubs: Batch,
    /// The first instructions of functions with probes.
    pub(super) moved: Batch,
}

impl StubWriter {
    /// Makes the stub of `hook` in a module at load bias `bias`, where the module reaches it or a way to it in `near`. `None` if
    /// there's no room, or something is out of reach.
    pub(super) fn arm(
        &mut self,
        hook: &Hook,
        bias: u64,
        near: Option<&mut Batch>,
    ) -> Option<ArmedHook> {
        if let Some(probe) = &hook.probe {
            return self.arm_probe(hook, probe, bias, near);
        }
        let site = bias + hook.site;
        let body = site + code::jump_length(&hook.area, hook.before.is_some()) as u64;
        let target = match near {
            Some(near) => self.add_near(hook, near, body)?,
            None => self.add(hook, body)?,
        };
        ArmedHook::new(hook, bias, target)
    }

    /// The same for a probe, whose function goes on with its first instructions, elsewhere.
    fn arm_probe(
        &mut self,
        hook: &Hook,
        probe: &Probe,
        bias: u64,
        near: Option<&mut Batch>,
    ) -> Option<ArmedHook> {
        if probe.marker().is_some() {
            return self.arm_marker(hook, probe, bias, near);
        }
        if are_in_stubs() {
            let room = near.unwrap_or(&mut self.stubs);
            let routine = self.routines.bias + self.routines.probe;
            let target = room.add(&probe.stub(room.next(), (routine, hook.id), bias)?)?;
            return ArmedHook::of_stub(hook, bias, target);
        }
        let at = self.moved.next();
        if let Some(unit) = Unit::new(probe, bias, at) {
            let stub = self.add(hook, unit.body)?;
            self.moved.add(&unit.described(stub)?)?;
            let target = match near {
                Some(near) => near.add(&code::thunk(at))?,
                None => at,
            };
            return ArmedHook::of_probe(hook, bias, target, unit);
        }
        // Only code near the module reaches what they refer to.
        let near = near?;
        let way = near.next();
        let at = way + code::THUNK as u64;
        let unit = Unit::new(probe, bias, at)?;
        let stub = self.add(hook, self.stubs.next() + code::STUB as u64)?;
        self.add_stub(code::stub_back(unit.body, false))?;
        near.add(&code::thunk(stub))?;
        near.add(&unit.plain(way)?)?;
        ArmedHook::of_probe(hook, bias, at, unit)
    }

    /// The same for a marker, which needs no stub.
    fn arm_marker(
        &mut self,
        hook: &Hook,
        probe: &Probe,
        bias: u64,
        near: Option<&mut Batch>,
    ) -> Option<ArmedHook> {
        let at = self.moved.next();
        let routine = self.routines.bias + self.routines.marker;
        let of = (hook.id, bias + hook.site);
        let (unit, code) = match (Unit::new(probe, bias, at), &near) {
            (Some(unit), _) => (unit, Vec::new()),
            (None, Some(near)) => Unit::apart(probe, bias, at, near.next() + code::THUNK as u64)?,
            (None, None) => return None,
        };
        self.moved.add(&unit.marking(of, routine)?)?;
        let target = match near {
            Some(near) => {
                let way = near.add(&code::thunk(at))?;
                let mut code = code;
                code.resize(code.len().next_multiple_of(code::THUNK), TRAP);
                near.add(&code)?;
                way
            }
            None => at,
        };
        ArmedHook::of_probe(hook, bias, target, unit)
    }

    /// Can stubs be written although calls of former traces may return to those that are there? They can if these calls find the same way out
    /// at any moment.
    pub(super) fn keeps_ways_out(&self, memory: &Memory) -> io::Result<bool> {
        let mut now = vec![0; self.stubs.bytes.len()];
        memory.read(self.stubs.start, &mut now)?;
        let pairs = now.chunks_exact(code::STUB).zip(self.stubs.bytes.chunks_exact(code::STUB));
        let is_kept = |(now, new): (&[u8], &[u8])| {
            now.iter().all(|byte| *byte == 0) || now.get(code::WAY_OUT) == new.get(code::WAY_OUT)
        };
        Ok(pairs.into_iter().all(is_kept))
    }

    /// Writes all that sites lead to.
    pub(super) fn write(&self, memory: &Memory) -> io::Result<()> {
        self.moved.write(memory)?;
        self.stubs.write(memory)
    }

    /// Makes the stub of `hook`, whose function goes on at `body`; where its site leads to.
    fn add(&mut self, hook: &Hook, body: u64) -> Option<u64> {
        let stub = self.routines.stub(hook, self.stubs.next(), body)?;
        Some(self.add_stub(stub)? + hook.way_in())
    }

    /// Adds a stub. Calls of former traces may still return to it: whatever it's now, there's a way out.
    fn add_stub(&mut self, stub: [u8; code::STUB]) -> Option<u64> {
        let exit = self.routines.bias + self.routines.plain.exit;
        self.stubs.add(&code::with_way_out(stub, self.stubs.next(), exit)?)
    }

    /// Adds a stub, which has an exit of its own, and the gate behind it.
    pub(super) fn add_pair(&mut self, pair: &[u8]) -> Option<()> {
        let ([stub, gate], _) = pair.as_chunks() else { return None };
        self.stubs.add(stub)?;
        self.add_stub(*gate).map(|_| ())
    }

    /// Adds code that nothing returns to.
    pub(super) fn add_code(&mut self, code: [u8; code::STUB]) -> Option<u64> {
        self.add_stub(code)
    }

    /// Makes the stub of `hook` in room near its module, or a jump to it there, whose function goes on at `body`.
    fn add_near(&mut self, hook: &Hook, near: &mut Batch, body: u64) -> Option<u64> {
        if code::STUBS_ARE_NEAR {
            let stub = self.routines.stub(hook, near.next(), body)?;
            return Some(near.add(&stub)? + hook.way_in());
        }
        // The way back, in a stub of its own after it.
        let target = self.add(hook, self.stubs.next() + code::STUB as u64)?;
        self.add_stub(code::stub_back(body, hook.is_after_prologue()))?;
        near.add(&code::thunk(target))
    }
}

/// The bytes of an armed hook.
pub(super) struct ArmedHook {
    /// The address of its area, and what is there; as many bytes of it as the area has.
    pub(super) site: (u64, [u8; LONGEST]),
    /// Where the jump to its stub is if it's in room before the function, and that jump.
    pub(super) before: Option<(u64, [u8; code::SITE])>,
    /// Where the first instructions of its function are, if it's a probe.
    pub(super) unit: Option<Unit>,
}

impl ArmedHook {
    /// `None` if its site doesn't reach `target`.
    fn new(hook: &Hook, bias: u64, target: u64) -> Option<Self> {
        let site = bias + hook.site;
        let mut area = code::filled(&hook.area, hook.before.is_some());
        let mut before = None;
        if let Some(place) = hook.before.map(|before| bias + before) {
            let short = code::jump_before(site, place)?;
            area.get_mut(..short.len())?.copy_from_slice(&short);
            before = Some((place, code::armed(place, target)?));
        } else {
            let jump = code::jump(&hook.area, site, target)?;
            area.get_mut(..jump.len())?.copy_from_slice(&jump);
        }
        Some(Self { site: (site, area), before, unit: None })
    }

    /// The same of a probe.
    fn of_probe(hook: &Hook, bias: u64, target: u64, unit: Unit) -> Option<Self> {
        let armed = Self::of_stub(hook, bias, target)?;
        Some(Self { unit: Some(unit), ..armed })
    }

    /// The same of a probe whose stub has the moved instructions in it.
    fn of_stub(hook: &Hook, bias: u64, target: u64) -> Option<Self> {
        let site = bias + hook.site;
        let mut area = [0; LONGEST];
        area.get_mut(..code::SITE)?.copy_from_slice(&code::armed(site, target)?);
        Some(Self { site: (site, area), before: None, unit: None })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What a former trace has left, a byte of which is changed, and whether stubs may be written while calls of it return.
    #[test]
    fn stubs_are_written_early_if_calls_always_find_their_way_out() {
        let process = i32::try_from(std::process::id()).unwrap();
        let memory = Memory::open(process).unwrap();
        let mut room = [0; 2 * code::STUB];
        let start = room.as_ptr().expose_provenance() as u64;
        let plain = Routines { exit: start, ..Routines::default() };
        let routines = StubRoutines { bias: 0, plain, with_values: plain, marker: 0, probe: 0 };
        let batch = |start: u64| Batch::new((start, start + 2 * code::STUB as u64));
        let mut writer = StubWriter { routines, stubs: batch(start), moved: batch(start) };
        writer.add_stub([1; code::STUB]).unwrap();
        writer.add_stub([2; code::STUB]).unwrap();
        // Nothing was there before.
        assert!(writer.keeps_ways_out(&memory).unwrap());
        let (first, last) = (code::WAY_OUT.start, code::WAY_OUT.end - 1);
        let rows = [(0, first != 0), (first, false), (last, false)];
        for (at, expected) in rows {
            room.copy_from_slice(&writer.stubs.bytes);
            *room.get_mut(code::STUB + at).unwrap() ^= 1;
            assert_eq!(writer.keeps_ways_out(&memory).unwrap(), expected, "{at}");
        }
    }
}
