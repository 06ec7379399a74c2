//! A folder that `uftrace replay` and `uftrace report` read, for those who have scripts around them.
//!
//! The layout was found by looking at what uftrace 0.13 writes, and by letting it read what we write. `info` names
//! the program, `task.txt` has processes and threads, `sid-*.map` says where modules are, `NAME.sym` has
//! the functions of each, and `TID.dat` has 16 bytes for each entry and each exit.

use super::Names;
use super::lanes::{Lane, Step, walk};
use crate::commit::about;
use crate::files;
use crate::temporary::Unfinished;
use mcount_trace::Call;
use std::collections::{HashMap, HashSet};
use std::fmt::Write as _;
use std::io;
use std::path::Path;

/// Calls deeper than this don't fit into a record.
const DEEPEST: usize = 1023;

/// Bits of a record's second word: what it is, a mark that it is one, and where depth and address are.
const EXIT: u64 = 1;
const MARK: u64 = 5 << 3;
const DEPTH_SHIFT: u32 = 6;
const ADDRESS_SHIFT: u32 = 16;

/// Features that the header claims: sessions, addresses relative to modules, a greatest depth.
const FEATURES: u64 = 1 << 1 | 1 << 5 | 1 << 6;
/// Lines that follow it: the program's name, the threads.
const LINES: u64 = 1 | 1 << 7;

/// The most bytes of all threads that wait to be written.
const BUFFERED: usize = 32 << 20;

/// Threads that aren't there have greater numbers than any that is: calls of fibres that overlap.
const INVENTED: u32 = 1 << 22;

/// Writes the folder, completely or not at all; how many calls are left out because they are too deep.
pub(super) fn write(
    folder: &Path,
    names: &Names<'_, '_>,
    calls: impl Iterator<Item = Call>,
) -> io::Result<u64> {
    let unfinished = Unfinished::folder(folder).map_err(|error| about(folder, error))?;
    let written = fill(folder, names, calls);
    if written.is_err() {
        unfinished.remove_all();
    }
    written
}

/// The same for a folder that is there, and empty.
fn fill(
    folder: &Path,
    names: &Names<'_, '_>,
    calls: impl Iterator<Item = Call>,
) -> io::Result<u64> {
    let mut tasks = Tasks::new(folder, names);
    let mut left_out = 0;
    let mut depths: HashMap<Lane, usize> = HashMap::new();
    walk(names.trace.threads.len(), calls, |lane, step, call| {
        let (start, end) = names.times(call);
        let depth = depths.entry(lane).or_default();
        if step == Step::End {
            *depth = depth.saturating_sub(1);
        }
        let time = if step == Step::Begin { start } else { end.unwrap_or(start) };
        if *depth <= DEEPEST {
            tasks.record(lane, step, *depth, (time, call.function))?;
        } else {
            left_out += u64::from(step == Step::Begin);
        }
        if step == Step::Begin {
            *depth += 1;
        }
        Ok(())
    })?;
    tasks.finish()?;
    Ok(left_out)
}

/// A task: a thread, or an invented one.
struct Task {
    tid: u32,
    pid: u32,
    start: u64,
    bytes: Vec<u8>,
}

struct Tasks<'w, 't, 'a> {
    folder: &'w Path,
    names: &'w Names<'t, 'a>,
    /// The record of each function's calls, by the function's place in the trace.
    addresses: Vec<u64>,
    modules: Vec<Module>,
    all: Vec<Task>,
    numbers: HashMap<Lane, usize>,
    /// What identifies a thread in uftrace is its ID alone.
    taken: HashSet<u32>,
}

/// A module, as uftrace is to see it.
struct Module {
    path: String,
    base: u64,
    size: u64,
    /// Address and name of each function, in order.
    symbols: Vec<(u64, String)>,
}

impl<'w, 't, 'a> Tasks<'w, 't, 'a> {
    fn new(folder: &'w Path, names: &'w Names<'t, 'a>) -> Self {
        let (modules, addresses) = modules(names);
        Self {
            folder,
            names,
            addresses,
            modules,
            all: Vec::new(),
            numbers: HashMap::new(),
            taken: HashSet::new(),
        }
    }

