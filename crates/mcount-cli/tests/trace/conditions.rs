//! Conditions on arguments and results: a program tells of its calls, and those are recorded, and printed, that a closure
//! here chooses by that.

use crate::Test;
use crate::truth::Room;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;
use testkit::sample::one_in;

/// Of a call that the program tells of: whether it's meant.
type Chosen = fn(&Call) -> bool;

/// What a test does.
type Check = fn() -> Result<(), String>;

/// A call, as the program tells of it.
struct Call(Value);

impl Call {
    fn is(&self, function: &str) -> bool {
        self.text("f") == Some(function)
    }

    fn number(&self, name: &str) -> i128 {
        let value = self.0.get(name);
        let number = value.and_then(Value::as_i64).map(i128::from);
        number.or_else(|| value.and_then(Value::as_u64).map(i128::from)).unwrap_or(i128::MIN)
    }

    fn real(&self, name: &str) -> f64 {
        self.0.get(name).and_then(Value::as_f64).unwrap_or(f64::NAN)
    }

    /// Is the number this one, to the last bit?
    fn is_real(&self, name: &str, number: f64) -> bool {
        self.real(name).total_cmp(&number).is_eq()
    }

    fn has(&self, name: &str) -> bool {
        self.0.get(name).is_some()
    }

    fn text(&self, name: &str) -> Option<&str> {
        self.0.get(name).and_then(Value::as_str)
    }
}

/// Conditions, about which function, and what they mean.
const ROWS: &[(&str, &str, Chosen)] = &[
    ("size > 4096", "put", |call| call.number("size") > 4096),
    ("size == 0xffffffffffffffff", "put", |call| call.number("size") == i128::from(u64::MAX)),
    ("size > -1", "put", |_| true),
    ("fd < 0", "put", |call| call.number("fd") < 0),
    ("-2 == fd || size == 1", "put", |call| call.number("fd") == -2 || call.number("size") == 1),
    ("fd", "put", |call| call.number("fd") != 0),
    ("!(fd >= 0) && size < 4K", "put", |call| call.number("fd") < 0 && call.number("size") < 4096),
    ("fd > size", "put", |call| call.number("fd") > call.number("size")),
    ("fd > 0.5", "put", |call| call.number("fd") > 0),
    ("-0.5 >= fd || fd == 2.0", "put", |call| call.number("fd") < 0 || call.number("fd") == 2),
    ("size < 4096.5 && fd != 0.5", "put", |call| call.number("size") <= 4096),
    ("size == 1.5", "put", |_| false),
    ("arg2 == 4097", "put", |call| call.number("size") == 4097),
    ("name == \"longer\"", "put", |call| call.text("name") == Some("longer")),
    ("name != \"longer\"", "put", |call| call.text("name") != Some("longer")),
    ("name == \"\"", "put", |call| call.text("name") == Some("")),
    ("name == null", "put", |call| call.0.get("name") == Some(&Value::Null)),
    ("name == \"edg\" || name == \"edge\"", "put", |_| false),
    ("fd == 1 && name == \"x\"", "put", |call| {
        call.number("fd") == 1 && call.text("name") == Some("x")
    }),
    ("result < 0 && fd > 0", "put", |call| call.number("result") < 0 && call.number("fd") > 0),
    ("ratio > 0", "scale", |call| call.real("ratio") > 0.0),
    ("ratio == 0", "scale", |call| call.real("ratio") == 0.0),
    ("ratio <= -1e-1", "scale", |call| call.real("ratio") <= -0.1),
    ("ratio != 0.1", "scale", |call| !call.is_real("ratio", 0.1)),
    ("small == 0.1", "scale", |call| call.is_real("small", f64::from(0.1_f32))),
    ("small < 0.1 && small > -0.1", "scale", |call| call.real("small").abs() < 0.09),
    ("small < 0.5 && small > -1", "scale", |call| {
        call.real("small") < 0.5 && call.real("small") > -1.0
    }),
    ("small > ratio", "scale", |call| call.real("small") > call.real("ratio")),
    ("!(ratio < 0) && ratio", "scale", |call| {
        call.real("ratio") > 0.0 || call.real("ratio").is_nan()
    }),
    ("state == \"RUNNING\"", "go", |call| call.number("state") == 7),
    ("state < 0", "go", |call| call.number("state") < 0),
    ("state != \"BROKEN\" && flag == true", "go", |call| {
        call.number("state") != -3 && call.number("flag") == 1
    }),
    ("key == 'b' || key > 'g'", "go", |call| {
        call.number("key") == i128::from(b'b') || call.number("key") > i128::from(b'g')
    }),
    ("text == \"in place\"", "take", |call| call.text("text") == Some("in place")),
    ("text != \"longer than what has room in place\"", "take", |call| {
        call.text("text").is_some_and(|text| text.len() < 10)
    }),
    ("view == \"x\" && text == \"x\"", "take", |call| {
        call.text("view") == Some("x") && call.text("text") == Some("x")
    }),
    ("view == \"longer t\"", "take", |call| call.text("view") == Some("longer t")),
    ("seventh < 0", "many", |call| call.number("seventh") < 0),
    ("eighth == -30000 || eighth == 20000", "many", |call| {
        [-30000, 20000].contains(&call.number("eighth"))
    }),
    ("p->key == 3", "look", |call| call.number("key") == 3),
    ("p->key != 3", "look", |call| call.has("key") && call.number("key") != 3),
    ("!(p.key == 3) && p->weight > 0.5", "look", |call| {
        call.has("key") && call.number("key") != 3 && call.real("weight") > 0.5
    }),
    ("p->state == \"RUNNING\" && p->key > 3", "look", |call| call.number("key") == 4),
    ("p->name == \"x\"", "look", |call| call.text("name") == Some("x")),
    ("p->name != \"x\"", "look", |call| call.has("key") && call.text("name") != Some("x")),
    ("p->name == null", "look", |call| call.0.get("name") == Some(&Value::Null)),
    ("p->text == \"longer than what has room in place\"", "look", |call| {
        call.text("text").is_some_and(|text| text.len() > 10)
    }),
    ("p->text != \"x\"", "look", |call| call.has("key") && call.text("text") != Some("x")),
    ("p->next->key == 3 || p->key == 3", "look", |call| {
        // What can't be read makes the condition false, whatever follows.
        call.number("next") == 3 || call.number("key") == 3 && call.number("next") == -1
    }),
    ("k->tag == \"ab\"", "hold", |call| call.text("tag") == Some("ab")),
    ("k->tag != \"ab\"", "hold", |call| call.text("tag") != Some("ab")),
    ("k->tag == \"abcdefghi\"", "hold", |call| call.text("tag") == Some("abcdefghi")),
    ("k->tag == \"\" || k->tag == \"abcdefghij\"", "hold", |call| call.text("tag") == Some("")),
    ("k->maybe == 3", "hold", |call| call.number("maybe") == 3),
    ("k->maybe != 3", "hold", |call| call.has("maybe") && call.number("maybe") != 3),
    ("!(maybe == 3)", "hold", |call| call.has("maybe") && call.number("maybe") != 3),
    ("id > 0 && maybe > 2.5", "hold", |call| call.number("maybe") > 2),
    ("far > 4", "hold", |call| call.number("maybe") > 4),
    ("at.x == 3 && at.y == -3", "hold", |call| call.number("x") == 3),
    ("at.tag == \"abc\"", "hold", |call| call.text("tag").is_some_and(|tag| tag.len() > 3)),
    ("n == null || p->key == 4", "look", |call| {
        call.number("null") == 1 || call.number("key") == 4
    }),
];

