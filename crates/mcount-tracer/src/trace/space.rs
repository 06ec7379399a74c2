//! The address space of a traced program: the agent in it, the modules that are loaded, and the sites that are
//! armed.

use super::agent::{Agent, Kind, Symbols};
use super::counters;
use super::file::TraceFile;
use super::markers;
use super::modules::{Hook, Module};
use super::pages::Pages;
use super::processor as code;
use super::recipe::Recipe;
use super::scope::Scope;
use super::stubs::{Batch, StubRoutines, StubWriter};
use crate::trace::desk::Desk;
use crate::trace::waits;
use mcount_agent::{config, flags};
use mcount_cpu::outside::CallSites;
use mcount_hooks::PAGE;
use mcount_hooks::maps;
use mcount_hooks::near::Near;
use mcount_ptrace::{Memory, Tracee};
use nix::libc;
use std::collections::BTreeMap;
use std::io;

/// Bytes that the agent has for the names of the trace.
const NAMES: usize = 8192;

/// Room for code of ours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) struct Room {
    next: u64,
    end: u64,
}

impl Room {
    /// Keeps what lies from `start` on free.
    pub(super) fn limit(&mut self, start: u64) -> Option<()> {
        self.end = self.end.min(start);
        (self.next <= self.end).then_some(())
    }

    /// The first address of what is free, and the one after it.
    pub(super) fn extent(self) -> (u64, u64) {
        (self.next, self.end)
    }

    pub(super) fn take(&mut self, size: u64) -> Option<u64> {
        let at = self.next;
        let next = at.checked_add(size).filter(|next| *next <= self.end)?;
        self.next = next;
        Some(at)
    }
}

/// Where the agent is and what it still has room for.
#[derive(Debug, Clone)]
pub(super) struct Placed {
    /// The difference to the addresses of the agent's symbols.
    pub(super) bias: u64,
    pub(super) stubs: Room,
    /// For the first instructions of functions with probes.
    pub(super) moved: Room,
}

/// The function of the dynamic linker that debuggers are told by, with code in it that stops the thread.
#[derive(Debug, Clone)]
pub(super) struct Rendezvous {
    pub(super) place: u64,
    /// Bytes of code that may be replaced there.
    pub(super) room: usize,
    /// Bytes of it as they were, as many as a breakpoint has.
    pub(super) code: Vec<u8>,
    /// Where a thread stands that it has stopped, and whether by a breakpoint.
    pub(super) stopped: u64,
    pub(super) is_breakpoint: bool,
    /// Its calls, if it has no room for a jump, and room for that elsewhere.
    pub(super) calls: Option<CallSites>,
}

impl Rendezvous {
    /// Has the dynamic linker call `target` instead, where it has no room for a jump.
    fn replace_calls(&self, memory: &Memory, target: u64) -> io::Result<()> {
        let far = || io::Error::other("the agent is too far from the dynamic linker");
        let (Some(ways), Some(calls)) = (code::LINKER_CALLS, &self.calls) else {
            return Err(far());
        };
        let spare = calls.spare.next_multiple_of(8);
        memory.write(spare, &code::thunk(target))?;
        for site in &calls.sites {
            memory.write(*site, &(ways.call)(*site, spare).ok_or_else(far)?)?;
        }
        memory.write(self.place, &self.code)
    }
}

/// What calls of a library function go by (`library.rs`).
#[derive(Debug, Clone, Copy)]
pub(super) struct Gate {
    pub(super) site: u64,
    /// The function's number in the trace.
    pub(super) number: u32,
}

/// The settings of the recording.
#[derive(Clone, Copy)]
pub(super) struct Recording<'t> {
    /// Where to.
    pub(super) trace: &'t TraceFile,
    /// Which calls, and what of them.
    pub(super) scope: &'t Scope,
}

