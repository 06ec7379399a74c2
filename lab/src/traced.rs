//! `cargo lab project --trace`: programs of Debian, built with hooks in several ways, run their own tests traced.
//!
//! What they print and how they end must be as without tracing, and the calls of one more run those that callgrind
//! counts. What can't be done here (a tool is missing, a download fails) is a row that says so.

mod programs;
mod truth;

use std::fmt::Write as _;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use self::programs::{Build, PROGRAMS, Program};
use crate::sources::{archive, shell, unpack};
use crate::{Result, document, files};

/// What the shell of sqlite reads, in the variable `WORK`.
const WORK: &str = include_str!("traced/work.sql");

/// How long tests may run, in seconds, and what their trace may take.
const PATIENCE: &str = "3000";
const MOST: &str = "4G";

const BEGIN: &str = "<!-- begin: cargo lab project --trace -->\n";
const END: &str = "<!-- end of cargo lab project --trace -->\n";

/// What a run of the tests did.
struct Run {
    code: Option<i32>,
    /// What was printed, without what `mcount` said.
    printed: String,
    /// What `mcount` said.
    said: Vec<String>,
    time: Duration,
}

/// What is found out about a build.
struct Finding {
    is_well: bool,
    /// The cells of the table, from the third on.
    cells: String,
}

/// Runs the chore for builds whose name has one of `only` in it, or all; `false` when something differs.
pub(crate) fn run(mcount: &Path, root: &Path, only: &[String], docs: bool) -> Result<bool> {
    let root = root.join("traced");
    files::make_folder(&root.join("results"))?;
    let mut is_well = true;
    for program in PROGRAMS {
        for build in program.builds {
            let name = format!("{} / {}", program.name, build.name);
            if !only.is_empty() && !only.iter().any(|part| name.contains(part.as_str())) {
                continue;
            }
            println!("== {name}");
            let finding = examine(program, build, &root, mcount).unwrap_or_else(|error| {
                let why = last_line(&error.to_string());
                Finding { is_well: true, cells: format!("not done: {why} | | | | |") }
            });
            let row =
                format!("| {} | {} | {}\n", version(program, &root), build.name, finding.cells);
            print!("{row}");
            files::write(&result(program, build, &root), row.as_bytes())?;
            is_well &= finding.is_well;
        }
    }
    if docs {
        write(&root)?;
    }
    Ok(is_well)
}

fn last_line(text: &str) -> String {
    let line = text.lines().rev().find(|line| !line.trim().is_empty()).unwrap_or(text);
    line.replace('|', "/").chars().take(150).collect()
}

/// Where the row of a build is kept.
fn result(program: &Program, build: &Build, root: &Path) -> PathBuf {
    root.join("results").join(slug(&format!("{}-{}", program.name, build.name)))
}

fn slug(name: &str) -> String {
    let plain = |letter: char| if letter.is_ascii_alphanumeric() { letter } else { '-' };
    name.chars().map(plain).collect()
}

/// Its name and the version of its sources.
fn version(program: &Program, root: &Path) -> String {
    let name = archive(program.package, root.parent().unwrap_or(root));
    let name = name.ok().and_then(|path| Some(path.file_name()?.to_str()?.to_owned()));
    let version = name.as_deref().and_then(|name| name.split_once('_')?.1.split_once(".orig"));
    format!("{} {}", program.name, version.map_or("", |(version, _)| version))
}

