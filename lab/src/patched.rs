//! Mends real programs while they work: redis under load by its own benchmark, and lua running a script. Both are built from
//! Debian's sources with patchable entries, and with a memory leak and a wrong bound that are put in here. The new functions
//! are those of the sources as they were. Then it's reverted, and the faults are back.

use std::path::Path;
use std::process::{Command, Stdio};
use std::thread::sleep;
use std::time::{Duration, Instant};

use crate::attached::{BUILD, Running};
use crate::sources::{shell, unpack};
use crate::{Result, files};

const PORT: &str = "7398";

/// The leak: each GET forgets 64 bytes. The bound: GETRANGE takes one byte too many.
const SPOIL_REDIS: &str = "cp src/t_string.c right.c && \
    sed -i -e '/^void getCommand/,/^}/s/getGenericCommand(c);/sdsnewlen(NULL, 64); getGenericCommand(c);/' \
    -e 's/end >= strlen) end = strlen-1;/end >= strlen) end = strlen;/' \
    src/t_string.c && ! cmp -s right.c src/t_string.c";
const FIX_REDIS: &str = "(echo '#include \"server.h\"'; echo 'int getGenericCommand(client *c);'; for one in getCommand getrangeCommand; do \
    sed -n \"/^void $one/,/^}/p\" right.c; done) >src/fix.c && \
    gcc -shared -fPIC -O2 -std=gnu99 -Isrc -Ideps/hiredis -Ideps/lua/src -Ideps/hdr_histogram -Ideps/linenoise \
    -o fix.so src/fix.c";

/// The leak: each `reverse` forgets 64 bytes. The bound: it begins one byte too far behind.
const SPOIL_LUA: &str = "cp src/lstrlib.c right.c && \
    sed -i -e '/^static int str_reverse/,/^}/s/l - i - 1/l - i/' \
    -e '/^static int str_reverse/,/^}/s/luaL_Buffer b;/luaL_Buffer b; *(volatile char *)malloc(64) = 1;/' \
    src/lstrlib.c && ! cmp -s right.c src/lstrlib.c";
const FIX_LUA: &str = "(echo '#include \"lua.h\"'; echo '#include \"lauxlib.h\"'; \
    sed -n '/^static int str_reverse/,/^}/p' right.c | sed 's/^static //') >src/fix.c && \
    gcc -shared -fPIC -O2 -Isrc -o fix.so src/fix.c";
const SCRIPT: &str = "local n, wrong = 0, 0\n\
    while true do\n\
      n = n + 1\n\
      if ('abcd'):reverse() ~= 'dcba' then wrong = wrong + 1 end\n\
      if n % 100000 == 0 then\n\
        local pages = io.open('/proc/self/statm'):read('a'):match('%d+ (%d+)')\n\
        local out = io.open('state.new', 'w') out:write(n, ' ', wrong, ' ', pages * 4096) out:close()\n\
        os.rename('state.new', 'state')\n\
      end\n\
    end\n";

/// Does it: `false` if something was wrong.
pub(crate) fn run(mcount: &Path, root: &Path) -> Result<bool> {
    let is_redis_well = redis(mcount, root)?;
    Ok(lua(mcount, root)? && is_redis_well)
}

/// How much memory something forgets in a second, in bytes, whether its bound is right, and how much it does in a second.
#[derive(Debug, Clone, Copy)]
struct Seen {
    leak: f64,
    is_right: bool,
    rate: f64,
}

impl Seen {
    fn print(&self, when: &str) {
        let (leak, rate) = (self.leak / 1e6, self.rate);
        let bound = if self.is_right { "right" } else { "wrong" };
        println!(
            "  {when:<9} {leak:7.2} MB a second forgotten, the bound is {bound}, {rate:.0} calls a second"
        );
    }
}

/// Looks before, after the patch, and after it's reverted: is it as it should be?
fn three_times(
    mcount: &Path,
    process: u32,
    fix: &Path,
    look: &mut dyn FnMut() -> Result<Seen>,
) -> Result<bool> {
    let process = process.to_string();
    let before = look()?;
    before.print("spoilt");
    println!("  {}", patch(mcount, &["--verbose", &process], Some(fix))?);
    let mended = look()?;
    mended.print("mended");
    println!("  {}", patch(mcount, &["--verbose", "--revert", &process], None)?);
    let reverted = look()?;
    reverted.print("reverted");
    let is_mended = mended.is_right && mended.leak < before.leak / 20.0;
    Ok(is_mended
        && !before.is_right
        && !reverted.is_right
        && reverted.leak > mended.leak.max(1e4) * 5.0)
}

