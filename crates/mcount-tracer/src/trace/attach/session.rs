//! Attaching to one process, and leaving it: the order in which everything is done.
//!
//! Threads stop for two moments. In the first, the agent is mapped, or found as a former recorder left it; it changes
//! nothing in the program. In the second, the trace is handed over and all hooks are armed. Both are as short as can be:
//! all that can be found out and made ready is, before.

use super::block::{Block, is_jumps, is_ours};
use super::maps::{self, Mapping};
use super::program::{Loaded, Program};
use super::puns::Puns;
use super::sites::{self, Change, Prepared, Stubs};
use super::survey::{Claim, NO_ROOM, is_free, is_inside, make_room, uses_block};
use super::words::{self, Gated, GatedWord};
use crate::trace::image::Image;
use crate::trace::modules::Hook;
use crate::trace::scope::Scope;
use crate::trace::space::{Recording, configuration, reaches};
use crate::trace::stubs::{Batch, StubRoutines};
use mcount_agent::{config, flags};
use mcount_ptrace::resume::{self, ResumePoint};
use mcount_ptrace::{Memory, Remote, Standing, Target, to_result};
use nix::libc;
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::io;
use std::time::Duration;

/// How often it's looked whether all threads are out of the agent, and how long in between.
const TRIES: u32 = 1000;
const BETWEEN: Duration = Duration::from_millis(1);

/// A process with the agent in it.
pub(super) struct Session {
    pub(super) process: i32,
    pub(super) memory: Memory,
    pub(super) image: Image,
    pub(super) block: Block,
    /// The armed hooks.
    pub(super) changes: Vec<Change>,
    /// Words by which library functions are called that lead to gates.
    words: Vec<GatedWord>,
    /// Where the agent finds what it's to know of functions that tell of their calls themselves, with their numbers.
    pub(super) instrumented: Vec<(u32, u64)>,
    /// Where the jumps of sites lead to.
    pub(super) rooms: Vec<(u64, u64)>,
    /// Probes whose functions are as they were while they're idle.
    pub(super) puns: Puns,
    /// Rooms for thunks, by the place of the module in the list.
    near: HashMap<usize, u64>,
    /// How long all threads were stopped, the longest time.
    pub(super) stood: Duration,
    /// No thread is in the agent, and none can get there: nothing leads there.
    is_unused: bool,
    /// A recorder was killed that had this process.
    was_left: bool,
    /// From [`Session::prepare`] on, until it's armed.
    claim: Option<Claim>,
}

/// Where each of some threads goes on.
type Places = Vec<Vec<ResumePoint>>;

/// What is to be written while all threads stand.
pub(super) struct Plan {
    /// Ascending.
    pub(super) changes: Vec<Change>,
    thunks: Vec<Batch>,
    pub(super) stubs: Stubs,
    /// By the place of the module in the list.
    pub(super) words: Vec<(usize, Vec<GatedWord>)>,
    /// What the agent is to know of functions that tell of their calls themselves, by the addresses that they tell.
    pub(super) instrumented: BTreeMap<u64, u32>,
}

/// The same, with all done that needn't wait until threads stand.
struct Ready {
    plan: Plan,
    /// The code of the program, if nothing was armed in it before.
    prepared: Option<Prepared>,
    /// Stubs, and the ways there, are written.
    is_written: bool,
}

