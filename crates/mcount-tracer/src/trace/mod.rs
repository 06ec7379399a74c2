//! `mcount trace`: runs a program, arms its hooks, and writes down its calls.
//!
//! The recorder is the program's tracer in the sense of `ptrace`. It acts when the program executes another
//! one, makes a process or thread, loads or unloads a library, or ends. The agent in the program writes the
//! calls without asking. If the recorder is killed the program runs on.

mod advice;
mod agent;
pub mod attach;
mod budget;
mod clock;
mod compact;
mod confine;
mod counters;
mod desk;
mod entries;
mod file;
mod function_names;
mod functions;
mod gate_writer;
mod gates;
mod given;
mod image;
mod imports;
mod inherited;
mod inject;
mod instrumented;
mod instrumented_calls;
mod instrumented_table;
mod kernel;
mod library;
mod live;
mod live_inside;
mod live_waits;
mod marker;
mod markers;
mod meant;
mod modules;
mod pages;
mod prepare;
mod probes;
mod processes;
pub(crate) mod processor;
mod recipe;
mod rendezvous;
mod rlimit;
mod room;
mod sandbox;
mod sanitizers;
mod save;
mod scope;
mod sleds;
mod sources;
mod space;
mod spawn;
mod spend;
mod stack;
mod start;
mod stubs;
mod switch;
mod thread_names;
mod thrift;
mod told;
mod values;
mod wait;
mod waits;

use self::agent::Agent;
use self::confine::Confinement;
pub use self::counters::CounterName;
pub use self::file::Size;
use self::file::TraceFile;
pub use self::given::GivenSignature;
pub use self::instrumented::instrumented;
use self::kernel::{Instance, Kernel, Wanted};
use self::library::Library;
use self::modules::Modules;
pub use self::processor::missing;
pub use self::scope::{FileGlob, Known, Limit, Reach, Scope, Switches};
use self::space::{Rendezvous, Space};
use self::spend::Spending;
use self::start::Untraced;
use self::switch::Waker;
use self::thrift::Thrift;
use self::told::Told;
use crate::commit::about;
use mcount_ptrace::{Memory, Tracee};
use mcount_trace::{Entry, Note};
use nix::errno::Errno;
use nix::libc;
use nix::sys::signal::Signal;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};
use std::ffi::OsString;
use std::io;
use std::path::PathBuf;
use std::rc::Rc;
use std::time::{Duration, Instant};

/// What to trace.
#[expect(clippy::struct_excessive_bools, reason = "each is an option of the command line")]
pub struct Request {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// The trace.
    pub output: PathBuf,
    /// A file of that name stays, and the trace gets one with a number.
    pub keeps_others: bool,
    /// Which calls, and what of them.
    pub scope: Scope,
    /// How large the trace may get, in bytes, and whether older calls make room for newer ones.
    pub size: Size,
    /// The part of the programs' processor time that tracing may cost.
    pub budget: Option<f64>,
    /// Run the program even if it has no hooks itself, for what it starts.
    pub children: bool,
    /// Don't trace what it starts.
    pub is_alone: bool,
    /// Say which modules have hooks.
    pub verbose: bool,
    /// Don't run the program, only say what would be traced.
    pub is_list: bool,
}

/// How the program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// By itself, with this exit code.
    Code(u8),
    /// By this signal.
    Signal(i32),
}

/// The result.
pub struct Outcome {
    /// How the program ended.
    pub ended: Ended,
    /// The trace; not where the program didn't begin.
    pub output: PathBuf,
    /// The parts that are missing from the trace, a line each.
    pub notes: Vec<String>,
    /// How many calls the trace has.
    pub calls: u64,
    /// What would be traced, as patterns, if that was asked for.
    pub listed: Vec<String>,
}

/// One process.
struct Process {
    space: Rc<RefCell<Space>>,
    memory: Memory,
    /// It's traced, and not only followed.
    traced: bool,
    confinement: Confinement,
}

/// The inheritance of a process from the one that made it.
#[derive(Clone, Default)]
struct Maker {
    space: Rc<RefCell<Space>>,
    traced: bool,
    confinement: Confinement,
}

impl Process {
    /// The inheritance of its children.
    fn as_maker(&self) -> Maker {
        let Self { space, traced, confinement, .. } = self;
        Maker { space: Rc::clone(space), traced: *traced, confinement: *confinement }
    }
}