fn patch(mcount: &Path, words: &[&str], fix: Option<&Path>) -> Result<String> {
    let output = Command::new(mcount).arg("patch").args(words).args(fix).output()?;
    let said = String::from_utf8_lossy(&output.stderr).trim_end().replace('\n', "\n  ");
    if output.status.success() { Ok(said) } else { Err(said.into()) }
}

fn redis(mcount: &Path, root: &Path) -> Result<bool> {
    let folder = root.join("redis-patch");
    if !folder.join("fix.so").exists() {
        unpack("redis", root, &folder)?;
        shell(&folder, SPOIL_REDIS)?;
        shell(&folder, BUILD)?;
        shell(&folder, FIX_REDIS)?;
    }
    let source = folder.join("src");
    let options = ["--port", PORT, "--save", "", "--appendonly", "no"];
    let mut server = Running::start(&source.join("redis-server"), &options)?;
    sleep(Duration::from_secs(1));
    let ask = |words: &str| shell(&source, &format!("./redis-cli --no-raw -p {PORT} {words}"));
    ask("set abc abc")?;
    let endless = ["-p", PORT, "-l", "-q", "-t", "get", "-c", "20"];
    let mut load = Running::start(&source.join("redis-benchmark"), &endless)?;
    sleep(Duration::from_millis(500));
    let number = |name: &str| -> Result<f64> {
        let text = shell(&source, &format!("./redis-cli -p {PORT} info"))?;
        let line = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
        Ok(line.ok_or("redis-cli prints something else")?.trim().parse()?)
    };
    let mut look = || {
        let (since, first, commands) =
            (Instant::now(), number("used_memory")?, number("total_commands_processed")?);
        sleep(Duration::from_secs(3));
        let seconds = since.elapsed().as_secs_f64();
        Ok(Seen {
            leak: (number("used_memory")? - first) / seconds,
            is_right: ask("getrange abc 0 10")?.trim() == "\"abc\"",
            rate: (number("total_commands_processed")? - commands) / seconds,
        })
    };
    println!("redis, under redis-benchmark with 20 clients:");
    let process = server.0.id();
    let is_well = three_times(mcount, process, &folder.join("fix.so"), &mut look)?;
    let is_served = load.runs()? && server.runs()?;
    println!("  all requests served: {is_served}");
    Ok(is_well && is_served)
}

fn lua(mcount: &Path, root: &Path) -> Result<bool> {
    let folder = root.join("lua-patch");
    if !folder.join("fix.so").exists() {
        unpack("lua5.4", root, &folder)?;
        shell(&folder, SPOIL_LUA)?;
        let build = "make -C src linux CC='gcc -std=gnu99' MYCFLAGS=-fpatchable-function-entry=5";
        shell(&folder, build)?;
        shell(&folder, FIX_LUA)?;
    }
    files::write(&folder.join("script.lua"), SCRIPT.as_bytes())?;
    let mut command = Command::new(folder.join("src/lua"));
    command.arg("script.lua").current_dir(&folder).stdout(Stdio::null());
    let mut running = Running(command.spawn()?);
    sleep(Duration::from_secs(1));
    let state = || -> Result<[f64; 3]> {
        let text = String::from_utf8(files::read(&folder.join("state"))?)?;
        let words: Vec<f64> =
            text.split(' ').map(str::parse).collect::<std::result::Result<_, _>>()?;
        words.try_into().map_err(|_| "lua wrote something else".into())
    };
    let mut look = || {
        // What was counted partly before isn't looked at.
        sleep(Duration::from_millis(500));
        let (since, [calls, wrong, size]) = (Instant::now(), state()?);
        sleep(Duration::from_secs(3));
        let (seconds, [calls_then, wrong_then, size_then]) =
            (since.elapsed().as_secs_f64(), state()?);
        Ok(Seen {
            leak: (size_then - size) / seconds,
            is_right: wrong_then <= wrong,
            rate: (calls_then - calls) / seconds,
        })
    };
    println!("lua, running a script:");
    let process = running.0.id();
    let is_well = three_times(mcount, process, &folder.join("fix.so"), &mut look)?;
    let is_running = running.runs()?;
    println!("  it runs on: {is_running}");
    Ok(is_well && is_running)
}
