//! `examples/bare`: programs without an operating system, which trace themselves. The tests build them, boot them in QEMU, and
//! type at their serial lines. What they print of their calls is compared with what their functions count themselves.
//!
//! `cargo xtask bare --build` compiles the part of them that's in Rust; without it these tests are ignored.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test")]

use std::collections::BTreeMap;
use std::io::{BufReader, Read as _, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;
use testkit::test;
use testkit::{process, tools, trial};

fn main() -> std::process::ExitCode {
    trial::main()
}

/// A machine of QEMU, called as its processor.
#[derive(Clone, Copy)]
struct Machine {
    name: &'static str,
    compiler: &'static str,
    emulator: &'static str,
    options: &'static [&'static str],
}

impl trial::Row for Machine {
    fn label(&self) -> String {
        self.name.to_owned()
    }
}

const AARCH64: Machine = Machine {
    name: "aarch64",
    compiler: "aarch64-linux-gnu-gcc",
    emulator: "qemu-system-aarch64",
    options: &["-cpu", "max"],
};

const RISCV64: Machine = Machine {
    name: "riscv64",
    compiler: "riscv64-linux-gnu-gcc",
    emulator: "qemu-system-riscv64",
    options: &["-bios", "none"],
};

/// QEMU's processors take turns. If they don't, QEMU 7.2 sometimes goes on with what it has made of an instruction before
/// that was changed: where one processor changes it while another one has it translated.
const IN_TURNS: &str = "tcg,thread=single";

/// For how long a machine may print nothing, on a loaded host.
const LIMIT: Duration = Duration::from_secs(180);

/// The names of functions, and how often something was said of them.
type Counts = BTreeMap<String, u64>;

