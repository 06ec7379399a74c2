//! The formats in which modules and kernels are compressed. We recognize them by their first bytes, and
//! read them to the end or to a limit. Each decoder is a crate, and all are written in Rust. Their
//! messages about damage are for their authors, so [`reason`] says it in our words.
//!
//! Formats: RFC 1952 (gzip), the .xz file format, the .lzma header of LZMA Utils, RFC 8878 (Zstandard),
//! and the LZ4 frame format with its legacy frame. The format of bzip2 is only defined by its source.

use super::Error;
use ruzstd::decoding::errors::FrameDecoderError;
use ruzstd::decoding::{FrameDecoder, StreamingDecoder};
use std::io::{self, Read};

/// A compressed format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Compression {
    Gzip,
    Xz,
    Lzma,
    Zstd,
    Lz4,
    Lz4Legacy,
    Bzip2,
    Lzo,
}

/// How much of the input to read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Extent {
    /// All of it. Several streams may follow each other.
    Whole,
    /// Only the first stream. A kernel image has other things after it.
    First,
}

/// The largest block in a legacy frame of LZ4, in bytes.
const LZ4_LEGACY_BLOCK: usize = 8 << 20;
/// The window that zstd -22 declares if it doesn't know the size of its input, in bytes.
const ZSTD_WINDOW: u64 = 128 << 20;
/// The largest window that a frame of zstd may declare, in bytes. The decoder allocates up to twice as
/// much at once, and ends the process if it can't. On a 32-bit host, the limit is 256 MiB.
const ZSTD_LARGEST_WINDOW: u64 = (usize::MAX / 8) as u64;
/// The limit for memory in KiB. It is enough for the dictionary of xz -9 and of kernels.
const LZMA_MEMORY: u32 = 512 << 10;

impl Compression {
    /// The format of a stream that begins with `bytes`.
    pub(super) fn of(bytes: &[u8]) -> Option<Self> {
        Some(match bytes {
            [0x1f, 0x8b, 8, ..] => Self::Gzip,
            [0xfd, b'7', b'z', b'X', b'Z', 0, ..] => Self::Xz,
            // A frame, or a frame to skip, with which pzstd and seekable archives begin.
            [0x28, 0xb5, 0x2f, 0xfd, ..] | [0x50..=0x5f, 0x2a, 0x4d, 0x18, ..] => Self::Zstd,
            [0x04, 0x22, 0x4d, 0x18, ..] => Self::Lz4,
            [0x02, 0x21, 0x4c, 0x18, ..] => Self::Lz4Legacy,
            [b'B', b'Z', b'h', b'1'..=b'9', 0x31, 0x41, 0x59, 0x26, 0x53, 0x59, ..] => Self::Bzip2,
            [0x89, b'L', b'Z', b'O', 0, b'\r', b'\n', 0x1a, b'\n', ..] => Self::Lzo,
            _ if is_lzma(bytes) => Self::Lzma,
            _ => return None,
        })
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Gzip => "gzip",
            Self::Xz => "xz",
            Self::Lzma => "lzma",
            Self::Zstd => "zstd",
            Self::Lz4 | Self::Lz4Legacy => "lz4",
            Self::Bzip2 => "bzip2",
            Self::Lzo => "lzo",
        }
    }

    /// The bytes that its streams begin with, if they are always the same.
    const FIRST: [u8; 8] = [0x1f, 0xfd, 0x28, 0x04, 0x02, b'B', 0x89, 0x5d];

    /// The places in `bytes`, from `start` on, at which something looks like a stream.
    pub(super) fn positions(bytes: &[u8], start: usize) -> impl Iterator<Item = usize> {
        let rest = bytes.get(start..).unwrap_or_default();
        rest.iter().enumerate().filter_map(move |(at, byte)| {
            let is_stream = Self::FIRST.contains(byte) && Self::of(rest.get(at..)?).is_some();
            is_stream.then_some(start + at)
        })
    }
}

/// Whether this looks like a stream of lzma. It has no magic number, so this looks for the usual
/// properties, a dictionary of a size that encoders choose (one or two bits are set), and a size that is
/// unknown or below 256 GiB.
fn is_lzma(bytes: &[u8]) -> bool {
    let Some(([0x5d, d0, d1, d2, d3], rest)) = bytes.split_first_chunk::<5>() else { return false };
    let dictionary = u32::from_le_bytes([*d0, *d1, *d2, *d3]);
    let is_usual = dictionary >= 1 << 12
        && (dictionary.is_power_of_two()
            || (dictionary / 3).is_power_of_two() && dictionary % 3 == 0);
    let size = rest.first_chunk::<8>().map(|size| u64::from_le_bytes(*size));
    is_usual && size.is_some_and(|size| size == u64::MAX || size < 256 << 30)
}

