//! A trace that stays open: a thread of its own has it, and hands out rows to whoever asks.
//!
//! A plan of DataFusion has to own what it reads, and a [`Trace`] borrows from its file. So the plan has the name of a thread instead.

use crate::batches::Maker;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::error::{DataFusionError, Result};
use mcount_store::commit::{Failure, about};
use mcount_store::files::Input;
use mcount_trace::{Trace, read};
use mcount_view::replay::tables::{CALLS, Gone, Pieces, Subject, tables, with_subject};
use mcount_view::replay::{Progress, SourceLines, missing};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::mpsc::{Receiver, Sender, SyncSender, channel, sync_channel};
use std::thread::{JoinHandle, scope, spawn};
use tokio::sync::mpsc;

/// Rows of a batch, as DataFusion has them.
const ROWS: u64 = 8192;

/// Rows of calls of all builds that wait until their batch is full.
const WAITING: u64 = 1 << 16;

/// Batches that wait for DataFusion.
pub(crate) const AHEAD: usize = 4;

/// How names and lines are to be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Manner {
    pub(crate) has_simple_names: bool,
    pub(crate) has_lines: bool,
}

/// Asks for rows.
pub(crate) struct Request {
    pub(crate) table: &'static str,
    /// Of calls, the threads that made them.
    pub(crate) threads: Vec<usize>,
    /// The places of the columns, and what these are.
    pub(crate) wanted: Vec<usize>,
    pub(crate) schema: SchemaRef,
    pub(crate) batches: mpsc::Sender<Answer>,
}

/// A batch, or nothing after the last one: without that, the thread has failed.
pub(crate) type Answer = Option<Result<RecordBatch>>;

/// An open trace.
#[derive(Debug)]
pub(crate) struct Reader {
    pub(crate) path: PathBuf,
    /// How many calls each thread made.
    pub(crate) counts: Vec<u64>,
    /// Nothing ends the thread.
    requests: Sender<Option<Request>>,
    thread: JoinHandle<Vec<String>>,
}

impl Reader {
    /// Opens the trace at `path`.
    ///
    /// # Errors
    ///
    /// It can't be read, or isn't a trace.
    pub(crate) fn open(path: &Path, manner: Manner) -> io::Result<Self> {
        let (ready, counts) = sync_channel(1);
        let (requests, asked) = channel();
        let own = path.to_owned();
        let thread = spawn(move || keep(&own, manner, &ready, &asked));
        let counts = counts.recv().map_err(|_| io::Error::other("reading it has failed"));
        let counts = counts.flatten().map_err(|error| about(path, error))?;
        Ok(Self { path: path.to_owned(), counts, requests, thread })
    }

    /// What an answer to a request comes through.
    pub(crate) fn ask(&self, request: impl FnOnce(mpsc::Sender<Answer>) -> Request) -> Answers {
        let (sender, answers) = mpsc::channel(AHEAD);
        // If the thread is gone, so is the sender, and the receiver says that.
        let _ = self.requests.send(Some(request(sender)));
        Answers { path: self.path.clone(), answers }
    }

    /// Closes the trace; what it lacks, as far as that was found.
    pub(crate) fn close(self) -> Vec<String> {
        let _ = self.requests.send(None);
        self.thread.join().unwrap_or_default()
    }
}

/// Batches of a trace.
pub(crate) struct Answers {
    path: PathBuf,
    answers: mpsc::Receiver<Answer>,
}

impl Answers {
    /// The next batch, if there's one.
    pub(crate) async fn next(&mut self) -> Option<Result<RecordBatch>> {
        self.answers.recv().await.unwrap_or_else(|| {
            let what = format!("{}: reading it has failed", self.path.display());
            Some(Err(DataFusionError::External(what.into())))
        })
    }
}

/// Keeps a trace open, and answers requests; what it lacks.
fn keep(
    path: &Path,
    manner: Manner,
    ready: &SyncSender<io::Result<Vec<u64>>>,
    requests: &Receiver<Option<Request>>,
) -> Vec<String> {
    let failed = |error: io::Error| {
        let _ = ready.send(Err(error));
        Vec::new()
    };
    let input = match Input::open(path) {
        Ok(input) => input,
        Err(error) => return failed(io::Error::other(Failure::from(error).to_string())),
    };
    let warnings = read(input.bytes(), |trace| {
        let trace = &*trace;
        let lines = manner.has_lines.then(|| SourceLines::of(trace));
        let counts = (0..trace.threads.len()).map(|thread| trace.count(thread)).collect();
        with_subject(trace, path, manner.has_simple_names, lines.as_ref(), |subject| {
            let _ = ready.send(Ok(counts));
            answer_all(requests, trace, subject, &input);
        });
        let lines = lines.map(|lines| lines.warnings).unwrap_or_default();
        let lacks = missing(trace).into_iter();
        lacks.map(|what| format!("warning: {}: {what}", path.display())).chain(lines).collect()
    });
    warnings.unwrap_or_else(|error| failed(io::Error::other(error.to_string())))
}

/// Answers requests, several at a time.
fn answer_all(
    requests: &Receiver<Option<Request>>,
    trace: &Trace<'_>,
    subject: &Subject<'_>,
    input: &Input,
) {
    let progress = Progress::new(trace, Some(input));
    scope(|scope| {
        while let Ok(Some(request)) = requests.recv() {
            let progress = &progress;
            scope.spawn(move || {
                let is_whole = match request.table {
                    "calls" => calls(&request, subject, progress),
                    _ => others(&request, subject),
                };
                if is_whole.is_ok() {
                    let _ = request.batches.blocking_send(None);
                }
            });
        }
    });
}

/// Sends rows of calls.
fn calls(request: &Request, subject: &Subject<'_>, progress: &Progress<'_>) -> Result<(), Gone> {
    let wanted: Vec<bool> = (0..CALLS.len()).map(|place| request.wanted.contains(&place)).collect();
    let pieces =
        Pieces { threads: &request.threads, columns: &wanted, rows: ROWS, waiting: WAITING };
    let schema = SchemaRef::clone(&request.schema);
    let mut maker = Maker::new(CALLS, &request.wanted, schema, &subject.texts);
    pieces.all(subject, progress, |piece| {
        let build = subject.builds.get(piece.build).map_or("", String::as_str);
        let rows = usize::try_from(piece.rows).unwrap_or(usize::MAX);
        send(request, maker.batch(&piece.columns, build, rows))
    })
}

/// Sends the rows of another table.
fn others(request: &Request, subject: &Subject<'_>) -> Result<(), Gone> {
    let (all, texts) = tables(subject);
    for table in all.iter().filter(|table| table.name == request.table) {
        let schema = SchemaRef::clone(&request.schema);
        let mut maker = Maker::new(table.fields, &request.wanted, schema, &texts);
        let build = subject.builds.get(table.build).map_or("", String::as_str);
        let rows = usize::try_from(table.rows).unwrap_or(usize::MAX);
        send(request, maker.batch(&table.columns, build, rows))?;
    }
    Ok(())
}

fn send(request: &Request, batch: Result<RecordBatch>) -> Result<(), Gone> {
    request.batches.blocking_send(Some(batch)).map_err(|_| Gone)
}
