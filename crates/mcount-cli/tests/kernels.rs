//! Kernels without symbols: names from their own tables and from `System.map`, in images that are no ELF.
//!
//! The images are made here, in each layout that the tables had, for each processor that boots such images.
//! What is written into them is what must come out.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, clippy::format_collect, reason = "a test")]

use serde_json::Value;
use std::path::Path;
use testkit::room::{Outcome, Room};
use testkit::test;

fn main() -> std::process::ExitCode {
    testkit::trial::main()
}

fn mcount(room: &Room, arguments: &[&str]) -> Outcome {
    room.run(Path::new(env!("CARGO_BIN_EXE_mcount")), arguments).unwrap()
}

/// More than two markers' worth.
const FUNCTIONS: usize = 600;
/// The bytes of each function.
const SIZE: usize = 32;
/// This one is followed by a function that another one overrode, so that it has no name.
const BEFORE_OVERRIDDEN: usize = 77;
/// Names of no function, each at the start of a function.
const EDGES: [(usize, &str); 3] = [(10, "__init_begin"), (11, "trampoline_end"), (13, "_edata")];
/// This one is the first of the code that is freed after boot. It is where a page begins.
const FIRST_OF_INIT: usize = 384;
/// Where code begins in each image.
const TEXT: usize = 0x1000;

#[derive(Clone, Copy, PartialEq)]
enum Layout {
    /// Addresses, base and count before the names.
    Before,
    /// The same, and the order of names between markers and tokens.
    BeforeWithOrder,
    /// Addresses and base behind the tokens.
    Behind,
    /// Addresses, and no base.
    Words,
    /// Behind the tokens, and no base: each number counts from its own place, or is the address if words have 4 bytes.
    FromPlace,
}

