"""The prebuilt objects: one command for each, a function for each processor.

A file of its own because it is what a new processor adds to; build.py runs it.
"""

import collections
import re

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


def gcc(target):
    """The name of a cross compiler of Debian."""
    return f"{target}-linux-gnu-gcc"


def x86():
    x86 = "x86_64-linux-gnu-gcc"
    clang = "clang --target=x86_64-linux-gnu"
    native = "objdump"
    c = compile_c
    compile_c("x86_64-fentry", x86, "-fno-pie -pg -mfentry", "__fentry__")
    compile_c("x86_64-pg", x86, "-fno-pie -pg", "mcount")
    compile_c("x86_64-pg-O0", x86, "-fno-pie -pg -O0", "mcount")
    compile_c("x86_64-pg-pic", x86, "-fPIC -pg", "mcount", "call *mcount@GOTPCREL(%rip)")
    compile_c("x86_64-pg-pic-norelax", x86, "-fPIC -pg -Wa,-mrelax-relocations=no", "mcount", "R_X86_64_GOTPCREL")
    compile_c("x86_64-fentry-pic", x86, "-fPIC -pg -mfentry", "__fentry__", "call *__fentry__@GOTPCREL(%rip)")
    compile_c("x86_64-fentry-cet", x86, "-fno-pie -pg -mfentry -fcf-protection=branch", "__fentry__",
      "endbr64 before the call")
    compile_c("x86_64-large", x86, "-fno-pie -mcmodel=large -pg", "mcount",
      "movabs $mcount,%r10; call *%r10: the recorded address is that of the movabs")
    compile_c("x86_64-large-pic", x86, "-fPIC -mcmodel=large -pg -mfentry", "__fentry__",
      "R_X86_64_PLTOFF64: the recorded address is that of the first of six instructions")
    compile_c("x86_64-fentry-kernel", x86, "-fno-pie -mcmodel=kernel -mno-red-zone -pg -mfentry", "__fentry__")
    compile_c("x86_64-fentry-table", x86, "-fno-pie -pg -mfentry -mrecord-mcount", "__fentry__",
      "the compiler's own table")
    compile_c("x86_64-nop-table", x86, "-fno-pie -pg -mfentry -mnop-mcount -mrecord-mcount", "__fentry__",
      "the compiler's own table of its own NOPs")
    compile_c("x86_64-fentry-names", x86,
      "-fno-pie -pg -mfentry -mrecord-mcount -mfentry-name=my_fentry -mfentry-section=my_table", "my_fentry",
      "other names for hook and table")
    compile_c("x86_64-patchable-5", x86, "-fno-pie -fpatchable-function-entry=5 -DPATCHABLE", "__fentry__")
    compile_c("x86_64-patchable-16-16", x86, "-fno-pie -fpatchable-function-entry=16,16 -DPATCHABLE", "__fentry__",
      "the whole area stands before the function, so it is padding and no site")
    compile_c("x86_64-comdat", "x86_64-linux-gnu-g++", "-fno-pie -pg", None, "COMDAT groups", source="src/comdat.cc")
    compile_c("x86_64-comdat-fentry-sections", "x86_64-linux-gnu-g++",
      "-fno-pie -pg -mfentry -ffunction-sections", None, "COMDAT groups", source="src/comdat.cc")
    compile_c("x86_64-clang-sections", clang, "-fno-pie -pg -ffunction-sections", "mcount",
      "the weak function is the only symbol of its section", objdump=native)
    compile_c("x86_64-clang-fentry", clang, "-fno-pie -pg -mfentry", "__fentry__", objdump=native)
    compile_c("x86_64-clang-pic", clang, "-fPIC -pg -fno-plt", "mcount", "eight sites: see above", objdump=native)
    compile_c("x86_64-clang-patchable-16-4", clang, "-fno-pie -fpatchable-function-entry=16,4 -DPATCHABLE", "__fentry__",
      "NOPs whose operand has a displacement", objdump=native)
    compile_c("x32-clang-patchable-9", "clang --target=x86_64-linux-gnux32", "-fno-pie -fpatchable-function-entry=9 -DPATCHABLE",
      "__fentry__", "NOPs whose operand has a displacement", objdump=native)
    assemble("x86_64-old", "x86_64-linux-gnu", "", "src/x86_64-old.s",
             "R_X86_64_PC32, and references that only look like calls", packaged=True)
    compile_c("x32-pg", "x86_64-linux-gnux32-gcc", "-fno-pie -pg", "mcount", "ELFCLASS32 on x86_64")
    compile_c("x32-fentry", "x86_64-linux-gnux32-gcc", "-fno-pie -pg -mfentry", "__fentry__")


