//! Building the kernel with Kbuild as it is: make, with variables on its command line, and a program
//! in the place of `scripts/recordmcount`.

mod patched;

use std::path::{Path, PathBuf};
use std::process::Command;

use super::configuration::{BY_COMPILER, BY_NOBODY, BY_RECORDMCOUNT, compose, dropped};
use super::objects::{
    archives, copies, copy_for_the_original, duplicate, print_costs, traced, with_extension,
    with_suffix,
};
use super::options::{Mode, OURS, Options, THEIRS};
use super::process::{Clock, execute};
use crate::debian::ORIGINAL;
use crate::programs::{self, Profile};
use crate::{Result, apt, files, newer};

/// The module whose functions are traced.
const MODULE: &str = include_str!("module.c");

/// A build and where its parts are.
pub(super) struct Build<'o> {
    options: &'o Options,
    folder: PathBuf,
    source: PathBuf,
    output: PathBuf,
    mcount: PathBuf,
    recordmcount: PathBuf,
}

impl<'o> Build<'o> {
    pub(super) fn new(options: &'o Options) -> Result<Self> {
        let folder = options.folder();
        let output = folder.join("build");
        files::make_folder(&output)?;
        let programs = programs::build("mcount-cli", Profile::Dist)?;
        let (mcount, recordmcount) = (programs.join("mcount"), programs.join("recordmcount"));
        let source = if options.patches {
            patched::unpack(&options.source)?
        } else {
            unpack(&options.source)?
        };
        Ok(Self { options, folder, source, output, mcount, recordmcount })
    }

    /// Compiles, records, links, and keeps what is to be booted; seconds of processor time that it
    /// took. A build that was interrupted goes on, and its time is not known.
    pub(super) fn ours(&self) -> Result<Option<f64>> {
        let is_fresh = !self.configured().exists();
        self.put_back()?;
        let mode = self.options.mode;
        let mut clock = Clock::new()?;
        self.configure()?;
        if mode == Mode::Object {
            self.take_its_place()?;
        }
        clock.lap("configure")?;
        self.make(&["vmlinux_o"])?;
        clock.lap(if mode == Mode::Object { "compile and record" } else { "compile" })?;
        if mode != Mode::Object {
            self.copy_objects()?;
            clock.skip()?;
        }
        if mode == Mode::Archive {
            self.record(&archives(&self.output)?)?;
            clock.lap("mcount record")?;
        }
        self.remove_image()?;
        self.make(&["vmlinux"])?;
        clock.lap(if mode == Mode::Late { "mcount link" } else { "link" })?;
        if self.options.drop_weak {
            self.mcount(&["sort", "--verbose", "--drop-weak"], &[self.output.join("vmlinux")])?;
            clock.lap("mcount sort")?;
        }
        self.make(&["modules"])?;
        self.make(&[self.options.machine.target()])?;
        clock.lap("modules and boot image")?;
        self.keep(OURS)?;
        self.make_module()?;
        Ok(is_fresh.then_some(clock.total))
    }

    /// The same kernel of the copies that the original recorded: linked without our programs, with a
    /// module of the original's too.
    pub(super) fn original(&self) -> Result<()> {
        for copy in copies(&self.output)? {
            let object = copy.with_extension("");
            files::rename(&object, &with_suffix(&object, ".ours"))?;
            files::rename(&copy, &object)?;
        }
        let make = |target| self.make_by(&[target], self.recorders(), None);
        // What else was made by another linker, so that only the link is measured.
        make("vmlinux_o")?;
        self.remove_image()?;
        let mut clock = Clock::new()?;
        make("vmlinux")?;
        clock.lap("link of the objects that the original recorded")?;
        make(self.options.machine.target())?;
        self.keep(THEIRS)?;
        self.make_module_of_the_original()?;
        self.put_back()
    }

    /// Undoes what [`Self::original`] did to the objects; the next run links again.
    fn put_back(&self) -> Result<()> {
        let all = with_extension(&self.output, "ours")?;
        for ours in &all {
            let object = ours.with_extension("");
            files::rename(&object, &with_suffix(&object, ".theirs"))?;
            files::rename(ours, &object)?;
        }
        if all.is_empty() { Ok(()) } else { self.remove_image() }
    }

