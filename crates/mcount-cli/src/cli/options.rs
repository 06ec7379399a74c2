//! Arguments that several commands have: which sites, how many files at a time.

use crate::debug::separate::Search;
use crate::unpack::Limits;
use clap::builder::NonEmptyStringValueParser;
use clap::{Args, ValueEnum, ValueHint};
use mcount::{Base, Glob, GlobSet, GlobSetBuilder, Options, Policy, TABLE_SECTION};
use std::path::PathBuf;

#[derive(Args)]
pub(super) struct OptionArgs {
    /// Which sections are recorded: those that Linux traces, all with code, or none but --section's
    /// [default: all for cc, link and table, linux for the other commands]
    #[arg(long, value_enum, help_heading = "Policy")]
    policy: Option<PolicyBase>,
    /// Record these sections too; * matches any characters
    #[arg(long, value_name = "GLOB", help_heading = "Policy")]
    section: Vec<String>,
    /// Leave these sections out; calls in them become NOPs
    #[arg(long, value_name = "GLOB", help_heading = "Policy")]
    exclude_section: Vec<String>,
    /// Leave these functions alone
    #[arg(long, value_name = "GLOB", help_heading = "Policy")]
    exclude_symbol: Vec<String>,
    /// Leave the functions of these source files alone, by the STT_FILE symbols of an object linked
    /// of many
    #[arg(long, value_name = "GLOB", help_heading = "Policy")]
    exclude_file_symbol: Vec<String>,
    /// Take the NOPs that a compiler left in place of calls (gcc -mnop-mcount) for sites too
    #[arg(long, help_heading = "Hooks and table")]
    nops: bool,
    #[command(flatten)]
    hooks: HookArgs,
    #[command(flatten)]
    table: TableSectionArgs,
}

/// Of commands that look for calls.
#[derive(Args)]
pub(super) struct HookArgs {
    /// Another hook symbol (gcc -mfentry-name=); may be given again
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new(), help_heading = "Hooks and table")]
    pub(super) hook: Vec<String>,
}

/// Of commands that look for the table.
#[derive(Args)]
pub(super) struct TableSectionArgs {
    /// The section that holds the table (gcc -mfentry-section=)
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new(),
          default_value = TABLE_SECTION, help_heading = "Hooks and table")]
    pub(super) table_section: String,
}

#[derive(Clone, Copy, ValueEnum, PartialEq)]
pub(super) enum PolicyBase {
    Linux,
    All,
    None,
}

/// Of commands that read.
#[derive(Args)]
pub(super) struct InputArgs {
    /// Unpack no compressed file to more than this, such as 500M or 8G [default: 100 times its size,
    /// from 64M to 4G, or 1G on a 32-bit host]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    max_size: Option<u64>,
    /// Look for the debug files of stripped images here too, besides /usr/lib/debug and beside the
    /// image; may be given again
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    debug_dir: Vec<PathBuf>,
}

impl InputArgs {
    pub(super) fn search(&self) -> Search {
        let limits = Limits { max_size: self.max_size };
        Search { folders: self.debug_dir.clone(), limits }
    }
}

/// A number of bytes, or of K, M or G of them.
fn size(text: &str) -> Result<u64, String> {
    let units = [("K", 10), ("M", 20), ("G", 30), ("", 0)];
    let split = |(unit, shift)| Some((text.strip_suffix(unit)?, shift));
    let (number, shift): (&str, u32) = units.into_iter().find_map(split).unwrap_or((text, 0));
    let bytes = number.parse::<u64>().ok().and_then(|number| number.checked_mul(1 << shift));
    bytes.ok_or_else(|| "not a number of bytes such as 500M".to_owned())
}

#[derive(Args)]
pub(super) struct JobArgs {
    /// Files to work on at a time; 0 means one for each processor, which is also the default, but
    /// under make -j as many as its jobserver allows
    #[arg(short, long, value_name = "N")]
    pub(super) jobs: Option<usize>,
}

impl OptionArgs {
    /// The options, with Linux's policy unless another is given.
    pub(super) fn options(&self) -> Result<Options, mcount::GlobError> {
        self.options_or(Base::Linux)
    }

    /// The options, with policy `default` unless another is given.
    pub(super) fn options_or(&self, default: Base) -> Result<Options, mcount::GlobError> {
        let base = match self.policy {
            None => default,
            Some(PolicyBase::Linux) => Base::Linux,
            Some(PolicyBase::All) => Base::All,
            Some(PolicyBase::None) => Base::None,
        };
        let policy = Policy {
            base,
            sections: globs(&self.section)?,
            exclude_sections: globs(&self.exclude_section)?,
            exclude_symbols: globs(&self.exclude_symbol)?,
            exclude_file_symbols: globs(&self.exclude_file_symbol)?,
        };
        Ok(Options {
            policy,
            hooks: self.hooks.hook.clone(),
            nops: self.nops,
            table_section: self.table.table_section.clone(),
            writable: base == Base::All,
            ..Options::default()
        })
    }
}

pub(super) fn globs(patterns: &[String]) -> Result<GlobSet, mcount::GlobError> {
    let mut builder = GlobSetBuilder::new();
    for pattern in patterns {
        builder.add(Glob::new(pattern)?);
    }
    builder.build()
}
