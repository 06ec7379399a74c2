//! Builds a C library for processors that Debian has none for: musl, of Debian's sources, by clang. It takes a
//! minute and stays in `target/hosts/roots`.
//!
//! What gcc calls libgcc is made of what's there: the arithmetic is in every static library of Rust, and for an unwinder no C
//! program has any use.

use std::path::Path;

use crate::sources::{shell, unpack};
use crate::{Result, files};

/// The programs without which nothing is built: packages of Debian have the same names, or nearly.
const BUILD: &str = r#"
here=$PWD
cc="clang-19 --target=$TARGET"
cd musl
./configure --target=$TARGET --prefix=/usr --disable-shared CC="$cc" AR=llvm-ar-19 RANLIB=llvm-ranlib-19
make -j2 install DESTDIR="$here"
cd ../usr/lib
# The arithmetic that the processor hasn't got is in the library. ld reads a text as more arguments.
echo 'INPUT(-l:libmcount-live.a)' >libgcc.a
$cc -O2 -ffreestanding -c ../../unwinder.c -o unwinder.o
llvm-ar-19 rcs libgcc_eh.a unwinder.o
# Compilers name these for every static program; musl needs nothing of them.
for name in crtbeginT crtbegin crtend; do $cc -x c -c /dev/null -o $name.o; done
# With -pg they name another start file, and code calls this function until its hooks are idle.
printf '.globl _mcount\n.type _mcount,%%function\n_mcount: ret\n' >mcount.s
$cc -c mcount.s -o mcount.o
ld.lld-19 -r crt1.o mcount.o -o gcrt1.o
rm -r ../../musl
"#;

/// Makes the folder `name` of a C library for `target`, with `usr/include` and `usr/lib` in it, if it isn't there.
pub(super) fn build(name: &str, target: &str) -> Result<()> {
    let roots = files::workspace().join("target/hosts/roots");
    let root = roots.join(name);
    if root.is_dir() {
        return Ok(());
    }
    files::make_folder(&roots)?;
    let partial = tempfile::Builder::new().prefix("build-").tempdir_in(&roots)?;
    fill(partial.path(), target)?;
    files::rename(&partial.keep(), &root)
}

fn fill(folder: &Path, target: &str) -> Result<()> {
    let project = files::workspace().join("target/project");
    unpack("musl", &project, &folder.join("musl"))?;
    files::write(&folder.join("unwinder.c"), include_bytes!("unwinder.c"))?;
    shell(folder, &format!("set -e; TARGET={target}\n{BUILD}")).map(drop)
}
