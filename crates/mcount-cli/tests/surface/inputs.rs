//! What commands take: folders, archives, the same file twice, and nothing at all.

use crate::{MCOUNT, mcount, room, tool};
use std::fs;
use std::path::Path;
use testkit::room::Room;
use testkit::test;

/// A build that checks the wrong folder must not pass.
#[test]
fn nothing_to_check_is_an_error() {
    let room = room();
    for folder in ["empty", "text", "good"] {
        fs::create_dir(room.path(folder)).unwrap();
    }
    room.put("text/readme", b"text").unwrap();
    room.put("empty.a", b"!<arch>\n").unwrap();
    room.put("good/done.o", &room.get("done.o").unwrap()).unwrap();
    let rows: &[(&[&str], i32)] = &[
        (&["empty"], 2),
        (&["text"], 2),
        (&["empty", "text"], 2),
        (&["empty.a"], 2),
        (&["good"], 0),
        (&["good", "empty.a"], 0),
        (&["good", "empty"], 2),
        (&["--allow-empty", "empty"], 0),
        (&["--allow-empty", "empty.a", "text"], 0),
        (&["--allow-empty", "missing"], 2),
    ];
    for (arguments, code) in rows {
        let outcome = mcount(&room, &[&["check", "--policy", "all"], *arguments].concat());
        assert_eq!(outcome.code, Some(*code), "{arguments:?}: {outcome:?}");
        let complaints = outcome.stderr.matches("--allow-empty").count();
        let is_asked = arguments.contains(&"--allow-empty");
        assert_eq!(complaints != 0, *code == 2 && !is_asked, "{arguments:?}: {outcome:?}");
    }
}

/// What every command that takes folders says of one without objects.
#[test]
fn a_folder_without_objects_is_an_error() {
    let room = room();
    fs::create_dir(room.path("empty")).unwrap();
    fs::create_dir(room.path("good")).unwrap();
    room.put("good/done.o", &room.get("done.o").unwrap()).unwrap();
    room.put("empty.a", b"!<arch>\n").unwrap();
    let said = "mcount: empty: no objects in it; --allow-empty accepts that\n";
    let run = |arguments: &[&str]| {
        let mut outcome = mcount(&room, arguments);
        // What check says at its end.
        let lines = outcome.stderr.split_inclusive('\n');
        outcome.stderr = lines.filter(|line| !line.contains(" checked, ")).collect();
        outcome
    };
    for command in ["record", "nop", "scan", "list", "check"] {
        let outcome = run(&[command, "empty"]);
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(2), said), "{command}");
        // The rest is worked on all the same.
        let outcome = run(&[command, "empty", "good"]);
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(2), said), "{command}");
        let alone = run(&[command, "good"]).stdout;
        assert_eq!(outcome.stdout, alone, "{command}");
        let outcome = run(&[command, "--allow-empty", "empty"]);
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{command}");
        // An archive without members is as good as any: builds make them.
        let outcome = run(&[command, "empty.a", "good"]);
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{command}");
    }
    for arguments in [["diff", "empty", "empty"], ["diff", "empty", "good"]] {
        let outcome = run(&arguments);
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(2), said), "{arguments:?}");
    }
    let outcome = run(&["diff", "--allow-empty", "empty", "good"]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(1), ""));
}

/// Nothing but the table tells that a NOP was a call.
#[test]
fn a_narrower_policy_says_which_nops_it_drops() {
    let room = Room::new().unwrap();
    room.put_prebuilt("a.o", "aarch64-pg").unwrap();
    let entries = || mcount(&room, &["list", "--count", "a.o"]).stdout;
    let wide = ["record", "--policy", "all", "--nop-all", "a.o"];
    assert_eq!(mcount(&room, &wide).stderr, "");
    let before = entries();
    assert_eq!(mcount(&room, &wide).stderr, "");
    assert_eq!(entries(), before);
    let said = "mcount: warning: a.o: .exit.text: 1 entry dropped, which led to NOPs in place of calls: \
                the policy leaves them out\n";
    let outcome = mcount(&room, &["record", "a.o"]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), said));
    assert_ne!(entries(), before);
    assert_eq!(mcount(&room, &["record", "a.o"]).stderr, "");
}

