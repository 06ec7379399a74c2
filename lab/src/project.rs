//! Builds C projects of many files from Debian's sources by their own makefiles, once with
//! `mcount cc` before the compiler and once with `mcount link`; compares every table with what objdump
//! disassembles, and the tables of both builds with each other; then turns every call into a NOP by
//! its table, and lets the program show that it still works.
//!
//! The truth is the text that binutils print, read here: no code is shared with mcount. `apt-get`
//! fetches the sources ([`crate::sources`]).
//!
//! With `--budget`, it is measured whether tracing keeps to one ([`crate::budget`]). With `--attach`, a server is attached to
//! while it's under load ([`crate::attached`]); with `--patch`, one is mended ([`crate::patched`]).
//!
//! With `--numbers` and `--slow-down`, what `mcount stats` and `mcount diff` say of programs is held against something else
//! ([`crate::acceptance`]).
//!
//! With `--trace`, other programs run their own tests traced ([`crate::traced`]).

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use lexopt::{Arg, ValueExt as _};

use crate::programs;
use crate::sources::{shell, unpack};
use crate::{Result, acceptance, attached, budget, files, patched, traced};

const USAGE: &str = "\
usage: cargo lab project [OPTION…]

  --mcount PATH   the program to test (default: target/release/mcount, built now)
  --trace         build real programs, and run their own tests with `mcount trace` and without
  --only NAME     with --trace: only builds whose name has this in it; may be given again
  --numbers       compare the numbers of `mcount stats` with those of a script, for lua, sqlite and zstd
  --slow-down     make a function of lua 5 % slower; `mcount diff` has to find that, ten times of ten
  --attach N      attach to redis under load N times, for a second each
  --budget        measure what mcount top --budget 2% costs lua and redis
  --patch         mend a leak and a wrong bound in redis and in lua while they work, and revert
  --docs          with --trace: write what was found, now and before, to docs/evidence.md
";

/// The hook that the traced functions call; that of the C library counts for gprof.
const HOOK: &str = "void __fentry__(void) {}\n";

const FLAGS: &str = "-O2 -pg -mfentry";

/// A chore of its own: `mcount`, and where it may work.
type Chore = fn(&Path, &Path) -> Result<bool>;

/// The hook symbol.
const SYMBOL: &str = "__fentry__";

/// A project. In commands, `{cc}`, `{hook}` and `{flags}` stand for the compiler with `mcount cc`,
/// the object with the hook, and [`FLAGS`].
struct Project {
    /// Its source package.
    package: &'static str,
    /// How it is built, by sh.
    build: &'static str,
    /// The folder of its objects.
    objects: &'static str,
    /// The linked images.
    images: &'static [&'static str],
    /// A command that shows that it works, and what that prints.
    trial: (&'static str, &'static str),
}

const PROJECTS: &[Project] = &[
    Project {
        package: "lua5.4",
        build: "make -C src linux CC='{cc} -std=gnu99' MYCFLAGS='{flags}' MYLIBS='{hook}'",
        objects: "src",
        images: &["src/lua", "src/luac"],
        trial: (
            "src/lua -e 'local t = {} for i = 1, 1e5 do t[i] = i * i end \
             table.sort(t, function(a, b) return a > b end) \
             print(#t, t[1], (string.rep(\"ab\", 3):gsub(\"a\", \"c\")))'",
            "100000\t10000000000\tcbcbcb\n",
        ),
    },
    Project {
        package: "zlib",
        build: "CC='{cc}' CFLAGS='{flags}' LDFLAGS='{hook}' ./configure && make",
        objects: ".",
        images: &["libz.so", "minigzip", "example"],
        trial: (
            "make test >/dev/null && ./minigzip <zlib.h | ./minigzip -d | cmp - zlib.h && echo same",
            "same\n",
        ),
    },
];

/// Instructions by section and offset or, in an image, by address alone.
type Places = BTreeSet<(String, u64)>;

