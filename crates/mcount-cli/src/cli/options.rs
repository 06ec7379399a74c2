//! Arguments that several commands share: which sites, and how many files at a time.

use crate::debug::separate::Search;
use crate::unpack::Limits;
use clap::builder::NonEmptyStringValueParser;
use clap::{Args, ValueEnum, ValueHint};
use mcount::{Base, Glob, GlobSet, GlobSetBuilder, Options, Policy, RecordOptions, TABLE_SECTION};
use std::path::PathBuf;
use std::str::FromStr;

#[derive(Args)]
pub(super) struct OptionArgs {
    /// Which sections to record: those that Linux traces, all that contain code, or only those of
    /// --section [default: all for cc, link and table, linux for the other commands]
    #[arg(long, value_enum, help_heading = "Policy")]
    policy: Option<PolicyBase>,
    /// Also record these sections; * matches any characters
    #[arg(long, value_name = "GLOB", help_heading = "Policy")]
    section: Vec<String>,
    /// Exclude these sections; record and cc make NOPs of the calls in them
    #[arg(long, value_name = "GLOB", help_heading = "Policy")]
    exclude_section: Vec<String>,
    /// Leave these functions alone
    #[arg(long, value_name = "GLOB", help_heading = "Policy")]
    exclude_symbol: Vec<String>,
    /// Leave the functions of these source files alone, as the STT_FILE symbols of an object linked from
    /// many name them
    #[arg(long, value_name = "GLOB", help_heading = "Policy")]
    exclude_file_symbol: Vec<String>,
    /// Treat NOPs in place of calls as sites too: those of gcc -mnop-mcount, of objtool, and of the
    /// kernel's recordmcount
    #[arg(long, help_heading = "Hooks and table")]
    nops: bool,
    #[command(flatten)]
    hooks: HookArgs,
    #[command(flatten)]
    table: TableSectionArgs,
}

/// For commands that look for calls.
#[derive(Args)]
pub(super) struct HookArgs {
    /// Another hook symbol (gcc -mfentry-name=); may be given several times
    #[arg(long, value_name = "NAME", value_parser = NonEmptyStringValueParser::new(), help_heading = "Hooks and table")]
    pub(super) hook: Vec<String>,
}

/// For commands that look for the table.
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

/// For commands that read.
#[derive(Args)]
pub(super) struct InputArgs {
    /// Never unpack a compressed file to more than this, such as 500M or 8G [default: 100 times its size,
    /// at least 64M and at most 4G, or 1G on a 32-bit host]
    #[arg(long, value_name = "SIZE", value_parser = size)]
    max_size: Option<u64>,
    /// Also look here for the debug files of stripped images, besides /usr/lib/debug and the image's own
    /// folder; may be given several times
    #[arg(long, value_name = "DIR", value_hint = ValueHint::DirPath)]
    debug_dir: Vec<PathBuf>,
    /// The names of a kernel without symbols [default: the tables in it with which it prints names]
    #[arg(long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    system_map: Option<PathBuf>,
}

impl InputArgs {
    pub(super) fn search(&self) -> Search {
        let limits = Limits { max_size: self.max_size };
        let system_map = self.system_map.clone();
        Search { folders: self.debug_dir.clone(), limits, system_map }
    }
}

/// A number of bytes, or of K, M or G of them.
fn size(text: &str) -> Result<u64, String> {
    let units = [("K", 10), ("M", 20), ("G", 30)];
    let unit = units.into_iter().find(|(unit, _)| text.ends_with(unit));
    let (unit, shift) = unit.unwrap_or(("", 0));
    let bytes = number::<u64>(text.strip_suffix(unit).unwrap_or(text)).ok();
    let bytes = bytes.and_then(|number| number.checked_mul(1 << shift));
    bytes.ok_or_else(|| "not a number of bytes such as 500M".to_owned())
}

/// A number, in digits and nothing else.
pub(super) fn number<T: FromStr>(text: &str) -> Result<T, String> {
    if text.is_empty() || !text.bytes().all(|digit| digit.is_ascii_digit()) {
        return Err("not a number".to_owned());
    }
    text.parse().map_err(|_| "too large a number".to_owned())
}

/// For commands that take many files.
#[derive(Args)]
pub(super) struct ManyArgs {
    /// How many files to work on at a time; 0 is one for each processor [default: as many as make's
    /// jobserver allows under make -j, one for each processor otherwise]
    #[arg(short, long, value_name = "N", value_parser = number::<usize>)]
    pub(super) jobs: Option<usize>,
    /// Accept folders without any object
    #[arg(long)]
    pub(super) allow_empty: bool,
}

impl OptionArgs {
    /// The options, with Linux's policy unless another is given.
    pub(super) fn options(&self) -> Result<Options, mcount::GlobError> {
        self.options_or(Base::Linux)
    }

    /// The policy to begin with: `default` unless another is given.
    fn base(&self, default: Base) -> Base {
        match self.policy {
            None => default,
            Some(PolicyBase::Linux) => Base::Linux,
            Some(PolicyBase::All) => Base::All,
            Some(PolicyBase::None) => Base::None,
        }
    }

    /// How objects are recorded with policy `default`, unless another is given. The table of a user
    /// program is writable.
    pub(super) fn record_options_or(&self, default: Base) -> RecordOptions {
        RecordOptions::default().writable(self.base(default) == Base::All)
    }

    /// The options, with policy `default` unless another is given.
    pub(super) fn options_or(&self, default: Base) -> Result<Options, mcount::GlobError> {
        let policy = Policy::of(self.base(default))
            .sections(globs(&self.section)?)
            .exclude_sections(globs(&self.exclude_section)?)
            .exclude_symbols(globs(&self.exclude_symbol)?)
            .exclude_file_symbols(globs(&self.exclude_file_symbol)?);
        Ok(Options::default()
            .policy(policy)
            .hooks(self.hooks.hook.clone())
            .nops(self.nops)
            .table_section(self.table.table_section.clone()))
    }
}

pub(super) fn globs(patterns: &[String]) -> Result<GlobSet, mcount::GlobError> {
    let mut builder = GlobSetBuilder::new();
    for pattern in patterns {
        builder.add(Glob::new(pattern)?);
    }
    builder.build()
}
