//! The floor of a row: the time to touch just the bytes that must be read, and to write as many as
//! must be written, in one process that is running already.

use memmap2::Mmap;
use object::read::elf::{ElfFile64, FileHeader as _, SectionHeader as _};
use object::{Endianness, elf};
use std::fs::File;
use std::hint::black_box;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::time::Instant;

use super::row::Reads;
use crate::{Result, files};

/// From this size on, in bytes, a file is mapped; a smaller one is read.
const MAP_FROM: u64 = 128 * 1024;

/// What is read and written of one file.
struct Need {
    path: PathBuf,
    /// It is a copy that is made anew for every run.
    is_copy: bool,
    reads: Vec<Range<usize>>,
    appends: usize,
}

/// What is read and written.
pub(crate) struct Needs {
    files: Vec<Need>,
    /// Bytes that are printed.
    prints: usize,
}

impl Needs {
    /// `growth` is by how many bytes each file grows, `printed` how many bytes are printed.
    pub(crate) fn of(reads: &Reads, growth: Vec<u64>, printed: u64) -> Result<Self> {
        let mut needs = Self { files: Vec::new(), prints: 0 };
        match reads {
            Reads::Relocations(paths) => {
                for (path, growth) in paths.iter().zip(growth) {
                    let reads = ranges(&files::open(path)?, false)?;
                    let (path, appends) = (path.clone(), usize::try_from(growth)?);
                    needs.files.push(Need { path, is_copy: true, reads, appends });
                }
            }
            Reads::ImageRelocations(path) | Reads::Table(path) => {
                let reads = ranges(&files::open(path)?, matches!(reads, Reads::Table(_)))?;
                needs.files.push(Need { path: path.clone(), is_copy: false, reads, appends: 0 });
                needs.prints = usize::try_from(printed)?;
            }
        }
        Ok(needs)
    }
}

/// Seconds that one run takes.
pub(crate) fn run(needs: &Needs, work: &Path) -> Result<f64> {
    let output = files::create(&work.with_file_name("output"))?;
    let begin = Instant::now();
    let mut new = Vec::new();
    for need in &needs.files {
        let file =
            if need.is_copy { open_copy(&need.path, work)? } else { files::open(&need.path)? };
        let size = file.metadata()?.len();
        if size >= MAP_FROM {
            touch(&map(&file)?, &need.reads);
        } else {
            let mut bytes = vec![0; usize::try_from(size)?];
            file.read_exact_at(&mut bytes, 0)?;
            touch(&bytes, &need.reads);
        }
        if need.is_copy {
            new.resize(need.appends, 1);
            file.write_all_at(&new, size)?;
            file.write_all_at(new.get(..64).unwrap_or(&new), 0)?;
        }
    }
    output.write_all_at(&vec![1; needs.prints], 0)?;
    Ok(begin.elapsed().as_secs_f64())
}

/// Opens the copy of `path` that is in `work`.
fn open_copy(path: &Path, work: &Path) -> Result<File> {
    let name = path.file_name().ok_or("an input without name")?;
    files::update(&work.join(name))
}

/// Adds up every word of `ranges`.
fn touch(bytes: &[u8], ranges: &[Range<usize>]) {
    let mut sum = 0u64;
    for range in ranges {
        let (words, _) = bytes.get(range.clone()).unwrap_or_default().as_chunks::<8>();
        for word in words {
            sum = sum.wrapping_add(u64::from_ne_bytes(*word));
        }
    }
    black_box(sum);
}

fn map(file: &File) -> Result<Mmap> {
    // SAFETY: a file of this chore's own folder, which nobody shortens meanwhile.
    Ok(unsafe { Mmap::map(file)? })
}

/// The ranges of a file with symbols, names, and the relocations of code or the table.
fn ranges(file: &File, table: bool) -> Result<Vec<Range<usize>>> {
    let map = map(file)?;
    let elf = ElfFile64::<Endianness>::parse(&*map)?;
    let (endian, sections) = (elf.endian(), elf.elf_section_table());
    let mut ranges = Vec::new();
    let mut symbols = Vec::new();
    for section in sections.iter() {
        let target = sections.section(section.info_link(endian));
        let is_code = |flags: elf::SectionFlags| flags.0 & elf::SHF_EXECINSTR.0 != 0;
        let of_code = target.is_ok_and(|target| is_code(target.sh_flags(endian)));
        let is_wanted = match section.sh_type(endian) {
            elf::SHT_SYMTAB => {
                symbols.push(section.link(endian));
                true
            }
            elf::SHT_RELA => of_code && !table,
            _ => false,
        };
        if is_wanted {
            ranges.extend(range(section.file_range(endian)));
        }
    }
    for strings in symbols {
        ranges.extend(range(sections.section(strings)?.file_range(endian)));
    }
    let headers = usize::try_from(elf.elf_header().e_shoff(endian))?;
    ranges.push(headers..headers + sections.len() * 64);
    if table {
        ranges.extend(bounds(&elf));
    }
    Ok(ranges)
}

fn range(found: Option<(u64, u64)>) -> Option<Range<usize>> {
    let (offset, size) = found?;
    let offset = usize::try_from(offset).ok()?;
    Some(offset..offset.checked_add(usize::try_from(size).ok()?)?)
}

/// Where the table of a kernel image is in the file.
fn bounds(elf: &ElfFile64<'_, Endianness>) -> Option<Range<usize>> {
    use object::{Object as _, ObjectSection as _, ObjectSymbol as _};
    let value = |name: &str| elf.symbol_by_name(name).map(|symbol| symbol.address());
    let (start, stop) = (value("__start_mcount_loc")?, value("__stop_mcount_loc")?);
    let holds = |section: &object::read::elf::ElfSection64<'_, '_, Endianness>| {
        section.address() <= start && stop <= section.address() + section.size()
    };
    let section = elf.sections().find(holds)?;
    let (offset, _) = section.file_range()?;
    range(Some((offset + (start - section.address()), stop - start)))
}

/// Entries in the table of the object `file`; 0 if it has none.
pub(crate) fn entries(file: &File) -> Result<u64> {
    use object::{Object as _, ObjectSection as _};
    let map = map(file)?;
    let elf = ElfFile64::<Endianness>::parse(&*map)?;
    Ok(elf.section_by_name("__mcount_loc").map_or(0, |section| section.size() / 8))
}
