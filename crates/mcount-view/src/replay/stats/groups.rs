//! The kinds of rows: functions, modules, source files, threads, or callers.

use super::By;
use crate::replay::sources::Sources;
use crate::replay::{NAMELESS, Name, Names};
use mcount_trace::Call;
use std::collections::HashMap;

/// The kind of rows.
pub(super) enum Group<'n> {
    /// A function, or what called: its number and its name.
    Function(u32, &'n Name),
    /// A module, or a source file.
    File(String),
    Thread {
        pid: u32,
        tid: u32,
        name: String,
    },
    /// An unknown row, or none: of the outermost calls, the caller.
    Nobody,
}

impl Group<'_> {
    /// What rows are sorted by that are equal otherwise.
    pub(super) fn key(&self) -> (&str, &str, u32) {
        match self {
            Self::Function(_, name) => (&name.text, &name.module, 0),
            Self::File(path) => (path, "", 0),
            Self::Thread { tid, .. } => ("", "", *tid),
            Self::Nobody => ("", "", 0),
        }
    }

    /// The number of the function, if it's one.
    pub(super) fn function(&self) -> Option<u32> {
        if let Self::Function(number, _) = self { Some(*number) } else { None }
    }

    /// Its name in text.
    pub(super) fn name(&self) -> String {
        match self {
            Self::Function(_, name) => name.text.clone(),
            Self::File(path) => path.clone(),
            Self::Thread { tid, name, .. } if name.is_empty() => tid.to_string(),
            Self::Thread { tid, name, .. } => format!("{tid} {name}"),
            Self::Nobody => NAMELESS.to_owned(),
        }
    }
}

/// All groups of a trace.
pub(super) struct Groups<'n> {
    by: By,
    all: Vec<Group<'n>>,
    /// The group of each function, by its place in the trace.
    of_functions: Vec<usize>,
    /// The same by the function's number, as long as numbers are small, which they are.
    of_numbers: Vec<u32>,
    names: &'n mcount_trace::Trace<'n>,
    warnings: Vec<String>,
}

impl<'n> Groups<'n> {
    pub(super) fn new(names: &'n Names<'n, 'n>, by: By) -> Self {
        let trace = names.trace;
        let mut groups = Self {
            by,
            all: Vec::new(),
            of_functions: Vec::new(),
            of_numbers: Vec::new(),
            names: trace,
            warnings: Vec::new(),
        };
        match by {
            By::Function | By::State | By::Caller => {
                let functions = trace.functions.iter();
                let name = |function: &mcount_trace::Function<'_>| {
                    Group::Function(function.number, names.function(function.number))
                };
                groups.all = functions.map(name).collect();
                groups.of_functions = (0..groups.all.len()).collect();
            }
            By::Module => {
                let path = |at: usize| {
                    let function = trace.functions.get(at);
                    function.map(|function| names.function(function.number).module.clone())
                };
                groups.add_files((0..trace.functions.len()).map(path));
            }
            By::Source => {
                let mut sources = Sources::default();
                let file = |function: &mcount_trace::Function<'_>| {
                    sources.find(trace, function).map(|line| line.file.to_string())
                };
                let files: Vec<_> = trace.functions.iter().map(file).collect();
                groups.add_files(files.into_iter());
                groups.warnings = sources.into_warnings();
            }
            By::Thread => {
                groups.all = trace
                    .threads
                    .iter()
                    .map(|thread| Group::Thread {
                        pid: thread.pid,
                        tid: thread.tid,
                        name: String::from_utf8_lossy(thread.name).into_owned(),
                    })
                    .collect();
            }
        }
        groups.all.push(Group::Nobody);
        let numbers = 0..u32::try_from(trace.functions.len() + 1).unwrap_or(0);
        let group = |number| u32::try_from(groups.of_function(number)).unwrap_or(u32::MAX);
        groups.of_numbers = numbers.map(group).collect();
        groups
    }

    /// Groups functions by these files.
    fn add_files(&mut self, files: impl Iterator<Item = Option<String>>) {
        let mut known: HashMap<String, usize> = HashMap::new();
        let files: Vec<_> = files.collect();
        for path in files.iter().flatten().filter(|path| !path.is_empty()) {
            if !known.contains_key(path) {
                known.insert(path.clone(), self.all.len());
                self.all.push(Group::File(path.clone()));
            }
        }
        let nobody = self.all.len();
        let place = |path: &Option<String>| path.as_ref().and_then(|path| known.get(path)).copied();
        self.of_functions = files.iter().map(|path| place(path).unwrap_or(nobody)).collect();
    }

    /// They all, the unknown one last.
    pub(super) fn all(&self) -> &[Group<'n>] {
        &self.all
    }

    /// The place of a call's group.
    #[expect(
        clippy::inline_always,
        reason = "each call goes through it, and the compiler leaves it out of line"
    )]
    #[inline(always)]
    pub(super) fn of(&self, call: &Call) -> usize {
        let function = match self.by {
            By::Thread => return call.thread.min(self.all.len() - 1),
            By::Caller => match call.caller {
                Some(caller) => caller,
                None => return self.all.len() - 1,
            },
            By::Function | By::State | By::Module | By::Source => call.function,
        };
        match self.of_numbers.get(function as usize) {
            Some(group) => *group as usize,
            None => self.of_function(function),
        }
    }

    fn of_function(&self, number: u32) -> usize {
        let place = self.names.function_index(number).and_then(|at| self.of_functions.get(at));
        place.copied().unwrap_or(self.all.len() - 1)
    }

    pub(super) fn into_warnings(self) -> Vec<String> {
        self.warnings
    }
}
