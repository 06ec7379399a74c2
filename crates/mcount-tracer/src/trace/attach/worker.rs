//! The worker: attaches, waits, leaves, and says the result.

use super::block::processes_with;
use super::control::{Control, Wanted};
use super::launch::{self, Launched, Streams};
use super::program::Program;
use super::sandbox;
use super::session::Session;
use super::terminal;
use super::unwinders;
use super::wanted;
use super::{Request, start_of, why};
use crate::commit::about;
use crate::trace::file::TraceFile;
use crate::trace::kernel::{self, Instance, Kernel};
use crate::trace::meant;
use crate::trace::modules::Module;
use crate::trace::scope::Scope;
use crate::trace::space::Recording;
use crate::trace::thread_names;
use crate::trace::told::Told;
use crate::trace::{Size, rendezvous};
use crate::words::{counted, functions_have};
use mcount_ptrace::{Memory, Tracee};
use mcount_trace::{Note, ProcessStart};
use nix::libc;
use std::collections::BTreeSet;
use std::fs::File;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;
use tempfile::TempDir;

/// Does all of it; the exit code. `pipe` ends when it's time to stop.
pub(super) fn work(mut request: Request, pipe: &File, told: Told) -> u8 {
    let complain = Arc::clone(&request.complain);
    if let Some(view) = &mut request.view
        && let Err(error) = view.begin()
    {
        return complain(&error.to_string());
    }
    let launched = match launch(&mut request) {
        Ok(launched) => launched,
        Err(error) => {
            drop(request);
            return complain(&error.to_string());
        }
    };
    if let Err(error) = told.listen_for_end() {
        return complain(&error.to_string());
    }
    let is_typed_to = request.view.as_ref().is_some_and(|view| view.input().is_some());
    terminal::leave(is_typed_to);
    let process = request.process;
    let result = Worker::begin(request, told).and_then(|worker| match &launched {
        Some(launched) => {
            launched.release(&worker.session.memory).and_then(|()| worker.trace(pipe))
        }
        None => worker.trace(pipe),
    });
    if launched.is_some() {
        launch::end(process);
    }
    match result {
        Ok(()) => 0,
        Err(error) => complain(&format!("process {process}: {}", why(error))),
    }
}

/// Starts the program, if that's to be done.
fn launch(request: &mut Request) -> io::Result<Option<Launched>> {
    if request.command.is_empty() {
        return Ok(None);
    }
    let is_hidden = request.view.as_ref().is_some_and(|view| view.input().is_some());
    let streams = if is_hidden { Streams::Hidden } else { Streams::ToError };
    let launched = Launched::start(&request.command, streams)?;
    request.process = launched.process;
    Ok(Some(launched))
}

/// Makes the hooks of a process idle whose worker was killed.
///
/// # Errors
///
/// That is no longer possible.
pub(super) fn recover(process: i32) -> io::Result<()> {
    let memory = Memory::open(process)?;
    let scope = Scope::default();
    let program = Program::read(process, &memory, &scope)?;
    let Some(mut session) = Session::find(process, memory)? else { return Ok(()) };
    session.take_over(&program, &scope)?;
    session.leave().map(|_| ())
}

/// What is known of pauses.
pub(super) struct Pauses {
    /// What signals have said.
    pub(super) told: Told,
    /// When recording has paused, in seconds, if it has.
    pub(super) since: Option<f64>,
    /// The functions that `--budget` has given up: they don't go on.
    pub(super) given_up: BTreeSet<u32>,
}

impl Pauses {
    fn new(told: Told) -> Self {
        Self { told, since: None, given_up: BTreeSet::new() }
    }
}

/// A process that is attached to.
pub(super) struct Worker {
    pub(super) request: Request,
    pub(super) program: Program,
    pub(super) session: Session,
    pub(super) trace: TraceFile,
    /// What the kernel tells of threads.
    pub(super) kernel: Option<Kernel>,
    /// The trace isn't kept.
    pub(super) is_hidden: bool,
    /// Where others ask for other functions.
    pub(super) control: Option<Control>,
    began: Instant,
    pub(super) pauses: Pauses,
    pub(super) notes: Vec<String>,
}

