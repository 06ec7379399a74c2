//! Unpacks compressed files. Modules and kernel images are installed compressed, and the payload of a
//! kernel image may be compressed again. We unpack in memory, and look at contents, not at names.
//!
//! This is for commands that only read. A file that is changed is never unpacked, and `recordmcount`
//! doesn't contain this.

mod kernel;
mod streams;

pub use self::kernel::Raw;
use self::streams::{Compression, Extent};
use crate::archive;
use crate::files::{ELF_MAGIC, MOST_IN_MEMORY};
use crate::words::counted;
use memchr::memmem;
use std::borrow::Cow;
use std::fmt;
use std::path::{Path, PathBuf};

/// How many containers may be in each other. `Image.gz` in a uImage is two, and an EFI zboot image in
/// that is three.
const MAX_LAYERS: usize = 4;

/// How many times as large a file may become. Kernels and modules become 3 to 10 times as large.
const MAX_RATIO: u64 = 100;
/// How many bytes even a small file may become.
const ALWAYS_ALLOWED: u64 = 64 << 20;

/// How large a file may become.
#[derive(Debug, Clone, Copy, Default)]
pub struct Limits {
    /// The limit in bytes. By default it is a hundred times the file's size, but at least 64 MiB and at
    /// most 4 GiB, or 1 GiB on a 32-bit host.
    pub max_size: Option<u64>,
}

impl Limits {
    /// How many bytes a file of `size` bytes may become.
    fn of(self, size: usize) -> u64 {
        let usual = (size as u64).saturating_mul(MAX_RATIO);
        self.max_size.unwrap_or(usual.clamp(ALWAYS_ALLOWED, MOST_IN_MEMORY))
    }
}

/// Why a file couldn't be unpacked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Error {
    /// The stream of this format can't be decoded, for this reason.
    Corrupt(&'static str, &'static str),
    /// It would become larger than this, in bytes.
    TooLarge(&'static str, u64),
    /// A known format that isn't supported.
    Unsupported(&'static str),
    /// No payload was found in an image of this kind.
    NoPayload(&'static str),
    /// The contents of these containers, which are listed from outside to inside, aren't ELF.
    NotElf(Vec<&'static str>, &'static str),
    /// A kernel of this kind has names, in a form that isn't known here.
    UnknownNames(&'static str),
    /// Too many containers are in each other.
    TooDeep,
}

/// What commands say about a kernel of [`Error::UnknownNames`].
pub const UNKNOWN_NAMES: &str = "its own names (kallsyms) are in a form that isn't known here";

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Corrupt(format, why) => write!(f, "{format}: {why}"),
            Self::TooLarge(format, limit) => {
                let limit = counted(*limit, "byte", "bytes");
                write!(f, "{format}: becomes larger than {limit}: see --max-size")
            }
            Self::Unsupported(what) => write!(f, "{what} is not supported"),
            Self::NoPayload(kind) => write!(f, "{kind}: no compressed kernel was found in it"),
            Self::NotElf(layers, what) => {
                for layer in layers {
                    write!(f, "{layer}: ")?;
                }
                let verb = if layers.is_empty() { "" } else { "holds " };
                write!(f, "{verb}{what}, not ELF")?;
                if what.ends_with("Image") {
                    f.write_str(": sections and symbols are in the vmlinux that it was made of")?;
                }
                Ok(())
            }
            Self::UnknownNames(what) => write!(f, "{what}: {UNKNOWN_NAMES}: see --system-map"),
            Self::TooDeep => f.write_str("compressed more than four times over"),
        }
    }
}

impl std::error::Error for Error {}

/// The unpacked contents of `bytes`. `None` if they aren't a container.
///
/// # Errors
///
/// The container is corrupt, has no ELF file in it, or would become too large.
pub fn unpack(bytes: &[u8], limits: Limits) -> Result<Option<Vec<u8>>, Error> {
    let (held, layers) = open_layers(bytes, limits)?;
    let inside = held.as_deref().unwrap_or(bytes);
    match (&held, what_is(inside)) {
        (_, None) => Ok(held),
        (None, Some(UNKNOWN | ARCHIVE)) => Ok(None),
        (_, Some(what)) => Err(Error::NotElf(layers, what)),
    }
}

/// A kernel, and its kind.
pub type RawKernel<'b> = (Cow<'b, [u8]>, Raw);

