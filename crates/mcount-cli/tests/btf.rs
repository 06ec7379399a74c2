//! What BPF can attach to: `list --btf`, `list --attachable` and `why`, on objects, on images, on modules with
//! split BTF, and on the lists of a running kernel. The BTF is that of gcc, that of pahole, or made here byte
//! for byte; what bpftool reads in it is the oracle.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

use mcount_symbols::btf::{self, Base, Prototype};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::Path;
use testkit::btf::{Made, kernel};
use testkit::room::{Outcome, Room};
use testkit::test;
use testkit::tools::need;

fn main() -> std::process::ExitCode {
    testkit::trial::main()
}

fn mcount(room: &Room, arguments: &[&str]) -> Outcome {
    room.run(Path::new(env!("CARGO_BIN_EXE_mcount")), arguments).unwrap()
}

/// What a tool that must succeed prints.
fn tool(room: &Room, program: &str, arguments: &[&str]) -> String {
    let outcome = room.run(Path::new(program), arguments).unwrap();
    assert_eq!(outcome.code, Some(0), "{program} {arguments:?}: {}", outcome.stderr);
    outcome.stdout
}

/// The values of `field` in lines of JSON that have it.
fn fields(lines: &str, field: &str) -> Vec<Value> {
    let lines = lines.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    lines.map(|line| line[field].clone()).collect()
}

fn names(lines: &str) -> BTreeSet<String> {
    fields(lines, "symbol").into_iter().map(|name| name.as_str().unwrap().to_owned()).collect()
}

const SOURCE: &str = r#"
#define NOINLINE __attribute__((noinline))
int variable;
struct large { long words[3]; };

NOINLINE int plain(int x) { return x + variable; }
NOINLINE __attribute__((no_instrument_function)) int notrace(int x) { return x - variable; }
NOINLINE int variadic(int x, ...) { return x * variable; }
NOINLINE struct large returns_large(int x) { struct large l = {{ x, variable, 3 }}; return l; }
NOINLINE int takes_large(struct large l) { return l.words[1] + variable; }
NOINLINE int thirteen(int a, int b, int c, int d, int e, int f, int g, int h, int i, int j, int k, int l, int m)
{ return a + b + c + d + e + f + g + h + i + j + k + l + m + variable; }
static NOINLINE int inner(int x) { return x * variable * 2; }
int outer(int x) __attribute__((alias("inner")));
NOINLINE void migrate_disable(void) { variable++; }

/* The second argument is not used, so the compiler takes it away. */
static NOINLINE int cloned(int x, int unused) { variable++; return x / 3; }

int caller(int x)
{
	struct large l = returns_large(x);
	migrate_disable();
	return cloned(x, 1) + cloned(x + 1, 2) + inner(x) + plain(x) + notrace(x) + variadic(x, x) + takes_large(l)
		+ thirteen(x, x, x, x, x, x, x, x, x, x, x, x, x);
}

int main(int count, char **names) { return caller(count); }
void __fentry__(void) __attribute__((no_instrument_function));
void __fentry__(void) { }
"#;

/// An object with BTF and a table.
fn object(room: &Room) {
    need(["gcc"]);
    room.put("a.c", SOURCE.as_bytes()).unwrap();
    tool(room, "gcc", &["-O2", "-fno-pie", "-pg", "-mfentry", "-gbtf", "-c", "a.c"]);
    assert_eq!(mcount(room, &["record", "--policy", "all", "a.o"]).code, Some(0));
}

