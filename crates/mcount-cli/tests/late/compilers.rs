//! Compilers that link: `mcount link` runs them once, and stands in for the linker that they choose,
//! however they choose it.

use crate::command::{Test, has_table, is_clean, line, must, room, same, script, test};
use testkit::room::Room;
use testkit::tools::find;

pub(crate) const TESTS: &[Test] = &[
    Test {
        programs: &["gcc", "clang", "ld.bfd", "ld.gold", "ld.lld", "ld.mold"],
        ..test("the_linker_is_the_one_that_was_chosen", the_linker_is_the_one_that_was_chosen)
    },
    test("sources_are_compiled_once", sources_are_compiled_once),
    test("a_linker_that_cannot_be_replaced_is_named", a_linker_that_cannot_be_replaced_is_named),
    test("a_failed_compilation_is_no_link", a_failed_compilation_is_no_link),
    Test { programs: &["ccache", "gcc"], ..test("launchers", launchers) },
];

/// A linker that says that it was there.
fn tool(room: &Room, name: &str, linker: &str) -> Result<(), String> {
    let path = find(linker).ok_or("not installed")?;
    script(room, name, &format!("#!/bin/sh\necho {name} >>log\nexec {} \"$@\"\n", path.display()))
}

/// How a compiler is told which linker to run, and what that linker writes into the log.
const CHOICES: &[(&str, &str)] = &[
    ("gcc -Btools", "tools/ld"),
    ("gcc -B tools", "tools/ld"),
    ("gcc -Btools/", "tools/ld"),
    ("gcc --prefix=tools/", "tools/ld"),
    ("gcc -Btools -fuse-ld=gold", "tools/ld.gold"),
    ("gcc -Btools -fuse-ld=lld", "tools/ld.lld"),
    ("clang -Btools", "tools/ld"),
    ("clang -Btools -fuse-ld=mold", "tools/ld.mold"),
    ("clang --ld-path=./tools/other", "tools/other"),
    ("clang --ld-path=tools/ld.lld", "tools/ld.lld"),
    ("clang -Btools --ld-path=tools/ld.gold", "tools/ld.gold"),
    ("env COMPILER_PATH=tools gcc", "tools/ld"),
    ("env COMPILER_PATH=tools clang", "tools/ld"),
];

fn the_linker_is_the_one_that_was_chosen() -> Result<(), String> {
    let room = room()?;
    std::fs::create_dir(room.path("tools")).map_err(|error| error.to_string())?;
    for (name, linker) in [
        ("tools/ld", "ld.bfd"),
        ("tools/other", "ld.bfd"),
        ("tools/ld.gold", "ld.gold"),
        ("tools/ld.lld", "ld.lld"),
        ("tools/ld.mold", "ld.mold"),
    ] {
        tool(&room, name, linker)?;
    }
    for (choice, expected) in CHOICES {
        for tail in ["one.o two.o hook.o main.o -o out", "-o out one.o two.o hook.o -- main.o"] {
            if tail.contains("--") && !choice.contains("clang") {
                continue;
            }
            let words = format!("{choice} {tail}");
            for prefix in ["", "mcount link -- "] {
                // What `env` sets is for mcount too.
                let words = match words.strip_prefix("env COMPILER_PATH=tools ") {
                    Some(words) => format!("env COMPILER_PATH=tools {}{words}", in_env(prefix)),
                    None => format!("{prefix}{words}"),
                };
                let _ = std::fs::remove_file(room.path("log"));
                must(&room, &words)?;
                let log = String::from_utf8_lossy(&room.get("log")?).into_owned();
                same(&log.lines().next(), &Some(*expected), &words)?;
            }
            has_table(&room, "out", 2).map_err(|error| format!("{words}: {error}"))?;
        }
    }
    is_clean(&room)
}

/// `mcount` by its path, since `env` looks it up.
fn in_env(prefix: &str) -> String {
    prefix.replace("mcount", env!("CARGO_BIN_EXE_mcount"))
}

/// However often they are linked.
fn sources_are_compiled_once() -> Result<(), String> {
    let room = room()?;
    std::fs::create_dir(room.path("tools")).map_err(|error| error.to_string())?;
    tool(&room, "tools/as", "as")?;
    let flags = "-O1 -pg -DDEAD -ffunction-sections -Wl,--gc-sections";
    let words = format!("mcount link -v -- gcc -Btools {flags} one.c two.o hook.o main.o -o out");
    let outcome = must(&room, &words)?;
    same(&outcome.stderr.contains("out: link 2: 2 sites"), &true, &outcome.stderr)?;
    same(&room.get("log")?, &b"tools/as\n".to_vec(), "assemblers")?;
    has_table(&room, "out", 2)
}

/// A compiler of that name that runs a linker without looking for it.
fn a_linker_that_cannot_be_replaced_is_named() -> Result<(), String> {
    let room = room()?;
    script(&room, "gcc", "#!/bin/sh\nexec ld -e f \"$@\"\n")?;
    let words = "mcount link -- ./gcc one.o two.o hook.o -o out";
    let outcome = line(&room, words)?;
    same(&outcome.code, &Some(2), "exit code")?;
    let expected = "mcount: out: ./gcc ran a linker that mcount cannot replace";
    same(&outcome.stderr.starts_with(expected), &true, &outcome.stderr)?;
    same(&room.path("out").exists(), &false, "an image without a table")?;
    // With `--linker`, it is one.
    must(&room, "mcount link --linker -- ./gcc one.o two.o hook.o -o out")?;
    same(&crate::programs::table(&room.path("out"))?.len(), &2, "sites")?;
    is_clean(&room)
}

fn a_failed_compilation_is_no_link() -> Result<(), String> {
    let room = room()?;
    room.put("bad.c", b"int;;; bad(\n")?;
    room.put("out", b"old")?;
    for words in ["gcc bad.c one.o -o out", "gcc absent.c -o out", "gcc -no-such-flag one.o -o out"]
    {
        let plain = line(&room, words)?;
        let through = line(&room, &format!("mcount link -- {words}"))?;
        same(&through, &plain, words)?;
        same(&room.get("out")?, &b"old".to_vec(), words)?;
    }
    is_clean(&room)
}

fn launchers() -> Result<(), String> {
    let room = room()?;
    must(&room, "mcount link -- ccache gcc one.o two.o hook.o main.o -o out")?;
    has_table(&room, "out", 2)
}
