#!/usr/bin/env python3
"""Makes the prebuilt objects and their expectations.

    build.py              all variants whose compiler or assembler is there
    build.py NAME...      these variants
    build.py --expect     only the expectations, from the objects that are here
    build.py --readme     only the table of README.md, from the variants whose objects are here
    build.py --review     the expectations' disassembly on stdout, to be read by eye

An expectation is the oracle of the Rust tests, so it is made without our Rust code: this file reads what
GNU `objdump` and `readelf` print. Each line is `SECTION OFFSET FUNCTION KIND HOOK`, in the order of section
index and offset; OFFSET is the recorded address in hexadecimal, relative to the section.

The assemblers that Debian does not package are taken from $MCOUNT_CROSS (default /opt/mcount-cross), where
they lie as <target>/bin/<target>-as, built from Debian's binutils-source.
"""

import collections
import os
import re
import shlex
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
CROSS = os.environ.get("MCOUNT_CROSS", "/opt/mcount-cross")

# What every C compiler gets. No unwind tables: they only make the objects larger.
COMMON = "-O2 -fno-asynchronous-unwind-tables -fno-stack-protector"
SAMPLE = "src/sample.c"

Variant = collections.namedtuple("Variant", "name command objdump note")
VARIANTS = []


def compile_c(name, compiler, flags, hook, note="", objdump=None, source=SAMPLE):
    """A variant made by a C or C++ compiler; `hook` is the symbol whose address sample.c takes."""
    define = "" if hook is None else f" -DHOOK={hook}"
    # A later -O wins, so a variant may ask for -O0 in its flags.
    command = f"{compiler} {COMMON} {flags}{define} -c -o {name}.o {source}"
    if objdump is None:
        objdump = re.sub(r"-(gcc|g\+\+)$", "-objdump", compiler)
    VARIANTS.append(Variant(name, command, objdump, note))


def assemble(name, target, flags, source, note="", objdump=None, packaged=False):
    """A variant made from assembly of our own, by Debian's assembler or one under $MCOUNT_CROSS."""
    tool = target if packaged else f"$MCOUNT_CROSS/{target}/bin/{target}"
    command = f"{tool}-as {flags} -o {name}.o {source}".replace("  ", " ")
    VARIANTS.append(Variant(name, command, objdump or f"{tool}-objdump", note))