impl Worker {
    /// Attaches.
    pub(super) fn begin(mut request: Request, told: Told) -> io::Result<Self> {
        request.scope.check()?;
        request.scope.callers |= request.sampling.is_some();
        let process = request.process;
        let memory = Memory::open(process).map_err(|error| super::refused(process, error))?;
        let mut program = Program::read(process, &memory, &request.scope)?;
        let mut notes = program.notes.clone();
        program.modules.refused(false).counts.iter().for_each(|text| (request.say)(text));
        describe(&program, &request, &mut notes);
        wanted::check(&program, &request)?;
        sandbox::check(process)?;
        let of_kernel = kernel::Wanted::of(&request.scope)?;
        kernel::check(process, &of_kernel)?;
        let instance = Instance::wanted(&request.scope)?;
        let mut session = Session::prepare(&program, memory, this_one())?;
        if let Some(why) = no_returns(&program, &session, &request)? {
            if request.scope.needs_returns() || request.sampling.is_some() {
                return Err(io::Error::other(why));
            }
            notes.push(format!("warning: {why}: only entries are recorded"));
            request.scope.entries = true;
        }
        session.set_unwinders(&program)?;
        program.choose_library(&session.memory, &request.scope);
        let (folder, target, mut trace, name) = create_trace(&request, &program)?;
        let (is_hidden, scope) = (folder.is_some(), &request.scope);
        notes.extend(instance.as_ref().map(Instance::notes).unwrap_or_default());
        let kernel = watched(&trace, process, &of_kernel, instance);
        let armed = arm(&mut session, &program, (&mut trace, scope), (&target, name));
        match armed {
            Ok(more) => notes.extend(more),
            Err(error) => {
                let _ = session.leave();
                kernel.into_iter().flatten().for_each(|kernel| _ = kernel.end());
                trace.remove_unpublished();
                return Err(error);
            }
        }
        // Which functions are sampled can't be changed.
        let control = request.sampling.is_none().then(|| Control::open(process)).flatten();
        let began = Instant::now();
        let pauses = Pauses::new(told);
        let mut worker = Self {
            request,
            program,
            session,
            trace,
            kernel: None,
            is_hidden,
            control,
            began,
            pauses,
            notes,
        };
        worker.watch_kernel(&of_kernel, kernel);
        thread_names::add_all(&worker.trace, worker.request.process);
        Ok(worker)
    }

    /// Waits until it's time, and leaves.
    pub(super) fn trace(mut self, pipe: &File) -> io::Result<()> {
        let functions = match self.program.wanted() {
            0 if self.request.scope.system_calls => "system calls".to_owned(),
            0 => "events".to_owned(),
            wanted => counted(wanted, "function", "functions"),
        };
        let name = self.program.path.display();
        let process = self.request.process;
        if self.request.view.is_none() {
            let what = if self.request.sampling.is_some() { "sampling" } else { "tracing" };
            let text = format!("{name} (process {process}): {what} {functions}; ^C ends it");
            (self.request.say)(&text);
        }
        let waited = match self.request.sampling.take() {
            Some(sampling) => self.sample(pipe, sampling),
            None => self.wait(pipe),
        };
        // The terminal is as it was before anything else is reported.
        drop(self.request.view.take());
        let left = self.leave(process);
        waited.and(left)
    }

    fn leave(mut self, process: i32) -> io::Result<()> {
        if self.session.is_there() {
            // Both take a while, in which recording goes on.
            self.note_new_modules();
            thread_names::add_all(&self.trace, process);
        }
        if self.request.scope.has_kernel() && self.kernel.is_some() {
            // The kernel's side and the program's end together. If this fails, hooks go when the recorder leaves.
            let _ = if self.session.is_there() { self.switch(false) } else { Ok(()) };
            // System calls that threads are made to do from here on aren't the program's.
            self.kernel.iter().for_each(Kernel::end_now);
            self.trace.set_ended();
        }
        let mut is_mapped = false;
        if self.session.is_there() {
            is_mapped = !left(&mut self.session)?;
        } else if start_of(process).is_some() && has_program(process) {
            self.notes.push("it has executed another program, which isn't traced".to_owned());
        }
        let alive = processes_with(&self.trace.file().metadata()?)?;
        is_mapped |= !self.leave_forked()?;
        self.describe_forked(&alive);
        self.finish(is_mapped)
    }

