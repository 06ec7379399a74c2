//! `cargo lab fleet`: the fleet page of the book, from end to end. Processes on hosts of their own names are sampled, half of them with
//! a newer build in which one function is slower. Then DuckDB and Spark, with two workers of which one is killed, are asked what got slower.

use crate::{Result, files, programs};
use lexopt::{Arg, ValueExt as _};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

const USAGE: &str = "\
usage: cargo lab fleet [--mcount PATH] [--hosts N] [--python PATH]

  --mcount PATH   the program to test (default: target/release/mcount, built now)
  --hosts N       how many hosts there are (default: 200)
  --python PATH   a Python that has the packages duckdb and pyspark (default: python3); Spark takes Java
";

const SERVICE: &str = include_str!("fleet/service.c");
const ASK: &str = include_str!("fleet/ask.py");

/// So many are sampled at the same time.
const AT_ONCE: usize = 4;

pub(crate) fn run(mut parser: lexopt::Parser) -> Result<bool> {
    let (mut mcount, mut hosts, mut python) = (None, 200_usize, PathBuf::from("python3"));
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Long("mcount") => mcount = Some(PathBuf::from(parser.value()?)),
            Arg::Long("hosts") => hosts = parser.value()?.parse()?,
            Arg::Long("python") => python = PathBuf::from(parser.value()?.string()?),
            Arg::Short('h') | Arg::Long("help") => {
                print!("{USAGE}");
                return Ok(true);
            }
            other => return Err(other.unexpected().into()),
        }
    }
    let mcount = programs::mcount(mcount)?;
    let folder = tempfile::tempdir()?;
    let builds = build(folder.path())?;
    let samples = folder.path().join("fleet");
    let all: Vec<usize> = (0..hosts).collect();
    for some in all.chunks(AT_ONCE) {
        let started = some.iter().map(|host| {
            let [old, new] = &builds;
            let program = if host % 2 == 0 { old } else { new };
            sample(&mcount, program, &samples, &format!("web-{host:03}"))
        });
        let started: Vec<_> = started.collect::<Result<_>>()?;
        for (mut service, mut sampler) in started {
            let status = sampler.wait()?;
            service.kill()?;
            service.wait()?;
            if !status.success() {
                return Err(format!("mcount sample: {status}").into());
            }
        }
    }
    println!("{hosts} hosts are sampled");
    ask(&python, &samples, &builds)
}

/// The old build and the new one.
fn build(folder: &Path) -> Result<[PathBuf; 2]> {
    let source = folder.join("service.c");
    files::write(&source, SERVICE.as_bytes())?;
    let build = |name: &str, slow: &str| -> Result<PathBuf> {
        let place = folder.join(name);
        std::fs::create_dir_all(&place)?;
        let program = place.join("service");
        let mut gcc = Command::new("gcc");
        gcc.args(["-O1", "-fpatchable-function-entry=5", "-Wl,--build-id", slow, "-o"]);
        let status = gcc.arg(&program).arg(&source).status()?;
        if status.success() { Ok(program) } else { Err(format!("gcc: {status}").into()) }
    };
    Ok([build("old", "-DSLOW=0")?, build("new", "-DSLOW=1")?])
}

/// Samples a process of the program on a host of this name.
fn sample(mcount: &Path, program: &Path, samples: &Path, host: &str) -> Result<(Child, Child)> {
    let folder = samples.join(host);
    std::fs::create_dir_all(&folder)?;
    let service = Command::new(program).stdout(Stdio::null()).spawn()?;
    let mut command = Command::new("unshare");
    command.args(["--uts", "sh", "-c", "hostname $0 && exec \"$@\"", host]).arg(mcount);
    command.args(["sample", "--cost", "20%", "--duration", "1s", "--output"]);
    command.arg(folder.join("service.parquet")).arg(service.id().to_string());
    Ok((service, command.stderr(Stdio::null()).spawn()?))
}

/// The build ID of a program, in hexadecimal digits.
fn build_id(program: &Path) -> Result<String> {
    let output = Command::new("readelf").arg("-n").arg(program).output()?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let id = text.lines().find_map(|line| line.trim().strip_prefix("Build ID: "));
    Ok(id.ok_or("no build ID")?.to_owned())
}

fn ask(python: &Path, samples: &Path, builds: &[PathBuf; 2]) -> Result<bool> {
    let query = |name: &str| -> Result<String> {
        let path = files::workspace().join("examples/fleet").join(name);
        Ok(String::from_utf8(files::read(&path)?)?)
    };
    let [old, new] = builds;
    let slower =
        query("slower.sql")?.replace(":old", &build_id(old)?).replace(":new", &build_id(new)?);
    let hosts = query("hosts.sql")?.replace(":function", "parse");
    let queries =
        json!({ "slower": slower, "hosts": hosts, "rows": "SELECT count(*) FROM samples" });
    let script = samples.with_file_name("ask.py");
    files::write(&script, ASK.as_bytes())?;
    let mut command = Command::new(python);
    let output = command.arg(&script).arg(samples).arg(queries.to_string()).output()?;
    if !output.status.success() {
        return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
    }
    let text = String::from_utf8(output.stdout)?;
    let answers: Value = serde_json::from_str(text.lines().last().unwrap_or_default())?;
    println!("{answers:#}");
    let [duckdb, spark] = ["duckdb", "spark"].map(|name| answers.get(name).cloned());
    let slower = duckdb.as_ref().and_then(|all| all.get("slower")?.as_array().cloned());
    let names: Vec<String> = slower
        .unwrap_or_default()
        .iter()
        .filter_map(|row| Some(row.get(0)?.as_str()?.to_owned()))
        .collect();
    let is_killed =
        answers.get("killed").and_then(Value::as_array).is_some_and(|all| all.len() == 1);
    println!(
        "slower: {}; both agree: {}; a worker was killed: {is_killed}",
        names.join(", "),
        duckdb == spark
    );
    // What calls it takes longer, too, and what it calls is called with greater numbers.
    let is_right = names.iter().all(|name| ["turn", "parse", "handle"].contains(&&**name));
    Ok(is_right && names.iter().any(|name| name == "parse") && duckdb == spark && is_killed)
}