/// One address space; processes that `vfork` or `clone` made may share it.
#[derive(Debug, Clone, Default)]
pub(super) struct Space {
    pub(super) agent: Option<Placed>,
    /// Load bias of each module that was armed, and its index.
    pub(super) loaded: BTreeMap<u64, usize>,
    /// Where the agent asks.
    pub(super) desk: Option<Desk>,
    /// The dynamic linker's rendezvous, until the agent takes its place.
    pub(super) rendezvous: Option<Rendezvous>,
    /// Where `r_debug` is.
    pub(super) debug: Option<u64>,
    /// The change on the stack that loads the agent: address and value to put back.
    pub(super) hidden: Vec<(u64, u64)>,
    pub(super) unwinders: usize,
    /// What calls of library functions go by.
    pub(super) gates: Vec<Gate>,
    /// Room for words with which they go on.
    pub(super) words: Option<Room>,
    /// Where the agent finds what it's to know of functions that tell of their calls themselves, with their numbers; by the load bias of their module.
    pub(super) instrumented: BTreeMap<u64, Vec<(u32, u64)>>,
    /// The agent knows that there are recipes.
    pub(super) has_recipes: bool,
    /// The signals that the program has blocked from the start on, until they're blocked again.
    pub(super) blocked: Option<u64>,
}

impl Rendezvous {
    /// Where there is code of ours.
    pub(super) fn code(&self) -> Vec<std::ops::Range<u64>> {
        /// More than any has.
        const MOST: u64 = 64;
        let spare = self.calls.as_ref().map(|calls| calls.spare);
        [Some(self.place), spare].into_iter().flatten().map(|at| at..at + MOST).collect()
    }
}

impl Space {
    /// Tells the agent at load bias `bias` what it needs to know to begin.
    pub(super) fn place(
        &mut self,
        thread: Tracee,
        memory: &Memory,
        agent: &Agent,
        bias: u64,
        recording: Recording<'_>,
    ) -> io::Result<()> {
        use std::os::unix::ffi::OsStrExt;
        let symbols = &agent.symbols;
        let Recording { trace, .. } = recording;
        let descriptor = trace.descriptor();
        let names = [trace.path(), &descriptor].map(|name| name.as_os_str().as_bytes());
        let names = [names[0], b"\0", names[1], b"\0"].concat();
        if names.len() > NAMES {
            return Err(io::Error::from_raw_os_error(libc::ENAMETOOLONG));
        }
        memory.write(bias + symbols.names, &names)?;
        let length = trace.length_for(thread.id(), 0)?;
        memory.write(bias + symbols.config + config::LENGTH, &length.to_le_bytes())?;
        for (offset, value) in configuration(symbols, bias, recording, false) {
            memory.write(bias + symbols.config + offset, &value.to_le_bytes())?;
        }
        self.desk = Some(Desk { asked: bias + symbols.asked, request: bias + symbols.request });
        let stubs = Room { next: bias + symbols.stubs, end: bias + symbols.stubs_end };
        let moved = Room { next: bias + symbols.moved, end: bias + symbols.moved_end };
        self.agent = Some(Placed { bias, stubs, moved });
        Ok(())
    }

    /// The dynamic linker is to call the agent from now on, and `thread`, which it has stopped, does so at once; `has_left`: it has returned from the
    /// rendezvous already.
    pub(super) fn meet(
        &mut self,
        thread: Tracee,
        memory: &Memory,
        agent: &Agent,
        has_left: bool,
    ) -> io::Result<()> {
        let (Some(Placed { bias, .. }), Some(rendezvous)) = (&self.agent, &self.rendezvous) else {
            return Ok(());
        };
        let target = bias + agent.symbols.rendezvous;
        let jump = code::armed(rendezvous.place, target);
        // Too far away: a jump that has its target after it.
        let absolute = code::thunk(target);
        let jump = jump.as_ref().map_or(absolute.as_slice(), |jump| jump.as_slice());
        if jump.len() <= rendezvous.room {
            memory.write(rendezvous.place, jump)?;
        } else {
            rendezvous.replace_calls(memory, target)?;
        }
        self.rendezvous = None;
        if let Some(blocked) = self.blocked.take() {
            thread.set_blocked(blocked);
        }
        let mut registers = thread.registers()?;
        registers.enter_instead(target, has_left);
        thread.set_registers(&registers)
    }

    /// Lets a new thread find that it has no block yet, and perhaps that it can't have one.
    pub(super) fn begin_thread(
        &self,
        thread: Tracee,
        agent: &Agent,
        is_confined: bool,
    ) -> io::Result<()> {
        let Some(placed) = &self.agent else { return Ok(()) };
        let Symbols { nobody, confined, .. } = agent.symbols;
        let mut registers = thread.registers()?;
        registers.begin_thread(placed.bias + if is_confined { confined } else { nobody });
        thread.set_registers(&registers)
    }