impl Session {
    /// Puts the agent into the process of `program`, or finds it there, and makes room near modules that are out of its
    /// reach. Nothing is armed yet, but it's the process of `owner` from now on.
    pub(super) fn prepare(
        program: &Program,
        memory: Memory,
        owner: (u64, u64),
    ) -> io::Result<Self> {
        let image = Image::new()?;
        let process = program.process;
        let mut standing = Standing::of(process)?;
        let maps = maps::read(process)?;
        let found = Block::find(&image, &memory, &maps);
        if let Some(block) = &found {
            is_free(block, &memory, process)?;
        } else if standing.threads.iter().any(|thread| uses_block(thread, &maps)) {
            let why = if maps.iter().any(is_ours) {
                "it has the agent of another version of mcount, or a changed one; restart the process"
            } else {
                "it uses %gs itself, which tracing needs"
            };
            return Err(io::Error::other(why));
        }
        let (is_unused, was_left) = match &found {
            None => (true, false),
            Some(block) => {
                let rooms = sites::rooms(&maps, &image, block.bias);
                let places = resume::places(&standing, &memory, &maps);
                let is_there = is_inside(&places, &rooms, block.code(&image));
                let was_left = block.owner(&memory)?.0 != 0;
                (!was_left && !is_there, was_left)
            }
        };
        let thread = standing.threads.first_mut().ok_or(io::ErrorKind::NotFound)?;
        let mut remote = match &found {
            Some(block) => block.remote(&image, thread, &memory)?,
            None => Remote::first(thread, &memory, &maps)?,
        };
        let block = if let Some(block) = found {
            block
        } else {
            let extent = program.extent();
            Block::inject(&image, &mut remote, Target { process, memory: &memory }, &maps, extent)?
        };
        let claim = Claim::new(block, process, owner)?;
        let begin = block.bias + image.symbols.begin;
        to_result(remote.function(begin, [0, 0], block.end(&image))?)?;
        // The agent has mapped more.
        let maps = maps::read(process)?;
        let near = make_room(program, (&image, &block), &mut remote, (&memory, &maps))?;
        drop(remote);
        let stood = standing.since.elapsed();
        drop(standing);
        let claim = Some(claim);
        let session = Self::of(process, memory, image, block);
        Ok(Self { near, stood, is_unused, was_left, claim, ..session })
    }

    /// Nothing is known yet of what has been changed in a process that has the agent.
    fn of(process: i32, memory: Memory, image: Image, block: Block) -> Self {
        let (changes, words, instrumented, rooms) = Default::default();
        Self {
            process,
            memory,
            image,
            block,
            changes,
            words,
            instrumented,
            rooms,
            puns: Puns::default(),
            near: HashMap::new(),
            stood: Duration::ZERO,
            is_unused: false,
            was_left: false,
            claim: None,
        }
    }

    /// The agent in `process`, if it's there.
    pub(super) fn find(process: i32, memory: Memory) -> io::Result<Option<Self>> {
        let image = Image::new()?;
        let maps = maps::read(process)?;
        let block = Block::find(&image, &memory, &maps);
        Ok(block.map(|block| Self::of(process, memory, image, block)))
    }

    /// Takes all hooks for armed, as their states are unknown.
    pub(super) fn take_over(&mut self, program: &Program, scope: &Scope) -> io::Result<()> {
        let maps = maps::read(self.process)?;
        self.rooms = sites::rooms(&maps, &self.image, self.block.bias);
        let plan = self.plan(program, scope, true)?;
        self.changes = plan.changes;
        let (words, changes) = self.left_behind(program, &maps);
        self.words = words;
        self.changes.extend(changes);
        self.changes.sort_unstable_by_key(|change| change.at);
        // Nobody knows which functions have probes.
        let mut probes = Vec::new();
        for one in program.loaded.iter().filter(|one| one.is_in(&maps)) {
            probes.extend(one.left_armed(program.module(one), &self.memory, &self.rooms)?);
        }
        probes.retain(|probe| {
            let after = self.changes.partition_point(|change| change.at <= probe.at);
            let before = after.checked_sub(1).and_then(|at| self.changes.get(at));
            before.is_none_or(|change| change.end() <= probe.at)
        });
        self.changes.extend(probes);
        self.changes.sort_unstable_by_key(|change| change.at);
        Ok(())
    }

    /// Words and calls that a recorder has left leading to gates.
    fn left_behind(&self, program: &Program, maps: &[Mapping]) -> (Vec<GatedWord>, Vec<Change>) {
        let places = self.block.extent_of_words(&self.image);
        let there = program.loaded.iter().filter(|one| one.is_in(maps));
        let all = there.filter_map(|one| {
            let of = one.owner(program.module(one)?);
            Some(words::left_behind(&of, &self.memory, places, &self.rooms))
        });
        let (mut words, mut changes) = (Vec::new(), Vec::new());
        for gated in all.flatten() {
            words.extend(gated.word);
            changes.extend(gated.changes);
        }
        changes.sort_unstable_by_key(|change: &Change| change.at);
        (words, changes)
    }

