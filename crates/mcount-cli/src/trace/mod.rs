//! `mcount trace`: runs a program, arms its hooks, and writes down its calls.
//!
//! The recorder is the program's tracer in the sense of `ptrace`. It acts when the program executes another
//! one, makes a process or thread, loads or unloads a library, or ends; the calls themselves are
//! written by the agent in the program, and nobody is asked about them. If the recorder is killed the program
//! runs on.

mod agent;
mod file;
mod inject;
mod modules;
mod space;
mod stack;
mod start;
mod tracee;

use self::agent::Agent;
use self::file::{TraceFile, ticks};
use self::modules::{Module, Modules};
use self::space::{Rendezvous, Space};
use self::start::Untraced;
use self::tracee::{Desk, Memory, Tracee, to_result};
use globset::GlobSet;
use mcount_trace::layout::metadata;
use nix::errno::Errno;
use nix::libc;
use nix::sys::signal::Signal;
use nix::sys::wait::WaitPidFlag;
use std::cell::RefCell;
use std::collections::{BTreeSet, HashMap};
use std::ffi::{CString, OsString};
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::rc::Rc;

/// What to trace.
pub struct Request {
    /// The program and its arguments.
    pub command: Vec<OsString>,
    /// The trace.
    pub output: PathBuf,
    /// Only these functions, unless empty.
    pub filter: GlobSet,
    /// Not these functions.
    pub exclude: GlobSet,
    /// Run the program even if it has no hooks itself, for what it starts.
    pub children: bool,
    /// Say which modules have hooks.
    pub verbose: bool,
}

/// How the program ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// By itself, with this exit code.
    Code(u8),
    /// By this signal.
    Signal(i32),
}

/// What came of it.
pub struct Outcome {
    /// How the program ended.
    pub ended: Ended,
    /// What is missing from the trace, a line each.
    pub notes: Vec<String>,
}

/// One process.
struct Process {
    space: Rc<RefCell<Space>>,
    memory: Memory,
    /// It's traced, and not only followed.
    traced: bool,
}

struct Recorder {
    request: Request,
    agent: Agent,
    trace: TraceFile,
    modules: Modules,
    processes: HashMap<i32, Process>,
    /// The process of each thread.
    threads: HashMap<i32, i32>,
    /// New ones that stopped before their parent told of them.
    early: BTreeSet<i32>,
    /// The process that was started first.
    main: i32,
    ended: Option<Ended>,
    /// The main program has run.
    begun: bool,
    refused: Option<String>,
    notes: Vec<String>,
    noted: BTreeSet<String>,
}

/// Runs the program and traces it until it and all that it started have ended.
///
/// # Errors
///
/// It can't be started, or the trace can't be written.
pub fn run(request: Request) -> io::Result<Outcome> {
    let agent = Agent::new()?;
    let trace = TraceFile::create(&request.output).map_err(|error| {
        io::Error::new(error.kind(), format!("{}: {error}", request.output.display()))
    })?;
    record(request, agent, trace)
}

fn record(request: Request, agent: Agent, trace: TraceFile) -> io::Result<Outcome> {
    let main = spawn(&request.command)?;
    pass_signals_on(main);
    let mut recorder = Recorder {
        request,
        agent,
        trace,
        modules: Modules::default(),
        processes: HashMap::new(),
        threads: HashMap::from([(main, main)]),
        early: BTreeSet::new(),
        main,
        ended: None,
        begun: false,
        refused: None,
        notes: Vec::new(),
        noted: BTreeSet::new(),
    };
    recorder.follow()?;
    recorder.finish()
}

