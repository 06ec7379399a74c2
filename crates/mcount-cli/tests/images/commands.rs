//! What the commands do beside sorting and making NOPs: dropping entries, refusing to, and what
//! becomes of areas of NOPs, of calls that are not in the table, and of links.

use crate::build::{Case, Flavour, Shared, link, mcount, recorded, temporary};
use crate::ensure;
use crate::matrix::{PACKED, PIE, SHARED, STATIC};
use crate::targets::Variant;
use crate::truth::{Walk, no_warnings, relocations};
use serde_json::Value;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::Command;
use testkit::files::{read, write};
use testkit::process::run;

/// A test of the commands.
pub(crate) struct Test {
    pub(crate) name: &'static str,
    /// Processors, and how the program is linked.
    pub(crate) on: &'static [(&'static str, Flavour)],
    /// Flags of the traced functions, if not those of the first variant.
    pub(crate) flags: &'static [&'static str],
    pub(crate) run: fn(&Case, &Shared) -> Result<(), String>,
}

/// Code that is not position-independent in a shared object: the loader writes each call.
const TEXT_RELOCATIONS: Flavour = Flavour {
    label: "text-relocations",
    compile: &["-fno-pic"],
    link: &["-shared", "-Wl,-z,notext"],
    ..SHARED
};

/// The same where each call has the address of the hook in it: the loader adds to that, and does not
/// look at the type of such a relocation.
const RELATIVE_TEXT: Flavour =
    Flavour { label: "pie-text", link: &["-pie", "-Wl,-z,notext"], ..PIE };

/// With the C library beside it, and its hook there.
const DYNAMIC: Flavour = Flavour { label: "dynamic", link: &["-no-pie"], ..STATIC };

/// With its functions among the dynamic symbols, as a debugger or a plugin may want it: entries are
/// relocated by them.
const EXPORTED: Flavour = Flavour { label: "pie-exported", link: &["-pie", "-rdynamic"], ..PIE };
const PACKED_SHARED: Flavour =
    Flavour { label: "shared-relr", link: &["-shared", "-Wl,-z,pack-relative-relocs"], ..SHARED };
const KEPT_EXPORTED: Flavour =
    Flavour { label: "pie-kept-exported", link: &["-pie", "-rdynamic", "-Wl,-q"], ..PIE };

const ONE: &[(&str, Flavour)] = &[("x86_64", STATIC)];
const TWO: &[(&str, Flavour)] = &[("x86_64", STATIC), ("s390x", PIE)];

