//! Where in a function the hook is, and how that's known: functions without symbols, and hooks in places where the
//! caller's address isn't.

use crate::Test;
use crate::matrix::{HOOKS, Hooks};
use crate::truth::{Room, tracer};
use std::path::Path;
use std::process::Command;
use testkit::sample::one_in;

pub(crate) fn tests() -> Vec<Test> {
    let stripped = HOOKS.iter().flat_map(|hooks| {
        let gcc = hooks.gcc.then_some("gcc");
        let clang = hooks.clang.then_some("clang");
        gcc.into_iter().chain(clang).map(move |compiler| Test {
            open: None,
            name: format!("layout::stripped/{compiler}/{}/", hooks.name),
            wants: vec![compiler],
            run: Box::new(move || stripped(compiler, hooks)),
        })
    });
    let nested = HOOKS.iter().filter(|hooks| hooks.gcc).flat_map(|hooks| {
        ["-O0", "-O1", "-O2"].map(|level| Test {
            open: None,
            name: format!("layout::nested/{}/{level}/", hooks.name),
            wants: vec!["gcc"],
            run: Box::new(move || nested(hooks, level)),
        })
    });
    one_in(3, stripped.chain(nested).collect())
}

fn flags(hooks: &Hooks) -> Vec<&'static str> {
    let mut flags = vec!["-O2", "-no-pie", "-fno-pie"];
    flags.extend(hooks.flags);
    flags
}

/// How many calls there are of a program that's run traced, and does as it does untraced; and what `mcount` said.
fn calls(room: &Room, name: &str, program: &Path) -> Result<(u64, String), String> {
    let untraced = room.run(&format!("{name}-untraced"), &mut Command::new(program))?;
    let traced = room.run(name, &mut tracer(program))?;
    if (untraced.code, &untraced.stdout) != (traced.code, &traced.stdout) {
        return Err(format!("{untraced:?}, traced {traced:?}"));
    }
    Ok((room.trace(name)?.total(), traced.stderr))
}

/// Without symbols as many calls are seen as with them, and of no hook it's said that it stays idle.
fn stripped(compiler: &str, hooks: &Hooks) -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile(compiler, &flags(hooks), "options.c")?;
    let named = calls(&room, "named", &program)?;
    testkit::process::run(Command::new("strip").arg(&program))?;
    let stripped = calls(&room, "stripped", &program)?;
    if named == stripped && named.1.is_empty() {
        Ok(())
    } else {
        Err(format!("{named:?}, stripped {stripped:?}"))
    }
}

/// Each call of a nested function is seen, or it's said that its hook stays idle; in no case anything is spoilt.
fn nested(hooks: &Hooks, level: &str) -> Result<(), String> {
    let room = Room::new()?;
    let mut flags = flags(hooks);
    flags.push(level);
    let program = room.compile("gcc", &flags, "nested.c")?;
    for name in ["named", "stripped"] {
        let (_, said) = calls(&room, name, &program)?;
        let trace = room.trace(name)?;
        let inner = trace.count(0, "inner");
        let is_seen = name == "stripped" || inner == 1100;
        let is_said = inner == 0 && said.contains("1 hook is neither at the entry");
        if !(is_said || said.is_empty() && is_seen) {
            return Err(format!("{name}: {inner} calls of inner, {said}"));
        }
        if name == "named" {
            room.compare_counts(name, &trace)?;
        }
        testkit::process::run(Command::new("strip").arg(&program))?;
    }
    Ok(())
}
