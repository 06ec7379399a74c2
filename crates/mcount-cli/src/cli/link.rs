//! `mcount link`: runs a linker until the table and the image agree.
//!
//! The table lists the calls of the image, and it is itself part of the image. So it has to be linked in
//! before we know what goes into it. An example: `a.o` calls the hook at three places, one of them in a
//! function that `--gc-sections` removes.
//!
//! ```text
//! $ mcount link -v -- ld --gc-sections -o program a.o hook.o
//! program: link 1: 2 sites, the table has 3 entries
//! program: link 2: 2 sites, the table is right
//! ```
//!
//! 1. Count the sites of the input objects: 3. Make an object with a table of three entries, which only
//!    take up room ([`Driver::placeholder`]). Link with it, in a folder beside the output:
//!
//!    ```text
//!    ld --gc-sections a.o hook.o -o .program.mcount-link/program .program.mcount-link/mcount.o
//!    ```
//!
//! 2. Find the sites of the image ([`Driver::examine`]): 2.
//! 3. A table of three entries can't be made shorter in a linked image. So make an object with the two
//!    addresses that were found, and link again. Without `--gc-sections`, step 2 would have found three
//!    sites. Then the table would have the right size, the addresses would be written into it, and one
//!    link would do.
//! 4. Compare again: two sites and two entries with their addresses. The image is renamed to `program`. A
//!    table of another size can move the code after it. Then the addresses are wrong and there is
//!    another link, up to `--max-passes`.
//!
//! If the command is a compiler's, [`crate::stand_in`] first makes this program the compiler's linker.

use super::options::{OptionArgs, number};
use super::scratch::Scratch;
use super::table::parse_bounds;
use super::{ERROR, SUCCESS, complain, ended_by};
use crate::archive;
use crate::beside::{LinkNames, Written};
use crate::children::{self, Ending, Stamp};
use crate::commit::{Failure, overwrite, write_new};
use crate::compiler;
use crate::files::{ELF_MAGIC, Input, head};
use crate::jobs::Threads;
use crate::linker::{self, Command};
use crate::messages::Messages;
use crate::response;
use crate::stand_in::{self, Said, StandIn};
use crate::words::{counted, printable};
use clap::Args;
use mcount::{
    Base, CallSite, Fill, Kind, LateOptions, LateTable, ObjectOptions, Options, table_object,
};
use std::collections::BTreeMap;
use std::env;
use std::ffi::OsString;
use std::fmt::Display;
use std::fs;
use std::io::{self, IsTerminal};
use std::path::{Path, PathBuf};
use std::process::{self, Stdio};
use std::sync::Arc;

#[derive(Args)]
pub(super) struct LinkArgs {
    /// Give up if the table and the image still disagree after this many links
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = passes)]
    max_passes: u32,
    /// Make the table read-only, as in a kernel, which relocates itself
    #[arg(long)]
    read_only: bool,
    /// Define symbols at the start and the end of the table; without names, __start_mcount_loc and
    /// __stop_mcount_loc
    #[arg(long, value_name = "START,STOP", num_args = 0..=1, require_equals = true,
          default_missing_value = "__start_mcount_loc,__stop_mcount_loc", value_parser = parse_bounds)]
    bounds: Option<(String, String)>,
    /// Say what each pass found
    #[arg(short, long)]
    verbose: bool,
    /// LD is a linker, whatever it is called
    #[arg(long)]
    linker: bool,
    #[command(flatten)]
    options: OptionArgs,
    /// The linker, or a compiler as linker, and its arguments
    #[arg(value_name = "LD", required = true, trailing_var_arg = true)]
    command: Vec<OsString>,
}

/// A number of links, at least 1.
fn passes(text: &str) -> Result<u32, String> {
    number(text)
        .and_then(|passes| if passes == 0 { Err("at least 1".to_owned()) } else { Ok(passes) })
}

