//! The agent as an ELF file: where its routines are, and the file that the dynamic linker loads.

use super::processor;
pub(super) use super::processor::Routines;
use crate::commit::{about, write_new};
use mcount_agent::IMAGE;
use mcount_hooks::PAGE;
use nix::libc;
use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSegment, ObjectSymbol};
use rustix::fs::{FlockOperation, flock};
use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::Duration;
use tempfile::TempDir;

/// Addresses in the agent, from its load bias on.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Symbols {
    /// Bytes of address space that the agent takes.
    pub(super) size: u64,
    pub(super) config: u64,
    pub(super) routines: [Routines; KINDS],
    /// What stubs of functions call whose arguments or results are recorded.
    pub(super) values_entry: u64,
    pub(super) values_pg_entry: u64,
    /// The exit that stubs of functions call which may wait.
    pub(super) waits_exit: u64,
    /// How many calls of these were too short, by function.
    pub(super) short_waits: u64,
    /// Words by which calls of library functions go on, where a recorder has attached.
    pub(super) words: u64,
    /// What `%gs` leads to in a thread without a block, where it does; 0 elsewhere.
    pub(super) nobody: u64,
    /// What `%gs` leads to in a thread that begins with system calls forbidden.
    pub(super) confined: u64,
    /// A program calls these functions to forbid itself system calls, and the recorder is asked then.
    pub(super) watch: u64,
    /// What the units of markers call, where there is such a thing.
    pub(super) marker: u64,
    /// What functions call that tell of their calls, and the word that leads to the last table of them.
    pub(super) instrumented_enter: u64,
    pub(super) instrumented_exit: u64,
    pub(super) instrumented: u64,
    /// What the stubs of probes call, where that's something else than those of hooks do.
    pub(super) probe_entry: u64,
    /// Where functions return to whose hook is after the prologue.
    pub(super) pg_return: u64,
    /// Where functions return to whose slot another frame has, too, where there is such a thing.
    pub(super) pads: u64,
    pub(super) pads_end: u64,
    pub(super) question: u64,
    pub(super) start: u64,
    pub(super) stubs: u64,
    pub(super) stubs_end: u64,
    /// Room for the first instructions of functions with probes, where there is such a thing; else 0.
    pub(super) moved: u64,
    pub(super) moved_end: u64,
    /// Where the dynamic linker's rendezvous is to jump to.
    pub(super) rendezvous: u64,
    /// Where it asks the recorder.
    pub(super) ask: u64,
    /// Where a thread stands that asks the recorder.
    pub(super) asked: u64,
    /// The recorder's use of it.
    pub(super) request: u64,
    /// The names of the trace.
    pub(super) names: u64,
    /// A recorder calls this when it attaches, and when it leaves.
    pub(super) begin: u64,
    pub(super) leave: u64,
    /// Where these return to, and where their thread stands then.
    pub(super) done: u64,
    pub(super) is_done: u64,
}

/// The parts of recording that take routines of their own.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    /// All calls, with times.
    Calls,
    /// All calls, without times.
    Untimed,
    /// Calls that took some time.
    Long,
    /// All calls, with times, and where they return to.
    Callers,
    /// What's recorded depends on what a call is nested in.
    Limited,
    /// Entries.
    Entries,
    /// Entries, without times.
    UntimedEntries,
}

const KINDS: usize = 7;

/// The names of the routines of each kind, in the order of [`Kind`].
const NAMES: [[&str; 3]; KINDS] = [
    ["mcount_entry", "mcount_pg_entry", "mcount_exit"],
    ["mcount_entry_untimed", "mcount_pg_entry_untimed", "mcount_exit_untimed"],
    ["mcount_entry", "mcount_pg_entry", "mcount_exit_shortest"],
    ["mcount_entry", "mcount_pg_entry", "mcount_exit_callers"],
    ["mcount_entry_limited", "mcount_pg_entry_limited", "mcount_exit_limited"],
    ["mcount_entry_only", "mcount_pg_entry_only", "mcount_exit"],
    ["mcount_entry_only_untimed", "mcount_pg_entry_only_untimed", "mcount_exit"],
];