/// Runs the chore: `false` when a table is wrong or a program does not work.
pub(crate) fn run(mut parser: lexopt::Parser) -> Result<bool> {
    let mut mcount = None;
    let mut is_trace = false;
    let mut is_patch = false;
    let (mut attached, mut chore) = (None, None);
    let mut is_budget = false;
    let (mut only, mut docs) = (Vec::new(), false);
    while let Some(argument) = parser.next()? {
        match argument {
            Arg::Long("mcount") => mcount = Some(PathBuf::from(parser.value()?)),
            Arg::Long("trace") => is_trace = true,
            Arg::Long("patch") => is_patch = true,
            Arg::Long("numbers") => chore = Some(acceptance::numbers as Chore),
            Arg::Long("slow-down") => chore = Some(acceptance::slow_down as Chore),
            Arg::Long("attach") => attached = Some(parser.value()?.parse()?),
            Arg::Long("budget") => is_budget = true,
            Arg::Long("only") => only.push(parser.value()?.string()?),
            Arg::Long("docs") => docs = true,
            Arg::Short('h') | Arg::Long("help") => {
                print!("{USAGE}");
                return Ok(true);
            }
            other => return Err(other.unexpected().into()),
        }
    }
    let mcount = programs::mcount(mcount)?;
    let root = files::target().join("project");
    files::make_folder(&root)?;
    if let Some(chore) = chore {
        return chore(&mcount, &root);
    }
    if let Some(count) = attached {
        return attached::run(&mcount, &root, count);
    }
    if is_budget {
        return budget::run(&mcount, &root);
    }
    if is_patch {
        return patched::run(&mcount, &root);
    }
    if is_trace {
        return traced::run(&mcount, &root, &only, docs);
    }
    files::write(&root.join("hook.c"), HOOK.as_bytes())?;
    shell(&root, "gcc -O2 -c hook.c")?;
    let mut all_well = true;
    for project in PROJECTS {
        all_well &= check(project, &root, &mcount)?;
    }
    Ok(all_well)
}

/// Builds `project` anew, twice, and compares.
fn check(project: &Project, root: &Path, mcount: &Path) -> Result<bool> {
    let name = project.package;
    let source = build(project, root, mcount, "cc")?;
    let (objects, sites, mut wrong) = check_objects(&source.join(project.objects))?;
    let (recorded, wrong_images) = check_images(project, &source)?;
    let mut works = is_working(project, &source)?;
    wrong += wrong_images;

    let source = build(project, root, mcount, "link")?;
    let (late, wrong_images) = check_images(project, &source)?;
    wrong += wrong_images;
    works &= is_working(project, &source)?;
    let equal = recorded == late;

    for image in project.images {
        shell(&source, &format!("'{}' nop {image}", mcount.display()))?;
        let calls = calls(&objdump(&["-d"], &source.join(image))?).len();
        wrong += calls;
    }
    works &= is_working(project, &source)?;
    let images = project.images.len();
    println!("{name}: {objects} objects with {sites} call sites, {images} images: {wrong} wrong");
    println!("{name}: the tables of cc and link are {}", if equal { "equal" } else { "different" });
    println!("{name}: {}", if works { "works, with NOPs too" } else { "does not work" });
    Ok(wrong == 0 && works && equal && objects > 0 && sites > 0)
}

/// Builds `project` in a new folder, with `mcount COMMAND` before the compiler; the folder.
fn build(project: &Project, root: &Path, mcount: &Path, command: &str) -> Result<PathBuf> {
    let source = unpack(project.package, root, &root.join(project.package))?;
    let build = project
        .build
        .replace("{cc}", &format!("{} {command} -- gcc", mcount.display()))
        .replace("{flags}", FLAGS)
        .replace("{hook}", &root.join("hook.o").display().to_string());
    shell(&source, &build)?;
    Ok(source)
}

/// Compares the table of each object with its calls: how many objects, sites, differences.
fn check_objects(folder: &Path) -> Result<(usize, usize, usize)> {
    let (mut objects, mut sites, mut wrong) = (0, 0, 0);
    for object in files::list(folder)? {
        if !matches!(object.extension().and_then(|end| end.to_str()), Some("o" | "lo")) {
            continue;
        }
        let calls = calls(&objdump(&["-dr"], &object)?);
        let table = object_table(&objdump(&["-r", "-j", "__mcount_loc"], &object)?)?;
        wrong += compare(&object, &calls, &table);
        objects += 1;
        sites += calls.len();
    }
    Ok((objects, sites, wrong))
}

