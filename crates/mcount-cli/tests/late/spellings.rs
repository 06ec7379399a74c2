//! The ways to name the output of a link, and the language of its sources: `mcount link` knows them all.

use crate::command::{Test, has_table, is_clean, must, room, same, script, test};
use crate::programs::table;
use std::os::unix::fs::PermissionsExt;

pub(crate) const TESTS: &[Test] = &[
    Test {
        programs: &["gcc", "clang", "ld"],
        ..test("ways_to_name_the_output", ways_to_name_the_output)
    },
    Test {
        programs: &["gcc", "ld.bfd", "ld.gold", "ld.lld", "ld.mold"],
        ..test("ways_to_name_a_linkers_output", ways_to_name_a_linkers_output)
    },
    Test {
        programs: &["gcc", "clang", "ld"],
        ..test("ways_to_name_the_language", ways_to_name_the_language)
    },
];

/// Each with the words that name the output, and the name.
const OUTPUTS: &[(&str, &str)] = &[
    ("-o apart", "apart"),
    ("-oglued", "glued"),
    ("--output long", "long"),
    ("--output=equals", "equals"),
    ("-o no -o last", "last"),
    ("-Wl,-o,commas", "commas"),
    ("-Wl,-ocomma", "comma"),
    ("-Wl,-o -Wl,pieces", "pieces"),
    ("-Wl,--output=passed", "passed"),
    ("-Wl,--output,passed2", "passed2"),
    ("-Xlinker -o -Xlinker linker", "linker"),
    ("-Xlinker --output=linker2", "linker2"),
    ("--for-linker=-ofor", "for"),
    ("--for-linker --output=for2", "for2"),
    ("-Wl,-o,stronger -o weaker", "stronger"),
    ("", "a.out"),
];

/// Of linkers themselves: GNU ld takes the beginning of an option's name, gold takes one dash, which
/// the others read as `-o`.
const LINKER_OUTPUTS: &[(&str, &str, &str)] = &[
    ("bfd gold lld mold", "-o apart", "apart"),
    ("bfd gold lld mold", "-oglued", "glued"),
    ("bfd gold lld mold", "--output long", "long"),
    ("bfd gold lld mold", "--output=equals", "equals"),
    ("bfd", "--outp cut", "cut"),
    ("bfd", "--outpu=cut2", "cut2"),
    ("gold", "-output one", "one"),
    ("gold", "-output=two", "two"),
    ("lld mold", "-output=two", "utput=two"),
    ("bfd gold lld mold", "", "a.out"),
];

/// A compiler by a name that says nothing.
const WRAPPER: &str = "#!/bin/sh\nexec gcc \"$@\"\n";

fn ways_to_name_the_output() -> Result<(), String> {
    let room = room()?;
    room.put("words", b"-o 'in file' \"main.o\" one.o two\\.o")?;
    script(&room, "wrapper", WRAPPER)?;
    must(&room, "mcount link -- gcc @words hook.o")?;
    has_table(&room, "in file", 2)?;
    for compiler in ["gcc", "clang", "./wrapper"] {
        for (words, name) in OUTPUTS {
            let _ = std::fs::remove_file(room.path(name));
            let words = format!("mcount link -- {compiler} one.o two.o hook.o main.o {words}");
            must(&room, words.trim_end())?;
            has_table(&room, name, 2).map_err(|error| format!("{words}: {error}"))?;
            let metadata = std::fs::metadata(room.path(name)).map_err(|error| error.to_string())?;
            same(&(metadata.permissions().mode() & 0o111), &0o111, "may be executed")?;
        }
    }
    is_clean(&room)
}

fn ways_to_name_a_linkers_output() -> Result<(), String> {
    let room = room()?;
    for (linkers, words, name) in LINKER_OUTPUTS {
        for linker in linkers.split(' ') {
            let _ = std::fs::remove_file(room.path(name));
            let words = format!("mcount link -- ld.{linker} -e f one.o two.o hook.o {words}");
            must(&room, words.trim_end())?;
            let found = table(&room.path(name)).map_err(|error| format!("{words}: {error}"))?;
            same(&found.len(), &2, &words)?;
            same(&found.iter().all(|(_, recorded)| *recorded), &true, &words)?;
        }
    }
    is_clean(&room)
}

/// The language of the sources is not that of the object with the table.
fn ways_to_name_the_language() -> Result<(), String> {
    let room = room()?;
    script(&room, "wrapper", WRAPPER)?;
    room.put("one.txt", &room.get("one.c")?)?;
    for compiler in ["gcc", "clang", "./wrapper"] {
        for language in ["-xc", "-x c", "--language=c", "--language c"] {
            let words = format!("{compiler} two.o hook.o main.o -O1 -pg {language} one.txt -o out");
            must(&room, &format!("mcount link -- {words}"))?;
            has_table(&room, "out", 2).map_err(|error| format!("{words}: {error}"))?;
        }
    }
    is_clean(&room)
}
