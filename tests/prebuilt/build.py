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

sys.dont_write_bytecode = True
from variants import VARIANTS

HERE = os.path.dirname(os.path.abspath(__file__))
CROSS = os.environ.get("MCOUNT_CROSS", "/opt/mcount-cross")

Insn = collections.namedtuple("Insn", "offset size raw text")
Reloc = collections.namedtuple("Reloc", "offset type symbol")
MARKER = "<!-- build.py --readme writes what follows -->"
PART = -1  # a relocation of a sequence that has been counted already
HOOKS = {"mcount", "_mcount", "__fentry__", "__gnu_mcount_nc", "my_fentry", "._mcount"}
TABLES = {"__mcount_loc", "my_table"}
LISTS = {"__patchable_function_entries", "own_list"}


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


def global_entry(processor, listing, offset):
    """The size of the two instructions that find the TOC of ELFv2 at an offset; 0 if they aren't there."""
    texts = [listing[at].text if at in listing else "" for at in (offset, offset + 4)]
    loads = re.match(r"(addis|lis|ld)\s+r2,", texts[0]) and re.match(r"add(i?)\s+r2,r2,", texts[1])
    return 8 if processor.startswith("powerpc64") and loads else 0


def landing_pad(listing, offset):
    """The size of the landing pad at an offset; 0 if there is none."""
    insn = listing.get(offset)
    return insn.size if insn and re.match(r"endbr(32|64)|bti\b|hint\s+#0x22", insn.text) else 0


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
    for section, offset in table_targets(name, LISTS):
        listing = {i.offset: i for s, insns, _ in sections if s == section for i in insns}
        # clang lists the global entry on PowerPC, and has the NOPs at the local one.
        offset += global_entry(processor, listing, offset)
        here = offset
        # An area that stands wholly or partly before its function belongs to the function after it.
        while not functions.begins(section, here) and here in listing and "nop" in listing[here].text:
            here += listing[here].size
        # No call comes by an area that ends where its function begins. GCC 12 puts all areas for MIPS before functions.
        is_before = here != offset and functions.begins(section, here)
        behind = here + (landing_pad(listing, here) or global_entry(processor, listing, here))
        if is_before and "nop" not in listing[behind].text and not processor.startswith("mips"):
            continue
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
    version = re.search(r"-(\d+)$", tool)
    if tool.startswith("clang"):
        return f"clang {version[1]}" if version else "clang 14"
    return f"gcc {version[1]}" if version else "g++ 12" if "g++" in tool else "gcc 12"


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
