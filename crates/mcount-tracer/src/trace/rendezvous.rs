//! Modules: the dynamic linker tells that it has loaded or unloaded some, and their hooks are armed.

use super::advice;
use super::file::TraceFile;
use super::library::Loaded;
use super::meant;
use super::modules::Module;
use super::room::Size;
use super::sleds;
use super::sources;
use super::space::{Recording, Rendezvous, Space};
use super::start::Untraced;
use super::switch::say;
use super::values::{self, Found};
use super::{Process, Recorder, program};
use crate::commit::{Failure, about};
use crate::pattern::Pattern;
use crate::trace::desk::Desk;
use crate::words::{counted, functions_have};
use mcount_hooks::maps;
use mcount_ptrace::{Memory, Tracee};
use mcount_trace::Function;
use nix::libc;
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

impl Recorder {
    /// Was `thread` stopped because the dynamic linker has something to tell?
    pub(super) fn at_rendezvous(&self, thread: Tracee, signal: i32) -> bool {
        let process = self.threads.get(&thread.id()).and_then(|id| self.processes.get(id));
        let Some(process) = process else { return false };
        let space = process.space.borrow();
        match (&space.rendezvous, &space.desk) {
            (Some(Rendezvous { stopped, is_breakpoint: true, .. }), _) => {
                signal == libc::SIGTRAP
                    && thread.registers().is_ok_and(|registers| registers.instruction() == *stopped)
            }
            (Some(Rendezvous { stopped: place, .. }), _)
            | (None, Some(Desk { asked: place, .. })) => {
                signal == libc::SIGURG && thread.has_asked(*place)
            }
            (None, None) => false,
        }
    }

    /// The dynamic linker tells that it has loaded or unloaded something.
    pub(super) fn rendezvous(&mut self, thread: Tracee) {
        if self.answered(thread) {
            return;
        }
        let Some(id) = self.threads.get(&thread.id()).copied() else { return };
        let Some(process) = self.processes.remove(&id) else { return };
        let rendezvous = process.space.borrow().rendezvous.clone();
        let result = match rendezvous {
            Some(place) => self.first_rendezvous(thread, &process, &place),
            None => self.look_at_modules(thread, id, &process),
        };
        self.processes.insert(id, process);
        if let Err(error) = result {
            self.untraced(id, &Untraced::from(error));
        }
    }

    /// The agent is loaded, and begins.
    pub(super) fn first_rendezvous(
        &mut self,
        thread: Tracee,
        process: &Process,
        place: &Rendezvous,
    ) -> io::Result<()> {
        let memory = &process.memory;
        let mut space = process.space.borrow_mut();
        if place.is_breakpoint {
            // The instruction under it is a return.
            let mut registers = thread.registers()?;
            registers.leave_function(memory.word(registers.stack())?);
            thread.set_registers(&registers)?;
        }
        let Some(maps) = consistent_link_maps(memory, &space)? else { return Ok(()) };
        for (address, value) in std::mem::take(&mut space.hidden) {
            memory.write(address, &value.to_le_bytes())?;
        }
        let found = maps.iter().find(|(_, path)| self.agent.is_at(path));
        let (bias, _) = found.ok_or_else(|| io::Error::other("the agent was not loaded"))?;
        let is_agent = |path: &Path| self.agent.is_at(path);
        let is_sanitizer = |path: &Path| {
            let path = path.as_os_str().as_bytes();
            SANITIZERS.iter().any(|name| memchr::memmem::find(path, name).is_some())
        };
        put_behind(memory, &space, is_agent, is_sanitizer)?;
        let recording = Recording { trace: &self.trace, scope: &self.request.scope };
        space.place(thread, memory, &self.agent, *bias, recording)?;
        space.begin_thread(thread, &self.agent, false)?;
        space.meet(thread, memory, &self.agent, place.is_breakpoint)
    }

