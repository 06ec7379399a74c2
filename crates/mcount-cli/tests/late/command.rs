//! What `mcount link` does beside making tables.

/// A test of the command.
pub(crate) struct Test {
    pub(crate) name: &'static str,
    /// What must be installed.
    pub(crate) programs: &'static [&'static str],
    pub(crate) run: fn() -> Result<(), String>,
}

pub(crate) const TESTS: &[Test] = &[];
