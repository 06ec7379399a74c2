//! Making the programs: the traced functions of the runtime oracle, recorded, and a main program
//! that prints its own table. They are compiled once for all the ways of linking them.

use crate::targets::{System, Target, Variant};
use std::collections::HashMap;
use std::ffi::OsStr;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use tempfile::TempDir;
use testkit::process::run;
use testkit::tools::find;

pub(crate) const MCOUNT: &str = env!("CARGO_BIN_EXE_mcount");

/// One way of linking, and what the compiler must know of it.
#[derive(Clone, Copy)]
pub(crate) struct Flavour {
    pub(crate) label: &'static str,
    pub(crate) compile: &'static [&'static str],
    pub(crate) link: &'static [&'static str],
    /// The walk is a shared object, run by a program beside it.
    pub(crate) shared: bool,
}

/// A program that can be made.
#[derive(Clone, Copy)]
pub(crate) struct Case {
    pub(crate) target: &'static Target,
    pub(crate) variant: Variant,
    pub(crate) flavour: Flavour,
}

/// Flags of everything, as in the runtime oracle.
const COMMON: &[&str] =
    &["-Wall", "-Wextra", "-Werror", "-ffreestanding", "-fno-stack-protector", "-O2", "-c"];

/// A folder of compiled objects, or why they could not be compiled; made by the first case.
type Made = Arc<OnceLock<Result<PathBuf, String>>>;

/// The objects, compiled and recorded once.
pub(crate) struct Shared {
    folder: TempDir,
    made: Mutex<HashMap<String, Made>>,
}

impl Shared {
    pub(crate) fn new() -> Result<Self, String> {
        Ok(Self { folder: temporary()?, made: Mutex::default() })
    }

    /// The folder with the objects of `case`, which must not be changed.
    pub(crate) fn objects(&self, case: &Case) -> Result<PathBuf, String> {
        let Case { target, variant, flavour } = case;
        let words = [variant.compiler, variant.flags, flavour.compile].concat().concat();
        let key = format!("{}-{}-{}", target.toolchain.name, variant.hook, words);
        let key = key.replace('/', "-");
        let cell = {
            let mut made = self.made.lock().unwrap_or_else(PoisonError::into_inner);
            Arc::clone(made.entry(key.clone()).or_default())
        };
        let folder = cell.get_or_init(|| compile(case, &self.folder.path().join(key)));
        folder.clone()
    }
}

/// Compiles `traced/NAME.o` as it is, `recorded/NAME.o`, and the untraced rest.
fn compile(case: &Case, folder: &Path) -> Result<PathBuf, String> {
    let Case { target, variant, flavour } = case;
    for part in ["traced", "recorded"] {
        let part = folder.join(part);
        std::fs::create_dir_all(&part).map_err(|error| format!("{}: {error}", part.display()))?;
    }
    let system = match target.system {
        System::Host => "host.c",
        System::Bare => "bare.c",
    };
    let mut command = target.toolchain.compile();
    command.current_dir(folder).args(COMMON).args(flavour.compile).args(target.oracle);
    command.arg(format!("-DHOOK={}", variant.hook)).arg("-I").arg(runtime());
    command.args(["common.c", "table.c", system, variant.hook_file].map(|n| runtime().join(n)));
    if flavour.shared {
        command.arg("-Dmain=walk");
    }
    run(command.arg(images().join("walk.c")))?;
    if flavour.shared {
        let mut command = target.toolchain.compile();
        run(command.current_dir(folder).arg("-c").arg(images().join("launch.c")))?;
    }
    if target.system == System::Bare {
        let mut command = target.toolchain.compile();
        command.arg("-c").arg(runtime().join(target.folder).join("bare.S"));
        run(command.arg("-o").arg(folder.join("start.o")))?;
    }
    trace(case, folder)?;
    Ok(folder.to_owned())
}

const TRACED: [&str; 3] = ["more", "samples", "overridden"];

