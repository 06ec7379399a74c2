//! The rows of `docs/benchmarks.md`: which programs run on what, and what is to be reached.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use super::inputs::{Inputs, describe, kbuild};
use super::row::{Floor, Goal, Input, Program, Reads, Row, What};
use crate::Result;

/// The rows, in the order of the report.
pub(crate) const NAMES: &[&str] = &["one", "many", "large", "debug", "peers", "table", "list"];

/// Row `name`.
pub(crate) fn row(name: &str, inputs: &Inputs) -> Result<Row> {
    match name {
        "one" => one(inputs),
        "many" => many(inputs),
        "large" => large(inputs),
        "debug" => debug(inputs),
        "peers" => peers(inputs),
        "table" => table(inputs),
        "list" => list(inputs),
        _ => Err(format!("no row is called {name}; there are: {}", NAMES.join(", ")).into()),
    }
}

/// A program of ours with these arguments.
fn ours(
    inputs: &Inputs,
    program: &str,
    arguments: &[&str],
    input: &Input,
    what: What,
) -> Result<Program> {
    let words = [&[program], arguments].concat().join(" ");
    let mut command: Vec<OsString> = vec![inputs.program(program)?.into()];
    command.extend(arguments.iter().map(OsString::from));
    let shown = format!("{words} {}", file_of(input));
    Ok(Program { label: words, shown, command, input: input.clone(), what })
}

/// The kernel's recorder.
fn original(input: &Input) -> Program {
    let command = vec![kbuild("scripts/recordmcount").into()];
    let shown = format!("scripts/recordmcount {}", file_of(input));
    let label = "the kernel's recordmcount".to_owned();
    Program { label, shown, command, input: input.clone(), what: What::Records }
}

/// A shell command that calls its file `$1`.
fn shell(label: &str, script: &str, input: &Input, what: What) -> Program {
    let command = ["sh", "-c", script, "sh"].map(OsString::from).to_vec();
    let shown = script.replace("\"$1\"", &file_of(input)).replace('|', "\\|");
    Program { label: label.to_owned(), shown, command, input: input.clone(), what }
}

fn file_of(input: &Input) -> String {
    let name = |path: &Path| path.file_name().unwrap_or_default().to_string_lossy().into_owned();
    match input {
        Input::InPlace(path) => name(path),
        Input::Copies(paths) if paths.len() == 1 => {
            paths.first().map(|p| name(p)).unwrap_or_default()
        }
        Input::Copies(_) => "*.ko".to_owned(),
    }
}

fn appending(paths: &[PathBuf]) -> Floor {
    let text = "one process opens each file, touches every symbol, name and relocation of\n\
                code in it, appends as many bytes as the recorder, and writes 64 bytes at the start";
    Floor { text: text.to_owned(), reads: Reads::Relocations(paths.to_vec()) }
}

fn one(inputs: &Inputs) -> Result<Row> {
    let object = inputs.median_object()?;
    let floor = appending(std::slice::from_ref(&object));
    let input = Input::Copies(vec![object]);
    let nothing = |label: &str, shown: &str, program: PathBuf| Program {
        label: label.to_owned(),
        shown: shown.to_owned(),
        command: vec![program.into()],
        input: input.clone(),
        what: What::Nothing,
    };
    let programs = vec![
        ours(inputs, "recordmcount", &[], &input, What::Records)?,
        original(&input),
        nothing("`true` in Rust, linked the same way", "fn main() {}", inputs.true_in_rust()?),
        nothing("`true` in C, static PIE", "int main(void) { return 0; }", inputs.true_in_c()?),
        nothing("/bin/true, dynamic", "/bin/true", "/bin/true".into()),
        ours(inputs, "mcount", &["record"], &input, What::Records)?,
    ];
    let goals = vec![
        Goal::Faster { ours: 0, peer: 1, times: 1.0 },
        Goal::Within { ours: 0, peer: 2, times: 1.25 },
        Goal::Within { ours: 0, peer: 3, times: 1.25 },
    ];
    let title = "One object, whole process".to_owned();
    Ok(Row { title, input: describe(&input)?, programs, goals, floor: Some(floor), repeat: 20 })
}

fn many(inputs: &Inputs) -> Result<Row> {
    let paths = inputs.objects()?;
    let input = Input::Copies(paths.clone());
    let programs = vec![
        ours(inputs, "recordmcount", &[], &input, What::Records)?,
        original(&input),
        ours(inputs, "mcount", &["record", "-j1"], &input, What::Records)?,
        ours(inputs, "mcount", &["record", "-j2"], &input, What::Records)?,
    ];
    let goals = vec![
        Goal::Faster { ours: 0, peer: 1, times: 2.5 },
        Goal::Faster { ours: 2, peer: 1, times: 2.5 },
        Goal::Faster { ours: 3, peer: 1, times: 4.0 },
    ];
    let title = "3,000 objects, one invocation".to_owned();
    let floor = Some(appending(&paths));
    Ok(Row { title, input: describe(&input)?, programs, goals, floor, repeat: 1 })
}

fn large(inputs: &Inputs) -> Result<Row> {
    let path = inputs.large()?;
    let floor = Some(appending(std::slice::from_ref(&path)));
    let input = Input::Copies(vec![path]);
    let programs = vec![
        ours(inputs, "recordmcount", &[], &input, What::Records)?,
        original(&input),
        ours(inputs, "mcount", &["record"], &input, What::Records)?,
    ];
    let goals = vec![
        Goal::Faster { ours: 0, peer: 1, times: 10.0 },
        Goal::Faster { ours: 2, peer: 1, times: 10.0 },
    ];
    let title = "An object of 40 MB, like vmlinux.o, in place".to_owned();
    Ok(Row { title, input: describe(&input)?, programs, goals, floor, repeat: 1 })
}

