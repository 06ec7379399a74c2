//! `cargo lab stress`: minutes and hours of what the tests do for seconds.
//!
//! `tests/live/stress.c` checks itself: eight threads call 10,000 functions, signals come a thousand times a second, and
//! another thread arms and disarms all or some of the functions, or replaces one. The time is shared between the
//! protocols and what can be done with functions. `tests/live/through.c` is the same without hooks and without the library:
//! there, `mcount` makes probes and takes them away ([`probes`]).

mod probes;

use std::path::{Path, PathBuf};
use std::process::Command;

use lexopt::Arg;

use crate::sources::shell;
use crate::{Result, files, programs};

const USAGE: &str = "\
usage: cargo lab stress [OPTION…] [hooks] [probes]

  hooks           a program arms its own hooks
  probes          mcount attaches to a program without hooks, samples it, and looks at it with top

  --minutes N     how long each of them takes (default 60)
  --library FILE  the libmcount_live_c.so to test (default: target/release, built now)
  --mcount FILE   the mcount to test (default: target/release, built now)
";

/// What is done with the functions; most time goes where most can happen.
const KINDS: &[(&str, f64)] = &[("random", 0.5), ("toggle", 0.35), ("replace", 0.15)];
/// The protocols, as `mcount_protocol` has them.
const PROTOCOLS: &[(&str, &str)] = &[("one byte", "0"), ("breakpoint", "1"), ("stopped", "2")];

/// Runs the chore; `false` if a program found something wrong.
pub(crate) fn run(mut parser: lexopt::Parser) -> Result<bool> {
    let (mut minutes, mut library, mut mcount) = (60.0, None, None);
    let (mut has_hooks, mut has_probes) = (false, false);
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Long("minutes") => minutes = parser.value()?.to_string_lossy().parse()?,
            Arg::Long("library") => library = Some(PathBuf::from(parser.value()?)),
            Arg::Long("mcount") => mcount = Some(PathBuf::from(parser.value()?)),
            Arg::Value(name) if name == "hooks" => has_hooks = true,
            Arg::Value(name) if name == "probes" => has_probes = true,
            Arg::Short('h') | Arg::Long("help") => {
                print!("{USAGE}");
                return Ok(true);
            }
            other => return Err(other.unexpected().into()),
        }
    }
    let has_both = has_hooks == has_probes;
    let folder = files::target().join("stress");
    files::make_folder(&folder)?;
    let mut is_well = true;
    if has_hooks || has_both {
        let library = match library {
            Some(library) => std::path::absolute(library)?,
            None => build_library()?,
        };
        is_well &= hooks(&folder, &library, minutes)?;
    }
    if has_probes || has_both {
        is_well &= probes::run(&folder, &programs::mcount(mcount)?, minutes)?;
    }
    Ok(is_well)
}

/// A program arms its own hooks.
fn hooks(folder: &Path, library: &Path, minutes: f64) -> Result<bool> {
    compile(folder, library)?;
    let mut is_well = true;
    for (kind, share) in KINDS {
        for (protocol, number) in PROTOCOLS {
            let seconds = (minutes * 60.0 * share / 3.0).max(1.0);
            println!("== {kind}, {protocol}: {seconds:.0} s");
            let mut command = Command::new("./stress");
            command.args([&format!("{seconds:.1}"), *number, *kind, "./plugin.so"]);
            let status = command.current_dir(folder).status()?;
            if !status.success() {
                println!("== failed: {kind}, {protocol}: {status}");
                is_well = false;
            }
        }
    }
    Ok(is_well)
}

fn build_library() -> Result<PathBuf> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--release", "-p", "mcount-inside-c"]);
    if !cargo.current_dir(files::workspace()).status()?.success() {
        return Err("mcount-inside-c does not build".into());
    }
    Ok(files::target().join("release/libmcount_live_c.so"))
}

/// Makes the program and the library that it opens.
fn compile(folder: &Path, library: &Path) -> Result<()> {
    let root = files::workspace();
    let line = format!(
        "ln -sf '{library}' libmcount-live.so && ln -sf '{library}' libmcount-live.so.0 && \
         gcc -w -O2 -shared -fPIC -fpatchable-function-entry=5 '{root}/tests/live/plugin.c' -o plugin.so && \
         gcc -D_GNU_SOURCE -w -O2 -fpatchable-function-entry=5 -I'{root}/include' '{root}/tests/live/stress.c' \
         '{root}/tests/live/many.c' -L. -lmcount-live -Wl,-rpath,\"$PWD\" -lpthread -ldl -o stress",
        library = library.display(),
        root = root.display(),
    );
    shell(folder, &line).map(|_| ())
}
