//! What `mcount link` does beside making tables: what it passes on, what it leaves behind, and that it
//! comes to the same whichever way it goes.

use std::collections::BTreeSet;
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};
use testkit::room::{Outcome, Room};

use crate::programs::{sources, table};

/// A test of the command.
#[derive(Clone, Copy)]
pub(crate) struct Test {
    pub(crate) name: &'static str,
    /// What must be installed.
    pub(crate) programs: &'static [&'static str],
    pub(crate) run: fn() -> Result<(), String>,
}

pub(crate) const fn test(name: &'static str, run: fn() -> Result<(), String>) -> Test {
    Test { name, programs: &["gcc", "ld"], run }
}

pub(crate) const TESTS: &[Test] = &[
    test("what_is_no_final_link_passes_through", what_is_no_final_link_passes_through),
    Test {
        programs: &["gcc", "ld.bfd", "ld.gold", "ld.lld", "ld.mold"],
        ..test("a_failed_link_leaves_what_the_linker_leaves", failed)
    },
    test("a_killed_link_leaves_the_old_output", killed),
    Test {
        programs: &["gcc", "clang", "ld"],
        ..test("an_interrupted_link_leaves_nothing_else", interrupted)
    },
    test("signals_that_are_ignored_stay_ignored", ignored),
    Test {
        programs: &["gcc", "ld.bfd", "ld.gold", "ld.lld", "ld.mold"],
        ..test("no_hooks_one_link", no_hooks_one_link)
    },
    test("a_response_file_longer_than_a_command_line", long_response_file),
    test("linking_again_is_linking_once", linking_again_is_linking_once),
    test("inputs_with_tables_are_refused", inputs_with_tables_are_refused),
    test("commands_that_replace_linkers_are_refused", commands_that_replace_linkers_are_refused),
    test("passes_are_limited_and_reported", passes_are_limited_and_reported),
    test("what_does_not_settle_is_named", what_does_not_settle_is_named),
    Test {
        programs: &["gcc", "clang", "ld.bfd", "ld.gold", "ld.lld", "ld.mold"],
        ..test("every_linker_in_each_way", every_linker_in_each_way)
    },
    test("filling_in_and_linking_again_agree", filling_in_and_linking_again_agree),
    test("sources_and_archives", sources_and_archives),
    test("devices_are_not_replaced", devices_are_not_replaced),
    test("images_without_headers_in_memory", images_without_headers_in_memory),
    Test {
        programs: &["gcc", "ld.bfd", "ld.gold", "ld.lld", "ld.mold"],
        ..test("no_linker_collects_the_table", no_linker_collects_the_table)
    },
    Test {
        programs: &["g++"],
        ..test("templates_in_two_objects_have_one_site", templates_in_two_objects)
    },
    Test {
        programs: &["g++", "ld.lld"],
        ..test("identical_functions_are_folded", identical_functions_are_folded)
    },
    test("patchable_entries_of_discarded_functions", patchable_entries_of_discarded_functions),
];

pub(crate) fn mcount() -> &'static Path {
    Path::new(env!("CARGO_BIN_EXE_mcount"))
}

/// A hook, two traced functions in two objects, and a main function that returns the size of the
/// table.
pub(crate) fn room() -> Result<Room, String> {
    let room = Room::new()?;
    for name in ["one.c", "two.c", "main.c", "hook.s"] {
        room.put(name, &testkit::files::read(&sources("late").join(name))?)?;
    }
    must(&room, "gcc -c -O1 -pg one.c two.c")?;
    must(&room, "gcc -c -O1 main.c hook.s")?;
    Ok(room)
}

/// Runs words in the folder; the first may be `mcount`.
pub(crate) fn line(room: &Room, line: &str) -> Result<Outcome, String> {
    let words: Vec<&str> = line.split(' ').collect();
    let (program, arguments) = words.split_first().ok_or("no words")?;
    let program = if *program == "mcount" { mcount() } else { Path::new(program) };
    room.run(program, arguments)
}