/// The same of results.
const RESULTS: &[(&str, &str, Chosen)] = &[
    ("result < 0", "put", |call| call.number("result") < 0),
    ("result == 0.2", "scale", |call| call.is_real("result", 0.2)),
    ("result == -3", "go", |call| call.number("result") == -3),
    ("result == null", "take", |call| call.number("null") == 1),
    ("result->key == 3", "look", |call| call.number("n") == 3),
    ("result->key < 0 && p->key == 3", "look", |call| {
        call.number("n") < 0 && call.number("key") == 3
    }),
    ("result >= 0xfffffd0000000000", "many", |call| call.number("result") >= 0xffff_fd00_0000_0000),
];

pub(crate) fn tests() -> Vec<Test> {
    let some: [(&str, &'static str, Check); 4] = [
        ("conditions::recorded", "g++", recorded),
        ("conditions::recorded-clang", "clang++", recorded_clang),
        ("conditions::entries", "g++", entries),
        ("conditions::refused", "g++", refused),
    ];
    let test = |(name, wants, run): (&str, &'static str, Check)| Test {
        name: name.to_owned(),
        wants: vec![wants],
        open: None,
        run: Box::new(run),
    };
    some.map(test).into()
}

const HOOKS: &[&str] = &["-O1", "-g", "-std=c++17", "-fpatchable-function-entry=5"];

fn recorded() -> Result<(), String> {
    check("g++")
}

fn recorded_clang() -> Result<(), String> {
    check("clang++")
}

/// Which calls of functions other than `main` a trace has: their `id`.
type Ids = BTreeMap<String, Vec<i64>>;

/// Traces `program` with these options.
fn traced(room: &Room, program: &Path, options: &[&str]) -> Result<(String, String), String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
    command.args(["trace", "--plain", "--args", "*", "--args-depth", "2"]).args(options);
    command.arg("-o").arg(room.path("trace.mcount")).arg("--").arg(program);
    let ended = room.run("traced", &mut command)?;
    if ended.code == 0 { Ok((ended.stdout, ended.stderr)) } else { Err(format!("{ended:?}")) }
}

