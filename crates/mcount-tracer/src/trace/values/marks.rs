//! Markers. A program calls `mcount_mark("phase 2")` (`include/mcount/mark.h`), a function that does nothing, and that has a
//! hook. It's known by its name, so neither debug information nor an option is needed. Its text is recorded as an argument is, and
//! the trace says that these calls are markers.
//!
//! Or a program has markers of `<sys/sdt.h>`. Where their arguments are, and how many bytes these have, is in the program. What they mean
//! isn't, so the user may say it: `--args 'python:function__entry(s, s, i32)'`.

use super::Found;
use super::describe::{Description, Role};
use super::types::Type;
use crate::trace::function_names::FunctionNames;
use crate::trace::given::{GivenSignature, GivenType};
use crate::trace::marker::Marker;
use crate::trace::modules::{Hook, Module};
use crate::trace::recipe::Recipe;
use crate::trace::scope::Scope;
use crate::words::counted;
use mcount_agent::recipe;
use mcount_hooks::usdt::{Argument, Kind};
use std::sync::Arc;

/// Gives those of the hooks that are for markers their recipes.
pub(super) fn prepare(module: &mut Module, found: &mut Found, scope: &Scope) {
    let is_usable = |hook: &&mut Hook| hook.is_mark && hook.is_wanted && !hook.is_after_prologue();
    for hook in module.hooks.iter_mut().filter(is_usable) {
        let text = recipe::TEXT | recipe::GENERAL << 8;
        let recipe = Recipe { arguments: vec![text], is_kept: true, ..Recipe::default() };
        hook.recipe = Some(Arc::new(recipe));
        let mut description = Description::new(hook.id);
        description.add(Role::Mark, "text", &Type::Text, true);
        found.functions.push(description);
    }
    let path = module.path.to_string_lossy().into_owned();
    let (mut missing, mut first) = (0, None);
    for hook in &mut module.hooks {
        let Some(marker) = hook.marker() else { continue };
        // The patterns of --args are known to mean something, too.
        let names = FunctionNames::new([&*hook.name], &path);
        scope.values(&names);
        let given = scope.signature(&names);
        let (recipe, description) = planned(hook.id, marker, given);
        let unknown = marker.words.iter().filter(|words| words.is_empty()).count();
        if unknown != 0 {
            missing += unknown;
            first.get_or_insert_with(|| hook.name.clone());
        }
        found.functions.push(description);
        hook.recipe = (!recipe.arguments.is_empty()).then(|| Arc::new(recipe));
    }
    if let Some(name) = first {
        let arguments =
            counted(missing, "argument of markers isn't", "arguments of markers aren't");
        let text = format!(
            "{path}: {arguments} recorded: their notes aren't understood, as that of {name}"
        );
        found.notes.push(text);
    }
}

/// What copies the arguments of a marker, and the description of that.
fn planned(id: u32, marker: &Marker, given: Option<&GivenSignature>) -> (Recipe, Description) {
    let (mut recipe, mut description) = (Recipe::default(), Description::new(id));
    // What it says is its name.
    description.add(Role::Mark, "", &Type::Unknown, false);
    for (number, (argument, words)) in marker.arguments.iter().zip(&marker.words).enumerate() {
        let given = given.and_then(|given| given.parameters.get(number)).copied();
        let kind = type_of(argument, given);
        let is_recorded = !words.is_empty() && given != Some(GivenType::Skipped);
        description.add(Role::Argument, "", &kind, is_recorded);
        if let Some((first, rest)) = words.split_first().filter(|_| is_recorded) {
            recipe.arguments.push(copy(*first, &kind));
            recipe.arguments.extend(rest);
        }
    }
    (recipe, description)
}

/// The word that copies a value of this type.
fn copy(word: u64, kind: &Type) -> u64 {
    const SIZE: u64 = 0xff << 24;
    match kind {
        Type::Text => word | recipe::LEADS_TO_TEXT,
        Type::Signed(size) | Type::Unsigned(size) | Type::Float(size) => {
            word & !SIZE | u64::from(*size) << 24
        }
        Type::Boolean(size) | Type::Character(size) => word & !SIZE | u64::from(*size) << 24,
        _ => word,
    }
}

/// The type of an argument: as the user says, as far as it has the bytes for that.
fn type_of(argument: &Argument, given: Option<GivenType>) -> Type {
    let size = argument.size;
    match given {
        Some(GivenType::Signed(wanted)) => Type::Signed(wanted.min(size)),
        Some(GivenType::Unsigned(wanted)) => Type::Unsigned(wanted.min(size)),
        Some(GivenType::Float(wanted)) if wanted <= size => Type::Float(wanted),
        Some(GivenType::Boolean) => Type::Boolean(1),
        Some(GivenType::Character) => Type::Character(1),
        Some(GivenType::Pointer) if size == 8 => Type::Pointer,
        Some(GivenType::Text) if size == 8 => Type::Text,
        _ => match argument.kind {
            Kind::Signed => Type::Signed(size),
            Kind::Unsigned => Type::Unsigned(size),
            Kind::Float => Type::Float(size),
        },
    }
}
