//! What is made of objects whose headers lie: where one is recorded all the same, `readelf` has nothing
//! to say of the new object that it did not say of the old.
//!
//! Names of fields: gABI, 4.
#![expect(clippy::unwrap_used, clippy::indexing_slicing, reason = "a test")]

use mcount::{Base, Options, Policy, RecordOptions};
use std::collections::BTreeSet;
use std::path::Path;
use testkit::prebuilt::{self, Prebuilt};
use testkit::room::Room;
use testkit::sample::one_in;
use testkit::test;
use testkit::tiny_elf::{get, header_fields, put, section_fields};
use testkit::tools::need;

fn main() -> std::process::ExitCode {
    testkit::trial::main()
}

/// Files that `readelf` is given in one call.
const BATCH: usize = 256;

/// An object with one field of a header changed, and what became of it.
struct Lie {
    what: String,
    old: Vec<u8>,
    new: Vec<u8>,
}

/// `bytes` with the field at `offset` set to what it is not, as often as that can be recorded.
fn lies(found: &mut Vec<Lie>, bytes: &[u8], (offset, size): (usize, usize), what: &str) {
    let policy = Policy::of(Base::All);
    let options = Options::default().policy(policy);
    let big_endian = bytes[5] == 2;
    let value = get(bytes, offset, size, big_endian);
    let most = u64::MAX >> (64 - 8 * size);
    for lie in
        BTreeSet::from([0, 1, most, value.wrapping_sub(1) & most, value.wrapping_add(1) & most])
    {
        let mut old = bytes.to_vec();
        put(&mut old, offset, size, big_endian, lie);
        if let Ok(recording) = mcount::record(&old, &options, &RecordOptions::default())
            && let Some(change) = recording.change
        {
            found.push(Lie { what: format!("{what}: {lie:#x}"), new: change.apply(&old), old });
        }
    }
}

/// All lies about one object.
fn lies_about(Prebuilt { name, bytes }: &Prebuilt) -> Vec<Lie> {
    let (is_64, big_endian) = (bytes[4] == 2, bytes[5] == 2);
    let mut found = Vec::new();
    for field in header_fields(is_64) {
        lies(&mut found, bytes, (field.offset, field.size), &format!("{name}: {}", field.name));
    }
    let value = |name: &str| {
        let field = header_fields(is_64).into_iter().find(|f| f.name == name).unwrap();
        usize::try_from(get(bytes, field.offset, field.size, big_endian)).unwrap()
    };
    for index in 0..value("e_shnum") {
        for field in section_fields(is_64) {
            let at = value("e_shoff") + index * value("e_shentsize") + field.offset;
            let what = format!("{name}: section {index}: {}", field.name);
            lies(&mut found, bytes, (at, field.size), &what);
        }
    }
    found
}

/// What `readelf` complains of in each of `files`, without numbers, which move.
fn complaints(room: &Room, files: &[&[u8]]) -> Vec<BTreeSet<String>> {
    let names: Vec<_> = (0..files.len()).map(|number| format!("{number}.o")).collect();
    for (name, file) in names.iter().zip(files) {
        room.put(name, file).unwrap();
    }
    let mut arguments = vec!["-c", "exec readelf -hSsrgW \"$@\" 2>&1", "sh", "/dev/null"];
    arguments.extend(names.iter().map(String::as_str));
    let said = room.run(Path::new("sh"), &arguments).unwrap().stdout;
    let parts: Vec<_> = said.split("\nFile: ").skip(1).collect();
    assert_eq!(parts.len(), files.len(), "readelf says which file it reads");
    let plain = |line: &str| line.chars().filter(|c| !c.is_ascii_hexdigit()).collect();
    let of = |part: &&str| {
        part.lines().filter(|line| line.starts_with("readelf: ")).map(plain).collect()
    };
    parts.iter().map(of).collect()
}

#[test]
fn readelf_reads_what_is_made_of_lies() {
    need(["readelf", "sh"]);
    let mut made = 0;
    let mut worse = Vec::new();
    let objects = one_in(4, prebuilt::one_of_each().unwrap());
    for object in &objects {
        let lies = lies_about(object);
        made += lies.len();
        for batch in lies.chunks(BATCH) {
            let room = Room::new().unwrap();
            let old = complaints(&room, &batch.iter().map(|lie| &*lie.old).collect::<Vec<_>>());
            let new = complaints(&room, &batch.iter().map(|lie| &*lie.new).collect::<Vec<_>>());
            for ((lie, old), new) in batch.iter().zip(old).zip(new) {
                let added: Vec<_> = new.difference(&old).collect();
                if !added.is_empty() {
                    worse.push(format!("{}: {added:?}", lie.what));
                }
            }
        }
    }
    let least = 40 * objects.len();
    assert!(made > least, "most lies about what recording does not read are let pass: {made}");
    assert!(worse.is_empty(), "{}", worse.join("\n"));
}
