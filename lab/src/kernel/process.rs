//! Running the programs that a kernel is built with, and the processor time that they take.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::{Result, files};

/// Runs a command, with what it prints in `log` if it fails.
pub(super) fn execute(command: &mut Command, log: &Path) -> Result<()> {
    let output = command.stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(());
    }
    files::write(log, &[output.stdout, output.stderr].concat())?;
    let program = command.get_program().display();
    Err(format!("{program} failed, see {}", log.display()).into())
}

/// Measures steps in processor time, user and system, which says more than the time of day on a machine
/// with other work.
pub(super) struct Clock {
    begin: f64,
    /// The seconds of all steps.
    pub(super) total: f64,
}

impl Clock {
    pub(super) fn new() -> Result<Self> {
        Ok(Self { begin: processor_time()?, total: 0.0 })
    }

    /// Ends a step that counts, and says what it took.
    pub(super) fn lap(&mut self, step: &str) -> Result<()> {
        let end = processor_time()?;
        println!("{:8.2} s  {step}", end - self.begin);
        self.total += end - self.begin;
        self.begin = end;
        Ok(())
    }

    /// Ends a step that does not count.
    pub(super) fn skip(&mut self) -> Result<()> {
        self.begin = processor_time()?;
        Ok(())
    }
}

/// Seconds of processor time that children of this process took.
fn processor_time() -> Result<f64> {
    let text = String::from_utf8(files::read(Path::new("/proc/self/stat"))?)?;
    children_ticks(&text).map(|ticks| ticks / 100.0).ok_or_else(|| "/proc/self/stat".into())
}

/// `cutime` and `cstime` of `/proc/PID/stat`, proc(5).
fn children_ticks(stat: &str) -> Option<f64> {
    // The name, in brackets, may hold anything; the field behind it is the third.
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ').skip(13);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_of_children() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194304 100 2000 0 0 5 6 700 80 20 0 1 0 9 1 1";
        assert_eq!(children_ticks(stat), Some(780.0));
        assert_eq!(children_ticks("7 (a) S 1"), None);
    }

    #[test]
    fn only_steps_that_count_are_in_the_total() {
        let mut clock = Clock::new().unwrap();
        clock.begin -= 5.0;
        clock.skip().unwrap();
        clock.begin -= 2.0;
        clock.lap("sleep").unwrap();
        assert!((2.0..3.0).contains(&clock.total), "{}", clock.total);
    }
}
