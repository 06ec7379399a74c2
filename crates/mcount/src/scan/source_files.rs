//! Which functions are of a source file, by its `STT_FILE` symbol: so that the functions of a file
//! can be left alone after it was linked with others (`ld -r`), as recorders leave `ftrace.o` alone.
//!
//! A file symbol precedes the local symbols of its file (gABI, 4, "Symbol Table"). Global symbols
//! come behind all local ones and belong to no file by their place. So a function is of a file if
//!
//! - it has a local symbol at its start, and that is of the file; or
//! - the last local symbol before its start and the first one after it, in its section, are both of
//!   the file: a linker puts the code of a file there in one piece; or
//! - the object has one file symbol only.
//!
//! A global function before the first local symbol of its file, or behind the last, is of no file.

use super::Target;
use super::functions::{Functions, code_of};
use crate::elf::Symbol;
use crate::policy::Policy;
use object::elf;
use object::read::elf::FileHeader;
use std::collections::HashMap;

/// A local symbol of code.
struct Local {
    start: u64,
    is_function: bool,
    excluded: bool,
}

/// What is of the files that a policy leaves alone.
#[derive(Default)]
pub(crate) struct SourceFiles {
    /// The object was made of one file, which is left alone.
    whole: bool,
    /// By section, in order of address.
    locals: HashMap<u32, Vec<Local>>,
}

impl SourceFiles {
    /// The files of `target` that `policy` leaves alone.
    pub(crate) fn new<Elf: FileHeader>(
        target: &Target<'_, '_, Elf>,
        functions: &Functions<'_>,
        policy: &Policy,
    ) -> Self {
        let mut found = Self::default();
        let Some(symbols) = &target.symbols else { return found };
        if policy.exclude_file_symbols.is_empty() {
            return found;
        }
        let (mut files, mut excluded) = (0, false);
        for (_, symbol) in symbols.iter().take(symbols.first_global as usize) {
            if symbol.kind == elf::STT_FILE.0 {
                files += 1;
                excluded = policy.excludes_file_symbol(symbols.name(&symbol));
            } else if !symbol.is_section()
                && let Some((section, start)) = code_of(target, &symbol, &functions.descriptors)
            {
                let local = Local { start, is_function: Symbol::is_function(&symbol), excluded };
                found.locals.entry(section).or_default().push(local);
            }
        }
        found.whole = files == 1 && excluded && !target.is_image;
        for list in found.locals.values_mut() {
            list.sort_by_key(|local| local.start);
        }
        found
    }

    /// Whether the function that starts at `start` of `section` is of a file to leave alone.
    fn exclude(&self, section: u32, start: u64) -> bool {
        let Some(list) = self.locals.get(&section) else { return self.whole };
        let first = list.partition_point(|local| local.start < start);
        let after = list.partition_point(|local| local.start <= start);
        let mut own = list.get(first..after).unwrap_or_default().iter();
        if let Some(own) = own.find(|local| local.is_function) {
            return own.excluded;
        }
        let previous = first.checked_sub(1).and_then(|at| list.get(at));
        let is_excluded = |local: Option<&Local>| local.is_some_and(|local| local.excluded);
        self.whole || is_excluded(previous) && is_excluded(list.get(after))
    }
}

impl Policy {
    /// Whether the function at `offset` of `section`, or the one that an area of `size` bytes there
    /// leads to, is left alone, by its name or by its file.
    pub(crate) fn leaves_alone(
        &self,
        functions: &Functions<'_>,
        files: &SourceFiles,
        (section, offset, size): (u32, u64, u64),
    ) -> bool {
        functions.find(section, offset, size).is_some_and(|(name, start)| {
            self.excludes_symbol(name) || files.exclude(section, start)
        })
    }
}
