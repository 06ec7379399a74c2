//! The ways that a command takes to the disk, and what must hold after each run of it.

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsStr;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, OnceLock};
use testkit::room::Room;

/// One command that writes, on one path to the disk.
pub(crate) struct Way {
    pub(crate) name: &'static str,
    /// The program and its arguments.
    pub(crate) command: &'static [&'static str],
    /// Files that are there before: a name, and what is in it.
    pub(crate) files: &'static [(&'static str, Content)],
    /// Other names of files: of the second, the first.
    pub(crate) links: &'static [(&'static str, &'static str)],
    /// The file that it changes.
    pub(crate) target: &'static str,
    /// It changes the file where it is, and may be killed between append and header.
    pub(crate) appends: bool,
    /// It runs other programs; faults are its own, not theirs.
    pub(crate) runs: Runs,
}

#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Runs {
    Nothing,
    /// A linker, whose image is put where the target is: over a link, as linkers do.
    Linker,
    /// A compiler, whose object is then recorded; a killed run may leave that object.
    Compiler,
}

#[derive(Clone, Copy)]
pub(crate) enum Content {
    Object,
    Other,
    Recorded,
    Image,
    Archive,
    /// What the image is linked with.
    Hooks,
    /// A compiler that makes the object.
    Compiler,
}

impl Content {
    fn bytes(self) -> &'static [u8] {
        let fixtures = fixtures();
        match self {
            Self::Object => &fixtures.object,
            Self::Other => &fixtures.other,
            Self::Recorded => &fixtures.recorded,
            Self::Image => &fixtures.image,
            Self::Archive => &fixtures.archive,
            Self::Hooks => &fixtures.hooks,
            Self::Compiler => COMPILER.as_bytes(),
        }
    }
}

/// What a compiler does, removal of its output after an error included. As LLVM does, it renames a
/// finished object: if one run truncated the file to which another appends, the result would have the
/// right table, but neither the old bytes nor the new ones.
const COMPILER: &str = "#!/bin/sh
cat a.in > a.$$ && mv -f a.$$ \"$(readlink -f a.o)\" || { rm -f a.$$ a.o; exit 1; }
";

impl Way {
    /// Whether this is the exit code of a failure: that of `recordmcount` is the kernel's, others
    /// are of the program that is run.
    pub(crate) fn fails_with(&self, code: i32) -> bool {
        match self.runs {
            Runs::Nothing if self.command[0] == "recordmcount" => code == 1,
            Runs::Nothing => code == 2,
            Runs::Linker | Runs::Compiler => code != 0,
        }
    }

    /// What is there before it is recorded: the compiler may have to make it first.
    fn unrecorded(&self) -> Vec<u8> {
        let is_compiled = self.runs == Runs::Compiler;
        let is_it = |name: &str| if is_compiled { name == "a.in" } else { name == self.target };
        let found = self.files.iter().find(|(name, _)| is_it(name));
        found.map(|(_, content)| content.bytes().to_vec()).unwrap_or_default()
    }
}

const fn way(
    name: &'static str,
    command: &'static [&'static str],
    files: &'static [(&'static str, Content)],
    target: &'static str,
) -> Way {
    Way { name, command, files, links: &[], target, appends: false, runs: Runs::Nothing }
}

const OBJECT: &[(&str, Content)] = &[("a.o", Content::Object)];
const RECORDED: &[(&str, Content)] = &[("a.o", Content::Recorded)];
const IMAGE: &[(&str, Content)] = &[("image", Content::Image)];
const TWO: &[(&str, Content)] = &[("a.o", Content::Object), ("out.o", Content::Other)];

pub(crate) const WAYS: &[Way] = &[
    Way { appends: true, ..way("record", &["mcount", "record", "a.o"], OBJECT, "a.o") },
    way("record -o", &["mcount", "record", "-o", "out.o", "a.o"], TWO, "out.o"),
    way("record -o, a new file", &["mcount", "record", "-o", "out.o", "a.o"], OBJECT, "out.o"),
    Way {
        links: &[("b.o", "a.o")],
        ..way("record, two names", &["mcount", "record", "a.o"], OBJECT, "a.o")
    },
    way(
        "record, archive",
        &["mcount", "record", "-j1", "a.a"],
        &[("a.a", Content::Archive)],
        "a.a",
    ),
    Way { appends: true, ..way("recordmcount", &["recordmcount", "a.o"], OBJECT, "a.o") },
    Way {
        links: &[("b.o", "a.o")],
        ..way("recordmcount, two names", &["recordmcount", "a.o"], OBJECT, "a.o")
    },
    way("sort", &["mcount", "sort", "image"], IMAGE, "image"),
    way("sort -o", &["mcount", "sort", "-o", "out", "image"], IMAGE, "out"),
    Way { appends: true, ..way("nop, object", &["mcount", "nop", "a.o"], RECORDED, "a.o") },
    way("nop -o, object", &["mcount", "nop", "-o", "out.o", "a.o"], RECORDED, "out.o"),
    way("nop, image", &["mcount", "nop", "image"], IMAGE, "image"),
    way("table -o", &["mcount", "table", "-o", "out.o", "image"], IMAGE, "out.o"),
    Way { runs: Runs::Linker, ..way("link", LINK, LINKED, "out") },
    Way { runs: Runs::Linker, ..way("link, twice", LINK_TWICE, LINKED, "out") },
    Way { runs: Runs::Compiler, appends: true, ..way("cc", CC, COMPILED, "a.o") },
];

