//! The recorder's own instance of the kernel's tracing (`Documentation/trace/ftrace.rst`, "Instances"): buffers and settings that nobody
//! else uses. What others trace goes on as it was.
//!
//! Its name says whose it is: `mcount-`, the number of the process, and when that began. If a recorder was killed, and its guard as well,
//! the next one removes it.

use super::events::{Event, Said};
use super::guard::Guard;
use super::pages::{Layout, Record, What};
use super::rings::processors;
use super::symbols::Symbols;
use super::tracefs::Tracefs;
use super::tracepoints::is_first_namespace;
use crate::commit::Failure;
use crate::trace::scope::Scope;
use mcount_ptrace::Tracee;
use nix::libc;
use rustix::fs::{FlockOperation, flock};
use rustix::io::retry_on_intr;
use std::fs::{File, OpenOptions};
use std::io::{self, Read, Write};
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::thread::sleep;
use std::time::Duration;

/// Kibibytes of each processor's buffer, and of all.
const MOST: usize = 32 << 10;
const LEAST: usize = 1 << 10;
const ALL: usize = 64 << 10;

/// The beginning of the message that says why they can't be recorded.
pub(super) const CANNOT: &str = "kernel functions can't be recorded";

/// The tracers that are used: the one that tells of ends as well, and the one that doesn't.
const GRAPH: &str = "function_graph";
const CALLS: &str = "function";

/// The instance. It ends with this.
pub(in crate::trace) struct Instance {
    tracefs: Tracefs,
    /// Beneath the folder of tracefs.
    folder: PathBuf,
    tracer: &'static str,
    layout: Layout,
    /// How many calls, one in the other, are wanted.
    pub(super) depth: u32,
    symbols: Symbols,
    /// The buffers of the processors.
    pipes: Vec<File>,
    /// If the recorder and its guard are killed, the kernel stops recording when this is closed.
    stopper: Option<File>,
    /// Patterns that mean no function.
    unknown: Vec<String>,
    /// How many records were said to be missing so far.
    missed: u64,
    _guard: Guard,
}

impl Instance {
    /// Removes the instances of recorders that were killed, and makes a new one, if functions of the kernel are wanted. Nothing is recorded
    /// yet.
    ///
    /// # Errors
    ///
    /// They can't be recorded. The text says why, and what to do.
    pub(in crate::trace) fn wanted(scope: &Scope) -> io::Result<Option<Self>> {
        let is_wanted = !scope.kernel.is_empty();
        is_wanted.then(|| Self::new(&scope.kernel, scope.kernel_depth)).transpose().map_err(cannot)
    }

    /// For the functions of these patterns; those that begin with `!` say which aren't meant.
    fn new(patterns: &[String], depth: u32) -> io::Result<Self> {
        patterns.iter().try_for_each(|pattern| check(pattern))?;
        check_system()?;
        let tracefs = Tracefs::find()?;
        let instances = open_folder(&tracefs)?;
        let symbols = Symbols::read()?;
        // Another recorder mustn't find an instance before it's known whose it is.
        retry_on_intr(|| flock(&instances, FlockOperation::LockExclusive))?;
        remove_stale(&tracefs.path("instances"));
        let began = Tracee::new(own_id()).start().ok_or(io::ErrorKind::NotFound)?;
        let name = format!("mcount-{}-{began}", own_id());
        let folder = Path::new("instances").join(&name);
        let mount = tracefs.mount.as_ref().map(AsRawFd::as_raw_fd);
        // First, because the recorder may be killed while the kernel makes the instance.
        let guard = Guard::start(&instances, &name, mount)?;
        make_folder(&tracefs, &folder)?;
        flock(&instances, FlockOperation::Unlock)?;
        Beginning { tracefs, folder, guard }.set_up(patterns, depth, symbols)
    }

    /// Records what this thread does, and all threads and processes that it makes.
    pub(super) fn follow(&self, thread: i32) -> io::Result<()> {
        match append(&self.tracefs, &self.folder.join("set_ftrace_pid"), &thread.to_string()) {
            // It has ended.
            Err(error) if error.raw_os_error() == Some(libc::ESRCH) => Ok(()),
            result => result,
        }
    }

