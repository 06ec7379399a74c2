//! Attaches to a real server under load, again and again: redis of Debian's sources, compiled with patchable entries, and
//! its own benchmark over the loopback address. No request may fail, each trace has to be complete, what stays in the
//! process must not grow, and afterwards it serves as fast as before.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

use crate::Result;
use crate::sources::{shell, unpack};

pub(crate) const PORT: &str = "7399";
/// How redis is built. Its own allocator would take minutes.
pub(crate) const BUILD: &str = "nice make -C src -j2 MALLOC=libc OPTIMIZATION=-O2 USE_SYSTEMD=no BUILD_TLS=no \
                     CFLAGS=-fpatchable-function-entry=5 redis-server redis-benchmark redis-cli";
/// Rounds of the benchmark before and after.
const ROUNDS: usize = 20;

/// Where a server listens that nobody attaches to.
pub(crate) const OTHER_PORT: &str = "7397";

/// A process that's ended when this is dropped.
pub(crate) struct Running(pub(crate) Child);

impl Running {
    pub(crate) fn start(program: &Path, arguments: &[&str]) -> Result<Self> {
        let mut command = Command::new(program);
        command.args(arguments).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Self(command.spawn()?))
    }

    pub(crate) fn id(&self) -> u32 {
        self.0.id()
    }

    /// The processor time that it has taken, in seconds (`proc_pid_stat(5)`: ticks of 10 ms).
    pub(crate) fn time(&self) -> Result<f64> {
        let text = std::fs::read_to_string(format!("/proc/{}/stat", self.0.id()))?;
        let fields = text.rsplit(')').next().unwrap_or_default().split_whitespace();
        let ticks: Vec<f64> =
            fields.skip(11).take(2).filter_map(|word| word.parse().ok()).collect();
        Ok(ticks.iter().sum::<f64>() / 100.0)
    }

    pub(crate) fn runs(&mut self) -> Result<bool> {
        Ok(self.0.try_wait()?.is_none())
    }

    /// How many mappings it has, and how many open files.
    fn size(&self) -> Result<(usize, usize)> {
        let folder = format!("/proc/{}", self.0.id());
        let maps = std::fs::read_to_string(format!("{folder}/maps"))?;
        Ok((maps.lines().count(), std::fs::read_dir(format!("{folder}/fd"))?.count()))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Two redis that run, at [`PORT`] and at [`OTHER_PORT`], and the folder with their programs.
pub(crate) fn servers(root: &Path) -> Result<([Running; 2], PathBuf)> {
    let folder = root.join("redis");
    if !folder.join("src/redis-server").exists() {
        unpack("redis", root, &folder)?;
        shell(&folder, BUILD)?;
    }
    let source = folder.join("src");
    let start = |port| {
        let options = ["--port", port, "--save", "", "--appendonly", "no"];
        Running::start(&source.join("redis-server"), &options)
    };
    let servers = [start(PORT)?, start(OTHER_PORT)?];
    sleep(Duration::from_secs(1));
    Ok((servers, source))
}

/// Does it, `count` times: `false` if something was wrong.
pub(crate) fn run(mcount: &Path, root: &Path, count: usize) -> Result<bool> {
    let ([mut server, _other], source) = servers(root)?;
    let before = throughput(&source)?;
    let endless = ["-p", PORT, "-l", "-q", "-t", "set,get", "-c", "50"];
    let mut load = Running::start(&source.join("redis-benchmark"), &endless)?;
    sleep(Duration::from_millis(500));
    let (mut wrong, mut calls, mut stood, mut sizes) = (0, Vec::new(), Vec::new(), Vec::new());
    for round in 1..=count {
        match attach(mcount, root, server.id()) {
            Ok((of_trace, milliseconds)) => {
                calls.push(of_trace);
                stood.push(milliseconds);
            }
            Err(error) => {
                wrong += 1;
                println!("round {round}: {error}");
            }
        }
        sizes.push(server.size()?);
    }
    let is_served = load.runs()? && server.runs()?;
    drop(load);
    let after = throughput(&source)?;
    let (first, last) = (sizes.get(1), sizes.last());
    let has_grown = first.zip(last).is_some_and(|(first, last)| last.0 > first.0 + 2);
    println!(
        "attached {count} times for a second: {wrong} wrong; all requests served: {is_served}"
    );
    println!("mappings and files after the second and the last time: {first:?}, {last:?}");
    println!("calls of a trace, median: {:.0}", median(&mut calls));
    println!("ms for which the server stood, median: {:.2}", median(&mut stood));
    println!("greatest: {:.2}", stood.last().copied().unwrap_or_default());
    println!(
        "requests a second, as a part of another server's, median of {ROUNDS} (least to greatest):"
    );
    for (when, [middle, least, greatest]) in [("before", before), ("afterwards", after)] {
        println!("{middle:.3} ({least:.3} to {greatest:.3}) {when}");
    }
    println!("afterwards, it answers {:.1} % fewer", (1.0 - after[0] / before[0]) * 100.0);
    Ok(wrong == 0 && is_served && !has_grown)
}

/// Attaches once: how many calls the trace has, and for how long the server stood, in milliseconds.
fn attach(mcount: &Path, root: &Path, process: u32) -> Result<(f64, f64)> {
    let mut command = Command::new(mcount);
    command.args(["attach", "--verbose", "--duration", "1s", "--output", "redis.mcount"]);
    let output = command.arg(process.to_string()).current_dir(root).output()?;
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    let time =
        said.lines().find_map(|line| line.split_once("was stopped for ")?.1.split(' ').next());
    let Some(time) = time.filter(|_| output.status.success()) else { return Err(said.into()) };
    let stats = Command::new(mcount)
        .args(["stats", "--format", "csv", "redis.mcount"])
        .current_dir(root)
        .output()?;
    let notes = String::from_utf8_lossy(&stats.stderr).into_owned();
    if !stats.status.success() || !notes.is_empty() {
        return Err(notes.into());
    }
    let text = String::from_utf8(stats.stdout)?;
    let mut lines = text.lines();
    let head = lines.next().unwrap_or_default();
    let column = head.split(',').position(|name| name == "calls").ok_or("no column of calls")?;
    let of_line = |line: &str| line.split(',').nth(column)?.parse::<f64>().ok();
    Ok((lines.filter_map(of_line).sum(), time.parse()?))
}

/// How many requests a second the server answers, as a part of what another one answers that nobody attaches to: the median of some
/// rounds, the least and the greatest. They take turns, so what else happens on the machine is in both.
fn throughput(source: &Path) -> Result<[f64; 3]> {
    let rate = |port: &str| -> Result<f64> {
        let line = format!("./redis-benchmark -p {port} -n 100000 -t get -c 50 --csv | tail -n 1");
        let text = shell(source, &line)?;
        let rate = text.split(',').nth(1).map(|word| word.trim_matches('"').parse::<f64>());
        Ok(rate.ok_or("redis-benchmark prints something else")??)
    };
    // Both have what is asked for, and memory as it will be.
    for port in [PORT, OTHER_PORT] {
        shell(source, &format!("./redis-benchmark -p {port} -n 100000 -t set,get -c 50 -q"))?;
    }
    let mut ratios = Vec::new();
    for round in 0..ROUNDS {
        let ports = if round % 2 == 0 { [PORT, OTHER_PORT] } else { [OTHER_PORT, PORT] };
        let rates = [rate(ports[0])?, rate(ports[1])?];
        let [own, other] = if round % 2 == 0 { rates } else { [rates[1], rates[0]] };
        ratios.push(own / other);
    }
    let middle = median(&mut ratios);
    let (least, greatest) = (ratios.first().copied(), ratios.last().copied());
    Ok([middle, least.unwrap_or_default(), greatest.unwrap_or_default()])
}

/// The median; the numbers are in ascending order afterwards.
pub(crate) fn median(numbers: &mut [f64]) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied().unwrap_or_default()
}
