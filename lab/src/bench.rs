//! `cargo lab bench`: how fast the programs are, against the tools that they stand in for, on the
//! modules of a real kernel.
//!
//! Every row of `docs/benchmarks.md` is one [`row::Row`]. All sides of a row run in turns in one run
//! of this chore, each on a fresh copy of the input, so that what else the machine does meets all of
//! them. `cargo xtask bench --check` compares instruction counts instead, which no other load changes.

mod floor;
mod funtrace;
mod idle;
mod inputs;
mod live;
mod measure;
mod report;
mod row;
mod rows;
mod sample;
mod stop;
mod trace;
mod waits;

use lexopt::{Arg, ValueExt as _};
use std::path::{Path, PathBuf};

use self::inputs::Inputs;
use crate::programs::{self, Profile};
use crate::{Result, files};

const USAGE: &str = "\
usage: cargo lab bench [ROW…] [OPTION…]

rows: one, many, large, debug, peers, table, list (default: these); live, waits, trace (into
docs/evidence.md), stop

  --runs N     runs of each program (default 15); a slow one runs less often, and the report says so
  --ours DIR   the folder with the programs to measure (default: the profile dist, built now)
  --docs       write what was measured, now and before, to docs/benchmarks.md
  --memory DIR   live: where traces are written (default /dev/shm)
  --funtrace GIT  live: where funtrace is cloned from (default: its GitHub repository)

Debian packages: linux-kbuild-6.1, binutils, perl, time, valgrind; kernels and their debug information
are downloaded, 500 MB, and unpacked to 3 GB in target/.
";

/// What measures rows that have tables of their own.
type Tables = fn(&Path, &Options) -> Result<()>;

const TABLES: [(&str, Tables); 4] =
    [("live", live::run), ("waits", waits::run), ("trace", trace::run), ("stop", stop::run)];

#[derive(Default)]
struct Options {
    rows: Vec<String>,
    runs: usize,
    ours: Option<PathBuf>,
    docs: bool,
    memory: Option<PathBuf>,
    funtrace: Option<String>,
}

/// Runs the chore. A ratio that misses its goal is reported, and is no failure: it depends on the machine.
pub(crate) fn run(parser: lexopt::Parser) -> Result<bool> {
    let Some(mut options) = parse(parser)? else {
        print!("{USAGE}");
        return Ok(true);
    };
    let folder = files::workspace().join("target/bench");
    files::make_folder(&folder)?;
    let ours = match &options.ours {
        Some(ours) => std::path::absolute(ours)?,
        None => programs::build("mcount-cli", Profile::Dist)?,
    };
    for (name, run) in TABLES {
        if options.rows.iter().any(|row| row == name) {
            run(&ours, &options)?;
            options.rows.retain(|row| row != name);
            if options.rows.is_empty() {
                return Ok(true);
            }
        }
    }
    let inputs = Inputs::new(&folder, &ours);
    let names = if options.rows.is_empty() {
        rows::NAMES.iter().map(|name| (*name).to_owned()).collect()
    } else {
        options.rows
    };
    for name in names {
        let row = rows::row(&name, &inputs)?;
        let measured = measure::row(&row, options.runs, &folder)?;
        report::print(&measured);
        report::save(&folder, &name, &measured)?;
    }
    if options.docs { report::write(&folder) } else { Ok(true) }
}

fn parse(mut parser: lexopt::Parser) -> Result<Option<Options>> {
    let mut options = Options { runs: 15, ..Options::default() };
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Value(row) => options.rows.push(row.string()?),
            Arg::Long("runs") => options.runs = parser.value()?.parse::<usize>()?.max(1),
            Arg::Long("ours") => options.ours = Some(parser.value()?.into()),
            Arg::Long("docs") => options.docs = true,
            Arg::Long("memory") => options.memory = Some(parser.value()?.into()),
            Arg::Long("funtrace") => options.funtrace = Some(parser.value()?.string()?),
            Arg::Short('h') | Arg::Long("help") => return Ok(None),
            other => return Err(other.unexpected().into()),
        }
    }
    Ok(Some(options))
}
