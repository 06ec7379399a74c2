//! `mcount attach --list`: what could be traced in a process. Nothing is stopped or changed.

use super::program::Program;
use super::{check, refused};
use crate::trace::modules::Module;
use crate::trace::scope::Scope;
use mcount_ptrace::Memory;
use std::io;

/// The functions of `process` that would be traced, as patterns; and what is missing there, a line each.
///
/// # Errors
///
/// The process may not be looked at.
pub fn list(process: i32, scope: &Scope) -> io::Result<(Vec<String>, Vec<String>)> {
    check(process)?;
    let memory = Memory::open(process).map_err(|error| refused(process, error))?;
    let program = Program::read(process, &memory, scope)?;
    let mut notes = program.notes;
    notes.extend(scope.warnings());
    Ok((program.modules.iter().flat_map(Module::recorded).collect(), notes))
}
