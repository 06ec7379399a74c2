//! How often each function was called: as callgrind says, and as a trace of the same program says.
//!
//! Callgrind simulates the program and knows nothing of hooks. Both name functions, but a trace demangles names, so
//! functions are matched by address, with the symbols that nm prints.
//!
//! A program may look at its variables, its folder and its addresses. So both runs have the same variables, write nothing to the
//! folder, and the traced one has the same addresses each time. They aren't callgrind's: a program whose calls depend on
//! addresses, such as one that hashes them, can't be compared so.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::{Command, Stdio};

use serde_json::Value;

use crate::sources::shell;
use crate::{Result, files};

/// What the linker and the C library add to a program. It has no hooks.
const RUNTIME: &[&str] = &[
    "_init",
    "_fini",
    "_start",
    "frame_dummy",
    "register_tm_clones",
    "deregister_tm_clones",
    "__do_global_dtors_aux",
    "__gmon_start__",
    "atexit",
];

/// Functions by name, with their calls.
type Counts = BTreeMap<String, u64>;

/// How many functions and calls both agree on, and what they don't agree on.
#[derive(Debug, Default)]
pub(crate) struct Compared {
    pub(crate) functions: usize,
    pub(crate) calls: u64,
    pub(crate) wrong: Vec<String>,
}

/// Runs `work` in `folder`, with callgrind and traced, and compares the calls of `program`'s functions.
pub(crate) fn compare(folder: &Path, program: &str, work: &str, mcount: &Path) -> Result<Compared> {
    let names = Names::of(&folder.join(program))?;
    // Beside the folder: what's in it may be counted.
    let (profile, trace) = (folder.with_extension("callgrind"), folder.with_extension("mcount"));
    let tool = format!(
        "valgrind -q --tool=callgrind --demangle=no --compress-strings=no --compress-pos=no \
         --callgrind-out-file='{}'",
        profile.display()
    );
    let own = BTreeMap::from([("LC_ALL", "C"), ("PYTHONHASHSEED", "0"), ("WORK", super::WORK)]);
    let own = own.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned())).collect();
    run(folder, &work.replace("{run}", &tool), &own)?;
    let simulated = simulated(&profile, &folder.join(program), &names)?;
    let tool = format!("setarch -R '{}' trace -o '{}' --", mcount.display(), trace.display());
    run(folder, &work.replace("{run}", &tool), &of_valgrind(&own)?)?;
    let line = format!("'{}' stats --format jsonl '{}'", mcount.display(), trace.display());
    let traced = traced(&shell(folder, &line)?, program, &names)?;
    shell(folder, &format!("rm -f '{}' '{}'*", trace.display(), profile.display()))?;
    Ok(differences(&simulated, &traced))
}

/// Variables of a program, by name.
type Variables = BTreeMap<String, String>;

/// The variables that a program has in valgrind, which adds some. The one that has a library loaded has another name, of the same
/// length.
fn of_valgrind(own: &Variables) -> Result<Variables> {
    let mut command = Command::new("valgrind");
    command.args(["-q", "--tool=callgrind", "--callgrind-out-file=/dev/null", "env", "-0"]);
    let output = command.envs(own).output()?;
    let text = String::from_utf8_lossy(&output.stdout);
    let variables: Variables = text
        .split('\0')
        .filter_map(|one| one.split_once('='))
        .map(|(name, value)| (name.replace("LD_PRELOAD", "LD_PRELOAX"), value.to_owned()))
        .collect();
    if variables.contains_key("LD_PRELOAX") { Ok(variables) } else { Err(text.into()) }
}

/// Runs a line of sh with these variables, besides those that there are.
fn run(folder: &Path, line: &str, variables: &Variables) -> Result<()> {
    let mut command = Command::new("sh");
    command.args(["-c", line]).current_dir(folder).envs(variables).stdin(Stdio::null());
    let output = command.output()?;
    if output.status.code().is_some() {
        return Ok(());
    }
    Err(format!("{line}: {}", output.status).into())
}

