//! The row `live`: what tracing a running program costs, a call, beside uftrace, `XRay` and funtrace.
//!
//! A program times five million calls of an empty function itself, so that starting up costs nothing here. All sides run
//! in turns, and write to memory. The result is a table in `docs/evidence.md`, and below it one of real programs
//! ([`super::idle`]).

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Options, funtrace, idle};
use crate::{Result, document, files};

/// Calls in a run.
const CALLS: u64 = 5_000_000;

/// Where traces are written: a file system in memory.
const MEMORY: &str = "/dev/shm";

const BEGIN: &str = "<!-- begin: cargo lab bench live -->\n";
const END: &str = "<!-- end -->\n";

/// One way to run the program.
struct Side {
    label: &'static str,
    compiler: &'static str,
    flags: &'static [&'static str],
    /// What stands before the program; `{trace}` is a place in memory.
    before: &'static [&'static str],
    variables: &'static [(&'static str, &'static str)],
}

const PATCHABLE: &[&str] = &["-fpatchable-function-entry=5"];

const fn side(
    label: &'static str,
    flags: &'static [&'static str],
    before: &'static [&'static str],
) -> Side {
    Side { label, compiler: "gcc", flags, before, variables: &[] }
}

const XRAY: &[&str] = &["-fxray-instrument", "-fxray-instruction-threshold=1"];

const FDR: &[(&str, &str)] = &[
    ("XRAY_OPTIONS", "patch_premain=true xray_mode=xray-fdr xray_logfile_base={trace}"),
    ("XRAY_FDR_OPTIONS", "buffer_size=16777216 buffer_max=100"),
];
const BASIC: &[(&str, &str)] =
    &[("XRAY_OPTIONS", "patch_premain=true xray_mode=xray-basic xray_logfile_base={trace}")];

/// The compiler of a program with funtrace's run time in it.
const FUNTRACE: &str = "funtrace";

/// As much as our ring has: 2^24 bytes.
const RING: &[(&str, &str)] = &[("FUNTRACE_LOG_BUF_SIZE", "24")];

/// The function has no hook, and eleven bytes.
const LONGER: &[&str] = &["-DLONGER"];

/// It calls a function of the C library.
const LIBRARY: &[&str] = &["-DLIBRARY", "-fno-builtin"];

