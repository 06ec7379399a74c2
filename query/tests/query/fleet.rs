//! The questions of `examples/fleet` about samples, which are JSON lines or files of Parquet.

use crate::{ask, project, run};
use mcount_store::files::read_to_end;
use mcount_view::parquet::{Group, Writer};
use mcount_view::sample::table::{FIELDS, rows};
use serde_json::json;
use std::fs::create_dir_all;
use testkit::room::Room;
use testkit::test;

/// A sample of a host, in which a call of `parse` takes so many nanoseconds.
pub(crate) fn lines(host: &str, build: &str, parse: f64) -> String {
    let line = |function: &str, mean: f64| {
        let line = json!({
            "start": 1_795_000_000.25, "seconds": 60.0, "host": host, "program": "/bin/service",
            "program_build": build, "process": 7, "function": function, "module": "/bin/service",
            "build": build, "calls": 1000, "windows": 500, "calls_per_second": 2000.0,
            "calls_per_second_error": 20.0, "mean_ns": mean, "mean_ns_error": mean / 100.0,
            "median_ns": mean, "p90_ns": mean * 2.0, "p99_ns": mean * 4.0, "share": 0.1,
            "share_error": null, "unfinished": 0,
        });
        format!("{line}\n")
    };
    line("parse", parse) + &line("turn", 50.0)
}

/// The same as a file of Parquet, as `mcount sample` writes it.
fn parquet(lines: &str) -> Vec<u8> {
    let rows = rows(lines.as_bytes()).unwrap();
    let mut writer = Writer::new(Vec::new(), FIELDS).unwrap();
    writer.add(&Group::new(FIELDS, &rows.columns, rows.rows, &rows.texts)).unwrap();
    writer.finish().unwrap()
}

fn question(name: &str) -> String {
    let path = project().join("examples/fleet").join(name);
    String::from_utf8(read_to_end(&path).unwrap()).unwrap()
}

#[test]
fn questions_have_the_same_answers() {
    let room = Room::new().unwrap();
    for folder in ["lines", "tables"] {
        for (host, build, parse) in [
            ("web-1", "aa", 1000.0),
            ("web-2", "aa", 1010.0),
            ("web-3", "bb", 2000.0),
            ("web-4", "bb", 2010.0),
        ] {
            create_dir_all(room.path(folder).join(host)).unwrap();
            let lines = lines(host, build, parse);
            let (name, bytes) = match folder {
                "lines" => ("s.jsonl", lines.into_bytes()),
                _ => ("s.parquet", parquet(&lines)),
            };
            room.put(&format!("{folder}/{host}/{name}"), &bytes).unwrap();
        }
    }
    let slower = question("slower.sql").replace(":old", "aa").replace(":new", "bb");
    let hosts = question("hosts.sql").replace(":function", "parse");
    for folder in ["lines", "tables"] {
        // A word that begins with a comment would be an option.
        assert_eq!(
            ask(&room, &[folder], &format!("\n{slower}")),
            ["parse,,2,1005.0,2005.0,100.0"],
            "{folder}"
        );
        let found = ask(&room, &[folder], &format!("\n{hosts}"));
        assert_eq!(found.len(), 4, "{found:?}");
        assert_eq!(found.first().unwrap(), "web-4,2000.0,2010.0,8040.0");
    }
    // Both together are one table.
    let both = ask(&room, &["lines", "tables/web-1/s.parquet"], "SELECT count(*) FROM samples");
    assert_eq!(both, ["10"]);
    room.put("hosts.sql", hosts.as_bytes()).unwrap();
    let outcome = run(&room, &["--file", "hosts.sql", "tables"]);
    assert!(outcome.stdout.starts_with("host   calls_per_second  mean_ns"), "{outcome:?}");
}

/// Every column is the same from both kinds of files.
#[test]
fn columns_are_the_same() {
    let room = Room::new().unwrap();
    let lines = lines("web-1", "aa", 1234.5);
    room.put("s.jsonl", lines.as_bytes()).unwrap();
    room.put("s.parquet", &parquet(&lines)).unwrap();
    for field in FIELDS {
        let sql = format!("SELECT \"{}\" FROM samples ORDER BY function", field.name);
        let from_lines = ask(&room, &["s.jsonl"], &sql);
        assert_eq!(from_lines, ask(&room, &["s.parquet"], &sql), "{}", field.name);
        assert_eq!(from_lines.len(), 2);
    }
    let start = ask(&room, &["s.jsonl"], "SELECT DISTINCT start FROM samples");
    assert_eq!(start, ["2026-11-18T11:06:40.250Z"]);
}
