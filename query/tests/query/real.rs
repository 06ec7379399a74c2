//! A program that is traced: `mcount` says the same of it, and DuckDB reads the same from its export.
//!
//! DuckDB is asked if `$MCOUNT_PYTHON` is a Python that has it.

use crate::{ask, project};
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use testkit::room::Room;
use testkit::test;
use testkit::tools::need;

/// Prints the rows of tables below a folder, by a query each, as JSON.
const DUCKDB: &str = "import duckdb, json, sys
for table, sql in json.loads(sys.argv[2]):
    path = f'{sys.argv[1]}/{table}/**/*.parquet'
    duckdb.sql(f\"CREATE OR REPLACE VIEW {table} AS SELECT * FROM read_parquet('{path}', hive_partitioning = true, hive_types_autocast = false)\")
    print(json.dumps([[value for value in row] for row in duckdb.sql(sql).fetchall()], default=str))
";

/// `$MCOUNT`, or the newest one that was built.
fn mcount() -> Option<PathBuf> {
    let given = std::env::var_os("MCOUNT").map(PathBuf::from);
    let built = ["release", "debug", "dist"]
        .map(|profile| project().join("target").join(profile).join("mcount"));
    let built = built.into_iter().filter(|path| path.is_file());
    given.or_else(|| built.max_by_key(|path| path.metadata().and_then(|of| of.modified()).ok()))
}

/// A folder with a trace of a program, with arguments and results, and its export.
fn traced() -> Option<(Room, PathBuf)> {
    need(["gcc"]);
    let mcount = mcount()?;
    let room = Room::new().unwrap();
    let source = project().join("examples/requests.c");
    let include = format!("-I{}", project().join("include").display());
    let (source, compile) = (source.to_string_lossy().into_owned(), "-fpatchable-function-entry=5");
    let tool = |program: &Path, arguments: &[&str]| {
        let outcome = room.run(program, arguments).unwrap();
        assert_eq!(outcome.code, Some(0), "{arguments:?}: {outcome:?}");
    };
    tool(Path::new("gcc"), &["-O1", "-g", compile, &include, "-o", "program", &source]);
    tool(&mcount, &["trace", "-o", "t.mcount", "--args", "*", "--results", "*", "--", "./program"]);
    tool(&mcount, &["replay", "--format", "parquet", "--lines", "-o", "tables", "t.mcount"]);
    Some((room, mcount))
}

#[test]
fn statistics_are_the_same() {
    let Some((room, mcount)) = traced() else { return };
    let outcome = room.run(&mcount, &["stats", "--format", "jsonl", "t.mcount"]).unwrap();
    let number = |row: &Value, name: &str| row.get(name).and_then(Value::as_u64).unwrap();
    let stats: BTreeMap<String, (u64, u64)> = outcome
        .stdout
        .lines()
        .map(|line| {
            let row: Value = serde_json::from_str(line).unwrap();
            let name = row.get("function").and_then(Value::as_str).unwrap().to_owned();
            (name, (number(&row, "calls"), number(&row, "self_ns")))
        })
        .collect();
    assert!(stats.len() > 3, "{stats:?}");
    let sql = "SELECT function, count(*), sum(self_ns) FROM calls GROUP BY function";
    for input in ["t.mcount", "tables"] {
        let found = ask(&room, &[input], sql);
        let found = found.iter().map(|line| {
            let fields: Vec<&str> = line.split(',').collect();
            let [name, calls, own] = fields.as_slice() else { panic!("{line}") };
            ((*name).to_owned(), (calls.parse().unwrap(), own.parse().unwrap()))
        });
        assert_eq!(found.collect::<BTreeMap<_, _>>(), stats, "{input}");
    }
    let values = "SELECT DISTINCT arguments FROM calls WHERE function = 'handle_request' AND arguments IS NOT NULL";
    assert!(!ask(&room, &["t.mcount"], values).is_empty());
}

/// The columns of each table, and what to sort them by.
const TABLES: [(&str, &str); 4] = [
    ("calls", "process, thread, start_ns, depth"),
    ("functions", "function_id, build"),
    ("threads", "process, thread"),
    ("processes", "process, start_ns"),
];

fn columns(room: &Room, table: &str) -> Vec<String> {
    let sql = "SELECT column_name FROM information_schema.columns WHERE table_name = 'TABLE' ORDER BY ordinal_position";
    ask(room, &["t.mcount"], &sql.replace("TABLE", table))
}

#[test]
fn columns_are_those_of_the_export() {
    let Some((room, _)) = traced() else { return };
    for (table, order) in TABLES {
        for column in columns(&room, table) {
            let sql = format!("SELECT \"{column}\" FROM {table} ORDER BY {order}");
            let from_trace = ask(&room, &["--lines", "t.mcount"], &sql);
            assert!(!from_trace.is_empty(), "{table}.{column}");
            assert_eq!(from_trace, ask(&room, &["tables"], &sql), "{table}.{column}");
        }
    }
}

#[test]
fn columns_are_those_that_duckdb_reads() {
    let (Some(python), Some((room, _))) = (std::env::var_os("MCOUNT_PYTHON"), traced()) else {
        return;
    };
    // Times of the day are printed in different ways.
    let shown = |column: &str| match column {
        "trace_start" => "epoch_us(trace_start)".to_owned(),
        column => format!("\"{column}\""),
    };
    let ours = |column: &str| match column {
        "trace_start" => "CAST(trace_start AS BIGINT)".to_owned(),
        column => format!("\"{column}\""),
    };
    let mut asked: Vec<(String, String, Vec<Value>)> = Vec::new();
    for (table, order) in TABLES {
        for column in columns(&room, table) {
            let sql =
                |column: &str| format!("SELECT {column} AS value FROM {table} ORDER BY {order}");
            let words = ["--format", "json", "--lines", "t.mcount"];
            let outcome = crate::run(&room, &[&words[..], &[&sql(&ours(&column))]].concat());
            assert_eq!(outcome.code, Some(0), "{outcome:?}");
            let value = |line: &str| serde_json::from_str::<Value>(line).unwrap()["value"].clone();
            let rows = outcome.stdout.lines().map(value).collect();
            asked.push((table.to_owned(), sql(&shown(&column)), rows));
        }
    }
    let queries: Vec<(&str, &str)> =
        asked.iter().map(|(table, sql, _)| (&**table, &**sql)).collect();
    let queries = serde_json::to_string(&queries).unwrap();
    let outcome = room.run(Path::new(&python), &["-c", DUCKDB, "tables", &queries]).unwrap();
    assert_eq!(outcome.code, Some(0), "{outcome:?}");
    assert_eq!(outcome.stdout.lines().count(), asked.len());
    for (line, (_, sql, rows)) in outcome.stdout.lines().zip(&asked) {
        let theirs: Vec<Vec<Value>> = serde_json::from_str(line).unwrap();
        assert_eq!(&theirs.concat(), rows, "{sql}");
    }
}
