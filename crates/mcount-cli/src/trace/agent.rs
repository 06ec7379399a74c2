//! The agent as an ELF file: where its routines are, and the file that the dynamic linker loads.

use mcount_agent::IMAGE;
use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSymbol};
use std::io;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Addresses in the agent, from its load bias on.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Symbols {
    pub(super) config: u64,
    pub(super) entry: u64,
    pub(super) exit: u64,
    pub(super) pg_entry: u64,
    pub(super) nobody: u64,
    pub(super) start: u64,
    pub(super) stubs: u64,
    pub(super) stubs_end: u64,
    /// An `int3`.
    pub(super) trap: u64,
    /// Where the dynamic linker's rendezvous is to jump to.
    pub(super) rendezvous: u64,
    /// Where a thread stands that asks the recorder.
    pub(super) asked: u64,
    /// What the recorder wants of it.
    pub(super) request: u64,
    /// The names of the trace.
    pub(super) names: u64,
}

/// The agent on disk, for as long as programs are traced.
pub(super) struct Agent {
    pub(super) symbols: Symbols,
    pub(super) path: PathBuf,
    _folder: TempDir,
}

impl Agent {
    /// Writes the agent into a folder of its own that only this user can reach.
    ///
    /// # Errors
    ///
    /// There is none for this processor, or no place to write it.
    pub(super) fn new() -> io::Result<Self> {
        let image = Self::image()?;
        let folder = tempfile::Builder::new().prefix("mcount-").tempdir()?;
        let path = folder.path().join("agent.so");
        crate::commit::write_new(&path, image)?;
        Ok(Self { symbols: symbols(image)?, path, _folder: folder })
    }

    /// Its bytes.
    pub(super) fn image() -> io::Result<&'static [u8]> {
        IMAGE.ok_or_else(|| io::Error::other("tracing isn't supported on this processor yet"))
    }

    /// Is this module, which the dynamic linker has loaded from `path`, the agent?
    pub(super) fn is_at(&self, path: &Path) -> bool {
        path == self.path
    }
}

fn symbols(image: &[u8]) -> io::Result<Symbols> {
    let file = ElfFile64::<Endianness>::parse(image).map_err(io::Error::other)?;
    let mut found = Symbols::default();
    for symbol in file.symbols() {
        let field = match symbol.name() {
            Ok("mcount_config") => &mut found.config,
            Ok("mcount_entry") => &mut found.entry,
            Ok("mcount_exit") => &mut found.exit,
            Ok("mcount_pg_entry") => &mut found.pg_entry,
            Ok("mcount_nobody") => &mut found.nobody,
            Ok("mcount_start") => &mut found.start,
            Ok("mcount_stubs") => &mut found.stubs,
            Ok("mcount_stubs_end") => &mut found.stubs_end,
            Ok("mcount_asked") => &mut found.asked,
            Ok("mcount_request") => &mut found.request,
            Ok("mcount_names") => &mut found.names,
            Ok("mcount_trap") => &mut found.trap,
            Ok("mcount_rendezvous") => &mut found.rendezvous,
            _ => continue,
        };
        *field = symbol.address();
    }
    let Symbols { config, entry, exit, pg_entry, nobody, start, .. } = found;
    let Symbols { stubs, stubs_end, trap, rendezvous, asked, request, names, .. } = found;
    let code = [entry, exit, pg_entry, start, stubs, stubs_end, trap, rendezvous, asked];
    if code.contains(&0) || [config, nobody, request, names].contains(&0) {
        return Err(io::Error::other("the agent was built without some of its symbols"));
    }
    Ok(found)
}
