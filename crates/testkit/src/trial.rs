//! A case of a test that has a case for each compiler or processor: run where its tools are.

use crate::tools::{Availability, availability};
use libtest_mimic::{Completion, Failed};

/// Runs a case that wants `programs`; without them it is ignored, with the reason.
///
/// # Errors
///
/// The case fails, or a program is missing that must be here.
pub fn guarded<'a>(
    programs: impl IntoIterator<Item = &'a str>,
    run: impl FnOnce() -> Result<(), String>,
) -> Result<Completion, Failed> {
    match availability(programs) {
        Availability::Here => run().map(|()| Completion::Completed).map_err(Failed::from),
        Availability::Skip(reason) => Ok(Completion::ignored_with(reason)),
        Availability::Fail(reason) => Err(reason.into()),
    }
}
