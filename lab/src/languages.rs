//! `cargo lab languages`: a small program for each interpreter and compiler of Debian that's here, as it is and with every possible
//! function of it and of its libraries probed. It has to print the same and end the same way.
//!
//! Each program makes garbage, has it collected, and catches an error: a runtime that walks the stack does it then.

mod programs_of;

use self::programs_of::{LANGUAGES, Language};
use crate::{Result, files, programs};
use lexopt::{Arg, ValueExt as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

const USAGE: &str = "\
usage: cargo lab languages [--mcount PATH] [LANGUAGE…]

Runs a program of each language without mcount and with every function probed, and compares what it prints. Languages
whose programs aren't installed are left out; the list says which Debian package has them.

  --mcount PATH   the program to test (default: target/release/mcount, built now)
";

/// How many seconds a program may take with probes.
const PATIENCE: &str = "300";

/// What a trace may take: only the newest calls are kept.
const RING: &str = "64M";

pub(crate) fn run(mut parser: lexopt::Parser) -> Result<bool> {
    let mut mcount = None;
    let mut names: Vec<String> = Vec::new();
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Long("mcount") => mcount = Some(PathBuf::from(parser.value()?)),
            Arg::Value(name) => names.push(name.string()?),
            Arg::Short('h') | Arg::Long("help") => {
                print!("{USAGE}");
                return Ok(true);
            }
            other => return Err(other.unexpected().into()),
        }
    }
    let is_unknown = |name: &&String| LANGUAGES.iter().all(|language| language.name != **name);
    if let Some(name) = names.iter().find(is_unknown) {
        return Err(format!("no language is called {name}\n\n{USAGE}").into());
    }
    let mcount = programs::mcount(mcount)?;
    println!("| language | Debian's package | probed | printed, and exit code |");
    println!("|---|---|--:|---|");
    let mut is_well = true;
    for language in LANGUAGES {
        if !names.is_empty() && names.iter().all(|name| name != language.name) {
            continue;
        }
        let verdict = examine(language, &mcount)?;
        is_well &= !matches!(verdict, Verdict::Differs(_));
        println!("{}", verdict.row(language));
    }
    Ok(is_well)
}

/// What came of a language.
enum Verdict {
    /// Its programs aren't here, or can't run its program even untraced.
    Absent(String),
    /// It printed the same; how many functions could be probed, as `mcount` says it.
    Same(String),
    Differs(String),
}

impl Verdict {
    fn row(&self, language: &Language) -> String {
        let Language { name, package, .. } = language;
        match self {
            Self::Absent(why) => format!("| {name} | {package} | | not run: {why} |"),
            Self::Same(probed) => format!("| {name} | {package} | {probed} | same |"),
            Self::Differs(how) => format!("| {name} | {package} | | **different**: {how} |"),
        }
    }
}

/// What a run printed and how it ended.
struct Attempt {
    code: Option<i32>,
    printed: String,
    /// What `mcount` said.
    said: String,
}

fn examine(language: &Language, mcount: &Path) -> Result<Verdict> {
    let folder = tempfile::tempdir()?;
    let file = folder.path().join(language.file);
    files::write(&file, language.source.as_bytes())?;
    for step in language.steps {
        match words(step, folder.path()).stdout(Stdio::null()).stderr(Stdio::null()).status() {
            Ok(status) if status.success() => {}
            Ok(status) => return Ok(Verdict::Absent(format!("{step:?}: {status}"))),
            Err(error) => return Ok(Verdict::Absent(format!("{step:?}: {error}"))),
        }
    }
    let plain = attempt(language, folder.path(), None)?;
    if plain.code != Some(0) {
        return Ok(Verdict::Absent(format!("it ends with {:?} untraced", plain.code)));
    }
    let traced = attempt(language, folder.path(), Some(mcount))?;
    if traced.code != plain.code {
        let said = traced.said.lines().last().unwrap_or_default();
        return Ok(Verdict::Differs(format!("it ends with {:?}: {said}", traced.code)));
    }
    if traced.printed != plain.printed {
        return Ok(Verdict::Differs(format!("{:?}, {:?}", plain.printed, traced.printed)));
    }
    Ok(Verdict::Same(probed(&traced.said)))
}

/// How many functions have a probe, from the line of `mcount` about those that can't: `9 of 12`.
fn probed(said: &str) -> String {
    let line = said.lines().find(|line| line.contains(" functions cannot be probed"));
    let numbers = line.and_then(|line| {
        let mut words = line.split(' ').filter_map(|word| word.parse::<u64>().ok());
        Some((words.next()?, words.next()?))
    });
    match numbers {
        Some((refused, all)) => format!("{} of {all}", all.saturating_sub(refused)),
        None => "all".to_owned(),
    }
}

fn words(step: &[&str], folder: &Path) -> Command {
    let (program, arguments) = step.split_first().unwrap_or((&"false", &[]));
    let mut command = Command::new(program);
    command.args(arguments).current_dir(folder).stdin(Stdio::null());
    command
}

/// Runs the language's program, traced if there's an `mcount`.
fn attempt(language: &Language, folder: &Path, mcount: Option<&Path>) -> Result<Attempt> {
    let trace = folder.join("trace.mcount");
    let mut command = Command::new("timeout");
    command.args(["--kill-after=10", PATIENCE]);
    if let Some(mcount) = mcount {
        command.arg(mcount).args(["trace", "--probe", "*", "--ring", RING, "-o"]);
        command.arg(&trace).arg("--");
    }
    command.args(language.run).current_dir(folder).stdin(Stdio::null());
    let output = command.output()?;
    Ok(Attempt {
        code: output.status.code(),
        printed: String::from_utf8_lossy(&output.stdout).into_owned(),
        said: String::from_utf8_lossy(&output.stderr).into_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_mcount_says_is_read() {
        let said = "x\nmcount: 3 of 10 functions cannot be probed; mcount trace …\n";
        assert_eq!(probed(said), "7 of 10");
        assert_eq!(probed("mcount: nothing"), "all");
    }
}