#[test]
fn counts_have_a_line_for_each_file() {
    let room = room();
    let outcome = mcount(&room, &["scan", "--count", "image", "a.o", "a.o"]);
    assert_eq!(outcome.stdout, "2  image\n2  a.o\n2  a.o\n");
    let jsonl = ["scan", "--count", "--format", "jsonl", "a.o", "a.o"];
    assert_eq!(mcount(&room, &jsonl).stdout, "{\"count\":2,\"file\":\"a.o\"}\n".repeat(2));
}

/// `nop` takes what `record` takes: archives, thin ones too, and folders.
#[test]
fn nop_takes_archives_and_folders() {
    let room = room();
    tool(&room, "ar", &["rcD", "both.a", "a.o", "done.o"]);
    tool(&room, "ar", &["rcTD", "thin.a", "done.o"]);
    let outcome = mcount(&room, &["nop", "-v", "both.a"]);
    let expected = "both.a(a.o): 0 NOPs made, 2 calls not in the table\n\
                    both.a(done.o): 2 NOPs made, 0 calls not in the table\n";
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), expected), "{outcome:?}");
    fs::create_dir(room.path("out")).unwrap();
    tool(&room, "ar", &["x", "--output", "out", "both.a"]);
    let made = room.get("out/done.o").unwrap();
    assert_eq!(room.get("out/a.o").unwrap(), room.get("a.o").unwrap());
    tool(&room, MCOUNT, &["nop", "-o", "expected.o", "done.o"]);
    assert!(made == room.get("expected.o").unwrap());
    fs::create_dir(room.path("folder")).unwrap();
    room.put("folder/done.o", &room.get("done.o").unwrap()).unwrap();
    tool(&room, MCOUNT, &["nop", "folder", "thin.a"]);
    assert!(room.get("folder/done.o").unwrap() == made && room.get("done.o").unwrap() == made);
    // An archive is for objects, and is changed whole or not at all.
    tool(&room, "ar", &["rcD", "mixed.a", "done.o", "image"]);
    let before = room.get("mixed.a").unwrap();
    let outcome = mcount(&room, &["nop", "mixed.a"]);
    assert_eq!(outcome.code, Some(2), "{outcome:?}");
    assert_eq!(outcome.stderr.lines().count(), 1, "{outcome:?}");
    assert!(room.get("mixed.a").unwrap() == before);
}

/// Each thing is said once of a file that is compared with itself.
#[test]
fn a_file_compared_with_itself_is_complained_about_once() {
    let room = room();
    tool(&room, "gcc", &["-shared", "-s", "-o", "stripped", "done.o", "hook.o"]);
    let said = mcount(&room, &["diff", "stripped", "stripped"]).stderr;
    assert_eq!(said.matches("stripped: stripped: ").count(), 1, "{said}");
}

/// A thread with a stack of its own runs the command where the limit is low, and a signal still ends it.
#[test]
fn a_small_stack_is_enough() {
    let room = room();
    for arguments in [&["--help"][..], &["scan", "plain.o"], &["demo"]] {
        let usual = mcount(&room, arguments);
        for kibibytes in ["64", "256", "4096"] {
            let shell = ["-c", "ulimit -s $0; exec \"$@\"", kibibytes, MCOUNT];
            let small = room.run(Path::new("bash"), &[&shell, arguments].concat()).unwrap();
            assert_eq!(small, usual, "{kibibytes} {arguments:?}");
        }
    }
    let script = "ulimit -s 64; sleep 2 | \"$0\" list - & sleep 0.5; kill -TERM $!; wait $!";
    let ended = room.run(Path::new("bash"), &["-c", script, MCOUNT]).unwrap();
    assert_eq!(ended.code, Some(143), "{ended:?}");
}
