//! What `mcount sort` must do to each image of the matrix.

use crate::build::{Case, mcount};
use crate::ensure;
use crate::truth::{Section, Walk, changed, kept, no_warnings, relocations, sections};
use std::path::Path;
use std::time::SystemTime;
use testkit::files::read;
use testkit::process::run;

/// Sorts `image`, which is of `case`, and holds it against what it was.
pub(crate) fn is_right(case: &Case, image: &Path) -> Result<(), String> {
    let (old, before) = (read(image)?, Walk::of(case, image)?);
    ensure(before.descents != 0, || format!("sorted as it is: {before:?}"))?;
    let (count, over) = (relocations(image)?, kept(image)?);
    let places = sections(image)?;
    no_warnings(image)?;
    run(mcount(&["sort"]).arg(image))?;
    let after = Walk::of(case, image)?;
    ensure(after.descents == 0, || format!("not sorted: {after:?}"))?;
    ensure(after.multiset() == before.multiset(), || format!("{before:?}\n{after:?}"))?;
    ensure(after.calls == before.calls && after.result == before.result, || format!("{after:?}"))?;
    let new_count = relocations(image)?;
    ensure(new_count == count, || format!("relocations: {count:?}, then {new_count:?}"))?;
    moved_along(&over, &kept(image)?)?;
    no_warnings(image)?;
    let new = read(image)?;
    for name in changed(&places, &old, &new) {
        let section = places.iter().find(|section| section.name == name);
        let is_expected = name == "__mcount_loc" || section.is_some_and(Section::is_relocations);
        ensure(is_expected, || format!("changed: {name:?}"))?;
    }
    let time = modified(image)?;
    run(mcount(&["sort"]).arg(image))?;
    ensure(read(image)? == new, || "sorting twice is not sorting once".to_owned())?;
    ensure(modified(image)? == time, || "a sorted image was written".to_owned())
}

/// That the relocations kept for other tools ascend as the table does, and are the same.
fn moved_along(before: &[(u64, u64)], after: &[(u64, u64)]) -> Result<(), String> {
    let sorted = |list: &[(u64, u64)]| {
        let mut values: Vec<u64> = list.iter().map(|(_, value)| *value).collect();
        values.sort_unstable();
        values
    };
    let values: Vec<u64> = after.iter().map(|(_, value)| *value).collect();
    ensure(values == sorted(before), || format!("kept: {before:x?}, then {after:x?}"))
}

pub(crate) fn modified(image: &Path) -> Result<SystemTime, String> {
    std::fs::metadata(image).and_then(|data| data.modified()).map_err(|error| error.to_string())
}
