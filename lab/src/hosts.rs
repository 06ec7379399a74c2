//! Builds the tests for hosts of another word size or byte order, and runs them there: natively, or by
//! QEMU's user-mode emulation.
//!
//! No `rustup` target is needed: the standard library is built from source where it is not installed,
//! and on Debian a compiler that comes with its source is fetched. Nothing is installed; packages and
//! what is built stay in `target/hosts` and are used again. Tests are linked statically, so that they need
//! no libraries of their host.

use std::collections::BTreeMap;
use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use lexopt::{Arg, ValueExt as _};

use crate::test_programs::{self, TestProgram};
use crate::{Result, files, rust};

const USAGE: &str = "\
usage: cargo lab hosts [OPTION…] [TARGET…]

Without TARGET, all of: i686-unknown-linux-gnu, powerpc-unknown-linux-gnu, armv7-unknown-linux-gnueabihf,
s390x-unknown-linux-gnu. The tests of the programs run on i686 only, where they need no emulator.

  --test NAME   only these tests, such as costs
";

/// A host that this machine can stand in for.
struct Host {
    target: &'static str,
    linker: &'static str,
    /// What runs its programs, unless this machine does.
    emulator: Option<&'static str>,
}

const HOSTS: &[Host] = &[
    Host { target: "i686-unknown-linux-gnu", linker: "i686-linux-gnu-gcc", emulator: None },
    Host {
        target: "powerpc-unknown-linux-gnu",
        linker: "powerpc-linux-gnu-gcc",
        emulator: Some("qemu-ppc"),
    },
    Host {
        target: "armv7-unknown-linux-gnueabihf",
        linker: "arm-linux-gnueabihf-gcc",
        emulator: Some("qemu-arm"),
    },
    Host {
        target: "s390x-unknown-linux-gnu",
        linker: "s390x-linux-gnu-gcc",
        emulator: Some("qemu-s390x"),
    },
];

/// Seconds that a program of tests may run.
const LIMIT: &str = "5400";

/// How much longer an emulator may take than a processor.
const EMULATED: &str = "30";

/// Runs the chore: `false` when a test failed or did not end.
pub(crate) fn run(mut parser: lexopt::Parser) -> Result<bool> {
    let (mut hosts, mut tests): (Vec<&Host>, Vec<String>) = (Vec::new(), Vec::new());
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Value(target) => {
                let host = HOSTS.iter().find(|host| *host.target == *target);
                hosts.push(host.ok_or_else(|| format!("{}\n\n{USAGE}", target.display()))?);
            }
            Arg::Long("test") => tests.push(parser.value()?.string()?),
            Arg::Short('h') | Arg::Long("help") => {
                print!("{USAGE}");
                return Ok(true);
            }
            other => return Err(other.unexpected().into()),
        }
    }
    if hosts.is_empty() {
        hosts.extend(HOSTS);
    }
    let mut is_well = true;
    let mut rows: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for (column, host) in hosts.iter().enumerate() {
        for test in build(host, &tests)? {
            let (passed, cell) = execute(host, &test)?;
            eprintln!("{}: {}: {cell}", host.target, test.name);
            is_well &= passed;
            let row = rows.entry(test.name).or_default();
            row.resize(column, "not run".to_owned());
            row.push(cell);
        }
    }
    let titles: Vec<&str> = hosts.iter().map(|host| host.target).collect();
    println!("| tests | {} |\n|---|{}", titles.join(" | "), "---|".repeat(hosts.len()));
    for (name, mut cells) in rows {
        cells.resize(hosts.len(), "not run".to_owned());
        println!("| {name} | {} |", cells.join(" | "));
    }
    Ok(is_well)
}

/// Where packages, what is built and what tests print stay.
fn room() -> PathBuf {
    files::workspace().join("target/hosts")
}

/// Cargo, about to build for `target` with a compiler that can.
fn cargo(target: &str) -> Result<Command> {
    let output = Command::new("rustc").args(["--print", "sysroot"]).output()?;
    let installed = PathBuf::from(String::from_utf8(output.stdout)?.trim()).join("lib/rustlib");
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["test", "--target", target]);
    cargo.current_dir(files::workspace()).env("CARGO_TARGET_DIR", room().join("build"));
    if installed.join(target).is_dir() {
        return Ok(cargo);
    }
    cargo.arg("-Zbuild-std").env("RUSTC_BOOTSTRAP", "1");
    if !installed.join("src/rust/library").is_dir() {
        cargo.env("RUSTC", rust::compiler(&[rust::SOURCE.to_owned()])?);
    }
    Ok(cargo)
}

/// Builds the tests for `host`: all, or those in `only`.
fn build(host: &Host, only: &[String]) -> Result<Vec<TestProgram>> {
    let mut cargo = cargo(host.target)?;
    let linker = format!("CARGO_TARGET_{}_LINKER", host.target.replace('-', "_").to_uppercase());
    cargo.env(linker, host.linker).env("RUSTFLAGS", "-C target-feature=+crt-static");
    cargo.args(["-p", "mcount"]);
    if host.emulator.is_none() {
        let tested =
            ["mcount-store", "mcount-symbols", "mcount-tracer", "mcount-view", "mcount-cli"];
        cargo.args(tested.iter().flat_map(|name| ["-p", name]));
    }
    cargo.args(only.iter().flat_map(|name| ["--test", name]));
    let built = test_programs::build(&mut cargo)?;
    built.ok_or_else(|| format!("the tests do not build for {}", host.target).into())
}

/// Whether `test` passes, and what is said of it.
fn execute(host: &Host, test: &TestProgram) -> Result<(bool, String)> {
    let mut command = Command::new("timeout");
    command.arg(LIMIT).current_dir(&test.folder);
    if let Some(emulator) = host.emulator {
        command.arg(emulator).env("MCOUNT_TIME_FACTOR", EMULATED);
    }
    let begin = Instant::now();
    let output = command.arg(&test.program).output()?;
    let seconds = begin.elapsed().as_secs_f32();
    let log = format!("{}-{}.log", host.target, test.name.replace(": ", "-").replace(' ', "-"));
    let log = room().join(log);
    files::write(&log, &[output.stdout.as_slice(), &output.stderr].concat())?;
    let counts = test_programs::counts(&String::from_utf8_lossy(&output.stdout))
        .unwrap_or_else(|| format!("did not end: {}", output.status));
    if !output.status.success() {
        eprintln!("see {}", log.display());
    }
    Ok((output.status.success(), format!("{counts}, {seconds:.0} s")))
}
