//! The source lines of functions: from the debug information of the modules, if those are still the same.

use super::subject::{NO_DEBUG, subject};
use crate::debug::Sections;
use crate::debug::lines::{Line, Lines};
use crate::words::printable;
use mcount_trace::{Function, Module, Trace};
use std::collections::HashMap;

/// Facts about modules, by their number: the source line of each function, by address.
#[derive(Default)]
pub(super) struct Sources {
    lines: HashMap<u32, HashMap<u64, Line>>,
    warnings: Vec<String>,
}

impl Sources {
    /// Where a function begins in its source, if that is known.
    pub(super) fn find(&mut self, trace: &Trace<'_>, function: &Function<'_>) -> Option<Line> {
        if !self.lines.contains_key(&function.module) {
            let module = trace.module(function.module)?;
            // What the kernel does is in no file.
            if module.path.starts_with(b"[") {
                return None;
            }
            let lines = read(trace, module).unwrap_or_else(|why| {
                let path = String::from_utf8_lossy(module.path);
                self.warnings.push(format!("warning: {}: {why}", printable(&path)));
                HashMap::new()
            });
            self.lines.insert(function.module, lines);
        }
        self.lines.get(&function.module)?.get(&function.address).cloned()
    }

    /// Modules whose source files aren't known, and why.
    pub(super) fn into_warnings(self) -> Vec<String> {
        self.warnings
    }
}

/// The source lines of a module's functions, by address; or why they aren't known.
fn read(trace: &Trace<'_>, module: &Module<'_>) -> Result<HashMap<u64, Line>, String> {
    let subject = subject(module)?;
    let sections = Sections::load(subject.debug());
    let lines = sections.as_ref().and_then(Lines::new);
    let mut lines = lines.ok_or_else(|| NO_DEBUG.to_owned())?;
    let mut found = HashMap::new();
    for function in trace.functions.iter().filter(|function| function.module == module.number) {
        if let Some(line) = lines.find(None, None, Some(function.address)) {
            found.insert(function.address, line);
        }
    }
    if found.is_empty() {
        return Err(NO_DEBUG.to_owned());
    }
    Ok(found)
}

/// Where the functions of a trace begin in their source.
#[derive(Debug, Clone, Default)]
pub struct SourceLines {
    /// By the function's number.
    lines: HashMap<u32, Line>,
    /// Modules whose source isn't known, and why.
    pub warnings: Vec<String>,
}

impl SourceLines {
    /// Looks up those of all functions.
    #[must_use]
    pub fn of(trace: &Trace<'_>) -> Self {
        let mut sources = Sources::default();
        let line =
            |function: &Function<'_>| Some((function.number, sources.find(trace, function)?));
        let lines = trace.functions.iter().filter_map(line).collect();
        Self { lines, warnings: sources.into_warnings() }
    }

    /// That of the function with this number.
    pub(super) fn get(&self, function: u32) -> Option<&Line> {
        self.lines.get(&function)
    }
}
