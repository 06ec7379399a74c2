//! The tables of a profile: stacks, frames, functions, files, and the texts that all threads share.

use crate::replay::waits::{Kind, Role, Waits, is_of_system};
use crate::replay::{NAMELESS, Names, SourceLines, hex, json_string};
use mcount_trace::Module;
use std::collections::{BTreeMap, HashMap};
use std::fmt::Write;

/// The categories of functions, by their numbers.
pub(super) const CATEGORIES: &str = "[{\"name\":\"Other\",\"color\":\"grey\",\"subcategories\":[\"Other\"]},\
                                     {\"name\":\"Program\",\"color\":\"yellow\",\"subcategories\":[\"Other\"]},\
                                     {\"name\":\"Library\",\"color\":\"blue\",\"subcategories\":[\"Other\"]},\
                                     {\"name\":\"System\",\"color\":\"orange\",\"subcategories\":[\"Other\"]},\
                                     {\"name\":\"Waiting\",\"color\":\"transparent\",\"subcategories\":[\"Other\"]}]";
const PROGRAM: usize = 1;
const LIBRARY: usize = 2;
const SYSTEM_CALL: usize = 3;
const WAITING: usize = 4;

/// Greater addresses aren't exact in JavaScript.
const EXACT: u64 = 1 << 53;

/// What all threads have in common. Texts have these numbers: the names of functions by their places in the trace, [`NAMELESS`], the
/// name of markers, the file names of modules by their places in the trace, and those of source files.
pub(super) struct Known<'w> {
    names: &'w Names<'w, 'w>,
    lines: Option<&'w SourceLines>,
    waits: Waits,
    /// The places of source files among them.
    sources: BTreeMap<String, usize>,
    /// The last program of each process, by its ID.
    processes: HashMap<u32, usize>,
}

impl<'w> Known<'w> {
    pub(super) fn of(names: &'w Names<'w, 'w>, lines: Option<&'w SourceLines>) -> Self {
        let trace = names.trace;
        let found = trace.functions.iter().filter_map(|one| lines?.get(one.number));
        let mut sources: BTreeMap<String, usize> =
            found.map(|line| (line.file.to_string(), 0)).collect();
        sources.values_mut().zip(0..).for_each(|(place, at)| *place = at);
        let processes = trace.processes.iter().map(|process| process.pid).zip(0..).collect();
        Self { names, lines, waits: Waits::of(trace), sources, processes }
    }

    fn nameless(&self) -> usize {
        self.names.trace.functions.len()
    }

    fn mark(&self) -> usize {
        self.nameless() + 1
    }

    fn first_module(&self) -> usize {
        self.nameless() + 2
    }

    fn first_source(&self) -> usize {
        self.first_module() + self.names.trace.modules.len()
    }

    /// The texts and source files.
    pub(super) fn shared(&self) -> String {
        let trace = self.names.trace;
        let functions = trace.functions.iter().map(|one| self.names.function(one.number));
        let mut texts: Vec<String> = functions.map(|name| name.json.clone()).collect();
        texts.extend([NAMELESS, "mark"].map(json_string));
        texts.extend(trace.modules.iter().map(|module| json_string(&file_name(module))));
        texts.extend(self.sources.keys().map(|file| json_string(file)));
        let files = 0..self.sources.len();
        let names = files.clone().map(|at| (self.first_source() + at).to_string());
        format!(
            "{{\"stringArray\":[{}],\"sources\":{{\"length\":{},\"uuid\":[{}],\"filename\":[{}]}}}}",
            texts.join(","),
            self.sources.len(),
            files.map(|_| "null").collect::<Vec<_>>().join(","),
            names.collect::<Vec<_>>().join(",")
        )
    }