    /// Appends to one of the files.
    fn append(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let path = self.folder.join(name);
        files::append(&path, bytes).map_err(|error| about(&path, error))
    }

    /// When `ns` nanoseconds of the trace had passed.
    fn time(&self, ns: u64) -> u64 {
        self.names.trace.header.start_realtime.saturating_add(ns)
    }

    fn record(
        &mut self,
        lane: Lane,
        step: Step,
        depth: usize,
        (ns, function): (u64, u32),
    ) -> io::Result<()> {
        let at = self.task(lane, ns);
        let place = self.names.trace.function_index(function);
        let address = place.and_then(|place| self.addresses.get(place)).copied().unwrap_or(0);
        let kind = if step == Step::End { EXIT } else { 0 };
        let word = kind | MARK | (depth as u64) << DEPTH_SHIFT | address << ADDRESS_SHIFT;
        let time = self.time(ns);
        let most = (BUFFERED / self.all.len().max(1)).clamp(1 << 10, 1 << 20);
        let Some(task) = self.all.get_mut(at) else { return Ok(()) };
        task.bytes.extend(time.to_le_bytes());
        task.bytes.extend(word.to_le_bytes());
        if task.bytes.len() >= most { self.flush(at) } else { Ok(()) }
    }

    /// The task of a lane.
    fn task(&mut self, lane: Lane, ns: u64) -> usize {
        let next = self.all.len();
        let at = *self.numbers.entry(lane).or_insert(next);
        if at == next {
            let thread = self.names.trace.threads.get(lane.thread);
            let (pid, tid) = thread.map_or((0, 0), |thread| (thread.pid, thread.tid));
            let mut number = if lane.number == 0 { tid } else { INVENTED };
            while !self.taken.insert(number) {
                number = number.max(INVENTED - 1) + 1;
            }
            let start = self.time(ns);
            self.all.push(Task { tid: number, pid, start, bytes: Vec::new() });
        }
        at
    }

    fn flush(&mut self, at: usize) -> io::Result<()> {
        let Some(task) = self.all.get_mut(at) else { return Ok(()) };
        let bytes = std::mem::take(&mut task.bytes);
        let name = format!("{}.dat", task.tid);
        self.append(&name, &bytes)?;
        if let Some(task) = self.all.get_mut(at) {
            task.bytes = bytes;
            task.bytes.clear();
        }
        Ok(())
    }

    fn finish(mut self) -> io::Result<()> {
        for at in 0..self.all.len() {
            self.flush(at)?;
        }
        self.append("info", &self.info())?;
        self.append("task.txt", self.task_lines().as_bytes())?;
        let mut map = String::new();
        for module in &self.modules {
            let (start, end) = (module.base, module.base + module.size);
            let _ = writeln!(map, "{start:x}-{end:x} r-xp 00000000 00:00 0 {}", module.path);
            let mut symbols = String::new();
            for (address, name) in &module.symbols {
                let _ = writeln!(symbols, "{address:016x} T {name}");
            }
            let name = module.path.rsplit('/').next().unwrap_or_default();
            let text = format!(
                "# symbols: {}\n# path name: {}\n{symbols}{:016x} ? __sym_end\n",
                module.symbols.len() + 1,
                module.path,
                module.size
            );
            self.append(&format!("{name}.sym"), text.as_bytes())?;
        }
        // Functions are looked up where a stack ends the map.
        map.push_str("7ffffffde000-7ffffffff000 rw-p 00000000 00:00 0 [stack]\n");
        for at in 0..self.sessions().len() {
            self.append(&format!("sid-{:016x}.map", at + 1), map.as_bytes())?;
        }
        Ok(())
    }