/// The same, which must succeed.
pub(crate) fn must(room: &Room, words: &str) -> Result<Outcome, String> {
    let outcome = line(room, words)?;
    same(&outcome.code, &Some(0), &format!("{words}\n{}", outcome.stderr))?;
    Ok(outcome)
}

/// Puts a program of that text in the folder.
pub(crate) fn script(room: &Room, name: &str, text: &str) -> Result<(), String> {
    testkit::files::write_program(&room.path(name), text.as_bytes())
}

pub(crate) fn same<T: PartialEq + std::fmt::Debug>(
    found: &T,
    expected: &T,
    what: &str,
) -> Result<(), String> {
    if found == expected {
        return Ok(());
    }
    Err(format!("{what}: {found:?}, not {expected:?}"))
}

/// The program `name` has a table of `entries`, and says so itself.
pub(crate) fn has_table(room: &Room, name: &str, entries: usize) -> Result<(), String> {
    let found = table(&room.path(name))?;
    same(&found.len(), &entries, &format!("sites of {name}"))?;
    same(&found.iter().all(|(_, recorded)| *recorded), &true, &format!("recorded in {name}"))?;
    let code = room.run(&room.path(name), &[])?.code;
    same(&code, &i32::try_from(entries).ok(), &format!("what {name} says"))
}

/// No folder and no file is left.
pub(crate) fn is_clean(room: &Room) -> Result<(), String> {
    let names = room.names()?;
    let hidden: Vec<_> = names.iter().filter(|name| name.starts_with('.')).collect();
    if hidden.is_empty() { Ok(()) } else { Err(format!("left behind: {hidden:?}")) }
}

fn what_is_no_final_link_passes_through() -> Result<(), String> {
    let room = room()?;
    for words in [
        "ld -r one.o two.o -o out",
        "gcc -r -nostdlib one.o two.o -o out",
        "gcc -no-pie -Wl,-r -nostdlib one.o two.o -o out",
        "gcc -c one.c -o out",
        "gcc -S one.c -o out",
        "ld --oformat=binary -Ttext=0 -e 0 one.o two.o hook.o -o out",
    ] {
        must(&room, words)?;
        let plain = room.get("out")?;
        must(&room, &format!("mcount link -- {words}"))?;
        same(&(room.get("out")? == plain), &true, words)?;
    }
    for words in
        ["ld --version", "gcc --version", "gcc -print-file-name=crt1.o", "gcc -dumpversion"]
    {
        let (plain, through) =
            (line(&room, words)?, line(&room, &format!("mcount link -- {words}"))?);
        same(&through, &plain, words)?;
    }
    // To a linker these mean something else.
    must(&room, "mcount link -- ld -S -E -M -e f one.o two.o hook.o -o out")?;
    same(&table(&room.path("out"))?.len(), &2, "sites")?;
    is_clean(&room)
}

/// What a failed link came to. A linker that gcc looks up in `PATH` is called by its path, and by its name if we ask
/// gcc for it. mold names undefined symbols in any order.
fn failure(room: &Room, words: &str) -> Result<Outcome, String> {
    let outcome = line(room, words)?;
    let stderr = outcome.stderr.replace("/usr/bin/ld", "ld").replace("/usr/bin/mold", "mold");
    let mut lines: Vec<&str> = stderr.lines().collect();
    if words.contains("mold") {
        lines.sort_unstable();
    }
    Ok(Outcome { stderr: lines.join("\n"), ..outcome })
}

