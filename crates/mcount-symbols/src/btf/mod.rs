//! BTF, the type format of BPF: which functions it knows, and with which prototypes.
//!
//! BPF programs of type fentry and fexit attach to functions that are in the tracer's table *and* in BTF.
//! This reads no more than that takes. The crates that read all of BTF either have a license that this
//! program can't have, keep their types to themselves, know no split BTF, or trust their input.
//!
//! Format: the kernel's document bpf/btf. The BTF of a module is *split*: its strings and types count on
//! from those of its base, the BTF of the kernel.

mod reader;

use self::reader::{Kind, Part, Type};
use crate::commit::Failure;
use object::read::{File, Object, ObjectSection};
use std::collections::BTreeMap;
use std::fmt;
use std::io;
use std::ops::Range;
use std::sync::Arc;

/// The section that has BTF.
pub(crate) const SECTION: &str = ".BTF";
/// The section of a module that has the base of its BTF, from Linux 6.12 on.
const BASE_SECTION: &str = ".BTF.base";
/// The section that says where functions were inlined. It continues the BTF of the file.
const INLINE_SECTION: &str = ".BTF.inline";

/// How many arguments a function may have for BPF to attach to it.
const MOST_ARGUMENTS: usize = 12;
/// How large a structure may be that is an argument, in bytes.
const LARGEST_ARGUMENT: u32 = 16;
/// How many types may lead to another type by name, `const` or the like.
const LONGEST_CHAIN: usize = 64;

/// Why BTF couldn't be read.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Error {
    /// There is none.
    Missing,
    /// It is malformed in this way.
    Malformed(&'static str),
    /// It has a type of a kind that isn't known, and no layout that says how large it is, so that what follows can't be read.
    UnknownKind {
        /// The number of the kind.
        kind: u32,
        /// Where that type is, in bytes from the first type on.
        offset: usize,
    },
    /// It is that of a module, and needs the kernel's.
    NeedsBase,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Missing => f.write_str("no BTF: see --btf-from"),
            Self::Malformed(what) => write!(f, "BTF: {what}"),
            Self::UnknownKind { kind, offset } => write!(
                f,
                "BTF: the type at offset {offset:#x} has the unknown kind {kind}, and no layout says how large it is"
            ),
            Self::NeedsBase => {
                f.write_str("BTF of a module, which continues that of its kernel: see --btf-base")
            }
        }
    }
}

impl std::error::Error for Error {}

impl From<Error> for Failure {
    fn from(error: Error) -> Self {
        io::Error::new(io::ErrorKind::InvalidData, error).into()
    }
}

/// What BPF thinks of the prototype of a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Prototype {
    /// BPF programs can be attached.
    Fine,
    /// The number of arguments isn't fixed.
    Variadic,
    /// There are more than twelve.
    ManyArguments(usize),
    /// An argument is a structure of this many bytes.
    LargeArgument(u32),
    /// It returns neither a number nor a pointer.
    Returns,
    /// BTF says nothing about it that makes sense.
    Unknown,
}

impl Prototype {
    /// Why BPF can't attach to a function like this. `None` if it can.
    #[must_use]
    pub fn refused(self) -> Option<String> {
        Some(match self {
            Self::Fine => return None,
            Self::Variadic => "it takes any number of arguments".to_owned(),
            Self::ManyArguments(count) => format!("it has {count} arguments"),
            Self::LargeArgument(size) => format!("an argument is a structure of {size} bytes"),
            Self::Returns => "it returns neither a number nor a pointer".to_owned(),
            Self::Unknown => "its prototype in BTF is malformed".to_owned(),
        })
    }
}

/// Where the BTF of a kernel is in `image`, which has no sections.
pub(crate) fn in_image(image: &[u8]) -> Option<Range<usize>> {
    reader::find(image)
}

/// The functions that BTF knows, by name, each with its prototypes. The BTF of a module has only its own.
pub type Functions = BTreeMap<String, Vec<Prototype>>;

/// The bytes of the BTF in `file`, which is ELF or BTF itself, and of its base if the file has that too.
#[must_use]
pub fn find(file: &[u8]) -> Option<(&[u8], Option<&[u8]>)> {
    if reader::is_btf(file) {
        return Some((file, None));
    }
    let file = File::parse(file).ok()?;
    Some((section(&file, SECTION)?, section(&file, BASE_SECTION)))
}

fn section<'d>(file: &File<'d>, name: &str) -> Option<&'d [u8]> {
    file.section_by_name(name)?.data().ok().filter(|bytes| !bytes.is_empty())
}

/// The BTF of a kernel, which that of its modules continues.
pub struct Base<'d>(Part<'d>);

impl<'d> Base<'d> {
    /// The BTF of `file`, which is ELF or BTF itself.
    ///
    /// # Errors
    ///
    /// There is none, or it is malformed.
    pub fn read(file: &'d [u8]) -> Result<Self, Error> {
        let (bytes, _) = find(file).ok_or(Error::Missing)?;
        Part::read(bytes, None).map(Self)
    }
}

/// The functions in the BTF of `file`, which is ELF or BTF itself. `base` is that of the kernel, which
/// split BTF needs. It is ignored if the file has a base of its own, or isn't split.
///
/// # Errors
///
/// There is no BTF, or it is malformed, or needs a base.
#[expect(
    clippy::redundant_closure_for_method_calls,
    reason = "the method is for one lifetime, not for any"
)]
pub fn functions(file: &[u8], base: Option<&Base<'_>>) -> Result<Functions, Error> {
    with_btf(file, base, |btf| btf.functions())
}

