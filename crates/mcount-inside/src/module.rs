//! One module: its hooks, and the state of each.

use crate::arch::{self, code};
use crate::error::{Error, ErrorKind, Result};
use crate::files::Input;
use crate::hooks::{self, Hook};
use crate::record::{Function, Handlers, Record};
use crate::system::loaded::Loaded;
use crate::system::near::Region;
use crate::system::trap::{self, Traps};
use crate::{records, unwinders};
use mcount::demangled;
use std::ffi::{CString, c_char};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicPtr, AtomicU32, AtomicU64, Ordering};

/// What tells a file from others, and from what it was before.
pub(crate) type Identity = [u64; 5];

/// A module that is loaded, or was.
pub(crate) struct Module {
    /// The path of its file.
    pub(crate) path: PathBuf,
    pub(crate) identity: Identity,
    pub(crate) build_id: Vec<u8>,
    /// `None`: it was unloaded.
    pub(crate) loaded: Option<Loaded>,
    pub(crate) hooks: Vec<Hook>,
    /// The sites of the hooks, in the same order; empty until [`Module::prepare`] was called.
    pub(crate) sites: Vec<Site>,
    /// What of it can't be armed, a line each.
    pub(crate) notes: Vec<String>,
    unwinder: Option<unwinders::Functions>,
    region: Option<Region>,
    /// Its sites, as a signal handler finds them.
    traps: Option<&'static Traps>,
}

/// The state of a site in memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum State {
    /// As the file has it.
    Untouched,
    Idle,
    Armed,
}

/// One hook in memory.
pub(crate) struct Site {
    pub(crate) record: &'static Record,
    /// The record leads there as well, but checkers for leaks don't look at its memory.
    function: &'static Function,
    pub(crate) state: State,
}

impl Site {
    /// Do these handlers see its calls?
    pub(crate) fn is_seen_by(&self, handlers: &Handlers) -> bool {
        // SAFETY: lists are never freed.
        let list = unsafe { self.record.list.load(Ordering::Acquire).as_ref() };
        list.is_some_and(|list| list.all.iter().any(|one| std::ptr::eq(*one, handlers)))
    }
}

/// What tells a file from others.
pub(crate) fn identity(input: &Input) -> Identity {
    let of = &input.metadata;
    [of.dev(), of.ino(), of.size(), of.mtime().cast_unsigned(), of.mtime_nsec().cast_unsigned()]
}

impl Module {
    /// Reads the file of a module that is loaded.
    pub(crate) fn read(path: &Path, input: &Input, loaded: &Loaded) -> Result<Self> {
        let found = hooks::read(input.bytes())?;

        let mut module = Self {
            path: path.to_owned(),
            identity: identity(input),
            notes: notes(path, &found),
            build_id: found.build_id,
            loaded: None,
            hooks: found.all,
            sites: Vec::new(),
            unwinder: found.unwinder,
            region: None,
            traps: None,
        };
        module.load(loaded);
        Ok(module)
    }

    /// Whether this is the module that is `loaded`.
    pub(crate) fn is(&self, loaded: &Loaded) -> bool {
        self.loaded.as_ref().is_some_and(|it| it.is(loaded))
    }

    /// It is loaded now, perhaps again, and perhaps elsewhere.
    pub(crate) fn load(&mut self, loaded: &Loaded) {
        if let Some(functions) = self.unwinder {
            let at = |address: u64| if address == 0 { 0 } else { loaded.at(address) };
            let functions = functions.map(at);
            unwinders::add(loaded.extent, functions);
        }
        self.loaded = Some(loaded.clone());
    }

    /// The hook of the function that the code at `address`, as it's linked, belongs to.
    pub(crate) fn hook_of(&self, address: u64) -> Option<usize> {
        let behind = self.hooks.partition_point(|hook| hook.function <= address);
        let index = behind.checked_sub(1)?;
        let hook = self.hooks.get(index)?;
        let end =
            hook.function + hook.size.max(hook.entry - hook.function + hook.area.length as u64);
        (address < end).then_some(index)
    }

    /// It's no longer loaded: its sites don't exist, and what they were armed for is forgotten.
    pub(crate) fn forget(&mut self) {
        self.loaded = None;
        // No thread is in a stub: it would be on its way to code that's gone.
        if let Some(region) = self.region.take() {
            region.unmap();
        }
        if let Some(traps) = self.traps.take() {
            trap::remove(traps);
        }
        for site in &mut self.sites {
            site.state = State::Untouched;
            site.record.list.store(std::ptr::null_mut(), Ordering::Release);
            site.record.flags.store(0, Ordering::Release);
        }
    }