/// Builds a program, and runs its tests and its work.
fn examine(program: &Program, build: &Build, root: &Path, mcount: &Path) -> Result<Finding> {
    let folder = root.join(slug(&format!("{}-{}", program.name, build.name)));
    let downloads = root.parent().unwrap_or(root);
    unpack(program.package, downloads, &folder)?;
    let line = fill(program.make, build, root);
    shell(&folder, &line)?;
    let line = fill(program.tests, build, root);
    let plain = run_tests(&line, &folder, &[])?;
    let trace = folder.join("tests.mcount");
    let traced = {
        let mcount = mcount.display().to_string();
        let trace = trace.display().to_string();
        run_tests(
            &line,
            &folder,
            &[&mcount, "trace", "--children", "--max-size", MOST, "-o", &trace, "--"],
        )?
    };
    let size = std::fs::metadata(&trace).map_or(0, |found| found.len().min(found.blocks() * 512));
    // Of several GB.
    let _ = std::fs::remove_file(&trace);
    let mut finding = compare(program, &plain, &traced, size);
    let counts = match program.work {
        // A static program has functions of the C library, which have no hooks.
        Some((path, work)) if !build.link.contains("static") => {
            let compared = truth::compare(&folder, path, work, mcount)?;
            for wrong in &compared.wrong {
                println!("{wrong}");
            }
            finding.is_well &= compared.wrong.is_empty() && compared.calls > 100;
            match compared.wrong.len() {
                0 => format!("{} functions, {} calls: equal", compared.functions, compared.calls),
                wrong => format!("**{wrong} functions differ**, {} are equal", compared.functions),
            }
        }
        _ => String::new(),
    };
    let _ = write!(finding.cells, " {counts} |");
    // A build takes up to 500 MB.
    shell(root, &format!("rm -rf '{}'", folder.display()))?;
    Ok(finding)
}

fn fill(line: &str, build: &Build, root: &Path) -> String {
    let downloads = root.parent().unwrap_or(root).join("downloads");
    line.replace("{cc}", build.cc)
        .replace("{cxx}", build.cxx)
        .replace("{flags}", build.flags)
        .replace("{link}", build.link)
        .replace("{downloads}", &downloads.display().to_string())
        .replace("{shared}", &root.join("shared").display().to_string())
}

/// Runs the program's tests, with `before` before the shell that does.
fn run_tests(line: &str, folder: &Path, before: &[&str]) -> Result<Run> {
    let place = folder.join("printed");
    let (out, err) = (files::create(&place)?, append(&place)?);
    let mut command = Command::new("timeout");
    command.args(["-k", "5", PATIENCE]).args(before).args(["sh", "-c", line]);
    command.current_dir(folder).env("LC_ALL", "C").env("TZ", "UTC").env("WORK", WORK);
    command.stdin(Stdio::null()).stdout(append(&place)?).stderr(err);
    drop(out);
    let begin = Instant::now();
    let status = command.status()?;
    let time = begin.elapsed();
    let text = files::read(&place)?;
    let text = String::from_utf8_lossy(&text).into_owned();
    let is_said = |line: &&str| line.starts_with("mcount: ");
    let said = text.lines().filter(is_said).map(str::to_owned).collect();
    let printed = text.lines().filter(|line| !is_said(line)).collect::<Vec<_>>().join("\n");
    Ok(Run { code: status.code(), printed, said, time })
}

fn append(path: &Path) -> Result<std::fs::File> {
    Ok(std::fs::OpenOptions::new().append(true).open(path)?)
}

/// Compares two runs of the tests, the second one traced.
fn compare(program: &Program, plain: &Run, traced: &Run, size: u64) -> Finding {
    let (one, other) = (masked(program, &plain.printed), masked(program, &traced.printed));
    let wrong = different_lines(&one, &other);
    for line in wrong.iter().take(20) {
        println!("{line}");
    }
    for line in &traced.said {
        println!("{line}");
    }
    let code = |run: &Run| run.code.map_or("a signal".to_owned(), |code| code.to_string());
    let is_same = wrong.is_empty() && plain.code == traced.code;
    let result = if is_same {
        format!("same, {} lines, exit code {}", one.lines().count(), code(plain))
    } else {
        format!("**{} lines differ**, exit codes {} and {}", wrong.len(), code(plain), code(traced))
    };
    let dropped =
        if traced.said.iter().any(|line| line.contains("not recorded")) { ", full" } else { "" };
    let cells = format!(
        "{} | {result} | {:.1} s | {:.1} s | {} MiB{dropped} |",
        program.about,
        plain.time.as_secs_f64(),
        traced.time.as_secs_f64(),
        size >> 20
    );
    Finding { is_well: is_same, cells }
}