pub(crate) const TESTS: &[Test] = &[
    Test {
        name: "drop-weak",
        on: &[
            ("x86_64", STATIC),
            ("x86_64", PIE),
            ("x86_64", PACKED),
            ("i686", PACKED),
            ("i686", PIE),
            ("armhf", PIE),
            ("mips", PIE),
            ("mips64el", PIE),
            ("hppa", PIE),
            ("aarch64", PIE),
            ("s390x", PIE),
            ("powerpc64", PIE),
            ("powerpc", PIE),
            ("riscv64", PIE),
        ],
        flags: &[],
        run: drop_weak,
    },
    Test { name: "guard", on: TWO, flags: &[], run: guard },
    Test { name: "stripped", on: TWO, flags: &[], run: stripped },
    Test {
        name: "prefix",
        on: &[("x86_64", PIE), ("i686", STATIC)],
        flags: &["-fpatchable-function-entry=4,2", "-fcf-protection"],
        run: areas_stay,
    },
    Test {
        name: "prefix-bti",
        on: &[("aarch64", PIE)],
        flags: &["-fpatchable-function-entry=4,2", "-mbranch-protection=bti"],
        run: areas_stay,
    },
    Test {
        name: "prefix-plain",
        on: &[("riscv64", PIE), ("s390x", PIE), ("powerpc64le", PIE)],
        flags: &["-fpatchable-function-entry=4,2"],
        run: areas_stay,
    },
    Test {
        name: "parted",
        on: &[("x86_64", PIE), ("i686", PIE)],
        flags: &["-fpatchable-function-entry=32,16", "-fcf-protection"],
        run: areas_are_parted,
    },
    Test {
        name: "parted-at-pad",
        on: &[("x86_64", PIE), ("i686", STATIC)],
        flags: &["-fpatchable-function-entry=4,2", "-fcf-protection"],
        run: areas_are_parted,
    },
    Test {
        name: "parted-before",
        on: &[("x86_64", STATIC), ("i686", PIE)],
        flags: &["-fpatchable-function-entry=9,5"],
        run: areas_are_parted,
    },
    Test { name: "five", on: ONE, flags: &["-fpatchable-function-entry=5"], run: five },
    Test { name: "unrecorded", on: ONE, flags: &[], run: unrecorded },
    Test { name: "text", on: &[("i686", TEXT_RELOCATIONS)], flags: &[], run: text_relocations },
    Test {
        name: "text-relative",
        on: &[("x86_64", RELATIVE_TEXT)],
        flags: &["-pg", "-mcmodel=large", "-fno-pie"],
        run: text_relocations,
    },
    Test { name: "links", on: ONE, flags: &[], run: links },
    Test {
        name: "objects",
        on: &[
            ("x86_64", PIE),
            ("i686", PIE),
            ("aarch64", PIE),
            ("s390x", PIE),
            ("powerpc64", PIE),
            ("mips", PIE),
            ("armhf", PIE),
            ("sh4", STATIC),
        ],
        flags: &[],
        run: objects,
    },
    Test {
        name: "wrong-entry",
        on: &[
            ("x86_64", STATIC),
            ("s390x", STATIC),
            ("mips", STATIC),
            ("sh4", STATIC),
            ("powerpc64", PIE),
        ],
        flags: &[],
        run: wrong_entry,
    },
    Test {
        name: "by-symbol",
        on: &[
            ("x86_64", SHARED),
            ("x86_64", PACKED_SHARED),
            ("i686", SHARED),
            ("aarch64", SHARED),
            ("armhf", SHARED),
            ("mips", SHARED),
            ("mips64el", SHARED),
            ("powerpc", SHARED),
            ("s390x", EXPORTED),
            ("riscv64", EXPORTED),
            ("sparc64", EXPORTED),
        ],
        flags: &[],
        run: by_symbol,
    },
    Test {
        name: "thumb-bit",
        on: &[("armhf", STATIC), ("armhf", PIE)],
        flags: &["-fpatchable-function-entry=2"],
        run: thumb_bit,
    },
    Test {
        name: "kept-stripped",
        on: &[
            ("x86_64", KEPT_EXPORTED),
            ("powerpc64", KEPT_EXPORTED),
            ("powerpc64le", KEPT_EXPORTED),
        ],
        flags: &[],
        run: kept_stripped,
    },
    Test {
        name: "imported",
        on: &[
            ("x86_64", DYNAMIC),
            ("x86_64", PIE),
            ("i686", PIE),
            ("armhf", PIE),
            ("hppa", DYNAMIC),
            ("hppa", PIE),
            ("mips", DYNAMIC),
            ("powerpc", PIE),
            ("powerpc64", PIE),
            ("riscv64", PIE),
            ("s390x", PIE),
            ("sh4", DYNAMIC),
            ("sh4", PIE),
            ("sparc64", PIE),
        ],
        flags: &[],
        run: imported,
    },
];

/// `case` with other flags of the traced functions.
pub(crate) fn flagged(case: Case, flags: &'static [&'static str]) -> Case {
    let flags = if flags.is_empty() { case.variant.flags } else { flags };
    Case { variant: Variant { flags, ..case.variant }, ..case }
}

/// The exit code and the diagnostics of `mcount ARG… IMAGE`.
fn said(arguments: &[&str], image: &Path) -> Result<(Option<i32>, String), String> {
    let output = mcount(arguments).arg(image).output().map_err(|error| error.to_string())?;
    let text = [output.stdout, output.stderr].concat();
    Ok((output.status.code(), String::from_utf8_lossy(&text).into_owned()))
}