    /// Keeps what is to be booted and looked at.
    fn keep(&self, kernel: &str) -> Result<()> {
        let folder = self.folder.join(kernel);
        files::make_folder(&folder)?;
        let log = self.log();
        duplicate(&self.output.join(self.options.machine.image), &folder.join("image"), &log)?;
        duplicate(&self.output.join("vmlinux"), &folder.join("vmlinux"), &log)
    }

    fn remove_image(&self) -> Result<()> {
        let mut remove = Command::new("rm");
        remove.args(["-f", "vmlinux", "vmlinux.o", "vmlinux.a"]).current_dir(&self.output);
        execute(&mut remove, &self.log())
    }

    fn configure(&self) -> Result<()> {
        let config = self.output.join(".config");
        if self.configured().exists() {
            return Ok(());
        }
        self.make(&["allnoconfig"])?;
        let base = String::from_utf8(files::read(&config)?)?;
        let mut more = self.options.config_of_version().to_owned();
        if self.options.patches {
            more.push_str(patched::LATE);
        }
        if let Some(path) = &self.options.config {
            more.push_str(&String::from_utf8(files::read(path)?)?);
        }
        let machine = self.options.machine.config;
        files::write(&config, compose(&base, machine, &more).as_bytes())?;
        self.make(&["olddefconfig"])?;
        let lost = dropped(&String::from_utf8(files::read(&config)?)?, machine, &more);
        if !lost.is_empty() {
            return Err(format!("dropped: {}", lost.join(" ")).into());
        }
        files::write(&self.configured(), b"")
    }

    /// The file that is there when the configuration is complete.
    fn configured(&self) -> PathBuf {
        self.folder.join("configured")
    }

    /// The linker of `make`, where it is not Kbuild's own.
    fn linker(&self) -> Option<String> {
        let cross = self.options.machine.cross;
        (self.options.mode == Mode::Late)
            .then(|| format!("LD={} link --read-only -- {cross}ld", self.mcount.display()))
    }

