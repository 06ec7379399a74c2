//! The drop-in for the kernel's `scripts/recordmcount`. It has the same arguments and exit codes, and the
//! messages that a build may look for. It runs once for each object, so it avoids what it doesn't need:
//! it has no threads, and a small argument parser.

use crate::commit::record_file;
use crate::response;
use crate::signals;
use crate::words::printable;
use lexopt::Arg;
use mcount::{Options, RecordOptions, Recording, TABLE_SECTION};
use std::ffi::{OsStr, OsString};
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

const USAGE: &str = "usage: recordmcount [-w] file.o...";

/// The request on the command line.
enum Command {
    Record { warn: bool, files: Vec<OsString> },
    Usage { error: Option<String> },
    Version,
}

/// Runs the command with these arguments. Returns its exit code.
pub fn run(arguments: impl IntoIterator<Item = OsString>) -> u8 {
    signals::take_failed_writes_as_errors();
    let command =
        parse(arguments).unwrap_or_else(|error| Command::Usage { error: Some(error.to_string()) });
    match command {
        Command::Record { warn, files } => record(warn, &files),
        Command::Version => version(),
        Command::Usage { error } => {
            if let Some(error) = error {
                say(&mut io::stderr(), &format!("recordmcount: {error}"));
            }
            say(&mut io::stderr(), USAGE)
        }
    }
}

/// Prints the version. If that fails, it is an error, because the user asked for it.
fn version() -> u8 {
    let mut out = io::stdout();
    let line = concat!("recordmcount (mcount) ", env!("CARGO_PKG_VERSION"));
    match writeln!(out, "{line}").and_then(|()| out.flush()) {
        Err(error) if error.kind() != io::ErrorKind::BrokenPipe => {
            say(&mut io::stderr(), &format!("recordmcount: {error}"));
            1
        }
        _ => 0,
    }
}

fn parse(arguments: impl IntoIterator<Item = OsString>) -> Result<Command, lexopt::Error> {
    let mut parser = lexopt::Parser::from_args(response::expand(arguments));
    let (mut warn, mut files) = (false, Vec::new());
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Short('w') => warn = true,
            Arg::Long("version") => return Ok(Command::Version),
            Arg::Value(file) => files.push(file),
            Arg::Short('h') | Arg::Long("help") => return Ok(Command::Usage { error: None }),
            other => return Err(other.unexpected()),
        }
    }
    // Without files, print the usage, as the original does. That isn't an error.
    Ok(if files.is_empty() {
        Command::Usage { error: None }
    } else {
        Command::Record { warn, files }
    })
}

fn record(warn: bool, files: &[OsString]) -> u8 {
    let (options, how) = (Options::default(), RecordOptions::default().keep_existing_table(true));
    let mut code = 0;
    for file in files.iter().filter(|file| !file.as_bytes().ends_with(b"/ftrace.o")) {
        match record_file(Path::new(file), None, &options, &how) {
            Ok(recording) => report(&recording, warn, file),
            Err(failure) => {
                say(&mut io::stderr(), &format!("{}: failed: {failure}", file.display()));
                code = 1;
            }
        }
    }
    code
}

fn report(recording: &Recording, warn: bool, file: &OsStr) {
    if recording.had_table {
        let file = file.display();
        say(&mut io::stderr(), &format!("warning: {TABLE_SECTION} already exists: {file}"));
    } else if warn {
        for section in &recording.excluded {
            let line = format!("Section {} has mcount callers being ignored", section.name);
            say(&mut io::stdout(), &line);
        }
    }
}

/// Writes one line, even if names in it have line breaks. A reader that has gone away is no error.
fn say(stream: &mut impl Write, line: &str) -> u8 {
    let _ = writeln!(stream, "{}", printable(line));
    0
}
