//! `mcount attach` where it isn't allowed, where the process sees other files and numbers, and where it stands still.

use crate::Test;
use crate::attach::{Attached, compare, text};
use crate::truth::{Room, kill_one, sources, until};
use nix::sys::signal::Signal;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;
use testkit::served::Served;

const HOOKS: &[&str] = &["-O2", "-fpatchable-function-entry=5"];
/// A user with no privileges.
const NOBODY: &[&str] = &["--reuid=65534", "--regid=65534", "--clear-groups"];

/// Name, what else it takes, and what is done.
type Row = (&'static str, &'static str, fn() -> Result<(), String>);

pub(crate) fn tests() -> Vec<Test> {
    let rows: [Row; 18] = [
        ("attach::opened-later", "gcc", opened_later),
        ("attach::spoilt", "gcc", spoilt),
        ("attach::inside-a-hook", "gcc", inside_a_hook),
        ("attach::between-nops", "gcc", between_nops),
        ("attach::impostor", "gcc", impostor),
        ("attach::deleted", "gcc", deleted),
        ("attach::executes", "gcc", executes),
        ("attach::other-user", "setpriv", other_user),
        ("attach::not-dumpable", "setpriv", not_dumpable),
        ("attach::same-user", "setpriv", same_user),
        ("attach::by-privilege", "setpriv", by_privilege),
        ("attach::namespaces", "unshare", namespaces),
        ("attach::sandbox", "setpriv", sandbox),
        ("attach::sandboxes", "setpriv", sandboxes),
        ("attach::child-is-idle", "gcc", child_is_idle),
        ("attach::traced", "gcc", traced),
        ("attach::stopped", "gcc", stopped),
        ("attach::two-that-arm", "gcc", two_that_arm),
    ];
    let test = |(name, program, run): Row| Test {
        name: name.to_owned(),
        wants: vec!["gcc", program],
        open: None,
        run: Box::new(run),
    };
    rows.map(test).into()
}

/// Becomes another user, or this test is ignored.
pub(crate) fn nobody() -> Command {
    let mut command = Command::new("setpriv");
    command.args(NOBODY);
    let mut allowed = Command::new("setpriv");
    let program = env!("CARGO_BIN_EXE_mcount");
    if let Err(why) = testkit::process::run(allowed.args(NOBODY).arg(program).arg("--version")) {
        testkit::trial::ignore(why);
    }
    command
}

/// A room that everybody may use.
pub(crate) fn open_room() -> Result<Room, String> {
    let room = Room::new()?;
    for folder in ["", "attached", "refused"] {
        let path = room.path(folder);
        std::fs::create_dir_all(&path).map_err(text)?;
        let all = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(&path, all).map_err(text)?;
    }
    Ok(room)
}

/// Attaching, as this user or by this command, is refused in one line.
fn is_refused(room: &Room, mut by: Command, process: u32, why: &str) -> Result<(), String> {
    let ended = room.run("refused", by.args(["attach", "--plain"]).arg(process.to_string()))?;
    let is_line = ended.stderr.lines().count() == 1 && ended.stderr.contains(why);
    if ended.code == 2 && is_line { Ok(()) } else { Err(format!("{ended:?}")) }
}

fn mcount() -> Command {
    Command::new(env!("CARGO_BIN_EXE_mcount"))
}

fn mcount_of_nobody() -> Command {
    let mut command = nobody();
    command.arg(env!("CARGO_BIN_EXE_mcount"));
    command
}

fn other_user() -> Result<(), String> {
    let room = open_room()?;
    let program = room.compile("gcc", HOOKS, "served.c")?;
    let served = Served::start(&program)?;
    is_refused(&room, mcount_of_nobody(), served.id(), "you may not trace it")?;
    served.end()
}

fn not_dumpable() -> Result<(), String> {
    let room = open_room()?;
    let program = room.compile("gcc", &[HOOKS, &["-DNOT_DUMPABLE"]].concat(), "served.c")?;
    let mut served = Served::command(nobody().arg(&program))?;
    is_refused(&room, mcount_of_nobody(), served.id(), "you may not trace it")?;
    served.work()?;
    served.end()
}