/// What was printed, without addresses and what else differs from run to run.
fn masked(program: &Program, text: &str) -> String {
    let script = format!("s/0x[0-9a-f]*/X/g\n{}", program.mask.replace("; ", "\n"));
    let run = || -> Result<String> {
        let folder = tempfile::tempdir()?;
        files::write(&folder.path().join("text"), text.as_bytes())?;
        files::write(&folder.path().join("script"), script.as_bytes())?;
        shell(folder.path(), "LC_ALL=C sed -f script text")
    };
    run().unwrap_or_else(|_| text.to_owned())
}

/// Lines of one that the other doesn't have at that place, if only one is changed; else all of them.
fn different_lines(one: &str, other: &str) -> Vec<String> {
    let (mut removed, mut added) = (Vec::new(), Vec::new());
    let (one, other): (Vec<&str>, Vec<&str>) = (one.lines().collect(), other.lines().collect());
    let ahead = one.iter().zip(&other).take_while(|(a, b)| a == b).count();
    let (one, other) =
        (one.get(ahead..).unwrap_or_default(), other.get(ahead..).unwrap_or_default());
    let behind = one.iter().rev().zip(other.iter().rev()).take_while(|(a, b)| a == b).count();
    let middle = |lines: &[&str]| lines.len().saturating_sub(behind);
    removed.extend(one.iter().take(middle(one)).map(|line| format!("-{line}")));
    added.extend(other.iter().take(middle(other)).map(|line| format!("+{line}")));
    // Alternating, so that the first few lines show both.
    let pairs = removed.len().max(added.len());
    let mut lines = Vec::new();
    for place in 0..pairs {
        let pair = [removed.get(place), added.get(place)];
        let is_equal = matches!(pair, [Some(a), Some(b)] if a.get(1..) == b.get(1..));
        if !is_equal {
            lines.extend(pair.into_iter().flatten().cloned());
        }
    }
    lines
}

/// Writes the rows of this run and of earlier ones to docs/evidence.md.
fn write(root: &Path) -> Result<()> {
    let date = shell(root, "date -u +%F")?;
    let versions = shell(
        root,
        "dpkg-query -W -f '${Package} ${Version}, ' gcc clang musl valgrind 2>/dev/null; uname -sr",
    )?;
    let mut text = format!(
        "As of {}, with {}:\n\n\
         | program | build | its tests | traced and untraced | untraced | traced | trace | one more run, against callgrind |\n\
         |---|---|---|---|--:|--:|--:|---|\n",
        date.trim(),
        versions.trim()
    );
    for program in PROGRAMS {
        for build in program.builds {
            let row = files::read(&result(program, build, root));
            text.push_str(&String::from_utf8_lossy(&row.unwrap_or_default()));
        }
    }
    document::put("docs/evidence.md", (BEGIN, END), &text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_lines_that_differ_are_shown() {
        assert_eq!(different_lines("a\nb\nc\n", "a\nx\nc\n"), ["-b", "+x"]);
        assert_eq!(different_lines("a\nb\n", "a\nb\nc\n"), ["+c"]);
        assert!(different_lines("a\n", "a\n").is_empty());
    }

    #[test]
    fn every_build_has_a_folder_of_its_own() {
        let names = PROGRAMS.iter().flat_map(|program| {
            program.builds.iter().map(|build| slug(&format!("{}-{}", program.name, build.name)))
        });
        let mut names: Vec<String> = names.collect();
        let count = names.len();
        names.sort();
        names.dedup();
        assert_eq!(names.len(), count);
    }
}
