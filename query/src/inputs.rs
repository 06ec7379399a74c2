//! What the command line names: traces, samples, files of Parquet, and folders of the latter two.

use crate::parquet;
use crate::reader::{Manner, Reader};
use crate::table::Table;
use crate::tables::shapes;
use mcount_store::commit::about;
use mcount_store::files::Input;
use mcount_view::compare::is_sample;
use std::ffi::OsStr;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// How deep folders are looked into: links can lead in a circle.
const DEEPEST: usize = 16;

/// All inputs.
pub(crate) struct Inputs {
    /// Those that have rows from somewhere.
    pub(crate) tables: Vec<Table>,
    pub(crate) traces: Vec<Arc<Reader>>,
    /// One of the files.
    pub(crate) first: PathBuf,
}

impl Inputs {
    /// Opens them.
    ///
    /// # Errors
    ///
    /// One can't be read, or is something else.
    pub(crate) fn open(paths: &[PathBuf], manner: Manner) -> io::Result<Self> {
        let tables = shapes().into_iter().map(Table::new).collect();
        let mut inputs = Self { tables, traces: Vec::new(), first: PathBuf::new() };
        for path in paths {
            if path.is_dir() {
                let mut found = Vec::new();
                files_in(path, 0, &mut found)?;
                if found.is_empty() {
                    let what = io::Error::other(
                        "has no file of Parquet (.parquet) and no sample (.jsonl)",
                    );
                    return Err(about(path, what));
                }
                for file in &found {
                    inputs.add(file, manner)?;
                }
            } else {
                inputs.add(path, manner)?;
            }
        }
        inputs.tables.retain(|table| !table.is_empty());
        Ok(inputs)
    }

    fn add(&mut self, path: &Path, manner: Manner) -> io::Result<()> {
        let input = Input::open(path).map_err(|error| about(path, error))?;
        let bytes = input.bytes();
        if bytes.starts_with(parquet::MAGIC) {
            let (name, file) = parquet::open(path).map_err(|error| about(path, error))?;
            self.table(name, |table| table.files.push(file));
        } else if is_sample(bytes) {
            self.table("samples", |table| table.samples.push(path.to_owned()));
        } else if bytes.is_empty() && path.extension() == Some(OsStr::new("jsonl")) {
            // A sample in which nothing was called.
            self.table("samples", |table| table.samples.push(path.to_owned()));
        } else {
            let trace = Arc::new(Reader::open(path, manner)?);
            for table in self.tables.iter_mut().filter(|table| table.shape.name != "samples") {
                table.traces.push(Arc::clone(&trace));
            }
            self.traces.push(trace);
        }
        if self.first.as_os_str().is_empty() {
            path.clone_into(&mut self.first);
        }
        Ok(())
    }

    fn table(&mut self, name: &str, add: impl FnOnce(&mut Table)) {
        let mut tables = self.tables.iter_mut();
        if let Some(table) = tables.find(|table| table.shape.name == name) {
            add(table);
        }
    }
}

/// The files of Parquet and the samples in a folder, in the order of their names.
fn files_in(folder: &Path, depth: usize, found: &mut Vec<PathBuf>) -> io::Result<()> {
    let entries = folder.read_dir().map_err(|error| about(folder, error))?;
    let paths = entries.map(|entry| entry.map(|entry| entry.path()));
    let mut paths = paths.collect::<io::Result<Vec<_>>>().map_err(|error| about(folder, error))?;
    paths.sort();
    for path in paths {
        let name = path.file_name().unwrap_or_default();
        let is_hidden = name.as_encoded_bytes().starts_with(b".");
        let ends = path.extension().and_then(OsStr::to_str);
        if is_hidden {
            continue;
        }
        if path.is_dir() {
            if depth < DEEPEST {
                files_in(&path, depth + 1, found)?;
            }
        } else if matches!(ends, Some("parquet" | "jsonl")) {
            found.push(path);
        }
    }
    Ok(())
}