/// That `mcount ARG… IMAGE` exits with 1 and leaves the image alone.
fn is_refused(arguments: &[&str], image: &Path) -> Result<(), String> {
    let old = read(image)?;
    let outcome = said(arguments, image)?;
    ensure(outcome.0 == Some(1) && !outcome.1.is_empty(), || {
        format!("{arguments:?}: {outcome:?}")
    })?;
    ensure(read(image)? == old, || "refused, and changed the image".to_owned())
}

/// The weak functions of `overridden.c` go, whole, with their relocations.
fn drop_weak(case: &Case, shared: &Shared) -> Result<(), String> {
    let (folder, out) = (shared.objects(case)?, temporary()?);
    let traced = [recorded(&folder), vec![folder.join("recorded/overridden.o")]].concat();
    let image = link(case, &folder, &traced, out.path())?;
    let before = Walk::of(case, &image)?;
    let count: usize = relocations(&image)?.values().sum();
    is_refused(&["sort", "--drop-weak"], &image)?;
    run(mcount(&["sort", "--drop-weak", "--force"]).arg(&image))?;
    let after = Walk::of(case, &image)?;
    let (zeroes, rest) = after.entries.split_at(2);
    ensure(zeroes.iter().all(|entry| entry == "0"), || format!("{before:?}\n{after:?}"))?;
    let function = |entry: &String| entry.split(' ').next().map(str::to_owned);
    let functions: BTreeSet<_> = rest.iter().map(function).collect();
    ensure(functions.len() == rest.len(), || format!("two entries of one: {after:?}"))?;
    ensure(!rest.iter().any(|entry| entry == "0"), || format!("{after:?}"))?;
    ensure(rest.len() + 2 == before.entries.len(), || format!("{before:?}\n{after:?}"))?;
    ensure(after.descents == 0 && after.calls == before.calls, || format!("{after:?}"))?;
    let gone = if case.flavour.label == STATIC.label { 0 } else { 2 };
    let left: usize = relocations(&image)?.values().sum();
    ensure(left + gone == count, || format!("{count} relocations, then {left}"))?;
    no_warnings(&image)?;
    let new = read(&image)?;
    run(mcount(&["sort", "--drop-weak"]).arg(&image))?;
    ensure(read(&image)? == new, || "dropping twice is not dropping once".to_owned())
}

/// Less than one in twenty goes without `--force`.
fn guard(case: &Case, shared: &Shared) -> Result<(), String> {
    let (folder, out) = (shared.objects(case)?, temporary()?);
    let many = out.path().join("many.o");
    let mut command = case.target.toolchain.compile();
    command
        .args(["-c", "-O2", "-pg"])
        .args(case.flavour.compile)
        .arg("-I")
        .arg(crate::build::runtime());
    run(command.arg(crate::build::images().join("many.c")).arg("-o").arg(&many))?;
    run(mcount(&["record", "--policy", "all"]).arg(&many))?;
    let traced = [recorded(&folder), vec![many, folder.join("recorded/overridden.o")]].concat();
    let image = link(case, &folder, &traced, out.path())?;
    let before = Walk::of(case, &image)?;
    // Static functions are live, and look like discarded ones when their symbols are stripped.
    let strip = case.target.toolchain.utility("strip");
    for options in [&["-x"][..], &[]] {
        let bare = out.path().join("stripped");
        run(Command::new(&strip).args(options).arg("-o").arg(&bare).arg(&image))?;
        is_refused(&["sort", "--drop-weak"], &bare)?;
    }
    run(mcount(&["sort", "--drop-weak"]).arg(&image))?;
    let after = Walk::of(case, &image)?;
    let zeroes = after.entries.iter().filter(|entry| *entry == "0").count();
    ensure(zeroes == 2, || format!("{zeroes} dropped"))?;
    ensure(after.entries.len() == before.entries.len(), || format!("{after:?}"))
}

