//! Sleds of LLVM's XRay, of every clang that is installed, for both processors whose sleds we know. `llvm-xray` is the oracle.

use libtest_mimic::Arguments;
use mcount::{
    Base, CallSite, CheckOptions, Finding, Kind, LateOptions, NopChange, Options, Policy,
    RecordOptions, Status,
};
use object::{Object, ObjectSection};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, ExitCode};
use testkit::process::run;
use testkit::room::Room;
use testkit::sample::one_in;
use testkit::tools::{need, programs};
use testkit::trial::trial;

const SOURCE: &str = r#"
#ifdef __cplusplus
extern "C" {
#endif
int other(int);
int plain(int n) { return n + 1; }
int tail(int n) { return other(n * 2); }
int loops(int n)
{
    int sum = 0;
    for (int i = 0; i < n; i++)
        sum += other(i);
    if (sum > 7)
        return sum;
    return other(sum) + 1;
}
static __attribute__((noinline)) int hidden(int n) { return other(n) - 1; }
int uses(int n) { return hidden(n) + hidden(n + 1); }
__attribute__((xray_never_instrument)) int never(int n) { return n; }
__attribute__((xray_always_instrument, xray_log_args(1))) int logged(int n) { return n * 3; }
__attribute__((section(".exit.text"))) int elsewhere(int n) { return other(n) ^ 1; }
#ifdef __cplusplus
}
template <typename T> __attribute__((noinline)) T twice(T n) { return n + n + other(1); }
int both(int n) { return twice(n) + twice((long)n); }
#endif
"#;

/// Those that every compiler leaves a sled in.
const WITH_SLED: [&str; 7] = ["plain", "tail", "loops", "hidden", "uses", "logged", "elsewhere"];

const TARGETS: [&str; 2] = ["x86_64-linux-gnu", "aarch64-linux-gnu"];
const LEVELS: [&[&str]; 6] =
    [&["-O0"], &["-O1"], &["-O2"], &["-O3"], &["-O2", "-ffunction-sections"], &["-O2", PROTECTED]];

/// Landing pads, as the target has them.
const PROTECTED: &str = "(landing pads)";

/// One way of compiling.
struct Case {
    compiler: String,
    target: &'static str,
    flags: &'static [&'static str],
    is_cpp: bool,
}

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let mut trials = Vec::new();
    for case in one_in(4, cases()) {
        let language = if case.is_cpp { "c++" } else { "c" };
        let Case { compiler, target, flags, .. } = &case;
        let name = format!("{compiler}::{target}::{}::{language}", flags.join("::"));
        trials.push(trial(name, [], move || perform(&case)));
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut compilers = programs(is_clang);
    if compilers.is_empty() {
        compilers.push("clang".to_owned());
    }
    for compiler in compilers {
        for target in TARGETS {
            for flags in LEVELS {
                let case = |is_cpp| Case { compiler: compiler.clone(), target, flags, is_cpp };
                cases.extend([case(false), case(true)]);
            }
        }
    }
    cases
}

fn is_clang(name: &str) -> bool {
    let version = name.strip_prefix("clang-").unwrap_or_default();
    !version.is_empty() && version.bytes().all(|byte| byte.is_ascii_digit())
}

fn options() -> Options {
    Options::default().policy(Policy::of(Base::All)).nops(true)
}

#[expect(clippy::needless_pass_by_value, reason = "for map_err")]
fn text<E: ToString>(error: E) -> String {
    error.to_string()
}

fn perform(case: &Case) -> Result<(), String> {
    let version = case.compiler.strip_prefix("clang").unwrap_or_default();
    let oracle = format!("llvm-xray{version}");
    need([case.compiler.as_str(), &oracle, "ld.lld"]);
    let room = Room::new()?;
    let object = compile(case, &room)?;
    let image = room.path("image.so");
    let mut link = Command::new(&case.compiler);
    link.args([&format!("--target={}", case.target), "-fuse-ld=lld", "-nostdlib", "-shared"]);
    run(link.arg("-o").arg(&image).arg(&object))?;
    let object = testkit::files::read(&object)?;
    let bytes = testkit::files::read(&image)?;
    right(&oracle, &image, &bytes)?;
    // The linker changes nothing about them.
    if described(&object)? != described(&bytes)? {
        return Err(format!("{:#?}\n{:#?}", described(&object)?, described(&bytes)?));
    }
    untouched(&object, &bytes)?;
    for file in [&object, &bytes] {
        let found = check(file)?;
        if !found.is_empty() {
            return Err(format!("{found:?}"));
        }
    }
    damaged(&bytes)?;
    damaged(&object)
}

fn compile(case: &Case, room: &Room) -> Result<std::path::PathBuf, String> {
    let name = if case.is_cpp { "source.cc" } else { "source.c" };
    let source = room.put(name, SOURCE.as_bytes())?;
    let object = room.path("source.o");
    let is_x86 = case.target.starts_with("x86");
    let pads = if is_x86 { "-fcf-protection=full" } else { "-mbranch-protection=standard" };
    let flags = case.flags.iter().map(|flag| if *flag == PROTECTED { pads } else { *flag });
    let mut command = Command::new(&case.compiler);
    command.arg(format!("--target={}", case.target)).args(flags);
    command.args(["-fPIC", "-ffreestanding", "-fxray-instrument"]);
    command.args(["-fxray-instruction-threshold=1", "-c", "-o"]);
    run(command.arg(&object).arg(&source))?;
    Ok(object)
}

