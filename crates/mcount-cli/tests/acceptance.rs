//! What other tools make of recorded objects: each reads, copies, strips and links them without a
//! word that it did not say of the object as the compiler made it, and the table that comes out
//! leads to the same places.
//!
//! Needs binutils, lld, gold, mold and LLVM. A tool that is missing skips its test, or fails it
//! with `MCOUNT_REQUIRE_TOOLS=1`. The assemblers that Debian does not package are looked for in
//! `$MCOUNT_CROSS` (tests/prebuilt/README.md), and their objects left out where it is not set.
#![expect(
    clippy::unwrap_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::print_stdout,
    reason = "a test"
)]

use mcount::{Base, Options, Policy, RecordOptions};
use object::read::{Object as _, ObjectSection as _, ObjectSymbol as _};
use rayon::prelude::*;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use tempfile::TempDir;
use testkit::prebuilt::{self, Prebuilt};
use testkit::reader;
use testkit::test;
use testkit::tools::need;

fn main() -> std::process::ExitCode {
    testkit::trial::main()
}

/// The binutils of an object, by the start of its name; the longest match counts.
const PREFIXES: &[(&str, &str)] = &[
    ("x86_64", "x86_64-linux-gnu-"),
    ("x32", "x86_64-linux-gnu-"),
    ("i386", "i686-linux-gnu-"),
    ("arm", "arm-linux-gnueabi-"),
    ("aarch64", "aarch64-linux-gnu-"),
    ("riscv", "riscv64-linux-gnu-"),
    ("powerpc", "powerpc-linux-gnu-"),
    ("powerpc64", "powerpc64-linux-gnu-"),
    ("powerpc64le", "powerpc64le-linux-gnu-"),
    ("s390", "s390x-linux-gnu-"),
    ("mips", "mips-linux-gnu-"),
    ("mipsel", "mipsel-linux-gnu-"),
    ("mips64", "mips64-linux-gnuabi64-"),
    ("mips64el", "mips64el-linux-gnuabi64-"),
    ("sparc", "sparc64-linux-gnu-"),
    ("sh4", "sh4-linux-gnu-"),
    ("hppa", "hppa-linux-gnu-"),
    ("hppa64", "hppa64-linux-gnu-"),
];

/// The same, of those that are in `$MCOUNT_CROSS`.
const CROSS: &[(&str, &str)] = &[
    ("loongarch", "loongarch64-linux-gnu"),
    ("microblaze", "microblaze-linux-gnu"),
    ("csky", "csky-linux-gnu"),
    ("nds32", "nds32le-linux-gnu"),
];

/// The program `tool` of the binutils for `object`; `None` for a processor whose are not here.
fn binutil(object: &str, tool: &str) -> Option<String> {
    let processor = object.split('-').next().unwrap();
    let prefixes = PREFIXES.iter().filter(|(name, _)| processor.starts_with(name));
    if let Some((_, prefix)) = prefixes.max_by_key(|(name, _)| name.len()) {
        return Some(format!("{prefix}{tool}"));
    }
    let (_, prefix) = CROSS.iter().find(|(name, _)| processor.starts_with(name))?;
    let folder = PathBuf::from(std::env::var_os("MCOUNT_CROSS")?);
    Some(folder.join(prefix).join("bin").join(format!("{prefix}-{tool}")).display().to_string())
}

/// The emulations of GNU ld for objects that are not of its first one.
const EMULATIONS: &[(&str, &str)] = &[
    ("x32", "elf32_x86_64"),
    ("armeb", "armelfb_linux_eabi"),
    ("aarch64_be-ilp32", "aarch64linux32b"),
    ("aarch64_be", "aarch64linuxb"),
    ("aarch64-ilp32", "aarch64linux32"),
    ("riscv32", "elf32lriscv"),
    ("powerpcle", "elf32lppclinux"),
    ("s390-", "elf_s390"),
    ("mips64-n32", "elf32btsmipn32"),
    ("mips64el-n32", "elf32ltsmipn32"),
    ("sparc32", "elf32_sparc"),
    ("sh4eb", "shbelf_linux"),
    ("nds32be", "nds32belf_linux"),
    ("microblazeel", "elf32microblazeel"),
    ("cskybe", "elf32_csky_be"),
    ("loongarch32", "elf32loongarch"),
];

