//! An image in the shape of ppc64 kernels whose traced functions have one NOP each: what a tracer puts there jumps to a
//! stub, and the room for all stubs is made between two links. Its size is the length of the compiler's list in the object
//! that the first link made.
//!
//! The room must change nothing of the table.

use super::reached::Listing;
use super::{Case, LIST, same};
use mcount::{CheckOptions, LateOptions, Level, Options};
use std::fmt::Write as _;
use std::process::Command;
use testkit::process::run;
use testkit::reader;
use testkit::room::Room;
use testkit::tools::need;
use testkit::trial::ignore;

const FUNCTIONS: usize = 20;
/// Bytes of a stub.
const STUB: usize = 32;

/// The list is the table, and the room for stubs is behind the code.
const SCRIPT: &str = "
SECTIONS {
	. = 0x10000;
	.text : { *(.text .text.*) }
	.stubs : { *(.room_for_stubs.text) }
	.init.text : { *(.init.text) }
	.init.stubs : { *(.room_for_stubs.init) }
	.rodata : {
		. = ALIGN(8);
		__start_mcount_loc = .;
		KEEP(*(__patchable_function_entries))
		__stop_mcount_loc = .;
	}
	.data : { *(.toc .got) *(.data) *(.bss) *(COMMON) }
}
";

pub(super) fn is_for(case: &Case) -> bool {
    case.compiler.starts_with("powerpc64le-") || case.flags.iter().any(|f| f == "-mabi=elfv2")
}

pub(super) fn perform(case: &Case) -> Result<(), String> {
    need([case.compiler.as_str(), &case.linker, &case.objdump]);
    let room = Room::new()?;
    let compile = |name: &str, text: &str| {
        let source = room.put(name, text.as_bytes())?;
        let mut command = Command::new(&case.compiler);
        command.args(&case.flags).args(["-O1", "-w", "-ffreestanding", "-fno-pic", "-c"]);
        command.arg("-fpatchable-function-entry=1").arg(source);
        run(command.arg("-o").arg(room.path(&format!("{name}.o")))).map(drop)
    };
    // gcc 12 has its NOP before the global entry, and no local entry can be 12 bytes behind that.
    if compile("one.c", &source("one", "")).is_err() {
        ignore("this compiler has no such patchable entries for it");
    }
    compile("two.c", &source("two", "__attribute__((section(\".init.text\"))) "))?;
    link(case, &room, &["-r"], &["one.c.o", "two.c.o"], "first.o")?;
    let listed = reader::table(&room.get("first.o")?, LIST)?;
    if listed.is_empty() && case.is_optional {
        ignore("this compiler has no patchable entries for it");
    }
    same("entries of the first link", &[listed.len()], &[2 * FUNCTIONS])?;
    let of_init = listed.iter().filter(|place| place.section == ".init.text").count();
    compile("stubs.s", &stubs(listed.len() - of_init, of_init))?;
    room.put("script", SCRIPT.as_bytes())?;
    let script = room.path("script");
    let script = script.to_string_lossy();
    link(case, &room, &["-T", &script, "-e", "0"], &["first.o", "stubs.s.o"], "image")?;
    judge(case, &room)
}

fn source(name: &str, attribute: &str) -> String {
    let mut source = format!("int data_of_{name};\n");
    for number in 0..FUNCTIONS {
        // Every other one needs its TOC, so that it has a global entry.
        let value = if number % 2 == 0 { format!("data_of_{name}") } else { "3".to_owned() };
        let _ =
            writeln!(source, "{attribute}int f_{name}_{number}(int x) {{ return x * {value}; }}");
    }
    source
}

/// Room for the stubs, each part with their number before it.
fn stubs(of_text: usize, of_init: usize) -> String {
    let mut text = String::new();
    for (part, count) in [("text", of_text), ("init", of_init)] {
        let _ = writeln!(text, ".section .room_for_stubs.{part}, \"aw\"\n.quad {count}");
        let _ = writeln!(text, ".globl stubs_of_{part}\nstubs_of_{part}: .space {}", count * STUB);
    }
    text
}

fn link(case: &Case, room: &Room, how: &[&str], from: &[&str], to: &str) -> Result<(), String> {
    let linker = match case.linker.strip_suffix("gcc") {
        Some(prefix) => format!("{prefix}ld"),
        None => case.linker.clone(),
    };
    let mut command = Command::new(linker);
    command.args(how).args(from.iter().map(|name| room.path(name)));
    run(command.arg("-o").arg(room.path(to))).map(drop)
}

/// The table of the image has each function's NOP, as the disassembly shows it, and `check` accepts the list as a table.
fn judge(case: &Case, room: &Room) -> Result<(), String> {
    let image = room.get("image")?;
    let mut disassemble = Command::new(&case.objdump);
    disassemble.args(["-d", "-z", "--no-show-raw-insn"]).arg(room.path("image"));
    let printed = disassemble.output().map_err(|error| format!("{}: {error}", case.objdump))?;
    let listing = Listing::of(&String::from_utf8_lossy(&printed.stdout));
    let reached = listing.functions.values().map(|start| listing.reached(*start));
    let mut expected: Vec<u64> =
        reached.filter(|(_, size)| *size != 0).map(|(first, _)| first).collect();
    expected.sort_unstable();
    same("functions with a NOP", &[expected.len()], &[2 * FUNCTIONS])?;
    let options = Options::default();
    let table = mcount::late_table(&image, &options, &LateOptions::default());
    let table = table.map_err(|error| error.to_string())?;
    same("the table of the image", &table.addresses().collect::<Vec<_>>(), &expected)?;
    same(
        "recorded sites",
        &[table.sites.iter().filter(|site| site.recorded).count()],
        &[expected.len()],
    )?;
    let entries = mcount::read_table(&image, &options).map_err(|error| error.to_string())?;
    same("entries", &[entries.sites.len()], &[expected.len()])?;
    let findings = mcount::check(&image, &options, &CheckOptions::default());
    let findings = findings.map_err(|error| error.to_string())?;
    let denied = findings.iter().filter(|finding| finding.rule.default_level() == Level::Deny);
    let denied: Vec<_> = denied.map(|finding| format!("{finding:?}")).collect();
    same("check of the image", &denied, &[])
}
