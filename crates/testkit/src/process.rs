//! Running tools from tests: what they print is what is wanted, and when they fail, the message has
//! the command line, so that it can be repeated by hand.

use std::path::Path;
use std::process::{Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

/// Long enough for a compiler on a loaded machine; an emulated program that runs wild ends too.
const TIME_LIMIT: Duration = Duration::from_secs(120);

const POLL: Duration = Duration::from_millis(2);

/// Runs a command to its end and returns its standard output.
///
/// # Errors
///
/// The command line and all it printed, if it cannot start, does not succeed, or does not end
/// within two minutes. It must not print more than a pipe holds.
pub fn run(command: &mut Command) -> Result<String, String> {
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().map_err(|error| format!("{}: {error}", line(command)))?;
    let deadline = Instant::now() + TIME_LIMIT;
    let mut in_time = true;
    while child.try_wait().map_err(|error| format!("{}: {error}", line(command)))?.is_none() {
        if Instant::now() > deadline {
            in_time = false;
            child.kill().map_err(|error| format!("{}: {error}", line(command)))?;
        }
        thread::sleep(POLL);
    }
    let output = child.wait_with_output().map_err(|error| format!("{}: {error}", line(command)))?;
    let stdout = String::from_utf8_lossy(&output.stdout).into_owned();
    if in_time && output.status.success() {
        return Ok(stdout);
    }
    let stderr = String::from_utf8_lossy(&output.stderr);
    let end = if in_time { output.status.to_string() } else { "ran out of time".to_owned() };
    Err(format!("{}\n{end}\n{stdout}{stderr}", line(command)))
}

/// Runs a command and, once the file `begun` is there, sends it `signal`, a name as `kill` knows it;
/// how it then ended.
///
/// # Errors
///
/// It cannot be started, or the file does not appear within half a minute.
pub fn disturb(command: &mut Command, begun: &Path, signal: &str) -> Result<ExitStatus, String> {
    crate::interrupt::not_ignored();
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    let mut child = command.spawn().map_err(|error| format!("{}: {error}", line(command)))?;
    let deadline = Instant::now() + Duration::from_secs(30);
    while !begun.exists() {
        if Instant::now() > deadline {
            let _ = child.kill();
            return Err(format!("{}: does not begin", line(command)));
        }
        thread::sleep(POLL);
    }
    run(Command::new("kill").args(["-s", signal, &child.id().to_string()]))?;
    child.wait().map_err(|error| format!("{}: {error}", line(command)))
}

/// The command as one would type it, for arguments without spaces.
fn line(command: &Command) -> String {
    let mut line = String::new();
    if let Some(folder) = command.get_current_dir() {
        line = format!("cd {} && ", folder.display());
    }
    line.push_str(&command.get_program().to_string_lossy());
    for argument in command.get_args() {
        line.push(' ');
        line.push_str(&argument.to_string_lossy());
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn success_is_what_it_printed() {
        assert_eq!(run(Command::new("echo").arg("a")).unwrap(), "a\n");
    }

    #[test]
    fn failure_names_the_command_and_what_it_printed() {
        let error = run(Command::new("sh").args(["-c", "echo why >&2; exit 3"])).unwrap_err();
        assert!(error.starts_with("sh -c") && error.contains("3\nwhy"), "{error}");
    }

    #[test]
    fn absence_is_an_error() {
        assert!(run(&mut Command::new("no-such-tool")).unwrap_err().starts_with("no-such-tool"));
    }
}
