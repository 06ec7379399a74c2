//! What real programs lose by an agent that has nothing to do: lua and sqlite of Debian's sources, in the row `live`.
//!
//! Each is built without hooks and with them, and runs plain, and with the agent loaded and nothing armed. The time is
//! the processor time that the program says it took, so starting and the recorder aren't in it. A round runs all
//! sides, every other one from the last to the first. What's compared is the two times of one round, and the table has the
//! median of these ratios: what else the machine does takes both sides of a round alike, or makes an outlier.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::sources::{shell, unpack};
use crate::{Result, files};

/// A program, and how it says what time it took.
struct Subject {
    name: &'static str,
    package: &'static str,
    /// Makes `program` in a folder with its sources; `{flags}` are the compiler's.
    make: &'static str,
    program: &'static str,
    input: &'static str,
    time: fn(&str) -> Option<f64>,
}

/// Tables, texts, functions, coroutines and errors; prints its processor time in seconds.
const LUA: &str = r#"
local start, n = os.clock(), 0
for piece = 1, 1000 do
    local t = {}
    for i = 1, 3000 do t[i] = (i * 7919) % 10007 end
    table.sort(t)
    for i = 1, 300 do
        n = n + select(2, pcall(function(x) if x % 2 == 0 then error(x, 0) end return x end, i))
    end
    n = n + #string.rep("ab ", 100):gsub("a", "c")
    local c = coroutine.wrap(function() for i = 1, 300 do coroutine.yield(i) end end)
    for i = 1, 300 do n = n + c() end
end
print(os.clock() - start)
"#;

/// Tables, indexes, joins, sorting and updates in memory; `.timer` prints the processor time of each statement.
const SQL: &str = "
.timer on
CREATE TABLE number(n INTEGER PRIMARY KEY, square INTEGER, word TEXT);
WITH RECURSIVE count(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM count WHERE n < 150000)
INSERT INTO number SELECT n, n * n, printf('%x', n * 7919 % 10007) FROM count;
CREATE INDEX by_word ON number(word, square);
SELECT count(*), sum(square), max(word) FROM number WHERE word LIKE '1%';
SELECT count(*) FROM number a JOIN number b ON a.n = b.square WHERE a.word < b.word;
SELECT sum(s) FROM (SELECT sum(square) OVER (ORDER BY n ROWS 3 PRECEDING) AS s FROM number WHERE n % 5 = 0);
UPDATE number SET word = word || 'x' WHERE n % 3 = 0;
DELETE FROM number WHERE n % 7 = 0;
SELECT count(*), length(group_concat(DISTINCT word)) FROM number;
PRAGMA integrity_check;
";

const SUBJECTS: &[Subject] = &[
    Subject {
        name: "lua",
        package: "lua5.4",
        make: "make -s -C src linux CC='gcc -std=gnu99' MYCFLAGS='{flags}'",
        program: "src/lua",
        input: LUA,
        time: lua_time,
    },
    Subject {
        name: "sqlite",
        package: "sqlite3",
        make: "mkdir -p b && cd b && ../configure -q >/dev/null && make -s sqlite3.c shell.c >/dev/null && \
               gcc -O2 -w {flags} shell.c sqlite3.c -o ../sqlite3 -lpthread -ldl -lm",
        program: "sqlite3",
        input: SQL,
        time: sqlite_time,
    },
];

fn lua_time(printed: &str) -> Option<f64> {
    printed.trim().parse().ok()
}

/// The sum of lines as `Run Time: real 0.001 user 0.000123 sys 0.000000`.
fn sqlite_time(printed: &str) -> Option<f64> {
    let mut sum = 0.0;
    for line in printed.lines().filter_map(|line| line.strip_prefix("Run Time: ")) {
        let words: Vec<&str> = line.split_whitespace().collect();
        let ["real", _, "user", user, "sys", system] = words.as_slice() else { return None };
        sum += user.parse::<f64>().ok()? + system.parse::<f64>().ok()?;
    }
    (sum > 0.0).then_some(sum)
}