    /// Makes the records and the stubs of its sites, if there are none yet.
    pub(crate) fn prepare(&mut self) -> Result<()> {
        let Some(loaded) = &self.loaded else { return Ok(()) };
        if self.region.is_some() || self.hooks.is_empty() {
            return Ok(());
        }
        if self.sites.is_empty() {
            self.sites = new_sites(&self.path, &self.hooks)?;
        }
        let place = |hook: Option<&Hook>| hook.map_or(0, |hook| loaded.at(hook.site));
        let sites = (place(self.hooks.first()), place(self.hooks.last()));
        let size = self.hooks.len() * code::RECORD_STUB;
        let region = Region::map(loaded.extent, sites, size as u64)?;
        let mut stubs = Vec::with_capacity(size);
        for (index, (hook, site)) in self.hooks.iter().zip(&self.sites).enumerate() {
            let record = site.record;
            site.function.address.store(loaded.at(hook.function), Ordering::Release);
            let address = loaded.at(hook.site);
            let behind = address.wrapping_add(hook.area.length as u64);
            let behind = arch::pointer(&hook.area, behind);
            let place = region.start + (index * code::RECORD_STUB) as u64;
            let stub = arch::stub(place, std::ptr::from_ref(record) as u64, behind);
            let Some((bytes, body)) = stub else {
                region.unmap();
                return Err(Error::new(
                    ErrorKind::NoRoom,
                    "a function is out of reach of its stub",
                ));
            };
            record.site.store(loaded.at(hook.entry), Ordering::Release);
            record.original.store(body, Ordering::Release);
            record.body.store(body, Ordering::Release);
            record.enter.store(arch::pass(), Ordering::Release);
            stubs.extend_from_slice(&bytes);
        }
        region.fill(&stubs);
        region.make_code()?;
        self.region = Some(region);
        let place = |hook: &Hook| {
            let first = arch::changed(&hook.area).start;
            (loaded.at(hook.site + first as u64), hook.area.length - first)
        };
        self.traps = trap::add(self.hooks.iter().map(place).collect());
        Ok(())
    }

    /// Where the hook with this index is in memory.
    pub(crate) fn address(&self, index: usize) -> Option<u64> {
        Some(self.loaded.as_ref()?.at(self.hooks.get(index)?.site))
    }

    /// Where its stub is.
    pub(crate) fn stub(&self, index: usize) -> Option<u64> {
        Some(self.region.as_ref()?.start + (index * code::RECORD_STUB) as u64)
    }
}

fn notes(path: &Path, found: &hooks::Hooks) -> Vec<String> {
    let odd = "the hook is neither at the entry nor after a frame pointer, or no symbol says where they begin";
    let causes = [(found.too_small, code::TOO_SMALL), (found.odd, odd)];
    let mut notes = Vec::new();
    for (count, cause) in causes.into_iter().filter(|(count, _)| *count != 0) {
        let functions = if count == 1 { "function" } else { "functions" };
        notes.push(format!("{}: {count} {functions} can't be armed: {cause}", path.display()));
    }
    notes
}

/// `text` for C, which is never freed.
fn leaked(text: &[u8]) -> *const c_char {
    CString::new(text).unwrap_or_default().into_raw().cast_const()
}

fn new_sites(path: &Path, hooks: &[Hook]) -> Result<Vec<Site>> {
    let no_room = || Error::new(ErrorKind::NoRoom, "no memory for the records of functions");
    let module = leaked(path.as_os_str().as_bytes());
    hooks
        .iter()
        .map(|hook| {
            let symbol = hook.names.first().map_or("", String::as_str);
            let function: &'static Function = Box::leak(Box::new(Function {
                name: leaked(demangled(symbol).as_bytes()),
                symbol: leaked(symbol.as_bytes()),
                module,
                address: AtomicU64::new(0),
                size: hook.size,
            }));
            let record = records::add(|id| Record {
                body: AtomicU64::new(0),
                enter: AtomicU64::new(arch::pass()),
                list: AtomicPtr::new(std::ptr::null_mut()),
                flags: AtomicU32::new(0),
                id,
                function,
                original: AtomicU64::new(0),
                site: AtomicU64::new(0),
                frame: hook.frame,
            });
            Ok(Site { record: record.ok_or_else(no_room)?, function, state: State::Untouched })
        })
        .collect()
}