    /// What is to be written for the hooks that are wanted, or for all of them.
    pub(super) fn plan(&self, program: &Program, scope: &Scope, all: bool) -> io::Result<Plan> {
        let (symbols, kind) = (&self.image.symbols, scope.kind());
        let routines = StubRoutines {
            bias: self.block.bias,
            plain: symbols.routines(kind),
            with_values: symbols.routines_with_values(kind),
            marker: symbols.marker,
            probe: symbols.probe_entry,
        };
        let stubs =
            Stubs::new((self.block.stubs(&self.image), self.block.moved(&self.image)), routines);
        let (changes, thunks, words, instrumented) = Default::default();
        let mut plan = Plan { changes, thunks, stubs, words, instrumented };
        for (place, one) in program.loaded.iter().enumerate() {
            let Some(module) = program.module(one) else { continue };
            let start = self.near.get(&place).copied();
            let mut near = start.map(|start| Batch::new((start, start + Loaded::thunks(module))));
            // What is only to be found armed needn't be reached.
            if near.is_none()
                && !reaches(one.extent(module), self.block.stubs(&self.image), module.reach())
            {
                let has_site = |hook: &Hook| hook.is_wanted && !hook.is_instrumented;
                if !all && module.hooks.iter().any(has_site) {
                    return Err(io::Error::other(NO_ROOM));
                }
                if !all {
                    continue;
                }
                near = Some(Batch::new((one.extent(module).0, u64::MAX)));
            }
            plan.changes.extend(one.plan(module, all, &mut plan.stubs, near.as_mut())?);
            plan.thunks.extend(near);
        }
        if !all {
            self.plan_library(program, scope, &mut plan)?;
        }
        // Those of a module are ascending, and so are modules: there's little to do.
        plan.changes.sort_by_key(|change| change.at);
        Ok(plan)
    }

    /// Adds the gates of library functions. Where one can't be made, calls aren't recorded.
    fn plan_library(&self, program: &Program, scope: &Scope, plan: &mut Plan) -> io::Result<()> {
        let (symbols, kind, bias) = (&self.image.symbols, scope.kind(), self.block.bias);
        let routines = [symbols.routines(kind), symbols.routines_of_waits(kind)]
            .map(|routines| routines.at(bias));
        let values_entry = bias + symbols.routines_with_values(kind).entry;
        let mut free = self.block.words(&self.image, &self.memory)?.into_iter();
        for (place, planned) in &program.imports {
            let Some(one) = program.loaded.get(*place) else { continue };
            let Some(module) = program.module(one) else { continue };
            let of = one.owner(module);
            let mut words = Vec::new();
            for import in &planned.plans {
                let Some(by) = free.next() else { break };
                let routines = if import.may_wait() { routines[1] } else { routines[0] };
                let routines = plan.stubs.routines_of(import, routines, values_entry);
                let writer = &mut plan.stubs.writer;
                if let Some(gated) = Gated::plan(&of, import, writer, (routines, by)) {
                    words.extend(gated.word);
                    plan.changes.extend(gated.changes);
                }
            }
            plan.words.push((*place, words));
        }
        self.plan_instrumented(program, plan, free);
        Ok(())
    }

    /// Hands the trace over and arms what is planned. How many hooks couldn't be, because they aren't as in their file.
    pub(super) fn arm(
        &mut self,
        program: &Program,
        plan: Plan,
        recording: Recording<'_>,
    ) -> io::Result<usize> {
        let ready = self.make_ready(program, plan)?;
        let (mut standing, maps, places) = self.stand_outside()?;
        self.rooms = sites::rooms(&maps, &self.image, self.block.bias);
        if self.was_left {
            self.clean_up(program, recording.scope, &maps)?;
        }
        let thread = standing.threads.first_mut().ok_or(io::ErrorKind::NotFound)?;
        let mut remote = self.block.remote(&self.image, thread, &self.memory)?;
        self.hand_over(&mut remote, recording)?;
        drop(remote);
        // Whoever finds it armed has to put it back.
        self.claim.take().map_or(Ok(()), Claim::keep)?;
        if !ready.is_written {
            self.write_code(&ready.plan)?;
        }
        let is_whole = !program.is_gone(&maps);
        self.follow_plan(program, ready.plan, &maps)?;
        self.move_out(&mut standing, &places, true)?;
        self.set_nobody(&mut standing);
        standing.settle()?;
        let foreign = self.arm_all(ready.prepared.filter(|_| is_whole))?;
        self.let_go(standing);
        Ok(foreign)
    }