/// The sides of a round: without hooks; with hooks; and traced, with nothing armed.
const SIDES: usize = 3;

/// Measures, and gives the table.
pub(super) fn table(mcount: &Path, rounds: usize) -> String {
    let root = files::workspace().join("target/project");
    let mut text = String::from(
        "\nlua and sqlite in the same way, by the processor time that they say they took: the ratio of two times of one round, \
         its median and its quartiles.\n\n\
         | program | no hooks | hooks, not traced | traced, nothing armed | against not traced | against no hooks |\n\
         |---|--:|--:|--:|--:|--:|\n",
    );
    for subject in SUBJECTS {
        match measure(subject, &root, mcount, rounds) {
            Ok(found) => text.push_str(&row(subject.name, &found)),
            Err(error) => {
                let why = error.to_string();
                let why = why.lines().last().unwrap_or_default().replace('|', "/");
                let _ = writeln!(text, "| {} | not measured: {why} | | | | |", subject.name);
            }
        }
    }
    text
}

/// Seconds of each side in each round.
fn measure(
    subject: &Subject,
    root: &Path,
    mcount: &Path,
    rounds: usize,
) -> Result<Vec<[f64; SIDES]>> {
    let plain = build(subject, root, "plain", "")?;
    let hooks = build(subject, root, "hooks", "-fpatchable-function-entry=5")?;
    let folder = tempfile::tempdir()?;
    let input = folder.path().join("input");
    files::write(&input, subject.input.as_bytes())?;
    let mut all = Vec::new();
    for round in 0..rounds {
        eprintln!("live, {}: round {} of {rounds}", subject.name, round + 1);
        let mut times = [0.0; SIDES];
        let mut order: Vec<(usize, &mut f64)> = times.iter_mut().enumerate().collect();
        if round % 2 == 1 {
            order.reverse();
        }
        for (side, time) in order {
            let program = if side == 0 { &plain } else { &hooks };
            let mut command = if side == 2 {
                let mut command = Command::new(mcount);
                command.args(["trace", "--filter", "nobody", "-o", "trace", "--"]).arg(program);
                command
            } else {
                Command::new(program)
            };
            command.current_dir(folder.path()).stdin(files::open(&input)?).stderr(Stdio::null());
            let printed = String::from_utf8_lossy(&command.output()?.stdout).into_owned();
            let wrong = || format!("{} printed {printed:?}", subject.name);
            *time = (subject.time)(&printed).ok_or_else(wrong)?;
        }
        all.push(times);
    }
    Ok(all)
}

fn build(subject: &Subject, root: &Path, how: &str, flags: &str) -> Result<PathBuf> {
    let folder = root.join(format!("bench-{}-{how}", subject.name));
    let program = folder.join(subject.program);
    if !program.exists() {
        unpack(subject.package, root, &folder)?;
        shell(&folder, &subject.make.replace("{flags}", flags))?;
    }
    Ok(program)
}

fn row(name: &str, times: &[[f64; SIDES]]) -> String {
    let mut text = format!("| {name} |");
    for side in 0..SIDES {
        let seconds = times.iter().filter_map(|round| round.get(side).copied()).collect();
        let _ = write!(text, " {:.3} s |", quartiles(seconds)[1]);
    }
    for before in [1, 0] {
        let ratios = times.iter().filter_map(|round| Some(round[2] / round.get(before)?));
        let [low, middle, high] = quartiles(ratios.collect());
        let _ = write!(text, " {middle:.3}× ({low:.3} to {high:.3}) |");
    }
    text.push('\n');
    text
}

/// The lower quartile, the median and the upper one.
pub(super) fn quartiles(mut values: Vec<f64>) -> [f64; 3] {
    values.sort_by(f64::total_cmp);
    [1, 2, 3].map(|quarter| values.get(values.len() * quarter / 4).copied().unwrap_or(0.0))
}