/// Compares the table of each image with its calls: the tables, and how many differences.
fn check_images(project: &Project, source: &Path) -> Result<(Vec<Places>, usize)> {
    let (mut tables, mut wrong) = (Vec::new(), 0);
    for image in project.images.iter().map(|image| source.join(image)) {
        let calls = calls(&objdump(&["-d"], &image)?).into_iter();
        let calls = calls.map(|(_, address)| (String::new(), address)).collect();
        let table = image_table(&image)?;
        wrong += compare(&image, &calls, &table);
        tables.push(table);
    }
    Ok((tables, wrong))
}

fn is_working(project: &Project, source: &Path) -> Result<bool> {
    let (trial, expected) = project.trial;
    Ok(shell(source, trial)? == expected)
}

fn objdump(options: &[&str], file: &Path) -> Result<String> {
    let output = Command::new("objdump").args(options).arg(file).output()?;
    Ok(String::from_utf8(output.stdout)?)
}

/// The instructions that call the hook, in a disassembly: those with a relocation to it, or with
/// its name as their target.
fn calls(text: &str) -> Places {
    let mut places = Places::new();
    let mut section = "";
    let mut instruction = None;
    for line in text.lines() {
        if let Some(name) = line.strip_prefix("Disassembly of section ") {
            section = name.trim_end_matches(':');
            continue;
        }
        // "   0:\tff 15 …" or "\t\t\t2: R_X86_64_…".
        let Some((address, rest)) = line.trim_start().split_once(':') else { continue };
        let rest = rest.trim_start();
        let Ok(address) = u64::from_str_radix(address, 16) else { continue };
        let is_relocation = rest.starts_with("R_");
        if !is_relocation {
            instruction = Some(address);
        }
        let symbol = rest.rsplit(['\t', '<']).next().unwrap_or_default();
        let is_call = is_relocation || rest.contains("call");
        if let (Some(address), true, true) = (instruction, is_call, symbol.starts_with(SYMBOL)) {
            places.insert((section.to_owned(), address));
        }
    }
    places
}

/// The entries of an object's table, from what objdump says of its relocations.
fn object_table(text: &str) -> Result<Places> {
    let mut places = Places::new();
    for line in text.lines() {
        let mut words = line.split_whitespace();
        let (Some(_), Some("R_X86_64_64"), Some(value)) =
            (words.next(), words.next(), words.next())
        else {
            continue;
        };
        let (section, offset) = value.split_once("+0x").unwrap_or((value, "0"));
        let place = (section.to_owned(), u64::from_str_radix(offset, 16)?);
        if !places.insert(place) {
            return Err(format!("an entry is there twice: {line}").into());
        }
    }
    Ok(places)
}

/// The entries of the table of a position-independent image, from its relative relocations.
fn image_table(image: &Path) -> Result<Places> {
    let headers = readelf("-SW", image)?;
    let line = headers.lines().find(|line| line.contains(" __mcount_loc "));
    let line = line.ok_or_else(|| format!("{} has no table", image.display()))?;
    let mut numbers = line.split_whitespace().skip_while(|word| *word != "PROGBITS").skip(1);
    let mut number = || u64::from_str_radix(numbers.next().unwrap_or_default(), 16);
    let (start, _, size) = (number()?, number()?, number()?);
    let mut places = Places::new();
    for line in readelf("-rW", image)?.lines() {
        let words: Vec<&str> = line.split_whitespace().collect();
        let [at, _, "R_X86_64_RELATIVE", to] = words[..] else { continue };
        let at = u64::from_str_radix(at, 16)?;
        if (start..start + size).contains(&at) {
            places.insert((String::new(), u64::from_str_radix(to, 16)?));
        }
    }
    if places.len() as u64 * 8 != size {
        return Err(format!("{}: entries without relocation", image.display()).into());
    }
    Ok(places)
}

fn readelf(option: &str, image: &Path) -> Result<String> {
    let output = Command::new("readelf").arg(option).arg(image).output()?;
    Ok(String::from_utf8(output.stdout)?)
}

/// Prints what differs, and counts it.
fn compare(file: &Path, calls: &Places, table: &Places) -> usize {
    let differences: BTreeMap<&(String, u64), &str> = calls
        .difference(table)
        .map(|place| (place, "missing from the table"))
        .chain(table.difference(calls).map(|place| (place, "no call site")))
        .collect();
    for ((section, offset), what) in &differences {
        println!("{}: {section}+{offset:#x}: {what}", file.display());
    }
    differences.len()
}
