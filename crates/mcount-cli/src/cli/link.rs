//! `mcount link`: late recording driven to a fixed point around any linker command.
//!
//! Link with a table of about the right size, collect the sites of the result, and fill the table in
//! place if it has room for exactly these; otherwise link again with a table of that size. The
//! output is made beside its place and moved there when table and image agree.

use super::options::OptionArgs;
use super::table::parse_bounds;
use super::{SUCCESS, complain, ended_by};
use crate::archive;
use crate::children;
use crate::commit::{Failure, overwrite};
use crate::files::{Input, is_at, lock};
use crate::jobs::Threads;
use crate::linker::{Command, Outcome, response};
use clap::Args;
use mcount::{Base, Fill, Kind, LateTable, ObjectOptions, Options, fill, late_table, table_object};
use rustix::fs::OFlags;
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::fs::{self, File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

#[derive(Args)]
pub(super) struct LinkArgs {
    /// Give up when table and image still disagree after this many links
    #[arg(long, value_name = "N", default_value_t = 4, value_parser = clap::value_parser!(u32).range(1..))]
    max_passes: u32,
    /// Keep the table read only: for a kernel, which relocates itself
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
    #[command(flatten)]
    options: OptionArgs,
    /// The linker, or a compiler as linker, and its arguments
    #[arg(value_name = "LD", required = true, trailing_var_arg = true)]
    command: Vec<OsString>,
}

/// Runs the command; its exit code, or that of the linker if it failed.
pub(super) fn link(arguments: &LinkArgs) -> io::Result<u8> {
    let options = match arguments.options.options_or(Base::All) {
        Ok(options) => options,
        Err(error) => return Ok(complain(&error.to_string())),
    };
    let command = Command::parse(&arguments.command)?;
    children::watch();
    let Some(output) = command.final_output().filter(|output| may_be_replaced(output)) else {
        return run(&command.as_given());
    };
    let scratch = Scratch::beside(&output)?;
    let object = ObjectOptions {
        table_section: options.table_section.clone(),
        anchor: None,
        bounds: arguments.bounds.clone(),
        writable: !arguments.read_only,
    };
    let mut driver = Driver { arguments, options, object, command, output, scratch, expected: 0 };
    match driver.drive() {
        Ok(code) => Ok(code),
        Err(message) => Ok(complain(&message)),
    }
}

/// Whether `output` is not there, or is a file: nothing is to be renamed over `/dev/null`.
fn may_be_replaced(output: &Path) -> bool {
    fs::metadata(output).map_or(true, |metadata| metadata.is_file())
}

/// Runs a command with this process's streams; its exit code.
fn run(words: &[OsString]) -> io::Result<u8> {
    Ok(match Outcome::of(words)? {
        Outcome::Success => SUCCESS,
        Outcome::Failure(code) => code,
        Outcome::Killed(signal) => killed(words, signal),
    })
}

/// Says that `signal` ended the program of `words`; the exit code.
fn killed(words: &[OsString], signal: i32) -> u8 {
    ended_by(signal, words.first().map(OsString::as_os_str).unwrap_or_default())
}

struct Driver<'a> {
    arguments: &'a LinkArgs,
    options: Options,
    object: ObjectOptions,
    command: Command,
    output: PathBuf,
    scratch: Scratch,
    /// The sites of the input objects.
    expected: usize,
}