impl Symbols {
    /// What functions call that tell of their calls, at the entry and at the exit, where the agent has this load bias.
    pub(super) fn instrumented_routines(&self, bias: u64) -> [u64; 2] {
        [self.instrumented_enter, self.instrumented_exit].map(|routine| bias + routine)
    }

    /// The routines for functions whose arguments or results are recorded.
    pub(super) fn routines_with_values(&self, kind: Kind) -> Routines {
        let routines = self.routines(kind);
        // What is limited looks at everything that's recorded anyway.
        if kind == Kind::Limited {
            return routines;
        }
        Routines { entry: self.values_entry, late_entry: self.values_pg_entry, ..routines }
    }

    /// The routines for library functions, if they may wait.
    pub(super) fn routines_of_waits(&self, kind: Kind) -> Routines {
        let routines = self.routines(kind);
        match kind {
            Kind::Calls | Kind::Long => Routines { exit: self.waits_exit, ..routines },
            _ => routines,
        }
    }

    /// The routines for what is recorded.
    pub(super) fn routines(&self, kind: Kind) -> Routines {
        self.routines.get(kind as usize).copied().unwrap_or_default()
    }
}

/// The agent on disk, for as long as programs are traced.
pub(super) struct Agent {
    pub(super) symbols: Symbols,
    pub(super) path: PathBuf,
    /// Locked for as long as this recorder is there.
    _file: Option<File>,
    _folder: TempDir,
}

impl Agent {
    /// Writes the agent into a folder of its own that only this user can reach. It's one for temporary files, or,
    /// where nothing can be written there, beside `output`.
    ///
    /// # Errors
    ///
    /// There is none for this processor, or no place to write it.
    pub(super) fn new(output: &Path) -> io::Result<Self> {
        let image = Self::image()?;
        let place = std::env::temp_dir();
        remove_stale(&place);
        let folder = match folder_in(&place) {
            Ok(folder) => folder,
            Err(error) => std::path::absolute(output)
                .and_then(|output| folder_in(output.parent().unwrap_or(&output)))
                .map_err(|_| error)?,
        };
        let path = folder.path().join(FILE);
        write_new(&path, image).map_err(|error| about(&path, error))?;
        let file = locked(&path);
        Ok(Self { symbols: symbols(image)?, path, _file: file, _folder: folder })
    }

    /// Its bytes.
    pub(super) fn image() -> io::Result<&'static [u8]> {
        // SAFETY: takes a number.
        let page = unsafe { libc::sysconf(libc::_SC_PAGESIZE) };
        if u64::try_from(page) != Ok(PAGE) {
            return Err(io::Error::other(format!(
                "pages have {page} bytes here: not supported yet"
            )));
        }
        IMAGE.ok_or_else(|| io::Error::other("tracing isn't supported on this processor yet"))
    }

    /// Is this module, which the dynamic linker has loaded from `path`, the agent?
    pub(super) fn is_at(&self, path: &Path) -> bool {
        path == self.path
    }
}

/// Folders with agents have names that begin with this, and an agent has this name there.
const PREFIX: &str = ".mcount-agent-";
const FILE: &str = "agent.so";

/// Makes a new folder.
fn folder_in(place: &Path) -> io::Result<TempDir> {
    tempfile::Builder::new().prefix(PREFIX).tempdir_in(place)
}

/// The file, if nobody else has locked it.
fn locked(path: &Path) -> Option<File> {
    let file = OpenOptions::new().read(true).open(path).ok()?;
    flock(&file, FlockOperation::NonBlockingLockExclusive).ok()?;
    Some(file)
}

/// Removes agents of this user's recorders that were killed: programs that have them go on without the file.
fn remove_stale(place: &Path) {
    /// A younger one may not have been locked yet.
    const YOUNG: Duration = Duration::from_secs(60);
    let user = rustix::process::geteuid().as_raw();
    let Ok(entries) = std::fs::read_dir(place) else { return };
    for entry in entries.flatten() {
        let is_ours = entry.file_name().to_str().is_some_and(|name| name.starts_with(PREFIX))
            && entry.metadata().is_ok_and(|found| {
                let age = found.modified().ok().and_then(|then| then.elapsed().ok());
                found.is_dir() && found.uid() == user && age.is_some_and(|age| age > YOUNG)
            });
        let agent = entry.path().join(FILE);
        if is_ours && locked(&agent).is_some() {
            // Whatever else is in the folder stays.
            let _ = std::fs::remove_file(agent);
            let _ = std::fs::remove_dir(entry.path());
        }
    }
}

