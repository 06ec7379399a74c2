//! `mcount compress`: makes traces small, and undoes that.

use super::{SUCCESS, complain};
use crate::commit::about;
use crate::files::is_standard;
use crate::packing::{compress, decompress};
use clap::{Args, ValueHint};
use std::path::{Path, PathBuf};

/// What `--help` says below the options.
pub(super) const HELP: &str = "\
All commands that read traces read compressed ones too, and any part of them without the rest, so \
you rarely need to decompress. The file is a row of zstd frames; what comes back is the \
same, byte for byte.

Examples: mcount compress program.mcount
          mcount compress -o small.mcount program.mcount
          mcount compress --undo small.mcount";

#[derive(Args)]
pub(super) struct CompressArgs {
    /// The trace
    #[arg(value_name = "TRACE", value_hint = ValueHint::FilePath)]
    trace: PathBuf,
    /// Write the result here and leave the trace as it is
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    output: Option<PathBuf>,
    /// Make a compressed trace what it was before
    #[arg(short, long)]
    undo: bool,
}

/// Runs the command; its exit code.
pub(super) fn run(arguments: &CompressArgs) -> u8 {
    let trace = &arguments.trace;
    let output = arguments.output.as_ref().unwrap_or(trace);
    if is_standard(trace) || is_standard(output) {
        return complain("only files can be compressed or restored, not standard input and output");
    }
    let folder = output.parent().filter(|folder| !folder.as_os_str().is_empty());
    if let Err(error) = folder.unwrap_or(Path::new(".")).metadata() {
        return complain(&about(output, error).to_string());
    }
    let done = if arguments.undo { decompress(trace, output) } else { compress(trace, output) };
    match done {
        Ok(()) => SUCCESS,
        Err(error) => complain(&error.to_string()),
    }
}
