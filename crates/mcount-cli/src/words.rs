//! Words for people: numbers with their noun, and names that stay on one line.

use std::borrow::Cow;

/// `1 entry`, `2 entries`, `0 entries`.
#[must_use]
pub fn counted(count: usize, one: &str, many: &str) -> String {
    format!("{count} {}", if count == 1 { one } else { many })
}

/// `name` with every character escaped that would move the cursor, change a colour or begin a line.
#[must_use]
pub fn printable(name: &str) -> Cow<'_, str> {
    if !name.contains(char::is_control) {
        return name.into();
    }
    name.chars().fold(String::new(), escaped).into()
}

/// `text`, and behind it `c`.
fn escaped(mut text: String, c: char) -> String {
    if c.is_control() {
        text.extend(c.escape_default());
    } else {
        text.push(c);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_have_their_noun() {
        let all = [0, 1, 2, 11].map(|count| counted(count, "entry", "entries"));
        assert_eq!(all, ["0 entries", "1 entry", "2 entries", "11 entries"]);
    }

    #[test]
    fn names_stay_on_one_line() {
        assert_eq!(printable("plain name é"), "plain name é");
        assert_eq!(printable("a\nb\x1b[31m\u{9b}"), "a\\nb\\u{1b}[31m\\u{9b}");
    }
}
