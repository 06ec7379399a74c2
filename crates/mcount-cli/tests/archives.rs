//! Archives and folders: `scan`, `list` and `record` on every object inside, whatever wrote the
//! archive, and an archive of which nothing changes but the members that are recorded.
//!
//! Needs binutils, LLVM and the linkers bfd, lld, gold and mold; a missing one skips its rows.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

use object::read::archive::{ArchiveFile, ArchiveOffset};
use object::read::{Object as _, ObjectSymbol as _};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use testkit::room::{Outcome, Room};
use testkit::test;
use testkit::tools::need;

fn main() -> std::process::ExitCode {
    testkit::trial::main()
}

const LONG: &str = "a_name_that_is_longer_than_a_header_has_room_for.o";

/// Members, in order: objects, text of odd size, an object of odd size, and one without sites.
const MEMBERS: [&str; 5] = ["a.o", "note.txt", LONG, "odd.o", "last.o"];

/// A kind of archive: name, program with its arguments, a variable of its environment.
type Format = (&'static str, &'static [&'static str], (&'static str, &'static str));

const FORMATS: &[Format] = &[
    ("System V", &["ar", "crD"], ("LC_ALL", "C")),
    ("with dates and owners", &["ar", "crU"], ("LC_ALL", "C")),
    ("without an index", &["ar", "crSD"], ("LC_ALL", "C")),
    ("of LLVM", &["llvm-ar", "cr"], ("LC_ALL", "C")),
    ("/SYM64/", &["llvm-ar", "cr"], ("SYM64_THRESHOLD", "0")),
    ("BSD", &["llvm-ar", "--format=bsd", "cr"], ("LC_ALL", "C")),
    ("BSD without an index", &["llvm-ar", "--format=bsd", "crS"], ("LC_ALL", "C")),
];

fn mcount(room: &Room, arguments: &[&str]) -> Outcome {
    room.run(Path::new(env!("CARGO_BIN_EXE_mcount")), arguments).unwrap()
}

/// The members as files.
fn room() -> Room {
    let room = Room::new().unwrap();
    room.put_prebuilt("a.o", "x86_64-fentry").unwrap();
    room.put_prebuilt(LONG, "x86_64-pg-pic").unwrap();
    let mut odd = fs_read(&room.put_prebuilt("odd.o", "x86_64-fentry").unwrap());
    odd.push(0);
    room.put("odd.o", &odd).unwrap();
    room.put_prebuilt("last.o", "x86_64-pg-pic").unwrap();
    assert_eq!(mcount(&room, &["record", "last.o"]).code, Some(0));
    room.put("note.txt", b"odd").unwrap();
    room
}

fn fs_read(path: &Path) -> Vec<u8> {
    testkit::files::read(path).unwrap()
}

/// Makes `archive` of `members`.
fn make(room: &Room, archive: &str, format: &Format, members: &[&str]) {
    let (_, command, (variable, value)) = format;
    let arguments = [&command[1..], &[archive], members].concat();
    need(command[..1].iter().copied());
    let mut command = room.command(Path::new(command[0]), &arguments);
    assert!(command.env(variable, value).status().unwrap().success());
}

/// Name, contents and header without the size, of each member.
fn members(archive: &[u8]) -> Vec<(String, Vec<u8>, Vec<u8>)> {
    let parsed = ArchiveFile::parse(archive).unwrap();
    let describe = |member: object::Result<object::read::archive::ArchiveMember<'_>>| {
        let member = member.unwrap();
        let header = member.header().unwrap();
        let header = [&header.name[..], &header.date, &header.uid, &header.gid, &header.mode];
        let name = String::from_utf8(member.name().to_vec()).unwrap();
        (name, member.data(archive).unwrap().to_vec(), header.concat())
    };
    parsed.members().map(describe).collect()
}

/// The symbols of the index, each with the name of the member that it leads to, which must define
/// it; `None` without an index.
fn index(archive: &[u8]) -> Option<Vec<(String, String)>> {
    let parsed = ArchiveFile::parse(archive).unwrap();
    let mut found = Vec::new();
    for symbol in parsed.symbols().unwrap()? {
        let symbol = symbol.unwrap();
        let member = parsed.member(ArchiveOffset(symbol.offset().0)).unwrap();
        let object = object::File::parse(member.data(archive).unwrap()).unwrap();
        let name = std::str::from_utf8(symbol.name()).unwrap();
        let is_here = |defined: object::Symbol<'_, '_>| {
            defined.name() == Ok(name) && defined.is_global() && defined.is_definition()
        };
        assert!(object.symbols().any(is_here), "{name}");
        found.push((name.to_owned(), String::from_utf8(member.name().to_vec()).unwrap()));
    }
    Some(found)
}

/// The sites that `command` prints for `path`, by file and member.
fn sites(room: &Room, command: &str, paths: &[&str]) -> BTreeMap<(String, Option<String>), usize> {
    let outcome = mcount(room, &[&[command, "--format", "jsonl"], paths].concat());
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{paths:?}");
    let mut counts = BTreeMap::new();
    for line in outcome.stdout.lines() {
        let line: Value = serde_json::from_str(line).unwrap();
        let member = line["member"].as_str().map(str::to_owned);
        *counts.entry((line["file"].as_str().unwrap().to_owned(), member)).or_default() += 1;
    }
    counts
}

#[test(each = FORMATS)]
fn a_recorded_archive_differs_in_its_members_only(format: &Format) {
    let room = room();
    make(&room, "lib.a", format, &MEMBERS);
    let label = format.0;
    fs::set_permissions(room.path("lib.a"), Permissions::from_mode(0o640)).unwrap();
    let old = room.get("lib.a").unwrap();
    let outcome = mcount(&room, &["record", "-v", "lib.a"]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{label}");
    assert!(outcome.stdout.contains("lib.a(a.o): recorded, 8 entries\n"), "{label}");
    assert!(outcome.stdout.contains("lib.a(last.o): unchanged"), "{label}");
    assert!(!outcome.stdout.contains("note.txt"), "{label}");
    let new = room.get("lib.a").unwrap();
    for file in ["a.o", LONG, "odd.o", "last.o"] {
        assert_eq!(mcount(&room, &["record", file]).code, Some(0));
    }
    // What the archiver makes of the recorded objects, but for their dates; LLVM's aligns
    // members to 8 bytes in BSD archives.
    if !label.contains("dates") && !label.contains("BSD") {
        make(&room, "again.a", format, &MEMBERS);
        assert!(new == room.get("again.a").unwrap(), "{label}");
        fs::remove_file(room.path("again.a")).unwrap();
    }
    let expected = members(&old).into_iter().map(|(name, _, header)| {
        let contents = room.get(&name).unwrap();
        (name, contents, header)
    });
    assert_eq!(members(&new), expected.collect::<Vec<_>>(), "{label}");
    assert_eq!(index(&new), index(&old), "{label}");
    assert_eq!(index(&new).is_some(), !label.contains("without an index"), "{label}");
    assert_eq!(room.path("lib.a").metadata().unwrap().mode() & 0o7777, 0o640, "{label}");
    assert_eq!(room.names().unwrap(), ["a.o", LONG, "last.o", "lib.a", "note.txt", "odd.o"]);
}

#[test]
fn recording_an_archive_twice_touches_it_once() {
    let room = room();
    make(&room, "lib.a", &FORMATS[0], &MEMBERS);
    let state = || {
        let metadata = room.path("lib.a").metadata().unwrap();
        (metadata.ino(), metadata.mtime(), metadata.mtime_nsec(), metadata.ctime_nsec())
    };
    assert_eq!(mcount(&room, &["record", "lib.a"]).code, Some(0));
    let (new, then) = (room.get("lib.a").unwrap(), state());
    let outcome = mcount(&room, &["record", "-v", "lib.a"]);
    assert_eq!(outcome.code, Some(0));
    assert!(!outcome.stdout.contains(": recorded"), "{}", outcome.stdout);
    assert_eq!((room.get("lib.a").unwrap(), state()), (new, then));
}

#[test(each = FORMATS.iter().filter(|format| !format.0.starts_with("BSD")))]
fn other_tools_read_what_was_written(format: &Format) {
    let room = room();
    need(["nm"]);
    make(&room, "lib.a", format, &MEMBERS);
    let listing = |arguments: &[&str]| {
        let outcome = room.run(Path::new(arguments[0]), &arguments[1..]).unwrap();
        assert_eq!(outcome.code, Some(0), "{}: {}", format.0, outcome.stderr);
        let index = outcome.stdout.split("\n\n").next().unwrap_or_default();
        index.to_owned()
    };
    let commands: [&[&str]; 2] = [&["ar", "t", "lib.a"], &["nm", "-s", "lib.a"]];
    let before = commands.map(listing);
    assert_eq!(mcount(&room, &["record", "lib.a"]).code, Some(0));
    assert_eq!(commands.map(listing), before, "{}", format.0);
}

const SOURCES: [(&str, &str); 4] = [
    ("first.c", "int first(int x) { return x + 1; }"),
    ("second.c", "int first(int); int second(int x) { return first(x) + 1; }"),
    ("hook.c", "__attribute__((no_instrument_function)) void __fentry__(void) {}"),
    (
        "main.c",
        "int second(int);
        extern void *__start___mcount_loc[], *__stop___mcount_loc[];
        int main(void) { return second(1) == 3 && __stop___mcount_loc - __start___mcount_loc == 3 \
         ? 0 : 1; }",
    ),
];

#[test]
fn programs_link_against_what_was_written() {
    need(["gcc", "ar", "ld.bfd", "ld.lld", "ld.gold", "ld.mold"]);
    let room = Room::new().unwrap();
    for (name, text) in SOURCES {
        room.put(name, text.as_bytes()).unwrap();
        let flags = ["-O1", "-fno-inline", "-pg", "-mfentry", "-c", name];
        assert_eq!(room.run(Path::new("gcc"), &flags).unwrap().code, Some(0), "{name}");
    }
    assert_eq!(mcount(&room, &["record", "--policy", "all", "main.o"]).code, Some(0));
    for format in FORMATS.iter().filter(|format| !format.0.contains("without")) {
        make(&room, "lib.a", format, &["first.o", "second.o"]);
        assert_eq!(mcount(&room, &["record", "--policy", "all", "lib.a"]).code, Some(0));
        for linker in ["bfd", "lld", "gold", "mold"] {
            // Debian's bfd and gold know no BSD index.
            let knows_bsd = linker == "lld" || linker == "mold";
            if format.0 == "BSD" && !knows_bsd {
                continue;
            }
            let linker = format!("-fuse-ld={linker}");
            let arguments = [&linker, "main.o", "hook.o", "lib.a", "-o", "program"];
            let outcome = room.run(Path::new("gcc"), &arguments).unwrap();
            assert_eq!(outcome.code, Some(0), "{} {linker}: {}", format.0, outcome.stderr);
            let outcome = room.run(&room.path("program"), &[]).unwrap();
            assert_eq!(outcome.code, Some(0), "{} {linker}", format.0);
        }
        fs::remove_file(room.path("lib.a")).unwrap();
    }
}

#[test]
fn members_are_named_in_every_output() {
    let room = room();
    make(&room, "lib.a", &FORMATS[0], &MEMBERS);
    for (command, files) in [("scan", &["a.o", LONG, "odd.o", "last.o"][..]), ("list", &["last.o"])]
    {
        let of_files = sites(&room, command, files);
        let as_members = |((file, _), count)| (("lib.a".to_owned(), Some(file)), count);
        let expected: BTreeMap<_, usize> = of_files.clone().into_iter().map(as_members).collect();
        assert_eq!(expected.len(), files.len());
        assert_eq!(sites(&room, command, &["lib.a"]), expected, "{command}");
        let both = sites(&room, command, &[&["lib.a"], files].concat());
        assert_eq!(both, of_files.into_iter().chain(expected).collect(), "{command}");
    }
    let text = mcount(&room, &["scan", "lib.a"]).stdout;
    let titles: Vec<&str> = text.lines().filter(|line| !line.starts_with(' ')).collect();
    let title = |member| format!("lib.a({member}): x86_64 64-bit little endian");
    assert_eq!(titles.len(), 4);
    for (line, member) in titles.iter().zip(["a.o", LONG, "odd.o", "last.o"]) {
        assert!(line.starts_with(&title(member)), "{line}");
    }
}

#[test]
fn one_bad_member_leaves_the_archive_as_it_was() {
    let room = room();
    let bad = &room.get("a.o").unwrap()[..100];
    room.put("bad.o", bad).unwrap();
    make(&room, "lib.a", &FORMATS[2], &["a.o", "bad.o", "odd.o"]);
    let old = room.get("lib.a").unwrap();
    for command in [&["record", "lib.a"][..], &["record", "lib.a", "-o", "x"], &["scan", "lib.a"]] {
        let outcome = mcount(&room, command);
        assert_eq!(outcome.code, Some(2), "{command:?}");
        assert!(outcome.stderr.starts_with("mcount: lib.a(bad.o): "), "{}", outcome.stderr);
        assert_eq!(outcome.stderr.lines().count(), 1, "{}", outcome.stderr);
        assert_eq!(room.get("lib.a").unwrap(), old, "{command:?}");
    }
    assert!(!room.names().unwrap().iter().any(|name| name.contains("tmp")));
}

#[test]
fn output_leaves_the_input_alone() {
    let room = room();
    make(&room, "lib.a", &FORMATS[0], &MEMBERS);
    let old = room.get("lib.a").unwrap();
    assert_eq!(mcount(&room, &["record", "lib.a", "-o", "new.a"]).code, Some(0));
    assert_eq!(room.get("lib.a").unwrap(), old);
    assert_eq!(mcount(&room, &["record", "new.a", "-o", "again.a"]).code, Some(0));
    assert_eq!(mcount(&room, &["record", "lib.a"]).code, Some(0));
    let new = room.get("lib.a").unwrap();
    assert!(new != old && new == room.get("new.a").unwrap());
    assert_eq!(new, room.get("again.a").unwrap());
    fs::create_dir(room.path("folder")).unwrap();
    let outcome = mcount(&room, &["record", "folder", "-o", "x"]);
    assert_eq!(outcome.code, Some(2));
    assert!(outcome.stderr.contains("--output"), "{}", outcome.stderr);
}

#[test]
fn links_to_an_archive_survive() {
    let room = room();
    make(&room, "lib.a", &FORMATS[0], &MEMBERS);
    let old = room.get("lib.a").unwrap();
    symlink("lib.a", room.path("symbolic.a")).unwrap();
    fs::hard_link(room.path("lib.a"), room.path("hard.a")).unwrap();
    assert_eq!(mcount(&room, &["record", "symbolic.a"]).code, Some(0));
    assert!(room.path("symbolic.a").symlink_metadata().unwrap().is_symlink());
    assert!(room.get("lib.a").unwrap() != old);
    assert_eq!(room.get("hard.a").unwrap(), old);
}

#[test]
fn recorders_of_one_archive_do_not_lose_or_wait_forever() {
    let room = room();
    make(&room, "lib.a", &FORMATS[0], &MEMBERS);
    assert_eq!(mcount(&room, &["record", "lib.a", "-o", "expected.a"]).code, Some(0));
    let program = Path::new(env!("CARGO_BIN_EXE_mcount"));
    let arguments = ["record", "-j8", "lib.a", "lib.a", "lib.a", "./lib.a"];
    let start = || room.command(program, &arguments).spawn().unwrap();
    let recorders: Vec<_> = (0..8).map(|_| start()).collect();
    for mut recorder in recorders {
        assert_eq!(recorder.wait().unwrap().code(), Some(0));
    }
    assert_eq!(room.get("lib.a").unwrap(), room.get("expected.a").unwrap());
    assert!(!room.names().unwrap().iter().any(|name| name.contains("tmp")));
}

#[test]
fn a_thin_archive_stands_for_its_files() {
    let room = room();
    fs::create_dir(room.path("sub")).unwrap();
    room.put_prebuilt("sub/b.o", "x86_64-pg-pic").unwrap();
    let members = ["../a.o", "b.o", "../note.txt"];
    let folder = room.path("sub");
    need(["ar"]);
    let arguments = [&["crT", "thin.a"], &members[..]].concat();
    let mut command = room.command(Path::new("ar"), &arguments);
    assert!(command.current_dir(folder).status().unwrap().success());
    let old = room.get("sub/thin.a").unwrap();
    let outcome = mcount(&room, &["record", "-v", "sub/thin.a"]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""));
    let expected = ["sub/thin.a(../a.o): recorded, 8", "sub/thin.a(b.o): recorded, "];
    for (line, expected) in outcome.stdout.lines().zip(expected) {
        assert!(line.starts_with(expected) || line.starts_with(' '), "{line}");
    }
    assert_eq!(room.get("sub/thin.a").unwrap(), old);
    let found = sites(&room, "list", &["sub/thin.a"]);
    let own = sites(&room, "list", &["a.o", "sub/b.o"]);
    assert_eq!(found.len(), 2);
    assert_eq!(found.values().collect::<Vec<_>>(), own.values().collect::<Vec<_>>());

    let arguments = ["crT", "nested.a", "lib.a"];
    make(&room, "lib.a", &FORMATS[0], &["a.o"]);
    assert_eq!(room.run(Path::new("ar"), &arguments).unwrap().code, Some(0));
    let outcome = mcount(&room, &["record", "nested.a"]);
    assert_eq!(outcome.code, Some(2));
    assert!(outcome.stderr.contains("of another archive"), "{}", outcome.stderr);

    fs::remove_file(room.path("sub/b.o")).unwrap();
    for command in ["record", "scan", "list"] {
        let outcome = mcount(&room, &[command, "sub/thin.a"]);
        let missing = "mcount: sub/thin.a(b.o): No such file or directory\n";
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(2), missing), "{command}");
    }
    let outcome = mcount(&room, &["record", "sub/thin.a", "-o", "x"]);
    assert!(outcome.code == Some(2) && outcome.stderr.contains("--output"), "{}", outcome.stderr);
}

