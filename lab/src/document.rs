//! Tables of the documents that chores write, each between two marks.

use std::path::Path;

use crate::{Result, files};

/// Puts `text` between the mark `begin` of a document and the mark `end` that follows it. The path is relative to the
/// workspace; a mark is a line with its newline.
pub(crate) fn put(path: &str, (begin, end): (&str, &str), text: &str) -> Result<()> {
    let path = files::workspace().join(path);
    let document = String::from_utf8(files::read(&path)?)?;
    files::write(&path, between(&document, begin, end, text, &path)?.as_bytes())?;
    println!("wrote {}", path.display());
    Ok(())
}

fn between(document: &str, begin: &str, end: &str, text: &str, path: &Path) -> Result<String> {
    let parts = document.split_once(begin).and_then(|(before, rest)| {
        let (_, after) = rest.split_once(end)?;
        Some((before, after))
    });
    let missing = || format!("{}: the lines {begin}and {end}are missing", path.display());
    let (before, after) = parts.ok_or_else(missing)?;
    Ok(format!("{before}{begin}\n{text}\n{end}{after}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_between_two_marks_changes() {
        let document = "a\n<1>\nold\n<end>\nb\n<2>\nkept\n<end>\n";
        let changed = between(document, "<1>\n", "<end>\n", "new", Path::new("p")).unwrap();
        assert_eq!(changed, "a\n<1>\n\nnew\n<end>\nb\n<2>\nkept\n<end>\n");
        assert!(between(document, "<3>\n", "<end>\n", "new", Path::new("p")).is_err());
    }
}
