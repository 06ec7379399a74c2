//! Tracing from other programs: a [`Session`] with a program that it starts, or with a process that runs already.
//!
//! `mcount attach` has a process for its worker, which makes hooks idle even if `mcount` is killed. A library must not `fork` a
//! program that it's only a part of. So the worker is a thread here; the kernel only takes requests of the thread that attached. If this
//! whole process is killed, the hooks stay armed and the program runs on; the next one that attaches takes over.

use super::launch::{self, Launched, Streams};
use super::watch::Names;
use super::worker::Worker;
use super::{Request, check};
use crate::pattern::{Language, Pattern};
use crate::trace::file::Size;
use crate::trace::scope::Scope;
use crate::trace::told::Told;
use mcount_trace::layout::header;
use mcount_trace::{Ended, Follower};
use nix::libc;
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::os::fd::{FromRawFd, OwnedFd};
use std::os::unix::fs::FileExt;
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

/// Chunks of the trace that [`Session::calls`] reads at a time: some 800,000 calls.
const AT_ONCE: usize = 200;

/// What to trace, and where to.
#[derive(Debug, Clone)]
pub struct Options {
    /// Which calls, and what of them; by default, all calls of functions with hooks.
    pub scope: Scope,
    /// How large the trace may get; by default, as large as there is room for.
    pub size: Size,
    /// The trace. An older file of that name is replaced.
    pub output: PathBuf,
}

impl Options {
    /// All calls, into a trace at `output`.
    #[must_use]
    pub fn new(output: impl Into<PathBuf>) -> Self {
        Self { scope: Scope::default(), size: Size::Any, output: output.into() }
    }

    /// Only functions whose names match one of the globs that this was called with.
    ///
    /// # Errors
    ///
    /// The glob is malformed; the text says how.
    pub fn function(mut self, glob: &str) -> Result<Self, String> {
        self.scope.filter.push(Pattern::new(glob, Language::Glob)?);
        Ok(self)
    }
}

/// A call that has ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Call {
    /// The name of the function, demangled.
    pub function: Arc<str>,
    /// The path of its module.
    pub module: Arc<str>,
    /// The number of its thread in the trace.
    pub thread: u32,
    /// When it began, in nanoseconds since the trace did; 0 if calls are recorded without times.
    pub start: u64,
    /// How long it took, in nanoseconds; 0 if calls are recorded without times.
    pub duration: u64,
}

/// The rest of a [`Session`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// The path of the trace.
    pub trace: PathBuf,
    /// The parts that are missing from the trace, or couldn't be done, a line each.
    pub notes: Vec<String>,
}

/// Whom to trace.
enum Target {
    Program(Vec<OsString>),
    Process(i32),
}

/// The worker's message when hooks are armed.
struct Begun {
    process: i32,
    /// The trace that's being written.
    file: File,
    names: Names,
}

/// A process whose calls are recorded. Dropping it is stopping it.
pub struct Session {
    begun: Begun,
    follower: Follower,
    missed: u64,
    /// Its end tells the worker to stop.
    pipe: Option<OwnedFd>,
    worker: Option<JoinHandle<io::Result<Finished>>>,
}

impl Session {
    /// Starts the program `command`, with its arguments, and records its calls from before its `main` on. It's a child of this
    /// process, which has to wait for it if it outlives the session.
    ///
    /// # Errors
    ///
    /// The program can't be executed or traced, has no hook that is meant, or the trace can't be written.
    pub fn start(command: &[OsString], options: Options) -> io::Result<Self> {
        Self::begin(Target::Program(command.to_vec()), options)
    }

    /// Records calls of the process with number `process`, which runs already.
    ///
    /// # Errors
    ///
    /// The process can't be traced, has no hook that is meant, or the trace can't be written.
    pub fn take(process: i32, options: Options) -> io::Result<Self> {
        Self::begin(Target::Process(process), options)
    }

    fn begin(target: Target, options: Options) -> io::Result<Self> {
        let (read, write) = pipe()?;
        let (sender, receiver): (Sender<Begun>, Receiver<Begun>) = channel();
        let work = move || work(target, options, &File::from(read), &sender);
        let worker = std::thread::Builder::new().name("mcount-tracer".to_owned()).spawn(work)?;
        match receiver.recv() {
            Ok(begun) => Ok(Self {
                begun,
                follower: Follower::new(),
                missed: 0,
                pipe: Some(write),
                worker: Some(worker),
            }),
            // It has ended without having begun.
            Err(_) => Err(joined(worker).err().unwrap_or_else(|| io::Error::other("not begun"))),
        }
    }

    /// The number of the process.
    #[must_use]
    pub fn process(&self) -> i32 {
        self.begun.process
    }