/// No linker looks inside: each refuses such a member, or does not see it.
#[test(each = FORMATS)]
fn an_archive_in_an_archive_is_passed_over_with_a_warning(format: &Format) {
    let room = room();
    make(&room, "inner.a", format, &["odd.o"]);
    make(&room, "outer.a", format, &["inner.a", "a.o"]);
    make(&room, "only.a", format, &["inner.a"]);
    let inner = room.get("inner.a").unwrap();
    let said = "warning: outer.a(inner.a): skipped, because it is an archive in an archive\n";
    for command in ["scan", "check", "record", "list"] {
        let outcome = mcount(&room, &[command, "outer.a", "a.o"]);
        // What check finds of the rest.
        let code = i32::from(command == "check");
        assert_eq!(outcome.code, Some(code), "{}: {command}", format.0);
        assert_eq!(outcome.stderr.matches(said).count(), 1, "{command}: {}", outcome.stderr);
    }
    let found = members(&room.get("outer.a").unwrap());
    let find = |name| found.iter().find(|member| member.0 == name).unwrap();
    assert_eq!(find("inner.a").1, inner, "{}", format.0);
    assert_eq!(sites(&room, "list", &["a.o"]).len(), 1);
    let outcome = mcount(&room, &["record", "only.a"]);
    let said = said.replace("outer", "only");
    assert_eq!((outcome.code, outcome.stderr), (Some(0), format!("mcount: {said}")));
}

