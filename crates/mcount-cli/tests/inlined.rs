//! BTF of kernels after Linux 7: a layout that says how large types of unknown kinds are, and places where functions were
//! inlined, which `why` shows without debug information.
//!
//! The kinds are those of the kernel's header, and the sizes are those that libbpf writes. Where functions were inlined is
//! what addr2line says.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

use mcount_symbols::btf::{self, Base, Error, InlinedAt};
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::path::Path;
use testkit::btf::{Made, Sizes, kernel};
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

/// The kinds in `include/uapi/linux/btf.h` of Linux 7.2 (Debian's linux-libc-dev 7.2.13-1), then those of the series that
/// [`testkit::btf`] names.
const KINDS: [(&str, u32); 22] = [
    ("INT", 1),
    ("PTR", 2),
    ("ARRAY", 3),
    ("STRUCT", 4),
    ("UNION", 5),
    ("ENUM", 6),
    ("FWD", 7),
    ("TYPEDEF", 8),
    ("VOLATILE", 9),
    ("CONST", 10),
    ("RESTRICT", 11),
    ("FUNC", 12),
    ("FUNC_PROTO", 13),
    ("VAR", 14),
    ("DATASEC", 15),
    ("FLOAT", 16),
    ("DECL_TAG", 17),
    ("TYPE_TAG", 18),
    ("ENUM64", 19),
    ("LOC_PARAM", 20),
    ("LOC_PROTO", 21),
    ("LOCSEC", 22),
];

/// The layout that libbpf of Linux 7.2 writes: `layouts` in tools/lib/bpf/btf.c.
const LAYOUT: [Sizes; 20] = [
    (0, 0),
    (4, 0),
    (0, 0),
    (12, 0),
    (0, 12),
    (0, 12),
    (0, 8),
    (0, 0),
    (0, 0),
    (0, 0),
    (0, 0),
    (0, 0),
    (0, 0),
    (0, 8),
    (4, 0),
    (0, 12),
    (0, 0),
    (4, 0),
    (0, 0),
    (0, 12),
];

/// The header of the machine is older or newer than the list, and has no other kinds that the list hasn't.
#[test]
fn the_kinds_are_those_of_the_header() {
    need(["gcc"]);
    let room = Room::new().unwrap();
    room.put("a.c", b"#include <linux/btf.h>\n").unwrap();
    let text = tool(&room, "gcc", &["-E", "-P", "a.c"]);
    let mut found = 0;
    for word in text.split_once("BTF_KIND_UNKN").unwrap().1.split([',', '}', ';']) {
        let Some((name, number)) = word.trim().split_once('=') else { continue };
        let Some(name) = name.trim().strip_prefix("BTF_KIND_") else { continue };
        let Ok(number) = number.trim().parse::<u32>() else { continue };
        if number > 0 {
            assert!(KINDS.contains(&(name, number)), "{name} {number}");
            found += 1;
        }
    }
    assert!(found >= 19, "{text}");
}

/// A type of each kind is as large as the layout of libbpf says, whether the BTF has that layout or not.
#[test(each = ["little", "big"])]
fn sizes_are_those_of_libbpf(order: &str) {
    for (name, kind) in KINDS {
        let sizes = LAYOUT.get(usize::try_from(kind).unwrap()).copied();
        // Those that libbpf doesn't know yet have the sizes of the series.
        let (fixed, each) = sizes.unwrap_or_else(|| [(4, 4), (0, 4), (0, 12)][kind as usize - 20]);
        let mut made = Made::whole(order == "big");
        let words = vec![0; usize::from(fixed) / 4 + 3 * usize::from(each) / 4];
        let named = made.string("named");
        if kind == 22 {
            // Places must be those of functions.
            made.inlined("named", &[]);
        } else {
            made.add_counted((named, kind, 0), 3, &words);
        }
        made.function("behind", 0, &[]);
        for layout in [None, Some(LAYOUT.to_vec())] {
            made.layout = layout;
            let found = btf::functions(&made.bytes(), None);
            assert!(
                found.as_ref().is_ok_and(|all| all.contains_key("behind")),
                "{name}: {found:?}"
            );
        }
    }
}

