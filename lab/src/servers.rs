//! `cargo lab servers`: Debian's redis, nginx and `PostgreSQL` serve a load while probes of all their functions come and go. No request
//! may fail, and after each round their code in memory is as in the files.

use crate::attached::Running;
use crate::sources::shell;
use crate::{Result, files, programs};
use lexopt::{Arg, ValueExt as _};
use std::os::unix::fs::FileExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

const USAGE: &str = "\
usage: cargo lab servers [OPTION…] [SERVER…]

Attaches to Debian's redis, nginx and postgresql under load, with every function probed, again and again.

  --mcount PATH   the program to test (default: target/release/mcount, built now)
  --rounds N      how often (default: 100)
  --seconds S     how long each time (default: 0.2)
";

/// Ports at which nothing else listens.
pub(crate) const REDIS: &str = "7391";
pub(crate) const NGINX: &str = "7392";
pub(crate) const POSTGRES: &str = "7393";

/// How long a server may take until it answers.
const PATIENCE: Duration = Duration::from_secs(60);

/// A server under load.
struct Served {
    /// It runs until this is dropped.
    server: Running,
    load: Running,
    /// The processes that are attached to, one after the other.
    targets: fn(&Self) -> Result<Vec<u32>>,
    /// Lines of sh that fail if something is wrong with it.
    check: String,
    /// Where it works.
    folder: PathBuf,
}

impl Drop for Served {
    /// Lets the server end its own processes.
    fn drop(&mut self) {
        let _ = shell(Path::new("/"), &format!("kill {}", self.load.id()));
        end(&mut self.server);
    }
}

/// Lets a server end its own processes.
pub(crate) fn end(server: &mut Running) {
    let start = Instant::now();
    let _ = shell(Path::new("/"), &format!("kill {}", server.id()));
    while matches!(server.runs(), Ok(true)) && start.elapsed() < PATIENCE {
        sleep(Duration::from_millis(50));
    }
}

type Start = fn(&Path) -> Result<Served>;

const SERVERS: [(&str, Start); 3] =
    [("redis", redis), ("nginx", nginx), ("postgresql", postgresql)];

pub(crate) fn run(mut parser: lexopt::Parser) -> Result<bool> {
    let (mut mcount, mut rounds, mut seconds) = (None, 100_u32, "0.2".to_owned());
    let mut names: Vec<String> = Vec::new();
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Long("mcount") => mcount = Some(PathBuf::from(parser.value()?)),
            Arg::Long("rounds") => rounds = parser.value()?.parse()?,
            Arg::Long("seconds") => seconds = parser.value()?.string()?,
            Arg::Value(name) => names.push(name.string()?),
            Arg::Short('h') | Arg::Long("help") => {
                print!("{USAGE}");
                return Ok(true);
            }
            other => return Err(other.unexpected().into()),
        }
    }
    let mcount = programs::mcount(mcount)?;
    let mut is_well = true;
    for (name, start) in SERVERS {
        if !names.is_empty() && !names.iter().any(|one| one == name) {
            continue;
        }
        let folder = files::target().join("servers").join(name);
        shell(Path::new("/"), &format!("rm -rf '{0}' && mkdir -p '{0}'", folder.display()))?;
        let mut served = start(&folder)?;
        is_well &= come_and_go(name, &mut served, (&mcount, rounds, &seconds))?;
    }
    Ok(is_well)
}

/// Attaches `rounds` times: `false` if something was wrong.
fn come_and_go(
    name: &str,
    served: &mut Served,
    (mcount, rounds, seconds): (&Path, u32, &str),
) -> Result<bool> {
    let (mut wrong, mut stood) = (0, Vec::new());
    for round in 0..rounds {
        let targets = (served.targets)(served)?;
        let place = usize::try_from(round).unwrap_or(0) % targets.len().max(1);
        let target = *targets.get(place).ok_or("no process to attach to")?;
        let trace = served.folder.join("trace.mcount");
        let mut command = Command::new(mcount);
        command.args(["attach", "-v", "--probe", "*", "--ring", "16M", "--duration"]);
        command.arg(format!("{seconds}s")).arg("-o").arg(&trace).arg(target.to_string());
        let output = command.stdin(Stdio::null()).output()?;
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        let differs = as_in_files(target);
        if output.status.success() && differs.is_ok() {
            stood.extend(number_before(&said, "ms at most"));
        } else {
            wrong += 1;
            println!("{name}, round {round}, process {target}: {differs:?} {said}");
        }
        if !served.server.runs()? || !served.load.runs()? {
            println!("{name}, round {round}: the server or its load has ended");
            return Ok(false);
        }
    }
    let check = shell(&served.folder, &served.check);
    if let Err(error) = &check {
        println!("{name}: {error}");
    }
    stood.sort_by(f64::total_cmp);
    let middle = stood.get(stood.len() / 2).copied().unwrap_or_default();
    let most = stood.last().copied().unwrap_or_default();
    println!(
        "{name}: attached {rounds} times: {wrong} wrong; answers right: {}; threads stood {middle:.1} ms (median) to {most:.1} ms",
        check.is_ok()
    );
    Ok(wrong == 0 && check.is_ok())
}

