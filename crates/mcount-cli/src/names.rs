//! Names similar to another one, for somebody who mistyped it.

/// Up to five of `names` that are similar to `name`, the most similar first.
#[must_use]
pub fn alike<'n>(name: &str, names: impl Iterator<Item = &'n str>) -> Vec<&'n str> {
    let most = (name.chars().count() / 3).clamp(1, 4);
    let mut found: Vec<(usize, &str)> = names
        .filter(|other| other.len().abs_diff(name.len()) <= most)
        .map(|other| (strsim::osa_distance(name, other), other))
        .filter(|(distance, _)| *distance <= most)
        .collect();
    found.sort_unstable();
    found.dedup();
    found.into_iter().take(5).map(|(_, name)| name).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_meant() {
        let names = ["kmalloc", "kfree", "vfree", "kvfree", "schedule"];
        assert_eq!(alike("kfre", names.into_iter()), ["kfree"]);
        assert_eq!(alike("kvfreee", names.into_iter()), ["kvfree", "kfree", "vfree"]);
        assert_eq!(alike("shcedule", names.into_iter()), ["schedule"]);
        assert!(alike("something_else", names.into_iter()).is_empty());
    }
}