    /// Arms the wanted hooks of `module`, which is loaded with this bias, and makes the others idle.
    /// The threads of the program must not be inside it.
    pub(super) fn arm(
        &mut self,
        thread: Tracee,
        memory: &Memory,
        agent: &Agent,
        (module, kind): (&Module, Kind),
        bias: u64,
    ) -> io::Result<()> {
        let Some(placed) = &mut self.agent else { return Ok(()) };
        if module.hooks.iter().all(|hook| hook.is_instrumented) {
            return Ok(());
        }
        let extent = (bias + module.extent.0, bias + module.extent.1);
        let reach = module.reach();
        let is_near = reaches(extent, (placed.stubs.next, placed.stubs.end), reach);
        let mut thunks = None;
        if !is_near {
            let size = module.near();
            let far = || io::Error::other("it's too far from the agent");
            let wanted = NearRoom { extent, size, reach, protection: CODE };
            thunks = Some(wanted.map(thread, memory, self.desk.ok_or_else(far)?)?);
        }
        let with_values = agent.symbols.routines_with_values(kind);
        let recipes = placed.bias + agent.symbols.stubs_end;
        if !self.has_recipes && module.hooks.iter().any(|hook| hook.recipe.is_some()) {
            let at = placed.bias + agent.symbols.config + config::FLAGS;
            memory.write(at, &(memory.word(at)? | flags::VALUES).to_le_bytes())?;
            self.has_recipes = true;
        }
        let last = module.hooks.last().map_or(0, |hook| hook.id);
        if self.has_recipes && placed.stubs.limit(recipes - 8 * u64::from(last)).is_none() {
            return Err(io::Error::other("no room for more stubs"));
        }
        let routines = StubRoutines {
            bias: placed.bias,
            plain: agent.symbols.routines(kind),
            with_values,
            marker: agent.symbols.marker,
            probe: agent.symbols.probe_entry,
        };
        let stubs = StubWriter {
            routines,
            stubs: Batch::new(placed.stubs.extent()),
            moved: Batch::new(placed.moved.extent()),
        };
        let thunks = thunks.map(|room| Batch::new(room.extent()));
        let (pages, semaphores) = (Pages::default(), Vec::new());
        let mut writer = Writer { memory, stubs, recipes, bias, thunks, pages, semaphores };
        for hook in &module.hooks {
            writer.hook(hook)?;
        }
        placed.stubs.next = writer.stubs.stubs.next();
        placed.moved.next = writer.stubs.moved.next();
        writer.write()
    }
}

/// Writes what arms the hooks of one module.
struct Writer<'s> {
    memory: &'s Memory,
    stubs: StubWriter,
    /// The end of the table of recipes.
    recipes: u64,
    bias: u64,
    /// Room near the module, if the stubs are out of its reach.
    thunks: Option<Batch>,
    pages: Pages,
    /// Those of markers that are armed.
    semaphores: Vec<u64>,
}

impl Writer<'_> {
    fn hook(&mut self, hook: &Hook) -> io::Result<()> {
        let length = hook.area.length;
        let is_idle = hook.probe.is_some() || hook.is_sled;
        if hook.is_instrumented || is_idle && !hook.is_wanted {
            return Ok(());
        }
        if !hook.is_wanted {
            let idle = hook.area.idle();
            let bytes = idle.get(..length).unwrap_or(&idle);
            return self.pages.patch(self.memory, self.bias + hook.site, bytes);
        }
        let no_room = || io::Error::other("no room for more stubs");
        if let Some(recipe) = &hook.recipe {
            self.recipe(hook.id, recipe).ok_or_else(no_room)?;
        }
        let armed = match self.stubs.arm(hook, self.bias, self.thunks.as_mut()) {
            Some(armed) => armed,
            // It would be too far from what its instructions refer to.
            None if hook.probe.is_some() => return Ok(()),
            None => return Err(no_room()),
        };
        if let Some((before, jump)) = &armed.before {
            self.pages.patch(self.memory, *before, jump)?;
        }
        self.semaphores.extend(hook.semaphore().map(|semaphore| self.bias + semaphore));
        let (site, area) = &armed.site;
        self.pages.patch(self.memory, *site, area.get(..length).unwrap_or(area))
    }

    /// Puts a recipe in the place of stubs, and its address into the table.
    fn recipe(&mut self, id: u32, recipe: &Recipe) -> Option<()> {
        let mut bytes = recipe.bytes();
        bytes.resize(bytes.len().next_multiple_of(code::STUB), 0);
        let at = self.stubs.stubs.add(&bytes)?;
        self.memory.write(self.recipes - 8 * u64::from(id), &at.to_le_bytes()).ok()
    }

    /// Stubs first: as soon as a site is armed, they're needed.
    fn write(&self) -> io::Result<()> {
        self.stubs.write(self.memory)?;
        self.thunks.iter().try_for_each(|thunks| thunks.write(self.memory))?;
        self.pages.write(self.memory)?;
        self.semaphores.iter().try_for_each(|one| markers::count(self.memory, *one, true))
    }
}