/// A kind that nobody knows yet is passed over with its layout, and named without one.
#[test(each = ["little", "big"])]
fn unknown_kinds_need_a_layout(order: &str) {
    for kind in [0, 23, 24, 126, 127] {
        let mut made = kernel(order == "big");
        let offset = made.types.len();
        made.add_counted((0, kind, 0), 3, &[0xffff_ffff; 8]);
        made.function("behind", 0, &[]);
        let unknown = Error::UnknownKind { kind, offset };
        assert_eq!(btf::functions(&made.bytes(), None), Err(unknown));
        let said = format!(
            "BTF: the type at offset {offset:#x} has the unknown kind {kind}, and no layout says how large it is"
        );
        assert_eq!(unknown.to_string(), said);
        // A layout that ends before it is none.
        made.layout = Some(LAYOUT.to_vec());
        made.layout.as_mut().unwrap().resize(kind as usize, (0, 0));
        assert_eq!(btf::functions(&made.bytes(), None), Err(unknown), "{kind}");
        if kind == 0 {
            continue;
        }
        // Sizes are whole words.
        made.layout.as_mut().unwrap().push((7, 8));
        assert_eq!(btf::functions(&made.bytes(), None), Err(unknown), "{kind}");
        made.layout.as_mut().unwrap()[kind as usize] = (8, 8);
        let found = btf::functions(&made.bytes(), None).unwrap();
        assert!(found.contains_key("behind") && found.contains_key("kernel"), "{kind}");
        // What continues it has the same layout, unless it has its own.
        let mut module = made.split();
        module.add_counted((0, kind, 0), 1, &[0xffff_ffff; 4]);
        module.function("module", 0, &[]);
        let kernel = made.bytes();
        let base = Base::read(&kernel).unwrap();
        let found = btf::functions(&module.bytes(), Some(&base)).unwrap();
        assert_eq!(found.into_keys().collect::<Vec<_>>(), ["module"]);
    }
}

/// Where `places` says that `name` was inlined.
fn places(places: &InlinedAt, name: &str) -> Vec<(String, u64)> {
    let found = places.get(name).into_iter().flatten();
    found.map(|(section, offset)| (section.to_string(), *offset)).collect()
}

/// An ELF file with these sections, which `why` needn't find code in.
fn with_sections(room: &Room, name: &str, sections: &[(&str, &[u8])]) -> Vec<u8> {
    need(["gcc", "objcopy"]);
    room.put("empty.c", b"").unwrap();
    tool(room, "gcc", &["-c", "-o", name, "empty.c"]);
    for (section, bytes) in sections {
        room.put("section", bytes).unwrap();
        let add = format!("--add-section={section}=section");
        tool(room, "objcopy", &[&add, name]);
    }
    room.get(name).unwrap()
}

