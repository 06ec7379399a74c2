//! The tables of a trace: their columns, and what is in them. `--format parquet` writes them, and `mcount query` asks them.

mod rows;

pub use rows::{Gone, Piece, Pieces};

use crate::files::is_standard;
use crate::parquet::{Column, Field, Kind, Texts};
use crate::replay::{NAMELESS, Names, SourceLines, end_name, hex};
use mcount_trace::{Call, End, Trace};
use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::path::Path;

use Kind::{Number, Recorded, Text, Time, Unsigned};

/// All tables with their columns. Each row also has a `build`, which is that of the program.
pub const TABLES: [(&str, &[Field]); 4] =
    [("calls", CALLS), ("functions", FUNCTIONS), ("threads", THREADS), ("processes", PROCESSES)];

/// Calls, by thread and in the order of ends.
pub const CALLS: &[Field] = &[
    Field::new("trace", Text),
    Field::new("process", Number),
    Field::new("thread", Number),
    Field::new("function", Text),
    Field::new("module", Text),
    Field::new("function_id", Number),
    Field::optional("caller", Text),
    Field::new("depth", Number),
    Field::new("start_ns", Number),
    Field::optional("duration_ns", Number),
    Field::optional("self_ns", Number),
    Field::optional("end", Text),
    Field::optional("arguments", Recorded),
    Field::optional("result", Recorded),
];

/// Functions that the trace knows, called or not.
const FUNCTIONS: &[Field] = &[
    Field::new("trace", Text),
    Field::new("function_id", Number),
    Field::new("function", Text),
    Field::new("symbol", Text),
    Field::new("module", Text),
    Field::optional("module_build", Text),
    Field::new("address", Unsigned),
    Field::optional("size", Number),
    Field::optional("source_file", Text),
    Field::optional("source_line", Number),
];

const THREADS: &[Field] = &[
    Field::new("trace", Text),
    Field::new("process", Number),
    Field::new("thread", Number),
    Field::optional("name", Text),
    Field::optional("start_ns", Number),
    Field::optional("end_ns", Number),
];

/// Programs that processes ran.
const PROCESSES: &[Field] = &[
    Field::new("trace", Text),
    Field::new("process", Number),
    Field::new("parent", Number),
    Field::new("program", Text),
    Field::new("start_ns", Number),
    Field::optional("end_ns", Number),
    Field::optional("status", Number),
    Field::new("trace_start", Time),
    Field::new("trace_length_ns", Number),
    Field::new("dropped_calls", Number),
];

/// What a build is called that isn't known.
const UNKNOWN: &str = "unknown";

/// Shows `look` what the tables of a trace have in common; names of C++ are without arguments if `is_simple`.
pub fn with_subject<T>(
    trace: &Trace<'_>,
    path: &Path,
    is_simple: bool,
    lines: Option<&SourceLines>,
    look: impl FnOnce(&Subject<'_>) -> T,
) -> T {
    let names = Names::with(trace, is_simple);
    look(&Subject::of(&names, path, lines))
}

/// A trace, with what its tables have in common.
pub struct Subject<'w> {
    names: &'w Names<'w, 'w>,
    lines: Option<&'w SourceLines>,
    /// Tells the trace from all others.
    pub id: String,
    /// The texts of calls.
    pub texts: Texts,
    id_place: u32,
    /// Names and modules of functions, by their places in the trace; then those of a function that isn't known.
    functions: Vec<[u32; 2]>,
    ends: [u32; 4],
    /// The builds of programs, in their order.
    pub builds: Vec<String>,
    /// The place of each process's.
    processes: Vec<usize>,
}

impl<'w> Subject<'w> {
    pub(super) fn of(
        names: &'w Names<'w, 'w>,
        path: &Path,
        lines: Option<&'w SourceLines>,
    ) -> Self {
        let trace = names.trace;
        let mut texts = Texts::default();
        let id = id(names, path);
        let id_place = texts.add(&id);
        let numbers = trace.functions.iter().map(|function| function.number);
        let mut functions: Vec<[u32; 2]> = Vec::with_capacity(trace.functions.len() + 1);
        for number in numbers {
            let name = names.function(number);
            functions.push([texts.add(&name.text), texts.add(&name.module)]);
        }
        functions.push([texts.add(NAMELESS), texts.add("")]);
        let ends = [End::Return, End::TailCall, End::Unwound, End::Exit];
        let ends = ends.map(|how| texts.add(end_name(how)));
        let of_process = builds(names);
        let mut builds = of_process.clone();
        // Of calls whose process isn't known.
        builds.push(UNKNOWN.to_owned());
        builds.sort();
        builds.dedup();
        let place = |build: &String| builds.binary_search(build).unwrap_or(0);
        let processes = of_process.iter().map(place).collect();
        Self { names, lines, id, texts, id_place, functions, ends, builds, processes }
    }

