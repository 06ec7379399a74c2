//! Making one program: compile the runtime oracle, link it with `mcount link`, compare its table with
//! what `objdump` shows, and run it.

use crate::matrix::{Case, Extra, Layout, Linker, is_hosted};
use crate::targets::{Program, Target};
use crate::truth;
use std::collections::{BTreeSet, HashMap};
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use tempfile::TempDir;
use testkit::process::run;
use testkit::tools::find;

/// A folder of objects, or why they could not be compiled; made by the first case that needs it.
type Made = Arc<OnceLock<Result<PathBuf, String>>>;

/// The objects that cases have in common.
pub(crate) struct Shared {
    folder: TempDir,
    made: Mutex<HashMap<String, Made>>,
}

impl Shared {
    pub(crate) fn new() -> Result<Self, String> {
        Ok(Self { folder: temporary()?, made: Mutex::default() })
    }

    /// The folder `key`, made by `make` if it is not there.
    fn folder(
        &self,
        key: &str,
        make: impl FnOnce(&Path) -> Result<(), String>,
    ) -> Result<PathBuf, String> {
        let cell = {
            let mut folders = self.made.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(folders.entry(key.to_owned()).or_default())
        };
        let folder = self.folder.path().join(key);
        let result = cell.get_or_init(|| {
            std::fs::create_dir(&folder).map_err(|error| error.to_string())?;
            make(&folder).map(|()| folder)
        });
        result.clone()
    }
}

/// Makes the program of `case`, checks its table, and runs it.
pub(crate) fn perform(case: &Case, shared: &Shared) -> Result<(), String> {
    let folder = temporary()?;
    let program = folder.path().join("program");
    let objects = objects(case, shared)?;
    let image = match case.layout {
        Layout::Shared => folder.path().join("liboracle.so"),
        _ => program.clone(),
    };
    run(&mut link(case, &objects, &image, &[])?)?;
    check(case, &image).map_err(|error| format!("linked: {error}"))?;
    if case.layout == Layout::Shared {
        let mut command = case.target.toolchain.compile();
        command.arg(&image).arg("-Wl,-rpath,$ORIGIN").arg("-o").arg(&program);
        run(&mut command)?;
    }
    if case.cannot_run() {
        return without_symbols(case, &image).map_err(|error| format!("stripped: {error}"));
    }
    let output = run(&mut case.target.toolchain.execute(&program))?;
    if !output.starts_with("ok ") {
        return Err(output);
    }
    without_symbols(case, &image).map_err(|error| format!("stripped: {error}"))?;
    with_relocations(case, &objects, &image).map_err(|error| format!("-q: {error}"))
}

/// The table of the image, what `mcount table` finds in it, and what `objdump` shows are one.
fn check(case: &Case, image: &Path) -> Result<(), String> {
    let found = table(image)?;
    if let Some((address, _)) = found.iter().find(|(_, recorded)| !recorded) {
        return Err(format!("{address:#x} is not in the table of the image"));
    }
    no_findings(image)?;
    let found: BTreeSet<u64> = found.into_iter().map(|(address, _)| address).collect();
    let truth = if case.extra == Extra::Patchable {
        truth::areas(image)?
    } else {
        truth::calls(&case.target.toolchain, image)?
    };
    if case.has_nameless_stubs() {
        // The program itself will say what is missing.
        let truth = truth.union(&found).copied().collect();
        return compare("objdump", &truth, &found);
    }
    compare("objdump", &truth, &found)
}

/// `mcount check` has nothing to say of the image, but that areas of other sizes than a call are.
fn no_findings(image: &Path) -> Result<(), String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
    let found =
        run(command.args(["check", "--policy", "all", "--allow", "short-area"]).arg(image))?;
    if found.is_empty() { Ok(()) } else { Err(found) }
}