/// Functions, strings and the place of what was inlined may be in any of three parts, and a layout in the first alone.
#[test(each = ["little", "big"])]
fn places_in_three_parts(order: &str) {
    let room = Room::new().unwrap();
    let mut kernel = kernel(order == "big");
    kernel.layout = Some([&LAYOUT[..], &[(4, 4), (0, 4), (0, 12)]].concat());
    let in_kernel = kernel.function("in_kernel", 0, &[]);
    let mut module = kernel.split();
    let in_module = module.function("in_module", 0, &[]);
    // Modules that are built outside the kernel's tree have all in one section.
    module.inlined(".init.text", &[(in_kernel, 7)]);
    let mut inline = module.split();
    let alone = inline.function("alone", 0, &[]);
    let all = [(alone, 0x30), (in_module, 0x20), (in_kernel, 0x10), (alone, 0x8), (alone, 0x30)];
    inline.inlined("inline.text", &all);
    let (kernel, module, inline) = (kernel.bytes(), module.bytes(), inline.bytes());
    let text = |offset| (".text".to_owned(), offset);
    let expected = BTreeMap::from([
        ("alone", vec![text(8), text(0x30)]),
        ("in_kernel", vec![(".init.text".to_owned(), 7), text(0x10)]),
        ("in_module", vec![text(0x20)]),
    ]);
    let own = [(".BTF", module.as_slice()), (".BTF.inline", &inline)];
    let split = with_sections(&room, "split.ko", &own);
    let distilled = [own[0], own[1], (".BTF.base", &kernel)];
    let distilled = with_sections(&room, "distilled.ko", &distilled);
    let base = Base::read(&kernel).unwrap();
    for (file, base) in [(&split, Some(&base)), (&distilled, None)] {
        let found = btf::inlined(file, base).unwrap();
        let names: BTreeSet<&str> = found.keys().map(String::as_str).collect();
        assert_eq!(names, expected.keys().copied().collect());
        for (name, at) in &expected {
            assert_eq!(places(&found, name), *at, "{name}");
        }
        // What is only there to be inlined isn't what BPF can attach to.
        let functions = btf::functions(file, base).unwrap();
        assert_eq!(functions.into_keys().collect::<Vec<_>>(), ["in_module"]);
    }
    assert_eq!(btf::inlined(&split, None), Err(Error::NeedsBase));
}

/// If a layout says that a place has another size than we know, it isn't read, but passed over.
#[test]
fn places_of_another_size_are_passed_over() {
    let mut made = Made::whole(false);
    let name = made.string(".text");
    // As in the first version of the series: name, prototype, location prototype, offset.
    made.add_counted((name, 22, 0), 2, &[0xffff_ffff; 8]);
    made.function("behind", 0, &[]);
    made.layout = Some([&LAYOUT[..], &[(8, 0), (0, 4), (0, 16)]].concat());
    assert!(btf::functions(&made.bytes(), None).unwrap().contains_key("behind"));
    assert_eq!(btf::inlined(&made.bytes(), None), Ok(InlinedAt::new()));
}

/// Whatever it says, reading it ends, with places or with an error.
#[test(each = ["little", "big"])]
fn damaged_places_are_no_danger(order: &str) {
    let mut whole = Made::whole(order == "big");
    let function = whole.function("inlined", 0, &[]);
    whole.inlined(".text", &[(function, 4), (function, u32::MAX)]);
    whole.layout = Some([&LAYOUT[..], &[(4, 4), (0, 4), (0, 12), (1, 255)]].concat());
    let bytes = whole.bytes();
    assert_eq!(places(&btf::inlined(&bytes, None).unwrap(), "inlined")[1].1, u64::from(u32::MAX));
    for at in 0..bytes.len() {
        for value in [0, 1, 0x7f, 0x80, 0xff, bytes[at].wrapping_add(1), bytes[at] ^ 0x16] {
            let mut damaged = bytes.clone();
            damaged[at] = value;
            let _ = btf::inlined(&damaged, None);
            let _ = btf::functions(&damaged, None);
        }
        assert!(btf::inlined(&bytes[..at], None).is_err(), "{at}");
    }
    // Of what is no function: a prototype, itself, none, and one that isn't there.
    for other in [function - 1, function + 3, 0, 99, u32::MAX] {
        let mut made = whole.clone();
        made.inlined(".text", &[(other, 4)]);
        let error = Error::Malformed("what was inlined is no function");
        assert_eq!(btf::inlined(&made.bytes(), None), Err(error), "{other}");
    }
    // More places than there are bytes, and layouts that aren't whole or aren't there.
    let mut made = whole.clone();
    made.add_counted((0, 22, 0), 0x00ff_ffff, &[function, 0, 0]);
    assert_eq!(btf::inlined(&made.bytes(), None), Err(Error::Malformed("a type is truncated")));
    for (length, error) in [(3_u32, "its layout has a part of an entry"), (9999, "it is truncated")]
    {
        let mut bytes = bytes.clone();
        let word = if order == "big" { length.to_be_bytes() } else { length.to_le_bytes() };
        bytes[28..32].copy_from_slice(&word);
        assert_eq!(btf::functions(&bytes, None), Err(Error::Malformed(error)));
    }
}

