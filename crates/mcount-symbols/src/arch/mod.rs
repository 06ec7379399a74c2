//! What depends on the processor, as numbers of ELF.

use crate::unpack::Raw;
use object::FileFlags;
use object::elf as constants;
use object::read::{File, Object};

/// A kernel that is no ELF, as one.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Processor {
    /// `e_machine`.
    pub(crate) machine: u16,
    pub(crate) is_64: bool,
    pub(crate) big_endian: bool,
    /// `e_flags`.
    pub(crate) flags: u32,
    /// The type of its relocations that add the base, if kernels have such in their image.
    pub(crate) relative: Option<u64>,
}

impl Processor {
    /// The processor of a kernel of this kind; `None` if the kind doesn't say it.
    pub(crate) fn of(raw: Raw) -> Option<Self> {
        let (machine, is_64, big_endian, flags, relative) = match raw {
            Raw::Arm64 => (constants::EM_AARCH64, true, false, 0, constants::R_AARCH64_RELATIVE),
            // With compressed instructions.
            Raw::RiscV => (constants::EM_RISCV, true, false, 1, constants::R_RISCV_RELATIVE),
            Raw::LoongArch => {
                (constants::EM_LOONGARCH, true, false, 0x43, constants::R_LARCH_RELATIVE)
            }
            Raw::Arm => (constants::EM_ARM, false, false, 0x0500_0000, constants::R_ARM_RELATIVE),
            Raw::S390 => (constants::EM_S390, true, true, 0, constants::R_390_RELATIVE),
            Raw::DeviceTree | Raw::Android | Raw::Pe | Raw::Cpio => return None,
        };
        let (machine, relative) = (machine.0, Some(u64::from(relative.0)));
        Some(Self { machine, is_64, big_endian, flags, relative })
    }

    /// The processor of the ELF image `wrapper`, which unpacks a kernel that is no ELF.
    pub(crate) fn of_wrapper(wrapper: &[u8]) -> Option<Self> {
        let file = File::parse(wrapper).ok()?;
        let FileFlags::Elf { e_flags, .. } = file.flags() else { return None };
        let field = *wrapper.get(18..)?.first_chunk::<2>()?;
        let big_endian = !file.is_little_endian();
        let machine =
            if big_endian { u16::from_be_bytes(field) } else { u16::from_le_bytes(field) };
        let is_64 = file.is_64();
        Some(Self { machine, is_64, big_endian, flags: e_flags.0, relative: None })
    }
}