#[derive(Clone, Copy)]
#[expect(clippy::struct_excessive_bools, reason = "each is a property of its own")]
struct Made {
    name: &'static str,
    is_64: bool,
    big_endian: bool,
    /// The address of the first byte.
    base: u64,
    layout: Layout,
    /// The type of relocation that writes all addresses, if words are zero in the image.
    relocated: Option<u64>,
    /// Whether names of data are there.
    has_all: bool,
    /// What the image has at an offset, by which its kind is known.
    magic: (usize, &'static [u8]),
    /// How many bytes before its function an entry leads to more NOPs.
    before: u64,
    /// Whether code that is freed after boot follows, in a table of functions alone: no name is where it begins but `_etext`.
    has_init: bool,
    /// A hook, as NOPs or as a call of the first function from `at`, and what is behind it.
    hook: fn(at: u64, first: u64) -> Vec<u8>,
}

impl testkit::trial::Row for Made {
    fn label(&self) -> String {
        self.name.to_owned()
    }
}

fn arm64_nops(_: u64, _: u64) -> Vec<u8> {
    [0xd503_201f_u32, 0xd503_201f].iter().flat_map(|word| word.to_le_bytes()).collect()
}

fn riscv_nops(_: u64, _: u64) -> Vec<u8> {
    [0x0000_0013_u32, 0x0000_0013].iter().flat_map(|word| word.to_le_bytes()).collect()
}

/// `push {lr}` is before it, in [`Made::function`].
fn arm_call(at: u64, first: u64) -> Vec<u8> {
    let distance = first.wrapping_sub(at + 8).cast_signed() / 4;
    let word = 0xeb00_0000 | u32::try_from(distance & 0x00ff_ffff).unwrap();
    word.to_le_bytes().to_vec()
}

fn s390_nop(_: u64, _: u64) -> Vec<u8> {
    vec![0xc0, 0x04, 0, 0, 0, 0]
}

const ARM64: Made = Made {
    name: "arm64",
    is_64: true,
    big_endian: false,
    base: 0xffff_8000_0800_0000,
    layout: Layout::Before,
    relocated: None,
    has_all: true,
    magic: (0x38, b"ARM\x64"),
    before: 0,
    has_init: false,
    hook: arm64_nops,
};

const ARM: Made = Made {
    name: "arm",
    is_64: false,
    base: 0xc000_8000,
    magic: (4, &[0, 0x90, 0x0f, 0xe1]),
    hook: arm_call,
    ..ARM64
};

const MADE: [Made; 18] = [
    ARM64,
    // DYNAMIC_FTRACE_WITH_CALL_OPS.
    Made { name: "arm64-call-ops", layout: Layout::Behind, before: 8, ..ARM64 },
    Made { name: "arm64-6.12", layout: Layout::Behind, base: 0xffff_8000_8000_0000, ..ARM64 },
    Made { name: "arm64-with-order", layout: Layout::BeforeWithOrder, ..ARM64 },
    Made { name: "arm64-words", layout: Layout::Words, ..ARM64 },
    Made { name: "arm64-relocated", relocated: Some(0x403), ..ARM64 },
    Made { name: "arm64-relocated-functions", relocated: Some(0x403), has_all: false, ..ARM64 },
    Made {
        name: "riscv64",
        layout: Layout::Behind,
        base: 0xffff_ffff_8000_0000,
        magic: (0x38, b"RSC\x05"),
        hook: riscv_nops,
        ..ARM64
    },
    ARM,
    Made { name: "arm-functions", has_all: false, layout: Layout::BeforeWithOrder, ..ARM },
    Made { name: "arm-6.12-functions", has_all: false, layout: Layout::Behind, ..ARM },
    Made { name: "arm64-7.2", layout: Layout::FromPlace, base: 0xffff_8000_8000_0000, ..ARM64 },
    Made { name: "arm64-7.2-functions", has_all: false, layout: Layout::FromPlace, ..ARM64 },
    Made {
        name: "arm64-7.2-relocated",
        layout: Layout::FromPlace,
        relocated: Some(0x403),
        before: 8,
        ..ARM64
    },
    Made {
        name: "arm64-7.2-init",
        has_all: false,
        has_init: true,
        layout: Layout::FromPlace,
        ..ARM64
    },
    Made { name: "arm-init", has_all: false, has_init: true, ..ARM },
    Made { name: "arm-7.2", layout: Layout::FromPlace, ..ARM },
    Made { name: "arm-7.2-functions", has_all: false, layout: Layout::FromPlace, ..ARM },
];

/// A symbol: letter and name, and its address.
type Symbol = (String, u64);

impl Made {
    fn word(&self, value: u64) -> Vec<u8> {
        let mut bytes = value.to_le_bytes()[..if self.is_64 { 8 } else { 4 }].to_vec();
        if self.big_endian {
            bytes.reverse();
        }
        bytes
    }

    fn number(&self, value: usize) -> [u8; 4] {
        let value = u32::try_from(value).unwrap();
        if self.big_endian { value.to_be_bytes() } else { value.to_le_bytes() }
    }

    fn pair(&self, value: usize) -> [u8; 2] {
        let value = u16::try_from(value).unwrap();
        if self.big_endian { value.to_be_bytes() } else { value.to_le_bytes() }
    }

    fn align(&self, out: &mut Vec<u8>) {
        let size = if self.is_64 { 8 } else { 4 };
        out.resize(out.len().next_multiple_of(size), 0);
    }

    /// The address of the function `number`, and of its hook.
    fn place(&self, number: usize) -> (u64, u64) {
        let start = self.base + (TEXT + number * SIZE) as u64;
        (start, if self.is_64 { start - self.before } else { start + 4 })
    }