fn differences(simulated: &Counts, traced: &Counts) -> Compared {
    let mut compared = Compared::default();
    let mut names: Vec<&String> = simulated.keys().chain(traced.keys()).collect();
    names.sort();
    names.dedup();
    for name in names {
        let count = |counts: &Counts| counts.get(name).copied().unwrap_or(0);
        let (expected, found) = (count(simulated), count(traced));
        // A part that the compiler split off has no hook, or one.
        let is_free = found == 0 && (name.contains('.') || RUNTIME.contains(&name.as_str()));
        if expected == found {
            compared.functions += 1;
            compared.calls += found;
        } else if !is_free {
            compared.wrong.push(format!("{name}: {found} instead of {expected}"));
        }
    }
    compared
}

/// One name for each function, as functions may have several names, and names several functions.
struct Names {
    by_address: BTreeMap<u64, String>,
    by_name: BTreeMap<String, String>,
}

impl Names {
    fn of(program: &Path) -> Result<Self> {
        let output = Command::new("nm").arg(program).output()?;
        let mut by_address: BTreeMap<u64, String> = BTreeMap::new();
        let mut symbols = Vec::new();
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            let words: Vec<&str> = line.split_whitespace().collect();
            let [address, "t" | "T" | "w" | "W" | "i" | "u" | "V", name] = words[..] else {
                continue;
            };
            let address = u64::from_str_radix(address, 16)?;
            symbols.push((address, name.to_owned()));
            let known = by_address.entry(address).or_insert_with(|| name.to_owned());
            if name < known.as_str() {
                name.clone_into(known);
            }
        }
        let canonical =
            |(address, name): (u64, String)| Some((name, by_address.get(&address)?.clone()));
        let by_name = symbols.into_iter().filter_map(canonical).collect();
        Ok(Self { by_address, by_name })
    }

    fn named(&self, name: &str) -> String {
        self.by_name.get(name).cloned().unwrap_or_else(|| name.to_owned())
    }
}

/// Reads the output of callgrind: a line `cfn=NAME` and, behind it, `calls=COUNT POSITION`.
fn simulated(profile: &Path, program: &Path, names: &Names) -> Result<Counts> {
    let program = std::fs::canonicalize(program)?;
    let text = files::read(profile)?;
    let (mut here, mut there, mut callee) = (String::new(), None, String::new());
    let mut counts = Counts::new();
    for line in String::from_utf8_lossy(&text).lines() {
        if let Some(file) = line.strip_prefix("ob=") {
            file.clone_into(&mut here);
        } else if let Some(file) = line.strip_prefix("cob=") {
            there = Some(file.to_owned());
        } else if let Some(name) = line.strip_prefix("cfn=") {
            // `'2` and so on say how deep a recursion is.
            let name = name.split('\'').next().unwrap_or(name);
            name.clone_into(&mut callee);
        } else if let Some(calls) = line.strip_prefix("calls=") {
            let calls: u64 = calls.split(' ').next().unwrap_or_default().parse()?;
            let file = there.take().unwrap_or_else(|| here.clone());
            if Path::new(&file) == program && !callee.starts_with(['0', '(']) {
                *counts.entry(names.named(&callee)).or_default() += calls;
            }
        }
    }
    Ok(counts)
}

/// Reads what `mcount stats --format jsonl` printed.
fn traced(text: &str, program: &str, names: &Names) -> Result<Counts> {
    let mut counts = Counts::new();
    for line in text.lines() {
        let row: Value = serde_json::from_str(line)?;
        let number = |name: &str| row.get(name).and_then(Value::as_u64);
        let is_its = row
            .get("module")
            .and_then(Value::as_str)
            .is_some_and(|module| module.ends_with(program));
        let (address, calls) = (number("address"), number("calls"));
        let (Some(address), Some(calls), true) = (address, calls, is_its) else { continue };
        let name = names.by_address.get(&address);
        let name = name.cloned().unwrap_or_else(|| format!("{address:#x}"));
        *counts.entry(names.named(&name)).or_default() += calls;
    }
    Ok(counts)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_parts_without_hook_may_be_missing() {
        let counts = |rows: &[(&str, u64)]| {
            rows.iter().map(|(name, count)| ((*name).to_owned(), *count)).collect()
        };
        let simulated = counts(&[("a", 3), ("b", 1), ("a.part.0", 2), ("_init", 1), ("c.cold", 4)]);
        let traced = counts(&[("a", 3), ("b", 2), ("c.cold", 3)]);
        let compared = differences(&simulated, &traced);
        assert_eq!((compared.functions, compared.calls), (1, 3));
        assert_eq!(compared.wrong, ["b: 2 instead of 1", "c.cold: 3 instead of 4"]);
    }
}