/// GNU ar names the members of an archive; another program may name the archive itself.
#[test]
fn an_archive_in_a_thin_archive_is_passed_over_with_a_warning() {
    let room = room();
    make(&room, "inner.a", &FORMATS[0], &["odd.o"]);
    let names = "inner.a/\na.o/\n";
    let mut thin = format!("!<thin>\n{:<48}{:<10}`\n{names}", "//", names.len());
    for (at, name) in [("/0", "inner.a"), ("/9", "a.o")] {
        let size = room.get(name).unwrap().len();
        let _ = writeln!(thin, "{at:<48}{size:<10}`");
    }
    room.put("thin.a", thin.as_bytes()).unwrap();
    let outcome = mcount(&room, &["record", "-v", "thin.a"]);
    let said =
        "mcount: warning: thin.a(inner.a): skipped, because it is an archive in an archive\n";
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), said));
    assert!(outcome.stdout.starts_with("thin.a(a.o): recorded, 8 "), "{}", outcome.stdout);
}

#[test]
fn a_folder_stands_for_the_objects_in_it() {
    let room = Room::new().unwrap();
    for folder in ["d", "d/b", "d/b/deep", "elsewhere"] {
        fs::create_dir(room.path(folder)).unwrap();
    }
    let objects = ["d/a.o", "d/b/deep/x.ko", "d/b/z", "d/b.o", "d/c.o"];
    for file in objects {
        room.put_prebuilt(file, "x86_64-fentry").unwrap();
    }
    room.put_prebuilt("elsewhere/e.o", "x86_64-fentry").unwrap();
    symlink("../elsewhere", room.path("d/linked")).unwrap();
    symlink("../elsewhere/e.o", room.path("d/e.o")).unwrap();
    symlink("..", room.path("d/b/loop")).unwrap();
    room.put("d/text.o", b"no object").unwrap();
    room.put("d/empty.o", b"").unwrap();
    room.put("d/short.o", b"\x7fELF").unwrap();
    let mut program = room.get("d/a.o").unwrap();
    program[16] = 2;
    room.put("d/program", &program).unwrap();

    for jobs in ["-j1", "-j8"] {
        let text = mcount(&room, &["scan", jobs, "d"]).stdout;
        let titles = text.lines().filter(|line| !line.starts_with(' '));
        let files: Vec<&str> = titles.map(|line| line.split(':').next().unwrap()).collect();
        assert_eq!(files, objects, "{jobs}");
    }
    assert_eq!(mcount(&room, &["record", "d"]).code, Some(0));
    let outcome = mcount(&room, &["record", "elsewhere/e.o", "-o", "recorded.o"]);
    assert_eq!(outcome.code, Some(0));
    for file in objects {
        assert_eq!(room.get(file).unwrap(), room.get("recorded.o").unwrap(), "{file}");
    }
    assert!(room.get("elsewhere/e.o").unwrap() != room.get("recorded.o").unwrap());
    assert_eq!(room.get("d/program").unwrap(), program);

    let bad = &program[..100];
    room.put("d/b/bad.o", &[&bad[..16], &[1], &bad[17..]].concat()).unwrap();
    let outcome = mcount(&room, &["scan", "d"]);
    assert_eq!(outcome.code, Some(2));
    assert!(outcome.stderr.starts_with("mcount: d/b/bad.o: "), "{}", outcome.stderr);
    assert!(outcome.stdout.contains("d/c.o: "));
    assert_eq!(mcount(&room, &["scan", "d/linked"]).code, Some(0));
}

