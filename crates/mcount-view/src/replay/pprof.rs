//! A profile for `go tool pprof`, Pyroscope and Parca: the protocol buffers of pprof's `Profile` message, compressed by gzip. The numbers
//! of fields are those of `proto/profile.proto` in pprof's sources.
//!
//! Each chain of callers is a sample. Its values are the calls of the last function and the time in it alone, so that pprof's `flat` is
//! what `mcount stats` calls calls and self time, and `cum` is the total.

use super::chains::{Chain, Chains, Last, Order, Scope, collect};
use super::parallel::PrintJob;
use super::protobuf::{bytes, number, numbers};
use super::waits::Waits;
use super::{Names, SourceLines, hex, program_name};
use crate::words::counted;
use flate2::Compression;
use flate2::write::GzEncoder;
use mcount_trace::{Module, Trace};
use std::collections::HashMap;
use std::io::{self, Write};
use std::num::NonZeroU32;

/// Fields of messages.
mod field {
    /// Of `Profile`.
    pub(super) const SAMPLE_TYPE: u32 = 1;
    pub(super) const SAMPLE: u32 = 2;
    pub(super) const MAPPING: u32 = 3;
    pub(super) const LOCATION: u32 = 4;
    pub(super) const FUNCTION: u32 = 5;
    pub(super) const STRING: u32 = 6;
    pub(super) const TIME_NANOS: u32 = 9;
    pub(super) const DURATION_NANOS: u32 = 10;
    pub(super) const COMMENT: u32 = 13;
    pub(super) const DEFAULT_SAMPLE_TYPE: u32 = 14;

    /// Of `ValueType`.
    pub(super) const TYPE: u32 = 1;
    pub(super) const UNIT: u32 = 2;

    /// Of `Sample`.
    pub(super) const LOCATIONS: u32 = 1;
    pub(super) const VALUES: u32 = 2;
    pub(super) const LABEL: u32 = 3;

    /// Of `Label`.
    pub(super) const KEY: u32 = 1;
    pub(super) const TEXT: u32 = 2;
    pub(super) const NUMBER: u32 = 3;

    /// Of `Mapping`, `Location` and `Function`.
    pub(super) const ID: u32 = 1;

    /// Of `Mapping`.
    pub(super) const LIMIT: u32 = 3;
    pub(super) const FILE: u32 = 5;
    pub(super) const BUILD_ID: u32 = 6;
    pub(super) const HAS_FUNCTIONS: u32 = 7;
    pub(super) const HAS_FILES: u32 = 8;
    pub(super) const HAS_LINES: u32 = 9;

    /// Of `Location`.
    pub(super) const MAPPING_ID: u32 = 2;
    pub(super) const ADDRESS: u32 = 3;
    pub(super) const LINE: u32 = 4;

    /// Of `Line`.
    pub(super) const FUNCTION_ID: u32 = 1;
    pub(super) const LINE_NUMBER: u32 = 2;

    /// Of `Function`.
    pub(super) const NAME: u32 = 2;
    pub(super) const SYSTEM_NAME: u32 = 3;
    pub(super) const SOURCE_FILE: u32 = 4;
    pub(super) const START_LINE: u32 = 5;
}

pub(super) fn print(
    out: &mut impl Write,
    work: &PrintJob<'_, '_, '_>,
    lines: Option<&SourceLines>,
) -> io::Result<()> {
    let PrintJob { names, filter, progress } = *work;
    let trace = names.trace;
    let waits = Waits::of(trace);
    let threads = threads_by_name(trace);
    let scope = Scope::of_profile(trace, filter, &waits, &threads);
    let (has_times, is_split) = (scope.has_times, scope.waits.is_some());
    let chains = collect(&scope, progress);
    let mut profile = Profile {
        out: GzEncoder::new(out, Compression::default()),
        names,
        lines,
        types: types(has_times, is_split),
        texts: HashMap::default(),
        functions: HashMap::default(),
        message: Vec::new(),
    };
    profile.head()?;
    profile.mappings()?;
    profile.samples(&chains)?;
    profile.out.finish().map(drop)
}

/// The thread that the calls of each thread count with: the first one of the process with that name.
fn threads_by_name(trace: &Trace<'_>) -> Vec<u32> {
    let mut first: HashMap<(u32, &[u8]), u32> = HashMap::new();
    let threads = (0..).zip(&trace.threads);
    threads.map(|(at, thread)| *first.entry((thread.pid, thread.name)).or_insert(at)).collect()
}

/// What is counted in which unit.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Type {
    Calls,
    Time,
    Running,
    Waiting,
}

