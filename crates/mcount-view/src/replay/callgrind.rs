//! A profile for KCachegrind and `callgrind_annotate`, in the format that Valgrind's manual describes ("Callgrind Format
//! Specification").
//!
//! Calls of a function by another one are one line. Of calls within calls of the same function, the time of the outermost counts, so that
//! what all callers paid for a function is what `mcount stats` calls its total, also where functions call themselves. Each thread is a
//! function of its own, which calls its outermost functions.

use super::chains::{Chain, Chains, Last, Order, Scope, collect};
use super::parallel::PrintJob;
use super::waits::Waits;
use super::{Names, SourceLines, printable, program_name};
use mcount_trace::Trace;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::io::{self, Write};
use std::num::NonZeroU32;

/// The file of a function, if it isn't known.
const NO_FILE: &str = "???";

/// The most columns of numbers.
const MOST: usize = 4;

/// Numbers of a function, or of what it called, in the order of [`EVENTS`].
type Costs = [u64; MOST];

/// The columns: their names, and what they mean. A trace without times has only the last one.
const EVENTS: [(&str, &str); MOST] = [
    ("Time", "Nanoseconds"),
    ("Running", "Nanoseconds on the processor"),
    ("Waiting", "Nanoseconds waiting"),
    ("Calls", "Calls"),
];

pub(super) fn print(
    out: &mut impl Write,
    work: &PrintJob<'_, '_, '_>,
    lines: Option<&SourceLines>,
) -> io::Result<()> {
    let PrintJob { names, filter, progress } = *work;
    let trace = names.trace;
    let waits = Waits::of(trace);
    let threads: Vec<u32> = (0..).zip(&trace.threads).map(|(at, _)| at).collect();
    let scope = Scope::of_profile(trace, filter, &waits, &threads);
    let (has_times, is_split) = (scope.has_times, scope.waits.is_some());
    let order = Order::of(names);
    let calls = Calls::of(&collect(&scope, progress), &order);
    let shown = [has_times, is_split, is_split, true];
    let mut profile = Profile { out, names, lines, shown, known: HashMap::default() };
    profile.head(&calls)?;
    profile.functions(&calls)
}

/// The calls, added up by caller and callee.
#[derive(Default)]
struct Calls {
    /// The costs of each function alone, by name.
    functions: Vec<(Last, Costs)>,
    /// The callees of each, in the same order: how often it called them, and their costs with their own callees.
    callees: HashMap<Last, Vec<(Last, u64, Costs)>, foldhash::fast::RandomState>,
}

impl Calls {
    fn of(chains: &Chains, order: &Order) -> Self {
        let totals = totals(chains);
        let mut functions: HashMap<Last, Costs, foldhash::fast::RandomState> = HashMap::default();
        let mut edges: HashMap<(Last, Last), (u64, Costs), foldhash::fast::RandomState> =
            HashMap::default();
        let mut open: HashMap<Last, u32, foldhash::fast::RandomState> = HashMap::default();
        let mut path: Vec<Last> = Vec::new();
        for at in chains.in_order(order) {
            let Some((chain, total)) = chains.all.get(at).zip(totals.get(at)) else { continue };
            for over in path.drain(chain.length.min(path.len())..) {
                open.entry(over).and_modify(|count| *count -= 1);
            }
            add(functions.entry(chain.last).or_default(), &costs(chain));
            let count = open.entry(chain.last).or_default();
            if let Some(caller) = path.last() {
                let (calls, cost) = edges.entry((*caller, chain.last)).or_default();
                *calls = calls.saturating_add(chain.all_calls());
                if *count == 0 {
                    add(cost, total);
                }
            }
            *count += 1;
            path.push(chain.last);
        }
        let mut functions: Vec<_> = functions.into_iter().collect();
        functions.sort_by_key(|(last, _)| order.key(*last));
        let mut edges: Vec<_> = edges.into_iter().collect();
        edges.sort_by_key(|((_, callee), _)| order.key(*callee));
        let mut calls = Self { functions, ..Self::default() };
        for ((caller, callee), (count, cost)) in edges {
            calls.callees.entry(caller).or_default().push((callee, count, cost));
        }
        calls
    }
}

/// The costs of the last function of a chain alone.
fn costs(chain: &Chain) -> Costs {
    let [running, waiting] = chain.split();
    // It's negative if calls overlap.
    [u64::try_from(chain.own).unwrap_or(0), running, waiting, chain.all_calls()]
}

/// The costs of each chain, with all callees. Parents come before what they are in.
fn totals(chains: &Chains) -> Vec<Costs> {
    let mut totals: Vec<Costs> = chains.all.iter().map(costs).collect();
    for (at, chain) in chains.all.iter().enumerate().rev() {
        let Some(total) = totals.get(at).copied() else { continue };
        if let Some(parent) = chain.parent.and_then(|parent| totals.get_mut(parent)) {
            add(parent, &total);
        }
    }
    totals
}

