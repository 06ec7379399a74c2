//! `mcount why`: why functions of an image, or of an object, are traceable or are not.

use super::btf::{BtfArgs, BtfReader};
use super::options::{InputArgs, OptionArgs, globs};
use super::{FOUND, SUCCESS, complain, running, why_marker};
use crate::commit::Failure;
use crate::debug::Sections;
use crate::debug::functions::{self, Facts, Inlined};
use crate::debug::separate::{FEW_NAMES, Subject};
use crate::fentry::{Fentry, Verdict};
use crate::inlined::{InlinedCode, InlinedPlaces};
use crate::names;
use crate::output::{name_of, stdout};
use crate::probes::{ProbeVerdict, Probes, lacks_hook};
use crate::why::{Answer, Knowledge, Others, Reason, base_of};
use crate::words::printable;
use anstyle::{AnsiColor, Style};
use clap::builder::NonEmptyStringValueParser;
use clap::{Args, ValueEnum, ValueHint};
use mcount::{Function, Functions, GlobError, GlobSet, Options};
use object::read::{File, Object, ObjectSymbol};
use serde_json::{Value, json};
use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

#[derive(Args)]
pub(super) struct WhyArgs {
    /// The image, or an object or module; compressed or not
    #[arg(value_name = "IMAGE", value_hint = ValueHint::FilePath)]
    image: PathBuf,
    /// Names of functions, or of markers (PROVIDER:NAME); *, ? and [ make a pattern
    #[arg(value_name = "FUNCTION", required = true, value_parser = NonEmptyStringValueParser::new())]
    functions: Vec<String>,
    /// How to print: text, or one JSON object a line
    #[arg(long, value_enum, default_value = "text")]
    format: WhyFormat,
    /// Print all places where a function was inlined, and not the first ten
    #[arg(long)]
    all: bool,
    #[command(flatten)]
    btf: BtfArgs,
    #[command(flatten)]
    options: OptionArgs,
    #[command(flatten)]
    inputs: InputArgs,
}

#[derive(Clone, Copy, PartialEq, ValueEnum)]
pub(super) enum WhyFormat {
    Text,
    Jsonl,
}

/// In text, without `--all`.
const FEW: usize = 10;

/// Runs the command; its exit code.
pub(super) fn why(arguments: &WhyArgs) -> io::Result<u8> {
    if running::is_list(&arguments.image) {
        return running::why(&arguments.image, &arguments.functions, &arguments.btf);
    }
    let options = match arguments.options.options() {
        // A hook that somebody made a NOP of is the answer, too.
        Ok(options) => options.nops(true),
        Err(error) => return Ok(complain(&error.to_string())),
    };
    let is_text = arguments.format == WhyFormat::Text;
    let mut out = stdout(is_text);
    let image = (arguments.image.as_path(), &arguments.inputs.search());
    let names = why_marker::print(image, &arguments.functions, (&mut out, is_text))?;
    if names.is_empty() {
        return Ok(SUCCESS);
    }
    let wanted = match Wanted::new(&names) {
        Ok(wanted) => wanted,
        Err(error) => return Ok(complain(&error.to_string())),
    };
    let files = match arguments.btf.open(arguments.inputs.search().limits) {
        Ok(files) => files,
        Err(code) => return Ok(code),
    };
    let btf = match arguments.btf.reader(&files) {
        Ok(btf) => btf,
        Err(code) => return Ok(code),
    };
    let answers = match answers((arguments, &names), &options, &wanted, &btf) {
        Ok(answers) => answers,
        Err(failure) => {
            return Ok(complain(&format!("{}: {failure}", arguments.image.display())));
        }
    };
    for told in &answers {
        match arguments.format {
            WhyFormat::Text => text(&mut out, told, arguments.all)?,
            WhyFormat::Jsonl => writeln!(out, "{}", json(&arguments.image, told))?,
        }
    }
    let is_unknown = answers.iter().any(|told| told.answer.reason == Reason::NoSuchName);
    Ok(if is_unknown { FOUND } else { SUCCESS })
}

/// An answer, and what else can watch the function.
struct Told {
    answer: Answer,
    /// Whether BPF programs can be attached to it, if there's BTF.
    bpf: Option<Verdict>,
    /// Whether it can have a probe, if it has no hook.
    probe: Option<ProbeVerdict>,
    /// It has no hook, and tells of its calls itself.
    is_instrumented: bool,
}

/// The functions that the user asks about.
struct Wanted {
    names: BTreeSet<String>,
    /// The same names as the source has them, because debug information has no suffixes.
    bases: HashSet<String>,
    patterns: Vec<(String, GlobSet)>,
}

