//! `cargo xtask project --budget`: what `mcount top --budget 2%` and its like cost real programs.
//!
//! Time is the program's own, of the processor, so that what else runs here changes little; the first second, in which
//! too many calls may be recorded, isn't counted. lua counts how often it did a piece of work in the ten seconds after
//! it, and redis serves a number of requests. All sides run in turns.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use crate::attached::{PORT, Running, server};
use crate::sources::{shell, unpack};
use crate::{Result, files};

/// Rounds of each side.
const ROUNDS: usize = 5;

/// Rounds of redis, which are shorter.
const REDIS_ROUNDS: usize = 15;

/// What a program may be slower, in hundredths.
const GOAL: f64 = 3.0;

/// Requests of a round.
const REQUESTS: &str = "300000";

/// Tables, texts, functions and errors, for eleven seconds; prints the pieces done in the last ten.
const LUA: &str = r#"
local function piece()
    local t = {}
    for i = 1, 3000 do t[i] = (i * 7919) % 10007 end
    table.sort(t)
    local n = 0
    for i = 1, 300 do
        n = n + select(2, pcall(function(x) if x % 2 == 0 then error(x, 0) end return x end, i))
    end
    local s = string.rep("ab ", 100):gsub("a", "c")
    return n + #s
end
while os.clock() < 1 do piece() end
local start, n = os.clock(), 0
while os.clock() - start < 10 do piece() n = n + 1 end
print(n / (os.clock() - start))
"#;

/// One way to run lua.
const WAYS: [(&str, &[&str]); 3] = [
    ("untraced", &[]),
    (
        "top --budget 2%",
        &["top", "--once", "--format", "jsonl", "--budget", "2%", "--interval", "1m", "--"],
    ),
    ("trace --budget 2%", &["trace", "--ring", "64M", "--budget", "2%", "-o", "lua.mcount", "--"]),
];

/// Measures: `false` if a program was slower than it may be.
pub(crate) fn run(mcount: &Path, root: &Path) -> Result<bool> {
    let mut is_well = true;
    let [plain, ways @ ..] = lua(mcount, root)?;
    for (pieces, (name, _)) in ways.iter().zip(WAYS.iter().skip(1)) {
        is_well &= report("lua", name, plain / pieces);
    }
    Ok(is_well & report("redis", "top --budget 2%", redis(mcount, root)?))
}

/// Prints how much slower a program was; is that allowed?
fn report(program: &str, way: &str, ratio: f64) -> bool {
    let slower = (ratio - 1.0) * 100.0;
    println!("{program}, {way}: {slower:.1} % slower");
    slower < GOAL
}

/// Pieces a second of lua, each way: the median.
fn lua(mcount: &Path, root: &Path) -> Result<[f64; 3]> {
    let folder = root.join("budget-lua");
    let program = folder.join("src/lua");
    if !program.exists() {
        unpack("lua5.4", root, &folder)?;
        shell(
            &folder,
            "make -s -C src linux CC='gcc -std=gnu99' MYCFLAGS=-fpatchable-function-entry=5",
        )?;
    }
    files::write(&folder.join("pieces.lua"), LUA.as_bytes())?;
    let mut found: [Vec<f64>; 3] = [vec![], vec![], vec![]];
    for round in 1..=ROUNDS {
        for ((name, before), numbers) in WAYS.iter().zip(&mut found) {
            let mut command = if before.is_empty() {
                Command::new(&program)
            } else {
                let mut command = Command::new(mcount);
                command.args(*before).arg(&program);
                command
            };
            let output = command.arg("pieces.lua").current_dir(&folder).output()?;
            // `top` sends what the program prints to standard error.
            let printed = [output.stdout, output.stderr].concat();
            let printed = String::from_utf8_lossy(&printed).into_owned();
            let number = printed.lines().find_map(|line| line.parse::<f64>().ok());
            let number = number.ok_or_else(|| format!("lua printed no number: {printed}"))?;
            println!("lua, {name}, round {round}: {number:.0} pieces a second");
            numbers.push(number);
        }
    }
    Ok(found.map(|mut numbers| crate::attached::median(&mut numbers)))
}

/// How many times the processor time of untraced redis it takes for some requests with `mcount top`: the median. Each time is
/// between two untraced ones, which say how far equal rounds lie apart.
fn redis(mcount: &Path, root: &Path) -> Result<f64> {
    let (server, source) = server(root)?;
    let (mut ratios, mut apart) = (Vec::new(), Vec::new());
    for round in 1..=REDIS_ROUNDS {
        let before = time_of_requests(&server, &source)?;
        let mut top = Watching::start(mcount, server.id())?;
        sleep(Duration::from_secs(2));
        // Functions that are called too often are found out under load.
        shell(&source, &load("20000"))?;
        sleep(Duration::from_secs(1));
        let watched = time_of_requests(&server, &source)?;
        top.stop()?;
        let after = time_of_requests(&server, &source)?;
        println!(
            "redis, round {round}: {before:.2} s untraced, {watched:.2} with top, {after:.2} untraced"
        );
        ratios.push(watched / f64::midpoint(before, after));
        apart.push((after / before - 1.0).abs() * 100.0);
    }
    let apart = crate::attached::median(&mut apart);
    println!("redis: untraced rounds lie {apart:.1} % apart (median of {REDIS_ROUNDS})");
    Ok(crate::attached::median(&mut ratios))
}

fn load(requests: &str) -> String {
    format!("./redis-benchmark -p {PORT} -n {requests} -t set -c 50 -q >/dev/null")
}

/// How long the server ran for some requests, in seconds.
fn time_of_requests(server: &Running, source: &Path) -> Result<f64> {
    let before = server.time()?;
    shell(source, &load(REQUESTS))?;
    Ok(server.time()? - before)
}

/// A `mcount top` of a process.
struct Watching(Child);

impl Watching {
    fn start(mcount: &Path, process: u32) -> Result<Self> {
        let options = ["top", "--once", "--format", "jsonl", "--budget", "2%", "--interval", "1h"];
        let mut command = Command::new(mcount);
        command.args(options).arg(process.to_string()).stdout(Stdio::null());
        Ok(Self(command.spawn()?))
    }

    fn stop(&mut self) -> Result<()> {
        if self.0.try_wait()?.is_some() {
            return Err("mcount top ended by itself".into());
        }
        shell(&PathBuf::from("/"), &format!("kill -INT {}", self.0.id()))?;
        self.0.wait()?;
        Ok(())
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
