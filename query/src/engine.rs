//! Runs a query: DataFusion, with limits and without anything that changes something.

use crate::complain;
use crate::errors::{Known, plain};
use crate::inputs::Inputs;
use crate::output::{self, Output};
use crate::reader::Manner;
use datafusion::common::config::Dialect;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::SendableRecordBatchStream;
use datafusion::execution::memory_pool::FairSpillPool;
use datafusion::execution::runtime_env::RuntimeEnvBuilder;
use datafusion::functions_aggregate::approx_percentile_cont::approx_percentile_cont_udaf;
use datafusion::prelude::{SQLOptions, SessionConfig, SessionContext};
use mcount_view::query::QueryArgs;
use std::io;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::runtime::{Builder, Runtime};

/// Runs the query `sql` over the files at `paths`, and writes what it says.
///
/// # Errors
///
/// A file can't be read or written, or the query is wrong.
pub(crate) fn run(paths: &[PathBuf], sql: &str, arguments: &QueryArgs) -> io::Result<()> {
    let output = Output::of(arguments)?;
    let manner = Manner { has_simple_names: arguments.simple_names, has_lines: arguments.lines };
    let inputs = Inputs::open(paths, manner)?;
    let known = Known::of(&inputs.tables);
    let runtime = Builder::new_multi_thread().build()?;
    let explain = |error: DataFusionError| plain(&error, &known);
    let context = context(arguments.memory).map_err(explain)?;
    for table in inputs.tables {
        context.register_table(table.shape.name, Arc::new(table)).map_err(explain)?;
    }
    let rows = runtime.block_on(ask(&context, sql)).map_err(explain)?;
    let written = write(&runtime, rows, &output, &inputs.first, &explain);
    drop((context, runtime));
    for trace in inputs.traces {
        // Nothing else has it now.
        let warnings = Arc::into_inner(trace).map(crate::reader::Reader::close);
        warnings.iter().flatten().for_each(|warning| complain(warning));
    }
    written
}

/// Writes the rows of a result.
fn write(
    runtime: &Runtime,
    rows: SendableRecordBatchStream,
    output: &Output<'_>,
    like: &std::path::Path,
    explain: &dyn Fn(DataFusionError) -> io::Error,
) -> io::Result<()> {
    let schema = rows.schema();
    let mut rows = rows;
    let mut next = || {
        use futures::StreamExt;
        let next = runtime.block_on(rows.next());
        next.transpose().map_err(explain)
    };
    output::write(output, like, &schema, &mut next)
}

/// An engine that may take so many bytes of memory.
fn context(memory: u64) -> Result<SessionContext> {
    let memory = usize::try_from(memory).unwrap_or(usize::MAX);
    let pool = Arc::new(FairSpillPool::new(memory));
    let runtime = RuntimeEnvBuilder::new().with_memory_pool(pool).build_arc()?;
    let mut config = SessionConfig::new().with_information_schema(true);
    let partitions = config.target_partitions();
    let options = config.options_mut();
    options.sql_parser.dialect = Dialect::DuckDB;
    // Kept free for merging what went to files, in each partition.
    let kept = &mut options.execution.sort_spill_reservation_bytes;
    *kept = (*kept).min(memory / partitions.max(1) / 4);
    let context = SessionContext::new_with_config_rt(config, runtime);
    // As DuckDB calls it.
    let approximate = approx_percentile_cont_udaf().as_ref().clone();
    context.register_udaf(approximate.with_aliases(["approx_quantile"]));
    Ok(context)
}

/// Begins a query, if it is one.
async fn ask(context: &SessionContext, sql: &str) -> Result<SendableRecordBatchStream> {
    let options =
        SQLOptions::new().with_allow_ddl(false).with_allow_dml(false).with_allow_statements(false);
    context.sql_with_options(sql, options).await?.execute_stream().await
}