/// Fields of the configuration of the agent at load bias `bias`, which say what is recorded.
pub(super) fn configuration(
    symbols: &Symbols,
    bias: u64,
    Recording { trace, scope }: Recording<'_>,
    is_attached: bool,
) -> Vec<(u64, u64)> {
    let attached = if is_attached { flags::ATTACHED } else { 0 };
    let in_memory = if trace.is_prepared_in_memory() { flags::IN_MEMORY } else { 0 };
    let counters = counters::configured(&scope.counters).into_iter().zip(0..);
    let counters = counters.flat_map(|(counter, place)| {
        let at = config::COUNTERS + 16 * place;
        [(at, counter.kind), (at + 8, counter.config)]
    });
    let fields = [
        (config::FLAGS, scope.flags() | code::flags() | attached | in_memory),
        (config::SHORTEST, trace.ticks_in(scope.min_duration)),
        (config::SHORTEST_WAIT, trace.ticks_in(scope.min_duration.max(waits::SHORTEST))),
        (config::PG_EXIT, bias + symbols.routines(scope.kind()).exit),
        (config::BUDGET, scope.budget()),
        (config::DEPTH, scope.depth),
        (config::PAUSED, u64::from(scope.is_paused())),
    ];
    fields.into_iter().chain(counters).collect()
}

/// Can code in one of these ranges jump to any place in the other, by a jump that goes so far?
pub(super) fn reaches(one: (u64, u64), other: (u64, u64), reach: u64) -> bool {
    let (low, high) = (one.0.min(other.0), one.1.max(other.1));
    high - low <= reach
}

/// The arguments of `mmap` for private memory.
pub(super) fn mapping(address: u64, size: u64, protection: i32, flags: i32) -> [u64; 6] {
    let flags = flags | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let number = |value: i32| u64::from(value.cast_unsigned());
    [address, size, number(protection), number(flags), u64::MAX, 0]
}

/// Memory to be mapped that code reaches.
#[derive(Debug, Clone, Copy)]
pub(super) struct NearRoom {
    /// First address of the code, and the one behind its last.
    pub(super) extent: (u64, u64),
    /// Bytes.
    pub(super) size: u64,
    /// How far its jumps go.
    pub(super) reach: u64,
    /// `PROT_…`.
    pub(super) protection: i32,
}

/// The protection of code.
pub(super) const CODE: i32 = libc::PROT_READ | libc::PROT_EXEC;

impl NearRoom {
    /// Maps it.
    pub(super) fn map(self, thread: Tracee, memory: &Memory, desk: Desk) -> io::Result<Room> {
        let Self { extent, size, reach, protection } = self;
        let maps = maps::ranges(&maps::read(thread.id())?);
        for start in gaps(&maps, extent, size, reach) {
            let arguments = mapping(start, size, protection, libc::MAP_FIXED_NOREPLACE);
            match desk.call(thread, memory, libc::SYS_mmap, arguments) {
                Ok(found) if found == start => return Ok(Room { next: start, end: start + size }),
                _ => {}
            }
        }
        Err(io::Error::other(format!("no free memory within {} MiB", (reach >> 20) + 1)))
    }
}

/// Places for `size` bytes near `extent` that aren't in one of `maps`, the best first.
pub(super) fn gaps(
    maps: &[(u64, u64)],
    extent: (u64, u64),
    size: u64,
    reach: u64,
) -> impl Iterator<Item = u64> + use<> {
    Near { extent, sites: extent, size, reach, page: PAGE }.places(maps)
}