const LINK: &[&str] =
    &["mcount", "link", "--", "ld", "-m", "elf_x86_64", "-e", "0", "-o", "out", "a.o", "h.o"];
const LINK_TWICE: &[&str] = &[
    "mcount",
    "link",
    "--",
    "ld",
    "-m",
    "elf_x86_64",
    "-e",
    "sample_ref",
    "--gc-sections",
    "-o",
    "out",
    "a.o",
    "h.o",
];
const LINKED: &[(&str, Content)] =
    &[("a.o", Content::Object), ("h.o", Content::Hooks), ("out", Content::Image)];
const CC: &[&str] = &["mcount", "cc", "--", "./compiler", "-c", "-o", "a.o", "a.c"];
const COMPILED: &[(&str, Content)] = &[("a.in", Content::Object), ("compiler", Content::Compiler)];

/// Files that all rooms are furnished with.
struct Fixtures {
    object: Vec<u8>,
    other: Vec<u8>,
    recorded: Vec<u8>,
    image: Vec<u8>,
    archive: Vec<u8>,
    hooks: Vec<u8>,
}

fn fixtures() -> &'static Fixtures {
    static FIXTURES: OnceLock<Fixtures> = OnceLock::new();
    FIXTURES.get_or_init(|| make_fixtures().unwrap())
}

fn make_fixtures() -> Result<Fixtures, String> {
    let room = Room::new()?;
    room.put_prebuilt("a.o", "x86_64-clang-sections")?;
    room.put_prebuilt("other.o", "x86_64-pg")?;
    room.put(
        "h.s",
        b".globl mcount, outside\n.text\nmcount:\noutside: ret\n.section .note.GNU-stack\n",
    )?;
    let run = |program: &str, arguments: &[&str]| {
        testkit::process::run(&mut room.command(&program_of(program), arguments))
    };
    run("mcount", &["record", "--policy", "all", "-o", "r.o", "a.o"])?;
    run("as", &["--64", "-o", "h.o", "h.s"])?;
    run("ld", &["-m", "elf_x86_64", "-e", "0", "-o", "image", "r.o", "h.o"])?;
    run("ar", &["rcsD", "a.a", "a.o", "other.o"])?;
    Ok(Fixtures {
        object: room.get("a.o")?,
        other: room.get("other.o")?,
        recorded: room.get("r.o")?,
        image: room.get("image")?,
        archive: room.get("a.a")?,
        hooks: room.get("h.o")?,
    })
}

/// Ours by its path; another by its name.
pub(crate) fn program_of(name: &str) -> PathBuf {
    match name {
        "mcount" => env!("CARGO_BIN_EXE_mcount").into(),
        "recordmcount" => env!("CARGO_BIN_EXE_recordmcount").into(),
        other => other.into(),
    }
}

/// A room with the files of `way` in it.
pub(crate) fn furnish(way: &Way) -> Result<Room, String> {
    let room = Room::new()?;
    furnish_folder(way, &room.path("."))?;
    Ok(room)
}

pub(crate) fn furnish_folder(way: &Way, folder: &Path) -> Result<(), String> {
    for (name, content) in way.files {
        let bytes = content.bytes();
        let path = folder.join(name);
        if matches!(content, Content::Compiler) {
            testkit::files::write_program(&path, bytes)?;
        } else {
            testkit::files::write(&path, bytes)?;
        }
    }
    for (name, of) in way.links {
        std::fs::hard_link(folder.join(of), folder.join(name)).map_err(|e| e.to_string())?;
    }
    Ok(())
}

/// The files in a folder, and the folders that may be temporary.
pub(crate) type State = BTreeMap<String, Vec<u8>>;

pub(crate) fn state(folder: &Path) -> Result<State, String> {
    let mut state = State::new();
    for entry in std::fs::read_dir(folder).map_err(|error| error.to_string())? {
        let path = entry.map_err(|error| error.to_string())?.path();
        let name = path.file_name().unwrap_or(OsStr::new("")).to_string_lossy().into_owned();
        if path.is_file() {
            state.insert(name, testkit::files::read(&path)?);
        } else if name.starts_with('.') {
            state.insert(name, Vec::new());
        }
    }
    Ok(state)
}

