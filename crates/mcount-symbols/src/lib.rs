//! What functions are called and where they are: demangled names, patterns of names, debug information and the files that
//! have it apart, the tables in kernels, BTF.

use mcount_store::{commit, files, unpack};

mod arch;
pub mod btf;
pub mod contents;
pub mod debug;
mod kernel;
pub mod names;
pub mod pattern;
pub mod waiting;