/// Without symbols nothing can be known of the functions, and nothing goes, not even by force.
fn stripped(case: &Case, shared: &Shared) -> Result<(), String> {
    let (folder, out) = (shared.objects(case)?, temporary()?);
    let image = link(case, &folder, &recorded(&folder), out.path())?;
    let whole = read(&image)?;
    let strip = case.target.toolchain.utility("strip");
    run(Command::new(&strip).arg("-x").arg(&image))?;
    is_refused(&["sort", "--drop-weak"], &image)?;
    write(&image, &whole)?;
    run(Command::new(&strip).arg(&image))?;
    is_refused(&["sort", "--drop-weak"], &image)?;
    is_refused(&["sort", "--drop-weak", "--force"], &image)?;
    let before = Walk::of(case, &image)?;
    run(mcount(&["sort"]).arg(&image))?;
    let after = Walk::of(case, &image)?;
    ensure(after.descents == 0, || format!("{after:?}"))?;
    ensure(after.multiset() == before.multiset(), || format!("{before:?}\n{after:?}"))
}

/// The program with one entry more, which leads to the start of `function`.
fn with_entry(case: &Case, shared: &Shared, out: &Path, function: &str) -> Result<PathBuf, String> {
    let folder = shared.objects(case)?;
    let bad = out.join("entry.o");
    let mut command = case.target.toolchain.compile();
    command.arg("-c").arg(crate::build::runtime().join("bad.S"));
    run(command.arg(format!("-DENTRIES={function}")).arg("-o").arg(&bad))?;
    link(case, &folder, &[recorded(&folder), vec![bad]].concat(), out)
}

/// The program of functions that have areas of NOPs.
fn with_areas(case: &Case, shared: &Shared, out: &Path) -> Result<PathBuf, String> {
    // The walk wants a table, and the functions here have no calls.
    with_entry(case, shared, out, "leaf")
}

/// A stripped image tells its hook by the entries that are right, and so which one is wrong.
fn wrong_entry(case: &Case, shared: &Shared) -> Result<(), String> {
    let out = temporary()?;
    let image = with_entry(case, shared, out.path(), "main")?;
    run(Command::new(case.target.toolchain.utility("strip")).arg(&image))?;
    let (code, text) = said(&["check", "--policy", "all", "--allow", "unsorted"], &image)?;
    let is_one = text.matches("not-a-call-site").count() == 1 && text.contains(" 1 error, 0 ");
    ensure(code == Some(1) && is_one, || format!("{code:?}: {text}"))
}

/// An area that begins before its function, or goes on after a landing pad, is the function's.
fn areas_stay(case: &Case, shared: &Shared) -> Result<(), String> {
    let out = temporary()?;
    let image = with_areas(case, shared, out.path())?;
    let list = ["sort", "-v", "--drop-weak", "--table-section", "__patchable_function_entries"];
    let (code, text) = said(&list, &image)?;
    ensure(code == Some(0) && text.contains(" 0 dropped"), || format!("{code:?}: {text}"))?;
    Walk::of(case, &image).map(drop)
}

/// A NOP that replaces several goes over neither the start of a function nor its landing pad; without
/// symbols nothing is known of either, and the areas stay.
fn areas_are_parted(case: &Case, shared: &Shared) -> Result<(), String> {
    let out = temporary()?;
    let image = with_areas(case, shared, out.path())?;
    let (old, before) = (read(&image)?, Walk::of(case, &image)?);
    let list = ["list", "--table-section", "__patchable_function_entries"];
    let listed = run(mcount(&list).arg(&image))?.lines().skip(2).count();
    let (code, text) = said(&["nop", "-v"], &image)?;
    // The entry that the walk wants leads to no call.
    let is_said = code == Some(0)
        && text.contains(&format!(" {listed} NOPs made"))
        && text.contains("1 entry of the table leads");
    ensure(listed > 5 && is_said && code == Some(0), || format!("{code:?}: {text}"))?;
    ensure(Walk::of(case, &image)? == before, || "the program changed".to_owned())?;
    let once = read(&image)?;
    said(&["nop"], &image)?;
    ensure(read(&image)? == once, || "twice is not once".to_owned())?;
    write(&image, &old)?;
    run(Command::new(case.target.toolchain.utility("strip")).arg(&image))?;
    let stripped = read(&image)?;
    let (code, text) = said(&["nop"], &image)?;
    ensure(code == Some(2) && text.contains("areas of NOPs have no symbol"), || {
        format!("{code:?}: {text}")
    })?;
    ensure(read(&image)? == stripped, || "an area of unknown functions changed".to_owned())
}