const SIDES: &[Side] = &[
    side("no hooks", &[], &[]),
    side("hooks, not traced", PATCHABLE, &[]),
    side(
        "traced, nothing armed",
        PATCHABLE,
        &["{mcount}", "trace", "-o", "{trace}", "--filter", "nobody", "--"],
    ),
    side("mcount trace", PATCHABLE, &["{mcount}", "trace", "-o", "{trace}", "--"]),
    side(
        "mcount trace --ring 16M",
        PATCHABLE,
        &["{mcount}", "trace", "-o", "{trace}", "--ring", "16M", "--"],
    ),
    side(
        "mcount trace --budget 2%",
        PATCHABLE,
        &["{mcount}", "trace", "-o", "{trace}", "--budget", "2%", "--"],
    ),
    side(
        "mcount trace --entries",
        PATCHABLE,
        &["{mcount}", "trace", "-o", "{trace}", "--entries", "--"],
    ),
    side(
        "mcount trace --clock none",
        PATCHABLE,
        &["{mcount}", "trace", "-o", "{trace}", "--clock", "none", "--"],
    ),
    side(
        "mcount trace --clock none --entries",
        PATCHABLE,
        &["{mcount}", "trace", "-o", "{trace}", "--clock", "none", "--entries", "--"],
    ),
    side(
        "mcount trace, -pg -mfentry",
        &["-pg", "-mfentry"],
        &["{mcount}", "trace", "-o", "{trace}", "--"],
    ),
    side("mcount trace, -pg", &["-pg"], &["{mcount}", "trace", "-o", "{trace}", "--"]),
    side(
        "mcount trace, a function of eleven bytes with a hook",
        &["-DLONGER", "-fpatchable-function-entry=5"],
        &["{mcount}", "trace", "-o", "{trace}", "--"],
    ),
    side(
        "mcount trace --probe, the same function without a hook",
        LONGER,
        &["{mcount}", "trace", "-o", "{trace}", "--probe", "empty", "--"],
    ),
    side("a pair of uprobes, the same function", LONGER, &["sh", "{lab}/uprobes.sh"]),
    side(
        "frida-gum's Interceptor with empty callbacks in C, the same function",
        LONGER,
        &["python3", "{lab}/frida.py"],
    ),
    side("a library's function, not traced", LIBRARY, &[]),
    side(
        "mcount trace --library-calls",
        LIBRARY,
        &["{mcount}", "trace", "-o", "{trace}", "--library-calls", "free", "--"],
    ),
    side(
        "uftrace record, a library's function",
        &["-pg", "-DLIBRARY", "-fno-builtin"],
        &["uftrace", "record", "-d", "{trace}"],
    ),
    side("uftrace record, -pg", &["-pg"], &["uftrace", "record", "--no-libcall", "-d", "{trace}"]),
    side(
        "uftrace record -P .",
        PATCHABLE,
        &["uftrace", "record", "--no-libcall", "-P", ".", "-d", "{trace}"],
    ),
    Side { label: "XRay, FDR mode", compiler: "clang", flags: XRAY, before: &[], variables: FDR },
    Side {
        label: "XRay, basic mode",
        compiler: "clang",
        flags: XRAY,
        before: &[],
        variables: BASIC,
    },
    Side {
        label: "funtrace, ring of 16M, -pg",
        compiler: FUNTRACE,
        flags: &["-pg", "-mfentry", "-minstrument-return=call"],
        before: &[],
        variables: RING,
    },
    Side {
        label: "funtrace, ring of 16M, -finstrument-functions",
        compiler: FUNTRACE,
        flags: &["-finstrument-functions"],
        before: &[],
        variables: RING,
    },
];

/// What a side measured, run by run, in nanoseconds.
#[derive(Default)]
struct Measured {
    calls: Vec<f64>,
    clocks: Vec<f64>,
    /// Bytes of its trace.
    bytes: u64,
    missing: Option<String>,
}

/// Measures, and prints a table; with `docs`, that goes to `docs/evidence.md`.
pub(crate) fn run(ours: &Path, options: &Options) -> Result<()> {
    let folder = files::target().join("bench/live");
    files::make_folder(&folder)?;
    let mcount = ours.join("mcount");
    let memory = options.memory.as_deref().unwrap_or(Path::new(MEMORY));
    let funtrace = funtrace::fetch(options.funtrace.as_deref(), &folder);
    let runs = options.runs;
    let mut all: Vec<(PathBuf, Measured)> = Vec::new();
    for (number, side) in SIDES.iter().enumerate() {
        let program = folder.join(format!("calls{number}"));
        let missing = compile(side, &program, &funtrace);
        all.push((program, Measured { missing, ..Measured::default() }));
    }
    for round in 0..runs {
        eprintln!("live: round {} of {runs}", round + 1);
        let mut order: Vec<_> = SIDES.iter().zip(&mut all).collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for (side, (program, measured)) in order {
            if measured.missing.is_none() {
                measured.missing = once(side, (&mcount, memory), program, measured)?;
            }
        }
    }
    let text = table(&all) + &idle::table(&mcount, runs);
    println!("{text}");
    if options.docs {
        document::put("docs/evidence.md", (BEGIN, END), &text)?;
    }
    Ok(())
}

/// Makes the program; why that can't be done.
fn compile(
    side: &Side,
    program: &Path,
    funtrace: &std::result::Result<PathBuf, String>,
) -> Option<String> {
    let source = files::workspace().join("benches/live/calls.c");
    if side.compiler == FUNTRACE {
        return match funtrace {
            Ok(folder) => funtrace::compile(folder, side.flags, program, &source),
            Err(why) => Some(why.clone()),
        };
    }
    let mut command = Command::new(side.compiler);
    command.args(["-O2", "-w"]).args(side.flags).arg("-o").arg(program);
    command.arg(source);
    match command.output() {
        Ok(output) if output.status.success() => None,
        Ok(output) => {
            let said = String::from_utf8_lossy(&output.stderr).into_owned();
            Some(said.lines().next().unwrap_or("it doesn't compile").to_owned())
        }
        Err(error) => Some(format!("{}: {error}", side.compiler)),
    }
}