const SOURCE: &str = "
#define NOINLINE __attribute__((noinline))
int variable;
static inline int small(int x) { return x * 3 + variable; }
static inline int outer_small(int x) { return small(x ^ 0x55) - 9; }
int both(int x) { return x / 7 + variable; }
NOINLINE int traced(int x) { return small(x); }
NOINLINE int checked(int x) { return small(x + 7) / (both(x) | 1) + outer_small(x); }
NOINLINE int not_traced(int x) __attribute__((no_instrument_function));
NOINLINE int not_traced(int x) { return outer_small(x) * variable; }
int main(int count, char **names) { return traced(count) + checked(count) + not_traced(count); }
void __fentry__(void) __attribute__((no_instrument_function));
void __fentry__(void) { }
";

/// Where each function was inlined in `.text` of `file`, by addr2line: the first offset of each stretch of code, and the
/// function that has it now. `start` is the address of the section, and `size` its size in bytes.
fn by_addr2line(
    room: &Room,
    file: &str,
    start: u64,
    size: u64,
) -> BTreeMap<String, Vec<(u64, String)>> {
    let addresses: Vec<String> = (start..start + size).map(|at| format!("{at:#x}")).collect();
    let mut arguments = vec!["-a", "-i", "-f", "-j", ".text", "-e", file];
    arguments.extend(addresses.iter().map(String::as_str));
    if start != 0 {
        arguments.drain(3..5);
    }
    let text = tool(room, "addr2line", &arguments);
    let mut found: BTreeMap<String, Vec<(u64, String)>> = BTreeMap::new();
    let mut before: BTreeSet<(String, String)> = BTreeSet::new();
    for block in text.split("0x").skip(1) {
        let mut lines = block.lines();
        let at = u64::from_str_radix(lines.next().unwrap(), 16).unwrap() - start;
        // A name and a place, from the innermost function on.
        let chain: Vec<&str> = lines.step_by(2).collect();
        let (into, inlined) = chain.split_last().unwrap();
        let now: BTreeSet<(String, String)> =
            inlined.iter().map(|name| ((*name).to_owned(), (*into).to_owned())).collect();
        for (name, into) in now.difference(&before) {
            found.entry(name.clone()).or_default().push((at, into.clone()));
        }
        before = now;
    }
    found
}

/// The address and the size of `.text` of `file`, by objdump.
fn text_of(room: &Room, file: &str) -> (u64, u64) {
    let text = tool(room, "objdump", &["-h", "-j", ".text", file]);
    let line = text.lines().find(|line| line.contains(" .text ")).unwrap();
    let words: Vec<&str> = line.split_whitespace().collect();
    let number = |at: usize| u64::from_str_radix(words[at], 16).unwrap();
    (number(3), number(2))
}

/// BTF that says where functions were inlined, and the BTF that it continues.
fn btf_of(inlined: &BTreeMap<String, Vec<(u64, String)>>, order: &str) -> [Vec<u8>; 2] {
    let mut own = kernel(order == "big");
    let both = own.function("both", 1, &[1]);
    for name in ["traced", "checked"] {
        own.function(name, 1, &[1]);
    }
    let mut inline = own.split();
    let mut places = Vec::new();
    for (name, at) in inlined {
        let function = if name == "both" { both } else { inline.function(name, 1, &[1]) };
        places.extend(at.iter().map(|(offset, _)| (function, u32::try_from(*offset).unwrap())));
    }
    inline.inlined(".text", &places);
    [own.bytes(), inline.bytes()]
}

