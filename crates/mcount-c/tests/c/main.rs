//! `libmcount`, from C: what it says is what the Rust library says, under an address sanitizer, linked with the archive
//! and with the shared library. The header, the list of versioned symbols and the man page name the same functions.
#![expect(clippy::unwrap_used, reason = "a test")]

use mcount::{CallSite, Kind, Options, Sites};
use std::collections::BTreeSet;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use testkit::room::Room;
use testkit::test;
use testkit::tools::need;

fn main() -> std::process::ExitCode {
    testkit::trial::main()
}

fn here() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR"))
}

fn path(name: &str) -> String {
    here().join(name).to_str().unwrap().to_owned()
}

/// The archive that cargo has built for this test.
fn archive() -> String {
    let folder = std::env::current_exe().unwrap().parent().unwrap().to_owned();
    folder.join("libmcount_c.a").to_str().unwrap().to_owned()
}

/// What a tool that must succeed prints.
fn tool(room: &Room, program: &str, arguments: &[&str]) -> String {
    let outcome = room.run(Path::new(program), arguments).unwrap();
    assert_eq!(outcome.code, Some(0), "{program} {arguments:?}: {}", outcome.stderr);
    outcome.stdout
}

/// Links the shared library as `cargo xtask dist` does.
fn shared(room: &Room) {
    let script = format!("-Wl,--version-script={}", path("libmcount.map"));
    let archive = archive();
    let arguments =
        ["-shared", "-o", "libmcount.so.0", "-Wl,-soname,libmcount.so.0", "-Wl,--strip-debug"];
    let rest =
        ["-Wl,--gc-sections", &script, "-Wl,--whole-archive", &archive, "-Wl,--no-whole-archive"];
    let libraries = ["-lpthread", "-ldl", "-lm"];
    tool(room, "gcc", &[&arguments[..], &rest, &libraries].concat());
    std::os::unix::fs::symlink("libmcount.so.0", room.path("libmcount.so")).unwrap();
}

fn site(out: &mut String, site: &CallSite) {
    let text = |text: Option<&str>| text.unwrap_or("-").to_owned();
    let kind = match site.kind {
        Some(Kind::Call) => 1,
        Some(Kind::Nop) => 2,
        Some(Kind::Patchable) => 3,
        Some(Kind::Literal) => 4,
        Some(Kind::Sled) => 5,
        _ => 0,
    };
    let flags =
        [site.recorded, site.excluded, site.stale, site.offset.is_some(), site.address.is_some()];
    let flags = flags.iter().rev().fold(0, |flags, flag| flags << 1 | u32::from(*flag));
    let (index, offset) = (site.section_index.unwrap_or(0), site.offset.unwrap_or(0));
    let (address, distance) = (site.address.unwrap_or(0), site.symbol_offset.unwrap_or(0));
    let (section, symbol) = (text(site.section.as_deref()), text(site.symbol.as_deref()));
    let (called, bytes) = (text(site.hook.as_deref()), site.size.unwrap_or(0));
    writeln!(
        out,
        "{index} {section} {offset} {address} {symbol} {distance} {called} {bytes} {kind} {flags}"
    )
    .unwrap();
}

/// What `use.c` prints of an object, by the Rust library.
fn expected(object: &[u8]) -> String {
    let options = Options::default();
    let sites = mcount::scan(object, &options).unwrap();
    let mut out = "3 0 0 not an ELF file
4 1 255 offset 0xff: truncated: section header table
2 No such file or directory
1 no option is called colour
"
    .to_owned();
    let Sites { machine, bits, big_endian, is_image, .. } = sites;
    writeln!(out, "{machine} {bits} {} {}", i32::from(big_endian), i32::from(is_image)).unwrap();
    sites.sites.iter().for_each(|found| site(&mut out, found));
    for found in mcount::check(object, &options, &mcount::CheckOptions::default()).unwrap() {
        // Rules that are off by default aren't for those who can't switch them on.
        if found.rule.default_level() == mcount::Level::Allow {
            continue;
        }
        let flags = if found.offset.is_some() { 8 } else { 0 };
        let (section, symbol) = (found.section.as_deref(), found.symbol.as_deref());
        let (rule, offset) = (found.rule.name(), found.offset.unwrap_or(0));
        let is_error = i32::from(found.rule.default_level() == mcount::Level::Deny);
        let (section, symbol) = (section.unwrap_or("-"), symbol.unwrap_or("-"));
        writeln!(out, "{rule} {section} {offset} {symbol} {flags} {is_error}").unwrap();
    }
    let change =
        mcount::record(object, &options, &mcount::RecordOptions::default()).unwrap().change;
    let table = mcount::read_table(&change.unwrap().apply(object), &options).unwrap();
    for _ in 0..2 {
        table.sites.iter().for_each(|found| site(&mut out, found));
    }
    out
}

