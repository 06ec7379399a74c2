//! A program that answers lines with lines, what's patched into it, and `mcount patch`.

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;

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

/// A program that runs.
pub(crate) struct Served {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Served {
    pub(crate) fn start(program: &Path) -> Result<Self, String> {
        Self::command(&mut Command::new(program))
    }

    pub(crate) fn command(command: &mut Command) -> Result<Self, String> {
        let mut child =
            command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().map_err(text)?;
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().ok_or("no output")?);
        let mut served = Self { child, input, output };
        served.says("ready")?;
        Ok(served)
    }

    pub(crate) fn id(&self) -> u32 {
        self.child.id()
    }

    pub(crate) fn line(&mut self) -> Result<String, String> {
        let mut line = String::new();
        self.output.read_line(&mut line).map_err(text)?;
        Ok(line.trim_end().to_owned())
    }

    pub(crate) fn says(&mut self, expected: &str) -> Result<(), String> {
        let line = self.line()?;
        if line == expected {
            Ok(())
        } else {
            Err(format!("it says {line:?} and not {expected:?}"))
        }
    }

    pub(crate) fn tell(&mut self, what: &str) -> Result<(), String> {
        let input = self.input.as_mut().ok_or("no input")?;
        input.write_all(format!("{what}\n").as_bytes()).and_then(|()| input.flush()).map_err(text)
    }

    pub(crate) fn ask(&mut self, what: &str, expected: &str) -> Result<(), String> {
        self.tell(what)?;
        self.says(expected).map_err(|error| format!("{what}: {error}"))
    }

    /// Has a thread stay in a function; its number.
    pub(crate) fn hold(&mut self, how: &str) -> Result<String, String> {
        self.tell(how)?;
        let line = self.line()?;
        line.strip_prefix("held ").map(str::to_owned).ok_or(line)
    }

    /// Its code as it is in memory now.
    pub(crate) fn code(&self) -> Result<Vec<u8>, String> {
        use std::os::unix::fs::FileExt;
        let id = self.id();
        let maps = std::fs::read_to_string(format!("/proc/{id}/maps")).map_err(text)?;
        let program = std::fs::read_link(format!("/proc/{id}/exe")).map_err(text)?;
        let program = program.to_string_lossy().into_owned();
        let is_code = |line: &&str| line.contains(" r-xp ") && line.ends_with(&program);
        let line = maps.lines().find(is_code).ok_or("it has no code")?;
        let (start, end) =
            line.split_once(' ').and_then(|(range, _)| range.split_once('-')).ok_or("a line")?;
        let number = |word: &str| u64::from_str_radix(word, 16).map_err(text);
        let (start, end) = (number(start)?, number(end)?);
        let mut bytes = vec![0; usize::try_from(end - start).map_err(text)?];
        let memory =
            std::fs::OpenOptions::new().read(true).open(format!("/proc/{id}/mem")).map_err(text)?;
        memory.read_exact_at(&mut bytes, start).map_err(text)?;
        Ok(bytes)
    }

    /// How many mappings it has, and how many open files.
    pub(crate) fn size(&self) -> Result<(usize, usize), String> {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.id())).map_err(text)?;
        let files = std::fs::read_dir(format!("/proc/{}/fd", self.id())).map_err(text)?;
        Ok((maps.lines().count(), files.count()))
    }

    /// Is any memory writable and executable?
    pub(crate) fn has_writable_code(&self) -> Result<bool, String> {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.id())).map_err(text)?;
        Ok(maps.lines().any(|line| line.contains(" rwxp ")))
    }

    /// It ends, and well.
    pub(crate) fn end(mut self) -> Result<(), String> {
        drop(self.input.take());
        let rest = self.line()?;
        let status = self.child.wait().map_err(text)?;
        match (rest.as_str(), status.code()) {
            ("", Some(7)) => Ok(()),
            _ => Err(format!("it ended with {status}, and said {rest:?}")),
        }
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
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
    let deadline = Instant::now() + PATIENCE;
    while !done() {
        if Instant::now() > deadline {
            return Err(format!("waited in vain: {what}"));
        }
        sleep(Duration::from_millis(1));
    }
    Ok(())
}