/// Starts the program under the recorder; its process. It stands before `exec` until it's attached to.
fn spawn(command: &[OsString]) -> io::Result<i32> {
    let no_zero = |word: &OsString| CString::new(word.as_bytes()).map_err(io::Error::other);
    let words: Vec<CString> = command.iter().map(no_zero).collect::<io::Result<_>>()?;
    let Some(program) = words.first() else { return Err(io::Error::other("no program")) };
    let mut pointers: Vec<_> = words.iter().map(|word| word.as_ptr()).collect();
    pointers.push(std::ptr::null());
    let (mut go, mut failed) = ([0; 2], [0; 2]);
    // SAFETY: both arrays have room for two descriptors.
    let piped = unsafe {
        libc::pipe2(go.as_mut_ptr(), libc::O_CLOEXEC)
            | libc::pipe2(failed.as_mut_ptr(), libc::O_CLOEXEC)
    };
    if piped != 0 {
        return Err(io::Error::last_os_error());
    }
    // Where files may not grow any more, writing is to fail, and the program may still die of it.
    // SAFETY: no handler of ours is given.
    let too_large = unsafe { libc::signal(libc::SIGXFSZ, libc::SIG_IGN) };
    // SAFETY: the child calls nothing but what may be called after fork in a process with threads: read,
    // execvp's search uses memory that was there before, write and _exit.
    let child = unsafe { libc::fork() };
    if child == 0 {
        // SAFETY: as above; the strings and the list of pointers live on in the child.
        unsafe {
            let mut byte = 0_u8;
            // Rust has this program ignore it, which isn't to be inherited.
            libc::signal(libc::SIGPIPE, libc::SIG_DFL);
            libc::signal(libc::SIGXFSZ, too_large);
            libc::close(go[1]);
            libc::read(go[0], (&raw mut byte).cast(), 1);
            libc::execvp(program.as_ptr(), pointers.as_ptr());
            let error = *libc::__errno_location();
            libc::write(failed[1], (&raw const error).cast(), 4);
            libc::_exit(127);
        }
    }
    if child < 0 {
        return Err(io::Error::last_os_error());
    }
    let attached = tracee::seize(nix::unistd::Pid::from_raw(child));
    // SAFETY: descriptors of ours; the child waits for the byte.
    let error = unsafe {
        libc::close(go[0]);
        libc::close(failed[1]);
        libc::write(go[1], [1_u8].as_ptr().cast(), 1);
        libc::close(go[1]);
        // The pipe is closed by a successful exec; the recorder hears of that before it reads here.
        failed[0]
    };
    attached?;
    FAILED.set(error).map_err(|_| io::Error::other("one program at a time"))?;
    Ok(child)
}

/// A signal that is sent to the whole foreground group (^C, ^\\) is for the program to answer; one that is
/// sent to the recorder alone is passed on to the program.
fn pass_signals_on(program: i32) {
    use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};
    let Ok(mut signals) = signal_hook::iterator::Signals::new([SIGHUP, SIGINT, SIGQUIT, SIGTERM])
    else {
        return;
    };
    std::thread::spawn(move || {
        for signal in signals.forever() {
            if matches!(signal, SIGHUP | SIGTERM) {
                // SAFETY: no pointer is passed.
                unsafe { libc::kill(program, signal) };
            }
        }
    });
}

/// Where the child that became the program would say that it couldn't.
static FAILED: std::sync::OnceLock<i32> = std::sync::OnceLock::new();

/// Why `exec` failed, if it did.
fn exec_error() -> Option<io::Error> {
    let mut error = 0_i32;
    // SAFETY: four bytes into a number; nobody has the other end any more.
    let read = FAILED.get().map(|pipe| unsafe { libc::read(*pipe, (&raw mut error).cast(), 4) });
    (read == Some(4)).then(|| io::Error::from_raw_os_error(error))
}

/// What `waitpid` told.
enum Stop {
    Exited(i32),
    Event(i32, i32),
    Signal(i32),
}