    /// Says what is missing from the trace, and finishes it.
    fn finish(mut self, is_mapped: bool) -> io::Result<()> {
        let (_, notes) = self.kernel.take().map(Kernel::end).unwrap_or_default();
        self.notes.extend(notes);
        self.notes.extend(self.request.scope.warnings());
        if !self.is_hidden {
            let is_ring = matches!(self.request.size, Size::Ring(_));
            self.notes.extend(self.trace.missing(is_ring, false));
        }
        if self.request.verbose {
            let time = self.session.stood.as_secs_f64() * 1000.0;
            (self.request.say)(&format!("the program was stopped for {time:.2} ms at most"));
        }
        for note in &self.notes {
            (self.request.complain)(note);
            // If there's no room for it any more, it has been said.
            let _ = self.trace.add(Note { text: note.as_bytes() });
        }
        if is_mapped || self.is_hidden {
            self.trace.finish_mapped();
            return Ok(());
        }
        let path = self.trace.path().to_owned();
        self.trace.finish().map_err(|error| about(&path, error))
    }

    /// For how long it has been traced, in seconds.
    pub(super) fn seconds(&self) -> f64 {
        self.began.elapsed().as_secs_f64()
    }

    /// Puts a note into the trace. If there's no room for it, that's said anyway.
    pub(super) fn note(&self, text: &str) {
        let _ = self.trace.add(Note { text: text.as_bytes() });
    }

    /// Pauses, or goes on.
    pub(super) fn pause(&mut self, is_paused: bool) -> io::Result<()> {
        self.switch(!is_paused)?;
        let now = self.began.elapsed().as_secs_f64();
        let note = match self.pauses.since {
            Some(from) => {
                format!("SIGUSR1 paused the recording from {from:.3} s to {now:.3} s")
            }
            None => format!("SIGUSR1 paused the recording from {now:.3} s on"),
        };
        self.pauses.since = is_paused.then_some(now);
        // If there's no room for it, that's reported anyway.
        let _ = self.trace.add(Note { text: note.as_bytes() });
        Ok(())
    }

    /// Switches the hooks on or off, while all threads run; those of processes that were made meanwhile as well.
    pub(super) fn switch(&self, on: bool) -> io::Result<()> {
        self.everywhere(|session| session.switch(on, &self.pauses.given_up))
    }

    /// The same for the hooks of functions that `--budget` has given up.
    pub(super) fn switch_given_up_off(&self) -> io::Result<()> {
        self.everywhere(|session| session.switch_off(&self.pauses.given_up))
    }

    /// Does something to the process, and to those that it has made by `fork` since it's traced.
    fn everywhere(&self, act: impl Fn(&Session) -> io::Result<()>) -> io::Result<()> {
        act(&self.session)?;
        let file = self.trace.file().metadata()?;
        for process in processes_with(&file)? {
            if process != self.request.process
                && let Some(session) = self.session.forked(process)?
            {
                match act(&session) {
                    // It may have ended meanwhile.
                    Err(_) if !session.is_there() => {}
                    result => result?,
                }
            }
        }
        Ok(())
    }

    /// Traces other functions from now on. The result.
    pub(super) fn change(&mut self, wanted: &Wanted) -> io::Result<String> {
        if self.request.scope.has_values() {
            let why = "arguments are being recorded, which can't be changed";
            return Err(io::Error::other(why));
        }
        let scope = wanted.scope(&self.request.scope)?;
        self.program.choose(&scope);
        self.program.choose_library(&self.session.memory, &scope);
        for (_, planned) in &self.program.imports {
            self.trace.add_all(planned.entries(&self.program.modules))?;
        }
        let changed = match self.program.wanted() {
            0 => Err(io::Error::other(meant::nothing(&[], std::iter::empty()))),
            _ => self.session.plan(&self.program, &scope, false),
        };
        let changed = changed.and_then(|plan| self.session.change(&self.program, plan));
        if let Err(error) = changed {
            self.program.choose(&self.request.scope);
            self.program.choose_library(&self.session.memory, &self.request.scope);
            return Err(error);
        }
        self.request.scope = scope;
        let functions = counted(self.program.wanted(), "function", "functions");
        let seconds = self.began.elapsed().as_secs_f64();
        let note = format!("from {seconds:.3} s on: {functions}, as another mcount attach asked");
        // If there's no room for it, that's reported anyway.
        let _ = self.trace.add(Note { text: note.as_bytes() });
        let (name, owner) = (self.program.path.display(), std::process::id());
        let process = self.request.process;
        Ok(format!(
            "{name} (process {process}): {functions} from now on, traced by process {owner}"
        ))
    }

