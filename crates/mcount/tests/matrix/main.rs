//! Every form of call, built from data, in every class and byte order that its processor has, with
//! REL and with RELA: recorded, and read back by two readers.
//!
//! Its own program because it tests what compilers here don't emit, from data that was written from the
//! instruction set manuals and the psABIs, not from the library.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

mod calls;

use calls::Code::B;
use calls::{CALLS, Call, Code, MIPS};
use mcount::{
    Base, Glob, GlobSetBuilder, Kind, NopChange, Options, Policy, RecordOptions, make_nops,
    read_table, record, scan,
};
use testkit::reader;
use testkit::test;
use testkit::tiny_elf::Object;

fn main() -> std::process::ExitCode {
    testkit::trial::main()
}

/// Everything that must hold for `object`; what does not, as text.
fn judge(call: &Call, object: &Object) -> Result<(), String> {
    let file = object.build();
    let options = Options::default();
    let sites = scan(&file, &options).map_err(|error| error.to_string())?.sites;
    let found = |sites: Vec<mcount::CallSite>| -> Vec<(String, u64)> {
        sites
            .into_iter()
            .map(|site| (site.section.unwrap().to_string(), site.offset.unwrap()))
            .collect()
    };
    let expected = call.expected();
    same("scan", &found(sites), &expected)?;
    let recording =
        record(&file, &options, &RecordOptions::default()).map_err(|error| error.to_string())?;
    let Some(change) = recording.change else { return same("recorded", &vec![], &expected) };
    let new = change.apply(&file);
    let table = read_table(&new, &options).map_err(|error| error.to_string())?.sites;
    same("read_table", &found(table), &expected)?;
    let second: Vec<_> = reader::table(&new, "__mcount_loc")?;
    let second: Vec<_> = second.into_iter().map(|place| (place.section, place.offset)).collect();
    same("the other reader", &second, &expected)?;
    let kinds = reader::relocations(&new, "__mcount_loc")?;
    let kinds: Vec<_> = kinds.into_iter().map(|relocation| relocation.1).collect();
    let address = call.address[usize::from(object.is_64)];
    same("types", &kinds, &vec![address; expected.len()])?;
    let policy = Policy::of(Base::All);
    let again = record(&new, &options.policy(policy), &RecordOptions::default())
        .map_err(|error| error.to_string())?;
    same("second recording", &again.change.is_some(), &false)
}

fn same<T: PartialEq + std::fmt::Debug + ?Sized>(
    what: &str,
    found: &T,
    expected: &T,
) -> Result<(), String> {
    if found == expected { Ok(()) } else { Err(format!("{what}: {found:x?}, not {expected:x?}")) }
}

/// A call that is recorded and then becomes a NOP stays recorded, and so it does where recording makes
/// the NOP.
fn judge_again(call: &Call, object: &Object) -> Result<(), String> {
    let file = object.build();
    let policy = Policy::of(Base::All);
    let options = Options::default().policy(policy);
    let text = |error: mcount::Error| error.to_string();
    let recorded = record(&file, &options, &RecordOptions::default()).map_err(text)?.change;
    let recorded = recorded.map_or_else(|| file.clone(), |change| change.apply(&file));
    let nops = make_nops(&recorded, &options, &|_| true).map_err(text)?;
    let NopChange::Object(change) = nops.change else { return Err("an image".to_owned()) };
    let made = if call.nop.is_some() { call.expected().len() } else { 0 };
    same("made", &nops.made, &made)?;
    let nopped = change.map_or_else(|| recorded.clone(), |change| change.apply(&recorded));
    let at_once = RecordOptions::default().nop_all(true);
    let change = record(&file, &options, &at_once).map_err(text)?.change;
    let at_once_nopped = change.map_or_else(|| file.clone(), |change| change.apply(&file));
    for (what, file) in [("nop", nopped), ("record --nop-all", at_once_nopped)] {
        for how in [&RecordOptions::default(), &at_once] {
            let again = record(&file, &options, how).map_err(text)?;
            same(what, &again.change.is_some(), &false)?;
            same(what, &again.recorded, &call.expected().len())?;
            // Nor does looking for NOPs find the same call in another place.
            let again = record(&file, &options.clone().nops(true), how).map_err(text)?;
            same(&format!("{what} --nops"), &again.recorded, &call.expected().len())?;
        }
        let table = reader::table(&file, "__mcount_loc")?;
        let table: Vec<_> = table.into_iter().map(|at| (at.section, at.offset)).collect();
        same(what, &table, &call.expected())?;
        let sites = scan(&file, &options).map_err(text)?.sites;
        let nops = sites.iter().filter(|site| site.kind == Some(Kind::Nop) && site.recorded);
        same(what, &nops.count(), &made)?;
    }
    Ok(())
}

/// What the kernel's own recorder writes over a call on i386; objtool writes what we write.
const ATOMIC_NOP: Code = B(&[0x3e, 0x8d, 0x74, 0x26, 0]);

/// Another tool made NOPs of the calls and `R_*_NONE` of their relocations, which still name the hook.
/// They are sites if NOPs are asked for, and can be recorded then.
fn judge_disarmed(call: &Call, object: &Object) -> Result<(), String> {
    let (Some(nop), [_]) = (call.nop, call.relocations) else { return Ok(()) };
    let is_i386_call = call.name.starts_with("i386 P");
    let other = is_i386_call.then_some(ATOMIC_NOP);
    for nop in [nop].into_iter().chain(other) {
        let call = Call { code: nop, ..*call };
        let mut disarmed = call.object(object.is_64, object.big_endian, object.rela);
        for section in &mut disarmed.sections {
            section.relocations.iter_mut().for_each(|relocation| relocation.kind = 0);
        }
        judge_disarmed_file(&call, &disarmed.build())?;
    }
    Ok(())
}

