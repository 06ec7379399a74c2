//! What `mcount stats` and `mcount diff` say of real programs, held against something else: the numbers of `stats` against a script
//! that knows only the calls (`tests/trace/count.py`), and `diff` against what was put into lua, and what wasn't.

use std::collections::HashMap;
use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use crate::sources::{shell, unpack};
use crate::{Result, files};

const SCRIPT: &str = include_str!("../../tests/trace/count.py");

/// A program, how it's built, and what is traced of it; `{trace}` stands before the program.
struct Subject {
    name: &'static str,
    package: &'static str,
    make: &'static str,
    work: &'static str,
}

const SUBJECTS: &[Subject] = &[
    Subject {
        name: "lua",
        package: "lua5.4",
        make: "make -s -C src linux CC='gcc -std=gnu99 -fpatchable-function-entry=5'",
        work: "{trace} src/lua -e 'local t = {} for i = 1, 1e4 do t[i] = (i * 7919) % 10007 end table.sort(t) \
               local c = coroutine.wrap(function() for i = 1, 3e3 do coroutine.yield(i) end end) \
               for i = 1, 3e3 do c() pcall(error, i) end'",
    },
    Subject {
        name: "sqlite",
        package: "sqlite3",
        make: "./configure -q >/dev/null && make -s sqlite3.c shell.c >/dev/null && \
               gcc -O1 -fpatchable-function-entry=5 -I. shell.c sqlite3.c -o shell -lpthread -ldl -lm",
        work: "{trace} ./shell :memory: 'create table t(a, b); with recursive n(i) as (select 1 union all select i + 1 \
               from n where i < 2000) insert into t select i, i * 7919 % 1009 from n; create index j on t(b); \
               select count(*) from t x join t y using (b);'",
    },
    Subject {
        name: "zstd, 4 threads",
        package: "libzstd",
        make: "make -s -C programs zstd HAVE_ZLIB=0 HAVE_LZMA=0 HAVE_LZ4=0 CFLAGS='-O2 -fpatchable-function-entry=5'",
        work: "cat lib/*/*.c lib/*/*.c >in && {trace} programs/zstd -q -T4 -B512K -5 -c in >out",
    },
];

/// The calls of a trace that the script holds in memory.
const MOST: &str = "12M";

/// Compares the numbers of `stats`: `false` when one is wrong.
pub(crate) fn numbers(mcount: &Path, root: &Path) -> Result<bool> {
    let mut is_well = true;
    for subject in SUBJECTS {
        let folder = root.join("numbers");
        unpack(subject.package, root, &folder)?;
        shell(&folder, subject.make)?;
        let trace = format!("'{}' trace --max-size {MOST} -o t.mcount --", mcount.display());
        shell(&folder, &subject.work.replace("{trace}", &trace))?;
        files::write(&folder.join("count.py"), SCRIPT.as_bytes())?;
        let mcount = mcount.display();
        shell(&folder, &format!("'{mcount}' replay --format jsonl t.mcount >calls.jsonl"))?;
        let calls = shell(&folder, "wc -l <calls.jsonl")?;
        for by in ["function", "module", "thread", "caller"] {
            let stats = format!("'{mcount}' stats --format jsonl --by {by} t.mcount >stats.jsonl");
            let found =
                shell(&folder, &format!("{stats} && wc -l <stats.jsonl && python3 count.py {by}"))?;
            let (rows, said) = found.split_once('\n').unwrap_or_default();
            let is_right = said == "missing [] failed 0\n";
            is_well &= is_right;
            let said = if is_right { "as the script has them" } else { said };
            println!("{}: {} calls by {by}: {rows} rows: {said}", subject.name, calls.trim());
        }
    }
    Ok(is_well)
}

/// The function that is made slower, how often it's called in a trace, and what calls it.
const FUNCTION: &str = "str_gsub";
/// It works for a second, with pauses: other work on the machine, which may go on for tenths of a second, is then seldom in the
/// whole of a trace.
const WORK: &str = "local s = string.rep(\"ab \", 100) for burst = 1, 20 do \
                    for i = 1, 150 do s:gsub(\"a\", \"c\") end os.execute(\"sleep 0.05\") end print(os.clock())";
/// It begins with a loop of so many rounds.
const MAKE: &str = "sed -i 's/^static int str_gsub (lua_State \\*L) {/&\\n  for (volatile int rounds = 0; rounds < ROUNDS; \
                    rounds++) ;/' src/lstrlib.c && grep -q ROUNDS src/lstrlib.c";
const ROUNDS: usize = 10;
const TRACES: usize = 5;
/// By how much it's made slower.
const PART: f64 = 0.05;