    /// Where the trace goes that's asked for.
    pub(super) fn output(&self) -> PathBuf {
        self.request.output.clone().unwrap_or_else(|| default_output(&self.program))
    }

    /// Modules that were loaded meanwhile stayed idle.
    fn note_new_modules(&mut self) {
        // Most programs load none, and to read all of them takes a while.
        if self.program.has_all_mapped() {
            return;
        }
        let Ok(program) =
            Program::read(self.request.process, &self.session.memory, &Scope::default())
        else {
            return;
        };
        for one in &program.loaded {
            let is_known = self.program.loaded.iter().any(|known| known.is_same(one));
            let Some(module) = program.module(one).filter(|module| !module.hooks.is_empty()) else {
                continue;
            };
            if !is_known {
                let path = module.path.display();
                self.notes.push(format!("{path} was loaded later, and isn't traced"));
            }
        }
    }
}

const NO_UNWINDER: &str = "mcount can't register the agent with its unwinder, so exceptions couldn't pass through traced calls";

const SHADOW_STACK: &str = "it has a shadow stack (CET), with which return addresses have to stay";

/// This process as the owner of an agent: its number, and when it began.
fn this_one() -> (u64, u64) {
    let owner = std::process::id();
    let start = i32::try_from(owner).ok().and_then(start_of).unwrap_or(0);
    (u64::from(owner), start)
}

/// What a trace is called.
#[derive(Clone, Copy)]
enum Name {
    /// Nothing: it's only looked at.
    Hidden,
    /// What the user says, even if there's a file of that name.
    Given,
    /// What no other file is called.
    New,
}

/// The file of a trace: the folder of one that's only looked at, its path, the file, and what it's called.
fn create_trace(
    request: &Request,
    program: &Program,
) -> io::Result<(Option<TempDir>, PathBuf, TraceFile, Name)> {
    let folder = request.is_hidden().then(tempfile::tempdir).transpose()?;
    let output = || request.output.clone().unwrap_or_else(|| default_output(program));
    let target = folder.as_ref().map_or_else(output, |folder| folder.path().join("top.mcount"));
    let trace = TraceFile::create(&target, request.size, &request.scope)
        .map_err(|error| about(&target, error))?;
    let name = match (&folder, &request.output) {
        (Some(_), _) => Name::Hidden,
        (None, Some(_)) => Name::Given,
        (None, None) => Name::New,
    };
    Ok((folder, target, trace, name))
}

/// What to do about sleds that aren't as in their file.
const PATCHED: &str =
    "; LLVM's XRay in the program patches sleds: its __xray_unpatch() gives them back";

/// The kernel's side of a process that is about to be armed: it takes the kernel a while until it tells.
fn watched(
    trace: &TraceFile,
    process: i32,
    wanted: &kernel::Wanted,
    instance: Option<Instance>,
) -> Option<io::Result<Kernel>> {
    let open = || Kernel::of_running(trace, process, wanted.clone(), instance);
    (!wanted.is_nothing()).then(open)
}

/// Arms what is wanted, and gives the trace its name, or none; what there is to be reported.
fn arm(
    session: &mut Session,
    program: &Program,
    (trace, scope): (&mut TraceFile, &Scope),
    (target, name): (&Path, Name),
) -> io::Result<Vec<String>> {
    describe_in(trace, program)?;
    let plan = session.plan(program, scope, false)?;
    let left_alone = session.arm(program, plan, Recording { trace, scope })?;
    if left_alone >= program.wanted() && program.has_sled_runtime() {
        return Err(io::Error::other(format!("no hook is as in its file{PATCHED}")));
    }
    let named = match name {
        Name::Hidden => trace.hide().map(|()| None),
        Name::Given => trace.publish().map(|()| None),
        Name::New => trace.publish_beside(target),
    };
    let mut notes: Vec<String> = named.map_err(|error| about(target, error))?.into_iter().collect();
    if left_alone != 0 {
        let hooks = counted(left_alone, "hook", "hooks");
        let is_patched = program.has_sled_runtime();
        let next = if is_patched { PATCHED } else { "" };
        notes.push(format!("not as in their file, and left alone: {hooks}{next}"));
    }
    Ok(notes)
}