/// A machine that runs, and its serial line.
struct Running {
    child: Child,
    input: ChildStdin,
    output: Receiver<u8>,
    greeting: String,
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Running {
    fn boot(machine: Machine, accelerator: &str) -> Self {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
        let library = root.join("target/hosts/libraries").join(format!("bare-{}", machine.name));
        let library = library.join("libhooks.a");
        tools::need(["make", machine.compiler, machine.emulator]);
        if !library.is_file() {
            trial::ignore("`cargo xtask bare --build` hasn't built the library");
        }
        let folder = tempfile::tempdir().unwrap();
        let image = build(&root.join("examples/bare"), &machine, &library, folder.path());
        let mut command = Command::new(machine.emulator);
        // Without a network card, which would need a file of a package of its own.
        command.args(["-M", "virt", "-m", "128M", "-nic", "none"]);
        command.args(machine.options).args(["-smp", "2", "-nographic", "-accel", accelerator]);
        command.arg("-kernel").arg(image).stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let (input, printed) = (child.stdin.take().unwrap(), child.stdout.take().unwrap());
        let (sender, output) = mpsc::channel();
        std::thread::spawn(move || {
            BufReader::new(printed)
                .bytes()
                .map_while(Result::ok)
                .try_for_each(|byte| sender.send(byte))
        });
        let mut running = Self { child, input, output, greeting: String::new() };
        running.greeting = running.answer();
        running
    }

    /// What is printed up to the next prompt.
    fn answer(&mut self) -> String {
        let mut text = Vec::new();
        while !text.ends_with(b"\n> ") {
            match self.output.recv_timeout(LIMIT) {
                Ok(byte) => text.push(byte),
                Err(error) => panic!("{error}: {}", String::from_utf8_lossy(&text)),
            }
        }
        String::from_utf8(text).unwrap().trim_end_matches("> ").to_owned()
    }

    /// What a command prints.
    fn say(&mut self, command: &str) -> String {
        writeln!(self.input, "{command}").unwrap();
        let answer = self.answer();
        answer.strip_prefix(&format!("{command}\n")).unwrap_or(&answer).to_owned()
    }

    /// How often each function says that it was called on a processor since it was last asked.
    fn counts(&mut self, processor: u32) -> Counts {
        let text = self.say("counts");
        let rows = text.lines().filter_map(|line| {
            let row = line.strip_prefix(&format!("counted {processor} "))?;
            let (name, count) = row.split_once(' ')?;
            Some((name.to_owned(), count.parse().ok()?))
        });
        rows.collect()
    }
}

fn build(sources: &Path, machine: &Machine, library: &Path, folder: &Path) -> PathBuf {
    let mut make = Command::new("make");
    make.arg("--silent").arg("-C").arg(sources).arg(format!("ARCH={}", machine.name));
    make.arg(format!("OUT={}", folder.display())).arg(format!("LIBRARY={}", library.display()));
    make.arg(format!("MCOUNT={}", env!("CARGO_BIN_EXE_mcount")));
    process::run(&mut make).unwrap();
    folder.join("bare.elf")
}

/// How often each function was called on a processor, by what was printed. Every call has its end, at the same depth.
fn printed(text: &str, processor: u32) -> Counts {
    let mut counts = Counts::new();
    let mut open: Vec<&str> = Vec::new();
    for line in text.lines() {
        let Some(event) = line.strip_prefix(&format!("{processor} ")) else { continue };
        let words: Vec<&str> = event.split_whitespace().collect();
        let depth = event.len() - event.trim_start().len();
        match words[..] {
            [">", name] => {
                assert_eq!(depth, 2 * open.len(), "{line}");
                *counts.entry(name.to_owned()).or_default() += 1;
                open.push(name);
            }
            ["<", name, _, "us"] => {
                assert_eq!(open.pop(), Some(name), "{line}");
                assert_eq!(depth, 2 * open.len(), "{line}");
            }
            _ => panic!("{line}"),
        }
    }
    assert!(open.is_empty(), "{open:?} don't end");
    counts
}

fn only(counts: Counts, names: &[&str]) -> Counts {
    counts.into_iter().filter(|(name, _)| names.contains(&name.as_str())).collect()
}

/// What the work results in.
fn result(text: &str) -> &str {
    text.lines().find(|line| line.starts_with("result ")).unwrap()
}

#[test(each = [AARCH64, RISCV64])]
fn every_call_of_an_armed_function_is_printed(machine: Machine) {
    let mut running = Running::boot(machine, "tcg");
    assert_eq!(running.greeting, "8 hooks are idle, 2 processors\n");
    let idle = running.say("run 3");
    assert_eq!(printed(&idle, 0), Counts::new());
    let all = running.counts(0);
    assert!(all.len() == 8 && all.values().all(|count| *count >= 3), "{all:?}");
    assert_eq!(running.say("arm t*"), "armed 2\n");
    let two = running.say("run 3");
    assert_eq!(printed(&two, 0), only(running.counts(0), &["tree", "thrice"]));
    assert_eq!(running.say("arm *"), "armed 8\n");
    let armed = running.say("run 3");
    assert_eq!(printed(&armed, 0), all);
    assert_eq!(running.counts(0), all);
    assert_eq!(running.say("disarm *o*"), "disarmed 2\n");
    let fewer = running.say("run 3");
    assert_eq!(printed(&fewer, 0).len(), 6);
    assert_eq!(running.say("disarm *"), "disarmed 8\n");
    let disarmed = running.say("run 3");
    assert_eq!(disarmed, idle, "nothing is printed but the result");
    for text in [&two, &armed, &fewer] {
        assert_eq!(result(text), result(&idle));
    }
    assert_eq!(running.say("arm nothing*"), "armed 0\n");
}

#[test(each = [AARCH64, RISCV64])]
fn one_processor_arms_what_another_one_executes(machine: Machine) {
    let mut running = Running::boot(machine, IN_TURNS);
    running.say("start");
    assert_eq!(running.say("arm *e*"), "armed 3\n");
    let text = running.say("stop");
    assert!(text.ends_with("rounds, right\n"), "{text}");
    running.counts(1);
    let text = running.say("other 4");
    let counts = running.counts(1);
    assert_eq!(printed(&text, 1), only(counts, &["tree", "is_less", "thrice"]));
    running.say("disarm *");
    running.say("start");
    let text = running.say("storm 5");
    let (seen, wrong) = text.split_once(" seen, ").unwrap();
    assert!(seen.parse::<u64>().unwrap() > 0 && wrong == "0 times wrong\n", "{text}");
    running.say("stop");
}

#[test(each = [AARCH64, RISCV64])]
fn nothing_goes_wrong_while_both_run(machine: Machine) {
    let mut running = Running::boot(machine, "tcg,thread=multi");
    running.say("start");
    running.say("storm 300");
    let text = running.say("stop");
    let (rounds, _) = text.split_once(" rounds, right\n").unwrap();
    assert!(rounds.lines().last().unwrap().parse::<u64>().unwrap() > 0, "{text}");
}