/// The instructions of NOPs in `leaf` of `file`, and before it.
fn nops_of_leaf(file: &Path) -> Result<Vec<usize>, String> {
    let mut command = Command::new("objdump");
    let output = command.args(["-d", "-w", "--disassemble=leaf"]).arg(file).output();
    let output = output.map_err(|error| error.to_string())?;
    let text = String::from_utf8_lossy(&output.stdout).into_owned();
    let fields = text.lines().map(|line| line.split('\t').collect::<Vec<_>>());
    let nops = fields.filter_map(|fields| match fields.as_slice() {
        [_, bytes, text, ..] if text.contains("nop") => Some(bytes.split_whitespace().count()),
        _ => None,
    });
    Ok(nops.collect())
}

/// One-byte NOPs become long ones, in objects and in images.
fn five(case: &Case, shared: &Shared) -> Result<(), String> {
    let out = temporary()?;
    let image = with_areas(case, shared, out.path())?;
    let object = out.path().join("samples.o");
    write(&object, &read(&shared.objects(case)?.join("traced/samples.o"))?)?;
    for file in [&image, &object] {
        let old = nops_of_leaf(file)?;
        ensure(old.len() >= 5 && old.iter().all(|n| *n == 1), || format!("{old:?}"))?;
        run(mcount(&["nop"]).arg(file))?;
        let new = nops_of_leaf(file)?;
        let is_joined = if old.len() == 5 { new == [5] } else { new.len() <= 4 };
        let is_whole = new.iter().sum::<usize>() == old.len();
        ensure(is_joined && is_whole, || format!("{}: {new:?}", file.display()))?;
        let bytes = read(file)?;
        run(mcount(&["nop"]).arg(file))?;
        ensure(read(file)? == bytes, || "twice is not once".to_owned())?;
    }
    Walk::of(case, &image).map(drop)
}

/// Calls that the table does not have stay, and are counted.
fn unrecorded(case: &Case, shared: &Shared) -> Result<(), String> {
    let (folder, out) = (shared.objects(case)?, temporary()?);
    let traced = [folder.join("recorded/more.o"), folder.join("traced/samples.o")];
    let image = link(case, &folder, &traced, out.path())?;
    let before = Walk::of(case, &image)?;
    let (code, text) = said(&["nop", "-v"], &image)?;
    let is_said = code == Some(0) && text.contains("2 NOPs made, 9 calls not in the table");
    ensure(is_said, || format!("{code:?}: {text}"))?;
    for (name, count) in Walk::of(case, &image)?.calls {
        let is_listed = ["elsewhere", "last"].contains(&name.as_str());
        let expected = if is_listed { Some(&0) } else { before.calls.get(&name) };
        ensure(Some(&count) == expected, || format!("{name}: {count}"))?;
    }
    Ok(())
}

/// The loader's relocation of a call would write into the NOP.
fn text_relocations(case: &Case, shared: &Shared) -> Result<(), String> {
    let (folder, out) = (shared.objects(case)?, temporary()?);
    let image = link(case, &folder, &recorded(&folder), out.path())?;
    let before = Walk::of(case, &image)?;
    let count: usize = relocations(&image)?.values().sum();
    run(mcount(&["nop"]).arg(&image))?;
    let after = Walk::of(case, &image)?;
    let left: usize = relocations(&image)?.values().sum();
    ensure(after.hook_calls() == 0 && after.result == before.result, || format!("{after:?}"))?;
    ensure(left + 11 == count, || format!("{count} relocations, then {left}"))
}