    pub(super) fn look_at_modules(
        &mut self,
        thread: Tracee,
        id: i32,
        process: &Process,
    ) -> io::Result<()> {
        let memory = &process.memory;
        let mut space = process.space.borrow_mut();
        let Some(maps) = consistent_link_maps(memory, &space)? else { return Ok(()) };
        if space.loaded.is_empty()
            && let Some(desk) = space.desk
        {
            desk.result(memory)?;
        }
        let gone =
            space.loaded.iter().filter(|(bias, _)| !maps.iter().any(|(one, _)| one == *bias));
        let gone: Vec<(u64, usize)> = gone.map(|(bias, index)| (*bias, *index)).collect();
        for (bias, index) in gone {
            space.loaded.remove(&bias);
            Self::forget_instrumented(memory, &mut space, bias);
            self.loaded_record(false, id, bias, index);
        }
        let mut new = Vec::new();
        for (place, (bias, path)) in maps.iter().enumerate() {
            let path = match path {
                _ if place == 0 => program(id),
                path if path.is_absolute() || path.as_os_str().is_empty() => path.clone(),
                // As `dlopen` was told it, perhaps in a folder that isn't the current one any more.
                _ => mapped_file(id, *bias).unwrap_or_default(),
            };
            if space.loaded.contains_key(bias) || self.agent.is_at(&path) || !path.is_absolute() {
                continue;
            }
            if let Err(error) = self.arm(thread, id, memory, &mut space, *bias, &path) {
                if error.kind() == io::ErrorKind::StorageFull && id == self.main && !self.begun {
                    self.refuse(id, self.no_room(&error));
                    return Ok(());
                }
                self.note(format!("{}: stays idle: {}", path.display(), Failure::from(error)));
            }
            new.extend(space.loaded.get(bias).map(|index| (*bias, *index)));
        }
        let known = |(bias, _): &(u64, PathBuf)| Some((*bias, *space.loaded.get(bias)?));
        let all: Vec<Loaded> = maps.iter().filter_map(known).collect();
        self.arm_library_calls((thread, id), memory, &mut space, (&all, &new));
        self.arm_instrumented((thread, id), memory, &mut space, (&all, &new));
        self.switch_new(memory, &space);
        self.has_begun(id);
        Ok(())
    }

    /// The trace is full before the program begins.
    fn no_room(&self, error: &io::Error) -> String {
        let functions: usize = self.modules.iter().map(|module| module.hooks.len()).sum();
        let functions = counted(functions as u64, "function", "functions");
        let output = self.request.output.display();
        let help = match self.request.size {
            Size::Any => "make room",
            Size::Most(_) | Size::Ring(_) => "raise --max-size",
        };
        format!("{output}: {error}, with the names of {functions}: {help}, or trace fewer")
    }

    /// All modules that process `id` begins with are known: if it's the first one, and has no hooks, it's
    /// ended before any of its code runs.
    pub(super) fn has_begun(&mut self, id: i32) {
        if id != self.main || self.begun {
            return;
        }
        self.begun = true;
        let hooks: usize = self.modules.iter().map(|module| module.hooks.len()).sum();
        let refused = self.modules.refused(self.request.is_list);
        if hooks == 0
            && let Some(why) = &refused.nearest
        {
            return self.refuse(id, why.clone());
        }
        if hooks == 0 && !self.library.is_asked_for() && !self.request.children {
            let known = self.modules.iter().find_map(|module| module.notes().into_iter().next());
            let name = program(id);
            let none = || {
                if let Some(why) = meant::no_marker(&self.request.scope) {
                    return format!("{}: {why}", name.display());
                }
                let probes: Vec<&str> =
                    self.request.scope.probe.iter().map(Pattern::text).collect();
                if !probes.is_empty() {
                    return format!(
                        "{}: {}",
                        name.display(),
                        meant::no_function(&probes, [].iter())
                    );
                }
                advice::no_hooks(&name, &self.request.command)
            };
            self.refuse(id, known.unwrap_or_else(none));
        } else if let Some(why) = self.nothing_is_meant() {
            self.refuse(id, why);
        } else if self.request.is_list {
            let functions = self.modules.iter().flat_map(Module::recorded);
            self.listed = Some(functions.chain(self.library.recorded(&self.modules)).collect());
            refused.lines.iter().for_each(|line| eprintln_line(line));
            Self::kill(id);
        } else if let Err(error) = self.publish() {
            self.refuse(id, about(&self.request.output, error).to_string());
        }
    }

