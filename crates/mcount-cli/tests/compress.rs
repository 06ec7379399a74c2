//! `mcount compress`: every command prints of a compressed trace what it prints of the trace, zstd finds the frames
//! right, and what comes back is the same file.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

use mcount_trace::{End, Writer};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use testkit::room::{Outcome, Room};
use testkit::test;
use testkit::tools::need;

fn main() -> std::process::ExitCode {
    testkit::trial::main()
}

const TOP: u64 = 0x7ffd_1234_5000;

/// A trace of two threads with more calls than a chunk holds.
fn sample() -> Vec<u8> {
    let mut writer = Writer::new();
    writer.process(100, 1, 0, "/bin/program").thread_name(100, 101, 0, "worker");
    let names = ["main", "work", "sort", "compare", "swap"];
    let functions = names.map(|name| writer.function("/bin/program", name));
    let threads = [writer.thread(100, 100), writer.thread(100, 101)];
    for round in 0..6_000_u64 {
        let (thread, start) = (threads[usize::from(round % 3 == 0)], round * 1_000);
        for (depth, function) in [(4, 4), (3, 3), (2, 2), (1, 1)] {
            let (from, to) = (start + depth * 10, start + 900 - depth * (20 + round % 7));
            let slot = TOP - depth * 64;
            writer.call(thread, functions[function]).from(from).to(to).slot(slot).end(End::Return);
        }
    }
    writer.open(threads[0], functions[0], 1, TOP);
    writer.header(mcount_trace::layout::header::END_TICKS, 6_000_000);
    writer.finish()
}

fn mcount(room: &Room, arguments: &[&str]) -> Outcome {
    room.run(Path::new(env!("CARGO_BIN_EXE_mcount")), arguments).unwrap()
}

#[test]
fn every_command_reads_it_as_it_is() {
    let room = Room::new().unwrap();
    room.put("t.mcount", &sample()).unwrap();
    let plain = Room::new().unwrap();
    plain.put("t.mcount", &sample()).unwrap();
    let packed = mcount(&room, &["compress", "t.mcount"]);
    assert_eq!((packed.code, packed.stderr.as_str()), (Some(0), ""));
    let (before, after) = (sample().len(), room.get("t.mcount").unwrap().len());
    assert!(after * 16 < before, "{after} of {before} bytes");
    let commands: [&[&str]; 10] = [
        &["replay"],
        &["replay", "--format", "jsonl"],
        &["replay", "--format", "csv"],
        &["replay", "--format", "folded"],
        &["replay", "--format", "chrome"],
        &["replay", "--format", "perfetto"],
        &["replay", "--from", "2ms", "--to", "2100us", "--thread", "worker"],
        &["stats"],
        &["stats", "--by", "thread", "--format", "csv"],
        &["report", "-o", "-"],
    ];
    for words in commands {
        let one = mcount(&room, &[words, &["t.mcount"]].concat());
        let other = mcount(&plain, &[words, &["t.mcount"]].concat());
        assert_eq!((one.code, one.stderr.as_str()), (Some(0), ""), "{words:?}");
        assert!(one.stdout == other.stdout && one.stdout.len() > 100, "{words:?}");
    }
    plain.put("small", &room.get("t.mcount").unwrap()).unwrap();
    let same = mcount(&plain, &["diff", "t.mcount,t.mcount,small", "small,t.mcount,t.mcount"]);
    assert_eq!((same.code, same.stderr.as_str()), (Some(0), ""), "{}", same.stdout);
}

#[test]
fn what_comes_back_is_the_same_file() {
    let room = Room::new().unwrap();
    room.put("t.mcount", &sample()).unwrap();
    let readable = std::fs::Permissions::from_mode(0o640);
    std::fs::set_permissions(room.path("t.mcount"), readable).unwrap();
    assert_eq!(mcount(&room, &["compress", "-o", "small", "t.mcount"]).code, Some(0));
    assert_eq!(room.path("small").metadata().unwrap().permissions().mode() & 0o777, 0o640);
    assert_eq!(room.get("t.mcount").unwrap(), sample());
    assert_eq!(mcount(&room, &["compress", "--undo", "-o", "again", "small"]).code, Some(0));
    assert!(room.get("again").unwrap() == sample());
    let twice = mcount(&room, &["compress", "small"]);
    assert_eq!(twice.stderr, "mcount: small: a compressed trace\n");
    let wrong = mcount(&room, &["compress", "--undo", "t.mcount"]);
    assert_eq!(
        (wrong.code, wrong.stderr.as_str()),
        (Some(2), "mcount: t.mcount: not a compressed trace\n")
    );
    assert_eq!(room.get("t.mcount").unwrap(), sample());
}

#[test]
fn zstd_reads_its_frames() {
    need(["zstd"]);
    let room = Room::new().unwrap();
    room.put("t.mcount", &sample()).unwrap();
    assert_eq!(mcount(&room, &["compress", "t.mcount"]).code, Some(0));
    let tested = room.run(Path::new("zstd"), &["-t", "t.mcount"]).unwrap();
    assert_eq!(tested.code, Some(0), "{}", tested.stderr);
}