    /// The variables that say who records.
    fn recorders(&self) -> &'static [&'static str] {
        match self.options.mode {
            _ if self.options.machine.has_nops => BY_COMPILER,
            Mode::Object => BY_RECORDMCOUNT,
            Mode::Archive | Mode::Late => BY_NOBODY,
        }
    }

    fn make(&self, targets: &[&str]) -> Result<()> {
        self.make_by(targets, self.recorders(), self.linker())
    }

    fn make_by(&self, targets: &[&str], by: &[&str], linker: Option<String>) -> Result<()> {
        let Options { machine, jobs, .. } = self.options;
        let mut make = Command::new("make");
        make.arg("-C").arg(&self.source).arg(format!("O={}", self.output.display()));
        make.arg(format!("ARCH={}", machine.arch)).args(machine.make);
        if !machine.cross.is_empty() {
            make.arg(format!("CROSS_COMPILE={}", machine.cross));
        }
        make.args(by).args(linker).arg(format!("-j{jobs}")).args(targets);
        execute(&mut make, &self.log())
    }

    fn log(&self) -> PathBuf {
        self.folder.join("build.log")
    }

    fn mcount(&self, arguments: &[&str], paths: &[PathBuf]) -> Result<()> {
        let mut mcount = Command::new(&self.mcount);
        mcount.args(arguments).args(paths).current_dir(&self.output);
        execute(&mut mcount, &self.log())
    }

    /// Puts a script in the place of `recordmcount`: it keeps each object as it is for the original,
    /// which stays beside it, and runs ours.
    fn take_its_place(&self) -> Result<()> {
        self.make(&["prepare"])?;
        let scripts = self.output.join("scripts");
        let (place, original) =
            (scripts.join("recordmcount"), scripts.join("recordmcount.original"));
        if !original.exists() {
            files::rename(&place, &original)?;
        }
        let script = format!(
            "#!/bin/sh\nfor file; do\n  case $file in -*) continue;; esac\n  \
             cp -p \"$file\" \"$file.theirs\" && '{}' \"$file.theirs\" 2>/dev/null\ndone\n\
             exec '{}' \"$@\"\n",
            original.display(),
            self.recordmcount.display()
        );
        files::write(&place, script.as_bytes())?;
        execute(Command::new("chmod").arg("755").arg(&place), &self.log())
    }

    /// Keeps copies of the objects. Unless the compiler has recorded them, the original records the copies, and what
    /// each way to record them costs is printed.
    fn copy_objects(&self) -> Result<()> {
        let objects = traced(&self.output)?;
        if self.options.machine.has_nops {
            return self.keep_compilers(&objects);
        }
        if copies(&self.output)?.is_empty() {
            let ours = [self.recordmcount.as_path(), &self.mcount];
            print_costs(&objects, ours, &self.folder.join("scratch"))?;
        }
        copy_for_the_original(&objects, &self.log())
    }

    /// Copies the objects with the compiler's tables, and takes the tables out of the objects.
    fn keep_compilers(&self, objects: &[PathBuf]) -> Result<()> {
        for object in objects {
            let copy = with_suffix(object, ".theirs");
            if !copy.exists() {
                let fresh = with_suffix(object, ".fresh");
                duplicate(object, &fresh, &self.log())?;
                self.without_table(object)?;
                files::rename(&fresh, &copy)?;
            }
        }
        Ok(())
    }

    fn without_table(&self, object: &Path) -> Result<()> {
        let mut objcopy = Command::new(format!("{}objcopy", self.options.machine.cross));
        objcopy.args(["--preserve-dates", "--remove-section=__mcount_loc"]).arg(object);
        execute(&mut objcopy, &self.log())
    }

    /// Records objects or modules that nobody has recorded, or whose table was taken out.
    fn record(&self, paths: &[PathBuf]) -> Result<()> {
        let nops: &[&str] = if self.options.machine.has_nops { &["--nops"] } else { &[] };
        self.mcount(&[&["record"], nops].concat(), paths)
    }

    /// The module, recorded as the kernel was.
    fn make_module(&self) -> Result<()> {
        let folder = self.module_source(OURS)?;
        self.make(&[&format!("M={}", folder.display()), "modules"])?;
        let module = folder.join("mcount_test.ko");
        if self.options.machine.has_nops {
            self.without_table(&module)?;
        }
        if self.options.mode != Mode::Object {
            self.record(std::slice::from_ref(&module))?;
        }
        self.keep_module(OURS, &module)
    }

    fn make_module_of_the_original(&self) -> Result<()> {
        let folder = self.module_source(THEIRS)?;
        let module = folder.join("mcount_test.ko");
        // Made anew: it may have been recorded.
        execute(Command::new("rm").arg("-f").arg(&module), &self.log())?;
        if self.options.machine.has_nops {
            self.make(&[&format!("M={}", folder.display()), "modules"])?;
            return self.keep_module(THEIRS, &module);
        }
        self.make_by(&[&format!("M={}", folder.display()), "modules"], BY_NOBODY, None)?;
        execute(Command::new(ORIGINAL).arg(&module), &self.log())?;
        self.keep_module(THEIRS, &module)
    }

    /// A folder to build the module in.
    fn module_source(&self, kernel: &str) -> Result<PathBuf> {
        let folder = self.folder.join(kernel).join("module");
        files::make_folder(&folder)?;
        files::write(&folder.join("mcount_test.c"), MODULE.as_bytes())?;
        files::write(&folder.join("Kbuild"), b"obj-m := mcount_test.o\n")?;
        Ok(folder)
    }

    /// Puts the module into the root folder of the kernel that loads it.
    fn keep_module(&self, kernel: &str, module: &Path) -> Result<()> {
        let root = self.folder.join(kernel).join("root");
        files::make_folder(&root)?;
        duplicate(module, &root.join("mcount_test.ko"), &self.log())
    }
}

/// The folder with the source, unpacked from what the Debian package installs. As root, the
/// package is installed if it is missing.
fn unpack(package: &str) -> Result<PathBuf> {
    let kernels = files::workspace().join("target/kernel");
    let folder = kernels.join(package);
    if !folder.join("Makefile").exists() {
        unpack_into(package, &folder)?;
    }
    Ok(folder)
}

/// Unpacks the source into `folder`.
fn unpack_into(package: &str, folder: &Path) -> Result<()> {
    let mut archive = PathBuf::from(format!("/usr/src/{package}.tar.xz"));
    if !archive.exists() && !apt::install(&[package])?.is_empty() {
        archive = newer::source(package)?;
    }
    files::make_folder(folder)?;
    let mut tar = Command::new("tar");
    tar.arg("xf").arg(&archive).args(["--strip-components=1", "-C"]).arg(folder);
    if !tar.status()?.success() {
        return Err(format!("{} can't be unpacked", archive.display()).into());
    }
    Ok(())
}
