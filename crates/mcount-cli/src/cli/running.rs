//! The kernel that runs: its table is `available_filter_functions` in tracefs, and its BTF is in
//! `/sys/kernel/btf`. Copies of both folders side by side are as good.

use super::btf::BtfArgs;
use super::read::{ReadArgs, buffered};
use super::{FOUND, SUCCESS, complain};
use crate::btf::{self, Base, Functions, Prototype};
use crate::commit::Failure;
use crate::files::read_to_end;
use crate::output::{ParquetTable, SiteFormat, csv_lines, stdout};
use crate::words::{counted, printable};
use mcount::source_name;
use mcount_view::parquet::{Field, Kind};
use serde_json::json;
use std::collections::BTreeMap;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

/// How the file is called, in tracefs and by whoever copies it.
const NAME: &str = "available_filter_functions";

/// Whether `path` is the table of a running kernel.
pub(super) fn is_list(path: &Path) -> bool {
    path.file_name().and_then(|name| name.to_str()).is_some_and(|name| name.starts_with(NAME))
}

/// A function that the kernel can trace.
struct Line {
    name: String,
    module: Option<String>,
}

/// The functions in the list at `path`, which has one a line: `[ADDRESS ]NAME[ [MODULE]]`.
fn read(path: &Path) -> Result<Vec<Line>, Failure> {
    let bytes = read_to_end(path)?;
    let text = String::from_utf8_lossy(&bytes);
    let mut lines = Vec::new();
    for (number, line) in (1..).zip(text.lines()) {
        let found = parse(line);
        lines.push(found.ok_or_else(|| {
            io::Error::other(format!("line {number} isn't a function such as \"vfs_read\""))
        })?);
    }
    Ok(lines)
}

fn parse(line: &str) -> Option<Line> {
    let mut words = line.split_whitespace().peekable();
    let mut name = words.next()?;
    let is_address = name.len() >= 8 && name.bytes().all(|digit| digit.is_ascii_hexdigit());
    if is_address && words.peek().is_some_and(|next| !next.starts_with('[')) {
        name = words.next()?;
    }
    let module = match words.next() {
        None => None,
        Some(module) => Some(module.strip_prefix('[')?.strip_suffix(']')?.to_owned()),
    };
    words.next().is_none().then(|| Line { name: name.to_owned(), module })
}

/// The BTF of the running kernel and its modules.
struct Known {
    kernel: Functions,
    modules: BTreeMap<String, Functions>,
}

impl Known {
    /// The BTF that `arguments` name, or else that in the folder `btf` above `list`, for its `lines`.
    fn read(list: &Path, lines: &[Line], arguments: &BtfArgs) -> Result<Self, Failure> {
        let folder = folder(list);
        let of_kernel = match (arguments.from(), &folder) {
            (Some(path), _) => path.to_owned(),
            (None, Some(folder)) => folder.join("vmlinux"),
            (None, None) => return Err(btf::Error::Missing.into()),
        };
        let bytes = read_to_end(&of_kernel)?;
        let kernel = btf::functions(&bytes, None)?;
        let mut modules = BTreeMap::new();
        let Some(folder) = folder else { return Ok(Self { kernel, modules }) };
        let base = Base::read(&bytes)?;
        for module in lines.iter().filter_map(|line| line.module.as_ref()) {
            // A name from a file is no path.
            if modules.contains_key(module) || module.contains('/') {
                continue;
            }
            // Not every module has BTF.
            let Ok(bytes) = read_to_end(&folder.join(module)) else { continue };
            modules.insert(module.clone(), btf::functions(&bytes, Some(&base))?);
        }
        Ok(Self { kernel, modules })
    }

    fn get(&self, line: &Line) -> Option<&[Prototype]> {
        let functions = match &line.module {
            None => &self.kernel,
            Some(module) => self.modules.get(module)?,
        };
        functions.get(&line.name).map(Vec::as_slice)
    }
}

/// `btf`, beside the folder that the list at `path` is in or above it: `/sys/kernel/btf`.
fn folder(path: &Path) -> Option<PathBuf> {
    let path = std::path::absolute(path).ok()?;
    path.ancestors()
        .skip(1)
        .map(|above| above.join("btf"))
        .find(|btf| btf.join("vmlinux").is_file())
}

/// The running kernel's list, if that's what `arguments` name, and nothing else.
pub(super) fn list_of(arguments: &ReadArgs) -> Option<&Path> {
    arguments.only_file().filter(|path| is_list(path))
}

