//! The compiler's list of sleds, `xray_instr_map`, and the flaws of it. LLVM's runtime writes to wherever it leads, without
//! looking at what is there.

use super::{Flaw, InSection, Rule};
use crate::error::Result;
use crate::scan::Target;
use crate::table::sleds::{self, SledEntry};
use crate::words::counted;
use std::collections::HashMap;

/// How many bytes of code a message shows.
const SHOWN: usize = 6;

/// The flaws of the list of `target`.
///
/// # Errors
///
/// Relocations of the list are malformed.
pub(super) fn flaws(target: &Target<'_, '_>) -> Result<Vec<Flaw>> {
    let mut found = Vec::new();
    let size = sleds::entry_size(target);
    for part in sleds::parts(target) {
        let rest = part.header.size % size;
        if rest != 0 {
            let bytes = counted(rest, "byte is", "bytes are");
            let detail = format!("{bytes} behind the last entry, and entries have {size}");
            found.push((Rule::SledMap, (part.index, part.header.size - rest), detail));
        }
    }
    let mut seen = HashMap::new();
    for (number, entry) in sleds::entries(target)?.iter().enumerate() {
        if let Some(detail) = flaw(target, entry) {
            let place = entry.place.unwrap_or(entry.slot);
            found.push((Rule::SledMap, place, format!("entry {number}: {detail}")));
        } else if let Some(place) = entry.place
            && let Some(first) = seen.insert(place, number)
        {
            let detail = format!("entries {first} and {number} both lead there");
            found.push((Rule::SledMap, place, detail));
            seen.insert(place, first);
        }
    }
    Ok(found)
}

/// What is wrong with an entry, if anything is.
fn flaw(target: &Target<'_, '_>, entry: &SledEntry) -> Option<String> {
    let is_code =
        |place: InSection| target.view.section(place.0).is_ok_and(|section| section.is_code());
    let Some(place) = entry.place else {
        return Some("it leads to nothing in this file".to_owned());
    };
    if !is_code(place) {
        let name = crate::names::lossy(target.view.section_name(place.0)).into_owned();
        return Some(format!("it leads to {name}, which has no code"));
    }
    if sleds::sled(target, entry).is_none() {
        let (kind, bytes) = (entry.kind, bytes(target, place));
        return Some(format!("no sled of kind {kind} is there, but {bytes}"));
    }
    let Some(function) = entry.function.filter(|function| is_code(*function)) else {
        return Some("its function isn't in the code".to_owned());
    };
    (function.0 == place.0 && function.1 > place.1)
        .then(|| "its sled is before its function".to_owned())
}

/// The first bytes at `place`, in hexadecimal.
fn bytes(target: &Target<'_, '_>, (section, offset): InSection) -> String {
    let data = target.view.section_data(section).unwrap_or_default();
    let at = usize::try_from(offset).ok().and_then(|start| data.get(start..));
    let shown = at.unwrap_or_default().iter().take(SHOWN);
    let shown: Vec<_> = shown.map(|byte| format!("{byte:02x}")).collect();
    if shown.is_empty() { "the section ends".to_owned() } else { shown.join(" ") }
}
