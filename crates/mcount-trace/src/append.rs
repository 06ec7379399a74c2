//! A recorder appends this to a finished trace: its index.

use crate::bytes::Bytes;
use crate::error::Error;
use crate::layout::{self, chunk, directory, header};
use crate::stored;
use crate::trace::Trace;

/// Bytes to write into a trace.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Patch {
    /// Where, in bytes from the start of the file.
    pub offset: u64,
    /// What.
    pub bytes: Vec<u8>,
}

/// What to write into a finished trace, in this order, so that readers needn't go over all its calls. It's appended,
/// and the last patch makes it count. Empty if there is an index already.
///
/// # Errors
///
/// The bytes are no trace.
pub fn index(bytes: &[u8]) -> Result<Vec<Patch>, Error> {
    let trace = Trace::parse(bytes)?;
    if trace.has_index() || !trace.header.is_finished || trace.damage.is_any() {
        return Ok(Vec::new());
    }
    let file = Bytes { bytes, big_endian: trace.header.big_endian };
    let words = stored::words(trace.indices(), trace.damage.open_without_start);
    let chunk_size = usize::try_from(trace.header.chunk_size).unwrap_or(usize::MAX);
    let mut next = file.u64(header::NEXT_CHUNK).unwrap_or(0);
    // A trace that says it has more than there is isn't one to be added to.
    let end = next.checked_mul(trace.header.chunk_size);
    let end = end.and_then(|size| size.checked_add(layout::HEADER_BLOCK));
    if end.is_none_or(|end| end > bytes.len() as u64) {
        return Ok(Vec::new());
    }
    let encode =
        |words: &[u64]| -> Vec<u8> { words.iter().flat_map(|w| file.encoded(*w)).collect() };
    let place = |number: u64| layout::HEADER_BLOCK + number * trace.header.chunk_size;
    let mut patches = Vec::new();
    for part in words.chunks(chunk_size / 8) {
        // The first of that many chunks is a directory. What isn't written reads as zeros.
        if next.is_multiple_of(directory::SPAN) {
            patches.push(Patch { offset: place(next), bytes: vec![0; chunk_size] });
            next += 1;
        }
        let mut body = encode(part);
        let used = body.len() as u64;
        body.resize(chunk_size, 0);
        patches.push(Patch { offset: place(next), bytes: body });
        let first = next - next % directory::SPAN;
        let descriptor = place(first) + (next - first) * directory::DESCRIPTOR_SIZE as u64;
        let used = Patch { offset: descriptor + directory::USED as u64, bytes: encode(&[used]) };
        let kind = file.encoded_half(chunk::INDEX);
        patches.push(used);
        patches.push(Patch { offset: descriptor + directory::KIND as u64, bytes: kind.to_vec() });
        next += 1;
    }
    patches.push(Patch { offset: header::NEXT_CHUNK as u64, bytes: encode(&[next]) });
    let size = words.len() as u64 * 8;
    patches.push(Patch { offset: header::INDEX as u64, bytes: encode(&[size]) });
    Ok(patches)
}
