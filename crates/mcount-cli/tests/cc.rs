//! `mcount cc`: what the compiler does is what it does without, except that its objects have their
//! table.
//!
//! Needs gcc, g++, clang, ccache; a missing one skips its rows. The compilers that must misbehave
//! are shell scripts.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

use std::fs;
use std::io::Write;
use std::os::unix::fs::symlink;
use std::os::unix::process::ExitStatusExt;
use std::path::Path;
use std::process::{Command, Stdio};
use testkit::reader;
use testkit::room::{Outcome, Room};
use testkit::test;
use testkit::tools::need;

fn main() -> std::process::ExitCode {
    testkit::trial::main()
}

const MCOUNT: &str = env!("CARGO_BIN_EXE_mcount");

const SOURCES: &[(&str, &str)] = &[
    ("a.c", "int a(int x) { return x + 1; }\nint a2(int x) { return a(x); }\n"),
    ("b.c", "int b(int x) { return x + 2; }\n"),
    ("t.cc", "template <class T> T t(T x) { return x + 1; }\nint u(int x) { return t(x); }\n"),
    ("v.cc", "template <class T> T t(T x) { return x + 1; }\nint v(int x) { return t(x); }\n"),
    ("s.S", "call __fentry__\n"),
    ("h.h", "int h;\n"),
    ("bad.c", "int;;; bad(\n"),
    ("r", "-pg -mfentry\n-c 'a.c' -o\t\"r 1.o\"\n"),
    ("main.cc", "int u(int), v(int); int main() { return u(1) + v(1) - 4; }\n"),
    (
        "hook.c",
        "void __fentry__(void) {}\n\
        extern void *__start___mcount_loc[], *__stop___mcount_loc[];\n\
        int entries(void) { return __stop___mcount_loc - __start___mcount_loc; }\n",
    ),
    (
        "x.rs",
        "#![crate_type = \"lib\"]\n#![no_std]\n\
        #[inline(never)] #[no_mangle] pub fn x(a: u8) -> u8 { a ^ 1 }\n",
    ),
];

fn room() -> Room {
    let room = Room::new().unwrap();
    fs::create_dir(room.path("sub")).unwrap();
    for (name, text) in SOURCES {
        room.put(name, text.as_bytes()).unwrap();
    }
    room.put("sub/c.c", b"int c(void) { return 3; }\n").unwrap();
    room
}

fn script(room: &Room, name: &str, text: &str) {
    let text = format!("#!/bin/sh\n{text}\n");
    testkit::files::write_program(&room.path(name), text.as_bytes()).unwrap();
}

fn run(room: &Room, line: &str) -> Outcome {
    let arguments: Vec<&str> = line.split(' ').collect();
    room.run(Path::new(arguments[0]), &arguments[1..]).unwrap()
}

fn cc(room: &Room, line: &str) -> Outcome {
    run(room, &format!("{MCOUNT} cc {line}"))
}

/// The number of entries of the table of `file`; `None` if it has no table or is no object.
fn entries(room: &Room, file: &str) -> Option<usize> {
    let object = room.get(file).unwrap();
    let has_table = |sections: Vec<reader::Section>| {
        sections.iter().any(|section| section.name == "__mcount_loc")
    };
    if !reader::sections(&object).is_ok_and(has_table) {
        return None;
    }
    Some(reader::table(&object, "__mcount_loc").unwrap().len())
}