def table():
    gcc = "{}-linux-gnu-gcc".format
    x86 = "x86_64-linux-gnu-gcc"
    clang = "clang --target=x86_64-linux-gnu"
    native = "objdump"

    c = compile_c
    c("x86_64-fentry", x86, "-fno-pie -pg -mfentry", "__fentry__")
    c("x86_64-pg", x86, "-fno-pie -pg", "mcount")
    c("x86_64-pg-O0", x86, "-fno-pie -pg -O0", "mcount")
    c("x86_64-pg-pic", x86, "-fPIC -pg", "mcount", "call *mcount@GOTPCREL(%rip)")
    c("x86_64-pg-pic-norelax", x86, "-fPIC -pg -Wa,-mrelax-relocations=no", "mcount", "R_X86_64_GOTPCREL")
    c("x86_64-fentry-pic", x86, "-fPIC -pg -mfentry", "__fentry__", "call *__fentry__@GOTPCREL(%rip)")
    c("x86_64-fentry-cet", x86, "-fno-pie -pg -mfentry -fcf-protection=branch", "__fentry__",
      "endbr64 before the call")
    c("x86_64-large", x86, "-fno-pie -mcmodel=large -pg", "mcount",
      "movabs $mcount,%r10; call *%r10: the recorded address is that of the movabs")
    c("x86_64-large-pic", x86, "-fPIC -mcmodel=large -pg -mfentry", "__fentry__",
      "R_X86_64_PLTOFF64: the recorded address is that of the first of six instructions")
    c("x86_64-fentry-kernel", x86, "-fno-pie -mcmodel=kernel -mno-red-zone -pg -mfentry", "__fentry__")
    c("x86_64-fentry-table", x86, "-fno-pie -pg -mfentry -mrecord-mcount", "__fentry__",
      "the compiler's own table")
    c("x86_64-nop-table", x86, "-fno-pie -pg -mfentry -mnop-mcount -mrecord-mcount", "__fentry__",
      "the compiler's own table of its own NOPs")
    c("x86_64-fentry-names", x86,
      "-fno-pie -pg -mfentry -mrecord-mcount -mfentry-name=my_fentry -mfentry-section=my_table", "my_fentry",
      "other names for hook and table")
    c("x86_64-patchable-5", x86, "-fno-pie -fpatchable-function-entry=5 -DPATCHABLE", "__fentry__")
    c("x86_64-patchable-16-16", x86, "-fno-pie -fpatchable-function-entry=16,16 -DPATCHABLE", "__fentry__",
      "the whole area stands before the function")
    c("x86_64-comdat", "x86_64-linux-gnu-g++", "-fno-pie -pg", None, "COMDAT groups", source="src/comdat.cc")
    c("x86_64-comdat-fentry-sections", "x86_64-linux-gnu-g++",
      "-fno-pie -pg -mfentry -ffunction-sections", None, "COMDAT groups", source="src/comdat.cc")
    c("x86_64-clang-sections", clang, "-fno-pie -pg -ffunction-sections", "mcount",
      "the weak function is the only symbol of its section", objdump=native)
    c("x86_64-clang-fentry", clang, "-fno-pie -pg -mfentry", "__fentry__", objdump=native)
    c("x86_64-clang-pic", clang, "-fPIC -pg -fno-plt", "mcount", "eight sites: see above", objdump=native)
    c("x86_64-clang-patchable-16-4", clang, "-fno-pie -fpatchable-function-entry=16,4 -DPATCHABLE", "__fentry__",
      "NOPs whose operand has a displacement", objdump=native)
    c("x32-clang-patchable-9", "clang --target=x86_64-linux-gnux32", "-fno-pie -fpatchable-function-entry=9 -DPATCHABLE",
      "__fentry__", "NOPs whose operand has a displacement", objdump=native)
    assemble("x86_64-old", "x86_64-linux-gnu", "", "src/x86_64-old.s",
             "R_X86_64_PC32, and references that only look like calls", packaged=True)
    c("x32-pg", "x86_64-linux-gnux32-gcc", "-fno-pie -pg", "mcount", "ELFCLASS32 on x86_64")
    c("x32-fentry", "x86_64-linux-gnux32-gcc", "-fno-pie -pg -mfentry", "__fentry__")

    c("i386-fentry", gcc("i686"), "-fno-pie -fno-pic -pg -mfentry", "__fentry__")
    c("i386-pg", gcc("i686"), "-fno-pie -fno-pic -pg", "mcount")
    c("i386-pg-pic", gcc("i686"), "-fPIC -pg", "mcount", "call *mcount@GOT(%ebx)")
    c("i386-pg-pic-norelax", gcc("i686"), "-fPIC -pg -Wa,-mrelax-relocations=no", "mcount", "R_386_GOT32")
    c("i386-clang-pic", "clang --target=i686-linux-gnu", "-fPIC -pg", "mcount", "R_386_PLT32",
      objdump="i686-linux-gnu-objdump")
    c("i386-clang", "clang --target=i686-linux-gnu", "-fno-pie -pg", "mcount", objdump="i686-linux-gnu-objdump")

    hf = "arm-linux-gnueabihf-gcc"
    c("arm-arm", hf, "-fno-pie -marm -pg", "__gnu_mcount_nc")
    c("arm-thumb", hf, "-fno-pie -mthumb -pg", "__gnu_mcount_nc")
    c("arm-thumb-pic", hf, "-fPIC -mthumb -pg", "__gnu_mcount_nc")
    c("arm-arm-O0", hf, "-fno-pie -marm -pg -O0", "__gnu_mcount_nc")
    c("arm-long-calls", hf, "-fno-pie -marm -mlong-calls -pg", "__gnu_mcount_nc")
    c("arm-armv5", "arm-linux-gnueabi-gcc", "-fno-pie -marm -pg", "__gnu_mcount_nc")
    c("armeb-arm", "arm-linux-gnueabi-gcc", "-fno-pie -marm -mbig-endian -pg", "__gnu_mcount_nc")
    c("armeb-thumb", hf, "-fno-pie -mthumb -mbig-endian -pg", "__gnu_mcount_nc")
    c("arm-clang", "clang --target=arm-linux-gnueabihf", "-fno-pie -pg", "mcount", "no push before the call",
      objdump="arm-linux-gnueabihf-objdump")
    c("arm-clang-gnu", "clang --target=arm-linux-gnueabihf", "-fno-pie -meabi gnu -pg", "__gnu_mcount_nc",
      "-meabi gnu, as the kernel's build has it", objdump="arm-linux-gnueabihf-objdump")
    c("arm-clang-thumb", "clang --target=arm-linux-gnueabihf", "-fno-pie -mthumb -meabi gnu -pg",
      "__gnu_mcount_nc", objdump="arm-linux-gnueabihf-objdump")
    c("arm-pc24", "arm-linux-gnueabi-gcc", "-fno-pie -marm -march=armv4 -Wa,-meabi=gnu -pg", "__gnu_mcount_nc",
      "no EABI: R_ARM_PC24")
    c("armeb-clang", "clang --target=armeb-linux-gnueabi", "-fno-pie -pg", "mcount", "no push before the call",
      objdump="arm-linux-gnueabi-objdump")

    a64 = gcc("aarch64")
    c("aarch64-pg", a64, "-fno-pie -pg", "_mcount")
    c("aarch64-pg-pic", a64, "-fPIC -pg", "_mcount")
    c("aarch64-pg-O0", a64, "-fno-pie -pg -O0", "_mcount")
    c("aarch64-pg-bti", a64, "-fno-pie -pg -mbranch-protection=bti", "_mcount")
    c("aarch64-ilp32", a64, "-fno-pie -mabi=ilp32 -pg", "_mcount", "ELFCLASS32: R_AARCH64_P32_CALL26")
    c("aarch64_be-pg", a64, "-fno-pie -mbig-endian -pg", "_mcount", "data big endian, instructions little endian")
    c("aarch64_be-ilp32", a64, "-fno-pie -mbig-endian -mabi=ilp32 -pg", "_mcount")
    for area in ("2", "4,2"):
        for bti in ("", "-bti"):
            c(f"aarch64-patchable-{area.replace(',', '-')}{bti}", a64,
              f"-fno-pie -fpatchable-function-entry={area} -DPATCHABLE"
              + (" -mbranch-protection=bti" if bti else ""), "_mcount")
    c("aarch64_be-patchable-2", a64, "-fno-pie -mbig-endian -fpatchable-function-entry=2 -DPATCHABLE", "_mcount")
    c("aarch64-clang", "clang --target=aarch64-linux-gnu", "-fno-pie -pg", "_mcount",
      objdump="aarch64-linux-gnu-objdump")

    rv = gcc("riscv64")
    c("riscv64-pg", rv, "-fno-pie -pg", "_mcount", "linker relaxation is on, as by default")
    c("riscv64-pg-O0", rv, "-fno-pie -pg -O0", "_mcount")
    c("riscv64-pg-norelax", rv, "-fno-pie -pg -mno-relax", "_mcount")
    c("riscv64-pg-pic", rv, "-fPIC -pg", "_mcount")
    c("riscv64-patchable-8", rv, "-fno-pie -fpatchable-function-entry=8 -DPATCHABLE", "_mcount",
      "eight NOPs of 2 bytes")
    c("riscv64-patchable-8-4", rv, "-fno-pie -fpatchable-function-entry=8,4 -DPATCHABLE", "_mcount")
    c("riscv64-patchable-4-noc", rv, "-fno-pie -march=rv64g -fpatchable-function-entry=4 -DPATCHABLE", "_mcount",
      "four NOPs of 4 bytes")
    c("riscv32-pg", rv, "-fno-pie -march=rv32imac -mabi=ilp32 -pg", "_mcount")
    c("riscv32-patchable-4", rv, "-fno-pie -march=rv32imac -mabi=ilp32 -fpatchable-function-entry=4 -DPATCHABLE",
      "_mcount")
    c("riscv64-clang", "clang --target=riscv64-linux-gnu", "-fno-pie -march=rv64gc -mabi=lp64d -pg", "_mcount",
      objdump="riscv64-linux-gnu-objdump")
    c("riscv64-clang-19", "clang-19 --target=riscv64-linux-gnu", "-fno-pie -march=rv64gc -mabi=lp64d -pg", "_mcount",
      objdump="riscv64-linux-gnu-objdump")

    c("powerpc-pg", gcc("powerpc"), "-fno-pie -fno-pic -pg", "_mcount")
    c("powerpc-pg-pic", gcc("powerpc"), "-fPIC -pg", "_mcount")
    c("powerpc-secure-plt", gcc("powerpc"), "-fpic -msecure-plt -pg", "_mcount")
    c("powerpc-patchable-2", gcc("powerpc"), "-fno-pie -fno-pic -fpatchable-function-entry=2 -DPATCHABLE", "_mcount")
    c("powerpc-clang", "clang --target=powerpc-linux-gnu", "-fno-pie -pg", "_mcount",
      objdump="powerpc-linux-gnu-objdump")
    c("powerpcle-pg", gcc("powerpc"), "-fno-pie -fno-pic -mlittle-endian -pg", "_mcount")
    c("powerpc64-pg", gcc("powerpc64"), "-fno-pie -pg", "_mcount", "ELFv1: function descriptors")
    c("powerpc64-patchable-2", gcc("powerpc64"), "-fno-pie -fpatchable-function-entry=2 -DPATCHABLE", "_mcount")
    c("powerpc64-profile-kernel", gcc("powerpc64"), "-fno-pie -pg -mprofile-kernel", "_mcount")
    c("powerpc64-elfv2", gcc("powerpc64"), "-fno-pie -mabi=elfv2 -pg", "_mcount", "big-endian ELFv2")
    c("powerpc64le-pg", gcc("powerpc64le"), "-fno-pie -pg", "_mcount")
    c("powerpc64le-pg-O0", gcc("powerpc64le"), "-fno-pie -pg -O0", "_mcount")
    c("powerpc64le-profile-kernel", gcc("powerpc64le"), "-fno-pie -pg -mprofile-kernel", "_mcount")
    c("powerpc64le-pcrel", gcc("powerpc64le"), "-mcpu=power10 -pg", "_mcount", "R_PPC64_REL24_NOTOC")
    c("powerpc64le-patchable-2", gcc("powerpc64le"), "-fno-pie -fpatchable-function-entry=2 -DPATCHABLE", "_mcount")
    c("powerpc64le-clang", "clang --target=powerpc64le-linux-gnu", "-fno-pie -pg", "_mcount",
      objdump="powerpc64le-linux-gnu-objdump")

    s390 = gcc("s390x")
    # gcc 12 emits .cfi_rel_offset around the call of -pg whether there is a .cfi_startproc or not.
    cfi = "-fasynchronous-unwind-tables "
    c("s390x-pg", s390, cfi + "-fno-pie -pg", "_mcount")
    c("s390x-pg-O0", s390, cfi + "-fno-pie -pg -O0", "_mcount")
    c("s390x-pg-pic", s390, cfi + "-fPIC -pg", "_mcount")
    c("s390x-fentry", s390, "-fno-pie -pg -mfentry", "__fentry__")
    c("s390x-fentry-table", s390, "-fno-pie -pg -mfentry -mrecord-mcount", "__fentry__", "the compiler's own table")
    c("s390x-nop-table", s390, "-fno-pie -pg -mfentry -mnop-mcount -mrecord-mcount", "__fentry__",
      "the compiler's own table of its own NOPs")
    c("s390-pg", s390, cfi + "-fno-pie -m31 -pg", "_mcount", "ELFCLASS32, 31-bit addresses")

    c("s390x-clang", "clang --target=s390x-linux-gnu", "-fno-pie -pg", "mcount",
      "no `stg` before the call: the recorded address is that of the `brasl`", objdump="s390x-linux-gnu-objdump")
    c("s390x-clang-fentry", "clang --target=s390x-linux-gnu", "-fno-pie -pg -mfentry", "__fentry__",
      objdump="s390x-linux-gnu-objdump")
    assemble("s390x-larl", "s390x-linux-gnu", "", "src/s390x-larl.s", "the call of older compilers", packaged=True)

    for be, cc in (("mips", gcc("mips")), ("mipsel", gcc("mipsel"))):
        c(f"{be}-pg", cc, "-fno-pie -fno-pic -mno-abicalls -pg", "_mcount")
        c(f"{be}-long-calls", cc, "-fno-pie -fno-pic -mno-abicalls -mlong-calls -pg", "_mcount")
        c(f"{be}-pg-pic", cc, "-fPIC -pg", "_mcount")
        c(f"{be}-micromips", cc, "-fno-pie -fno-pic -mno-abicalls -mmicromips -pg", "_mcount")
        c(f"{be}-plt", cc, "-fno-pie -fno-pic -mabicalls -mplt -pg", "_mcount", "abicalls, not PIC")
    c("mips-micromips-long-calls", gcc("mips"), "-fno-pie -fno-pic -mno-abicalls -mmicromips -mlong-calls -pg", "_mcount")
    c("mips-micromips-pic", gcc("mips"), "-fPIC -mmicromips -pg", "_mcount")
    c("mips-clang", "clang --target=mips-linux-gnu", "-fno-pie -fno-pic -mno-abicalls -pg", "_mcount",
      objdump="mips-linux-gnu-objdump")
    c("mips64el-clang-pic", "clang --target=mips64el-linux-gnuabi64", "-fPIC -pg", "_mcount",
      "an instruction of the function in the delay slot", objdump="mips64el-linux-gnuabi64-objdump")
    c("mips-pg-O0", gcc("mips"), "-fno-pie -fno-pic -mno-abicalls -pg -O0", "_mcount")
    c("mips-long-calls-O0", gcc("mips"), "-fno-pie -fno-pic -mno-abicalls -mlong-calls -pg -O0", "_mcount")
    c("arm-patchable-2", hf, "-fno-pie -marm -fpatchable-function-entry=2 -DPATCHABLE", "__gnu_mcount_nc")
    c("mips-patchable-2", gcc("mips"), "-fno-pie -fno-pic -mno-abicalls -fpatchable-function-entry=2 -DPATCHABLE",
      "_mcount", "gcc 12 puts the area before the function's symbol")
    for be in ("mips64", "mips64el"):
        cc = f"{be}-linux-gnuabi64-gcc"
        c(f"{be}-n64", cc, "-fno-pie -fno-pic -mno-abicalls -pg", "_mcount")
        c(f"{be}-n64-long-calls", cc, "-fno-pie -fno-pic -mno-abicalls -mlong-calls -pg", "_mcount")
        c(f"{be}-n64-long-calls-sym32", cc, "-fno-pie -fno-pic -mno-abicalls -mlong-calls -msym32 -pg", "_mcount")
        c(f"{be}-n64-pic", cc, "-fPIC -pg", "_mcount")
        c(f"{be}-n32", cc, "-fno-pie -fno-pic -mabi=n32 -mno-abicalls -pg", "_mcount")
        c(f"{be}-n32-long-calls", cc, "-fno-pie -fno-pic -mabi=n32 -mno-abicalls -mlong-calls -pg", "_mcount")
        c(f"{be}-n32-pic", cc, "-fPIC -mabi=n32 -pg", "_mcount")

    c("sparc64-pg", gcc("sparc64"), "-fno-pie -pg", "_mcount")
    c("sparc64-pg-pic", gcc("sparc64"), "-fPIC -pg", "_mcount")
    c("sparc64-clang", "clang --target=sparc64-linux-gnu", "-fno-pie -pg", "mcount",
      objdump="sparc64-linux-gnu-objdump")
    c("sparc64-pg-O0", gcc("sparc64"), "-fno-pie -pg -O0", "_mcount")
    c("sparc32-pg", gcc("sparc64"), "-fno-pie -m32 -pg", "_mcount")
    c("sparc32-pg-pic", gcc("sparc64"), "-fPIC -m32 -pg", "_mcount")

    c("sh4-pg", gcc("sh4"), "-fno-pie -pg", "mcount")
    c("sh4-pg-O0", gcc("sh4"), "-fno-pie -pg -O0", "mcount")
    c("sh4-pg-pic", gcc("sh4"), "-fPIC -pg", "mcount")
    c("sh4-relax", gcc("sh4"), "-fno-pie -mrelax -pg", "mcount")
    c("sh4eb-pg", gcc("sh4"), "-fno-pie -mb -pg", "mcount")

    c("hppa-pg", gcc("hppa"), "-fno-pie -pg", "_mcount")
    c("hppa-pg-pic", gcc("hppa"), "-fPIC -pg", "_mcount")
    c("hppa-patchable-6-5", gcc("hppa"), "-fno-pie -fpatchable-function-entry=6,5 -DPATCHABLE", "_mcount")
    c("hppa-patchable-2", gcc("hppa"), "-fno-pie -fpatchable-function-entry=2 -DPATCHABLE", "_mcount")
    c("hppa64-pg", gcc("hppa64"), "-pg", "_mcount")
    c("hppa64-patchable-6-5", gcc("hppa64"), "-fpatchable-function-entry=6,5 -DPATCHABLE", "_mcount")

    la = "clang-19 --target=loongarch64-linux-gnu"
    c("loongarch64-clang", la, "-fno-pie -pg", "_mcount", objdump="llvm-objdump-19")
    c("loongarch64-clang-relax", la, "-fno-pie -mrelax -pg", "_mcount", objdump="llvm-objdump-19")
    c("loongarch64-clang-medium", la, "-fno-pie -mcmodel=medium -pg", "_mcount", objdump="llvm-objdump-19")
    c("loongarch64-clang-patchable-2", la, "-fno-pie -fpatchable-function-entry=2 -DPATCHABLE", "_mcount",
      objdump="llvm-objdump-19")
    c("loongarch32-clang", "clang-19 --target=loongarch32-linux-gnu", "-fno-pie -pg", "_mcount",
      objdump="llvm-objdump-19")

    a = assemble
    a("nds32le", "nds32le-linux-gnu", "", "src/nds32.s", "behind code that relaxes")
    a("nds32be", "nds32le-linux-gnu", "-EB", "src/nds32.s", "behind code that relaxes")
    for name, flags in (("csky", "-mcpu=ck860"), ("csky-ck810", "-mcpu=ck810"), ("cskybe", "-mcpu=ck860 -EB")):
        a(name, "csky-linux-gnu", flags, "src/csky.s", "jsri and its literal")
    a("csky-bsr", "csky-linux-gnu", "-mcpu=ck860", "src/csky-bsr.s", "bsr")
    a("microblaze", "microblaze-linux-gnu", "", "src/microblaze.s", "brki and brlid")
    a("microblazeel", "microblaze-linux-gnu", "-EL", "src/microblaze.s", "brki and brlid")
    a("loongarch64-gas", "loongarch64-linux-gnu", "", "src/loongarch.s", "bl %plt(_mcount)")
    a("loongarch64-old", "loongarch64-linux-gnu", "", "src/loongarch-old.s", "relocations of the first ABI version")
    for name, features in (("no-relax", ""), ("relax", "+relax,")):
        command = (f"llvm-mc-19 --triple=loongarch64-linux-gnu --mattr={features}+d -filetype=obj"
                   f" -o loongarch64-call36-{name}.o src/loongarch-call36.s")
        VARIANTS.append(Variant(f"loongarch64-call36-{name}", command, "llvm-objdump-19", "call36"))


