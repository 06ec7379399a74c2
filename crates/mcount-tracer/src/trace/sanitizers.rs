//! Sanitizers that have the addresses which the shadows of stacks take. In their programs, returns can't be traced.
//!
//! Which ones these are is a matter of their runtimes: tests/trace/sanitizers.rs walks those of the compilers.

use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSymbol};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// A function of the runtime, and what is said.
const ALL: [(&str, &str); 3] = [
    ("__tsan_init", "ThreadSanitizer has the addresses that tracing returns takes"),
    ("__msan_init", "MemorySanitizer has the addresses that tracing returns takes"),
    ("dfsan_set_label", "DataFlowSanitizer has the addresses that tracing returns takes"),
];

/// Why returns can't be traced in a program that `file` is part of, if that's so.
pub(super) fn of(file: &ElfFile64<'_, Endianness>) -> Option<&'static str> {
    file.symbols().chain(file.dynamic_symbols()).find_map(|symbol| {
        let name = symbol.name().ok()?;
        ALL.iter().find(|(function, _)| *function == name).map(|(_, why)| *why)
    })
}

/// The same of the program that `command` would run.
pub(super) fn of_program(command: &OsStr) -> Option<&'static str> {
    let command = Path::new(command);
    let path = if command.components().count() > 1 {
        command.to_owned()
    } else {
        let paths = std::env::var_os("PATH")?;
        std::env::split_paths(&paths).map(|one| one.join(command)).find(is_file)?
    };
    let input = crate::files::Input::open(&path).ok()?;
    of(&ElfFile64::parse(input.bytes()).ok()?)
}

fn is_file(path: &PathBuf) -> bool {
    std::fs::metadata(path).is_ok_and(|found| found.is_file())
}