impl Wanted {
    fn new(arguments: &[String]) -> Result<Self, GlobError> {
        let (patterns, names): (Vec<_>, Vec<_>) =
            arguments.iter().cloned().partition(|name| name.contains(['*', '?', '[']));
        let of = |name: &String| {
            let last = mcount::spellings(name).pop().unwrap_or_default().into_owned();
            [base_of(name).into_owned(), last]
        };
        let bases = names.iter().flat_map(of).collect();
        let patterns = patterns.into_iter().map(with_glob).collect::<Result<_, _>>()?;
        Ok(Self { names: names.into_iter().collect(), bases, patterns })
    }

    /// The symbols that `argument` means: itself, if there's such a one, or those whose names are spelled so.
    fn spelled(&self, argument: &str, found: &Functions) -> BTreeSet<String> {
        let symbols = || found.functions.iter().flat_map(Function::names);
        let glob = self.patterns.iter().find(|(pattern, _)| pattern == argument);
        if glob.is_none() && symbols().any(|symbol| symbol == argument) {
            return BTreeSet::from([argument.to_owned()]);
        }
        let is_meant = |one: &str| match glob {
            Some((pattern, glob)) => glob.is_match(one) || pattern == one,
            None => one == argument,
        };
        let is_spelling = |symbol: &&str| {
            let is_plain = glob.is_some() && is_meant(symbol);
            is_plain
                || matches!(name_of(mcount::source_name(symbol), true), Cow::Owned(name)
                    if mcount::spellings(&name).iter().any(|one| is_meant(one)))
        };
        symbols().filter(is_spelling).map(str::to_owned).collect()
    }

    fn has_base(&self, name: &str) -> bool {
        self.bases.contains(name) || self.patterns.iter().any(|(_, glob)| glob.is_match(name))
    }
}

/// `pattern`, with the names that it means.
fn with_glob(pattern: String) -> Result<(String, GlobSet), GlobError> {
    let glob = globs(std::slice::from_ref(&pattern))?;
    Ok((pattern, glob))
}

/// The answers, in the order of the arguments.
fn answers(
    (arguments, names): (&WhyArgs, &[String]),
    options: &Options,
    wanted: &Wanted,
    btf: &BtfReader<'_>,
) -> Result<Vec<Told>, Failure> {
    let subject = Subject::open(&arguments.image, &arguments.inputs.search(), true)?;
    let found = mcount::functions(subject.bytes(), options)?;
    if let Some(why) = subject.is_nameless() {
        return Err(io::Error::other(why).into());
    }
    if subject.is_stripped() {
        complain(&format!("warning: {}: {FEW_NAMES}", arguments.image.display()));
    }
    let sections = Sections::load(subject.debug());
    let spelled: Vec<_> = names.iter().map(|name| wanted.spelled(name, &found)).collect();
    let clones = origins(&spelled);
    let facts = sections.as_ref().map(|sections| {
        functions::facts(sections, |name| wanted.has_base(name) || clones.contains(name))
    });
    let debug = facts.as_ref().zip(sections.as_ref());
    let btf = BtfFacts::read(arguments, btf, subject.bytes())?;
    let inlined = btf.as_ref().map(|btf| InlinedPlaces::new(&btf.inlined, &found));
    let others = others(subject.bytes(), &wanted.names);
    let known = Knowledge::new(&found, debug, inlined.as_ref(), others);
    let (mut answers, mut seen) = (Vec::new(), HashSet::new());
    for (name, symbols) in names.iter().zip(spelled) {
        let mut of_name: Vec<Answer> =
            match wanted.patterns.iter().find(|(pattern, _)| pattern == name) {
                Some((_, glob)) => {
                    let mut names = matching(glob, facts.as_ref(), inlined.as_ref());
                    names.extend(symbols);
                    names.iter().flat_map(|name| known.why(name)).collect()
                }
                None if symbols.is_empty() => known.why(name),
                None => symbols.iter().flat_map(|symbol| known.why(symbol)).collect(),
            };
        if of_name.is_empty() {
            // One that was inlined everywhere has no symbol.
            of_name.extend(mcount::spellings(name).last().iter().flat_map(|one| known.why(one)));
        }
        if of_name.is_empty() {
            of_name.push(unknown(name, &found, sections.as_ref(), inlined.as_ref()));
        }
        // A clone may be asked about by its own name and by that of its function. Answer once.
        answers.extend(of_name.into_iter().filter(|answer| seen.insert(identity(answer))));
    }
    let fentry = btf.as_ref().map(|btf| Fentry::new(&found, &btf.functions));
    let probes = Probes::new(subject.bytes(), &found, &answers);
    let instrumented = instrumented(subject.bytes(), &answers);
    let told = answers.into_iter().map(|answer| {
        let fentry = fentry.as_ref().filter(|_| answer.reason != Reason::NoSuchName);
        let bpf = fentry.map(|fentry| fentry.verdict(&answer));
        let probe = probes.verdict(&answer);
        let is_instrumented = lacks_hook(&answer)
            && answer.address.is_some_and(|address| instrumented.contains(&address));
        Told { answer, bpf, probe, is_instrumented }
    });
    Ok(told.collect())
}

