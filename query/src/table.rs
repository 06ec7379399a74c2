//! A table of several inputs: traces and samples, which are streams, and files of Parquet.

use crate::batches::Maker;
use crate::parquet::{ParquetFile, scan_files};
use crate::reader::{Answers, Reader, Request};
use crate::tables::Shape;
use async_trait::async_trait;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::record_batch::RecordBatch;
use datafusion::catalog::{Session, TableProvider};
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::{SendableRecordBatchStream, TaskContext};
use datafusion::logical_expr::{Expr, TableType};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::physical_plan::empty::EmptyExec;
use datafusion::physical_plan::stream::RecordBatchStreamAdapter;
use datafusion::physical_plan::streaming::{PartitionStream, StreamingTableExec};
use datafusion::physical_plan::union::UnionExec;
use futures::stream::unfold;
use mcount_store::commit::about;
use mcount_store::files::read_to_end;
use mcount_view::sample::table::rows;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// A table, and what its rows are from.
#[derive(Debug)]
pub(crate) struct Table {
    pub(crate) shape: Shape,
    pub(crate) traces: Vec<Arc<Reader>>,
    /// Files of JSON lines.
    pub(crate) samples: Vec<PathBuf>,
    pub(crate) files: Vec<ParquetFile>,
}

impl Table {
    pub(crate) fn new(shape: Shape) -> Self {
        Self { shape, traces: Vec::new(), samples: Vec::new(), files: Vec::new() }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.traces.is_empty() && self.samples.is_empty() && self.files.is_empty()
    }

    /// What is read one after the other, in up to `most` lists that are read side by side.
    fn jobs(&self, most: usize) -> Vec<Vec<Job>> {
        let mut jobs: Vec<(u64, Job)> = Vec::new();
        for trace in &self.traces {
            if self.shape.name == "calls" {
                let lists = balanced(trace.counts.iter().copied().zip(0..).collect(), most);
                jobs.extend(lists.into_iter().map(|(calls, threads)| {
                    (calls, Job::Trace { trace: Arc::clone(trace), threads })
                }));
            } else {
                jobs.push((1, Job::Trace { trace: Arc::clone(trace), threads: Vec::new() }));
            }
        }
        jobs.extend(self.samples.iter().map(|path| (1, Job::Sample(path.clone()))));
        balanced(jobs, most).into_iter().map(|(_, jobs)| jobs).collect()
    }
}

/// Up to `most` lists with about the same sums, and these.
fn balanced<T>(mut all: Vec<(u64, T)>, most: usize) -> Vec<(u64, Vec<T>)> {
    let mut lists: Vec<(u64, Vec<T>)> = (0..most.min(all.len())).map(|_| (0, Vec::new())).collect();
    all.sort_by_key(|(size, _)| std::cmp::Reverse(*size));
    for (size, one) in all {
        if let Some((sum, list)) = lists.iter_mut().min_by_key(|(sum, _)| *sum) {
            *sum = sum.saturating_add(size.max(1));
            list.push(one);
        }
    }
    lists
}

#[async_trait]
impl TableProvider for Table {
    fn schema(&self) -> SchemaRef {
        self.shape.schema()
    }

    fn table_type(&self) -> TableType {
        TableType::Base
    }

