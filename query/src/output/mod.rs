//! Prints results, or writes them to a file. One file a format of our own.

mod aligned;

use aligned::Aligned;
use datafusion::arrow::array::RecordBatch;
use datafusion::arrow::csv;
use datafusion::arrow::datatypes::SchemaRef;
use datafusion::arrow::error::ArrowError;
use datafusion::arrow::json;
use datafusion::parquet::arrow::ArrowWriter;
use datafusion::parquet::basic::Compression;
use datafusion::parquet::errors::ParquetError;
use datafusion::parquet::file::properties::WriterProperties;
use mcount_store::commit::about;
use mcount_store::files::is_standard;
use mcount_view::packing::write_file;
use mcount_view::query::{QueryArgs, ResultFormat};
use std::io::{self, BufWriter, Write};
use std::path::Path;

/// Where a result goes.
#[derive(Debug)]
pub(crate) struct Output<'a> {
    format: ResultFormat,
    /// None for standard output.
    file: Option<&'a Path>,
}

impl<'a> Output<'a> {
    /// What the command line says.
    ///
    /// # Errors
    ///
    /// It needs a file.
    pub(crate) fn of(arguments: &'a QueryArgs) -> io::Result<Self> {
        let file = arguments.output.as_deref().filter(|path| !is_standard(path));
        let by_name = || match file?.extension()?.to_str()? {
            "csv" => Some(ResultFormat::Csv),
            "json" | "jsonl" => Some(ResultFormat::Json),
            "parquet" => Some(ResultFormat::Parquet),
            _ => None,
        };
        let format = arguments.format.or_else(by_name).unwrap_or(ResultFormat::Table);
        if format == ResultFormat::Parquet && file.is_none() {
            return Err(io::Error::other("--format parquet needs --output FILE"));
        }
        Ok(Self { format, file })
    }
}

/// The batches of a result, up to none.
type Next<'n> = dyn FnMut() -> io::Result<Option<RecordBatch>> + 'n;

/// Writes a result; a new file can be read by whom the file `like` can be read.
///
/// # Errors
///
/// It can't be written, or those of `next`.
pub(crate) fn write(
    output: &Output<'_>,
    like: &Path,
    schema: &SchemaRef,
    next: &mut Next<'_>,
) -> io::Result<()> {
    let Some(path) = output.file else {
        let mut out = BufWriter::new(io::stdout());
        return print(output.format, &mut out, schema, next).and_then(|()| out.flush());
    };
    // Errors of the query name no file, and shouldn't name this one.
    let mut failed = None;
    let written = write_file(like, path, &mut |out| {
        let mut next = || {
            next().map_err(|error| {
                let kind = error.kind();
                failed = Some(error);
                kind.into()
            })
        };
        print(output.format, out, schema, &mut next)
    });
    match failed {
        Some(error) => Err(error),
        None => written.map_err(|error| about(path, error)),
    }
}

fn print(
    format: ResultFormat,
    out: &mut (dyn Write + Send),
    schema: &SchemaRef,
    next: &mut Next<'_>,
) -> io::Result<()> {
    match format {
        ResultFormat::Table => {
            let mut table = Aligned::new(schema);
            while let Some(batch) = next()? {
                table.add(out, &batch)?;
            }
            table.finish(out)
        }
        ResultFormat::Csv => {
            let mut writer = csv::WriterBuilder::new().with_header(true).build(&mut *out);
            // The names are there without any row, too.
            writer.write(&RecordBatch::new_empty(SchemaRef::clone(schema))).map_err(of_arrow)?;
            while let Some(batch) = next()? {
                writer.write(&batch).map_err(of_arrow)?;
            }
            drop(writer);
            out.flush()
        }
        ResultFormat::Json => {
            let builder = json::WriterBuilder::new().with_explicit_nulls(true);
            let mut writer = builder.build::<_, json::writer::LineDelimited>(&mut *out);
            while let Some(batch) = next()? {
                writer.write(&batch).map_err(of_arrow)?;
            }
            writer.finish().map_err(of_arrow)?;
            drop(writer);
            out.flush()
        }
        ResultFormat::Parquet => {
            let properties =
                WriterProperties::builder().set_compression(Compression::LZ4_RAW).build();
            let schema = SchemaRef::clone(schema);
            let writer = ArrowWriter::try_new(&mut *out, schema, Some(properties));
            let mut writer = writer.map_err(of_parquet)?;
            while let Some(batch) = next()? {
                writer.write(&batch).map_err(of_parquet)?;
            }
            writer.close().map(drop).map_err(of_parquet)?;
            out.flush()
        }
    }
}

fn of_arrow(error: ArrowError) -> io::Error {
    match error {
        ArrowError::IoError(_, error) => error,
        ArrowError::ExternalError(error) => io::Error::other(error),
        error => io::Error::other(error.to_string()),
    }
}

fn of_parquet(error: ParquetError) -> io::Error {
    match error {
        ParquetError::External(error) => match error.downcast::<io::Error>() {
            Ok(error) => *error,
            Err(error) => io::Error::other(error),
        },
        error => io::Error::other(error.to_string()),
    }
}
