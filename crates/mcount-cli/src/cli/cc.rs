//! `mcount cc`: a compiler launcher. It runs the compiler, then records the objects that the command
//! line says it wrote.

use super::options::OptionArgs;
use super::{ERROR, SUCCESS, complain, ended_by};
use crate::children::{self, Stamp};
use crate::commit::{Failure, record_file};
use crate::compiler;
use crate::response;
use crate::signals;
use crate::stand_in;
use clap::{Args, ValueHint};
use mcount::{Base, Error, ErrorKind, Options, RecordOptions};
use std::env;
use std::ffi::{OsStr, OsString};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

/// Options of `mcount cc` for runs that cannot be given any, as under ccache.
const OPTIONS_VARIABLE: &str = "MCOUNT_CC_OPTIONS";

#[derive(Args)]
pub(super) struct CcArgs {
    /// Make the table writable, so that a PIE or a shared object needs no text relocations;
    /// --policy all implies it
    #[arg(long)]
    writable: bool,
    /// One table section for each section of code, ordered by it, so that ld --gc-sections keeps
    /// exactly the entries of live functions
    #[arg(long)]
    link_order: bool,
    #[command(flatten)]
    options: OptionArgs,
    /// The compiler, and its arguments
    #[arg(
        value_name = "COMPILER",
        required = true,
        trailing_var_arg = true,
        value_hint = ValueHint::CommandWithArguments
    )]
    command: Vec<OsString>,
}

pub(super) const HELP: &str = "\
With -c, the objects that the compiler writes are recorded: the one of -o, or one for each source. \
Everything else passes through untouched: preprocessing, assembly output (-S), precompiled headers, \
LTO bytecode, and linking. A command that compiles and links at once, without -c, removes its objects \
itself, so nothing is recorded: compile with -c, then link. With rustc, use --emit=obj.

