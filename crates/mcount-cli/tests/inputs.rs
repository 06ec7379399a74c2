//! Compressed modules and kernel images: every format, made by the tool that people have, in every
//! container, whole, truncated, corrupt, and made to fill the memory.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

use std::path::Path;
use testkit::files;
use testkit::room::{Outcome, Room};
use testkit::sample::one_in;
use testkit::test;
use testkit::tools::need;

fn main() -> std::process::ExitCode {
    testkit::trial::main()
}

/// A tool, its arguments to compress from a file to standard output, and what the format is called.
type Packer = (&'static str, &'static [&'static str], &'static str);

const PACKERS: &[Packer] = &[
    ("gzip", &["-9nc"], "gzip"),
    ("xz", &["-c"], "xz"),
    // As the kernel's build does, for its modules and for x86.
    ("xz", &["-c", "--check=crc32", "--lzma2=dict=2MiB"], "xz"),
    ("xz", &["-c", "--check=crc32", "--x86", "--lzma2=dict=32MiB"], "xz"),
    ("xz", &["-c", "--format=lzma", "-9"], "lzma"),
    ("zstd", &["-qc"], "zstd"),
    ("zstd", &["-qc", "--ultra", "-22", "--no-content-size"], "zstd"),
    ("lz4", &["-qc"], "lz4"),
    ("lz4", &["-qcl9"], "lz4"),
    ("bzip2", &["-c"], "bzip2"),
];

fn mcount(room: &Room, arguments: &[&str]) -> Outcome {
    room.run(Path::new(env!("CARGO_BIN_EXE_mcount")), arguments).unwrap()
}

/// Ignores the test unless all packers are here.
fn need_packers() {
    need(PACKERS.iter().map(|(tool, ..)| *tool));
}

/// `plain.o`, an object with its table.
fn room() -> Room {
    let room = Room::new().unwrap();
    room.put_prebuilt("plain.o", "x86_64-fentry").unwrap();
    assert_eq!(mcount(&room, &["record", "plain.o"]).code, Some(0));
    room
}

/// The file `name` of `room`, compressed.
fn pack(room: &Room, (tool, arguments, _): Packer, name: &str) -> Vec<u8> {
    let mut command = room.command(Path::new(tool), arguments);
    let output = command.arg(name).output().unwrap();
    assert!(output.status.success(), "{tool}: {output:?}");
    output.stdout
}

/// What `list` says of `name`, with the name of the plain file.
fn listed(room: &Room, name: &str) -> String {
    let outcome = mcount(room, &["list", "--format", "jsonl", name]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""), "{name}");
    outcome.stdout.replace(&format!("\"{name}\""), "\"plain.o\"")
}

/// One line that says why, and exit code 2.
fn refused(room: &Room, arguments: &[&str], why: &str) {
    let outcome = mcount(room, arguments);
    assert_eq!(outcome.code, Some(2), "{arguments:?}: {outcome:?}");
    assert_eq!(outcome.stderr.lines().count(), 1, "{arguments:?}: {outcome:?}");
    assert!(outcome.stderr.contains(why), "{arguments:?}: {outcome:?}, not {why:?}");
}

#[test]
fn every_format_holds_the_same_module() {
    need_packers();
    let room = room();
    let expected = listed(&room, "plain.o");
    assert_eq!(expected.lines().count(), 8);
    for packer in PACKERS {
        let packed = pack(&room, *packer, "plain.o");
        // The name says nothing.
        room.put("module", &packed).unwrap();
        assert_eq!(listed(&room, "module"), expected, "{packer:?}");
        let scan = mcount(&room, &["scan", "module"]);
        assert!(scan.stdout.contains("sample_weak_only"), "{packer:?}: {scan:?}");
        // Behind it a kernel image has other things: padding of a tape, or a signature.
        if packer.2 != "lzma" && packer.1 != ["-qcl9"] {
            room.put("module", &[packed.as_slice(), &[0; 4]].concat()).unwrap();
            assert_eq!(listed(&room, "module"), expected, "{packer:?}");
        }
    }
}

