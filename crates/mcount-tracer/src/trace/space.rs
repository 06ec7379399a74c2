//! The address space of a traced program: the agent in it, the modules that are loaded, and the sites that are
//! armed.

use super::agent::{Agent, Kind, Routines, Symbols};
use super::file::TraceFile;
use super::modules::{Hook, Module};
use super::processor::{self as code, REACH};
use super::recipe::Recipe;
use super::scope::Scope;
use crate::trace::desk::Desk;
use mcount_agent::{config, flags};
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
    fn limit(&mut self, start: u64) -> Option<()> {
        self.end = self.end.min(start);
        (self.next <= self.end).then_some(())
    }

    /// The first address of what is free, and the one behind it.
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
    /// What the agent's symbols are to be added to.
    pub(super) bias: u64,
    pub(super) stubs: Room,
}

/// The function of the dynamic linker that debuggers are told by, with code in it that stops the thread.
#[derive(Debug, Clone, Copy)]
pub(super) struct Rendezvous {
    pub(super) place: u64,
    /// Bytes of code that may be replaced there.
    pub(super) room: usize,
    /// Where a thread stands that it has stopped, and whether by a breakpoint.
    pub(super) stopped: u64,
    pub(super) is_breakpoint: bool,
}

/// What calls of a library function go by (`library.rs`).
#[derive(Debug, Clone, Copy)]
pub(super) struct Gate {
    pub(super) site: u64,
    /// The function's number in the trace.
    pub(super) number: u32,
}

/// What is recorded.
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
    /// What was changed on the stack to have the agent loaded: address and value to put back.
    pub(super) hidden: Vec<(u64, u64)>,
    pub(super) unwinders: usize,
    /// What calls of library functions go by.
    pub(super) gates: Vec<Gate>,
    /// Room for words by which they go on.
    pub(super) words: Option<Room>,
    /// The agent knows that there are recipes.
    pub(super) has_recipes: bool,
    /// The signals that the program has blocked from the start on, until they're blocked again.
    pub(super) blocked: Option<u64>,
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
        let length = trace.length_for(thread.id())?;
        memory.write(bias + symbols.config + config::LENGTH, &length.to_le_bytes())?;
        for (offset, value) in configuration(symbols, bias, recording, false) {
            memory.write(bias + symbols.config + offset, &value.to_le_bytes())?;
        }
        self.desk = Some(Desk { asked: bias + symbols.asked, request: bias + symbols.request });
        let stubs = Room { next: bias + symbols.stubs, end: bias + symbols.stubs_end };
        self.agent = Some(Placed { bias, stubs });
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
        // Too far away: a jump that has its target behind it.
        let absolute = code::thunk(target);
        let jump = jump.as_ref().map_or(absolute.as_slice(), |jump| jump.as_slice());
        if jump.len() <= rendezvous.room {
            memory.write(rendezvous.place, jump)?;
        } else {
            return Err(io::Error::other("the agent is too far from the dynamic linker"));
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
        let extent = (bias + module.extent.0, bias + module.extent.1);
        let is_near = reaches(extent, (placed.stubs.next, placed.stubs.end));
        let mut thunks = None;
        if !is_near {
            let size = (module.hooks.len() as u64 * code::NEAR as u64).next_multiple_of(PAGE);
            let far = || io::Error::other("it's too far from the agent");
            let extent = (extent, libc::PROT_READ | libc::PROT_EXEC);
            thunks = Some(near(thread, memory, self.desk.ok_or_else(far)?, extent, size)?);
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
        let routines = (agent.symbols.routines(kind), with_values);
        let pages = Pages::default();
        let mut writer = Writer { memory, placed, routines, recipes, bias, thunks, pages };
        let mut stubs = Batch::default();
        let mut near_thunks = Batch::default();
        for hook in &module.hooks {
            writer.hook(hook, &mut stubs, &mut near_thunks)?;
        }
        stubs.write(memory)?;
        near_thunks.write(memory)?;
        writer.pages.write(memory)
    }
}

/// Writes what arms the hooks of one module.
struct Writer<'s> {
    memory: &'s Memory,
    placed: &'s mut Placed,
    /// What stubs call, and what those of functions with recipes call.
    routines: (Routines, Routines),
    /// The end of the table of recipes.
    recipes: u64,
    bias: u64,
    /// Room near the module, if the stubs are out of its reach.
    thunks: Option<Room>,
    pages: Pages,
}

