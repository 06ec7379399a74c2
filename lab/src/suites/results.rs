//! The results of single tests, from what suites print: TAP, or the XML of `JUnit`.

use std::collections::BTreeMap;
use std::path::Path;

/// What each test has said, by its name or number, in the order in which it did if it did so more than once.
#[derive(Default)]
pub(super) struct Results(BTreeMap<String, Vec<String>>);

impl Results {
    pub(super) fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.0.values().map(Vec::len).sum()
    }

    fn add(&mut self, name: &str, result: &str) {
        self.0.entry(name.to_owned()).or_default().push(result.to_owned());
    }

    /// A line for each test whose result is another one in `traced`.
    pub(super) fn differences(&self, traced: &Self) -> Vec<String> {
        let names = self.0.keys().chain(traced.0.keys().filter(|name| !self.0.contains_key(*name)));
        let differ = names.filter_map(|name| {
            let (plain, traced) = (self.0.get(name), traced.0.get(name));
            (plain != traced).then(|| {
                let text = |found: Option<&Vec<String>>| match found {
                    Some(found) => found.join(", "),
                    None => "nothing".to_owned(),
                };
                format!("{name}: {}, traced {}", text(plain), text(traced))
            })
        });
        differ.collect()
    }
}

/// Of a program that prints lines such as `ok 1 - it works` and `not ok 2 # TODO it doesn't` (testanything.org), also in parts of tests,
/// which are indented.
pub(super) fn of_tap(printed: &str, _: &Path) -> Results {
    let mut results = Results::default();
    for line in printed.lines() {
        let text = line.trim_start();
        let indent = line.len() - text.len();
        let (result, rest) = match (text.strip_prefix("not ok"), text.strip_prefix("ok")) {
            (Some(rest), _) => ("not ok", rest),
            (_, Some(rest)) => ("ok", rest),
            _ => continue,
        };
        if !rest.starts_with(' ') && !rest.is_empty() {
            continue;
        }
        let number: String = rest.trim_start().chars().take_while(char::is_ascii_digit).collect();
        let note = rest.to_ascii_lowercase();
        let note = ["# skip", "# todo"].into_iter().find(|word| note.contains(word));
        // What's behind the number may be random or a time.
        results.add(&format!("{indent}:{number}"), &format!("{result} {}", note.unwrap_or("")));
    }
    results
}

/// Of python's `test.regrtest`, in the file `results.xml`.
pub(super) fn of_junit(_: &str, scratch: &Path) -> Results {
    let mut results = Results::default();
    let text = chore_kit::files::read(&scratch.join("results.xml")).unwrap_or_default();
    let text = String::from_utf8_lossy(&text);
    for part in text.split("<testcase ").skip(1) {
        let (head, rest) = part.split_once('>').unwrap_or((part, ""));
        let body = if head.ends_with('/') { "" } else { rest };
        let body = body.split("</testcase>").next().unwrap_or_default();
        let value = |name: &str| {
            let rest = head.split_once(&format!(" {name}=\"")).map(|(_, rest)| rest);
            let first = head.strip_prefix(&format!("{name}=\""));
            first.or(rest).and_then(|rest| rest.split('"').next()).unwrap_or_default()
        };
        let kinds = ["<failure", "<error", "<skipped"];
        let kind = kinds.into_iter().find(|kind| body.contains(kind)).unwrap_or("ok");
        results.add(value("name"), &format!("{} {kind}", value("result")));
    }
    results
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_tap_are_results() {
        let text =
            "1..4\nok 1 - a\nnot ok 2 - b # TODO later\n    ok 1 - part\nok 3 # SKIP no\nokay\n";
        let plain = of_tap(text, Path::new(""));
        assert_eq!(plain.len(), 4);
        let other = of_tap(&text.replace("ok 3 # SKIP no", "ok 3"), Path::new(""));
        assert_eq!(plain.differences(&other), ["0:3: ok # skip, traced ok "]);
        let random = of_tap(&text.replace("- a", "- 0x7f12"), Path::new(""));
        assert!(plain.differences(&random).is_empty());
        let fewer = of_tap("ok 1 - a\n", Path::new(""));
        assert_eq!(plain.differences(&fewer).len(), 3);
    }

    #[test]
    fn test_cases_of_junit_are_results() {
        let folder = tempfile::tempdir().unwrap();
        let text = "<testsuites><testsuite><testcase name=\"a\" status=\"run\" result=\"completed\" time=\"0.1\"/>\
                    <testcase name=\"b\" result=\"completed\"><failure>x &gt; y</failure></testcase>\
                    <testcase name=\"c\" result=\"completed\"><system-out>ok</system-out></testcase></testsuite>";
        chore_kit::files::write(&folder.path().join("results.xml"), text.as_bytes()).unwrap();
        let found = of_junit("", folder.path());
        assert_eq!(found.len(), 3);
        let results: Vec<_> = found.0.values().flatten().map(String::as_str).collect();
        assert_eq!(results, ["completed ok", "completed <failure", "completed ok"]);
    }
}