    /// Process, start and program of each session. Each process has one, also if it is only known by its threads.
    fn sessions(&self) -> Vec<(u32, u64, String)> {
        let processes = &self.names.trace.processes;
        let mut seen = HashSet::new();
        let mut sessions = Vec::new();
        for process in processes {
            // Its first calls may have been recorded before the recorder saw the program.
            let is_first = seen.insert(process.pid);
            let start = if is_first { 0 } else { self.names.trace.nanoseconds(process.start) };
            let name = String::from_utf8_lossy(process.name).replace(['\n', '"'], "_");
            sessions.push((process.pid, self.time(start), name));
        }
        for task in &self.all {
            if seen.insert(task.pid) {
                sessions.push((task.pid, self.time(0), super::NAMELESS.to_owned()));
            }
        }
        sessions
    }

    fn task_lines(&self) -> String {
        let stamp = |ns: u64| format!("{}.{:09}", ns / 1_000_000_000, ns % 1_000_000_000);
        let mut lines = String::new();
        for (at, (pid, start, name)) in self.sessions().iter().enumerate() {
            let (start, number) = (stamp(*start), at + 1);
            let _ = writeln!(
                lines,
                "SESS timestamp={start} pid={pid} sid={number:016x} exename=\"{name}\""
            );
        }
        for task in &self.all {
            let (start, tid, pid) = (stamp(task.start), task.tid, task.pid);
            let _ = writeln!(lines, "TASK timestamp={start} tid={tid} pid={pid}");
        }
        lines
    }

    fn info(&self) -> Vec<u8> {
        let mut info = b"Ftrace!\0".to_vec();
        info.extend(4_u32.to_le_bytes());
        // Bytes of this header; little-endian; 64-bit.
        info.extend(40_u16.to_le_bytes());
        info.extend([1, 2]);
        info.extend(FEATURES.to_le_bytes());
        info.extend(LINES.to_le_bytes());
        info.extend((DEEPEST as u64 + 1).to_le_bytes());
        let name = self.sessions().first().map(|(.., name)| name.clone()).unwrap_or_default();
        let tids: Vec<String> = self.all.iter().map(|task| task.tid.to_string()).collect();
        let text = format!(
            "exename:{name}\ntaskinfo:lines=2\ntaskinfo:nr_tid={}\ntaskinfo:tids={}\n",
            tids.len(),
            tids.join(",")
        );
        info.extend(text.as_bytes());
        info
    }
}

/// The modules, and the address in memory that each function of the trace gets.
fn modules(names: &Names<'_, '_>) -> (Vec<Module>, Vec<u64>) {
    const ROOM: u64 = 1 << 32;
    const FIRST: u64 = 1 << 32;
    let mut found: Vec<Module> = Vec::new();
    let mut places: HashMap<u32, usize> = HashMap::new();
    let mut files: HashSet<String> = HashSet::new();
    let mut addresses = Vec::new();
    for function in &names.trace.functions {
        let name = names.function(function.number);
        let next = found.len();
        let at = *places.entry(function.module).or_insert(next);
        if at == next {
            let mut path = if name.module.is_empty() { "/?" } else { &name.module }.to_owned();
            if !path.starts_with('/') {
                // Of what isn't a file, uftrace knows no functions.
                path.insert(0, '/');
            }
            // What holds the functions is named by the file alone.
            while !files.insert(path.rsplit('/').next().unwrap_or_default().to_owned()) {
                let _ = write!(path, "-{}", function.module);
            }
            // All numbers of modules differ, and 48 bits have room for 65,534 modules.
            let base = (FIRST + next as u64 * ROOM) & ((1 << 48) - 1);
            found.push(Module { path, base, size: 0x1000, symbols: Vec::new() });
        }
        let Some(module) = found.get_mut(at) else { continue };
        let own = function.address.min(ROOM - 0x2000);
        let end = own + function.size.clamp(1, 0x1000);
        module.size = module.size.max(end.next_multiple_of(0x1000));
        module.symbols.push((own, name.text.clone()));
        addresses.push(module.base + own);
    }
    for module in &mut found {
        module.symbols.sort();
    }
    (found, addresses)
}