/// Makes one function of lua slower by 5 %, and compares five traces a side, ten times; and two equal builds. `false` when a
/// difference isn't found, or one that isn't there is.
pub(crate) fn slow_down(mcount: &Path, root: &Path) -> Result<bool> {
    let folder = root.join("slow-down");
    unpack("lua5.4", root, &folder)?;
    shell(&folder, MAKE)?;
    // Names of one length: where the stack begins depends on it, and so does how lua's tables are filled.
    build(&folder, "old", 0)?;
    build(&folder, "two", 0)?;
    build(&folder, "far", 1000)?;
    let mut recorder = Recorder::default();
    let (old, probe) = own(&folder, mcount, "far", &mut recorder)?;
    let rounds = (PART * old / ((probe - old) / 1000.0)).ceil();
    #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "some dozens")]
    build(&folder, "new", rounds as usize)?;
    println!(
        "{FUNCTION}: {old:.0} ns a call, made {:.1} % slower",
        rounds * (probe - old) / 10.0 / old
    );
    let (mut found, mut wrong) = (0, 0);
    for round in 1..=ROUNDS {
        let (is_found, said) = compare(&folder, mcount, "new", &[], &mut recorder)?;
        let (is_wrong, equal) = compare(&folder, mcount, "two", &[], &mut recorder)?;
        found += usize::from(is_found && said.contains(FUNCTION));
        wrong += usize::from(is_wrong);
        println!("round {round}:\n{said}equal builds:\n{equal}");
        eprintln!("{} s waited for a quiet machine", recorder.waited.as_secs());
    }
    println!("found in {found} of {ROUNDS} rounds; a difference between equal builds in {wrong}");
    Ok(found == ROUNDS && wrong == 0)
}

fn build(folder: &Path, name: &str, rounds: usize) -> Result<()> {
    let make = format!(
        "make -s -C src clean && make -s -C src linux CC='gcc -std=gnu99 -fpatchable-function-entry=5 -DROUNDS={rounds}' && \
         mkdir {name} && cp src/lua {name}/lua"
    );
    shell(folder, &make).map(drop)
}

/// A recording that took no more than this of the least that any of its build took wasn't disturbed.
const QUIET: f64 = 1.1;

/// Of a trace, so many recordings are made, until one isn't disturbed; the processors have turns.
const TRIES: usize = 8;

/// For so long, altogether, recordings are made again until one isn't disturbed, however many that takes.
const PATIENCE: Duration = Duration::from_secs(3600);

/// What recordings took of a processor.
#[derive(Default)]
struct Recorder {
    /// The least, by build, in seconds.
    least: HashMap<String, f64>,
    /// How long was waited for a quiet machine.
    waited: Duration,
}

impl Recorder {
    /// Records a trace. Who else works on the processor's core can't be seen, but a recording that took longer than others
    /// can: it's made again.
    fn trace(&mut self, folder: &Path, mcount: &Path, build: &str, output: &str) -> Result<()> {
        let mut best = f64::INFINITY;
        for number in 0.. {
            let begin = Instant::now();
            let took = record(folder, mcount, build, number)?;
            let least = self.least.entry(build.to_owned()).or_insert(took);
            *least = least.min(took);
            if took < best {
                best = took;
                std::fs::rename(folder.join("try.mcount"), folder.join(output))?;
            }
            if best <= QUIET * *least || (number + 1 >= TRIES && self.waited > PATIENCE) {
                break;
            }
            self.waited += begin.elapsed();
        }
        Ok(())
    }
}

/// Records `try.mcount`: the seconds of a processor that the program took. Where the kernel puts program and stack changes a
/// function's time by a hundredth, so it's kept from choosing. What else runs on that processor has to wait, if we may say so.
fn record(folder: &Path, mcount: &Path, build: &str, number: usize) -> Result<f64> {
    let mcount = mcount.display();
    let line = format!(
        "first=; chrt -f 1 true 2>/dev/null && first='chrt -f 1'; \
         $first taskset -c $((({number} + 1) * ($(nproc) - 1) % $(nproc))) setarch -R '{mcount}' trace -o try.mcount -- \
         {build}/lua -e '{WORK}'"
    );
    Ok(shell(folder, &line)?.trim().parse()?)
}

/// What a call of the function takes itself in two builds, in nanoseconds, as `diff` has it.
fn own(folder: &Path, mcount: &Path, build: &str, recorder: &mut Recorder) -> Result<(f64, f64)> {
    let said = compare(folder, mcount, build, &["--all", "--format", "jsonl"], recorder)?.1;
    let name = format!("\"function\":\"{FUNCTION}\"");
    let line =
        said.lines().find(|line| line.contains(&name)).ok_or("the function wasn't called")?;
    let number = |key: &str| -> Result<f64> {
        let (_, rest) = line.split_once(&format!("\"{key}\":")).ok_or("no such field")?;
        Ok(rest.split([',', '}']).next().unwrap_or_default().parse()?)
    };
    Ok((number("old_ns")?, number("new_ns")?))
}

/// Compares traces of two builds, recorded in turns: whether there's a difference, and what is said.
fn compare(
    folder: &Path,
    mcount: &Path,
    build: &str,
    options: &[&str],
    recorder: &mut Recorder,
) -> Result<(bool, String)> {
    let (mut olds, mut news) = (Vec::new(), Vec::new());
    for number in 0..TRACES {
        for (name, of, traces) in [("old", "old", &mut olds), ("new", build, &mut news)] {
            let output = format!("{name}{number}.mcount");
            recorder.trace(folder, mcount, of, &output)?;
            traces.push(output);
        }
    }
    let output = Command::new(mcount)
        .args(["diff", &olds.join(","), &news.join(",")])
        .args(options)
        .current_dir(folder)
        .output()?;
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    match output.status.code() {
        Some(code @ (0 | 1)) => Ok((code == 1, said)),
        _ => Err(String::from_utf8_lossy(&output.stderr).into_owned().into()),
    }
}
