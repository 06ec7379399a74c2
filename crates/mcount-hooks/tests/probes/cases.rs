//! A program for each rule (`tests/probes/`, and `tests/probes/aarch64/`), in C or C++ with assembly. Its first lines say:
//!
//! - `//# refuse: FUNCTION RULE`: the function must be refused for that reason.
//! - `//# force: FUNCTION BYTES`: with this number of bytes moved all the same, the program must no longer do what it did.
//! - `//# planned: FUNCTION`: the function must not be refused.
//! - `//# leave: FUNCTION`: this tracer can't follow the function, because it never returns.
//! - `//# flags: FLAGS` for the compiler; `//# plain`: calls aren't traced.
//!
//! Each is run as it is, and with all functions moved that aren't refused.

use super::machines::{AARCH64, Machine, X86_64};
use super::rewrite::{Program, address};
use mcount_cpu::probe::Unmovable;
use mcount_hooks::probe::{Planner, Refusal};
use std::collections::BTreeSet;
use std::fs::OpenOptions;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::process::Command;
use testkit::{files, test, tools};

/// The first lines of a program.
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

/// The programs for a machine.
fn names(machine: &Machine) -> Vec<&'static str> {
    let entries = machine.folder().read_dir().unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    let is_case = |name: &String| {
        let kind = Path::new(name).extension().unwrap_or_default();
        name != "support.c" && (kind == "c" || kind == "cc")
    };
    let mut names: Vec<String> = names.filter(is_case).collect();
    names.sort();
    names.into_iter().map(|name| &*name.leak()).collect()
}

/// Functions that a tracer can't see, because it consists of them, and those that say what is right.
const OWN: [&str; 4] = ["main", "probe_enter", "probe_leave", "probe_end"];

/// Exit code and output, which moving functions must not change.
fn outcome(machine: &Machine, bytes: &[u8], folder: &Path) -> (Option<i32>, String) {
    let path = folder.join("probed");
    files::write_program(&path, bytes).unwrap();
    let output = machine.execute(&path).output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stdout).into_owned())
}

#[test(each = names(&X86_64))]
fn rule(name: &'static str) {
    check(&X86_64, name);
}

#[test(each = names(&AARCH64))]
fn rule_on_aarch64(name: &'static str) {
    check(&AARCH64, name);
}

fn check(machine: &Machine, name: &'static str) {
    machine.need(&["gcc", "g++"]);
    let source = files::read(&machine.folder().join(name)).unwrap();
    let source = String::from_utf8(source).unwrap();
    let said = Directives::of(&source);
    let scratch = tempfile::tempdir().unwrap();
    let path = scratch.path().join("program");
    machine.compile(name, &said.flags, &path);
    let bytes = files::read(&path).unwrap();
    let planner = Planner::new(&bytes).unwrap();
    let plan = |name: &str| {
        let address = address(&bytes, name).unwrap_or_else(|| panic!("no {name}"));
        planner.plan(&planner.function(address).unwrap())
    };
    for (function, rule) in &said.refused {
        assert_eq!(plan(function).map_err(Refusal::name), Err(rule.as_str()), "{function}");
    }
    for function in &said.planned {
        assert!(plan(function).is_ok(), "{function}: {:?}", plan(function));
    }
    let unchanged = outcome(machine, &bytes, scratch.path());
    assert!(unchanged.0 == Some(0) && unchanged.1.ends_with("depth 0\n"), "{unchanged:?}");
    let mut program = Program::new(machine.probes, bytes.clone(), !said.is_plain);
    let is_left = |name: &&str| OWN.contains(name) || said.left.iter().any(|left| left == name);
    for function in planner.functions().filter(|one| !one.names.iter().any(is_left)) {
        let Ok(plan) = planner.plan(&function) else { continue };
        assert!(program.probe(plan.entry, plan.moved, plan.replaced), "{function:?}");
    }
    assert_eq!(
        outcome(machine, &program.bytes, scratch.path()),
        unchanged,
        "all that can be moved is"
    );
    for (function, moved) in &said.forced {
        let mut program = Program::new(machine.probes, bytes.clone(), !said.is_plain);
        let entry = program.entry(address(&bytes, function).unwrap());
        assert!(program.probe(entry, *moved, (*moved).max(machine.probes.jump)));
        let forced = outcome(machine, &program.bytes, scratch.path());
        assert_ne!(forced, unchanged, "{function} can be moved, so the rule is too strict");
    }
}

/// The reasons for which functions of a file are refused.
fn reasons(bytes: &[u8]) -> BTreeSet<&'static str> {
    let planner = Planner::new(bytes).unwrap();
    planner.plans().map(|(_, plan)| plan.map_or_else(Refusal::name, |_| "planned")).collect()
}