    /// The image, its symbols, and the addresses in its table.
    fn build(&self) -> (Vec<u8>, Vec<Symbol>, Vec<u64>) {
        let mut out = vec![0; TEXT];
        out[self.magic.0..self.magic.0 + self.magic.1.len()].copy_from_slice(self.magic.1);
        let mut symbols = vec![("T_stext".to_owned(), self.base + TEXT as u64)];
        let mut table = Vec::new();
        for number in 0..FUNCTIONS {
            let (start, hook) = self.place(number);
            if number == 0 {
                symbols.push(("T__gnu_mcount_nc".to_owned(), start));
            } else {
                table.push(hook);
                if let Some((_, edge)) = EDGES.iter().find(|(before, _)| *before == number) {
                    symbols.push((format!("T{edge}"), start));
                }
                let is_nameless = self.has_init && number == FIRST_OF_INIT;
                if is_nameless {
                    symbols.push(("T_etext".to_owned(), start));
                } else if number != BEFORE_OVERRIDDEN + 1 {
                    let letter = if number % 3 == 0 { 't' } else { 'T' };
                    symbols.push((format!("{letter}function_{number}"), start));
                }
            }
            let mut code =
                if self.is_64 { Vec::new() } else { 0xe52d_e004_u32.to_le_bytes().to_vec() };
            code.extend((self.hook)(hook, self.place(0).0));
            code.resize(SIZE - usize::try_from(self.before).unwrap(), 0);
            if self.before != 0 {
                code.extend((self.hook)(start, start));
            }
            out.extend(code);
        }
        let end = self.base + out.len() as u64;
        let last = if self.has_init { "T_einittext" } else { "T_etext" };
        symbols.push((last.to_owned(), end));
        let banner = self.base + out.len() as u64;
        out.extend(b"Linux version 6.1.0 (somebody@somewhere)\n\0".iter());
        self.align(&mut out);
        let table_at = self.base + out.len() as u64;
        let mut relocations = Vec::new();
        self.words(&mut out, &table, &mut relocations);
        if self.has_all {
            symbols.push(("Dlinux_banner".to_owned(), banner));
            symbols.push(("D__start_mcount_loc".to_owned(), table_at));
            symbols.push(("D__stop_mcount_loc".to_owned(), self.base + out.len() as u64));
        }
        self.names(&mut out, &symbols, &mut relocations);
        out.extend([0; 64]);
        self.align(&mut out);
        if let Some(kind) = self.relocated {
            for (place, value) in relocations {
                for word in [place, kind, value] {
                    out.extend(self.word(word));
                }
            }
        }
        out.extend([0; 256]);
        (out, symbols, table)
    }

    /// Appends words, or zeroes with relocations.
    fn words(&self, out: &mut Vec<u8>, words: &[u64], relocations: &mut Vec<(u64, u64)>) {
        for word in words {
            relocations.push((self.base + out.len() as u64, *word));
            out.extend(self.word(if self.relocated.is_some() { 0 } else { *word }));
        }
    }

    /// Appends the tokens and their index.
    fn tokens(&self, out: &mut Vec<u8>) {
        let (first, mut index) = (out.len(), Vec::new());
        for code in 0..=255_u8 {
            index.push(out.len() - first);
            match code {
                1 => out.extend(b"function_"),
                b' '..=b'~' => out.push(code),
                _ => out.extend(format!("token{code}").bytes()),
            }
            out.push(0);
        }
        self.align(out);
        for offset in index {
            out.extend(self.pair(offset));
        }
    }

