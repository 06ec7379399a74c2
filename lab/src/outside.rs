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

Runs the tests of `cargo test -p mcount-cli --test trace --test patch` that TESTs are in the names of, on another processor, in a
machine that QEMU emulates. Without TESTs it's some of each kind, and the tests that need no machine: a quarter of an hour on two
processors, behind ten minutes of building, and several times as long if they have other work to do. All that's meant to pass there is
program:: attach build:: builds:: versions:: stacks:: refused:: faults:: values:: language::rust library-calls:: marks:: off-cpu::,
which takes hours. docs/evidence.md says which of them have passed.

  --machine PROCESSOR  one of those that are listed below [default: aarch64]
  --release    build mcount optimized: takes longer to build, and less to run
  --counting   one processor that counts instructions exactly: QEMU's -icount
  --minutes N  how long the machine may run [default: 120]
";

/// What differs between the machines.
struct Machine {
    name: &'static str,
    /// What QEMU calls its processor.
    processor: &'static str,
    /// The Debian packages of all that's needed here.
    packages: &'static [&'static str],
    target: &'static str,
    /// Of the kernel, as Debian calls it, and the release that has one, if this machine's has none.
    architecture: &'static str,
    release: Option<&'static str>,
    /// Which processor gcc compiles for, if not for all of its kind.
    flags: &'static [&'static str],
    /// The cross compilers' prefix, and where programs expect the dynamic linker.
    cross: &'static str,
    linker: &'static str,
    /// The test programs that there is something for, and some of the unit tests of mcount's libraries for it.
    programs: &'static [&'static str],
    qemu: &'static [&'static str],
    console: &'static str,
    /// Tests that the machine runs by default, by a part of their names: some of each kind, all of which have passed.
    tests: &'static [&'static str],
}

const MACHINES: &[Machine] = &[
    Machine {
        name: "aarch64",
        processor: "aarch64",
        packages: &["clang", "cpio", "g++-aarch64-linux-gnu", "qemu-system-arm", "qemu-user"],
        target: "aarch64-unknown-linux-gnu",
        architecture: "arm64",
        release: None,
        flags: &[],
        cross: "aarch64-linux-gnu",
        linker: "lib/ld-linux-aarch64.so.1",
        programs: &["patch", "trace"],
        qemu: &["-M", "virt", "-cpu", "max,pauth-impdef=on"],
        console: "ttyAMA0",
        tests: &TESTS,
    },
    Machine {
        name: "riscv64",
        processor: "riscv64",
        packages: &["clang", "cpio", "g++-riscv64-linux-gnu", "qemu-system-misc", "qemu-user"],
        target: "riscv64gc-unknown-linux-gnu",
        architecture: "riscv64",
        release: Some("trixie"),
        flags: &[],
        cross: "riscv64-linux-gnu",
        linker: "lib/ld-linux-riscv64-lp64d.so.1",
        programs: &["trace"],
        qemu: &["-M", "virt"],
        console: "ttyS0",
        tests: &RISCV_TESTS,
    },
    Machine {
        name: "powerpc64le",
        processor: "ppc64le",
        packages: &["clang", "cpio", "g++-powerpc64le-linux-gnu", "qemu-system-ppc", "qemu-user"],
        target: "powerpc64le-unknown-linux-gnu",
        architecture: "ppc64el",
        // Debian 12's kernel has pages of 64 KiB.
        release: Some("trixie"),
        // Functions have one entry then.
        flags: &["-mcpu=power10"],
        cross: "powerpc64le-linux-gnu",
        linker: "lib64/ld64.so.2",
        programs: &["trace"],
        qemu: &["-M", "pseries", "-cpu", "power10"],
        console: "hvc0",
        tests: &[
            "attach::p",
            "attach::copied-stacks",
            "attach::nobody-is-interrupted",
            "attach::stripped-throw",
            "attach::throw",
            "build::plain.c/clang/pg/O2",
            "build::plain.c/gcc/patchable-2/O2",
            "build::plain.c/gcc/pg-8/",
            "build::throw.cpp/g++/pg/",
            "program::confined-",
            "program::copied-stacks",
            "program::exceptions",
        ],
    },
];

/// What programs are linked with, besides the dynamic linker.
const LIBRARIES: [&str; 6] =
    ["libc.so.6", "libm.so.6", "libgcc_s.so.1", "libstdc++.so.6", "libpthread.so.0", "libdl.so.2"];