    /// From now on, what the threads do is recorded.
    pub(super) fn begin(&mut self) -> io::Result<()> {
        set(&self.tracefs, &self.folder.join("current_tracer"), self.tracer).map_err(cannot)?;
        // Where one of these is open, the tracer can't be changed.
        self.pipes = pipes(&self.tracefs, &self.folder).map_err(cannot)?;
        Ok(())
    }

    /// Records nothing more. All that was recorded is still there.
    pub(super) fn pause(&self) {
        // If that fails, what's new is read as well.
        let _ = set(&self.tracefs, &self.folder.join("tracing_on"), "0");
    }

    /// The names of functions, once.
    pub(super) fn take_symbols(&mut self) -> Symbols {
        std::mem::take(&mut self.symbols)
    }

    /// Notes on the recording for the user, a line each.
    pub(in crate::trace) fn notes(&self) -> Vec<String> {
        let unknown = |pattern: &String| format!("no function of the kernel matches '{pattern}'");
        let only_calls = (self.tracer != GRAPH).then(|| {
            "this kernel doesn't tell when its functions end: their calls take no time in the trace (Linux 6.11 with CONFIG_FUNCTION_GRAPH_TRACER does)".to_owned()
        });
        self.unknown.iter().map(unknown).chain(only_calls).collect()
    }

    /// Appends what is in the buffers to `events`.
    pub(super) fn read(&mut self, events: &mut Vec<Event>) {
        let mut page = vec![0; self.layout.size()];
        for pipe in &self.pipes {
            // It may be filled as fast as it's read.
            for _ in 0..2 * MOST * 1024 / page.len().max(1) {
                let Some(bytes) = read_page(pipe, &mut page) else { break };
                let at = events.len();
                let missed = self.layout.read(bytes, |record| events.push(event(record)));
                if let Some((count, time)) = missed {
                    self.missed += count.max(1);
                    let said = Said::Missed(count.max(1));
                    events.insert(at, Event { time, ids: (0, 0), said });
                }
            }
        }
    }

    /// How many records are missing that no page has told of, when all has been read.
    ///
    /// The kernel loses some without a word if the reader stands still between two looks at a page that it has read as far as it was
    /// written, as in a virtual machine, and that is filled meanwhile (`rb_get_reader_page`). It goes on counting them as not read.
    pub(super) fn missed_else(&self) -> u64 {
        let folder = self.tracefs.path(self.folder.join("per_cpu"));
        let texts = (0..processors()).filter_map(|processor| {
            let file = folder.join(format!("cpu{processor}/stats"));
            std::fs::read_to_string(file).ok()
        });
        texts.map(|text| lost(&text)).sum::<u64>().saturating_sub(self.missed)
    }
}

impl Drop for Instance {
    fn drop(&mut self) {
        // Whoever has them open keeps the instance.
        self.pipes.clear();
        self.stopper = None;
        remove(&self.tracefs.path(&self.folder));
    }
}

/// An instance with the settings that every instance begins with.
struct Beginning {
    tracefs: Tracefs,
    folder: PathBuf,
    guard: Guard,
}

impl Beginning {
    fn set_up(self, patterns: &[String], depth: u32, symbols: Symbols) -> io::Result<Instance> {
        let set_up = self.choose(patterns);
        let (tracer, layout, unknown) = set_up.inspect_err(|_| {
            remove(&self.tracefs.path(&self.folder));
        })?;
        let Self { tracefs, folder, guard } = self;
        let mut instance = Instance {
            tracefs,
            folder,
            tracer,
            layout,
            depth,
            symbols,
            pipes: Vec::new(),
            stopper: None,
            unknown,
            missed: 0,
            _guard: guard,
        };
        instance.stopper = stopper(&instance.tracefs, &instance.folder);
        Ok(instance)
    }