table()

# ---------------------------------------------------------------- reading objdump and readelf


Insn = collections.namedtuple("Insn", "offset size raw text")
Reloc = collections.namedtuple("Reloc", "offset type symbol")
MARKER = "<!-- build.py --readme writes what follows -->"
PART = -1  # a relocation of a sequence that has been counted already
HOOKS = {"mcount", "_mcount", "__fentry__", "__gnu_mcount_nc", "my_fentry", "._mcount"}
TABLES = {"__mcount_loc", "my_table"}


def run(command):
    command = os.path.expandvars(command)
    return subprocess.run(shlex.split(command), cwd=HERE, check=True, capture_output=True, text=True).stdout


def disassemble(variant):
    """[(section, [Insn], [Reloc])] of the executable sections, in section order."""
    sections = []
    for line in run(f"{variant.objdump} -drz {variant.name}.o").splitlines():
        if m := re.match(r"Disassembly of section (.*):$", line):
            sections.append((m[1], [], []))
        # GNU objdump opens the line of a relocation with tabs; LLVM's writes a 16-digit offset.
        elif m := re.match(r"\t+\s*([0-9a-f]+):\s+(R_\S+)\s*(\S*)", line):
            symbol = re.sub(r"[+-]0x[0-9a-f]+$", "", m[3])
            sections[-1][2].append(Reloc(int(m[1], 16), m[2], symbol))
        elif m := re.match(r"\s*([0-9a-f]+):\s+((?:[0-9a-f]{2,8} )+)\s*(.*)$", line):
            raw = m[2].replace(" ", "")
            offset, insns = int(m[1], 16), sections[-1][1]
            # objdump continues a long instruction on a second line, without text.
            if not m[3] and insns and offset == insns[-1].offset + insns[-1].size:
                last = insns.pop()
                insns.append(Insn(last.offset, last.size + len(raw) // 2, last.raw + raw, last.text))
            else:
                insns.append(Insn(offset, len(raw) // 2, raw, m[3].strip()))
    return sections


def elf_tables(name):
    """Section names by index, and symbols as (index, name, value, section index, is_function, binding)."""
    names = {}
    for line in run(f"readelf -SW {name}.o").splitlines():
        if m := re.match(r"\s*\[\s*(\d+)\]\s(.{17,}?)\s+[A-Z_0-9]+\s+[0-9a-f]{8,16}\s", line):
            names[int(m[1])] = m[2].strip()
    symbols = []
    for line in run(f"readelf -sW {name}.o").splitlines():
        m = re.match(r"\s*(\d+): ([0-9a-f]+)\s+\S+ (\S+)\s+(\S+)\s+\S+\s+(?:\[.*?\]\s+)?(\S+)\s*(\S*)", line)
        if m and m[5].isdigit():
            symbols.append((int(m[1]), m[6], int(m[2], 16), int(m[5]), m[3] == "FUNC", m[4]))
    return names, symbols


def descriptors(name):
    """ELFv1: (function, section name, offset) from the relocations of .opd."""
    found = []
    names, symbols = elf_tables(name)
    opd = [i for i, n in names.items() if n == ".opd"]
    if not opd:
        return found
    entries = {s[2]: s[1] for s in symbols if s[3] == opd[0] and s[4]}
    for section, offset, _, _, symbol, addend in relocations(name):
        if section == ".rela.opd" and offset in entries:
            found.append((entries[offset], symbol, addend))
    return found


def relocations(name):
    """(relocation section, offset, info, type, symbol, addend); the addend of REL is not read."""
    section = None
    for line in run(f"readelf -rW {name}.o").splitlines():
        if m := re.match(r"Relocation section '(.*)' at", line):
            section = m[1]
        elif m := re.match(r"([0-9a-f]+)\s+([0-9a-f]+) (R_\S+)\s+[0-9a-f]+\s+(\S+)(?: ([+-]) ([0-9a-f]+))?", line):
            addend = int(m[6] or "0", 16) * (-1 if m[5] == "-" else 1)
            yield section, int(m[1], 16), int(m[2], 16), m[3], m[4], addend


class Functions:
    """Which function an offset belongs to."""

    def __init__(self, name):
        self.names, symbols = elf_tables(name)
        self.places = collections.defaultdict(list)
        rank = {"GLOBAL": 0, "WEAK": 1, "LOCAL": 2}
        thumb = "arm" in name.split("-")[0]
        for _, symbol, value, section, is_function, binding in symbols:
            if is_function and self.names.get(section) != ".opd":
                value = value & ~1 if thumb or "micromips" in name else value
                self.places[self.names[section]].append((value, rank.get(binding, 3), symbol))
        for symbol, section, offset in descriptors(name):
            self.places[section].append((offset, 0, symbol))

    def at(self, section, offset):
        """The function that contains the offset."""
        before = [p for p in self.places[section] if p[0] <= offset]
        return max(before, key=lambda p: (p[0], -p[1]))[2] if before else "-"

    def from_(self, section, offset):
        """The function that begins at the offset or after it."""
        after = [p for p in self.places[section] if p[0] >= offset]
        return min(after)[2] if after else "-"

    def begins(self, section, offset):
        return any(p[0] == offset for p in self.places[section])


# ---------------------------------------------------------------- what a call looks like


def site_by_call(processor, insns, i, relocs, reloc):
    """Offset and kind of the call site of a relocation to the hook, or None if it is no call.

    `insns[i]` is the instruction that has the relocation. Judged by mnemonic and operands, the way a person
    reads the listing.
    """
    insn = insns[i]
    mnemonic = insn.text.split()[0] if insn.text else ""
    if processor in ("x86_64", "x32", "i386"):
        if mnemonic == "movabs":  # the large code model: movabs $mcount,%r10; call *%r10
            register = insn.text.split(",")[-1]
            if re.match(rf"call\s+\*{register}$", insns[i + 1].text):
                return insn.offset
            # Position-independent: movabs the way to the GOT; lea 1b(%rip); add; movabs hook@PLTOFF; add; call.
            words = [n.text.split()[0] for n in insns[max(0, i - 3):i + 3]]
            is_long = words == ["movabs", "lea", "add", "movabs", "add", "call"]
            return insns[i - 3].offset if is_long else None
        return insn.offset if mnemonic in ("call", "callq") else None
    if processor in ("arm", "armeb"):
        return insn.offset if mnemonic in ("bl", "blx") else None
    if processor.startswith("aarch64"):
        return insn.offset if mnemonic == "bl" else None
    if processor.startswith("riscv"):
        follows = insns[i + 1].text.split()[0] if mnemonic == "auipc" else ""
        return insn.offset if follows == "jalr" else None
    if processor.startswith("powerpc"):
        return insn.offset if mnemonic == "bl" else None
    if processor in ("s390", "s390x"):
        if mnemonic not in ("brasl", "bras"):
            return None
        if insn.text.split()[1].startswith("%r0"):
            return insn.offset
        for before in reversed(insns[max(0, i - 3):i]):
            if re.match(r"(stg\s+%r14,8\(%r15\)|st\s+%r14,4\(%r15\))", before.text):
                return before.offset
        return insn.offset  # clang calls after the prologue, and saves nothing for it
    if processor.startswith("mips"):
        return mips_site(insns, i, relocs)
    if processor.startswith("sparc"):
        return insn.offset if mnemonic == "call" else None
    if processor.startswith("hppa"):
        return insn.offset if mnemonic in ("b,l", "b,gate", "call") else None
    if processor.startswith("loongarch"):
        if mnemonic == "bl":
            return insn.offset
        if mnemonic == "pcaddu18i":
            return insn.offset if re.match(r"jirl\s+\$ra,", insns[i + 1].text) else None
        if mnemonic == "lu12i.w":  # the first of the four instructions of an old `la`
            register = re.escape(insn.text.split()[1].split(",")[0])
            return insn.offset if re.match(rf"jirl\s+\$ra, ?{register},", insns[i + 4].text) else None
        return None
    if processor in ("nds32le", "nds32be"):
        return insn.offset if mnemonic in ("jal", "bal") else None
    if processor.startswith("csky"):
        return insn.offset if mnemonic in ("jsri", "bsr") else None
    if processor.startswith("microblaze"):
        follows = insns[i + 1].text.split()[0] if mnemonic == "imm" else mnemonic
        return insn.offset if follows in ("brlid", "brki", "brlald", "brald") else None
    raise ValueError(processor)


def mips_site(insns, i, relocs):
    """`jal`, or the first relocated instruction of a sequence whose register a `jalr` jumps to."""
    insn = insns[i]
    mnemonic = insn.text.split()[0]
    if mnemonic in ("jal", "jals", "bal", "jalx"):
        return insn.offset
    hooked = {r.offset for r in relocs if r.symbol in HOOKS}
    first = insn.offset
    # The later half of an n64 sequence: its site is the `lui %highest` just before.
    if any("HI16" in r.type for r in relocs if r.offset == insn.offset) and any(
            "HIGHEST" in r.type and r.symbol in HOOKS and insn.offset - 16 <= r.offset < insn.offset
            for r in relocs):
        return PART
    if mnemonic not in ("lui", "lw", "ld"):
        return None
    if mnemonic == "lw" and not re.search(r"\(gp\)", insn.text):
        return None
    # Follow the registers that hold a part of the hook's address until one of them is jumped to.
    holds = {insn.text.split()[1].split(",")[0]}
    for later in insns[i + 1:i + 12]:
        words = later.text.split(None, 1)
        operands = re.split(r"[,()]+", words[1].strip()) if len(words) > 1 else []
        if words[0] in ("jalr", "jalrs"):
            return first if operands[-1] in holds else None
        if words[0] in ("jr", "jrc", "b", "jal", "j"):
            return None
        if not operands or words[0] in ("sw", "sd", "nop"):
            continue
        if later.offset in hooked or holds & set(operands[1:]):
            holds.add(operands[0])
        else:
            holds.discard(operands[0])
    return None


def sh_literals(insns, relocs):
    """Literals of the hook that code loads and then jumps to."""
    wanted = {r.offset for r in relocs if r.symbol in HOOKS}
    found = []
    for i, insn in enumerate(insns):
        m = re.match(r"mov\.l\s+([0-9a-f]+)(?: <.*>)?,(r\d+)", insn.text)
        if not m or int(m[1], 16) not in wanted:
            continue
        register = m[2]
        for later in insns[i + 1:i + 6]:
            if re.match(rf"(jmp|jsr)\s+@{register}\b|(bsrf|braf)\s+{register}\b", later.text):
                found.append(int(m[1], 16))
                break
    return found


# ---------------------------------------------------------------- expectations


def word(name, section, offset):
    """The 32-bit word at an offset of a section: the addend of a REL relocation."""
    contents = [n for n in elf_tables(name)[0].values() if n == section]
    if len(contents) != 1:
        raise ValueError(f"{len(contents)} sections {section}: which is meant?")
    order = "little" if "little endian" in run(f"readelf -h {name}.o") else "big"
    raw = ""
    for line in run(f"readelf -x {section} {name}.o").splitlines():
        if m := re.match(r"\s+0x[0-9a-f]{8} ((?:[0-9a-f]{2,8} ){1,4})", line):
            raw += m[1].replace(" ", "")
    return int.from_bytes(bytes.fromhex(raw)[offset:offset + 4], order)


def table_targets(name, wanted):
    """(section, offset) of each entry of the tables with the given names."""
    names, symbols = elf_tables(name)
    by_name = {s[1]: (names[s[3]], s[2]) for s in symbols if s[1]}
    for section, offset, _, _, symbol, addend in relocations(name):
        table = re.sub(r"^\.rela?", "", section)
        if table not in wanted:
            continue
        if section.startswith(".rel") and not section.startswith(".rela"):
            addend = word(name, table, offset)
        place, value = by_name.get(symbol, (symbol, 0))
        yield place, value + addend


def expectation(variant):
    """Lines of the expectation file, and the relocations to a hook that are no call sites."""
    name = variant.name
    processor = name.split("-")[0]
    functions = Functions(name)
    order = {n: i for i, n in reversed(functions.names.items())}
    sites, others = [], []
    sections = disassemble(variant)
    for section, insns, relocs in sections:
        literals = sh_literals(insns, relocs) if processor.startswith("sh4") else []
        for reloc in relocs:
            if reloc.symbol not in HOOKS:
                continue
            if processor.startswith("sh4"):
                site = reloc.offset if reloc.offset in literals else None
                kind = "literal"
            else:
                i = max((k for k, n in enumerate(insns) if n.offset <= reloc.offset), default=None)
                site = site_by_call(processor, insns, i, relocs, reloc)
                kind = "call"
            if site == PART:
                continue
            if site is None:
                others.append((section, reloc))
            else:
                sites.append((section, site, functions.at(section, site), kind, reloc.symbol))
    for section, offset in table_targets(name, {"__patchable_function_entries"}):
        here = offset
        listing = {i.offset: i for s, insns, _ in sections if s == section for i in insns}
        # An area that stands wholly or partly before its function belongs to the function after it.
        while not functions.begins(section, here) and here in listing and "nop" in listing[here].text:
            here += listing[here].size
        owner = functions.from_(section, here) if functions.begins(section, here) else functions.at(section, offset)
        sites.append((section, offset, owner, "patchable", "-"))
    if "nop" in name:
        for section, offset in table_targets(name, TABLES):
            sites.append((section, offset, functions.at(section, offset), "nop", "-"))
    sites = sorted(set(sites), key=lambda s: (order[s[0]], s[1]))
    lines = [f"{s} {o:x} {f} {k} {h}" for s, o, f, k, h in sites]
    return lines, others


def review(variant):
    """The code around each site, for a human reader."""
    lines, others = expectation(variant)
    sections = disassemble(variant)
    print(f"\n===== {variant.name}: {len(lines)} sites")
    for line in lines:
        section, offset, function, kind, hook = line.split()
        offset = int(offset, 16)
        print(f"-- {line}")
        for s, insns, relocs in sections:
            if s != section:
                continue
            near = [k for k, n in enumerate(insns) if n.offset <= offset < n.offset + n.size]
            for k in range(max(0, near[0] - 3), min(len(insns), near[0] + 7)) if near else []:
                n = insns[k]
                mark = ">" if n.offset == offset else " "
                print(f"   {mark} {n.offset:4x}: {n.raw:<16} {n.text}")
                for r in relocs:
                    if n.offset <= r.offset < n.offset + n.size:
                        print(f"            {r.offset:4x}: {r.type} {r.symbol}")
    for section, reloc in others:
        print(f"-- not a site: {section} {reloc.offset:x} {reloc.type} {reloc.symbol}")


def build(variant):
    try:
        run(variant.command)
    except (subprocess.CalledProcessError, FileNotFoundError) as error:
        text = getattr(error, "stderr", None) or str(error)
        print(f"{variant.name}: cannot be made: {text.strip().splitlines()[0]}", file=sys.stderr)
        return False
    return True


def expect(variant):
    if not os.path.exists(os.path.join(HERE, variant.name + ".o")):
        return
    lines, _ = expectation(variant)
    with open(os.path.join(HERE, variant.name + ".expect"), "w") as file:
        file.writelines(line + "\n" for line in lines)
    print(f"{variant.name}: {len(lines)} sites")


def origin(variant):
    """What made an object: the first words of the tool's own version line, or the assembler."""
    tool = variant.command.split()[0]
    if tool.startswith("$MCOUNT_CROSS"):
        return "own assembly, binutils-source 2.40"
    if tool.endswith("-as") or tool.startswith("llvm-mc"):
        return "own assembly, " + ("LLVM 19" if "llvm" in tool else "binutils 2.40")
    if tool.startswith("clang"):
        return "clang 19" if "19" in tool else "clang 14"
    return "g++ 12" if "g++" in tool else "gcc 12"


def readme():
    """Rewrites what follows the marker in README.md: one row an object."""
    path = os.path.join(HERE, "README.md")
    with open(path) as file:
        head = file.read().split(MARKER)[0]
    rows = ["| object | command | origin | note |", "|---|---|---|---|"]
    for v in VARIANTS:
        if os.path.exists(os.path.join(HERE, v.name + ".o")):
            rows.append(f"| `{v.name}.o` | `{v.command}` | {origin(v)} | {v.note.replace('*', chr(92) + '*')} |")
    with open(path, "w") as file:
        file.write(head + MARKER + "\n\n" + "\n".join(rows) + "\n")


def main(arguments):
    os.environ.setdefault("MCOUNT_CROSS", CROSS)
    options = [a for a in arguments if a.startswith("--")]
    names = [a for a in arguments if not a.startswith("--")]
    unknown = set(names) - {v.name for v in VARIANTS}
    if unknown:
        sys.exit(f"no such variant: {', '.join(sorted(unknown))}")
    if "--readme" in options:
        readme()
        return
    for variant in VARIANTS:
        if names and variant.name not in names:
            continue
        if "--review" in options:
            review(variant)
        elif "--expect" in options or build(variant):
            try:
                expect(variant)
            except Exception as error:  # one variant must not stop the others
                print(f"{variant.name}: NO EXPECTATION: {error!r}", file=sys.stderr)


if __name__ == "__main__":
    main(sys.argv[1:])
