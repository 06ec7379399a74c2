//! `mcount patch`: replaces functions of a process that runs.

use super::attach::process;
use super::trace::write_lines;
use super::{SUCCESS, complain, say};
use crate::pattern::{Language, Pattern};
use crate::replay::parse_time;
use crate::trace::attach::patch::{Action, Request, Row, list, patch as run};
use crate::words::printable;
use clap::{Args, ValueHint};
use std::io;
use std::path::PathBuf;
use std::time::Duration;

/// What `--help` says below the options.
pub(super) const HELP: &str = "\
FIX.so is an ordinary shared object, made from a C or C++ file that has the new functions (gcc -shared -fPIC -o \
FIX.so fix.c). Each of its functions that others can see and that the program has as well takes the place of the \
program's. That one needs a hook: its program is compiled with -fpatchable-function-entry=5, or with -pg -mfentry. \
What else the new functions use is found in the program, static functions and variables too; extern int x \
__asm__(\"\\\"a.c:x\\\"\") says which one, if several files have one. Calls that the compiler inlined aren't replaced.

All functions are replaced at one moment, in which no thread is in one of the old ones, nor will return there. \
Until there is such a moment, the process runs on.

Exit codes: 0 if it's done, 1 if threads were in the way until --wait was over, 2 if it can't be done. Nothing has \
changed then.

Examples: mcount patch 1234 fix.so
          mcount patch --list 1234
          mcount patch --revert 1234";

#[derive(Args)]
pub(super) struct PatchArgs {
    /// Replace only functions with such names
    #[arg(long, value_name = "GLOB", conflicts_with_all = ["revert", "list"])]
    function: Vec<String>,
    /// Put back what was there before: all patches, or those with these numbers or names
    #[arg(long, conflicts_with = "list")]
    revert: bool,
    /// Print the patches that the process has, and leave it alone
    #[arg(long)]
    list: bool,
    /// Wait this long for a moment when no thread is in the way
    #[arg(long, value_name = "TIME", default_value = "10s", value_parser = parse_time)]
    wait: u64,
    /// Say how long the process was stopped
    #[arg(short, long)]
    verbose: bool,
    /// The process
    #[arg(value_name = "PID", value_parser = process)]
    process: i32,
    /// The object with the new functions; with --revert, numbers or names of patches
    #[arg(value_name = "FIX.so", value_hint = ValueHint::FilePath)]
    words: Vec<PathBuf>,
}

/// Runs the command; its exit code.
pub(super) fn patch(arguments: &PatchArgs) -> io::Result<u8> {
    let process = arguments.process;
    if arguments.list {
        if !arguments.words.is_empty() {
            return Ok(complain("--list takes a process and nothing else"));
        }
        return match list(process) {
            Ok(rows) => write_lines(&rows.iter().map(line).collect::<Vec<_>>()).map(|()| SUCCESS),
            Err(error) => Ok(complain(&format!("process {process}: {error}"))),
        };
    }
    let action = match action(arguments) {
        Ok(action) => action,
        Err(why) => return Ok(complain(&why)),
    };
    let wait = Duration::from_nanos(arguments.wait);
    let request = Request { process, action, wait, verbose: arguments.verbose, say, complain };
    Ok(run(&request).unwrap_or_else(|error| complain(&format!("process {process}: {error}"))))
}

fn action(arguments: &PatchArgs) -> Result<Action, String> {
    if arguments.revert {
        let name =
            |word: &PathBuf| word.file_name().unwrap_or_default().to_string_lossy().into_owned();
        return Ok(Action::Revert(arguments.words.iter().map(name).collect()));
    }
    match arguments.words.as_slice() {
        [file] => {
            Ok(Action::Apply(file.clone(), Pattern::all(&arguments.function, Language::Glob)?))
        }
        [] => {
            Err("give the shared object with the new functions: mcount patch PID FIX.so".to_owned())
        }
        _ => Err("one shared object at a time".to_owned()),
    }
}

/// A line of `--list`.
fn line(row: &Row) -> String {
    let functions = row.functions.iter().map(|(name, is_current)| {
        if *is_current || !row.is_in_force {
            name.clone()
        } else {
            format!("{name} (replaced again)")
        }
    });
    let functions = functions.collect::<Vec<_>>().join(", ");
    let state = if row.is_in_force { "in force" } else { "reverted" };
    // It's what the process has in its memory.
    printable(&format!("{} {} {state}: {functions}", row.number, row.name)).into_owned()
}
