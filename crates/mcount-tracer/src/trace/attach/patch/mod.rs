//! `mcount patch`: functions of a process that runs are replaced by those of a shared object, and put back.
//!
//! As for `mcount attach`, two processes do it: the one that was started waits, and the worker does the work. Whatever
//! happens to the first one, the worker comes to an end: all is as it was, or all is new.

mod arch;
mod fix;
mod frames;
mod hook;
mod hub;
mod names;
mod plan;
mod region;
mod sources;
mod stacks;
mod work;

use self::fix::Fix;
use self::hub::Hub;
use self::plan::Plan;
use self::region::Region;
use self::work::{Known, PatchAttempt, Tried};
use super::{check, front, maps, refused, terminal, why};
use crate::pattern::Pattern;
use mcount_ptrace::Memory;
use nix::libc;
use std::fs::File;
use std::io;
use std::os::fd::AsRawFd;
use std::path::PathBuf;
use std::time::Duration;

/// Exit codes.
const DONE: u8 = 0;
const IN_THE_WAY: u8 = 1;

/// What to do.
pub enum Action {
    /// Replace functions by those of this file; only those that are meant, if any are named.
    Apply(PathBuf, Vec<Pattern>),
    /// Take patches out of force: those with these numbers or names, or all.
    Revert(Vec<String>),
}

/// What to do with which process.
pub struct Request {
    /// The process.
    pub process: i32,
    /// What to do.
    pub action: Action,
    /// How long to wait for threads that are in the way.
    pub wait: Duration,
    /// Say how long the process was stopped.
    pub verbose: bool,
    /// Says something.
    pub say: fn(&str),
    /// Says what is wrong or missing; the exit code for an error.
    pub complain: fn(&str) -> u8,
}

/// One patch of a process.
pub struct Row {
    /// Its number, from 1 on.
    pub number: usize,
    /// The name of its file.
    pub name: String,
    /// It's in force; else it was reverted.
    pub is_in_force: bool,
    /// Its functions. Those that a newer patch has replaced again are `false`.
    pub functions: Vec<(String, bool)>,
}

/// Does what `request` says; the exit code.
///
/// # Errors
///
/// The process can't be patched, or the file isn't one that can be brought in. Nothing has changed then.
pub fn patch(request: &Request) -> io::Result<u8> {
    check(request.process)?;
    // All that can be reported of the file is reported before anything is made.
    let fix = match &request.action {
        Action::Apply(path, _) => Some(Fix::read(path)?),
        Action::Revert(_) => None,
    };
    let code = front::divide(&[], |pipe| {
        terminal::leave(false);
        let patience = || !has_ended(pipe);
        let done = match (&request.action, &fix) {
            (Action::Apply(_, meant), Some(fix)) => apply(request, (fix, meant), &patience),
            (Action::Apply(..), None) => Ok(DONE),
            (Action::Revert(which), _) => revert(request, which, &patience),
        };
        let process = request.process;
        done.unwrap_or_else(|error| {
            (request.complain)(&format!("process {process}: {}", why(error)))
        })
    })?;
    code.ok_or_else(|| {
        io::Error::other(
            "the worker process was killed; mcount patch --list PID prints whether the patch is in force",
        )
    })
}

/// Is whoever waits for this gone, or wants it to end?
fn has_ended(pipe: &File) -> bool {
    let mut poll = libc::pollfd { fd: pipe.as_raw_fd(), events: libc::POLLIN, revents: 0 };
    // SAFETY: one structure, which lives during the call.
    unsafe { libc::poll(&raw mut poll, 1, 0) > 0 }
}

fn apply(
    request: &Request,
    (fix, meant): (&Fix, &[Pattern]),
    patience: work::Patience<'_>,
) -> io::Result<u8> {
    let mut work = PatchAttempt::begin(request.process)?;
    let plan = Plan::of(&work.program, &work.memory, fix, meant)?;
    for note in &plan.notes {
        (request.complain)(note);
    }
    let region = work.bring(fix, &plan)?;
    let told = work.tell(&region);
    let tried = told
        .and_then(|told| Ok((told, work.put_in_force(&region, &plan, (request.wait, patience))?)));
    let who = match tried {
        Ok((told, Tried::Done)) => {
            if !told {
                (request.complain)(
                    "warning: mcount can't register the new functions with its unwinder: exceptions can't pass through them",
                );
            }
            report(request, &work, fix, &plan);
            return Ok(DONE);
        }
        Ok((_, Tried::Waiting(who))) => Ok(who),
        Err(error) => Err(error),
    };
    // What can't be taken away stays mapped, and nothing leads there.
    let _ = work.take_away(&region, &plan);
    let _ = work.leave();
    (request.complain)(&format!("process {}: not patched: {}", request.process, who?));
    Ok(IN_THE_WAY)
}

fn report(request: &Request, work: &PatchAttempt, fix: &Fix, plan: &Plan) {
    let program = work.program.path.display();
    let (process, functions) = (request.process, plan.functions());
    (request.say)(&format!("{program} (process {process}): {} replaces {functions}", fix.name));
    stood(request, work);
}

fn stood(request: &Request, work: &PatchAttempt) {
    if request.verbose {
        let time = work.stood.as_secs_f64() * 1000.0;
        (request.say)(&format!("the process was stopped for {time:.2} ms at most"));
    }
}

fn revert(request: &Request, which: &[String], patience: work::Patience<'_>) -> io::Result<u8> {
    let mut work = PatchAttempt::begin(request.process)?;
    if work.find()?.is_none() {
        return Err(io::Error::other("nothing was patched in it"));
    }
    let is_meant = |number: usize, region: &Region| {
        which.is_empty()
            || which.iter().any(|one| *one == number.to_string() || *one == region.name)
    };
    match work.revert(&is_meant, (request.wait, patience))? {
        None if which.is_empty() => Err(io::Error::other("no patch is in force")),
        None => Err(io::Error::other(format!("no such patch is in force: {}", which.join(", ")))),
        Some((Tried::Done, names)) => {
            let (program, process) = (work.program.path.display(), request.process);
            (request.say)(&format!("{program} (process {process}): reverted {}", names.join(", ")));
            stood(request, &work);
            Ok(DONE)
        }
        Some((Tried::Waiting(who), _)) => {
            (request.complain)(&format!("process {}: not reverted: {who}", request.process));
            Ok(IN_THE_WAY)
        }
    }
}

/// The patches of a process. Nothing is stopped.
///
/// # Errors
///
/// The process may not be looked at.
pub fn list(process: i32) -> io::Result<Vec<Row>> {
    check(process)?;
    let memory = Memory::open(process).map_err(|error| refused(process, error))?;
    let maps = maps::read(process)?;
    let Some(hub) = Hub::find(&memory, &maps) else { return Ok(Vec::new()) };
    let table = hub.table(&memory)?;
    let known = Known::of(&hub, &memory, &table, &maps);
    let rows = known.regions.iter().map(|(number, region, is_in_force)| {
        let functions = region.functions.iter().map(|one| {
            let entry = known.entries.iter().find(|(slot, _)| *slot == one.slot);
            let name = entry.map(|(_, entry)| entry.name.clone()).unwrap_or_default();
            (name, table.slot(one.slot) == one.start)
        });
        Row {
            number: number + 1,
            name: region.name.clone(),
            is_in_force: *is_in_force,
            functions: functions.collect(),
        }
    });
    Ok(rows.collect())
}
