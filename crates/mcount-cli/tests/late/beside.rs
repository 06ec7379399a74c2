//! What a link writes beside its output is what it writes without `mcount link`: the same files, which
//! know nothing of temporary names.
//!
//! The options are those that compilers and linkers list themselves.

use crate::command::{Test, has_table, is_clean, line, mcount, must, room, same, test};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use testkit::room::Room;
use testkit::sample::one_in;

pub(crate) const TESTS: &[Test] = &[
    test("what_gcc_writes_beside_a_program", what_gcc_writes_beside_a_program),
    Test {
        programs: &["gcc", "clang"],
        ..test("what_clang_writes_beside_a_program", what_clang_writes_beside_a_program)
    },
    Test {
        programs: &["gcc", "ld.bfd", "ld.gold", "ld.lld", "ld.mold"],
        ..test("what_linkers_write_beside_an_image", what_linkers_write_beside_an_image)
    },
    Test {
        programs: &["gcc", "ld.bfd", "ld.gold", "ld.lld", "ld.mold"],
        ..test("linkers_print_the_names_that_were_given", linkers_print_the_names_that_were_given)
    },
    Test {
        programs: &["gcc", "ld.lld", "ld.mold", "script"],
        ..test("linkers_print_in_colours_on_a_terminal", linkers_print_in_colours_on_a_terminal)
    },
    Test {
        programs: &["gcc", "ld.bfd", "ld.gold", "ld.lld", "ld.mold"],
        ..test("the_list_for_make_is_the_linkers", the_list_for_make_is_the_linkers)
    },
    Test {
        programs: &["gcc", "ld.lld", "tar"],
        ..test("what_lld_packs_can_be_linked", what_lld_packs_can_be_linked)
    },
    Test {
        programs: &["gcc", "ld.mold", "tar"],
        ..test("what_mold_packs_can_be_linked", what_mold_packs_can_be_linked)
    },
];

/// The files in a room, with what is in them.
type Files = BTreeMap<String, Vec<u8>>;

fn files(room: &Room) -> Result<Files, String> {
    let mut files = Files::new();
    for name in room.names()? {
        let bytes = if room.path(&name).is_file() { room.get(&name)? } else { Vec::new() };
        files.insert(name, bytes);
    }
    Ok(files)
}

/// Removes what is not in `before`.
fn clear(room: &Room, before: &Files) -> Result<(), String> {
    for name in room.names()?.iter().filter(|name| !before.contains_key(*name)) {
        let path = room.path(name);
        let removed = if path.is_dir() {
            std::fs::remove_dir_all(&path)
        } else {
            std::fs::remove_file(&path)
        };
        removed.map_err(|error| error.to_string())?;
    }
    Ok(())
}

/// What a command adds to the room; it is removed again. `None` if the command fails.
fn added(room: &Room, before: &Files, words: &str) -> Result<Option<Files>, String> {
    let outcome = line(room, words)?;
    let names_it = [&outcome.stdout, &outcome.stderr].map(|said| said.contains(".mcount-link"));
    same(&names_it, &[false, false], &format!("{words}: {outcome:?}"))?;
    let mut added = files(room)?;
    added.retain(|name, _| !before.contains_key(name));
    clear(room, before)?;
    Ok((outcome.code == Some(0)).then_some(added))
}

/// Runs a command with and without `mcount link`. Both add the same files. Those that a second run
/// writes as the first did are the same with `mcount link`, up to the image, and those of `about_image`,
/// which tell of it. None names what is temporary. Returns how many there were beside the image.
fn compare(room: &Room, words: &str, about_image: &[&str]) -> Result<usize, String> {
    let before = files(room)?;
    let Some(plain) = added(room, &before, words)? else { return Ok(0) };
    if plain.len() < 2 {
        return Ok(0);
    }
    let again = added(room, &before, words)?.unwrap_or_default();
    let through = added(room, &before, &format!("mcount link -- {words}"))?;
    let through = through.ok_or_else(|| format!("fails with mcount link: {words}"))?;
    let names = |files: &Files| files.keys().cloned().collect::<BTreeSet<_>>();
    if names(&again) == names(&plain) {
        same(&names(&through), &names(&plain), words)?;
    }
    for (name, bytes) in &through {
        // lld's --reproduce makes an archive of what was linked, the object with the table included.
        let is_text = !bytes.contains(&0) || name == "out";
        let names_it = bytes.windows(12).any(|part| part == b".mcount-link");
        same(&(names_it && is_text), &false, &format!("{words}: {name}"))?;
        let is_stable = again.get(name) == plain.get(name);
        if is_stable && name != "out" && !about_image.iter().any(|part| name.contains(part)) {
            same(
                &(plain.get(name) == Some(bytes)),
                &true,
                &format!("{words}: {name} is the same"),
            )?;
        }
    }
    Ok(plain.len() - 1)
}