    /// The tracer, how its records are read, and the patterns that mean no function.
    fn choose(&self, patterns: &[String]) -> io::Result<(&'static str, Layout, Vec<String>)> {
        let file = |name: &str| self.folder.join(name);
        let tracers = get(&self.tracefs, &file("available_tracers"))?;
        let is_there = |tracer: &&str| tracers.split_whitespace().any(|one| one == *tracer);
        let tracer = [GRAPH, CALLS].into_iter().find(is_there).ok_or_else(|| {
            io::Error::other("this kernel has no function tracer (CONFIG_FUNCTION_TRACER)")
        })?;
        // As the other records of the kernel's have it.
        set(&self.tracefs, &file("trace_clock"), "mono_raw")?;
        set(&self.tracefs, &file("options/function-fork"), "1")?;
        let size = (ALL / processors()).clamp(LEAST, MOST).to_string();
        // Where there's no memory for it, it's smaller.
        let _ = set(&self.tracefs, &file("buffer_size_kb"), &size);
        let layout = layout(&self.tracefs, &self.folder)?;
        let unknown = filter(&self.tracefs, &self.folder, patterns)?;
        Ok((tracer, layout, unknown))
    }
}

/// Says what can't be done.
fn cannot(error: io::Error) -> io::Error {
    io::Error::other(format!("{CANNOT}: {}", Failure::from(error)))
}

fn own_id() -> i32 {
    std::process::id().cast_signed()
}

/// Is it a pattern of names, and none of the kernel's commands (`function:command`) or numbers?
fn check(pattern: &str) -> io::Result<()> {
    let name = pattern.strip_prefix('!').unwrap_or(pattern);
    let is_known = |one: char| one.is_ascii_alphanumeric() || "_.*?[]!^-".contains(one);
    let is_name = name.chars().all(is_known) && !name.starts_with(|one: char| one.is_ascii_digit());
    if is_name && !name.is_empty() && !name.starts_with('!') {
        return Ok(());
    }
    let text = format!(
        "'{pattern}' is no pattern of kernel functions: use names with *, ? and [...], and ! before those to leave out"
    );
    Err(io::Error::other(text))
}

/// Can the kernel's numbers of processes be known, and does it trace functions at all?
fn check_system() -> io::Result<()> {
    if !is_first_namespace()? {
        let text = "mcount is in a container (a PID namespace): run it on the host, as root";
        return Err(io::Error::other(text));
    }
    let is_off = std::fs::read_to_string("/proc/sys/kernel/ftrace_enabled")
        .is_ok_and(|text| text.trim() == "0");
    if is_off {
        return Err(io::Error::other("tracing is switched off: sysctl kernel.ftrace_enabled=1"));
    }
    Ok(())
}

/// The folder of instances.
fn open_folder(tracefs: &Tracefs) -> io::Result<File> {
    let opened = OpenOptions::new().read(true).open(tracefs.path("instances"));
    opened.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => io::Error::other("this kernel has no instances of tracing"),
        _ => about(tracefs, Path::new("instances"), error),
    })
}

fn make_folder(tracefs: &Tracefs, folder: &Path) -> io::Result<()> {
    std::fs::create_dir(tracefs.path(folder)).map_err(|error| about(tracefs, folder, error))
}

/// An error with the file that it's about, and what to do.
fn about(tracefs: &Tracefs, file: &Path, error: io::Error) -> io::Error {
    let name = tracefs.name(file);
    let is_root = rustix::process::geteuid().is_root();
    let hint = match error.raw_os_error() {
        Some(libc::EACCES | libc::EPERM) if !is_root => ": run mcount as root",
        Some(libc::EACCES | libc::EPERM) => " (this system forbids it)",
        _ => "",
    };
    io::Error::other(format!("{}: {}{hint}", name.display(), Failure::from(error)))
}

fn get(tracefs: &Tracefs, file: &Path) -> io::Result<String> {
    read(&tracefs.path(file)).map_err(|error| about(tracefs, file, error))
}

