//! What the project's chores (`xtask`) and its experiments (`lab`) have in common: packages and sources of Debian, compilers for
//! other processors, builds of this workspace, and files whose errors name them.
//!
//! A crate of its own because `lab` is a workspace of its own: who tests a change needn't compile experiments.
#![expect(clippy::print_stdout, reason = "chores say what they install")]
#![expect(
    clippy::missing_errors_doc,
    reason = "not published; an error names the file or the command that failed"
)]

pub mod apt;
pub mod files;
pub mod loongarch;
pub mod newer;
pub mod programs;
pub mod rust;
pub mod sources;
pub mod test_programs;

/// What a chore can fail with: its message says which file or command.
pub type Error = Box<dyn std::error::Error + Send + Sync>;

/// The result of a chore or a part of it.
pub type Result<T> = std::result::Result<T, Error>;