    /// Why nothing would be recorded, if that's so. If it may be otherwise when libraries are loaded or programs executed, that's
    /// said.
    fn nothing_is_meant(&self) -> Option<String> {
        let has_hooks = self.modules.iter().any(|module| !module.hooks.is_empty());
        let hooks = || self.modules.iter().flat_map(|module| &module.hooks);
        let is_something = hooks().any(|hook| hook.is_wanted) || self.library.is_asked_for();
        let unmet = self.request.scope.unmet(!is_something);
        if self.request.is_list || !has_hooks || is_something && unmet.is_empty() {
            return None;
        }
        let why = meant::nothing(&unmet, hooks());
        if self.request.children || self.modules.iter().any(|module| module.may_load) {
            say(&format!("warning: {why}; libraries or programs that it starts may have one"));
            return None;
        }
        Some(why)
    }

    pub(super) fn arm(
        &mut self,
        thread: Tracee,
        id: i32,
        memory: &Memory,
        space: &mut Space,
        bias: u64,
        path: &Path,
    ) -> io::Result<()> {
        let seen = Path::new("/proc").join(id.to_string()).join("root");
        let file = seen.join(path.strip_prefix("/").unwrap_or(path));
        let (index, is_new) = self.modules.get(path, &file, &self.request.scope)?;
        // Unless it could be written it stays idle. Calls of others are unwound through all the same.
        let introduced = if is_new { self.introduce(index, &file) } else { Ok(()) };
        let Some(module) = self.modules.at(index) else { return Ok(()) };
        let sanitizer = module.sanitizer.filter(|_| !self.request.scope.entries);
        let note =
            sanitizer.map(|why| format!("warning: {}: {why}: use --entries", path.display()));
        if let (Some(unwinder), Some(placed)) = (module.unwinder, &space.agent)
            && space.unwinders < mcount_agent::config::UNWINDERS_COUNT
        {
            let [get_ip, set_ip, set_gr, resume] = unwinder.map(|address| bias + address);
            let words =
                [bias + module.extent.0, bias + module.extent.1, get_ip, set_ip, set_gr, resume];
            let bytes: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
            let at = placed.bias + self.agent.symbols.config + mcount_agent::config::UNWINDERS;
            memory.write(at + 48 * space.unwinders as u64, &bytes)?;
            space.unwinders += 1;
        }
        space.loaded.insert(bias, index);
        space.watch(memory, self.agent.symbols.watch, module, bias)?;
        introduced?;
        if !module.hooks.is_empty() {
            let kind = self.request.scope.kind();
            space.arm(thread, memory, &self.agent, (module, kind), bias)?;
        }
        if !module.hooks.is_empty() || self.request.scope.has_library() {
            self.loaded_record(true, id, bias, index);
        }
        if let Some(note) = note {
            self.note(note);
        }
        Ok(())
    }

    /// Puts a module that is new into the trace, and decides which of its functions are armed.
    pub(super) fn introduce(&mut self, index: usize, file: &Path) -> io::Result<()> {
        let Some(module) = self.modules.at_mut(index) else { return Ok(()) };
        let options = std::env::var_os("XRAY_OPTIONS").filter(|_| module.has_sled_runtime);
        if options.is_some_and(|options| sleds::are_patched_first(&options)) {
            module.leave_sleds();
        }
        let path = module.path.to_string_lossy().into_owned();
        let scope = &self.request.scope;
        let unknown = sources::look(module, file, scope);
        let has_patterns = scope.has_patterns();
        for hook in module.hooks.iter_mut().filter(|hook| has_patterns || hook.is_special()) {
            hook.choose(scope, &path);
        }
        let found = values::prepare(module, file, &self.request.scope, &mut self.enumerations);
        let Some(module) = self.modules.at(index) else { return Ok(()) };
        for note in module.notes() {
            self.noted.insert(note.clone());
            self.notes.push(note);
        }
        write_module(&self.trace, module)?;
        write_values(&self.trace, &found)?;
        if self.request.verbose && !module.hooks.is_empty() {
            let hooks = module.hooks.len();
            let functions = module.functions.max(hooks + module.refused.len());
            let name = module.path.display();
            let have = functions_have(hooks, functions, |count| count.to_string());
            eprintln_line(&format!("{name}: {have} hooks"));
        }
        for note in found.notes.into_iter().chain(unknown) {
            self.note(note);
        }
        Ok(())
    }
}

