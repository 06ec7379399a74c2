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

/// Why returns can't be traced in a program that `file` is part of, if that's so.
pub(super) fn of(file: &ElfFile64<'_, Endianness>) -> Option<&'static str> {
    // Elsewhere, HWAddressSanitizer chooses its addresses when the program starts.
    let is_x86 = file.architecture() == Architecture::X86_64;
    let all = ALL.iter().skip(usize::from(!is_x86));
    file.symbols().chain(file.dynamic_symbols()).find_map(|symbol| {
        let name = symbol.name().ok()?;
        all.clone().find(|(function, _)| *function == name).map(|(_, why)| *why)
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
