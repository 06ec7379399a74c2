//! `--file`: only functions of some source files, as debug information has them.

use super::modules::Module;
use super::scope::Scope;
use crate::debug::Sections;
use crate::debug::lines::Lines;
use crate::debug::separate::{Search, Subject};
use std::path::Path;

/// Finds out which hooks of `module`, which `file` is, are of functions in files that are wanted. What isn't known, if
/// anything isn't.
pub(super) fn look(module: &mut Module, file: &Path, scope: &Scope) -> Option<String> {
    if scope.files.is_empty() || module.hooks.is_empty() {
        return None;
    }
    for hook in &mut module.hooks {
        hook.is_in_files = false;
    }
    let subject = Subject::open(file, &Search::default(), true).ok();
    let sections = subject.as_ref().and_then(|subject| Sections::load(subject.debug()));
    let Some(mut lines) = sections.as_ref().and_then(Lines::new) else {
        let name = module.path.display();
        return Some(format!("{name}: no debug information, so no source files: compile with -g"));
    };
    for hook in &mut module.hooks {
        let line = lines.find(None, None, Some(hook.function));
        hook.is_in_files = line.is_some_and(|line| scope.has_file(&line.file));
    }
    None
}