def i386():
    compile_c("i386-fentry", gcc("i686"), "-fno-pie -fno-pic -pg -mfentry", "__fentry__")
    compile_c("i386-pg", gcc("i686"), "-fno-pie -fno-pic -pg", "mcount")
    compile_c("i386-pg-pic", gcc("i686"), "-fPIC -pg", "mcount", "call *mcount@GOT(%ebx)")
    compile_c("i386-pg-pic-norelax", gcc("i686"), "-fPIC -pg -Wa,-mrelax-relocations=no", "mcount", "R_386_GOT32")
    compile_c("i386-clang-pic", "clang --target=i686-linux-gnu", "-fPIC -pg", "mcount", "R_386_PLT32",
      objdump="i686-linux-gnu-objdump")
    compile_c("i386-clang", "clang --target=i686-linux-gnu", "-fno-pie -pg", "mcount", objdump="i686-linux-gnu-objdump")


def arm():
    hf = "arm-linux-gnueabihf-gcc"
    compile_c("arm-arm", hf, "-fno-pie -marm -pg", "__gnu_mcount_nc")
    compile_c("arm-thumb", hf, "-fno-pie -mthumb -pg", "__gnu_mcount_nc")
    compile_c("arm-thumb-pic", hf, "-fPIC -mthumb -pg", "__gnu_mcount_nc")
    compile_c("arm-arm-O0", hf, "-fno-pie -marm -pg -O0", "__gnu_mcount_nc")
    compile_c("arm-long-calls", hf, "-fno-pie -marm -mlong-calls -pg", "__gnu_mcount_nc")
    compile_c("arm-armv5", "arm-linux-gnueabi-gcc", "-fno-pie -marm -pg", "__gnu_mcount_nc")
    compile_c("armeb-arm", "arm-linux-gnueabi-gcc", "-fno-pie -marm -mbig-endian -pg", "__gnu_mcount_nc")
    compile_c("armeb-thumb", hf, "-fno-pie -mthumb -mbig-endian -pg", "__gnu_mcount_nc")
    compile_c("arm-clang", "clang --target=arm-linux-gnueabihf", "-fno-pie -pg", "mcount", "no push before the call",
      objdump="arm-linux-gnueabihf-objdump")
    compile_c("arm-clang-gnu", "clang --target=arm-linux-gnueabihf", "-fno-pie -meabi gnu -pg", "__gnu_mcount_nc",
      "-meabi gnu, as the kernel's build has it", objdump="arm-linux-gnueabihf-objdump")
    compile_c("arm-clang-thumb", "clang --target=arm-linux-gnueabihf", "-fno-pie -mthumb -meabi gnu -pg",
      "__gnu_mcount_nc", objdump="arm-linux-gnueabihf-objdump")
    compile_c("arm-pc24", "arm-linux-gnueabi-gcc", "-fno-pie -marm -march=armv4 -Wa,-meabi=gnu -pg", "__gnu_mcount_nc",
      "no EABI: R_ARM_PC24")
    compile_c("armeb-clang", "clang --target=armeb-linux-gnueabi", "-fno-pie -pg", "mcount", "no push before the call",
      objdump="arm-linux-gnueabi-objdump")


