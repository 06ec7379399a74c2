//! What a [`Session`](mcount_tracer::Session) hands out is what the program counts itself, and what the trace has in the end; and what
//! it leaves is a program that runs on.
#![cfg(can_trace)]
#![expect(clippy::unwrap_used, reason = "a test")]

use mcount_tracer::{Call, Options, Session};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};
use testkit::room::Room;
use testkit::test;

fn main() -> std::process::ExitCode {
    testkit::trial::main()
}

/// Calls `inner` three times as often as `outer`: 100 times `outer`, or without end if there's an argument.
const PROGRAM: &str = "
#include <unistd.h>
volatile int count;
__attribute__((noinline)) void inner(void) { count++; }
__attribute__((noinline)) void outer(void) { for (int i = 0; i < 3; i++) inner(); count++; }
int main(int argc, char **argv) {
    for (int i = 0; i < 100 || argc > 1; i++) { outer(); if (argc > 1) usleep(1000); }
    return count == 400 ? 7 : 1;
}";

fn built(room: &Room) -> PathBuf {
    let (source, program) = (room.path("program.c"), room.path("program"));
    testkit::files::write(&source, PROGRAM.as_bytes()).unwrap();
    let mut gcc = Command::new("gcc");
    gcc.args(["-O1", "-fpatchable-function-entry=5", "-o"]).arg(&program).arg(&source);
    assert!(gcc.status().unwrap().success());
    program
}

fn count(calls: &[Call], name: &str) -> usize {
    calls.iter().filter(|call| &*call.function == name).count()
}

/// The calls of a function in a trace, as its reader finds them.
fn recorded(trace: &Path, name: &str) -> usize {
    let bytes = testkit::files::read(trace).unwrap();
    let trace = mcount_trace::Trace::parse(&bytes).unwrap();
    let is_it = |call: &mcount_trace::Call| {
        trace.function(call.function).is_some_and(|function| function.name == name.as_bytes())
    };
    trace.calls().filter(is_it).count()
}

#[test]
fn calls_of_a_program_come_and_stay_in_the_trace() {
    let room = Room::new().unwrap();
    let command = [OsString::from(built(&room))];
    let mut session = Session::start(&command, Options::new(room.path("a.mcount"))).unwrap();
    let mut calls = Vec::new();
    loop {
        let is_over = session.is_over();
        let new = session.calls();
        let is_all = is_over && new.is_empty();
        calls.extend(new);
        if is_all {
            break;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    assert_eq!((count(&calls, "outer"), count(&calls, "inner")), (100, 300));
    assert!(calls.iter().all(|call| call.module.ends_with("program")));
    assert_eq!(session.missed(), 0);
    let finished = session.stop().unwrap();
    assert_eq!(finished.notes, Vec::<String>::new());
    assert_eq!(
        (recorded(&finished.trace, "outer"), recorded(&finished.trace, "inner")),
        (100, 300)
    );
}

fn endless(room: &Room) -> Child {
    let mut command = Command::new(built(room));
    command.arg("on").stdout(Stdio::null()).spawn().unwrap()
}

#[test]
fn a_process_runs_on_behind_a_session_and_another_one() {
    let room = Room::new().unwrap();
    let mut child = endless(&room);
    let process = i32::try_from(child.id()).unwrap();
    for name in ["a.mcount", "b.mcount"] {
        let options = Options::new(room.path(name)).function("in*").unwrap();
        let mut session = Session::take(process, options).unwrap();
        assert_eq!(session.process(), process);
        let (mut calls, limit) = (Vec::new(), Instant::now() + Duration::from_secs(60));
        while count(&calls, "inner") < 30 && Instant::now() < limit {
            calls.extend(session.calls());
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(count(&calls, "inner") >= 30);
        assert_eq!(count(&calls, "outer"), 0, "it isn't meant");
        let finished = session.stop().unwrap();
        assert!(recorded(&finished.trace, "inner") >= 30);
        assert!(child.try_wait().unwrap().is_none(), "it runs on");
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn what_cannot_be_traced_is_an_error() {
    let room = Room::new().unwrap();
    let options = || Options::new(room.path("a.mcount"));
    let missing = [OsString::from(room.path("nothing-here"))];
    assert!(Session::start(&missing, options()).is_err());
    let program = [OsString::from(built(&room))];
    let nobody = options().function("no_such_function").unwrap();
    assert!(Session::start(&program, nobody).is_err());
    let own = i32::try_from(std::process::id()).unwrap();
    assert!(Session::take(own, options()).is_err());
    assert!(options().function("[").is_err());
    assert!(!room.path("a.mcount").exists());
}
