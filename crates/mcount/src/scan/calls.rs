//! Finding calls of the hook by their relocations: type and opcode decide.

use super::Target;
use crate::arch::Call;
use crate::elf::{Relocation, Symbols};
use crate::error::{Error, ErrorKind, Result};
use memchr::memmem;
use object::read::elf::FileHeader;

/// gcc puts this symbol into an object that holds LTO bytecode and nothing else.
const SLIM_LTO: &[u8] = b"__gnu_lto_slim\0";

/// A call of the hook in a section of an object.
#[derive(Clone, Copy)]
pub(crate) struct FoundCall {
    /// The section that holds the call.
    pub(crate) section: u32,
    /// Index of the hook symbol.
    pub(crate) hook: u32,
    /// The offset of the call's first relocation.
    pub(crate) reference: u64,
    /// What `arch` says of it.
    pub(crate) call: Call,
}

impl FoundCall {
    /// Its place in the order of a table.
    pub(crate) fn place(&self) -> (u32, u64) {
        (self.section, self.call.recorded)
    }
}

/// The indices of the hook symbols in `symbols`, ascending: the processor's and those called
/// `extra`.
///
/// The string table is searched first: an object without the name in it has no such symbol.
pub(crate) fn hooks<Elf: FileHeader>(
    target: &Target<'_, '_, Elf>,
    symbols: &Symbols<'_, Elf>,
    extra: &[String],
) -> Vec<u32> {
    let strings = symbols.strings();
    let known = target.arch.hooks.iter().copied();
    let mut names = Vec::new();
    for name in known.chain(extra.iter().map(String::as_str)) {
        let mut with_nul = name.as_bytes().to_vec();
        with_nul.push(0);
        // A name may be the tail of another: `mcount` inside `_mcount`.
        names.extend(memmem::find_iter(strings, &with_nul).filter_map(|at| u32::try_from(at).ok()));
    }
    names.sort_unstable();
    match names.as_slice() {
        [] => Vec::new(),
        [one] => matching(symbols, |name| name == *one),
        _ => matching(symbols, |name| names.binary_search(&name).is_ok()),
    }
}

fn matching<Elf: FileHeader>(symbols: &Symbols<'_, Elf>, wanted: impl Fn(u32) -> bool) -> Vec<u32> {
    symbols.names().filter(|(_, name)| wanted(*name)).map(|(index, _)| index).collect()
}

/// Every call of a hook in `target`, in section order, then offset order.
///
/// # Errors
///
/// Relocations of code are malformed or lie outside their section, or the file is slim LTO.
pub(crate) fn find<Elf: FileHeader>(
    target: &Target<'_, '_, Elf>,
    extra: &[String],
) -> Result<Vec<FoundCall>> {
    let sections = target.code_relocations()?;
    let Some(symbols) = &target.symbols else { return Ok(Vec::new()) };
    let hooks = hooks(target, symbols, extra);
    if hooks.is_empty() {
        return match memmem::find(symbols.strings(), SLIM_LTO) {
            Some(_) if sections.is_empty() => Err(Error::new(ErrorKind::SlimLto)),
            _ => Ok(Vec::new()),
        };
    }
    let mut found = Vec::new();
    let mut references = Vec::new();
    for (index, header, section) in sections {
        references.clear();
        let last =
            target.relocations(index, &header)?.of_symbols(&hooks, |found| references.push(found));
        if last >= symbols.count() {
            let kind = ErrorKind::Malformed("symbol index out of range");
            return Err(target.view.section_error(index, kind));
        }
        section_calls(target, section, index, &mut references, &mut found)?;
    }
    found.sort_by_key(FoundCall::place);
    found.dedup_by_key(|call| call.place());
    Ok(found)
}

/// The calls among `references` to the hook in `section`.
fn section_calls<Elf: FileHeader>(
    target: &Target<'_, '_, Elf>,
    section: u32,
    relocations: u32,
    references: &mut [Relocation],
    found: &mut Vec<FoundCall>,
) -> Result<()> {
    if references.is_empty() {
        return Ok(());
    }
    references.sort_by_key(|reference| reference.offset);
    let code = target.code(section)?;
    let mut end = 0;
    for reference in &*references {
        if reference.offset >= code.len() {
            let kind = ErrorKind::Malformed("a relocation lies outside its section");
            return Err(target.view.offset_error(relocations, reference.offset, kind));
        }
        // The rest of a call that has several relocations.
        if reference.offset < end {
            continue;
        }
        if let Some(call) = target.arch.call(code, reference.kind, reference.offset) {
            end = call.end;
            found.push(FoundCall {
                section,
                hook: reference.symbol,
                reference: reference.offset,
                call,
            });
        }
    }
    Ok(())
}
