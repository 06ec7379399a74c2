//! The command line of `mcount query`. `mcount` explains it and completes it; the program `mcount-query` runs it.
#![expect(clippy::doc_markdown, reason = "doc comments here are help on a terminal")]

use crate::words::size;
use clap::{Args, ValueEnum, ValueHint};
use std::ffi::OsString;
use std::path::PathBuf;

/// What `--help` says below the options.
pub const HELP: &str = "\
Tables of traces: calls, functions, threads and processes. Of samples: samples. They have the columns of \
mcount replay --format parquet, and several inputs make one table; trace tells traces apart. DESCRIBE calls \
prints the columns, and SHOW TABLES the tables. TRACE can also be a file of mcount sample, a Parquet file, or a \
folder of these. Only queries are accepted: nothing is changed.

mcount-query, a program of its own, runs the query. What doesn't fit into --memory goes to temporary files. \
DuckDB reads the tables, too: mcount replay --format parquet -o DIR TRACE.

Examples: # the slowest calls of a function, with the arguments that mcount trace --args recorded
          mcount query program.mcount \"SELECT duration_ns, arguments, result
              FROM calls WHERE function = 'parse' ORDER BY duration_ns DESC LIMIT 10\"
          # percentiles of each function
          mcount query program.mcount \"SELECT function, count(*) AS calls,
              approx_quantile(duration_ns, 0.5) AS median, approx_quantile(duration_ns, 0.99) AS p99
              FROM calls GROUP BY function ORDER BY p99 DESC\"
          # calls of a function in each tenth of a second, and its callers
          mcount query program.mcount \"SELECT start_ns / 100000000 AS tenth, caller, count(*)
              FROM calls WHERE function = 'parse' GROUP BY tenth, caller ORDER BY tenth\"
          # a query in a file, samples in a folder
          mcount query --format csv -o slower.csv --file slower.sql fleet/";

/// How results are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub enum ResultFormat {
    /// Aligned columns.
    Table,
    /// Comma-separated values; the first line names them.
    Csv,
    /// One JSON object a row and line.
    #[value(alias = "jsonl")]
    Json,
    /// A file for DuckDB, Spark and mcount query.
    Parquet,
}

impl ResultFormat {
    fn name(self) -> &'static str {
        match self {
            Self::Table => "table",
            Self::Csv => "csv",
            Self::Json => "json",
            Self::Parquet => "parquet",
        }
    }
}

/// The arguments.
#[derive(Debug, Clone, Args)]
pub struct QueryArgs {
    /// Traces, then the query; - for the query reads it from standard input
    #[arg(value_name = "TRACE|SQL", num_args = 1.., required = true, value_hint = ValueHint::FilePath)]
    pub words: Vec<OsString>,
    /// Read the query from this file; all other arguments are traces then
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub file: Option<PathBuf>,
    /// Print aligned columns, comma-separated values, one JSON object per row, or Parquet [default: as --output
    /// ends, or table]
    #[arg(long, value_enum, hide_possible_values = true, value_name = "table|csv|json|parquet")]
    pub format: Option<ResultFormat>,
    /// Write to this file, which is replaced when it is complete
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    pub output: Option<PathBuf>,
    /// How much memory results in the making may take, such as 512M or 4G
    #[arg(long, value_name = "SIZE", value_parser = size, default_value = "1G")]
    pub memory: u64,
    /// Fill source_file and source_line, by debug information
    #[arg(long)]
    pub lines: bool,
    /// Names of C++ without arguments
    #[arg(long)]
    pub simple_names: bool,
}

impl QueryArgs {
    /// The words of a command line that says the same.
    #[must_use]
    pub fn command_line(&self) -> Vec<OsString> {
        let mut all = vec![OsString::from(format!("--memory={}", self.memory))];
        for (name, path) in [("--file", &self.file), ("--output", &self.output)] {
            if let Some(path) = path {
                all.extend([OsString::from(name), path.clone().into()]);
            }
        }
        all.extend(self.format.map(|format| format!("--format={}", format.name()).into()));
        for (name, is_given) in [("--lines", self.lines), ("--simple-names", self.simple_names)] {
            all.extend(is_given.then(|| OsString::from(name)));
        }
        all.push("--".into());
        all.extend_from_slice(&self.words);
        all
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::Parser;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        query: QueryArgs,
    }

    #[test]
    fn a_command_line_is_the_same_again() {
        for words in [
            &["q", "a.mcount", "SELECT 1"][..],
            &["q", "--file", "f", "--format", "csv", "-o", "x", "--", "-a", "b"],
            &["q", "--lines", "--memory", "2G", "--simple-names", "a", "b", "-"],
        ] {
            let Ok(first) = Line::try_parse_from(words) else { panic!("{words:?}") };
            let again = [vec![OsString::from("q")], first.query.command_line()].concat();
            let second = Line::try_parse_from(again).unwrap();
            assert_eq!(format!("{:?}", first.query), format!("{:?}", second.query));
        }
    }
}
