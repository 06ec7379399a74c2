//! Kernel images: where the compressed kernel in them is. Also raw binaries, which some processors boot,
//! and which aren't ELF.
//!
//! Some processors boot an ELF image that unpacks the kernel, which is in one of its sections.
//!
//! Sources: the kernel's documents x86/boot, arm/booting, arch/arm64/booting, arch/riscv/boot-image
//! and admin-guide/efi-stub with the header of EFI zboot images; U-Boot's `include/image.h`; the
//! PE/COFF specification; the Devicetree specification, 5.2; Android's `bootimg.h`.

use super::Error;
use super::streams::{self, Compression};
use crate::files::ELF_MAGIC;
use object::read::{File, Object, ObjectSection};
use object::{Architecture, ObjectKind};
use std::ops::Range;

/// A machine of s390 loads this first: a program status word, and two commands for the channel.
const S390_START: [u8; 16] = [0, 8, 0, 0, 0x80, 0, 2, 0, 2, 0, 0, 0x18, 0x60, 0, 0, 0x50];

/// The payload of a kernel image.
pub(super) struct Payload<'d> {
    /// The kind of image.
    pub(super) container: &'static str,
    /// The payload. There may be something after it.
    pub(super) bytes: &'d [u8],
}

const BZIMAGE: &str = "bzImage";
const ZIMAGE: &str = "arm zImage";
const ZBOOT: &str = "EFI zboot image";
const UIMAGE: &str = "uImage";
pub(super) const S390: &str = "s390 bzImage";

/// Every kernel has this text, because it prints it first.
pub(super) const BANNER: &[u8] = b"Linux version ";

/// How many streams to try if no header says where the payload is. In random bytes, something looks like
/// a stream every few megabytes.
const CANDIDATES: usize = 256;

/// The kind of kernel image that begins with these bytes, of which the first KiB is enough. `None` if it
/// isn't one with a payload.
pub(super) fn container(bytes: &[u8]) -> Option<&'static str> {
    Some(if at(bytes, 0x202, b"HdrS") && at(bytes, 0x1fe, &[0x55, 0xaa]) {
        BZIMAGE
    } else if at(bytes, 0, b"MZ") && at(bytes, 4, b"zimg") {
        ZBOOT
    } else if zimage_order(bytes).is_some() {
        ZIMAGE
    } else if at(bytes, 0, &[0x27, 0x05, 0x19, 0x56]) {
        UIMAGE
    } else if at(bytes, 0, &S390_START) {
        S390
    } else {
        return None;
    })
}

/// The payload of the kernel image `bytes`. `None` if it isn't a kernel image.
///
/// # Errors
///
/// No payload was found.
pub(super) fn payload(bytes: &[u8]) -> Result<Option<Payload<'_>>, Error> {
    let Some(container) = container(bytes) else { return Ok(None) };
    let place = match container {
        BZIMAGE => bzimage(bytes),
        ZBOOT => zboot(bytes),
        ZIMAGE => search(bytes, 0x34),
        S390 => search(bytes, 0x1_0000),
        _ => return uimage(bytes).map(Some),
    };
    let bytes = place.and_then(|place| bytes.get(place)).ok_or(Error::NoPayload(container))?;
    Ok(Some(Payload { container, bytes }))
}

/// From boot protocol 2.08 on (Linux 2.6.26), the header says where the payload is. Before, it is behind
/// the real-mode code.
fn bzimage(bytes: &[u8]) -> Option<Range<usize>> {
    const SECTOR: usize = 512;
    let sectors = match *bytes.get(0x1f1)? {
        0 => 4,
        sectors => usize::from(sectors),
    };
    let code = (sectors + 1) * SECTOR;
    let version = u16::from_le_bytes(*bytes.get(0x206..)?.first_chunk()?);
    if version >= 0x208 {
        let start = code.checked_add(little(bytes, 0x248)?)?;
        let place = start..start.checked_add(little(bytes, 0x24c)?)?;
        let payload = bytes.get(place.clone());
        if payload
            .is_some_and(|bytes| Compression::of(bytes).is_some() || bytes.starts_with(ELF_MAGIC))
        {
            return Some(place);
        }
    }
    search(bytes, code)
}

fn zboot(bytes: &[u8]) -> Option<Range<usize>> {
    let start = little(bytes, 8)?;
    Some(start..start.checked_add(little(bytes, 12)?)?)
}

/// The byte order of the magic number of an arm zImage.
fn zimage_order(bytes: &[u8]) -> Option<bool> {
    const MAGIC: u32 = 0x016f_2818;
    let found = *bytes.get(0x24..)?.first_chunk()?;
    if found == MAGIC.to_le_bytes() {
        return Some(false);
    }
    (found == MAGIC.to_be_bytes()).then_some(true)
}

/// A big-endian header of 64 bytes, and then the body, which may be compressed.
fn uimage(bytes: &[u8]) -> Result<Payload<'_>, Error> {
    const HEADER: usize = 64;
    /// The `ih_type` of an image with several files.
    const MULTI: u8 = 4;
    /// The `ih_comp` of LZO.
    const LZO: u8 = 4;
    let missing = || Error::NoPayload(UIMAGE);
    let size =
        u32::from_be_bytes(*bytes.get(12..).and_then(<[u8]>::first_chunk).ok_or_else(missing)?);
    let end = HEADER.saturating_add(size as usize);
    let body = bytes.get(HEADER..end).ok_or(Error::Corrupt(UIMAGE, "truncated"))?;
    match (bytes.get(30), bytes.get(31)) {
        (Some(&MULTI), _) => Err(Error::Unsupported("a uImage of several files")),
        (_, Some(&LZO)) => Err(Error::Unsupported("a uImage with lzo")),
        _ => Ok(Payload { container: UIMAGE, bytes: body }),
    }
}