/// Options of `cc` and a command line, and what the files that it writes have in their tables.
type Row = (&'static str, &'static [(&'static str, Option<usize>)]);

const ROWS: &[Row] = &[
    ("gcc -pg -mfentry -c a.c", &[("a.o", Some(2))]),
    ("-- gcc -pg -mfentry -c a.c", &[("a.o", Some(2))]),
    (
        "gcc -pg -mfentry -c a.c b.c sub/c.c",
        &[("a.o", Some(2)), ("b.o", Some(1)), ("c.o", Some(1))],
    ),
    ("gcc -pg -mfentry -c -ox.obj a.c", &[("x.obj", Some(2))]),
    ("gcc -pg -mfentry -c a.c -o sub/x", &[("sub/x", Some(2))]),
    ("gcc -pg -mfentry -c a.c -MD -MF d.c -MT e.c -include b.c", &[("a.o", Some(3))]),
    ("gcc @r", &[("r 1.o", Some(2))]),
    ("gcc -pg -mfentry -c -x c h.h r/../a.c", &[]),
    ("gcc -c -x c -pg -mfentry sub/c.c -o x.o", &[("x.o", Some(1))]),
    ("gcc -c s.S", &[("s.o", Some(1))]),
    ("gcc -O2 -c a.c", &[("a.o", None)]),
    ("gcc -pg -mfentry -S a.c", &[("a.s", None)]),
    ("gcc -pg -mfentry -E a.c -o a.i", &[("a.i", None)]),
    ("gcc -pg -mfentry -M -c a.c -o a.d", &[("a.d", None)]),
    ("gcc -pg -mfentry -c h.h -o h.gch", &[("h.gch", None)]),
    ("gcc -pg -mfentry -c -flto a.c", &[("a.o", None)]),
    ("gcc -pg -mfentry -c -flto -ffat-lto-objects a.c", &[("a.o", Some(2))]),
    ("gcc -pg -mfentry -shared -fPIC a.c -o x.so", &[("x.so", None)]),
    ("gcc -pg -mfentry -c a.c -o /dev/null", &[]),
    ("--policy linux gcc -pg -mfentry -c a.c", &[("a.o", Some(2))]),
    ("--exclude-symbol a2 -- gcc -pg -mfentry -c a.c", &[("a.o", Some(1))]),
    ("g++ -pg -mfentry -c t.cc", &[("t.o", Some(2))]),
    ("clang -pg -mfentry -c a.c", &[("a.o", Some(2))]),
    ("clang --output=x.o -pg -mfentry -c a.c", &[("x.o", Some(2))]),
    ("clang -pg -mfentry -c a.c b.c", &[("a.o", Some(2)), ("b.o", Some(1))]),
    ("clang -pg -mfentry -c -emit-llvm a.c", &[("a.bc", None)]),
    ("clang -pg -mfentry -c -flto a.c", &[("a.o", None)]),
    ("clang -pg -mfentry -c -fsyntax-only a.c", &[]),
    ("clang++ -pg -mfentry -c t.cc", &[("t.o", Some(2))]),
    ("env gcc -pg -mfentry -c a.c", &[("a.o", Some(2))]),
];

#[test(each = ROWS)]
fn objects_that_the_command_line_names_are_recorded(
    (line, files): &(&str, &[(&str, Option<usize>)]),
) {
    let tools = line.split(' ').filter(|word| word.contains("g++") || word.contains("clang"));
    need(tools.chain(["gcc"]));
    let (recorded, plain) = (room(), room());
    let compiler = line.find("gcc").or(line.find("g++")).or(line.find("clang")).unwrap();
    let expected = run(&plain, &line[compiler..]);
    let outcome = cc(&recorded, line);
    assert_eq!(outcome, expected, "{line}");
    for (file, table) in *files {
        assert_eq!(entries(&recorded, file), *table, "{line}: {file}");
        let is_same = recorded.get(file).unwrap() == plain.get(file).unwrap();
        // Neither is the same twice.
        if !line.contains("-flto") && !file.ends_with("gch") {
            assert_eq!(is_same, table.is_none(), "{line}: {file}");
        }
    }
    assert_eq!(recorded.names().unwrap(), plain.names().unwrap(), "{line}");
}

/// Command lines that pass through; each is run with and without `mcount cc`.
const UNTOUCHED: &[&str] = &[
    "gcc --version",
    "gcc -c a.c -dumpversion",
    "gcc -dumpmachine",
    "gcc -print-file-name=libc.a",
    "gcc -E a.c",
    "gcc -c bad.c",
    "gcc -c missing.c",
    "gcc",
    "clang --version",
    "true",
    "false",
    "sh exit3",
    "sh exit3 -c -o a.o",
];

#[test(each = UNTOUCHED)]
fn what_is_no_compilation_passes_through(line: &&str) {
    need([line.split(' ').next().unwrap()]);
    let room = room();
    room.put("exit3", b"cat; echo out; echo err >&2; exit 3\n").unwrap();
    assert_eq!(cc(&room, line), run(&room, line), "{line}");
    assert_eq!(cc(&room, &format!("-- {line}")), run(&room, line), "{line}");
}

#[test]
fn standard_input_reaches_the_compiler() {
    need(["gcc"]);
    let room = room();
    let arguments = ["cc", "gcc", "-pg", "-mfentry", "-xc", "-c", "-", "-o", "x.o"];
    let mut command = room.command(Path::new(MCOUNT), &arguments);
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    child.stdin.take().unwrap().write_all(b"void f(void) {}\n").unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(entries(&room, "x.o"), Some(1));
}

/// A compiler as a script, the exit code of `mcount cc`, whether `a.o` is there afterwards, and how
/// the message begins.
const ENDS: &[(&str, i32, bool, &str)] = &[
    ("echo made >a.o", 0, true, ""),
    ("printf '\\177ELF but not for long' >a.o", 2, false, "mcount: a.o: "),
    ("printf '\\177ELF' >a.o; exit 1", 1, true, ""),
    ("echo made >a.o; exit 77", 77, true, ""),
    ("kill -KILL $$", 137, false, "mcount: ./compiler: ended by signal 9"),
    ("kill -TERM $$", 143, false, "mcount: ./compiler: ended by signal 15"),
    ("exit 0", 0, false, ""),
];

#[test]
fn the_end_of_the_compiler_is_the_end() {
    for (text, code, is_there, message) in ENDS {
        let room = room();
        script(&room, "compiler", text);
        let outcome = cc(&room, "./compiler -c a.c");
        assert_eq!(outcome.code, Some(*code), "{text}");
        assert_eq!(room.path("a.o").exists(), *is_there, "{text}");
        assert!(outcome.stderr.starts_with(message), "{text}: {}", outcome.stderr);
        assert_eq!(outcome.stderr.lines().count(), usize::from(!message.is_empty()), "{text}");
    }
    let room = room();
    for line in ["./no-compiler -c a.c", "./no-compiler"] {
        let outcome = cc(&room, line);
        let message = "mcount: ./no-compiler: No such file or directory\n";
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(2), message));
    }
    for line in ["--policy all", "--bogus gcc -c a.c", "--section [ gcc"] {
        assert_eq!(cc(&room, line).code, Some(2), "{line}");
    }
}

/// Else make would take it for done. One that the compiler had not begun to write stays.
#[test]
fn an_object_that_is_not_recorded_goes_with_an_interruption() {
    const BEGUN: &str = "echo $$ >beginning; mv beginning begun; exec sleep 60";
    for (text, is_there) in [("echo half >a.o;", false), ("", true)] {
        for (signal, number) in [("HUP", 1), ("INT", 2), ("TERM", 15)] {
            let room = room();
            room.put("a.o", b"old").unwrap();
            script(&room, "compiler", &format!("{text} {BEGUN}"));
            let mut command = room.command(Path::new(MCOUNT), &["cc", "./compiler", "-c", "a.c"]);
            let begun = room.path("begun");
            let status = testkit::process::disturb(&mut command, &begun, signal).unwrap();
            assert_eq!(status.signal(), Some(number), "{text} {signal}");
            assert_eq!(room.get("a.o").is_ok(), is_there, "{text} {signal}");
            let compiler = String::from_utf8(room.get("begun").unwrap()).unwrap();
            assert!(!Path::new("/proc").join(compiler.trim()).exists(), "{text} {signal}");
        }
    }
}

#[test]
fn one_bad_object_of_several_is_removed() {
    need(["gcc"]);
    let room = room();
    script(&room, "compiler", "gcc \"$@\" && printf '\\177ELF' >a.o");
    let outcome = cc(&room, "./compiler -pg -mfentry -c a.c b.c");
    assert_eq!(outcome.code, Some(2));
    assert!(!room.path("a.o").exists());
    assert_eq!(entries(&room, "b.o"), Some(1));
}

/// make keeps them, and does not compile them again.
#[test(each = ["gcc", "clang"])]
fn objects_of_a_compiler_that_fails_are_recorded(compiler: &str) {
    need([compiler, "gcc"]);
    let room = room();
    room.put("good.c", SOURCES[0].1.as_bytes()).unwrap();
    assert_eq!(run(&room, "gcc -pg -mfentry -c b.c").code, Some(0));
    let plain = run(&room, &format!("{compiler} -pg -mfentry -c good.c bad.c"));
    let outcome = cc(&room, &format!("-- {compiler} -pg -mfentry -c good.c bad.c"));
    assert_eq!(outcome, plain, "{compiler}");
    assert_eq!(outcome.code, Some(1), "{compiler}");
    assert_eq!(entries(&room, "good.o"), Some(2), "{compiler}");
    assert!(!room.path("bad.o").exists(), "{compiler}");
    // Compiled before, and not now: the compiler does not come to it.
    script(&room, "compiler", "exit 1");
    assert_eq!(cc(&room, "./compiler -c b.c").code, Some(1));
    assert_eq!(entries(&room, "b.o"), None, "{compiler}");
}

const CXX: &[(&str, &str)] = &[
    ("g++", ""),
    ("clang++", ""),
    ("g++", " -ffunction-sections -Wl,--gc-sections"),
    ("g++", " -fuse-ld=lld"),
    ("clang++", " -fuse-ld=lld -static-pie"),
];

#[test(each = CXX)]
fn functions_in_two_objects_have_one_entry((compiler, flags): &(&str, &str)) {
    need([compiler, "gcc", "ld.lld"]);
    let room = room();
    let compile = format!("{compiler} -O1 -fno-inline -pg -mfentry{flags} -c t.cc v.cc main.cc");
    assert_eq!(cc(&room, &compile).code, Some(0), "{compile}");
    assert_eq!(cc(&room, "gcc -c hook.c").code, Some(0));
    let options = if flags.contains("gc-sections") { "--link-order " } else { "" };
    assert_eq!(cc(&room, &format!("{options}{compile}")).code, Some(0));
    room.put("count.c", b"int entries(void); int main2(void) { return entries(); }").unwrap();
    let link = format!("{compiler}{flags} t.o v.o main.o hook.o -o program");
    let outcome = cc(&room, &link);
    assert_eq!(outcome.code, Some(0), "{link}: {}", outcome.stderr);
    assert_eq!(run(&room, "./program").code, Some(0), "{link}");
    // main, u, v, and t once.
    let program = room.get("program").unwrap();
    let sections = reader::sections(&program).unwrap();
    let table = sections.iter().find(|section| section.name == "__mcount_loc").unwrap();
    assert_eq!(table.data.len(), 4 * 8, "{link}");
}

#[test]
fn by_another_name_it_is_a_compiler() {
    need(["gcc"]);
    let rows = [
        ("mcount-cc", "gcc -pg -mfentry -c a.c", "", 2),
        ("mcount-cc", "-- gcc -pg -mfentry -c a.c", "", 2),
        ("mcount-cc", "--exclude-symbol a gcc -pg -mfentry -c a.c", "", 1),
        ("mcount-cc", "gcc -pg -mfentry -c a.c", "--exclude-symbol 'a2'", 1),
        ("mcount-gcc", "-pg -mfentry -c a.c", "", 2),
        ("mcount-gcc", "-pg -mfentry -c a.c", "--exclude-symbol a --writable", 1),
    ];
    for (name, line, options, expected) in rows {
        let room = room();
        symlink(MCOUNT, room.path(name)).unwrap();
        let arguments: Vec<&str> = line.split(' ').collect();
        let mut command = room.command(&room.path(name), &arguments);
        assert!(command.env("MCOUNT_CC_OPTIONS", options).status().unwrap().success(), "{line}");
        assert_eq!(entries(&room, "a.o"), Some(expected), "{name} {line} {options}");
    }
}

/// Hits and misses so far.
fn statistics(room: &Room) -> (u32, u32) {
    let mut command = room.command(Path::new("ccache"), &["--print-stats"]);
    let output = command.env("CCACHE_DIR", room.path("cache")).output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let number = |name: &str| {
        let lines = text.lines().filter_map(|line| line.split_once('\t'));
        lines.filter(|(key, _)| *key == name).map(|(_, n)| n.parse::<u32>().unwrap()).sum::<u32>()
    };
    let hits = number("direct_cache_hit") + number("preprocessed_cache_hit");
    (hits, number("cache_miss"))
}

#[test]
fn ccache_keeps_the_recorded_object() {
    need(["ccache", "gcc"]);
    let room = room();
    symlink(MCOUNT, room.path("mcount-cc")).unwrap();
    let folder = room.path("").to_string_lossy().into_owned();
    let path = format!("{folder}:{}", std::env::var("PATH").unwrap());
    let ccache = |line: &str| {
        let arguments: Vec<&str> = line.split(' ').collect();
        let mut command = room.command(Path::new("ccache"), &arguments);
        command.env("CCACHE_DIR", room.path("cache")).env("PATH", &path);
        command
    };
    let prefixed = |line: &str| {
        let mut command = ccache(line);
        command.env("CCACHE_PREFIX", "mcount-cc").env("CCACHE_NAMESPACE", "mcount");
        command
    };
    let compile = |mut command: Command, expected: Option<usize>, counts: (u32, u32)| {
        let _ = fs::remove_file(room.path("a.o"));
        assert!(command.status().unwrap().success());
        assert_eq!(entries(&room, "a.o"), expected, "{counts:?}");
        assert_eq!(statistics(&room), counts);
    };
    let line = "gcc -O2 -pg -mfentry -c a.c";
    compile(prefixed(line), Some(2), (0, 1));
    compile(prefixed(line), Some(2), (1, 1));
    // Without the prefix, what is cached is what the compiler made.
    compile(ccache(line), None, (1, 2));
    compile(prefixed(line), Some(2), (2, 2));
    // The other way round the object is recorded each time, and the cache keeps the plain one,
    // even where both are one file.
    let outside = |line: &str| {
        let mut command = room.command(Path::new(MCOUNT), &["cc", "--", "ccache"]);
        command.args(line.split(' ')).env("CCACHE_DIR", room.path("cache"));
        command.env("CCACHE_HARDLINK", "1");
        command
    };
    compile(outside(line), Some(2), (3, 2));
    compile(ccache(line), None, (4, 2));
    // An object that cannot be recorded is no result.
    script(
        &room,
        "gcc",
        "/usr/bin/gcc \"$@\" && case \"$*\" in *-c*) printf '\\177ELF' >a.o;; esac",
    );
    let _ = fs::remove_file(room.path("a.o"));
    let output = prefixed("gcc -O1 -pg -mfentry -c a.c -o a.o").output().unwrap();
    assert!(!output.status.success());
    assert!(!room.path("a.o").exists());
}

#[test]
fn rust_objects_are_recorded() {
    // Other than nightly ones, rustc traces functions only when it takes itself for one.
    for (line, file) in [
        ("rustc -O -Zinstrument-mcount --emit=obj -o y.o x.rs", "y.o"),
        ("rustc -O -Zinstrument-mcount --emit obj=y.o x.rs", "y.o"),
        (
            "rustc -O -Zinstrument-mcount --emit=asm,obj --crate-name z --out-dir sub x.rs",
            "sub/z.o",
        ),
    ] {
        need(["rustc"]);
        let room = room();
        let arguments: Vec<&str> = line.split(' ').collect();
        let mut command =
            room.command(Path::new(MCOUNT), &[&["cc", "--"], &arguments[..]].concat());
        let output = command.env("RUSTC_BOOTSTRAP", "1").output().unwrap();
        assert!(output.status.success(), "{line}: {}", String::from_utf8_lossy(&output.stderr));
        assert_eq!(entries(&room, file), Some(1), "{line}");
    }
}

/// C++ of several files, with templates and inline functions, as README has it: it links by each linker, every function's entry
/// is found, and a trace has the calls of both files.
#[test(each = ["bfd", "gold", "lld", "mold"])]
fn cxx_of_several_files_keeps_its_patchable_entries(linker: &str) {
    let program = if linker == "mold" { linker.to_owned() } else { format!("ld.{linker}") };
    need(["g++", &program]);
    let room = Room::new().unwrap();
    let shared = "#include <vector>\n#define APART __attribute__((noinline))\n\
        template <class T> APART T twice(T x) { return x + x; }\n\
        inline APART int shared(int x) { std::vector<int> all(3, x); return all[1]; }\n\
        struct Shape { virtual ~Shape() {} virtual APART int area() { return 1; } };\n";
    let files = [
        (
            "a",
            "-O1",
            "int g(int); int main() { Shape s; return twice(1) + shared(2) + g(3) + s.area() - 24; }\n",
        ),
        (
            "b",
            "-O0",
            "APART int g(int x) { Shape s; return twice(x) + twice(2.0) + shared(x) + s.area() - 1 + shared(6); }\n",
        ),
    ];
    for (name, level, source) in files {
        room.put(&format!("{name}.cc"), format!("{shared}{source}").as_bytes()).unwrap();
        let line = format!("-- g++ {level} -fpatchable-function-entry=5 -c {name}.cc -o {name}.o");
        let outcome = cc(&room, &line);
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""));
    }
    let outcome = run(&room, &format!("g++ -fuse-ld={linker} a.o b.o -o program"));
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{linker}");
    let traced = run(&room, &format!("{MCOUNT} trace --plain -o trace -- ./program"));
    assert_eq!(traced.code, Some(0), "{}", traced.stderr);
    let calls = run(&room, &format!("{MCOUNT} stats --simple-names trace")).stdout;
    for (name, count) in [("main", 1), ("g", 1), ("twice", 3), ("shared", 3), ("Shape::area", 2)] {
        // Functions of the same name have their addresses behind it.
        let named = |line: &&str| line.split('@').next().unwrap().ends_with(&format!(" {name}"));
        // The lines above the table name functions, too.
        let line = calls.lines().skip_while(|line| !line.ends_with(" FUNCTION")).filter(named);
        let found: u32 =
            line.filter_map(|line| line.split_whitespace().next()?.parse::<u32>().ok()).sum();
        assert_eq!(found, count, "{name}: {linker}\n{calls}");
    }
}
