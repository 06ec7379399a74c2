//! The examples, built by the commands that they name themselves, with the library installed as `cargo xtask dist` does.

use crate::Test;
use crate::build::Room;
use std::path::{Path, PathBuf};
use std::process::Command;
use testkit::process::run;

pub(crate) fn tests() -> Vec<Test> {
    let test = |name: &str, wants, run: fn() -> Result<(), String>| Test {
        name: format!("examples/{name}"),
        wants,
        run: Box::new(run),
    };
    vec![
        test("watch.c", vec!["cc", "pkg-config"], watch),
        test("phase.c", vec!["cc", "pkg-config"], phase),
        test("watch.rs", vec!["rustc", "nm"], rust),
    ]
}

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// The library as it's installed.
fn install(room: &Room) -> Result<(), String> {
    let link = |from: PathBuf, to: &str| {
        let to = room.path(to);
        let folder = to.parent().unwrap_or(Path::new("."));
        let made = std::fs::create_dir_all(folder);
        made.and_then(|()| std::os::unix::fs::symlink(from, &to))
            .map_err(|error| format!("{}: {error}", to.display()))
    };
    link(root().join("include/mcount"), "include/mcount")?;
    for name in ["libmcount-live.so", "libmcount-live.so.0", "libmcount-live.a"] {
        link(room.path(name), &format!("lib/{name}"))?;
    }
    link(root().join("crates/mcount-inside-c/mcount-live.pc"), "lib/pkgconfig/mcount-live.pc")?;
    link(root().join("examples"), "examples")
}

/// Runs the commands in the comment that an example begins with.
fn commands(room: &Room, example: &str) -> Result<String, String> {
    let source = testkit::files::read(&root().join("examples").join(example))?;
    let source = String::from_utf8_lossy(&source).into_owned();
    let comment = source.split("*/").next().unwrap_or_default();
    let commands: Vec<&str> =
        comment.lines().filter_map(|line| line.strip_prefix(" *   ")).collect();
    if commands.len() != 2 {
        return Err(format!("not two commands: {commands:?}"));
    }
    let mut shell = Command::new("sh");
    shell.args(["-e", "-c", &commands.join("\n")]).current_dir(room.path(""));
    // As a stranger would who has installed it somewhere.
    shell.env("PKG_CONFIG_PATH", room.path("lib/pkgconfig"));
    shell.env("LD_LIBRARY_PATH", room.path("lib"));
    run(&mut shell)
}

fn watch() -> Result<(), String> {
    let room = Room::new()?;
    install(&room)?;
    let output = commands(&room, "watch.c")?;
    same(&output, "square(1) = 1\nsquare(2) = 4\nsquare(3) = 9\nsum_of_squares(3) = 14\n14")
}

fn same(output: &str, right: &str) -> Result<(), String> {
    if output.trim_end() == right { Ok(()) } else { Err(format!("{output}instead of\n{right}")) }
}

fn phase() -> Result<(), String> {
    let room = Room::new()?;
    install(&room)?;
    commands(&room, "phase.c")?;
    let trace = testkit::trace::Trace::read(&room.path("phase.mcount"))?;
    let counts = ["phase", "step", "mcount_mark"].map(|name| trace.count(0, name));
    if (counts, trace.dropped) == ([1, 1000, 1], 0) { Ok(()) } else { Err(format!("{counts:?}")) }
}

/// Compiled by hand, because cargo would build everything once more.
fn rust() -> Result<(), String> {
    let room = Room::new()?;
    let here = std::env::current_exe().map_err(|error| error.to_string())?;
    let libraries = here.parent().unwrap_or(Path::new("."));
    let mut crates = Vec::new();
    for entry in std::fs::read_dir(libraries).map_err(|error| error.to_string())?.flatten() {
        let (name, path) = (entry.file_name(), entry.path());
        let name = name.to_string_lossy();
        if name.starts_with("libmcount_inside-") && name.ends_with(".rlib") {
            crates.push((entry.metadata().and_then(|about| about.modified()).ok(), path));
        }
    }
    crates.sort();
    let (_, newest) = crates.pop().ok_or("the crate isn't built")?;
    let program = room.path("watch");
    let mut rustc = Command::new(std::env::var("RUSTC").unwrap_or_else(|_| "rustc".to_owned()));
    rustc.args(["--edition", "2024", "-O", "-Cpanic=abort", "-Zpatchable-function-entry=5"]);
    rustc.arg(root().join("examples/watch.rs")).arg("-o").arg(&program);
    rustc.arg("--extern").arg(format!("mcount_inside={}", newest.display()));
    rustc.arg("-L").arg(format!("dependency={}", libraries.display()));
    // Other than nightly ones, rustc makes hooks only when it takes itself for one.
    run(rustc.env("RUSTC_BOOTSTRAP", "1"))?;
    let mut watched = Command::new(&program);
    watched.arg("*square*").current_dir(room.path(""));
    let right = [("square", 1, 1), ("square", 2, 4), ("square", 3, 9), ("sum_of_squares", 3, 14)];
    let lines =
        right.map(|(name, argument, result)| format!("watch::{name}({argument}) = {result}"));
    same(&run(&mut watched)?, &format!("{}\n14\n333833500", lines.join("\n")))?;
    let symbols = run(Command::new("sh").args(["-c", "nm $0 | grep 6square"]).arg(&program))?;
    let mut names = symbols.lines().filter_map(|line| line.split(' ').nth(2));
    let square = names.next().ok_or(symbols.as_str())?;
    let trace = testkit::trace::Trace::read(&room.path("watch.mcount"))?;
    if [square, "mcount_mark"].map(|name| trace.count(0, name)) == [1000, 1] {
        Ok(())
    } else {
        Err(format!("{trace:?}"))
    }
}