/// The contents of the stream of `format` at the start of `bytes`, up to `limit` bytes.
///
/// # Errors
///
/// The stream is truncated or corrupt, or has more in it.
pub(super) fn decompress(
    bytes: &[u8],
    format: Compression,
    extent: Extent,
    limit: u64,
) -> Result<Vec<u8>, Error> {
    if format == Compression::Lzo {
        return Err(Error::Unsupported("lzo"));
    }
    let mut out = Vec::new();
    let mut rest = bytes;
    loop {
        let room = limit.saturating_sub(out.len() as u64);
        let taken = stream(rest, format, extent, room, &mut out)
            .map_err(|error| Error::Corrupt(format.name(), reason(&error)))?;
        if out.len() as u64 > limit {
            return Err(Error::TooLarge(format.name(), limit));
        }
        rest = rest.get(taken..).unwrap_or_default();
        // A decoder of lzma reads what is after the stream too.
        let is_last = extent == Extent::First || format == Compression::Lzma || taken == 0;
        if is_last || Compression::of(rest) != Some(format) {
            break;
        }
    }
    Ok(out)
}

/// Appends the contents of the first stream of `bytes` to `out`, but only a little more than `room`
/// bytes. Returns how much of `bytes` was read.
fn stream(
    bytes: &[u8],
    format: Compression,
    extent: Extent,
    room: u64,
    out: &mut Vec<u8>,
) -> io::Result<usize> {
    let mut rest = bytes;
    match format {
        Compression::Lz4Legacy => lz4_legacy(&mut rest, extent, room, out)?,
        Compression::Zstd => zstd(&mut rest, room, out)?,
        _ => {
            decoder(&mut rest, format)?.take(room.saturating_add(1)).read_to_end(out)?;
        }
    }
    Ok(bytes.len() - rest.len())
}

/// A decoder for one stream of `format`.
fn decoder<'r>(bytes: &'r mut &[u8], format: Compression) -> io::Result<Box<dyn Read + 'r>> {
    Ok(match format {
        Compression::Gzip => Box::new(flate2::bufread::GzDecoder::new(bytes)),
        Compression::Xz => Box::new(lzma_rust2::XzReader::new_mem_limit(bytes, false, LZMA_MEMORY)),
        Compression::Lzma => {
            Box::new(lzma_rust2::LzmaReader::new_mem_limit(bytes, LZMA_MEMORY, None)?)
        }
        Compression::Zstd => Box::new(zstd_decoder(bytes, 0)?),
        Compression::Lz4 => Box::new(lz4_flex::frame::FrameDecoder::new(bytes)),
        Compression::Bzip2 => Box::new(bzip2::bufread::BzDecoder::new(bytes)),
        Compression::Lz4Legacy | Compression::Lzo => {
            return Err(io::ErrorKind::Unsupported.into());
        }
    })
}

/// The frames to skip, and the one behind them with its checksum.
fn zstd(bytes: &mut &[u8], room: u64, out: &mut Vec<u8>) -> io::Result<()> {
    skip_zstd_frames(bytes)?;
    if bytes.is_empty() {
        return Ok(());
    }
    let mut decoder = zstd_decoder(bytes, room)?;
    decoder.by_ref().take(room.saturating_add(1)).read_to_end(out)?;
    let (stored, found) =
        (decoder.decoder.get_checksum_from_data(), decoder.decoder.get_calculated_checksum());
    if decoder.decoder.is_finished() && stored.is_some() && stored != found {
        return Err(io::ErrorKind::InvalidData.into());
    }
    Ok(())
}

fn skip_zstd_frames(bytes: &mut &[u8]) -> io::Result<()> {
    while let [0x50..=0x5f, 0x2a, 0x4d, 0x18, s0, s1, s2, s3, rest @ ..] = *bytes {
        let size = u32::from_le_bytes([*s0, *s1, *s2, *s3]) as usize;
        *bytes = rest.get(size..).ok_or(io::ErrorKind::UnexpectedEof)?;
    }
    Ok(())
}