impl Recorder {
    /// Follows all processes until the last one ends.
    fn follow(&mut self) -> io::Result<()> {
        loop {
            let mut status = 0;
            let flags = WaitPidFlag::__WALL.bits();
            // SAFETY: the status is a number of ours.
            let thread = unsafe { libc::waitpid(-1, &raw mut status, flags) };
            if thread < 0 {
                match Errno::last() {
                    Errno::EINTR => continue,
                    Errno::ECHILD => return Ok(()),
                    error => return Err(error.into()),
                }
            }
            let stop = if libc::WIFSTOPPED(status) {
                let signal = libc::WSTOPSIG(status);
                match status >> 16 {
                    0 => Stop::Signal(signal),
                    event => Stop::Event(event, signal),
                }
            } else {
                Stop::Exited(status)
            };
            self.stopped(Tracee::new(thread), &stop);
        }
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
                self.rendezvous(thread);
                thread.resume(None);
            }
            Stop::Signal(signal) => match Signal::try_from(signal) {
                Ok(signal) => thread.resume(Some(signal)),
                Err(_) => thread.resume_with(signal),
            },
        }
    }

    /// A new thread or process stands for the first time, or one was stopped by a stop signal.
    fn event_stop(&mut self, thread: Tracee, signal: i32) {
        let is_stop =
            [libc::SIGSTOP, libc::SIGTSTP, libc::SIGTTIN, libc::SIGTTOU].contains(&signal);
        if !self.threads.contains_key(&thread.id()) {
            self.early.insert(thread.id());
        } else if is_stop {
            thread.listen();
        } else {
            self.begin_thread(thread);
            thread.resume(None);
        }
    }

    fn begin_thread(&mut self, thread: Tracee) {
        let Some(process) = self.threads.get(&thread.id()) else { return };
        // A process with memory of its own finds by itself that its parent's block isn't its own.
        let is_thread = *process != thread.id();
        if let Some(process) = self.processes.get(process)
            && (is_thread || Rc::strong_count(&process.space) > 1)
            && let Err(error) = process.space.borrow().begin_thread(thread, &self.agent)
            && error.raw_os_error() != Some(libc::ESRCH)
        {
            self.notes.push(format!("thread {}: {error}", thread.id()));
        }
    }

    /// `thread` is of process `process` from now on, and may have been waiting for that.
    fn know(&mut self, thread: i32, process: i32) {
        self.threads.insert(thread, process);
        if self.early.remove(&thread) {
            let thread = Tracee::new(thread);
            self.begin_thread(thread);
            thread.resume(None);
        }
    }

    fn cloned(&mut self, thread: Tracee) {
        if let Some(new) = thread.event_message() {
            let process = self.threads.get(&thread.id()).copied().unwrap_or(thread.id());
            let shares = thread_group(new).is_none_or(|group| group == process);
            if shares {
                let payload = [numbers(&[process, new]), ticks().to_ne_bytes().to_vec()].concat();
                self.add(metadata::THREAD, &payload);
                self.know(new, process);
            } else {
                // `clone` with another exit signal than SIGCHLD makes a process, with memory of its own or not.
                self.new_process(thread, new, false);
            }
        }
        thread.resume(None);
    }

    fn forked(&mut self, thread: Tracee, is_vfork: bool) {
        if let Some(new) = thread.event_message() {
            self.new_process(thread, new, is_vfork);
        }
        thread.resume(None);
    }

    /// `clone` can make any kind of process, and is told of as the kind that comes nearest to it.
    fn new_process(&mut self, parent: Tracee, new: i32, is_vfork: bool) {
        let parent = self.threads.get(&parent.id()).copied().unwrap_or(parent.id());
        let shares_memory = shares_memory(parent, new).unwrap_or(is_vfork);
        let (mut space, mut traced) = (Rc::default(), false);
        if let Some(process) = self.processes.get(&parent) {
            traced = process.traced;
            space = if shares_memory {
                Rc::clone(&process.space)
            } else {
                Rc::new(RefCell::new(process.space.borrow().clone()))
            };
        }
        if let Ok(memory) = Memory::open(new) {
            let loaded: Vec<_> = space.borrow().loaded.iter().map(|(a, b)| (*a, *b)).collect();
            self.processes.insert(new, Process { space, memory, traced });
            self.process_record(new, parent);
            for (bias, index) in loaded {
                self.loaded_record(metadata::LOADED, new, bias, index);
            }
        }
        self.know(new, new);
    }

    fn process_record(&mut self, process: i32, parent: i32) {
        let name = std::fs::read_link(format!("/proc/{process}/exe")).unwrap_or_default();
        let head = [numbers(&[process, parent]), ticks().to_ne_bytes().to_vec()].concat();
        let payload = [head, name.into_os_string().into_vec()].concat();
        self.add(metadata::PROCESS, &payload);
    }

    fn loaded_record(&mut self, kind: u32, process: i32, bias: u64, index: usize) {
        let number = self.modules.at(index).map_or(0, |module| module.number);
        let head = numbers(&[number.cast_signed(), process]);
        let payload = [head, bias.to_ne_bytes().to_vec(), ticks().to_ne_bytes().to_vec()].concat();
        self.add(kind, &payload);
    }

    fn exited(&mut self, thread: i32, status: i32) {
        let process = self.threads.remove(&thread).unwrap_or(thread);
        self.early.remove(&thread);
        if thread != process {
            let payload = [numbers(&[process, thread]), ticks().to_ne_bytes().to_vec()].concat();
            self.add(metadata::THREAD_END, &payload);
            return;
        }
        let payload = [numbers(&[process, status]), ticks().to_ne_bytes().to_vec()].concat();
        self.add(metadata::PROCESS_END, &payload);
        self.processes.remove(&process);
        if process == self.main && self.ended.is_none() {
            self.ended = Some(if libc::WIFSIGNALED(status) {
                Ended::Signal(libc::WTERMSIG(status))
            } else {
                Ended::Code(u8::try_from(libc::WEXITSTATUS(status)).unwrap_or(255))
            });
        }
    }

    /// A program was executed: nothing is left of what was in memory before.
    fn executed(&mut self, thread: Tracee) {
        let process = thread.id();
        // Its other threads are gone, and the one that called exec has the process's number now.
        self.threads.retain(|_, of| *of != process);
        self.threads.insert(process, process);
        self.process_record(process, 0);
        match self.prepare(thread) {
            Ok(()) => {}
            Err(why) => {
                if let Ok(memory) = Memory::open(process) {
                    self.processes
                        .insert(process, Process { space: Rc::default(), memory, traced: false });
                }
                self.untraced(process, &why);
            }
        }
        thread.resume(None);
    }

    fn untraced(&mut self, process: i32, why: &Untraced) {
        let name = std::fs::read_link(format!("/proc/{process}/exe")).unwrap_or_default();
        let text = format!("{}: not traced: {why}", name.display());
        if process == self.main && !self.begun && !self.request.children {
            self.refuse(process, text);
        } else {
            self.note(text);
        }
    }

    /// Ends the main program before any of its code runs.
    fn refuse(&mut self, process: i32, why: String) {
        self.refused = Some(why);
        // SAFETY: no pointer is passed.
        unsafe { libc::kill(process, libc::SIGKILL) };
    }

    fn prepare(&mut self, thread: Tracee) -> Result<(), Untraced> {
        let memory = Memory::open(thread.id())?;
        let start::Prepared { mut space, bias } =
            start::prepare(thread, &memory, &self.agent, &self.trace)?;
        let id = thread.id();
        if let Some(bias) = bias {
            self.arm(thread, id, &memory, &mut space, bias, &program(id))?;
            self.has_begun(id);
        }
        let space = Rc::new(RefCell::new(space));
        self.processes.insert(id, Process { space, memory, traced: true });
        Ok(())
    }

    /// Was `thread` stopped because the dynamic linker has something to tell?
    fn at_rendezvous(&self, thread: Tracee, signal: i32) -> bool {
        let process = self.threads.get(&thread.id()).and_then(|id| self.processes.get(id));
        let Some(process) = process else { return false };
        let space = process.space.borrow();
        match (space.rendezvous, space.desk) {
            (Some(Rendezvous { stopped, is_breakpoint: true, .. }), _) => {
                signal == libc::SIGTRAP
                    && thread.registers().is_ok_and(|registers| registers.rip == stopped)
            }
            (Some(Rendezvous { stopped: place, .. }), _)
            | (None, Some(Desk { asked: place, .. })) => {
                signal == libc::SIGURG && thread.has_asked(place)
            }
            (None, None) => false,
        }
    }

    /// The dynamic linker tells that it has loaded or unloaded something.
    fn rendezvous(&mut self, thread: Tracee) {
        let Some(id) = self.threads.get(&thread.id()).copied() else { return };
        let Some(process) = self.processes.remove(&id) else { return };
        let rendezvous = process.space.borrow().rendezvous;
        let result = match rendezvous {
            Some(place) => self.first_rendezvous(thread, &process, place),
            None => self.look_at_modules(thread, id, &process),
        };
        self.processes.insert(id, process);
        if let Err(error) = result {
            self.untraced(id, &Untraced::Other(error));
        }
    }

    /// The agent is loaded, and begins.
    fn first_rendezvous(
        &mut self,
        thread: Tracee,
        process: &Process,
        place: Rendezvous,
    ) -> io::Result<()> {
        let memory = &process.memory;
        let mut space = process.space.borrow_mut();
        if place.is_breakpoint {
            // The instruction under it is a return.
            let mut registers = thread.registers()?;
            registers.rip = memory.word(registers.rsp)?;
            registers.rsp += 8;
            thread.set_registers(&registers)?;
        }
        let Some(maps) = consistent_link_maps(memory, &space)? else { return Ok(()) };
        for (address, value) in std::mem::take(&mut space.hidden) {
            memory.write(address, &value.to_le_bytes())?;
        }
        let found = maps.iter().find(|(_, path)| self.agent.is_at(path));
        let (bias, _) = found.ok_or_else(|| io::Error::other("the agent was not loaded"))?;
        space.place(thread, memory, &self.agent, *bias, &self.trace)?;
        if place.is_breakpoint {
            let mut registers = thread.registers()?;
            registers.rsp -= 8;
            thread.set_registers(&registers)?;
        }
        space.meet(thread, memory, &self.agent)
    }

    fn look_at_modules(&mut self, thread: Tracee, id: i32, process: &Process) -> io::Result<()> {
        let memory = &process.memory;
        let mut space = process.space.borrow_mut();
        let Some(maps) = consistent_link_maps(memory, &space)? else { return Ok(()) };
        if space.loaded.is_empty()
            && let Some(desk) = space.desk
        {
            to_result(memory.word(desk.request + mcount_agent::request::RESULT)?)?;
        }
        let gone =
            space.loaded.iter().filter(|(bias, _)| !maps.iter().any(|(one, _)| one == *bias));
        let gone: Vec<(u64, usize)> = gone.map(|(bias, index)| (*bias, *index)).collect();
        for (bias, index) in gone {
            space.loaded.remove(&bias);
            self.loaded_record(metadata::UNLOADED, id, bias, index);
        }
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
                self.note(format!("{}: stays idle: {error}", path.display()));
            }
        }
        self.has_begun(id);
        Ok(())
    }

    /// All modules that process `id` begins with are known: if it's the first one, and has no hooks, it's
    /// ended before any of its code runs.
    fn has_begun(&mut self, id: i32) {
        if id != self.main || self.begun {
            return;
        }
        self.begun = true;
        let hooks: usize = self.modules.iter().map(|module| module.hooks.len()).sum();
        if hooks == 0 && !self.request.children {
            let why = format!("{}: no function has a hook; {NO_HOOKS}", program(id).display());
            self.refuse(id, why);
        } else if let Err(error) = self.trace.publish() {
            self.refuse(id, format!("{}: {error}", self.request.output.display()));
        }
    }

    fn arm(
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
        let (index, is_new) = self.modules.get(path, &file)?;
        if is_new {
            self.introduce(index)?;
        }
        let Some(module) = self.modules.at(index) else { return Ok(()) };
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
        if !module.hooks.is_empty() {
            space.arm(thread, memory, &self.agent, module, bias)?;
            self.loaded_record(metadata::LOADED, id, bias, index);
        }
        Ok(())
    }

    /// Puts a module that is new into the trace, and decides which of its functions are armed.
    fn introduce(&mut self, index: usize) -> io::Result<()> {
        let (filter, exclude) = (&self.request.filter, &self.request.exclude);
        let Some(module) = self.modules.at_mut(index) else { return Ok(()) };
        for hook in &mut module.hooks {
            let name = crate::output::name_of(&hook.name, true);
            let is_in = |globs: &GlobSet| globs.is_match(&*name) || globs.is_match(&hook.name);
            hook.is_wanted = (filter.is_empty() || is_in(filter)) && !is_in(exclude);
        }
        let Some(module) = self.modules.at(index) else { return Ok(()) };
        if module.too_small != 0 {
            let text = format!(
                "{}: the hooks of {} functions have too few bytes and stay idle: compile with \
                 -fpatchable-function-entry=5",
                module.path.display(),
                module.too_small
            );
            self.noted.insert(text.clone());
            self.notes.push(text);
        }
        write_module(&self.trace, module)?;
        if self.request.verbose && !module.hooks.is_empty() {
            let (hooks, functions) = (module.hooks.len(), module.functions);
            let name = module.path.display();
            eprintln_line(&format!("{name}: {hooks} of {functions} functions have hooks"));
        }
        Ok(())
    }

    fn note(&mut self, text: String) {
        if self.noted.insert(text.clone()) {
            self.add(metadata::NOTE, text.as_bytes());
            self.notes.push(text);
        }
    }

    /// Adds to the trace; if it has no room, that's said at the end.
    fn add(&mut self, kind: u32, payload: &[u8]) {
        if let Err(error) = self.trace.add(kind, payload) {
            let text = format!("{}: {error}", self.trace.path().display());
            if self.noted.insert(text.clone()) {
                self.notes.push(text);
            }
        }
    }

    fn finish(mut self) -> io::Result<Outcome> {
        let failed = exec_error();
        if failed.is_some() || self.refused.is_some() {
            self.trace.remove_unpublished();
        } else if !self.begun {
            // Only programs that can't be traced were run.
            self.trace.publish()?;
        }
        if let Some(error) = failed {
            let name = self.request.command.first().cloned().unwrap_or_default();
            return Err(io::Error::new(error.kind(), format!("{}: {error}", name.display())));
        }
        if let Some(why) = self.refused {
            return Err(io::Error::other(why));
        }
        let (dropped, error) = self.trace.dropped();
        if let Some(error) = error {
            let path = self.trace.path().display();
            self.notes.push(format!("{path}: {error}; {dropped} calls were not recorded"));
        } else if dropped != 0 {
            self.notes.push(format!("{dropped} calls were not recorded"));
        }
        self.trace.finish()?;
        let ended = self.ended.unwrap_or(Ended::Code(0));
        Ok(Outcome { ended, notes: self.notes })
    }
}