/// Parallel compressors write many streams.
#[test]
fn streams_may_follow_each_other() {
    need_packers();
    let room = room();
    let plain = room.get("plain.o").unwrap();
    let expected = listed(&room, "plain.o");
    let (first, second) = plain.split_at(plain.len() / 2);
    room.put("first", first).unwrap();
    room.put("second", second).unwrap();
    for packer in PACKERS.iter().filter(|packer| packer.2 != "lzma") {
        let packed = [pack(&room, *packer, "first"), pack(&room, *packer, "second")].concat();
        room.put("module", &packed).unwrap();
        assert_eq!(listed(&room, "module"), expected, "{packer:?}");
    }
    let skipped = b"\x50\x2a\x4d\x18\x03\0\0\0abc";
    let zstd = *PACKERS.iter().find(|packer| packer.0 == "zstd").unwrap();
    room.put("module", &[skipped, pack(&room, zstd, "plain.o").as_slice()].concat()).unwrap();
    assert_eq!(listed(&room, "module"), expected);
}

/// A bzImage with one sector of real-mode code and the payload at byte 100 of the rest.
fn bzimage(version: u16, payload: &[u8], size: usize) -> Vec<u8> {
    let size = u32::try_from(size).unwrap();
    let payload = [payload, &size.to_le_bytes()].concat();
    let mut image = vec![0x90; 1024 + 100];
    image[0x1f1] = 1;
    image[0x1fe..0x200].copy_from_slice(&[0x55, 0xaa]);
    image[0x202..0x206].copy_from_slice(b"HdrS");
    image[0x206..0x208].copy_from_slice(&version.to_le_bytes());
    image[0x248..0x24c].copy_from_slice(&100u32.to_le_bytes());
    let length = u32::try_from(payload.len()).unwrap();
    image[0x24c..0x250].copy_from_slice(&length.to_le_bytes());
    [image, payload, vec![0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 0]].concat()
}

fn zboot(payload: &[u8], kind: &str) -> Vec<u8> {
    let mut image = vec![0; 4096];
    image[..2].copy_from_slice(b"MZ");
    image[4..8].copy_from_slice(b"zimg");
    image[8..12].copy_from_slice(&4096u32.to_le_bytes());
    image[12..16].copy_from_slice(&u32::try_from(payload.len()).unwrap().to_le_bytes());
    image[24..24 + kind.len()].copy_from_slice(kind.as_bytes());
    [image.as_slice(), payload, &[0; 512]].concat()
}

fn zimage(payload: &[u8], big_endian: bool) -> Vec<u8> {
    let mut image = vec![0; 4096];
    let magic = 0x016f_2818_u32;
    let magic = if big_endian { magic.to_be_bytes() } else { magic.to_le_bytes() };
    image[0x24..0x28].copy_from_slice(&magic);
    // What looks like a stream and is none.
    image[512..520].copy_from_slice(&[0x1f, 0x8b, 8, 0xff, 0xff, 0xff, 0xff, 0xff]);
    [image.as_slice(), payload, &[0; 100]].concat()
}

fn uimage(payload: &[u8], kind: u8, compression: u8) -> Vec<u8> {
    let mut image = vec![0; 64];
    image[..4].copy_from_slice(&[0x27, 0x05, 0x19, 0x56]);
    image[12..16].copy_from_slice(&u32::try_from(payload.len()).unwrap().to_be_bytes());
    image[30] = kind;
    image[31] = compression;
    [image.as_slice(), payload].concat()
}

