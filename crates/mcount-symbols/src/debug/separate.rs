//! Separate debug files. They are found by build ID, or by the name and checksum in `.gnu_debuglink`,
//! where debuggers look for them (gdb manual, "Separate Debug Files"), and where distributions put those
//! of kernels. Fedora's files have a small one, with names only, in themselves.

use super::Sections;
use crate::commit::{Failure, about};
use crate::contents::Contents;
use crate::files::Input;
use crate::kernel::{self, Name};
use crate::unpack::{self, Limits, UNKNOWN_NAMES, unpacked_name};
use mcount_store::words::hex;
use object::ObjectKind;
use object::read::{File, Object, ObjectSection};
use std::ffi::OsStr;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// Where debug files are installed.
const INSTALLED: &str = "/usr/lib/debug";

/// Where to look for debug files.
#[derive(Debug, Clone, Default)]
pub struct Search {
    /// Folders of debug files, besides that of the system.
    pub folders: Vec<PathBuf>,
    /// How large a compressed file may become.
    pub limits: Limits,
    /// The `System.map` of a kernel.
    pub system_map: Option<PathBuf>,
}

/// A debug file.
pub struct DebugFile {
    /// Where it is.
    pub path: PathBuf,
    /// Its contents.
    pub contents: Contents,
}

/// A file that a command reads, with the debug file that belongs to it.
pub struct Subject {
    contents: Contents,
    /// The same, with the symbols of the debug file.
    named: Option<Vec<u8>>,
    debug: Option<DebugFile>,
}

impl Subject {
    /// The file at `path`. Looks for its debug file if it has no symbols, or if it has no debug
    /// information and that is wanted.
    ///
    /// # Errors
    ///
    /// It can't be read, is corrupt, or has no ELF file in it.
    pub fn open(path: &Path, search: &Search, wants_debug: bool) -> Result<Self, Failure> {
        let system_map = search.names()?;
        let contents = Contents::open_kernel(path, search.limits, system_map.as_deref())?;
        let bytes = contents.bytes();
        let is_stripped = is_stripped(bytes);
        if !is_stripped && (!wants_debug || Sections::is_in(bytes)) {
            return Ok(Self { contents, named: None, debug: None });
        }
        let debug = search.find(bytes, path);
        let named = match &debug {
            _ if !is_stripped => None,
            debug => with_symbols_of(bytes, debug.as_ref(), search.limits)
                .or_else(|| kernel::with_names(bytes, system_map)),
        };
        Ok(Self { contents, named, debug })
    }

    /// The file; with the symbols of the debug file if it has none itself.
    #[must_use]
    pub fn bytes(&self) -> &[u8] {
        self.named.as_deref().unwrap_or_else(|| self.contents.bytes())
    }

    /// The file with the debug information. If there is none, the file itself.
    #[must_use]
    pub fn debug(&self) -> &[u8] {
        let own = self.contents.bytes();
        let other = self.debug.as_ref().map(|debug| debug.contents.bytes());
        other.filter(|other| !Sections::is_in(own) && Sections::is_in(other)).unwrap_or(own)
    }

    /// Whether it is an image that only has the symbols that the loader needs, and there is no debug file
    /// either.
    #[must_use]
    pub fn is_stripped(&self) -> bool {
        is_stripped(self.bytes())
    }

    /// If it is an image without any symbols, says that nothing can be found in it.
    #[must_use]
    pub fn is_nameless(&self) -> Option<String> {
        let file = File::parse(self.bytes()).ok()?;
        if file.kind() == ObjectKind::Relocatable
            || file.symbols().next().is_some()
            || file.dynamic_symbols().next().is_some()
        {
            return None;
        }
        let id = file.build_id().ok().flatten().map(hex);
        let id = id.map(|id| format!(" (build ID {id})")).unwrap_or_default();
        if kernel::has_unknown_names(self.bytes()) {
            return Some(format!(
                "no symbols, and {UNKNOWN_NAMES}: its debug file{id} or its System.map would have them: \
                 see --debug-dir and --system-map"
            ));
        }
        Some(format!("no symbols: its debug file{id} would have them: see --debug-dir"))
    }
}

/// The executable or library `image`, which is the file at `path`, with the symbols of its debug file or those that are compressed in it.
/// `None` if it has symbols itself, or if there are no others.
#[must_use]
pub fn with_names(image: &[u8], path: &Path, search: &Search) -> Option<Vec<u8>> {
    if !is_stripped(image) {
        return None;
    }
    let debug = search.find(image, path);
    with_symbols_of(image, debug.as_ref(), search.limits)
}

/// `image` with the symbols of its debug file, unless that doesn't fit, or else with those that are compressed in it.
fn with_symbols_of(image: &[u8], debug: Option<&DebugFile>, limits: Limits) -> Option<Vec<u8>> {
    let of = |debug: &DebugFile| mcount::with_symbols(image, debug.contents.bytes()).ok().flatten();
    debug.and_then(of).or_else(|| with_small_debug_file(image, limits))
}

