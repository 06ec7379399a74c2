//! What a serial console shows of the tracer.

/// What the program in the initial file system prints last.
pub(super) const DONE: &str = "MCOUNT-TEST-DONE";

/// The line in which the kernel says how many call sites it has.
pub(super) const ALLOCATED: &str = "ftrace: allocating";

/// What is to be read there.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Seen {
    /// The entries that the kernel took from its table.
    pub(super) entries: Option<usize>,
    /// The self tests that passed.
    pub(super) passed: Vec<String>,
    /// Lines that say that something is wrong.
    pub(super) wrong: Vec<String>,
    /// What the program in the initial file system says.
    pub(super) program: Vec<String>,
    pub(super) is_done: bool,
}

/// What a line has if something is wrong.
const WRONG: &[&str] = &[
    "FAILED",
    "Kernel panic",
    "WARNING:",
    "BUG:",
    "Oops",
    "ftrace failed",
    "------------[ ftrace bug",
];

impl Seen {
    pub(super) fn on(console: &str) -> Self {
        let mut seen = Self { entries: entries(console), ..Self::default() };
        for line in console.lines().map(|line| without_time(line.trim_end())) {
            if WRONG.iter().any(|text| line.contains(text)) {
                seen.wrong.push(line.to_owned());
            } else if let Some(test) = passed(line) {
                seen.passed.push(test.to_owned());
            } else if let Some((_, said)) = line.split_once("mcount-test:") {
                seen.program.push(said.trim_end().to_owned());
            }
            seen.is_done |= line.contains(DONE);
        }
        seen
    }

    /// How long the program's work took, in nanoseconds, which are instructions where QEMU counts them so.
    pub(super) fn work(&self) -> Option<u64> {
        let number =
            |line: &String| line.trim().strip_prefix("work: ")?.strip_suffix(" ns")?.parse().ok();
        self.program.iter().find_map(number)
    }

    /// It booted to the end, took a table, and ran self tests.
    fn has_booted(&self) -> bool {
        self.is_done && self.entries.is_some_and(|entries| entries > 0) && !self.passed.is_empty()
    }

    /// What went wrong here and did not, or not as often, in the kernel `other`.
    fn wrong_only_here<'s>(&'s self, other: &'s Self) -> Vec<&'s String> {
        remainder(&self.wrong, &other.wrong)
    }

    /// It booted, and does all that the kernel with the original's tables does: what is wrong in both
    /// is the kernel's own.
    pub(super) fn is_as_well_as(&self, original: &Self) -> bool {
        self.has_booted()
            && self.wrong_only_here(original).is_empty()
            && remainder(&original.passed, &self.passed).is_empty()
    }

    pub(super) fn print(&self) {
        match self.entries {
            Some(entries) => println!("ftrace: allocating {entries} entries"),
            None => println!("ftrace allocated nothing"),
        }
        println!("self tests passed: {}", self.passed.join(", "));
        for line in self.program.iter().chain(&self.wrong) {
            println!(" {line}");
        }
        if !self.is_done {
            println!("the console ends before the program does");
        }
    }

    /// Says in what the kernel with the original's tables is another, and whose fault what goes wrong is.
    pub(super) fn print_beside(&self, original: &Self) {
        println!("the original's: ftrace: allocating {} entries", original.entries.unwrap_or(0));
        let here = self.wrong_only_here(original);
        for line in &here {
            println!(" only ours: {line}");
        }
        for line in remainder(&self.wrong, here.iter().copied()) {
            println!(" the kernel's own, with the original's tables too: {line}");
        }
        for line in original.wrong_only_here(self) {
            println!(" only the original's: {line}");
        }
        for test in remainder(&original.passed, &self.passed) {
            println!(" a self test that only the original's passes: {test}");
        }
    }
}

/// The lines that the others have not, or not as often.
fn remainder<'s, 'o>(
    lines: &'s [String],
    others: impl IntoIterator<Item = &'o String>,
) -> Vec<&'s String> {
    let mut left: Vec<&String> = others.into_iter().collect();
    let mut rest = Vec::new();
    for line in lines {
        match left.iter().position(|other| *other == line) {
            Some(place) => drop(left.swap_remove(place)),
            None => rest.push(line),
        }
    }
    rest
}

