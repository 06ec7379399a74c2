//! Programs in other languages than C and C++, with every hook that their compilers make.

use crate::Test;
use crate::truth::{Also, Room, same};

/// What gfortran takes, which is what gcc takes. With `-mfentry`, nested functions stay idle (`layouts.rs`).
const FORTRAN: &[(&str, &[&str])] = &[
    ("patchable-5", &["-O2", "-fno-inline", "-fpatchable-function-entry=5"]),
    ("patchable-5-O0", &["-O0", "-fpatchable-function-entry=5"]),
    ("pg", &["-O1", "-pg"]),
    ("static", &["-O2", "-fno-inline", "-fpatchable-function-entry=5", "-static"]),
];

/// What rustc takes, which needs a nightly compiler or `RUSTC_BOOTSTRAP`.
const RUST: &[(&str, &[&str])] = &[
    ("mcount", &["-O", "-Zinstrument-mcount"]),
    ("mcount-O0", &["-Zinstrument-mcount"]),
    ("patchable-5", &["-O", "-Zpatchable-function-entry=5"]),
    ("patchable-9,6-O0", &["-Zpatchable-function-entry=9,6"]),
    ("static", &["-O", "-Zpatchable-function-entry=5", "-Ctarget-feature=+crt-static"]),
];

pub(crate) fn tests() -> Vec<Test> {
    let fortran = FORTRAN.iter().map(|(name, flags)| Test {
        open: None,
        name: format!("language::fortran/{name}"),
        wants: vec!["gfortran"],
        run: Box::new(move || {
            let room = Room::new()?;
            // It writes the interface of the module beside the program.
            let folder = room.path("modules");
            std::fs::create_dir(&folder).map_err(|error| error.to_string())?;
            let mut all = vec!["-J", folder.to_str().unwrap_or_default()];
            all.extend(*flags);
            let program = room.compile("gfortran", &all, "fortran.f90")?;
            same(&room, &program, |_| {}, Also::Nesting)
        }),
    });
    let rust = RUST.iter().map(|(name, flags)| Test {
        open: None,
        name: format!("language::rust/{name}"),
        wants: vec!["rustc"],
        run: Box::new(move || {
            let room = Room::new()?;
            let program = room.compile("rustc", flags, "counted.rs")?;
            same(&room, &program, |_| {}, Also::Nesting)
        }),
    });
    fortran.chain(rust).collect()
}
