//! Which patchable entries a call comes by, according to the disassembly: every N from 0 to 20 with every M up to N, alone,
//! with `-pg -mfentry`, and with kCFI.
//!
//! NOPs that a call of that address comes by are a site. An area that ends before is padding, as kernels for x86-64
//! have with `CONFIG_CALL_PADDING`.

use super::{Case, IN_ORDER, LIST, link, same};
use mcount::{Base, CallSite, CheckOptions, Kind, Level, Options, Policy, RecordOptions};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::process::Command;
use testkit::process::run;
use testkit::reader;
use testkit::room::Room;
use testkit::tools::need;
use testkit::trial::ignore;

const GREATEST: u64 = 20;
/// kCFI has its hash before these, and Linux adds as many NOPs as make both together 64 bytes.
const OF_KERNELS: (u64, u64) = (59, 59);

/// One way of asking for hooks.
pub(super) struct Way {
    pub(super) name: &'static str,
    flags: &'static [&'static str],
    /// What targets of clang, or names of gcc, begin with.
    processors: &'static [&'static str],
    /// Not all compilers have it.
    is_optional: bool,
    /// gcc has no such option.
    is_of_clang: bool,
}

pub(super) const WAYS: &[Way] = &[
    Way { name: "alone", flags: &[], processors: &[""], is_optional: false, is_of_clang: false },
    Way {
        name: "fentry",
        flags: &["-pg", "-mfentry"],
        processors: &["x86_64-linux-gnu"],
        is_optional: false,
        is_of_clang: false,
    },
    Way {
        name: "kcfi",
        flags: &["-fsanitize=kcfi"],
        processors: &["x86_64-linux-gnu", "aarch64-", "riscv64-"],
        is_optional: true,
        is_of_clang: true,
    },
    Way {
        name: "kcfi-fentry",
        flags: &["-fsanitize=kcfi", "-pg", "-mfentry"],
        processors: &["x86_64-linux-gnu"],
        is_optional: true,
        is_of_clang: true,
    },
];

impl Way {
    pub(super) fn is_for(&self, case: &Case) -> bool {
        let is_clang = case.compiler.starts_with("clang");
        let target = case.flags.iter().find_map(|flag| flag.strip_prefix("--target="));
        let name = target.unwrap_or(&case.compiler);
        let is_it =
            |start: &&str| name.strip_prefix(*start).is_some_and(|rest| !rest.starts_with("x32"));
        (is_clang || !self.is_of_clang) && self.processors.iter().any(is_it)
    }
}

/// A site: function, bytes from its start, bytes of NOPs; none of a call.
type Site = (String, i64, Option<u64>);

/// What `objdump` prints of an object's only section with functions.
pub(super) struct Listing {
    /// The text of each instruction and its size, by offset.
    instructions: BTreeMap<u64, (String, u64)>,
    pub(super) functions: BTreeMap<String, u64>,
    /// Where `__fentry__` is called.
    calls: Vec<u64>,
}

pub(super) fn perform(case: &Case, way: &Way) -> Result<(), String> {
    need([case.compiler.as_str(), &case.linker, &case.objdump, &case.objcopy]);
    let room = Room::new()?;
    let source = room.put("areas.c", source(case).as_bytes())?;
    let object = room.path("areas.o");
    let mut command = Command::new(&case.compiler);
    command.args(&case.flags).args(way.flags).args(["-O1", "-w", "-ffreestanding", "-fno-pic"]);
    let compiled = run(command.arg("-c").arg(&source).arg("-o").arg(&object));
    let file = compiled.and_then(|_| room.get("areas.o"));
    let entries = file.as_ref().map_err(String::clone).and_then(|file| reader::table(file, LIST));
    let is_nothing = entries.as_ref().map_or(true, Vec::is_empty);
    if is_nothing && (case.is_optional || way.is_optional) {
        ignore("this compiler has no patchable entries for it");
    }
    let (file, mut entries) = (file?, entries?);
    entries.sort_by_key(|place| (place.index, place.offset));
    // It prints more than a pipe holds.
    let mut disassemble = Command::new(&case.objdump);
    disassemble.args(["-d", "-r", "-z", "--no-show-raw-insn"]).arg(&object);
    let printed = disassemble.output().map_err(|error| format!("{}: {error}", case.objdump))?;
    let listing = Listing::of(&String::from_utf8_lossy(&printed.stdout));
    let bit = u64::from(case.unit != 1);
    let places: Vec<u64> = entries.iter().map(|place| place.offset & !bit).collect();
    let expected = expected(case, &listing, &places)?;
    judge("object", &file, &expected)?;
    if !is_before(case) {
        name_padding(case, &room, &entries)?;
        judge("object with names of padding", &room.get("named.o")?, &expected)?;
    }
    link(case, &room, "areas.o", "image")?;
    judge("image", &room.get("image")?, &expected)
}