    /// The place of a process's build.
    pub(super) fn build_of(&self, process: Option<usize>) -> usize {
        let known = process.and_then(|process| self.processes.get(process)).copied();
        known.unwrap_or_else(|| {
            self.builds.binary_search_by(|build| build.as_str().cmp(UNKNOWN)).unwrap_or(0)
        })
    }

    fn function(&self, number: u32) -> [u32; 2] {
        let at = self.names.trace.function_index(number);
        let known = at.and_then(|at| self.functions.get(at)).or(self.functions.last());
        known.copied().unwrap_or_default()
    }

    /// Adds a row for a call that spent so many nanoseconds in others. Its values are added elsewhere.
    fn call(&self, columns: &mut [Column], call: &Call, children: u64) {
        let [trace, process, thread, function, module, id, caller, rest @ ..] = columns else {
            return;
        };
        let [depth, start, length, own, end, ..] = rest else { return };
        let (pid, tid) = self.names.ids(call);
        let (from, to) = self.names.times(call);
        let [name, file] = self.function(call.function);
        let time = to.map(|to| to.saturating_sub(from));
        trace.text(self.id_place);
        process.number(i64::from(pid));
        thread.number(i64::from(tid));
        function.text(name);
        module.text(file);
        id.number(i64::from(call.function));
        caller.maybe_text(call.caller.map(|caller| self.function(caller)[0]));
        depth.number(number(call.depth as u64));
        start.number(number(from));
        length.maybe_number(time.map(number));
        own.maybe_number(time.map(|time| number(time.saturating_sub(children))));
        end.maybe_text(call.how.map(|how| {
            let [returned, tail_call, unwound, exit] = self.ends;
            match how {
                End::Return => returned,
                End::TailCall => tail_call,
                End::Unwound => unwound,
                End::Exit => exit,
            }
        }));
    }
}

/// A number that columns can have.
fn number(value: u64) -> i64 {
    i64::try_from(value).unwrap_or(i64::MAX)
}

/// The name of the trace's file, with what tells it from others of that name: when it was made, and the first process.
fn id(names: &Names<'_, '_>, path: &Path) -> String {
    let trace = names.trace;
    let stem =
        if is_standard(path) { "trace".as_ref() } else { path.file_stem().unwrap_or_default() };
    let stem = stem.to_string_lossy();
    let plain = |c: char| if c.is_ascii_alphanumeric() || "-_.".contains(c) { c } else { '_' };
    let stem: String = stem.chars().map(plain).collect();
    let pid = trace.threads.first().map_or(0, |thread| thread.pid);
    format!("{stem}-{:x}-{pid}", trace.header.start_realtime)
}

/// The build ID of the program of each process, if that's one of the trace's modules and has one.
fn builds(names: &Names<'_, '_>) -> Vec<String> {
    let modules = names.trace.modules.iter().filter(|module| !module.build_id.is_empty());
    let known: HashMap<&[u8], &[u8]> =
        modules.map(|module| (module.path, module.build_id)).collect();
    let build = |program: &[u8]| match known.get(program) {
        Some(id) => hex(id),
        None => UNKNOWN.to_owned(),
    };
    names.trace.processes.iter().map(|process| build(process.name)).collect()
}

/// A table of a build.
pub struct Table {
    /// Its name.
    pub name: &'static str,
    /// The place of the build.
    pub build: usize,
    /// Its columns.
    pub fields: &'static [Field],
    /// What is in them.
    pub columns: Vec<Column>,
    /// How many rows they have.
    pub rows: u64,
}

/// The tables but that of calls, and their texts.
#[must_use]
pub fn tables(subject: &Subject<'_>) -> (Vec<Table>, Texts) {
    let trace = subject.names.trace;
    let mut maker = Maker {
        subject,
        texts: Texts::default(),
        all: BTreeMap::new(),
        builds: HashMap::new(),
        threads: BTreeSet::new(),
    };
    for (at, process) in trace.processes.iter().enumerate() {
        maker.builds.entry(process.pid).or_default().insert(subject.build_of(Some(at)));
    }
    let mut builds = subject.processes.clone();
    if builds.is_empty() {
        builds.push(subject.build_of(None));
    }
    builds.sort_unstable();
    builds.dedup();
    for build in builds {
        for at in 0..trace.functions.len() {
            maker.function(build, at);
        }
    }
    for at in 0..trace.threads.len() {
        maker.thread(at);
    }
    for at in 0..trace.processes.len() {
        maker.process(at);
    }
    (maker.all.into_values().collect(), maker.texts)
}

