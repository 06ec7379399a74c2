//! `mcount query`: asks traces in SQL. A program of its own does it, because an engine for SQL is several times as large as `mcount`.

use super::complain;
use crate::commit::Failure;
use crate::query::QueryArgs;
use anstream::ColorChoice;
use std::env;
use std::ffi::OsStr;
use std::io;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::Command;

/// The program.
const PROGRAM: &str = "mcount-query";

/// Becomes the program; its exit code if that fails.
pub(super) fn query(arguments: &QueryArgs) -> u8 {
    let beside = beside().filter(|path| path.is_file());
    let program = beside.as_deref().map_or(OsStr::new(PROGRAM), |path| path.as_os_str());
    let color = match ColorChoice::global() {
        ColorChoice::Always | ColorChoice::AlwaysAnsi => "always",
        ColorChoice::Never => "never",
        ColorChoice::Auto => "auto",
    };
    let error =
        Command::new(program).arg(format!("--color={color}")).args(arguments.command_line()).exec();
    if error.kind() == io::ErrorKind::NotFound {
        return complain(
            "mcount-query isn't installed: cargo install --path query in the sources of mcount; or let DuckDB read \
             what mcount replay --format parquet -o DIR TRACE writes",
        );
    }
    complain(&format!("{}: {}", program.display(), Failure::from(error)))
}

/// Where it's installed together with this program.
fn beside() -> Option<PathBuf> {
    Some(env::current_exe().ok()?.with_file_name(PROGRAM))
}
