//! Runs the programs of a row in turns.
//!
//! Each starts from a fresh copy of the input, written to disk and in the page cache, so that no
//! write-back of one run falls into the next. The order is turned round every time. Peak memory is
//! measured in a run of its own: `time` is small, and a child begins with the peak of its parent.

use nix::sys::resource::{UsageWho, getrusage};
use nix::sys::time::TimeValLike as _;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use super::floor::{self, Needs};
use super::row::{Input, Program, Row, What};
use super::sample::{Measured, Sample};
use crate::{Result, files};

/// Copies of so many bytes are not waited for: to write them back disturbs nobody.
const SMALL: u64 = 1 << 20;

/// Measures `row` in the folder `work` below `folder`.
pub(crate) fn row(row: &Row, runs: usize, folder: &Path) -> Result<Measured> {
    let work = folder.join("work");
    let runs = runs * row.repeat;
    let mut samples = Vec::new();
    let mut needs = None;
    for program in &row.programs {
        let (sample, growth) = alone(program, &work)?;
        if let (None, Some(input)) = (&needs, row.floor.as_ref()) {
            needs = Some(Needs::of(&input.reads, growth, sample_output(&work)?)?);
        }
        samples.push(sample);
    }
    let mut floors = Sample { label: "floor".to_owned(), ..Sample::default() };
    for round in 0..runs {
        let mut order: Vec<usize> = (0..row.programs.len()).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for index in order {
            let (Some(program), Some(sample)) = (row.programs.get(index), samples.get_mut(index))
            else {
                continue;
            };
            if !sample.is_enough(runs) {
                prepare(&program.input, &work)?;
                let (wall, cpu) = timed(&mut command(program, &work)?, program)?;
                sample.wall.push(wall);
                sample.cpu.push(cpu);
            }
        }
        if let (Some(needs), Some(first)) = (&needs, row.programs.first()) {
            prepare(&first.input, &work)?;
            let wall = floor::run(needs, &work)?;
            floors.wall.push(wall);
            floors.cpu.push(wall);
        }
    }
    for sample in samples.iter_mut().chain([&mut floors]) {
        sample.wall.sort_by(f64::total_cmp);
        sample.cpu.sort_by(f64::total_cmp);
    }
    let verdicts = row.goals.iter().map(|goal| goal.verdict(&samples)).collect();
    let floor = row.floor.as_ref().map(|floor| floor.text.clone());
    if floor.is_some() {
        samples.push(floors);
    }
    Ok(Measured { title: row.title.clone(), input: row.input.clone(), samples, verdicts, floor })
}

/// The run that is not timed: it warms the caches, and says how much memory the program takes, what
/// it found, and by how many bytes each file grew.
fn alone(program: &Program, work: &Path) -> Result<(Sample, Vec<u64>)> {
    prepare(&program.input, work)?;
    let before = sizes(&program.input, work)?;
    let inner = command(program, work)?;
    let mut time = Command::new("/usr/bin/time");
    time.args(["-f", "%M", "-o", "../memory"]).arg(inner.get_program()).args(inner.get_args());
    time.current_dir(work);
    timed(&mut time, program)?;
    let memory = files::read(&work.with_file_name("memory"))?;
    let memory = String::from_utf8_lossy(&memory).trim().parse().ok();
    let after = sizes(&program.input, work)?;
    let growth: Vec<u64> =
        before.iter().zip(&after).map(|(old, new)| new.saturating_sub(*old)).collect();
    let result = match program.what {
        What::Records => Some(entries(&program.input, work)?),
        What::Prints => Some(lines(&files::read(&work.with_file_name("output"))?)),
        What::Nothing => None,
    };
    let (label, shown) = (program.label.clone(), program.shown.clone());
    Ok((Sample { label, command: shown, memory, result, ..Sample::default() }, growth))
}

/// How many bytes the last command printed.
fn sample_output(work: &Path) -> Result<u64> {
    Ok(std::fs::metadata(work.with_file_name("output"))?.len())
}

/// Puts fresh copies of the input into the empty folder `work`, on disk and in memory.
fn prepare(input: &Input, work: &Path) -> Result<()> {
    if work.exists() {
        std::fs::remove_dir_all(work)?;
    }
    files::make_folder(work)?;
    if let Input::Copies(paths) = input {
        let mut bytes = 0;
        for path in paths {
            let name = path.file_name().ok_or("an input without name")?;
            bytes += std::fs::copy(path, work.join(name))?;
        }
        if bytes < SMALL {
            return Ok(());
        }
        let synced = Command::new("sync").arg("-f").arg(work).status()?;
        if !synced.success() {
            return Err("sync failed".into());
        }
    }
    Ok(())
}

/// The command of a program, with its files, in the folder with the copies.
fn command(program: &Program, work: &Path) -> Result<Command> {
    let (first, rest) = program.command.split_first().ok_or("a program without command")?;
    let mut command = Command::new(first);
    command.args(rest).current_dir(work);
    match &program.input {
        Input::Copies(paths) => command.args(paths.iter().filter_map(|path| path.file_name())),
        Input::InPlace(path) => command.arg(path),
    };
    Ok(command)
}

/// Wall clock and processor time of one run, in seconds.
fn timed(command: &mut Command, program: &Program) -> Result<(f64, f64)> {
    let work = command.get_current_dir().ok_or("a command without folder")?;
    let output = files::create(&work.with_file_name("output"))?;
    command.stdin(Stdio::null()).stdout(output).stderr(Stdio::piped());
    let children = || getrusage(UsageWho::RUSAGE_CHILDREN);
    let before = children()?;
    let begin = Instant::now();
    let done = command.spawn()?.wait_with_output()?;
    let wall = begin.elapsed().as_secs_f64();
    let after = children()?;
    if !done.status.success() {
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        return Err(format!("{}: {}: {said}", program.shown, done.status).into());
    }
    let user = after.user_time() - before.user_time();
    let system = after.system_time() - before.system_time();
    let micros = u32::try_from((user + system).num_microseconds()).unwrap_or(u32::MAX);
    Ok((wall, f64::from(micros) / 1e6))
}

fn sizes(input: &Input, work: &Path) -> Result<Vec<u64>> {
    let Input::Copies(paths) = input else { return Ok(Vec::new()) };
    let names = paths.iter().filter_map(|path| path.file_name());
    names.map(|name| Ok(std::fs::metadata(work.join(name))?.len())).collect()
}

/// The entries in the tables of all files of `work`.
fn entries(input: &Input, work: &Path) -> Result<u64> {
    let Input::Copies(paths) = input else { return Ok(0) };
    let names = paths.iter().filter_map(|path| path.file_name());
    names.map(|name| floor::entries(&files::open(&work.join(name))?)).sum()
}

/// What was printed: a count, or lines.
fn lines(output: &[u8]) -> u64 {
    let text = String::from_utf8_lossy(output);
    text.trim().parse().unwrap_or_else(|_| text.lines().count() as u64)
}