fn ids(room: &Room, options: &[&str]) -> Result<Ids, String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
    command.args(["replay", "--format", "jsonl"]).args(options).arg(room.path("trace.mcount"));
    let ended = room.run("replay", &mut command)?;
    let mut all = Ids::new();
    for line in ended.stdout.lines() {
        let call: Value = serde_json::from_str(line).map_err(|error| format!("{line}: {error}"))?;
        let id = call.pointer("/arguments/0/value").and_then(Value::as_i64);
        if let (Some(function), Some(id)) = (call.get("function").and_then(Value::as_str), id) {
            all.entry(function.to_owned()).or_default().push(id);
        }
    }
    Ok(all)
}

fn told(output: &str) -> Result<Vec<Call>, String> {
    let line = |line| serde_json::from_str(line).map_err(|error| format!("{line}: {error}"));
    output.lines().map(line).map(|call| call.map(Call)).collect()
}

fn check(compiler: &str) -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile(compiler, HOOKS, "conditions.cpp")?;
    let (output, _) = traced(&room, &program, &["--results", "*"])?;
    let told = told(&output)?;
    let all = ids(&room, &[])?;
    if all.get("inner").map(Vec::len) != Some(36) || told.len() < 60 {
        return Err(format!("{all:?}"));
    }
    let rows = one_in(5, ROWS.iter().chain(RESULTS).collect::<Vec<_>>());
    // What is printed of all calls, first: recording overwrites the trace.
    let mut printed = Vec::new();
    for (condition, function, _) in &rows {
        let ids = ids(&room, &["--function", function, "--if", condition])?;
        printed.push(ids.get(*function).cloned().unwrap_or_default());
    }
    for ((condition, function, is_meant), printed) in rows.into_iter().zip(printed) {
        let (again, said) = traced(&room, &program, &["--results", "*", "--if", condition])?;
        let found = ids(&room, &[])?;
        let chosen = told.iter().filter(|call| call.is(function) && is_meant(call));
        let expected: Vec<i64> =
            chosen.filter_map(|call| i64::try_from(call.number("id")).ok()).collect();
        let recorded = found.get(*function).cloned().unwrap_or_default();
        if (&recorded, &printed) != (&expected, &expected) || again != output {
            return Err(format!(
                "{condition}: expected {expected:?}, recorded {recorded:?}, printed {printed:?}: {said}"
            ));
        }
        // What isn't recorded has called others, and other functions lack these names.
        let others = |ids: &Ids| {
            let mut ids = ids.clone();
            ids.retain(|name, _| name == "inner");
            ids
        };
        if !condition.contains("result") && others(&found) != others(&all) {
            return Err(format!("{condition}: {found:?}"));
        }
    }
    Ok(())
}

/// Entries alone can be chosen by arguments.
fn entries() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("g++", HOOKS, "conditions.cpp")?;
    let (output, _) = traced(&room, &program, &["--entries", "--if", "fd < 0"])?;
    let found = ids(&room, &[])?;
    let expected =
        told(&output)?.iter().filter(|call| call.is("put") && call.number("fd") < 0).count();
    match found.get("put") {
        Some(put) if put.len() == expected && expected > 0 => {}
        _ => return Err(format!("{found:?}")),
    }
    // Further in than what is recorded of a structure.
    let (output, _) = traced(&room, &program, &["--entries", "--if", "p->far > 4"])?;
    let found = ids(&room, &[])?;
    let expected = told(&output)?.iter().filter(|call| call.number("far") > 4).count();
    match found.get("look") {
        Some(look) if look.len() == expected && expected > 0 => Ok(()),
        _ => Err(format!("{expected}: {found:?}")),
    }
}

/// What can't be meant is said in a line, and the program isn't run; what means nothing is warned of.
fn refused() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("g++", HOOKS, "conditions.cpp")?;
    let rows: [(&[&str], i32, &str); 7] = [
        (
            &["--args", "*", "--if", "size > > 3"],
            2,
            "column 8: expected a name, a number or a text here",
        ),
        (
            &["--args", "*", "--if", "size || result"],
            2,
            "a result can be joined with arguments by && only",
        ),
        (&["--if", "size > 3"], 2, "--if needs --args or --results"),
        (&["--args", "*", "--entries", "--if", "result"], 2, "--entries records no results"),
        (
            &["--args", "*", "--if", "sice > 3"],
            0,
            "warning: --if 'sice > 3': no function of --args and --results has such values",
        ),
        (&["--args", "*", "--if", "name > 3 && size == \"x\""], 0, "--if isn't checked there"),
        (&["--args", "*", "--if", "text == 0"], 0, ""),
    ];
    for (options, code, expected) in rows {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
        command.args(["trace", "--plain"]).args(options);
        command.arg("-o").arg(room.path("trace.mcount")).arg("--").arg(&program);
        let ended = room.run("traced", &mut command)?;
        let lines = ended.stderr.lines().filter(|line| line.starts_with("mcount: ")).count();
        let is_one = code == 0 || ended.stderr.lines().count() == 1 && lines == 1;
        if ended.code != code || !ended.stderr.contains(expected) || !is_one {
            return Err(format!("{options:?}: {ended:?}"));
        }
    }
    Ok(())
}