def aarch64():
    a64 = gcc("aarch64")
    compile_c("aarch64-pg", a64, "-fno-pie -pg", "_mcount")
    compile_c("aarch64-pg-pic", a64, "-fPIC -pg", "_mcount")
    compile_c("aarch64-pg-O0", a64, "-fno-pie -pg -O0", "_mcount")
    compile_c("aarch64-pg-bti", a64, "-fno-pie -pg -mbranch-protection=bti", "_mcount")
    compile_c("aarch64-ilp32", a64, "-fno-pie -mabi=ilp32 -pg", "_mcount", "ELFCLASS32: R_AARCH64_P32_CALL26")
    compile_c("aarch64_be-pg", a64, "-fno-pie -mbig-endian -pg", "_mcount", "data big endian, instructions little endian")
    compile_c("aarch64_be-ilp32", a64, "-fno-pie -mbig-endian -mabi=ilp32 -pg", "_mcount")
    for area in ("2", "4,2"):
        for bti in ("", "-bti"):
            compile_c(f"aarch64-patchable-{area.replace(',', '-')}{bti}", a64,
              f"-fno-pie -fpatchable-function-entry={area} -DPATCHABLE"
              + (" -mbranch-protection=bti" if bti else ""), "_mcount")
    compile_c("aarch64_be-patchable-2", a64, "-fno-pie -mbig-endian -fpatchable-function-entry=2 -DPATCHABLE", "_mcount")
    compile_c("aarch64-clang", "clang --target=aarch64-linux-gnu", "-fno-pie -pg", "_mcount",
      objdump="aarch64-linux-gnu-objdump")


def riscv():
    rv = gcc("riscv64")
    compile_c("riscv64-pg", rv, "-fno-pie -pg", "_mcount", "linker relaxation is on, as by default")
    compile_c("riscv64-pg-O0", rv, "-fno-pie -pg -O0", "_mcount")
    compile_c("riscv64-pg-norelax", rv, "-fno-pie -pg -mno-relax", "_mcount")
    compile_c("riscv64-pg-pic", rv, "-fPIC -pg", "_mcount")
    compile_c("riscv64-patchable-8", rv, "-fno-pie -fpatchable-function-entry=8 -DPATCHABLE", "_mcount",
      "eight NOPs of 2 bytes")
    compile_c("riscv64-patchable-8-4", rv, "-fno-pie -fpatchable-function-entry=8,4 -DPATCHABLE", "_mcount")
    compile_c("riscv64-patchable-4-noc", rv, "-fno-pie -march=rv64g -fpatchable-function-entry=4 -DPATCHABLE", "_mcount",
      "four NOPs of 4 bytes")
    compile_c("riscv32-pg", rv, "-fno-pie -march=rv32imac -mabi=ilp32 -pg", "_mcount")
    compile_c("riscv32-patchable-4", rv, "-fno-pie -march=rv32imac -mabi=ilp32 -fpatchable-function-entry=4 -DPATCHABLE",
      "_mcount")
    compile_c("riscv64-clang", "clang --target=riscv64-linux-gnu", "-fno-pie -march=rv64gc -mabi=lp64d -pg", "_mcount",
      objdump="riscv64-linux-gnu-objdump")
    compile_c("riscv64-clang-19", "clang-19 --target=riscv64-linux-gnu", "-fno-pie -march=rv64gc -mabi=lp64d -pg", "_mcount",
      objdump="riscv64-linux-gnu-objdump")