    /// Whether the process has ended, or doesn't let itself be traced any more.
    #[must_use]
    pub fn is_over(&self) -> bool {
        self.worker.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// The calls that have ended since this was asked last, those of one thread in the order of their ends; not all at once if there are
    /// very many.
    pub fn calls(&mut self) -> Vec<Call> {
        let Begun { file, names, .. } = &self.begun;
        let mut source = |offset: u64, bytes: &mut [u8]| file.read_exact_at(bytes, offset).is_ok();
        let field = |place: usize| {
            let mut bytes = [0; 8];
            if source(place as u64, &mut bytes) { u64::from_ne_bytes(bytes) } else { 0 }
        };
        let (began, rate) = (field(header::START_TICKS), field(header::TICKS_PER_SECOND));
        let time = |ticks: u64| {
            let nanoseconds = (u128::from(ticks) * 1_000_000_000).checked_div(u128::from(rate));
            u64::try_from(nanoseconds.unwrap_or(0)).unwrap_or(u64::MAX)
        };
        let mut found = Vec::new();
        let look = self.follower.look(&mut source, AT_ONCE, |call: &Ended| {
            // Only numbers that the agent was given are in a trace that's intact.
            let Some((function, module)) = names.get(&call.function) else { return };
            found.push(Call {
                function: Arc::clone(function),
                module: Arc::clone(module),
                thread: call.thread,
                start: time(call.start.saturating_sub(began)),
                duration: time(call.end.saturating_sub(call.start)),
            });
        });
        self.missed = look.missed;
        found
    }

    /// How many calls couldn't be recorded, or were written over before [`Self::calls`] read them.
    #[must_use]
    pub fn missed(&self) -> u64 {
        self.missed
    }

    /// Makes all hooks idle, leaves the process as it was, and finishes the trace.
    ///
    /// # Errors
    ///
    /// The trace couldn't be written, or the process couldn't be left as it was.
    pub fn stop(mut self) -> io::Result<Finished> {
        self.end().unwrap_or_else(|| Err(io::Error::other("stopped already")))
    }

    fn end(&mut self) -> Option<io::Result<Finished>> {
        drop(self.pipe.take());
        self.worker.take().map(joined)
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        // Who wants to know whether that worked calls `stop`.
        let _ = self.end();
    }
}

fn joined(worker: JoinHandle<io::Result<Finished>>) -> io::Result<Finished> {
    worker.join().unwrap_or_else(|_| Err(io::Error::other("the tracer has panicked")))
}

/// The two ends of a pipe, to be read and to be written.
fn pipe() -> io::Result<(OwnedFd, OwnedFd)> {
    let mut ends = [0; 2];
    // SAFETY: there's room for two descriptors, which are new and nobody else's.
    unsafe {
        if libc::pipe2(ends.as_mut_ptr(), libc::O_CLOEXEC) != 0 {
            return Err(io::Error::last_os_error());
        }
        Ok((OwnedFd::from_raw_fd(ends[0]), OwnedFd::from_raw_fd(ends[1])))
    }
}

/// Attaches, says so by `begun`, and traces until `pipe` or the process ends.
fn work(
    target: Target,
    options: Options,
    pipe: &File,
    begun: &Sender<Begun>,
) -> io::Result<Finished> {
    let notes = Arc::new(Mutex::new(Vec::new()));
    let launched = match &target {
        Target::Program(command) => Some(Launched::start(command, Streams::Own)?),
        Target::Process(process) => check(*process).map(|()| None)?,
    };
    let process = match (&launched, target) {
        (Some(launched), _) => launched.process,
        (None, Target::Process(process)) => process,
        (None, Target::Program(_)) => 0,
    };
    let attach = || {
        let worker = Worker::begin(request(process, options, &notes), Told::default())?;
        let file = worker.trace.file().try_clone()?;
        let path = worker.trace.path().to_owned();
        // If nobody is there any more, the pipe has ended, too.
        let _ = begun.send(Begun { process, file, names: worker.names() });
        if let Some(launched) = &launched {
            launched.release(&worker.session.memory)?;
        }
        Ok((worker, path))
    };
    let (worker, trace) = attach().inspect_err(|_: &io::Error| {
        if launched.is_some() {
            launch::end(process);
        }
    })?;
    let result = worker.trace(pipe);
    if launched.is_some() {
        // SAFETY: no pointer is passed. If it has ended, it's a child that nobody has waited for.
        unsafe { libc::waitpid(process, std::ptr::null_mut(), libc::WNOHANG) };
    }
    result?;
    let notes = std::mem::take(&mut *notes.lock().unwrap_or_else(PoisonError::into_inner));
    Ok(Finished { trace, notes })
}

/// A request to the worker.
fn request(process: i32, options: Options, notes: &Arc<Mutex<Vec<String>>>) -> Request {
    let notes = Arc::clone(notes);
    Request {
        process,
        command: Vec::new(),
        output: Some(options.output),
        scope: options.scope,
        size: options.size,
        duration: None,
        calls: None,
        budget: None,
        view: None,
        sampling: None,
        verbose: false,
        say: Arc::new(|_| {}),
        complain: Arc::new(move |note| {
            notes.lock().unwrap_or_else(PoisonError::into_inner).push(note.to_owned());
            0
        }),
    }
}
