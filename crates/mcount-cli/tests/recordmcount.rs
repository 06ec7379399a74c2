//! The drop-in for the kernel's `scripts/recordmcount`: each row is what that program was observed
//! to do (recordmcount of linux-kbuild-6.1, amd64, as a black box), or says why ours differs.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

use mcount::{Base, CallSite, Kind, Options, Policy};
use std::fs::{self, Permissions};
use std::os::unix::fs::{MetadataExt, PermissionsExt, symlink};
use std::path::Path;
use std::sync::Arc;
use testkit::reader;
use testkit::room::{Outcome, Room};
use testkit::test;
use testkit::tiny_elf::{get, put};
use testkit::tools::need;

fn main() -> std::process::ExitCode {
    testkit::trial::main()
}

const USAGE: &str = "usage: recordmcount [-w] file.o...\n";

fn recordmcount(room: &Room, arguments: &[&str]) -> Outcome {
    room.run(Path::new(env!("CARGO_BIN_EXE_recordmcount")), arguments).unwrap()
}

/// A good object with one field of its header set.
fn with_header(bytes: &[u8], offset: usize, size: usize, value: u64) -> Vec<u8> {
    let mut bytes = bytes.to_vec();
    put(&mut bytes, offset, size, false, value);
    bytes
}

/// A room with good objects and bad ones.
fn room() -> Room {
    let room = Room::new().unwrap();
    for (name, object) in [
        ("a.o", "x86_64-fentry"),
        ("ftrace.o", "x86_64-fentry"),
        ("xftrace.o", "x86_64-fentry"),
        ("table.o", "x86_64-fentry-table"),
        ("none.o", "x86_64-patchable-5"),
        ("mips.o", "mips-pg"),
        ("arm.o", "arm-arm"),
        ("riscv.o", "riscv64-pg"),
        ("weak.o", "x86_64-clang-sections"),
        ("pic.o", "x86_64-fentry-pic"),
        ("x32.o", "x32-fentry"),
        ("s390x.o", "s390x-fentry"),
    ] {
        room.put_prebuilt(name, object).unwrap();
    }
    let good = room.get("a.o").unwrap();
    fs::create_dir(room.path("trace")).unwrap();
    room.put("trace/ftrace.o", &good).unwrap();
    room.put("text.o", b"int main;\n").unwrap();
    room.put("empty.o", b"").unwrap();
    room.put("exec.o", &with_header(&good, 16, 2, 2)).unwrap();
    room.put("machine.o", &with_header(&good, 18, 2, 2457)).unwrap();
    room.put("class.o", &with_header(&good, 4, 1, 7)).unwrap();
    room.put("order.o", &with_header(&good, 5, 1, 7)).unwrap();
    room.put("half.o", good.split_at(good.len() / 2).0).unwrap();
    let headers = get(&good, 0x28, 8, false);
    room.put(
        "entsize.o",
        &with_header(&good, usize::try_from(headers).unwrap() + 64 + 64 + 56, 8, 0),
    )
    .unwrap();
    room
}

fn entries(room: &Room, name: &str) -> usize {
    reader::table(&room.get(name).unwrap(), "__mcount_loc").unwrap().len()
}

#[test]
fn arguments() {
    let done = || Outcome { code: Some(0), stdout: String::new(), stderr: String::new() };
    let usage = || Outcome { stderr: USAGE.to_owned(), ..done() };
    for (arguments, expected, entries_after) in [
        (&["a.o"][..], done(), 8),
        (&["--", "a.o"], done(), 8),
        (&[], usage(), 0),
        (&["-w"], usage(), 0),
    ] {
        let room = room();
        assert_eq!(recordmcount(&room, arguments), expected, "{arguments:?}");
        assert_eq!(entries(&room, "a.o"), entries_after, "{arguments:?}");
    }
}

/// Exit code 0, as the original: a build that gives one goes on without a table, as it did.
#[test]
fn unknown_options_touch_nothing() {
    for option in ["-x", "-q", "--frobnicate"] {
        let room = room();
        for arguments in [&[option][..], &[option, "a.o"], &["a.o", option]] {
            let outcome = recordmcount(&room, arguments);
            assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), ""), "{arguments:?}");
            assert!(outcome.stderr.ends_with(USAGE), "{arguments:?}: {outcome:?}");
            assert!(outcome.stderr.contains(option), "{arguments:?}: {outcome:?}");
        }
        assert_eq!(entries(&room, "a.o"), 0);
    }
}

#[test]
fn the_option_may_stand_anywhere() {
    for arguments in [&["-w", "a.o"][..], &["a.o", "-w"], &["-ww", "a.o"], &["-w", "-w", "a.o"]] {
        let room = room();
        let outcome = recordmcount(&room, arguments);
        let expected = "Section .exit.text has mcount callers being ignored\n";
        let found = (outcome.code, outcome.stdout.as_str(), outcome.stderr.as_str());
        assert_eq!(found, (Some(0), expected, ""), "{arguments:?}");
        assert_eq!(entries(&room, "a.o"), 8);
    }
}

