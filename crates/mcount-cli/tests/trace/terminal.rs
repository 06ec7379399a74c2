//! What is typed on a terminal reaches the process that was started, and the one that does the work can write to it.

use crate::Test;
use crate::attach::{compare, text};
use crate::truth::{Room, until};
use std::io::Write;
use std::process::{Child, Command, Stdio};
use testkit::served::Served;
use testkit::trace::Trace;

pub(crate) fn tests() -> Vec<Test> {
    let rows = [
        ("terminal::interrupt", Some(("\x03", "code 0"))),
        ("terminal::quit", Some(("\x1c", "code 131"))),
        ("terminal::hang-up", None),
    ];
    let row = |(name, key): (&str, Option<(&'static str, &'static str)>)| Test {
        name: name.to_owned(),
        wants: vec!["gcc", "script", "stty"],
        open: None,
        run: Box::new(move || ended_by(key)),
    };
    rows.into_iter().map(row).collect()
}

/// A command on a terminal of its own, which `script` gives it.
pub(crate) struct Terminal {
    child: Child,
    shown: std::path::PathBuf,
}

impl Terminal {
    /// Runs a command of the shell.
    pub(crate) fn start(room: &Room, command: &str) -> Result<Self, String> {
        let shown = room.path("shown");
        let file = std::fs::OpenOptions::new().create(true).append(true).open(&shown);
        let mut script = Command::new("script");
        script.args(["--quiet", "--return", "--command", command, "/dev/null"]);
        // Whatever shell this user has.
        script.env("SHELL", "/bin/sh");
        script.stdin(Stdio::piped()).stdout(file.map_err(text)?).env("TERM", "xterm");
        script.current_dir(room.path(""));
        Ok(Self { child: script.spawn().map_err(text)?, shown })
    }

    pub(crate) fn shown(&self) -> String {
        let bytes = testkit::files::read(&self.shown).unwrap_or_default();
        String::from_utf8_lossy(&bytes).into_owned()
    }

    /// What has been shown since there were so many bytes has to have this in it before long.
    pub(crate) fn expect(&self, what: &str, since: usize) -> Result<(), String> {
        let is_there = || self.shown().get(since..).is_some_and(|shown| shown.contains(what));
        until(&format!("{what:?} is shown"), is_there)
            .map_err(|error| format!("{error}: {:?}", self.shown()))
    }

    /// Presses keys, and waits until this is shown.
    pub(crate) fn press(&mut self, keys: &str, expected: &str) -> Result<(), String> {
        let since = self.shown().len();
        let input = self.child.stdin.as_mut().ok_or("no input")?;
        input.write_all(keys.as_bytes()).and_then(|()| input.flush()).map_err(text)?;
        self.expect(expected, since)
    }

    /// Waits for its end.
    pub(crate) fn wait(mut self) -> Result<String, String> {
        until("it ends", || !matches!(self.child.try_wait(), Ok(None)))?;
        Ok(self.shown())
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A key for a signal ends what was started, or the end of the terminal does, and the trace is whole. The terminal stops processes that
/// write to it in the background (`stty tostop`).
fn ended_by(key: Option<(&str, &str)>) -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", &["-O2", "-fpatchable-function-entry=5"], "served.c")?;
    let mut served = Served::start(&program)?;
    let exe = env!("CARGO_BIN_EXE_mcount");
    let command = format!("{exe} attach -o t.mcount {}", served.id());
    // No other shell waits for this one: a key for a signal would kill that, and so end the session.
    let shell = format!("exec sh -c 'trap : INT QUIT; stty tostop; {command}; echo code $?'");
    let mut terminal = Terminal::start(&room, &shell)?;
    terminal.expect("; ^C ends it", 0)?;
    let counts = served.work()?;
    if let Some((key, expected)) = key {
        terminal.press(key, expected)?;
        terminal.wait()?;
    } else {
        drop(terminal);
    }
    // Who did the work may still be at it.
    let path = room.path("t.mcount");
    until("the trace is finished", || Trace::read(&path).is_ok_and(|trace| trace.finished))?;
    compare(&counts, &Trace::read(&path)?)?;
    served.end()
}