fn judge_disarmed_file(call: &Call, file: &[u8]) -> Result<(), String> {
    let policy = Policy::of(Base::All);
    let options = Options::default().policy(policy);
    let text = |error: mcount::Error| error.to_string();
    same("disarmed, unasked", &scan(file, &options).map_err(text)?.sites.len(), &0)?;
    let options = options.nops(true);
    let sites = scan(file, &options).map_err(text)?.sites;
    let is_nop = sites.iter().all(|site| site.kind == Some(Kind::Nop));
    same("disarmed", &is_nop, &true)?;
    let places = |sites: Vec<mcount::CallSite>| -> Vec<(String, u64)> {
        let place = |site: &mcount::CallSite| (site.section.clone(), site.offset);
        let places = sites.iter().map(place);
        places.map(|(section, offset)| (section.unwrap().to_string(), offset.unwrap())).collect()
    };
    same("disarmed", &places(sites), &call.expected())?;
    let change = record(file, &options, &RecordOptions::default())
        .map_err(text)?
        .change
        .ok_or("nothing was recorded")?;
    let recorded = change.apply(file);
    let unasked = options.nops(false);
    let table = read_table(&recorded, &unasked).map_err(text)?.sites;
    let is_nop = table.iter().all(|site| site.kind == Some(Kind::Nop));
    same("disarmed, recorded", &is_nop, &true)?;
    same("disarmed, recorded", &places(table), &call.expected())?;
    same(
        "unasked",
        &record(&recorded, &unasked, &RecordOptions::default()).map_err(text)?.change.is_some(),
        &false,
    )
}

/// In excluded sections calls do nothing, and nothing refers to the hook from there.
fn judge_nops(call: &Call, object: &Object) -> Result<(), String> {
    let file = object.build();
    let every = GlobSetBuilder::new().add(Glob::new("*").unwrap()).build().unwrap();
    let policy = Policy::default().exclude_sections(every);
    let options = Options::default().policy(policy);
    let recording =
        record(&file, &options, &RecordOptions::default()).map_err(|error| error.to_string())?;
    let counts: Vec<_> = recording.excluded.iter().map(|s| (s.made_nops, s.left)).collect();
    let expected = match (call.recorded, call.nop) {
        (None, _) => vec![],
        (_, Some(_)) => vec![(2, 0), (1, 0)],
        (_, None) => vec![(0, 2), (0, 1)],
    };
    same("excluded", &counts, &expected)?;
    let Some(change) = recording.change else {
        return same("no NOPs", &(call.nop.is_some() && call.recorded.is_some()), &false);
    };
    let new = change.apply(&file);
    let nop = call.bytes(call.nop.ok_or("something changed")?, object.big_endian);
    for section in reader::sections(&new)?.iter().filter(|section| section.name == ".text.a") {
        same("NOPs", &section.data[32..32 + nop.len()], &nop[..])?;
        same("NOPs", &section.data[96..96 + nop.len()], &nop[..])?;
        same("between", &section.data[80..96], &[0; 16][..])?;
    }
    for (name, starts) in [(".text.a", &[32, 96][..]), (".text.b", &[0])] {
        let at = |start: u64| call.relocations.iter().map(move |(_, at)| (start + at, 0, 0));
        let expected: Vec<_> = starts.iter().copied().flat_map(at).collect();
        let found = reader::relocations(&new, name)?;
        let found: Vec<_> = found.iter().map(|entry| (entry.0, entry.1, entry.2)).collect();
        same("relocations", &found, &expected)?;
    }
    same("calls left", &scan(&new, &options).unwrap().sites.len(), &0)
}

#[test]
fn every_call_in_every_form_of_elf() {
    let mut failures = Vec::new();
    let mut count = 0;
    for call in CALLS {
        for bits in 0..8 {
            let (is_64, big_endian, rela) = (bits & 1 != 0, bits & 2 != 0, bits & 4 != 0);
            if call.address[usize::from(is_64)] == 0 || call.relocations[0].0 > 0xff && !is_64 {
                continue;
            }
            count += 1;
            // Two readers of three do not know this one, and no assembler makes it.
            if call.machine == MIPS.machine && is_64 && !big_endian && !rela {
                let file = call.object(is_64, big_endian, rela).build();
                let error = scan(&file, &Options::default()).map_err(|error| error.to_string());
                let is_refused = error.as_ref().is_err_and(|error| error.contains("REL"));
                if !is_refused {
                    failures.push(format!("{}: n64el REL: {error:?}", call.name));
                }
                continue;
            }
            let object = call.object(is_64, big_endian, rela);
            if let Err(reason) = judge(call, &object)
                .and_then(|()| judge_nops(call, &object))
                .and_then(|()| judge_again(call, &object))
                .and_then(|()| judge_disarmed(call, &object))
            {
                let class = if is_64 { 64 } else { 32 };
                let order = if big_endian { "big" } else { "little" };
                failures.push(format!("{}, {class}, {order}, RELA {rela}: {reason}", call.name));
            }
        }
    }
    assert!(failures.is_empty(), "{} of {count}:\n{}", failures.len(), failures.join("\n"));
}
