//! What is true of an image, by what knows nothing of mcount: the program itself, as the loader
//! made it, and the text that readelf prints.

use crate::build::Case;
use std::collections::BTreeMap;
use std::ops::Range;
use std::path::Path;
use std::process::Command;
use testkit::process::run;

/// What a program said of itself.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Walk {
    /// Each entry: the function and the distance from its start, or `0`.
    pub(crate) entries: Vec<String>,
    /// How many entries are below the one before.
    pub(crate) descents: u64,
    /// Calls of the hook, by function.
    pub(crate) calls: BTreeMap<String, u64>,
    pub(crate) result: String,
}

impl Walk {
    /// Runs `image`, which is of `case`.
    pub(crate) fn of(case: &Case, image: &Path) -> Result<Self, String> {
        let launch = image.with_file_name("launch");
        let program = if case.flavour.shared { &launch } else { image };
        let output = run(&mut case.target.toolchain.execute(program))?;
        let mut walk = Self::default();
        for line in output.lines() {
            let (what, rest) = line.split_once(' ').unwrap_or((line, ""));
            let (name, value) = rest.rsplit_once(' ').unwrap_or(("", rest));
            let number = value.parse::<u64>().map_err(|error| format!("{line}: {error}"));
            match what {
                "entry" => walk.entries.push(rest.to_owned()),
                "descents" => walk.descents = number?,
                "calls" => drop(walk.calls.insert(name.to_owned(), number?)),
                "result" => value.clone_into(&mut walk.result),
                _ => return Err(output),
            }
        }
        if walk.entries.is_empty() || walk.result.is_empty() { Err(output) } else { Ok(walk) }
    }

    /// The entries in alphabetical order.
    pub(crate) fn multiset(&self) -> Vec<String> {
        let mut entries = self.entries.clone();
        entries.sort();
        entries
    }

    /// How often the hook was called.
    pub(crate) fn hook_calls(&self) -> u64 {
        self.calls.values().sum()
    }
}

/// A line of `readelf -SW`.
pub(crate) struct Section {
    pub(crate) name: String,
    pub(crate) kind: String,
    pub(crate) is_code: bool,
    pub(crate) range: Range<usize>,
}

impl Section {
    pub(crate) fn is_relocations(&self) -> bool {
        ["REL", "RELA", "RELR"].contains(&self.kind.as_str())
    }
}

fn readelf(option: &str, image: &Path) -> Result<String, String> {
    let output = Command::new("readelf").arg(option).arg("-W").arg(image).output();
    output.map(|o| String::from_utf8_lossy(&o.stdout).into_owned()).map_err(|e| e.to_string())
}

/// The sections of `image`.
pub(crate) fn sections(image: &Path) -> Result<Vec<Section>, String> {
    let text = readelf("-S", image)?;
    let mut found = Vec::new();
    for line in text.lines().filter_map(|line| line.trim_start().strip_prefix('[')) {
        let fields: Vec<&str> =
            line.split_once(']').map_or("", |(_, rest)| rest).split_whitespace().collect();
        let [name, kind, _, offset, size, _, flags, ..] = fields.as_slice() else { continue };
        let number = |digits: &str| usize::from_str_radix(digits, 16);
        let (Ok(offset), Ok(size)) = (number(offset), number(size)) else { continue };
        let range = offset..offset + if *kind == "NOBITS" { 0 } else { size };
        let is_code = flags.contains('X') && flags.contains('A');
        found.push(Section { name: (*name).into(), kind: (*kind).into(), is_code, range });
    }
    Ok(found)
}

/// How many relocations `image` has by section, those of no effect not counted.
pub(crate) fn relocations(image: &Path) -> Result<BTreeMap<String, usize>, String> {
    let mut counts = BTreeMap::new();
    let mut section = String::new();
    for line in readelf("-r", image)?.lines() {
        if let Some(name) = line.split('\'').nth(1) {
            name.clone_into(&mut section);
        } else if line.starts_with(|c: char| c.is_ascii_hexdigit()) && !line.contains("_NONE ") {
            *counts.entry(section.clone()).or_default() += 1;
        }
    }
    Ok(counts)
}

/// What the relocations that the linker kept over the table say: the place and the value of each,
/// in order of the places. None for REL, whose values are the table itself.
pub(crate) fn kept(image: &Path) -> Result<Vec<(u64, u64)>, String> {
    let mut found = Vec::new();
    let mut is_inside = false;
    for line in readelf("-r", image)?.lines() {
        if let Some(name) = line.split('\'').nth(1) {
            is_inside = name == ".rela__mcount_loc";
            continue;
        }
        let fields: Vec<&str> = line.split_whitespace().collect();
        let [place, _, kind, value, _, sign, addend, ..] = fields.as_slice() else { continue };
        let number = |digits: &str| u64::from_str_radix(digits, 16);
        let (Ok(place), Ok(value), Ok(addend)) = (number(place), number(value), number(addend))
        else {
            continue;
        };
        if is_inside && !kind.ends_with("_NONE") {
            let negative = *sign == "-";
            let sum = if negative { value.wrapping_sub(addend) } else { value + addend };
            found.push((place, sum));
        }
    }
    found.sort_unstable();
    Ok(found)
}

/// That readelf reads all of `image` and warns of nothing.
pub(crate) fn no_warnings(image: &Path) -> Result<(), String> {
    let output = Command::new("readelf").args(["-aW"]).arg(image).output();
    let output = output.map_err(|error| error.to_string())?;
    let stderr = String::from_utf8_lossy(&output.stderr);
    if output.status.success() && stderr.is_empty() { Ok(()) } else { Err(stderr.into_owned()) }
}

/// The sections that have a byte in which `new` is not `old`; `""` for what is in no section.
pub(crate) fn changed(sections: &[Section], old: &[u8], new: &[u8]) -> Vec<String> {
    let mut names = Vec::new();
    if old.len() != new.len() {
        names.push("(size)".to_owned());
    }
    for at in (0..old.len().min(new.len())).filter(|at| old.get(*at) != new.get(*at)) {
        let section = sections.iter().find(|section| section.range.contains(&at));
        let name = section.map_or("", |section| section.name.as_str());
        if names.last().is_none_or(|last| last != name) {
            names.push(name.to_owned());
        }
    }
    names
}
