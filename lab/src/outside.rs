//! Traces and patches programs from outside on another processor: boots a kernel of Debian in QEMU, with several processors, and runs
//! the tests of `mcount trace`, `mcount attach` and `mcount patch` there, which hold their own counts against the traces.
//!
//! QEMU's user-mode emulation has no `ptrace`, so it takes a whole machine. That one has no compilers: the tests are run here first, by the
//! user-mode emulation, to learn which programs they want, and these are compiled by cross compilers. All that stays in
//! `target/outside` and is used again.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use lexopt::{Arg, ValueExt as _};

use crate::test_programs::{self, TestProgram};
use crate::{Result, apt, debian, files, rust};

const USAGE: &str = "\
usage: cargo lab outside [OPTION…] [TEST…]

Runs the tests of `cargo test -p mcount-cli --test trace --test patch` that TESTs are in the names of, on AArch64 in a machine
that QEMU emulates. Without TESTs it's some of each kind, and the tests that need no machine: a quarter of an hour on two processors,
behind ten minutes of building, and several times as long if they have other work to do. All that's meant to pass there is
program:: attach build:: builds:: versions:: stacks:: refused:: faults:: values:: language::rust library-calls:: marks:: off-cpu::,
which takes hours. docs/evidence.md says which of them have passed.

  --release    build mcount optimized: takes longer to build, and less to run
  --minutes N  how long the machine may run [default: 120]
";

/// The Debian packages of all that's needed here.
const PACKAGES: [&str; 5] =
    ["clang", "cpio", "g++-aarch64-linux-gnu", "qemu-system-arm", "qemu-user"];
const TARGET: &str = "aarch64-unknown-linux-gnu";
/// Of the kernel, as Debian calls them.
const ARCHITECTURE: &str = "arm64";
/// Where the cross compilers' C library is.
const ROOT: &str = "/usr/aarch64-linux-gnu";
/// What programs are linked with.
const LIBRARIES: [&str; 7] = [
    "ld-linux-aarch64.so.1",
    "libc.so.6",
    "libm.so.6",
    "libgcc_s.so.1",
    "libstdc++.so.6",
    "libpthread.so.0",
    "libdl.so.2",
];
/// The programs of tests that have them.
const PROGRAMS: [&str; 2] = ["patch", "trace"];
/// Tests that the machine runs by default, by a part of their names: some of each kind, all of which have passed.
const TESTS: [&str; 19] = [
    "attach::spoilt",
    "attach::impostor",
    "attach::patterns",
    "attach::deleted",
    "attach::between-nops",
    "budget::forked",
    "builds::",
    "library-calls::nothing",
    "library-calls::options",
    "library-calls::lazy",
    "library-calls::program/fork",
    "library-calls::program/exec",
    "off-cpu::alone",
    "values::gcc-O2",
    "values::clang-O2",
    "marks::",
    "versions::under-load",
    "off-cpu::snapshot",
    "library-calls::program/tail-calls",
];

/// What is asked for.
struct Request {
    tests: Vec<String>,
    is_release: bool,
    minutes: u64,
}

/// Runs the chore: `false` when a test failed, or the machine didn't end.
pub(crate) fn run(mut parser: lexopt::Parser) -> Result<bool> {
    let mut request = Request { tests: Vec::new(), is_release: false, minutes: 120 };
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Value(test) => request.tests.push(test.string()?),
            Arg::Long("release") => request.is_release = true,
            Arg::Long("minutes") => request.minutes = parser.value()?.parse()?,
            Arg::Short('h') | Arg::Long("help") => {
                print!("{USAGE}");
                return Ok(true);
            }
            other => return Err(other.unexpected().into()),
        }
    }
    let is_whole = request.tests.is_empty();
    if is_whole {
        request.tests = TESTS.map(str::to_owned).to_vec();
    }
    apt::install(&apt::missing(&PACKAGES).unwrap_or_default())?;
    let room = files::workspace().join("target/outside");
    files::make_folder(&room.join("programs"))?;
    let built = Built::new(&room, request.is_release, is_whole)?;
    if !check_units(&built)? {
        return Ok(false);
    }
    compile(&room, &built, &request.tests)?;
    let kernel = kernel()?;
    make_root(&room, &built)?;
    boot(&room, &kernel, &request)
}

/// The test programs and mcount, for the other processor.
struct Built {
    tests: Vec<TestProgram>,
    /// Tests of what's for that processor, which need no machine; none if only some tests are asked for.
    units: Vec<TestProgram>,
    /// Where the tests expect mcount, and room for what they make.
    mcount: PathBuf,
    scratch: PathBuf,
}

