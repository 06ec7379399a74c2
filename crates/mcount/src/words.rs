//! A number and its noun, for the messages of the library.

use std::fmt::Display;

/// `1 entry`, `2 entries`, `0 entries`.
pub(crate) fn counted<N: Copy + Display + From<u8> + PartialEq>(
    count: N,
    one: &str,
    many: &str,
) -> String {
    let noun = if count == N::from(1) { one } else { many };
    format!("{count} {noun}")
}

#[cfg(test)]
mod tests {
    use super::counted;

    #[test]
    fn numbers_have_their_noun() {
        let all = [0_u64, 1, 2, 11].map(|count| counted(count, "byte", "bytes"));
        assert_eq!(all, ["0 bytes", "1 byte", "2 bytes", "11 bytes"]);
    }
}