impl Type {
    fn texts(self) -> [&'static str; 2] {
        match self {
            Self::Calls => ["calls", "count"],
            Self::Time => ["time", "nanoseconds"],
            Self::Running => ["running", "nanoseconds"],
            Self::Waiting => ["waiting", "nanoseconds"],
        }
    }

    fn value(self, chain: &Chain) -> u64 {
        let [running, waiting] = chain.split();
        match self {
            Self::Calls => chain.all_calls(),
            // It's negative if calls overlap.
            Self::Time => u64::try_from(chain.own).unwrap_or(0),
            Self::Running => running,
            Self::Waiting => waiting,
        }
    }
}

fn types(has_times: bool, is_split: bool) -> &'static [Type] {
    match (has_times, is_split) {
        (false, _) => &[Type::Calls],
        (true, false) => &[Type::Calls, Type::Time],
        (true, true) => &[Type::Calls, Type::Time, Type::Running, Type::Waiting],
    }
}

struct Profile<'p, 't, 'a, W: Write> {
    out: GzEncoder<&'p mut W>,
    names: &'p Names<'t, 'a>,
    lines: Option<&'p SourceLines>,
    types: &'static [Type],
    /// The numbers of the texts that were written.
    texts: HashMap<String, u64, foldhash::fast::RandomState>,
    /// The numbers of the functions that were written, and of their locations, which are the same.
    functions: HashMap<u32, u64, foldhash::fast::RandomState>,
    message: Vec<u8>,
}

