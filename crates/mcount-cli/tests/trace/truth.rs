//! Runs a program with and without tracing, and compares: what it prints, how it ends, and the calls in the
//! trace with those that it counted.

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;
use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};
use tempfile::TempDir;
use testkit::elsewhere;
use testkit::trace::Trace;

/// How long a program may run, traced or not.
const PATIENCE: Duration = Duration::from_secs(60);

/// What became of a program.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Ended {
    /// The exit code, or 128 and the signal, as shells have it.
    pub(crate) code: i32,
    pub(crate) stdout: String,
    pub(crate) stderr: String,
}

/// A folder for one test.
pub(crate) struct Room(TempDir);

impl Room {
    pub(crate) fn new() -> Result<Self, String> {
        let folder = env!("CARGO_TARGET_TMPDIR");
        TempDir::new_in(folder).map(Self).map_err(|error| format!("{folder}: {error}"))
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.0.path().join(name)
    }

    /// Makes a program, or a library, of the source `source`.
    pub(crate) fn compile(
        &self,
        compiler: &str,
        flags: &[&str],
        source: &str,
    ) -> Result<PathBuf, String> {
        let stem = Path::new(source).file_stem().unwrap_or_default();
        let output = self.0.path().join(stem);
        if let Some(folder) = elsewhere::folder() {
            let words = [&[compiler], flags].concat();
            let is_ours = !Path::new(source).is_absolute();
            let source = if is_ours { format!("trace/{source}") } else { source.to_owned() };
            return elsewhere::copy(&folder, &words, &[&source], &output).map(|()| output);
        }
        let mut command = Command::new(compiler);
        if compiler == "rustc" {
            command.args(["--edition", "2024", "-Ccodegen-units=1"]).args(flags);
            command.arg(sources().join(source)).env("RUSTC_BOOTSTRAP", "1");
        } else {
            command.args(["-D_GNU_SOURCE", "-w"]).args(flags).arg(sources().join(source));
            command.args(["-lpthread", "-ldl", "-lm"]);
        }
        command.arg("-o").arg(&output);
        testkit::process::run(&mut command).map(|_| output)
    }

    /// A folder in it to run in, so that nothing that a program leaves behind gets into another's way.
    fn place(&self, name: &str) -> Result<PathBuf, String> {
        let path = self.path(name);
        std::fs::create_dir_all(&path).map_err(|error| error.to_string())?;
        Ok(path)
    }

    /// Starts a command in the folder `name` of this one, as the leader of a process group.
    pub(crate) fn start(&self, name: &str, command: &mut Command) -> Result<Child, String> {
        let folder = self.place(name)?;
        let create = |file: &str| {
            OpenOptions::new()
                .write(true)
                .create(true)
                .truncate(true)
                .open(folder.join(file))
                .map(Stdio::from)
                .map_err(|error| error.to_string())
        };
        command.current_dir(&folder).stdin(Stdio::null());
        command.stdout(create("stdout")?).stderr(create("stderr")?).process_group(0);
        command.env("TRUTH", folder.join("truth"));
        command.spawn().map_err(|error| format!("{command:?}: {error}"))
    }

