//! Shows traces: prints their calls, statistics of functions, comparisons of builds, pages, and the formats of other tools.

use mcount_store::{commit, files, temporary, words};
use mcount_symbols::{debug, names, pattern};

pub mod compare;
pub mod packing;
pub mod parquet;
pub mod query;
pub mod replay;
pub mod report;
pub mod sample;
#[cfg(feature = "tui")]
pub mod tui;
mod varint;