/// Makes tables.
struct Maker<'m> {
    subject: &'m Subject<'m>,
    texts: Texts,
    all: BTreeMap<(&'static str, usize), Table>,
    /// Those of each process, which has several if it executed another program.
    builds: HashMap<u32, BTreeSet<usize>>,
    /// The threads that have a row: their builds, processes and IDs.
    threads: BTreeSet<(usize, u32, u32)>,
}

impl Maker<'_> {
    /// The columns of a table, to which a row is added.
    fn row(&mut self, name: &'static str, build: usize, fields: &'static [Field]) -> &mut [Column] {
        let table = self.all.entry((name, build)).or_insert_with(|| {
            let columns = fields.iter().map(Column::new).collect();
            Table { name, build, fields, columns, rows: 0 }
        });
        table.rows += 1;
        &mut table.columns
    }

    /// The place of a text, or none if that's empty.
    fn maybe(&mut self, text: &[u8]) -> Option<u32> {
        let text = String::from_utf8_lossy(text);
        (!text.is_empty()).then(|| self.texts.add(&text))
    }

    fn function(&mut self, build: usize, at: usize) {
        let trace = self.subject.names.trace;
        let Some(of) = trace.functions.get(at) else { return };
        let name = self.subject.names.function(of.number);
        let source = self.subject.lines.and_then(|lines| lines.get(of.number));
        let id_text = self.texts.add(&self.subject.id);
        let name_text = self.texts.add(&name.text);
        let symbol_text = self.texts.add(&String::from_utf8_lossy(of.name));
        let module_text = self.texts.add(&name.module);
        let module_id = trace.module(of.module).map_or(&b""[..], |module| module.build_id);
        let module_id = self.maybe(hex(module_id).as_bytes());
        let source_text = source.map(|source| self.texts.add(&source.file));
        let columns = self.row("functions", build, FUNCTIONS);
        let [id, number_of, function, symbol, module, module_build, address, size, file, line] =
            columns
        else {
            return;
        };
        id.text(id_text);
        number_of.number(i64::from(of.number));
        function.text(name_text);
        symbol.text(symbol_text);
        module.text(module_text);
        module_build.maybe_text(module_id);
        address.number(of.address.cast_signed());
        size.maybe_number((of.size != 0).then(|| number(of.size)));
        file.maybe_text(source_text);
        line.maybe_number(source.map(|source| i64::from(source.line)));
    }

    fn thread(&mut self, at: usize) {
        let (trace, start) = (self.subject.names.trace, self.subject.names.start);
        let Some(of) = trace.threads.get(at) else { return };
        let unknown = BTreeSet::from([self.subject.build_of(None)]);
        let mut builds = self.builds.get(&of.pid).unwrap_or(&unknown).clone();
        // The trace has a thread twice if its thread-local storage came to another place.
        builds.retain(|build| self.threads.insert((*build, of.pid, of.tid)));
        let time = |ticks: u64| number(trace.nanoseconds(ticks).saturating_add(start));
        for build in builds {
            let id_text = self.texts.add(&self.subject.id);
            let name_text = self.maybe(of.name);
            let columns = self.row("threads", build, THREADS);
            let [id, process, thread, name, from, to] = columns else { return };
            id.text(id_text);
            process.number(i64::from(of.pid));
            thread.number(i64::from(of.tid));
            name.maybe_text(name_text);
            from.maybe_number(of.start.map(time));
            to.maybe_number(of.end.map(time));
        }
    }

    fn process(&mut self, at: usize) {
        let (trace, start) = (self.subject.names.trace, self.subject.names.start);
        let Some(of) = trace.processes.get(at) else { return };
        let build = self.subject.build_of(Some(at));
        let id_text = self.texts.add(&self.subject.id);
        let program_text = self.texts.add(&String::from_utf8_lossy(of.name));
        let time = |ticks: u64| number(trace.nanoseconds(ticks).saturating_add(start));
        let columns = self.row("processes", build, PROCESSES);
        let [id, process, parent, program, from, to, status, began, length, dropped] = columns
        else {
            return;
        };
        id.text(id_text);
        process.number(i64::from(of.pid));
        parent.number(i64::from(of.parent));
        program.text(program_text);
        from.number(time(of.start));
        to.maybe_number(of.end.map(time));
        status.maybe_number(of.status.map(i64::from));
        began.number(number(trace.header.start_realtime / 1_000));
        length.number(number(trace.nanoseconds(trace.latest())));
        dropped.number(number(trace.header.dropped));
    }
}