/// Runs the command. Returns its exit code, or the linker's if the linker failed.
pub(super) fn link(arguments: &LinkArgs) -> io::Result<u8> {
    let options = match arguments.options.options_or(Base::All) {
        Ok(options) => options,
        Err(error) => return Ok(complain(&error.to_string())),
    };
    if linker::replaces_linkers(&arguments.command) {
        return Ok(complain(
            "mold -run replaces every linker, mcount's too: \
             leave it out and give the compiler -fuse-ld=mold",
        ));
    }
    children::watch();
    let compiler = compiler::position(&arguments.command).filter(|_| !arguments.linker);
    if let Some(at) = compiler {
        return compile_and_link(arguments, at);
    }
    let (code, said) = match run_linker(arguments, options) {
        Ok(code) => (code, Said::Linked),
        Err(message) => (complain(&message), Said::Refused),
    };
    stand_in::say(said);
    Ok(code)
}

/// Runs a compiler, the word `at` of the command, with this program as its linker.
fn compile_and_link(arguments: &LinkArgs, at: usize) -> io::Result<u8> {
    let command = Command::new(&arguments.command);
    let output = command.final_output().filter(|output| may_be_replaced(output));
    let before = output.as_deref().and_then(Stamp::of);
    let stand_in = StandIn::new(&command, at, &own_words(arguments))?;
    let outcome = children::run(&mut stand_in.command(&command, at))?;
    match (outcome, stand_in.said()) {
        (Ending::Killed(signal), _) => Ok(killed(&arguments.command, signal)),
        (_, Said::Refused) => Ok(ERROR),
        (Ending::Failure(code), _) => Ok(code),
        (Ending::Success, Said::Linked) => Ok(SUCCESS),
        (Ending::Success, Said::Nothing) => {
            let new = output.filter(|output| Stamp::of(output) != before && is_image(output));
            let Some(output) = new else { return Ok(SUCCESS) };
            // Otherwise make would think that it is done.
            let _ = fs::remove_file(&output);
            let compiler = arguments.command.get(at).map(OsString::as_os_str).unwrap_or_default();
            Ok(complain(&format!(
                "{}: {} ran a linker that mcount cannot replace; give mcount link the linker's \
                 command, as {} -### prints it",
                output.display(),
                compiler.display(),
                compiler.display()
            )))
        }
    }
}

/// The words of this process's own command line, without its name and without the command that it runs.
fn own_words(arguments: &LinkArgs) -> Vec<OsString> {
    let all: Vec<OsString> = env::args_os().skip(1).collect();
    let count = all.len().saturating_sub(arguments.command.len());
    let mut own = all.get(..count).unwrap_or_default().to_vec();
    if own.last().is_some_and(|last| last == "--") {
        own.pop();
    }
    own
}

/// Runs a linker as often as necessary. Returns its exit code, or what we have to say.
fn run_linker(arguments: &LinkArgs, options: Options) -> Result<u8, String> {
    let command = if arguments.linker {
        Command::of_linker(&arguments.command)
    } else {
        Command::new(&arguments.command)
    };
    let Some(output) = command.final_output().filter(|output| may_be_replaced(output)) else {
        return run(command.as_given());
    };
    let scratch = Scratch::beside(&output).map_err(|error| error.to_string())?;
    let object = ObjectOptions::default()
        .table_section(options.table_section.clone())
        .bounds(arguments.bounds.clone())
        .writable(!arguments.read_only);
    let written = Written::by(command.arguments(), &output);
    let messages = Messages::new().map_err(|error| Failure::from(error).to_string())?;
    let mut driver = Driver {
        arguments,
        options,
        object,
        command,
        output,
        scratch,
        written,
        messages,
        expected: 0,
    };
    let result = driver.drive();
    driver.messages.print(&driver.names());
    result
}

/// Whether `output` is a regular file, or doesn't exist. We must not rename an image over `/dev/null`.
fn may_be_replaced(output: &Path) -> bool {
    fs::metadata(output).map_or(true, |metadata| metadata.is_file())
}

/// Whether the file at `path` is an executable or a shared object.
fn is_image(path: &Path) -> bool {
    const TYPE: usize = 16;
    // Whatever the byte order is, the other byte of the type is 0.
    head::<18>(path).is_ok_and(|head| {
        let kind = [head.get(TYPE), head.get(TYPE + 1)].map(|byte| byte.copied().unwrap_or(0));
        head.starts_with(ELF_MAGIC) && matches!(kind, [2 | 3, 0] | [0, 2 | 3])
    })
}

