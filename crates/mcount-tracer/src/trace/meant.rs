//! The error for patterns that match no function that can be traced.

use super::modules::Hook;
use super::scope::Scope;
use crate::names::alike;
use crate::pattern::Pattern;

/// The error if no marker matches, of those that are wanted, if there are any.
pub(super) fn no_marker(scope: &Scope) -> Option<String> {
    let texts: Vec<&str> = scope.mark.iter().map(Pattern::text).collect();
    let text = texts.join(" or ");
    (!texts.is_empty()).then(|| format!("no marker matches {text}; --list --mark '*' prints them"))
}

/// The error if no function matches these patterns, of those that could have probes. It suggests names of `hooks` that look like theirs.
pub(super) fn no_function<'h>(patterns: &[&str], hooks: impl Iterator<Item = &'h Hook>) -> String {
    let text = format!("no function matches {}", patterns.join(" or "));
    match like(patterns.first().unwrap_or(&""), hooks) {
        names if names.is_empty() => {
            format!(
                "{text}; mcount trace --list --probe '*' PROGRAM prints those that can have a probe"
            )
        }
        names => format!("{text}; did you mean {}?", names.join(", ")),
    }
}

/// Names of `hooks` that look like that of a pattern.
fn like<'h>(pattern: &str, hooks: impl Iterator<Item = &'h Hook>) -> Vec<String> {
    let name = pattern.rsplit_once('@').map_or(pattern, |(name, _)| name);
    alike(name, hooks.flat_map(Hook::names).filter(|name| !name.is_empty()))
}

/// The error if nothing matches: these patterns, if any are given. It suggests names of `hooks` that look like theirs.
pub(super) fn nothing<'h>(patterns: &[&str], hooks: impl Iterator<Item = &'h Hook>) -> String {
    let [first, ..] = patterns else {
        return "no hooked function matches the filter".to_owned();
    };
    let text = format!("no hooked function matches {}", patterns.join(" or "));
    let names = like(first, hooks);
    if names.is_empty() {
        return format!("{text}; --list prints the functions that have a hook");
    }
    format!("{text}; did you mean {}?", names.join(", "))
}