#[test]
fn what_is_damaged_is_said() {
    let room = Room::new().unwrap();
    room.put("t.mcount", &sample()).unwrap();
    assert_eq!(mcount(&room, &["compress", "t.mcount"]).code, Some(0));
    let whole = room.get("t.mcount").unwrap();
    let calls = |outcome: &Outcome| outcome.stdout.lines().count();
    let all = calls(&mcount(&room, &["replay", "--format", "jsonl", "t.mcount"]));
    // In the middle are the frames of calls; the end has the table, which isn't needed.
    let mut bad = whole.clone();
    let middle = bad.len() / 2;
    bad[middle] ^= 0x55;
    room.put("t.mcount", &bad).unwrap();
    let outcome = mcount(&room, &["replay", "--format", "jsonl", "t.mcount"]);
    assert_eq!(outcome.stderr, "mcount: warning: t.mcount: 1 piece of the file is damaged\n");
    assert!(outcome.code == Some(0) && (1..all).contains(&calls(&outcome)));
    let undone = mcount(&room, &["compress", "--undo", "-o", "again", "t.mcount"]);
    assert_eq!(undone.stderr, "mcount: t.mcount: a compressed trace of which a piece is damaged\n");
    assert!(room.get("again").is_err());
    room.put("t.mcount", &whole[..whole.len() * 2 / 3]).unwrap();
    let outcome = mcount(&room, &["replay", "--format", "jsonl", "t.mcount"]);
    assert!(outcome.stderr.contains("missing: it was cut off"), "{}", outcome.stderr);
    assert!(outcome.code == Some(0) && (1..all).contains(&calls(&outcome)));
}

#[test]
fn a_folder_that_is_not_there_is_named() {
    let room = Room::new().unwrap();
    room.put("t.mcount", &sample()).unwrap();
    for undo in [&[][..], &["--undo"]] {
        let words = [&["compress", "t.mcount", "-o", "no/t"], undo].concat();
        let failed = mcount(&room, &words);
        assert_eq!(failed.code, Some(2));
        assert_eq!(failed.stderr, "mcount: no/t: No such file or directory\n");
    }
}

/// Errors name the file that they are about: the one that is written, if its disk is full.
#[test]
fn a_full_disk_is_that_of_the_output() {
    let room = Room::new().unwrap();
    room.put("t.mcount", &sample()).unwrap();
    assert_eq!(mcount(&room, &["compress", "-o", "small", "t.mcount"]).code, Some(0));
    for (undo, trace) in [("", "t.mcount"), ("--undo", "small")] {
        let script = format!("ulimit -f 0; \"$0\" compress {undo} -o \"$1\" {trace}");
        let table = [
            ("/dev/full", "mcount: /dev/full: No space left on device\n"),
            ("out", "mcount: out: File too large: raise ulimit -f\n"),
        ];
        for (output, said) in table {
            let arguments = ["-c", &script, env!("CARGO_BIN_EXE_mcount"), output];
            let failed = room.run(Path::new("bash"), &arguments).unwrap();
            assert_eq!((failed.code, failed.stderr.as_str()), (Some(2), said), "{script}");
        }
        assert_eq!(room.names().unwrap(), ["small", "t.mcount"]);
    }
}

/// The trace of a program, compressed at once.
#[test]
#[cfg(all(target_os = "linux", target_arch = "x86_64"))]
fn a_program_whose_trace_is_compressed() {
    need(["gcc"]);
    let room = Room::new().unwrap();
    let source = b"__attribute__((noinline)) int f(int x) { return x * 3; }
        int main(void) { int y = 0; for (int i = 0; i < 20000; i++) y += f(i); return y == 1; }";
    room.put("p.c", source).unwrap();
    let flags = ["-O1", "-fpatchable-function-entry=5", "-o", "p", "p.c"];
    assert_eq!(room.run(Path::new("gcc"), &flags).unwrap().code, Some(0));
    let traced = mcount(&room, &["trace", "--compress", "--", "./p"]);
    let said = "mcount: 20,001 calls in p.mcount; see where the time went: mcount stats p.mcount\n";
    assert_eq!((traced.code, traced.stderr.as_str()), (Some(0), said));
    // 16 bytes a call before.
    assert!(room.get("p.mcount").unwrap().len() < 100_000);
    let stats = mcount(&room, &["stats", "--format", "csv", "p.mcount"]);
    assert!(stats.stdout.contains("20000"), "{}", stats.stdout);
}

/// A device stays one.
#[test]
fn a_pipe_is_written_as_it_is() {
    use std::os::unix::fs::FileTypeExt;
    let room = Room::new().unwrap();
    room.put("t.mcount", &sample()).unwrap();
    let pipe = room.path("pipe");
    assert!(std::process::Command::new("mkfifo").arg(&pipe).status().unwrap().success());
    let reader = std::thread::spawn({
        let pipe = pipe.clone();
        move || testkit::files::read(&pipe).unwrap()
    });
    let outcome = mcount(&room, &["compress", "--output", "pipe", "t.mcount"]);
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    let piped = reader.join().unwrap();
    assert_eq!(mcount(&room, &["compress", "--output", "file", "t.mcount"]).code, Some(0));
    assert!(piped == room.get("file").unwrap());
    assert!(pipe.metadata().unwrap().file_type().is_fifo());
}
