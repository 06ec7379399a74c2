//! Tables for DuckDB, Spark and whatever else reads Parquet: calls, functions, threads and processes. Each is a folder of files, one for
//! each build of a program, in a folder `build=ID` as these tools know it. Files of several traces can be in the same folders.
//!
//! Calls are in the order in which they ended, thread by thread, so that their self time is known.

mod tables;

use super::parallel::PrintJob;
use super::progress::Progress;
use super::{Manner, Names, Selection};
use crate::commit::about;
use crate::files;
use crate::parquet::{Column, Group, Writer};
use mcount_trace::Call;
use rayon::prelude::*;
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::io::{self, BufWriter};
use std::path::{Path, PathBuf};
use std::sync::mpsc::{SyncSender, sync_channel};
use tables::{CALLS, Subject, tables};
use tempfile::NamedTempFile;

/// Rows of a group.
const ROWS: u64 = 1 << 16;

/// Rows of groups that aren't full, of all builds.
const WAITING: u64 = 1 << 18;

/// Writes what `selection` has of the trace at `path` into files below `folder`, which may be there. A file of the same trace is replaced.
///
/// # Errors
///
/// A file can't be written. Then none is new.
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
    let permissions = path.metadata()?.permissions();
    let mut output = Output { folder, files: Vec::new(), folders: Vec::new() };
    let written = write(&work, &subject, &mut output).and_then(|()| output.keep(&permissions));
    if written.is_err() {
        output.files.clear();
        files::remove_folders(&output.folders);
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
    let (sender, receiver) = sync_channel::<Vec<Filled>>(1);
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let mut rows = Rows::new(work, subject, sender);
            // The receiver has failed, and says why.
            let _ = rows.all();
        });
        let mut writers = BTreeMap::new();
        for batch in receiver {
            let groups = batch.par_iter().map(|filled| {
                let group = Group::new(CALLS, &filled.columns, filled.rows, &subject.texts);
                (filled.build, group)
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

/// Completes a file.
fn close(writer: Writer<BufWriter<std::fs::File>>) -> io::Result<()> {
    writer.finish()?.into_inner().map(drop).map_err(io::IntoInnerError::into_error)
}

/// New files, which get their names when all of them are complete.
struct Output<'o> {
    folder: &'o Path,
    files: Vec<(NamedTempFile, PathBuf)>,
    /// Folders that weren't there.
    folders: Vec<PathBuf>,
}

impl Output<'_> {
    /// A file of a table and a build.
    fn create(
        &mut self,
        table: &str,
        build: &str,
        id: &str,
    ) -> io::Result<BufWriter<std::fs::File>> {
        let folder = self.folder.join(table).join(format!("build={build}"));
        let new = files::create_folders(&folder).map_err(|error| about(&folder, error))?;
        self.folders.extend(new);
        // Its name begins with a dot, so nothing takes it for a part of the table.
        let file = NamedTempFile::new_in(&folder).map_err(|error| about(&folder, error))?;
        let out = BufWriter::with_capacity(1 << 18, file.as_file().try_clone()?);
        self.files.push((file, folder.join(format!("{id}.parquet"))));
        Ok(out)
    }

    /// Gives the files their names. Calls, which are counted, come last.
    fn keep(&mut self, permissions: &std::fs::Permissions) -> io::Result<()> {
        for (file, path) in self.files.drain(..) {
            file.as_file().set_permissions(permissions.clone())?;
            file.persist(&path).map_err(|error| about(&path, error.error))?;
        }
        Ok(())
    }
}

/// A group of rows of calls of a build.
struct Filled {
    build: usize,
    columns: Vec<Column>,
    rows: u64,
}

impl Filled {
    fn new(build: usize) -> Self {
        Self { build, columns: CALLS.iter().map(Column::new).collect(), rows: 0 }
    }
}

/// A call that encloses others, or may.
struct Open {
    call: Call,
    is_wanted: bool,
    /// Nanoseconds in what it called.
    children: u64,
}

/// Makes rows of calls.
struct Rows<'w> {
    work: &'w PrintJob<'w, 'w, 'w>,
    subject: &'w Subject<'w>,
    sender: SyncSender<Vec<Filled>>,
    /// By build.
    groups: Vec<Option<Filled>>,
    waiting: u64,
    ready: Vec<Filled>,
    open: Vec<Open>,
    latest: u64,
}

/// The receiver wants no more.
struct Gone;

impl<'w> Rows<'w> {
    fn new(
        work: &'w PrintJob<'w, 'w, 'w>,
        subject: &'w Subject<'w>,
        sender: SyncSender<Vec<Filled>>,
    ) -> Self {
        let trace = work.names.trace;
        let groups = subject.builds.iter().map(|_| None).collect();
        let latest = trace.nanoseconds(trace.latest());
        let (ready, open, waiting) = (Vec::new(), Vec::new(), 0);
        Self { work, subject, sender, groups, waiting, ready, open, latest }
    }

    fn all(&mut self) -> Result<(), Gone> {
        let PrintJob { names, filter, progress } = *self.work;
        for thread in 0..names.trace.threads.len() {
            let calls = names.trace.thread_calls(thread).filter(|_| filter.has_thread(thread));
            for call in progress.over(calls.into_iter().flatten()) {
                let (start, end) = filter.times(&call);
                if filter.is_too_late(start) {
                    break;
                }
                self.leave(call.depth)?;
                let is_wanted = filter.is_wanted(&call, start, end);
                self.open.push(Open { call, is_wanted, children: 0 });
            }
            self.leave(0)?;
        }
        for build in 0..self.groups.len() {
            self.fill(build)?;
        }
        self.send()
    }

    /// Ends all calls but the first `depth`.
    fn leave(&mut self, depth: usize) -> Result<(), Gone> {
        while self.open.len() > depth
            && let Some(over) = self.open.pop()
        {
            let (start, end) = self.work.filter.times(&over.call);
            let length = end.unwrap_or(self.latest).saturating_sub(start);
            if let Some(caller) = self.open.last_mut() {
                caller.children = caller.children.saturating_add(length);
            }
            if over.is_wanted {
                self.add(&over)?;
            }
        }
        Ok(())
    }

    fn add(&mut self, over: &Open) -> Result<(), Gone> {
        let build = self.subject.build_of(over.call.process);
        let Some(group) = self.groups.get_mut(build) else { return Ok(()) };
        let group = group.get_or_insert_with(|| Filled::new(build));
        self.subject.call(&mut group.columns, &over.call, over.children);
        group.rows += 1;
        self.waiting += 1;
        if group.rows >= ROWS {
            return self.fill(build);
        }
        if self.waiting > WAITING {
            let rows = |build: &usize| {
                self.groups.get(*build).and_then(Option::as_ref).map_or(0, |group| group.rows)
            };
            let most = (0..self.groups.len()).max_by_key(rows);
            return most.map_or(Ok(()), |build| self.fill(build));
        }
        Ok(())
    }

    /// The group of a build is as long as it gets.
    fn fill(&mut self, build: usize) -> Result<(), Gone> {
        if let Some(group) = self.groups.get_mut(build).and_then(Option::take) {
            self.waiting -= group.rows;
            self.ready.push(group);
        }
        if self.ready.len() >= rayon::current_num_threads() { self.send() } else { Ok(()) }
    }

    fn send(&mut self) -> Result<(), Gone> {
        self.sender.send(std::mem::take(&mut self.ready)).map_err(|_| Gone)
    }
}