struct Recorder {
    request: Request,
    agent: Agent,
    trace: TraceFile,
    /// What the kernel tells of threads.
    kernel: Option<Kernel>,
    modules: Modules,
    library: Library,
    /// How many enumerations the trace has.
    enumerations: u32,
    processes: HashMap<i32, Process>,
    /// The process of each thread.
    threads: HashMap<i32, i32>,
    /// New ones that stopped before their parent told of them.
    early: BTreeMap<i32, Instant>,
    /// Processes that have ended lately: one may have been killed before it told of what it made.
    ended_lately: VecDeque<(i32, Maker)>,
    /// New ones that their parent has told of, and that haven't stopped yet.
    late: BTreeSet<i32>,
    /// How many filters of system calls this process has, which all others begin with.
    own_filters: u64,
    /// A program has forbidden itself system calls that the agent needs.
    is_confined: bool,
    /// The process that was started first.
    main: i32,
    ended: Option<Ended>,
    /// The main program has run.
    begun: bool,
    refused: Option<String>,
    listed: Option<Vec<String>>,
    notes: Vec<String>,
    noted: BTreeSet<String>,
    spending: Option<Spending>,
    /// What it costs that nobody has asked for.
    thrift: Option<Thrift>,
    /// What signals have said.
    told: Told,
    began: Instant,
    /// When recording has paused, in seconds, if it has.
    paused: Option<f64>,
    /// It has paused before, or does.
    has_paused: bool,
    /// New processes that aren't to be traced, and haven't stopped yet.
    left_alone: BTreeSet<i32>,
}

/// Runs the program and traces it until it and all that it started have ended.
///
/// # Errors
///
/// It can't be started, or the trace can't be written.
pub fn run(mut request: Request) -> io::Result<Outcome> {
    request.scope.check()?;
    let why = request.command.first().and_then(|command| sanitizers::of_program(command));
    let leaks = request.command.first().and_then(|command| sanitizers::leaks_of_program(command));
    let why = why.filter(|_| !request.scope.entries);
    if let Some(why) = why {
        request.scope.confines_waits = false;
        if request.scope.needs_returns() {
            return Err(io::Error::other(why));
        }
        request.scope.entries = true;
    }
    let agent = Agent::new(&request.output)?;
    let trace = TraceFile::create(&request.output, request.size, &request.scope)
        .map_err(|error| about(&request.output, error))?;
    let mut outcome = record(request, agent, trace)?;
    outcome.notes.extend(why.map(|why| format!("warning: {why}: only entries are recorded")));
    let leaks = leaks.filter(|_| outcome.ended != Ended::Code(0));
    outcome.notes.extend(leaks.map(|variable| {
        format!(
            "warning: LeakSanitizer makes a program that is traced fail; set {variable}=detect_leaks=0"
        )
    }));
    Ok(outcome)
}

fn record(request: Request, agent: Agent, trace: TraceFile) -> io::Result<Outcome> {
    if !std::path::Path::new("/proc/self").exists() {
        trace.remove_unpublished();
        return Err(io::Error::other(
            "/proc isn't mounted, and tracing needs it: mount -t proc proc /proc",
        ));
    }
    let told = Told::listen()?;
    let child = spawn::spawn(&request.command).inspect_err(|_| trace.remove_unpublished())?;
    let main = child.process;
    spawn::hear_signals(main, told.clone(), Waker::new());
    let mut recorder = Recorder {
        request,
        agent,
        trace,
        kernel: None,
        modules: Modules::default(),
        library: Library::of_new_programs(),
        enumerations: 0,
        processes: HashMap::new(),
        threads: HashMap::from([(main, main)]),
        early: BTreeMap::new(),
        ended_lately: VecDeque::new(),
        late: BTreeSet::new(),
        own_filters: sandbox::filters_of(i32::try_from(std::process::id()).unwrap_or(0)),
        is_confined: false,
        main,
        ended: None,
        begun: false,
        refused: None,
        listed: None,
        notes: Vec::new(),
        noted: BTreeSet::new(),
        spending: None,
        thrift: None,
        told,
        began: Instant::now(),
        paused: None,
        has_paused: false,
        left_alone: BTreeSet::new(),
    };
    recorder.begin_spending();
    recorder.watch_kernel();
    child.go()?;
    recorder.follow()?;
    recorder.finish()
}

/// How long it's waited in between where a new process waits for its maker.
const BETWEEN: Duration = Duration::from_millis(2);

/// What `waitpid` told.
enum Stop {
    Exited(i32),
    Event(i32, i32),
    Signal(i32),
}

