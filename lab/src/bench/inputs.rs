//! What the programs are measured on: modules of Debian's kernels, without their tables; many of
//! them linked to one object, with and without debug information; a `vmlinux`.
//!
//! Everything is made once and kept in `target/bench`. What is half made has another name.

use rayon::prelude::*;
use std::ffi::OsString;
use std::path::{Path, PathBuf};
use std::process::Command;

use super::row::Input;
use crate::debian::{self, Package, read_module};
use crate::{Result, files};

/// Objects in one call.
const MANY: usize = 3000;
/// Bytes of modules that are linked to one object; it comes out some percent smaller.
const LARGE: u64 = 48_000_000;
const DEBUG: u64 = 330_000_000;

/// The kernel of the modules, and the one with debug information, as Debian calls its flavours.
const FLAVOUR: &str = "amd64";
const DEBUG_FLAVOUR: &str = "cloud-amd64-dbg";

/// Where the inputs and programs are.
pub(crate) struct Inputs {
    folder: PathBuf,
    /// The folder with our programs.
    ours: PathBuf,
}

impl Inputs {
    pub(crate) fn new(folder: &Path, ours: &Path) -> Self {
        Self { folder: folder.to_owned(), ours: ours.to_owned() }
    }

    /// A program of ours, as an installation has it: a copy. What a linker wrote is in small pieces in
    /// the page cache, and starts later for that.
    pub(crate) fn program(&self, name: &str) -> Result<PathBuf> {
        let folder = self.folder.join("installed");
        files::make_folder(&folder)?;
        let path = folder.join(name);
        if built(&path).is_none() || built(&path) < built(&self.ours.join(name)) {
            copy(&self.ours.join(name), &path)?;
        }
        Ok(path)
    }

    /// What `make` makes of a path with another name, made now unless it is there.
    fn made(&self, name: &str, make: impl FnOnce(&Path) -> Result<()>) -> Result<PathBuf> {
        let path = self.folder.join(name);
        if !path.exists() {
            let partial = self.folder.join("partial").join(name);
            println!("making {}", path.display());
            files::make_folder(partial.parent().ok_or("a path without folder")?)?;
            make(&partial)?;
            files::rename(&partial, &path)?;
        }
        Ok(path)
    }

    /// The objects of the row `many`.
    pub(crate) fn objects(&self) -> Result<Vec<PathBuf>> {
        let folder = self.made("objects", |folder| {
            files::make_folder(folder)?;
            let modules = debian::obtain("amd64", FLAVOUR, false)?.modules;
            let objects: Vec<_> = modules.iter().take(MANY).enumerate().collect();
            objects.into_par_iter().try_for_each(|(number, module)| {
                let path = folder.join(format!("{number:04}.ko"));
                files::write(&path, &read_module(module)?)?;
                run(Command::new("objcopy").args(["-R", "__mcount_loc"]).arg(path))
            })
        })?;
        files::list(&folder)
    }

    /// The object of median size.
    pub(crate) fn median_object(&self) -> Result<PathBuf> {
        let mut objects = Vec::new();
        for path in self.objects()? {
            objects.push((std::fs::metadata(&path)?.len(), path));
        }
        objects.sort();
        let middle = objects.len() / 2;
        Ok(objects.into_iter().nth(middle).ok_or("no objects")?.1)
    }

    /// Modules, the first of so many bytes, linked to one object without table.
    fn linked(&self, package: &Package, bytes: u64, output: &Path) -> Result<()> {
        let (mut size, mut inputs) = (0, Vec::new());
        for module in &package.modules {
            if size >= bytes {
                break;
            }
            size += std::fs::metadata(module)?.len();
            inputs.push(module.display().to_string());
        }
        let list = self.folder.join("partial/modules");
        files::write(&list, inputs.join("\n").as_bytes())?;
        let mut ld = Command::new("ld");
        // Every module defines init_module.
        ld.args(["-r", "-z", "muldefs", "-o"]).arg(output).arg(format!("@{}", list.display()));
        run(&mut ld)?;
        run(Command::new("objcopy").args(["-R", "__mcount_loc"]).arg(output))
    }

    pub(crate) fn large(&self) -> Result<PathBuf> {
        self.made("large.o", |path| {
            self.linked(&debian::obtain("amd64", FLAVOUR, false)?, LARGE, path)
        })
    }

    /// The same without what objtool refuses in an object that it has been over before.
    pub(crate) fn large_for_objtool(&self) -> Result<PathBuf> {
        let large = self.large()?;
        self.made("plain.o", |path| {
            let remove = OBJTOOL_REFUSES.iter().flat_map(|section| ["-R", section]);
            run(Command::new("objcopy").args(remove).arg(&large).arg(path))
        })
    }

    pub(crate) fn debug(&self) -> Result<PathBuf> {
        self.made("debug.o", |path| self.linked(&debug_package()?, DEBUG, path))
    }

    /// The same without debug information.
    pub(crate) fn debug_stripped(&self) -> Result<PathBuf> {
        let debug = self.debug()?;
        self.made("stripped.o", |path| {
            run(Command::new("objcopy").arg("--strip-debug").arg(&debug).arg(path))
        })
    }