/// The number before `words` in a text.
fn number_before(text: &str, words: &str) -> Option<f64> {
    let before = text.split_once(words)?.0.trim_end();
    before.rsplit(' ').next()?.replace(',', "").parse().ok()
}

/// All code of a process is as in its files.
#[expect(clippy::disallowed_methods, reason = "memory isn't a file")]
pub(crate) fn as_in_files(process: u32) -> Result<()> {
    let maps = || std::fs::read_to_string(format!("/proc/{process}/maps"));
    let before = maps()?;
    let memory = std::fs::File::open(format!("/proc/{process}/mem"))?;
    let mut count = 0;
    for line in before.lines() {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [range, "r-xp", offset, _, _, path] = fields.as_slice() else { continue };
        if !path.starts_with('/') || path.contains("memfd:") {
            continue;
        }
        let (start, end) = range.split_once('-').ok_or("maps")?;
        let number = |text: &str| u64::from_str_radix(text, 16);
        let (start, end, offset) = (number(start)?, number(end)?, number(offset)?);
        let file = files::read(Path::new(path))?;
        let mut now = vec![0; usize::try_from(end - start)?];
        if let Err(error) = memory.read_exact_at(&mut now, start) {
            // A library may have been closed meanwhile.
            if maps()?.lines().any(|now| now == line) {
                return Err(error.into());
            }
            continue;
        }
        let code = file.get(usize::try_from(offset)?..).ok_or("a short file")?;
        if let Some(at) = now.iter().zip(code).position(|(now, file)| now != file) {
            return Err(format!("{path} differs at {:#x} of its file", offset + at as u64).into());
        }
        count += 1;
    }
    if count == 0 { Err("nothing was compared".into()) } else { Ok(()) }
}

/// Waits until a line of sh succeeds.
fn until(folder: &Path, line: &str) -> Result<()> {
    let start = Instant::now();
    while let Err(error) = shell(folder, line) {
        if start.elapsed() > PATIENCE {
            return Err(error);
        }
        sleep(Duration::from_millis(100));
    }
    Ok(())
}

#[expect(clippy::unnecessary_wraps, reason = "as the others of this kind")]
fn itself(served: &Served) -> Result<Vec<u32>> {
    Ok(vec![served.server.id()])
}

/// The processes that the server has made.
fn workers(served: &Served) -> Result<Vec<u32>> {
    workers_of(served.server.id())
}

/// The processes that a process has made.
pub(crate) fn workers_of(id: u32) -> Result<Vec<u32>> {
    let text = std::fs::read_to_string(format!("/proc/{id}/task/{id}/children"))?;
    Ok(text.split_whitespace().filter_map(|word| word.parse().ok()).collect())
}

/// A redis without a load.
pub(crate) fn start_redis(folder: &Path) -> Result<Running> {
    let options = ["--port", REDIS, "--save", "", "--appendonly", "no"];
    let server = Running::start(Path::new("/usr/bin/redis-server"), &options)?;
    until(folder, &format!("redis-cli -p {REDIS} ping | grep -q PONG"))?;
    Ok(server)
}

fn redis(folder: &Path) -> Result<Served> {
    let server = start_redis(folder)?;
    let endless = ["-p", REDIS, "-l", "-q", "-t", "set,get,lpush,lrange_100", "-c", "20"];
    let load = Running::start(Path::new("/usr/bin/redis-benchmark"), &endless)?;
    let check = format!(
        "redis-cli -p {REDIS} set a 42 && redis-cli -p {REDIS} get a | grep -qx 42 && \
         redis-benchmark -p {REDIS} -n 20000 -q -t set,get"
    );
    Ok(Served { server, load, targets: itself, check, folder: folder.to_owned() })
}