#[test]
fn functions_in_both_are_attachable() {
    let room = Room::new().unwrap();
    object(&room);
    tool(&room, "gcc", &["-no-pie", "-o", "program", "a.o"]);
    for file in ["a.o", "program"] {
        let all = mcount(&room, &["list", "--btf", "--format", "jsonl", file]);
        assert_eq!(all.code, Some(0), "{}", all.stderr);
        let of = |name: &str| {
            let lines = all.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
            lines.filter(|line| line["symbol"] == name).map(|line| line["btf"].clone()).next()
        };
        assert_eq!(of("plain"), Some(Value::Bool(true)), "{file}");
        assert_eq!(of("notrace"), None, "{file}");
        assert_eq!(of("cloned.constprop.0").or(of("cloned.isra.0")), Some(Value::Bool(false)));
        let some = mcount(&room, &["list", "--attachable", "--format", "jsonl", file]);
        let expected = ["caller", "inner", "main", "migrate_disable", "plain", "returns_large"];
        let expected = expected.into_iter().chain(["takes_large", "thirteen", "variadic"]);
        assert_eq!(names(&some.stdout), expected.map(str::to_owned).collect(), "{file}");
        let counted = mcount(&room, &["list", "--attachable", "--count", file]);
        assert_eq!(counted.stdout, format!("9  {file}\n"));
        let text = mcount(&room, &["list", "--btf", file]).stdout;
        assert!(text.lines().nth(1).unwrap().ends_with("  TABLE     BTF"), "{text}");
        assert_eq!(text.lines().filter(|line| line.ends_with("  yes")).count(), 9, "{text}");
        let csv = mcount(&room, &["list", "--attachable", "--format", "csv", file]).stdout;
        assert_eq!(csv.lines().filter(|line| line.ends_with(",,,true")).count(), 9, "{csv}");
    }
}