/// What to compile with.
const NO_HOOKS: &str = "compile with -fpatchable-function-entry=5, or -pg, or, to trace only what it \
                        starts, use --children";

fn eprintln_line(text: &str) {
    use std::io::Write;
    let _ = writeln!(anstream::stderr(), "mcount: {text}");
}

fn program(process: i32) -> PathBuf {
    std::fs::read_link(format!("/proc/{process}/exe")).unwrap_or_default()
}

/// The thread group, which is the process, that a thread belongs to.
fn thread_group(thread: i32) -> Option<i32> {
    let status = std::fs::read_to_string(format!("/proc/{thread}/status")).ok()?;
    status.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()
}

/// Do both processes have one memory? `None` if the kernel doesn't say.
fn shares_memory(one: i32, other: i32) -> Option<bool> {
    const KCMP_VM: libc::c_int = 1;
    // SAFETY: no pointer is passed.
    let order = unsafe { libc::syscall(libc::SYS_kcmp, one, other, KCMP_VM, 0, 0) };
    (order >= 0).then_some(order == 0)
}

/// The file that is mapped at `address`.
fn mapped_file(process: i32, address: u64) -> Option<PathBuf> {
    let text = std::fs::read_to_string(format!("/proc/{process}/maps")).ok()?;
    let from = format!("{address:x}-");
    let line = text.lines().find(|line| line.starts_with(&from))?;
    line.find('/').and_then(|start| line.get(start..)).map(PathBuf::from)
}

