//! Counters: what they say is copied when a call begins, and again when it ends.

use super::describe::{Description, Role};
use super::types::Type;
use super::{Found, has_calls};
use crate::trace::counters::CounterName;
use crate::trace::modules::Module;
use crate::trace::recipe::Recipe;
use crate::trace::scope::Scope;
use mcount_agent::recipe;
use std::collections::HashMap;
use std::sync::Arc;

/// Gives all hooks of calls what copies counters, before what they have for values.
pub(super) fn prepare(module: &mut Module, found: &mut Found, scope: &Scope) {
    if scope.counters.is_empty() {
        return;
    }
    let places = found.functions.iter().zip(0..).map(|(one, place)| (one.function(), place));
    let places: HashMap<u32, usize> = places.collect();
    for hook in module.hooks.iter_mut().filter(|hook| has_calls(hook)) {
        let mut recipe = hook.recipe.as_deref().cloned().unwrap_or_default();
        let mut description = Description::new(hook.id);
        add(&mut recipe, &mut description, &scope.counters);
        hook.recipe = Some(Arc::new(recipe));
        let known = places.get(&hook.id).and_then(|place| found.functions.get_mut(*place));
        match known {
            Some(known) => known.prepend(&description),
            None => found.functions.push(description),
        }
    }
}

/// Adds counters, which come first.
pub(super) fn add(recipe: &mut Recipe, description: &mut Description, counters: &[CounterName]) {
    let word = recipe::COUNTERS | (counters.len() as u64) << 8;
    recipe.arguments.insert(0, word);
    recipe.result.insert(0, word);
    let mut first = Description::new(description.function());
    for counter in counters {
        first.add(Role::Counter, counter.name(), &Type::Unsigned(8), true);
    }
    description.prepend(&first);
}
