//! Compressing traces, and undoing that: block by block on all processors, written in order beside the file and then
//! put in its place. So are other files that are made of a trace.

use crate::commit::{NamedWriter, about, follow};
use crate::files::Input;
use crate::temporary::Temporary;
use mcount_trace::{Packed, Packer, is_packed};
use rayon::prelude::*;
use std::fs::OpenOptions;
use std::io::{self, BufWriter, Write};
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Blocks that are worked on at a time.
const BATCH: usize = 256;

/// Compresses the trace at `path` into `output`, which may be the same.
///
/// # Errors
///
/// It is no trace, or is compressed already; or files can't be read or written. Then `output` is as it was. The error
/// names the file that it is about.
pub fn compress(path: &Path, output: &Path) -> io::Result<()> {
    let input = Input::open(path).map_err(|error| about(path, error))?;
    let packer = Packer::new(input.bytes()).map_err(|error| wrong(path, error))?;
    write_file(path, output, &mut |out| {
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
        out.write_all(&packer.table(&sizes))
    })
}

fn size(size: usize) -> io::Result<u32> {
    u32::try_from(size).map_err(io::Error::other)
}

/// Writes the trace that is compressed at `path` into `output`, which may be the same, as it was before.
///
/// # Errors
///
/// It isn't a compressed trace, or not a whole one; or files can't be read or written. Then `output` is as it was. The
/// error names the file that it is about.
pub fn decompress(path: &Path, output: &Path) -> io::Result<()> {
    let input = Input::open(path).map_err(|error| about(path, error))?;
    if !is_packed(input.bytes()) {
        return Err(wrong(path, "not a compressed trace"));
    }
    let packed = Packed::open(input.bytes()).map_err(|error| wrong(path, error))?;
    if packed.is_cut_off() {
        return Err(wrong(path, "a compressed trace that was cut off"));
    }
    write_file(path, output, &mut |out| {
        for batch in batches(packed.blocks()) {
            let blocks: Vec<_> = batch.into_par_iter().map(|number| packed.block(number)).collect();
            for block in blocks {
                let block = block
                    .ok_or_else(|| wrong(path, "a compressed trace of which a piece is damaged"))?;
                out.write_all(&block)?;
            }
            input.give_back();
        }
        Ok(())
    })
}

/// `why` the file at `path` can't be used.
fn wrong(path: &Path, why: impl std::fmt::Display) -> io::Error {
    about(path, io::Error::other(why.to_string()))
}

fn batches(blocks: usize) -> impl Iterator<Item = std::ops::Range<usize>> {
    (0..blocks).step_by(BATCH).map(move |first| first..(first + BATCH).min(blocks))
}

/// Has `write` write the file at `output`, completely or not at all; a device or a pipe directly. A user that may
/// read the file at `path` may read it. Symbolic links stay.
///
/// # Errors
///
/// It can't be written: the error names the file. Or those of `write`.
pub fn write_file(
    path: &Path,
    output: &Path,
    write: &mut dyn FnMut(&mut (dyn Write + Send)) -> io::Result<()>,
) -> io::Result<()> {
    let of_output = |error| about(output, error);
    let there = output.metadata();
    let is_device = there.as_ref().is_ok_and(|found| !found.is_file() && !found.is_dir());
    let place = output.canonicalize();
    // A file without a name can't be replaced: /dev/stdout may lead to one.
    if is_device || there.is_ok() && place.is_err() {
        let device = OpenOptions::new().write(true).truncate(!is_device).open(output);
        return write(&mut NamedWriter::new(device.map_err(of_output)?, output));
    }
    let place = match place {
        Ok(place) => place,
        Err(_) => follow(output).map_err(of_output)?,
    };
    let folder = place.parent().filter(|folder| !folder.as_os_str().is_empty());
    let file = Temporary::in_folder(folder.unwrap_or(Path::new("."))).map_err(of_output)?;
    let mut out = NamedWriter::new(BufWriter::new(file.file()), output);
    write(&mut out)?;
    out.flush()?;
    drop(out);
    let permissions = path.metadata().map_err(|error| about(path, error))?.permissions();
    file.file().set_permissions(permissions).map_err(of_output)?;
    file.keep(&place).map_err(of_output)
}

/// The same for what is made of the file at `path`, and mustn't take its place.
///
/// # Errors
///
/// As there, or `output` is that file.
pub fn write_of(
    path: &Path,
    output: &Path,
    write: &mut dyn FnMut(&mut (dyn Write + Send)) -> io::Result<()>,
) -> io::Result<()> {
    is_other(path, output).map_err(|error| about(output, error))?;
    write_file(path, output, write)
}

/// Is `output` the file at `path`, by whatever name?
#[must_use]
pub fn is_same(path: &Path, output: &Path) -> bool {
    let place = |path: &Path| path.metadata().ok().map(|found| (found.dev(), found.ino()));
    place(output).is_some_and(|there| place(path) == Some(there))
}

/// # Errors
///
/// `output` is the file at `path`, which is read.
pub fn is_other(path: &Path, output: &Path) -> io::Result<()> {
    if is_same(path, output) {
        return Err(io::Error::other("is the file that is read: choose another name"));
    }
    Ok(())
}