/// What is done to `x.o` in its folder; `out.o`, if the tool makes it, must have the same table.
struct Tool {
    name: &'static str,
    /// Binutils of the object's processor, not one for all.
    of_processor: bool,
    arguments: &'static [&'static str],
    /// How many of the prebuilt objects it must accept at least, so that this tests something.
    at_least: usize,
}

const TOOLS: &[Tool] = &[
    Tool { name: "readelf", of_processor: false, arguments: &["-aW", "x.o"], at_least: 130 },
    Tool { name: "llvm-readelf", of_processor: false, arguments: &["-aW", "x.o"], at_least: 130 },
    Tool { name: "objdump", of_processor: true, arguments: &["-dr", "x.o"], at_least: 110 },
    Tool {
        name: "ld",
        of_processor: true,
        arguments: &["-r", "-o", "out.o", "x.o"],
        at_least: 110,
    },
    Tool {
        name: "ld.lld",
        of_processor: false,
        arguments: &["-r", "-o", "out.o", "x.o"],
        at_least: 80,
    },
    Tool {
        name: "strip",
        of_processor: true,
        arguments: &["--strip-debug", "-o", "out.o", "x.o"],
        at_least: 110,
    },
    Tool { name: "objcopy", of_processor: true, arguments: &["x.o", "out.o"], at_least: 110 },
    Tool { name: "llvm-objcopy", of_processor: false, arguments: &["x.o", "out.o"], at_least: 110 },
    Tool { name: "ar", of_processor: false, arguments: &["rcs", "x.a", "x.o"], at_least: 130 },
];

/// How files are looked at, and how they are recorded.
type Both = (Options, RecordOptions);

fn policy_all() -> Both {
    let options = Options::default().policy(Policy::of(Base::All));
    (options, RecordOptions::default().writable(true))
}

/// The object after recording, if that changes it.
fn recorded(bytes: &[u8], (options, how): &Both) -> Option<Vec<u8>> {
    let change = mcount::record(bytes, options, how).unwrap().change?;
    Some(change.apply(bytes))
}

/// What a tool makes of `object`: whether it succeeds, its diagnostics, and `out.o`.
fn run(
    tool: &Tool,
    name: &str,
    object: &[u8],
) -> Option<(bool, BTreeSet<String>, Option<Vec<u8>>)> {
    let program = if tool.of_processor { binutil(name, tool.name)? } else { tool.name.to_owned() };
    let folder = TempDir::new().unwrap();
    testkit::files::write(&folder.path().join("x.o"), object).unwrap();
    let mut command = Command::new(&program);
    if tool.name == "ld" {
        let emulation = EMULATIONS.iter().find(|(start, _)| name.starts_with(start));
        command.args(emulation.iter().flat_map(|(_, emulation)| ["-m", *emulation]));
    }
    command.args(tool.arguments).current_dir(folder.path()).stdin(Stdio::null());
    let output = command.output().unwrap_or_else(|error| panic!("{program}: {error}"));
    let stderr = String::from_utf8_lossy(&output.stderr);
    let lines = stderr.lines().map(str::to_owned).collect();
    let out = testkit::files::read(&folder.path().join("out.o")).ok();
    Some((output.status.success(), lines, out))
}

/// Whether `tool` accepted it; an error if it says more of `new` than of `old`, or loses entries.
fn judge(tool: &Tool, name: &str, old: &[u8], new: &[u8]) -> Result<bool, String> {
    let Some((succeeds, lines, out)) = run(tool, name, new) else { return Ok(false) };
    if !succeeds || !lines.is_empty() {
        let (succeeded, before, _) = run(tool, name, old).unwrap();
        let more: Vec<_> = lines.difference(&before).collect();
        if succeeded != succeeds || succeeds && !more.is_empty() {
            return Err(format!("{} of {name}: {more:?}", tool.name));
        }
        if !succeeds {
            return Ok(false);
        }
    }
    let Some(out) = out else { return Ok(true) };
    let table = |file: &[u8]| -> Result<Vec<(String, u64)>, String> {
        let mut found: Vec<_> = reader::table(file, "__mcount_loc")?
            .into_iter()
            .map(|place| (place.section, place.offset))
            .collect();
        found.sort();
        Ok(found)
    };
    let found = table(&out).map_err(|error| format!("{} of {name}: {error}", tool.name))?;
    let expected = table(new)?;
    if found == expected {
        Ok(true)
    } else {
        Err(format!("{} of {name}: {found:x?}, not {expected:x?}", tool.name))
    }
}