/// `image` with the symbols that are compressed in it (`.gnu_debugdata`: gdb manual, "Debugging information in a special section"),
/// if there are any.
fn with_small_debug_file(image: &[u8], limits: Limits) -> Option<Vec<u8>> {
    let file = File::parse(image).ok()?;
    let section = file.section_by_name(".gnu_debugdata")?;
    let debug = unpack::unpack(section.data().ok()?, limits).ok().flatten()?;
    mcount::with_symbols(image, &debug).ok().flatten()
}

/// What commands that need names say about an image that [`Subject::is_stripped`].
pub const FEW_NAMES: &str =
    "stripped: only functions that other files may call have names: see --debug-dir";

/// Whether `bytes` are an image that has lost its symbols.
fn is_stripped(bytes: &[u8]) -> bool {
    File::parse(bytes)
        .is_ok_and(|file| file.kind() != ObjectKind::Relocatable && file.symbol_table().is_none())
}

impl Search {
    /// The names in the `System.map`, if there is one.
    fn names(&self) -> Result<Option<Vec<Name>>, Failure> {
        let Some(path) = &self.system_map else { return Ok(None) };
        let input = Input::open(path).map_err(|error| about(path, error))?;
        match kernel::parse_system_map(input.bytes()) {
            Some(names) => Ok(Some(names)),
            None => Err(io::Error::other(format!("{}: not a System.map", path.display())).into()),
        }
    }

    /// The debug file of the ELF file `file` at `path`.
    #[must_use]
    pub fn find(&self, file: &[u8], path: &Path) -> Option<DebugFile> {
        let parsed = File::parse(file).ok()?;
        let id = parsed.build_id().ok().flatten().filter(|id| id.len() > 1);
        let by_id = id.and_then(|id| self.by_id(id, path));
        by_id.or_else(|| {
            let (name, checksum) = parsed.gnu_debuglink().ok().flatten()?;
            self.by_link(name, checksum, path)
        })
    }

    fn all_folders(&self) -> impl Iterator<Item = &Path> {
        self.folders.iter().map(PathBuf::as_path).chain([Path::new(INSTALLED)])
    }

    /// The file with the build ID `id`, in `.build-id`, or in the folder that corresponds to that of
    /// `path`, where Debian puts those of kernels and modules.
    fn by_id(&self, id: &[u8], path: &Path) -> Option<DebugFile> {
        let hex = hex(id);
        let (first, rest) = hex.split_at_checked(2)?;
        let own = std::path::absolute(path).unwrap_or_else(|_| path.to_owned());
        let own = image_name(&own);
        for folder in self.all_folders() {
            let by_id = folder.join(".build-id").join(first).join(format!("{rest}.debug"));
            let tails = tails(&own).map(|tail| folder.join(tail));
            for candidate in [by_id].into_iter().chain(tails) {
                let found = self.open(candidate, path);
                if let Some(found) = found.filter(|found| has_id(found.contents.bytes(), id)) {
                    return Some(found);
                }
            }
        }
        None
    }

    /// The file `name` with this CRC, beside the file at `path`, in `.debug` there, or in the
    /// corresponding folder of debug files.
    fn by_link(&self, name: &[u8], checksum: u32, path: &Path) -> Option<DebugFile> {
        // This comes from the file, so it may only be a name and not a path.
        let name = Path::new(OsStr::from_bytes(name)).file_name()?;
        let own = std::path::absolute(path).ok()?;
        let folder = own.parent()?;
        let beside = [folder.join(name), folder.join(".debug").join(name)];
        let relative = folder.strip_prefix("/").unwrap_or(folder);
        let installed = self.all_folders().map(|debug| debug.join(relative).join(name));
        let mut found = beside.into_iter().chain(installed).filter_map(|at| self.open(at, path));
        found.find(|found| crc32fast::hash(found.contents.bytes()) == checksum)
    }

    /// The file at `candidate`, if that isn't `path`.
    fn open(&self, candidate: PathBuf, path: &Path) -> Option<DebugFile> {
        if !candidate.is_file() || candidate == path {
            return None;
        }
        let contents = Contents::open(&candidate, self.limits).ok()?;
        Some(DebugFile { path: candidate, contents })
    }
}

fn has_id(file: &[u8], id: &[u8]) -> bool {
    File::parse(file).is_ok_and(|file| file.build_id().ok().flatten() == Some(id))
}

/// `path` without the extension of a compressor, and with `vmlinux` instead of `vmlinuz`.
fn image_name(path: &Path) -> PathBuf {
    let path = unpacked_name(path);
    let name = path.file_name().and_then(OsStr::to_str);
    match name.and_then(|name| name.strip_prefix("vmlinuz")) {
        Some(version) => path.with_file_name(format!("vmlinux{version}")),
        None => path,
    }
}

/// `a/b/c`, `b/c` and `c` of `/a/b/c`.
fn tails(path: &Path) -> impl Iterator<Item = &Path> {
    let start = path.strip_prefix("/").unwrap_or(path);
    std::iter::successors(Some(start), |tail| {
        let mut components = tail.components();
        components.next()?;
        let rest = components.as_path();
        (!rest.as_os_str().is_empty()).then_some(rest)
    })
}
