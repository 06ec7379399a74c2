//! The source files of functions: from the debug information of the modules, if those are still the same.

use crate::commit::Failure;
use crate::debug::Sections;
use crate::debug::lines::Lines;
use crate::debug::separate::{Search, Subject};
use crate::words::printable;
use mcount_trace::{Function, Module, Trace};
use object::Object;
use std::collections::HashMap;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

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
    let path = Path::new(OsStr::from_bytes(module.path));
    let subject = Subject::open(path, &Search::default(), true)
        .map_err(|error: Failure| error.to_string())?;
    let build_id = object::File::parse(subject.bytes())
        .ok()
        .and_then(|file| file.build_id().ok().flatten().map(<[u8]>::to_vec))
        .unwrap_or_default();
    if build_id != module.build_id {
        return Err("has changed since it was traced".to_owned());
    }
    let sections = Sections::load(subject.debug());
    let lines = sections.as_ref().and_then(Lines::new);
    let mut lines = lines.ok_or_else(|| "has no debug information: compile with -g".to_owned())?;
    let mut files = HashMap::new();
    for function in trace.functions.iter().filter(|function| function.module == module.number) {
        if let Some(line) = lines.find(None, None, Some(function.address)) {
            files.insert(function.address, line.file.to_string());
        }
    }
    if files.is_empty() {
        return Err("has no debug information: compile with -g".to_owned());
    }
    Ok(files)
}