/// gcc 12 puts all areas of MIPS before their functions.
fn is_before(case: &Case) -> bool {
    case.compiler.starts_with("mips")
}

/// Gives padding the names that objtool gives it in kernels.
fn name_padding(case: &Case, room: &Room, entries: &[reader::Place]) -> Result<(), String> {
    let listed = lengths().filter(|(n, _)| *n != 0).zip(entries);
    let mut command = Command::new(&case.objcopy);
    for ((n, m), place) in listed.filter(|((n, m), _)| n == m) {
        let (section, offset) = (&place.section, place.offset);
        let symbol = format!("__pfx_f_{n}_{m}={section}:{offset:#x},function,local");
        command.args(["--add-symbol", &symbol]);
    }
    run(command.arg(room.path("areas.o")).arg(room.path("named.o"))).map(drop)
}

/// N and M of each function, in order.
fn lengths() -> impl Iterator<Item = (u64, u64)> {
    let all = (0..=GREATEST).flat_map(|n| (0..=n).map(move |m| (n, m)));
    all.chain([OF_KERNELS])
}

fn source(case: &Case) -> String {
    let (head, data) = case.data();
    let mut source = head.to_owned();
    source += "__attribute__((no_instrument_function)) void __fentry__(void) {}\n";
    for (n, m) in lengths() {
        let attribute = format!("__attribute__((patchable_function_entry({n}, {m})))");
        let _ = writeln!(source, "{attribute} int f_{n}_{m}(int x) {{ return x{data} + {n}; }}");
    }
    source
}

/// The sites, by what the compiler's list leads to and what calls come by there.
fn expected(case: &Case, listing: &Listing, places: &[u64]) -> Result<Vec<Site>, String> {
    let mut sites = Vec::new();
    let listed: Vec<_> = lengths().filter(|(n, _)| *n != 0).collect();
    same("entries of the list", &[places.len()], &[listed.len()])?;
    for ((n, m), place) in listed.into_iter().zip(places) {
        let name = format!("f_{n}_{m}");
        let start = *listing.functions.get(&name).ok_or_else(|| format!("no {name}"))?;
        let before = listing.nops(*place, start);
        let (first, reached) = listing.reached(start);
        let counts = [before + reached];
        same(&format!("NOPs of {name}"), &counts, &[n * case.unit])?;
        if reached != 0 || is_before(case) {
            let site = if before == 0 { first } else { *place };
            sites.push((name, site.cast_signed() - start.cast_signed(), Some(counts[0])));
        }
    }
    for call in &listing.calls {
        let starts = listing.functions.iter().filter(|(_, start)| *start <= call);
        let (name, start) = starts.max_by_key(|(_, start)| **start).ok_or("a call nowhere")?;
        sites.push((name.clone(), call.cast_signed() - start.cast_signed(), None));
    }
    sites.sort();
    Ok(sites)
}

impl Listing {
    pub(super) fn of(printed: &str) -> Self {
        let (mut texts, mut functions) = (BTreeMap::new(), BTreeMap::new());
        let mut calls = Vec::new();
        for line in printed.lines() {
            if let Some((at, name)) = line.strip_suffix(">:").and_then(|line| line.split_once(" <"))
            {
                let name = name.strip_prefix('.').unwrap_or(name);
                let is_it = name.starts_with("f_") || name == "__fentry__";
                if let Some(at) = u64::from_str_radix(at, 16).ok().filter(|_| is_it) {
                    functions.insert(name.to_owned(), at);
                }
                continue;
            }
            let Some((at, text)) = line.split_once(':') else { continue };
            let Ok(at) = u64::from_str_radix(at.trim(), 16) else { continue };
            let text = text.trim();
            if !text.starts_with("R_") {
                texts.insert(at, text.to_owned());
            } else if text.contains("__fentry__") {
                // The opcode is before the distance.
                calls.push(at - 1);
            }
        }
        let following: Vec<u64> = texts.keys().skip(1).copied().collect();
        let sized = texts.into_iter().zip(following);
        let instructions = sized.map(|((at, text), next)| (at, (text, next - at))).collect();
        Self { instructions, functions, calls }
    }