/// It takes no privileges.
fn same_user() -> Result<(), String> {
    let room = open_room()?;
    let program = room.compile("gcc", HOOKS, "served.c")?;
    let mut served = Served::command(nobody().arg(&program))?;
    let attached = Attached::by(&room, "attached", mcount_of_nobody(), &[], served.id())?;
    let counts = served.work()?;
    compare(&counts, &attached.stop()?)?;
    served.end()
}

/// Another user's process takes `CAP_SYS_PTRACE`, `CAP_DAC_OVERRIDE` for its memory, and no other privilege.
fn by_privilege() -> Result<(), String> {
    let room = open_room()?;
    let program = room.compile("gcc", HOOKS, "served.c")?;
    let mut served = Served::command(nobody().arg(&program))?;
    let mut by = Command::new("setpriv");
    by.args(["--bounding-set=-all,+sys_ptrace,+dac_override", "--inh-caps=-all"]);
    by.arg(env!("CARGO_BIN_EXE_mcount"));
    let attached = Attached::by(&room, "attached", by, &[], served.id())?;
    let counts = served.work()?;
    compare(&counts, &attached.stop()?)?;
    served.end()
}

/// The program's file is in another place for it, or in none for us, it has another number there, and the trace's folder
/// isn't there for it.
fn namespaces() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", HOOKS, "served.c")?;
    let mut allowed = Command::new("unshare");
    if let Err(why) = testkit::process::run(allowed.args(["-mpf", "--mount-proc", "true"])) {
        testkit::trial::ignore(why);
    }
    let script = "mount -t tmpfs tmpfs /mnt && cp \"$1\" /mnt/inside && mount -t tmpfs tmpfs \"$2\" && \
                  cd / && exec /mnt/inside";
    let mut command = Command::new("unshare");
    command.args(["-mpf", "--kill-child", "--mount-proc", "sh", "-c", script, "sh"]);
    let hidden = room.path("attached");
    std::fs::create_dir_all(&hidden).map_err(text)?;
    let mut served = Served::command(command.arg(&program).arg(&hidden))?;
    let path = format!("/proc/{0}/task/{0}/children", served.id());
    let inside = std::fs::read_to_string(path).map_err(text)?;
    let inside: u32 = inside.trim().parse().map_err(text)?;
    for _ in 0..2 {
        let attached = Attached::start(&room, "attached", &[], inside)?;
        let counts = served.work()?;
        let trace = attached.stop()?;
        compare(&counts, &trace)?;
        if trace.processes != [1] {
            return Err(format!("processes {:?}", trace.processes));
        }
    }
    served.end()
}

/// A sandbox might end the program for what the agent does.
/// Whoever may not look into a sandbox doesn't attach.
fn sandbox() -> Result<(), String> {
    let room = open_room()?;
    let program =
        room.compile("gcc", &[HOOKS, &["-DFORBIDDEN=SYS_swapon"]].concat(), "sandboxed.c")?;
    let mut served = Served::command(nobody().arg(&program))?;
    is_refused(
        &room,
        mcount_of_nobody(),
        served.id(),
        "only root can read what the sandbox allows",
    )?;
    served.work()?;
    served.end()
}

/// A sandbox that forbids what tracing needs would end the process. One that forbids something else doesn't matter.
fn sandboxes() -> Result<(), String> {
    let _ = nobody();
    for call in ["mmap", "mremap", "madvise", "rt_sigprocmask", "tgkill", "socketpair", "recvmsg"] {
        let room = open_room()?;
        let flag = format!("-DFORBIDDEN=SYS_{call}");
        let program = room.compile("gcc", &[HOOKS, &[&flag]].concat(), "sandboxed.c")?;
        let mut served = Served::start(&program)?;
        is_refused(&room, mcount(), served.id(), &format!("forbids the system call {call},"))?;
        served.work()?;
        served.end()?;
    }
    let room = open_room()?;
    let program =
        room.compile("gcc", &[HOOKS, &["-DFORBIDDEN=SYS_swapon"]].concat(), "sandboxed.c")?;
    let mut served = Served::start(&program)?;
    for _ in 0..2 {
        let attached = Attached::start(&room, "attached", &[], served.id())?;
        let counts = served.work()?;
        compare(&counts, &attached.stop()?)?;
    }
    served.end()
}

