//! `mcount why`: for every answer a function of C that has it, compiled here, in an object and in an
//! image, with debug information and without.
#![expect(clippy::unwrap_used, reason = "a test")]

use mcount_symbols::debug::Sections;
use mcount_symbols::debug::functions::facts;
use mcount_symbols::debug::lines::Lines;
use serde_json::Value;
use std::path::Path;
use testkit::room::{Outcome, Room};
use testkit::test;
use testkit::tools::need;

fn main() -> std::process::ExitCode {
    testkit::trial::main()
}

const SOURCE: &str = r#"
#define NOINLINE __attribute__((noinline))
extern int elsewhere(int);
extern void die(void) __attribute__((cold, noreturn));
int variable;

static inline int small(int x) { return x * 3 + variable; }
static inline int smaller(int x) { return small(x) + 1; }

NOINLINE int traced(int x) { return small(x); }

NOINLINE __attribute__((no_instrument_function)) int notrace(int x) { return x - variable; }

NOINLINE __attribute__((section(".exit.text"))) int leaving(int x) { return x + 4; }

/* The second argument is not used, so the compiler takes it away. */
static NOINLINE int cloned(int x, int unused) { variable++; return x / 3; }

/* The branch is unlikely, so its code goes elsewhere. */
NOINLINE int checked(int x)
{
	if (x < 0) {
		variable = 7;
		die();
	}
	return smaller(x);
}

__attribute__((weak)) int overridden(int x) { return traced(x) * 7; }

NOINLINE __attribute__((no_instrument_function, section(".exit.text"))) int quiet(int x) { return x; }

int caller(int x)
{
	return cloned(x, 1) + cloned(x + 1, 2) + elsewhere(x) + leaving(x) + notrace(x) + quiet(x);
}
"#;

const OTHER: &str = "
extern int caller(int), checked(int), overridden_caller(void);
int elsewhere(int x) { return x; }
int overridden(int x) { return x; }
void die(void) { for (;;); }
int main(void) { return caller(1) + checked(2) + overridden(0); }
";

const ASSEMBLY: &str = "
	.text
	.globl written
	.type written, @function
written:
	ret
	.size written, . - written
	.globl __noinstr_text_start, __noinstr_text_end, guarded
	.type guarded, @function
__noinstr_text_start:
guarded:
	ret
	.size guarded, . - guarded
__noinstr_text_end:
	.section .note.GNU-stack, \"\", @progbits
";

fn mcount(room: &Room, arguments: &[&str]) -> Outcome {
    room.run(Path::new(env!("CARGO_BIN_EXE_mcount")), arguments).unwrap()
}

/// Runs a tool that must succeed.
fn tool(room: &Room, program: &str, arguments: &[&str]) {
    let outcome = room.run(Path::new(program), arguments).unwrap();
    assert_eq!(outcome.code, Some(0), "{program} {arguments:?}: {outcome:?}");
}

/// Functions of C++ are asked about in each way in which people write their names, in programs with each kind of hook.
#[test]
fn names_of_cpp() {
    need(["g++"]);
    let room = Room::new().unwrap();
    let text = include_str!("../../../tests/trace/shop.cpp");
    room.put("shop.cpp", text.as_bytes()).unwrap();
    for (name, flags) in
        [("list", ["-fpatchable-function-entry=5", "-O2"]), ("calls", ["-pg", "-mfentry"])]
    {
        tool(&room, "g++", &[&["-g", "-O2", "-o", name, "shop.cpp"], &flags[..]].concat());
        for function in [
            "handle_request",
            "shop::handle_request",
            "shop::handle_request(int)",
            "_ZN4shop14handle_requestEi",
            "shop::handle*",
            "*handle_request(int)",
        ] {
            let found = answers(&room, name, &[function]);
            let got: Vec<_> = found.iter().map(|one| (&one["symbol"], &one["reason"])).collect();
            let expected = (&Value::from("_ZN4shop14handle_requestEi"), &Value::from("no-table"));
            assert_eq!(got, [expected], "{name} {function}");
            assert_eq!(found[0]["source_line"], 3);
        }
        for (function, reason) in
            [("twice", "no-table"), ("only_inlined", "inlined"), ("shop::only_inlined", "inlined")]
        {
            assert_eq!(answers(&room, name, &[function])[0]["reason"], reason, "{function}");
        }
        let unknown = &answers(&room, name, &["shop::handle_reqest"])[0];
        assert_eq!(unknown["others"][0], "shop::handle_request(int)");
    }
}