impl Driver<'_> {
    /// Links until table and image agree.
    fn drive(&mut self) -> Result<u8, String> {
        let mut table = self.placeholder();
        let (mut room, mut moved) = (None, None);
        let mut last: Option<LateTable> = None;
        for pass in 1..=self.arguments.max_passes {
            let object = table.as_ref().map(|table| self.write_object(table)).transpose()?;
            let words = self.words(object.as_deref())?;
            // What is there after a failure is the linker's.
            let _ = fs::remove_file(&self.scratch.image);
            match Outcome::of(&words).map_err(|error| self.say(&error))? {
                Outcome::Success => {}
                Outcome::Failure(code) => return Ok(self.leave(code)),
                Outcome::Killed(signal) => return Ok(killed(&words, signal)),
            }
            if !self.scratch.image.is_file() {
                // Whatever it did, it was no link.
                return Ok(SUCCESS);
            }
            let (found, filled) = self.collect()?;
            let count = found.addresses().count();
            self.report(pass, count, &filled);
            moved = last.take().map(|last| changes(&last, &found));
            match filled {
                Fill::Right => return self.finish(count),
                Fill::Writes(writes) => {
                    overwrite(&self.scratch.image, &writes).map_err(|error| self.say(&error))?;
                    if matches!(self.collect()?.1, Fill::Right) {
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

    /// The command that links the image with `object`; in a response file, if it was in one.
    fn words(&self, object: Option<&Path>) -> Result<Vec<OsString>, String> {
        let mut words = self.command.linking(&self.scratch.image, object);
        if self.command.has_response_files() {
            let path = self.scratch.folder.join("words");
            let text = response(words.get(1..).unwrap_or_default());
            crate::commit::write_new(&path, &text).map_err(|error| self.say(&error))?;
            words.truncate(1);
            let mut word = OsString::from("@");
            word.push(path);
            words.push(word);
        }
        Ok(words)
    }

    /// A table as large as the sites of the input objects, which is what the image will have where
    /// the linker discards nothing. A linker script places the table itself, or has none.
    fn placeholder(&mut self) -> Option<LateTable> {
        if self.command.has_script() {
            return None;
        }
        let mut placeholder = None;
        for path in self.command.inputs() {
            let Ok(input) = Input::open(path) else { continue };
            let found = |object: &[u8]| {
                // An image can be scanned, but is not linked in.
                let table = mcount::placeholder(object)?;
                let sites = mcount::scan(object, &self.options)?.sites;
                Ok((table, sites.iter().filter(|site| !site.excluded).count()))
            };
            let all = if input.bytes().starts_with(archive::MAGIC) {
                archive::read(path, found).unwrap_or_default()
            } else {
                vec![(String::new(), found(input.bytes()).map_err(Failure::from))]
            };
            for (table, sites) in all.into_iter().filter_map(|(_, result)| result.ok()) {
                let (_, count) = placeholder.get_or_insert((table, 0));
                *count += sites;
            }
        }
        // Sources only: the compiler has an object of its own.
        let own = || Input::open(&self.command.file_of_driver("crt1.o")?).ok();
        let by_driver = || Some((mcount::placeholder(own()?.bytes()).ok()?, 0));
        let (mut table, count) = placeholder.or_else(by_driver)?;
        self.expected = count;
        // One at least, so that the symbols that bound the table are defined.
        table.reserve(count.max(1));
        Some(table)
    }

    fn collect(&self) -> Result<(LateTable, Fill), String> {
        self.read(&self.scratch.image)
    }

    fn read(&self, path: &Path) -> Result<(LateTable, Fill), String> {
        let input = Input::open(path).map_err(|error| self.say(&error))?;
        let threads = Threads::for_one(input.bytes().len(), None);
        let options = Options { helpers: threads.helpers(), ..self.options.clone() };
        let table = late_table(input.bytes(), &options);
        let mut table = table.map_err(|error| self.say(&error))?;
        // A NOP is known by an entry, and what those of the last link lead to now may be padding.
        table.sites.retain(|site| site.kind != Some(Kind::Nop));
        let filled =
            fill(input.bytes(), &table, &self.options).map_err(|error| self.say(&error))?;
        Ok((table, filled))
    }

    fn write_object(&self, table: &LateTable) -> Result<PathBuf, String> {
        let object = table_object(table, &self.object).map_err(|error| self.say(&error))?;
        let path = self.scratch.folder.join("table.o");
        crate::commit::write_new(&path, &object).map_err(|error| self.say(&error))?;
        Ok(path)
    }

    /// The image goes where the linker would have put it.
    fn finish(&self, count: usize) -> Result<u8, String> {
        if count == 0 && self.expected != 0 {
            let sites = self.expected;
            complain(
                &self.say(&format!(
                    "warning: the objects have {sites} sites and the image has none"
                )),
            );
        }
        fs::rename(&self.scratch.image, &self.output).map_err(|error| self.say(&error))?;
        Ok(SUCCESS)
    }

    /// After a failed link: the output is as the linker leaves it. Some remove what was there,
    /// some do not; that is found out by doing it again, which fails the same way.
    fn leave(&self, code: u8) -> u8 {
        let is_moved = fs::rename(&self.scratch.image, &self.output).is_ok();
        if !is_moved && self.output.exists() {
            let again = Outcome::of_silent(&self.command.as_given());
            if matches!(again, Ok(Outcome::Success)) {
                let _ = fs::remove_file(&self.output);
            }
        }
        code
    }

    fn report(&self, pass: u32, count: usize, filled: &Fill) {
        if self.arguments.verbose {
            let what = match filled {
                Fill::Right => "the table is right".to_owned(),
                Fill::Writes(_) => "the table has room: filled in place".to_owned(),
                Fill::Impossible { room } => format!("the table has {room} entries"),
            };
            let output = self.output.display();
            let line = format!("{output}: link {pass}: {count} sites, {what}");
            let _ = io::Write::write_fmt(&mut anstream::stderr(), format_args!("{line}\n"));
        }
    }

    fn say(&self, error: &dyn std::fmt::Display) -> String {
        format!("{}: {error}", self.output.display())
    }

    fn foreign(&self, now: usize, asked: usize) -> String {
        if now < asked {
            return self.say(&format!(
                "{asked} entries were linked in and the table has {now}: the linker discarded the \
                 table, or its script does not place it"
            ));
        }
        self.say(&format!(
            "the table has {now} entries and {asked} were linked in: the inputs have tables of \
             their own; compile them without recording"
        ))
    }

    fn diverged(&self, room: Option<(usize, usize)>, moved: Option<&str>) -> String {
        let passes = self.arguments.max_passes;
        let (had, found) = room.unwrap_or_default();
        self.say(&format!(
            "no stable table after {passes} links: the last image has {found} sites and a table of {had}{}",
            moved.unwrap_or_default()
        ))
    }
}

/// How many sites a message names.
const NAMED: usize = 3;

/// What is different in `new` from the link before, by function.
fn changes(old: &LateTable, new: &LateTable) -> String {
    let places = |table: &LateTable| -> BTreeMap<_, _> {
        let all = table.sites.iter().filter(|site| !site.excluded);
        all.map(|site| ((site.symbol.clone(), site.symbol_offset), site.address)).collect()
    };
    let (old, new) = (places(old), places(new));
    let only = |these: &BTreeMap<_, _>, those: &BTreeMap<_, _>| -> Vec<_> {
        these.keys().filter(|key| !those.contains_key(*key)).cloned().collect()
    };
    let moved = new.iter().filter(|(key, at)| old.get(*key).is_some_and(|before| before != *at));
    let moved: Vec<_> = moved.map(|(key, _)| key.clone()).collect();
    let parts = [("gone", only(&old, &new)), ("new", only(&new, &old)), ("moved", moved)];
    let parts = parts.iter().filter(|(_, sites)| !sites.is_empty()).map(|(what, sites)| {
        let names = sites.iter().take(NAMED).map(|(name, _)| name.as_deref().unwrap_or("?"));
        let more = if sites.len() > NAMED { ", …" } else { "" };
        let names = names.collect::<Vec<_>>().join(", ");
        format!("; {} {what} since the link before: {names}{more}", sites.len())
    });
    parts.collect()
}

/// A folder beside the output, so that the image can be moved there; gone when dropped.
struct Scratch {
    folder: PathBuf,
    image: PathBuf,
    /// The folder, locked: another run with the same output waits, and does not take it for one
    /// that a killed run left.
    _lock: File,
}

impl Scratch {
    fn beside(output: &Path) -> io::Result<Self> {
        let name = output.file_name().ok_or_else(|| io::Error::other("not a file name"))?;
        let mut hidden = OsString::from(".");
        hidden.push(name);
        hidden.push(".mcount-link");
        let folder = output.with_file_name(hidden);
        let about = |error: io::Error| {
            io::Error::new(error.kind(), format!("{}: {}", folder.display(), Failure::from(error)))
        };
        loop {
            match children::begin(&folder, || fs::create_dir(&folder)) {
                Ok(()) => {
                    if let Ok(Some(lock)) = locked_folder(&folder) {
                        return Ok(Self { image: folder.join(name), folder, _lock: lock });
                    }
                    children::finish(&folder);
                }
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
                    // Once it can be locked, the run that made it is done, or was killed. What
                    // cannot be opened is no folder of ours: removing it says what is wrong.
                    let stale = locked_folder(&folder);
                    if !matches!(stale, Ok(None)) {
                        remove_folder(&folder).map_err(about)?;
                    }
                }
                Err(error) => return Err(about(error)),
            }
        }
    }
}

/// The folder at `path`, locked; `None` if by then it is not there any more.
fn locked_folder(path: &Path) -> io::Result<Option<File>> {
    let flags = OFlags::DIRECTORY | OFlags::NOFOLLOW;
    let mut options = OpenOptions::new();
    options.read(true).custom_flags(flags.bits().cast_signed());
    let folder = match options.open(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        other => other?,
    };
    lock(&folder);
    Ok(is_at(&folder.metadata()?, path).then_some(folder))
}

/// Removes a folder; that it is gone already is no error.
fn remove_folder(path: &Path) -> io::Result<()> {
    match fs::remove_dir_all(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        other => other,
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        if let Err(error) = remove_folder(&self.folder) {
            let error = Failure::from(error);
            complain(&format!("warning: {}: cannot be removed: {error}", self.folder.display()));
        }
        children::finish(&self.folder);
    }
}