/// Runs a command that prints to this process's streams. Returns its exit code.
fn run(words: &[OsString]) -> Result<u8, String> {
    let outcome = command(words).and_then(|mut command| children::run(&mut command));
    Ok(match outcome.map_err(|error| error.to_string())? {
        Ending::Success => SUCCESS,
        Ending::Failure(code) => code,
        Ending::Killed(signal) => killed(words, signal),
    })
}

/// The command of these words.
fn command(words: &[OsString]) -> io::Result<process::Command> {
    let (program, arguments) = words.split_first().ok_or_else(|| io::Error::other("no command"))?;
    let mut command = process::Command::new(program);
    command.args(arguments);
    Ok(command)
}

/// Says that `signal` ended the program of `words`. Returns the exit code for that.
fn killed(words: &[OsString], signal: i32) -> u8 {
    ended_by(signal, words.first().map(OsString::as_os_str).unwrap_or_default())
}

/// The links that it takes to make one image.
struct Driver<'a> {
    arguments: &'a LinkArgs,
    options: Options,
    object: ObjectOptions,
    command: Command,
    output: PathBuf,
    scratch: Scratch,
    /// Files that the linker may write next to the output.
    written: Written,
    /// The output of the last link.
    messages: Messages,
    /// How many sites the input objects have.
    expected: usize,
}