/// `-o` leaves the input alone, and another name of the file keeps what it has.
fn links(case: &Case, shared: &Shared) -> Result<(), String> {
    let (folder, out) = (shared.objects(case)?, temporary()?);
    let image = link(case, &folder, &recorded(&folder), out.path())?;
    let old = read(&image)?;
    let other = out.path().join("other");
    std::fs::hard_link(&image, &other).map_err(|error| error.to_string())?;
    for command in ["sort", "nop"] {
        let copy = out.path().join(command);
        run(mcount(&[command, "-o"]).arg(&copy).arg(&image))?;
        ensure(read(&image)? == old, || format!("{command} -o changed its input"))?;
        let by_name = read(&copy)?;
        ensure(by_name != old, || format!("{command} -o did nothing"))?;
        Walk::of(case, &copy)?;
        run(mcount(&[command]).arg(&image))?;
        ensure(read(&image)? == by_name, || format!("{command} is not {command} -o"))?;
        ensure(read(&other)? == old, || format!("{command} changed the other link"))?;
        write(&image, &old)?;
    }
    Ok(())
}

/// Objects without calls make the program that is not traced, with the same table.
fn objects(case: &Case, shared: &Shared) -> Result<(), String> {
    let (folder, out) = (shared.objects(case)?, temporary()?);
    let before = Walk::of(case, &link(case, &folder, &recorded(&folder), out.path())?)?;
    let mut traced = Vec::new();
    for object in recorded(&folder) {
        let copy = out.path().join(object.file_name().unwrap_or_default());
        write(&copy, &read(&object)?)?;
        run(mcount(&["nop"]).arg(&copy))?;
        let done = read(&copy)?;
        for again in [&["nop"][..], &["record", "--policy", "all"]] {
            run(mcount(again).arg(&copy))?;
            ensure(read(&copy)? == done, || format!("{again:?} again is not once"))?;
        }
        traced.push(copy);
    }
    let after = Walk::of(case, &link(case, &folder, &traced, out.path())?)?;
    ensure(after.hook_calls() == 0, || format!("the hook is called: {after:?}"))?;
    ensure(after.entries == before.entries, || format!("{before:?}\n{after:?}"))?;
    ensure(after.result == before.result, || format!("{after:?}"))
}

/// What each site or entry of `image` is called by `mcount COMMAND`: function and distance; `0` for one
/// that leads nowhere.
fn named(command: &str, image: &Path) -> Result<Vec<String>, String> {
    let mut names = Vec::new();
    let arguments = [command, "--policy", "all", "--format", "jsonl"];
    for line in run(mcount(&arguments).arg(image))?.lines() {
        let site: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
        let name = site.get("symbol").and_then(Value::as_str);
        let distance = site.get("symbol_offset").and_then(Value::as_i64).unwrap_or(0);
        names.push(name.map_or("0".to_owned(), |name| format!("{name} {distance}")));
    }
    Ok(names)
}

