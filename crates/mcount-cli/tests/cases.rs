//! Cases with directives (`tests/cases`): each file says how it is compiled and which sites it has.

use libtest_mimic::{Arguments, Trial};
use serde_json::Value;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode, Output};
use testkit::files::read;
use testkit::tools::need;
use testkit::trial::trial;

/// What a file's directives say.
#[derive(Default)]
struct Case {
    source: PathBuf,
    compilers: Vec<String>,
    flags: Vec<String>,
    options: Vec<String>,
    sites: Vec<String>,
    error: Option<String>,
}

fn main() -> ExitCode {
    let arguments = Arguments::from_args();
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/cases");
    let trials = match trials(&folder) {
        Ok(trials) => trials,
        Err(error) => vec![trial("cases", [], move || Err(error))],
    };
    libtest_mimic::run(&arguments, trials).exit_code()
}

fn trials(folder: &Path) -> Result<Vec<Trial>, String> {
    let entries = std::fs::read_dir(folder).map_err(|error| error.to_string())?;
    let mut sources: Vec<_> = entries.filter_map(|entry| Some(entry.ok()?.path())).collect();
    sources.retain(|path| path.extension().is_some_and(|end| end != "md"));
    sources.sort();
    let mut trials = Vec::new();
    for source in &sources {
        let name = source.file_name().unwrap_or_default().to_string_lossy().into_owned();
        for compiler in parse(source)?.compilers {
            let source = source.clone();
            trials.push(trial(format!("{name}::{compiler}"), [], move || {
                need([compiler.as_str()]);
                perform(&parse(&source)?, &compiler)
            }));
        }
    }
    if trials.is_empty() { Err("there are no cases".to_owned()) } else { Ok(trials) }
}

fn parse(source: &Path) -> Result<Case, String> {
    let text = read(source)?;
    let mut case = Case { source: source.to_owned(), ..Case::default() };
    let words = |value: &str| value.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
    for line in String::from_utf8_lossy(&text).lines() {
        let Some(directive) = line.strip_prefix("//# ") else { continue };
        let (name, value) =
            directive.split_once(": ").ok_or_else(|| format!("{line}: no value"))?;
        match name {
            "compiler" => case.compilers.extend(words(value)),
            "flags" => case.flags.extend(words(value)),
            "options" => case.options.extend(words(value)),
            "site" => case.sites.push(value.to_owned()),
            "error" => case.error = Some(value.to_owned()),
            _ => return Err(format!("{}: no directive is called {name}", source.display())),
        }
    }
    Ok(case)
}

fn perform(case: &Case, compiler: &str) -> Result<(), String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let object = folder.path().join("case.o");
    let mut compile = Command::new(compiler);
    compile.args(&case.flags).arg("-c").arg(&case.source).arg("-o").arg(&object);
    succeed(&mut compile)?;
    let mcount = |command: &str| {
        let mut mcount = Command::new(env!("CARGO_BIN_EXE_mcount"));
        mcount.arg(command).args(&case.options).arg(&object);
        mcount
    };
    if let Some(error) = &case.error {
        let Output { status, stderr, .. } = run(&mut mcount("record"))?;
        let message = String::from_utf8_lossy(&stderr);
        let is_right = status.code() == Some(2) && message.contains(error);
        return if is_right { Ok(()) } else { Err(format!("{status}: {message}")) };
    }
    succeed(&mut mcount("record"))?;
    let found = sites(&succeed(mcount("scan").args(["--format", "jsonl"]))?)?;
    if found == case.sites {
        return Ok(());
    }
    Err(format!("expected {:#?}, found {found:#?}", case.sites))
}

/// The sites in machine output, as a directive has them.
fn sites(jsonl: &str) -> Result<Vec<String>, String> {
    let mut sites = Vec::new();
    for line in jsonl.lines() {
        let site: Value = serde_json::from_str(line).map_err(|error| error.to_string())?;
        let field = |name: &str| site.get(name).and_then(Value::as_str).unwrap_or("-").to_owned();
        let is = |name: &str| site.get(name).and_then(Value::as_bool).unwrap_or(false);
        let status = match (is("recorded"), is("excluded")) {
            (true, _) => "recorded",
            (false, true) => "excluded",
            (false, false) => "missing",
        };
        let (section, symbol, kind) = (field("section"), field("symbol"), field("kind"));
        sites.push(format!("{section} {symbol} {kind} {status}"));
    }
    Ok(sites)
}

fn run(command: &mut Command) -> Result<Output, String> {
    command.output().map_err(|error| format!("{command:?}: {error}"))
}

/// What a command prints, if it succeeds.
fn succeed(command: &mut Command) -> Result<String, String> {
    let output = run(command)?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!("{command:?}: {}", String::from_utf8_lossy(&output.stderr)))
}