/// The prebuilt objects that have a table to make.
fn objects() -> Vec<testkit::prebuilt::Prebuilt> {
    let all = testkit::prebuilt::all().unwrap();
    let found: Vec<_> = all
        .into_iter()
        .filter(|object| {
            mcount::record(&object.bytes, &Options::default(), &mcount::RecordOptions::default())
                .is_ok_and(|recording| recording.change.is_some())
        })
        .collect();
    assert!(found.len() > 20, "{}", found.len());
    found
}

fn says_what_the_rust_library_says(flags: &[&str]) {
    need(["gcc"]);
    let room = Room::new().unwrap();
    let (source, include) = (path("tests/c/use.c"), format!("-I{}", path("../../include")));
    let mut arguments = vec![
        "-Wall",
        "-Wextra",
        "-Werror",
        "-pedantic",
        "-std=c11",
        &include,
        "-o",
        "use",
        &source,
    ];
    arguments.extend(flags);
    if flags.contains(&"-lmcount") {
        shared(&room);
    }
    arguments.extend(["-lpthread", "-ldl", "-lm"]);
    tool(&room, "gcc", &arguments);
    for object in objects() {
        room.put("object.o", &object.bytes).unwrap();
        let said = tool(&room, "./use", &["object.o"]);
        assert_eq!(said, expected(&object.bytes), "{}", object.name);
    }
}

#[test]
fn the_archive_under_address_sanitizer() {
    says_what_the_rust_library_says(&["-g", "-fsanitize=address,undefined", &archive()]);
}

#[test]
fn the_shared_library() {
    says_what_the_rust_library_says(&["-L.", "-lmcount", "-Wl,-rpath,$ORIGIN"]);
}

#[test]
fn the_header_is_also_cplusplus() {
    need(["g++"]);
    let room = Room::new().unwrap();
    let include = format!("-I{}", path("../../include"));
    // Beside the header of the other library.
    room.put("a.cpp", b"#include <mcount/file.h>\n#include <mcount/live.h>\n").unwrap();
    tool(&room, "g++", &["-Wall", "-Wextra", "-Werror", "-pedantic", &include, "-c", "a.cpp"]);
}

/// The words of a header, with what `#define` gives names in their place, and types as the header in C has them.
fn words(header: &str) -> Vec<String> {
    let mut code = String::new();
    for (number, part) in header.split("/*").enumerate() {
        let part = if number == 0 { part } else { part.split_once("*/").unwrap().1 };
        code.push_str(part);
    }
    let mut defined: Vec<(&str, &str)> = Vec::new();
    let mut text = String::new();
    for line in code.lines() {
        match line.strip_prefix("#define ").and_then(|rest| rest.split_once(' ')) {
            Some(definition) => defined.push(definition),
            None if line.starts_with('#') || line.starts_with("extern \"C\"") => {}
            None => text.extend([line, "\n"]),
        }
    }
    let mut words: Vec<String> = vec![String::new()];
    for character in text.chars() {
        let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if !is_word(character) || !words.last().unwrap().chars().all(is_word) {
            words.push(String::new());
        }
        words.last_mut().unwrap().push(character);
    }
    words.retain(|word| !word.trim().is_empty());
    for word in &mut words {
        if let Some((_, value)) = defined.iter().find(|(name, _)| name == word) {
            *word = (*value).to_owned();
        }
        // The library's types, and those of C.
        let is_type = word.starts_with("Mcount");
        let snake = |c: char| {
            if c.is_ascii_uppercase() { format!("_{}", c.to_ascii_lowercase()) } else { c.into() }
        };
        if is_type {
            *word = word.chars().map(snake).collect::<String>().split_off(1);
        } else if word == "uintptr_t" {
            "size_t".clone_into(word);
        }
    }
    words
}

/// What is declared in a header: structures with their fields, and functions.
fn declared(header: &str) -> BTreeSet<String> {
    let mut words = words(header);
    words.retain(|word| !matches!(word.as_str(), "struct" | "typedef"));
    let (mut depth, mut found, mut last) = (0, BTreeSet::new(), Vec::new());
    for word in words {
        depth += usize::from(word == "{");
        depth -= usize::from(word == "}" && depth > 0);
        if word != ";" || depth > 0 {
            last.push(word);
            continue;
        }
        // Its name stands behind a structure, too, if it has a typedef.
        if let Some(end) = last.iter().rposition(|word| word == "}") {
            last.truncate(end + 1);
        }
        let declaration = std::mem::take(&mut last);
        let is_enumeration = declaration.first().is_some_and(|word| word == "enum");
        let is_opaque = declaration.len() == 2;
        if !is_enumeration && !is_opaque {
            found.insert(declaration.join(" "));
        }
    }
    found
}

