//! `mcount link` with linker scripts: tables among other data, lists that are kept for tools, and room that is made between two links.

use crate::command::{Test, addresses, is_clean, must, room, same, test};
use crate::programs::{sources, table};
use std::collections::BTreeSet;

pub(crate) const TESTS: &[Test] = &[
    Test {
        programs: &["gcc", "clang", "ld.bfd", "ld.lld"],
        ..test("a_script_keeps_the_compilers_list_for_tools_alone", a_script_keeps_the_list)
    },
    test("a_script_places_the_table_among_data", a_script_places_the_table_among_data),
    test("padding_is_no_area_of_an_overridden_function", overridden_functions),
    test("padding_of_an_overridden_function", overridden_with_padding),
    Test {
        programs: &["powerpc64le-linux-gnu-gcc", "powerpc64le-linux-gnu-ld"],
        ..test("room_for_stubs_between_two_links", room_for_stubs)
    },
];

/// As a kernel's: no ELF headers in memory, and a table that is a part of another section.
const KERNEL_SCRIPT: &str = "\
PHDRS { text PT_LOAD FLAGS(5); data PT_LOAD FLAGS(6); }
SECTIONS {
  . = 0x1000000;
  .text : { _stext = .; *(.text*) } :text
  . = ALIGN(0x1000);
  .init.data : {
    *(.data*)
    __start_mcount_loc = .;
    KEEP(*(__mcount_loc))
    __stop_mcount_loc = .;
    *(.rodata*)
  } :data
  /DISCARD/ : { *(.eh_frame) *(.note*) *(.comment) }
}
";

fn a_script_places_the_table_among_data() -> Result<(), String> {
    let room = room()?;
    room.put("kernel.lds", KERNEL_SCRIPT.as_bytes())?;
    room.put("data.c", b"long before[5] = {1}; const long after[3] = {2};")?;
    must(&room, "gcc -c data.c")?;
    for relocations in ["--emit-relocs", "--no-dynamic-linker"] {
        let link = format!("ld -T kernel.lds {relocations} -e _stext -o image");
        let words = format!("mcount link --read-only -- {link} one.o two.o hook.o data.o");
        must(&room, &words)?;
        let found = table(&room.path("image"))?;
        same(&found.len(), &2, relocations)?;
        same(&found.iter().all(|(_, recorded)| *recorded), &true, relocations)?;
    }
    is_clean(&room)
}

/// Another function has NOPs as far behind its start as the area of an overridden one is behind the function before.
fn overridden_functions() -> Result<(), String> {
    let room = room()?;
    room.put("overridden.s", &testkit::files::read(&sources("late").join("overridden.s"))?)?;
    must(&room, "gcc -c overridden.s")?;
    must(&room, "gcc -O1 -fno-PIE -fpatchable-function-entry=5 -c one.c two.c")?;
    must(&room, "mcount link -- ld -e f -o image one.o two.o overridden.o")?;
    let found = addresses(&room, "image")?;
    let names = must(&room, "nm image")?.stdout;
    let expected = [(" T f", 0), (" T g", 0), (" t before", 64)].map(|(name, distance)| {
        let line = names.lines().find(|line| line.ends_with(name)).unwrap_or_default();
        let start = line.split(' ').next().and_then(|word| u64::from_str_radix(word, 16).ok());
        start.unwrap_or_default() + distance
    });
    same(&found, &BTreeSet::from(expected), "addresses")
}

