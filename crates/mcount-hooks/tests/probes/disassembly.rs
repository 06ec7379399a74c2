//! Does `objdump` agree? For libraries of the system, which we didn't write: does each plan end where an instruction of `objdump`'s
//! ends, and does no branch of its lead inside? CI looks at some of them, `MCOUNT_SAMPLE` says which; `cargo lab plan` at more.

use super::machines::{AARCH64, Machine, X86_64};
use mcount_cpu::probe::{Kind, Piece, References, Relocated};
use mcount_hooks::code::Code;
use mcount_hooks::probe::{Plan, Planner};
use object::read::Section;
use object::{Object, ObjectSection, ObjectSegment, SectionKind};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;
use testkit::{files, sample, test};

/// Libraries for a machine.
fn libraries(machine: &Machine) -> Vec<&'static str> {
    let Ok(entries) = machine.libraries().read_dir() else { return Vec::new() };
    let mut found = BTreeSet::new();
    for entry in entries.flatten() {
        let name = entry.file_name().to_string_lossy().into_owned();
        let is_small =
            entry.path().metadata().is_ok_and(|one| one.is_file() && one.len() < 1 << 21);
        if name.starts_with("lib") && name.contains(".so.") && is_small {
            found.extend(entry.path().canonicalize());
        }
    }
    let paths =
        found.into_iter().filter_map(|path: PathBuf| path.into_os_string().into_string().ok());
    sample::one_in(16, paths.map(|path| &*path.leak()).collect())
}

/// What `objdump` says: instructions, and where direct branches lead, with where they are.
#[derive(Default)]
struct Listing {
    texts: BTreeMap<u64, String>,
    targets: BTreeMap<u64, u64>,
}

fn number(text: &str) -> Option<u64> {
    u64::from_str_radix(text.trim_start_matches("0x"), 16).ok()
}

impl Listing {
    fn of(command: &mut Command) -> Self {
        let output = command.args(["-w", "--no-show-raw-insn"]).output().unwrap();
        let mut all = Self::default();
        for line in String::from_utf8_lossy(&output.stdout).lines() {
            let Some((address, text)) = line.trim_start().split_once(":\t") else { continue };
            let Some(address) = number(address) else { continue };
            let text = without_place(text);
            let target = target_of(&text);
            all.targets.extend(target.map(|target| (target, address)));
            all.texts.insert(address, text);
        }
        all
    }

    /// What's in a file whose functions start at `starts`. There may be data between functions, so `objdump` gets their symbols.
    fn of_file(machine: &Machine, path: &Path, starts: impl Iterator<Item = u64>) -> Self {
        let bytes = files::read(path).unwrap();
        let file = object::File::parse(&*bytes).unwrap();
        let sections: Vec<_> =
            file.sections().filter(|one| one.kind() == SectionKind::Text).collect();
        let mut symbols = String::new();
        for start in starts {
            let is_in = |one: &&Section<'_, '_>| {
                (one.address()..one.address() + one.size()).contains(&start)
            };
            let Some(section) = sections.iter().find(is_in) else { continue };
            let (name, offset) = (section.name().unwrap(), start - section.address());
            let symbol = format!("f{start:x}={name}:{offset:#x},function,global");
            symbols.extend(["--add-symbol ", &symbol, "\n"]);
        }
        let scratch = tempfile::tempdir().unwrap();
        let [list, named] = ["list", "named"].map(|name| scratch.path().join(name));
        files::write(&list, symbols.as_bytes()).unwrap();
        let list = format!("@{}", list.display());
        let output = Command::new(machine.utility("objcopy"))
            .arg(list)
            .arg(path)
            .arg(&named)
            .output()
            .unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
        Self::of(Command::new(machine.utility("objdump")).arg("-d").arg(&named))
    }

    fn of_code(machine: &Machine, code: &[u8], address: u64) -> Self {
        let scratch = tempfile::tempdir().unwrap();
        let path = scratch.path().join("code");
        files::write(&path, code).unwrap();
        let mut command = Command::new(machine.utility("objdump"));
        command.args(["-D", "-b", "binary", "-m", machine.bare]);
        Self::of(command.arg(format!("--adjust-vma={address:#x}")).arg(&path))
    }
}

/// Where a direct branch leads.
fn target_of(text: &str) -> Option<u64> {
    let mut words = text.split([' ', ',']).filter(|word| !word.is_empty());
    let first = words.next()?;
    let is_of_words = |word: &str| {
        matches!(word, "b" | "bl" | "cbz" | "cbnz" | "tbz" | "tbnz")
            || word.starts_with("b.")
            || word.starts_with("bc.")
    };
    if is_of_words(first) {
        return words.next_back().and_then(number);
    }
    let is_branch = |word: &str| word.starts_with(['j', 'l']) || word.starts_with("call");
    let mut words = text.split(' ');
    words.find(|word| is_branch(word)).and(words.next()).and_then(number)
}

