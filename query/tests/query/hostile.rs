//! Damaged inputs: traces, samples and files of Parquet that are cut off or have other bits are read as far as they go, or refused in one
//! line. The program neither panics nor hangs.

use crate::{QUERY, ask, run, trace};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};
use testkit::damage::Random;
use testkit::room::Room;
use testkit::test;

/// How many changes are tried of each file.
const CHANGES: usize = 400;

/// No query takes so long.
const PATIENCE: Duration = Duration::from_secs(30);

/// All columns are read.
const SQL: &str = "SELECT * FROM calls";

/// Runs a query whose input may be damaged.
fn look(room: &Room, file: &str, sql: &str, what: &str) {
    let mut command: Command = room.command(Path::new(QUERY), &["--format", "json", file, sql]);
    command.env_remove("RUST_BACKTRACE").stdout(Stdio::null()).stderr(Stdio::piped());
    let begin = Instant::now();
    let mut child = command.spawn().unwrap();
    while child.try_wait().unwrap().is_none() {
        if begin.elapsed() > PATIENCE {
            child.kill().unwrap();
            panic!("{what} hangs");
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    let output = child.wait_with_output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(matches!(output.status.code(), Some(0 | 2)), "{what}: {}: {said}", output.status);
    assert!(!said.contains("panicked"), "{what}: {said}");
    assert!(said.lines().all(|line| line.starts_with("mcount: ")), "{what}: {said}");
}

/// Cuts off `whole` in half of the changes, and flips up to four bits in the others.
fn changes(whole: &[u8], look: impl Fn(&[u8], &str)) {
    let mut random = Random::new();
    for number in 0..CHANGES {
        let mut bytes = whole.to_vec();
        if number % 2 == 0 {
            bytes.truncate(random.below(whole.len()));
        } else {
            for _ in 0..=random.below(4) {
                let at = random.below(whole.len());
                if let Some(byte) = bytes.get_mut(at) {
                    *byte ^= 1 << random.below(8);
                }
            }
        }
        look(&bytes, &format!("change {number}"));
    }
}

#[test]
fn damaged_traces() {
    let room = Room::new().unwrap();
    changes(&trace(40), |bytes, what| {
        room.put("t.mcount", bytes).unwrap();
        look(&room, "t.mcount", SQL, what);
    });
}

#[test]
fn damaged_metadata() {
    let room = Room::new().unwrap();
    let sql = "SELECT f.*, p.*, t.* FROM functions f, processes p, threads t";
    changes(&trace(1), |bytes, what| {
        room.put("t.mcount", bytes).unwrap();
        look(&room, "t.mcount", sql, what);
    });
}

#[test]
fn damaged_tables_of_parquet() {
    let room = Room::new().unwrap();
    room.put("t.mcount", &trace(300)).unwrap();
    let written = run(&room, &["-o", "calls.parquet", "t.mcount", "SELECT * FROM calls"]);
    assert_eq!(written.code, Some(0), "{written:?}");
    let whole = room.get("calls.parquet").unwrap();
    assert_eq!(ask(&room, &["calls.parquet"], "SELECT count(*) FROM calls"), ["302"]);
    changes(&whole, |bytes, what| {
        room.put("calls.parquet", bytes).unwrap();
        look(&room, "calls.parquet", SQL, what);
    });
}

#[test]
fn damaged_samples() {
    let room = Room::new().unwrap();
    let whole = crate::fleet::lines("host", "aa", 10.0);
    changes(whole.as_bytes(), |bytes, what| {
        room.put("s.jsonl", bytes).unwrap();
        look(&room, "s.jsonl", "SELECT * FROM samples", what);
    });
}