/// The functions that tell of their calls themselves, if an answer may be about one of them.
fn instrumented(file: &[u8], answers: &[Answer]) -> BTreeSet<u64> {
    #[cfg(can_trace)]
    if answers.iter().any(lacks_hook) {
        return crate::trace::instrumented(file);
    }
    let _ = (file, answers);
    BTreeSet::new()
}

/// The names of the functions that became `symbols`. If a pattern means a clone, we need the facts about these.
fn origins(symbols: &[BTreeSet<String>]) -> HashSet<String> {
    let names = symbols.iter().flatten();
    let origins = names.flat_map(|name| [base_of(name), mcount::source_name(name).into()]);
    origins.map(Cow::into_owned).collect()
}

/// The contents of a file's BTF.
struct BtfFacts {
    functions: crate::btf::Functions,
    inlined: crate::btf::InlinedAt,
}

impl BtfFacts {
    /// The contents of the BTF of `file`, if there is BTF. It's an error if there is none that was
    /// asked for.
    fn read(
        arguments: &WhyArgs,
        btf: &BtfReader<'_>,
        file: &[u8],
    ) -> Result<Option<Self>, Failure> {
        let is_wanted = arguments.btf.are_given();
        if !is_wanted && !btf.is_there(file) {
            return Ok(None);
        }
        let warn = |error| complain(&format!("warning: {}: {error}", arguments.image.display()));
        let functions = match btf.functions(file) {
            Ok(functions) => functions,
            Err(error) if is_wanted => return Err(error.into()),
            Err(error) => {
                warn(error);
                return Ok(None);
            }
        };
        let inlined = btf.inlined(file).unwrap_or_else(|error| {
            warn(error);
            BTreeMap::new()
        });
        Ok(Some(Self { functions, inlined }))
    }
}

/// What two equal answers have in common.
fn identity(answer: &Answer) -> (String, &'static str, Option<String>, [Option<u64>; 2]) {
    let places = [answer.offset, answer.address];
    (answer.name.clone(), answer.reason.name(), answer.section.clone(), places)
}

/// The names that `glob` means, of functions in debug information, and of those that were inlined by BTF.
fn matching(
    glob: &GlobSet,
    facts: Option<&BTreeMap<String, Facts>>,
    by_btf: Option<&InlinedPlaces<'_>>,
) -> BTreeSet<String> {
    let inlined = facts.into_iter().flatten();
    let inlined =
        inlined.filter(|(_, facts)| !facts.definitions.is_empty() || !facts.inlined.is_empty());
    let names = inlined.map(|(name, _)| name.as_str());
    let names = names.chain(by_btf.into_iter().flat_map(InlinedPlaces::names));
    names.filter(|name| glob.is_match(name)).map(str::to_owned).collect()
}

/// The answer if nothing is called `name`, with names that look like it.
fn unknown(
    name: &str,
    found: &Functions,
    sections: Option<&Sections<'_>>,
    by_btf: Option<&InlinedPlaces<'_>>,
) -> Answer {
    let inlined = sections.map(functions::names).unwrap_or_default();
    let symbols = found.functions.iter().flat_map(Function::names);
    let inlined = inlined.iter().map(String::as_str);
    let inlined = inlined.chain(by_btf.into_iter().flat_map(InlinedPlaces::names));
    let alike = names::alike(name, symbols.chain(inlined));
    Answer::no_such_name(name, alike, sections.is_some())
}

/// What symbols of `file` say that are of no function; of those, the ones in `names`.
fn others(file: &[u8], names: &BTreeSet<String>) -> Others {
    let mut others = Others::default();
    let Ok(file) = File::parse(file) else { return others };
    let (mut start, mut end) = (None, None);
    for symbol in file.symbols() {
        if symbol.is_undefined() {
            continue;
        }
        match symbol.name() {
            Ok("__noinstr_text_start") => start = Some(symbol.address()),
            Ok("__noinstr_text_end") => end = Some(symbol.address()),
            Ok(name) if names.contains(name) => others.data.push(name.to_owned()),
            _ => {}
        }
    }
    others.noinstr = start.zip(end);
    others
}

