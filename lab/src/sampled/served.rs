//! Servers, which clients have repeat something.

use super::Program;
use crate::Result;
use crate::attached::Running;
use crate::servers::{backends_of, end, start_nginx, start_postgresql, start_redis, workers_of};
use crate::sources::shell;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::Duration;

/// How a server is started in a folder, and which process of it is sampled. The program's words are those of a client that is connected
/// before it reads its first line, and prints a line for each.
#[derive(Clone, Copy)]
pub(super) struct Server {
    start: fn(&Path) -> Result<Running>,
    targets: fn(u32) -> Result<Vec<u32>>,
}

/// A server that runs.
pub(super) struct Serving {
    server: Running,
    kind: Server,
}

impl Drop for Serving {
    fn drop(&mut self) {
        end(&mut self.server);
    }
}

impl Server {
    /// Starts it in a folder of its own beneath this one.
    pub(super) fn start(self, folder: &Path) -> Result<Serving> {
        // It may be another user's.
        let line = "chmod 755 . && rm -rf server && mkdir server";
        shell(folder, line)?;
        Ok(Serving { server: (self.start)(&folder.join("server"))?, kind: self })
    }
}

impl Serving {
    /// The process that serves the only client, which has been started.
    pub(super) fn target(&self) -> Result<u32> {
        for _ in 0..20 {
            // Others may still be served, and it may not be ready yet.
            sleep(Duration::from_millis(500));
            if let Some(target) = (self.kind.targets)(self.server.id())?.first() {
                return Ok(*target);
            }
        }
        Err("the client isn't served".into())
    }
}

#[expect(clippy::unnecessary_wraps, reason = "as the others of this kind")]
fn itself(main: u32) -> Result<Vec<u32>> {
    Ok(vec![main])
}

/// Commands by a script of redis's own.
pub(super) const REDIS: Program = Program {
    name: "redis",
    words: &["stdbuf", "-oL", "redis-cli", "-p", "7391"],
    file: "turns.redis",
    source: "eval \"redis.call('set','a',ARGV[1]) redis.call('exists','a') redis.call('lpush','l','x') redis.call('ltrim','l',0,20) \
             redis.call('hset','h','f','v') redis.call('zadd','z',1,'m') return redis.call('get','a')\" 0 42\n",
    is_fed: true,
    probes: &[
        "dict*@redis-*",
        "db*@redis-*",
        "zs*@redis-*",
        "hash*@redis-*",
        "list*@redis-*",
        "lookup*@redis-*",
        "sds*@redis-*",
        "call*@redis-*",
    ],
    // Keys are compared where two are in one bucket, which the seed of a process decides.
    others: &["dictSdsKeyCaseCompare", "dictSdsKeyCompare"],
    server: Some(Server { start: start_redis, targets: itself }),
};

/// A page, compressed.
pub(super) const NGINX: Program = Program {
    name: "nginx",
    words: &[
        "/usr/bin/python3",
        "-c",
        "import http.client, sys\n\
         client = http.client.HTTPConnection('127.0.0.1', 7392)\n\
         for line in sys.stdin:\n    \
             client.request('GET', '/index.html', headers={'Accept-Encoding': 'gzip'})\n    \
             answer = client.getresponse()\n    \
             answer.read()\n    \
             print(answer.status, flush=True)\n",
    ],
    file: "turns.py",
    source: "\n",
    is_fed: true,
    probes: &[
        "ngx_h*@nginx",
        "ngx_event*@nginx",
        "ngx_output*@nginx",
        "ngx_open*@nginx",
        "ngx_str*@nginx",
    ],
    others: &[],
    server: Some(Server { start: start_nginx, targets: workers_of }),
};

/// A row of a table by its key.
pub(super) const POSTGRESQL: Program = Program {
    name: "postgresql",
    words: &["stdbuf", "-oL", "psql", "-At", "-p", "7393", "-U", "postgres", "postgres"],
    file: "turns.sql",
    source: "select abalance + 1 from pgbench_accounts where aid = 4242;\n",
    is_fed: true,
    probes: &[
        "index_*@postgres",
        "heap_*@postgres",
        "_bt_*@postgres",
        "table_*@postgres",
        "Mem*@postgres",
        "Portal*@postgres",
        "slot_*@postgres",
    ],
    others: &[],
    server: Some(Server { start: start_postgresql, targets: backends_of }),
};

/// Traces a server while it serves so many turns.
pub(super) fn trace(program: &Program, mcount: &Path, folder: &Path, turns: u32) -> Result<()> {
    let server = program.server.ok_or("no server")?.start(folder)?;
    let mut client = program.command(folder)?;
    let mut client = client.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn()?;
    let mut input = client.stdin.take().ok_or("no input")?;
    let mut answers = BufReader::new(client.stdout.take().ok_or("no output")?).lines();
    let target = server.target()?;
    let mut attach = Command::new(mcount);
    attach.args(["attach", "--plain", "--clock", "none"]).args(program.probes());
    attach.args(["--output", "turns.mcount", &target.to_string()]).current_dir(folder);
    let mut attach = attach.stderr(Stdio::piped()).spawn()?;
    let mut said = BufReader::new(attach.stderr.take().ok_or("no messages")?).lines();
    while !said.next().ok_or("it can't be attached to")??.contains("^C ends it") {}
    for _ in 0..turns {
        input.write_all(program.source.as_bytes())?;
        answers.next().ok_or("no answer")??;
    }
    shell(Path::new("/"), &format!("kill -INT {}", attach.id()))?;
    said.for_each(drop);
    let is_well = attach.wait()?.success();
    drop(input);
    client.wait()?;
    if is_well { Ok(()) } else { Err(format!("{}: it can't be traced", program.name).into()) }
}