    /// The modules.
    pub(super) fn libraries(&self) -> String {
        let library = |module: &Module<'_>| {
            let path = json_string(&String::from_utf8_lossy(module.path));
            let name = json_string(&file_name(module));
            let code = match hex(module.build_id) {
                code if code.is_empty() => "null".to_owned(),
                code => format!("\"{code}\""),
            };
            let breakpad = breakpad_id(module.build_id, self.names.trace.header.big_endian);
            format!(
                "{{\"arch\":\"\",\"name\":{name},\"path\":{path},\"debugName\":{name},\"debugPath\":{path},\
                 \"breakpadId\":\"{breakpad}\",\"codeId\":{code}}}"
            )
        };
        let all: Vec<String> = self.names.trace.modules.iter().map(library).collect();
        format!("[{}]", all.join(","))
    }

    fn category(&self, number: u32) -> usize {
        let trace = self.names.trace;
        let symbol = trace.function(number).map_or(&b""[..], |function| function.name);
        let is_system = is_of_system(&String::from_utf8_lossy(symbol));
        match (self.waits.kind(trace, number), self.waits.role(trace, number)) {
            (Kind::OffCpu | Kind::Preempted | Kind::Waits, _) => WAITING,
            _ if is_system => SYSTEM_CALL,
            (Kind::Runs, Role::Plain) => PROGRAM,
            (Kind::Runs, _) => LIBRARY,
        }
    }
}

fn file_name(module: &Module<'_>) -> String {
    let path = String::from_utf8_lossy(module.path);
    path.rsplit('/').next().unwrap_or_default().to_owned()
}

/// A build ID as Breakpad writes it: a GUID of the first 16 bytes, whose first three parts are numbers, and an age of 0.
fn breakpad_id(build_id: &[u8], big_endian: bool) -> String {
    const LITTLE: [usize; 16] = [3, 2, 1, 0, 5, 4, 7, 6, 8, 9, 10, 11, 12, 13, 14, 15];
    let place = |at: usize| if big_endian { at } else { LITTLE.get(at).copied().unwrap_or(at) };
    let bytes = (0..16).map(|at| build_id.get(place(at)).copied().unwrap_or(0));
    let bytes: Vec<u8> = bytes.collect();
    format!("{}0", hex(&bytes).to_uppercase())
}

/// The tables of a thread.
pub(super) struct Tables<'w> {
    known: &'w Known<'w>,
    /// The stack that each stack is called by, and its last function.
    stacks: Vec<(Option<u32>, u32)>,
    stack_numbers: HashMap<(Option<u32>, u32), u32, foldhash::fast::RandomState>,
    /// The functions, by their numbers in the trace; each has one frame.
    functions: Vec<u32>,
    frames: HashMap<u32, u32, foldhash::fast::RandomState>,
}

impl<'w> Tables<'w> {
    pub(super) fn new(known: &'w Known<'w>) -> Self {
        Self {
            known,
            stacks: Vec::new(),
            stack_numbers: HashMap::default(),
            functions: Vec::new(),
            frames: HashMap::default(),
        }
    }

    /// The number of the stack where `caller` calls `function`.
    #[inline]
    pub(super) fn stack(&mut self, caller: Option<u32>, function: u32) -> u32 {
        if let Some(known) = self.stack_numbers.get(&(caller, function)) {
            return *known;
        }
        let next = u32::try_from(self.functions.len()).unwrap_or(u32::MAX);
        let frame = *self.frames.entry(function).or_insert_with(|| {
            self.functions.push(function);
            next
        });
        let number = u32::try_from(self.stacks.len()).unwrap_or(u32::MAX);
        self.stacks.push((caller, frame));
        self.stack_numbers.insert((caller, function), number);
        number
    }

    /// The place of the last program that a process ran.
    pub(super) fn process(&self, pid: u32) -> Option<usize> {
        self.known.processes.get(&pid).copied()
    }

    /// The number of the text that names markers.
    pub(super) fn mark(&self) -> usize {
        self.known.mark()
    }

    /// All of them, as members of an object.
    pub(super) fn json(&self) -> String {
        let mut stacks = Table::new("stackTable", self.stacks.len());
        stacks.column("frame", self.stacks.iter().map(|(_, frame)| frame.to_string()));
        stacks.column("prefix", self.stacks.iter().map(|(caller, _)| or_null(*caller)));
        let rows = self.rows();
        let mut frames = Table::new("frameTable", rows.len());
        frames.column("address", rows.iter().map(|row| row.address.clone()));
        frames.column("category", rows.iter().map(|row| row.category.to_string()));
        frames.column("func", (0..rows.len()).map(|at| at.to_string()));
        frames.column("line", rows.iter().map(|row| or_null(row.line)));
        frames.column("nativeSymbol", rows.iter().map(|row| or_null(row.symbol)));
        for (name, value) in [
            ("inlineDepth", "0"),
            ("subcategory", "0"),
            ("innerWindowID", "null"),
            ("column", "null"),
        ] {
            frames.column(name, rows.iter().map(|_| value.to_owned()));
        }
        let mut functions = Table::new("funcTable", rows.len());
        functions.column("name", rows.iter().map(|row| row.name.to_string()));
        functions.column(
            "resource",
            rows.iter().map(|row| row.resource.map_or("-1".to_owned(), |at| at.to_string())),
        );
        functions.column("source", rows.iter().map(|row| or_null(row.source)));
        functions.column("lineNumber", rows.iter().map(|row| or_null(row.line)));
        for (name, value) in
            [("isJS", "false"), ("relevantForJS", "false"), ("columnNumber", "null")]
        {
            functions.column(name, rows.iter().map(|_| value.to_owned()));
        }
        let all = [stacks, frames, functions, Self::symbols(&rows), self.resources(&rows)];
        let all: Vec<String> = all.map(Table::json).into();
        all.join(",")
    }