/// The first stream in `bytes`, from `start` on, whose contents we recognize. Code may look like a stream
/// by chance, so a stream with unknown contents is only used if there is no other.
fn search(bytes: &[u8], start: usize) -> Option<Range<usize>> {
    let mut second = None;
    for place in Compression::positions(bytes, start).take(CANDIDATES) {
        let stream = bytes.get(place..).unwrap_or_default();
        let format = Compression::of(stream)?;
        if format == Compression::Lz4Legacy {
            second = second.or(Some(place));
            continue;
        }
        match streams::peek::<64>(stream, format) {
            Some(head) if head.starts_with(ELF_MAGIC) || raw(&head).is_some() => {
                return Some(place..bytes.len());
            }
            Some(_) if second.is_none() && streams::reaches(stream, format, SMALLEST) => {
                second = Some(place);
            }
            _ => {}
        }
    }
    second.map(|place| place..bytes.len())
}

/// Fewer bytes aren't a kernel.
const SMALLEST: u64 = 16 << 10;
/// How far into a section the compressed kernel may be, in bytes.
const SECTION_START: usize = 4096;

/// The compressed kernel in the ELF image `image`, which unpacks it: MIPS's `vmlinuz` has it in `.data`, and
/// PowerPC's in a section of its own. `None` if this isn't such an image. It has neither symbols nor anything for
/// a dynamic linker.
pub(super) fn in_elf(image: &[u8]) -> Option<(&[u8], Compression)> {
    let file = File::parse(image).ok()?;
    let is_wrapper = matches!(
        file.architecture(),
        Architecture::Mips | Architecture::Mips64 | Architecture::PowerPc | Architecture::PowerPc64
    );
    if !is_wrapper
        || file.kind() != ObjectKind::Executable
        || file.symbol_table().is_some()
        || file.dynamic_symbol_table().is_some()
    {
        return None;
    }
    let data = file.sections().filter_map(|section| section.data().ok());
    let mut streams = data.filter_map(|data| {
        let start = data.get(..SECTION_START.min(data.len()))?;
        let at = Compression::positions(start, 0).find(|at| at % 4 == 0)?;
        data.get(at..)
    });
    let stream = streams.find(|stream| {
        Compression::of(stream).is_some_and(|format| streams::peek::<64>(stream, format).is_some())
    })?;
    Some((stream, Compression::of(stream)?))
}

/// A raw binary. It isn't ELF, and has neither sections nor symbols.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Raw {
    /// A kernel for arm64.
    Arm64,
    /// A kernel for RISC-V.
    RiscV,
    /// A kernel for LoongArch.
    LoongArch,
    /// A kernel for arm.
    Arm,
    /// A kernel for s390.
    S390,
    /// A device tree, or a FIT image.
    DeviceTree,
    /// A boot image of Android.
    Android,
    /// A PE program.
    Pe,
    /// A cpio archive.
    Cpio,
}

impl Raw {
    /// Its name, with its article.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Arm64 => "an arm64 Image",
            Self::RiscV => "a RISC-V Image",
            Self::LoongArch => "a LoongArch Image",
            Self::Arm => "an arm Image",
            Self::S390 => "an s390 Image",
            Self::DeviceTree => "a device tree, or a FIT image",
            Self::Android => "an Android boot image",
            Self::Pe => "a PE program",
            Self::Cpio => "a cpio archive",
        }
    }
}

/// The kind of raw binary that begins with `bytes`, of which 64 are enough.
pub(super) fn raw(bytes: &[u8]) -> Option<Raw> {
    /// `mov r0, r0`, which the entry code of arm kernels begins with, seven times and more, or the
    /// kernel's first instruction: `bic`/`mrs r9, cpsr` and the switch of mode.
    const ARM_STARTS: [[u8; 4]; 3] =
        [[0, 0, 0xa0, 0xe1], [0x00, 0x90, 0x0f, 0xe1], [0x1f, 0x90, 0x29, 0xe2]];
    Some(if at(bytes, 0x38, b"ARM\x64") {
        Raw::Arm64
    } else if at(bytes, 0x38, b"RSC\x05") || at(bytes, 0x30, b"RISCV") {
        Raw::RiscV
    } else if at(bytes, 0, b"MZ") && at(bytes, 0x38, &[0xcd, 0x23, 0x82, 0x81]) {
        Raw::LoongArch
    } else if at(bytes, 0, &[0xd0, 0x0d, 0xfe, 0xed]) {
        Raw::DeviceTree
    } else if at(bytes, 0, b"ANDROID!") {
        Raw::Android
    } else if at(bytes, 0, b"MZ") {
        Raw::Pe
    } else if at(bytes, 0, b"07070") {
        Raw::Cpio
    } else if ARM_STARTS.iter().any(|start| at(bytes, 0, start) || at(bytes, 4, start)) {
        Raw::Arm
    } else {
        return None;
    })
}

/// Whether `bytes` have `what` at `offset`.
fn at(bytes: &[u8], offset: usize, what: &[u8]) -> bool {
    bytes.get(offset..).is_some_and(|rest| rest.starts_with(what))
}

/// The little-endian word at `offset`.
fn little(bytes: &[u8], offset: usize) -> Option<usize> {
    let word = *bytes.get(offset..)?.first_chunk()?;
    usize::try_from(u32::from_le_bytes(word)).ok()
}