/// The command of `way`, as arguments behind those of a program that runs it.
pub(crate) fn words(way: &Way) -> Vec<String> {
    let program = program_of(way.command[0]).display().to_string();
    [program].into_iter().chain(way.command[1..].iter().map(|word| (*word).to_owned())).collect()
}

/// The command of `way`, to be run in `folder`.
pub(crate) fn command(way: &Way, folder: &Path) -> Command {
    let words = words(way);
    let mut command = Command::new(&words[0]);
    command.args(&words[1..]).current_dir(folder);
    command
}

/// What an undisturbed run makes.
pub(crate) fn undisturbed(way: &Way) -> Result<Vec<u8>, String> {
    static DONE: Mutex<BTreeMap<&str, Vec<u8>>> = Mutex::new(BTreeMap::new());
    let done = DONE.lock().map_err(|error| error.to_string())?.get(way.name).cloned();
    if let Some(done) = done {
        return Ok(done);
    }
    let room = furnish(way)?;
    testkit::process::run(&mut command(way, &room.path(".")))?;
    let new = room.get(way.target)?;
    let old = way.files.iter().find(|(name, _)| *name == way.target);
    if old.is_some() && state(&furnish(way)?.path("."))?.get(way.target) == Some(&new) {
        return Err("the command does nothing, so that this tests nothing".to_owned());
    }
    DONE.lock().map_err(|error| error.to_string())?.insert(way.name, new.clone());
    Ok(new)
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Outcome {
    Old,
    New,
}

/// Whether the folder is as it may be after a disturbed run; `killed` by what no program can
/// answer.
pub(crate) fn judge(way: &Way, folder: &Path, killed: bool) -> Result<Outcome, String> {
    let new = undisturbed(way)?;
    let before = state(&furnish(way)?.path("."))?;
    let mut after = state(folder)?;
    if killed {
        after.remove(&format!(".{}.mcount-tmp", way.target));
        after.remove(&format!(".{}.mcount-link", way.target));
    }
    let target = after.get(way.target).cloned();
    let old = before.get(way.target);
    let outcome = match (&target, old) {
        (Some(target), _) if *target == new => Outcome::New,
        (target, old) if target.as_ref() == old => Outcome::Old,
        // A link that failed leaves what the linker leaves: GNU ld, nothing.
        (None, _) if way.runs == Runs::Linker => Outcome::Old,
        (Some(target), _)
            if killed && way.appends && is_between(target, &way.unrecorded(), &new) =>
        {
            Outcome::Old
        }
        _ => return Err(format!("{} is neither the old file nor the new one", way.target)),
    };
    if let Some(target) = &target {
        accepted(target, way.target)?;
    }
    let others = |mut state: State| {
        state.remove(way.target);
        state
    };
    if others(after.clone()) != others(before) {
        return Err(format!("other files changed: {:?}", after.keys()));
    }
    Ok(outcome)
}

/// The old object, and behind it the beginning of what was to be appended.
fn is_between(target: &[u8], old: &[u8], new: &[u8]) -> bool {
    !old.is_empty() && target.starts_with(old) && new[old.len()..].starts_with(&target[old.len()..])
}

/// `readelf` and, of an object, `ld -r` have nothing to say against it.
fn accepted(bytes: &[u8], name: &str) -> Result<(), String> {
    static SEEN: Mutex<BTreeSet<Vec<u8>>> = Mutex::new(BTreeSet::new());
    if !SEEN.lock().map_err(|error| error.to_string())?.insert(bytes.to_vec()) {
        return Ok(());
    }
    let room = Room::new()?;
    room.put(name, bytes)?;
    let mut programs = vec![("readelf", vec!["-aW", name])];
    if Path::new(name).extension().is_some_and(|extension| extension == "o") {
        programs.push(("ld", vec!["-m", "elf_x86_64", "-r", "-o", "linked", name]));
    }
    for (program, arguments) in programs {
        let output = room.run(Path::new(program), &arguments)?;
        if output.code != Some(0) || !output.stderr.is_empty() {
            return Err(format!("{program}: {}", output.stderr));
        }
    }
    Ok(())
}

/// Another run, undisturbed, completes the job and clears what the first one left.
pub(crate) fn completes(way: &Way, folder: &Path) -> Result<(), String> {
    testkit::process::run(&mut command(way, folder))
        .map_err(|error| format!("the second run: {error}"))?;
    match judge(way, folder, false).map_err(|error| format!("after the second run: {error}"))? {
        Outcome::New => Ok(()),
        Outcome::Old => Err("the second run changed nothing".to_owned()),
    }
}

/// Whether this is run by root, whom no permission keeps out.
pub(crate) fn is_root() -> bool {
    Path::new("/proc/self").metadata().is_ok_and(|metadata| metadata.uid() == 0)
}