impl Driver<'_> {
    /// Links until the table and the image agree.
    fn drive(&mut self) -> Result<u8, String> {
        let mut table = self.placeholder();
        let (mut room, mut moved) = (None, None);
        let mut last: Option<LateTable> = None;
        for pass in 1..=self.arguments.max_passes {
            if let Some(code) = self.link(table.as_ref())? {
                return Ok(code);
            }
            let (found, filled) = self.examine()?;
            let count = found.addresses().count();
            self.report(pass, count, &filled);
            moved = last.take().map(|last| changes(&last, &found));
            match filled {
                Fill::Right => return self.finish(count),
                Fill::Writes(writes) => {
                    overwrite(&self.scratch.image, &writes)
                        .map_err(|error| self.say(&Failure::from(error)))?;
                    if matches!(self.examine()?.1, Fill::Right) {
                        return self.finish(count);
                    }
                }
                Fill::Impossible { room: now } => {
                    let asked = table.as_ref().map_or(0, |table| table.addresses().count());
                    if now != asked {
                        return Err(self.foreign(now, asked));
                    }
                    room = Some((now, count));
                }
            }
            last = Some(found.clone());
            table = Some(found);
        }
        Err(self.diverged(room, moved.as_deref()))
    }

    /// Links with `table`. Returns an exit code if we are done: the linker failed, or it doesn't make an
    /// image.
    fn link(&self, table: Option<&LateTable>) -> Result<Option<u8>, String> {
        if let Some(table) = table {
            let object = table_object(table, &self.object).map_err(|error| self.say(&error))?;
            write_new(&self.scratch.table, &object)
                .map_err(|error| self.say(&Failure::from(error)))?;
        }
        let words = self.words(table.map(|_| self.scratch.table.as_path()))?;
        // So if the linker fails and there is an image, the linker left it.
        let _ = fs::remove_file(&self.scratch.image);
        match self.execute(&words).map_err(|error| self.say(&Failure::from(error)))? {
            Ending::Success if is_image(&self.scratch.image) => Ok(None),
            Ending::Success if self.scratch.image.exists() => {
                // An option that we don't know has the linker make something else, which has no table.
                self.messages.forget();
                run(self.command.as_given()).map(Some)
            }
            Ending::Success => Ok(Some(SUCCESS)),
            Ending::Failure(code) => Ok(Some(self.leave(code))),
            Ending::Killed(signal) => Ok(Some(killed(&words, signal))),
        }
    }

    /// Runs a command to its end, and keeps what it prints.
    fn execute(&self, words: &[OsString]) -> io::Result<Ending> {
        let mut command = command(words)?;
        self.messages.take_from(&mut command)?;
        children::run(&mut command)
    }

    /// Runs the command as it was given, without a word.
    fn execute_again(&self) -> io::Result<Ending> {
        let mut command = command(self.command.as_given())?;
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        children::run(&mut command)
    }

    /// The command that links the image with `object`. It is in a response file if it was given in one.
    fn words(&self, object: Option<&Path>) -> Result<Vec<OsString>, String> {
        let mut words = self.command.linking(&self.scratch.image, object);
        if let (Some(option), true) = (self.command.colour_option(), io::stderr().is_terminal()) {
            // It prints to memory, and wouldn't see that there is a terminal. Options that come later count.
            words.insert(1, option.into());
        }
        if self.command.needs_response_file() {
            let text = response::text(words.get(1..).unwrap_or_default());
            write_new(&self.scratch.words, &text)
                .map_err(|error| self.say(&Failure::from(error)))?;
            words.truncate(1);
            let mut word = OsString::from("@");
            word.push(&self.scratch.words);
            words.push(word);
        }
        Ok(words)
    }

    /// A table for as many sites as the input objects have. The image will have as many, unless the linker
    /// discards some. `None` if there is a linker script: it decides whether there is a table, and where.
    fn placeholder(&mut self) -> Option<LateTable> {
        if self.command.has_script() {
            return None;
        }
        let mut placeholder = None;
        for path in self.command.inputs() {
            for (table, sites) in self.sites_in(path) {
                let (_, count) = placeholder.get_or_insert((table, 0));
                *count += sites;
            }
        }
        let (mut table, count) = placeholder?;
        self.expected = count;
        table.reserve(count);
        Some(table)
    }

    /// For each object in the file at `path`, which may be an archive: an empty table, and the number of
    /// sites.
    fn sites_in(&self, path: &Path) -> Vec<(LateTable, usize)> {
        let Ok(input) = Input::open(path) else { return Vec::new() };
        if !input.bytes().starts_with(archive::MAGIC) {
            return self.sites_of(input.bytes()).into_iter().collect();
        }
        let members = archive::read(path, |object| self.sites_of(object));
        members.unwrap_or_default().into_iter().filter_map(|(_, sites)| sites.ok()).collect()
    }

    /// The same for one object. A shared library is an error, because the image doesn't get its sites.
    fn sites_of(&self, object: &[u8]) -> mcount::Result<(LateTable, usize)> {
        let object = mcount::File::parse(object)?.with_options(&self.options);
        let (table, sites) = (object.placeholder()?, object.sites()?.sites);
        // Sleds stay in the compiler's own list.
        let wanted = |site: &&CallSite| !site.excluded && site.kind != Some(Kind::Sled);
        Ok((table, sites.iter().filter(wanted).count()))
    }

    /// The table that the image should have, and how to give it to the image.
    fn examine(&self) -> Result<(LateTable, Fill), String> {
        let input =
            Input::open(&self.scratch.image).map_err(|error| self.say(&Failure::from(error)))?;
        let threads = Threads::for_one(input.bytes().len(), None);
        let options = self.options.clone().helpers(threads.helpers());
        let image = mcount::File::parse(input.bytes()).map_err(|error| self.say(&error))?;
        let image = image.with_options(options);
        let table = image.late_table(&LateOptions::default());
        let mut table = table.map_err(|error| self.say(&error))?;
        // Only an entry tells that a NOP is a site, and entries of the link before may lead to padding now.
        table.sites.retain(|site| site.kind != Some(Kind::Nop));
        let filled = image.fill(&table).map_err(|error| self.say(&error))?;
        Ok((table, filled))
    }

    /// Moves the image, and the files beside it, to where the linker would have put them.
    fn finish(&self, count: usize) -> Result<u8, String> {
        if count == 0 && self.expected != 0 {
            let sites = counted(self.expected, "site", "sites");
            let what = format!("warning: the objects have {sites} and the image has none");
            complain(&self.say(&what));
        }
        let names = self.names();
        self.written.clean(&names).map_err(|error| error.to_string())?;
        self.scratch.move_others(&names).map_err(|error| error.to_string())?;
        fs::rename(names.image, &self.output).map_err(|error| self.say(&Failure::from(error)))?;
        Ok(SUCCESS)
    }

    /// The names that the linker saw.
    fn names(&self) -> LinkNames<'_> {
        let Scratch { image, table, words, .. } = &self.scratch;
        LinkNames { image, output: &self.output, inputs: [table, words] }
    }

    /// After a failed link, leaves the output as the linker does. Some linkers remove what was there,
    /// some don't. We find out by running the command again, which fails the same way.
    fn leave(&self, code: u8) -> u8 {
        let is_moved = fs::rename(&self.scratch.image, &self.output).is_ok();
        let is_old = !is_moved && self.output.exists();
        if is_old && matches!(self.execute_again(), Ok(Ending::Success)) {
            let _ = fs::remove_file(&self.output);
        }
        code
    }

    /// Says what a pass found, with `--verbose`.
    fn report(&self, pass: u32, count: usize, filled: &Fill) {
        if self.arguments.verbose {
            let what = match filled {
                Fill::Right => "the table is right".to_owned(),
                Fill::Writes(_) => "the table has room: filled in place".to_owned(),
                Fill::Impossible { room } => {
                    format!("the table has {}", counted(*room, "entry", "entries"))
                }
            };
            let sites = counted(count, "site", "sites");
            let line = self.say(&format!("link {pass}: {sites}, {what}"));
            let line = printable(&line);
            let _ = io::Write::write_fmt(&mut anstream::stderr(), format_args!("{line}\n"));
        }
    }

    /// A message about the output.
    fn say(&self, error: &dyn Display) -> String {
        format!("{}: {error}", self.output.display())
    }

    /// What to say if the table isn't as long as the one that was linked in.
    fn foreign(&self, now: usize, asked: usize) -> String {
        if now < asked {
            let asked = counted(asked, "entry was", "entries were");
            return self.say(&format!(
                "{asked} linked in and the table has {now}: the linker discarded the table, or its \
                 script does not place it"
            ));
        }
        let now = counted(now, "entry", "entries");
        self.say(&format!(
            "the table has {now} and {asked} linked in: the inputs have tables of their own; \
             compile them without recording",
            asked = counted(asked, "was", "were")
        ))
    }

    /// What to say after too many links.
    fn diverged(&self, room: Option<(usize, usize)>, moved: Option<&str>) -> String {
        let passes = self.arguments.max_passes;
        let (had, found) = room.unwrap_or_default();
        let passes = counted(passes, "link", "links");
        let found = counted(found, "site", "sites");
        self.say(&format!(
            "no stable table after {passes}: the last image has {found} and a table of {had}{}",
            moved.unwrap_or_default()
        ))
    }
}

