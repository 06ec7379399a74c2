//! Whether a process has something to be traced, and what is said if it hasn't.

use super::program::Program;
use crate::pattern::Pattern;
use crate::trace::scope::Scope;
use crate::trace::{advice, meant};
use std::io;

/// Checks that there's something to be traced of a process. `words` make hooks in it, after `mcount`.
///
/// # Errors
///
/// There's nothing; why, and what would be.
pub(super) fn check(program: &Program, scope: &Scope, words: &str) -> io::Result<()> {
    let refused = program.modules.refused(false);
    if program.hooks() == 0
        && let Some(why) = refused.nearest
    {
        return Err(io::Error::other(why));
    }
    if program.hooks() == 0 && !scope.probe.is_empty() {
        let modules = program.modules.iter().flat_map(|module| &module.hooks);
        let probes: Vec<&str> = scope.probe.iter().map(Pattern::text).collect();
        return Err(io::Error::other(meant::nothing(&probes, modules)));
    }
    if program.hooks() == 0 {
        return Err(io::Error::other(advice::no_hooks_in_process(&program.path, words)));
    }
    let unmet = scope.unmet(program.wanted() == 0);
    if program.wanted() != 0 && unmet.is_empty() {
        return Ok(());
    }
    let modules = program.loaded.iter().filter_map(|one| program.module(one));
    Err(io::Error::other(meant::nothing(&unmet, modules.flat_map(|module| &module.hooks))))
}