/// An nginx with one worker and one page, without a load.
pub(crate) fn start_nginx(folder: &Path) -> Result<Running> {
    let root = folder.display();
    let configuration = format!(
        "user root;\nworker_processes 1;\npid {root}/pid;\nerror_log {root}/errors;\ndaemon off;\n\
         events {{ worker_connections 256; }}\n\
         http {{ access_log off; gzip on; gzip_types *; gzip_min_length 1; \
         server {{ listen 127.0.0.1:{NGINX}; root {root}; }} }}\n"
    );
    files::write(&folder.join("nginx.conf"), configuration.as_bytes())?;
    files::write(&folder.join("index.html"), "All is well.\n".repeat(1000).as_bytes())?;
    let options = ["-p", &root.to_string(), "-c", &format!("{root}/nginx.conf")];
    let server = Running::start(Path::new("/usr/sbin/nginx"), &options)?;
    until(folder, &format!("ab -q -n 1 http://127.0.0.1:{NGINX}/index.html"))?;
    Ok(server)
}

/// ab ends with an error if a request fails; then so does the loop.
fn nginx(folder: &Path) -> Result<Served> {
    let server = start_nginx(folder)?;
    let (root, page) = (folder.display(), format!("http://127.0.0.1:{NGINX}/index.html"));
    let round = format!(
        "ab -q -n 5000 -c 10 -k -H 'Accept-Encoding: gzip' {page} >{root}/ab && \
         grep -q '^Failed requests: *0$' {root}/ab && ! grep -q Non-2xx {root}/ab"
    );
    let endless = format!("while {round}; do :; done");
    let load = Running::start(Path::new("/bin/sh"), &["-c", &endless])?;
    Ok(Served { server, load, targets: workers, check: round, folder: folder.to_owned() })
}

/// A `PostgreSQL` with a filled database, without a load.
pub(crate) fn start_postgresql(folder: &Path) -> Result<Running> {
    let root = folder.display().to_string();
    shell(folder, &format!("chown postgres '{root}'"))?;
    let programs = shell(folder, "ls -d /usr/lib/postgresql/*/bin | tail -n 1")?;
    let programs = programs.trim();
    let as_owner = |line: &str| format!("runuser -u postgres -- sh -c 'cd /; {line}'");
    shell(folder, &as_owner(&format!("{programs}/initdb -A trust -D {root}/data >/dev/null")))?;
    let data = format!("{root}/data");
    let server = format!("{programs}/postgres");
    // By a user of its own, as it refuses to be run by root.
    let user = ["--reuid", "postgres", "--regid", "postgres", "--clear-groups", &server];
    let rest =
        ["-D", &data, "-p", POSTGRES, "-k", &root, "-c", "listen_addresses=", "-c", "fsync=off"];
    let all: Vec<&str> = user.into_iter().chain(rest).collect();
    let server = Running::start(Path::new("/usr/bin/setpriv"), &all)?;
    let at = format!("-h {root} -p {POSTGRES} -U postgres");
    until(folder, &format!("psql {at} -c 'select 1'"))?;
    shell(folder, &format!("pgbench {at} -i -q postgres"))?;
    Ok(server)
}

/// All that clients have added to accounts must be in the history of these.
fn postgresql(folder: &Path) -> Result<Served> {
    let server = start_postgresql(folder)?;
    let at = format!("-h {} -p {POSTGRES} -U postgres", folder.display());
    let endless = format!("exec pgbench {at} -n -c 4 -T 100000 postgres");
    let load = Running::start(Path::new("/bin/sh"), &["-c", &endless])?;
    let check = format!(
        "pgbench {at} -n -c 4 -t 200 postgres && \
         psql {at} -At -c 'select (select sum(abalance) from pgbench_accounts) = (select sum(delta) from pgbench_history)' \
         postgres | grep -qx t"
    );
    sleep(Duration::from_secs(1));
    Ok(Served { server, load, targets: backends, check, folder: folder.to_owned() })
}

/// The processes of `PostgreSQL` that serve clients, and the one that makes them.
fn backends(served: &Served) -> Result<Vec<u32>> {
    let main = served.server.id();
    Ok([vec![main], backends_of(main)?].concat())
}

/// The processes of a `PostgreSQL` that serve clients.
pub(crate) fn backends_of(main: u32) -> Result<Vec<u32>> {
    let has_client = |id: &u32| {
        std::fs::read_to_string(format!("/proc/{id}/cmdline"))
            .is_ok_and(|title| title.contains("[local]"))
    };
    Ok(workers_of(main)?.into_iter().filter(has_client).collect())
}