    async fn scan(
        &self,
        state: &dyn Session,
        projection: Option<&Vec<usize>>,
        _filters: &[Expr],
        limit: Option<usize>,
    ) -> Result<Arc<dyn ExecutionPlan>> {
        let all = self.shape.schema();
        let wanted: Vec<usize> =
            projection.cloned().unwrap_or_else(|| (0..all.fields().len()).collect());
        let schema = Arc::new(all.project(&wanted)?);
        let most = state.config().target_partitions();
        let mut plans: Vec<Arc<dyn ExecutionPlan>> = Vec::new();
        let streams = self.jobs(most).into_iter().map(|jobs| {
            let (shape, wanted) = (self.shape, wanted.clone());
            let scan = Scan { shape, wanted, schema: Arc::clone(&schema), jobs };
            Arc::new(scan) as Arc<dyn PartitionStream>
        });
        let streams: Vec<_> = streams.collect();
        if !streams.is_empty() {
            let schema = Arc::clone(&schema);
            let plan = StreamingTableExec::try_new(schema, streams, None, [], false, limit)?;
            plans.push(Arc::new(plan));
        }
        if !self.files.is_empty() {
            plans.push(scan_files(state, &self.shape, &self.files, wanted, limit).await?);
        }
        Ok(match plans.pop() {
            Some(only) if plans.is_empty() => only,
            Some(last) => {
                plans.push(last);
                UnionExec::try_new(plans)?
            }
            None => Arc::new(EmptyExec::new(schema)),
        })
    }
}

/// Something to read.
#[derive(Debug, Clone)]
enum Job {
    Trace { trace: Arc<Reader>, threads: Vec<usize> },
    Sample(PathBuf),
}

/// Some columns of some inputs.
#[derive(Debug)]
struct Scan {
    shape: Shape,
    wanted: Vec<usize>,
    schema: SchemaRef,
    jobs: Vec<Job>,
}

impl PartitionStream for Scan {
    fn schema(&self) -> &SchemaRef {
        &self.schema
    }

    fn execute(&self, _: Arc<TaskContext>) -> SendableRecordBatchStream {
        let run = Run {
            shape: self.shape,
            wanted: self.wanted.clone(),
            schema: Arc::clone(&self.schema),
            jobs: self.jobs.clone().into_iter(),
            open: None,
        };
        let batches = unfold(run, async |mut run| Some((run.next().await?, run)));
        Box::pin(RecordBatchStreamAdapter::new(Arc::clone(&self.schema), Box::pin(batches)))
    }
}

/// A scan on its way.
struct Run {
    shape: Shape,
    wanted: Vec<usize>,
    schema: SchemaRef,
    jobs: std::vec::IntoIter<Job>,
    open: Option<Answers>,
}

impl Run {
    async fn next(&mut self) -> Option<Result<RecordBatch>> {
        loop {
            if let Some(open) = &mut self.open
                && let Some(batch) = open.next().await
            {
                return Some(batch);
            }
            match self.jobs.next()? {
                Job::Trace { trace, threads } => {
                    let (table, schema) = (self.shape.name, Arc::clone(&self.schema));
                    let wanted = self.wanted.clone();
                    self.open = Some(trace.ask(|batches| Request {
                        table,
                        threads,
                        wanted,
                        schema,
                        batches,
                    }));
                }
                Job::Sample(path) => {
                    self.open = None;
                    return Some(self.sample(&path));
                }
            }
        }
    }

    /// The rows of a file of JSON lines.
    fn sample(&self, path: &Path) -> Result<RecordBatch> {
        let failed = |error| DataFusionError::External(about(path, error).into());
        let bytes = read_to_end(path).map_err(failed)?;
        let rows = rows(&bytes).map_err(|error| failed(io::Error::other(error)))?;
        let schema = Arc::clone(&self.schema);
        let mut maker = Maker::new(self.shape.fields, &self.wanted, schema, &rows.texts);
        maker.batch(&rows.columns, "", usize::try_from(rows.rows).unwrap_or(usize::MAX))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_balanced() {
        let sizes = [(1, 'a'), (9, 'b'), (4, 'c'), (5, 'd')].to_vec();
        let lists = balanced(sizes, 2);
        assert_eq!(lists, [(9 + 1, vec!['b', 'a']), (5 + 4, vec!['d', 'c'])]);
        assert_eq!(balanced(vec![(0, 'a')], 4), [(1, vec!['a'])]);
        assert!(balanced(Vec::<(u64, char)>::new(), 4).is_empty());
    }
}