/// What the dynamic linker has loaded; `None` while it's about to change that.
fn consistent_link_maps(memory: &Memory, space: &Space) -> io::Result<Option<Vec<(u64, PathBuf)>>> {
    let Some(debug) = space.debug else { return Ok(None) };
    let debug = memory.word(debug)?;
    // struct r_debug: version, map, brk, state; state 0: consistent.
    if debug == 0 || memory.word(debug + 24)? & 0xffff_ffff != 0 {
        return Ok(None);
    }
    link_maps(memory, memory.word(debug + 8)?).map(Some)
}

/// What the dynamic linker has loaded: load bias and path, the program first.
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

fn numbers(values: &[i32]) -> Vec<u8> {
    values.iter().flat_map(|value| value.to_ne_bytes()).collect()
}

/// Writes what is known of a module: its path, its build ID and its functions.
fn write_module(trace: &TraceFile, module: &Module) -> io::Result<()> {
    let path = module.path.as_os_str().as_bytes();
    let length = |bytes: &[u8]| u32::try_from(bytes.len()).unwrap_or(0).to_ne_bytes();
    let head =
        [module.number.to_ne_bytes(), length(&module.build_id), length(path), 0_u32.to_ne_bytes()];
    trace.add(metadata::MODULE, &[&head.concat(), module.build_id.as_slice(), path].concat())?;
    for hook in &module.hooks {
        let head = [hook.id.to_ne_bytes(), module.number.to_ne_bytes()].concat();
        let place = [hook.function.to_ne_bytes(), hook.size.to_ne_bytes()].concat();
        trace.add(metadata::FUNCTION, &[&head, &place, hook.name.as_bytes()].concat())?;
    }
    Ok(())
}