fn compare(name: &str, expected: &BTreeSet<u64>, found: &BTreeSet<u64>) -> Result<(), String> {
    let hex = |set: Vec<&u64>| format!("{set:#x?}").replace([' ', '\n'], "");
    if expected.is_empty() {
        return Err(format!("{name}: no call of the hook"));
    }
    if expected == found {
        return Ok(());
    }
    let missing = hex(expected.difference(found).collect());
    let wrong = hex(found.difference(expected).collect());
    Err(format!("{name} has {}; missing {missing}, wrong {wrong}", expected.len()))
}

/// Without local symbols the same sites are found.
fn without_symbols(case: &Case, image: &Path) -> Result<(), String> {
    // Only dynamic symbols are left, and of patchable entries the list. gold has put a word before
    // what it calls the GOT on powerpc, and the symbol that says so is gone.
    let is_lost = case.linker == Linker::Gold && case.target.toolchain.name == "powerpc";
    if is_lost || case.layout != Layout::Shared && case.extra != Extra::Patchable {
        return Ok(());
    }
    let expected = table(image)?.into_iter().map(|(address, _)| address).collect();
    let stripped = image.with_extension("stripped");
    run(Command::new(case.target.toolchain.utility("strip")).arg("-o").arg(&stripped).arg(image))?;
    let found = table(&stripped)?.into_iter().map(|(address, _)| address).collect();
    compare("with symbols", &expected, &found)
}

/// With relocations kept (`ld -q`) too. gold and mold fail when asked to.
fn with_relocations(case: &Case, objects: &[PathBuf], image: &Path) -> Result<(), String> {
    if matches!(case.linker, Linker::Gold | Linker::Mold) || case.extra == Extra::Patchable {
        return Ok(());
    }
    let kept = image.with_extension("kept");
    run(&mut link(case, objects, &kept, &["-Wl,--emit-relocs"])?)?;
    check(case, &kept)
}

/// What `mcount table` finds: addresses, and whether they are in the table of the image.
pub(crate) fn table(image: &Path) -> Result<Vec<(u64, bool)>, String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
    let lines = run(command.args(["table", "--format", "jsonl"]).arg(image))?;
    let mut found = Vec::new();
    for line in lines.lines() {
        let site: serde_json::Value =
            serde_json::from_str(line).map_err(|error| error.to_string())?;
        let field = |name: &str| site.get(name).cloned().unwrap_or_default();
        let address = field("address").as_u64().ok_or_else(|| line.to_owned())?;
        found.push((address, field("recorded").as_bool().unwrap_or(false)));
    }
    Ok(found)
}

/// The command that links `objects` to `image`.
fn link(case: &Case, objects: &[PathBuf], image: &Path, flags: &[&str]) -> Result<Command, String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
    command.args(["link", "--"]);
    let driver = case.target.toolchain.compile();
    command.arg(driver.get_program()).args(driver.get_args());
    if let Some(program) = case.linker.program(case.target) {
        command.arg(prefer(&program, image)?);
    }
    command.args(case.layout.link_flags()).args(case.variant.link_flags);
    command.args(case.extra.link_flags()).args(flags);
    let is_gnu = matches!(case.linker, Linker::Default | Linker::Gold);
    if is_gnu && case.target.toolchain.name.starts_with("powerpc") {
        // objdump names what the linker names.
        command.arg("-Wl,--emit-stub-syms");
    }
    if !is_hosted(case.target) {
        command.arg("-nostdlib");
    }
    command.args(objects).arg("-o").arg(image);
    Ok(command)
}

/// The option that makes a driver run `program` as its linker: a folder where that is called `ld`.
fn prefer(program: &str, image: &Path) -> Result<OsString, String> {
    let path = find(program).ok_or_else(|| format!("not installed: {program}"))?;
    let folder = image.with_extension("linker");
    let _ = std::fs::create_dir(&folder);
    let place = folder.join("ld");
    let _ = std::os::unix::fs::symlink(path, place);
    let mut option = OsString::from("-B");
    option.push(folder);
    Ok(option)
}

