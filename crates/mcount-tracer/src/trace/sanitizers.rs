//! Sanitizers that have the addresses which the shadows of stacks take. In their programs, returns can't be traced.
//!
//! Which ones these are is a matter of their runtimes: tests/trace/sanitizers.rs walks those of the compilers.

use object::read::elf::ElfFile64;
use object::{Architecture, Endianness, Object, ObjectSymbol};
use std::ffi::OsStr;
use std::path::{Path, PathBuf};

/// A function of the runtime, and what is reported.
const ALL: [(&str, &str); 4] = [
    // On x86-64, its fixed range holds the shadows of stacks that are above 0x7fff_0000_0000: of one in four runs.
    ("__hwasan_init", "HWAddressSanitizer uses the addresses that tracing of returns needs"),
    ("__tsan_init", "ThreadSanitizer uses the addresses that tracing of returns needs"),
    ("__msan_init", "MemorySanitizer uses the addresses that tracing of returns needs"),
    ("dfsan_set_label", "DataFlowSanitizer uses the addresses that tracing of returns needs"),
];

/// A function of each runtime that looks for leaks when the program ends, and the variable with its options. It stops all threads for
/// that with `ptrace`, and ends the program with an error if they have a tracer already.
const LEAKS: [(&str, &str); 2] = [("__asan_init", "ASAN_OPTIONS"), ("__lsan_init", "LSAN_OPTIONS")];

/// What of one of these functions, if `file` has one.
fn find(file: &ElfFile64<'_, Endianness>, all: &[(&str, &'static str)]) -> Option<&'static str> {
    file.symbols().chain(file.dynamic_symbols()).find_map(|symbol| {
        let name = symbol.name().ok()?;
        all.iter().find(|(function, _)| *function == name).map(|(_, what)| *what)
    })
}

/// Why returns can't be traced in a program that `file` is part of, if that's so.
pub(super) fn of(file: &ElfFile64<'_, Endianness>) -> Option<&'static str> {
    // Elsewhere, HWAddressSanitizer chooses its addresses when the program starts.
    let is_x86 = file.architecture() == Architecture::X86_64;
    find(file, ALL.get(usize::from(!is_x86)..)?)
}

/// The same of the program that `command` would run.
pub(super) fn of_program(command: &OsStr) -> Option<&'static str> {
    in_program(command, of)
}

/// The variable with which the program that `command` would run can be told to look for no leaks when it ends, if it isn't told that.
pub(super) fn leaks_of_program(command: &OsStr) -> Option<&'static str> {
    let variable = in_program(command, |file| find(file, &LEAKS))?;
    let set = std::env::var(variable).unwrap_or_default();
    let is_off = ["detect_leaks=0", "detect_leaks=false"].iter().any(|off| set.contains(off));
    (!is_off).then_some(variable)
}

fn in_program(
    command: &OsStr,
    ask: impl FnOnce(&ElfFile64<'_, Endianness>) -> Option<&'static str>,
) -> Option<&'static str> {
    let command = Path::new(command);
    let path = if command.components().count() > 1 {
        command.to_owned()
    } else {
        let paths = std::env::var_os("PATH")?;
        std::env::split_paths(&paths).map(|one| one.join(command)).find(is_file)?
    };
    let input = crate::files::Input::open(&path).ok()?;
    ask(&ElfFile64::parse(input.bytes()).ok()?)
}

fn is_file(path: &PathBuf) -> bool {
    std::fs::metadata(path).is_ok_and(|found| found.is_file())
}
