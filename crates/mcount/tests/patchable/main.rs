//! Patchable entries of every length, from every compiler that is installed.
//!
//! One source has 860 functions, `f_N_M` with `patchable_function_entry(N, M)`: every N from 1 to 40,
//! every M from 0 to N. The compiler's own list, `__patchable_function_entries`, is the truth about
//! where the areas are, and the name of a function is the truth about how long its area is.
//!
//! A processor that a compiler has no patchable entries for is reported as ignored.

mod reached;
mod stubs;

use libtest_mimic::Arguments;
use mcount::{
    Base, CallSite, CheckOptions, LateOptions, Level, NopChange, Options, Policy, RecordOptions,
};
use std::fmt::{Debug, Write as _};
use std::process::{Command, ExitCode};
use std::sync::Arc;
use testkit::process::run;
use testkit::reader;
use testkit::room::Room;
use testkit::sample::one_in;
use testkit::tools::{need, programs};
use testkit::trial::{ignore, trial};

const LIST: &str = "__patchable_function_entries";
const GREATEST: u64 = 40;
/// gcc emits functions in the order of the source, as clang always does.
const IN_ORDER: &str = "-fno-toplevel-reorder";

/// A processor, by how triplets of it begin; flags; bytes of a NOP, and of those that a call becomes.
type Row = (&'static str, &'static [&'static str], u64, u64);

const GCC: &[Row] = &[
    ("x86_64-linux-gnu-", &[], 1, 5),
    ("x86_64-linux-gnu-", &["-fcf-protection=full"], 1, 5),
    ("x86_64-linux-gnux32-", &[], 1, 5),
    ("i686-", &[], 1, 5),
    ("i686-", &["-fcf-protection=full"], 1, 5),
    ("aarch64-", &[], 4, 4),
    ("aarch64-", &["-mbranch-protection=standard"], 4, 4),
    ("aarch64-", &["-mbig-endian"], 4, 4),
    ("arm-linux-gnueabihf-", &["-mthumb"], 2, 4),
    ("arm-linux-gnueabihf-", &["-marm"], 4, 4),
    ("arm-linux-gnueabi-", &["-mthumb", "-march=armv5t"], 2, 4),
    ("arm-linux-gnueabi-", &["-marm", "-march=armv4t"], 4, 4),
    ("riscv64-", &[], 2, 2),
    ("riscv64-", &["-march=rv64g"], 4, 2),
    ("powerpc64le-", &[], 4, 4),
    ("powerpc64-", &[], 4, 4),
    ("powerpc-", &[], 4, 4),
    ("s390x-", &[], 2, 6),
    ("s390x-", &["-m31"], 2, 6),
    ("mips-", &[], 4, 4),
    ("mips-", &["-mmicromips"], 2, 4),
    ("mipsel-", &[], 4, 4),
    ("mips64-", &[], 4, 4),
    ("mips64el-", &[], 4, 4),
    ("sparc64-", &[], 4, 4),
    ("sparc64-", &["-m32"], 4, 4),
    ("sh4-", &[], 2, 4),
    ("hppa-", &[], 4, 4),
];

const CLANG: &[Row] = &[
    ("x86_64-linux-gnu", &[], 1, 5),
    ("x86_64-linux-gnu", &["-fcf-protection=full"], 1, 5),
    ("x86_64-linux-gnu", &["-march=silvermont"], 1, 5),
    ("x86_64-linux-gnu", &["-march=znver1"], 1, 5),
    ("x86_64-linux-gnu", &["-mcmodel=large"], 1, 5),
    ("x86_64-linux-gnux32", &[], 1, 5),
    ("i686-linux-gnu", &[], 1, 5),
    ("i586-linux-gnu", &[], 1, 5),
    ("aarch64-linux-gnu", &[], 4, 4),
    ("aarch64-linux-gnu", &["-mbranch-protection=standard"], 4, 4),
    ("aarch64_be-linux-gnu", &[], 4, 4),
    ("arm-linux-gnueabihf", &[], 4, 4),
    ("thumbv7-linux-gnueabihf", &[], 2, 4),
    ("riscv64-linux-gnu", &["-march=rv64gc"], 2, 2),
    ("riscv64-linux-gnu", &["-march=rv64g"], 4, 2),
    ("riscv32-linux-gnu", &["-march=rv32gc"], 2, 2),
    ("loongarch64-linux-gnu", &[], 4, 4),
    ("loongarch32-linux-gnu", &[], 4, 4),
    ("powerpc64le-linux-gnu", &[], 4, 4),
    ("powerpc64-linux-gnu", &["-mabi=elfv2"], 4, 4),
    ("powerpc-linux-gnu", &[], 4, 4),
    ("s390x-linux-gnu", &[], 2, 6),
    ("mips-linux-gnu", &[], 4, 4),
    ("mips64el-linux-gnuabi64", &[], 4, 4),
    ("sparcv9-linux-gnu", &[], 4, 4),
];

/// One way of compiling.
struct Case {
    compiler: String,
    flags: Vec<String>,
    linker: String,
    linker_flags: Vec<String>,
    objcopy: String,
    objdump: String,
    /// Bytes of the NOP that an area is made of.
    unit: u64,
    /// Bytes of NOPs that a call becomes at least.
    call: u64,
    /// This compiler may have no patchable entries for this processor, or not know the processor.
    is_optional: bool,
}

impl Case {
    /// Bytes of a function's global entry, where clang's list leads. `reached` finds out from the disassembly.
    fn global_entry(&self) -> u64 {
        let has_flag = |wanted: &str| self.flags.iter().any(|flag| flag == wanted);
        let is_one = has_flag("-mabi=elfv2") || has_flag("--target=powerpc64le-linux-gnu");
        if is_one { 8 } else { 0 }
    }

    /// The beginning of a source, and what its functions add: data, so that they have a global entry if there is one. gcc 12
    /// can't put areas of all lengths between that and the local entry.
    fn data(&self) -> (&'static str, &'static str) {
        let is_gcc = self.compiler.starts_with("powerpc64le-");
        if is_gcc { ("", "") } else { ("int data;\n", " + data") }
    }

    /// What a word of the list leads to: microMIPS labels have bit 0 set.
    fn even(&self, word: u64) -> u64 {
        word & !u64::from(self.unit != 1)
    }
}

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let mut trials = Vec::new();
    for case in one_in(3, cases()) {
        let case = Arc::new(case);
        for way in reached::WAYS.iter().filter(|way| way.is_for(&case)) {
            let case = Arc::clone(&case);
            let title = reached::title(&case, way);
            trials.push(trial(title, [], move || reached::perform(&case, way)));
        }
        if stubs::is_for(&case) {
            let case = Arc::clone(&case);
            let title = format!("stubs {} {}", case.compiler, case.flags.join(" "));
            let title = title.replace(' ', "::");
            trials.push(trial(title, [], move || stubs::perform(&case)));
        }
        let flags: Vec<_> = case.flags.iter().filter(|flag| *flag != IN_ORDER).cloned().collect();
        let name = format!("{} {}", case.compiler, flags.join(" "));
        let name = name.trim_end().replace(' ', "::");
        trials.push(trial(name, [], move || perform(&case)));
    }
    libtest_mimic::run(&arguments, trials).exit_code()
}

/// What the compilers in `PATH` can do. Where a host has none of those that CI has, it is asked for
/// one, so that somebody learns what is missing.
fn cases() -> Vec<Case> {
    let mut compilers = programs(|name| name.ends_with("-gcc"));
    if compilers.is_empty() {
        compilers.push("x86_64-linux-gnu-gcc".to_owned());
    }
    let mut cases = Vec::new();
    for compiler in &compilers {
        let rows = GCC.iter().filter(|row| compiler.starts_with(row.0));
        cases.extend(rows.map(|row| of_gcc(compiler, row)));
    }
    let mut compilers = programs(is_clang);
    if compilers.is_empty() {
        compilers.push("clang".to_owned());
    }
    for compiler in &compilers {
        cases.extend(CLANG.iter().map(|row| of_clang(compiler, row)));
    }
    cases
}

fn of_gcc(compiler: &str, (_, flags, unit, call): &Row) -> Case {
    let prefix = compiler.strip_suffix("gcc").unwrap_or_default();
    let flags: Vec<String> = flags.iter().copied().map(str::to_owned).collect();
    let linker_flags = ["-nostdlib", "-static", "-no-pie", "-Wl,-e,0", "-Wl,--build-id=none"];
    // Otherwise it makes NOPs of instructions behind areas.
    let keeps = compiler.starts_with("powerpc64").then_some("-Wl,--no-toc-optimize");
    let linker_flags = linker_flags.into_iter().chain(keeps).map(str::to_owned);
    Case {
        compiler: compiler.to_owned(),
        linker: compiler.to_owned(),
        linker_flags: flags.iter().cloned().chain(linker_flags).collect(),
        flags: flags.into_iter().chain([IN_ORDER.to_owned()]).collect(),
        objcopy: format!("{prefix}objcopy"),
        objdump: format!("{prefix}objdump"),
        unit: *unit,
        call: *call,
        is_optional: false,
    }
}

fn of_clang(compiler: &str, (target, flags, unit, call): &Row) -> Case {
    let version = compiler.strip_prefix("clang").unwrap_or_default();
    let target = format!("--target={target}");
    Case {
        compiler: compiler.to_owned(),
        flags: [target].into_iter().chain(flags.iter().copied().map(str::to_owned)).collect(),
        linker: format!("ld.lld{version}"),
        linker_flags: ["-static", "-e", "0"].map(str::to_owned).to_vec(),
        objcopy: format!("llvm-objcopy{version}"),
        objdump: format!("llvm-objdump{version}"),
        unit: *unit,
        call: *call,
        is_optional: true,
    }
}

/// `clang-19`, or `clang` where no version is named.
fn is_clang(name: &str) -> bool {
    let version = name.strip_prefix("clang-").unwrap_or_default();
    let is_versioned = !version.is_empty() && version.bytes().all(|byte| byte.is_ascii_digit());
    is_versioned || name == "clang" && programs(|name| name.starts_with("llvm-objcopy-")).is_empty()
}

fn perform(case: &Case) -> Result<(), String> {
    need([case.compiler.as_str(), &case.linker, &case.objcopy]);
    let room = Room::new()?;
    let source = room.put("areas.c", source(case).as_bytes())?;
    let object = room.path("areas.o");
    let mut command = Command::new(&case.compiler);
    command.args(&case.flags).args(["-O1", "-w", "-ffreestanding", "-fno-pic", "-c"]);
    let compiled = run(command.arg(&source).arg("-o").arg(&object));
    let file = compiled.and_then(|_| room.get("areas.o"));
    let entries = file.as_ref().map_err(String::clone).and_then(|file| reader::table(file, LIST));
    if case.is_optional && entries.as_ref().map_or(true, Vec::is_empty) {
        ignore("this compiler has no patchable entries for it");
    }
    let (file, mut entries) = (file?, entries?);
    entries.sort_by_key(|place| (place.index, place.offset));
    let places: Vec<u64> = entries.iter().map(|place| place.offset).collect();
    judge(case, "object", &file, &places)?;
    // Only clang lets people name the list. gcc doesn't always link it to the code (ELFv1).
    if !case.compiler.starts_with("powerpc64-") {
        judge(case, "list of another name", &renamed(&file), &places)?;
    }
    judge_joined(case, &file, &places)?;
    judge_image(case, &room)?;
    // No tracer takes the labels of microMIPS, which have bit 0 set.
    if !case.flags.iter().any(|flag| flag == "-mmicromips") {
        judge_table_of_image(case, &room)?;
    }
    Ok(())
}

/// The object with another name for the list, as `-fpatchable-function-entry=N,M,SECTION` gives it.
fn renamed(file: &[u8]) -> Vec<u8> {
    const OTHER: &[u8] = b"own_list_of_the_test_program";
    let mut renamed = file.to_vec();
    let places: Vec<usize> = memchr::memmem::find_iter(file, LIST).collect();
    for at in places {
        if let Some(room) = renamed.get_mut(at..at + OTHER.len()) {
            room.copy_from_slice(OTHER);
        }
    }
    renamed
}

/// Name, N and M of each function, in order.
fn functions() -> impl Iterator<Item = (String, u64, u64)> {
    let pairs = (1..=GREATEST).flat_map(|n| (0..=n).map(move |m| (n, m)));
    pairs.map(|(n, m)| (format!("f_{n}_{m}"), n, m))
}

fn source(case: &Case) -> String {
    let (head, data) = case.data();
    let mut source = head.to_owned();
    for (name, n, m) in functions() {
        let attribute = format!("__attribute__((patchable_function_entry({n}, {m})))");
        let _ = writeln!(source, "{attribute} int {name}(int x) {{ return x{data} + {n}; }}");
    }
    source
}

/// The same of those that calls come by. An area that ends where its function begins (N = M) is padding, as kernels for x86-64 have
/// with `CONFIG_CALL_PADDING`.
fn expected(case: &Case, places: &[u64]) -> Vec<(String, u64, u64)> {
    // gcc 12 puts all areas of MIPS before their functions.
    let is_mips = case.compiler.starts_with("mips");
    let is_padding = functions().map(|(_, n, m)| n == m && !is_mips);
    let areas = areas(case, places).into_iter().zip(is_padding);
    areas.filter(|(_, is_padding)| !is_padding).map(|(area, _)| area).collect()
}

/// Name, place and size of each area that starts at one of `places`.
fn areas(case: &Case, places: &[u64]) -> Vec<(String, u64, u64)> {
    let areas = functions().zip(places);
    let place = |at: u64, m: u64| if m == 0 { at + case.global_entry() } else { at };
    areas.map(|((name, n, m), at)| (name, place(case.even(*at), m), n * case.unit)).collect()
}

/// The same of sites that were found: of an object their offsets, of an image their addresses.
fn found(sites: &[CallSite]) -> Vec<(String, u64, u64)> {
    let place = |site: &CallSite| site.address.or(site.offset).unwrap_or_default();
    let name = |site: &CallSite| {
        let name = site.symbol.as_deref().unwrap_or_default();
        name.strip_prefix('.').unwrap_or(name).to_owned()
    };
    sites.iter().map(|site| (name(site), place(site), site.size.unwrap_or_default())).collect()
}

/// `scan` finds the areas at `places`, and `check` has nothing to say.
fn judge(case: &Case, what: &str, file: &[u8], places: &[u64]) -> Result<(), String> {
    let options = Options::default();
    let sites = mcount::scan(file, &options).map_err(|error| format!("{what}: {error}"))?.sites;
    same(what, &found(&sites), &expected(case, places))?;
    let policy = Policy::of(Base::All);
    let options = options.policy(policy);
    let any = CheckOptions::default().min_area(Some(1));
    let findings =
        mcount::check(file, &options, &any).map_err(|error| format!("{what}: {error}"))?;
    let denied = findings.iter().filter(|finding| finding.rule.default_level() == Level::Deny);
    same(what, &denied.map(|finding| format!("{finding:?}")).collect::<Vec<_>>(), &[])
}

/// Who looks for the NOPs that compilers leave in place of calls doesn't find areas a second time.
fn judge_unlisted(case: &Case, file: &[u8], places: &[u64]) -> Result<(), String> {
    let options = Options::default().policy(Policy::of(Base::All)).nops(true);
    let text = |error: mcount::Error| format!("with --nops: {error}");
    let sites = mcount::scan(file, &options).map_err(text)?.sites;
    same("with --nops", &found(&sites), &expected(case, places))?;
    let recording = mcount::record(file, &options, &RecordOptions::default()).map_err(text)?;
    same("record --nops", &[recording.recorded], &[0])
}

/// Areas of long NOPs are the same areas, and once they are there, nothing more is to do.
fn judge_joined(case: &Case, file: &[u8], places: &[u64]) -> Result<(), String> {
    let options = Options::default();
    let join = |file: &[u8]| {
        let nops = mcount::make_nops(file, &options, &|_| true).map_err(|error| error.to_string());
        match nops?.change {
            NopChange::Object(change) => Ok::<_, String>(change),
            NopChange::Image(_) => Err("an object is no image".to_owned()),
        }
    };
    let Some(change) = join(file)? else { return Ok(()) };
    let joined = change.apply(file);
    judge(case, "joined", &joined, places)?;
    judge_unlisted(case, &joined, places)?;
    same("joined twice", &[join(&joined)?.is_some()], &[false])
}

/// The image has the same areas, with its symbols; and without, at the same addresses.
fn judge_image(case: &Case, room: &Room) -> Result<(), String> {
    link(case, room, "areas.o", "image")?;
    let image = room.get("image")?;
    let mut places = words(&image, LIST)?;
    places.sort_unstable();
    judge(case, "image", &image, &places)?;
    if !case.compiler.starts_with("powerpc64-") {
        judge(case, "image with a list of another name", &renamed(&image), &places)?;
    }
    let table = mcount::late_table(&image, &Options::default(), &LateOptions::default())
        .map_err(|e| e.to_string())?;
    same("table", &found(&table.sites), &expected(case, &places))?;
    let stripped = room.path("stripped");
    run(Command::new(&case.objcopy).arg("-S").arg(room.path("image")).arg(&stripped))?;
    let sites = mcount::scan(&room.get("stripped")?, &Options::default());
    let sites = sites.map_err(|error| format!("stripped: {error}"))?.sites;
    let bare = |areas: Vec<(String, u64, u64)>| -> Vec<_> {
        areas.into_iter().map(|(_, at, size)| (at, size)).collect()
    };
    // Nobody knows there where functions begin.
    same("stripped", &bare(found(&sites)), &bare(areas(case, &places)))
}

/// The image of a kernel that takes the compiler's list for its table has no list. What the table leads
/// to is a site, if a call fits in.
fn judge_table_of_image(case: &Case, room: &Room) -> Result<(), String> {
    let rename = format!("{LIST}={}", mcount::TABLE_SECTION);
    let mut command = Command::new(&case.objcopy);
    command.args(["--rename-section", &rename]).arg(room.path("areas.o"));
    run(command.arg(room.path("renamed.o")))?;
    link(case, room, "renamed.o", "kernel")?;
    let kernel = room.get("kernel")?;
    let mut places = words(&kernel, mcount::TABLE_SECTION)?;
    places.sort_unstable();
    let sites = mcount::scan(&kernel, &Options::default());
    let sites = sites.map_err(|error| format!("kernel: {error}"))?.sites;
    let missing = functions().zip(&places).filter(|((_, n, m), at)| {
        // A landing pad may part the area; what stands before the function is then the site.
        let nops = if *m == 0 { *n } else { *m };
        let at = case.even(**at) + if *m == 0 { case.global_entry() } else { 0 };
        nops * case.unit >= case.call && !sites.iter().any(|site| site.address == Some(at))
    });
    let missing: Vec<_> = missing.map(|((name, ..), at)| format!("{name} at {at:x}")).collect();
    same("kernel", &missing, &[])
}

fn link(case: &Case, room: &Room, object: &str, image: &str) -> Result<(), String> {
    let mut command = Command::new(&case.linker);
    command.args(&case.linker_flags);
    run(command.arg(room.path(object)).arg("-o").arg(room.path(image))).map(drop)
}

/// The words of the section `name` of a file that is linked at its address.
fn words(file: &[u8], name: &str) -> Result<Vec<u64>, String> {
    let (is_64, big_endian) = (file.get(4) == Some(&2), file.get(5) == Some(&2));
    let size = if is_64 { 8 } else { 4 };
    let mut words = Vec::new();
    for section in reader::sections(file)?.iter().filter(|section| section.name == name) {
        words.extend(section.data.chunks_exact(size).map(|word| number(word, big_endian)));
    }
    if words.is_empty() { Err(format!("no {name}")) } else { Ok(words) }
}

fn number(bytes: &[u8], big_endian: bool) -> u64 {
    let join = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
    if big_endian { bytes.iter().fold(0, join) } else { bytes.iter().rev().fold(0, join) }
}

/// What is found is what is expected; else how much, and the first that differs.
fn same<T: PartialEq + Debug>(what: &str, found: &[T], expected: &[T]) -> Result<(), String> {
    if found == expected {
        return Ok(());
    }
    let at = found.iter().zip(expected).take_while(|(found, expected)| found == expected).count();
    let (one, other) = (found.get(at), expected.get(at));
    let counts = format!("{} found, {} expected", found.len(), expected.len());
    Err(format!("{what}: {counts}; number {at}: {one:x?} and not {other:x?}"))
}