/// The options with this beginning in a help text.
fn options_with(
    room: &Room,
    program: &str,
    help: &[&str],
    start: &str,
) -> Result<Vec<String>, String> {
    let text = room.run(Path::new(program), help)?.stdout;
    let words = text.lines().filter_map(|line| line.split_whitespace().next());
    let found = words.filter(|word| word.starts_with(start));
    // `-fdump-final-insns=filename`, `-fdump-<type>`: the latter is in gcc's manual, not an option.
    let found = found.filter(|word| !word.contains(['<', '[']));
    Ok(found.map(|word| word.replace("=filename", "=insns.dump")).collect())
}

fn what_gcc_writes_beside_a_program() -> Result<(), String> {
    let room = room()?;
    let dumps = options_with(&room, "gcc", &["--help=common"], "-fdump-")?;
    same(&(dumps.len() > 5), &true, &format!("{dumps:?}"))?;
    let dumps = format!("{} -fdump-tree-all -fdump-rtl-all -fdump-ipa-all", dumps.join(" "));
    let all = vec![
        "-MMD",
        "-MD -MF list.d",
        "-MMD -MP -MT x",
        "-g -gsplit-dwarf",
        "--coverage",
        "-fprofile-arcs -ftest-coverage",
        "-save-temps",
        "-save-temps=obj",
        "-save-temps=cwd",
        "-fstack-usage",
        "-fcallgraph-info",
        "-fopt-info-all=info.txt",
        "-fsave-optimization-record",
        "-aux-info protos.txt",
        "-dumpdir dumps- -save-temps",
        "-dumpbase base -fstack-usage",
        "-flto -save-temps",
        "-flto -fstack-usage",
        "-Wl,-Map=out.map",
        "-Wl,-Map,out.map,--cref",
        "-Xlinker -Map -Xlinker out.map",
        "-Wl,--dependency-file=list.d",
        &dumps,
    ];
    for flags in one_in(3, all) {
        for sources in ["one.c two.o", "one.c two.c"] {
            let words = format!("gcc -O1 -pg {flags} {sources} main.o hook.s -o out");
            let count = compare(&room, &words, &["map", "000i", "resolution", ".res"])?;
            // One source and `-aux-info` and the like, or it does not apply to this.
            same(&(count > 0 || flags.contains("-dumpbase")), &true, &words)?;
        }
    }
    must(&room, "mcount link -- gcc -O1 -pg --coverage one.c two.c main.o hook.s -o out")?;
    has_table(&room, "out", 2)
}

fn what_clang_writes_beside_a_program() -> Result<(), String> {
    let room = room()?;
    let all = vec![
        "-MMD",
        "-MD -MF list.d",
        "-MJ commands.json",
        "-g -gsplit-dwarf",
        "--coverage",
        "-save-temps",
        "-save-temps=obj",
        "-ftime-trace",
        "-fsave-optimization-record",
        "--serialize-diagnostics one.dia",
        "-g -grecord-command-line -save-temps",
        "-fuse-ld=lld -Wl,--time-trace",
        "-fuse-ld=lld -flto -Wl,--save-temps",
        "-fuse-ld=lld -flto=thin -Wl,--save-temps",
    ];
    for flags in one_in(3, all) {
        for sources in ["one.c two.o", "one.c two.c"] {
            let words = format!("clang -O1 -pg {flags} {sources} main.o hook.s -o out");
            compare(&room, &words, &["map", "json", "time-trace", "resolution", ".index"])?;
        }
    }
    Ok(())
}

