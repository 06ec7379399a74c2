//! Images whose relocations are packed as Android's linker wants them: they have the same sites and
//! the same table as those whose relocations are not.

use libtest_mimic::Arguments;
use mcount::{Base, CallSite, CheckOptions, Options, Policy, RecordOptions, SortOptions};
use std::process::{Command, ExitCode};
use testkit::process::run;
use testkit::room::Room;
use testkit::trial::trial;

/// The hook is called through a GOT slot that the loader fills, and the table has relative relocations.
const SOURCE: &str = "extern int other(int);
int one(int x) { return other(x) + 1; }
int two(int x) { return one(x) + other(2); }
static int three(int x) { return x * 3; }
int (*all[])(int) = {one, two, three, other};
";

/// With addends in the relocations, and with addends in place.
const COMPILERS: [&str; 3] =
    ["x86_64-linux-gnu-gcc", "i686-linux-gnu-gcc", "aarch64-linux-gnu-gcc"];

fn main() -> ExitCode {
    let trials =
        COMPILERS.map(|compiler| trial(compiler, [compiler, "ld.lld"], move || perform(compiler)));
    libtest_mimic::run(&Arguments::from_args(), trials.into()).exit_code()
}

fn perform(compiler: &str) -> Result<(), String> {
    let room = Room::new()?;
    let source = room.put("all.c", SOURCE.as_bytes())?;
    let mut command = Command::new(compiler);
    command.args(["-O1", "-pg", "-fPIC", "-fno-plt", "-c"]).arg(source);
    run(command.arg("-o").arg(room.path("all.o")))?;
    let policy = Policy::of(Base::All);
    let options = Options::default().policy(policy);
    let writable = RecordOptions::default().writable(true);
    let object = room.get("all.o")?;
    let recording =
        mcount::record(&object, &options, &writable).map_err(|error| error.to_string())?;
    room.put("recorded.o", &recording.change.ok_or("nothing was recorded")?.apply(&object))?;
    let plain = link(&room, "none")?;
    let packed = link(&room, "android")?;
    let places = |file: &[u8]| judge(file, &options);
    let (plain, from_packed) = (places(&plain)?, places(&packed)?);
    if plain != from_packed || plain.0 != 3 {
        return Err(format!("{from_packed:?}, and without packing {plain:?}"));
    }
    refused("sort", mcount::sort_table(&packed, &options, &SortOptions::default()).map(drop))?;
    refused("nop", mcount::make_nops(&packed, &options, &|_| true).map(drop))
}

fn link(room: &Room, packing: &str) -> Result<Vec<u8>, String> {
    let image = room.path("image.so");
    let mut command = Command::new("ld.lld");
    command.args(["-shared", "--pack-dyn-relocs", packing]).arg(room.path("recorded.o"));
    run(command.arg("-o").arg(&image))?;
    room.get("image.so")
}

/// How many sites there are, the functions that sites and entries are of, and what `check` says.
fn judge(file: &[u8], options: &Options) -> Result<(usize, Vec<String>, Vec<String>), String> {
    let text = |error: mcount::Error| error.to_string();
    let sites = mcount::scan(file, options).map_err(text)?.sites;
    let table = mcount::read_table(file, options).map_err(text)?.sites;
    let name = |site: &CallSite| {
        let (symbol, distance) = (site.symbol.as_deref().unwrap_or("?"), site.symbol_offset);
        format!("{symbol} {distance:?} {:?} {}", site.kind, site.recorded)
    };
    let names = sites.iter().chain(&table).map(name).collect();
    let findings = mcount::check(file, options, &CheckOptions::default()).map_err(text)?;
    let findings = findings.iter().map(|finding| finding.rule.name().to_owned()).collect();
    Ok((sites.len(), names, findings))
}

fn refused(what: &str, result: Result<(), mcount::Error>) -> Result<(), String> {
    let error = result.err().map(|error| error.to_string()).unwrap_or_default();
    let is_refused = error.contains("Android's packed relocations");
    if is_refused { Ok(()) } else { Err(format!("{what}: {error:?}")) }
}