impl Built {
    fn new(room: &Path, is_release: bool, is_whole: bool) -> Result<Self> {
        let compiler = rust::compiler(&[format!("libstd-rust-web-dev:{ARCHITECTURE}")])?;
        let target = room.join("build");
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args(["test", "-p", "mcount-cli", "--target", TARGET]);
        if is_whole {
            cargo.arg("--lib");
        }
        cargo.args(PROGRAMS.iter().flat_map(|name| ["--test", name]));
        if is_release {
            cargo.arg("--release");
        }
        cargo.current_dir(files::workspace()).env("CARGO_TARGET_DIR", &target);
        cargo.env("RUSTC", compiler).env_remove("RUSTFLAGS");
        cargo.env("CARGO_PROFILE_DEV_DEBUG", "false");
        cargo.env("CARGO_TARGET_AARCH64_UNKNOWN_LINUX_GNU_LINKER", "aarch64-linux-gnu-gcc");
        let tests = test_programs::build(&mut cargo)?;
        let (units, tests) = tests
            .ok_or("the tests don't build")?
            .into_iter()
            .partition(|one: &TestProgram| one.name.ends_with(": unit"));
        let profile = if is_release { "release" } else { "debug" };
        let mcount = target.join(TARGET).join(profile).join("mcount");
        Ok(Self { tests, units, mcount, scratch: target.join(TARGET).join("tmp") })
    }
}

/// A program by the user-mode emulation.
fn emulated(program: &Path) -> Command {
    let mut emulator = Command::new("qemu-aarch64");
    emulator.args(["-L", ROOT]).arg(program);
    emulator
}

/// Runs the tests that need no machine: are all well?
fn check_units(built: &Built) -> Result<bool> {
    for one in &built.units {
        let mut tests = emulated(&one.program);
        let words = ["processor::", "patch::", "rescue::", "places::", "imports::", "--quiet"];
        if !tests.args(words).current_dir(&one.folder).status()?.success() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Compiles the programs that the tests want.
fn compile(room: &Path, built: &Built, tests: &[String]) -> Result<()> {
    let programs = room.join("programs");
    let wanted = programs.join("wanted");
    if has_changed(&wanted)? {
        succeed(Command::new("rm").arg("-r").arg(&programs))?;
        files::make_folder(&programs)?;
    }
    files::write(&wanted, b"")?;
    for test in tests {
        // They fail, as there are no programs yet; but they say what they want.
        for one in &built.tests {
            let mut emulator = emulated(&one.program);
            emulator.arg(test);
            emulator.current_dir(&one.folder).env("MCOUNT_PROGRAMS", &programs);
            emulator.stdout(Stdio::null()).stderr(Stdio::null()).status()?;
        }
    }
    let list = String::from_utf8(files::read(&wanted)?)?;
    let list: BTreeMap<&str, &str> = list.lines().filter_map(|line| line.split_once(' ')).collect();
    let list: Vec<(&str, &str)> = list.into_iter().collect();
    let half = list.len().div_ceil(2);
    std::thread::scope(|scope| {
        let compile_all = |list: &[(&str, &str)]| {
            let each = |(name, words): &(&str, &str)| compile_one(&programs, name, words);
            list.iter().try_for_each(each).map_err(|error| error.to_string())
        };
        let (one, other) = list.split_at(half);
        let other = scope.spawn(move || compile_all(other));
        compile_all(one)?;
        other.join().map_err(|_| "compiling ended too early")?
    })?;
    Ok(())
}

/// Has a source of a test changed since `wanted` was written? Names of programs don't tell, since they're made of what the sources are called.
fn has_changed(wanted: &Path) -> Result<bool> {
    if !wanted.exists() {
        return Ok(false);
    }
    let mut find = Command::new("find");
    find.arg(files::workspace().join("tests")).args(["-type", "f", "-newer"]).arg(wanted);
    Ok(!find.args(["-print", "-quit"]).output()?.stdout.is_empty())
}

/// Compiles one; whatever the compiler refuses isn't for this processor.
fn compile_one(programs: &Path, name: &str, words: &str) -> Result<()> {
    let output = programs.join(name);
    let mut words = words.split(' ');
    let compiler = words.next().unwrap_or_default();
    let clang = [compiler, "--target=aarch64-linux-gnu"];
    let gcc = [&format!("aarch64-linux-gnu-{compiler}")[..]];
    let rustc = rust::compiler(&[])?;
    let rustc =
        [&rustc.display().to_string()[..], "--target", TARGET, "-Clinker=aarch64-linux-gnu-gcc"];
    let program: &[&str] = match compiler {
        "gcc" | "g++" => &gcc,
        "clang" | "clang++" => &clang,
        "rustc" => &rustc,
        _ => return files::write(&output.with_extension("failed"), b"no such compiler\n"),
    };
    let (first, last): (&[&str], &[&str]) = match compiler {
        "rustc" => (&["--edition", "2024", "-Ccodegen-units=1"], &[]),
        _ => (&["-D_GNU_SOURCE", "-w"], &["-lpthread", "-ldl", "-lm"]),
    };
    let mut command = Command::new("env");
    command.arg("RUSTC_BOOTSTRAP=1").args(program).args(first);
    for word in words {
        let Some(source) = word.strip_prefix('@') else {
            command.arg(word);
            continue;
        };
        let of_tests = files::workspace().join("tests").join(source);
        command.arg(if of_tests.exists() { of_tests } else { programs.join(source) });
    }
    command.args(last).arg("-o").arg(&output);
    let said = command.output()?;
    if said.status.success() {
        Ok(())
    } else {
        println!(
            "{}: {}",
            compiler,
            String::from_utf8_lossy(&said.stderr).lines().next().unwrap_or_default()
        );
        files::write(&output.with_extension("failed"), &said.stderr)
    }
}

/// A kernel of Debian, as QEMU boots it.
fn kernel() -> Result<PathBuf> {
    let flavour = debian::flavours(ARCHITECTURE)?.first().ok_or("no flavour")?;
    let package = debian::obtain(ARCHITECTURE, flavour, false)?;
    let mut images = files::list(&package.folder.join("boot"))?.into_iter();
    let is_image = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("vmlinuz"))
    };
    images.find(is_image).ok_or_else(|| format!("{} has no kernel", package.name).into())
}