/// An instruction without names, and without what is different elsewhere: how far away things are, but not where.
fn without_place(text: &str) -> String {
    const PREFIXES: [&str; 5] = ["bnd", "data16", "rex.W", "ds", "cs"];
    let text = text.split(" <").next().unwrap_or_default();
    let words = text.split_whitespace().filter(|word| !PREFIXES.contains(word));
    let words = words.map(|word| match word.rsplit_once("(%rip)") {
        Some((before, after)) => {
            let start = before.rfind([',', '*']).map_or(0, |at| at + 1);
            format!("{}(%rip){after}", &before[..start])
        }
        None => {
            word.trim_start_matches("0x").trim_end_matches(",pn").trim_end_matches(",pt").to_owned()
        }
    });
    words.collect::<Vec<_>>().join(" ")
}

#[test(each = libraries(&X86_64))]
fn agrees(path: &'static str) {
    agree(&X86_64, Path::new(path));
}

#[test(each = libraries(&AARCH64))]
fn agrees_on_aarch64(path: &'static str) {
    agree(&AARCH64, Path::new(path));
}

fn agree(machine: &Machine, path: &Path) {
    machine.need(&["objdump", "objcopy"]);
    let bytes = files::read(path).unwrap();
    let planner = Planner::new(&bytes).unwrap();
    let listing =
        Listing::of_file(machine, path, planner.functions().map(|function| function.range.start));
    let mut count = 0;
    for function in planner.functions() {
        let Ok(plan) = planner.plan(&function) else { continue };
        count += 1;
        check(machine, &plan, &listing);
    }
    assert!(count > 0 || bytes.len() < 1 << 15, "nothing was planned");
}

fn check(machine: &Machine, plan: &Plan, listing: &Listing) {
    let jump = machine.probes.jump;
    let end = plan.entry + plan.moved as u64;
    let at = format!("{plan:x?}");
    assert!(listing.texts.contains_key(&plan.entry), "{at}");
    // Behind the last function of a section there may be nothing.
    let is_end = plan.moved < jump || end == plan.function.end || listing.texts.contains_key(&end);
    assert!(is_end, "{at}");
    let first = if plan.is_signed { plan.entry } else { plan.entry + 1 };
    let inside = first..plan.entry + plan.replaced as u64;
    let first = listing.targets.range(inside).next();
    assert_eq!(first, None, "{at}");
    let signs = |text: &String| text == "paciasp" || text == "pacibsp";
    let before = listing.texts.get(&(plan.entry - 4)).is_some_and(signs);
    assert!(plan.is_signed == (before && plan.entry > plan.function.start), "{at}");
    assert!(plan.replaced >= jump && plan.moved <= plan.replaced && plan.moved > 0, "{at}");
    let starts = plan.rows.iter().map(|row| plan.entry + row.offset as u64);
    assert!(starts.clone().all(|start| listing.texts.contains_key(&start)), "{at}");
    // A row may begin where the jump back is.
    assert!(starts.clone().all(|start| start <= end), "{at}");
}

/// Room for a stub.
const STUB: usize = 96;

#[test(each = libraries(&X86_64))]
fn moves(path: &'static str) {
    move_all(&X86_64, Path::new(path));
}

#[test(each = libraries(&AARCH64))]
fn moves_on_aarch64(path: &'static str) {
    move_all(&AARCH64, Path::new(path));
}

fn move_all(machine: &Machine, path: &Path) {
    machine.need(&["objdump", "objcopy"]);
    let bytes = files::read(path).unwrap();
    let planner = Planner::new(&bytes).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let code = Code::of(&file, 32);
    let end = file.segments().map(|one| one.address() + one.size()).max().unwrap();
    let room = end.next_multiple_of(4096);
    let (mut stubs, mut plans) = (Vec::new(), Vec::new());
    for function in planner.functions() {
        let Ok(plan) = planner.plan(&function) else { continue };
        let to = room + (stubs.len()) as u64;
        let moved =
            (machine.probes.relocate)(&code.at(plan.entry)[..plan.moved], plan.entry, to).unwrap();
        assert!(moved.code.len() <= machine.probes.moved_most, "{plan:x?} {moved:x?}");
        stubs.extend(&moved.code);
        stubs.resize(stubs.len().next_multiple_of(STUB), 0x90);
        plans.push((plan, to, moved));
    }
    let old =
        Listing::of_file(machine, path, planner.functions().map(|function| function.range.start));
    let new = Listing::of_code(machine, &stubs, room);
    for (plan, to, moved) in plans {
        compare(machine, &plan, to, &moved, &old, &new);
    }
}

