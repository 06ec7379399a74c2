//! Faults of what is around a command: limits, full and read-only places, other names, other runs.

use super::report;
use super::way::{
    Outcome, Runs, Way, command, completes, furnish, furnish_folder, is_root, judge, state,
    undisturbed, words,
};
use std::fs::Permissions;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use testkit::room::Room;
use testkit::trial::ignore;

pub(crate) struct Fault {
    pub(crate) name: &'static str,
    pub(crate) tools: &'static [&'static str],
    pub(crate) run: fn(&'static Way, &'static str) -> Result<(), String>,
}

pub(crate) const FAULTS: &[Fault] = &[
    Fault { name: "RLIMIT_FSIZE", tools: &["prlimit"], run: size_limit },
    Fault { name: "full disk", tools: &["mount", "umount"], run: full_disk },
    Fault { name: "read-only folder", tools: &[], run: read_only_folder },
    Fault { name: "read-only file", tools: &[], run: read_only_file },
    Fault { name: "symbolic link", tools: &[], run: symbolic_link },
    Fault { name: "folder gone", tools: &[], run: folder_gone },
    Fault { name: "2 at once", tools: &[], run: |way, name| at_once(way, name, 2) },
    Fault { name: "10 at once", tools: &[], run: |way, name| at_once(way, name, 10) },
];

/// An ID that owns nothing.
const NOBODY: u32 = 65534;

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Runs it and compares its exit code with what became of the file.
fn run(way: &Way, folder: &Path, command: &mut Command) -> Result<Outcome, String> {
    let output = command.stdin(Stdio::null()).output().map_err(text)?;
    let outcome = judge(way, folder, false).map_err(|error| said(&error, &output))?;
    let is_right = match output.status.code() {
        Some(0) => outcome == Outcome::New,
        Some(code) => way.fails_with(code) && outcome == Outcome::Old && !output.stderr.is_empty(),
        None => false,
    };
    if is_right { Ok(outcome) } else { Err(said(&format!("{outcome:?}"), &output)) }
}

fn said(error: &str, output: &Output) -> String {
    let stderr = String::from_utf8_lossy(&output.stderr);
    format!("{error}; {}, signal {:?}: {stderr}", output.status, output.status.signal())
}

/// No file may be larger than so many bytes.
fn size_limit(way: &'static Way, name: &'static str) -> Result<(), String> {
    let new = undisturbed(way)?.len();
    let old = state(&furnish(way)?.path("."))?.get(way.target).map_or(0, Vec::len);
    let mut limits =
        vec![0, 1, 63, 64, 100, old, old + 1, old.midpoint(new), new - 1, new, 4 * new];
    limits.sort_unstable();
    limits.dedup();
    for limit in limits {
        let room = furnish(way)?;
        let mut limited = Command::new("prlimit");
        limited.arg(format!("--fsize={limit}")).args(words(way)).current_dir(room.path("."));
        let outcome = run(way, &room.path("."), &mut limited)
            .map_err(|error| format!("limit {limit}: {error}"))?;
        // What a linker writes on its way may be larger than the image.
        let is_expected = match way.runs {
            Runs::Linker if limit >= new => outcome == Outcome::New || limit < 4 * new,
            _ => (outcome == Outcome::New) == (limit >= new),
        };
        if !is_expected {
            return Err(format!("limit {limit}, new size {new}: {outcome:?}"));
        }
        completes(way, &room.path("."))?;
        report::count(way.name, name, outcome);
    }
    Ok(())
}

/// A file system of its own, with room for so much less than is needed.
fn full_disk(way: &'static Way, name: &'static str) -> Result<(), String> {
    if !is_root() {
        ignore("only root mounts a file system");
    }
    let room = Room::new()?;
    let folder = room.path("disk");
    std::fs::create_dir(&folder).map_err(text)?;
    let mut mount = Command::new("mount");
    mount.args(["-t", "tmpfs", "-o", "size=256k", "tmpfs"]).arg(&folder);
    if let Err(error) = testkit::process::run(&mut mount) {
        ignore(error);
    }
    let result = fill(way, &folder, name);
    testkit::process::run(Command::new("umount").arg("-l").arg(&folder))?;
    result
}

fn fill(way: &'static Way, folder: &Path, name: &'static str) -> Result<(), String> {
    const PAGE: usize = 4096;
    for pages in 0..4 {
        furnish_folder(way, folder)?;
        let filler = folder.join("filler");
        // As much as fits, then some pages less.
        let mut size = 256 * 1024;
        while testkit::files::write(&filler, &vec![1; size]).is_err() {
            size -= PAGE;
        }
        let kept = size.saturating_sub(pages * PAGE);
        let file = std::fs::OpenOptions::new().write(true).open(&filler).map_err(text)?;
        file.set_len(kept as u64).map_err(text)?;
        drop(file);
        let output = command(way, folder).output().map_err(text)?;
        // A process that another test is about to start may have it open for a moment, so removing it needn't free it.
        testkit::files::write(&filler, b"")?;
        std::fs::remove_file(&filler).map_err(text)?;
        let outcome = judge(way, folder, false).map_err(|error| said(&error, &output))?;
        let is_right =
            |code| if outcome == Outcome::New { code == 0 } else { way.fails_with(code) };
        if !output.status.code().is_some_and(is_right) {
            return Err(said(&format!("{pages} pages: {outcome:?}"), &output));
        }
        completes(way, folder)?;
        for file in state(folder)?.keys() {
            std::fs::remove_file(folder.join(file)).map_err(text)?;
        }
        report::count(way.name, name, outcome);
    }
    Ok(())
}