/// Puts what the machine begins with into `initramfs`.
fn make_root(room: &Path, built: &Built) -> Result<()> {
    let whole = room.join("root");
    if whole.is_dir() {
        succeed(Command::new("rm").arg("-r").arg(&whole))?;
    }
    for folder in ["bin", "lib", "proc", "sys", "dev", "tmp", "programs"] {
        files::make_folder(&whole.join(folder))?;
    }
    let inside = |path: &Path| whole.join(path.strip_prefix("/").unwrap_or(path));
    files::make_folder(&inside(&built.scratch))?;
    for one in &built.tests {
        files::make_folder(&inside(&one.folder))?;
    }
    for library in LIBRARIES {
        copy(&Path::new(ROOT).join("lib").join(library), &whole.join("lib").join(library))?;
    }
    for program in files::list(&room.join("programs"))? {
        if let Some(name) = program.file_name() {
            copy(&program, &whole.join("programs").join(name))?;
        }
    }
    // As `testkit::elsewhere` calls it.
    files::write(&whole.join("programs/complete"), b"")?;
    let mcount = (&built.mcount, inside(&built.mcount));
    let tests = built.tests.iter().map(|one| {
        let (_, name) = one.name.rsplit_once(' ').unwrap_or_default();
        (&one.program, whole.join("tests").join(name))
    });
    for (from, to) in tests.chain([mcount]) {
        files::make_folder(to.parent().unwrap_or(&whole))?;
        succeed(Command::new("aarch64-linux-gnu-strip").arg("-o").arg(to).arg(from))?;
    }
    let source = room.join("init.c");
    files::write(&source, include_bytes!("outside/init.c"))?;
    let mut compiler = Command::new("aarch64-linux-gnu-gcc");
    compiler.args(["-static", "-O2"]);
    let folder = built.tests.first().map(|one| &one.folder).ok_or("there are no tests")?;
    for (name, path) in [("FOLDER", folder), ("ROOM", &built.scratch)] {
        compiler.arg(format!("-D{name}=\"{}\"", path.display()));
    }
    succeed(compiler.arg("-o").arg(whole.join("init")).arg(&source))?;
    let pack = "find . | cpio --quiet -o -H newc -R 0:0 >../initramfs";
    succeed(Command::new("sh").args(["-c", pack]).current_dir(&whole))
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    succeed(Command::new("cp").args(["-L", "--preserve=mode"]).arg(from).arg(to))
}

/// Runs the machine and shows its console; are all tests well?
fn boot(room: &Path, kernel: &Path, request: &Request) -> Result<bool> {
    let log = room.join("console.log");
    let mut qemu = Command::new("timeout");
    qemu.arg(format!("{}m", request.minutes)).arg("qemu-system-aarch64");
    qemu.args([
        "-M",
        "virt",
        "-cpu",
        "max,pauth-impdef=on",
        "-accel",
        "tcg,thread=multi",
        "-smp",
        "4",
        "-m",
        "4096",
    ]);
    qemu.args(["-nographic", "-no-reboot", "-nic", "none", "-kernel"]).arg(kernel);
    qemu.arg("-initrd").arg(room.join("initramfs"));
    let tests = request.tests.join(" ");
    qemu.arg("-append").arg(format!("console=ttyAMA0 quiet panic=-1 rdinit=/init -- {tests}"));
    println!("the machine's console is {}", log.display());
    let status = qemu.stdin(Stdio::null()).stdout(files::create(&log)?).status()?;
    let shown = String::from_utf8_lossy(&files::read(&log)?).into_owned();
    print!("{shown}");
    let is_well = |test: &String| shown.contains(&format!("outside: {test}: 0"));
    Ok(status.success() && shown.contains("outside: END") && request.tests.iter().all(is_well))
}

/// Runs a command that has to succeed.
fn succeed(command: &mut Command) -> Result<()> {
    let status = command.status()?;
    if status.success() { Ok(()) } else { Err(format!("{command:?}: {status}").into()) }
}
