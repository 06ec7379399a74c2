//! The meaning of a path on the command line: a file, standard input, the objects in a folder, or
//! the members of an archive.

use crate::archive;
use crate::commit::Failure;
use crate::files::{ELF_MAGIC, Input, head, is_standard};
use crate::unpack;
use mcount::ErrorKind;
use std::fmt;
use std::io;
use std::path::{Path, PathBuf};
use walkdir::WalkDir;

/// The `e_type` of an object, and its offset in the file. It may be in either byte order.
const ET_REL: [[u8; 2]; 2] = [[1, 0], [0, 1]];
const E_TYPE: std::ops::Range<usize> = 16..18;

/// The subject of a result.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Label {
    /// The file, as it was given or found in a folder.
    pub file: PathBuf,
    /// The member of the archive `file`.
    pub member: Option<String>,
}

impl Label {
    /// The file at `path`.
    #[must_use]
    pub fn of(path: &Path) -> Self {
        Self { file: path.to_owned(), member: None }
    }

    /// The member `name` of this archive.
    #[must_use]
    pub fn member(&self, name: String) -> Self {
        Self { file: self.file.clone(), member: Some(name) }
    }
}

impl fmt::Display for Label {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.member {
            Some(member) => write!(f, "{}({member})", self.file.display()),
            None => write!(f, "{}", self.file.display()),
        }
    }
}

/// Why a command couldn't change the file at `path`. That is `failure`, or that the file is compressed.
#[must_use]
pub fn writing(path: &Path, failure: Failure) -> Failure {
    let Failure::Object(mcount::Error { kind: ErrorKind::NotElf, .. }) = failure else {
        return failure;
    };
    let head = head::<1024>(path).unwrap_or([0; 1024]);
    let Some(format) = unpack::packed_as(&head) else { return failure };
    let what = format!("{format}: cannot change a compressed file: unpack it first");
    io::Error::new(io::ErrorKind::InvalidInput, what).into()
}

/// Something to work on.
#[derive(Debug)]
pub struct Item {
    /// What results are about.
    pub label: Label,
    /// Its kind.
    pub kind: Kind,
}

/// The kinds of [`Item`].
#[derive(Debug)]
pub enum Kind {
    /// The file at this path.
    File(PathBuf),
    /// An archive that contains its members.
    Archive,
    /// An archive that a thin archive names. It is skipped, like an archive in an archive.
    Nested,
    /// Nothing, because it couldn't be read.
    Unreadable(Failure),
}

/// Whether `path` is a folder or a thin archive, which means other files.
fn names_others(path: &Path) -> bool {
    is_folder(path) || head::<8>(path).is_ok_and(|head| &head == archive::THIN_MAGIC)
}

/// Why there can't be one `output` for all `inputs`, if there is an `output`.
#[must_use]
pub fn cannot_have_output(inputs: &[PathBuf], output: Option<&Path>) -> Option<&'static str> {
    output?;
    if inputs.len() != 1 {
        return Some("--output takes one input file");
    }
    let is_many = inputs.iter().any(|path| names_others(path));
    is_many.then_some("--output cannot be used with a folder or a thin archive")
}

/// Whether a path on the command line is a folder.
#[must_use]
pub fn is_folder(path: &Path) -> bool {
    !is_standard(path) && path.is_dir()
}

/// Which files of a folder a command works on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Take {
    /// Objects, which can be changed.
    Objects,
    /// Objects, and compressed files with an object in them.
    Compressed,
}

/// What `path` means. Members are in the order of the archive, and files of a folder are sorted by
/// path.
#[must_use]
pub fn expand(path: &Path, take: Take) -> Vec<Item> {
    if is_folder(path) {
        return folder(path, take);
    }
    let magic = head::<8>(path).unwrap_or_default();
    let kind = match &magic {
        archive::MAGIC => Kind::Archive,
        archive::THIN_MAGIC => match thin(path) {
            Ok(items) => return items,
            Err(failure) => Kind::Unreadable(failure),
        },
        // Reading it will say what is wrong with it.
        _ => Kind::File(path.to_owned()),
    };
    vec![Item { label: Label::of(path), kind }]
}

/// The objects in the folder at `path`, at any depth. Symbolic links in it aren't followed, and files
/// that aren't objects are ignored.
fn folder(path: &Path, take: Take) -> Vec<Item> {
    let mut items = Vec::new();
    for entry in WalkDir::new(path).sort_by_file_name() {
        let (path, kind) = match entry {
            Ok(entry) if !entry.file_type().is_file() => continue,
            Ok(entry) => match head::<18>(entry.path()) {
                Ok(head) if !is_object(&head) && !holds_object(&head, entry.path(), take) => {
                    continue;
                }
                Ok(_) => (entry.path().to_owned(), Kind::File(entry.path().to_owned())),
                Err(error) => (entry.path().to_owned(), Kind::Unreadable(error.into())),
            },
            Err(error) => {
                let place = error.path().unwrap_or(path).to_owned();
                let error = error.into_io_error();
                let error = error.unwrap_or_else(|| io::Error::other("cannot be read"));
                (place, Kind::Unreadable(error.into()))
            }
        };
        items.push(Item { label: Label::of(&path), kind });
    }
    items
}

/// Whether the file at `path`, which begins with `head`, is compressed and has an object in it.
fn holds_object(head: &[u8; 18], path: &Path, take: Take) -> bool {
    let is_packed = take == Take::Compressed && unpack::packed_as(head).is_some();
    is_packed
        && Input::open(path)
            .is_ok_and(|input| unpack::peek(input.bytes()).is_some_and(|head| is_object(&head)))
}

fn is_object(head: &[u8; 18]) -> bool {
    head.starts_with(ELF_MAGIC) && ET_REL.iter().any(|kind| head.get(E_TYPE) == Some(kind))
}

/// The files that the thin archive at `path` names. Files that aren't ELF are ignored, but missing files
/// aren't.
fn thin(path: &Path) -> Result<Vec<Item>, Failure> {
    let input = Input::given(path)?;
    let mut items = Vec::new();
    for member in archive::names(input.bytes())? {
        let file = path.with_file_name(&member);
        let label = Label::of(path).member(member.to_string_lossy().into_owned());
        let kind = match head::<8>(&file) {
            Ok(head) if archive::is_archive(&head) => Kind::Nested,
            Ok(head) if !head.starts_with(ELF_MAGIC) => continue,
            _ => Kind::File(file),
        };
        items.push(Item { label, kind });
    }
    Ok(items)
}
