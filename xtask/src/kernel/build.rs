//! Building the kernel with Kbuild as it is: make, with variables on its command line, and a program
//! in the place of `scripts/recordmcount`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use super::configuration::{BY_NOBODY, BY_RECORDMCOUNT, compose, dropped};
use super::{Mode, Options};
use crate::modules::ORIGINAL;
use crate::{Result, files};

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
        let (mcount, recordmcount) = build_programs()?;
        let source = unpack(&options.source)?;
        Ok(Self { options, folder, source, output, mcount, recordmcount })
    }

    /// Compiles, records, links; seconds of processor time that it took.
    pub(super) fn run(&self) -> Result<f64> {
        let begin = processor_time()?;
        self.configure()?;
        match self.options.mode {
            Mode::Object => self.take_its_place()?,
            Mode::Archive => {
                self.make(&["vmlinux_o"])?;
                self.copy_for_the_original()?;
                self.mcount(&["record"], &self.archives()?)?;
            }
            Mode::Late => {}
        }
        self.make(&["vmlinux", "modules"])?;
        if self.options.mode == Mode::Late {
            self.copy_for_the_original()?;
        }
        if self.options.drop_weak {
            self.mcount(&["sort", "--verbose", "--drop-weak"], &[self.output.join("vmlinux")])?;
        }
        self.make(&[self.options.machine.target()])?;
        let module = self.make_module()?;
        super::boot::make_initramfs(self.options.machine, &self.folder, &module)?;
        Ok(processor_time()? - begin)
    }

    /// Links the copies that the original recorded, in the place of ours.
    pub(super) fn relink_originals(&self) -> Result<()> {
        for copy in copies(&self.output)? {
            let object = copy.with_extension("");
            files::rename(&object, &with_suffix(&object, ".ours"))?;
            files::rename(&copy, &object)?;
        }
        self.remove_image()?;
        self.make_by(&["vmlinux"], None)?;
        self.make_by(&[self.options.machine.target()], None)
    }

    /// Undoes [`Self::relink_originals`], but for the image: the next run links it again.
    pub(super) fn put_back(&self) -> Result<()> {
        for ours in with_extension(&self.output, "ours")? {
            let object = ours.with_extension("");
            files::rename(&object, &with_suffix(&object, ".theirs"))?;
            files::rename(&ours, &object)?;
        }
        self.remove_image()
    }

    fn remove_image(&self) -> Result<()> {
        let mut remove = Command::new("rm");
        remove.args(["-f", "vmlinux", "vmlinux.o", "vmlinux.a"]).current_dir(&self.output);
        execute(&mut remove, &self.folder.join("build.log"))
    }

    fn configure(&self) -> Result<()> {
        let config = self.output.join(".config");
        if config.exists() {
            return Ok(());
        }
        self.make(&["allnoconfig"])?;
        let base = String::from_utf8(files::read(&config)?)?;
        let more = match &self.options.config {
            Some(path) => String::from_utf8(files::read(path)?)?,
            None => String::new(),
        };
        let machine = self.options.machine.config;
        files::write(&config, compose(&base, machine, &more).as_bytes())?;
        self.make(&["olddefconfig"])?;
        let lost = dropped(&String::from_utf8(files::read(&config)?)?, machine, &more);
        if lost.is_empty() { Ok(()) } else { Err(format!("dropped: {}", lost.join(" ")).into()) }
    }

    /// The linker of `make`, where it is not Kbuild's own.
    fn linker(&self) -> Option<String> {
        let cross = self.options.machine.cross;
        (self.options.mode == Mode::Late)
            .then(|| format!("LD={} link --read-only -- {cross}ld", self.mcount.display()))
    }

    fn make(&self, targets: &[&str]) -> Result<()> {
        self.make_by(targets, self.linker())
    }

    fn make_by(&self, targets: &[&str], linker: Option<String>) -> Result<()> {
        let Options { machine, mode, jobs, .. } = self.options;
        let mut make = Command::new("make");
        make.arg("-C").arg(&self.source).arg(format!("O={}", self.output.display()));
        make.arg(format!("ARCH={}", machine.arch)).args(machine.make);
        if !machine.cross.is_empty() {
            make.arg(format!("CROSS_COMPILE={}", machine.cross));
        }
        make.args(if *mode == Mode::Object { BY_RECORDMCOUNT } else { BY_NOBODY });
        make.args(linker).arg(format!("-j{jobs}")).args(targets);
        execute(&mut make, &self.folder.join("build.log"))
    }

    fn mcount(&self, arguments: &[&str], paths: &[PathBuf]) -> Result<()> {
        let mut mcount = Command::new(&self.mcount);
        mcount.args(arguments).args(paths).current_dir(&self.output);
        execute(&mut mcount, &self.folder.join("build.log"))
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
        execute(Command::new("chmod").arg("755").arg(&place), &self.folder.join("build.log"))
    }

    /// The archives that the kernel is linked of.
    fn archives(&self) -> Result<Vec<PathBuf>> {
        let mut archives = with_extension(&self.output, "a")?;
        archives
            .retain(|path| path.ends_with("lib/lib.a") || *path == self.output.join("vmlinux.a"));
        Ok(archives)
    }

    /// Copies what Kbuild would have recorded, and has the original record the copies.
    fn copy_for_the_original(&self) -> Result<()> {
        for archive in self.archives()? {
            let list =
                Command::new("ar").arg("t").arg(&archive).current_dir(&self.output).output()?;
            let objects = String::from_utf8(list.stdout)?;
            for object in objects.lines().map(|name| self.output.join(name)) {
                let copy = with_suffix(&object, ".theirs");
                if copy.exists() || !is_traced(&object) {
                    continue;
                }
                let log = self.folder.join("build.log");
                execute(Command::new("cp").arg("-p").args([&object, &copy]), &log)?;
                // Without a call it may say that it is no object it knows.
                let mut original = Command::new(ORIGINAL);
                original.arg(&copy).stdout(Stdio::null()).stderr(Stdio::null()).status()?;
            }
        }
        Ok(())
    }

    /// The module, recorded.
    fn make_module(&self) -> Result<PathBuf> {
        let folder = self.folder.join("module");
        files::make_folder(&folder)?;
        files::write(&folder.join("mcount_test.c"), MODULE.as_bytes())?;
        files::write(&folder.join("Kbuild"), b"obj-m := mcount_test.o\n")?;
        self.make(&[&format!("M={}", folder.display()), "modules"])?;
        let module = folder.join("mcount_test.ko");
        if self.options.mode != Mode::Object {
            self.mcount(&["record"], std::slice::from_ref(&module))?;
        }
        Ok(module)
    }
}