/// A crate that needs nothing but the standard library.
const EMPTY: &str = r#"
[package]
name = "empty"
edition = "2024"
[lib]
path = "empty.rs"
[workspace]
"#;

impl Machine {
    /// Where the cross compilers' C library is.
    fn root(&self) -> PathBuf {
        Path::new("/usr").join(self.cross)
    }

    /// A compiler for it, such as `gcc`.
    fn compiler(&self, name: &str) -> String {
        format!("{}-{name}", self.cross)
    }

    /// Debian's Rust compiler with a standard library for it, which is built where Debian's release has none.
    fn rust(&self) -> Result<PathBuf> {
        if self.release.is_none() {
            return rust::compiler(&[format!("libstd-rust-web-dev:{}", self.architecture)]);
        }
        let compiler = rust::compiler(&[rust::SOURCE.to_owned()])?;
        let said = Command::new(&compiler).args(["--print", "sysroot"]).output()?.stdout;
        let all = Path::new(String::from_utf8(said)?.trim()).join("lib/rustlib").join(self.target);
        if !all.is_dir() {
            self.build_library(&compiler, &all)?;
        }
        Ok(compiler)
    }

    /// Builds the standard library from its source, and puts it where the compiler looks for it: that of the agent is called without cargo.
    fn build_library(&self, compiler: &Path, folder: &Path) -> Result<()> {
        let room = tempfile::tempdir_in(files::workspace().join("target"))?;
        files::write(&room.path().join("Cargo.toml"), EMPTY.as_bytes())?;
        files::write(&room.path().join("empty.rs"), b"#![no_std]\n")?;
        let mut cargo = Command::new(env!("CARGO"));
        cargo.args([
            "build",
            "--quiet",
            "--release",
            "-Zbuild-std=std,test",
            "--target",
            self.target,
        ]);
        cargo.current_dir(room.path()).env("RUSTC", compiler).env("RUSTC_BOOTSTRAP", "1");
        // The agent is optimized as a whole, the library's code included.
        cargo.env("CARGO_TARGET_DIR", room.path().join("target"));
        cargo.env("RUSTFLAGS", "-Cembed-bitcode=yes");
        succeed(&mut cargo)?;
        let new = room.path().join("new/lib");
        files::make_folder(&new)?;
        let built = room.path().join("target").join(self.target).join("release/deps");
        for file in files::list(&built)? {
            let is_library = file.extension().is_some_and(|extension| extension == "rlib");
            let Some(name) = file.file_name().filter(|_| is_library) else { continue };
            if !name.to_string_lossy().starts_with("libempty") {
                files::rename(&file, &new.join(name))?;
            }
        }
        files::rename(&room.path().join("new"), folder)
    }

    /// Cargo, which builds for it into this folder.
    fn cargo(&self, target: &Path) -> Result<Command> {
        let mut cargo = Command::new(env!("CARGO"));
        cargo.current_dir(files::workspace()).env("CARGO_TARGET_DIR", target);
        cargo.env("RUSTC", self.rust()?).env_remove("RUSTFLAGS");
        cargo.env("CARGO_PROFILE_DEV_DEBUG", "false").env("CARGO_BUILD_TARGET", self.target);
        let target_name = self.target.to_uppercase().replace('-', "_");
        cargo.env(format!("CARGO_TARGET_{target_name}_LINKER"), self.compiler("gcc"));
        Ok(cargo)
    }

    /// A program by the user-mode emulation.
    fn emulated(&self, program: &Path) -> Command {
        let mut emulator = Command::new(format!("qemu-{}", self.processor));
        emulator.arg("-L").arg(self.root()).arg(program);
        emulator
    }
}

const TESTS: [&str; 23] = [
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
    "probes::firsts",
    "probes::registers",
    "probes::attach::guarded",
    "probes::own::exceptions",
];

const RISCV_TESTS: [&str; 4] =
    ["attach::patterns", "attach::copied-stacks", "attach::throw", "program::exceptions"];

/// What is asked for.
struct Request {
    machine: &'static Machine,
    tests: Vec<String>,
    is_release: bool,
    is_counting: bool,
    minutes: u64,
}

