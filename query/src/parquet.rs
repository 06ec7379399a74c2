//! Files of Parquet, as `mcount replay` and `mcount sample` write them: which table one is a part of, and reading it.

use crate::tables::{Shape, shapes};
use datafusion::arrow::datatypes::Field;
use datafusion::catalog::Session;
use datafusion::datasource::listing::PartitionedFile;
use datafusion::datasource::physical_plan::{FileGroup, FileScanConfigBuilder, ParquetSource};
use datafusion::datasource::source::DataSourceExec;
use datafusion::datasource::table_schema::TableSchema;
use datafusion::error::{DataFusionError, Result};
use datafusion::execution::object_store::ObjectStoreUrl;
use datafusion::object_store::ObjectStoreExt;
use datafusion::object_store::path::Path as StorePath;
use datafusion::parquet::arrow::arrow_reader::{ArrowReaderMetadata, ArrowReaderOptions};
use datafusion::physical_plan::ExecutionPlan;
use datafusion::scalar::ScalarValue;
use mcount_store::commit::about;
use mcount_store::files::open_regular;
use std::fs::OpenOptions;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a file begins with.
pub(crate) const MAGIC: &[u8] = b"PAR1";

/// A file.
#[derive(Debug, Clone)]
pub(crate) struct ParquetFile {
    path: PathBuf,
    /// By the name of a folder.
    build: Option<String>,
}

/// The table that the file at `path` is a part of, by its columns, and the file.
///
/// # Errors
///
/// It can't be read, or isn't a part of one.
pub(crate) fn open(path: &Path) -> io::Result<(&'static str, ParquetFile)> {
    let (file, _) = open_regular(path, OpenOptions::new().read(true))?;
    // The types that Arrow added to those of Parquet say nothing about which table it is, and can be anything.
    let options = ArrowReaderOptions::new().with_skip_arrow_metadata(true);
    let read = ArrowReaderMetadata::load(&file, options);
    let metadata = read.map_err(|error| io::Error::other(error.to_string()))?;
    let has = |name: &str| metadata.schema().column_with_name(name).is_some();
    let is_part =
        |shape: &Shape| shape.fields.iter().all(|field| field.is_optional || has(field.name));
    let shape = shapes().into_iter().find(is_part);
    let name = shape.ok_or_else(|| io::Error::other("isn't a table of mcount"))?.name;
    let path = path.canonicalize()?;
    let folders = path.parent().into_iter().flat_map(Path::iter);
    let build = folders.rev().find_map(|name| name.to_str()?.strip_prefix("build="));
    let build = build.map(str::to_owned);
    Ok((name, ParquetFile { path, build }))
}

/// A plan that reads these columns of files.
pub(crate) async fn scan_files(
    state: &dyn Session,
    shape: &Shape,
    files: &[ParquetFile],
    wanted: Vec<usize>,
    limit: Option<usize>,
) -> Result<Arc<dyn ExecutionPlan>> {
    let url = ObjectStoreUrl::local_filesystem();
    let store = state.runtime_env().object_store(&url)?;
    let mut parts = Vec::with_capacity(files.len());
    for file in files {
        let place = StorePath::from_absolute_path(&file.path).map_err(|error| {
            DataFusionError::External(about(&file.path, io::Error::other(error)).into())
        })?;
        let part = PartitionedFile::new_from_meta(store.head(&place).await?);
        let build = shape.has_build.then(|| ScalarValue::Utf8View(file.build.clone()));
        parts.push(part.with_partition_values(build.into_iter().collect()));
    }
    let groups = FileGroup::new(parts).split_files(state.config().target_partitions());
    let folders: Vec<Arc<Field>> = shape.of_folders().into_iter().map(Arc::new).collect();
    let schema = TableSchema::builder(shape.of_files()).with_table_partition_cols(folders).build();
    let source = ParquetSource::new(schema)
        .with_table_parquet_options(state.table_options().parquet.clone());
    let config = FileScanConfigBuilder::new(url, Arc::new(source))
        .with_file_groups(groups)
        .with_projection_indices(Some(wanted))?
        .with_limit(limit)
        .build();
    Ok(DataSourceExec::from_data_source(config))
}