/// Every bad file, and the one line that says why it failed.
#[test]
fn failures() {
    for (name, reason) in [
        ("missing.o", "No such file or directory"),
        ("trace", "is a folder"),
        ("text.o", "not an ELF file"),
        ("empty.o", "not an ELF file"),
        ("exec.o", "e_type is 2"),
        ("machine.o", "e_machine is 2457"),
        ("class.o", "EI_CLASS is 7"),
        ("order.o", "EI_DATA is 7"),
        // The original reads zeros behind the end and is content.
        ("half.o", "truncated"),
        // The original is killed by a signal.
        ("entsize.o", "sh_entsize"),
    ] {
        let room = room();
        let before = room.get(name);
        let outcome = recordmcount(&room, &[name, "a.o"]);
        assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(1), ""), "{name}: {outcome:?}");
        let said = &outcome.stderr;
        assert!(said.starts_with(&format!("{name}: failed: ")) && said.contains(reason), "{said}");
        assert_eq!(said.lines().count(), 1, "{said}");
        assert_eq!(room.get(name), before);
        assert_eq!(entries(&room, "a.o"), 8, "the files after {name} are recorded");
    }
}

#[test]
fn a_file_with_a_table_is_left_alone() {
    let room = room();
    recordmcount(&room, &["a.o"]);
    for name in ["a.o", "table.o"] {
        let before = (room.get(name), room.path(name).metadata().unwrap().modified().unwrap());
        let outcome = recordmcount(&room, &["-w", name]);
        let warning = format!("warning: __mcount_loc already exists: {name}\n");
        let found = (outcome.code, outcome.stdout.as_str(), outcome.stderr.as_str());
        assert_eq!(found, (Some(0), "", warning.as_str()));
        let after = (room.get(name), room.path(name).metadata().unwrap().modified().unwrap());
        assert_eq!(before, after);
    }
}

/// The file that defines the hook, by its path; the original does not even open it.
#[test]
fn ftrace_is_skipped() {
    for (path, is_recorded) in [
        ("trace/ftrace.o", false),
        ("./ftrace.o", false),
        ("ftrace.o", true),
        ("xftrace.o", true),
        ("nowhere/ftrace.o", false),
    ] {
        let room = room();
        let outcome = recordmcount(&room, &["-w", path]);
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{path}");
        assert_eq!(outcome.stdout.is_empty(), !is_recorded, "{path}");
        if room.path(path).exists() {
            assert_eq!(entries(&room, path), if is_recorded { 8 } else { 0 }, "{path}");
        }
    }
}

#[test]
fn nothing_to_record_is_silent() {
    let room = room();
    let before = (room.get("none.o"), room.path("none.o").metadata().unwrap().modified().unwrap());
    let outcome = recordmcount(&room, &["-w", "none.o"]);
    assert_eq!(
        (outcome.code, outcome.stdout, outcome.stderr),
        (Some(0), String::new(), String::new())
    );
    let after = (room.get("none.o"), room.path("none.o").metadata().unwrap().modified().unwrap());
    assert_eq!(before, after);
}

/// In the original one file's processor stays for the next; ours also records what it refuses:
/// RISC-V, and sections whose only symbol is weak.
#[test]
fn objects_of_different_processors_in_one_call() {
    let room = room();
    let names = ["a.o", "mips.o", "riscv.o", "arm.o", "weak.o", "s390x.o", "pic.o", "x32.o"];
    let outcome = recordmcount(&room, &names);
    assert_eq!((outcome.code, outcome.stderr), (Some(0), String::new()));
    for name in names {
        assert_eq!(entries(&room, name), 8, "{name}");
        let alone = Room::new().unwrap();
        let bytes = super_room_object(name);
        alone.put(name, &bytes).unwrap();
        recordmcount(&alone, &[name]);
        assert_eq!(alone.get(name).unwrap(), room.get(name).unwrap(), "{name}");
    }
}

/// The object `name` as [`room`] has it.
fn super_room_object(name: &str) -> Vec<u8> {
    room().get(name).unwrap()
}

/// The original gives the file a new inode, and breaks links; ours changes it in place.
#[test]
fn files_keep_their_identity() {
    let room = room();
    let path = room.path("a.o");
    fs::set_permissions(&path, Permissions::from_mode(0o640)).unwrap();
    symlink("a.o", room.path("link.o")).unwrap();
    let before = path.metadata().unwrap();
    assert_eq!(recordmcount(&room, &["link.o"]).code, Some(0));
    let after = path.metadata().unwrap();
    assert_eq!((after.ino(), after.mode()), (before.ino(), before.mode()));
    assert!(room.path("link.o").is_symlink());
    assert_eq!(entries(&room, "a.o"), 8);
    fs::hard_link(room.path("xftrace.o"), room.path("other.o")).unwrap();
    assert_eq!(recordmcount(&room, &["xftrace.o"]).code, Some(0));
    assert_eq!((entries(&room, "xftrace.o"), entries(&room, "other.o")), (8, 0));
}