/// Where functions were inlined, by their names: sections of code, and offsets in them in bytes.
pub type InlinedAt = BTreeMap<String, Vec<(Arc<str>, u64)>>;

/// Where functions were inlined, by the BTF of `file` and by its `.BTF.inline`. The rest is as for [`functions`].
///
/// # Errors
///
/// There is no BTF, or it is malformed, or needs a base.
pub fn inlined(file: &[u8], base: Option<&Base<'_>>) -> Result<InlinedAt, Error> {
    let inline = File::parse(file).ok();
    let inline = inline.as_ref().and_then(|file| section(file, INLINE_SECTION));
    with_btf(file, base, |btf| {
        let mut places = InlinedAt::new();
        btf.inlined(&mut places)?;
        if let Some(inline) = inline {
            let own = Part::read(inline, Some(btf.own))?;
            Btf { own: &own, before: Some(btf) }.inlined(&mut places)?;
        }
        for places in places.values_mut() {
            places.sort_unstable();
            places.dedup();
        }
        Ok(places)
    })
}

/// What `ask` says of the BTF of `file`, with what it continues.
fn with_btf<T>(
    file: &[u8],
    base: Option<&Base<'_>>,
    ask: impl FnOnce(&Btf<'_, '_>) -> Result<T, Error>,
) -> Result<T, Error> {
    let (own, own_base) = find(file).ok_or(Error::Missing)?;
    if reader::is_whole(own)? {
        return ask(&Btf { own: &Part::read(own, None)?, before: None });
    }
    let read;
    let base = match (own_base, base) {
        (Some(own_base), _) => {
            read = Part::read(own_base, None)?;
            &read
        }
        (None, Some(Base(base))) => base,
        (None, None) => return Err(Error::NeedsBase),
    };
    let own = Part::read(own, Some(base))?;
    ask(&Btf { own: &own, before: Some(&Btf { own: base, before: None }) })
}

/// BTF with what it continues.
struct Btf<'p, 'd> {
    own: &'p Part<'d>,
    before: Option<&'p Btf<'p, 'd>>,
}

impl<'d> Btf<'_, 'd> {
    fn functions(&self) -> Result<Functions, Error> {
        let mut functions = Functions::new();
        for function in self.own.types.iter().filter(|found| found.kind == Kind::Function) {
            let name = self.name(function)?;
            if name.is_empty() {
                continue;
            }
            functions.entry(name).or_default().push(self.prototype(function.target));
        }
        Ok(functions)
    }

    /// Adds to `places` where functions were inlined, by this part and not by those before it.
    fn inlined(&self, places: &mut InlinedAt) -> Result<(), Error> {
        for section in self.own.types.iter().filter(|found| found.kind == Kind::Places) {
            let name = self.name(section)?;
            // The series has had both `.text` and `inline.text` for `.text`.
            let plain = name.strip_prefix("inline").filter(|rest| rest.starts_with('.'));
            let code: Arc<str> = Arc::from(plain.unwrap_or(&name));
            for (function, offset) in self.own.places(section) {
                let function = self.get(function).filter(|(_, one)| one.kind == Kind::Function);
                let (_, function) =
                    function.ok_or(Error::Malformed("what was inlined is no function"))?;
                let name = self.name(function)?;
                places.entry(name).or_default().push((Arc::clone(&code), offset.into()));
            }
        }
        Ok(())
    }

    /// The name of `found`.
    fn name(&self, found: &Type) -> Result<String, Error> {
        let name = self.string(found.name).ok_or(Error::Malformed("a name isn't in it"))?;
        Ok(String::from_utf8_lossy(name).into_owned())
    }

    /// The string at `offset`, without its zero.
    fn string(&self, offset: u32) -> Option<&'d [u8]> {
        match self.before {
            Some(before) if offset < self.own.first_string => before.string(offset),
            _ => self.own.string(offset),
        }
    }

    /// The type `id`, and the part that it is in.
    fn get(&self, id: u32) -> Option<(&Part<'d>, &Type)> {
        match self.before {
            Some(before) if id < self.own.first_type => before.get(id),
            _ => Some((self.own, self.own.get(id)?)),
        }
    }

    /// The type that `id` comes to without names, `const` and the like. `None` if it is no type, or is
    /// its own.
    fn resolved(&self, id: u32) -> Option<&Type> {
        let mut id = id;
        for _ in 0..LONGEST_CHAIN {
            let (_, found) = self.get(id)?;
            if found.kind != Kind::Alias {
                return Some(found);
            }
            id = found.target;
        }
        None
    }

    /// What BPF thinks of the prototype `id`.
    fn prototype(&self, id: u32) -> Prototype {
        let found = self.get(id).filter(|(_, found)| found.kind == Kind::Prototype);
        let Some((part, prototype)) = found else { return Prototype::Unknown };
        let arguments: Vec<u32> = part.arguments(prototype).collect();
        if arguments.last() == Some(&0) {
            return Prototype::Variadic;
        }
        if arguments.len() > MOST_ARGUMENTS {
            return Prototype::ManyArguments(arguments.len());
        }
        // 0 is void.
        if prototype.target != 0
            && !self.resolved(prototype.target).is_some_and(|found| found.kind.is_scalar())
        {
            return Prototype::Returns;
        }
        for argument in arguments {
            match self.resolved(argument) {
                Some(found) if found.kind.is_scalar() => {}
                Some(found) if found.kind == Kind::Structure => {
                    if found.target > LARGEST_ARGUMENT {
                        return Prototype::LargeArgument(found.target);
                    }
                }
                _ => return Prototype::Unknown,
            }
        }
        Prototype::Fine
    }
}
