//! The suites: where their files of tests are, and how one is run with Debian's program.

use super::results::{Results, of_junit, of_tap};
use crate::sources::{shell, unpack};
use crate::{Result, files};
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// Where a suite is, ready to be run.
pub(super) struct Place {
    pub(super) folder: PathBuf,
    pub(super) variables: Vec<(&'static str, OsString)>,
}

/// The folder in which a command is run, and its words.
type Words = (PathBuf, Vec<OsString>);

pub(super) struct Suite {
    pub(super) name: &'static str,
    pub(super) title: &'static str,
    /// Makes it ready in this folder.
    pub(super) prepare: fn(&Path) -> Result<Place>,
    pub(super) files: fn(&Place) -> Result<Vec<String>>,
    /// How a file is run; the last one is a folder for what it leaves.
    pub(super) command: fn(&Place, &str, &Path) -> Words,
    pub(super) results: fn(&str, &Path) -> Results,
    pub(super) variables: &'static [(&'static str, &'static str)],
}

pub(super) const SUITES: [Suite; 4] = [
    Suite {
        name: "python",
        title: "CPython 3.11, `libpython3.11-testsuite`",
        prepare: python,
        files: |place| {
            let of_python = |name: &str| {
                let name = name.strip_suffix(".py").unwrap_or(name);
                name.starts_with("test_").then(|| name.to_owned())
            };
            Ok(names(&place.folder)?.iter().filter_map(|name| of_python(name)).collect())
        },
        command: |_, file, scratch| {
            let results = scratch.join("results.xml");
            let words = ["/usr/bin/python3.11", "-m", "test", "--junit-xml"].map(OsString::from);
            let words = words.into_iter().chain([results.into(), file.into()]);
            (scratch.to_owned(), words.collect())
        },
        results: of_junit,
        variables: &[],
    },
    Suite {
        name: "perl",
        title: "perl 5.36, `t/` of its sources",
        prepare: perl,
        files: |place| {
            // Those of the sources themselves, those that need a machine of their own, and jokes.
            const OTHERS: [&str; 4] = ["porting", "bigmem", "win32", "japh"];
            let mut found = Vec::new();
            for group in names(&place.folder.join("t"))? {
                let folder = place.folder.join("t").join(&group);
                if folder.is_dir() && !OTHERS.contains(&group.as_str()) {
                    let all = names(&folder)?.into_iter().filter(|name| has_extension(name, "t"));
                    found.extend(all.map(|name| format!("{group}/{name}")));
                }
            }
            Ok(found)
        },
        command: perl_words,
        results: of_tap,
        variables: &[("PERL_CORE", "1")],
    },
    Suite {
        name: "git",
        title: "git 2.39, `t/` of its sources",
        prepare: git,
        files: |place| {
            // t91 to t98 are about other programs (Subversion, CVS, Perforce).
            let is_test = |name: &String| {
                has_extension(name, "sh")
                    && name
                        .strip_prefix('t')
                        .is_some_and(|rest| rest.starts_with(|digit| ('0'..='8').contains(&digit)))
            };
            Ok(names(&place.folder.join("t"))?.into_iter().filter(is_test).collect())
        },
        command: |place, file, scratch| {
            let root = format!("--root={}", scratch.display());
            let words = ["sh", &format!("./{file}"), &root].map(OsString::from);
            (place.folder.join("t"), words.to_vec())
        },
        results: of_tap,
        variables: &[("GIT_TEST_INSTALLED", "/usr/bin")],
    },
    Suite {
        name: "openssl",
        title: "openssl 3.0, the recipes of its sources",
        prepare: openssl,
        files: |place| {
            let recipes = names(&place.folder.join("test/recipes"))?;
            let of_recipe = |name: &str| {
                let name = name.strip_suffix(".t")?.split_once('-')?.1;
                name.starts_with("test_").then(|| name.to_owned())
            };
            Ok(recipes.iter().filter_map(|name| of_recipe(name)).collect())
        },
        command: |place, file, _| {
            let words = ["perl", "run_tests.pl", file].map(OsString::from);
            (place.folder.join("test"), words.to_vec())
        },
        results: of_tap,
        variables: &[("HARNESS_VERBOSE", "yes")],
    },
];

/// The names of what is in a folder.
fn names(folder: &Path) -> Result<Vec<String>> {
    let paths = files::list(folder)?.into_iter();
    Ok(paths.filter_map(|path| Some(path.file_name()?.to_str()?.to_owned())).collect())
}

fn has_extension(name: &str, extension: &str) -> bool {
    Path::new(name).extension().is_some_and(|found| found == extension)
}

/// Where sources that were fetched are.
fn downloads() -> PathBuf {
    files::target().join("project")
}

fn python(_: &Path) -> Result<Place> {
    let folder = PathBuf::from("/usr/lib/python3.11/test");
    if !folder.join("regrtest.py").is_file() {
        return Err("python: no tests: apt-get install libpython3.11-testsuite".into());
    }
    Ok(Place { folder, variables: Vec::new() })
}

/// The sources of `package`, unpacked and made ready by a line of sh, unless that has been done.
fn ready(package: &str, root: &Path, line: &str) -> Result<PathBuf> {
    let folder = root.join("source");
    let mark = root.join("ready");
    if !mark.is_file() {
        files::make_folder(&downloads())?;
        unpack(package, &downloads(), &folder)?;
        shell(&folder, line)?;
        files::write(&mark, b"")?;
    }
    Ok(folder)
}

/// The tests expect a perl that was built where they are, and its library in `lib`.
fn perl(root: &Path) -> Result<Place> {
    const LINE: &str = "rm -rf lib && mkdir lib && \
        for from in /usr/share/perl/5.36 /usr/lib/x86_64-linux-gnu/perl/5.36 /usr/lib/x86_64-linux-gnu/perl-base; do \
          cp -rL $from/. lib/; done && \
        ln -sf /usr/bin/perl perl && ln -sf /usr/bin/perl t/perl";
    Ok(Place { folder: ready("perl", root, LINE)?, variables: Vec::new() })
}

/// As the suite's own runner does it: with the options in the first line, and in all but the simplest tests with a module that finds the
/// library.
fn perl_words(place: &Place, file: &str, _: &Path) -> Words {
    const SIMPLEST: [&str; 3] = ["base/", "comp/", "run/"];
    let folder = place.folder.join("t");
    let text = files::read(&folder.join(file)).unwrap_or_default();
    let first = String::from_utf8_lossy(text.split(|byte| *byte == b'\n').next().unwrap_or(&[]));
    let mut words = vec![OsString::from("/usr/bin/perl")];
    if first.starts_with("#!") {
        let options = first.split_whitespace().skip(1).filter(|word| word.starts_with('-'));
        words.extend(options.map(OsString::from));
    }
    if !SIMPLEST.iter().any(|group| file.starts_with(group)) {
        words.extend(["-I..", "-MTestInit"].map(OsString::from));
    }
    words.push(file.into());
    (folder, words)
}

/// The tests need a program that's only built for them.
fn git(root: &Path) -> Result<Place> {
    const OPTIONS: &str = "NO_CURL=1 NO_EXPAT=1 NO_GETTEXT=1 NO_TCLTK=1 CFLAGS=-O0";
    let line = format!(
        "make -s {OPTIONS} t/helper/test-tool GIT-BUILD-OPTIONS && make -s {OPTIONS} -C templates"
    );
    Ok(Place { folder: ready("git", root, &line)?, variables: Vec::new() })
}

/// The recipes run the command `openssl` and small programs, which are compiled here for Debian's libraries. Those that use what libraries
/// don't export aren't there, and their recipes fail in both runs.
fn openssl(root: &Path) -> Result<Place> {
    const LINE: &str = "./Configure linux-x86_64 shared >/dev/null && \
        for wrapper in wrap.pl shlib_wrap.sh; do \
          printf '#!/usr/bin/perl\\nexec @ARGV or die;\\n' >util/$wrapper; chmod +x util/$wrapper; done && \
        ln -sf /usr/bin/openssl apps/openssl && \
        ln -sf /usr/lib/x86_64-linux-gnu/ossl-modules/legacy.so providers/legacy.so && \
        cd test && mkdir -p objects && cc='gcc -O0 -w -I.. -I../include -I../apps/include -I. -Itestutil' && \
        for one in testutil/*.c ../apps/lib/opt.c ../apps/lib/fmt.c ../apps/lib/app_rand.c; do \
          $cc -c $one -o objects/$(basename $one .c).o || exit 1; done && \
        for one in *.c; do \
          helpers=; if grep -q helpers/ssltestlib.h $one; then helpers=helpers/ssltestlib.c; fi; \
          $cc $one $helpers objects/*.o -o ${one%.c} -lssl -lcrypto 2>/dev/null || true; done && \
        gcc -O0 -w -fPIC -shared -I.. -I../include ../engines/e_ossltest.c -o ../engines/ossltest.so -lcrypto";
    let folder = ready("openssl", root, LINE)?;
    let top = folder.clone().into_os_string();
    Ok(Place { folder, variables: vec![("SRCTOP", top.clone()), ("BLDTOP", top)] })
}