/// A kernel frees some code when it has begun: BPF can't attach to that.
#[test]
fn code_that_is_freed_is_not_offered() {
    need(["gcc"]);
    let text = "int variable;
        __attribute__((noinline, section(\".init.text\"))) int begins(int x) { return x ^ variable; }
        __attribute__((noinline)) int stays(int x) { return begins(x) + 1; }
        int main(int count, char **names) { return stays(count); }
        void __fentry__(void) __attribute__((no_instrument_function));
        void __fentry__(void) { }";
    let room = Room::new().unwrap();
    room.put("a.c", text.as_bytes()).unwrap();
    tool(&room, "gcc", &["-O2", "-fno-pie", "-pg", "-mfentry", "-gbtf", "-c", "a.c"]);
    assert_eq!(mcount(&room, &["record", "--policy", "all", "a.o"]).code, Some(0));
    // A linker keeps the section only by a script, and says otherwise where its code is.
    let bounds = "-Wl,--defsym=_sinittext=begins,--defsym=_einittext=begins+16";
    tool(&room, "gcc", &["-no-pie", "-o", "program", bounds, "a.o"]);
    for file in ["a.o", "program"] {
        let some = mcount(&room, &["list", "--attachable", "--format", "jsonl", file]);
        assert!(!names(&some.stdout).contains("begins"), "{file}: {}", some.stdout);
        assert!(names(&some.stdout).contains("stays"), "{file}: {}", some.stdout);
        let why = mcount(&room, &["why", file, "begins"]);
        assert!(
            why.stdout.contains("BPF can't attach: in the table, but the kernel frees"),
            "{file}: {}",
            why.stdout
        );
    }
}

/// What bpftool calls the functions that are in both is what we call attachable.
#[test]
fn bpftool_sees_the_same_functions() {
    need(["gcc", "nm"]);
    let room = Room::new().unwrap();
    object(&room);
    tool(&room, "gcc", &["-no-pie", "-o", "program", "a.o"]);
    let ours =
        names(&mcount(&room, &["list", "--attachable", "--format", "jsonl", "program"]).stdout);
    let all = names(&mcount(&room, &["list", "--format", "jsonl", "program"]).stdout);
    let all: BTreeSet<String> =
        all.into_iter().map(|name| name.replace("outer", "inner")).collect();
    assert_eq!(ours, all.intersection(&of_bpftool(&room, "program")).cloned().collect());
}

/// The functions that bpftool finds in the BTF of a file.
fn of_bpftool(room: &Room, file: &str) -> BTreeSet<String> {
    need(["bpftool"]);
    let dump = tool(room, "bpftool", &["btf", "dump", "file", file]);
    let functions = dump.lines().filter(|line| line.contains("] FUNC '"));
    functions.map(|line| line.split('\'').nth(1).unwrap().to_owned()).collect()
}

/// pahole makes the BTF of kernels from their debug information, and leaves functions out.
#[test]
fn btf_of_pahole() {
    need(["gcc", "pahole"]);
    let room = Room::new().unwrap();
    room.put("a.c", SOURCE.as_bytes()).unwrap();
    tool(&room, "gcc", &["-O2", "-no-pie", "-g", "-pg", "-mfentry", "-o", "first", "a.c"]);
    let link =
        ["link", "--", "gcc", "-O2", "-no-pie", "-g", "-pg", "-mfentry", "-o", "program", "a.c"];
    let linked = mcount(&room, &link);
    assert_eq!(linked.code, Some(0), "{}", linked.stderr);
    tool(&room, "pahole", &["-J", "program"]);
    let known = btf::functions(&room.get("program").unwrap(), None).unwrap();
    assert_eq!(known.keys().cloned().collect::<BTreeSet<_>>(), of_bpftool(&room, "program"));
    let ours =
        names(&mcount(&room, &["list", "--attachable", "--format", "jsonl", "program"]).stdout);
    let all = names(&mcount(&room, &["list", "--format", "jsonl", "program"]).stdout);
    let all: BTreeSet<String> =
        all.into_iter().map(|name| name.replace("outer", "inner")).collect();
    assert_eq!(ours, all.intersection(&of_bpftool(&room, "program")).cloned().collect());
    assert!(ours.contains("plain"), "{ours:?}");
}

#[test]
fn why_says_what_is_missing() {
    let room = Room::new().unwrap();
    object(&room);
    let clone = {
        let all = names(&mcount(&room, &["list", "--format", "jsonl", "a.o"]).stdout);
        all.into_iter().find(|name| name.starts_with("cloned.")).unwrap()
    };
    let suffix = clone.strip_prefix("cloned").unwrap().to_owned();
    let changed = format!("not in BTF: {suffix} says that the compiler changed its parameters");
    let both = "in the table and in BTF";
    let refused = |why: &str| format!("{both}, but BPF refuses it: {why}");
    let rows = [
        ("plain", true, true, both.to_owned()),
        ("notrace", true, false, "in BTF, but not in the table".to_owned()),
        ("variadic", true, false, refused("it takes any number of arguments")),
        ("thirteen", true, false, refused("it has 13 arguments")),
        ("takes_large", true, false, refused("an argument is a structure of 24 bytes")),
        ("returns_large", true, false, refused("it returns neither a number nor a pointer")),
        (
            "migrate_disable",
            true,
            false,
            format!("{both}, but BPF refuses it, because BPF itself calls it"),
        ),
        (&clone, false, false, changed),
    ];
    for (name, in_btf, attachable, words) in rows {
        let answer =
            mcount(&room, &["why", "--format", "jsonl", "--policy", "all", "a.o", name]).stdout;
        let answer: Value = serde_json::from_str(answer.lines().next().unwrap()).unwrap();
        assert_eq!(answer["btf"], in_btf, "{name}");
        assert_eq!(answer["attachable"], attachable, "{name}");
        let said = answer["attachable_text"].as_str().unwrap();
        assert!(said.starts_with(&words), "{name}: {said}");
        let text = mcount(&room, &["why", "--policy", "all", "a.o", name]).stdout;
        let can = if attachable { "can attach" } else { "can't attach" };
        assert!(text.contains(&format!("\n  BPF {can}: {words}")), "{text}");
    }
}

#[test(each = ["little", "big"])]
fn every_kind_of_type_is_passed_over(order: &str) {
    let big_endian = order == "big";
    let functions = btf::functions(&kernel(big_endian).bytes(), None).unwrap();
    assert_eq!(
        functions.into_iter().collect::<Vec<_>>(),
        [("kernel".to_owned(), vec![Prototype::Fine])]
    );
}

#[test(each = ["little", "big"])]
fn a_module_continues_its_kernel(order: &str) {
    let big_endian = order == "big";
    let kernel = kernel(big_endian);
    let mut module = kernel.split();
    // The type of the argument, and the name of the second function, are in the kernel's BTF.
    module.function("module", 1, &[1]);
    let prototype = module.next - 2;
    let shared =
        u32::try_from(kernel.strings.windows(7).position(|w| w == b"kernel\0").unwrap()).unwrap();
    module.add_named(shared, 12, prototype, &[], 0);
    let (kernel, module) = (kernel.bytes(), module.bytes());
    assert_eq!(btf::functions(&module, None), Err(btf::Error::NeedsBase));
    let base = Base::read(&kernel).unwrap();
    let functions = btf::functions(&module, Some(&base)).unwrap();
    let fine = vec![Prototype::Fine];
    let expected = [("kernel".to_owned(), fine.clone()), ("module".to_owned(), fine)];
    assert_eq!(functions.into_iter().collect::<Vec<_>>(), expected);
}

/// `list` and `why` of a module: with the kernel named, with a base in the module, and with neither.
#[test]
fn a_module_needs_its_kernel() {
    need(["objcopy"]);
    let room = Room::new().unwrap();
    object(&room);
    let kernel = kernel(false);
    let mut module = kernel.split();
    module.function("plain", 1, &[1]);
    room.put("vmlinux", &kernel.bytes()).unwrap();
    room.put("split", &module.bytes()).unwrap();
    tool(&room, "objcopy", &["--remove-section=.BTF", "--add-section=.BTF=split", "a.o", "a.ko"]);
    let alone = mcount(&room, &["list", "--attachable", "a.ko"]);
    assert_eq!(alone.code, Some(2));
    let hint = "BTF of a module, which continues that of its kernel: see --btf-base";
    assert_eq!(alone.stderr, format!("mcount: a.ko: {hint}\n"));
    let why = mcount(&room, &["why", "--policy", "all", "a.ko", "plain"]);
    assert_eq!((why.code, why.stderr), (Some(0), format!("mcount: warning: a.ko: {hint}\n")));
    let with = ["list", "--attachable", "--format", "jsonl", "--btf-base", "vmlinux", "a.ko"];
    assert_eq!(names(&mcount(&room, &with).stdout), BTreeSet::from(["plain".to_owned()]));
    tool(&room, "objcopy", &["--add-section=.BTF.base=vmlinux", "a.ko", "b.ko"]);
    let distilled = mcount(&room, &["list", "--attachable", "--format", "jsonl", "b.ko"]);
    assert_eq!(
        names(&distilled.stdout),
        BTreeSet::from(["plain".to_owned()]),
        "{}",
        distilled.stderr
    );
    // BTF from elsewhere.
    let from = ["list", "--attachable", "--count", "--btf-from", "vmlinux", "a.ko"];
    assert_eq!(mcount(&room, &from).stdout, "0  a.ko\n");
    tool(&room, "objcopy", &["--remove-section=.BTF", "a.o", "none.o"]);
    let none = mcount(&room, &["list", "--btf", "none.o"]);
    assert_eq!(
        (none.code, none.stderr.as_str()),
        (Some(2), "mcount: none.o: no BTF: see --btf-from\n")
    );
}

/// A folder like `/sys/kernel`.
fn running(room: &Room) -> &'static str {
    let mut kernel = kernel(false);
    kernel.function("vfs_read", 1, &[1]);
    kernel.function("vfs_notrace", 1, &[1]);
    kernel.function("vfs_print", 1, &[1, 0]);
    kernel.function("split_up", 1, &[1]);
    let mut module = kernel.split();
    module.function("module_read", 1, &[1]);
    for folder in ["btf", "tracing"] {
        std::fs::create_dir(room.path(folder)).unwrap();
    }
    room.put("btf/vmlinux", &kernel.bytes()).unwrap();
    room.put("btf/some_module", &module.bytes()).unwrap();
    let list = "vfs_read\nvfs_print\nsplit_up.isra.0\nno_btf\nmodule_read [some_module]\nother [plain_module]\n";
    room.put("tracing/available_filter_functions", list.as_bytes()).unwrap();
    "tracing/available_filter_functions"
}

#[test]
fn the_running_kernel() {
    let room = Room::new().unwrap();
    let list = running(&room);
    let all = mcount(&room, &["list", "--btf", list]);
    assert_eq!(all.code, Some(0), "{}", all.stderr);
    let expected = "tracing/available_filter_functions: running kernel, 6 functions
  vfs_read         yes
  vfs_print        yes
  split_up.isra.0  no
  no_btf           no
  module_read      yes [some_module]
  other            no  [plain_module]
";
    assert_eq!(all.stdout, expected);
    let some = mcount(&room, &["list", "--attachable", "--format", "jsonl", list]).stdout;
    let expected = ["module_read", "vfs_print", "vfs_read"].map(str::to_owned);
    assert_eq!(names(&some), BTreeSet::from(expected));
    assert_eq!(
        mcount(&room, &["list", "--attachable", "--count", list]).stdout,
        format!("3  {list}\n")
    );
    let csv = mcount(&room, &["list", "--attachable", "--format", "csv", list]).stdout;
    assert!(csv.ends_with(&format!("{list},module_read,some_module,true\n")), "{csv}");
    let rows = [
        ("vfs_read", 0, "in the table and in BTF"),
        (
            "vfs_print",
            0,
            "in the table and in BTF, but BPF refuses it: it takes any number of arguments",
        ),
        (
            "vfs_notrace",
            0,
            "in BTF, but not in the table: notrace, inlined, or built without hooks",
        ),
        ("split_up", 0, "not in the table; the compiler made split_up.isra.0 of it"),
        ("module_read", 0, "module some_module: in the table and in BTF"),
        ("nothing", 1, "neither in the table nor in BTF"),
        (
            "split_up.isra.0",
            0,
            "not in BTF: .isra.0 says that the compiler changed its parameters; BTF has split_up, \
             but that is not the name of this code",
        ),
        (
            "no_btf",
            0,
            "not in BTF: the compiler optimized its parameters, or it's in assembly, which has no types",
        ),
    ];
    for (name, code, words) in rows {
        let why = mcount(&room, &["why", list, name]);
        assert_eq!(
            (why.code, why.stdout),
            (Some(code), format!("{name}: {words}\n")),
            "{}",
            why.stderr
        );
    }
}

#[test]
fn what_a_list_may_look_like() {
    let room = Room::new().unwrap();
    let list = running(&room);
    let rows = [
        ("ffffffff81000000 vfs_read\nffffffffc0000000 module_read [some_module]\n", Ok(2)),
        ("", Ok(0)),
        // A function whose name looks like an address.
        ("deadbeef\ndeadbeef [some_module]\n", Ok(0)),
        ("vfs_read\n\x7fELF \x01 junk\n", Err("line 2")),
        ("vfs_read some_module\n", Err("line 1")),
        ("vfs_read [../../etc/passwd]\n", Ok(0)),
    ];
    for (text, expected) in rows {
        room.put(list, text.as_bytes()).unwrap();
        let found = mcount(&room, &["list", "--attachable", "--count", list]);
        match expected {
            Ok(count) => assert_eq!(found.stdout, format!("{count}  {list}\n"), "{}", found.stderr),
            Err(line) => {
                assert_eq!(found.code, Some(2), "{text:?}");
                assert!(found.stderr.contains(line), "{}", found.stderr);
            }
        }
    }
}

/// Whatever BTF says, reading it ends, with functions or with an error.
#[test]
fn damaged_btf_is_no_danger() {
    let kernel = kernel(false);
    let mut module = kernel.split();
    module.function("module", 1, &[1]);
    let (kernel, module) = (kernel.bytes(), module.bytes());
    let mut errors = 0;
    for at in 0..kernel.len() {
        for value in [0, 1, 0x7f, 0x80, 0xff, kernel[at].wrapping_add(1), kernel[at] ^ 0x10] {
            let mut damaged = kernel.clone();
            damaged[at] = value;
            errors += usize::from(btf::functions(&damaged, None).is_err());
            if let Ok(base) = Base::read(&damaged) {
                let _ = btf::functions(&module, Some(&base));
            }
        }
        errors += usize::from(btf::functions(&kernel[..at], None).is_err());
    }
    for at in 0..module.len() {
        for value in [0, 1, 0x7f, 0xff] {
            let mut damaged = module.clone();
            damaged[at] = value;
            let _ = btf::functions(&damaged, Base::read(&kernel).ok().as_ref());
        }
    }
    assert!(errors > kernel.len(), "damage in a header must be seen");
    // A name for itself.
    let mut made = Made::whole(false);
    made.add("t", 8, 1, &[], 0);
    made.function("f", 1, &[]);
    assert_eq!(btf::functions(&made.bytes(), None).unwrap()["f"], [Prototype::Returns]);
    // A function without a prototype.
    made.add("g", 12, 1, &[], 0);
    assert_eq!(btf::functions(&made.bytes(), None).unwrap()["g"], [Prototype::Unknown]);
}