def powerpc():
    compile_c("powerpc-pg", gcc("powerpc"), "-fno-pie -fno-pic -pg", "_mcount")
    compile_c("powerpc-pg-pic", gcc("powerpc"), "-fPIC -pg", "_mcount")
    compile_c("powerpc-secure-plt", gcc("powerpc"), "-fpic -msecure-plt -pg", "_mcount")
    compile_c("powerpc-patchable-2", gcc("powerpc"), "-fno-pie -fno-pic -fpatchable-function-entry=2 -DPATCHABLE", "_mcount")
    compile_c("powerpc-clang", "clang --target=powerpc-linux-gnu", "-fno-pie -pg", "_mcount",
      objdump="powerpc-linux-gnu-objdump")
    compile_c("powerpcle-pg", gcc("powerpc"), "-fno-pie -fno-pic -mlittle-endian -pg", "_mcount")
    compile_c("powerpc64-pg", gcc("powerpc64"), "-fno-pie -pg", "_mcount", "ELFv1: function descriptors")
    compile_c("powerpc64-patchable-2", gcc("powerpc64"), "-fno-pie -fpatchable-function-entry=2 -DPATCHABLE", "_mcount")
    compile_c("powerpc64-profile-kernel", gcc("powerpc64"), "-fno-pie -pg -mprofile-kernel", "_mcount")
    compile_c("powerpc64-elfv2", gcc("powerpc64"), "-fno-pie -mabi=elfv2 -pg", "_mcount", "big-endian ELFv2")
    compile_c("powerpc64le-pg", gcc("powerpc64le"), "-fno-pie -pg", "_mcount")
    compile_c("powerpc64le-pg-O0", gcc("powerpc64le"), "-fno-pie -pg -O0", "_mcount")
    compile_c("powerpc64le-profile-kernel", gcc("powerpc64le"), "-fno-pie -pg -mprofile-kernel", "_mcount")
    compile_c("powerpc64le-pcrel", gcc("powerpc64le"), "-mcpu=power10 -pg", "_mcount", "R_PPC64_REL24_NOTOC")
    compile_c("powerpc64le-patchable-2", gcc("powerpc64le"), "-fno-pie -fpatchable-function-entry=2 -DPATCHABLE", "_mcount")
    compile_c("powerpc64le-clang", "clang --target=powerpc64le-linux-gnu", "-fno-pie -pg", "_mcount",
      objdump="powerpc64le-linux-gnu-objdump")
    compile_c("powerpc64le-gcc-14-patchable-4-2", "powerpc64le-linux-gnu-gcc-14",
      "-fno-pie -fpatchable-function-entry=4,2 -DPATCHABLE", "_mcount", "all NOPs are behind the global entry",
      objdump="powerpc64le-linux-gnu-objdump")
    compile_c("powerpc64-clang-patchable-2", "clang-19 --target=powerpc64-linux-gnu",
      "-fno-pie -mabi=elfv2 -fpatchable-function-entry=2 -DPATCHABLE", "_mcount",
      "the list has the global entry, the NOPs are at the local one", objdump="powerpc64-linux-gnu-objdump")
    # clang 22 is the first to have patchable entries for it. It knows no other Debian than the next.
    for name, flags in (("1", "=1"), ("4-2", "=4,2"), ("16-16", "=16,16"), ("2-large", "=2 -mcmodel=large")):
        compile_c(f"powerpc64le-clang-patchable-{name}", "clang-22 --target=powerpc64le-linux-gnu",
          f"-fno-pie -fpatchable-function-entry{flags} -DPATCHABLE", "_mcount", "as above",
          objdump="powerpc64le-linux-gnu-objdump")


def s390():
    s390 = gcc("s390x")
    # gcc 12 emits .cfi_rel_offset around the call of -pg whether there is a .cfi_startproc or not.
    cfi = "-fasynchronous-unwind-tables "
    compile_c("s390x-pg", s390, cfi + "-fno-pie -pg", "_mcount")
    compile_c("s390x-pg-O0", s390, cfi + "-fno-pie -pg -O0", "_mcount")
    compile_c("s390x-pg-pic", s390, cfi + "-fPIC -pg", "_mcount")
    compile_c("s390x-fentry", s390, "-fno-pie -pg -mfentry", "__fentry__")
    compile_c("s390x-fentry-table", s390, "-fno-pie -pg -mfentry -mrecord-mcount", "__fentry__", "the compiler's own table")
    compile_c("s390x-nop-table", s390, "-fno-pie -pg -mfentry -mnop-mcount -mrecord-mcount", "__fentry__",
      "the compiler's own table of its own NOPs")
    compile_c("s390-pg", s390, cfi + "-fno-pie -m31 -pg", "_mcount", "ELFCLASS32, 31-bit addresses")
    compile_c("s390x-clang", "clang --target=s390x-linux-gnu", "-fno-pie -pg", "mcount",
      "no `stg` before the call: the recorded address is that of the `brasl`", objdump="s390x-linux-gnu-objdump")
    compile_c("s390x-clang-fentry", "clang --target=s390x-linux-gnu", "-fno-pie -pg -mfentry", "__fentry__",
      objdump="s390x-linux-gnu-objdump")
    assemble("s390x-larl", "s390x-linux-gnu", "", "src/s390x-larl.s", "the call of older compilers", packaged=True)
    assemble("s390x-alternatives-nop-table", "s390x-linux-gnu", "", "src/s390x-alternatives.s",
             "the NOP in `.altinstr_replacement` is no hook", packaged=True)