    /// What was started in the folder `name` has printed so far.
    pub(crate) fn printed(&self, name: &str) -> String {
        let bytes = testkit::files::read(&self.path(name).join("stdout")).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// Waits until what was started in the folder `name` has ended.
    pub(crate) fn wait(&self, name: &str, child: &mut Child) -> Result<Ended, String> {
        let deadline = Instant::now() + testkit::budget::on_this_host(PATIENCE);
        let status = loop {
            if let Some(status) = child.try_wait().map_err(|error| error.to_string())? {
                break status;
            }
            if Instant::now() > deadline {
                kill_group(child, Signal::SIGKILL);
                let _ = child.wait();
                return Err(format!("{name}: it doesn't end"));
            }
            sleep(Duration::from_millis(1));
        };
        let text = |file: &str| {
            let bytes = testkit::files::read(&self.path(name).join(file));
            bytes.map(|bytes| String::from_utf8_lossy(&bytes).into_owned())
        };
        let code = status.code().unwrap_or_else(|| 128 + status.signal().unwrap_or(0));
        let stderr = without_next_command(&text("stderr")?);
        Ok(Ended { code, stdout: text("stdout")?, stderr })
    }

    /// Runs a command in the folder `name` of this one.
    pub(crate) fn run(&self, name: &str, command: &mut Command) -> Result<Ended, String> {
        let mut child = self.start(name, command)?;
        self.wait(name, &mut child)
    }

    /// The trace that `mcount trace` in the folder `name` wrote.
    pub(crate) fn trace(&self, name: &str) -> Result<Trace, String> {
        Trace::read(&self.path(name).join("trace.mcount"))
    }

    /// What the programs that ran in the folder `name` counted, by process and function.
    pub(crate) fn counted(&self, name: &str) -> Result<BTreeMap<(u32, String), u64>, String> {
        let text = testkit::files::read(&self.path(name).join("truth"))?;
        let mut counted = BTreeMap::new();
        for line in String::from_utf8_lossy(&text).lines() {
            let mut words = line.split(' ');
            let (process, function, count) = (words.next(), words.next(), words.next());
            let number = |word: Option<&str>| word.and_then(|word| word.parse::<u64>().ok());
            let (Some(process), Some(function), Some(count)) =
                (number(process), function, number(count))
            else {
                return Err(format!("not a count: {line}"));
            };
            let process = u32::try_from(process).unwrap_or(0);
            *counted.entry((process, function.to_owned())).or_default() += count;
        }
        Ok(counted)
    }

    /// Is what the trace in the folder `name` has what the program counted?
    pub(crate) fn compare_counts(&self, name: &str, trace: &Trace) -> Result<(), String> {
        let counted = self.counted(name)?;
        if counted.is_empty() {
            return Err("the program counted nothing".to_owned());
        }
        let wrong: Vec<String> = counted
            .iter()
            .map(|((process, function), count)| (function, *count, trace.count(*process, function)))
            .filter(|(_, expected, found)| expected != found)
            .map(|(function, expected, found)| format!("{function}: {found} instead of {expected}"))
            .collect();
        if wrong.is_empty() { Ok(()) } else { Err(wrong.join(", ")) }
    }
}

/// What was printed, without the line in which `mcount trace` says what to do next, which every trace ends with.
fn without_next_command(text: &str) -> String {
    let is_it = |line: &str| line.starts_with("mcount: ") && line.contains(": mcount stats ");
    match text.split_inclusive('\n').next_back() {
        Some(last) if is_it(last) => text.strip_suffix(last).unwrap_or(text).to_owned(),
        _ => text.to_owned(),
    }
}

/// `mcount trace`, with the program's name at the end and its arguments to come. Call it in a folder of a room.
pub(crate) fn tracer(program: &Path) -> Command {
    tracer_with(&[], program)
}

/// The same with options. Only functions with hooks are recorded, unless [`DEFAULTS`] is among them.
pub(crate) fn tracer_with(options: &[&str], program: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
    command.args(["trace", "--output", "trace.mcount"]).args(as_given(options));
    command.arg("--").arg(program);
    command
}

/// What stands for all that `mcount trace` and `mcount attach` record if nobody says `--plain`.
pub(crate) const DEFAULTS: &str = "(defaults)";

/// Options, with `--plain` unless [`DEFAULTS`] is among them.
pub(crate) fn as_given<'o>(options: &[&'o str]) -> Vec<&'o str> {
    let others = options.iter().copied().filter(|option| *option != DEFAULTS);
    let plain = (!options.contains(&DEFAULTS)).then_some("--plain");
    plain.into_iter().chain(others).collect()
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