/// Whether Kbuild compiled the object with the flag that makes hooks.
fn is_traced(object: &Path) -> bool {
    let name = object.file_name().unwrap_or_default().to_string_lossy().into_owned();
    let command = files::read(&object.with_file_name(format!(".{name}.cmd"))).unwrap_or_default();
    String::from_utf8_lossy(&command).split_whitespace().any(|word| word == "-pg")
}

/// The copies that the original recorded, below a folder.
pub(super) fn copies(folder: &Path) -> Result<Vec<PathBuf>> {
    with_extension(folder, "theirs")
}

fn with_extension(folder: &Path, extension: &str) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![folder.to_owned()];
    while let Some(folder) = folders.pop() {
        for path in files::list(&folder)? {
            if path.is_symlink() {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else if path.extension().is_some_and(|found| found == extension) {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

fn with_suffix(path: &Path, suffix: &str) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(suffix);
    name.into()
}

/// The release builds of our programs.
fn build_programs() -> Result<(PathBuf, PathBuf)> {
    let mut cargo = Command::new(env!("CARGO"));
    cargo.args(["build", "--quiet", "--release", "--bin", "recordmcount", "--bin", "mcount"]);
    if !cargo.current_dir(files::workspace()).status()?.success() {
        return Err("the programs do not build".into());
    }
    let target = std::env::var_os("CARGO_TARGET_DIR").map_or("target".into(), PathBuf::from);
    let folder = files::workspace().join(target).join("release");
    Ok((folder.join("mcount"), folder.join("recordmcount")))
}

/// The folder with the source, unpacked from what the Debian package installs.
fn unpack(package: &str) -> Result<PathBuf> {
    let kernels = files::workspace().join("target/kernel");
    let folder = kernels.join(package);
    if !folder.join("Makefile").exists() {
        let archive = format!("/usr/src/{package}.tar.xz");
        let mut tar = Command::new("tar");
        tar.args(["xf", &archive, "-C"]).arg(&kernels);
        if !tar.status()?.success() {
            return Err(format!("{archive}: install the package {package}").into());
        }
    }
    Ok(folder)
}

/// Runs a command, with what it prints in `log` if it fails.
pub(super) fn execute(command: &mut Command, log: &Path) -> Result<()> {
    let output = command.stdin(Stdio::null()).output()?;
    if output.status.success() {
        return Ok(());
    }
    files::write(log, &[output.stdout, output.stderr].concat())?;
    let program = command.get_program().display();
    Err(format!("{program} failed, see {}", log.display()).into())
}

/// Seconds of processor time that children of this process took.
fn processor_time() -> Result<f64> {
    let text = String::from_utf8(files::read(Path::new("/proc/self/stat"))?)?;
    children_ticks(&text).map(|ticks| ticks / 100.0).ok_or_else(|| "/proc/self/stat".into())
}

/// `cutime` and `cstime` of `/proc/PID/stat`, proc(5).
fn children_ticks(stat: &str) -> Option<f64> {
    // The name, in brackets, may hold anything; the field behind it is the third.
    let (_, fields) = stat.rsplit_once(") ")?;
    let mut fields = fields.split(' ').skip(13);
    let user: f64 = fields.next()?.parse().ok()?;
    let system: f64 = fields.next()?.parse().ok()?;
    Some(user + system)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_of_children() {
        let stat = "7 (a ) b) S 1 7 7 0 -1 4194304 100 2000 0 0 5 6 700 80 20 0 1 0 9 1 1";
        assert_eq!(children_ticks(stat), Some(780.0));
        assert_eq!(children_ticks("7 (a) S 1"), None);
    }

    #[test]
    fn only_what_was_compiled_with_the_flag_is_traced() {
        let folder = tempfile::tempdir().unwrap();
        let object = folder.path().join("a.o");
        assert!(!is_traced(&object));
        let command = folder.path().join(".a.o.cmd");
        for (text, expected) in
            [("gcc -pg -mfentry -c a.c", true), ("gcc -pgx -c a.c", false), ("gcc -c a-pg", false)]
        {
            files::write(&command, text.as_bytes()).unwrap();
            assert_eq!(is_traced(&object), expected, "{text}");
        }
    }
}
