//! `cargo lab project --budget`: what `mcount top --budget 2%` and its like cost real programs.
//!
//! Time is the program's own, of the processor; the first seconds, in which too many calls may be recorded, aren't counted. Machines
//! change their speed by a tenth from one second to the next, so two of each program run side by side, one of them traced, each on a
//! processor of its own; then they change places. lua counts how often it does a piece of work in ten seconds, and redis
//! serves a number of requests.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use crate::attached::{OTHER_PORT, PORT, Running, servers};
use crate::sources::{shell, unpack};
use crate::{Result, files};

/// Rounds of lua; each takes 23 seconds.
const ROUNDS: usize = 12;

/// Rounds of redis.
const REDIS_ROUNDS: usize = 12;

/// What a program may be slower, in hundredths.
const GOAL: f64 = 3.0;

/// Requests of a round.
const REQUESTS: &str = "300000";

/// Tables, texts, functions and errors, for twelve seconds; prints the pieces done in the last ten.
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
while os.clock() < 2 do piece() end
local start, n = os.clock(), 0
while os.clock() - start < 10 do piece() n = n + 1 end
print(n / (os.clock() - start))
"#;

/// What comes before the process ID.
const TOP: [&str; 7] = ["top", "--once", "--format", "jsonl", "--budget", "2%", "--interval=1h"];

/// Measures: `false` if a program was slower than it may be.
pub(crate) fn run(mcount: &Path, root: &Path) -> Result<bool> {
    let folder = lua(root)?;
    let mut found = Found::default();
    for round in 1..=ROUNDS {
        let ratio = |traced| pieces(&folder, mcount, traced);
        found.add(&format!("lua, round {round}"), [ratio(0)?, ratio(1)?]);
    }
    let is_well = found.report("lua, top --budget 2%");
    let (pair, source) = servers(root)?;
    let mut found = Found::default();
    for round in 1..=REDIS_ROUNDS {
        let ratio = |traced| requests(&pair, &source, mcount, traced);
        found.add(&format!("redis, round {round}"), [ratio(0)?, ratio(1)?]);
    }
    Ok(is_well & found.report("redis, top --budget 2%"))
}

/// How many times slower the traced one was, of each round.
#[derive(Default)]
struct Found(Vec<f64>);

impl Found {
    /// With the traced one on either processor.
    fn add(&mut self, what: &str, ratios: [f64; 2]) {
        let ratio = (ratios[0] * ratios[1]).sqrt();
        let hundredths = ratios.map(|ratio| (ratio - 1.0) * 100.0);
        println!("{what}: {:+.1} %, {:+.1} % in the other place", hundredths[0], hundredths[1]);
        self.0.push(ratio);
    }

    /// Prints the mean and its standard error; is that allowed?
    #[expect(clippy::cast_precision_loss, reason = "a dozen")]
    fn report(&self, what: &str) -> bool {
        let count = self.0.len() as f64;
        let mean = self.0.iter().sum::<f64>() / count;
        let squares = self.0.iter().map(|ratio| (ratio - mean).powi(2)).sum::<f64>();
        let error = (squares / (count - 1.0) / count).sqrt() * 100.0;
        let slower = (mean - 1.0) * 100.0;
        println!("{what}: {slower:.1} % slower (standard error of {count} rounds: {error:.1})");
        slower < GOAL
    }
}

/// The folder with lua and its work.
fn lua(root: &Path) -> Result<PathBuf> {
    let folder = root.join("budget-lua");
    if !folder.join("src/lua").exists() {
        unpack("lua5.4", root, &folder)?;
        shell(
            &folder,
            "make -s -C src linux CC='gcc -std=gnu99' MYCFLAGS=-fpatchable-function-entry=5",
        )?;
    }
    files::write(&folder.join("pieces.lua"), LUA.as_bytes())?;
    Ok(folder)
}

/// Two lua side by side, the one on processor `traced` traced: how many times slower that is.
fn pieces(folder: &Path, mcount: &Path, traced: usize) -> Result<f64> {
    let start = |processor: usize| {
        let mut command = Command::new("taskset");
        command.args(["-c", &processor.to_string(), "src/lua", "pieces.lua"]);
        command.current_dir(folder).stdout(Stdio::piped()).spawn()
    };
    let pair = [start(0)?, start(1)?];
    sleep(Duration::from_millis(100));
    let id = pair.get(traced).map(Child::id).unwrap_or_default();
    let mut top = Watching::start(mcount, id)?;
    let mut rates = Vec::new();
    for child in pair {
        let printed = String::from_utf8_lossy(&child.wait_with_output()?.stdout).into_owned();
        let rate = printed.trim().parse::<f64>();
        rates.push(rate.map_err(|_| format!("lua printed no number: {printed}"))?);
    }
    // It has ended with the process.
    top.0.wait()?;
    let [first, second] = rates[..] else { return Err("not two".into()) };
    Ok(if traced == 0 { second / first } else { first / second })
}

/// Two redis side by side, that of number `traced` traced: how many times more time of the processor it takes for some requests.
fn requests(pair: &[Running; 2], source: &Path, mcount: &Path, traced: usize) -> Result<f64> {
    let id = pair.get(traced).map(Running::id).unwrap_or_default();
    let mut top = Watching::start(mcount, id)?;
    sleep(Duration::from_secs(2));
    // Functions that are called too often are found out under load.
    both(source, "20000")?;
    sleep(Duration::from_secs(1));
    let times = || -> Result<[f64; 2]> { Ok([pair[0].time()?, pair[1].time()?]) };
    let before = times()?;
    both(source, REQUESTS)?;
    let after = times()?;
    top.stop()?;
    let [first, second] = [after[0] - before[0], after[1] - before[1]];
    Ok(if traced == 0 { first / second } else { second / first })
}

/// Has both serve so many requests.
fn both(source: &Path, requests: &str) -> Result<()> {
    let one =
        |port| format!("./redis-benchmark -p {port} -n {requests} -t set -c 50 -q >/dev/null");
    shell(source, &format!("{} & {}; wait", one(PORT), one(OTHER_PORT))).map(drop)
}

/// A `mcount top` of a process.
struct Watching(Child);

impl Watching {
    fn start(mcount: &Path, process: u32) -> Result<Self> {
        let mut command = Command::new(mcount);
        command.args(TOP).arg(process.to_string());
        Ok(Self(command.stdout(Stdio::null()).stderr(Stdio::null()).spawn()?))
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
