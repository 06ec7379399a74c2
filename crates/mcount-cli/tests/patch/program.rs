//! A program that answers lines with lines, what's patched into it, and `mcount patch`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use testkit::elsewhere;
use testkit::served::Served;

/// How long anything may take.
const PATIENCE: Duration = Duration::from_secs(60);

pub(crate) const HOOKS: &[&str] = &["-O2", "-fpatchable-function-entry=5"];

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
pub(crate) fn text<E: ToString>(error: E) -> String {
    error.to_string()
}

/// A folder for one test.
pub(crate) struct Room(TempDir);

impl Room {
    pub(crate) fn new() -> Result<Self, String> {
        TempDir::new_in(env!("CARGO_TARGET_TMPDIR")).map(Self).map_err(text)
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Writes a source file.
    pub(crate) fn source(&self, name: &str, text: &str) -> Result<PathBuf, String> {
        let path = self.path(name);
        testkit::files::write(&path, text.as_bytes())?;
        Ok(path)
    }

    /// Makes `name` of these sources, which are in `tests/patch` or have whole paths.
    pub(crate) fn compile(
        &self,
        name: &str,
        compiler: &str,
        flags: &[&str],
        sources: &[&str],
    ) -> Result<PathBuf, String> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/patch");
        let output = self.path(name);
        if let Some(programs) = elsewhere::folder() {
            let of_tests = |source: &&str| match source.strip_prefix('/') {
                Some(_) => (*source).to_owned(),
                None => format!("patch/{source}"),
            };
            let sources: Vec<String> = sources.iter().map(of_tests).collect();
            let sources: Vec<&str> = sources.iter().map(String::as_str).collect();
            let words = [&[compiler], flags].concat();
            return elsewhere::copy(&programs, &words, &sources, &output).map(|()| output);
        }
        let mut command = Command::new(compiler);
        command.args(["-D_GNU_SOURCE", "-w"]).args(flags);
        command.args(sources.iter().map(|source| folder.join(source)));
        command.args(["-lpthread", "-o"]).arg(&output);
        testkit::process::run(&mut command).map(|_| output)
    }

    /// A shared object of these sources.
    pub(crate) fn fix(
        &self,
        name: &str,
        flags: &[&str],
        sources: &[&str],
    ) -> Result<PathBuf, String> {
        let flags = [&["-shared", "-fPIC", "-O2"], flags].concat();
        self.compile(name, "gcc", &flags, sources)
    }
}

/// What became of `mcount`.
#[derive(Debug)]
pub(crate) struct Ended {
    pub(crate) code: Option<i32>,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

impl Ended {
    /// It ended with this code, and said this.
    pub(crate) fn is(&self, code: i32, says: &str) -> Result<(), String> {
        let is_said = self.stderr.contains(says) || self.stdout.contains(says);
        if self.code == Some(code) && is_said {
            return Ok(());
        }
        Err(format!("{:?} and not {code}; {says:?} isn't in {:?}", self.code, self.stderr))
    }
}

/// `mcount patch`, to be given arguments.
pub(crate) fn command(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
    command.arg("patch").args(words);
    command
}

pub(crate) fn run(command: &mut Command) -> Result<Ended, String> {
    let output = command.stdin(Stdio::null()).output().map_err(text)?;
    let words = |bytes: Vec<u8>| String::from_utf8_lossy(&bytes).into_owned();
    Ok(Ended {
        code: output.status.code(),
        stdout: words(output.stdout),
        stderr: words(output.stderr),
    })
}

/// Patches `served`.
pub(crate) fn patch(served: &Served, fix: &Path) -> Result<Ended, String> {
    run(command(&[&served.id().to_string()]).arg(fix))
}

pub(crate) fn with(served: &Served, options: &[&str], words: &[&str]) -> Result<Ended, String> {
    run(command(options).arg(served.id().to_string()).args(words))
}

/// Waits until `done` says yes.
pub(crate) fn until(what: &str, mut done: impl FnMut() -> bool) -> Result<(), String> {
    let deadline = Instant::now() + testkit::budget::on_this_host(PATIENCE);
    while !done() {
        if Instant::now() > deadline {
            return Err(format!("waited in vain: {what}"));
        }
        sleep(Duration::from_millis(1));
    }
    Ok(())
}