impl<W: Write> Profile<'_, '_, '_, W> {
    /// Writes a field of the profile that is a message or a text.
    fn write(&mut self, field: u32, value: &[u8]) -> io::Result<()> {
        self.message.clear();
        bytes(&mut self.message, field, value);
        self.out.write_all(&self.message)
    }

    fn write_number(&mut self, field: u32, value: u64) -> io::Result<()> {
        self.message.clear();
        number(&mut self.message, field, value);
        self.out.write_all(&self.message)
    }

    /// The number of a text, which is written the first time.
    fn text(&mut self, text: &str) -> io::Result<u64> {
        if let Some(known) = self.texts.get(text) {
            return Ok(*known);
        }
        let next = self.texts.len() as u64;
        self.write(field::STRING, text.as_bytes())?;
        self.texts.insert(text.to_owned(), next);
        Ok(next)
    }

    /// All but what samples need: the first text is the empty one.
    fn head(&mut self) -> io::Result<()> {
        let trace = self.names.trace;
        self.text("")?;
        for one in self.types {
            let [name, unit] = one.texts();
            let mut value = Vec::new();
            number(&mut value, field::TYPE, self.text(name)?);
            number(&mut value, field::UNIT, self.text(unit)?);
            self.write(field::SAMPLE_TYPE, &value)?;
        }
        let usual = if self.types.contains(&Type::Time) { Type::Time } else { Type::Calls };
        let [usual, _] = usual.texts();
        let usual = self.text(usual)?;
        self.write_number(field::DEFAULT_SAMPLE_TYPE, usual)?;
        self.write_number(field::TIME_NANOS, trace.header.start_realtime)?;
        if trace.has_times() {
            self.write_number(field::DURATION_NANOS, trace.nanoseconds(trace.latest()))?;
        }
        let notes = trace.notes.iter().map(|note| String::from_utf8_lossy(note).into_owned());
        let mut comments: Vec<String> = notes.collect();
        if trace.header.dropped > 0 {
            comments.push(counted(
                trace.header.dropped,
                "call is missing from the trace",
                "calls are missing from the trace",
            ));
        }
        for comment in comments {
            let comment = self.text(&comment)?;
            self.write_number(field::COMMENT, comment)?;
        }
        Ok(())
    }

    /// The modules of functions. pprof takes the first one for the program.
    fn mappings(&mut self) -> io::Result<()> {
        let trace = self.names.trace;
        let program = trace.processes.first().map_or(&b""[..], |process| process.name);
        let mut modules: Vec<&Module<'_>> = trace.modules.iter().collect();
        modules.sort_by_key(|module| module.path != program);
        let mut ends: HashMap<u32, u64> = HashMap::new();
        for function in &trace.functions {
            let end = ends.entry(function.module).or_default();
            *end = (*end).max(function.address.saturating_add(function.size.max(1)));
        }
        for module in modules {
            let Some(end) = ends.get(&module.number) else { continue };
            let build_id = self.text(&hex(module.build_id))?;
            let path = self.text(&String::from_utf8_lossy(module.path))?;
            let mut mapping = Vec::new();
            number(&mut mapping, field::ID, mapping_id(module.number));
            number(&mut mapping, field::LIMIT, *end);
            number(&mut mapping, field::FILE, path);
            number(&mut mapping, field::BUILD_ID, build_id);
            // So pprof doesn't look for the file.
            number(&mut mapping, field::HAS_FUNCTIONS, 1);
            number(&mut mapping, field::HAS_FILES, u64::from(self.lines.is_some()));
            number(&mut mapping, field::HAS_LINES, u64::from(self.lines.is_some()));
            self.write(field::MAPPING, &mapping)?;
        }
        Ok(())
    }

    fn samples(&mut self, chains: &Chains) -> io::Result<()> {
        let (mut path, mut labels, mut sample) = (Vec::new(), Vec::new(), Vec::new());
        let order = chains.in_order(&Order::of(self.names));
        for chain in order.iter().filter_map(|at| chains.all.get(*at)) {
            match chain.last {
                Last::Process(process, thread) => {
                    path.clear();
                    labels = self.labels(process, thread)?;
                    continue;
                }
                Last::Function(function) => {
                    path.truncate(chain.length.saturating_sub(1));
                    path.push(self.function(function)?);
                }
            }
            let values = self.types.iter().map(|one| one.value(chain));
            if values.clone().all(|value| value == 0) {
                continue;
            }
            sample.clear();
            // The innermost comes first.
            numbers(&mut sample, field::LOCATIONS, path.iter().rev().copied());
            numbers(&mut sample, field::VALUES, values);
            sample.extend_from_slice(&labels);
            self.write(field::SAMPLE, &sample)?;
        }
        Ok(())
    }

    /// The labels of samples of a thread, or of all of that name.
    fn labels(
        &mut self,
        process: Option<usize>,
        thread: Option<NonZeroU32>,
    ) -> io::Result<Vec<u8>> {
        let trace = self.names.trace;
        let thread = thread.and_then(|thread| usize::try_from(thread.get() - 1).ok());
        let thread = thread.and_then(|thread| trace.threads.get(thread));
        let mut labels = Vec::new();
        let name = program_name(trace, process);
        self.label(&mut labels, "process", &name)?;
        if let Some(thread) = thread {
            let mut label = Vec::new();
            number(&mut label, field::KEY, self.text("pid")?);
            number(&mut label, field::NUMBER, u64::from(thread.pid));
            bytes(&mut labels, field::LABEL, &label);
            if !thread.name.is_empty() {
                self.label(&mut labels, "thread", &String::from_utf8_lossy(thread.name))?;
            }
        }
        Ok(labels)
    }

    fn label(&mut self, labels: &mut Vec<u8>, key: &str, text: &str) -> io::Result<()> {
        let mut label = Vec::new();
        number(&mut label, field::KEY, self.text(key)?);
        number(&mut label, field::TEXT, self.text(text)?);
        bytes(labels, field::LABEL, &label);
        Ok(())
    }

    /// The number of a function and its location, which are written the first time.
    fn function(&mut self, function: u32) -> io::Result<u64> {
        if let Some(known) = self.functions.get(&function) {
            return Ok(*known);
        }
        let next = self.functions.len() as u64 + 1;
        self.functions.insert(function, next);
        let (names, of) = (self.names, self.names.trace.function(function));
        let name = names.function(function);
        let symbol =
            of.map_or_else(|| name.text.clone().into(), |of| String::from_utf8_lossy(of.name));
        let source = self.lines.and_then(|lines| lines.get(function));
        let line = source.map_or(0, |source| u64::from(source.line));
        let mut message = Vec::new();
        number(&mut message, field::ID, next);
        number(&mut message, field::NAME, self.text(&name.text)?);
        number(&mut message, field::SYSTEM_NAME, self.text(&symbol)?);
        if let Some(source) = source {
            number(&mut message, field::SOURCE_FILE, self.text(&source.file)?);
            number(&mut message, field::START_LINE, line);
        }
        self.write(field::FUNCTION, &message)?;
        let (mut location, mut at) = (Vec::new(), Vec::new());
        number(&mut at, field::FUNCTION_ID, next);
        number(&mut at, field::LINE_NUMBER, line);
        number(&mut location, field::ID, next);
        if let Some(of) = of.filter(|of| names.trace.module(of.module).is_some()) {
            number(&mut location, field::MAPPING_ID, mapping_id(of.module));
            number(&mut location, field::ADDRESS, of.address);
        }
        bytes(&mut location, field::LINE, &at);
        self.write(field::LOCATION, &location)?;
        Ok(next)
    }
}

/// The number of a module's mapping, which isn't 0.
fn mapping_id(module: u32) -> u64 {
    u64::from(module) + 1
}
