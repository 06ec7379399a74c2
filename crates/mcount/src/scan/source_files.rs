//! Which source file a function belongs to. Recorders leave out the functions of `ftrace.o`, and after
//! `ld -r` only an `STT_FILE` symbol tells which those are.
//!
//! The symbol of a file comes before the local symbols of that file (gABI, 4, "Symbol Table"). Global
//! symbols come behind all local ones, so their position tells nothing. A function belongs to a file if
//!
//! - it has a local symbol at its start that belongs to the file; or
//! - the last local symbol before it and the first one after it, in its section, both belong to the
//!   file, because linkers keep the code of a file together; or
//! - the object has only one file.
//!
//! We don't know the file of a global function that is before the first local symbol of its file or
//! after the last.

use super::Target;
use super::functions::{FunctionIndex, code_of};
use crate::elf::Symbol;
use crate::policy::Policy;
use object::elf;
use std::collections::HashMap;

/// A local symbol of code.
struct Local {
    start: u64,
    is_function: bool,
    /// A position in [`SourceFiles::files`].
    file: Option<usize>,
}

/// A source file.
struct SourceFile<'d> {
    name: &'d [u8],
    /// Whether the policy leaves its functions alone.
    excluded: bool,
}

/// The source files of an object or image, and what belongs to each.
#[derive(Default)]
pub(crate) struct SourceFiles<'d> {
    files: Vec<SourceFile<'d>>,
    /// Whether it is an object of a single file.
    whole: bool,
    /// The local symbols of each section, in order of address.
    locals: HashMap<u32, Vec<Local>>,
}

impl<'d> SourceFiles<'d> {
    /// The files of `target`, if `policy` leaves any file alone. Otherwise none.
    pub(crate) fn new(
        target: &Target<'_, 'd>,
        functions: &FunctionIndex<'d>,
        policy: &Policy,
    ) -> Self {
        if policy.exclude_file_symbols.is_empty() {
            return Self::default();
        }
        Self::all(target, functions, policy)
    }

    /// All files of `target`.
    pub(crate) fn all(
        target: &Target<'_, 'd>,
        functions: &FunctionIndex<'d>,
        policy: &Policy,
    ) -> Self {
        let mut found = Self::default();
        let Some(symbols) = &target.symbols else { return found };
        for (_, symbol) in symbols.iter().take(symbols.first_global as usize) {
            if symbol.kind == elf::STT_FILE.0 {
                let name = symbols.name(&symbol);
                found.files.push(SourceFile { name, excluded: policy.excludes_file_symbol(name) });
            } else if !symbol.is_section()
                && let Some((section, start)) = code_of(target, &symbol, &functions.descriptors)
            {
                let file = found.files.len().checked_sub(1);
                let local = Local { start, is_function: Symbol::is_function(&symbol), file };
                found.locals.entry(section).or_default().push(local);
            }
        }
        found.whole = found.files.len() == 1 && !target.is_image;
        for list in found.locals.values_mut() {
            list.sort_by_key(|local| local.start);
        }
        found
    }

    /// The files of the local symbols before and after the function that starts at `start` of `section`.
    /// If the function has a local symbol, or there is only one file, both are its own.
    fn around(&self, section: u32, start: u64) -> [Option<&SourceFile<'d>>; 2] {
        let whole = if self.whole { self.files.first() } else { None };
        let Some(list) = self.locals.get(&section) else { return [whole; 2] };
        let first = list.partition_point(|local| local.start < start);
        let after = list.partition_point(|local| local.start <= start);
        let mut own = list.get(first..after).unwrap_or_default().iter();
        if let Some(own) = own.find(|local| local.is_function) {
            return [self.file(own); 2];
        }
        if whole.is_some() {
            return [whole; 2];
        }
        let previous = first.checked_sub(1).and_then(|at| list.get(at));
        [previous, list.get(after)].map(|local| self.file(local?))
    }

    /// The file of a local symbol.
    fn file(&self, local: &Local) -> Option<&SourceFile<'d>> {
        self.files.get(local.file?)
    }

    /// Whether the function that starts at `start` of `section` belongs to a file to leave alone.
    fn exclude(&self, section: u32, start: u64) -> bool {
        self.around(section, start).iter().all(|file| file.is_some_and(|file| file.excluded))
    }

    /// The name of the file of the function that starts at `start` of `section`.
    pub(crate) fn name(&self, section: u32, start: u64) -> Option<&'d [u8]> {
        let [before, after] = self.around(section, start);
        let (before, after) = (before?, after?);
        (std::ptr::eq(before, after) && !before.name.is_empty()).then_some(before.name)
    }
}

impl Policy {
    /// Whether to leave the function at `offset` of `section` alone, by its name or its file. It may be
    /// the one that an area of `size` bytes there reaches.
    pub(crate) fn leaves_alone(
        &self,
        functions: &FunctionIndex<'_>,
        files: &SourceFiles<'_>,
        (section, offset, size): (u32, u64, u64),
    ) -> bool {
        if self.exclude_symbols.is_empty() && self.exclude_file_symbols.is_empty() {
            return false;
        }
        functions.find(section, offset, size).is_some_and(|(name, start)| {
            self.excludes_symbol(name) || files.exclude(section, start)
        })
    }
}