    /// Bytes of the NOPs from `at` on, and before `end`.
    fn nops(&self, at: u64, end: u64) -> u64 {
        let run = self.instructions.range(at..end.max(at));
        let nops = run.take_while(|(_, (text, _))| is_nop(text));
        nops.map(|(_, (_, size))| size).sum()
    }

    /// The first NOP that a call of `start` comes by, and the bytes of all that follow it. Before them are at most a landing
    /// pad or what sets the TOC pointer.
    pub(super) fn reached(&self, start: u64) -> (u64, u64) {
        let mut run = self.instructions.range(start..).skip_while(|(_, (text, _))| is_entry(text));
        let first = run.next().map_or(start, |(at, _)| *at);
        (first, self.nops(first, u64::MAX))
    }
}

fn is_nop(text: &str) -> bool {
    let words: Vec<_> = text.split([' ', '\t', ',']).filter(|word| !word.is_empty()).collect();
    let is_move_to_itself = match words.as_slice() {
        ["xchg" | "mov", one, other, ..] => one == other,
        // s390's is a branch on no condition.
        ["bcr", "0", ..] => true,
        _ => false,
    };
    is_move_to_itself || words.iter().any(|word| word.starts_with("nop") || *word == "c.nop")
}

/// Is it a landing pad, or an instruction that sets PowerPC's TOC pointer?
fn is_entry(text: &str) -> bool {
    let words: Vec<_> = text.split([' ', '\t', ',']).filter(|word| !word.is_empty()).collect();
    matches!(
        words.as_slice(),
        ["endbr64" | "endbr32" | "bti" | "paciasp", ..]
            | ["hint", "#34" | "#0x22", ..]
            | ["addis" | "addi", "2" | "r2", "2" | "12" | "r2" | "r12", ..]
            | ["lis", "2" | "r2", ..]
    )
}

/// `scan`, `list` and `check` know the sites and no others.
fn judge(what: &str, file: &[u8], expected: &[Site]) -> Result<(), String> {
    let options = Options::default().policy(Policy::of(Base::All));
    let text = |error: mcount::Error| format!("{what}: {error}");
    let sites = mcount::scan(file, &options).map_err(text)?.sites;
    same(what, &found(&sites), expected)?;
    let areas: Vec<_> = expected.iter().filter(|site| site.2.is_some()).cloned().collect();
    let listed = mcount::read_table(file, &options).map_err(text)?.sites;
    same(&format!("list of the {what}"), &found(&listed), &areas)?;
    if areas.len() != expected.len() && what == "image" {
        return Ok(());
    }
    let recording = mcount::record(file, &options, &RecordOptions::default());
    let recorded = recording.ok().and_then(|recording| recording.change);
    let recorded = recorded.map_or_else(|| file.to_vec(), |change| change.apply(file));
    let any = CheckOptions::default().min_area(Some(1));
    let findings = mcount::check(&recorded, &options, &any).map_err(text)?;
    let denied = findings.iter().filter(|finding| finding.rule.default_level() == Level::Deny);
    let denied: Vec<_> = denied.map(|finding| format!("{finding:?}")).collect();
    same(&format!("check of the {what}"), &denied, &[])
}

fn found(sites: &[CallSite]) -> Vec<Site> {
    let site = |site: &CallSite| {
        let name = site.symbol.as_deref().unwrap_or_default();
        let size = site.size.filter(|_| site.kind != Some(Kind::Call));
        (name.strip_prefix('.').unwrap_or(name).to_owned(), site.symbol_offset.unwrap_or(-1), size)
    };
    let mut found: Vec<_> = sites.iter().map(site).collect();
    found.sort();
    found
}

/// The name of the trial.
pub(super) fn title(case: &Case, way: &Way) -> String {
    let flags: Vec<_> = case.flags.iter().filter(|flag| *flag != IN_ORDER).cloned().collect();
    let name = format!("{} {} {}", way.name, case.compiler, flags.join(" "));
    name.trim_end().replace(' ', "::")
}
