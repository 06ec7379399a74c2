//! `cargo xtask deb [DIST]`: packages of Debian, of what `cargo xtask dist` made, in `DIST/deb`.
//!
//! `--check` has lintian judge them. `--install` installs them in a clean Debian root that mmdebstrap makes, runs
//! the programs there, purges the packages, and compares the files with those from before. The time in the packages
//! is that of the last commit, so that the same programs make the same packages.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::{Result, files};

mod install;

/// The maintainer, unless `DEBFULLNAME` and `DEBEMAIL` say otherwise.
const MAINTAINER: (&str, &str) = ("mcount maintainers", "mcount@users.noreply.github.com");

/// A package: its name, section, what it depends on besides the C library, what it is, and more about it.
struct Package {
    name: &'static str,
    section: &'static str,
    depends: &'static [&'static str],
    synopsis: &'static str,
    about: &'static str,
    /// What goes where, from the folder of `dist`; `@` is the processor's folder of libraries.
    content: &'static [(&'static str, &'static str)],
}

const PACKAGES: [Package; 4] = [
    Package {
        name: "mcount",
        section: "devel",
        depends: &[],
        synopsis: "call sites of function tracing: tables, checks and traces",
        about: "For tracing, compilers leave a hook at the start of each function. This finds the hooks in \
                objects, kernels and programs of any processor, makes and checks the table that tracers \
                such as ftrace need, replaces recordmcount in kernel builds, and records the calls of \
                running programs.",
        content: &[
            ("bin/mcount", "usr/bin/"),
            ("bin/recordmcount", "usr/bin/"),
            ("man/man1", "usr/share/man/man1/"),
            ("completions/mcount", "usr/share/bash-completion/completions/"),
            ("completions/_mcount", "usr/share/zsh/vendor-completions/"),
            ("completions/mcount.fish", "usr/share/fish/vendor_completions.d/"),
        ],
    },
    Package {
        name: "libmcount0",
        section: "libs",
        depends: &[],
        synopsis: "call sites of function tracing in ELF files, for C",
        about: "This library finds the hooks that compilers leave for tracers, and makes, reads and checks \
                the table of them, in memory and in files.",
        content: &[("lib/libmcount.so.0", "usr/lib/@/")],
    },
    Package {
        name: "libmcount-live0",
        section: "libs",
        depends: &[],
        synopsis: "arms the function tracing hooks of the program that uses it",
        about: "A program that uses this library can see the calls of its own functions, or record them \
                into a trace, while it runs.",
        content: &[("lib/libmcount-live.so.0", "usr/lib/@/")],
    },
    Package {
        name: "libmcount-dev",
        section: "libdevel",
        depends: &["libmcount0 (= @)", "libmcount-live0 (= @)"],
        synopsis: "headers and static libraries of mcount, for C",
        about: "These are what programs are built with that use libmcount or libmcount-live.",
        content: &[
            ("include/mcount", "usr/include/mcount/"),
            ("lib/libmcount.a", "usr/lib/@/"),
            ("lib/libmcount.so", "usr/lib/@/"),
            ("lib/libmcount-live.a", "usr/lib/@/"),
            ("lib/libmcount-live.so", "usr/lib/@/"),
            ("lib/pkgconfig", "usr/lib/@/pkgconfig/"),
            ("man/man3", "usr/share/man/man3/"),
        ],
    },
];

/// Runs the chore.
pub(crate) fn run(mut parser: lexopt::Parser) -> Result<bool> {
    let (mut dist, mut is_checked, mut is_installed) = (PathBuf::from("dist"), false, false);
    while let Some(argument) = parser.next()? {
        match argument {
            lexopt::Arg::Long("check") => is_checked = true,
            lexopt::Arg::Long("install") => is_installed = true,
            lexopt::Arg::Value(folder) => dist = PathBuf::from(folder),
            other => return Err(other.unexpected().into()),
        }
    }
    let packages = build(&dist)?;
    for package in &packages {
        println!("{}", package.display());
    }
    let is_clean = !is_checked || lint(&packages)?;
    let is_well = !is_installed || install::check(&packages)?;
    Ok(is_clean && is_well)
}

/// Makes all packages of the folder `dist`.
pub(crate) fn build(dist: &Path) -> Result<Vec<PathBuf>> {
    let machine = Machine::ask()?;
    let folder = dist.join("deb");
    let _ = std::fs::remove_dir_all(&folder);
    files::make_folder(&folder)?;
    PACKAGES.iter().map(|package| package.build(dist, &folder, &machine)).collect()
}

/// Whether lintian has nothing to say.
pub(crate) fn lint(packages: &[PathBuf]) -> Result<bool> {
    let mut lintian = Command::new("lintian");
    lintian.args(["--fail-on", "error,warning", "--tag-display-limit", "0"]).args(packages);
    Ok(lintian.status()?.success())
}

/// Whether the packages install, run and go away.
pub(crate) fn install(packages: &[PathBuf]) -> Result<bool> {
    install::check(packages)
}

