//! Tables for DuckDB, Spark and whatever else reads Parquet: calls, functions, threads and processes. Each is a folder of files, one for
//! each build of a program, in a folder `build=ID` as these tools know it. Files of several traces can be in the same folders.
//!
//! Calls are in the order in which they ended, thread by thread, so that their self time is known.

use super::parallel::PrintJob;
use super::progress::Progress;
use super::tables::{CALLS, Gone, Piece, Pieces, Subject, tables};
use super::{Manner, Names, Selection};
use crate::commit::{NamedWriter, about};
use crate::files::is_standard;
use crate::parquet::{Group, Writer};
use crate::temporary::{Temporary, Unfinished};
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs::File;
use std::io::{self, BufWriter, Write as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};

/// Rows of a group.
const ROWS: u64 = 1 << 16;

/// Rows of groups that aren't full, of all builds.
const WAITING: u64 = 1 << 18;

/// Writes what `selection` has of the trace at `path` into files below `folder`, which may be there. A file of the same trace is replaced.
///
/// # Errors
///
/// A file can't be written, which the error names. Then none is new.
pub fn write_parquet(
    folder: &Path,
    path: &Path,
    trace: &mcount_trace::Trace<'_>,
    selection: &Selection,
    manner: &Manner,
    progress: &Progress<'_>,
) -> io::Result<()> {
    let mut names = Names::with(trace, manner.has_simple_names);
    if manner.clock == super::Clock::Monotonic {
        names.start = trace.header.start_monotonic;
    }
    let filter = selection.filter(trace);
    let work = PrintJob { names: &names, filter: &filter, progress };
    let subject = Subject::of(&names, path, manner.lines.as_ref());
    // What comes from a pipe says nothing of who may read it.
    let permissions = if is_standard(path) {
        None
    } else {
        Some(path.metadata().map_err(|error| about(path, error))?.permissions())
    };
    let mut output = Output { folder, files: Vec::new(), new: Vec::new() };
    let written =
        write(&work, &subject, &mut output).and_then(|()| output.keep(permissions.as_ref()));
    if written.is_err() {
        output.files.clear();
        Unfinished::remove_empty(output.new);
    }
    written
}

fn write(
    work: &PrintJob<'_, '_, '_>,
    subject: &Subject<'_>,
    output: &mut Output<'_>,
) -> io::Result<()> {
    // Those that calls refer to come first.
    let (tables, texts) = tables(subject);
    for table in tables {
        let build = subject.builds.get(table.build).map_or("", String::as_str);
        let file = output.create(table.name, build, &subject.id)?;
        let mut writer = Writer::new(file, table.fields)?;
        writer.add(&Group::new(table.fields, &table.columns, table.rows, &texts))?;
        close(writer)?;
    }
    let (sender, receiver) = sync_channel(1);
    std::thread::scope(|scope| {
        scope.spawn(move || {
            // The receiver has failed, and says why.
            let _ = send(work, subject, &sender);
        });
        let mut writers = BTreeMap::new();
        for batch in receiver {
            let groups = batch.par_iter().map(|piece| {
                let group = Group::new(CALLS, &piece.columns, piece.rows, &subject.texts);
                (piece.build, group)
            });
            for (build, group) in groups.collect::<Vec<_>>() {
                let writer = match writers.entry(build) {
                    Entry::Occupied(writer) => writer.into_mut(),
                    Entry::Vacant(place) => {
                        let name = subject.builds.get(build).map_or("", String::as_str);
                        let file = output.create("calls", name, &subject.id)?;
                        place.insert(Writer::new(file, CALLS)?)
                    }
                };
                writer.add(&group)?;
            }
        }
        for writer in writers.into_values() {
            close(writer)?;
        }
        Ok(())
    })
}

/// Sends the rows of calls, as many groups at a time as there are processors.
fn send(
    work: &PrintJob<'_, '_, '_>,
    subject: &Subject<'_>,
    sender: &SyncSender<Vec<Piece>>,
) -> Result<(), Gone> {
    let threads: Vec<usize> = (0..work.names.trace.threads.len()).collect();
    let columns = [true; CALLS.len()];
    let pieces = Pieces { threads: &threads, columns: &columns, rows: ROWS, waiting: WAITING };
    let mut ready = Vec::new();
    pieces.selected(subject, work.filter, work.progress, |piece| {
        ready.push(piece);
        if ready.len() < rayon::current_num_threads() {
            return Ok(());
        }
        sender.send(std::mem::take(&mut ready)).map_err(|_| Gone)
    })?;
    sender.send(ready).map_err(|_| Gone)
}

/// Completes a file.
fn close(writer: Writer<Out>) -> io::Result<()> {
    writer.finish()?.flush()
}

/// A file that's being written.
type Out = NamedWriter<BufWriter<File>>;

/// New files, which get their names when all of them are complete.
struct Output<'o> {
    folder: &'o Path,
    files: Vec<(Temporary, PathBuf)>,
    /// Folders that weren't there.
    new: Vec<Unfinished>,
}

impl Output<'_> {
    /// A file of a table and a build.
    fn create(&mut self, table: &str, build: &str, id: &str) -> io::Result<Out> {
        let folder = self.folder.join(table).join(format!("build={build}"));
        self.new.extend(Unfinished::folders(&folder).map_err(|error| about(&folder, error))?);
        // Its name begins with a dot, so nothing takes it for a part of the table.
        let file = Temporary::in_folder(&folder).map_err(|error| about(&folder, error))?;
        let path = folder.join(format!("{id}.parquet"));
        let twin = file.file().try_clone().map_err(|error| about(&path, error))?;
        let out = NamedWriter::new(BufWriter::with_capacity(1 << 18, twin), &path);
        self.files.push((file, path));
        Ok(out)
    }

    /// Gives the files their names. Calls, which are counted, come last.
    fn keep(&mut self, permissions: Option<&std::fs::Permissions>) -> io::Result<()> {
        for (file, path) in &self.files {
            if let Some(permissions) = permissions {
                let set = file.file().set_permissions(permissions.clone());
                set.map_err(|error| about(path, error))?;
            }
        }
        Temporary::keep_all(self.files.drain(..))
    }
}