fn debug(inputs: &Inputs) -> Result<Row> {
    let (path, stripped) = (inputs.debug()?, inputs.debug_stripped()?);
    let floor = Some(appending(std::slice::from_ref(&path)));
    let input = Input::Copies(vec![path]);
    let stripped = Input::Copies(vec![stripped]);
    let mut without = ours(inputs, "recordmcount", &[], &stripped, What::Records)?;
    without.label.push_str(", without debug information");
    let programs = vec![
        ours(inputs, "recordmcount", &[], &input, What::Records)?,
        original(&input),
        without,
        ours(inputs, "mcount", &["record"], &input, What::Records)?,
    ];
    let goals = vec![
        Goal::Faster { ours: 0, peer: 1, times: 50.0 },
        Goal::Faster { ours: 3, peer: 1, times: 50.0 },
        Goal::Memory { ours: 0, like: 2 },
    ];
    let title = "The same with debug information, 300 MB".to_owned();
    Ok(Row { title, input: describe(&input)?, programs, goals, floor, repeat: 1 })
}

fn peers(inputs: &Inputs) -> Result<Row> {
    let input = Input::Copies(vec![inputs.large_for_objtool()?]);
    let perl = format!(
        "perl {} x86_64 little 64 objdump objcopy cc ld nm rm mv 0 \"$1\" 2>../perl.log",
        kbuild("scripts/recordmcount.pl").display()
    );
    let objtool = format!("{} --mcount --link \"$1\"", kbuild("tools/objtool/objtool").display());
    let programs = vec![
        ours(inputs, "recordmcount", &[], &input, What::Records)?,
        shell("objtool", &objtool, &input, What::Records),
        shell("readelf", "readelf -rW \"$1\" | grep -c __fentry__", &input, What::Prints),
        shell(
            "objdump",
            "objdump -dr \"$1\" | grep -c 'R_X86_64_.*__fentry__'",
            &input,
            What::Prints,
        ),
        shell("recordmcount.pl", &perl, &input, What::Records),
    ];
    let goals = [300.0, 150.0, 1000.0, 1000.0].into_iter().zip(1..);
    let goals = goals.map(|(times, peer)| Goal::Faster { ours: 0, peer, times }).collect();
    let title = "The object of 40 MB, against other ways to find its sites".to_owned();
    Ok(Row { title, input: describe(&input)?, programs, goals, floor: None, repeat: 1 })
}

fn table(inputs: &Inputs) -> Result<Row> {
    let (image, bare) = (inputs.vmlinux()?, inputs.vmlinux_without_relocations()?);
    let (kept, without) = (Input::InPlace(image.clone()), Input::InPlace(bare));
    let count = "objdump -d \"$1\" | grep -c 'call.*<__fentry__>'";
    let make = ["table", "-o", "../table.o"];
    let mut programs = vec![
        ours(inputs, "mcount", &make, &kept, What::Nothing)?,
        ours(inputs, "mcount", &make, &without, What::Nothing)?,
        ours(inputs, "mcount", &["table"], &kept, What::Prints)?,
        shell("objdump", count, &kept, What::Prints),
    ];
    if let [first, second, third, _] = programs.as_mut_slice() {
        "mcount table, an object, by kept relocations".clone_into(&mut first.label);
        "mcount table, an object, by decoding".clone_into(&mut second.label);
        "mcount table, as text".clone_into(&mut third.label);
    }
    let goals = vec![
        Goal::Faster { ours: 0, peer: 3, times: 100.0 },
        Goal::Faster { ours: 1, peer: 3, times: 100.0 },
    ];
    let title = "The table of a vmlinux of 590 MB".to_owned();
    let text = "one process touches every symbol, name and relocation of code";
    let floor = Some(Floor { text: text.to_owned(), reads: Reads::ImageRelocations(image) });
    Ok(Row { title, input: describe(&kept)?, programs, goals, floor, repeat: 1 })
}

fn list(inputs: &Inputs) -> Result<Row> {
    let image = inputs.vmlinux()?;
    let input = Input::InPlace(image.clone());
    let pyelftools = Program {
        label: "a script with pyelftools".to_owned(),
        shown: "python3 list.py vmlinux".to_owned(),
        command: inputs.python_script()?,
        input: input.clone(),
        what: What::Prints,
    };
    let dump =
        "{ readelf -sW \"$1\" | grep '_mcount_loc$'; readelf -x .init.data \"$1\"; } | wc -l";
    let programs = vec![
        ours(inputs, "mcount", &["list"], &input, What::Prints)?,
        shell("readelf", dump, &input, What::Prints),
        pyelftools,
    ];
    let goals = vec![
        Goal::Faster { ours: 0, peer: 1, times: 20.0 },
        Goal::Faster { ours: 0, peer: 2, times: 20.0 },
    ];
    let title = "The table that is there, in the vmlinux of 590 MB".to_owned();
    let text = "one process touches every symbol and name, and the table, and writes as many bytes as are printed";
    let floor = Some(Floor { text: text.to_owned(), reads: Reads::Table(image) });
    Ok(Row { title, input: describe(&input)?, programs, goals, floor, repeat: 1 })
}
