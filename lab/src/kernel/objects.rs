//! The objects of a build: which of them are recorded, and the copies that the original records.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::process::{Clock, execute};
use crate::debian::ORIGINAL;
use crate::{Result, files};

/// The copies that the original recorded, below a folder.
pub(super) fn copies(folder: &Path) -> Result<Vec<PathBuf>> {
    with_extension(folder, "theirs")
}

/// The archives that the kernel is linked of.
pub(super) fn archives(output: &Path) -> Result<Vec<PathBuf>> {
    let mut archives = with_extension(output, "a")?;
    archives.retain(|path| path.ends_with("lib/lib.a") || *path == output.join("vmlinux.a"));
    Ok(archives)
}

/// The objects that Kbuild would have recorded.
pub(super) fn traced(output: &Path) -> Result<Vec<PathBuf>> {
    let mut objects = Vec::new();
    for archive in archives(output)? {
        let list = Command::new("ar").arg("t").arg(&archive).current_dir(output).output()?;
        let names = String::from_utf8(list.stdout)?;
        objects.extend(names.lines().map(|name| output.join(name)));
    }
    objects.retain(|object| is_traced(object));
    Ok(objects)
}

/// Whether Kbuild compiled the object with the flag that makes hooks.
fn is_traced(object: &Path) -> bool {
    let name = object.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let command = files::read(&object.with_file_name(format!(".{name}.cmd"))).unwrap_or_default();
    String::from_utf8_lossy(&command).split_whitespace().any(|word| word == "-pg")
}

/// Copies objects that nobody recorded, and has the original record the copies.
pub(super) fn copy_for_the_original(objects: &[PathBuf], log: &Path) -> Result<()> {
    for object in objects {
        let copy = with_suffix(object, ".theirs");
        if copy.exists() {
            continue;
        }
        // Under the name that counts when it is whole.
        let fresh = with_suffix(object, ".fresh");
        duplicate(object, &fresh, log)?;
        // Without a call it may say that it is no object it knows.
        quiet(Command::new(ORIGINAL).arg(&fresh))?;
        files::rename(&fresh, &copy)?;
    }
    Ok(())
}

/// Says what each way to record the objects costs: a process for each, or one for all. The objects
/// stay as they are.
pub(super) fn print_costs(objects: &[PathBuf], ours: [&Path; 2], scratch: &Path) -> Result<()> {
    let [recordmcount, mcount] = ours;
    let true_program = Path::new("/bin/true");
    let each = [
        ("the original", Path::new(ORIGINAL)),
        ("recordmcount", recordmcount),
        ("/bin/true", true_program),
    ];
    println!("recording {} objects:", objects.len());
    for (name, program) in each {
        let copies = scratch_copies(objects, scratch)?;
        let mut clock = Clock::new()?;
        for copy in &copies {
            quiet(Command::new(program).arg(copy))?;
        }
        clock.lap(&format!("{name}, a process for each"))?;
    }
    let copies = scratch_copies(objects, scratch)?;
    let mut clock = Clock::new()?;
    quiet(Command::new(mcount).args(["record", "-j1"]).args(&copies))?;
    clock.lap("mcount record, all at once")?;
    execute(Command::new("rm").arg("-r").arg(scratch), &scratch.with_extension("log"))
}

/// New copies of the objects, in a folder for nothing else.
fn scratch_copies(objects: &[PathBuf], scratch: &Path) -> Result<Vec<PathBuf>> {
    files::make_folder(scratch)?;
    let mut copies = Vec::new();
    for (number, object) in objects.iter().enumerate() {
        let copy = scratch.join(format!("{number}.o"));
        files::write(&copy, &files::read(object)?)?;
        copies.push(copy);
    }
    Ok(copies)
}

/// Copies a file with its times.
pub(super) fn duplicate(from: &Path, to: &Path, log: &Path) -> Result<()> {
    execute(Command::new("cp").arg("-p").args([from, to]), log)
}

/// Runs a program whose messages and exit code say nothing.
fn quiet(command: &mut Command) -> Result<()> {
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).status()?;
    Ok(())
}

/// The files below a folder whose names end in `.extension`.
pub(super) fn with_extension(folder: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for path in files::list(&folder)? {
            if path.is_symlink() {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|found| found == extension) {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

pub(super) fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_was_compiled_with_the_flag_is_traced() {
        let folder = tempfile::tempdir().unwrap();
        let object = folder.path().join("a.o");
        assert!(!is_traced(&object));
        let command = folder.path().join(".a.o.cmd");
        for (text, expected) in
            [("gcc -pg -mfentry -c a.c", true), ("gcc -pgx -c a.c", false), ("gcc -c a-pg", false)]
        {
            files::write(&command, text.as_bytes()).unwrap();
            assert_eq!(is_traced(&object), expected, "{text}");
        }
    }
}