/// `a.o` as the compiler left it, `recorded.o`, `other.o` without hooks, `written.o`, and `image`,
/// linked of the last three.
fn room() -> Room {
    need(["gcc", "objcopy", "x86_64-linux-gnu-gcc"]);
    let room = Room::new().unwrap();
    for (name, text) in [("a.c", SOURCE), ("other.c", OTHER), ("written.S", ASSEMBLY)] {
        room.put(name, text.as_bytes()).unwrap();
    }
    let flags = ["-g", "-O2", "-fno-pie", "-mfentry", "-c"];
    tool(&room, "gcc", &[&flags[..], &["-pg", "a.c"]].concat());
    tool(&room, "gcc", &[&flags[..], &["other.c"]].concat());
    tool(&room, "gcc", &["-g", "-c", "written.S"]);
    tool(&room, env!("CARGO_BIN_EXE_mcount"), &["record", "-o", "recorded.o", "a.o"]);
    let files = ["recorded.o", "other.o", "written.o"];
    tool(&room, "gcc", &[&["-pg", "-no-pie", "-o", "image"], &files[..]].concat());
    room
}

fn answers(room: &Room, file: &str, functions: &[&str]) -> Vec<Value> {
    let outcome = mcount(room, &[&["why", "--format", "jsonl", file], functions].concat());
    assert_eq!(outcome.stderr, "", "{file} {functions:?}");
    outcome.stdout.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// File, function, and the reasons of its answers, in order, with a part of the last one's text.
type Row = (&'static str, &'static str, &'static [&'static str], &'static str);

const ROWS: &[Row] = &[
    ("recorded.o", "traced", &["recorded"], "a call of __fentry__, recorded"),
    ("image", "traced", &["recorded"], "a call of __fentry__, recorded"),
    ("a.o", "traced", &["missing"], "missing from the table"),
    ("a.o", "leaving", &["excluded"], "a call of __fentry__; section .exit.text is not recorded"),
    ("recorded.o", "leaving", &["excluded"], "section .exit.text is not recorded"),
    ("image", "notrace", &["no-hook"], "compiled with hooks, but has none: its source says"),
    ("image", "elsewhere", &["compiled-without-hooks"], "other.c was compiled without -pg"),
    ("image", "written", &["assembly"], "written in assembly, without a hook: written.S"),
    ("image", "overridden", &["compiled-without-hooks", "overridden"], "still in the table"),
    ("recorded.o", "overridden", &["recorded"], ""),
    ("image", "smaller", &["inlined"], "inlined everywhere"),
    ("image", "small", &["inlined"], "inlined everywhere"),
    ("image", "cloned", &["clone", "recorded"], ""),
    ("recorded.o", "cloned", &["clone", "recorded"], ""),
    ("image", "checked", &["recorded"], ""),
    ("image", "checked.cold", &["cold-part"], "the unlikely part of checked"),
    ("recorded.o", "elsewhere", &["declaration"], "used here, but defined in another file"),
    ("image", "variable", &["not-a-function"], "not a function"),
    ("image", "trased", &["no-such-name"], "no such name"),
];

#[test]
fn every_answer() {
    let room = room();
    for (file, function, reasons, text) in ROWS {
        let answers = answers(&room, file, &[function]);
        let found: Vec<_> =
            answers.iter().map(|answer| answer["reason"].as_str().unwrap()).collect();
        assert_eq!(found, *reasons, "{file} {function}: {answers:?}");
        let last = answers.last().unwrap()["text"].as_str().unwrap();
        assert!(last.contains(text), "{file} {function}: {last}");
    }
}

/// A function of docs/why.md, one of ours that has the same answer, and what stands for what in the answer.
type Quoted = (&'static str, &'static str, &'static [(&'static str, &'static str)]);

const QUOTED: &[Quoted] = &[
    ("vfs_read", "traced", &[]),
    ("native_sched_clock", "elsewhere", &[("arch/x86/kernel/tsc.c", "other.c")]),
    ("nvme_exit", "quiet", &[]),
    ("calibrate_delay_is_known", "overridden", &[("arch/x86/kernel/tsc.c", "other.c")]),
    ("__fentry__", "written", &[("arch/x86/kernel/ftrace_64.S", "written.S")]),
    ("do_syscall_64", "guarded", &[]),
    ("udplite_getfrag", "notrace", &[]),
    ("rcu_read_lock", "small", &[("2213", "2")]),
    ("va_format", "cloned", &[("va_format", "cloned")]),
    ("zenbleed_check.cold", "checked.cold", &[("zenbleed_check", "checked")]),
    ("jiffies", "variable", &[]),
    ("kfreee", "trased", &[("kfree, kvfree, vfree", "traced")]),
];

/// The lines that `why` prints about `function` of `image`, without names and places before an answer.
fn printed(room: &Room, function: &str) -> Vec<String> {
    let lines = mcount(room, &["why", "image", function]).stdout;
    let answer = |line: &str| {
        let rest = line.strip_prefix(function).unwrap_or(line);
        let rest =
            rest.strip_prefix(" (").and_then(|rest| rest.split_once(')')).map_or(rest, |of| of.1);
        rest.strip_prefix(':').unwrap_or(rest).trim().to_owned()
    };
    // A kernel has no probes, which the page is about.
    let is_of_probe = |line: &&str| line.ends_with("can move") || line.contains("have a probe: ");
    lines.lines().filter(|line| !is_of_probe(line)).map(answer).collect()
}

/// Functions without a hook, and whether they can have a probe: the planner has a test with a
/// program for each reason.
#[test]
fn probes_of_functions_without_a_hook() {
    need(["gcc"]);
    let room = Room::new().unwrap();
    room.put("probed.c", PROBED.as_bytes()).unwrap();
    tool(&room, "gcc", &["-O1", "-o", "probed", "probed.c"]);
    let rows = [
        ("plain", Some(true), "the first "),
        ("looped", Some(false), "it jumps back to its first instruction, from 0x"),
        ("_start", Some(false), "nothing calls it: it has no return address"),
        ("word", None, ""),
    ];
    for (function, is_possible, words) in rows {
        let answers = answers(&room, "probed", &[function]);
        let answer = answers.first().unwrap();
        assert_eq!(answer["probe"].as_bool(), is_possible, "{answer}");
        let said = answer["probe_text"].as_str().unwrap_or_default();
        assert!(said.starts_with(words), "{answer}");
    }
    let lines = mcount(&room, &["why", "probed", "plain", "looped"]).stdout;
    assert!(lines.contains("\n  can have a probe: the first "), "{lines}");
    assert!(lines.contains("\n  can't have a probe: it jumps back to"), "{lines}");
    // One with a hook needs none.
    tool(
        &room,
        "gcc",
        &["-O1", "-pg", "-mfentry", "-fno-pie", "-no-pie", "-o", "hooked", "probed.c"],
    );
    let hooked = answers(&room, "hooked", &["plain"]);
    assert!(hooked.first().unwrap()["probe"].is_null(), "{hooked:?}");
}

/// The same of a program for AArch64, where one instruction moves.
#[test]
fn probes_of_functions_for_aarch64() {
    need(["aarch64-linux-gnu-gcc"]);
    let room = Room::new().unwrap();
    room.put("probed.c", PROBED_FOR_AARCH64.as_bytes()).unwrap();
    tool(&room, "aarch64-linux-gnu-gcc", &["-O1", "-o", "probed", "probed.c"]);
    let rows = [
        ("plain", true, "the first 4 bytes at 0x"),
        ("looped", false, "it jumps back to its first instruction, from 0x"),
        ("_start", false, "nothing calls it: it has no return address"),
    ];
    for (function, is_possible, words) in rows {
        let answers = answers(&room, "probed", &[function]);
        let answer = answers.first().unwrap();
        assert_eq!(answer["probe"].as_bool(), Some(is_possible), "{answer}");
        assert!(answer["probe_text"].as_str().unwrap().starts_with(words), "{answer}");
    }
}

/// Fedora's programs have a small debug file in themselves, which lacks what the dynamic symbols have. It's made here as gdb's manual
/// says.
#[test]
fn names_from_minidebuginfo() {
    need(["gcc", "nm", "awk", "comm", "objcopy", "strip", "xz"]);
    let room = Room::new().unwrap();
    room.put("probed.c", PROBED.as_bytes()).unwrap();
    room.put("exported", b"{ looped; };").unwrap();
    tool(&room, "gcc", &["-O1", "-Wl,--dynamic-list=exported", "-o", "probed", "probed.c"]);
    let script = "set -e
        nm -D probed --format=posix --defined-only | awk '{print $1}' | sort > dynamic
        nm probed --format=posix --defined-only | awk '{if ($2==\"T\" || $2==\"t\") print $1}' | sort > all
        comm -13 dynamic all > kept
        objcopy --only-keep-debug probed debug
        objcopy -S --keep-symbols=kept debug small
        xz small
        strip --strip-all probed
        objcopy --add-section .gnu_debugdata=small.xz probed";
    tool(&room, "sh", &["-c", script]);
    let symbols = room.run(Path::new("nm"), &["probed"]).unwrap();
    assert!(!symbols.stdout.contains("plain"), "{symbols:?}");
    let answers = answers(&room, "probed", &["plain", "looped"]);
    let probes: Vec<_> = answers.iter().map(|answer| answer["probe"].as_bool()).collect();
    assert_eq!(probes, [Some(true), Some(false)], "{answers:?}");
}

const PROBED_FOR_AARCH64: &str = r#"
int word;
__attribute__((noinline)) int plain(int x) { return x + word; }
int looped(int);
asm(".text\n.globl looped\n.type looped,%function\nlooped: subs w0, w0, #1\nb.ne looped\nret\n.size looped,.-looped\n");
int main(void) { return plain(1) + looped(2); }
"#;

const PROBED: &str = r#"
int word;
__attribute__((noinline)) int plain(int x) { return x + word; }
int looped(int);
asm(".text\n.globl looped\n.type looped,@function\nlooped: dec %edi\njnz looped\nmov $3, %eax\nret\n.size looped,.-looped\n");
int main(void) { return plain(1) + looped(2); }
"#;

/// The page is what people read before they have run anything: it has the words of the program.
#[test]
fn the_page_has_the_words_of_the_program() {
    let room = room();
    let page = testkit::files::read(&testkit::prebuilt::root().join("docs/why.md")).unwrap();
    let page = String::from_utf8(page).unwrap().replace('`', "");
    let rows = page.lines().skip_while(|line| !line.starts_with("| function |")).skip(2);
    let mut quoted = Vec::new();
    for row in rows.take_while(|line| line.starts_with('|')) {
        let cells: Vec<_> = row.split('|').map(str::trim).collect();
        let [_, name, answers, ..] = cells[..] else { unreachable!() };
        let (_, ours, names) = QUOTED.iter().find(|known| known.0 == name).expect(name);
        let answers = names.iter().fold(answers.to_owned(), |text, (of, by)| text.replace(of, by));
        let found = printed(&room, ours);
        for answer in answers.split("<br>") {
            let answer = answer.replace("cloned.constprop.0", &clone_of_cloned(&room));
            assert!(found.contains(&answer), "{name}: the page has {answer:?}, of {found:#?}");
        }
        quoted.push(name);
    }
    assert_eq!(quoted, QUOTED.iter().map(|known| known.0).collect::<Vec<_>>());
}

/// The line of `text` in the source, from 1 on.
fn line_of(text: &str) -> u64 {
    1 + SOURCE.lines().position(|line| line.contains(text)).unwrap() as u64
}

/// `cloned.constprop.0` of gcc 12, `cloned.isra.0` of others.
fn clone_of_cloned(room: &Room) -> String {
    let symbols = room.run(Path::new("nm"), &["image"]).unwrap().stdout;
    symbols.split_whitespace().find(|word| word.starts_with("cloned.")).unwrap().to_owned()
}

#[test]
fn places_in_the_source() {
    let room = room();
    for file in ["image", "recorded.o", "a.o"] {
        let of = |function: &str| answers(&room, file, &[function]).remove(0);
        let traced = of("traced");
        assert_eq!(traced["source_file"], "a.c", "{file}");
        assert_eq!(traced["source_line"], line_of("int traced"), "{file}");
        let smaller = of("smaller");
        assert_eq!(smaller["source_line"], line_of("int smaller"));
        let expected = serde_json::json!([{
            "source_file": "a.c", "source_line": line_of("return smaller"), "into": "checked",
            "by": null,
        }]);
        assert_eq!(smaller["inlined"], expected, "{file}");
        let small = of("small")["inlined"].clone();
        let by = |place: &Value| (place["into"].clone(), place["by"].clone());
        let places: Vec<_> = small.as_array().unwrap().iter().map(by).collect();
        assert_eq!(places, [("checked".into(), "smaller".into()), ("traced".into(), Value::Null)]);
        let clone = clone_of_cloned(&room);
        assert_eq!(of("cloned")["others"], serde_json::json!([clone]), "{file}");
    }
    let overridden = answers(&room, "image", &["overridden"]);
    let weak = overridden.last().unwrap();
    assert_eq!(weak["source_line"], line_of("int overridden"));
    assert!(weak["address"].is_u64());
}

/// What symbols cannot tell is said, and where to look for it.
#[test]
fn without_debug_information() {
    let room = room();
    tool(&room, "objcopy", &["--strip-debug", "image", "plain"]);
    let rows = [
        ("traced", "recorded", "a call of __fentry__, recorded"),
        ("notrace", "unknown", "no hook; debug information would tell why"),
        ("elsewhere", "unknown", "debug information would tell"),
        ("small", "no-such-name", "debug information would tell"),
        ("cloned", "clone", "only clones"),
        ("checked.cold", "cold-part", "unlikely"),
        ("variable", "not-a-function", "not a function"),
    ];
    for (function, reason, text) in rows {
        let answer = answers(&room, "plain", &[function]).remove(0);
        assert_eq!(answer["reason"], reason, "{answer}");
        assert!(answer["text"].as_str().unwrap().contains(text), "{answer}");
    }
    // The debug file has all.
    tool(&room, "objcopy", &["--only-keep-debug", "image", "image.debug"]);
    tool(&room, "objcopy", &["--strip-all", "--add-gnu-debuglink=image.debug", "image", "bare"]);
    for (file, function, reasons, text) in ROWS.iter().filter(|row| row.0 == "image") {
        let answers = answers(&room, "bare", &[function]);
        let found: Vec<_> =
            answers.iter().map(|answer| answer["reason"].as_str().unwrap()).collect();
        assert_eq!(found, *reasons, "{file} {function}: {answers:?}, {text}");
    }
}

#[test]
fn patterns_text_and_exit_codes() {
    let room = room();
    let names = |pattern: &str| -> Vec<String> {
        let answers = answers(&room, "image", &[pattern]);
        answers.iter().map(|answer| answer["function"].as_str().unwrap().to_owned()).collect()
    };
    assert_eq!(names("smal*"), ["small", "smaller"]);
    let clone = clone_of_cloned(&room);
    assert_eq!(names("c[hl]*"), ["checked", "checked.cold", "cloned", &clone]);
    let outcome = mcount(&room, &["why", "image", "traced", "small", "trased"]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(1), ""));
    let lines: Vec<_> = outcome.stdout.lines().collect();
    let first = lines.first().unwrap();
    let start = format!("traced (a.c:{}, .text 0x", line_of("int traced"));
    assert!(first.starts_with(&start) && first.ends_with("): a call of __fentry__, recorded"));
    assert!(outcome.stdout.contains("  inlined at 2 places, where no tracer sees it:\n"));
    assert!(
        outcome.stdout.ends_with("trased: no such name\n  did you mean traced\n"),
        "{outcome:?}"
    );
    assert_eq!(mcount(&room, &["why", "image", "traced"]).code, Some(0));
    assert_eq!(mcount(&room, &["why", "a.c", "traced"]).code, Some(2));
    assert_eq!(mcount(&room, &["why", "image", "[", "traced"]).code, Some(2));
}

/// Whatever is in the debug sections, reading them ends, and nothing panics.
#[test]
fn hostile_debug_information() {
    let room = room();
    tool(&room, "gcc", &["-g", "-gz", "-O2", "-pg", "-c", "-o", "packed.o", "a.c"]);
    for name in ["a.o", "packed.o"] {
        let good = room.get(name).unwrap();
        let step = good.len() / 2500 + 1;
        for at in (64..good.len()).step_by(step) {
            for value in [0, 0x7f, 0xff] {
                let mut bad = good.clone();
                *bad.get_mut(at).unwrap() = value;
                read(&bad);
            }
            read(good.get(..at).unwrap());
        }
    }
}

/// All that is read of debug information.
fn read(file: &[u8]) {
    let Some(sections) = Sections::load(file) else { return };
    let facts = facts(&sections, |_| true);
    assert!(facts.len() < 1000);
    if let Some(mut lines) = Lines::new(&sections) {
        for offset in [0, 5, 0x20] {
            lines.find(Some((1, ".text")), Some(offset), None);
        }
    }
}