def mips():
    for be, cc in (("mips", gcc("mips")), ("mipsel", gcc("mipsel"))):
        compile_c(f"{be}-pg", cc, "-fno-pie -fno-pic -mno-abicalls -pg", "_mcount")
        compile_c(f"{be}-long-calls", cc, "-fno-pie -fno-pic -mno-abicalls -mlong-calls -pg", "_mcount")
        compile_c(f"{be}-pg-pic", cc, "-fPIC -pg", "_mcount")
        compile_c(f"{be}-micromips", cc, "-fno-pie -fno-pic -mno-abicalls -mmicromips -pg", "_mcount")
        compile_c(f"{be}-plt", cc, "-fno-pie -fno-pic -mabicalls -mplt -pg", "_mcount", "abicalls, not PIC")
    compile_c("mips-micromips-long-calls", gcc("mips"), "-fno-pie -fno-pic -mno-abicalls -mmicromips -mlong-calls -pg", "_mcount")
    compile_c("mips-micromips-pic", gcc("mips"), "-fPIC -mmicromips -pg", "_mcount")
    compile_c("mips-clang", "clang --target=mips-linux-gnu", "-fno-pie -fno-pic -mno-abicalls -pg", "_mcount",
      objdump="mips-linux-gnu-objdump")
    compile_c("mips64el-clang-pic", "clang --target=mips64el-linux-gnuabi64", "-fPIC -pg", "_mcount",
      "an instruction of the function in the delay slot", objdump="mips64el-linux-gnuabi64-objdump")
    compile_c("mips-pg-O0", gcc("mips"), "-fno-pie -fno-pic -mno-abicalls -pg -O0", "_mcount")
    compile_c("mips-long-calls-O0", gcc("mips"), "-fno-pie -fno-pic -mno-abicalls -mlong-calls -pg -O0", "_mcount")
    compile_c("arm-patchable-2", "arm-linux-gnueabihf-gcc", "-fno-pie -marm -fpatchable-function-entry=2 -DPATCHABLE",
              "__gnu_mcount_nc")
    compile_c("mips-patchable-2", gcc("mips"), "-fno-pie -fno-pic -mno-abicalls -fpatchable-function-entry=2 -DPATCHABLE",
      "_mcount", "gcc 12 puts the area before the function's symbol")
    for be in ("mips64", "mips64el"):
        cc = f"{be}-linux-gnuabi64-gcc"
        compile_c(f"{be}-n64", cc, "-fno-pie -fno-pic -mno-abicalls -pg", "_mcount")
        compile_c(f"{be}-n64-long-calls", cc, "-fno-pie -fno-pic -mno-abicalls -mlong-calls -pg", "_mcount")
        compile_c(f"{be}-n64-long-calls-sym32", cc, "-fno-pie -fno-pic -mno-abicalls -mlong-calls -msym32 -pg", "_mcount")
        compile_c(f"{be}-n64-pic", cc, "-fPIC -pg", "_mcount")
        compile_c(f"{be}-n32", cc, "-fno-pie -fno-pic -mabi=n32 -mno-abicalls -pg", "_mcount")
        compile_c(f"{be}-n32-long-calls", cc, "-fno-pie -fno-pic -mabi=n32 -mno-abicalls -mlong-calls -pg", "_mcount")
        compile_c(f"{be}-n32-pic", cc, "-fPIC -mabi=n32 -pg", "_mcount")


def sparc():
    compile_c("sparc64-pg", gcc("sparc64"), "-fno-pie -pg", "_mcount")
    compile_c("sparc64-pg-pic", gcc("sparc64"), "-fPIC -pg", "_mcount")
    compile_c("sparc64-clang", "clang --target=sparc64-linux-gnu", "-fno-pie -pg", "mcount",
      objdump="sparc64-linux-gnu-objdump")
    compile_c("sparc64-pg-O0", gcc("sparc64"), "-fno-pie -pg -O0", "_mcount")
    compile_c("sparc32-pg", gcc("sparc64"), "-fno-pie -m32 -pg", "_mcount")
    compile_c("sparc32-pg-pic", gcc("sparc64"), "-fPIC -m32 -pg", "_mcount")


def sh():
    compile_c("sh4-pg", gcc("sh4"), "-fno-pie -pg", "mcount")
    compile_c("sh4-pg-O0", gcc("sh4"), "-fno-pie -pg -O0", "mcount")
    compile_c("sh4-pg-pic", gcc("sh4"), "-fPIC -pg", "mcount")
    compile_c("sh4-relax", gcc("sh4"), "-fno-pie -mrelax -pg", "mcount")
    compile_c("sh4eb-pg", gcc("sh4"), "-fno-pie -mb -pg", "mcount")