impl Recorder {
    /// Follows all processes until the last one ends. The recorder may have children that it didn't start: whoever
    /// executed it had them.
    fn follow(&mut self) -> io::Result<()> {
        while !(self.threads.is_empty() && self.early.is_empty()) {
            self.obey();
            let flags = if self.early.is_empty() {
                0
            } else {
                self.adopt();
                libc::WNOHANG
            };
            let seen = match wait::look(flags) {
                Ok(Some(seen)) => seen,
                Ok(None) => {
                    std::thread::sleep(BETWEEN);
                    continue;
                }
                Err(Errno::EINTR) => {
                    self.look_at_spending();
                    self.look_at_defaults();
                    continue;
                }
                Err(Errno::ECHILD) => return Ok(()),
                Err(error) => return Err(error.into()),
            };
            if seen.has_ended {
                self.name(seen.thread);
            }
            let Some(status) = wait::take(seen.thread)? else { continue };
            let stop = if libc::WIFSTOPPED(status) {
                let signal = libc::WSTOPSIG(status);
                match status >> 16 {
                    0 => Stop::Signal(signal),
                    event => Stop::Event(event, signal),
                }
            } else {
                Stop::Exited(status)
            };
            self.stopped(Tracee::new(seen.thread), &stop);
        }
        Ok(())
    }

    fn stopped(&mut self, thread: Tracee, stop: &Stop) {
        match *stop {
            Stop::Exited(status) => self.exited(thread.id(), status),
            Stop::Event(libc::PTRACE_EVENT_EXEC, _) => self.executed(thread),
            Stop::Event(libc::PTRACE_EVENT_FORK, _) => self.forked(thread, false),
            Stop::Event(libc::PTRACE_EVENT_VFORK, _) => self.forked(thread, true),
            Stop::Event(libc::PTRACE_EVENT_CLONE, _) => self.cloned(thread),
            Stop::Event(libc::PTRACE_EVENT_STOP, signal) => self.event_stop(thread, signal),
            Stop::Event(..) => thread.resume(None),
            Stop::Signal(signal @ (libc::SIGURG | libc::SIGTRAP))
                if self.at_rendezvous(thread, signal) =>
            {
                self.borrow(thread, |this| this.rendezvous(thread));
                thread.resume(None);
            }
            Stop::Signal(libc::SIGSEGV)
                if self.gave_time(thread) || self.gave_return_address(thread) =>
            {
                thread.resume(None);
            }
            Stop::Signal(libc::SIGILL) => {
                self.ends_in_agent(thread);
                thread.resume(Some(Signal::SIGILL));
            }
            Stop::Signal(signal) => match Signal::try_from(signal) {
                Ok(signal) => thread.resume(Some(signal)),
                Err(_) => thread.resume_with(signal),
            },
        }
    }

    fn untraced(&mut self, process: i32, why: &Untraced) {
        let name = std::fs::read_link(format!("/proc/{process}/exe")).unwrap_or_default();
        let text = format!("{}: not traced: {why}", name.display());
        let is_run = self.request.children && !self.request.is_list;
        if process == self.main && !self.begun && !is_run {
            self.refuse(process, text);
        } else {
            self.note(text);
        }
    }

    /// Ends the main program before any of its code runs.
    fn refuse(&mut self, process: i32, why: String) {
        self.refused = Some(why);
        Self::kill(process);
    }

    fn kill(process: i32) {
        // SAFETY: no pointer is passed.
        unsafe { libc::kill(process, libc::SIGKILL) };
    }

    fn note(&mut self, text: String) {
        if self.noted.insert(text.clone()) {
            self.add(Note { text: text.as_bytes() });
            self.notes.push(text);
        }
    }