/// `mcount list` of the list at `path`; the exit code.
pub(super) fn print(path: &Path, arguments: &ReadArgs) -> io::Result<u8> {
    let rows = match rows(path, arguments) {
        Ok(rows) => rows,
        Err(failure) => return Ok(complain(&format!("{}: {failure}", path.display()))),
    };
    let format = arguments.format();
    let mut out = buffered(format);
    let file = path.to_string_lossy();
    if arguments.is_count() {
        format.export().counts(&mut out, "file", &[(file.into_owned(), rows.len())])?;
    } else {
        match format {
            SiteFormat::Text => text(&mut out, &file, &rows)?,
            SiteFormat::Jsonl => {
                for (Line { name, module }, btf) in &rows {
                    let row = json!({ "file": file, "symbol": name, "module": module, "btf": btf });
                    writeln!(out, "{row}")?;
                }
            }
            SiteFormat::Csv => {
                let head = ["file", "symbol", "module", "btf"].map(str::to_owned);
                let rows = rows.iter().map(|(Line { name, module }, btf)| {
                    let btf = btf.map(|btf| btf.to_string()).unwrap_or_default();
                    [file.to_string(), name.clone(), module.clone().unwrap_or_default(), btf]
                });
                csv_lines(&mut out, [head].into_iter().chain(rows))?;
            }
            SiteFormat::Parquet => parquet(&mut out, &file, &rows)?,
        }
    }
    out.flush()?;
    Ok(SUCCESS)
}

const FIELDS: &[Field] = &[
    Field::new("file", Kind::Text),
    Field::new("symbol", Kind::Text),
    Field::optional("module", Kind::Text),
    Field::optional("btf", Kind::Boolean),
];

fn parquet(out: &mut dyn Write, file: &str, rows: &[(Line, Option<bool>)]) -> io::Result<()> {
    let mut table = ParquetTable::new(FIELDS);
    for (Line { name, module }, btf) in rows {
        table.text(0, file);
        table.text(1, name);
        table.maybe_text(2, module.as_deref());
        table.maybe_number(3, btf.map(i64::from));
        table.end_row(out)?;
    }
    table.finish(out)
}

/// The functions to print, and whether BTF has each, if that is wanted.
fn rows(path: &Path, arguments: &ReadArgs) -> Result<Vec<(Line, Option<bool>)>, Failure> {
    let lines = read(path)?;
    if !arguments.wants_btf() {
        return Ok(lines.into_iter().map(|line| (line, None)).collect());
    }
    let known = Known::read(path, &lines, arguments.btf_arguments())?;
    let marked = lines.into_iter().map(|line| {
        let is_known = known.get(&line).is_some();
        (line, Some(is_known))
    });
    Ok(marked.filter(|(_, known)| !arguments.is_attachable() || *known == Some(true)).collect())
}

fn text(out: &mut impl Write, file: &str, rows: &[(Line, Option<bool>)]) -> io::Result<()> {
    let count = counted(rows.len(), "function", "functions");
    writeln!(out, "{}: running kernel, {count}", printable(file))?;
    let width = rows.iter().map(|(line, _)| line.name.len()).max().unwrap_or(0);
    for (Line { name, module }, btf) in rows {
        let module = module.as_ref().map(|module| format!(" [{module}]")).unwrap_or_default();
        let btf = btf.map_or("", |btf| if btf { "yes" } else { "no" });
        let line = format!("  {:width$}  {btf:3}{module}", printable(name));
        writeln!(out, "{}", line.trim_end())?;
    }
    Ok(())
}

/// `mcount why` about functions of the running kernel; the exit code.
pub(super) fn why(path: &Path, names: &[String], arguments: &BtfArgs) -> io::Result<u8> {
    let known =
        read(path).and_then(|lines| Known::read(path, &lines, arguments).map(|k| (lines, k)));
    let (lines, known) = match known {
        Ok(known) => known,
        Err(failure) => return Ok(complain(&format!("{}: {failure}", path.display()))),
    };
    let mut out = stdout(true);
    let mut code = SUCCESS;
    for name in names {
        let found: Vec<&Line> = lines.iter().filter(|line| line.name == *name).collect();
        let (words, is_known) = answer(name, &found, &lines, &known);
        writeln!(out, "{}: {}", printable(name), printable(&words))?;
        code = if is_known { code } else { FOUND };
    }
    Ok(code)
}

/// Why the function `name`, which is on the lines `found`, can or can't be traced, and whether anything
/// has that name.
fn answer(name: &str, found: &[&Line], lines: &[Line], known: &Known) -> (String, bool) {
    let of_modules = known.modules.values().any(|functions| functions.contains_key(name));
    let in_btf = known.kernel.contains_key(name) || of_modules;
    let Some(first) = found.first() else {
        let clones = lines.iter().map(|line| line.name.as_str());
        let clones: Vec<_> = clones.filter(|other| source_name(other) == name).collect();
        return match (in_btf, clones.is_empty()) {
            (true, true) => (
                "in BTF, but not in the table: notrace, inlined, or built without hooks".to_owned(),
                true,
            ),
            (_, false) => {
                (format!("not in the table; the compiler made {} of it", clones.join(", ")), true)
            }
            (false, true) => ("neither in the table nor in BTF".to_owned(), false),
        };
    };
    let prototypes = found.iter().find_map(|line| known.get(line));
    let words = crate::fentry::of_recorded(name, prototypes, found.len(), |base| {
        known.kernel.contains_key(base)
    });
    let module =
        first.module.as_ref().map(|module| format!("module {module}: ")).unwrap_or_default();
    (format!("{module}{}", words.words), true)
}