impl Writer<'_> {
    fn hook(&mut self, hook: &Hook, stubs: &mut Batch, near: &mut Batch) -> io::Result<()> {
        let site = self.bias + hook.site;
        let idle = if hook.before.is_some() && hook.is_wanted {
            code::filled(&hook.area, true)
        } else {
            hook.area.idle()
        };
        let mut bytes = idle.get(..hook.area.length).unwrap_or(&idle).to_vec();
        if hook.is_wanted {
            let no_room = || io::Error::other("no room for more stubs");
            let before = hook.before.map(|before| self.bias + before);
            let jump = self.stub(hook, site, stubs, near).ok_or_else(no_room)?;
            let short = before.and_then(|before| code::jump_before(site, before));
            if let Some(before) = before {
                self.pages.patch(self.memory, before, &jump)?;
            }
            let jump = short.as_ref().map_or(jump.as_slice(), |short| short.as_slice());
            if let Some(room) = bytes.get_mut(..jump.len()) {
                room.copy_from_slice(jump);
            }
        }
        self.pages.patch(self.memory, site, &bytes)
    }

    /// Makes the stub of `hook`; the jump to it.
    fn stub(
        &mut self,
        hook: &Hook,
        site: u64,
        stubs: &mut Batch,
        near: &mut Batch,
    ) -> Option<[u8; code::SITE]> {
        let jump = hook.before.map_or(site, |before| self.bias + before);
        let body = site + code::jump_length(hook.before.is_some()) as u64;
        if let Some(recipe) = &hook.recipe {
            self.recipe(hook.id, recipe, stubs)?;
        }
        if let Some(room) = self.thunks.as_mut().filter(|_| code::STUBS_ARE_NEAR) {
            let at = room.take(code::STUB as u64)?;
            near.add(at, &self.bytes(hook, at, body)?);
            return code::armed(jump, at + hook.way_in());
        }
        let at = self.placed.stubs.take(code::STUB as u64)?;
        let (mut target, mut behind) = (at + hook.way_in(), body);
        if let Some(room) = &mut self.thunks {
            // One thunk from the module to the stub, one back.
            target = room.take(code::NEAR as u64)?;
            near.add(target, &code::thunk(at + hook.way_in()));
            behind = self.placed.stubs.take(code::STUB as u64)?;
            let stub = self.bytes(hook, at, behind)?;
            stubs.add(at, &stub);
            stubs.add(behind, &code::stub_back(body, hook.is_after_prologue()));
        } else {
            let stub = self.bytes(hook, at, behind)?;
            stubs.add(at, &stub);
        }
        code::armed(jump, target)
    }

    /// Writes a recipe in the place of stubs, and its address into the table.
    fn recipe(&mut self, id: u32, recipe: &Recipe, stubs: &mut Batch) -> Option<()> {
        let mut bytes = recipe.bytes();
        bytes.resize(bytes.len().next_multiple_of(code::STUB), 0);
        let entry = self.recipes - 8 * u64::from(id);
        self.placed.stubs.limit(entry)?;
        let at = self.placed.stubs.take(bytes.len() as u64)?;
        stubs.add(at, &bytes);
        self.memory.write(entry, &at.to_le_bytes()).ok()
    }

    fn bytes(&self, hook: &Hook, at: u64, body: u64) -> Option<[u8; code::STUB]> {
        let (plain, with_values) = self.routines;
        let routines = if hook.recipe.is_some() { with_values } else { plain };
        hook.stub(at, (self.placed.bias, routines), body)
    }
}

/// Bytes that lie one behind the other, written at once.
#[derive(Default)]
struct Batch {
    start: u64,
    bytes: Vec<u8>,
}

impl Batch {
    fn add(&mut self, at: u64, bytes: &[u8]) {
        if self.bytes.is_empty() {
            self.start = at;
        }
        self.bytes.extend_from_slice(bytes);
    }

    fn write(&self, memory: &Memory) -> io::Result<()> {
        if self.bytes.is_empty() { Ok(()) } else { memory.write(self.start, &self.bytes) }
    }
}

/// Code that is changed in many places: pieces of whole pages, by the address of their first page.
#[derive(Default)]
pub(super) struct Pages(BTreeMap<u64, Vec<u8>>);