With -fpatchable-function-entry, gcc up to 12 writes one list of entries for a whole file. GNU ld and \
lld refuse it in C++ programs of several files (\"defined in discarded section\"), and --gc-sections may \
drop it. mcount cc splits it, as newer compilers do: a list for each section of code.

Exit codes: those of the compiler, or 128 and the number of the signal that ended it; 2 if an object \
cannot be recorded. That object is removed, so that make compiles it again. If the compiler fails, the \
objects that it did write are recorded.

Where only the name of a program can be given, link mcount-cc to mcount: mcount-cc gcc ARG is mcount \
cc gcc ARG. Or link mcount-gcc, mcount-clang-19 and the like: mcount-gcc ARG is mcount cc gcc ARG. \
Options then come from MCOUNT_CC_OPTIONS.

ccache: CCACHE_PREFIX=mcount-cc CCACHE_NAMESPACE=mcount ccache gcc ARG caches the recorded object. \
ccache doesn't look at the prefix or its options when it looks for a result, so give each set of \
options a namespace of its own. With sccache, and with servers of distcc and icecream, use mcount-gcc \
as the compiler.

Examples: mcount cc -- gcc -c file.c
          make CC=\"mcount cc -- gcc\"
          cmake -DCMAKE_C_COMPILER_LAUNCHER=\"mcount;cc;--\" .
          mcount cc --policy linux -- gcc -c file.c        # for a kernel";

/// The arguments of `mcount`, if it was called by the name of a compiler, as `mcount-cc`, or by a
/// compiler as its linker.
pub(super) fn masquerade(mut arguments: Vec<OsString>) -> Vec<OsString> {
    if let Some(arguments) = stand_in::arguments(&arguments) {
        return arguments;
    }
    let Some(name) = arguments.first().map(Path::new).and_then(Path::file_name) else {
        return arguments;
    };
    let Some(compiler) = name.as_bytes().strip_prefix(b"mcount-") else { return arguments };
    let compiler = OsStr::from_bytes(compiler).to_owned();
    let is_launcher = compiler == "cc";
    if !is_launcher && !compiler::is_compiler(&compiler) {
        return arguments;
    }
    let options = env::var_os(OPTIONS_VARIABLE).unwrap_or_default();
    let mut inserted = vec![OsString::from("cc")];
    inserted.extend(response::words(options.as_bytes()));
    if !is_launcher {
        inserted.extend([OsString::from("--"), compiler]);
    }
    arguments.splice(1..1, inserted);
    arguments
}

/// Runs the compiler, then records; the exit code.
pub(super) fn cc(arguments: &CcArgs) -> u8 {
    let options = match arguments.options.options_or(Base::All) {
        Ok(options) => options,
        Err(error) => return complain(&error.to_string()),
    };
    let mut how = arguments.options.record_options_or(Base::All);
    how.writable |= arguments.writable;
    how.link_order = arguments.link_order;
    how.split_lists = true;
    let Some((program, rest)) = arguments.command.split_first() else { return ERROR };
    let mut compiler = Command::new(program);
    compiler.args(rest);
    let objects = compiler::objects(&arguments.command);
    if objects.is_empty() {
        return not_started(program, compiler.exec());
    }
    let before: Vec<Option<Stamp>> = objects.iter().map(|object| Stamp::of(object)).collect();
    children::watch();
    for object in objects.iter().filter(|object| !object.exists() || object.is_file()) {
        // So that make does not take what is not recorded for done.
        let _ = children::begin(object, || Ok(()));
    }
    match children::status(&mut compiler) {
        Err(error) => not_started(program, error),
        Ok(status) if status.success() => record_all(&objects, &options, &how),
        Ok(status) => {
            let was_before = objects.iter().zip(&before);
            let written = was_before.filter(|(object, before)| Stamp::of(object) != **before);
            record_some(written.map(|(object, _)| object), &options, &how);
            code(program, status)
        }
    }
}

fn not_started(program: &OsStr, error: io::Error) -> u8 {
    complain(&format!("{}: {}", program.display(), Failure::from(error)))
}

/// The exit code for the way in which the compiler ended.
fn code(program: &OsStr, status: ExitStatus) -> u8 {
    if let Some(signal) = status.signal() {
        return ended_by(signal, program);
    }
    status.code().and_then(|code| u8::try_from(code).ok()).unwrap_or(ERROR)
}

/// Records what a compiler wrote; the exit code. An object that cannot be recorded is removed.
fn record_all(objects: &[PathBuf], options: &Options, how: &RecordOptions) -> u8 {
    signals::take_failed_writes_as_errors();
    let mut code = SUCCESS;
    for object in objects.iter().filter(|object| object.is_file()) {
        if let Err(failure) = record_file(object, None, options, how)
            && !has_no_code(&failure)
        {
            code = complain(&format!("{}: {failure}", object.display()));
            if let Err(error) = std::fs::remove_file(object) {
                code = complain(&format!("{}: {}", object.display(), Failure::from(error)));
            }
        }
        children::finish(object);
    }
    code
}

/// Records what a compiler wrote before it failed. make keeps such an object, and does not compile it
/// again. What cannot be recorded may be half an object: the compiler has said what is wrong.
fn record_some<'a>(
    objects: impl Iterator<Item = &'a PathBuf>,
    options: &Options,
    how: &RecordOptions,
) {
    signals::take_failed_writes_as_errors();
    for object in objects.filter(|object| object.is_file()) {
        let _ = record_file(object, None, options, how);
        children::finish(object);
    }
}

/// The compiler wrote no ELF file, such as a precompiled header, or only bytecode.
fn has_no_code(failure: &Failure) -> bool {
    use ErrorKind::{Archive, Bitcode, NotElf, SlimLto};
    let Failure::Object(Error { kind, .. }) = failure else { return false };
    matches!(kind, NotElf | Archive | Bitcode | SlimLto)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_stand_for_a_compiler() {
        let cases: &[(&str, &str)] = &[
            ("mcount a", "mcount a"),
            ("/bin/mcount-cc gcc -c", "/bin/mcount-cc cc gcc -c"),
            ("mcount-gcc -c a.c", "mcount-gcc cc -- gcc -c a.c"),
            ("x/mcount-aarch64-linux-gnu-g++-12.2 -v", "x/… cc -- aarch64-linux-gnu-g++-12.2 -v"),
            ("mcount-clang-19 a", "mcount-clang-19 cc -- clang-19 a"),
            ("mcount-rustc a", "mcount-rustc cc -- rustc a"),
            ("mcount-1.0 scan", "mcount-1.0 scan"),
            ("mcount-static scan", "mcount-static scan"),
            ("mcount- scan", "mcount- scan"),
        ];
        for (line, expected) in cases {
            let found = masquerade(line.split(' ').map(OsString::from).collect());
            let found: Vec<&str> = found.iter().skip(1).filter_map(|word| word.to_str()).collect();
            let expected: Vec<&str> = expected.split(' ').skip(1).collect();
            assert_eq!(found, expected, "{line}");
        }
    }
}
