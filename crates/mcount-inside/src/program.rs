//! The program that this code is part of: its modules, and what their functions are armed for.
//!
//! Everything here happens under one lock. What runs in armed functions doesn't take it.

use crate::edit::{Edit, HookIndex, Protocol, apply};
use crate::error::{Error, ErrorKind, Result};
use crate::files::Input;
use crate::hooks::Hook;
use crate::module::{self, Module, Site};
use crate::recording::Recording;
use crate::system::code;
use crate::system::loaded::{Loaded, with_modules};
use crate::{agent, arch, unwinders};
use mcount::FunctionPattern;
use std::ops::{Deref, DerefMut};
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::{Acquire, Release};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Which functions are meant.
#[derive(Debug, Clone, Copy)]
pub enum Which<'a> {
    /// Those that match: `GLOB`, `GLOB@MODULE` or `@MODULE`.
    Pattern(&'a str),
    /// The one that is, or contains, the code at this address.
    Address(usize),
}

impl<'a> From<&'a str> for Which<'a> {
    fn from(pattern: &'a str) -> Self {
        Self::Pattern(pattern)
    }
}

/// All modules.
pub(crate) struct Program {
    pub(crate) modules: Vec<Module>,
    is_open: bool,
    pub(crate) protocol: Protocol,
    pub(crate) recording: Option<Recording>,
    /// What could not be done, a line each.
    pub(crate) notes: Vec<String>,
}

static PROGRAM: Mutex<Program> = Mutex::new(Program::new());
/// The thread that has the lock, by the address of its own memory.
static OWNER: AtomicUsize = AtomicUsize::new(0);