/// What the packages of this machine have in common.
struct Machine {
    architecture: String,
    /// The folder of libraries, such as `x86_64-linux-gnu`.
    libraries: String,
    version: String,
    /// The time of the last commit, in seconds, and as changelogs have it.
    time: (String, String),
    maintainer: String,
}

impl Machine {
    fn ask() -> Result<Self> {
        let time = said("git", &["log", "-1", "--format=%ct"])?;
        let date = said("date", &["--utc", "--rfc-email", "--date", &format!("@{time}")])?;
        let variable = |name: &str, usual: &str| std::env::var(name).unwrap_or(usual.to_owned());
        let name = variable("DEBFULLNAME", MAINTAINER.0);
        let address = variable("DEBEMAIL", MAINTAINER.1);
        Ok(Self {
            architecture: said("dpkg", &["--print-architecture"])?,
            libraries: said("gcc", &["-print-multiarch"])?,
            version: env!("CARGO_PKG_VERSION").to_owned(),
            time: (time, date),
            maintainer: format!("{name} <{address}>"),
        })
    }
}

impl Package {
    /// Makes the package in `folder`; its path.
    fn build(&self, dist: &Path, folder: &Path, machine: &Machine) -> Result<PathBuf> {
        let root = tempfile::tempdir()?;
        let root = root.path();
        for (from, to) in self.content {
            let to = root.join(to.replace('@', &machine.libraries));
            files::make_folder(&to)?;
            copy(&dist.join(from), &to)?;
        }
        self.documents(root, machine)?;
        let objects = objects(root)?;
        self.about_libraries(root, machine, &objects)?;
        said(
            "sh",
            &["-c", "find \"$0\" -path '*/man/*' -type f -exec gzip -9n {} +", &show(root)],
        )?;
        said("chmod", &["-R", "u=rwX,go=rX", &show(root)])?;
        for library in objects.iter().filter(|object| object.extension().is_some()) {
            said("chmod", &["644", &show(library)])?;
        }
        self.control(root, machine, &objects)?;
        let (version, architecture) = (&machine.version, &machine.architecture);
        let package = folder.join(format!("{}_{version}_{architecture}.deb", self.name));
        let mut build = Command::new("dpkg-deb");
        build.env("SOURCE_DATE_EPOCH", &machine.time.0).env("TZ", "UTC");
        build.args(["--root-owner-group", "-Zxz", "--build"]).arg(root).arg(&package);
        let output = build.output()?;
        if !output.status.success() {
            return Err(String::from_utf8_lossy(&output.stderr).into_owned().into());
        }
        Ok(package)
    }

    /// The copyright, the changelog, and what lintian should know.
    fn documents(&self, root: &Path, machine: &Machine) -> Result<()> {
        let folder = root.join("usr/share/doc").join(self.name);
        files::make_folder(&folder)?;
        let (name, version) = (self.name, &machine.version);
        let copyright = format!(
            "Format: https://www.debian.org/doc/packaging-manuals/copyright-format/1.0/\n\
             Upstream-Name: mcount\nSource: {}\n\nFiles: *\nCopyright: the mcount authors\n\
             License: Expat or Apache-2.0\n\nLicense: Expat\n{}\nLicense: Apache-2.0\n On Debian systems, the \
             text is in /usr/share/common-licenses/Apache-2.0.\n",
            env!("CARGO_PKG_REPOSITORY"),
            indented(&files::read(&files::workspace().join("LICENSE-MIT"))?)
        );
        files::write(&folder.join("copyright"), copyright.as_bytes())?;
        let changelog = format!(
            "mcount ({version}) unstable; urgency=medium\n\n  * See CHANGELOG.md in the sources.\n\n -- {}  {}\n",
            machine.maintainer, machine.time.1
        );
        let path = folder.join("changelog");
        files::write(&path, changelog.as_bytes())?;
        said("gzip", &["-9n", &show(&path)])?;
        if name == "mcount" {
            let overrides = root.join("usr/share/lintian/overrides");
            files::make_folder(&overrides)?;
            let why = "# A kernel build starts it thousands of times; static, that takes half the time.\n\
                       mcount: statically-linked-binary [usr/bin/recordmcount]\n\
                       mcount: shared-library-lacks-prerequisites [usr/bin/recordmcount]\n";
            files::write(&overrides.join(name), why.as_bytes())?;
        }
        Ok(())
    }