/// The options of a linker, each as it is given: `--dependency-file=written.txt`, `--time-trace`.
fn linker_options(room: &Room, linker: &str) -> Result<BTreeSet<String>, String> {
    let help = room.run(Path::new(linker), &["--help"])?.stdout;
    let mut options = BTreeSet::new();
    for line in help.lines().filter(|line| line.trim_start().starts_with("--")) {
        let line = line.trim_start();
        let end = line.find([' ', '=', '[', ',']).unwrap_or(line.len());
        let (name, rest) = line.split_at(end);
        // A value stands behind one space or `=`, what the option does behind more.
        let has_value = rest.starts_with('=')
            || rest
                .strip_prefix(' ')
                .is_some_and(|rest| !rest.starts_with(' ') && !rest.is_empty());
        options.insert(if has_value { format!("{name}=written.txt") } else { name.to_owned() });
    }
    // What is no link, and a copy of the image for Windows.
    for option in
        ["--help", "--version", "--output=written.txt", "--run=written.txt", "--force-exe-suffix"]
    {
        options.remove(option);
    }
    options.extend(
        ["-Map=written.txt", "--time-trace", "--time-trace=written.txt", "-Map=."]
            .map(str::to_owned),
    );
    Ok(options)
}

fn what_linkers_write_beside_an_image() -> Result<(), String> {
    let room = room()?;
    for linker in ["ld.bfd", "ld.gold", "ld.lld", "ld.mold"] {
        let mut found = BTreeSet::new();
        for option in linker_options(&room, linker)? {
            let words = format!("{linker} -e f {option} one.o two.o hook.o -o out");
            let about_image = ["written.txt", "map", "time-trace", "repro"];
            if compare(&room, &words, &about_image)? > 0 {
                found.insert(option);
            }
        }
        let is_there = |name: &str| found.iter().any(|option| option.contains(name));
        same(&["Map", "dependency-file"].map(is_there), &[true, true], linker)?;
    }
    is_clean(&room)
}

/// What a linker says of its output and of its inputs, once, whatever it takes to make a table: here two
/// links, as the first image has no table to fill in.
fn linkers_print_the_names_that_were_given() -> Result<(), String> {
    let room = room()?;
    let script = "SECTIONS { .text : { *(.text*) } __mcount_loc : { *(__mcount_loc) } }\n";
    room.put("script", script.as_bytes())?;
    // GNU ld warns of this, and names the output.
    room.put("awx.s", b".section .awx, \"awx\"\n.byte 1\n")?;
    must(&room, "gcc -c awx.s")?;
    for (linker, options) in [
        ("bfd", "-t"),
        ("bfd", "--warn-common -z execstack"),
        ("bfd", "-T script"),
        ("gold", "-t"),
        ("lld", "-t"),
        ("lld", "--verbose -T script"),
        ("mold", "--trace"),
        ("mold", "--no-such-option"),
    ] {
        for output in ["out", "./out"] {
            let words = format!("ld.{linker} {options} -e f one.o two.o awx.o hook.o -o {output}");
            let plain = line(&room, &words)?;
            let mut through = line(&room, &format!("mcount link -- {words}"))?;
            let lines = through.stdout.split_inclusive('\n');
            through.stdout = lines.filter(|line| !line.contains("<mcount-link>")).collect();
            let lines = through.stderr.split_inclusive('\n');
            through.stderr = lines.filter(|line| !line.contains("<mcount-link>")).collect();
            same(&through, &plain, &words)?;
            same(&(through.stdout.len() + through.stderr.len() > 0), &true, &words)?;
        }
    }
    let warning = must(&room, "mcount link -- ld.bfd -e f one.o two.o awx.o hook.o -o sub")?.stderr;
    same(&warning.matches("sub has a LOAD segment").count(), &1, &warning)?;
    is_clean(&room)
}

/// They see that they don't print to the terminal, and are told that it's one.
fn linkers_print_in_colours_on_a_terminal() -> Result<(), String> {
    let room = room()?;
    for linker in ["ld.lld", "ld.mold"] {
        for (option, expected) in [("", true), ("--color-diagnostics=never ", false)] {
            let link = format!("{linker} {option}-e f one.o hook.o missing.o -o out");
            let link = format!("{} link -- {link}", mcount().display());
            let mut terminal = room.command(Path::new("script"), &["-qec", &link, "/dev/null"]);
            let output =
                terminal.env("TERM", "xterm").output().map_err(|error| error.to_string())?;
            let said = String::from_utf8_lossy(&output.stdout).into_owned();
            same(&said.contains("missing.o"), &true, &said)?;
            same(&said.contains("\x1b["), &expected, &format!("{linker}: {said:?}"))?;
        }
    }
    Ok(())
}

