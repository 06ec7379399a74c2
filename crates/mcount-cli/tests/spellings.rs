//! The tables of `arguments.rs` against the programs themselves: which options take the next word
//! for their value.
//!
//! The options are those that the programs list, and the judge is the program: it is given the
//! option, then the name of a file. A file that is used was no value.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, clippy::print_stdout, reason = "a test")]

use mcount_cli::arguments::{Dialect, Meaning, parse};
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::Path;
use testkit::room::Room;

/// Whether `option` takes the next word, in our tables.
fn takes_next(option: &str, dialect: Dialect) -> bool {
    let words = [option, "next"].map(OsString::from);
    parse(&words, dialect)[0].words.len() == 2
}

/// What `program` prints when it is asked for help.
fn help(room: &Room, program: &str, words: &[&str]) -> String {
    room.run(Path::new(program), words).unwrap().stdout
}

/// The names of the options in a help text: words with a dash, at the beginning of a line or behind
/// a comma there.
fn options(help: &str) -> BTreeSet<String> {
    let mut options = BTreeSet::new();
    for line in help.lines().filter(|line| line.trim_start().starts_with('-')) {
        for part in line.trim_start().split(", ").take_while(|part| part.starts_with('-')) {
            let end = part.find([' ', '=', '[', '<', ',']).unwrap_or(part.len());
            options.insert(part[..end].to_owned());
        }
    }
    options
}

/// Options that end the program, or make it something else than a linker.
const LINKER_ENDS: &[&str] = &["--help", "-v", "-V", "--version", "--run", "--print-output-format"];

/// Where a linker takes a file for a value, and where it links it; `None` if it does neither.
fn linker_takes_next(room: &Room, linker: &str, option: &str) -> Option<bool> {
    for name in ["extra.o", "extra2.o"] {
        room.put(name, &room.get("extra").unwrap()).unwrap();
    }
    let _ = std::fs::remove_file(room.path("made"));
    let words = ["-e", "start", "start.o", "-o", "made", option, "extra.o"];
    let outcome = room.run(Path::new(linker), &words).unwrap();
    let image = room.get("made").unwrap_or_default();
    let has_extra = image.windows(11).any(|name| name == b"extra_label");
    if image.is_empty() {
        println!("{linker} {option}: {}", outcome.stderr.lines().next().unwrap_or_default());
        return None;
    }
    Some(!has_extra)
}

#[test]
fn linkers_take_the_next_word_where_the_tables_say_so() {
    let room = Room::new().unwrap();
    room.put("start.s", b".globl start\nstart: nop\n").unwrap();
    room.put("extra.s", b".globl extra_label\nextra_label: nop\n").unwrap();
    for name in ["start", "extra"] {
        let (source, object) = (format!("{name}.s"), format!("{name}.o"));
        room.run(Path::new("as"), &[&source, "-o", &object]).unwrap();
    }
    room.put("extra", &room.get("extra.o").unwrap()).unwrap();
    for (linker, dialect) in [
        ("ld.bfd", Dialect::Linker),
        ("ld.gold", Dialect::Gold),
        ("ld.lld", Dialect::Linker),
        ("ld.mold", Dialect::Linker),
    ] {
        for option in options(&help(&room, linker, &["--help"])) {
            if LINKER_ENDS.contains(&option.as_str()) {
                continue;
            }
            let Some(found) = linker_takes_next(&room, linker, &option) else { continue };
            if found != takes_next(&option, dialect) {
                println!("WRONG {linker} {option} {found}");
            }
        }
    }
    let _ = Meaning::Compile;
}
