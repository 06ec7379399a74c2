//! `mcount tui` on a real terminal, which tmux makes: what the screen has after each key, and that the terminal is as before in the end.
#![expect(clippy::unwrap_used, reason = "a test")]

use mcount_trace::{End, Writer, layout};
use std::path::Path;
use std::thread::sleep;
use std::time::{Duration, Instant};
use testkit::room::Room;
use testkit::test;
use testkit::tools::need;

const MCOUNT: &str = env!("CARGO_BIN_EXE_mcount");

/// How long a screen may take to come.
const PATIENCE: Duration = Duration::from_secs(60);

fn main() -> std::process::ExitCode {
    testkit::trial::main()
}

fn trace() -> Vec<u8> {
    let mut writer = Writer::new();
    writer.process(7, 1, 0, "/bin/shop").thread_name(7, 7, 0, "shop");
    let main = writer.function("/bin/shop", "main");
    let parse = writer.function("/bin/shop", "_ZN4shop5parseEPKc");
    let thread = writer.thread(7, 7);
    let slot = 0x7ffd_0000_0000;
    writer.call(thread, parse).from(1_000).to(3_000).slot(slot - 64).end(End::Return);
    writer.call(thread, main).from(0).to(8_000).slot(slot).end(End::Return);
    writer.header(layout::header::END_TICKS, 8_000);
    writer.finish()
}

/// A terminal with a program in it.
struct Terminal {
    room: Room,
}

impl Terminal {
    /// Runs a line of shell in a terminal of 100 by 20.
    fn start(room: Room, line: &str) -> Self {
        let terminal = Self { room };
        // What it ends with stays on the screen.
        let line = format!("{line}; echo code $?; stty -a; sleep 100");
        terminal.tmux(&["new-session", "-d", "-x", "100", "-y", "20", &line]);
        terminal
    }

    fn tmux(&self, arguments: &[&str]) -> String {
        let words = [&["-S", "socket", "-f", "/dev/null"], arguments].concat();
        let mut command = self.room.command(Path::new("tmux"), &words);
        let output = command.env_remove("TMUX").env("LC_ALL", "C.UTF-8").output().unwrap();
        String::from_utf8_lossy(&output.stdout).into_owned()
    }

    /// The screen, once it has this.
    fn expect(&self, text: &str) -> String {
        let begin = Instant::now();
        loop {
            let screen = self.tmux(&["capture-pane", "-p"]);
            if screen.contains(text) {
                return screen;
            }
            assert!(begin.elapsed() < PATIENCE, "no {text:?} in\n{screen}");
            sleep(Duration::from_millis(50));
        }
    }

    fn press(&self, key: &str, expected: &str) -> String {
        self.tmux(&["send-keys", key]);
        self.expect(expected)
    }

    /// The program has ended with this code, and the terminal is as it was.
    fn is_as_before(&self, code: u8) {
        let screen = self.expect(" echoe ");
        assert!(screen.contains(&format!("code {code}\n")), "{screen}");
        assert!(screen.contains(" icanon") && screen.contains(" echo "), "{screen}");
        assert_eq!(
            self.tmux(&["display-message", "-p", "#{alternate_on} #{cursor_flag}"]),
            "0 1\n"
        );
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        self.tmux(&["kill-server"]);
    }
}

fn room() -> Room {
    need(["tmux", "stty"]);
    let room = Room::new().unwrap();
    room.put("t.mcount", &trace()).unwrap();
    room
}

#[test]
fn keys_and_screens() {
    let terminal = Terminal::start(room(), &format!("'{MCOUNT}' tui t.mcount"));
    terminal.expect("shop::parse");
    // While the trace is read, the second line says how far that is.
    let screen = terminal.expect("Source\n\n");
    let expected = [
        "t.mcount   1 Tree   2 Timeline   3 Functions   4 Source",
        "",
        "     TOTAL  SHARE       SELF      CALLS  FUNCTION",
        "  8.000 us 100.0%   0.000 us          0  ▾ shop",
        "  8.000 us 100.0%   6.000 us          1    ▾ main",
        "  2.000 us  25.0%   2.000 us          1        shop::parse",
    ];
    let lines: Vec<&str> = screen.lines().map(str::trim_end).take(expected.len()).collect();
    assert_eq!(lines, expected, "{screen}");
    let screen = terminal.press("2", "0.000 us to 8.000 us");
    assert!(screen.contains("│shop::parse") && screen.contains("│main"), "{screen}");
    terminal.press("+", "0.020 us to 4.020 us");
    terminal.press("0", "0.000 us to 8.000 us");
    terminal.press("3", "*RUNNING");
    terminal.press("m", "*MEAN");
    terminal.press("/", "\n/");
    terminal.press("mai", "\n/mai");
    terminal.press("Enter", "q quit");
    terminal.press("s", "main: /bin/shop: ");
    terminal.tmux(&["send-keys", "q"]);
    terminal.is_as_before(0);
}

/// However it ends, the terminal is as it was.
#[test]
fn ends() {
    let line = format!("sh -c 'echo $$ >pid; exec \"$0\" tui t.mcount' '{MCOUNT}'");
    for (key, code) in [("q", 0), ("C-c", 0), ("-TERM", 143), ("-HUP", 129), ("-INT", 130)] {
        let terminal = Terminal::start(room(), &line);
        terminal.expect("shop::parse");
        if key.starts_with('-') {
            let process = terminal.room.get("pid").unwrap();
            let process = String::from_utf8(process).unwrap();
            let words = [key, process.trim()];
            assert_eq!(terminal.room.run(Path::new("kill"), &words).unwrap().code, Some(0));
        } else {
            terminal.tmux(&["send-keys", key]);
        }
        terminal.is_as_before(code);
    }
}

/// The program ends with its terminal, even if it doesn't hear of that by a signal.
#[test]
fn the_terminal_goes() {
    let line = format!("sh -c 'trap \"\" HUP; echo $$ >pid; exec \"$0\" tui t.mcount' '{MCOUNT}'");
    let terminal = Terminal::start(room(), &line);
    terminal.expect("shop::parse");
    let process = String::from_utf8(terminal.room.get("pid").unwrap()).unwrap();
    let process = format!("/proc/{}", process.trim());
    assert!(Path::new(&process).exists());
    terminal.tmux(&["kill-server"]);
    let begin = Instant::now();
    while Path::new(&process).exists() {
        assert!(begin.elapsed() < PATIENCE, "it goes on without its terminal");
        sleep(Duration::from_millis(50));
    }
}

#[test]
fn without_a_terminal() {
    let room = Room::new().unwrap();
    room.put("t.mcount", &trace()).unwrap();
    let outcome = room.run(Path::new(MCOUNT), &["tui", "t.mcount"]).unwrap();
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(2), ""), "{outcome:?}");
    let expected = "mcount: standard input and output aren't a terminal: use mcount stats, mcount graph or mcount replay\n";
    assert_eq!(outcome.stderr, expected);
}

/// What is no trace is refused before the terminal is touched.
#[test]
fn no_trace() {
    let room = room();
    room.put("text", b"no trace").unwrap();
    let terminal = Terminal::start(room, &format!("'{MCOUNT}' tui text"));
    let screen = terminal.expect("code 2");
    assert!(screen.starts_with("mcount: text: not a trace"), "{screen}");
}