/// Runs it once; why that can't be done.
fn once(
    side: &Side,
    (mcount, memory): (&Path, &Path),
    program: &Path,
    measured: &mut Measured,
) -> Result<Option<String>> {
    let room = tempfile::Builder::new().prefix("mcount-bench-").tempdir_in(memory)?;
    let trace = room.path().join("trace");
    let fill = |text: &str| {
        let text = text.replace("{trace}", &trace.to_string_lossy());
        let lab = files::workspace().join("lab/src/bench");
        let text = text.replace("{lab}", &lab.to_string_lossy());
        text.replace("{mcount}", &mcount.to_string_lossy())
    };
    let mut words: Vec<String> = side.before.iter().map(|word| fill(word)).collect();
    words.push(program.to_string_lossy().into_owned());
    words.push(CALLS.to_string());
    let Some((first, rest)) = words.split_first() else { return Ok(None) };
    let mut command = Command::new(first);
    command.args(rest).current_dir(room.path());
    for (name, value) in side.variables {
        command.env(name, fill(value));
    }
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => return Ok(Some(format!("{first}: {error}"))),
    };
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let words: Vec<&str> = said.split_whitespace().collect();
    let [_, call, _, clock] = words.as_slice() else {
        return Ok(Some(format!("it printed {said:?}")));
    };
    measured.calls.push(call.parse()?);
    measured.clocks.push(clock.parse()?);
    measured.bytes = size_of_folder(room.path())?;
    Ok(None)
}

/// Bytes of all files below `folder`, as far as they take room.
fn size_of_folder(folder: &Path) -> Result<u64> {
    use std::os::unix::fs::MetadataExt as _;
    let mut bytes = 0;
    for entry in std::fs::read_dir(folder)? {
        let entry = entry?;
        let found = entry.metadata()?;
        bytes += if found.is_dir() {
            size_of_folder(&entry.path())?
        } else {
            found.len().min(found.blocks() * 512)
        };
    }
    Ok(bytes)
}

fn median(values: &[f64]) -> f64 {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted.get(sorted.len() / 2).copied().unwrap_or(0.0)
}

/// The table, with what is beyond the program without hooks, and how that compares with ours.
fn table(all: &[(PathBuf, Measured)]) -> String {
    let find = |label: &str| {
        let place = SIDES.iter().position(|side| side.label == label);
        place.and_then(|place| all.get(place)).map_or(0.0, |(_, found)| median(&found.calls))
    };
    let (plain, ours) = (find("no hooks"), find("mcount trace"));
    let clock = all.first().map_or(0.0, |(_, found)| median(&found.clocks));
    let mut text = format!(
        "One reading of the clock takes {clock:.1} ns on this machine, and most rows need two of them.\n\n\
         | program | ns a call | added | without two readings | against `mcount trace` | bytes a call |\n\
         |---|--:|--:|--:|--:|--:|\n"
    );
    for (side, (_, measured)) in SIDES.iter().zip(all) {
        if let Some(why) = &measured.missing {
            let _ = writeln!(text, "| {} | not measured: {why} | | | | |", side.label);
            continue;
        }
        let call = median(&measured.calls);
        let added = call - plain;
        let beyond =
            if added > 2.0 * clock { format!("{:.1}", added - 2.0 * clock) } else { String::new() };
        let ratio =
            if added > 2.0 { format!("{:.2}×", added / (ours - plain)) } else { String::new() };
        // A tenth of the calls comes before those that are timed. In tenths of a byte.
        let tenths = measured.bytes * 100 / (CALLS * 11);
        let bytes =
            if tenths > 10 { format!("{}.{}", tenths / 10, tenths % 10) } else { String::new() };
        let _ = writeln!(
            text,
            "| {} | {call:.2} | {added:.2} | {beyond} | {ratio} | {bytes} |",
            side.label
        );
    }
    text
}
