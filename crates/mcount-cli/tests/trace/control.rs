//! A second `mcount attach` changes what the first one traces; and those who mustn't, can't.

use crate::Test;
use crate::attach::{Attached, compare, text};
use crate::truth::Room;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::Shutdown;
use std::os::unix::fs::{PermissionsExt, symlink};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};
use testkit::served::Served;
use testkit::trace::Trace;

const HOOKS: &[&str] = &["-O2", "-fpatchable-function-entry=5"];

/// What a test does.
type Check = fn() -> Result<(), String>;

pub(crate) fn tests() -> Vec<Test> {
    let rows: [(&str, &[&'static str], Check); 5] = [
        ("control::changes", &["gcc"], changes),
        ("control::refused", &["gcc"], refused),
        ("control::open-folder", &["gcc"], open_folder),
        ("control::nonsense", &["gcc"], nonsense),
        ("control::other-user", &["gcc", "setpriv", "perl"], other_user),
    ];
    let test = |(name, wants, run): (&str, &[&'static str], Check)| Test {
        name: name.to_owned(),
        wants: wants.to_vec(),
        open: None,
        run: Box::new(run),
    };
    rows.map(test).into()
}

/// The user's folder for sockets, with this mode.
fn runtime(room: &Room, mode: u32) -> Result<PathBuf, String> {
    let folder = room.path("runtime");
    std::fs::create_dir_all(&folder).map_err(text)?;
    let mode = std::fs::Permissions::from_mode(mode);
    std::fs::set_permissions(&folder, mode).map_err(text)?;
    Ok(folder)
}

fn mcount(runtime: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
    command.env("XDG_RUNTIME_DIR", runtime);
    command
}

/// A second `mcount attach`: its exit code, and what it says.
fn second(
    room: &Room,
    runtime: &Path,
    options: &[&str],
    process: u32,
) -> Result<(i32, String), String> {
    let mut command = mcount(runtime);
    command.args(["attach", "--plain"]).args(options).arg(process.to_string());
    let ended = room.run("second", &mut command)?;
    Ok((ended.code, ended.stderr))
}

fn is_changed(
    room: &Room,
    runtime: &Path,
    options: &[&str],
    process: u32,
    functions: &str,
) -> Result<(), String> {
    let said = second(room, runtime, options, process)?;
    let expected = format!("{functions} from now on");
    if said.0 == 0 && said.1.contains(&expected) { Ok(()) } else { Err(format!("{said:?}")) }
}

/// Of each period only the functions of that period are in the trace.
fn changes() -> Result<(), String> {
    let room = Room::new()?;
    let runtime = runtime(&room, 0o700)?;
    let program = room.compile("gcc", HOOKS, "served.c")?;
    let mut served = Served::start(&program)?;
    let id = served.id();
    let options = ["--filter", "leaf"];
    let first = Attached::by(&room, "first", mcount(&runtime), &options, id)?;
    let mut expected = BTreeMap::new();
    let mut add = |counts: &BTreeMap<String, u64>, names: &[&str]| {
        for (name, count) in counts {
            let is_traced = names.is_empty() || names.contains(&&**name);
            *expected.entry(name.clone()).or_default() += if is_traced { *count } else { 0 };
        }
    };
    add(&served.work()?, &["leaf"]);
    is_changed(&room, &runtime, &["--filter", "d*", "--filter", "other"], id, "2 functions")?;
    add(&served.work()?, &["deep", "other"]);
    is_changed(&room, &runtime, &["--regex", "--exclude", "^(leaf|run|main)$"], id, "5 functions")?;
    add(&served.work()?, &["deep", "target", "jumps", "other", "work"]);
    is_changed(&room, &runtime, &["--filter", "*"], id, "functions")?;
    add(&served.work()?, &[]);
    let mut trace = first.stop()?;
    compare(&expected, &trace)?;
    trace.check_nesting()?;
    let notes = trace.notes.iter().filter(|note| note.contains("as another mcount attach asked"));
    if notes.count() != 3 {
        return Err(format!("{:?}", trace.notes));
    }
    let left = std::fs::read_dir(runtime.join("mcount")).map_err(text)?.count();
    if left == 0 { served.end() } else { Err(format!("{left} sockets are left")) }
}

/// What can't be changed is refused, and all stays as it was.
fn refused() -> Result<(), String> {
    let room = Room::new()?;
    let runtime = runtime(&room, 0o700)?;
    let program = room.compile("gcc", HOOKS, "served.c")?;
    let mut served = Served::start(&program)?;
    let first = Attached::by(&room, "first", mcount(&runtime), &["--filter", "leaf"], served.id())?;
    let rows: &[(&[&str], &str)] = &[
        (&["--filter", "nothing"], "no hooked function matches the filter"),
        (&["--filter", "deep", "--duration", "5s"], "only --filter and --exclude can be changed"),
        (&["--filter", "deep", "--depth", "2"], "only --filter and --exclude can be changed"),
        (&[], "is attached to it already"),
    ];
    for (options, expected) in rows {
        let (code, said) = second(&room, &runtime, options, served.id())?;
        if code != 2 || !said.contains(expected) || said.lines().count() != 1 {
            return Err(format!("{options:?}: {code} {said}"));
        }
    }
    only_leaf(&mut served, first)?;
    served.end()
}

/// One more piece of work, of which only one function is in the trace.
fn only_leaf(served: &mut Served, first: Attached) -> Result<(), String> {
    let counts = served.work()?;
    let trace: Trace = first.stop()?;
    for (name, count) in counts {
        let (found, wanted) = (trace.count(0, &name), if name == "leaf" { count } else { 0 });
        if found != wanted {
            return Err(format!("{name}: {found} instead of {wanted}"));
        }
    }
    Ok(())
}

/// No socket is made, or trusted, where others could put one.
fn open_folder() -> Result<(), String> {
    for attack in ["mode", "link", "inner"] {
        let room = Room::new()?;
        let folder = runtime(&room, if attack == "mode" { 0o755 } else { 0o700 })?;
        let elsewhere = room.path("elsewhere");
        std::fs::create_dir_all(&elsewhere).map_err(text)?;
        let inner = std::fs::Permissions::from_mode(if attack == "inner" { 0o777 } else { 0o700 });
        std::fs::set_permissions(&elsewhere, inner).map_err(text)?;
        match attack {
            "link" => symlink(&elsewhere, folder.join("mcount")).map_err(text)?,
            "inner" => std::fs::rename(&elsewhere, folder.join("mcount")).map_err(text)?,
            _ => {}
        }
        let program = room.compile("gcc", HOOKS, "served.c")?;
        let mut served = Served::start(&program)?;
        let first =
            Attached::by(&room, "first", mcount(&folder), &["--filter", "leaf"], served.id())?;
        for folder in [folder.join("mcount"), elsewhere] {
            let count = std::fs::read_dir(&folder).map_or(0, Iterator::count);
            if count != 0 {
                return Err(format!("{attack}: there's a socket in {}", folder.display()));
            }
        }
        let (code, said) = second(&room, &folder, &["--filter", "deep"], served.id())?;
        if code != 2 || !said.contains("is attached to it already") {
            return Err(format!("{attack}: {code} {said}"));
        }
        only_leaf(&mut served, first)?;
        served.end()?;
    }
    Ok(())
}

/// The only socket in the folder.
fn socket(runtime: &Path) -> Result<PathBuf, String> {
    let mut all = std::fs::read_dir(runtime.join("mcount")).map_err(text)?;
    let first = all.next().ok_or("there's no socket")?.map_err(text)?;
    Ok(first.path())
}

/// Whatever is sent, tracing goes on as it was, and the next question is answered.
fn nonsense() -> Result<(), String> {
    let room = Room::new()?;
    let runtime = runtime(&room, 0o700)?;
    let program = room.compile("gcc", HOOKS, "served.c")?;
    let mut served = Served::start(&program)?;
    let first = Attached::by(&room, "first", mcount(&runtime), &["--filter", "deep"], served.id())?;
    let socket = socket(&runtime)?;
    let endless = vec![b'a'; 1 << 20];
    let rows: [&[u8]; 6] = [
        b"",
        b"mcount attach 1\0filter\0glob\0",
        b"mcount attach 1\0filter\0regex\0(\0",
        b"mcount attach 1\0filter\0glob\0no such function\0",
        &[0xff; 100],
        &endless,
    ];
    for sent in rows {
        let mut stream = UnixStream::connect(&socket).map_err(text)?;
        // It may be closed before all is sent.
        let _ = stream.write_all(sent);
        let _ = stream.shutdown(Shutdown::Write);
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer);
        if answer.starts_with('+') {
            return Err(format!("{answer} to {:?}", sent.get(..50).unwrap_or(sent)));
        }
    }
    // Who says nothing, and stays, doesn't keep others waiting for long.
    let _silent: Vec<_> = (0..3).map(|_| UnixStream::connect(&socket)).collect();
    let start = Instant::now();
    is_changed(&room, &runtime, &["--filter", "leaf"], served.id(), "1 function")?;
    if start.elapsed() > Duration::from_secs(15) {
        return Err(format!("it took {:?}", start.elapsed()));
    }
    only_leaf(&mut served, first)?;
    served.end()
}

/// Another user who comes by the folder isn't heard.
fn other_user() -> Result<(), String> {
    let nobody = ["--reuid=65534", "--regid=65534", "--clear-groups"];
    let mut allowed = Command::new("setpriv");
    if let Err(why) =
        testkit::process::run(allowed.args(nobody).args(["perl", "-MIO::Socket::UNIX", "-e1"]))
    {
        testkit::trial::ignore(why);
    }
    let room = Room::new()?;
    let runtime = runtime(&room, 0o700)?;
    let program = room.compile("gcc", HOOKS, "served.c")?;
    let mut served = Served::start(&program)?;
    let first = Attached::by(&room, "first", mcount(&runtime), &["--filter", "leaf"], served.id())?;
    let socket = socket(&runtime)?;
    for path in [room.path(""), runtime.clone(), runtime.join("mcount"), socket.clone()] {
        let all = std::fs::Permissions::from_mode(0o777);
        std::fs::set_permissions(path, all).map_err(text)?;
    }
    let script = "my $s = IO::Socket::UNIX->new(Peer => $ARGV[0]) or die; $SIG{PIPE} = 'IGNORE'; \
                  print $s \"mcount attach 1\\0filter\\0glob\\0deep\\0\"; $s->flush; shutdown($s, 1); \
                  print 'answer <', scalar(<$s>) // '', '>'";
    let mut command = Command::new("setpriv");
    command.args(nobody).args(["perl", "-MIO::Socket::UNIX", "-e", script]).arg(&socket);
    let said = room.run("nobody", &mut command)?;
    if said.code != 0 || said.stdout != "answer <>" {
        return Err(format!("{said:?}"));
    }
    only_leaf(&mut served, first)?;
    served.end()
}