/// `why` says where functions were inlined, of an object and of an image, without debug information.
#[test(each = ["little", "big"])]
fn why_shows_them_without_debug_information(order: &str) {
    need(["gcc", "addr2line", "objdump", "objcopy"]);
    let room = Room::new().unwrap();
    room.put("a.c", SOURCE.as_bytes()).unwrap();
    tool(&room, "gcc", &["-g", "-O2", "-fno-pie", "-pg", "-mfentry", "-c", "a.c"]);
    assert_eq!(mcount(&room, &["record", "--policy", "all", "a.o"]).code, Some(0));
    tool(&room, "gcc", &["-no-pie", "-o", "program", "a.o"]);
    for file in ["a.o", "program"] {
        let (start, size) = text_of(&room, file);
        let inlined = by_addr2line(&room, file, start, size);
        assert_eq!(inlined.keys().collect::<Vec<_>>(), ["both", "outer_small", "small"], "{file}");
        let [own, inline] = btf_of(&inlined, order);
        room.put("own", &own).unwrap();
        room.put("inline", &inline).unwrap();
        let add = ["--strip-debug", "--add-section=.BTF=own", "--add-section=.BTF.inline=inline"];
        tool(&room, "objcopy", &[&add[..], &[file, "bare"]].concat());
        for (name, at) in &inlined {
            let found = mcount(&room, &["why", "--format", "jsonl", "bare", name]);
            assert_eq!(found.code, Some(0), "{}", found.stderr);
            let answer: Value = serde_json::from_str(found.stdout.lines().next().unwrap()).unwrap();
            let reason = if name == "both" { "recorded" } else { "inlined" };
            assert_eq!(answer["reason"], reason, "{file} {name}");
            let places = answer["inlined"].as_array().unwrap();
            let of = |place: &Value| {
                (place["offset"].as_u64().unwrap(), place["into"].as_str().unwrap().to_owned())
            };
            assert_eq!(places.iter().map(of).collect::<Vec<_>>(), *at, "{file} {name}");
            let address = (start != 0).then(|| start + at[0].0);
            assert_eq!(places[0]["address"].as_u64(), address, "{file} {name}");
            let mut expected = format!(
                "  inlined at {} place{}, where no tracer sees it:\n",
                at.len(),
                if at.len() == 1 { "" } else { "s" }
            );
            for (offset, into) in at {
                write!(expected, "    .text {:#x} in {into}+", start + offset).unwrap();
                let rest = mcount(&room, &["why", "--all", "bare", name]).stdout;
                assert!(rest.contains(&expected), "{rest}\n{expected}");
                let line = rest[rest.find(&expected).unwrap() + expected.len()..].lines().next();
                expected += line.unwrap();
                expected.push('\n');
            }
        }
        // The debug information says the same, and more.
        let with = mcount(&room, &["why", "--format", "jsonl", file, "small"]);
        let answer: Value = serde_json::from_str(with.stdout.lines().next().unwrap()).unwrap();
        let into = answer["inlined"].as_array().unwrap().iter().map(|place| &place["into"]);
        let into: BTreeSet<&str> = into.map(|name| name.as_str().unwrap()).collect();
        assert_eq!(into, inlined["small"].iter().map(|(_, into)| into.as_str()).collect());
        // Names that are only there, patterns, and what is damaged.
        let alike = mcount(&room, &["why", "bare", "smal", "*smal?"]);
        assert!(alike.stdout.contains("did you mean small"), "{}", alike.stdout);
        assert!(alike.stdout.contains("outer_small: inlined everywhere"), "{}", alike.stdout);
        room.put("inline", &inline[..inline.len() - 1]).unwrap();
        tool(&room, "objcopy", &["--update-section=.BTF.inline=inline", "bare"]);
        let damaged = mcount(&room, &["why", "bare", "both"]);
        assert_eq!(damaged.stderr, "mcount: warning: bare: BTF: it is truncated\n");
        assert!(damaged.stdout.contains("BPF can attach"), "{}", damaged.stdout);
    }
}