def parisc():
    compile_c("hppa-pg", gcc("hppa"), "-fno-pie -pg", "_mcount")
    compile_c("hppa-pg-pic", gcc("hppa"), "-fPIC -pg", "_mcount")
    compile_c("hppa-patchable-6-5", gcc("hppa"), "-fno-pie -fpatchable-function-entry=6,5 -DPATCHABLE", "_mcount")
    compile_c("hppa-patchable-2", gcc("hppa"), "-fno-pie -fpatchable-function-entry=2 -DPATCHABLE", "_mcount")
    compile_c("hppa64-pg", gcc("hppa64"), "-pg", "_mcount")
    compile_c("hppa64-patchable-6-5", gcc("hppa64"), "-fpatchable-function-entry=6,5 -DPATCHABLE", "_mcount")


def loongarch():
    la = "clang-19 --target=loongarch64-linux-gnu"
    compile_c("loongarch64-clang", la, "-fno-pie -pg", "_mcount", objdump="llvm-objdump-19")
    compile_c("loongarch64-clang-relax", la, "-fno-pie -mrelax -pg", "_mcount", objdump="llvm-objdump-19")
    compile_c("loongarch64-clang-medium", la, "-fno-pie -mcmodel=medium -pg", "_mcount", objdump="llvm-objdump-19")
    compile_c("loongarch64-clang-patchable-2", la, "-fno-pie -fpatchable-function-entry=2 -DPATCHABLE", "_mcount",
      objdump="llvm-objdump-19")
    compile_c("loongarch32-clang", "clang-19 --target=loongarch32-linux-gnu", "-fno-pie -pg", "_mcount",
      objdump="llvm-objdump-19")


def by_assemblers():
    assemble("nds32le", "nds32le-linux-gnu", "", "src/nds32.s", "behind code that relaxes")
    assemble("nds32be", "nds32le-linux-gnu", "-EB", "src/nds32.s", "behind code that relaxes")
    for name, flags in (("csky", "-mcpu=ck860"), ("csky-ck810", "-mcpu=ck810"), ("cskybe", "-mcpu=ck860 -EB")):
        assemble(name, "csky-linux-gnu", flags, "src/csky.s", "jsri and its literal")
    assemble("csky-bsr", "csky-linux-gnu", "-mcpu=ck860", "src/csky-bsr.s", "bsr")
    assemble("microblaze", "microblaze-linux-gnu", "", "src/microblaze.s", "brki and brlid")
    assemble("microblazeel", "microblaze-linux-gnu", "-EL", "src/microblaze.s", "brki and brlid")
    assemble("loongarch64-gas", "loongarch64-linux-gnu", "", "src/loongarch.s", "bl %plt(_mcount)")
    assemble("loongarch64-old", "loongarch64-linux-gnu", "", "src/loongarch-old.s", "relocations of the first ABI version")
    for name, features in (("no-relax", ""), ("relax", "+relax,")):
        command = (f"llvm-mc-19 --triple=loongarch64-linux-gnu --mattr={features}+d -filetype=obj"
                   f" -o loongarch64-call36-{name}.o src/loongarch-call36.s")
        VARIANTS.append(Variant(f"loongarch64-call36-{name}", command, "llvm-objdump-19", "call36"))


def own_lists():
    """The newest clang lets people name the section of the list (llvm-project 131230)."""
    note = "the list has another name"
    for name, target, areas, objdump in (
        ("x86_64", "x86_64-linux-gnu", "2,1", "objdump"),
        ("aarch64", "aarch64-linux-gnu", "2,0", "aarch64-linux-gnu-objdump"),
        ("riscv64", "riscv64-linux-gnu", "8,4", "riscv64-linux-gnu-objdump"),
        ("powerpc64", "powerpc64-linux-gnu", "2,1", "powerpc64-linux-gnu-objdump"),
    ):
        compile_c(f"{name}-clang-23-own-list", f"clang-23 --target={target}",
                  f"-fno-pie -fpatchable-function-entry={areas},own_list -DPATCHABLE", "__fentry__", note, objdump=objdump)


for processor in (x86, i386, arm, aarch64, riscv, powerpc, s390, mips, sparc, sh, parisc, loongarch, by_assemblers, own_lists):
    processor()