    /// Does what can be done while threads run, if nothing leads to the agent.
    fn make_ready(&mut self, program: &Program, mut plan: Plan) -> io::Result<Ready> {
        if !std::mem::take(&mut self.is_unused) {
            return Ok(Ready { plan, prepared: None, is_written: false });
        }
        let maps = maps::read(self.process)?;
        program.forget_gone(&maps, &mut plan.changes);
        let rooms = sites::rooms(&maps, &self.image, self.block.bias);
        // Calls of former traces may return to stubs meanwhile.
        if !plan.stubs.writer.keeps_ways_out(&self.memory)? {
            return Ok(Ready { plan, prepared: None, is_written: false });
        }
        // Gates are among what is prepared.
        self.write_code(&plan)?;
        let prepared = Prepared::new(&self.memory, &mut plan.changes, &rooms)?;
        Ok(Ready { plan, prepared: Some(prepared), is_written: true })
    }

    /// Arms what is planned instead of what is armed. How many hooks couldn't be.
    pub(super) fn change(&mut self, program: &Program, plan: Plan) -> io::Result<usize> {
        let (mut standing, maps, places) = self.stand_outside()?;
        self.move_out(&mut standing, &places, false)?;
        standing.settle()?;
        self.restore()?;
        self.write_code(&plan)?;
        self.follow_plan(program, plan, &maps)?;
        self.move_out(&mut standing, &places, true)?;
        standing.settle()?;
        let foreign = self.arm_all(None)?;
        self.let_go(standing);
        Ok(foreign)
    }

    /// Arms what is on the lists; what can't be armed is taken off. How many hooks these were.
    fn arm_all(&mut self, prepared: Option<Prepared>) -> io::Result<usize> {
        let mut foreign = prepared.as_ref().map_or(0, |prepared| prepared.foreign);
        match prepared {
            Some(prepared) if prepared.holds(&self.memory)? => prepared.write(&self.memory)?,
            _ => foreign += sites::arm(&self.memory, &mut self.changes, &self.rooms)?,
        }
        let mut armed = Vec::with_capacity(self.words.len());
        for word in std::mem::take(&mut self.words) {
            if word.arm(&self.memory)? {
                armed.push(word);
            }
        }
        self.words = armed;
        Ok(foreign)
    }

    /// Puts back all that was changed.
    fn restore(&self) -> io::Result<()> {
        words::restore(&self.words, &self.memory);
        sites::restore(&self.memory, &self.puns.changes(), &self.rooms)?;
        sites::restore(&self.memory, &self.changes, &self.rooms).map(|_| ())
    }

    /// Writes the recipes that are planned. What is to be armed is what's planned and still there.
    fn follow_plan(&mut self, program: &Program, plan: Plan, maps: &[Mapping]) -> io::Result<()> {
        let at = self.block.bias + self.image.symbols.config + config::FLAGS;
        let mut known = self.memory.word(at)? & !flags::VALUES;
        if plan.stubs.has_recipes() {
            let no_room = || io::Error::other("no room for recipes");
            let (at, bytes) = plan.stubs.recipes().ok_or_else(no_room)?;
            self.memory.write(at, &bytes)?;
            known |= flags::VALUES;
        }
        self.memory.write(at, &known.to_le_bytes())?;
        self.tell_of_instrumented(&plan)?;
        let there = |place: &usize| program.loaded.get(*place).is_some_and(|one| one.is_in(maps));
        self.changes = plan.changes;
        program.forget_gone(maps, &mut self.changes);
        let words = plan.words.into_iter().filter(|(place, _)| there(place));
        self.words = words.flat_map(|(_, words)| words).collect();
        self.block.use_words(&self.memory, self.words.len() as u64)?;
        Ok(())
    }

    /// Writes the stubs that are planned, and the way there.
    fn write_code(&self, plan: &Plan) -> io::Result<()> {
        plan.stubs.writer.write(&self.memory)?;
        plan.thunks.iter().try_for_each(|thunks| thunks.write(&self.memory))
    }

    pub(super) fn let_go(&mut self, standing: Standing) {
        let since = standing.since;
        drop(standing);
        self.stood = self.stood.max(since.elapsed());
    }