/// The code of a position-independent program in memory is that of its file.
pub(crate) fn code_is_as_in_file(program: &Path, process: u32) -> Result<(), String> {
    use std::os::unix::fs::FileExt;
    let maps = std::fs::read_to_string(format!("/proc/{process}/maps")).map_err(text)?;
    let name = program.to_string_lossy();
    let line = maps.lines().find(|line| line.contains("r-xp") && line.ends_with(&*name));
    let words: Vec<&str> = line.ok_or("it has no code")?.split_whitespace().collect();
    let number = |digits: &str| u64::from_str_radix(digits, 16).map_err(text);
    let word = |at: usize| words.get(at).copied().unwrap_or_default();
    let (start, end) = word(0).split_once('-').ok_or("no range")?;
    let (start, end, offset) = (number(start)?, number(end)?, number(word(2))?);
    let mut memory = vec![0; usize::try_from(end - start).unwrap_or(0)];
    let file = std::fs::OpenOptions::new().read(true).open(format!("/proc/{process}/mem"));
    file.and_then(|file| file.read_exact_at(&mut memory, start)).map_err(text)?;
    let bytes = testkit::files::read(program)?;
    let from = usize::try_from(offset).unwrap_or(0);
    let there = bytes.get(from..).unwrap_or_default();
    // Behind the file's end there are zeroes.
    if memory.starts_with(there) || there.starts_with(&memory) {
        Ok(())
    } else {
        Err(format!("the code of process {process} isn't as in its file"))
    }
}

/// A library that's opened meanwhile stays idle, which is said once, with its name. The next trace has it.
fn opened_later() -> Result<(), String> {
    let room = Room::new()?;
    let plugin = room.compile("gcc", &[HOOKS, &["-shared", "-fPIC"]].concat(), "plugin.c")?;
    let program = room.compile("gcc", &[HOOKS, &["-DOPENS"]].concat(), "served.c")?;
    let mut served = Served::command(Command::new(&program).env("PLUGIN", &plugin))?;
    for (round, expected) in [(1, 1), (2, 0)] {
        let attached = Attached::start(&room, "attached", &[], served.id())?;
        served.ask("open", "opened 1")?;
        let counts = served.work()?;
        let trace = attached.stop()?;
        compare(&counts, &trace)?;
        let line = format!("{} was loaded later, and isn't traced", plugin.display());
        let said = trace.notes.iter().filter(|note| **note == line).count();
        if (said, trace.count(0, "plugin")) != (expected, 0) || trace.notes.len() != expected {
            return Err(format!("{round}: {:?}", trace.notes));
        }
    }
    served.end()
}

/// A process that was made by `fork` meanwhile, and lives on, is let go as well.
fn child_is_idle() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", HOOKS, "served-fork.c")?;
    let mut served = Served::start(&program)?;
    let id = served.id();
    for _ in 0..2 {
        let attached = Attached::start(&room, "attached", &[], id)?;
        let counts = served.work()?;
        let children = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children"));
        let child = children.map_err(text)?.trim().parse().map_err(text)?;
        if code_is_as_in_file(&program, child).is_ok() {
            return Err("it isn't traced".to_owned());
        }
        compare(&counts, &attached.stop()?)?;
        code_is_as_in_file(&program, child)?;
        code_is_as_in_file(&program, id)?;
        let maps = std::fs::read_to_string(format!("/proc/{child}/maps")).map_err(text)?;
        if maps.contains("trace.mcount") {
            return Err("it has the trace mapped".to_owned());
        }
    }
    served.end()
}

fn traced() -> Result<(), String> {
    let room = open_room()?;
    let program = room.compile("gcc", HOOKS, "served.c")?;
    let mut command = mcount();
    command.args(["trace", "--plain", "-o"]).arg(room.path("trace.mcount")).arg("--").arg(&program);
    let mut served = Served::command(&mut command)?;
    let tracer = served.id();
    let path = format!("/proc/{tracer}/task/{tracer}/children");
    let process = std::fs::read_to_string(path).map_err(text)?.trim().parse().map_err(text)?;
    is_refused(&room, mcount(), process, &format!("process {tracer} traces it already"))?;
    served.work()?;
    served.end()
}

