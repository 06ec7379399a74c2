//! Arguments about BTF, and the files that they name.

use super::complain;
use crate::btf::{self, Base, Functions, InlinedAt};
use crate::contents::Contents;
use crate::unpack::Limits;
use clap::{Args, ValueHint};
use std::path::{Path, PathBuf};

/// For commands that say what BPF can attach to.
#[derive(Args)]
pub(super) struct BtfArgs {
    /// Read BTF from this file, and not from the .BTF of FILE: an ELF file, or BTF itself
    #[arg(long, value_name = "BTF", value_hint = ValueHint::FilePath, help_heading = "BPF")]
    btf_from: Option<PathBuf>,
    /// The kernel of a module, whose BTF continues the kernel's: its vmlinux, or /sys/kernel/btf/vmlinux
    #[arg(long, value_name = "VMLINUX", value_hint = ValueHint::FilePath, help_heading = "BPF")]
    btf_base: Option<PathBuf>,
}

/// The files that [`BtfArgs`] name.
pub(super) struct BtfFiles {
    from: Option<Contents>,
    base: Option<Contents>,
}

/// Reads the BTF of files.
pub(super) struct BtfReader<'f> {
    from: Option<&'f [u8]>,
    base: Option<Base<'f>>,
}

impl BtfArgs {
    /// Whether one of them was given.
    pub(super) fn are_given(&self) -> bool {
        self.btf_from.is_some() || self.btf_base.is_some()
    }

    /// The file that has BTF, if one was named.
    pub(super) fn from(&self) -> Option<&Path> {
        self.btf_from.as_deref()
    }

    /// Opens the files. If that can't be done, says why, and returns the exit code.
    pub(super) fn open(&self, limits: Limits) -> Result<BtfFiles, u8> {
        let open = |path: &Option<PathBuf>| match path {
            Some(path) => contents(path, limits).map(Some),
            None => Ok(None),
        };
        Ok(BtfFiles { from: open(&self.btf_from)?, base: open(&self.btf_base)? })
    }

    /// Reads the base in `files`. If that can't be done, says why, and returns the exit code.
    pub(super) fn reader<'f>(&self, files: &'f BtfFiles) -> Result<BtfReader<'f>, u8> {
        let base = match (&files.base, &self.btf_base) {
            (Some(base), Some(path)) => match Base::read(base.bytes()) {
                Ok(base) => Some(base),
                Err(error) => return Err(complain(&format!("{}: {error}", path.display()))),
            },
            _ => None,
        };
        Ok(BtfReader { from: files.from.as_ref().map(Contents::bytes), base })
    }
}

fn contents(path: &Path, limits: Limits) -> Result<Contents, u8> {
    Contents::open(path, limits)
        .map_err(|failure| complain(&format!("{}: {failure}", path.display())))
}

impl BtfReader<'_> {
    /// The functions in the BTF of `file`, or of the file that was named.
    pub(super) fn functions(&self, file: &[u8]) -> Result<Functions, btf::Error> {
        btf::functions(self.from.unwrap_or(file), self.base.as_ref())
    }

    /// Where functions were inlined, by the BTF of `file`, or of the file that was named.
    pub(super) fn inlined(&self, file: &[u8]) -> Result<InlinedAt, btf::Error> {
        btf::inlined(self.from.unwrap_or(file), self.base.as_ref())
    }

    /// Whether there is BTF for `file`.
    pub(super) fn is_there(&self, file: &[u8]) -> bool {
        self.from.is_some() || btf::find(file).is_some()
    }
}
