//! Sorting in functions that have an instance for each class of ELF: a closure there is another type in each, and all of the sorting
//! would be compiled again for it.

/// Sorts by this key; equal elements stay in their order.
pub(crate) fn by_key<T, K: Ord>(list: &mut [T], key: fn(&T) -> K) {
    list.sort_by_key(key);
}