/// Any ELF file will do as the kernel.
#[test]
fn every_container_in_every_format() {
    need_packers();
    let room = room();
    let expected = listed(&room, "plain.o");
    let size = room.get("plain.o").unwrap().len();
    for packer in PACKERS {
        let packed = pack(&room, *packer, "plain.o");
        let images = [
            ("bzImage", bzimage(0x20f, &packed, size)),
            ("an old bzImage", bzimage(0x207, &packed, size)),
            ("zboot", zboot(&packed, packer.2)),
            ("zImage", zimage(&packed, false)),
            ("zImage of a big-endian kernel", zimage(&packed, true)),
            ("uImage", uimage(&packed, 2, 1)),
        ];
        for (name, image) in images {
            // The legacy frame has no end, so something must say where it is.
            if packer.1 == ["-qcl9"] && !["bzImage", "zboot", "uImage"].contains(&name) {
                continue;
            }
            room.put("image", &image).unwrap();
            assert_eq!(listed(&room, "image"), expected, "{name}, {packer:?}");
        }
    }
    let image = bzimage(0x20f, &pack(&room, PACKERS[0], "plain.o"), size);
    room.put("inner", &uimage(&image, 2, 0)).unwrap();
    room.put("image", &pack(&room, PACKERS[1], "inner")).unwrap();
    assert_eq!(listed(&room, "image"), expected, "a bzImage in a uImage in xz");
}

/// What arm64, arm and other processors boot is no ELF: the error names it.
#[test]
fn what_is_no_elf_is_named() {
    need_packers();
    let room = room();
    let starting = |at: usize, what: &[u8]| {
        let mut image = vec![0; 4096];
        image[at..at + what.len()].copy_from_slice(what);
        image
    };
    let kinds = [
        (starting(0x38, b"ARM\x64"), "an arm64 Image"),
        (starting(0x38, b"RSC\x05"), "a RISC-V Image"),
        (starting(0, &[0, 0, 0xa0, 0xe1]), "an arm Image"),
        (starting(0, &[0xd0, 0x0d, 0xfe, 0xed]), "a device tree, or a FIT image"),
        (starting(0, b"!<arch>\n"), "an archive"),
        (b"text".to_vec(), "something unknown"),
    ];
    for (image, kind) in kinds {
        room.put("raw", &image).unwrap();
        let packed = pack(&room, PACKERS[0], "raw");
        room.put("image.gz", &packed).unwrap();
        refused(&room, &["list", "image.gz"], &format!("image.gz: gzip: holds {kind}"));
        room.put("vmlinuz.efi", &zboot(&packed, "gzip")).unwrap();
        refused(&room, &["table", "vmlinuz.efi"], &format!("EFI zboot image: holds {kind}"));
    }
    room.put("zImage", &zimage(b"nothing", false)).unwrap();
    refused(&room, &["list", "zImage"], "zImage: arm zImage: no compressed kernel was found");
    room.put("uImage", &uimage(b"x", 4, 0)).unwrap();
    refused(&room, &["list", "uImage"], "a uImage of several files is not supported");
    room.put("lzo", b"\x89LZO\0\r\n\x1a\n").unwrap();
    refused(&room, &["list", "lzo"], "lzo is not supported");
    room.put("Image", &starting(0x38, b"ARM\x64")).unwrap();
    refused(&room, &["list", "Image"], "Image: an arm64 Image, not ELF: sections");
}

#[test]
fn truncated_streams() {
    need_packers();
    let room = room();
    for packer in PACKERS {
        let packed = pack(&room, *packer, "plain.o");
        for length in [packed.len() / 7, packed.len() / 2, packed.len() - 20, packed.len() - 1] {
            // The last byte of these is no more than a mark of the end, or padding.
            let is_complete = packer.2 == "lzma" && length == packed.len() - 1;
            room.put("module", &packed[..length]).unwrap();
            if !is_complete {
                let why = format!("mcount: module: {}: truncated\n", packer.2);
                refused(&room, &["list", "module"], &why);
            }
        }
    }
}

/// All that is said of a stream that cannot be decoded.
const REASONS: [&str; 7] = [
    "truncated",
    "corrupt",
    "out of memory",
    "asks for too large a window",
    "uses a feature that is not supported",
    "holds something unknown, not ELF",
    "becomes larger than 67108864 bytes: see --max-size",
];