/// Entries that the loader makes of symbols: they are read as the program says, and sorted they are the
/// same ones still.
fn by_symbol(case: &Case, shared: &Shared) -> Result<(), String> {
    let out = temporary()?;
    let image = with_entry(case, shared, out.path(), "last,caller,leaf")?;
    let before = Walk::of(case, &image)?;
    let count: usize = relocations(&image)?.values().sum();
    let last = before.entries.len().checked_sub(3).and_then(|at| before.entries.get(at..));
    let is_there = last.is_some_and(|last| {
        last.iter()
            .zip(["last", "caller", "leaf"])
            .all(|(entry, name)| entry.split(' ').next() == Some(name))
    });
    ensure(is_there && before.descents > 1, || format!("{before:?}"))?;
    let listed = named("list", &image)?;
    ensure(listed == before.entries, || format!("{listed:?}\n{before:?}"))?;
    run(mcount(&["sort"]).arg(&image))?;
    let after = Walk::of(case, &image)?;
    ensure(after.descents == 0, || format!("{after:?}"))?;
    ensure(after.multiset() == before.multiset(), || format!("{before:?}\n{after:?}"))?;
    let listed = named("list", &image)?;
    ensure(listed == after.entries, || format!("{listed:?}\n{after:?}"))?;
    ensure(relocations(&image)?.values().sum::<usize>() == count, || "lost".to_owned())?;
    no_warnings(&image)?;
    let new = read(&image)?;
    run(mcount(&["sort"]).arg(&image))?;
    ensure(read(&image)? == new, || "sorting twice is not sorting once".to_owned())
}

/// The entry that a compiler or a human makes of a Thumb function's name has bit 0 set, and Linux clears
/// it: it leads to the function's area.
fn thumb_bit(case: &Case, shared: &Shared) -> Result<(), String> {
    let out = temporary()?;
    let image = with_areas(case, shared, out.path())?;
    let walked = Walk::of(case, &image)?.entries;
    ensure(walked == ["leaf 1"], || format!("{walked:?}"))?;
    let listed = run(mcount(&["list", "--policy", "all"]).arg(&image))?;
    let is_known = listed.contains(" leaf+0x0 ") && listed.contains("patchable");
    ensure(is_known && !listed.contains("not a site"), || listed)?;
    let rules = ["check", "--policy", "all", "--deny", "all", "--allow", "unsorted"];
    let (code, text) = said(&rules, &image)?;
    ensure(!text.contains("misaligned") && !text.contains("wrong-offset"), || text.clone())?;
    ensure(!text.contains("not-a-call-site") && !text.contains("leaf"), || text)?;
    ensure(code != Some(2), || "check failed".to_owned())
}

/// strip takes out the relocations that were kept, and leaves the section indices of the dynamic symbols
/// as they were: those are wrong then.
fn kept_stripped(case: &Case, shared: &Shared) -> Result<(), String> {
    let (folder, out) = (shared.objects(case)?, temporary()?);
    let image = link(case, &folder, &recorded(&folder), out.path())?;
    let before = named("scan", &image)?;
    run(Command::new(case.target.toolchain.utility("strip")).arg(&image))?;
    let after = named("scan", &image)?;
    ensure(before.len() == 11 && after.len() == 11, || format!("{before:?}\n{after:?}"))?;
    let is_same = |(old, new): (&String, &String)| old == new || old.starts_with("local_leaf ");
    ensure(before.iter().zip(&after).all(is_same), || format!("{before:?}\n{after:?}"))
}

/// Each function of `imported.c` has its entry, and nothing is wrong with it, with symbols or without.
fn imported(case: &Case, _: &Shared) -> Result<(), String> {
    let out = temporary()?;
    let image = out.path().join("program");
    let mut command = mcount(&["link", "--policy", "all", "--"]);
    command.arg(case.target.toolchain.compiler).args(case.target.toolchain.flags);
    command.args(["-O2", "-pg"]).args(case.flavour.compile).args(case.flavour.link);
    run(command.arg(crate::build::images().join("imported.c")).arg("-o").arg(&image))?;
    let stripped = out.path().join("stripped");
    let strip = case.target.toolchain.utility("strip");
    run(Command::new(strip).arg("-o").arg(&stripped).arg(&image))?;
    for file in [&image, &stripped] {
        let scanned = run(mcount(&["scan", "--policy", "all"]).arg(file))?;
        let sites = scanned.lines().filter(|line| line.ends_with(" recorded")).count();
        ensure(sites == 3 && scanned.lines().count() == 5, || scanned)?;
        run(mcount(&["check", "--policy", "all", "--deny", "all"]).arg(file))?;
    }
    Ok(())
}
