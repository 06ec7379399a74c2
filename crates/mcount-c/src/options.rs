//! `mcount_options`: what can be asked for, by the names of the program's options.

use crate::failure::{McountFailure, Problem};
use globset::{Glob, GlobSetBuilder};
use mcount::{Base, ObjectOptions, Options, Policy, RecordOptions};
use std::ffi::{CStr, c_char, c_int};

/// `mcount_options`.
#[derive(Clone)]
#[expect(clippy::struct_excessive_bools, reason = "each is a switch of its own")]
pub struct McountOptions {
    base: Base,
    sections: Vec<String>,
    exclude_sections: Vec<String>,
    exclude_symbols: Vec<String>,
    exclude_file_symbols: Vec<String>,
    hooks: Vec<String>,
    nops: bool,
    table_section: String,
    writable: bool,
    link_order: bool,
    nop_all: bool,
    keep_existing_table: bool,
    split_lists: bool,
    bounds: (Option<String>, Option<String>),
}

impl Default for McountOptions {
    fn default() -> Self {
        Self {
            base: Base::Linux,
            sections: Vec::new(),
            exclude_sections: Vec::new(),
            exclude_symbols: Vec::new(),
            exclude_file_symbols: Vec::new(),
            hooks: Vec::new(),
            nops: false,
            table_section: mcount::TABLE_SECTION.to_owned(),
            writable: false,
            link_order: false,
            nop_all: false,
            keep_existing_table: false,
            split_lists: false,
            bounds: (None, None),
        }
    }
}

impl McountOptions {
    fn set(&mut self, name: &str, value: &str) -> Result<(), Problem> {
        let text = value.to_owned();
        match name {
            "policy" => self.base = base(value)?,
            "section" => self.sections.push(glob(text)?),
            "exclude-section" => self.exclude_sections.push(glob(text)?),
            "exclude-symbol" => self.exclude_symbols.push(glob(text)?),
            "exclude-file-symbol" => self.exclude_file_symbols.push(glob(text)?),
            "hook" => self.hooks.push(text),
            "nops" => self.nops = switch(value)?,
            "table-section" => self.table_section = text,
            "writable" => self.writable = switch(value)?,
            "link-order" => self.link_order = switch(value)?,
            "nop-all" => self.nop_all = switch(value)?,
            "keep-existing-table" => self.keep_existing_table = switch(value)?,
            "split-lists" => self.split_lists = switch(value)?,
            "start-symbol" => self.bounds.0 = Some(text),
            "end-symbol" => self.bounds.1 = Some(text),
            _ => return Err(Problem::argument(&format!("no option is called {name}"))),
        }
        Ok(())
    }

    pub(crate) fn options(&self) -> Options {
        let policy = Policy::of(self.base)
            .sections(globs(&self.sections))
            .exclude_sections(globs(&self.exclude_sections))
            .exclude_symbols(globs(&self.exclude_symbols))
            .exclude_file_symbols(globs(&self.exclude_file_symbols));
        Options::default()
            .policy(policy)
            .hooks(self.hooks.clone())
            .nops(self.nops)
            .table_section(self.table_section.clone())
    }

    pub(crate) fn record_options(&self) -> RecordOptions {
        RecordOptions::default()
            .writable(self.writable)
            .link_order(self.link_order)
            .nop_all(self.nop_all)
            .keep_existing_table(self.keep_existing_table)
            .split_lists(self.split_lists)
    }

    pub(crate) fn object_options(&self) -> ObjectOptions {
        let (start, end) = self.bounds.clone();
        ObjectOptions::default()
            .table_section(self.table_section.clone())
            .bounds(start.zip(end))
            .writable(self.writable)
    }
}

fn base(value: &str) -> Result<Base, Problem> {
    Ok(match value {
        "linux" => Base::Linux,
        "all" => Base::All,
        "none" => Base::None,
        _ => return Err(Problem::argument("policy is linux, all or none")),
    })
}

fn switch(value: &str) -> Result<bool, Problem> {
    match value {
        "1" => Ok(true),
        "0" => Ok(false),
        _ => Err(Problem::argument("a switch is 0 or 1")),
    }
}

fn glob(pattern: String) -> Result<String, Problem> {
    match Glob::new(&pattern) {
        Ok(_) => Ok(pattern),
        Err(error) => Err(Problem::argument(&error.to_string())),
    }
}

/// The `patterns`, which were checked when they were set.
fn globs(patterns: &[String]) -> mcount::GlobSet {
    let mut builder = GlobSetBuilder::new();
    for glob in patterns.iter().filter_map(|pattern| Glob::new(pattern).ok()) {
        builder.add(glob);
    }
    builder.build().unwrap_or_default()
}

/// New options, with what the program has by default.
#[unsafe(no_mangle)]
pub extern "C" fn mcount_options_new() -> *mut McountOptions {
    Box::into_raw(Box::default())
}

/// Sets the option `name`; 0, or -1 with `failure`.
///
/// # Safety
///
/// `options` is from [`mcount_options_new`], `name` and `value` are texts, and `failure` is null or a
/// `struct mcount_failure`.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcount_options_set(
    options: *mut McountOptions,
    name: *const c_char,
    value: *const c_char,
    failure: *mut McountFailure,
) -> c_int {
    // SAFETY: the caller promises that `options` is from [`mcount_options_new`], `name` and `value`
    // are texts, and `failure` is null or a `struct mcount_failure`.
    let set = || unsafe {
        let options = options.as_mut().ok_or_else(|| Problem::argument("no options"))?;
        options.set(text(name)?, text(value)?)
    };
    match set() {
        Ok(()) => 0,
        Err(problem) => {
            // SAFETY: the caller promises that `options` is from [`mcount_options_new`], `name` and
            // `value` are texts, and `failure` is null or a `struct mcount_failure`.
            unsafe { problem.write(failure) };
            -1
        }
    }
}

/// Frees `options`, which may be null.
///
/// # Safety
///
/// `options` is null or from [`mcount_options_new`], and isn't used again.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn mcount_options_free(options: *mut McountOptions) {
    if !options.is_null() {
        // SAFETY: the caller promises that `options` is null or from [`mcount_options_new`], and
        // isn't used again.
        drop(unsafe { Box::from_raw(options) });
    }
}

/// The text at `text`.
///
/// # Safety
///
/// It is null or a text.
pub(crate) unsafe fn text<'t>(text: *const c_char) -> Result<&'t str, Problem> {
    if text.is_null() {
        return Err(Problem::argument("a text is missing"));
    }
    // SAFETY: the caller promises that it is null or a text.
    let text = unsafe { CStr::from_ptr(text) }.to_str();
    text.map_err(|_| Problem::argument("a text isn't UTF-8"))
}