/// The process that the tracer `child` has started.
pub(crate) fn traced_process(child: &Child) -> Result<u64, String> {
    let (id, mut found) = (child.id(), None);
    until("it starts the program", || {
        let path = format!("/proc/{id}/task/{id}/children");
        let text = testkit::files::read(Path::new(&path)).unwrap_or_default();
        let text = String::from_utf8_lossy(&text).into_owned();
        found = text.split_whitespace().next().and_then(|word| word.parse().ok());
        found.is_some()
    })?;
    found.ok_or_else(|| "it has no child".to_owned())
}

impl Drop for Room {
    /// Ends the programs of the test that still run, as after a failure: what they take of the processors would be missing in all
    /// tests that follow.
    fn drop(&mut self) {
        for entry in std::fs::read_dir("/proc").into_iter().flatten().flatten() {
            let id = entry.file_name().to_str().and_then(|name| name.parse().ok());
            let program = std::fs::read_link(entry.path().join("exe")).unwrap_or_default();
            if let Some(id) = id.filter(|_| program.starts_with(self.0.path())) {
                kill_one(id, Signal::SIGKILL);
            }
        }
    }
}

/// Sends a signal to one process. 0 and 1 are none, or too many.
pub(crate) fn kill_one(process: u64, signal: Signal) {
    if let Some(process) = i32::try_from(process).ok().filter(|process| *process > 1) {
        let _ = kill(Pid::from_raw(process), signal);
    }
}

/// Sends a signal to all processes of the group that `child` leads.
pub(crate) fn kill_group(child: &Child, signal: Signal) {
    if let Some(group) = i32::try_from(child.id()).ok().filter(|group| *group > 1) {
        let _ = killpg(Pid::from_raw(group), signal);
    }
}

/// The programs' sources.
pub(crate) fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/trace")
}

/// What else is to be checked than that nothing is changed and every call counted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Also {
    /// The calls of each thread are nested.
    Nesting,
    /// They aren't, as the program changes stacks.
    Nothing,
}

/// Runs `program` with these arguments twice, once traced, and compares.
pub(crate) fn same(
    room: &Room,
    program: &Path,
    change: impl Fn(&mut Command),
    also: Also,
) -> Result<(), String> {
    same_with(room, program, &[], change, also)
}

/// The same with options of `mcount trace`.
pub(crate) fn same_with(
    room: &Room,
    program: &Path,
    options: &[&str],
    change: impl Fn(&mut Command),
    also: Also,
) -> Result<(), String> {
    let mut untraced = Command::new(program);
    change(&mut untraced);
    let untraced = room.run("untraced", &mut untraced)?;
    let mut traced = tracer_with(options, program);
    change(&mut traced);
    let mut traced = room.run("traced", &mut traced)?;
    // That some functions can't be probed is no news.
    let is_news = |line: &&str| !line.contains(" cannot be probed; mcount trace --list --probe");
    traced.stderr = traced.stderr.split_inclusive('\n').filter(is_news).collect();
    if untraced != traced {
        return Err(differences(&untraced, &traced));
    }
    let mut trace = room.trace("traced")?;
    room.compare_counts("traced", &trace)?;
    // What isn't recorded by default is no error.
    let has_notes = !trace.notes.is_empty() && !options.contains(&DEFAULTS);
    if trace.dropped != 0 || !trace.finished || has_notes {
        let Trace { dropped, finished, notes, .. } = &trace;
        return Err(format!("dropped {dropped}, finished {finished}, {notes:?}"));
    }
    if also == Also::Nesting { trace.check_nesting() } else { Ok(()) }
}

/// The lines that only one of them printed, and both exit codes.
fn differences(untraced: &Ended, traced: &Ended) -> String {
    let mut text = format!("exit code {}, traced {}", untraced.code, traced.code);
    for (one, other) in [(&untraced.stdout, &traced.stdout), (&untraced.stderr, &traced.stderr)] {
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        let (one, other) = (lines(one), lines(other));
        let missing = one.iter().filter(|line| !other.contains(line));
        let added = other.iter().filter(|line| !one.contains(line));
        text.extend(missing.take(10).map(|line| format!("\n-{line}")));
        text.extend(added.take(10).map(|line| format!("\n+{line}")));
    }
    text
}
