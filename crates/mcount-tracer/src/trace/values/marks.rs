//! Markers: a program calls `mcount_mark("phase 2")` (`include/mcount/mark.h`), a function that does nothing, and that has a
//! hook. It's known by its name, so neither debug information nor an option is needed.
//!
//! Its text is recorded as an argument is, and the trace says that these calls are markers.

use super::Found;
use super::describe::{Description, Role};
use super::types::Type;
use crate::trace::modules::{Hook, Module};
use crate::trace::recipe::Recipe;
use mcount_agent::recipe;
use std::sync::Arc;

/// Gives those of the hooks that are for markers their recipes.
pub(super) fn prepare(module: &mut Module, found: &mut Found) {
    let is_usable = |hook: &&mut Hook| hook.is_mark && hook.is_wanted && !hook.is_after_prologue();
    for hook in module.hooks.iter_mut().filter(is_usable) {
        let text = recipe::TEXT | recipe::GENERAL << 8;
        let recipe = Recipe { arguments: vec![text], is_kept: true, ..Recipe::default() };
        hook.recipe = Some(Arc::new(recipe));
        let mut description = Description::new(hook.id);
        description.add(Role::Mark, "text", &Type::Text, true);
        found.functions.push(description);
    }
}
