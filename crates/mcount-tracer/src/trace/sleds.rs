//! Sleds of LLVM's XRay (`-fxray-instrument`) as hooks. They're armed as other hooks are, but for what LLVM's own runtime does with
//! them, if it's linked to the program: it writes a call over a sled when it's asked to (`__xray_patch`), without looking at what is
//! there.

use mcount_hooks::code;
use object::Endianness;
use object::read::elf::ElfFile64;
use std::ffi::OsStr;

/// A function of the runtime.
const PATCH: &str = "__xray_patch";

/// Has `file` LLVM's runtime for its sleds?
pub(super) fn has_runtime(file: &ElfFile64<'_, Endianness>) -> bool {
    code::definitions(file, [PATCH]) != [0]
}

/// Does the runtime patch sleds when a program starts, with this in `XRAY_OPTIONS`? As in `AddressSanitizer`'s options, the last one counts.
pub(super) fn are_patched_first(options: &OsStr) -> bool {
    const NAME: &str = "patch_premain=";
    let options = options.to_string_lossy();
    let words = options.split([' ', ',', ':', '\n', '\t', '\r']);
    let mut values = words.filter_map(|word| word.strip_prefix(NAME));
    let value = values.next_back().map(|value| value.trim_matches(['"', '\'']));
    value.is_some_and(|value| ["1", "yes", "true"].contains(&value))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_of_the_runtime() {
        let rows = [
            ("", false),
            ("patch_premain=true", true),
            ("xray_mode=xray-basic,patch_premain=1", true),
            ("verbosity=1 patch_premain='yes'", true),
            ("patch_premain=true:patch_premain=false", false),
            ("dont_patch_premain=true", false),
        ];
        for (options, expected) in rows {
            assert_eq!(are_patched_first(OsStr::new(options)), expected, "{options}");
        }
    }
}
