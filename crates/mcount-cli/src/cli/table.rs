//! `mcount table`: late recording, the table of a linked image.

use super::options::{InputArgs, OptionArgs};
use super::{SUCCESS, complain};
use crate::commit::{Failure, output_name, write_new};
use crate::debug::separate::Subject;
use crate::jobs::Threads;
use crate::output;
use clap::{Args, ValueEnum, ValueHint};
use mcount::{Anchor, Base, LateOptions, LateTable, ObjectOptions, late_table, table_object};
use std::io::{self, Write};
use std::path::PathBuf;

#[derive(Args)]
pub(super) struct TableArgs {
    /// The linked image
    #[arg(value_name = "IMAGE", value_hint = ValueHint::FilePath)]
    image: PathBuf,
    /// Where to write [default: standard output, but not for an object]
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    output: Option<PathBuf>,
    /// What to write: an object to link in, the addresses as words, a JSON object a line, or text
    /// [default: obj with --output, text without]
    #[arg(long, value_enum)]
    format: Option<TableFormat>,
    /// Define symbols at the start and the end of the table in the object; without names,
    /// __start_mcount_loc and __stop_mcount_loc
    #[arg(long, value_name = "START,STOP", num_args = 0..=1, require_equals = true,
          default_missing_value = "__start_mcount_loc,__stop_mcount_loc", value_parser = parse_bounds)]
    bounds: Option<(String, String)>,
    /// The global symbol that the entries are relocated against [default: __ehdr_start, or in a
    /// kernel _stext, _text or _start]
    #[arg(long, value_name = "NAME=ADDRESS", value_parser = parse_anchor)]
    anchor: Option<Anchor>,
    /// Make the table in the object writable, for a PIE or a shared object
    #[arg(long)]
    writable: bool,
    #[command(flatten)]
    options: OptionArgs,
    #[command(flatten)]
    inputs: InputArgs,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
enum TableFormat {
    Obj,
    Raw,
    Jsonl,
    Text,
}

/// Runs the command; its exit code.
pub(super) fn table(arguments: &TableArgs) -> io::Result<u8> {
    let options = match arguments.options.options_or(Base::All) {
        Ok(options) => options,
        Err(error) => return Ok(complain(&error.to_string())),
    };
    let default = if arguments.output.is_some() { TableFormat::Obj } else { TableFormat::Text };
    let format = arguments.format.unwrap_or(default);
    let name = arguments.image.display();
    let table = match Subject::open(&arguments.image, &arguments.inputs.search(), false) {
        Ok(input) => {
            let threads = Threads::for_one(input.bytes().len(), None);
            let options = options.clone().helpers(threads.helpers());
            let has_names = matches!(format, TableFormat::Jsonl | TableFormat::Text);
            let late = LateOptions::default().names(has_names);
            match (late_table(input.bytes(), &options, &late), input.is_nameless()) {
                (Ok(table), Some(why)) if table.sites.is_empty() => {
                    return Ok(complain(&format!("{name}: {why}")));
                }
                (table, _) => table,
            }
        }
        Err(error) => return Ok(complain(&format!("{name}: {error}"))),
    };
    let bytes = table.and_then(|table| contents(arguments, format, &options.table_section, &table));
    let bytes = match bytes {
        Ok(Some(bytes)) => bytes,
        Ok(None) => return Ok(complain("an object goes to a file: give --output")),
        Err(error) => return Ok(complain(&format!("{name}: {}", Failure::from(error)))),
    };
    if let Some(output) = &arguments.output {
        if let Err(error) = write_new(output, &bytes) {
            let failure = Failure::from(error);
            return Ok(complain(&format!("{}: {failure}", output_name(output))));
        }
    } else {
        let mut out = output::stdout(format == TableFormat::Text);
        out.write_all(&bytes).and_then(|()| out.flush())?;
    }
    Ok(SUCCESS)
}

/// What to write; `None` for an object that has nowhere to go.
fn contents(
    arguments: &TableArgs,
    format: TableFormat,
    section: &str,
    table: &LateTable,
) -> mcount::Result<Option<Vec<u8>>> {
    let mut out = Vec::new();
    let path = &arguments.image;
    // Writing to memory cannot fail.
    let _ = match format {
        TableFormat::Raw => return Ok(Some(table.raw())),
        TableFormat::Jsonl => output::late_jsonl(&mut out, path, table),
        TableFormat::Text => output::late_text(&mut out, path, table),
        TableFormat::Obj if arguments.output.is_none() => return Ok(None),
        TableFormat::Obj => {
            let options = ObjectOptions::default()
                .table_section(section.to_owned())
                .anchor(arguments.anchor.clone())
                .bounds(arguments.bounds.clone())
                .writable(arguments.writable);
            return table_object(table, &options).map(Some);
        }
    };
    Ok(Some(out))
}

/// `NAME=ADDRESS`, the address in hexadecimal.
fn parse_anchor(text: &str) -> Result<Anchor, String> {
    let (symbol, address) = text.split_once('=').ok_or("no = after the symbol's name")?;
    let digits = address.strip_prefix("0x").unwrap_or(address);
    let is_number = digits.bytes().all(|digit| digit.is_ascii_hexdigit());
    let address = u64::from_str_radix(digits, 16).ok().filter(|_| is_number);
    let address = address.ok_or("the address must be a 64-bit hexadecimal number")?;
    is_name(symbol)?;
    Ok(Anchor::new(symbol, address))
}

/// `START,STOP`, two names.
pub(super) fn parse_bounds(text: &str) -> Result<(String, String), String> {
    let (start, stop) = text.split_once(',').ok_or("no comma between the two names")?;
    is_name(start)?;
    is_name(stop)?;
    if stop.contains(',') {
        return Err("more than two names".to_owned());
    }
    Ok((start.to_owned(), stop.to_owned()))
}

/// The longest text that a string table can hold.
fn is_name(text: &str) -> Result<(), &'static str> {
    if text.is_empty() || text.contains('\0') { Err("a symbol needs a name") } else { Ok(()) }
}