fn eprintln_line(text: &str) {
    use std::io::Write;
    let _ = writeln!(anstream::stderr(), "mcount: {text}");
}

/// The file that is mapped at `address`.
fn mapped_file(process: i32, address: u64) -> Option<PathBuf> {
    let maps = maps::read(process).ok()?;
    let mapping = maps.into_iter().find(|map| map.start == address)?;
    Some(mapping.path).filter(|path| path.is_absolute())
}

/// The modules that the dynamic linker has loaded; `None` while it's about to change that.
fn consistent_link_maps(memory: &Memory, space: &Space) -> io::Result<Option<Vec<(u64, PathBuf)>>> {
    let Some(debug) = space.debug else { return Ok(None) };
    let debug = memory.word(debug)?;
    // struct r_debug: version, map, brk, state; state 0: consistent.
    if debug == 0 || memory.word(debug + 24)? & 0xffff_ffff != 0 {
        return Ok(None);
    }
    link_maps(memory, memory.word(debug + 8)?).map(Some)
}

/// The modules that the dynamic linker has loaded: load bias and path, the program first.
fn link_maps(memory: &Memory, first: u64) -> io::Result<Vec<(u64, PathBuf)>> {
    const LIMIT: usize = 1 << 16;
    let mut found = Vec::new();
    let mut at = first;
    // struct link_map: addr, name, ld, next.
    while at != 0 && found.len() < LIMIT {
        let words = memory.words(at, 4)?;
        let [bias, name, _, next] = words.as_slice() else { break };
        let path = PathBuf::from(OsString::from_vec(memory.string(*name)?));
        found.push((*bias, path));
        at = *next;
    }
    Ok(found)
}

/// Runtimes that end a program in which they aren't the first library.
const SANITIZERS: [&[u8]; 2] = [b"libasan.so", b"libclang_rt.asan"];

/// Has the module `one` change places with the next one if that's an `other`, in the list that the dynamic linker has for
/// debuggers and `dl_iterate_phdr`. It's still unread.
fn put_behind(
    memory: &Memory,
    space: &Space,
    one: impl Fn(&Path) -> bool,
    other: impl Fn(&Path) -> bool,
) -> io::Result<()> {
    /// Where in a `struct link_map` those are.
    const NEXT: u64 = 24;
    const PREVIOUS: u64 = 32;
    let Some(debug) = space.debug else { return Ok(()) };
    let (mut before, mut at) = (0, memory.word(memory.word(debug)? + 8)?);
    let path = |at: u64| -> io::Result<PathBuf> {
        Ok(PathBuf::from(OsString::from_vec(memory.string(memory.word(at + 8)?)?)))
    };
    while at != 0 && !one(&path(at)?) {
        (before, at) = (at, memory.word(at + NEXT)?);
    }
    let next = if at == 0 { 0 } else { memory.word(at + NEXT)? };
    if before == 0 || next == 0 || !other(&path(next)?) {
        return Ok(());
    }
    let behind = memory.word(next + NEXT)?;
    let links = [
        (before + NEXT, next),
        (next + PREVIOUS, before),
        (next + NEXT, at),
        (at + PREVIOUS, next),
        (at + NEXT, behind),
        (behind + PREVIOUS, at),
    ];
    // With musl the last one is known elsewhere, too, so it has to stay the last one.
    let links = if behind == 0 { &[][..] } else { &links };
    for (place, link) in links {
        memory.write(*place, &link.to_le_bytes())?;
    }
    Ok(())
}

/// Writes what is known of a module: its path, its build ID and its functions.
pub(super) fn write_module(trace: &TraceFile, module: &Module) -> io::Result<()> {
    let (number, path) = (module.number, module.path.as_os_str().as_bytes());
    trace.add(mcount_trace::Module { number, build_id: &module.build_id, path })?;
    trace.add_all(module.hooks.iter().map(|hook| Function {
        number: hook.id,
        module: number,
        address: hook.function,
        size: hook.size,
        name: hook.name.as_bytes(),
    }))
}

/// Writes what is recorded of the arguments and results of a module's functions.
pub(super) fn write_values(trace: &TraceFile, found: &Found) -> io::Result<()> {
    trace.add_all(found.entries())
}
