//! `mcount report`: a page that shows which functions of an image can be traced, or what a trace has.

use super::options::{InputArgs, OptionArgs};
use super::replay::{missing, warn};
use super::{SUCCESS, complain};
use crate::commit::{Failure, output_name, write_new};
use crate::debug::Sections;
use crate::debug::separate::Subject;
use crate::files::Input;
use crate::report::{Report, html, trace_html, with_sources};
use clap::{Args, ValueHint};
use mcount::{CheckOptions, File, Level, Options};
use mcount_trace::{is_trace, read};
use std::io;
use std::path::{Path, PathBuf};

#[derive(Args)]
pub(super) struct ReportArgs {
    /// The trace, the linked image or the object, compressed or not; - for standard input
    #[arg(value_name = "FILE", value_hint = ValueHint::FilePath)]
    file: PathBuf,
    /// Write the page here; - for standard output
    #[arg(short, long, value_name = "FILE", value_hint = ValueHint::FilePath)]
    output: PathBuf,
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
    let output = &arguments.output;
    match page(arguments, &options) {
        Err(failure) => complain(&format!("{}: {failure}", arguments.file.display())),
        Ok(page) => match write_new(output, page.as_bytes()) {
            Err(error) => complain(&format!("{}: {}", output_name(output), Failure::from(error))),
            Ok(()) => SUCCESS,
        },
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
    let subject = Subject::open(&arguments.file, &arguments.inputs.search(), true)?;
    let file = File::parse(subject.bytes())?.with_options(options);
    let mut functions = file.functions()?;
    let mut findings = file.check(&CheckOptions::default())?;
    findings.retain(|finding| finding.rule.default_level() != Level::Allow);
    if let Some(debug) = Sections::load(subject.debug()) {
        with_sources(&mut functions, &debug);
    }
    let report = Report { title: &title, functions: &functions, findings: &findings };
    Ok(html(&report))
}