#[test]
fn the_dynamic_linker_is_left_alone() {
    let paths = ["/lib64/ld-linux-x86-64.so.2", "/usr/aarch64-linux-gnu/lib/ld-linux-aarch64.so.1"];
    for bytes in paths.iter().filter_map(|path| files::read(Path::new(path)).ok()) {
        assert_eq!(reasons(&bytes), BTreeSet::from(["dynamic-linker"]));
    }
}

/// The kernel's, as this process has it.
#[test]
fn the_vdso_is_left_alone() {
    let maps = String::from_utf8(files::read(Path::new("/proc/self/maps")).unwrap()).unwrap();
    let Some(line) = maps.lines().find(|line| line.ends_with("[vdso]")) else { return };
    let (start, end) = line.split(' ').next().unwrap().split_once('-').unwrap();
    let [start, end] = [start, end].map(|text| u64::from_str_radix(text, 16).unwrap());
    let mut bytes = vec![0; usize::try_from(end - start).unwrap()];
    let memory = OpenOptions::new().read(true).open("/proc/self/mem").unwrap();
    memory.read_exact_at(&mut bytes, start).unwrap();
    assert_eq!(reasons(&bytes), BTreeSet::from(["vdso"]));
}

/// Definitions that only programs of languages have whose runtimes walk the stack.
const LANGUAGES: [(&str, &str); 8] = [
    ("go", r#"asm(".section .note.go.buildid, \"a\"\n.quad 1\n.text");"#),
    ("ocaml", "long caml_frametable[2];"),
    ("java", "void *gHotSpotVMStructs;"),
    ("mono", "void mono_jit_init(void) {}"),
    ("mono-ahead", "long mono_aot_file_info;"),
    ("dotnet", "char DotNetRuntimeInfo[18];"),
    ("node", "void _ZN2v87Isolate8AllocateEv(void) {}"),
    // What's called from a function that V8 compiled may be an addon.
    (
        "addon",
        "extern int _ZN2v85Value __attribute__((weak)); int *value(void) { return &_ZN2v85Value; }",
    ),
];

#[test(each = LANGUAGES)]
fn runtimes_that_walk_the_stack((_, source): (&'static str, &'static str)) {
    tools::need(["gcc"]);
    let scratch = tempfile::tempdir().unwrap();
    let [code, program] = ["main.c", "program"].map(|name| scratch.path().join(name));
    files::write(&code, format!("{source} int main(void) {{ return 0; }}").as_bytes()).unwrap();
    let status = Command::new("gcc").arg(&code).arg("-o").arg(&program).status().unwrap();
    assert!(status.success());
    assert_eq!(reasons(&files::read(&program).unwrap()), BTreeSet::from(["walks-stack"]));
}

/// Functions with a compiler's hook keep using that, and what `endbr64` says stays where it is.
#[test]
fn hooks_and_landing_pads_of_indirect_branches_stay() {
    tools::need(["gcc"]);
    let scratch = tempfile::tempdir().unwrap();
    let [code, program] = ["main.c", "program"].map(|name| scratch.path().join(name));
    files::write(&code, b"int f(int n) { return n * 3; } int main(void) { return f(0); }").unwrap();
    let mut command = Command::new("gcc");
    command.args(["-O0", "-fcf-protection=full"]).arg(&code).arg("-o").arg(&program);
    assert!(command.status().unwrap().success());
    let bytes = files::read(&program).unwrap();
    let start = address(&bytes, "f").unwrap();
    let mut planner = Planner::new(&bytes).unwrap();
    let function = planner.function(start).unwrap();
    assert_eq!(planner.plan(&function).unwrap().entry, start + 4);
    planner.leave_hooks([start + 4]);
    assert_eq!(planner.plan(&function), Err(Refusal::HasHook));
}

/// A stub that is too far from an operand.
#[test]
fn stubs_are_near() {
    let (load, from) = ([0x8b, 5, 0, 0, 0, 0, 0x90], 0x1000);
    let relocate = X86_64.probes.relocate;
    assert!(relocate(&load, from, from + (1 << 30)).is_ok());
    assert_eq!(relocate(&load, from, from + (1 << 32)), Err(Unmovable::TooFar(from)));
    let relocate = AARCH64.probes.relocate;
    let (adrp, b) = (0x9000_0000_u32.to_le_bytes(), 0x1400_0000_u32.to_le_bytes());
    assert!(relocate(&adrp, from, from + (1 << 26)).is_ok());
    assert_eq!(relocate(&adrp, from, from + (1 << 33)), Err(Unmovable::TooFar(from)));
    assert_eq!(relocate(&b, from, from + (1 << 28)), Err(Unmovable::TooFar(from)));
}