#[test]
fn a_member_at_the_end_may_lack_its_padding() {
    let room = room();
    make(&room, "lib.a", &FORMATS[0], &["a.o", "odd.o"]);
    assert_eq!(mcount(&room, &["record", "lib.a", "-o", "expected.a"]).code, Some(0));
    let mut archive = room.get("lib.a").unwrap();
    assert_eq!(archive.pop(), Some(b'\n'));
    room.put("lib.a", &archive).unwrap();
    assert_eq!(mcount(&room, &["record", "lib.a"]).code, Some(0));
    assert_eq!(room.get("lib.a").unwrap(), room.get("expected.a").unwrap());
}

#[test]
fn a_bsd_name_of_odd_length_makes_room_for_a_byte() {
    let room = room();
    let object = room.get("a.o").unwrap();
    let mut archive = b"!<arch>\n".to_vec();
    // What follows the length does not matter to those who read it.
    for (name, field) in [("x.o", "#1/3"), ("odd", "#1/3  ?")] {
        let header = format!("{field:48}{:<10}`\n{name}", 3 + object.len());
        let padding = &b"\n"[..(3 + object.len()) % 2];
        archive.extend([header.as_bytes(), &object, padding].concat());
    }
    room.put("lib.a", &archive).unwrap();
    assert_eq!(mcount(&room, &["record", "lib.a"]).code, Some(0));
    assert_eq!(mcount(&room, &["record", "a.o"]).code, Some(0));
    let found = members(&room.get("lib.a").unwrap());
    let found: Vec<_> = found.into_iter().map(|(name, contents, _)| (name, contents)).collect();
    let expected = room.get("a.o").unwrap();
    assert_eq!(found, [("x.o".to_owned(), expected.clone()), ("odd".to_owned(), expected)]);
}

