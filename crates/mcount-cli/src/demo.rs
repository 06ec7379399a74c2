//! `mcount demo`: records an object for each processor. The objects are part of the program. In the
//! repository, `demo` has links to them, so that a package has copies.

use crate::inputs::Label;
use crate::output::{Listing, Named, SiteFormat};
use mcount::{Base, Options, Policy, RecordOptions, read_table, record};
use std::io::{self, Write};
use std::path::Path;

macro_rules! bundled {
    ($($name:literal),* $(,)?) => {
        [$(($name, include_bytes!(concat!("../demo/", $name, ".o")).as_slice())),*]
    };
}

/// An object for each processor, or for each form of call.
const OBJECTS: &[(&str, &[u8])] = &bundled![
    "x86_64-fentry",
    "x86_64-pg-pic",
    "x32-fentry",
    "i386-pg",
    "arm-arm",
    "arm-thumb",
    "armeb-arm",
    "aarch64-pg",
    "aarch64_be-pg",
    "aarch64-ilp32",
    "aarch64-patchable-4-2",
    "riscv64-pg",
    "riscv32-pg",
    "powerpc-pg",
    "powerpc64-pg",
    "powerpc64le-profile-kernel",
    "s390x-pg",
    "s390x-fentry",
    "s390-pg",
    "mips-pg",
    "mipsel-long-calls",
    "mips-micromips",
    "mips64-n64",
    "mips64el-n64-long-calls",
    "mips64-n32",
    "sparc64-pg",
    "sparc32-pg",
    "sh4-pg",
    "sh4eb-pg",
    "loongarch64-clang",
    "loongarch32-clang",
    "microblaze",
    "microblazeel",
    "csky",
    "cskybe",
    "hppa-pg",
    "hppa64-pg",
    "nds32le",
    "nds32be",
];

/// Records every bundled object and prints its table. Returns the exit code.
///
/// # Errors
///
/// Those of `out`.
pub fn run(out: &mut impl Write) -> io::Result<u8> {
    let policy = Policy::of(Base::All);
    let options = Options::default().policy(policy);
    let writable = RecordOptions::default().writable(true);
    let (mut sites, mut code) = (0, 0);
    for (name, object) in OBJECTS {
        let table = record(object, &options, &writable).and_then(|recording| {
            let new =
                recording.change.map_or_else(|| object.to_vec(), |change| change.apply(object));
            read_table(&new, &options)
        });
        match table {
            Ok(table) => {
                sites += table.sites.len();
                let label = Label::of(Path::new(&format!("{name}.o")));
                SiteFormat::Text.export().sites(out, Named::of(&label), &Listing::new(table))?;
                writeln!(out)?;
            }
            Err(error) => {
                writeln!(out, "{name}.o: {error}")?;
                code = 2;
            }
        }
    }
    writeln!(out, "{} objects, {sites} call sites recorded", OBJECTS.len())?;
    Ok(code)
}
