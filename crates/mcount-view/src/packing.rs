//! Compressing traces, and undoing that: block by block on all processors, written in order beside the file and then
//! put in its place. So are other files that are made of a trace.

use crate::files::Input;
use mcount_trace::{Packed, Packer, is_packed};
use rayon::prelude::*;
use std::io::{self, BufWriter, Write};
use std::path::Path;
use tempfile::NamedTempFile;

/// Blocks that are worked on at a time.
const BATCH: usize = 256;

/// Compresses the trace at `path` into `output`, which may be the same.
///
/// # Errors
///
/// It is no trace, or is compressed already; or files can't be read or written. Then `output` is as it was.
pub fn compress(path: &Path, output: &Path) -> io::Result<()> {
    let input = Input::open(path)?;
    let packer = Packer::new(input.bytes()).map_err(io::Error::other)?;
    write_beside(path, output, |file| {
        let mut out = BufWriter::new(file);
        out.write_all(&packer.head())?;
        let mut sizes = Vec::with_capacity(packer.blocks());
        for batch in batches(packer.blocks()) {
            let frames: Vec<_> = batch.into_par_iter().map(|number| packer.frame(number)).collect();
            for (frame, whole) in frames {
                out.write_all(&frame)?;
                sizes.push((size(frame.len())?, size(whole)?));
            }
            input.give_back();
        }
        out.write_all(&packer.table(&sizes))?;
        out.flush()
    })
}

fn size(size: usize) -> io::Result<u32> {
    u32::try_from(size).map_err(io::Error::other)
}

/// Writes the trace that is compressed at `path` into `output`, which may be the same, as it was before.
///
/// # Errors
///
/// It isn't a compressed trace, or not a whole one; or files can't be read or written. Then `output` is as it was.
pub fn decompress(path: &Path, output: &Path) -> io::Result<()> {
    let input = Input::open(path)?;
    if !is_packed(input.bytes()) {
        return Err(io::Error::other("not a compressed trace"));
    }
    let packed = Packed::open(input.bytes()).map_err(io::Error::other)?;
    if packed.is_cut_off() {
        return Err(io::Error::other("a compressed trace that was cut off"));
    }
    write_beside(path, output, |file| {
        let mut out = BufWriter::new(file);
        for batch in batches(packed.blocks()) {
            let blocks: Vec<_> = batch.into_par_iter().map(|number| packed.block(number)).collect();
            for block in blocks {
                let block = block.ok_or_else(|| {
                    io::Error::other("a compressed trace of which a piece is damaged")
                })?;
                out.write_all(&block)?;
            }
            input.give_back();
        }
        out.flush()
    })
}

fn batches(blocks: usize) -> impl Iterator<Item = std::ops::Range<usize>> {
    (0..blocks).step_by(BATCH).map(move |first| first..(first + BATCH).min(blocks))
}

/// Lets `write` write a new file, which those can read who can read `path`, and puts it in the place of `output`.
///
/// # Errors
///
/// Those of `write`, or the file can't be written. Then `output` is as it was.
pub fn write_beside(
    path: &Path,
    output: &Path,
    write: impl FnOnce(&mut NamedTempFile) -> io::Result<()>,
) -> io::Result<()> {
    // Symbolic links stay.
    let output = output.canonicalize().unwrap_or_else(|_| output.to_owned());
    let folder = output.parent().filter(|folder| !folder.as_os_str().is_empty());
    let mut file = NamedTempFile::new_in(folder.unwrap_or(Path::new(".")))?;
    write(&mut file)?;
    file.as_file().set_permissions(path.metadata()?.permissions())?;
    file.persist(output).map(drop).map_err(|error| error.error)
}

/// Has `print` write the file at `path`, completely or not at all; a device or a pipe directly. A user that may
/// read the `trace` may read it.
///
/// # Errors
///
/// It can't be written, or those of `print`.
pub fn write_file(
    trace: &Path,
    path: &Path,
    print: &mut dyn FnMut(&mut (dyn io::Write + Send)) -> io::Result<()>,
) -> io::Result<()> {
    if path.metadata().is_ok_and(|found| !found.is_file() && !found.is_dir()) {
        return print(&mut std::fs::OpenOptions::new().write(true).open(path)?);
    }
    write_beside(trace, path, |file| print(&mut io::BufWriter::new(file.as_file_mut())))
}