/// What claims to be the agent of an earlier trace, and isn't, is left alone. It isn't told there from one of another version where no
/// register leads threads to what they have.
fn impostor() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", &[HOOKS, &["-DIMPOSTOR"]].concat(), "served.c")?;
    let mut served = Served::start(&program)?;
    if cfg!(any(target_arch = "aarch64", target_arch = "powerpc64", target_arch = "riscv64")) {
        is_refused(&room, mcount(), served.id(), NOT_THIS_AGENT)?;
        served.work()?;
        return served.end();
    }
    for _ in 0..2 {
        let attached = Attached::start(&room, "attached", &[], served.id())?;
        let counts = served.work()?;
        compare(&counts, &attached.stop()?)?;
    }
    served.end()
}

const NOT_THIS_AGENT: &str = "of another version of mcount, or a changed one";

/// The process has overwritten the agent of an earlier trace: that one isn't used, and no other one can be.
fn spoilt() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", HOOKS, "served.c")?;
    let mut served = Served::start(&program)?;
    let attached = Attached::start(&room, "attached", &[], served.id())?;
    let counts = served.work()?;
    compare(&counts, &attached.stop()?)?;
    served.ask("spoil", "spoilt 1")?;
    is_refused(&room, mcount(), served.id(), NOT_THIS_AGENT)?;
    if served.work()? != counts {
        return Err("it counts otherwise".to_owned());
    }
    served.end()
}

/// A signal handler is to return into the middle of a hook that is armed meanwhile.
fn inside_a_hook() -> Result<(), String> {
    let room = Room::new()?;
    let flags = [HOOKS, &["-fcf-protection=none", "-DINSIDE"]].concat();
    let program = room.compile("gcc", &flags, "served.c")?;
    let mut served = Served::start(&program)?;
    served.ask("go", "inside")?;
    let attached = Attached::start(&room, "attached", &[], served.id())?;
    served.ask("on", "outside")?;
    let counts = served.work()?;
    let trace = attached.stop()?;
    // One call of each came from there, and only the second one began at its beginning.
    let found = (trace.count(0, "leaf"), trace.count(0, "target"));
    let expected = |function| counts.get(function).copied().unwrap_or(0);
    if found != (expected("leaf") + 1, expected("target")) {
        return Err(format!("{found:?} instead of {counts:?}"));
    }
    served.end()
}

/// A thread stands between the single NOPs of a hook that becomes one instruction, or one of which does.
fn between_nops() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", &[HOOKS, &["-fcf-protection=none"]].concat(), "hot.c")?;
    let offsets = if cfg!(target_arch = "aarch64") { [4, 8, 12, 16] } else { [1, 2, 3, 4] };
    for offset in offsets {
        let served = Served::start(&program)?;
        let process = served.id();
        let place = testkit::standing::address_of(process, &program, "hot")? + offset;
        testkit::standing::stop_at(process.cast_signed(), place)?;
        until("it stops", || state(process) == Some('T'))?;
        let mut attached = Attached::start(&room, "attached", &["--filter", "hot"], process)?;
        kill_one(process.into(), Signal::SIGCONT);
        // It computes, or has been killed.
        until("it goes on", || state(process) != Some('T'))?;
        kill_one(attached.child.id().into(), Signal::SIGINT);
        let ended = room.wait("attached", &mut attached.child)?;
        if ended.code != 0 || state(process) != Some('R') {
            return Err(format!("{offset} bytes behind: {:?}, {ended:?}", state(process)));
        }
    }
    Ok(())
}

/// The program's file is gone, as after an upgrade, and another one has its name.
fn deleted() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", HOOKS, "served.c")?;
    let elsewhere = Room::new()?;
    let other = elsewhere.compile("gcc", &[HOOKS, &["-O0"]].concat(), "served.c")?;
    let mut served = Served::start(&program)?;
    std::fs::remove_file(&program).map_err(text)?;
    std::fs::copy(other, &program).map_err(text)?;
    let attached = Attached::start(&room, "attached", &[], served.id())?;
    let counts = served.work()?;
    compare(&counts, &attached.stop()?)?;
    served.end()
}

