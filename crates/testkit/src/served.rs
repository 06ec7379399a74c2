//! A program that runs, and answers lines with lines.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};

/// A program that runs. It's ended when this is dropped.
#[derive(Debug)]
pub struct Served {
    child: Child,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
}

impl Served {
    /// Starts it, and waits until it's ready.
    ///
    /// # Errors
    ///
    /// It can't be started, or says something else.
    pub fn start(program: &Path) -> Result<Self, String> {
        Self::command(&mut Command::new(program))
    }

    /// The same by this command.
    ///
    /// # Errors
    ///
    /// As above.
    pub fn command(command: &mut Command) -> Result<Self, String> {
        let mut child = command
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .map_err(|error| error.to_string())?;
        let input = child.stdin.take();
        let output = BufReader::new(child.stdout.take().ok_or("no output")?);
        let mut served = Self { child, input, output };
        served.says("ready")?;
        Ok(served)
    }

    /// Its process ID.
    #[must_use]
    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// The next line that it writes; empty at the end.
    ///
    /// # Errors
    ///
    /// It can't be read.
    pub fn line(&mut self) -> Result<String, String> {
        let mut line = String::new();
        self.output.read_line(&mut line).map_err(|error| error.to_string())?;
        Ok(line.trim_end().to_owned())
    }

    /// Checks its next line.
    ///
    /// # Errors
    ///
    /// It's another one.
    pub fn says(&mut self, expected: &str) -> Result<(), String> {
        let line = self.line()?;
        if line == expected {
            Ok(())
        } else {
            Err(format!("it says {line:?} and not {expected:?}"))
        }
    }

    /// Writes a line to it.
    ///
    /// # Errors
    ///
    /// It no longer reads.
    pub fn tell(&mut self, what: &str) -> Result<(), String> {
        let input = self.input.as_mut().ok_or("no input")?;
        input
            .write_all(format!("{what}\n").as_bytes())
            .and_then(|()| input.flush())
            .map_err(|error| error.to_string())
    }

    /// Writes a line to it, and checks its answer.
    ///
    /// # Errors
    ///
    /// It answers something else.
    pub fn ask(&mut self, what: &str, expected: &str) -> Result<(), String> {
        self.tell(what)?;
        self.says(expected).map_err(|error| format!("{what}: {error}"))
    }

    /// Has it work; how often it called each function.
    ///
    /// # Errors
    ///
    /// It says something else.
    pub fn work(&mut self) -> Result<BTreeMap<String, u64>, String> {
        self.tell("go")?;
        let line = self.line()?;
        let mut words = line.split(' ');
        let mut counts = BTreeMap::new();
        while let (Some(name), Some(count)) = (words.next(), words.next()) {
            let count = count.parse().map_err(|_| format!("it says {line:?}"))?;
            counts.insert(name.to_owned(), count);
        }
        if counts.is_empty() { Err(format!("it says {line:?}")) } else { Ok(counts) }
    }

    /// Has a thread stay in a function; its number.
    ///
    /// # Errors
    ///
    /// It says something else.
    pub fn hold(&mut self, how: &str) -> Result<String, String> {
        self.tell(how)?;
        let line = self.line()?;
        line.strip_prefix("held ").map(str::to_owned).ok_or(line)
    }

    /// Its code as it is in memory now.
    ///
    /// # Errors
    ///
    /// There's no such process any more.
    pub fn code(&self) -> Result<Vec<u8>, String> {
        let id = self.id();
        let maps = std::fs::read_to_string(format!("/proc/{id}/maps"))
            .map_err(|error| error.to_string())?;
        let program =
            std::fs::read_link(format!("/proc/{id}/exe")).map_err(|error| error.to_string())?;
        let program = program.to_string_lossy().into_owned();
        let is_code = |line: &&str| line.contains(" r-xp ") && line.ends_with(&program);
        let line = maps.lines().find(is_code).ok_or("it has no code")?;
        let (start, end) =
            line.split_once(' ').and_then(|(range, _)| range.split_once('-')).ok_or("a line")?;
        let number = |word: &str| u64::from_str_radix(word, 16).map_err(|error| error.to_string());
        let (start, end) = (number(start)?, number(end)?);
        let mut bytes = vec![0; usize::try_from(end - start).map_err(|error| error.to_string())?];
        let memory = std::fs::OpenOptions::new()
            .read(true)
            .open(format!("/proc/{id}/mem"))
            .map_err(|error| error.to_string())?;
        memory.read_exact_at(&mut bytes, start).map_err(|error| error.to_string())?;
        Ok(bytes)
    }

    /// How many mappings it has, and how many open files.
    ///
    /// # Errors
    ///
    /// There's no such process any more.
    pub fn size(&self) -> Result<(usize, usize), String> {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.id()))
            .map_err(|error| error.to_string())?;
        let files = std::fs::read_dir(format!("/proc/{}/fd", self.id()))
            .map_err(|error| error.to_string())?;
        Ok((maps.lines().count(), files.count()))
    }

    /// Is any memory writable and executable?
    ///
    /// # Errors
    ///
    /// There's no such process any more.
    pub fn has_writable_code(&self) -> Result<bool, String> {
        let maps = std::fs::read_to_string(format!("/proc/{}/maps", self.id()))
            .map_err(|error| error.to_string())?;
        Ok(maps.lines().any(|line| line.contains(" rwxp ")))
    }

    /// Ends it; the last line that it writes.
    ///
    /// # Errors
    ///
    /// It doesn't end well.
    pub fn last(mut self) -> Result<String, String> {
        drop(self.input.take());
        let line = self.line()?;
        let status = self.child.wait().map_err(|error| error.to_string())?;
        if status.success() { Ok(line) } else { Err(format!("it ended with {status}: {line:?}")) }
    }

    /// It ends, and well.
    ///
    /// # Errors
    ///
    /// It doesn't, or says something.
    pub fn end(mut self) -> Result<(), String> {
        drop(self.input.take());
        let rest = self.line()?;
        let status = self.child.wait().map_err(|error| error.to_string())?;
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