    /// Adds to the trace; if it has no room, that's reported at the end.
    fn add<'e>(&mut self, entry: impl Into<Entry<'e>>) {
        if let Err(error) = self.trace.add(entry)
            && error.kind() != io::ErrorKind::StorageFull
        {
            let text = about(&self.request.output, error).to_string();
            if self.noted.insert(text.clone()) {
                self.notes.push(text);
            }
        }
    }

    /// Has the kernel tell of system calls and context switches, if they're wanted. The program doesn't run yet.
    fn watch_kernel(&mut self) {
        if self.request.is_list {
            return;
        }
        let scope = &self.request.scope;
        let switches = scope.switches;
        let found = Wanted::of(scope).and_then(|wanted| Ok((wanted, Instance::wanted(scope)?)));
        let (wanted, instance) = match found {
            Ok(found) => found,
            Err(error) => return self.refuse(self.main, error.to_string()),
        };
        if wanted.is_nothing() {
            return;
        }
        let notes = instance.as_ref().map(Instance::notes).unwrap_or_default();
        for note in notes {
            self.note(note);
        }
        match Kernel::of_new(
            &self.trace,
            self.main,
            self.request.is_alone,
            wanted.clone(),
            instance,
        ) {
            Ok(kernel) => self.kernel = Some(kernel),
            Err(error) if wanted.is_needed() => {
                self.refuse(self.main, kernel::why_nothing(&error, &wanted));
            }
            Err(error) => {
                let why = kernel::why_not(&error);
                match switches {
                    Switches::Wanted => self.note(why),
                    _ => self.add(Note { text: why.as_bytes() }),
                }
            }
        }
    }

    /// Does something that has a thread, which stands, make system calls. They aren't the program's.
    fn borrow<T>(&mut self, thread: Tracee, act: impl FnOnce(&mut Self) -> T) -> T {
        let tell = |kernel: &Kernel, is_begin: bool| kernel.borrow(thread.id(), is_begin);
        self.kernel.iter().for_each(|kernel| tell(kernel, true));
        let result = act(self);
        self.know_code(thread);
        self.kernel.iter().for_each(|kernel| tell(kernel, false));
        result
    }

    /// Tells which code in the process of a thread isn't the program's: what it calls isn't what the program does.
    fn know_code(&self, thread: Tracee) {
        let Some(kernel) = &self.kernel else { return };
        let id = self.threads.get(&thread.id()).copied();
        let Some((id, process)) = id.and_then(|id| Some((id, self.processes.get(&id)?))) else {
            return;
        };
        let space = process.space.borrow();
        let agent = space.agent.as_ref().map(|placed| placed.bias);
        let agent = agent.map(|bias| bias..bias + self.agent.symbols.size);
        if agent.is_some() || space.rendezvous.is_some() {
            kernel.begins(id, agent.clone());
        }
        let asks = space.rendezvous.as_ref().map(Rendezvous::code);
        kernel.know(id, agent.into_iter().chain(asks.into_iter().flatten()).collect());
    }

    fn finish(mut self) -> io::Result<Outcome> {
        let (system_calls, notes) = self.kernel.take().map(Kernel::end).unwrap_or_default();
        for note in notes {
            self.note(note);
        }
        let failed = spawn::exec_error();
        if failed.is_some() || self.refused.is_some() || self.listed.is_some() {
            self.trace.remove_unpublished();
        } else if !self.begun {
            // Only programs that can't be traced were run.
            self.publish()?;
        }
        if let Some(error) = failed {
            let name = self.request.command.first().cloned().unwrap_or_default();
            return Err(io::Error::other(advice::not_executed(&name, error)));
        }
        if let Some(why) = self.refused {
            // What is missing from a file's information may be the reason.
            let notes = self.notes.iter().filter(|note| !why.contains(note.as_str()));
            let all: Vec<&str> = std::iter::once(&why).chain(notes).map(String::as_str).collect();
            return Err(io::Error::other(all.join("; ")));
        }
        self.notes.extend(self.request.scope.warnings());
        self.notes.extend(self.modules.refused(false).counts);
        if let Some(listed) = self.listed {
            let output = self.request.output;
            let (ended, notes) = (Ended::Code(0), self.notes);
            return Ok(Outcome { ended, output, notes, calls: 0, listed });
        }
        let is_ring = matches!(self.request.size, Size::Ring(_));
        self.notes.extend(self.trace.missing(is_ring, self.is_confined));
        let name = self.trace.name().unwrap_or_default().to_owned();
        let calls = self.trace.kept_calls() + system_calls;
        self.trace.finish()?;
        let ended = self.ended.unwrap_or(Ended::Code(0));
        let output = self.request.output.with_file_name(name);
        Ok(Outcome { ended, output, notes: self.notes, calls, listed: Vec::new() })
    }

    /// Gives the trace its name.
    fn publish(&mut self) -> io::Result<()> {
        if !self.request.keeps_others {
            return self.trace.publish();
        }
        let note = self.trace.publish_beside(&self.request.output)?;
        self.notes.extend(note);
        Ok(())
    }
}

fn program(process: i32) -> PathBuf {
    std::fs::read_link(format!("/proc/{process}/exe")).unwrap_or_default()
}