/// The kernel that isn't ELF in `bytes`, or in a container there, and its kind. `None` if there is something
/// else.
///
/// # Errors
///
/// As [`unpack`].
pub fn raw_kernel(bytes: &[u8], limits: Limits) -> Result<Option<RawKernel<'_>>, Error> {
    let (held, layers) = open_layers(bytes, limits)?;
    let inside = held.map_or(Cow::Borrowed(bytes), Cow::Owned);
    // What is after the decompressor of s390 begins with nothing in particular.
    let is_s390 = layers.last() == Some(&kernel::S390);
    Ok(kernel::raw(&inside).or(is_s390.then_some(Raw::S390)).map(|raw| (inside, raw)))
}

/// The kernel that the ELF image `image` unpacks when it's booted. `None` if this isn't such an image, or if
/// what is in it doesn't look like a kernel.
///
/// # Errors
///
/// It's damaged, or would become too large.
pub fn wrapped_kernel(image: &[u8], limits: Limits) -> Result<Option<Vec<u8>>, Error> {
    let Some((stream, format)) = kernel::in_elf(image) else { return Ok(None) };
    let limit = limits.of(image.len());
    let unpacked = streams::decompress(stream, format, Extent::First, limit)?;
    let is_kernel = memmem::find(&unpacked, kernel::BANNER).is_some();
    Ok(is_kernel.then_some(unpacked))
}

/// The contents of containers, and their kinds, from outside to inside.
type Layers = (Option<Vec<u8>>, Vec<&'static str>);

/// The contents of all containers in `bytes`, and their kinds, from outside to inside. `None` if there is
/// none.
fn open_layers(bytes: &[u8], limits: Limits) -> Result<Layers, Error> {
    let limit = limits.of(bytes.len());
    let mut layers = Vec::new();
    let mut held: Option<Vec<u8>> = None;
    loop {
        let now = held.as_deref().unwrap_or(bytes);
        let Some((layer, next)) = open_layer(now, limit)? else { break };
        layers.push(layer);
        if layers.len() > MAX_LAYERS {
            return Err(Error::TooDeep);
        }
        held = Some(next);
    }
    Ok((held, layers))
}

/// The contents of the outermost container of `bytes`, and its kind. `None` if they aren't a container.
fn open_layer(bytes: &[u8], limit: u64) -> Result<Option<(&'static str, Vec<u8>)>, Error> {
    if bytes.starts_with(ELF_MAGIC) {
        return Ok(None);
    }
    if let Some(format) = Compression::of(bytes) {
        let unpacked = streams::decompress(bytes, format, Extent::Whole, limit)?;
        return Ok(Some((format.name(), unpacked)));
    }
    let Some(payload) = kernel::payload(bytes)? else { return Ok(None) };
    let unpacked = match Compression::of(payload.bytes) {
        Some(format) => streams::decompress(payload.bytes, format, Extent::First, limit)?,
        None => payload.bytes.to_vec(),
    };
    Ok(Some((payload.container, unpacked)))
}

const UNKNOWN: &str = "something unknown";
const ARCHIVE: &str = "an archive";

/// What `bytes` are, if they aren't ELF.
fn what_is(bytes: &[u8]) -> Option<&'static str> {
    if bytes.starts_with(ELF_MAGIC) {
        return None;
    }
    if bytes.starts_with(archive::MAGIC) || bytes.starts_with(archive::THIN_MAGIC) {
        return Some(ARCHIVE);
    }
    Some(kernel::raw(bytes).map_or(UNKNOWN, Raw::name))
}

/// The first bytes of the contents of the compressed `bytes`. If there are fewer, the rest is zeros.
/// `None` if they aren't compressed, or are a kernel image.
#[must_use]
pub fn peek<const SIZE: usize>(bytes: &[u8]) -> Option<[u8; SIZE]> {
    streams::peek(bytes, Compression::of(bytes)?)
}

/// The kind of compressed file or kernel image that begins with `head`. For commands that need plain ELF.
#[must_use]
pub fn packed_as(head: &[u8]) -> Option<&'static str> {
    match Compression::of(head) {
        Some(format) => Some(format.name()),
        None => kernel::container(head),
    }
}

/// `path` without the extension of a compressor.
#[must_use]
pub fn unpacked_name(path: &Path) -> PathBuf {
    const SUFFIXES: [&str; 6] = ["gz", "xz", "zst", "lz4", "bz2", "lzma"];
    match path.extension() {
        Some(suffix) if SUFFIXES.iter().any(|known| suffix == *known) => path.with_extension(""),
        _ => path.to_owned(),
    }
}

/// The contents of a compressed debug section (`SHF_COMPRESSED`), whose header says that they have `size`
/// bytes. `None` if it is corrupt, or would become too large.
#[must_use]
pub fn section(bytes: &[u8], is_zstd: bool, size: u64) -> Option<Vec<u8>> {
    let limit = Limits::default().of(bytes.len());
    if size > limit {
        return None;
    }
    streams::decompress_section(bytes, is_zstd, size).ok()
}
