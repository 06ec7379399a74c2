//! Making and running one program: compile the traced functions, record them, send the objects
//! through other tools, link, run. The half of the program that is not traced is compiled once for
//! all the cases that share it.

use std::collections::HashMap;
use std::env;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use tempfile::TempDir;
use testkit::process::run;
use testkit::tools::find;

use crate::targets::{Link, Program, System, Target, Variant};

/// What is run: a target, how it is compiled and linked, and what happens in between.
#[derive(Clone, Copy)]
pub(crate) struct Case {
    pub(crate) target: &'static Target,
    pub(crate) variant: Variant,
    pub(crate) optimise: &'static str,
    pub(crate) link: Link,
    pub(crate) route: Route,
}

/// What happens to the objects between the compiler and the linker.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Route {
    /// They are recorded.
    Direct,
    /// They are recorded, and joined by `ld -r`.
    Relocatable,
    /// They are recorded, and copied by `objcopy`.
    Objcopy,
    /// They are recorded, and their debug information is stripped.
    StripDebug,
    /// They are recorded, and put in an archive.
    Archive,
    /// They are recorded and linked with `--gc-sections`.
    Collected,
    /// One of two is not recorded. The oracle must object, as to all that follow.
    Missing,
    /// One of two is not recorded, and has entries that are off by two bytes.
    Shifted,
    /// They are recorded, and a function has a second entry.
    Extra,
}

impl Route {
    pub(crate) const fn label(self) -> &'static str {
        match self {
            Self::Direct => "direct",
            Self::Relocatable => "ld-r",
            Self::Objcopy => "objcopy",
            Self::StripDebug => "strip",
            Self::Archive => "ar",
            Self::Collected => "gc-sections",
            Self::Missing => "missing",
            Self::Shifted => "shifted",
            Self::Extra => "extra",
        }
    }

    /// Whether the oracle must object.
    pub(crate) const fn sabotaged(self) -> bool {
        matches!(self, Self::Missing | Self::Shifted | Self::Extra)
    }

    const fn compile_flags(self) -> &'static [&'static str] {
        match self {
            Self::StripDebug => &["-g"],
            Self::Collected => &["-ffunction-sections"],
            _ => &[],
        }
    }

    const fn link_flags(self) -> &'static [&'static str] {
        match self {
            // lld collects sections that are only reached by their `__start_` symbol.
            Self::Collected => &["-Wl,--gc-sections", "-Wl,-z,nostart-stop-gc"],
            _ => &[],
        }
    }
}

/// Flags of everything: the oracle must not call into a library that is not there, and the code
/// must be what the source says.
const COMMON: &[&str] =
    &["-Wall", "-Wextra", "-Werror", "-ffreestanding", "-fno-stack-protector", "-c"];

/// A folder of compiled objects, or why they could not be compiled; made by the first case.
type Made = Arc<OnceLock<Result<PathBuf, String>>>;

/// The half of each program that is not traced, compiled once.
pub(crate) struct Untraced {
    folder: TempDir,
    made: Mutex<HashMap<String, Made>>,
}

impl Untraced {
    pub(crate) fn new() -> Result<Self, String> {
        Ok(Self { folder: temporary()?, made: Mutex::default() })
    }

    /// The objects of the oracle for `case`.
    fn objects(&self, case: &Case) -> Result<Vec<PathBuf>, String> {
        let key = format!(
            "{}-{}-{}-{}",
            case.target.toolchain.name,
            case.link.compile_flags().concat(),
            case.variant.hook,
            case.variant.hook_file.replace('/', "-"),
        );
        let cell = {
            let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(made.entry(key.clone()).or_default())
        };
        let folder = cell.get_or_init(|| compile_untraced(case, &self.folder.path().join(key)));
        let folder = folder.as_ref().map_err(Clone::clone)?;
        let (main, table) = match case.variant.program {
            Program::Samples => ("oracle.o", "table.o"),
            Program::Weak => ("oracle.o", "weak_table.o"),
            Program::Patchable => ("patchable.o", "table.o"),
        };
        let hook = Path::new(case.variant.hook_file).with_extension("o");
        let mut names = vec!["common.o", main, table];
        names.extend(match case.target.system {
            System::Host => &["host.o"][..],
            System::Bare => &["bare.o", "start.o"][..],
        });
        if case.variant.program != Program::Patchable {
            names.push("disarm.o");
        }
        let mut objects: Vec<PathBuf> = names.iter().map(|name| folder.join(name)).collect();
        objects.extend(hook.file_name().map(|name| folder.join(name)));
        Ok(objects)
    }
}