/// Word for word: ninja links again if an input in it is newer, or not there.
fn the_list_for_make_is_the_linkers() -> Result<(), String> {
    let room = room()?;
    room.put("with space.o", &room.get("main.o")?)?;
    for linker in ["bfd", "gold", "lld", "mold"] {
        for (output, objects) in [
            ("out", "one.o two.o hook.o"),
            ("./out", "one.o @words hook.o"),
            ("sub/out", "one.o two.o hook.o"),
        ] {
            let _ = std::fs::create_dir(room.path("sub"));
            room.put("words", b"'with space.o' two.o")?;
            let words = format!(
                "gcc -fuse-ld={linker} -nostdlib -Wl,-e,f,--dependency-file=list.d {objects} -o {output}"
            );
            must(&room, &words)?;
            let plain = list(&room)?;
            must(&room, &format!("mcount link -- {words}"))?;
            same(&list(&room)?, &plain, &words)?;
        }
        let words = format!("ld.{linker} -e f --dependency-file=list.d one.o @words -o out");
        room.put("words", b"two.o hook.o")?;
        must(&room, &words)?;
        let plain = list(&room)?;
        must(&room, &format!("mcount link -- {words}"))?;
        same(&list(&room)?, &plain, &words)?;
    }
    Ok(())
}

/// lld's `--reproduce` packs what was linked last, the object with the table included: without it the
/// link would be another one. Its table has all entries, and no addresses in them yet.
fn what_lld_packs_can_be_linked() -> Result<(), String> {
    let room = room()?;
    for option in ["--reproduce=packed.tar", "--reproduce packed.tar"] {
        let _ = std::fs::remove_dir_all(room.path("packed"));
        must(&room, &format!("mcount link -- ld.lld {option} -e f one.o two.o hook.o -o out"))?;
        must(&room, "tar -xf packed.tar")?;
        let mut link = room.command(Path::new("ld.lld"), &["@response.txt"]);
        let status = link.current_dir(room.path("packed")).status();
        same(&status.is_ok_and(|status| status.success()), &true, option)?;
        let entries = |name: &str| -> Result<usize, String> {
            let listed = must(&room, &format!("mcount list --format jsonl {name}"))?;
            Ok(listed.stdout.lines().count())
        };
        same(&entries("out")?, &2, option)?;
        same(&entries("packed/out")?, &2, option)?;
        for name in ["out", "packed.tar"] {
            std::fs::remove_file(room.path(name)).map_err(|error| error.to_string())?;
        }
    }
    let _ = std::fs::remove_dir_all(room.path("packed"));
    is_clean(&room)
}

/// The same of mold's `--repro`, which packs all into a file beside the image, with paths from the root.
fn what_mold_packs_can_be_linked() -> Result<(), String> {
    let room = room()?;
    let folder = room.path(".").canonicalize().map_err(|error| error.to_string())?;
    std::fs::create_dir(room.path("sub")).map_err(|error| error.to_string())?;
    let whole = folder.join("whole").display().to_string();
    for output in ["out", "out2", "./out", "sub/out", &whole] {
        must(
            &room,
            &format!(
                "mcount link -- ld.mold -m elf_x86_64 --repro -e f one.o two.o hook.o -o {output}"
            ),
        )?;
        let name = Path::new(output).file_name().unwrap_or_default().display().to_string();
        must(&room, &format!("tar -xf {output}.repro.tar"))?;
        let unpacked = room.path(&format!("{name}.repro"));
        let mut link = room.command(Path::new("ld.mold"), &["@response.txt"]);
        let status = link.current_dir(&unpacked).status();
        same(&status.is_ok_and(|status| status.success()), &true, output)?;
        // An absolute path is that of the image itself.
        if !output.starts_with('/') {
            let image = unpacked.join(folder.strip_prefix("/").unwrap_or(&folder)).join(output);
            same(&image.is_file(), &true, &image.display().to_string())?;
        }
        std::fs::remove_dir_all(unpacked).map_err(|error| error.to_string())?;
    }
    is_clean(&room)
}

/// The list, without what gcc names in each run anew: mold lists response files.
fn list(room: &Room) -> Result<Vec<String>, String> {
    let list = String::from_utf8_lossy(&room.get("list.d")?).into_owned();
    let words = list.split_whitespace().filter(|word| !word.starts_with("/tmp/cc"));
    Ok(words.map(str::to_owned).collect())
}