/// Runs the chore: `false` when a test failed, or the machine didn't end.
pub(crate) fn run(mut parser: lexopt::Parser) -> Result<bool> {
    let machine = MACHINES.first().ok_or("there's no machine")?;
    let mut request =
        Request { machine, tests: Vec::new(), is_release: false, is_counting: false, minutes: 120 };
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Value(test) => request.tests.push(test.string()?),
            Arg::Long("machine") => {
                let name = parser.value()?.string()?;
                let found = MACHINES.iter().find(|machine| machine.name == name);
                request.machine = found.ok_or_else(|| format!("no machine is called {name}"))?;
            }
            Arg::Long("release") => request.is_release = true,
            Arg::Long("counting") => request.is_counting = true,
            Arg::Long("minutes") => request.minutes = parser.value()?.parse()?,
            Arg::Short('h') | Arg::Long("help") => {
                print!("{USAGE}\nMachines:\n");
                for machine in MACHINES {
                    println!("  {}", machine.name);
                }
                return Ok(true);
            }
            other => return Err(other.unexpected().into()),
        }
    }
    let is_whole = request.tests.is_empty();
    if is_whole {
        request.tests = request.machine.tests.iter().map(|test| (*test).to_owned()).collect();
    }
    let machine = request.machine;
    apt::install(&apt::missing(machine.packages).unwrap_or_default())?;
    let room = files::workspace().join("target/outside").join(machine.name);
    files::make_folder(&room.join("programs"))?;
    let built = Built::new(machine, &room, request.is_release, is_whole)?;
    if !check_units(machine, &built)? {
        return Ok(false);
    }
    compile(machine, &room, &built, &request.tests)?;
    let kernel = kernel(machine)?;
    make_root(machine, &room, &built)?;
    boot(&room, &kernel, &request)
}

/// `mcount` for another processor.
pub(crate) fn mcount(processor: &str) -> Result<PathBuf> {
    let machine = MACHINES.iter().find(|machine| machine.name == processor);
    let machine = machine.ok_or_else(|| format!("no machine is called {processor}"))?;
    apt::install(&apt::missing(machine.packages).unwrap_or_default())?;
    let target = files::workspace().join("target/outside").join(machine.name).join("build");
    succeed(machine.cargo(&target)?.args(["build", "--quiet", "--release", "-p", "mcount-cli"]))?;
    Ok(target.join(machine.target).join("release/mcount"))
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
    fn new(machine: &Machine, room: &Path, is_release: bool, is_whole: bool) -> Result<Self> {
        let target = room.join("build");
        let mut cargo = machine.cargo(&target)?;
        cargo.args(["test", "-p", "mcount-cli"]);
        if is_whole {
            cargo.arg("--lib");
        }
        cargo.args(machine.programs.iter().flat_map(|name| ["--test", name]));
        if is_release {
            cargo.arg("--release");
        }
        let tests = test_programs::build(&mut cargo)?;
        let (units, tests) = tests
            .ok_or("the tests don't build")?
            .into_iter()
            .partition(|one: &TestProgram| one.name.ends_with(": unit"));
        let profile = if is_release { "release" } else { "debug" };
        let mcount = target.join(machine.target).join(profile).join("mcount");
        Ok(Self { tests, units, mcount, scratch: target.join(machine.target).join("tmp") })
    }
}

