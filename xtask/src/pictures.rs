//! `cargo xtask pictures`: makes the pictures of the book anew, with headless Chromium: the page of a trace and the page of
//! an image, in light and dark mode, and the screens of `mcount top` and `mcount tui`.
//!
//! The trace is of `pictures/shop.cpp`, and the image is busybox of Debian's sources. `top` and `tui` look at `examples/server`.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use lexopt::{Arg, ValueExt as _};

use crate::{Result, files, programs, sources};

const USAGE: &str = "\
usage: cargo xtask pictures [--mcount PATH] [PICTURE…]

Makes the pictures in docs anew: trace, report, top and tui [default: all]. It needs Debian, with chromium, g++, make and tmux.

  --mcount PATH   the program to show [default: it is built]
";

/// A picture may have this many bytes.
const MOST_BYTES: usize = 150_000;

/// The screen of `top`: rows and columns.
const SCREEN: (usize, usize) = (12, 108);

/// Runs the chore; `false` if a picture is too large.
pub(crate) fn run(mut parser: lexopt::Parser) -> Result<bool> {
    let (mut mcount, mut wanted) = (None, Vec::new());
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Long("mcount") => {
                mcount = Some(std::path::absolute(PathBuf::from(parser.value()?))?);
            }
            Arg::Value(name) => wanted.push(name.string()?),
            Arg::Short('h') | Arg::Long("help") => {
                print!("{USAGE}");
                return Ok(true);
            }
            other => return Err(other.unexpected().into()),
        }
    }
    let mcount = match mcount {
        Some(path) => path,
        None => programs::build("mcount-cli", programs::Profile::Release)?.join("mcount"),
    };
    let room = Room { folder: files::workspace().join("target/pictures"), mcount };
    files::make_folder(&room.folder)?;
    let is_wanted = |name: &str| wanted.is_empty() || wanted.iter().any(|one| one == name);
    if is_wanted("trace") {
        room.trace()?;
    }
    if is_wanted("report") {
        room.report()?;
    }
    if is_wanted("top") {
        room.top()?;
    }
    if is_wanted("tui") {
        room.tui()?;
    }
    are_small()
}

/// Whether no picture of the book is too large for a page.
fn are_small() -> Result<bool> {
    let mut is_well = true;
    for path in files::list(&files::workspace().join("docs"))? {
        let is_picture = path.extension().is_some_and(|extension| extension == "png");
        let bytes = if is_picture { files::read(&path)?.len() } else { 0 };
        if bytes > MOST_BYTES {
            eprintln!("{}: {bytes} bytes", path.display());
            is_well = false;
        }
    }
    Ok(is_well)
}

/// Where pictures are made, and by which program.
struct Room {
    folder: PathBuf,
    mcount: PathBuf,
}

impl Room {
    /// Runs a line of sh in the folder; `$mcount` is the program, `$root` the repository.
    fn shell(&self, line: &str) -> Result<String> {
        let mut shell = Command::new("sh");
        shell.args(["-e", "-c", line]).current_dir(&self.folder).stdin(Stdio::null());
        shell.env("mcount", &self.mcount).env("root", files::workspace());
        let output = shell.stderr(Stdio::inherit()).output()?;
        let printed = String::from_utf8_lossy(&output.stdout).into_owned();
        if output.status.success() { Ok(printed) } else { Err(format!("{line}: failed").into()) }
    }

    /// The page of a trace of the shop.
    fn trace(&self) -> Result<()> {
        let build = "flags='-O1 -g -fpatchable-function-entry=5 -fPIC'
            for name in text store; do
                macro=$(echo $name | tr a-z A-Z)
                g++ $flags -D$macro -shared -o lib$name.so $root/xtask/src/pictures/shop.cpp
            done
            $mcount cc -- g++ $flags -c -o shop.o $root/xtask/src/pictures/shop.cpp
            g++ -o shop shop.o -L. -ltext -lstore -pthread '-Wl,-rpath,$ORIGIN'";
        self.shell(build)?;
        let record = "rm -f shop.mcount
            $mcount trace -o shop.mcount --filter '*@*shop' --filter '*@*lib*.so' --exclude 'shop::work' \
                --exclude main --exclude '*std::*' --exclude '*thread*' --exclude '*chrono*' -- ./shop
            $mcount report -o trace.html shop.mcount";
        self.shell(record)?;
        // The switch that hides the time without calls.
        self.pages("trace", "document.querySelector('input[type=checkbox]').click()", (1180, 1020))
    }