/// A list of patchable entries that takes no memory still says where the sites are, wherever relaxation or garbage
/// collection has put them.
fn a_script_keeps_the_list() -> Result<(), String> {
    let room = room()?;
    let kept = "/DISCARD/ : {";
    let list = format!(
        "__patchable_function_entries 0 (INFO) : {{ KEEP(*(__patchable_function_entries)) }}\n  {kept}"
    );
    room.put("kernel.lds", KERNEL_SCRIPT.replace(kept, &list).as_bytes())?;
    for compiler in ["gcc", "clang"] {
        must(
            &room,
            &format!("{compiler} -O1 -fno-PIE -fpatchable-function-entry=5 -c one.c two.c"),
        )?;
        for linker in ["ld.bfd", "ld.lld"] {
            let words =
                format!("mcount link --read-only -- {linker} -T kernel.lds -e _stext -o image");
            must(&room, &format!("{words} one.o two.o"))?;
            let case = format!("{compiler}, {linker}");
            let listed = must(&room, "nm image")?.stdout;
            let functions: BTreeSet<u64> = listed
                .lines()
                .filter(|line| line.ends_with(" T f") || line.ends_with(" T g"))
                .filter_map(|line| u64::from_str_radix(line.split(' ').next()?, 16).ok())
                .collect();
            same(&functions.len(), &2, &case)?;
            same(&addresses(&room, "image")?, &functions, &case)?;
            let text = must(&room, "readelf -SW image")?.stdout;
            let header = text.lines().find(|line| line.contains("__patchable")).unwrap_or_default();
            same(&header.contains("A "), &false, &case)?;
            let found = table(&room.path("image"))?;
            same(&found.iter().all(|(_, recorded)| *recorded), &true, &case)?;
        }
    }
    is_clean(&room)
}

/// As kernels for ppc64 are linked: the list of a first link says how much room the stubs need, and is the table itself.
const STUBS_SCRIPT: &str = "\
SECTIONS {
  . = 0x10000;
  .text : { *(.text*) }
  .stubs : { *(.room_for_stubs) }
  .rodata : {
    . = ALIGN(8);
    __start_mcount_loc = .;
    KEEP(*(__mcount_loc __patchable_function_entries))
    __stop_mcount_loc = .;
  }
  .data : { *(.toc .got .data*) }
}
";

fn room_for_stubs() -> Result<(), String> {
    let room = room()?;
    room.put("kernel.lds", STUBS_SCRIPT.as_bytes())?;
    room.put("stubs.s", b".section .room_for_stubs, \"aw\"\n.quad 2\n.space 64\n")?;
    room.put("hook.s", b".globl _mcount\n_mcount: blr\n")?;
    let gcc = "powerpc64le-linux-gnu-gcc -O1 -ffreestanding -fno-pic -c";
    for flags in ["-mcpu=power10 -fpatchable-function-entry=1", "-pg -mprofile-kernel"] {
        must(&room, &format!("{gcc} {flags} one.c two.c"))?;
        must(&room, &format!("{gcc} stubs.s hook.s"))?;
        must(&room, "powerpc64le-linux-gnu-ld -r -o first.o one.o two.o hook.o")?;
        let link = "powerpc64le-linux-gnu-ld -T kernel.lds -e f -o image first.o stubs.o";
        must(&room, &format!("mcount link -- {link}"))?;
        must(&room, "mcount check image")?;
        // Two functions, each of them once.
        let listed = must(&room, "mcount list image")?.stdout;
        let rows = listed.lines().filter(|line| line.ends_with("recorded")).count();
        same(&(rows, addresses(&room, "image")?.len()), &(2, 2), flags)?;
    }
    is_clean(&room)
}

/// A kernel module of several objects is linked like this. The symbol of the overridden function is gone, its code and padding aren't.
fn overridden_with_padding() -> Result<(), String> {
    let room = room()?;
    let weak = "__attribute__((weak)) int f(int a) { return a; } int h(void) { return 2; }\n\
        __attribute__((weak, no_instrument_function)) int g(int a) { return a; }";
    room.put("weak.c", weak.as_bytes())?;
    for protection in ["none", "branch"] {
        let flags =
            format!("-mfentry -fpatchable-function-entry=16,16 -fcf-protection={protection}");
        must(&room, &format!("gcc -O1 -pg {flags} -c weak.c one.c two.c"))?;
        must(&room, "ld -r -o module.o one.o two.o weak.o")?;
        let symbols = must(&room, "nm module.o")?.stdout;
        same(&symbols.matches(" f\n").count(), &1, "the weak function is overridden")?;
        let listed = must(&room, "mcount scan module.o")?.stdout;
        let count = |kind: &str| listed.lines().filter(|line| line.contains(kind)).count();
        same(&(count("patchable"), count("__fentry__")), &(0, 4), &listed)?;
    }
    Ok(())
}