/// Whatever byte is wrong, there is no panic: a decoder may not notice, but then says what it found.
#[test]
fn corrupt_streams() {
    need_packers();
    let room = room();
    for packer in PACKERS {
        let packed = pack(&room, *packer, "plain.o");
        for at in (0..packed.len()).step_by(packed.len() / 40 + 1) {
            let mut corrupt = packed.clone();
            corrupt[at] ^= 0x55;
            room.put("module", &corrupt).unwrap();
            let outcome = mcount(&room, &["list", "module"]);
            assert!(matches!(outcome.code, Some(0 | 2)), "{packer:?} {at}: {outcome:?}");
            assert!(outcome.stderr.lines().count() <= 1, "{packer:?} {at}: {outcome:?}");
            let by_decoder =
                outcome.stderr.strip_prefix(&format!("mcount: module: {}: ", packer.2));
            let is_plain = by_decoder.is_none_or(|why| REASONS.contains(&why.trim_end()));
            assert!(is_plain, "{packer:?} {at}: {outcome:?}");
            let of_programs = ["Error", "{", "::", "panicked", "os error"];
            let is_plain = of_programs.iter().all(|part| !outcome.stderr.contains(part));
            assert!(is_plain, "{packer:?} {at}: {outcome:?}");
        }
    }
}

/// A few kilobytes of 300 MB zeros: refused, and without using as much memory.
#[test]
fn bombs() {
    need_packers();
    let room = room();
    let truncate = room.run(Path::new("truncate"), &["-s", "300M", "zeros"]).unwrap();
    assert_eq!(truncate.code, Some(0));
    for packer in one_in(3, vec![PACKERS[0], PACKERS[1], PACKERS[5], PACKERS[7], PACKERS[9]]) {
        let bomb = pack(&room, packer, "zeros");
        room.put("bomb", &bomb).unwrap();
        let program = env!("CARGO_BIN_EXE_mcount");
        let limit = format!("ulimit -v 1500000; exec {program} list bomb");
        let outcome = room.run(Path::new("sh"), &["-c", &limit]).unwrap();
        assert_eq!(outcome.code, Some(2), "{packer:?}: {outcome:?}");
        let expected = format!("mcount: bomb: {}: becomes larger than", packer.2);
        assert!(outcome.stderr.starts_with(&expected), "{packer:?}: {outcome:?}");
        refused(&room, &["list", "--max-size", "1G", "bomb"], "holds something unknown");
    }
    let gzip = pack(&room, PACKERS[0], "plain.o");
    room.put("module.gz", &gzip).unwrap();
    refused(&room, &["list", "--max-size", "1K", "module.gz"], "larger than 1024 bytes");
    refused(&room, &["table", "--max-size", "1K", "module.gz"], "larger than 1024 bytes");
    let wrong = mcount(&room, &["list", "--max-size", "1T", "module.gz"]);
    assert_eq!(wrong.code, Some(2));
    assert!(wrong.stderr.contains("not a number of bytes"), "{wrong:?}");
}

/// What there is no memory for is an error of its own.
#[test]
fn more_than_there_is_memory() {
    need_packers();
    let room = room();
    room.put("zeros", b"").unwrap();
    let file = std::fs::File::options().write(true).open(room.path("zeros")).unwrap();
    file.set_len(300 << 20).unwrap();
    let packers = [PACKERS[0], PACKERS[1], PACKERS[5], PACKERS[7], PACKERS[8], PACKERS[9]];
    for packer in one_in(3, packers.to_vec()) {
        room.put("bomb", &pack(&room, packer, "zeros")).unwrap();
        let program = env!("CARGO_BIN_EXE_mcount");
        let limit = format!("ulimit -v 500000; exec {program} list -j1 --max-size 1G bomb");
        let outcome = room.run(Path::new("sh"), &["-c", &limit]).unwrap();
        let expected = format!("mcount: bomb: {}: out of memory\n", packer.2);
        assert_eq!((outcome.code, &outcome.stderr), (Some(2), &expected), "{packer:?}");
    }
}