fn zstd_decoder<'r, 'd>(
    bytes: &'r mut &'d [u8],
    room: u64,
) -> io::Result<StreamingDecoder<&'r mut &'d [u8], FrameDecoder>> {
    let decoder = StreamingDecoder::new_with_max_window_size(
        bytes,
        room.clamp(ZSTD_WINDOW, ZSTD_LARGEST_WINDOW),
    );
    decoder.map_err(io::Error::other)
}

/// A legacy frame of LZ4: blocks with their sizes, up to the end of the input. In a kernel image, the
/// size of the kernel is behind them, which isn't a block.
fn lz4_legacy(bytes: &mut &[u8], extent: Extent, room: u64, out: &mut Vec<u8>) -> io::Result<()> {
    let start = out.len();
    *bytes = bytes.get(4..).unwrap_or_default();
    let mut block = Vec::new();
    while let Some((size, rest)) = bytes.split_first_chunk::<4>() {
        let at_end = extent == Extent::First && rest.is_empty();
        // Another frame may follow.
        if at_end || Compression::of(bytes) == Some(Compression::Lz4Legacy) {
            return Ok(());
        }
        let size = u32::from_le_bytes(*size) as usize;
        let body = rest.get(..size).ok_or(io::ErrorKind::UnexpectedEof)?;
        block.resize(LZ4_LEGACY_BLOCK, 0);
        let length =
            lz4_flex::block::decompress_into(body, &mut block).map_err(io::Error::other)?;
        out.try_reserve(length).map_err(|_| io::ErrorKind::OutOfMemory)?;
        out.extend_from_slice(block.get(..length).unwrap_or_default());
        *bytes = rest.get(size..).unwrap_or_default();
        if (out.len() - start) as u64 > room {
            return Ok(());
        }
    }
    if bytes.is_empty() { Ok(()) } else { Err(io::ErrorKind::UnexpectedEof.into()) }
}

/// The first bytes of the contents of the stream of `format`. If there are fewer, the rest is zeros.
/// `None` if it is corrupt there, or if we can't read only a part of this format.
pub(super) fn peek<const SIZE: usize>(bytes: &[u8], format: Compression) -> Option<[u8; SIZE]> {
    let mut head = Vec::new();
    let mut rest = bytes;
    let decoder = decoder(&mut rest, format).ok()?;
    decoder.take(SIZE as u64).read_to_end(&mut head).ok()?;
    head.resize(SIZE, 0);
    head.try_into().ok()
}

/// Whether the contents of the stream of `format` have `size` bytes and more, and aren't corrupt up to there.
pub(super) fn reaches(bytes: &[u8], format: Compression, size: u64) -> bool {
    let mut rest = bytes;
    let Ok(decoder) = decoder(&mut rest, format) else { return false };
    io::copy(&mut decoder.take(size), &mut io::sink()).is_ok_and(|length| length == size)
}

/// Why a stream couldn't be decoded.
fn reason(error: &io::Error) -> &'static str {
    let error = innermost(error);
    match error.kind() {
        io::ErrorKind::UnexpectedEof => "truncated",
        io::ErrorKind::OutOfMemory => "out of memory",
        io::ErrorKind::Unsupported => "uses a feature that is not supported",
        _ if is_too_large_a_window(error) => "asks for too large a window",
        _ => "corrupt",
    }
}

/// The error of reading that caused `error`, because decoders wrap it in their own.
fn innermost(error: &io::Error) -> &io::Error {
    let mut found = error;
    let mut cause = error.get_ref().map(|inner| inner as &(dyn std::error::Error + 'static));
    while let Some(inner) = cause {
        found = inner.downcast_ref().unwrap_or(found);
        cause = inner.source();
    }
    found
}

/// Whether a frame of Zstandard declares a larger window than [`zstd_decoder`] allows.
fn is_too_large_a_window(error: &io::Error) -> bool {
    let inner = error.get_ref().and_then(|inner| inner.downcast_ref::<FrameDecoderError>());
    matches!(inner, Some(FrameDecoderError::WindowSizeTooBig { .. }))
}

/// The contents of the zlib stream (RFC 1950), or of the frames of Zstandard, in a compressed section: at
/// most `size` bytes.
pub(super) fn decompress_section(bytes: &[u8], is_zstd: bool, size: u64) -> io::Result<Vec<u8>> {
    let mut out = Vec::new();
    if is_zstd {
        let mut rest = bytes;
        while !rest.is_empty() && (out.len() as u64) < size {
            let room = size - out.len() as u64;
            zstd(&mut rest, room, &mut out)?;
        }
    } else {
        flate2::read::ZlibDecoder::new(bytes).take(size).read_to_end(&mut out)?;
    }
    Ok(out)
}
