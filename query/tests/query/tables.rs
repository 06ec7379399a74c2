//! What is in the tables, and how results are printed.

use crate::{ask, run, trace};
use testkit::room::Room;
use testkit::test;

fn room() -> Room {
    let room = Room::new().unwrap();
    room.put("t.mcount", &trace(1000)).unwrap();
    room
}

#[test]
fn calls_are_counted() {
    let room = room();
    let sql = "SELECT function, caller, count(*), sum(duration_ns), sum(self_ns), min(depth), max(\"end\") \
               FROM calls GROUP BY function, caller ORDER BY function";
    assert_eq!(
        ask(&room, &["t.mcount"], sql),
        ["main,,1,20015,10015,0,exit", "other,,1,,,0,", "work,main,1000,10000,10000,1,return"]
    );
    let sql = "SELECT count(*) FROM calls WHERE start_ns >= 10010 AND function = 'work'";
    assert_eq!(ask(&room, &["t.mcount"], sql), ["500"]);
}

#[test]
fn a_window_or_a_join_of_tables() {
    let room = room();
    let sql = "SELECT f.symbol, t.name, count(*) FROM calls c \
               JOIN functions f ON c.function_id = f.function_id AND c.trace = f.trace \
               LEFT JOIN threads t ON t.thread = c.thread AND t.trace = c.trace \
               GROUP BY ALL ORDER BY ALL";
    let sql =
        sql.replace("GROUP BY ALL ORDER BY ALL", "GROUP BY f.symbol, t.name ORDER BY f.symbol");
    let found = ask(&room, &["t.mcount"], &sql);
    assert_eq!(found, ["main,first,1", "other,,1", "work,first,1000"]);
    let sql = "SELECT start_ns / 5000 AS bucket, count(*) FROM calls WHERE function = 'work' \
               GROUP BY bucket ORDER BY bucket";
    assert_eq!(ask(&room, &["t.mcount"], sql), ["0,250", "1,250", "2,250", "3,250"]);
    let sql = "SELECT approx_quantile(duration_ns, 0.5), median(duration_ns) FROM calls WHERE function = 'work'";
    assert_eq!(ask(&room, &["t.mcount"], sql), ["10.0,10.0"]);
}

/// Every column can be selected alone and with all others.
#[test]
fn columns_are_all_there() {
    let room = room();
    for table in ["calls", "functions", "threads", "processes"] {
        let names = ask(
            &room,
            &["t.mcount"],
            &format!(
                "SELECT column_name FROM information_schema.columns WHERE table_name = '{table}'"
            ),
        );
        assert!(names.contains(&"build".to_owned()) && names.len() >= 7, "{names:?}");
        let rows = ask(&room, &["t.mcount"], &format!("SELECT count(*) FROM {table}")).remove(0);
        for name in names {
            let sql = format!("SELECT \"{name}\" FROM {table}");
            let found = ask(&room, &["t.mcount"], &sql).len();
            assert_eq!(found.to_string(), rows, "{table}.{name}");
        }
    }
    let shown = ask(&room, &["t.mcount"], "SHOW TABLES");
    for table in ["calls", "functions", "threads", "processes"] {
        assert!(shown.iter().any(|line| line.contains(&format!(",{table},"))), "{shown:?}");
    }
}

#[test]
fn several_traces_are_one_table() {
    let room = room();
    room.put("other.mcount", &trace(7)).unwrap();
    let sql = "SELECT count(DISTINCT trace), count(*) FROM calls WHERE function = 'work'";
    assert_eq!(ask(&room, &["t.mcount", "other.mcount"], sql), ["2,1007"]);
}

#[test]
fn results_have_formats() {
    let room = room();
    let sql = "SELECT function, count(*) AS calls, max(caller) AS caller FROM calls \
               GROUP BY function ORDER BY calls DESC, function LIMIT 2";
    for (format, expected) in [
        ("table", "function  calls  caller\nwork       1000  main\nmain          1\n"),
        ("csv", "function,calls,caller\nwork,1000,main\nmain,1,\n"),
        (
            "json",
            "{\"function\":\"work\",\"calls\":1000,\"caller\":\"main\"}\n\
             {\"function\":\"main\",\"calls\":1,\"caller\":null}\n",
        ),
    ] {
        let outcome = run(&room, &["--format", format, "t.mcount", sql]);
        assert_eq!((outcome.stdout.as_str(), outcome.stderr.as_str()), (expected, ""));
        let outcome = run(&room, &["--format", format, "-o", "result", "t.mcount", sql]);
        assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), ""), "{outcome:?}");
        assert_eq!(String::from_utf8(room.get("result").unwrap()).unwrap(), expected);
    }
    // By its name, and it can be asked again if it has the columns of a table.
    let outcome = run(&room, &["-o", "calls.parquet", "t.mcount", "SELECT * FROM calls"]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{outcome:?}");
    let again =
        "SELECT function, count(*), sum(self_ns) FROM calls GROUP BY function ORDER BY function";
    assert_eq!(ask(&room, &["calls.parquet"], again), ask(&room, &["t.mcount"], again));
    let none =
        run(&room, &["--format", "csv", "t.mcount", "SELECT process FROM calls WHERE depth > 9"]);
    assert_eq!(none.stdout, "process\n");
}

/// What doesn't fit into memory goes to files, and comes back in order.
#[test]
fn results_are_sorted_in_little_memory() {
    let room = Room::new().unwrap();
    room.put("t.mcount", &trace(300_000)).unwrap();
    let sql = "SELECT start_ns, function, trace FROM calls ORDER BY duration_ns, start_ns DESC";
    let found = ask(&room, &["--memory", "24M", "t.mcount"], sql);
    assert_eq!(found.len(), 300_002);
    let starts = found.iter().filter(|line| line.contains(",work,"));
    let starts: Vec<u64> =
        starts.map(|line| line.split(',').next().unwrap().parse().unwrap()).collect();
    assert!(starts.len() == 300_000 && starts.is_sorted_by(|one, other| one > other));
}

#[test]
fn a_query_can_be_in_a_file_or_on_standard_input() {
    let room = room();
    room.put("q.sql", b"-- Two.\nSELECT count(*)\nFROM calls;\n").unwrap();
    let outcome = run(&room, &["--format", "csv", "--file", "q.sql", "t.mcount"]);
    assert_eq!((outcome.stdout.as_str(), outcome.stderr.as_str()), ("count(*)\n1002\n", ""));
    let mut command = room.command(std::path::Path::new("sh"), &["-c"]);
    command.arg("exec \"$0\" --format csv t.mcount - < q.sql").arg(crate::QUERY);
    let output = command.output().unwrap();
    assert_eq!(String::from_utf8(output.stdout).unwrap(), "count(*)\n1002\n");
}
