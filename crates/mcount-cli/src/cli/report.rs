//! `mcount report`: a page that shows which functions of an image can be traced, or what a trace has.

use super::options::{InputArgs, OptionArgs};
use super::replay::warn;
use super::{SUCCESS, complain};
use crate::commit::{Failure, output_name, write_new};
use crate::debug::Sections;
use crate::debug::separate::Subject;
use crate::files::{Input, is_standard};
use crate::packing::is_other;
use crate::replay::missing;
use crate::report::{Report, html, trace_html, with_sources};
use clap::{Args, ValueHint};
use mcount::{CheckOptions, ErrorKind, File, Level, Options};
use mcount_trace::{is_trace, read};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

#[derive(Args)]
pub(super) struct ReportArgs {
    /// The trace, the linked image or the object, compressed or not; - for standard input
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    file: PathBuf,
    /// Write the page here; - for standard output [default: FILE.html in the current folder, or a name with a number]
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    output: Option<PathBuf>,
    #[command(flatten)]
    options: OptionArgs,
    #[command(flatten)]
    inputs: InputArgs,
}

/// Makes the page; the exit code.
pub(super) fn report(arguments: &ReportArgs) -> u8 {
    let options = match arguments.options.options() {
        Ok(options) => options,
        Err(error) => return complain(&error.to_string()),
    };
    let page = match page(arguments, &options) {
        Err(failure) => return complain(&format!("{}: {failure}", arguments.file.display())),
        Ok(page) => page,
    };
    let Some(output) = &arguments.output else {
        let name = if is_standard(&arguments.file) { Path::new("report") } else { &arguments.file };
        return match write_beside_others(name, page.as_bytes()) {
            Err(error) => complain(&Failure::from(error).to_string()),
            Ok(path) => {
                complain(&format!("the page is {}", path.display()));
                SUCCESS
            }
        };
    };
    let written = is_other(&arguments.file, output);
    match written.and_then(|()| write_new(output, page.as_bytes())) {
        Err(error) => complain(&format!("{}: {}", output_name(output), Failure::from(error))),
        Ok(()) => SUCCESS,
    }
}

/// Writes a page about `file` to a new file in the current folder, whose name it returns: `NAME.html`, or that with a number.
fn write_beside_others(file: &Path, page: &[u8]) -> io::Result<PathBuf> {
    const MOST: u32 = 1000;
    let mut temporary = tempfile::Builder::new().prefix(".mcount").tempfile_in(".")?;
    temporary.write_all(page)?;
    let stem = file.file_stem().unwrap_or_default();
    for number in 1..MOST {
        let mut name = stem.to_owned();
        if number > 1 {
            name.push(format!("-{number}"));
        }
        name.push(".html");
        match temporary.persist_noclobber(&name) {
            Ok(_) => return Ok(PathBuf::from(name)),
            Err(error) if error.error.kind() == io::ErrorKind::AlreadyExists => {
                temporary = error.file;
            }
            Err(error) => return Err(error.error),
        }
    }
    Err(io::ErrorKind::AlreadyExists.into())
}

/// A file that's no ELF file is no trace, either.
fn neither(failure: Failure) -> Failure {
    match failure {
        Failure::Object(mcount::Error { kind: ErrorKind::NotElf, .. }) => {
            io::Error::other("neither a trace nor an ELF file").into()
        }
        other => other,
    }
}

fn page(arguments: &ReportArgs, options: &Options) -> Result<String, Failure> {
    let name = arguments.file.file_name().map_or(arguments.file.as_path(), Path::new);
    let title = name.display().to_string();
    let input = Input::given(&arguments.file)?;
    if is_trace(input.bytes()) {
        let page = read(input.bytes(), |trace| {
            let page = trace_html(&title, trace, missing);
            warn(&arguments.file, trace);
            page
        });
        return Ok(page.map_err(io::Error::other)?);
    }
    let subject = Subject::open(&arguments.file, &arguments.inputs.search(), true);
    let subject = subject.map_err(neither)?;
    let file = File::parse(subject.bytes()).map_err(|error| neither(error.into()))?;
    let file = file.with_options(options);
    let mut functions = file.functions()?;
    let mut findings = file.check(&CheckOptions::default())?;
    findings.retain(|finding| finding.rule.default_level() != Level::Allow);
    if let Some(debug) = Sections::load(subject.debug()) {
        with_sources(&mut functions, &debug);
    }
    let report = Report { title: &title, functions: &functions, findings: &findings };
    Ok(html(&report))
}