fn failed() -> Result<(), String> {
    let room = room()?;
    for linker in ["bfd", "gold", "lld", "mold"] {
        for command in [format!("gcc -fuse-ld={linker}"), format!("ld.{linker}")] {
            let words = format!("{command} one.o hook.o -o out");
            room.put("out", b"old")?;
            let plain = (failure(&room, &words)?, room.get("out").ok());
            room.put("out", b"old")?;
            let through =
                (failure(&room, &format!("mcount link -- {words}"))?, room.get("out").ok());
            same(&through, &plain, &words)?;
            same(&through.0.stderr.is_empty(), &false, &words)?;
        }
    }
    let absent = line(&room, "mcount link -- no-such-linker one.o -o out")?;
    same(&absent.code, &Some(2), &absent.stderr)?;
    is_clean(&room)
}

/// A linker that waits while it has written half of its output.
const SLOW: &str = "#!/bin/sh
for word; do [ \"$previous\" = -o ] && image=$word; previous=$word; done
echo half > \"$image\"
echo $$ > beginning
mv beginning begun
exec sleep 600
";

/// A room where a link by that linker was sent a signal, how it ended, and the linker's process.
/// `program` runs the linker: itself, or a compiler.
fn disturbed(program: &str, signal: &str) -> Result<(Room, ExitStatus, PathBuf), String> {
    let room = room()?;
    script(&room, "slow", SLOW)?;
    std::fs::create_dir(room.path("tools")).map_err(|error| error.to_string())?;
    script(&room, "tools/ld", SLOW)?;
    room.put("out", b"old")?;
    let words: Vec<&str> = ["link", "--"].into_iter().chain(program.split(' ')).collect();
    let inputs = ["one.o", "two.o", "hook.o", "main.o", "-o", "out"];
    let mut command = room.command(mcount(), &[&words[..], &inputs].concat());
    command.env("TMPDIR", room.path("."));
    let status = testkit::process::disturb(&mut command, &room.path("begun"), signal)?;
    same(&room.get("out")?, &b"old".to_vec(), "after the signal")?;
    let linker = String::from_utf8_lossy(&room.get("begun")?).trim().to_owned();
    Ok((room, status, Path::new("/proc").join(linker)))
}

fn killed() -> Result<(), String> {
    let (room, _, linker) = disturbed("./slow", "KILL")?;
    let linker = linker.file_name().unwrap_or_default().to_owned();
    Command::new("kill").arg(linker).status().map_err(|error| error.to_string())?;
    same(&is_clean(&room).is_err(), &true, "a folder is left, for the test to mean something")?;
    must(&room, "mcount link -- gcc one.o two.o hook.o main.o -o out")?;
    has_table(&room, "out", 2)?;
    is_clean(&room)
}

fn interrupted() -> Result<(), String> {
    for program in ["./slow", "gcc -Btools", "gcc -B tools", "clang -Btools"] {
        for (signal, number) in [("HUP", 1), ("INT", 2), ("QUIT", 3), ("TERM", 15)] {
            if program.contains("clang") && signal == "QUIT" {
                // clang takes it for a crash of its own, and removes what it was to make.
                continue;
            }
            let (room, status, linker) = disturbed(program, signal)?;
            let what = format!("{program}: {signal}");
            same(&status.signal(), &Some(number), &what)?;
            same(&linker.exists(), &false, &format!("{what}: the linker runs"))?;
            is_clean(&room).map_err(|error| format!("{what}: {error}"))?;
            let names = room.names()?;
            let is_left = names.iter().any(|name| name.starts_with("mcount-link"));
            same(&is_left, &false, &format!("{what}: {names:?}"))?;
        }
    }
    Ok(())
}

/// As in a script under `nohup`, or in the background.
fn ignored() -> Result<(), String> {
    let room = room()?;
    let script = "trap '' INT; exec \"$0\" link -- sh -c 'kill -INT $PPID; ld \"$@\"' ld \
                  one.o two.o hook.o -e f -o out";
    let mcount = mcount().display().to_string();
    testkit::process::run(&mut room.command(Path::new("sh"), &["-c", script, &mcount]))?;
    same(&table(&room.path("out"))?.len(), &2, "sites")?;
    is_clean(&room)
}

/// Where nothing is traced, there is nothing to correct.
fn no_hooks_one_link() -> Result<(), String> {
    let room = room()?;
    let main = "extern void *__start___mcount_loc[], *__stop___mcount_loc[];\n\
                int main(void) { return __stop___mcount_loc - __start___mcount_loc; }\n";
    room.put("none.c", main.as_bytes())?;
    must(&room, "gcc -c none.c")?;
    for linker in ["bfd", "gold", "lld", "mold"] {
        for flags in ["-pie", "-no-pie", "-static", "-Wl,--gc-sections"] {
            let words = format!("mcount link -v -- gcc -fuse-ld={linker} {flags} none.o -o out");
            let outcome = must(&room, &words)?;
            let expected = "out: link 1: 0 sites, the table is right\n";
            same(&outcome.stderr.as_str(), &expected, &words)?;
            same(&room.run(&room.path("out"), &[])?.code, &Some(0), &words)?;
        }
    }
    is_clean(&room)
}

fn long_response_file() -> Result<(), String> {
    let room = room()?;
    let folder = |number| format!("-L/a/folder/that/is/not/there/whatever/{number}\n");
    let words: String = (0..60_000).map(folder).collect();
    let words = format!("-e f one.o two.o hook.o\n{words}");
    room.put("words", words.as_bytes())?;
    must(&room, "mcount link -- ld @words -o out")?;
    same(&table(&room.path("out"))?.len(), &2, "sites")
}

fn linking_again_is_linking_once() -> Result<(), String> {
    let room = room()?;
    let words = "mcount link -- gcc one.o two.o hook.o main.o -o out";
    must(&room, words)?;
    let first = room.get("out")?;
    // What is there is no input.
    must(&room, words)?;
    same(&(room.get("out")? == first), &true, "the second link")
}

fn inputs_with_tables_are_refused() -> Result<(), String> {
    let room = room()?;
    must(&room, "mcount record --policy all one.o")?;
    room.put("out", b"old")?;
    let outcome = line(&room, "mcount link -- gcc one.o two.o hook.o main.o -o out")?;
    same(&outcome.code, &Some(2), "exit code")?;
    same(&outcome.stderr.contains("tables of their own"), &true, &outcome.stderr)?;
    same(&room.get("out")?, &b"old".to_vec(), "the output")?;
    is_clean(&room)
}

/// mold needn't be there.
fn commands_that_replace_linkers_are_refused() -> Result<(), String> {
    let room = room()?;
    for mold in ["mold -run", "mold --run", "/usr/bin/mold -run", "ld.mold -run"] {
        let outcome = line(&room, &format!("mcount link -- {mold} gcc main.c hook.o -o out"))?;
        same(&outcome.code, &Some(2), mold)?;
        let is_one = outcome.stderr.lines().count() == 1;
        same(&(is_one && outcome.stderr.contains("-fuse-ld=mold")), &true, &outcome.stderr)?;
        same(&room.path("out").exists(), &false, mold)?;
    }
    is_clean(&room)
}

fn passes_are_limited_and_reported() -> Result<(), String> {
    let room = room()?;
    // A collected function makes the first table too long.
    must(&room, "gcc -c -O1 -pg -ffunction-sections one.c two.c")?;
    let link = "gcc -Wl,--gc-sections one.o two.o hook.o main.o -o out";
    must(&room, "gcc -c -O1 -pg -ffunction-sections -DDEAD one.c")?;
    let outcome = line(&room, &format!("mcount link --max-passes 1 -- {link}"))?;
    same(&outcome.code, &Some(2), "exit code of one pass")?;
    same(&outcome.stderr.contains("no stable table after 1 link:"), &true, &outcome.stderr)?;
    same(&room.path("out").exists(), &false, "an output")?;
    let outcome = must(&room, &format!("mcount link -v -- {link}"))?;
    let expected = "out: link 1: 2 sites, the table has 3 entries\n\
                    out: link 2: 2 sites, the table is right\n";
    same(&outcome.stderr.as_str(), &expected, "-v")?;
    has_table(&room, "out", 2)
}

/// A linker that takes one object more every other time.
const FICKLE: &str = "#!/bin/sh
if [ -e more ]; then rm more; exec gcc \"$@\" two.o; fi
touch more
exec gcc \"$@\" two.o three.o
";

fn what_does_not_settle_is_named() -> Result<(), String> {
    let room = room()?;
    script(&room, "fickle", FICKLE)?;
    room.put("three.c", b"int three(int a) { return a * 3; }")?;
    must(&room, "gcc -c -O1 -pg three.c")?;
    let outcome = line(&room, "mcount link -- ./fickle one.o hook.o main.o -o out")?;
    same(&outcome.code, &Some(2), "exit code")?;
    let expected = "no stable table after 4 links: the last image has 2 sites and a table of 3; \
                    1 gone since the link before: three";
    same(&outcome.stderr.contains(expected), &true, &outcome.stderr)?;
    same(&room.path("out").exists(), &false, "an output")?;
    is_clean(&room)
}

/// What people ask of linkers: that the C library's hook is called through the PLT or the GOT, dead and
/// identical functions, link-time optimisation, and every kind of program.
fn every_linker_in_each_way() -> Result<(), String> {
    let room = room()?;
    // A table of many sizes moves what lies behind it.
    let more = "int w(int a) { return a * 7; } int x(int a) { return a * 7; }\n\
                int (*volatile p)(int) = w, (*volatile q)(int) = x;";
    room.put("more.c", more.as_bytes())?;
    for compiler in ["gcc", "clang"] {
        must(
            &room,
            &format!("{compiler} -c -O1 -pg -ffunction-sections -DDEAD one.c two.c more.c"),
        )?;
        for linker in ["bfd", "gold", "lld", "mold"] {
            for flags in ["-pie", "-pie -Wl,--gc-sections", "-pie -Wl,--icf=all", "-static"] {
                if linker == "bfd" && flags.contains("icf") {
                    continue;
                }
                let link = format!("{compiler} -fuse-ld={linker} {flags}");
                must(&room, &format!("mcount link -- {link} one.o two.o more.o main.o -o out"))?;
                let entries = match flags.split("--").nth(1) {
                    Some("gc-sections") => 2,
                    // Three are one.
                    Some("icf=all") => 3,
                    _ => 5,
                };
                has_table(&room, "out", entries).map_err(|error| format!("{link}: {error}"))?;
            }
        }
    }
    Ok(())
}

/// Where the number of sites is known before, the table is filled in; where not, the program is
/// linked again. The tables say the same.
fn filling_in_and_linking_again_agree() -> Result<(), String> {
    let room = room()?;
    let filled = must(&room, "mcount link -v -- gcc one.o two.o hook.o main.o -o filled")?;
    same(&filled.stderr.contains("filled in place"), &true, &filled.stderr)?;
    must(&room, "gcc -c -O1 -flto -pg one.c two.c")?;
    let linked =
        must(&room, "mcount link -v -- gcc -pg -flto one.o two.o hook.o main.o -o linked")?;
    same(&linked.stderr.contains("link 2: 2 sites, the table is right"), &true, &linked.stderr)?;
    has_table(&room, "filled", 2)?;
    has_table(&room, "linked", 2)
}

fn sources_and_archives() -> Result<(), String> {
    let room = room()?;
    must(&room, "ar rcs parts.a one.o two.o")?;
    for words in ["main.o hook.o parts.a", "main.c hook.s parts.a", "-O1 main.c hook.s one.o two.o"]
    {
        must(&room, &format!("mcount link -- gcc {words} -o out"))?;
        has_table(&room, "out", 2)?;
    }
    // The main function is traced too.
    must(&room, "mcount link -- gcc -O1 -pg main.c hook.s one.c two.c -o out")?;
    has_table(&room, "out", 3)
}

fn devices_are_not_replaced() -> Result<(), String> {
    let room = room()?;
    std::os::unix::fs::symlink("/dev/null", room.path("null"))
        .map_err(|error| error.to_string())?;
    must(&room, "mcount link -- gcc one.o two.o hook.o main.o -o null")?;
    is_clean(&room)
}

fn images_without_headers_in_memory() -> Result<(), String> {
    let room = room()?;
    for flags in ["-N", "-n", "-Ttext=0x1000000"] {
        must(&room, &format!("mcount link -- ld {flags} -e f one.o two.o hook.o -o out"))?;
        let found = table(&room.path("out"))?;
        same(&found.len(), &2, flags)?;
        same(&found.iter().all(|(_, recorded)| *recorded), &true, flags)?;
    }
    Ok(())
}

/// Nothing refers to it, so that only its flag keeps it.
fn no_linker_collects_the_table() -> Result<(), String> {
    let room = room()?;
    for linker in ["bfd", "gold", "lld", "mold"] {
        let words = "-Wl,--gc-sections,-e,f one.o two.o hook.o -nostdlib -o out";
        must(&room, &format!("mcount link -- gcc -fuse-ld={linker} {words}"))?;
        let found = table(&room.path("out"))?;
        same(&found.len(), &2, linker)?;
        same(&found.iter().all(|(_, recorded)| *recorded), &true, linker)?;
    }
    Ok(())
}

pub(crate) fn addresses(room: &Room, name: &str) -> Result<BTreeSet<u64>, String> {
    Ok(table(&room.path(name))?.into_iter().map(|(address, _)| address).collect())
}

fn templates_in_two_objects() -> Result<(), String> {
    let room = room()?;
    for name in ["first.cpp", "second.cpp", "twice.h"] {
        room.put(name, &testkit::files::read(&sources("late").join(name))?)?;
    }
    must(&room, "g++ -c -O1 -pg first.cpp second.cpp")?;
    must(&room, "mcount link -- g++ first.o second.o hook.o main.o -o out")?;
    // f, g, and the template once.
    has_table(&room, "out", 3)
}

fn identical_functions_are_folded() -> Result<(), String> {
    let room = room()?;
    must(&room, "gcc -c -O1 -pg -ffunction-sections -DTWIN one.c")?;
    must(&room, "gcc -c -O1 -pg -ffunction-sections two.c")?;
    let objects = "one.o two.o hook.o main.o";
    must(&room, &format!("mcount link -- gcc -fuse-ld=lld {objects} -o apart"))?;
    must(&room, &format!("mcount link -- gcc -fuse-ld=lld -Wl,--icf=all {objects} -o folded"))?;
    has_table(&room, "apart", 3)?;
    has_table(&room, "folded", 2)?;
    same(&addresses(&room, "folded")?.len(), &2, "different entries")
}

/// gcc before 13 puts the lists of all functions in one section that goes with the first of them:
/// where that is discarded, so are the entries of the others, and their areas are found by decoding.
fn patchable_entries_of_discarded_functions() -> Result<(), String> {
    let room = room()?;
    must(&room, "gcc -c -O2 -ffunction-sections -fpatchable-function-entry=5 -DDEAD one.c two.c")?;
    must(&room, "gcc -Wl,--gc-sections one.o two.o hook.o main.o -DDEAD -o out")?;
    let plain = line(&room, "mcount table out")?;
    same(&plain.code, &Some(0), &plain.stderr)?;
    same(&table(&room.path("out"))?.len(), &2, &plain.stdout)?;
    for gone in ["dead", "twin"] {
        same(&plain.stdout.contains(gone), &false, &plain.stdout)?;
    }
    Ok(())
}