#[test]
fn an_archive_that_is_replaced_meanwhile_is_read_again() {
    let room = room();
    make(&room, "lib.a", &FORMATS[0], &["a.o"]);
    make(&room, "new.a", &FORMATS[0], &[LONG]);
    assert_eq!(mcount(&room, &["record", "new.a", "-o", "expected.a"]).code, Some(0));
    let file = fs::OpenOptions::new().read(true).open(room.path("lib.a")).unwrap();
    rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).unwrap();
    let program = Path::new(env!("CARGO_BIN_EXE_mcount"));
    let mut recorder = room.command(program, &["record", "lib.a"]).spawn().unwrap();
    // Time for it to read, and to wait for the lock. If that is too short, it reads the new one.
    std::thread::sleep(std::time::Duration::from_millis(300));
    assert_eq!(recorder.try_wait().unwrap(), None);
    fs::rename(room.path("new.a"), room.path("lib.a")).unwrap();
    drop(file);
    assert_eq!(recorder.wait().unwrap().code(), Some(0));
    assert_eq!(room.get("lib.a").unwrap(), room.get("expected.a").unwrap());
}

/// Damage to an archive, and what is said of it.
const DAMAGE: &[(&str, usize, &[u8], &str)] = &[
    ("the size of the index", 8 + 48, b"9999999999", "archive: "),
    ("a size that is no number", 8 + 48, b"x", "archive: "),
    ("the end of a header", 8 + 58, b"x", "archive: "),
    ("the number of symbols", 8 + 60, b"\xff", "archive: the symbol index is shorter"),
];