/// A stream that there is no memory for is an error, and its rest isn't the input.
#[test]
fn a_stream_that_there_is_no_memory_for() {
    let room = room();
    for command in ["list", "stats"] {
        let script = "ulimit -v 500000; head -c 400M /dev/zero | \"$0\" $1 -";
        let arguments = ["-c", script, env!("CARGO_BIN_EXE_mcount"), command];
        let outcome = room.run(Path::new("sh"), &arguments).unwrap();
        let expected = "mcount: -: out of memory\n";
        assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(2), expected), "{command}");
    }
}

/// A frame of Zstandard with a window of 2 GiB, and more zeros than that, in a file so large that it may
/// become as large as any: the decoder panics where it runs out of addresses.
#[test]
#[cfg(target_pointer_width = "32")]
fn windows_without_room() {
    let room = room();
    // No checksum and no size; the window; a block of 128 KiB that are the same byte, again and again.
    let blocks = b"\x02\0\x10\0".repeat(20_000);
    room.put("module", &[b"\x28\xb5\x2f\xfd\x00\xa8", blocks.as_slice()].concat()).unwrap();
    let file = std::fs::File::options().write(true).open(room.path("module")).unwrap();
    file.set_len(64 << 20).unwrap();
    refused(&room, &["list", "module"], "mcount: module: zstd: ");
}

/// No host of 32 bits can map a file of 5 GiB, which is an error; one of 64 bits can.
#[test]
fn files_beyond_addresses() {
    let room = room();
    let expected = listed(&room, "plain.o");
    let file = std::fs::File::options().write(true).open(room.path("plain.o")).unwrap();
    file.set_len(5 << 30).unwrap();
    if cfg!(target_pointer_width = "64") {
        assert_eq!(listed(&room, "plain.o"), expected);
        return;
    }
    for command in ["scan", "list", "check", "record", "nop", "sort", "table"] {
        let outcome = mcount(&room, &[command, "plain.o"]);
        assert_eq!(outcome.code, Some(2), "{command}: {outcome:?}");
        let expected = "mcount: plain.o: file too large\n";
        assert!(outcome.stderr.starts_with(expected), "{command}: {outcome:?}");
    }
}

#[test]
fn commands_that_write_say_what_to_do() {
    need_packers();
    let room = room();
    let packed = pack(&room, PACKERS[1], "plain.o");
    room.put("a.ko.xz", &packed).unwrap();
    room.put("bzImage", &bzimage(0x20f, &packed, 0)).unwrap();
    for command in ["record", "sort", "nop"] {
        for (name, kind) in [("a.ko.xz", "xz"), ("bzImage", "bzImage")] {
            let before = room.get(name).unwrap();
            refused(&room, &[command, name], &format!("{name}: {kind}: cannot change"));
            assert_eq!(room.get(name).unwrap(), before);
        }
    }
}

/// As `/lib/modules` has them: commands that read see compressed modules, those that write do not.
#[test]
fn modules_of_a_folder() {
    need_packers();
    let room = room();
    std::fs::create_dir_all(room.path("modules/kernel/fs")).unwrap();
    let names = ["gz", "xz", "zst", "bz2"].map(|suffix| format!("modules/kernel/fs/a.ko.{suffix}"));
    for (name, packer) in names.iter().zip([0, 1, 5, 9]) {
        room.put(name, &pack(&room, PACKERS[packer], "plain.o")).unwrap();
    }
    room.put("modules/text", b"not an object").unwrap();
    files::write(&room.path("modules/modules.dep"), b"text").unwrap();
    let deps = pack(&room, PACKERS[0], "modules/text");
    room.put("modules/modules.dep.gz", &deps).unwrap();
    let outcome = mcount(&room, &["list", "--format", "jsonl", "modules"]);
    assert_eq!((outcome.code, outcome.stderr.as_str()), (Some(0), ""));
    assert_eq!(outcome.stdout.lines().count(), 4 * 8);
    for name in &names {
        assert_eq!(outcome.stdout.matches(name).count(), 8, "{name}");
    }
    refused(&room, &["record", "-v", "modules"], "modules: only compressed objects in it;");
    let outcome = mcount(&room, &["record", "-v", "--allow-empty", "modules"]);
    assert_eq!((outcome.code, outcome.stdout.as_str()), (Some(0), ""));
}