/// A room that belongs to nobody, if this is root: permissions hold for nobody.
fn unprivileged(way: &'static Way) -> Result<Room, String> {
    let room = furnish(way)?;
    if is_root() {
        let folder = room.path(".");
        for path in [folder.clone()].into_iter().chain(state(&folder)?.keys().map(|f| room.path(f)))
        {
            chown(path, Some(NOBODY), Some(NOBODY)).map_err(text)?;
        }
    }
    Ok(room)
}

fn by_nobody(mut command: Command) -> Command {
    if is_root() {
        command.uid(NOBODY).gid(NOBODY);
    }
    command
}

fn set_mode(path: &Path, mode: u32) -> Result<(), String> {
    std::fs::set_permissions(path, Permissions::from_mode(mode)).map_err(text)
}

/// Nothing can be made beside the file: what needs that fails, the rest does not.
fn read_only_folder(way: &'static Way, name: &'static str) -> Result<(), String> {
    let room = unprivileged(way)?;
    let folder = room.path(".");
    set_mode(&folder, 0o555)?;
    let outcome = run(way, &folder, &mut by_nobody(command(way, &folder)));
    set_mode(&folder, 0o755)?;
    let outcome = outcome?;
    if (outcome == Outcome::New) != (way.appends && way.runs == Runs::Nothing) {
        return Err(format!("{outcome:?}"));
    }
    completes(way, &folder)?;
    report::count(way.name, name, outcome);
    Ok(())
}

/// The file may not be written, its folder may: a new file takes its place, with its mode.
fn read_only_file(way: &'static Way, name: &'static str) -> Result<(), String> {
    let room = unprivileged(way)?;
    let folder = room.path(".");
    for path in state(&folder)?.keys().map(|file| room.path(file)) {
        let mode = path.metadata().map_err(text)?.permissions().mode();
        set_mode(&path, mode & 0o555)?;
    }
    let outcome = run(way, &folder, &mut by_nobody(command(way, &folder)))?;
    let mode = room.path(way.target).metadata().map_err(text)?.permissions().mode() & 0o777;
    let expected = match way.command[1] {
        "table" | "cc" => 0o644,
        "link" => 0o755,
        _ => 0o444,
    };
    if outcome != Outcome::New || mode != expected {
        return Err(format!("{outcome:?}, mode {mode:o}"));
    }
    completes(way, &folder)?;
    report::count(way.name, name, outcome);
    Ok(())
}

/// The name leads to a file in another folder: that file changes, and the link stays. A linker puts
/// its image in the link's place.
fn symbolic_link(way: &'static Way, name: &'static str) -> Result<(), String> {
    let room = furnish(way)?;
    let there = room.path("there");
    std::fs::create_dir(&there).map_err(text)?;
    furnish_folder(way, &there)?;
    let files = state(&there)?;
    for file in files.keys() {
        std::fs::remove_file(room.path(file)).map_err(text)?;
        symlink(Path::new("there").join(file), room.path(file)).map_err(text)?;
    }
    if !files.contains_key(way.target) {
        symlink(Path::new("there").join(way.target), room.path(way.target)).map_err(text)?;
    }
    let is_replaced = way.runs == Runs::Linker;
    let at = if is_replaced { room.path(".") } else { there };
    let outcome = run(way, &at, &mut command(way, &room.path(".")))?;
    let is_link = room.path(way.target).symlink_metadata().map_err(text)?.is_symlink();
    if outcome != Outcome::New || is_link == is_replaced {
        return Err(format!("{outcome:?}, still a link: {is_link}"));
    }
    report::count(way.name, name, outcome);
    Ok(())
}

/// The current folder has been removed.
fn folder_gone(way: &'static Way, name: &'static str) -> Result<(), String> {
    let room = Room::new()?;
    let mut gone = Command::new("sh");
    gone.args(["-c", "mkdir gone && cd gone && rmdir ../gone && exec \"$@\"", "sh"]);
    let output = gone.args(words(way)).current_dir(room.path(".")).output().map_err(text)?;
    if !output.status.code().is_some_and(|code| way.fails_with(code)) || output.stderr.is_empty() {
        return Err(said("", &output));
    }
    if !room.names()?.is_empty() {
        return Err(format!("{:?}", room.names()?));
    }
    report::count(way.name, name, Outcome::Old);
    Ok(())
}

/// Several runs of the same command on the same file.
fn at_once(way: &'static Way, name: &'static str, runs: usize) -> Result<(), String> {
    for _ in 0..4 {
        let room = furnish(way)?;
        let folder = room.path(".");
        let start = |_| command(way, &folder).stderr(Stdio::piped()).spawn().map_err(text);
        let children = (0..runs).map(start).collect::<Result<Vec<_>, _>>()?;
        for child in children {
            let output = child.wait_with_output().map_err(text)?;
            if output.status.code() != Some(0) {
                return Err(said("", &output));
            }
        }
        let outcome = judge(way, &folder, false)?;
        if outcome != Outcome::New {
            return Err(format!("{outcome:?}"));
        }
        completes(way, &folder)?;
        report::count(way.name, name, outcome);
    }
    Ok(())
}