    /// The functions, in the order of their numbers.
    fn rows(&self) -> Vec<Row> {
        let trace = self.known.names.trace;
        let mut resources: HashMap<usize, usize> = HashMap::new();
        let mut symbols = 0..;
        let row = |number: &u32| {
            let at = trace.function_index(*number);
            let function = at.and_then(|at| trace.functions.get(at));
            let module = function.and_then(|function| {
                trace.modules.binary_search_by_key(&function.module, |module| module.number).ok()
            });
            let address = function.map(|function| function.address).filter(|at| *at < EXACT);
            let source = self.known.lines.and_then(|lines| lines.get(*number));
            let next = resources.len();
            Row {
                name: at.unwrap_or_else(|| self.known.nameless()),
                address: address.map_or_else(|| "-1".to_owned(), |address| address.to_string()),
                size: function
                    .map(|function| function.size)
                    .filter(|size| *size != 0 && *size < EXACT),
                category: self.known.category(*number),
                line: source.map(|source| source.line).filter(|line| *line != 0),
                source: source.and_then(|source| self.known.sources.get(&*source.file)).copied(),
                module,
                resource: module.map(|module| *resources.entry(module).or_insert(next)),
                symbol: module.and(address).and_then(|_| symbols.next()),
            }
        };
        self.functions.iter().map(row).collect()
    }

    fn symbols(rows: &[Row]) -> Table {
        let with_symbol = || rows.iter().filter(|row| row.symbol.is_some());
        let mut symbols = Table::new("nativeSymbols", with_symbol().count());
        symbols.column("address", with_symbol().map(|row| row.address.clone()));
        symbols.column("functionSize", with_symbol().map(|row| or_null(row.size)));
        symbols.column("libIndex", with_symbol().map(|row| or_null(row.module)));
        symbols.column("name", with_symbol().map(|row| row.name.to_string()));
        symbols
    }

    fn resources(&self, rows: &[Row]) -> Table {
        // In the order of their numbers.
        let modules: BTreeMap<usize, usize> =
            rows.iter().filter_map(|row| row.resource.zip(row.module)).collect();
        let first = self.known.first_module();
        let mut resources = Table::new("resourceTable", modules.len());
        resources.column("lib", modules.values().map(usize::to_string));
        resources.column("name", modules.values().map(|module| (first + module).to_string()));
        // Of a library.
        for (name, value) in [("host", "null"), ("type", "1")] {
            resources.column(name, modules.keys().map(|_| value.to_owned()));
        }
        resources
    }
}

/// A function, as tables have it.
struct Row {
    name: usize,
    address: String,
    size: Option<u64>,
    category: usize,
    line: Option<u32>,
    source: Option<usize>,
    /// The places of its module, among all and among those of the thread, and that of its symbol.
    module: Option<usize>,
    resource: Option<usize>,
    symbol: Option<usize>,
}

/// A table: a list for each column.
struct Table(String);

impl Table {
    fn new(name: &str, length: usize) -> Self {
        Self(format!("\"{name}\":{{\"length\":{length}"))
    }

    fn column(&mut self, name: &str, values: impl Iterator<Item = String>) {
        let _ = write!(self.0, ",\"{name}\":[");
        for (at, value) in values.enumerate() {
            if at > 0 {
                self.0.push(',');
            }
            self.0.push_str(&value);
        }
        self.0.push(']');
    }

    fn json(mut self) -> String {
        self.0.push('}');
        self.0
    }
}

fn or_null(value: Option<impl ToString>) -> String {
    value.map_or_else(|| "null".to_owned(), |value| value.to_string())
}