/// The process executes another program: the trace ends, and has what was there before.
fn executes() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", HOOKS, "served.c")?;
    let mut served = Served::start(&program)?;
    let attached = Attached::start(&room, "attached", &[], served.id())?;
    let counts = served.work()?;
    served.ask("exec", "ready")?;
    let trace = attached.finish()?;
    compare(&counts, &trace)?;
    if !trace.notes.concat().contains("it has executed another program") {
        return Err(format!("{:?}", trace.notes));
    }
    served.work()?;
    served.end()
}

/// The letter that the kernel has for what a process does.
fn state(process: u32) -> Option<char> {
    let text = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    text.rsplit_once(") ")?.1.chars().next()
}

/// A process that's stopped stays so, and goes on when it's told to.
fn stopped() -> Result<(), String> {
    let room = Room::new()?;
    let program = room.compile("gcc", HOOKS, "served.c")?;
    let mut served = Served::start(&program)?;
    kill_one(served.id().into(), Signal::SIGSTOP);
    until("it stops", || state(served.id()) == Some('T'))?;
    let attached = Attached::start(&room, "attached", &[], served.id())?;
    until("it's stopped again", || state(served.id()) == Some('T'))?;
    kill_one(served.id().into(), Signal::SIGCONT);
    let counts = served.work()?;
    kill_one(served.id().into(), Signal::SIGSTOP);
    until("it stops", || state(served.id()) == Some('T'))?;
    compare(&counts, &attached.stop()?)?;
    until("it's stopped again", || state(served.id()) == Some('T'))?;
    kill_one(served.id().into(), Signal::SIGCONT);
    if served.work()? != counts {
        return Err("it counts otherwise".to_owned());
    }
    served.end()
}

/// The second one comes while the first one makes thousands of probes, for which threads needn't stand. It's told who is there, or that
/// it's traced. Meanwhile, eight threads run through the functions.
fn two_that_arm() -> Result<(), String> {
    let room = Room::new()?;
    let (program, library) = compile_through(&room)?;
    let mut through = room.start("running", Command::new(&program).arg("12").arg(&library))?;
    let process = through.id().to_string();
    let mut refused = 0;
    for delay in (0..6).map(|round| 50 + round * 50) {
        let attach = |name: &str| {
            let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
            command.args(["attach", "--probe", "*", "--ring", "16M", "--duration", "300ms"]);
            room.start(&format!("{name}-{delay}"), command.arg(&process))
        };
        let mut first = attach("first")?;
        std::thread::sleep(Duration::from_millis(delay));
        let mut second = attach("second")?;
        for (name, child) in [("first", &mut first), ("second", &mut second)] {
            let ended = room.wait(&format!("{name}-{delay}"), child)?;
            let says = ["is attached to it already", "traces it already"];
            let is_refused = ended.code == 2 && says.iter().any(|one| ended.stderr.contains(one));
            // Its time may be over.
            let runs = matches!(through.try_wait(), Ok(None));
            if ended.code != 0 && !is_refused && runs {
                return Err(format!("{name} after {delay} ms: {ended:?}"));
            }
            refused += u32::from(is_refused);
        }
        if !matches!(through.try_wait(), Ok(None)) {
            break;
        }
    }
    let ended = room.wait("running", &mut through)?;
    if ended.code != 0 || !ended.stdout.ends_with("\nok\n") || refused == 0 {
        return Err(format!("{refused} were refused: {ended:?}"));
    }
    Ok(())
}

/// A program in which eight threads run through ten thousand functions, while signals come, and threads, children and this library come and go.
pub(crate) fn compile_through(room: &Room) -> Result<(PathBuf, PathBuf), String> {
    let live = sources().join("../live").display().to_string();
    let include = format!("-I{live}/../../include");
    let library = room.compile("gcc", &["-shared", "-fPIC"], &format!("{live}/plugin.c"))?;
    let flags = ["-O2", &include, &format!("{live}/many.c")];
    Ok((room.compile("gcc", &flags, &format!("{live}/through.c"))?, library))
}