/// Runs the tests that need no machine: are all well?
fn check_units(machine: &Machine, built: &Built) -> Result<bool> {
    for one in &built.units {
        let mut tests = machine.emulated(&one.program);
        let words = ["processor::", "patch::", "rescue::", "places::", "imports::", "--quiet"];
        if !tests.args(words).current_dir(&one.folder).status()?.success() {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Compiles the programs that the tests want.
fn compile(machine: &Machine, room: &Path, built: &Built, tests: &[String]) -> Result<()> {
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
            let mut emulator = machine.emulated(&one.program);
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
            let each = |(name, words): &(&str, &str)| compile_one(machine, &programs, name, words);
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
fn compile_one(machine: &Machine, programs: &Path, name: &str, words: &str) -> Result<()> {
    let output = programs.join(name);
    let mut words = words.split(' ');
    let compiler = words.next().unwrap_or_default();
    let clang = [compiler, &format!("--target={}", machine.cross)];
    let gcc = [&machine.compiler(compiler)[..]];
    let linker = format!("-Clinker={}", machine.compiler("gcc"));
    let rustc = machine.rust()?.display().to_string();
    let rustc = [&rustc[..], "--target", machine.target, &linker];
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
    if matches!(compiler, "gcc" | "g++") {
        command.args(machine.flags);
    }
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
fn kernel(machine: &Machine) -> Result<PathBuf> {
    let suite = debian::Suite(machine.release.map(str::to_owned));
    let flavour = suite.flavours(machine.architecture)?.first().ok_or("no flavour")?;
    let package = debian::obtain_of(&suite, machine.architecture, flavour, false)?;
    let mut images = files::list(&package.folder.join("boot"))?.into_iter();
    let is_image = |path: &PathBuf| {
        path.file_name().is_some_and(|name| name.to_string_lossy().starts_with("vmlinu"))
    };
    images.find(is_image).ok_or_else(|| format!("{} has no kernel", package.name).into())
}

/// Puts what the machine begins with into `initramfs`.
fn make_root(machine: &Machine, room: &Path, built: &Built) -> Result<()> {
    let whole = room.join("root");
    if whole.is_dir() {
        succeed(Command::new("rm").arg("-r").arg(&whole))?;
    }
    for folder in ["bin", "lib", "lib64", "proc", "sys", "dev", "tmp", "programs"] {
        files::make_folder(&whole.join(folder))?;
    }
    let inside = |path: &Path| whole.join(path.strip_prefix("/").unwrap_or(path));
    files::make_folder(&inside(&built.scratch))?;
    for one in &built.tests {
        files::make_folder(&inside(&one.folder))?;
    }
    for library in LIBRARIES.map(|name| Path::new("lib").join(name)) {
        copy(&machine.root().join(&library), &whole.join(&library))?;
    }
    let (_, linker) = machine.linker.split_once('/').ok_or("the dynamic linker has no folder")?;
    copy(&machine.root().join("lib").join(linker), &whole.join(machine.linker))?;
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
        succeed(Command::new(machine.compiler("strip")).arg("-o").arg(to).arg(from))?;
    }
    let source = room.join("init.c");
    files::write(&source, include_bytes!("outside/init.c"))?;
    let mut compiler = Command::new(machine.compiler("gcc"));
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
    qemu.arg(format!("{}m", request.minutes));
    qemu.arg(format!("qemu-system-{}", request.machine.processor));
    qemu.args(request.machine.qemu);
    let processors: &[&str] = if request.is_counting {
        &["-icount", "shift=0,sleep=off", "-smp", "1"]
    } else {
        &["-accel", "tcg,thread=multi", "-smp", "4"]
    };
    qemu.args(processors).args(["-m", "4096"]);
    qemu.args(["-nographic", "-no-reboot", "-nic", "none", "-kernel"]).arg(kernel);
    qemu.arg("-initrd").arg(room.join("initramfs"));
    let (tests, console) = (request.tests.join(" "), request.machine.console);
    qemu.arg("-append").arg(format!("console={console} quiet panic=-1 rdinit=/init -- {tests}"));
    println!("the machine's console is {}", log.display());
    let status = qemu.stdin(Stdio::null()).stdout(files::create(&log)?).status()?;
    let shown = String::from_utf8_lossy(&files::read(&log)?).into_owned();
    print!("{shown}");
    let is_well = |test: &String| has_passed(&shown, test);
    Ok(status.success() && shown.contains("outside: END") && request.tests.iter().all(is_well))
}

/// Does the console say that a test passed with this in its name, and that none failed?
fn has_passed(console: &str, test: &str) -> bool {
    let Some((before, _)) = console.split_once(&format!("outside: {test}: 0")) else {
        return false;
    };
    // The programs of tests succeed if they have none of that name.
    let of_it = before.rsplit("outside: ").next().unwrap_or_default();
    of_it.contains(" passed;")
        && of_it.matches(" passed;").count() != of_it.matches(" 0 passed;").count()
}

/// Runs a command that has to succeed.
fn succeed(command: &mut Command) -> Result<()> {
    let status = command.status()?;
    if status.success() { Ok(()) } else { Err(format!("{command:?}: {status}").into()) }
}

#[cfg(test)]
mod tests {
    use super::has_passed;

    #[test]
    fn a_test_that_was_not_run_has_not_passed() {
        let result = |passed| format!("test result: ok. {passed} passed; 0 failed;\n");
        let [some, none] = [result(2), result(0)];
        let console = format!(
            "boot\n{none}{some}outside: a: 0\n{none}outside: b: 0\n{some}outside: c: 101\noutside: d: 0\n{}outside: e: 0\n",
            result(10)
        );
        let passed = ["a", "b", "c", "d", "e", "f"].map(|test| has_passed(&console, test));
        assert_eq!(passed, [true, false, false, false, true, false]);
    }
}