    /// Appends the tables of names.
    fn names(&self, out: &mut Vec<u8>, symbols: &[Symbol], relocations: &mut Vec<(u64, u64)>) {
        let start = symbols[0].1;
        let addresses = |out: &mut Vec<u8>, relocations: &mut Vec<(u64, u64)>| {
            if self.layout == Layout::Words {
                let words: Vec<u64> = symbols.iter().map(|(_, address)| *address).collect();
                return self.words(out, &words, relocations);
            }
            if self.layout == Layout::FromPlace {
                for (_, address) in symbols {
                    let place = if self.is_64 { self.base + out.len() as u64 } else { 0 };
                    let number = address.wrapping_sub(place).to_le_bytes();
                    out.extend(&number[..4]);
                }
                return;
            }
            for (_, address) in symbols {
                out.extend(self.number(usize::try_from(address - start).unwrap()));
            }
            self.align(out);
            self.words(out, &[start], relocations);
        };
        if !matches!(self.layout, Layout::Behind | Layout::FromPlace) {
            addresses(out, relocations);
        }
        out.extend(self.number(symbols.len()));
        self.align(out);
        let mut markers = Vec::new();
        let first = out.len();
        for (number, (name, _)) in symbols.iter().enumerate() {
            if number % 256 == 0 {
                markers.push(out.len() - first);
            }
            let codes: Vec<u8> = match name[1..].strip_prefix("function_") {
                Some(rest) => [name.as_bytes()[0], 1].into_iter().chain(rest.bytes()).collect(),
                None => name.bytes().collect(),
            };
            out.push(u8::try_from(codes.len()).unwrap());
            out.extend(codes);
        }
        self.align(out);
        for marker in markers {
            out.extend(self.number(marker));
        }
        self.align(out);
        if self.layout == Layout::BeforeWithOrder {
            for number in 0..symbols.len() {
                out.extend(&u32::try_from(number * 7 % symbols.len()).unwrap().to_be_bytes()[1..]);
            }
            self.align(out);
        }
        self.tokens(out);
        if matches!(self.layout, Layout::Behind | Layout::FromPlace) {
            addresses(out, relocations);
        }
    }
}

/// Address, name and status of each entry that `list` prints.
fn listed(room: &Room, arguments: &[&str]) -> Vec<(u64, String, String)> {
    let mut all = vec!["list", "--format", "jsonl"];
    all.extend(arguments);
    let found = mcount(room, &all);
    assert_eq!(found.code, Some(0), "{}", found.stderr);
    let lines = found.stdout.lines().map(|line| serde_json::from_str::<Value>(line).unwrap());
    let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
    lines
        .map(|l| (l["address"].as_u64().unwrap(), text(&l["symbol"]), text(&l["status"])))
        .collect()
}

fn expected(made: &Made, table: &[u64]) -> Vec<(u64, String, String)> {
    let entries = (1..).zip(table).map(|(number, address)| {
        let is_overridden = number == BEFORE_OVERRIDDEN + 1;
        let name = if is_overridden { BEFORE_OVERRIDDEN } else { number };
        let status = if is_overridden { "stale" } else { "recorded" };
        let is_nameless = made.has_init && number == FIRST_OF_INIT;
        let name = if is_nameless { "_etext".to_owned() } else { format!("function_{name}") };
        (*address, name, status.to_owned())
    });
    entries.collect()
}

#[test(each = MADE)]
fn names_in_the_image(made: Made) {
    let room = Room::new().unwrap();
    let (image, _, table) = made.build();
    room.put("Image", &image).unwrap();
    assert_eq!(listed(&room, &["Image"]), expected(&made, &table));
    let why = mcount(&room, &["why", "Image", "function_5", "function_nowhere"]);
    assert!(why.stdout.starts_with("function_5 (.text 0x"), "{}{}", why.stdout, why.stderr);
    assert!(why.stdout.contains(", recorded\n"), "{}", why.stdout);
    assert!(why.stdout.contains("function_nowhere: no such name"), "{}", why.stdout);
    let check = mcount(&room, &["check", "--warn", "overridden-entry", "Image"]);
    assert_eq!(check.stdout.lines().filter(|line| line.contains("overridden-entry")).count(), 1);
    assert!(check.stdout.contains("1 file checked") || check.stderr.contains("1 file checked"));
    let diff = mcount(&room, &["diff", "Image", "Image"]);
    assert_eq!((diff.code, diff.stdout.as_str()), (Some(0), ""), "{}", diff.stderr);
}

#[test(each = MADE)]
fn names_in_system_map(made: Made) {
    let room = Room::new().unwrap();
    // Even without the tables in the image.
    let (mut image, mut symbols, table) = Made { has_all: true, ..made }.build();
    let tokens = image.windows(8).position(|bytes| bytes == b"0\x001\x002\x003\0").unwrap();
    image[tokens] = b'x';
    room.put("Image", &image).unwrap();
    assert_eq!(mcount(&room, &["list", "Image"]).code, Some(2));
    symbols.insert(0, ("T_text".to_owned(), made.base));
    symbols.push(("?__nosave_begin".to_owned(), made.base + 0x100_0000));
    let map: String = symbols
        .iter()
        .map(|(name, address)| format!("{address:016x} {} {}\n", &name[..1], &name[1..]))
        .collect();
    room.put("System.map", map.as_bytes()).unwrap();
    assert_eq!(listed(&room, &["--system-map", "System.map", "Image"]), expected(&made, &table));
    // What Debian installs beside the kernel.
    let stub =
        "ffffffffffffffff B The real System.map is in the linux-image-<version>-dbg package\n";
    room.put("stub", stub.as_bytes()).unwrap();
    let refused = mcount(&room, &["list", "--system-map", "stub", "Image"]);
    assert_eq!(refused.code, Some(2));
    assert_eq!(refused.stderr, "mcount: Image: stub: not a System.map\n");
}

/// BTF of these functions, each `void (void)`: the kernel's document bpf/btf.
fn btf(made: &Made, functions: &[&str]) -> Vec<u8> {
    let (mut types, mut strings) = (Vec::new(), vec![0]);
    for word in [0, 13 << 24, 0] {
        types.extend(made.number(word));
    }
    for name in functions {
        for word in [strings.len(), 12 << 24, 1] {
            types.extend(made.number(word));
        }
        strings.extend(name.bytes());
        strings.push(0);
    }
    let magic = made.pair(0xeb9f);
    let mut bytes = vec![magic[0], magic[1], 1, 0];
    // From Linux 7.1 on, a layout is between types and strings.
    let layout = if made.layout == Layout::FromPlace { vec![0; 80] } else { Vec::new() };
    let (end, header) = (types.len() + layout.len(), if layout.is_empty() { 24 } else { 32 });
    for word in [header, 0, types.len(), end, strings.len()] {
        bytes.extend(made.number(word));
    }
    if header == 32 {
        bytes.extend(made.number(types.len()));
        bytes.extend(made.number(layout.len()));
    }
    [bytes, types, layout, strings].concat()
}

/// An image has no sections, but the BTF in it can be known by how it begins.
#[test(each = MADE)]
fn btf_in_the_image(made: Made) {
    let room = Room::new().unwrap();
    let (mut image, ..) = made.build();
    room.put("Image", &image).unwrap();
    let none = mcount(&room, &["list", "--attachable", "Image"]);
    assert_eq!(none.code, Some(2), "{}", none.stdout);
    assert!(none.stderr.contains("no BTF"), "{}", none.stderr);
    // What begins alike is not it.
    image.extend(&btf(&made, &["function_7"])[..20]);
    image.resize(image.len().next_multiple_of(4), 0);
    // The overridden function has no name that BTF could have, but the one before it has.
    let before = format!("function_{BEFORE_OVERRIDDEN}");
    image.extend(btf(&made, &["function_5", "function_9", &before, "elsewhere"]));
    image.extend([0; 64]);
    room.put("Image", &image).unwrap();
    let found = listed(&room, &["--attachable", "Image"]);
    let names: Vec<&str> = found.iter().map(|(_, name, _)| name.as_str()).collect();
    assert_eq!(names, ["function_5", "function_9", &before]);
}

/// The image of s390 is in another one, which nothing but its first bytes tells.
#[test]
fn s390() {
    testkit::tools::need(["xz"]);
    let room = Room::new().unwrap();
    let made = Made {
        name: "s390",
        big_endian: true,
        base: 0x10_0000,
        magic: (0, b""),
        hook: s390_nop,
        ..ARM64
    };
    for has_all in [true, false] {
        let (image, _, table) =
            Made { has_all, relocated: (!has_all).then_some(12), ..made }.build();
        room.put("raw", &image).unwrap();
        let packed = room.run(Path::new("xz"), &["--check=crc32", "--force", "raw"]).unwrap();
        assert_eq!(packed.code, Some(0));
        let mut file = vec![0, 8, 0, 0, 0x80, 0, 2, 0, 2, 0, 0, 0x18, 0x60, 0, 0, 0x50];
        file.resize(0x1_0000, 0x40);
        file.extend(room.get("raw.xz").unwrap());
        room.put("vmlinuz", &file).unwrap();
        assert_eq!(listed(&room, &["vmlinuz"]), expected(&made, &table), "{has_all}");
    }
}

/// Tokens with their index, but nothing around them that is known here: that is said.
#[test]
fn names_of_an_unknown_form() {
    let room = Room::new().unwrap();
    let (mut image, ..) = ARM64.build();
    let start = TEXT + FUNCTIONS * SIZE;
    let tokens = image.windows(8).position(|bytes| bytes == b"0\x001\x002\x003\0").unwrap();
    image[start..tokens - 512].fill(0xa5);
    room.put("Image", &image).unwrap();
    let found = mcount(&room, &["list", "Image"]);
    assert_eq!(found.code, Some(2));
    let why = "its own names (kallsyms) are in a form that isn't known here: see --system-map\n";
    assert_eq!(found.stderr, format!("mcount: Image: an arm64 Image: {why}"));
}

/// A stripped ELF image, of which the tables are the same.
#[test]
fn a_stripped_elf_image() {
    testkit::tools::need(["objcopy"]);
    let room = Room::new().unwrap();
    let made = Made { has_all: false, ..ARM64 };
    let (image, _, table) = made.build();
    let text_end = TEXT + FUNCTIONS * SIZE;
    room.put("text", &image[TEXT..text_end]).unwrap();
    room.put("rodata", &image[text_end..]).unwrap();
    let script = format!(
        "SECTIONS {{ . = {:#x}; .text : {{ *(.text) }} .rodata : {{ *(.rodata) }} }}",
        made.base + TEXT as u64
    );
    room.put("script", script.as_bytes()).unwrap();
    let source =
        ".section .text,\"ax\"\n.incbin \"text\"\n.section .rodata,\"a\"\n.incbin \"rodata\"\n";
    room.put("a.s", source.as_bytes()).unwrap();
    testkit::tools::need(["aarch64-linux-gnu-as", "aarch64-linux-gnu-ld"]);
    for (program, arguments) in [
        ("aarch64-linux-gnu-as", &["-o", "a.o", "a.s"][..]),
        ("aarch64-linux-gnu-ld", &["-T", "script", "--strip-all", "-o", "vmlinux", "a.o"]),
    ] {
        let outcome = room.run(Path::new(program), arguments).unwrap();
        assert_eq!(outcome.code, Some(0), "{}", outcome.stderr);
    }
    assert_eq!(listed(&room, &["vmlinux"]), expected(&made, &table));
}

/// Whatever is damaged, reading ends with a listing or with one line.
#[test]
fn damaged_kernels_are_no_danger() {
    let room = Room::new().unwrap();
    for made in [MADE[0], MADE[1], MADE[2], MADE[3], MADE[6], MADE[9]] {
        let (image, ..) = made.build();
        let tables = TEXT + FUNCTIONS * SIZE;
        let mut state = 1_u64;
        for _ in 0..24 {
            let mut damaged = image.clone();
            for _ in 0..4 {
                state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
                let at = tables + usize::try_from(state >> 33).unwrap() % (image.len() - tables);
                damaged[at] = [0, 0xff, 0x7f, 0x80, 1][usize::try_from(state >> 20).unwrap() % 5];
            }
            room.put("Image", &damaged).unwrap();
            let found = mcount(&room, &["list", "--count", "Image"]);
            assert!(matches!(found.code, Some(0 | 2)), "{}: {}", made.name, found.stderr);
            assert!(found.stderr.lines().count() <= 1, "{}", found.stderr);
        }
        for length in (0..image.len()).step_by(image.len() / 16) {
            room.put("Image", &image[..length]).unwrap();
            let found = mcount(&room, &["list", "--count", "Image"]);
            assert!(matches!(found.code, Some(0 | 2)), "{}: {}", made.name, found.stderr);
        }
    }
}
