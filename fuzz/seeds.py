#!/usr/bin/env python3
"""Archives, compressed files and traces to begin with, in corpus/archive, corpus/unpack and corpus/trace.

Needs ar, llvm-ar, gzip, xz, zstd, lz4 and bzip2; run it in this folder."""

import pathlib
import struct
import subprocess
import tempfile

PREBUILT = pathlib.Path("../tests/prebuilt").resolve()
CORPUS = pathlib.Path("corpus").resolve()

COMPRESSORS = {
    "gzip": [["-9"], ["-1"]],
    "xz": [["--check=none"], ["--check=crc32", "--block-size=600"], ["--check=sha256"],
           ["--check=crc32", "--x86", "--lzma2=dict=64KiB"],
           ["--check=crc64", "--arm", "--lzma2=dict=4KiB,lc=0,lp=2"],
           ["--check=none", "--delta=dist=4", "--lzma2"], ["--format=lzma"]],
    "zstd": [["-1", "--check"], ["-19", "--no-check"]],
    "lz4": [["-9"], ["-l", "-9"], ["-B4", "-BD", "--content-size"]],
    "bzip2": [["-9"]],
}


def compressed():
    """What each compressor makes of an object, of a long run, and of nothing."""
    contents = [(PREBUILT / "csky-bsr.o").read_bytes(), (PREBUILT / "x86_64-pg.o").read_bytes(), bytes(5000), b""]
    for program, variants in COMPRESSORS.items():
        for options in variants:
            for content in contents:
                command = [program, "-c", *options]
                yield subprocess.run(command, input=content, stdout=subprocess.PIPE, check=True).stdout


def wrapped(stream):
    """Kernel images with `stream` as their payload; see src/unpack/kernel.rs of mcount-store."""
    for version in (0x20F, 0x204):
        header = bytearray(0x400)
        header[0x1F1] = 1
        header[0x1FE:0x200] = b"\x55\xaa"
        header[0x202:0x208] = b"HdrS" + struct.pack("<H", version)
        header[0x248:0x250] = struct.pack("<II", 0, len(stream))
        yield bytes(header) + stream + b"tail"
    yield (b"MZ\0\0zimg" + struct.pack("<II", 0x100, len(stream))).ljust(0x100, b"\0") + stream
    yield bytes(0x24) + struct.pack("<I", 0x016F2818) + bytes(0x18) + b"code" * 4 + stream
    yield struct.pack(">I8xI48x", 0x27051956, len(stream)) + stream


def archives():
    """Archives of each format, with and without an index, long names, odd sizes and other files."""
    with tempfile.TemporaryDirectory() as folder:
        place = pathlib.Path(folder)
        one = (PREBUILT / "csky-bsr.o").read_bytes()
        for name, content in [("a.o", one), ("odd.o", one + b"x"), ("text", b"hello"),
                              ("a-name-that-is-longer-than-sixteen-bytes.o", one)]:
            (place / name).write_bytes(content)
        lists = [["a.o"], ["a.o", "a-name-that-is-longer-than-sixteen-bytes.o"], ["odd.o", "text", "a.o"]]
        programs = [["ar"]] + [["llvm-ar", "--format=" + name] for name in ("gnu", "bsd", "darwin", "coff")]
        for program in programs:
            for flags in ("rcs", "rcS", "rcsT"):
                for members in lists:
                    (place / "x.a").unlink(missing_ok=True)
                    command = [*program, flags, "x.a", *members]
                    made = subprocess.run(command, cwd=place, stderr=subprocess.DEVNULL, check=False)
                    if made.returncode == 0:
                        yield (place / "x.a").read_bytes()


def traces():
    """A trace with calls, two functions and a process, in both byte orders; see docs/trace-format.md."""
    for order in "<>":
        head = bytearray(65536)
        head[:8] = b"\x89MCOUNT\n"
        fields = {8: 0x01020304 | 1 << 32 if order == "<" else 0x01020304 << 32 | 1, 16: 65536, 24: 10**9, 32: 2, 64: 1, 128: 3}
        for offset, value in fields.items():
            struct.pack_into(order + "Q", head, offset, value)
        directory = bytearray(65536)
        calls, names = bytearray(65536), bytearray(65536)
        words = [1 << 32 | 1 << 24, 7 << 32 | 7]
        for at in range(20):
            words += [(at * 10 + 9) << 24 | 1 + at % 2, (at % 7) << 24 | at << 2 | at % 4]
        struct.pack_into(f"{order}{len(words)}Q", calls, 0, *words)
        used = 0
        for kind, body in [(1, struct.pack(order + "IIQ", 7, 1, 0) + b"/bin/p"), (5, struct.pack(order + "IIII", 1, 0, 6, 0) + b"/bin/p")] + [
                (6, struct.pack(order + "IIQQ", number, 1, number * 16, 16) + b"f") for number in (1, 2)]:
            record = struct.pack(order + "II", kind, len(body)) + body
            record += bytes(-len(record) % 8)
            names[used:used + len(record)] = record
            used += len(record)
        struct.pack_into(order + "IIQQQ", directory, 64, 1, 1, 0, 7, 0)
        struct.pack_into(order + "IIQQQ", directory, 128, 4, 0, 0, 0, used)
        yield bytes(head + directory + calls + names)


def keep(target, seeds):
    folder = CORPUS / target
    folder.mkdir(parents=True, exist_ok=True)
    for number, seed in enumerate(seeds):
        (folder / f"seed-{number:03}").write_bytes(seed)


if __name__ == "__main__":
    streams = list(compressed())
    keep("unpack", streams + [image for stream in streams for image in wrapped(stream)])
    keep("archive", archives())
    keep("trace", traces())