    /// Maps the trace, and tells the agent what to record.
    fn hand_over(&self, remote: &mut Remote<'_>, recording: Recording<'_>) -> io::Result<()> {
        let bias = self.block.bias;
        if self.memory.word(bias + self.image.symbols.config + config::FILE)? != 0 {
            // The last recorder was killed.
            let leave = bias + self.image.symbols.leave;
            remote.function(leave, [0, 0], self.block.end(&self.image))?;
        }
        let target = Target { process: self.process, memory: &self.memory };
        let file = self.block.hand_over(remote, target, recording.trace.file())?;
        let number = |value: i32| u64::from(value.cast_unsigned());
        let protection = number(libc::PROT_READ | libc::PROT_WRITE);
        let flags = number(libc::MAP_SHARED | libc::MAP_NORESERVE);
        let length = recording.trace.length_for(self.process, 0)?;
        let mapped = remote.call(libc::SYS_mmap, &[0, length, protection, flags, file, 0]);
        remote.call(libc::SYS_close, &[file])?;
        let fields = configuration(&self.image.symbols, bias, recording, true);
        for (offset, value) in fields {
            self.memory.write(bias + self.image.symbols.config + offset, &value.to_le_bytes())?;
        }
        for (offset, value) in [(config::LENGTH, length), (config::FILE, mapped?)] {
            self.memory.write(bias + self.image.symbols.config + offset, &value.to_le_bytes())?;
        }
        Ok(())
    }

    /// Tells the agent which unwinders there are.
    pub(super) fn set_unwinders(&self, program: &Program) -> io::Result<()> {
        let mut words = Vec::new();
        for one in &program.loaded {
            let Some(module) = program.module(one) else { continue };
            let Some(unwinder) = module.unwinder else { continue };
            let (low, high) = one.extent(module);
            words.extend([low, high]);
            words.extend(unwinder.map(|address| one.bias.wrapping_add(address)));
        }
        words.resize(6 * config::UNWINDERS_COUNT, 0);
        let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        let at = self.block.bias + self.image.symbols.config + config::UNWINDERS;
        self.memory.write(at, &bytes)
    }

    /// A former recorder was killed: what it has left armed, and isn't wanted now, becomes idle.
    fn clean_up(&self, program: &Program, scope: &Scope, maps: &[Mapping]) -> io::Result<usize> {
        let (words, changes) = self.left_behind(program, maps);
        words::restore(&words, &self.memory);
        let mut count = sites::restore(&self.memory, &changes, &self.rooms)?;
        let mut changes = self.plan(program, scope, true)?.changes;
        program.forget_gone(maps, &mut changes);
        count += sites::restore(&self.memory, &changes, &self.rooms)?;
        for one in program.loaded.iter().filter(|one| one.is_in(maps)) {
            let changes = one.left_armed(program.module(one), &self.memory, &self.rooms)?;
            count += sites::restore(&self.memory, &changes, &self.rooms)?;
        }
        Ok(count)
    }

    /// Stops all threads at a moment when none is in the agent.
    fn stand_outside(&self) -> io::Result<(Standing, Vec<Mapping>, Places)> {
        for _ in 0..TRIES {
            let standing = Standing::of(self.process)?;
            let maps = maps::read(self.process)?;
            let places = self.places(&standing, &maps);
            if self.nobody_inside(&places, &maps) {
                return Ok((standing, maps, places));
            }
            drop(standing);
            std::thread::sleep(BETWEEN);
        }
        Err(io::Error::other("a thread stays in the code of an earlier trace"))
    }

    /// Where each thread goes on, now and when its signal handlers return.
    fn places(&self, standing: &Standing, maps: &[Mapping]) -> Places {
        resume::places(standing, &self.memory, maps)
    }

    /// Is no thread in the agent, or in what leads there?
    fn nobody_inside(&self, places: &[Vec<ResumePoint>], maps: &[Mapping]) -> bool {
        let rooms = sites::rooms(maps, &self.image, self.block.bias);
        !is_inside(places, &rooms, self.block.code(&self.image))
    }

    /// Makes hooks of these functions idle while all threads run.
    pub(super) fn switch_off(&self, functions: &BTreeSet<u32>) -> io::Result<()> {
        let is_one = |change: &&Change| functions.contains(&change.function);
        self.switch_instrumented(false, |number| functions.contains(&number))?;
        sites::switch(&self.memory, self.changes.iter().filter(is_one), false)
    }

