//! What `mcount nop` must do to each image of the matrix.

use crate::build::{Case, mcount};
use crate::ensure;
use crate::sort::modified;
use crate::truth::{Walk, changed, no_warnings, sections};
use std::path::Path;
use testkit::files::{read, write};
use testkit::process::run;

/// Makes NOPs of the calls of `image`, which is of `case`: first those of some functions.
pub(crate) fn is_right(case: &Case, image: &Path) -> Result<(), String> {
    let (old, before) = (read(image)?, Walk::of(case, image)?);
    for (option, keeps) in [("--keep", true), ("--only", false)] {
        run(mcount(&["nop", option, "*leaf"]).arg(image))?;
        let after = Walk::of(case, image)?;
        for (name, count) in &before.calls {
            let left = if name.ends_with("leaf") == keeps { *count } else { 0 };
            ensure(after.calls.get(name) == Some(&left), || format!("{option}: {after:?}"))?;
        }
        write(image, &old)?;
    }
    run(mcount(&["nop"]).arg(image))?;
    let after = Walk::of(case, image)?;
    ensure(after.hook_calls() == 0, || format!("the hook is called: {after:?}"))?;
    ensure(after.result == before.result, || format!("{before:?}\n{after:?}"))?;
    ensure(after.entries == before.entries, || format!("{before:?}\n{after:?}"))?;
    no_warnings(image)?;
    let new = read(image)?;
    let places = sections(image)?;
    for name in changed(&places, &old, &new) {
        let section = places.iter().find(|section| section.name == name);
        let is_expected = section.is_some_and(|s| s.is_code || s.is_relocations());
        ensure(is_expected, || format!("changed: {name:?}"))?;
    }
    let time = modified(image)?;
    run(mcount(&["nop"]).arg(image))?;
    ensure(read(image)? == new, || "twice is not once".to_owned())?;
    ensure(modified(image)? == time, || "an image without calls was written".to_owned())
}