fn text(out: &mut impl Write, told: &Told, all: bool) -> io::Result<()> {
    let answer = &told.answer;
    let bold = Style::new().bold();
    let style = match answer.reason {
        Reason::Recorded | Reason::NoTable => AnsiColor::Green.on_default(),
        Reason::Missing | Reason::NoSuchName => AnsiColor::Red.on_default(),
        _ => AnsiColor::Yellow.on_default(),
    };
    let name = name_of(&answer.name, true);
    let name = printable(&name);
    let at = answer.address.or(answer.offset).map(|at| format!("{at:#x}"));
    let section = answer.section.as_deref().map(|name| printable(name).into_owned());
    let source = answer.place.as_ref().map(|(file, line)| format!("{}:{line}", printable(file)));
    let places: Vec<String> = [section, at].into_iter().flatten().collect();
    let places = [source, Some(places.join(" ")).filter(|text| !text.is_empty())];
    let places = places.into_iter().flatten().collect::<Vec<_>>().join(", ");
    let places = if places.is_empty() { places } else { format!(" ({places})") };
    writeln!(out, "{bold}{name}{bold:#}{places}: {style}{}{style:#}", printable(&answer.words))?;
    if let Some(verdict) = &told.bpf {
        let can = if verdict.attachable { "can attach" } else { "can't attach" };
        writeln!(out, "  BPF {can}: {}", printable(&verdict.words))?;
    }
    if told.is_instrumented {
        let words = "it tells of its calls itself (-finstrument-functions), also where it's inlined: mcount trace";
        writeln!(out, "  {words} records them")?;
    }
    if let Some(probe) = &told.probe {
        let can = if probe.is_possible { "can" } else { "can't" };
        writeln!(out, "  {can} have a probe: {}", probe.words)?;
    }
    if !answer.others.is_empty() {
        let what = if answer.reason == Reason::NoSuchName { "did you mean " } else { "" };
        writeln!(out, "  {what}{}", printable(&answer.others.join(", ")))?;
    }
    let inlined: Vec<String> = match answer.inlined.as_slice() {
        [] => answer.inlined_code.iter().map(inlined_code).collect(),
        inlined => inlined.iter().map(inlined_at).collect(),
    };
    inlined_places(out, &inlined, all)
}

/// Where a function was inlined, one place a line.
fn inlined_places(out: &mut impl Write, inlined: &[String], all: bool) -> io::Result<()> {
    let count = inlined.len();
    if count == 0 {
        return Ok(());
    }
    let noun = if count == 1 { "place" } else { "places" };
    writeln!(out, "  inlined at {count} {noun}, where no tracer sees it:")?;
    let shown = if all { count } else { FEW };
    for place in inlined.iter().take(shown) {
        writeln!(out, "    {}", printable(place))?;
    }
    if count > shown {
        writeln!(out, "    and {} more: --all", count - shown)?;
    }
    Ok(())
}

/// A place that only BTF tells.
fn inlined_code(InlinedCode { section, offset, address, into }: &InlinedCode) -> String {
    let place = format!("{section} {:#x}", address.unwrap_or(*offset));
    match into {
        Some((function, distance)) => format!("{place} in {function}+{distance:#x}"),
        None => place,
    }
}

fn inlined_at(Inlined { place: (file, line), into, by }: &Inlined) -> String {
    match by {
        Some(by) => format!("{file}:{line} in {by}, in {into}"),
        None => format!("{file}:{line} in {into}"),
    }
}

/// Source file and line; null if they aren't known.
fn source(place: Option<&(String, u32)>) -> (Value, Value) {
    match place {
        Some((file, line)) => (json!(file), json!(line)),
        None => (Value::Null, Value::Null),
    }
}

fn json(file: &Path, Told { answer, bpf, probe, is_instrumented }: &Told) -> Value {
    let (bpf, probe) = (bpf.as_ref(), probe.as_ref());
    let (source_file, source_line) = source(answer.place.as_ref());
    let inlined = answer.inlined.iter().map(|inlined| {
        let (source_file, source_line) = source(Some(&inlined.place));
        json!({
            "source_file": source_file,
            "source_line": source_line,
            "into": inlined.into,
            "by": inlined.by,
        })
    });
    let code = answer.inlined_code.iter().map(|code| {
        json!({
            "source_file": null,
            "source_line": null,
            "into": code.into.as_ref().map(|(function, _)| function),
            "by": null,
            "section": code.section,
            "offset": code.offset,
            "address": code.address,
        })
    });
    json!({
        "file": file.to_string_lossy(),
        "function": answer.name,
        "reason": answer.reason.name(),
        "text": answer.words,
        "symbol": answer.symbol,
        "section": answer.section,
        "offset": answer.offset,
        "address": answer.address,
        "source_file": source_file,
        "source_line": source_line,
        "inlined": inlined.chain(code).collect::<Vec<_>>(),
        "others": answer.others,
        "btf": bpf.map(|verdict| verdict.in_btf),
        "attachable": bpf.map(|verdict| verdict.attachable),
        "attachable_text": bpf.map(|verdict| &verdict.words),
        "instrumented": is_instrumented,
        "probe": probe.map(|verdict| verdict.is_possible),
        "probe_text": probe.map(|verdict| &verdict.words),
    })
}
