//! What the patches of `contrib/linux` gain, and whether the table that is made after the link has the functions that
//! the compiler lists.

use std::path::Path;

use object::{Object as _, ObjectSection as _, ObjectSymbol as _, SectionKind};

use super::build::Build;
use super::console::Seen;
use super::options::{OURS, Options, THEIRS};
use super::{boot, compare, state, verdict};
use crate::{Result, files};

/// What an image holds.
struct Image {
    /// The functions of the table, one for each entry, ascending.
    functions: Vec<String>,
    /// The size of its code, in bytes.
    code: u64,
}

/// Builds both kernels and compares them: `false` if ours doesn't trace, or its table has other functions.
pub(super) fn run(options: &Options) -> Result<bool> {
    if !options.boot_only {
        Build::new(options)?.with_patches()?;
    }
    let [ours, theirs] = [OURS, THEIRS].map(|kernel| boot(options, kernel));
    let (ours, theirs) = (ours?, theirs?);
    ours.print();
    ours.print_beside(&theirs);
    let images = [OURS, THEIRS].map(|kernel| read(&options.folder().join(kernel).join("vmlinux")));
    let [late, compilers] = images;
    let (late, compilers) = (late?, compilers?);
    let is_same = late.functions == compilers.functions && ours.entries == theirs.entries;
    println!("functions of the table: {}", late.functions.len());
    println!("{}", row(options, [&ours, &theirs], [&late, &compilers]));
    let is_well = ours.is_as_well_as(&theirs);
    println!("{}", verdict(is_well, is_same));
    Ok(is_well && is_same)
}

/// The line of docs/kernels-evidence.md.
fn row(options: &Options, [ours, theirs]: [&Seen; 2], [late, compilers]: [&Image; 2]) -> String {
    let gain = |now: u64, before: u64| match before.checked_sub(now) {
        #[expect(clippy::cast_precision_loss, reason = "a few digits are shown")]
        Some(less) if before > 0 => format!("{:.1} %", less as f64 * 100.0 / before as f64),
        _ => "–".to_owned(),
    };
    let work = |seen: &Seen| seen.work().unwrap_or(0);
    format!(
        "| {} {} | {} / {} | {} / {} | {} | {} / {} | {} | {} | {} |",
        options.machine.name,
        options.version(),
        ours.entries.unwrap_or(0),
        theirs.entries.unwrap_or(0),
        late.code,
        compilers.code,
        gain(late.code, compilers.code),
        work(ours),
        work(theirs),
        gain(work(ours), work(theirs)),
        ours.passed.len(),
        state(ours, theirs),
    )
}

fn read(path: &Path) -> Result<Image> {
    let data = files::read(path)?;
    let file = object::File::parse(data.as_slice())?;
    let is_code = |section: &object::Section| section.kind() == SectionKind::Text;
    let code = file.sections().filter(is_code).map(|section| section.size()).sum();
    let mut symbols: Vec<(u64, &str)> = file
        .symbols()
        .filter(|symbol| symbol.kind() == object::SymbolKind::Text)
        .filter_map(|symbol| Some((symbol.address(), symbol.name().ok()?)))
        .collect();
    symbols.sort_unstable();
    let table = compare::image_table(path)?;
    let mut functions: Vec<String> =
        table.iter().map(|address| function(&symbols, *address)).collect();
    functions.sort_unstable();
    Ok(Image { functions, code })
}

/// The function that an address is in, or comes behind: the first of several names.
fn function(symbols: &[(u64, &str)], address: u64) -> String {
    let end = symbols.partition_point(|(start, _)| *start <= address);
    let Some((start, _)) = end.checked_sub(1).and_then(|last| symbols.get(last)) else {
        return String::new();
    };
    let first = symbols.partition_point(|(other, _)| other < start);
    symbols.get(first).map_or_else(String::new, |(_, name)| (*name).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_in_the_function_before_it() {
        let symbols = [(16, "alias"), (16, "name"), (32, "other")];
        let names = [15, 16, 31, 32, 99].map(|address| function(&symbols, address));
        assert_eq!(names, ["", "alias", "alias", "other", "other"]);
    }
}