/// The number in `ftrace: allocating N entries`.
pub(super) fn entries(console: &str) -> Option<usize> {
    let (_, rest) = console.split_once(ALLOCATED)?;
    rest.trim_start().split_once(" entries")?.0.parse().ok()
}

/// The name of the test in `Testing NAME: PASSED`; the kernel prints the parts with pauses between,
/// in which other lines may come.
fn passed(line: &str) -> Option<&str> {
    let before = line.strip_suffix("PASSED")?.trim_end_matches([' ', ':']);
    // The rest of a line that began with another test's name: how often its functions were called.
    if before.starts_with('(') {
        return Some("dynamic ftrace ops");
    }
    Some(before.trim_start_matches("Testing ").trim_start_matches("tracer "))
}

/// The line without `[    0.000000] `.
fn without_time(line: &str) -> &str {
    let time = line.strip_prefix('[').and_then(|rest| rest.split_once("] "));
    time.filter(|(time, _)| time.trim().parse::<f64>().is_ok()).map_or(line, |(_, rest)| rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    const GOOD: &str = "\
[    0.000000] ftrace: allocating 10396 entries in 31 pages\r
[    1.000000] Testing tracer function: PASSED\r
[    2.250000] Testing dynamic ftrace: PASSED\r
[    2.500000] Testing dynamic ftrace ops #1: \r
(1 0 1 0 0) (1 1 2 0 0) (2 1 3 0 12) PASSED\r
mcount-test: 9782 functions can be traced, 0 are invalid\r
mcount-test: work: 12345 ns\r
mcount-test: module traced: ok\r
MCOUNT-TEST-DONE\r
";

    #[test]
    fn a_kernel_that_traces() {
        let seen = Seen::on(GOOD);
        assert_eq!(seen.entries, Some(10396));
        assert_eq!(seen.passed, ["function", "dynamic ftrace", "dynamic ftrace ops"]);
        assert_eq!(seen.program.len(), 3);
        assert_eq!(seen.work(), Some(12345));
        assert!(seen.wrong.is_empty() && seen.is_as_well_as(&Seen::on(GOOD)));
    }

    #[test]
    fn what_is_wrong_is_seen() {
        let cases = [
            GOOD.replace("10396", "0"),
            GOOD.replace("dynamic ftrace: PASSED", "dynamic ftrace: .. filter failed .. FAILED!"),
            GOOD.replace("traced: ok", "traced: FAILED"),
            GOOD.replace("MCOUNT-TEST-DONE", "Kernel panic - not syncing: Attempted to kill init!"),
            GOOD.replace("PASSED", ""),
            GOOD.replace("tracer function: PASSED", "tracer function: "),
            GOOD.replace("MCOUNT-TEST-DONE", ""),
            GOOD.replace(
                "Testing dynamic",
                "WARNING: CPU: 0 PID: 1 at ftrace_bug+0x1\nTesting dynamic",
            ),
            String::new(),
        ];
        for console in cases {
            assert!(!Seen::on(&console).is_as_well_as(&Seen::on(GOOD)), "{console}");
        }
    }

    #[test]
    fn what_goes_wrong_with_the_originals_tables_too_is_the_kernels_own() {
        let fails = |what: &str| GOOD.replace("module traced: ok", what);
        let once = Seen::on(&fails("function_graph, filter: FAILED"));
        assert!(once.is_as_well_as(&once));
        assert!(!once.is_as_well_as(&Seen::on(GOOD)), "the original's does it");
        assert!(!once.is_as_well_as(&Seen::on(&fails("module traced: FAILED"))), "another failure");
        let twice = "function_graph, filter: FAILED\nmcount-test: function_graph, filter: FAILED";
        assert!(!Seen::on(&fails(twice)).is_as_well_as(&once), "once more than the original's");
        assert!(Seen::on(GOOD).is_as_well_as(&once), "better than the original's");
        // A kernel that does not come to the end shows nothing, whatever the other does.
        let panic = Seen::on(&GOOD.replace("MCOUNT-TEST-DONE", "Kernel panic"));
        assert!(!panic.is_as_well_as(&panic));
    }
}