/// As many build rules have it: nobody reads standard output.
#[test]
fn closed_streams_are_no_error() {
    let room = room();
    let script = format!("'{}' -w a.o >&- 2>&-", env!("CARGO_BIN_EXE_recordmcount"));
    assert_eq!(room.run(Path::new("sh"), &["-c", &script]).unwrap().code, Some(0));
    assert_eq!(entries(&room, "a.o"), 8);
}

/// Source with calls that the original records, in `.text`, and calls that it makes NOPs.
const EXCLUDED: &str = r#"
int callee(int);
int recorded(int x) { return callee(x) + 1; }
#define EXCLUDED __attribute__((section(".other.text")))
EXCLUDED int plain(int x) { return callee(x) + 2; }
EXCLUDED int large(int x, int count)
{
	volatile int values[20];
	for (int i = 0; i < count; i++)
		values[i] = callee(i);
	return values[x & 7];
}
"#;

/// Compilers whose calls the original makes NOPs, with their flags. It needs section symbols, and debug
/// information refers to those.
const DISARMED: &[&str] = &[
    "x86_64-linux-gnu-gcc -fno-pie -pg",
    "x86_64-linux-gnu-gcc -fno-pie -pg -mfentry",
    "clang --target=x86_64-linux-gnu -fno-pie -pg -mfentry",
    "aarch64-linux-gnu-gcc -pg",
    "aarch64-linux-gnu-gcc -mbig-endian -pg",
    "arm-linux-gnueabi-gcc -marm -pg",
    "arm-linux-gnueabi-gcc -marm -mbig-endian -pg",
    "arm-linux-gnueabihf-gcc -mthumb -pg",
];

/// The sites of `a.o`, each with its section, offset and function, and how many of them are NOPs.
type Sites = (Vec<(Option<String>, Option<u64>, Option<String>)>, usize);

fn sites(room: &Room, nops: bool) -> Sites {
    let policy = Policy::of(Base::All);
    let options = Options::default().policy(policy).nops(nops);
    let sites = mcount::scan(&room.get("a.o").unwrap(), &options).unwrap().sites;
    let text = |name: &Option<Arc<str>>| name.as_deref().map(str::to_owned);
    let place = |site: &CallSite| (text(&site.section), site.offset, text(&site.symbol));
    let nops = sites.iter().filter(|site| site.kind == Some(Kind::Nop)).count();
    (sites.iter().map(place).collect(), nops)
}

/// A room in which `compile` made `a.o`; the sites of that.
fn compiled(compile: &str, other: &str) -> (Room, Sites) {
    let words: Vec<_> = compile.split(' ').chain(["-g", "-O1", "-c", "a.c"]).collect();
    need([words[0], other]);
    let room = Room::new().unwrap();
    room.put("a.c", EXCLUDED.as_bytes()).unwrap();
    let outcome = room.run(Path::new(words[0]), &words[1..]).unwrap();
    assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    let before = sites(&room, false);
    assert_eq!(before.0.len(), 3);
    (room, before)
}

/// What `mcount why` says of `function`.
fn why(room: &Room, function: &str) -> String {
    let mcount = Path::new(env!("CARGO_BIN_EXE_mcount"));
    room.run(mcount, &["why", "a.o", function]).unwrap().stdout
}

/// The original leaves a NOP and an `R_*_NONE` of each call in an excluded section. With `--nops` they
/// are the sites that the calls were.
#[test(each = DISARMED)]
fn what_the_original_made_nops_are_sites(compile: &&str) {
    const ORIGINAL: &str = "/usr/lib/linux-kbuild-6.1/scripts/recordmcount";
    let (room, before) = compiled(compile, ORIGINAL);
    assert_eq!(room.run(Path::new(ORIGINAL), &["a.o"]).unwrap().code, Some(0));
    assert_eq!(sites(&room, false).0.len(), 1, "the original made no NOPs");
    assert_eq!(sites(&room, true), (before.0, 2));
    let said = why(&room, "plain");
    assert!(said.ends_with("a NOP; section .other.text is not recorded\n"), "{said}");
}

/// objtool makes NOPs of all calls and writes a table. Without the table they are known by their
/// relocations.
#[test]
fn what_objtool_made_nops_are_sites() {
    const OBJTOOL: &str = "/usr/lib/linux-kbuild-6.1/tools/objtool/objtool";
    let compile = "x86_64-linux-gnu-gcc -fno-pie -pg -mfentry";
    let (room, before) = compiled(compile, OBJTOOL);
    let arguments = ["--hacks=jump_label", "--mcount", "a.o"];
    assert_eq!(room.run(Path::new(OBJTOOL), &arguments).unwrap().code, Some(0));
    let remove = ["--remove-section=__mcount_loc", "a.o"];
    let objcopy = Path::new("x86_64-linux-gnu-objcopy");
    assert_eq!(room.run(objcopy, &remove).unwrap().code, Some(0));
    assert_eq!(sites(&room, false).0.len(), 0, "objtool made no NOPs");
    assert_eq!(sites(&room, true), (before.0, 3));
    let said = why(&room, "recorded");
    assert!(said.ends_with("a NOP, missing from the table\n"), "{said}");
}
