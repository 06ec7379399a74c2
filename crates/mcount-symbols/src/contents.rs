//! The bytes of a file, or those of the object, module or kernel that is compressed in it.

use crate::arch::Processor;
use crate::commit::Failure;
use crate::files::{ELF_MAGIC, Input};
use crate::kernel::{self, Name};
use crate::unpack::{self, Limits};
use std::io;
use std::path::Path;

/// The bytes of a file, or of what was compressed in it.
pub enum Contents {
    /// The file isn't compressed.
    Plain(Input),
    /// The file was compressed.
    Unpacked(Vec<u8>),
}

impl Contents {
    /// The file at `path`, or the kernel or module that is compressed in it.
    ///
    /// # Errors
    ///
    /// It can't be read, is corrupt, or has no ELF file in it.
    pub fn open(path: &Path, limits: Limits) -> Result<Self, Failure> {
        let input = Input::given(path)?;
        if input.bytes().starts_with(ELF_MAGIC) {
            return Ok(Self::Plain(input));
        }
        match unpack::unpack(input.bytes(), limits) {
            Ok(Some(bytes)) => Ok(Self::Unpacked(bytes)),
            Ok(None) => Ok(Self::Plain(input)),
            Err(error) => Err(io::Error::new(io::ErrorKind::InvalidData, error).into()),
        }
    }

    /// The same, or the kernel that isn't ELF in it, as an ELF image with `names` or with its own.
    pub(crate) fn open_kernel(
        path: &Path,
        limits: Limits,
        names: Option<&[Name]>,
    ) -> Result<Self, Failure> {
        let opened = Self::open(path, limits);
        let failure = match opened {
            Ok(contents) if contents.bytes().starts_with(ELF_MAGIC) => {
                return contents.unwrapped(limits, names);
            }
            other => other,
        };
        let input = Input::given(path)?;
        let Ok(Some((bytes, raw))) = unpack::raw_kernel(input.bytes(), limits) else {
            return failure;
        };
        match Processor::of(raw).and_then(|processor| kernel::rebuild(&bytes, processor, names)) {
            Some(rebuilt) => Ok(Self::Unpacked(rebuilt)),
            None if kernel::has_unknown_names(&bytes) => Err(unknown_names(raw.name())),
            None => failure,
        }
    }

    /// The kernel that this ELF image unpacks when it's booted, as in [`Contents::open_kernel`]. If it's none of
    /// those, itself.
    fn unwrapped(self, limits: Limits, names: Option<&[Name]>) -> Result<Self, Failure> {
        let image = self.bytes();
        let kernel = unpack::wrapped_kernel(image, limits);
        let invalid = |error| io::Error::new(io::ErrorKind::InvalidData, error);
        let Some(kernel) = kernel.map_err(invalid)? else { return Ok(self) };
        if kernel.starts_with(ELF_MAGIC) {
            return Ok(Self::Unpacked(kernel));
        }
        let processor = Processor::of_wrapper(image);
        match processor.and_then(|processor| kernel::rebuild(&kernel, processor, names)) {
            Some(rebuilt) => Ok(Self::Unpacked(rebuilt)),
            None if kernel::has_unknown_names(&kernel) => Err(unknown_names("a compressed kernel")),
            None => Ok(self),
        }
    }

    /// The bytes.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Plain(input) => input.bytes(),
            Self::Unpacked(bytes) => bytes,
        }
    }
}

/// That the names of a kernel of the kind `what` can't be read.
fn unknown_names(what: &'static str) -> Failure {
    io::Error::new(io::ErrorKind::InvalidData, unpack::Error::UnknownNames(what)).into()
}
