//! The C library, the library of C++ and gcc's start files of LoongArch, which this Debian doesn't have and the next one does, and an
//! emulator that knows the vector registers that they use.

use std::path::{Path, PathBuf};

use crate::{Result, files, newer};

/// The emulator is linked statically, so it runs here.
const FETCH: &str = r#"
(
	cd deb
	apt-get -qq download libc6-loong64-cross libc6-dev-loong64-cross linux-libc-dev-loong64-cross libgcc-s1-loong64-cross \
		libgcc-14-dev-loong64-cross libstdc++6-loong64-cross libstdc++-14-dev-loong64-cross libatomic1-loong64-cross qemu-user
)
for package in deb/*-cross_*.deb; do dpkg-deb -x "$package" .; done
dpkg-deb --fsys-tarfile deb/qemu-user_*.deb | tar x ./usr/bin/qemu-loongarch64
"#;

/// `e_machine` of LoongArch, and the types of two program headers, as the ELF specification and `elf.h` have them.
const EM_LOONGARCH: u16 = 258;
const PT_GNU_EH_FRAME: u32 = 0x6474_e550;
const PT_NULL: u32 = 0;

/// Makes the folder of all that, if it isn't there.
pub fn fetch() -> Result<PathBuf> {
    newer::make("loongarch64", FETCH, mend)
}

/// Changes what's wrong in the emulator.
fn mend(folder: &Path) -> Result<()> {
    let emulator = folder.join("usr/bin/qemu-loongarch64");
    let mut bytes = files::read(&emulator)?;
    hide_unwind_information(&mut bytes).ok_or("QEMU has no vDSO for LoongArch")?;
    files::write(&emulator, &bytes)
}

/// What a signal handler returns to is in a small library that the emulator has for its programs (vDSO). In QEMU 10.0 its unwind
/// information finds the caller by `$tp` instead of `$sp`, and by a register that libgcc doesn't take for an address. Without it, libgcc
/// knows that code by its instructions. So this makes its program header one of no meaning.
fn hide_unwind_information(emulator: &mut [u8]) -> Option<()> {
    const HEADER: usize = 64;
    const ENTRY: usize = 56;
    let machine = EM_LOONGARCH.to_le_bytes();
    let is_library =
        |bytes: &[u8]| bytes.starts_with(b"\x7fELF") && bytes.get(18..20) == Some(&machine);
    let start = emulator.windows(HEADER).position(is_library)?;
    let entries = emulator.get_mut(start + HEADER..)?.chunks_exact_mut(ENTRY);
    let kind = PT_GNU_EH_FRAME.to_le_bytes();
    // It has five.
    let entry = entries.take(5).find(|entry| entry.starts_with(&kind))?;
    entry.get_mut(..kind.len())?.copy_from_slice(&PT_NULL.to_le_bytes());
    Some(())
}
