# Lists the table of a vmlinux as mcount list does: each address with the function that it is in.
import bisect
import struct
import sys

from elftools.elf.elffile import ELFFile

with open(sys.argv[1], "rb") as file:
    elf = ELFFile(file)
    functions, bounds = [], {}
    for symbol in elf.get_section_by_name(".symtab").iter_symbols():
        if symbol["st_info"]["type"] == "STT_FUNC":
            functions.append((symbol["st_value"], symbol.name))
        elif symbol.name in ("__start_mcount_loc", "__stop_mcount_loc"):
            bounds[symbol.name] = symbol["st_value"]
    functions.sort()
    start, stop = bounds["__start_mcount_loc"], bounds["__stop_mcount_loc"]
    for section in elf.iter_sections():
        if section["sh_addr"] <= start < section["sh_addr"] + section["sh_size"]:
            file.seek(section["sh_offset"] + start - section["sh_addr"])
            for (address,) in struct.iter_unpack("<Q", file.read(stop - start)):
                at = bisect.bisect(functions, (address, "\x7f")) - 1
                value, name = functions[at]
                print(f"{address:#x} {name}+{address - value:#x}")
            break