/// `tool` over `objects` with `options`.
fn accepts(tool: &Tool, objects: &[Prebuilt], both: &Both, at_least: usize) {
    let results: Vec<_> = objects
        .par_iter()
        .filter_map(|Prebuilt { name, bytes }| {
            Some(judge(tool, name, bytes, &recorded(bytes, both)?))
        })
        .collect();
    let failures: Vec<_> = results.iter().filter_map(|result| result.as_ref().err()).collect();
    assert!(failures.is_empty(), "{failures:#?}");
    let accepted = results.iter().filter(|result| **result == Ok(true)).count();
    println!("{}: {accepted} of {}", tool.name, results.len());
    assert!(accepted >= at_least, "{} accepted only {accepted} objects", tool.name);
}

fn accepts_all(name: &str) {
    let tool = TOOLS.iter().find(|tool| tool.name == name).unwrap();
    let programs: Vec<String> = if tool.of_processor {
        PREFIXES.iter().map(|(_, prefix)| format!("{prefix}{name}")).collect()
    } else {
        vec![name.to_owned()]
    };
    need(programs.iter().map(String::as_str));
    accepts(tool, &prebuilt::all().unwrap(), &policy_all(), tool.at_least);
    accepts(tool, &prebuilt::one_of_each().unwrap(), &Both::default(), 10);
}