    pub(crate) fn vmlinux(&self) -> Result<PathBuf> {
        let boot = debug_package()?.folder.join("usr/lib/debug/boot");
        let mut images = files::list(&boot)?.into_iter();
        let is_image = |path: &PathBuf| path.file_name().is_some_and(is_vmlinux);
        let image = images.find(is_image).ok_or("the package has no vmlinux")?;
        self.made("vmlinux", |link| Ok(std::os::unix::fs::symlink(&image, link)?))
    }

    pub(crate) fn vmlinux_without_relocations(&self) -> Result<PathBuf> {
        let image = self.vmlinux()?;
        self.made("vmlinux.plain", |path| {
            let remove = ["--wildcard", "--remove-section=.rela.*", "--remove-section=.rela_*"];
            run(Command::new("objcopy").args(remove).arg(&image).arg(path))
        })
    }

    pub(crate) fn true_in_c(&self) -> Result<PathBuf> {
        self.made("true-c", |path| {
            let source = path.with_extension("c");
            files::write(&source, b"int main(void) { return 0; }\n")?;
            let linked = path.with_extension("linked");
            run(Command::new("cc").args(["-O2", "-static-pie", "-o"]).arg(&linked).arg(source))?;
            copy(&linked, path)
        })
    }

    /// A program that does nothing, linked as the build script links `recordmcount`.
    pub(crate) fn true_in_rust(&self) -> Result<PathBuf> {
        self.made("true-rust", |path| {
            let libraries = static_libraries(&self.ours)?;
            let source = path.with_extension("rs");
            files::write(&source, b"fn main() {}\n")?;
            let mut rustc = Command::new("rustc");
            rustc.args(["-Copt-level=3", "-Cpanic=abort", "-Clto=fat", "-Clink-arg=-static-pie"]);
            rustc.arg(format!("-Clink-arg=-L{}", libraries.display()));
            let linked = path.with_extension("linked");
            run(rustc.arg("-o").arg(&linked).arg(source))?;
            copy(&linked, path)
        })
    }

    /// The command that lists a table with pyelftools, which is unpacked, not installed.
    pub(crate) fn python_script(&self) -> Result<Vec<OsString>> {
        let library = self.made("pyelftools", |folder| {
            files::make_folder(folder)?;
            let mut apt = Command::new("apt-get");
            run(apt.args(["-qq", "download", "python3-pyelftools"]).current_dir(folder))?;
            let package = files::list(folder)?.pop().ok_or("apt-get downloaded nothing")?;
            run(Command::new("dpkg-deb").arg("-x").arg(package).arg(folder))
        })?;
        let script = self.folder.join("list.py");
        files::write(&script, include_bytes!("list.py"))?;
        let path = format!("PYTHONPATH={}/usr/lib/python3/dist-packages", library.display());
        Ok(vec!["env".into(), path.into(), "python3".into(), script.into()])
    }
}

/// When the file at `path` was written.
fn built(path: &Path) -> Option<std::time::SystemTime> {
    path.metadata().and_then(|metadata| metadata.modified()).ok()
}

fn copy(from: &Path, to: &Path) -> Result<()> {
    std::fs::copy(from, to)?;
    Ok(())
}

/// A program of Debian's `linux-kbuild-6.1`.
pub(crate) fn kbuild(program: &str) -> PathBuf {
    Path::new("/usr/lib/linux-kbuild-6.1").join(program)
}

/// What an input is, for the report.
pub(crate) fn describe(input: &Input) -> Result<String> {
    let paths = match input {
        Input::Copies(paths) => paths.as_slice(),
        Input::InPlace(path) => std::slice::from_ref(path),
    };
    let mut bytes = 0;
    for path in paths {
        bytes += std::fs::metadata(path)?.len();
    }
    let files = if paths.len() == 1 { String::new() } else { format!("{} files, ", paths.len()) };
    Ok(format!("{files}{} KiB", bytes / 1024))
}

/// Sections of patch sites. objtool has rewritten them, and takes an object with them for damaged.
const OBJTOOL_REFUSES: &[&str] = &[".altinstructions", ".altinstr_replacement"];

fn is_vmlinux(name: &std::ffi::OsStr) -> bool {
    name.to_string_lossy().starts_with("vmlinux-")
}

fn debug_package() -> Result<Package> {
    debian::obtain("amd64", DEBUG_FLAVOUR, false)
}

/// The folder that the build script of `mcount-cli` made: the newest, if there are several.
fn static_libraries(ours: &Path) -> Result<PathBuf> {
    let mut found = Vec::new();
    for folder in files::list(&ours.join("build"))? {
        let folder = folder.join("out/static");
        let is_of_ours = folder.to_string_lossy().contains("mcount-cli-");
        if let (true, Ok(metadata)) = (is_of_ours, folder.metadata()) {
            found.push((metadata.modified()?, folder));
        }
    }
    let newest = found.into_iter().max().ok_or("recordmcount is not linked statically here")?;
    Ok(newest.1)
}

fn run(command: &mut Command) -> Result<()> {
    let output = command.output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    Err(format!("{}: {}: {said}", command.get_program().display(), output.status).into())
}
