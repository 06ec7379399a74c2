//! What isn't a query, or isn't right: one line, exit code 2, and nothing is changed.

use crate::{run, trace};
use testkit::room::Room;
use testkit::test;

/// Arguments, and a part of what is said of them.
const WRONG: &[(&[&str], &str)] = &[
    (
        &["t.mcount", "SELECT * FROM call"],
        "there is no table 'call': there's calls, functions, threads, processes",
    ),
    (&["t.mcount", "SELECT * FROM samples"], "there is no table 'samples': there's calls"),
    (
        &["t.mcount", "SELECT duraton_ns FROM calls"],
        "there is no column 'duraton_ns': did you mean duration_ns",
    ),
    (&["t.mcount", "SELECT xyzzy FROM calls"], "there is no column 'xyzzy': there's "),
    (&["t.mcount", "SELEC 1"], "SELEC"),
    (&["t.mcount", ""], "the query is empty"),
    (&["t.mcount", "SELECT 1; SELECT 2"], ""),
    (&["t.mcount", "SELECT nothing(1)"], "nothing"),
    (&["t.mcount", "SELECT 1 / (depth - depth) FROM calls"], "ivide by zero"),
    (&["t.mcount", "CREATE TABLE x AS SELECT 1"], "only queries are accepted, and this is"),
    (&["t.mcount", "CREATE VIEW x AS SELECT 1"], "only queries are accepted, and this is"),
    (
        &["t.mcount", "CREATE EXTERNAL TABLE x STORED AS CSV LOCATION 'text'"],
        "only queries are accepted",
    ),
    (&["t.mcount", "DROP TABLE calls"], "only queries are accepted"),
    (&["t.mcount", "INSERT INTO calls SELECT * FROM calls"], "only queries are accepted"),
    (&["t.mcount", "DELETE FROM calls"], "only queries are accepted"),
    (&["t.mcount", "UPDATE calls SET depth = 1"], "only queries are accepted"),
    (&["t.mcount", "COPY (SELECT 1) TO 'new.csv'"], "only queries are accepted"),
    (&["t.mcount", "COPY calls TO 'new.parquet'"], "only queries are accepted"),
    (&["t.mcount", "SET datafusion.execution.batch_size = 1"], "only queries are accepted"),
    (&["t.mcount", "BEGIN"], "BEGIN"),
    (&["t.mcount", "SELECT * FROM 'text'"], "there is no table 'text'"),
    (&["t.mcount"], "no query given"),
    (&["SELECT 1"], "no trace given"),
    (&["t.mcount", "text"], "text: this is a file, and the last argument is the query"),
    (&["nothing", "SELECT 1"], "nothing: No such file or directory"),
    (&["text", "SELECT 1"], "text: not a trace"),
    (&["empty", "SELECT 1"], "empty: has no file of Parquet"),
    (&["bad.parquet", "SELECT 1"], "bad.parquet: "),
    (&["sample.jsonl", "SELECT * FROM samples"], "sample.jsonl: line 1: has no host"),
    (&["--file", "nothing", "t.mcount"], "nothing: No such file or directory"),
    (&["--format", "parquet", "t.mcount", "SELECT 1"], "--format parquet needs --output FILE"),
    (&["-o", "none/file", "t.mcount", "SELECT 1"], "none/file: No such file or directory"),
];

#[test]
fn errors_are_one_line() {
    let room = Room::new().unwrap();
    room.put("t.mcount", &trace(10)).unwrap();
    room.put("text", b"no trace\n").unwrap();
    room.put("sample.jsonl", b"{\"calls_per_second\":1}\n").unwrap();
    room.put("bad.parquet", b"PAR1 and no more").unwrap();
    std::fs::create_dir(room.path("empty")).unwrap();
    for (words, expected) in WRONG {
        let outcome = run(&room, words);
        assert_eq!(
            (outcome.code, outcome.stdout.as_str()),
            (Some(2), ""),
            "{words:?}: {outcome:?}"
        );
        let line = outcome.stderr.strip_prefix("mcount: ").unwrap_or_default();
        assert!(
            line.lines().count() == 1 && line.contains(expected),
            "{words:?}: {}",
            outcome.stderr
        );
    }
    let names = room.names().unwrap();
    assert!(!names.iter().any(|name| name.starts_with("new")), "{names:?}");
}

/// A file is complete or isn't there, and an old one stays.
#[test]
fn an_error_leaves_files_alone() {
    let room = Room::new().unwrap();
    room.put("t.mcount", &trace(100_000)).unwrap();
    room.put("old", b"old").unwrap();
    let before = room.names().unwrap();
    let sql = "SELECT 1 / (depth - 1) FROM calls";
    for format in ["table", "csv", "json", "parquet"] {
        for file in ["old", "new"] {
            let outcome = run(&room, &["--format", format, "-o", file, "t.mcount", sql]);
            assert_eq!(outcome.code, Some(2), "{outcome:?}");
            assert!(outcome.stderr.contains("ivide by zero"), "{outcome:?}");
        }
        assert_eq!(
            (room.get("old").unwrap(), room.names().unwrap()),
            (b"old".to_vec(), before.clone())
        );
    }
    let outcome = run(&room, &["-o", "/dev/full", "t.mcount", "SELECT * FROM calls"]);
    assert_eq!(outcome.code, Some(2));
    assert_eq!(outcome.stderr, "mcount: /dev/full: No space left on device\n");
    let outcome =
        run(&room, &["--memory", "64K", "t.mcount", "SELECT array_agg(start_ns) FROM calls"]);
    assert_eq!(outcome.code, Some(2));
    assert!(outcome.stderr.contains("needs more memory than --memory allows"), "{outcome:?}");
}