/// A test for each tool, so that a missing one skips no other.
macro_rules! tools {
    ($($test:ident: $tool:literal),* $(,)?) => {
        $(#[test] fn $test() { accepts_all($tool); })*

        #[test]
        fn every_tool_has_a_test() {
            assert_eq!([$($tool),*].as_slice(), TOOLS.iter().map(|t| t.name).collect::<Vec<_>>());
        }
    };
}

tools! {
    readelf: "readelf",
    llvm_readelf: "llvm-readelf",
    objdump: "objdump",
    ld: "ld",
    lld: "ld.lld",
    strip: "strip",
    objcopy: "objcopy",
    llvm_objcopy: "llvm-objcopy",
    ar: "ar",
}

/// What the C++ object needs from outside, and what makes the linker bound the table.
const OUTSIDE: &str = "
void mcount(void) {} void __fentry__(void) {} int _Z7outsidei(int x) { return x; }
void _ZdlPvm(void) {} void __cxa_atexit(void) {} void *__dso_handle; void *_ZTVN10__cxxabiv117__class_type_infoE[4];
extern void *__start___mcount_loc[], *__stop___mcount_loc[]; int _Z11comdat_useri(int);
int main(void) { return _Z11comdat_useri(__stop___mcount_loc - __start___mcount_loc); }
";

/// The strong symbols of the C++ object, which two copies may not both have.
const STRONG: &[&str] = &["_Z11comdat_useri", "comdat_object", "comdat_pointers"];

/// Two recorded copies of the C++ object `name` and the rest of a program, in a folder.
fn two_copies(name: &str, both: &Both) -> TempDir {
    let folder = TempDir::new().unwrap();
    let path = |file: &str| folder.path().join(file);
    let object = prebuilt::root().join("tests/prebuilt").join(name);
    let first = testkit::files::read(&object).unwrap();
    testkit::files::write(&path("outside.c"), OUTSIDE.as_bytes()).unwrap();
    let run =
        |command: &mut Command| testkit::process::run(command.current_dir(folder.path())).unwrap();
    run(Command::new("cc").args(["-fno-pie", "-fcf-protection=none", "-c", "outside.c"]));
    let renames = STRONG.iter().map(|name| format!("--redefine-sym={name}={name}2"));
    run(Command::new("objcopy").args(renames).arg(&object).arg("b.o"));
    let second = testkit::files::read(&path("b.o")).unwrap();
    for (file, bytes) in [("a.o", first), ("b.o", second)] {
        testkit::files::write(&path(file), &recorded(&bytes, both).unwrap()).unwrap();
    }
    folder
}

/// The functions that entries of `image` lead to, one for each, and all that have a call; sorted.
fn entries_and_functions(image: &Path) -> [Vec<String>; 2] {
    let bytes = testkit::files::read(image).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let mut functions: BTreeMap<u64, (u64, BTreeSet<String>)> = BTreeMap::new();
    for symbol in file.symbols().filter(|symbol| symbol.kind() == object::SymbolKind::Text) {
        let entry = functions.entry(symbol.address()).or_default();
        entry.0 = entry.0.max(symbol.size());
        entry.1.insert(symbol.name().unwrap().to_owned());
    }
    let name = |address: u64| -> String {
        let (start, (size, names)) = functions.range(..=address).next_back().unwrap();
        assert!(address - start < *size, "entry {address:#x} is in no function");
        names.iter().cloned().collect::<Vec<_>>().join(" ")
    };
    let bound = |name: &str| {
        let symbol = file.symbols().find(|symbol| symbol.name() == Ok(name));
        symbol.unwrap_or_else(|| panic!("no {name}")).address()
    };
    let (start, stop) = (bound("__start___mcount_loc"), bound("__stop___mcount_loc"));
    let holds = |section: &object::Section<'_, '_>| {
        section.address() <= start && stop <= section.address() + section.size()
    };
    let section = file.sections().find(|s| s.address() != 0 && holds(s)).unwrap();
    let data = section.data_range(start, stop - start).unwrap().unwrap();
    let entries = data.chunks(8).map(|word| name(u64::from_le_bytes(word.try_into().unwrap())));
    let traced = functions.iter();
    let traced = traced
        .filter(|(_, (_, names))| names.iter().any(|name| name.to_lowercase().contains("comdat")));
    let traced = traced.map(|(_, (_, names))| names.iter().cloned().collect::<Vec<_>>().join(" "));
    [entries.collect(), traced.collect()].map(|mut names: Vec<String>| {
        names.sort();
        names
    })
}

/// Links two copies; the table must lead to each live function once, and to nothing else.
fn links(linker: &str, name: &str, link_order: bool, arguments: &[&str]) -> usize {
    let (options, how) = policy_all();
    let folder = two_copies(name, &(options, how.link_order(link_order)));
    let mut command = Command::new(linker);
    command.args(["-o", "image", "-e", "main"]).args(arguments);
    command.args(["a.o", "b.o", "outside.o"]).current_dir(folder.path());
    let output = command.output().unwrap();
    let stderr = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{linker}: {stderr}");
    assert_eq!(stderr, "", "{linker}");
    let [entries, functions] = entries_and_functions(&folder.path().join("image"));
    assert_eq!(entries, functions, "{linker} {arguments:?}");
    entries.len()
}

const COMDAT: &[&str] = &["x86_64-comdat.o", "x86_64-comdat-fentry-sections.o"];

/// With and without garbage collection, which drops the second user of the classes where the linker
/// lets a section go that `__start_` refers to.
fn links_with(linker: &str, arguments: &[&str], collects: bool) {
    need([linker, "cc", "objcopy"]);
    for name in COMDAT {
        // Five functions are in groups, and each copy has two of its own.
        assert_eq!(links(linker, name, false, &[]), 9, "{linker} of {name}");
    }
    let live = links(linker, COMDAT[1], true, arguments);
    assert_eq!(live < 9, collects, "{linker} {arguments:?}: {live} live");
}

const COLLECT: &[&str] = &["--gc-sections", "-z", "start-stop-gc"];

#[test]
fn copies_are_dropped_by_bfd() {
    links_with("ld.bfd", COLLECT, true);
}

#[test]
fn copies_are_dropped_by_gold() {
    links_with("ld.gold", &["--gc-sections"], false);
}

#[test]
fn copies_are_dropped_by_lld() {
    links_with("ld.lld", COLLECT, true);
}

#[test]
fn copies_are_dropped_by_mold() {
    links_with("mold", &["--gc-sections"], false);
}