/// The text of a file. The kernel hands out some files only by one read of all they have (`header_page`).
fn read(path: &Path) -> io::Result<String> {
    const LARGE: usize = 1 << 16;
    let mut file = OpenOptions::new().read(true).open(path)?;
    let (mut text, mut part) = (Vec::new(), vec![0; LARGE]);
    loop {
        match file.read(&mut part) {
            Ok(0) => return Ok(String::from_utf8_lossy(&text).into_owned()),
            Ok(count) => text.extend(part.iter().take(count)),
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
}

fn set(tracefs: &Tracefs, file: &Path, text: &str) -> io::Result<()> {
    let mut opened = OpenOptions::new();
    write(opened.write(true).truncate(true), &tracefs.path(file), text)
        .map_err(|error| about(tracefs, file, error))
}

/// Adds a line to a list. The error is the kernel's own.
fn append(tracefs: &Tracefs, file: &Path, text: &str) -> io::Result<()> {
    write(OpenOptions::new().append(true), &tracefs.path(file), text)
}

fn write(options: &OpenOptions, path: &Path, text: &str) -> io::Result<()> {
    // A line is one `write`: the kernel takes it as it comes.
    options.open(path)?.write_all(format!("{text}\n").as_bytes())
}

/// Tells the kernel which functions are wanted; the patterns that mean none.
fn filter(tracefs: &Tracefs, folder: &Path, patterns: &[String]) -> io::Result<Vec<String>> {
    let mut unknown = Vec::new();
    let mut is_any_known = false;
    for pattern in patterns {
        let (name, list) = match pattern.strip_prefix('!') {
            Some(name) => (name, "set_ftrace_notrace"),
            None => (&pattern[..], "set_ftrace_filter"),
        };
        let file = folder.join(list);
        match append(tracefs, &file, name) {
            Ok(()) => is_any_known |= name == pattern,
            Err(error) if error.raw_os_error() == Some(libc::EINVAL) => {
                unknown.push(pattern.clone());
            }
            Err(error) => return Err(about(tracefs, &file, error)),
        }
    }
    // Without any, all functions would be recorded.
    let is_any_asked = patterns.iter().any(|pattern| !pattern.starts_with('!'));
    if is_any_asked && !is_any_known {
        let text = format!("no function of the kernel matches '{}'", unknown.join("', '"));
        return Err(io::Error::other(text));
    }
    Ok(unknown)
}

/// How pages and records are read.
fn layout(tracefs: &Tracefs, folder: &Path) -> io::Result<Layout> {
    let events = folder.join("events");
    let page = get(tracefs, &events.join("header_page"))?;
    let format = |name: &str| events.join("ftrace").join(name).join("format");
    // Kernels without that tracer may lack these.
    let optional = |name: &str| get(tracefs, &format(name)).unwrap_or_default();
    let [begin, end] = ["funcgraph_entry", "funcgraph_exit"].map(optional);
    let call = get(tracefs, &format("function"))?;
    Layout::new(&page, [&begin, &end, &call]).ok_or_else(|| {
        let name = tracefs.name(events.join("header_page"));
        io::Error::other(format!("{}: unknown format", name.display()))
    })
}

/// The buffers of the processors.
fn pipes(tracefs: &Tracefs, folder: &Path) -> io::Result<Vec<File>> {
    let one = |processor: usize| {
        let file = folder.join(format!("per_cpu/cpu{processor}/trace_pipe_raw"));
        let mut options = OpenOptions::new();
        options.read(true).custom_flags(libc::O_NONBLOCK);
        match options.open(tracefs.path(&file)) {
            // There is no such processor.
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            opened => Some(opened.map_err(|error| about(tracefs, &file, error))),
        }
    };
    (0..processors()).filter_map(one).collect()
}

/// Has the kernel stop when the file is closed. `None` on kernels that can't.
fn stopper(tracefs: &Tracefs, folder: &Path) -> Option<File> {
    set(tracefs, &folder.join("options/disable_on_free"), "1").ok()?;
    OpenOptions::new().write(true).open(tracefs.path(folder.join("free_buffer"))).ok()
}

/// The next page of a buffer, if there is one.
fn read_page<'p>(mut pipe: &File, page: &'p mut [u8]) -> Option<&'p [u8]> {
    loop {
        match pipe.read(page) {
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
            Ok(0) | Err(_) => return None,
            Ok(count) => return page.get(..count),
        }
    }
}