#[test]
fn a_malformed_archive_is_an_error_and_stays() {
    let room = room();
    make(&room, "lib.a", &FORMATS[0], &MEMBERS);
    let good = room.get("lib.a").unwrap();
    for (label, at, bytes, message) in DAMAGE {
        let mut bad = good.clone();
        bad[*at..*at + bytes.len()].copy_from_slice(bytes);
        room.put("lib.a", &bad).unwrap();
        let outcome = mcount(&room, &["record", "lib.a"]);
        assert_eq!(outcome.code, Some(2), "{label}");
        let start = format!("mcount: lib.a: {message}");
        assert!(outcome.stderr.starts_with(&start), "{label}: {}", outcome.stderr);
        assert_eq!(room.get("lib.a").unwrap(), bad, "{label}");
    }
}

#[test(each = FORMATS)]
fn no_archive_makes_it_panic(format: &Format) {
    let room = room();
    let options = mcount::Options::default();
    let how = mcount::RecordOptions::default();
    make(&room, "lib.a", format, &["a.o", LONG, "note.txt"]);
    let good = room.get("lib.a").unwrap();
    let headers = (0..good.len()).filter(|at| at % 97 == 0 || *at < 400);
    for at in headers {
        let mut flipped = good.clone();
        flipped[at] ^= 0x11;
        for bytes in [&good[..at], &flipped] {
            let path = room.put("bad.a", bytes).unwrap();
            // Either is fine; neither may be a panic.
            let _ = mcount_store::archive::read(&path, |object| mcount::scan(object, &options));
            let _ = mcount_store::archive::record(&path, None, &options, &how);
        }
    }
}