/// The symbols of the agent, whose bytes these are.
pub(super) fn symbols(image: &[u8]) -> io::Result<Symbols> {
    let file = ElfFile64::<Endianness>::parse(image).map_err(io::Error::other)?;
    let ends = file.segments().map(|one| one.address().saturating_add(one.size()));
    let mut found = Symbols { size: ends.max().unwrap_or(0), ..Symbols::default() };
    for symbol in file.symbols() {
        let Ok(name) = symbol.name() else { continue };
        for (routines, names) in found.routines.iter_mut().zip(NAMES) {
            let Routines { entry, late_entry, exit } = routines;
            for (field, _) in
                [entry, late_entry, exit].into_iter().zip(names).filter(|(_, of)| *of == name)
            {
                *field = symbol.address();
            }
        }
        let field = match name {
            "mcount_entry_values" => &mut found.values_entry,
            "mcount_pg_entry_values" => &mut found.values_pg_entry,
            "mcount_exit_waits" => &mut found.waits_exit,
            "mcount_short_waits" => &mut found.short_waits,
            "mcount_words" => &mut found.words,
            "mcount_config" => &mut found.config,
            "mcount_nobody" => &mut found.nobody,
            "mcount_confined" => &mut found.confined,
            "mcount_pg_return" => &mut found.pg_return,
            "mcount_pads" => &mut found.pads,
            "mcount_pads_end" => &mut found.pads_end,
            "mcount_watch" => &mut found.watch,
            "mcount_marker" => &mut found.marker,
            "mcount_instrumented_enter" => &mut found.instrumented_enter,
            "mcount_instrumented_exit" => &mut found.instrumented_exit,
            "mcount_instrumented" => &mut found.instrumented,
            "mcount_probe_entry" => &mut found.probe_entry,
            "mcount_question" => &mut found.question,
            "mcount_start" => &mut found.start,
            "mcount_stubs" => &mut found.stubs,
            "mcount_stubs_end" => &mut found.stubs_end,
            "mcount_moved" => &mut found.moved,
            "mcount_moved_end" => &mut found.moved_end,
            "mcount_ask" => &mut found.ask,
            "mcount_asked" => &mut found.asked,
            "mcount_request" => &mut found.request,
            "mcount_names" => &mut found.names,
            "mcount_rendezvous" => &mut found.rendezvous,
            "mcount_begin" => &mut found.begin,
            "mcount_leave" => &mut found.leave,
            "mcount_done" => &mut found.done,
            "mcount_is_done" => &mut found.is_done,
            _ => continue,
        };
        *field = symbol.address();
    }
    if is_complete(&found) {
        Ok(found)
    } else {
        Err(io::Error::other("the agent was built without some of its symbols"))
    }
}

/// Whether all symbols were found that every agent has.
fn is_complete(found: &Symbols) -> bool {
    let Symbols { config, start, stubs, stubs_end, .. } = *found;
    let Symbols { rendezvous, ask, asked, request, names, .. } = *found;
    let Symbols { begin, leave, done, is_done, .. } = *found;
    let code = [start, stubs, stubs_end, rendezvous, ask, asked, begin, leave, done, is_done];
    let is_missing = |of: &Routines| [of.entry, of.late_entry, of.exit].contains(&0);
    !(code.contains(&0)
        || [found.values_entry, found.values_pg_entry, found.waits_exit].contains(&0)
        || [config, request, names, found.short_waits, found.words].contains(&0)
        || (processor::HAS_NOBODY && found.nobody == 0)
        || [found.pg_return, found.watch, found.question].contains(&0)
        || [found.instrumented_enter, found.instrumented_exit, found.instrumented].contains(&0)
        || found.routines.iter().any(is_missing))
}