fn compile_untraced(case: &Case, folder: &Path) -> Result<PathBuf, String> {
    std::fs::create_dir(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let toolchain = &case.target.toolchain;
    let processor = sources().join(case.target.folder);
    let system = match case.target.system {
        System::Host => "host.c",
        System::Bare => "bare.c",
    };
    let mut command = toolchain.compile();
    command.current_dir(folder).args(COMMON).arg("-O2").args(case.link.compile_flags());
    command.args(case.target.oracle).arg(format!("-DHOOK={}", case.variant.hook));
    let shared = ["common.c", "oracle.c", "patchable.c", "table.c", "weak_table.c", system];
    command.args(shared.map(|name| sources().join(name)));
    command.arg(sources().join(case.variant.hook_file)).arg(processor.join("disarm.c"));
    run(command.arg("-I").arg(sources()))?;
    if case.target.system == System::Bare {
        let mut command = toolchain.compile();
        command.arg("-c").arg(processor.join("bare.S"));
        run(command.arg("-o").arg(folder.join("start.o")))?;
    }
    Ok(folder.to_owned())
}

/// Makes the program of `case`, runs it, and returns what it printed.
pub(crate) fn perform(case: &Case, untraced: &Untraced) -> Result<String, String> {
    let folder = temporary()?;
    let folder = folder.path();
    let mut objects = compile_traced(case, folder)?;
    if case.variant.program == Program::Patchable {
        let entries = patchable_entries(&objects)?;
        let output = link_and_run(case, untraced, &objects, folder)?;
        if output != format!("ok {entries} sites\n") {
            return Err(format!("mcount scan has {entries} patchable entries, but {output}"));
        }
        return Ok(output);
    }
    let recorded = match case.route {
        Route::Missing | Route::Shifted => 1,
        _ => objects.len(),
    };
    for object in objects.iter().take(recorded) {
        record(object)?;
    }
    send(case, folder, &mut objects)?;
    link_and_run(case, untraced, &objects, folder)
}

fn link_and_run(
    case: &Case,
    untraced: &Untraced,
    traced: &[PathBuf],
    folder: &Path,
) -> Result<String, String> {
    let program = folder.join("program");
    // The traced objects come last, so that an archive of them is asked for what is missing.
    let mut objects = untraced.objects(case)?;
    objects.extend_from_slice(traced);
    link(case, &objects, &program)?;
    run(&mut case.target.toolchain.execute(&program))
}

/// How many patchable entries `mcount scan` finds.
fn patchable_entries(objects: &[PathBuf]) -> Result<usize, String> {
    let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
    let sites = run(command.args(["scan", "--format", "jsonl"]).args(objects))?;
    Ok(sites.lines().filter(|line| line.contains(r#""kind":"patchable""#)).count())
}

fn compile_traced(case: &Case, folder: &Path) -> Result<Vec<PathBuf>, String> {
    let names: &[&str] = match case.variant.program {
        Program::Samples | Program::Patchable => &["samples", "more"],
        Program::Weak => &["weak"],
    };
    let mut command = match case.variant.compiler {
        [] => case.target.toolchain.compile(),
        [program, flags @ ..] => {
            let mut command = Command::new(program);
            command.args(flags);
            command
        }
    };
    command.current_dir(folder).args(COMMON).arg(case.optimise).args(case.link.compile_flags());
    command.args(case.variant.flags).args(case.route.compile_flags());
    command.arg(format!("-DHOOK={}", case.variant.hook)).arg("-I").arg(sources());
    command.args(env::var("MCOUNT_TEST_CFLAGS").iter().flat_map(|flags| flags.split_whitespace()));
    run(command.args(names.iter().map(|name| sources().join(name).with_extension("c"))))?;
    Ok(names.iter().map(|name| folder.join(name).with_extension("o")).collect())
}

/// Puts the table in one object. `MCOUNT_TEST_RECORDER` is another recorder to try the oracle on.
fn record(object: &Path) -> Result<(), String> {
    let other = env::var("MCOUNT_TEST_RECORDER").unwrap_or_default();
    let mut words = other.split_whitespace();
    let mut command = if let Some(program) = words.next() {
        let mut command = Command::new(program);
        command.args(words);
        command
    } else {
        let mut command = Command::new(env!("CARGO_BIN_EXE_mcount"));
        command.args(["record", "--policy", "all"]);
        command
    };
    run(command.arg(object)).map(drop)
}

/// Sends the objects through the tools of the route.
fn send(case: &Case, folder: &Path, objects: &mut Vec<PathBuf>) -> Result<(), String> {
    let toolchain = &case.target.toolchain;
    match case.route {
        Route::Direct | Route::Collected | Route::Missing => {}
        Route::Relocatable => {
            let joined = folder.join("joined.o");
            let mut command = toolchain.compile();
            run(command.args(["-r", "-nostdlib", "-o"]).arg(&joined).args(&*objects))?;
            *objects = vec![joined];
        }
        Route::Objcopy => {
            for object in objects {
                let copy = object.with_extension("copy.o");
                run(Command::new(toolchain.utility("objcopy")).arg(&*object).arg(&copy))?;
                *object = copy;
            }
        }
        Route::StripDebug => {
            run(Command::new(toolchain.utility("strip")).arg("--strip-debug").args(objects))?;
        }
        Route::Archive => {
            let archive = folder.join("traced.a");
            let mut command = Command::new(toolchain.utility("ar"));
            run(command.arg("rcs").arg(&archive).args(&*objects))?;
            *objects = vec![archive];
        }
        Route::Shifted => objects.push(bad_entries(case, folder, "elsewhere+2, last+2")?),
        Route::Extra => objects.push(bad_entries(case, folder, "leaf")?),
    }
    Ok(())
}

/// An object with entries that no recorder made.
fn bad_entries(case: &Case, folder: &Path, entries: &str) -> Result<PathBuf, String> {
    let object = folder.join("bad.o");
    let mut command = case.target.toolchain.compile();
    command.arg("-c").arg(sources().join("bad.S")).arg(format!("-DENTRIES={entries}"));
    run(command.arg("-o").arg(&object))?;
    Ok(object)
}

fn link(case: &Case, objects: &[PathBuf], program: &Path) -> Result<(), String> {
    let mut command = case.target.toolchain.compile();
    command.arg("-Wl,--fatal-warnings").args(case.link.link_flags()).args(case.variant.link_flags);
    command.args(case.route.link_flags());
    if case.variant.link_flags.contains(&"-fuse-ld=lld") {
        // A cross gcc looks for a linker of its own prefix, unless told where to look.
        command.args(
            find("ld.lld")
                .iter()
                .filter_map(|lld| lld.parent())
                .flat_map(|folder| [OsStr::new("-B"), folder.as_os_str()]),
        );
    }
    if case.target.system == System::Bare {
        command.arg("-nostdlib");
    }
    run(command.args(objects).arg("-o").arg(program)).map(drop)
}

/// The C sources, at the root of the tree.
fn sources() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/runtime")
}

fn temporary() -> Result<TempDir, String> {
    let folder = env!("CARGO_TARGET_TMPDIR");
    TempDir::new_in(folder).map_err(|error| format!("{folder}: {error}"))
}