/// The event of a record, which has no number of the process.
fn event(record: Record) -> Event {
    let Record { time, thread, what, address } = record;
    let said = match what {
        What::Enter => Said::Into(address),
        What::Leave => Said::OutOf(address),
        What::Call => Said::Through(address),
    };
    Event { time, ids: (0, thread), said }
}

/// How many records of a processor are missing, by its file `stats`, when all has been read.
fn lost(text: &str) -> u64 {
    let count = |line: &str| {
        let (name, count) = line.split_once(':')?;
        let is_it = ["entries", "overrun", "commit overrun", "dropped events"].contains(&name);
        count.trim().parse::<u64>().ok().filter(|_| is_it)
    };
    text.lines().filter_map(count).sum()
}

/// Removes the instances of recorders that have ended.
fn remove_stale(instances: &Path) {
    let Ok(entries) = std::fs::read_dir(instances) else { return };
    for entry in entries.flatten() {
        if entry.file_name().to_str().and_then(owner).is_some_and(|owner| !is_alive(owner)) {
            remove(&entry.path());
        }
    }
}

/// The process whose instance this is, and when that began.
fn owner(name: &str) -> Option<(i32, u64)> {
    let (process, began) = name.strip_prefix("mcount-")?.split_once('-')?;
    Some((process.parse().ok()?, began.parse().ok()?))
}

fn is_alive((process, began): (i32, u64)) -> bool {
    Tracee::new(process).start() == Some(began)
}

/// Ends an instance. If another program reads it, it stays, and records nothing.
fn remove(path: &Path) {
    /// Another program may be reading it.
    const TRIES: usize = 20;
    const PAUSE: Duration = Duration::from_millis(10);
    let _ = write(OpenOptions::new().write(true), &path.join("current_tracer"), "nop");
    for _ in 0..TRIES {
        match std::fs::remove_dir(path) {
            Err(error) if error.raw_os_error() == Some(libc::EBUSY) => sleep(PAUSE),
            _ => return,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_say_whose_instance_it_is() {
        let rows = [
            ("mcount-12-345", Some((12, 345))),
            ("mcount-12", None),
            ("mcount-mine-3", None),
            ("mcount-12-345-6", None),
            ("other", None),
        ];
        for (name, expected) in rows {
            assert_eq!(owner(name), expected, "{name}");
        }
        let own = Tracee::new(own_id()).start().unwrap();
        assert!(is_alive((own_id(), own)) && !is_alive((own_id(), own + 1)));
    }

    #[test]
    fn patterns_are_names() {
        for known in ["vfs_*", "!ext4_es_*", "__x64_sys_[rw]*", "a.isra.0", "*"] {
            assert!(check(known).is_ok(), "{known}");
        }
        for wrong in ["", "!", "!!a", "5", "!5", "a:traceoff", "a b", "a\nb", "a;b", "a,b", "|a"] {
            assert!(check(wrong).is_err(), "{wrong:?}");
        }
    }

    #[test]
    fn missing_records_are_counted() {
        let text = "entries: 9\noverrun: 5\ncommit overrun: 2\nbytes: 70\nread events: 8\n\
            dropped events: 4\nnow ts: 12.3\n";
        assert_eq!((lost(text), lost("overrun: x\n")), (20, 0));
    }

    /// Each kernel since 6.1 has these files. Only root of a machine without restrictions may read them.
    #[test]
    fn this_kernel_says_how_pages_are_read() {
        let Ok(tracefs) = Tracefs::find() else { return };
        if let Ok(text) = get(&tracefs, Path::new("events/header_page")) {
            assert!(text.contains("data"), "{text}");
            assert!(layout(&tracefs, Path::new("")).unwrap().size() >= 4096);
        }
    }
}