/// Why returns can't be traced, if they're to be.
fn no_returns(
    program: &Program,
    session: &Session,
    request: &Request,
) -> io::Result<Option<&'static str>> {
    if request.scope.entries {
        return Ok(None);
    }
    let mut modules = program.loaded.iter().filter_map(|one| program.module(one));
    if let Some(why) = modules.find_map(|module| module.sanitizer) {
        return Ok(Some(why));
    }
    if super::has_shadow_stack(request.process) {
        return Ok(Some(SHADOW_STACK));
    }
    Ok((!can_unwind(program, session)?).then_some(NO_UNWINDER))
}

fn can_unwind(program: &Program, session: &Session) -> io::Result<bool> {
    if unwinders::has_deaf_one(program) {
        return Ok(false);
    }
    unwinders::tell(program, session)
}

/// Leaves a process, if it hasn't ended meanwhile. `false` if it keeps the trace.
pub(super) fn left(session: &mut Session) -> io::Result<bool> {
    match session.leave() {
        Err(error) if error.raw_os_error() == Some(libc::ESRCH) || !session.is_there() => Ok(true),
        result => result,
    }
}

/// Says what has hooks and what hasn't.
fn describe(program: &Program, request: &Request, notes: &mut Vec<String>) {
    for module in program.modules.iter() {
        notes.extend(module.notes());
        if request.verbose && !module.hooks.is_empty() {
            let hooks = module.hooks.len();
            let functions = module.functions.max(hooks + module.refused.len());
            let name = module.path.display();
            let have = functions_have(hooks, functions, |count| count.to_string());
            (request.say)(&format!("{name}: {have} hooks"));
        }
    }
}

/// Writes into the trace what is known of the process and its modules.
fn describe_in(trace: &TraceFile, program: &Program) -> io::Result<()> {
    for module in program.modules.iter() {
        rendezvous::write_module(trace, module)?;
    }
    for found in &program.values {
        rendezvous::write_values(trace, found)?;
    }
    for (_, planned) in &program.imports {
        trace.add_all(planned.entries(&program.modules))?;
    }
    describe_process(trace, program, (inner_id(program.process), 0))
}

/// Writes into the trace that there is a process, and where its modules are.
pub(super) fn describe_process(
    trace: &TraceFile,
    program: &Program,
    (process, parent): (i32, i32),
) -> io::Result<()> {
    let (pid, parent, ticks) = (process.cast_unsigned(), parent.cast_unsigned(), trace.start());
    let path = program.path.as_os_str().as_bytes();
    trace.add(ProcessStart { pid, parent, ticks, path })?;
    for one in &program.loaded {
        let is_told = |module: &&Module| !(module.hooks.is_empty() && program.imports.is_empty());
        if let Some(module) = program.module(one).filter(is_told) {
            let (module, bias) = (module.number, one.bias);
            trace.add(mcount_trace::Mapping { module, pid, bias, ticks, is_loaded: true })?;
        }
    }
    Ok(())
}

/// The number that a process has in its own namespace.
pub(super) fn inner_id(process: i32) -> i32 {
    Tracee::new(process).inner_id().unwrap_or(process)
}

/// A descriptor that tells when the process ends.
pub(super) fn handle(process: i32) -> io::Result<OwnedFd> {
    // SAFETY: no pointer is passed; the descriptor is new.
    unsafe {
        let handle = libc::syscall(libc::SYS_pidfd_open, process, 0);
        match i32::try_from(handle) {
            Ok(handle) if handle >= 0 => Ok(OwnedFd::from_raw_fd(handle)),
            _ => Err(io::Error::last_os_error()),
        }
    }
}

/// `PROGRAM.mcount`, without the program's folder.
fn default_output(program: &Program) -> PathBuf {
    let mut name = program.path.file_name().unwrap_or_default().to_owned();
    name.push(".mcount");
    PathBuf::from(name)
}

/// Has the process a program? One that's just ending has none any more.
fn has_program(process: i32) -> bool {
    std::fs::read_link(format!("/proc/{process}/exe")).is_ok()
}
