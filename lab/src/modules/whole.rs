//! All modules of a kernel in one object (`ld -r`): recorded as a whole, it must have the sites of
//! the modules one by one, each where the linker put its section.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

use super::batch::{self, Setting};
use super::elf::Object;
use super::sites::is_recorded_section;
use crate::debian::read_module;
use crate::{Result, files};

/// A section by its name, and an offset in it.
type Place = (String, u64);

/// Where the linker put the sections of an input: its number, the section's name, and the offset.
type Bases = BTreeMap<(usize, String), u64>;

/// Compares, and prints what it found; `false` if there is a difference.
pub(crate) fn compare(setting: &Setting, prefix: &str, modules: &[PathBuf]) -> Result<bool> {
    let folder = tempfile::Builder::new().prefix("whole-").tempdir_in(&setting.scratch)?;
    let mut inputs = Vec::with_capacity(modules.len());
    for (number, path) in modules.iter().enumerate() {
        let input = read_module(path)?;
        files::write(&folder.path().join(format!("{number}.ko")), &input)?;
        inputs.push(input);
    }
    let bases = link(prefix, folder.path(), modules.len())?;
    run(Command::new(&setting.ours).arg(folder.path().join("whole.o")))?;
    let whole = files::read(&folder.path().join("whole.o"))?;
    let whole = entries(&whole)?;
    let mut alone = BTreeSet::new();
    for (first, inputs) in inputs.chunks(64).enumerate() {
        let (copies, _) = batch::record(&setting.ours, &folder.path().join("alone"), inputs)?;
        for (number, copy) in (first * 64..).zip(copies) {
            for (section, offset) in entries(&files::read(&copy)?)? {
                let base = bases.get(&(number, section.clone()));
                let base = base.ok_or_else(|| format!("{number}.ko: where is {section}?"))?;
                alone.insert((section, base + offset));
            }
        }
    }
    let (lost, gained) = (alone.difference(&whole).count(), whole.difference(&alone).count());
    println!(
        "{} modules in one object: {} entries, {} one by one; {lost} lost, {gained} gained",
        modules.len(),
        whole.len(),
        alone.len()
    );
    for (section, offset) in alone.symmetric_difference(&whole).take(10) {
        println!("  {section}+{offset:#x}");
    }
    Ok(lost + gained == 0 && !whole.is_empty())
}

/// Links the modules in `folder` to `whole.o`, without table.
fn link(prefix: &str, folder: &Path, count: usize) -> Result<Bases> {
    let names: Vec<String> = (0..count).map(|number| format!("{number}.ko")).collect();
    files::write(&folder.join("inputs"), names.join("\n").as_bytes())?;
    // Every module defines init_module.
    let arguments = ["-r", "-z", "muldefs", "-Map", "map", "-o", "whole.o", "@inputs"];
    run(Command::new(format!("{prefix}ld")).args(arguments).current_dir(folder))?;
    let remove = ["-R", "__mcount_loc", "whole.o"];
    run(Command::new(format!("{prefix}objcopy")).args(remove).current_dir(folder))?;
    let map = files::read(&folder.join("map"))?;
    Ok(bases(&String::from_utf8_lossy(&map)))
}

/// Reads a linker map: ` NAME ADDRESS SIZE FILE`, after a long name on a line of its own.
fn bases(map: &str) -> Bases {
    let mut bases = Bases::new();
    let mut long = None;
    for line in map.lines() {
        let mut words: Vec<&str> = line.split_whitespace().collect();
        if let ([name], true) = (words.as_slice(), line.starts_with(" .")) {
            long = Some(*name);
            continue;
        }
        if let Some(name) = long.take() {
            words.insert(0, name);
        }
        let &[name, address, _, file] = words.as_slice() else { continue };
        let address = address.strip_prefix("0x").and_then(|hex| u64::from_str_radix(hex, 16).ok());
        let number = file.strip_suffix(".ko").and_then(|number| number.parse().ok());
        if let (Some(address), Some(number)) = (address, number) {
            bases.insert((number, name.to_owned()), address);
        }
    }
    bases
}

/// The entries in the table of `file`; none is outside of what Linux records.
fn entries(file: &[u8]) -> Result<BTreeSet<Place>> {
    let object = Object::parse(file)?;
    let mut found = BTreeSet::new();
    for place in object.table.iter().flat_map(|table| &table.entries) {
        let name = object.section_name(place.0);
        if !is_recorded_section(name) {
            return Err(format!("an entry in {name}").into());
        }
        if !found.insert((name.to_owned(), place.1)) {
            return Err(format!("{name}+{:#x} is there twice", place.1).into());
        }
    }
    Ok(found)
}

fn run(command: &mut Command) -> Result<()> {
    let output = command.output()?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr);
    let said: Vec<&str> = said.lines().take(10).collect();
    Err(format!("{}: {}", command.get_program().display(), said.join("\n")).into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_map_has_short_and_long_names() {
        let map = " .text          0x0000000000000010       0x20 0.ko\n .text.unlikely_long\n                0x40  0x8 12.ko\nx\n";
        let expected =
            [((0, ".text".to_owned()), 0x10), ((12, ".text.unlikely_long".to_owned()), 0x40)];
        assert_eq!(bases(map), expected.into());
    }
}