/// The program, for one thread at a time.
pub(crate) struct Locked(MutexGuard<'static, Program>);

// SAFETY: a fork begins and ends in one thread, and only it hands the lock from one function to another.
unsafe impl Send for Locked {}

impl Deref for Locked {
    type Target = Program;

    fn deref(&self) -> &Program {
        &self.0
    }
}

impl DerefMut for Locked {
    fn deref_mut(&mut self) -> &mut Program {
        &mut self.0
    }
}

impl Drop for Locked {
    fn drop(&mut self) {
        OWNER.store(0, Release);
    }
}

/// Takes the lock, and looks at the modules if that wasn't done before.
pub(crate) fn lock() -> Result<Locked> {
    let mut locked = take().ok_or_else(|| {
        let text = "called from a handler of a function that this library is just calling";
        Error::new(ErrorKind::Busy, text)
    })?;
    if !locked.is_open {
        locked.open();
    }
    Ok(locked)
}

/// Takes the lock; `None` if this thread has it.
fn take() -> Option<Locked> {
    let me = arch::thread() as usize;
    if OWNER.load(Acquire) == me {
        return None;
    }
    let guard = PROGRAM.lock().unwrap_or_else(PoisonError::into_inner);
    OWNER.store(me, Release);
    Some(Locked(guard))
}

/// A forked child gets the program in order, because no thread changes it during the fork.
fn survive_forks() {
    static HELD: Mutex<Option<Locked>> = Mutex::new(None);
    extern "C" fn before() {
        *HELD.lock().unwrap_or_else(PoisonError::into_inner) = take();
    }
    extern "C" fn after() {
        *HELD.lock().unwrap_or_else(PoisonError::into_inner) = None;
    }
    // SAFETY: functions of this library, which isn't unloaded once it has armed anything.
    unsafe { libc::pthread_atfork(Some(before), Some(after), Some(after)) };
}

impl Program {
    const fn new() -> Self {
        Self {
            modules: Vec::new(),
            is_open: false,
            protocol: Protocol::OneByte,
            recording: None,
            notes: Vec::new(),
        }
    }

    fn open(&mut self) {
        arch::prepare();
        // Without memory, slots that several frames have aren't told apart.
        agent::prepare();
        code::register();
        survive_forks();
        self.rescan();
        self.is_open = true;
    }

    /// Looks at modules that are new, and forgets those that are gone.
    pub(crate) fn rescan(&mut self) {
        // Files are read without the lock of the dynamic linker: that takes time.
        let all = with_modules(<[Loaded]>::to_vec);
        self.forget_gone(&all);
        let own = unwinders::own();
        let is_own = |loaded: &&Loaded| own.iter().all(|address| loaded.has(*address));
        if let Some(loaded) = all.iter().find(is_own) {
            unwinders::add(loaded.extent, own);
        }
        for loaded in &all {
            if self.modules.iter().any(|module| module.is(loaded)) {
                continue;
            }
            let Some(path) = &loaded.path else { continue };
            if let Err(error) = self.read(path, loaded) {
                self.notes.push(error.text);
            }
        }
    }

    fn read(&mut self, path: &Path, loaded: &Loaded) -> Result<()> {
        let input = Input::open(path)?;
        let identity = module::identity(&input);
        let mut gone = self.modules.iter_mut().filter(|module| module.loaded.is_none());
        if let Some(module) = gone.find(|module| module.identity == identity) {
            module.load(loaded);
            return Ok(());
        }
        let name = full_path(path);
        let module = Module::read(&name, &input, loaded)?;
        self.notes.extend_from_slice(&module.notes);
        self.modules.push(module);
        Ok(())
    }

    fn forget_gone(&mut self, all: &[Loaded]) {
        for (number, module) in self.modules.iter_mut().enumerate() {
            if module.loaded.as_ref().is_some_and(|it| !all.iter().any(|one| one.is(it))) {
                if let Some(recording) = &mut self.recording {
                    recording.forget(number, module);
                }
                module.forget();
            }
        }
    }

    /// Changes what functions are armed for; how many.
    pub(crate) fn edit(&mut self, which: Which<'_>, edit: Edit) -> Result<usize> {
        with_modules(|all| {
            self.forget_gone(all);
            let chosen = self.choose(which)?;
            self.apply(&chosen, edit)
        })
    }

    /// The same for all functions that are armed for something; how many.
    pub(crate) fn edit_armed(
        &mut self,
        is_meant: impl Fn(&Site) -> bool,
        edit: Edit,
    ) -> Result<usize> {
        with_modules(|all| {
            self.forget_gone(all);
            let mut chosen = Vec::new();
            for (number, module) in self.modules.iter().enumerate() {
                let sites = module.sites.iter().enumerate().filter(|(_, site)| is_meant(site));
                chosen.extend(sites.map(|(index, _)| (number, index)));
            }
            self.apply(&chosen, edit)
        })
    }

    fn apply(&mut self, chosen: &[HookIndex], edit: Edit) -> Result<usize> {
        if matches!(edit, Edit::Trace) {
            for (number, _) in chosen {
                let Some(module) = self.modules.get_mut(*number) else { continue };
                module.prepare()?;
                if let Some(recording) = &mut self.recording {
                    recording.know(*number, module);
                }
            }
        }
        let note = apply(&mut self.modules, chosen, edit, self.protocol)?;
        self.notes.extend(note);
        Ok(chosen.len())
    }

    /// The hooks that are meant, in the order of modules and addresses; at least one.
    pub(crate) fn choose(&self, which: Which<'_>) -> Result<Vec<HookIndex>> {
        match which {
            Which::Pattern(text) => self.choose_matching(text),
            Which::Address(address) => {
                let address = address as u64;
                let place = self.place_of(address).or_else(|| self.place_behind(address));
                place.map(|place| vec![place]).ok_or_else(|| {
                    let text = format!("the code at {address:#x} is of no function with a hook");
                    Error::new(ErrorKind::NoMatch, text)
                })
            }
        }
    }

    fn choose_matching(&self, text: &str) -> Result<Vec<HookIndex>> {
        let pattern = FunctionPattern::new(text)
            .map_err(|error| Error::new(ErrorKind::BadPattern, error.to_string()))?;
        let mut chosen = Vec::new();
        for (number, module) in self.modules.iter().enumerate() {
            if module.loaded.is_none() || !pattern.has_module(&module.path.to_string_lossy()) {
                continue;
            }
            for (index, hook) in module.hooks.iter().enumerate() {
                if is_meant(&pattern, hook) {
                    chosen.push((number, index));
                }
            }
        }
        if chosen.is_empty() {
            let text = format!("no function with a hook matches {text:?}");
            return Err(Error::new(ErrorKind::NoMatch, text));
        }
        Ok(chosen)
    }

    fn place_of(&self, address: u64) -> Option<HookIndex> {
        self.modules.iter().enumerate().find_map(|(number, module)| {
            let loaded = module.loaded.as_ref()?;
            if !loaded.has(address) {
                return None;
            }
            Some((number, module.hook_of(loaded.linked(address))?))
        })
    }

    /// A pointer to a function of a library may lead to a jump to it.
    fn place_behind(&self, address: u64) -> Option<HookIndex> {
        if !self.is_code(address) {
            return None;
        }
        // SAFETY: a module is there, which isn't unloaded meanwhile.
        let there = unsafe { arch::through_linkage(address) };
        there.and_then(|address| self.place_of(address))
    }

    fn is_code(&self, address: u64) -> bool {
        let all = self.modules.iter().filter_map(|module| module.loaded.as_ref());
        all.flat_map(|loaded| &loaded.code).any(|(low, high)| (*low..*high).contains(&address))
    }
}

/// Has the calls of the function at `function` go to `new`; where the function itself can still be called.
///
/// # Safety
///
/// They are of one type.
pub(crate) unsafe fn replace(function: usize, new: usize) -> Result<u64> {
    let mut program = lock()?;
    let which = Which::Address(function);
    program.edit(which, Edit::Replace(new as u64))?;
    let original = program
        .choose(which)?
        .first()
        .and_then(|(number, index)| program.modules.get(*number)?.sites.get(*index));
    Ok(original.map_or(0, |site| site.record.original.load(Acquire)))
}

/// Does the pattern mean the function of this hook, by one of its names? If no symbol names it, patterns of modules do.
fn is_meant(pattern: &FunctionPattern, hook: &Hook) -> bool {
    let is_it = |symbol: &str| pattern.has_function(symbol, || mcount::demangled(symbol));
    hook.names.iter().any(|symbol| is_it(symbol)) || hook.names.is_empty() && is_it("")
}

/// The path that people know a file by.
fn full_path(path: &Path) -> PathBuf {
    std::fs::canonicalize(path).unwrap_or_else(|_| path.to_owned())
}