/// The sites are those that LLVM's own tool lists.
fn right(oracle: &str, image: &Path, bytes: &[u8]) -> Result<(), String> {
    let said = run(Command::new(oracle).arg("extract").arg(image))?;
    let mut expected = BTreeSet::new();
    for line in said.lines().filter(|line| line.contains("address: 0x")) {
        let field = |name: &str| {
            let (_, rest) = line.split_once(&format!("{name}: "))?;
            rest.split([',', ' ']).next()
        };
        let address = field("address").and_then(|word| word.strip_prefix("0x"));
        let address = address.and_then(|word| u64::from_str_radix(word, 16).ok());
        let kind = match field("kind") {
            Some("function-enter" | "log-args-enter") => "sled",
            Some("function-exit" | "tail-exit") => "exit-sled",
            other => return Err(format!("{other:?}: {line}")),
        };
        expected.insert((address.ok_or("no address")?, kind));
    }
    let table = mcount::read_table(bytes, &options()).map_err(text)?;
    let listed: BTreeSet<_> = table.sites.iter().filter_map(placed).collect();
    if listed.is_empty() || listed != expected || table.sites.len() != listed.len() {
        return Err(format!("{listed:#x?} instead of {expected:#x?}: {said}"));
    }
    let is_recorded = |site: &CallSite| table.status(site) == Status::Recorded;
    if !table.sites.iter().all(is_recorded) {
        return Err(format!("{table:?}"));
    }
    let found = mcount::scan(bytes, &options()).map_err(text)?;
    let scanned: BTreeSet<_> = found.sites.iter().filter_map(placed).collect();
    expected.retain(|(_, kind)| *kind == "sled");
    if scanned != expected {
        return Err(format!("scan: {scanned:#x?} instead of {expected:#x?}"));
    }
    let names: BTreeSet<_> = found.sites.iter().filter_map(|site| site.symbol.as_deref()).collect();
    let has = |wanted: &&str| names.iter().any(|name| name.contains(wanted));
    if WITH_SLED.iter().all(has) && !names.contains("never") {
        Ok(())
    } else {
        Err(format!("{names:?}"))
    }
}

fn placed(site: &CallSite) -> Option<(u64, &'static str)> {
    Some((site.address?, site.kind?.name()))
}

/// Function, distance from it, kind and size of each entry.
fn described(file: &[u8]) -> Result<BTreeSet<(String, i64, &'static str, u64)>, String> {
    let table = mcount::read_table(file, &options()).map_err(text)?;
    let one = |site: &CallSite| {
        let name = site.symbol.as_deref()?.to_owned();
        Some((name, site.symbol_offset?, site.kind?.name(), site.size?))
    };
    Ok(table.sites.iter().filter_map(one).collect())
}

/// No table of calls has them, and nothing is changed.
fn untouched(object: &[u8], image: &[u8]) -> Result<(), String> {
    let recording = mcount::record(object, &options(), &RecordOptions::default()).map_err(text)?;
    if recording.changed || recording.recorded != 0 {
        return Err(format!("recorded: {recording:?}"));
    }
    let late = mcount::late_table(image, &options(), &LateOptions::default()).map_err(text)?;
    if !late.sites.is_empty() {
        return Err(format!("late: {late:?}"));
    }
    for file in [object, image] {
        let nops = mcount::make_nops(file, &options(), &|_| true).map_err(text)?;
        let is_nothing = match &nops.change {
            NopChange::Object(change) => change.is_none(),
            NopChange::Image(writes) => writes.is_empty(),
        };
        if !is_nothing || nops.made != 0 {
            return Err(format!("{nops:?}"));
        }
    }
    let functions = mcount::functions(object, &options()).map_err(text)?;
    let hooked = functions.functions.iter().filter(|function| !function.sites.is_empty());
    if hooked.clone().all(|function| function.sites.iter().all(|s| s.kind == Some(Kind::Sled))) {
        Ok(())
    } else {
        Err(format!("{:?}", hooked.collect::<Vec<_>>()))
    }
}

fn check(file: &[u8]) -> Result<Vec<Finding>, String> {
    mcount::check(file, &options(), &CheckOptions::default()).map_err(text)
}

/// Each byte of the list is wrong once, and then it's cut: nothing panics, what the byte means is reported, and what isn't about sleds isn't.
fn damaged(file: &[u8]) -> Result<(), String> {
    const ENTRY: usize = 32;
    let parsed = object::File::parse(file).map_err(text)?;
    let list = parsed.section_by_name("xray_instr_map").ok_or("no list")?;
    let (start, size) = list.file_range().ok_or("no bytes")?;
    let is_image = parsed.kind() != object::ObjectKind::Relocatable;
    let (start, size) =
        (usize::try_from(start).map_err(text)?, usize::try_from(size).map_err(text)?);
    for at in 0..size.min(2 * ENTRY) {
        for bit in [0x01, 0x10, 0x80] {
            let mut bad = file.to_vec();
            *bad.get_mut(start + at).ok_or("no byte")? ^= bit;
            let found = check(&bad)?;
            // The words of an object are in its relocations.
            let is_meant = match at % ENTRY {
                0..8 => is_image,
                // Sleds of one processor are alike.
                16 => bit != 0x01,
                _ => false,
            };
            let is_one = found.iter().any(|one| one.rule == mcount::Rule::SledMap);
            let others = found.iter().any(|one| one.rule != mcount::Rule::SledMap);
            if is_meant && !is_one || others {
                return Err(format!("byte {at}, bit {bit:#x}: {found:?}"));
            }
            mcount::scan(&bad, &options()).map_err(text)?;
            mcount::read_table(&bad, &options()).map_err(text)?;
        }
    }
    Ok(())
}
