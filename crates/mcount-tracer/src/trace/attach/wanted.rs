//! Whether a process has something to be traced, and what is said if it hasn't.

use super::Request;
use super::program::Program;
use crate::pattern::Pattern;
use crate::trace::instrumented_calls::NOT_RECORDED;
use crate::trace::modules::Module;
use crate::trace::{advice, meant};
use std::io;

/// Checks that there's something to be traced of the process.
///
/// # Errors
///
/// There's nothing; why, and what would be.
pub(super) fn check(program: &Program, request: &Request) -> io::Result<()> {
    let scope = &request.scope;
    // The kernel tells of these.
    if scope.has_kernel() && program.hooks() == 0 && !scope.makes_hooks() {
        return Ok(());
    }
    let refused = program.modules.refused(false);
    if program.hooks() == 0
        && let Some(why) = refused.nearest
    {
        return Err(io::Error::other(why));
    }
    if let Some(why) = meant::no_marker(scope).filter(|_| program.hooks() == 0) {
        return Err(io::Error::other(why));
    }
    if program.hooks() == 0 && !scope.probe.is_empty() {
        let modules = program.modules.iter().flat_map(|module| &module.hooks);
        let probes: Vec<&str> = scope.probe.iter().map(Pattern::text).collect();
        return Err(io::Error::other(meant::no_function(&probes, modules)));
    }
    let untold = program.modules.iter().filter(|module| module.untold.is_some());
    let untold = untold.flat_map(Module::notes);
    let left = program.notes.iter().filter(|note| note.contains(NOT_RECORDED)).cloned();
    if let Some(why) = left.chain(untold).next().filter(|_| program.hooks() == 0) {
        return Err(io::Error::other(why));
    }
    if program.hooks() == 0 {
        let why = advice::no_hooks_in_process(&program.path, &probe_words(request));
        return Err(io::Error::other(why));
    }
    let unmet = scope.unmet(program.wanted() == 0);
    if program.wanted() != 0 && unmet.is_empty() {
        return Ok(());
    }
    let modules = program.loaded.iter().filter_map(|one| program.module(one));
    Err(io::Error::other(meant::nothing(&unmet, modules.flat_map(|module| &module.hooks))))
}

/// The command line that makes hooks in the process, after `mcount`.
fn probe_words(request: &Request) -> String {
    let what = match (&request.view, &request.sampling) {
        (Some(_), _) => "top",
        (None, Some(_)) => "sample",
        (None, None) => "attach",
    };
    if request.command.is_empty() {
        format!("{what} --probe '*' {}", request.process)
    } else {
        format!("{what} --probe '*' -- {}", advice::shell_words(&request.command))
    }
}
