//! Processes by the program that they run.

use super::start_of;
use nix::libc;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::time::Duration;

/// How long ago something was that happened so many clock ticks after the system began.
#[must_use]
pub fn age(began: u64) -> Option<Duration> {
    // `/proc/uptime` of a container may be the container's, and this is the system's.
    let mut now = libc::timespec { tv_sec: 0, tv_nsec: 0 };
    // SAFETY: the time goes to a value of ours.
    if unsafe { libc::clock_gettime(libc::CLOCK_BOOTTIME, &raw mut now) } != 0 {
        return None;
    }
    let now = Duration::new(u64::try_from(now.tv_sec).ok()?, u32::try_from(now.tv_nsec).ok()?);
    // SAFETY: no pointer is passed.
    let ticks = u64::try_from(unsafe { libc::sysconf(libc::_SC_CLK_TCK) }).ok()?.max(1);
    let began = Duration::from_millis(began.saturating_mul(1000) / ticks);
    Some(now.saturating_sub(began))
}

/// The processes that run a program, as far as this user may look at them: their numbers, and when they began. The oldest is the first; this
/// one isn't among them. The program is a file's name, or its path.
#[must_use]
pub fn processes_of(program: &OsStr) -> Vec<(i32, u64)> {
    let Ok(all) = Path::new("/proc").read_dir() else { return Vec::new() };
    let own = std::process::id().cast_signed();
    let number = |name: OsString| name.to_str()?.parse::<i32>().ok();
    let numbers = all.filter_map(|entry| number(entry.ok()?.file_name()));
    let is_it = |process: &i32| *process != own && runs(*process, program);
    let started = |process: i32| Some((process, start_of(process)?));
    let mut found: Vec<(i32, u64)> = numbers.filter(is_it).filter_map(started).collect();
    found.sort_unstable_by_key(|(process, began)| (*began, *process));
    found
}

/// Does this process run it? Its file may have been replaced since.
fn runs(process: i32, program: &OsStr) -> bool {
    let Ok(path) = std::fs::read_link(format!("/proc/{process}/exe")) else { return false };
    let path = path.as_os_str().as_bytes();
    let path = Path::new(OsStr::from_bytes(path.strip_suffix(b" (deleted)").unwrap_or(path)));
    let has_folder = program.as_bytes().contains(&b'/');
    if has_folder { path.as_os_str() == program } else { path.file_name() == Some(program) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn processes_are_found_by_name_and_path() {
        let path = std::fs::canonicalize("/bin/sleep").unwrap();
        let mut child = Command::new(&path).arg("100").spawn().unwrap();
        let id = child.id().cast_signed();
        let is_found = |program: &OsStr| processes_of(program).iter().any(|(one, _)| *one == id);
        // The child may not have begun to run the program yet.
        let name = path.file_name().unwrap();
        while !is_found(name) {
            std::thread::sleep(Duration::from_millis(5));
        }
        assert!(is_found(path.as_os_str()));
        assert!(!is_found(OsStr::new("/sleep")) && !is_found(OsStr::new("slee")));
        let (_, began) = *processes_of(name).iter().find(|(one, _)| *one == id).unwrap();
        assert!(age(began).unwrap() < Duration::from_secs(60));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!is_found(name));
    }
}