fn trace(case: &Case, folder: &Path) -> Result<(), String> {
    let Case { target, variant, flavour } = case;
    let mut command = match variant.compiler {
        [] => target.toolchain.compile(),
        [program, flags @ ..] => {
            let mut command = Command::new(program);
            command.args(flags);
            command
        }
    };
    command.current_dir(folder.join("traced")).args(COMMON).args(flavour.compile);
    command.args(variant.flags).arg(format!("-DHOOK={}", variant.hook));
    command.arg("-I").arg(runtime());
    let source = |name| [runtime(), images()].map(|f| f.join(name).with_extension("c"));
    let sources = TRACED.map(|name| source(name).into_iter().find(|path| path.is_file()));
    run(command.args(sources.into_iter().flatten()))?;
    for name in TRACED.map(|name| format!("{name}.o")) {
        let recorded = folder.join("recorded").join(&name);
        let mut command = mcount(&["record", "--policy", "all", "-o"]);
        run(command.arg(recorded).arg(folder.join("traced").join(&name)))?;
    }
    Ok(())
}

/// The command with these arguments.
pub(crate) fn mcount(arguments: &[&str]) -> Command {
    let mut command = Command::new(MCOUNT);
    command.args(arguments);
    command
}

/// Links the untraced objects in `folder` with `traced`; the image with the table.
///
/// `more.o` before `samples.o` makes the table unsorted: the last function of the first is in a
/// section of its own, which comes after the code of the second.
pub(crate) fn link(
    case: &Case,
    folder: &Path,
    traced: &[PathBuf],
    out: &Path,
) -> Result<PathBuf, String> {
    let Case { target, variant, flavour } = case;
    let mut objects: Vec<PathBuf> =
        ["common.o", "table.o", "walk.o"].iter().map(|name| folder.join(name)).collect();
    let hook = Path::new(variant.hook_file).with_extension("o");
    objects.extend(hook.file_name().map(|name| folder.join(name)));
    objects.extend(match target.system {
        System::Host => vec![folder.join("host.o")],
        System::Bare => vec![folder.join("bare.o"), folder.join("start.o")],
    });
    let mut command = target.toolchain.compile();
    command.args(flavour.link).args(variant.link_flags);
    if [flavour.link, variant.link_flags].concat().contains(&"-fuse-ld=lld") {
        // A cross gcc looks for a linker of its own prefix, unless told where to look.
        let folder = find("ld.lld").and_then(|lld| lld.parent().map(Path::to_owned));
        command.args(folder.iter().flat_map(|f| [OsStr::new("-B"), f.as_os_str()]));
    }
    if target.system == System::Bare {
        command.arg("-nostdlib");
    }
    let image = out.join(if flavour.shared { "libwalk.so" } else { "program" });
    run(command.args(objects).args(traced).arg("-o").arg(&image))?;
    if flavour.shared {
        let mut command = target.toolchain.compile();
        command.arg(folder.join("launch.o")).arg(&image).arg("-Wl,-rpath,$ORIGIN");
        run(command.arg("-o").arg(out.join("launch")))?;
    }
    Ok(image)
}

/// The recorded objects of `folder` that every program has, in an order that unsorts the table.
pub(crate) fn recorded(folder: &Path) -> Vec<PathBuf> {
    ["more.o", "samples.o"].map(|name| folder.join("recorded").join(name)).to_vec()
}

/// The C sources that are shared with the runtime oracle.
pub(crate) fn runtime() -> PathBuf {
    testkit::prebuilt::root().join("tests/runtime")
}

/// The C sources of these tests.
pub(crate) fn images() -> PathBuf {
    testkit::prebuilt::root().join("tests/images")
}

pub(crate) fn temporary() -> Result<TempDir, String> {
    let folder = env!("CARGO_TARGET_TMPDIR");
    TempDir::new_in(folder).map_err(|error| format!("{folder}: {error}"))
}