impl Pages {
    pub(super) fn patch(&mut self, memory: &Memory, address: u64, bytes: &[u8]) -> io::Result<()> {
        let (mut at, mut rest) = (address, bytes);
        while !rest.is_empty() {
            let page = self.rest_of_page(memory, at)?;
            let (now, later) = rest.split_at(rest.len().min(page.len()));
            for (room, byte) in page.iter_mut().zip(now) {
                *room = *byte;
            }
            at += now.len() as u64;
            rest = later;
        }
        Ok(())
    }

    /// The bytes of one page from `address` on. A page that's new, and behind a piece, becomes part of it.
    fn rest_of_page(&mut self, memory: &Memory, address: u64) -> io::Result<&mut [u8]> {
        let page = address / PAGE * PAGE;
        let before = self.0.range(..=page).next_back();
        let before = before.map(|(start, bytes)| (*start, *start + bytes.len() as u64));
        let (start, end) = before.filter(|(_, end)| page <= *end).unwrap_or((page, page));
        let piece = self.0.entry(start).or_default();
        if page == end {
            let size = usize::try_from(PAGE).unwrap_or(0);
            let known = piece.len();
            piece.resize(known + size, 0);
            memory.read(page, piece.get_mut(known..).unwrap_or_default())?;
        }
        let offset = |address: u64| usize::try_from(address - start).unwrap_or(0);
        Ok(piece.get_mut(offset(address)..offset(page + PAGE)).unwrap_or_default())
    }

    pub(super) fn write(&self, memory: &Memory) -> io::Result<()> {
        self.0.iter().try_for_each(|(start, bytes)| memory.write(*start, bytes))
    }
}

/// Fields of the configuration of the agent at load bias `bias`, which say what is recorded.
pub(super) fn configuration(
    symbols: &Symbols,
    bias: u64,
    Recording { trace, scope }: Recording<'_>,
    is_attached: bool,
) -> [(u64, u64); 6] {
    let attached = if is_attached { flags::ATTACHED } else { 0 };
    let in_memory = if trace.is_prepared_in_memory() { flags::IN_MEMORY } else { 0 };
    [
        (config::FLAGS, scope.flags() | code::flags() | attached | in_memory),
        (config::SHORTEST, trace.ticks_in(scope.min_duration)),
        (config::PG_EXIT, bias + symbols.routines(scope.kind()).exit),
        (config::BUDGET, scope.budget()),
        (config::DEPTH, scope.depth),
        (config::PAUSED, u64::from(scope.is_paused())),
    ]
}

/// Can code in one of these ranges jump to any place in the other?
pub(super) fn reaches(one: (u64, u64), other: (u64, u64)) -> bool {
    let (low, high) = (one.0.min(other.0), one.1.max(other.1));
    high - low <= REACH
}

/// The arguments of `mmap` for private memory.
pub(super) fn mapping(address: u64, size: u64, protection: i32, flags: i32) -> [u64; 6] {
    let flags = flags | libc::MAP_PRIVATE | libc::MAP_ANONYMOUS | libc::MAP_NORESERVE;
    let number = |value: i32| u64::from(value.cast_unsigned());
    [address, size, number(protection), number(flags), u64::MAX, 0]
}

/// Maps `size` bytes that code at `extent` reaches.
pub(super) fn near(
    thread: Tracee,
    memory: &Memory,
    desk: Desk,
    (extent, protection): ((u64, u64), i32),
    size: u64,
) -> io::Result<Room> {
    let maps = maps::ranges(&maps::read(thread.id())?);
    for start in gaps(&maps, extent, size) {
        let arguments = mapping(start, size, protection, libc::MAP_FIXED_NOREPLACE);
        match desk.call(thread, memory, libc::SYS_mmap, arguments) {
            Ok(found) if found == start => return Ok(Room { next: start, end: start + size }),
            _ => {}
        }
    }
    Err(io::Error::other("no free memory within 2 GiB"))
}

/// Places for `size` bytes near `extent` that aren't in one of `maps`, the best first.
pub(super) fn gaps(
    maps: &[(u64, u64)],
    extent: (u64, u64),
    size: u64,
) -> impl Iterator<Item = u64> + use<> {
    Near { extent, sites: extent, size, reach: REACH, page: PAGE }.places(maps)
}