/// The objects of the program: the oracle's, then the traced ones.
fn objects(case: &Case, shared: &Shared) -> Result<Vec<PathBuf>, String> {
    let flags = case.layout.compile_flags().concat();
    let (target, variant) = (case.target, case.variant);
    let name = target.toolchain.name;
    let hook = variant.hook_file.replace('/', "-");
    let far = if case.layout.is_far() { "far" } else { "" };
    let oracle = format!("{name}-{flags}-{}-{hook}{far}", variant.hook);
    let oracle = shared.folder(&oracle, |folder| compile_oracle(case, folder))?;
    let traced = format!("{name}-{flags}-{}-{:?}", variant.label, case.extra);
    let traced = shared.folder(&traced, |folder| compile_traced(case, folder))?;
    let hook = Path::new(variant.hook_file).with_extension("o");
    let hook = hook.file_name().ok_or("no hook")?.to_owned();
    let mut objects = vec![oracle.join("common.o"), oracle.join("table.o"), oracle.join(hook)];
    if is_hosted(target) {
        objects.push(oracle.join("host.o"));
    } else {
        objects.extend(["bare.o", "start.o"].map(|name| oracle.join(name)));
    }
    if case.extra == Extra::Patchable {
        objects.push(oracle.join("patchable.o"));
    } else {
        objects.extend(["oracle.o", "disarm.o"].map(|name| oracle.join(name)));
    }
    objects.extend(["samples.o", "more.o"].map(|name| traced.join(name)));
    Ok(objects)
}

const COMMON: &[&str] = &["-ffreestanding", "-fno-stack-protector", "-O2", "-c"];

fn compile_oracle(case: &Case, folder: &Path) -> Result<(), String> {
    let Target { toolchain, folder: processor, oracle, .. } = case.target;
    let processor = sources("runtime").join(processor);
    let system = if is_hosted(case.target) { "host.c" } else { "bare.c" };
    let shared = ["common.c", "oracle.c", "patchable.c", "table.c", system];
    let mut command = toolchain.compile();
    command.current_dir(folder).args(COMMON).args(case.layout.compile_flags()).args(*oracle);
    command.arg(format!("-DHOOK={}", case.variant.hook));
    command.args(shared.map(|name| sources("runtime").join(name)));
    command.arg(sources("runtime").join(case.variant.hook_file)).arg(processor.join("disarm.c"));
    run(command.arg("-I").arg(sources("runtime")))?;
    if !is_hosted(case.target) {
        let mut command = toolchain.compile();
        command.arg("-c").arg(processor.join("bare.S"));
        run(command.arg("-o").arg(folder.join("start.o")))?;
    }
    if case.layout.is_far() {
        let hook = Path::new(case.variant.hook_file).with_extension("o");
        let mut command = Command::new(toolchain.utility("objcopy"));
        command.args(["--rename-section", ".text=.far_text"]);
        run(command.arg(folder.join(hook.file_name().unwrap_or_default())))?;
    }
    Ok(())
}

fn compile_traced(case: &Case, folder: &Path) -> Result<(), String> {
    debug_assert!(case.variant.program == Program::Samples);
    let mut command = match case.variant.compiler {
        [program, flags @ ..] if case.extra != Extra::Lto => {
            let mut command = Command::new(program);
            command.args(flags);
            command
        }
        _ => case.target.toolchain.compile(),
    };
    command.current_dir(folder).args(COMMON).args(case.layout.compile_flags());
    if case.extra != Extra::Patchable {
        command.args(case.variant.flags);
    }
    command.args(case.extra.compile_flags()).arg(format!("-DHOOK={}", case.variant.hook));
    command.arg("-I").arg(sources("runtime")).arg("-I").arg(sources("late"));
    let names = ["samples.c", "more.c"];
    run(command.args(names.map(|name| sources("runtime").join(name)))).map(drop)
}

/// C sources, at the root of the tree.
pub(crate) fn sources(folder: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests").join(folder)
}

pub(crate) fn temporary() -> Result<TempDir, String> {
    let folder = env!("CARGO_TARGET_TMPDIR");
    TempDir::new_in(folder).map_err(|error| format!("{folder}: {error}"))
}
