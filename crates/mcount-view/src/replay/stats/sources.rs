//! The source files of functions: from the debug information of the modules, if those are still the same.

use crate::debug::Sections;
use crate::debug::lines::Lines;
use crate::replay::subject::{NO_DEBUG, subject};
use crate::words::printable;
use mcount_trace::{Function, Module, Trace};
use std::collections::HashMap;

/// Facts about modules, by their number: the source file of each function, by address.
#[derive(Default)]
pub(super) struct Sources {
    files: HashMap<u32, HashMap<u64, String>>,
    warnings: Vec<String>,
}

impl Sources {
    /// The source file of a function, if that is known.
    pub(super) fn find(&mut self, trace: &Trace<'_>, function: &Function<'_>) -> Option<String> {
        if !self.files.contains_key(&function.module) {
            let module = trace.module(function.module)?;
            let files = read(trace, module).unwrap_or_else(|why| {
                let path = String::from_utf8_lossy(module.path);
                self.warnings.push(format!("warning: {}: {why}", printable(&path)));
                HashMap::new()
            });
            self.files.insert(function.module, files);
        }
        self.files.get(&function.module)?.get(&function.address).cloned()
    }

    /// Modules whose source files aren't known, and why.
    pub(super) fn into_warnings(self) -> Vec<String> {
        self.warnings
    }
}

/// The source files of a module's functions, by address; or why they aren't known.
fn read(trace: &Trace<'_>, module: &Module<'_>) -> Result<HashMap<u64, String>, String> {
    let subject = subject(module)?;
    let sections = Sections::load(subject.debug());
    let lines = sections.as_ref().and_then(Lines::new);
    let mut lines = lines.ok_or_else(|| NO_DEBUG.to_owned())?;
    let mut files = HashMap::new();
    for function in trace.functions.iter().filter(|function| function.module == module.number) {
        if let Some(line) = lines.find(None, None, Some(function.address)) {
            files.insert(function.address, line.file.to_string());
        }
    }
    if files.is_empty() {
        return Err(NO_DEBUG.to_owned());
    }
    Ok(files)
}