    /// Strips `objects`; if one is a shared library, says which package programs need for it. Also says where
    /// things are installed, to pkg-config.
    fn about_libraries(&self, root: &Path, machine: &Machine, objects: &[PathBuf]) -> Result<()> {
        let control = root.join("DEBIAN");
        files::make_folder(&control)?;
        for object in objects {
            said("strip", &["--strip-unneeded", "-R", ".comment", "-R", ".note", &show(object)])?;
        }
        if self.section == "libs" {
            let library = self.name.strip_suffix('0').unwrap_or(self.name);
            let needed = format!("{library} 0 {} (>= {})\n", self.name, machine.version);
            files::write(&control.join("shlibs"), needed.as_bytes())?;
            files::write(&control.join("triggers"), b"activate-noawait ldconfig\n")?;
        }
        let known = root.join("usr/lib").join(&machine.libraries).join("pkgconfig");
        if known.is_dir() {
            for file in files::list(&known)? {
                let text = String::from_utf8(files::read(&file)?)?;
                let text = text.replace("${pcfiledir}/../..", "/usr");
                let libraries = format!("libdir=${{prefix}}/lib/{}", machine.libraries);
                let text = text.replace("libdir=${prefix}/lib", &libraries);
                files::write(&file, text.as_bytes())?;
            }
        }
        Ok(())
    }

    /// The control file and the checksums.
    fn control(&self, root: &Path, machine: &Machine, objects: &[PathBuf]) -> Result<()> {
        let mut depends: Vec<String> =
            self.depends.iter().map(|name| name.replace('@', &machine.version)).collect();
        depends.extend(c_library(objects)?);
        let depends = if depends.is_empty() {
            String::new()
        } else {
            format!("Depends: {}\n", depends.join(", "))
        };
        let size = said("du", &["-ks", "--apparent-size", &show(root)])?;
        let size = size.split_whitespace().next().unwrap_or("0");
        let is_library = if self.section == "devel" { "" } else { "Multi-Arch: same\n" };
        let text = format!(
            "Package: {}\nSource: mcount\nVersion: {}\nArchitecture: {}\nMaintainer: {}\nInstalled-Size: {size}\n\
             {depends}Section: {}\nPriority: optional\n{is_library}Homepage: {}\nDescription: {}\n{}",
            self.name,
            machine.version,
            machine.architecture,
            machine.maintainer,
            self.section,
            env!("CARGO_PKG_REPOSITORY"),
            self.synopsis,
            folded(self.about)
        );
        let control = root.join("DEBIAN");
        files::write(&control.join("control"), text.as_bytes())?;
        let sums = "cd \"$0\" && find usr -type f | LC_ALL=C sort | xargs md5sum";
        let sums = said("sh", &["-c", sums, &show(root)])?;
        files::write(&control.join("md5sums"), format!("{sums}\n").as_bytes())
    }
}

/// Copies a file, a link, or all files of a folder into the folder `to`.
fn copy(from: &Path, to: &Path) -> Result<()> {
    let from = if from.is_dir() { format!("{}/.", from.display()) } else { show(from) };
    said("cp", &["-RP", &from, &show(to)]).map(drop)
}

/// The programs and shared libraries in `root`.
fn objects(root: &Path) -> Result<Vec<PathBuf>> {
    let places = "find \"$0\" -type f \\( -path '*/bin/*' -o -name '*.so.*' \\)";
    let found = said("sh", &["-c", places, &show(root)])?;
    Ok(found.lines().map(PathBuf::from).collect())
}

/// The packages of shared libraries that `objects` need, by the versions of symbols that they use.
fn c_library(objects: &[PathBuf]) -> Result<Vec<String>> {
    let (mut newest, mut needs_gcc) = (None, false);
    for object in objects {
        let symbols = said("objdump", &["-p", &show(object)])?;
        needs_gcc |= symbols.contains("libgcc_s.so.1");
        let versions = symbols.split_whitespace().filter_map(|word| word.strip_prefix("GLIBC_2."));
        newest = newest.max(versions.filter_map(|minor| minor.parse::<u32>().ok()).max());
    }
    let c = newest.map(|minor| format!("libc6 (>= 2.{minor})"));
    Ok(c.into_iter().chain(needs_gcc.then(|| "libgcc-s1 (>= 4.2)".to_owned())).collect())
}

/// `text` as the lines of a description.
fn folded(text: &str) -> String {
    let mut lines = vec![String::new()];
    for word in text.split_whitespace() {
        let is_full = lines.last().is_some_and(|line| line.len() + word.len() > 72);
        if is_full {
            lines.push(String::new());
        }
        if let Some(line) = lines.last_mut() {
            line.push(' ');
            line.push_str(word);
        }
    }
    lines.join("\n") + "\n"
}

/// `text` as a paragraph of a copyright file.
fn indented(text: &[u8]) -> String {
    let text = String::from_utf8_lossy(text);
    let lines = text
        .lines()
        .map(|line| if line.is_empty() { " .\n".to_owned() } else { format!(" {line}\n") });
    lines.collect()
}

fn show(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}

/// What a program that must succeed prints, without the end of its last line.
fn said(program: &str, arguments: &[&str]) -> Result<String> {
    let output = Command::new(program).args(arguments).output()?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr).into_owned();
        return Err(format!("{program} {}: {}\n{why}", arguments.join(" "), output.status).into());
    }
    Ok(String::from_utf8(output.stdout)?.trim_end().to_owned())
}