/// Each instruction is the same, and leads to the same, as where it was.
fn compare(
    machine: &Machine,
    plan: &Plan,
    to: u64,
    moved: &Relocated,
    old: &Listing,
    new: &Listing,
) {
    for (from, place) in &moved.places {
        let before = &old.texts[&(plan.entry + *from as u64)];
        let at = to + *place as u64;
        let after = &new.texts[&at];
        let context = format!("{plan:x?} at {at:x}");
        if machine.probes.jump == 4 {
            compare_words(before, at, new);
            continue;
        }
        let (before_word, before_rest) = before.split_once(' ').unwrap_or((before, ""));
        if before_word.starts_with("call") {
            assert_eq!(after.split(' ').next(), Some("push"), "{context}");
            let next = at + 6;
            assert_eq!(new.texts[&next], format!("jmp {before_rest}"), "{context}");
            continue;
        }
        if before_word.starts_with("loop") || before_word.ends_with("cxz") {
            assert!(after.starts_with(before_word), "{context}");
            continue;
        }
        assert_eq!(after, before, "{context}");
    }
    let end = plan.entry + plan.moved as u64;
    let returns = new.targets.contains_key(&end);
    assert!(
        returns || plan.moved < machine.probes.jump || moved.lowered.is_some() || ends(plan, old),
        "{plan:x?}"
    );
}

/// Whether execution ends with the last instruction that moves.
fn ends(plan: &Plan, old: &Listing) -> bool {
    let last = old.texts.range(..plan.entry + plan.moved as u64).next_back().unwrap().1;
    let words = ["b ", "br ", "bl ", "ret", "braa", "brab"];
    last.starts_with("jmp")
        || last.contains("ret")
        || last.contains(" jmp ")
        || words.iter().any(|word| last.starts_with(word))
}

/// The same for AArch64: what depends on the place leads to the same, in other words. `places.rs` runs all of these.
fn compare_words(before: &str, at: u64, new: &Listing) {
    let text = |index: u64| new.texts.get(&(at + 4 * index)).map_or("", String::as_str);
    let word = before.split(' ').next().unwrap_or_default();
    match (word, target_of(before)) {
        ("b", Some(target)) => assert_eq!(target_of(text(0)), Some(target), "{at:x}"),
        ("bl", Some(target)) => {
            let jump = if text(1).starts_with("add") { text(2) } else { text(1) };
            assert!(text(0).starts_with("adrp x30,") && jump.starts_with("b "), "{at:x}");
            assert_eq!(target_of(jump), Some(target), "{at:x}");
        }
        (_, Some(target)) => {
            let condition = before.rsplit_once(' ').map(|(first, _)| first);
            assert_eq!(text(0).rsplit_once(' ').map(|(first, _)| first), condition, "{at:x}");
            assert_eq!(target_of(text(2)), Some(target), "{at:x}");
        }
        ("adr", _) => assert!(text(0).starts_with("adrp"), "{at:x}"),
        ("ldr" | "ldrsw" | "prfm", _) if !before.contains('[') => {}
        _ => assert_eq!(text(0), before, "{at:x}"),
    }
}

/// All direct branches that `objdump` knows of a library are references of ours, and ours are its.
#[test(each = libraries(&AARCH64))]
fn branches_on_aarch64(path: &'static str) {
    AARCH64.need(&["objdump", "objcopy"]);
    let path = Path::new(path);
    let bytes = files::read(path).unwrap();
    let file = object::File::parse(&*bytes).unwrap();
    let Some(section) = file.section_by_name(".text") else { return };
    let (start, code) = (section.address(), section.data().unwrap());
    let end = start + code.len() as u64;
    let everywhere = (start..end).step_by(4);
    let mut references = References::new(&[(start, code)], everywhere);
    let piece = Piece { bytes: code, start, is_fixed: false };
    (AARCH64.probes.scan)(piece, &[], &mut references);
    references.finish();
    let mut command = Command::new(AARCH64.utility("objdump"));
    let listing = Listing::of(command.args(["-D", "-j", ".text"]).arg(path));
    let mut ours = BTreeSet::new();
    for one in references.between(start..end) {
        // Newer branches than `objdump` knows, and data.
        let is_known = listing.texts.get(&one.source).is_some_and(|text| !text.starts_with('.'));
        if is_known && matches!(one.kind, Kind::Call | Kind::Jump) {
            ours.insert((one.source, one.target));
        }
    }
    let theirs = listing.texts.range(start..end).filter_map(|(at, text)| {
        let target = target_of(text).filter(|target| (start..end).contains(target))?;
        Some((*at, target))
    });
    assert_eq!(ours, theirs.collect(), "{}", path.display());
}