    /// Switches all hooks on or off while all threads run, but for those of functions that were given up.
    pub(super) fn switch(&self, on: bool, given_up: &BTreeSet<u32>) -> io::Result<()> {
        let is_one =
            |change: &&Change| change.function != 0 && !given_up.contains(&change.function);
        self.switch_instrumented(on, |number| !given_up.contains(&number))?;
        self.puns.switch(&self.memory, on, |number| !given_up.contains(&number))?;
        let changes = self.changes.iter().filter(is_one);
        sites::switch(&self.memory, changes, on)
    }

    /// Lets all threads that have none yet find that they have no block.
    fn set_nobody(&self, standing: &mut Standing) {
        let nobody = self.block.bias + self.image.symbols.nobody;
        for thread in &mut standing.threads {
            let Some(gs) = thread.registers.block() else { continue };
            // A block begins at where its eighth word says.
            let is_block =
                gs != 0 && self.memory.word(gs.wrapping_add(56)).is_ok_and(|this| this == gs);
            if gs != nobody && !is_block {
                thread.change().begin_thread(nobody);
            }
        }
    }

    /// Moves threads that are in the middle of what's about to be changed after it.
    fn move_out(
        &self,
        standing: &mut Standing,
        places: &[Vec<ResumePoint>],
        is_to_be_armed: bool,
    ) -> io::Result<()> {
        for (thread, places) in standing.threads.iter_mut().zip(places) {
            for place in places {
                let after = self.changes.partition_point(|change| change.at < place.address);
                let change = after.checked_sub(1).and_then(|index| self.changes.get(index));
                let Some(change) = change.filter(|change| place.address < change.end()) else {
                    continue;
                };
                let Some(way_out) = change.way_out(place.address, is_to_be_armed) else { continue };
                match place.frame {
                    Some(frame) => self.memory.write(frame, &way_out.to_le_bytes())?,
                    None => thread.change().set_instruction(way_out),
                }
            }
        }
        Ok(())
    }

    /// Makes all hooks idle again and takes the trace away. `false` if a thread stays inside the agent, so that the trace
    /// is still mapped.
    pub(super) fn leave(&mut self) -> io::Result<bool> {
        let mut is_armed = true;
        for _ in 0..TRIES {
            let mut standing = Standing::of(self.process)?;
            let maps = maps::read(self.process)?;
            let places = self.places(&standing, &maps);
            if is_armed {
                // What's after a jump in the armed area may be the middle of an instruction in the idle one.
                self.move_out(&mut standing, &places, false)?;
                standing.settle()?;
                self.restore()?;
                is_armed = false;
            }
            if self.nobody_inside(&places, &maps) {
                let thread = standing.threads.first_mut().ok_or(io::ErrorKind::NotFound)?;
                let mut remote = self.block.remote(&self.image, thread, &self.memory)?;
                let leave = self.block.bias + self.image.symbols.leave;
                to_result(remote.function(leave, [0, 0], self.block.end(&self.image))?)?;
                for map in maps.iter().filter(|map| is_jumps(map)) {
                    remote.call(libc::SYS_munmap, &[map.start, map.end - map.start])?;
                }
                drop(remote);
                self.claim.take().map_or(Ok(()), Claim::keep)?;
                self.block.set_owner(&self.memory, (0, 0))?;
                self.let_go(standing);
                return Ok(true);
            }
            self.let_go(standing);
            std::thread::sleep(BETWEEN);
        }
        Ok(false)
    }

    /// A process that this one has made by `fork` while its hooks were armed; `None` if it is no longer there.
    pub(super) fn forked(&self, process: i32) -> io::Result<Option<Self>> {
        let found = Memory::open(process).and_then(|memory| Self::find(process, memory));
        let found = match found {
            Err(error) if super::has_ended(process, &error) => return Ok(None),
            found => found?,
        };
        let is_alike = |found: &Self| found.block.bias == self.block.bias;
        Ok(found.filter(is_alike).map(|found| Self {
            changes: self.changes.clone(),
            words: self.words.clone(),
            instrumented: self.instrumented.clone(),
            rooms: self.rooms.clone(),
            puns: self.puns.clone(),
            ..found
        }))
    }

    /// Is it the same program still?
    pub(super) fn is_there(&self) -> bool {
        self.memory.word(self.block.bias).is_ok()
    }
}