/// A site, by the name of its function and its offset in that.
type NamedSite = (Option<Arc<str>>, Option<i64>);

/// How many sites a message names.
const NAMED: usize = 3;

/// The changes in `new` since the link before, by function.
fn changes(old: &LateTable, new: &LateTable) -> String {
    let (old, new) = (places(old), places(new));
    let moved = new.iter().filter(|(place, at)| old.get(*place).is_some_and(|was| was != *at));
    let moved: Vec<&NamedSite> = moved.map(|(place, _)| place).collect();
    let parts = [("gone", only_in(&old, &new)), ("new", only_in(&new, &old)), ("moved", moved)];
    parts.iter().map(|(what, places)| change(what, places)).collect()
}

/// The address of each site.
fn places(table: &LateTable) -> BTreeMap<NamedSite, Option<u64>> {
    let all = table.sites.iter().filter(|site| !site.excluded);
    all.map(|site| ((site.symbol.clone(), site.symbol_offset), site.address)).collect()
}

/// The elements of `all` that `others` lacks.
fn only_in<'a>(
    all: &'a BTreeMap<NamedSite, Option<u64>>,
    others: &BTreeMap<NamedSite, Option<u64>>,
) -> Vec<&'a NamedSite> {
    all.keys().filter(|place| !others.contains_key(*place)).collect()
}

/// The part of a message that says what became of `places`; empty if there are none.
fn change(what: &str, places: &[&NamedSite]) -> String {
    if places.is_empty() {
        return String::new();
    }
    let names = places.iter().take(NAMED).map(|(name, _)| name.as_deref().unwrap_or("?"));
    let more = if places.len() > NAMED { ", …" } else { "" };
    let names = names.collect::<Vec<_>>().join(", ");
    format!("; {} {what} since the link before: {names}{more}", places.len())
}