/// The header is written by hand, with what C programmers expect of one. What it declares is what the library has.
#[test]
fn the_header_declares_what_cbindgen_finds() {
    // Debian's doesn't read this edition of Rust: `cargo install cbindgen`.
    if testkit::tools::find("cbindgen").is_none() {
        testkit::trial::ignore("not installed: cbindgen");
    }
    let room = Room::new().unwrap();
    let header = testkit::files::read(&here().join("../../include/mcount/file.h")).unwrap();
    let crate_of = here().to_str().unwrap().to_owned();
    let generated =
        tool(&room, "cbindgen", &["--quiet", "--lang", "c", "--crate", "mcount-c", &crate_of]);
    let ours = declared(&String::from_utf8(header).unwrap());
    assert!(ours.len() > 25, "{ours:?}");
    assert_eq!(ours, declared(&generated));
}

/// The names that `text` has and that begin with `mcount_` and end before `end`.
fn names(text: &str, end: &str) -> BTreeSet<String> {
    let is_name = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let parts = text.split(end).filter(|part| part.len() < text.len());
    let mut found: BTreeSet<String> = BTreeSet::new();
    let count = text.matches(end).count();
    for part in parts.take(count) {
        let start = part.rfind(|c: char| !is_name(c)).map_or(0, |at| at + 1);
        let name = part.get(start..).unwrap_or_default();
        if name.starts_with("mcount_") {
            found.insert(name.to_owned());
        }
    }
    found
}

#[test]
fn header_versions_and_manual_name_the_same_functions() {
    need(["gcc", "nm"]);
    let room = Room::new().unwrap();
    let read =
        |name: &str| String::from_utf8(testkit::files::read(&here().join(name)).unwrap()).unwrap();
    let header = read("../../include/mcount/file.h");
    let without_comments: String = header
        .split("/*")
        .map(|part| part.split_once("*/").map_or(part, |(_, code)| code))
        .collect();
    let declared = names(&without_comments, "(");
    assert!(declared.len() > 20, "{declared:?}");
    assert_eq!(names(&read("libmcount.map"), ";"), declared);
    let manual = read("mcount_file.3");
    let (_, listed) = manual.split_once(".SH NAME\n").unwrap();
    let (listed, _) = listed.split_once(" \\-").unwrap();
    assert_eq!(
        listed
            .split([',', '\n', ' '])
            .filter(|n| !n.is_empty())
            .map(str::to_owned)
            .collect::<BTreeSet<_>>(),
        declared
    );
    shared(&room);
    let exported = tool(&room, "nm", &["-D", "--defined-only", "libmcount.so.0"]);
    let exported: BTreeSet<String> = exported
        .lines()
        .filter_map(|line| line.split_whitespace().nth(2))
        .map(str::to_owned)
        .collect();
    let mut versioned: BTreeSet<String> =
        declared.iter().map(|name| format!("{name}@@MCOUNT_0")).collect();
    versioned.insert("MCOUNT_0".to_owned());
    assert_eq!(exported, versioned);
}

/// `examples/table.c` makes the table of a program that checks it itself.
#[test]
fn the_table_of_an_rtos() {
    need(["gcc"]);
    let room = Room::new().unwrap();
    let (example, include) =
        (path("../../examples/table.c"), format!("-I{}", path("../../include")));
    let archive = archive();
    let build = ["-Wall", "-Wextra", "-Werror", &include, "-o", "table", &example, &archive];
    tool(&room, "gcc", &[&build[..], &["-lpthread", "-ldl", "-lm"]].concat());
    let source = path("tests/c/firmware.c");
    tool(&room, "gcc", &["-O2", "-fno-pie", "-pg", "-mfentry", "-c", "-o", "firmware.o", &source]);
    tool(&room, "gcc", &["-no-pie", "-o", "image", "firmware.o"]);
    assert_eq!(room.run(Path::new("./image"), &[]).unwrap().code, Some(0));
    tool(&room, "./table", &["image", "table.o"]);
    tool(&room, "gcc", &["-no-pie", "-o", "image", "firmware.o", "table.o"]);
    // main, one and two.
    assert_eq!(room.run(Path::new("./image"), &[]).unwrap().code, Some(3));
    let sections = tool(&room, "objdump", &["-h", "image"]);
    assert!(sections.contains(" .trace_sites "), "{sections}");
    let wrong = room.run(Path::new("./table"), &["firmware.o", "table.o"]).unwrap();
    assert_eq!(wrong.code, Some(1));
    assert!(wrong.stderr.starts_with("table: not a linked image"), "{}", wrong.stderr);
}
