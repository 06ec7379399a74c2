//! A program for each rule (`tests/probes/`), in C or C++ with assembly. Its first lines say:
//!
//! - `//# refuse: FUNCTION RULE`: the function must be refused for that reason.
//! - `//# force: FUNCTION BYTES`: with so many bytes moved all the same, the program must no longer do what it did.
//! - `//# planned: FUNCTION`: the function must not be refused.
//! - `//# leave: FUNCTION`: this tracer can't follow the function, because it never returns.
//! - `//# flags: FLAGS` for the compiler; `//# plain`: calls aren't traced.
//!
//! Each is run as it is, and with all functions moved that aren't refused.

use super::rewrite::{Program, address};
use mcount_hooks::probe::{JUMP, Planner};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use testkit::{files, prebuilt, test, tools};

/// What a program's first lines say.
#[derive(Default)]
struct Directives {
    flags: Vec<String>,
    refused: Vec<(String, String)>,
    forced: Vec<(String, usize)>,
    planned: Vec<String>,
    left: Vec<String>,
    is_plain: bool,
}

impl Directives {
    fn of(source: &str) -> Self {
        let mut all = Self::default();
        for line in source.lines().filter_map(|line| line.strip_prefix("//# ")) {
            let (kind, rest) = line.split_once(": ").unwrap_or((line, ""));
            let mut words = rest.split(' ').map(str::to_owned);
            let mut word = || words.next().unwrap();
            match kind {
                "flags" => all.flags = words.collect(),
                "refuse" => all.refused.push((word(), word())),
                "force" => all.forced.push((word(), word().parse().unwrap())),
                "planned" => all.planned.push(word()),
                "leave" => all.left.push(word()),
                "plain" => all.is_plain = true,
                _ => panic!("{line}"),
            }
        }
        all
    }
}

fn folder() -> PathBuf {
    prebuilt::root().join("tests/probes")
}

/// The programs.
fn names() -> Vec<&'static str> {
    let entries = folder().read_dir().unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let is_case =
        |name: &String| name != "support.c" && !name.ends_with(".h") && name.contains(".c");
    let mut names: Vec<String> = names.filter(is_case).collect();
    names.sort();
    names.into_iter().map(|name| &*name.leak()).collect()
}

fn compile(name: &str, flags: &[String], program: &Path) {
    let compiler = if name.ends_with(".cc") { "g++" } else { "gcc" };
    let mut command = Command::new(compiler);
    command.args(["-O1", "-g0", "-fcf-protection=none", "-z", "noexecstack"]).args(flags);
    command.arg(folder().join(name)).arg("-o").arg(program);
    command.args(["-x", "c"]).arg(folder().join("support.c"));
    let output = command.output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Runs a program that may hang.
fn run(program: &Path) -> Output {
    let mut command = Command::new("timeout");
    command.args(["-s", "KILL", "20"]).arg(program).stdin(Stdio::null());
    command.output().unwrap()
}

/// Functions that a tracer can't see, because it consists of them, and those that say what is right.
const OWN: [&str; 4] = ["main", "probe_enter", "probe_leave", "probe_end"];

/// What differs if functions are moved.
fn outcome(bytes: &[u8], folder: &Path) -> (Option<i32>, String) {
    let path = folder.join("probed");
    files::write_program(&path, bytes).unwrap();
    let output = run(&path);
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test(each = names())]
fn rule(name: &'static str) {
    tools::need(["gcc", "g++"]);
    let source = String::from_utf8(files::read(&folder().join(name)).unwrap()).unwrap();
    let said = Directives::of(&source);
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("program");
    compile(name, &said.flags, &path);
    let bytes = files::read(&path).unwrap();
    let planner = Planner::new(&bytes).unwrap();
    let plan = |name: &str| {
        let address = address(&bytes, name).unwrap_or_else(|| panic!("no {name}"));
        planner.plan(&planner.function(address).unwrap())
    };
    for (function, rule) in &said.refused {
        assert_eq!(plan(function).map_err(|why| why.name()), Err(rule.as_str()), "{function}");
    }
    for function in &said.planned {
        assert!(plan(function).is_ok(), "{function}: {:?}", plan(function));
    }
    let plain = outcome(&bytes, scratch.path());
    assert!(plain.0 == Some(0) && plain.1.ends_with("depth 0\n"), "{plain:?}");
    let mut program = Program::new(bytes.clone(), !said.is_plain);
    let is_left = |name: &&str| OWN.contains(name) || said.left.iter().any(|left| left == name);
    for function in planner.functions().filter(|one| !one.names.iter().any(is_left)) {
        let Ok(plan) = planner.plan(&function) else { continue };
        assert!(program.probe(plan.entry, plan.moved, plan.replaced), "{function:?}");
    }
    assert_eq!(outcome(&program.bytes, scratch.path()), plain, "all that can be moved is");
    for (function, moved) in &said.forced {
        let mut program = Program::new(bytes.clone(), !said.is_plain);
        let entry = address(&bytes, function).unwrap();
        assert!(program.probe(entry, *moved, (*moved).max(JUMP)));
        let forced = outcome(&program.bytes, scratch.path());
        assert_ne!(forced, plain, "{function} can be moved, so the rule is too strict");
    }
}
