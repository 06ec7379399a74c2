#!/usr/bin/env python3
"""Prints the tables of ELF files, an entry a line, as JSON: what `mcount list` has to say too.

A second reader: pyelftools (pip install pyelftools) and nothing of this project. Run by
`cargo lab modules --list`, or by hand:

    python3 tables.py FILE...

Sources: the gABI on relocations and symbols, and the linker script of the kernel for __start_mcount_loc.
Values are read as the loader leaves them: a packed relative relocation (SHT_RELR) leaves what is there.
"""
import bisect
import json
import lzma
import io
import sys

from elftools.elf.elffile import ELFFile
from elftools.elf.relocation import RelocationSection
from elftools.elf.sections import SymbolTableSection

TABLES = ("__mcount_loc", "__patchable_function_entries")
# R_*_RELATIVE by e_machine: a word is the load address plus the addend.
RELATIVE = {
    "EM_X86_64": 8, "EM_386": 8, "EM_ARM": 23, "EM_AARCH64": 1027, "EM_S390": 12,
    "EM_PPC": 22, "EM_PPC64": 22, "EM_RISCV": 3, "EM_SPARCV9": 22, "EM_LOONGARCH": 3,
}


def load(path):
    with open(path, "rb") as file:
        data = file.read()
    if data[:6] == b"\xfd7zXZ\0":
        data = lzma.decompress(data)
    return io.BytesIO(data)


class Functions:
    """Names of the functions that cover an offset of a section (an address of an image)."""

    def __init__(self, elf):
        self.places = {}
        is_arm = elf["e_machine"] == "EM_ARM"
        for table in elf.iter_sections():
            if not isinstance(table, SymbolTableSection) or table["sh_type"] != "SHT_SYMTAB":
                continue
            for symbol in table.iter_symbols():
                if symbol["st_info"]["type"] not in ("STT_FUNC", "STT_LOOS"):
                    continue
                start = symbol["st_value"] & ~1 if is_arm else symbol["st_value"]
                key = symbol["st_shndx"]
                self.places.setdefault(key, []).append((start, symbol["st_size"], symbol.name))
        for places in self.places.values():
            places.sort()

    def at(self, section, offset):
        places = self.places.get(section, [])
        end = bisect.bisect_right(places, (offset, float("inf"), ""))
        # Aliases and functions in functions: all that begin a little before.
        near = places[max(0, end - 64):end]
        return sorted(name for start, size, name in near if offset < start + size or offset == start)


def words(data, size, little):
    order = "little" if little else "big"
    return [int.from_bytes(data[at:at + size], order) for at in range(0, len(data), size)]


def of_object(elf, functions):
    size = elf.elfclass // 8
    # The kernel reads one of them. On x86-64 it never reads the compiler's list, which is of padding.
    names = {section.name for section in elf.iter_sections() if section["sh_size"] != 0}
    read = TABLES[:1] if elf["e_machine"] == "EM_X86_64" else TABLES
    table = next((name for name in read if name in names), None)
    for index, section in enumerate(elf.iter_sections()):
        if section.name != table or section["sh_size"] == 0:
            continue
        data = words(section.data(), size, elf.little_endian)
        targets = {}
        for relocations in elf.iter_sections():
            if isinstance(relocations, RelocationSection) and relocations["sh_info"] == index:
                symbols = elf.get_section(relocations["sh_link"])
                for relocation in relocations.iter_relocations():
                    symbol = symbols.get_symbol(relocation["r_info_sym"])
                    targets[relocation["r_offset"]] = (relocation, symbol)
        for number, value in enumerate(data):
            found = targets.get(number * size)
            if found is None:
                yield {"section": None, "offset": None, "address": value, "functions": []}
                continue
            relocation, symbol = found
            addend = relocation["r_addend"] if relocation.is_RELA() else value
            offset = (symbol["st_value"] + addend) % (1 << elf.elfclass)
            place = symbol["st_shndx"]
            yield {
                "section": elf.get_section(place).name,
                "offset": offset,
                "address": None,
                "functions": functions.at(place, offset),
            }


def range_of(elf):
    bounds = {}
    for table in elf.iter_sections():
        if isinstance(table, SymbolTableSection):
            for symbol in table.iter_symbols():
                if symbol.name in ("__start_mcount_loc", "__stop_mcount_loc"):
                    if symbol["st_shndx"] != "SHN_UNDEF":
                        bounds[symbol.name] = symbol["st_value"]
    if len(bounds) == 2:
        return bounds["__start_mcount_loc"], bounds["__stop_mcount_loc"]
    section = elf.get_section_by_name("__mcount_loc")
    if section is None:
        return 0, 0
    return section["sh_addr"], section["sh_addr"] + section["sh_size"]


def of_image(elf, functions):
    size = elf.elfclass // 8
    start, stop = range_of(elf)
    if start == stop:
        return
    memory = None
    for section in elf.iter_sections():
        inside = section["sh_addr"] <= start < section["sh_addr"] + section["sh_size"]
        if inside and section["sh_flags"] & 2 and section["sh_type"] != "SHT_NOBITS":
            at = start - section["sh_addr"]
            memory = words(section.data()[at:at + stop - start], size, elf.little_endian)
    kind = RELATIVE.get(elf["e_machine"])
    for section in elf.iter_sections():
        # Of a linked image; --emit-relocs keeps others, which are applied already.
        if isinstance(section, RelocationSection) and section["sh_flags"] & 2:
            for relocation in section.iter_relocations():
                at = relocation["r_offset"] - start
                is_relative = relocation["r_info_type"] == kind and relocation.is_RELA()
                if 0 <= at < stop - start and is_relative:
                    memory[at // size] = relocation["r_addend"] % (1 << elf.elfclass)
    for address in memory:
        place = section_at(elf, address)
        yield {
            "section": None if place is None else elf.get_section(place).name,
            "offset": None,
            "address": address,
            "functions": [] if place is None else functions.at(place, address),
        }


def section_at(elf, address):
    for index, section in enumerate(elf.iter_sections()):
        inside = section["sh_addr"] <= address < section["sh_addr"] + section["sh_size"]
        if address != 0 and inside and section["sh_flags"] & 2 and not section["sh_flags"] & 0x400:
            return index
    return None


def main():
    for path in sys.argv[1:]:
        elf = ELFFile(load(path))
        functions = Functions(elf)
        of = of_object if elf["e_type"] == "ET_REL" else of_image
        for entry in of(elf, functions):
            print(json.dumps({"file": path, **entry}))


if __name__ == "__main__":
    main()