    /// The page of busybox, which has folders of programs.
    fn report(&self) -> Result<()> {
        let tree = self.folder.join("busybox");
        if !tree.join("busybox").exists() {
            sources::unpack("busybox", &files::workspace().join("target/project"), &tree)?;
            // Two folders are compiled without hooks, so that there's something to see.
            let compiler = "#!/bin/sh
case \"$*\" in
*udhcp/*|*procps/*)
    for word; do
        shift
        case $word in -pg|-mfentry) ;; *) set -- \"$@\" \"$word\";; esac
    done;;
esac
exec gcc \"$@\"
";
            files::write(&self.folder.join("busybox/hooks.sh"), compiler.as_bytes())?;
            let build = "cd busybox
                chmod +x hooks.sh
                make -s defconfig >/dev/null
                sed -i 's/^CONFIG_TC=y/# off/' .config
                sed -i 's/-fomit-frame-pointer/-w/' Makefile.flags
                yes '' | make -s oldconfig >/dev/null
                make -s -j2 CC=\"$mcount cc --policy all --link-order -- $PWD/hooks.sh\" \
                    EXTRA_CFLAGS='-g -pg -mfentry -fno-pie' EXTRA_LDFLAGS=-no-pie SKIP_STRIP=y busybox \
                    >build.log 2>&1";
            self.shell(build)?;
        }
        self.shell("$mcount report --policy all -o report.html busybox/busybox")?;
        self.pages("report", "", (1180, 1020))
    }

    /// A page in light and in dark mode, after `script` has run in it.
    fn pages(&self, name: &str, script: &str, size: (u32, u32)) -> Result<()> {
        let page = self.folder.join(format!("{name}.html"));
        let text = String::from_utf8_lossy(&files::read(&page)?).into_owned();
        let acts =
            format!("<script>addEventListener('load', () => {{ {script} }})</script></body>");
        files::write(&page, text.replacen("</body>", &acts, 1).as_bytes())?;
        self.picture(&page, name, 1, size)?;
        self.picture(&page, &format!("{name}-dark"), 0, size)
    }

    /// A picture of `page` in `docs`. `scheme` is Chromium's number of it: 0 dark, 1 light.
    fn picture(&self, page: &Path, name: &str, scheme: u32, size: (u32, u32)) -> Result<()> {
        let picture = files::workspace().join(format!("docs/{name}.png"));
        let mut browser = Command::new("chromium");
        browser.args(["--headless", "--no-sandbox", "--disable-gpu", "--hide-scrollbars"]);
        browser.arg(format!("--user-data-dir={}", self.folder.join("browser").display()));
        browser.arg(format!("--blink-settings=preferredColorScheme={scheme}"));
        browser
            .arg(format!("--window-size={},{}", size.0, size.1))
            .arg("--virtual-time-budget=3000");
        browser.arg(format!("--screenshot={}", picture.display())).arg(page);
        if !browser.stderr(Stdio::null()).status()?.success() {
            return Err("chromium failed".into());
        }
        println!("{}", picture.display());
        Ok(())
    }

    /// The timeline and the tree of `mcount tui`, as a terminal shows them, one below the other.
    fn tui(&self) -> Result<()> {
        let show =
            "g++ -O2 -g -fpatchable-function-entry=5 -pthread -o server $root/examples/server/server.cpp
            rm -f server.mcount
            $mcount trace -o server.mcount -- ./server >&2
            terminal='tmux -S socket -f /dev/null'
            $terminal kill-server 2>/dev/null || true
            $terminal new-session -d -x 92 -y 16 \"$mcount tui server.mcount\"
            sleep 3
            $terminal capture-pane -e -p
            $terminal send-keys 2 / write_line Enter n n n n n n n n n n
            sleep 3
            $terminal send-keys + + +
            sleep 3
            $terminal capture-pane -e -p
            $terminal kill-server";
        let page = self.folder.join("tui.html");
        files::write(&page, terminal(&self.shell(show)?).as_bytes())?;
        self.picture(&page, "tui", 0, (860, 640))
    }

    /// The screen of `mcount top`, as a terminal shows it.
    fn top(&self) -> Result<()> {
        let (rows, columns) = SCREEN;
        let show = format!(
            "g++ -O2 -g -fpatchable-function-entry=5 -pthread -o server $root/examples/server/server.cpp
            timeout 6 script -qec \"stty rows {rows} cols {columns}; $mcount top -- ./server 60\" /dev/null || true"
        );
        let printed = self.shell(&show)?;
        let screens: Vec<&str> = printed.split("\x1b[J\x1b[H").collect();
        let screen = screens.iter().rev().find(|screen| screen.matches('\n').count() + 1 >= rows);
        let screen = screen.ok_or_else(|| format!("mcount top showed only {printed:?}"))?;
        let page = self.folder.join("top.html");
        files::write(&page, terminal(screen).as_bytes())?;
        self.picture(&page, "top", 0, (1010, 280))
    }
}

/// A page that looks like a terminal with `screen` on it. Of the control sequences, it knows those for colours (ECMA-48, SGR), and
/// leaves the others out.
fn terminal(screen: &str) -> String {
    let mut text = String::new();
    let mut look = Look::default();
    for (number, part) in screen.split('\x1b').enumerate() {
        let part = part.replace('\r', "");
        let part =
            if number == 0 { part.as_str() } else { part.strip_prefix('[').unwrap_or(&part) };
        let is_final = |c: char| c.is_ascii_alphabetic();
        let (code, rest) = match part.find(is_final).filter(|_| number > 0) {
            Some(at) => part.split_at(at + 1),
            None => ("", part),
        };
        if let Some(codes) = code.strip_suffix('m') {
            look.change(codes);
        }
        let rest = rest.replace('&', "&amp;").replace('<', "&lt;");
        let _ = write!(text, "<span style='{}'>{rest}</span>", look.style());
    }
    format!(
        "<!doctype html><meta charset=utf-8><style>body {{ margin: 0; background: {BACK} }} \
         pre {{ margin: 12px 16px; color: {FRONT}; font: 15px/19px 'DejaVu Sans Mono', monospace }}\
         </style><pre>{text}</pre>"
    )
}

const FRONT: &str = "#d8dae0";
const BACK: &str = "#16181d";

/// Black, red, green, yellow, blue, magenta, cyan and white; then the bright ones.
const COLOURS: [&str; 16] = [
    "#16181d", "#e06c75", "#98c379", "#d8b868", "#61afef", "#c678dd", "#56b6c2", "#d8dae0",
    "#7a8290", "#ff8088", "#b5e08f", "#f0d080", "#80c4ff", "#e090f0", "#70d4e0", "#ffffff",
];

/// How text looks.
#[derive(Default)]
struct Look {
    front: Option<&'static str>,
    back: Option<&'static str>,
    is_bold: bool,
    is_inverse: bool,
}

impl Look {
    fn change(&mut self, codes: &str) {
        let colour = |code: usize| COLOURS.get(code).copied();
        let mut codes = codes.split(';').map(|code| code.parse::<usize>().unwrap_or(0));
        while let Some(code) = codes.next() {
            match code {
                // A colour of 256, of which the first 16 are those above; or red, green and blue, which nothing here uses.
                38 | 48 => {
                    let number = (codes.next() == Some(5)).then(|| codes.next()).flatten();
                    let of_many = number.and_then(colour);
                    *(if code == 38 { &mut self.front } else { &mut self.back }) = of_many;
                }
                0 => *self = Self::default(),
                1 => self.is_bold = true,
                22 => self.is_bold = false,
                7 => self.is_inverse = true,
                27 => self.is_inverse = false,
                30..=37 => self.front = colour(code - 30),
                90..=97 => self.front = colour(code - 82),
                39 => self.front = None,
                40..=47 => self.back = colour(code - 40),
                100..=107 => self.back = colour(code - 92),
                49 => self.back = None,
                _ => {}
            }
        }
    }

    fn style(&self) -> String {
        let (front, back) = (self.front.unwrap_or(FRONT), self.back.unwrap_or(BACK));
        let (front, back) = if self.is_inverse { (back, front) } else { (front, back) };
        let weight = if self.is_bold { "bold" } else { "normal" };
        format!("color: {front}; background: {back}; font-weight: {weight}")
    }
}