fn add(to: &mut Costs, more: &Costs) {
    for (to, more) in to.iter_mut().zip(more) {
        *to = to.saturating_add(*more);
    }
}

/// Kinds of names, each with numbers of its own.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
enum Kind {
    Object,
    File,
    Function,
}

struct Profile<'p, 't, 'a, W> {
    out: &'p mut W,
    names: &'p Names<'t, 'a>,
    lines: Option<&'p SourceLines>,
    /// Which of [`EVENTS`] are written.
    shown: [bool; MOST],
    /// The numbers of names that were written.
    known: HashMap<(Kind, String), usize, foldhash::fast::RandomState>,
}

impl<W: Write> Profile<'_, '_, '_, W> {
    fn head(&mut self, calls: &Calls) -> io::Result<()> {
        let trace = self.names.trace;
        let creator = concat!("mcount ", env!("CARGO_PKG_VERSION"));
        write!(self.out, "# callgrind format\nversion: 1\ncreator: {creator}\n")?;
        if let Some(process) = trace.processes.first() {
            let path = String::from_utf8_lossy(process.name);
            write!(self.out, "pid: {}\ncmd: {}\n", process.pid, printable(&path))?;
        }
        for note in &trace.notes {
            writeln!(self.out, "desc: Note: {}", printable(&String::from_utf8_lossy(note)))?;
        }
        writeln!(self.out, "positions: line")?;
        let events = EVENTS.iter().zip(self.shown).filter(|(_, is_shown)| *is_shown);
        let mut all = String::new();
        for ((name, meaning), _) in events {
            writeln!(self.out, "event: {name} : {meaning}")?;
            let _ = write!(all, " {name}");
        }
        let mut sum = Costs::default();
        for (_, costs) in &calls.functions {
            add(&mut sum, costs);
        }
        write!(self.out, "events:{all}\nsummary:{}\n", self.numbers(&sum))
    }

    /// The numbers that are shown, each after a space.
    fn numbers(&self, costs: &Costs) -> String {
        let shown = costs.iter().zip(self.shown).filter(|(_, is_shown)| *is_shown);
        let mut text = String::new();
        for (cost, _) in shown {
            let _ = write!(text, " {cost}");
        }
        text
    }

    fn functions(&mut self, calls: &Calls) -> io::Result<()> {
        for (last, costs) in &calls.functions {
            let (names, line) = self.place(*last, ["ob", "fl", "fn"]);
            let own = self.numbers(costs);
            write!(self.out, "\n{names}{line}{own}\n")?;
            for (callee, count, costs) in calls.callees.get(last).into_iter().flatten() {
                let (names, target) = self.place(*callee, ["cob", "cfi", "cfn"]);
                let costs = self.numbers(costs);
                write!(self.out, "{names}calls={count} {target}\n{line}{costs}\n")?;
            }
        }
        Ok(())
    }

    /// The lines that name a function's file, source file and name, and the source line that it begins on.
    fn place(&mut self, last: Last, keys: [&str; 3]) -> (String, u32) {
        let trace = self.names.trace;
        let (object, file, name, line) = match last {
            Last::Function(number) => {
                let name = self.names.function(number);
                let source = self.lines.and_then(|lines| lines.get(number));
                let file = source.map_or(NO_FILE, |source| &source.file);
                let line = source.map_or(0, |source| source.line);
                let object = if name.module.is_empty() { NO_FILE } else { &name.module };
                (object.to_owned(), printable(file).into_owned(), name.text.clone(), line)
            }
            Last::Process(process, thread) => {
                let of = process.and_then(|at| trace.processes.get(at));
                let path = of.map_or(NO_FILE.into(), |of| String::from_utf8_lossy(of.name));
                let name = thread_name(trace, process, thread);
                (printable(&path).into_owned(), NO_FILE.to_owned(), name, 0)
            }
        };
        let all = [(Kind::Object, object), (Kind::File, file), (Kind::Function, name)];
        let mut lines = String::new();
        for (key, (kind, name)) in keys.into_iter().zip(all) {
            let next = self.known.len() + 1;
            if let Some(known) = self.known.get(&(kind, name.clone())) {
                let _ = writeln!(lines, "{key}=({known})");
            } else {
                let _ = writeln!(lines, "{key}=({next}) {name}");
                self.known.insert((kind, name), next);
            }
        }
        (lines, line)
    }
}

/// The name of a thread among functions, whose names have no brackets.
fn thread_name(trace: &Trace<'_>, process: Option<usize>, thread: Option<NonZeroU32>) -> String {
    let program = program_name(trace, process);
    let thread = thread.and_then(|thread| usize::try_from(thread.get() - 1).ok());
    let Some(thread) = thread.and_then(|thread| trace.threads.get(thread)) else {
        return format!("[{program}]");
    };
    let name = String::from_utf8_lossy(thread.name);
    let name = if name.is_empty() { name } else { format!(" {}", printable(&name)).into() };
    format!("[{program} {}, thread {}{name}]", thread.pid, thread.tid)
}
