//! The code of an executable or a shared library, as its file has it, and what call sites mean there.

use mcount::CallSite;
use object::{Object, ObjectSegment, ObjectSymbol};

/// The bytes of a file by the address that they are linked at.
#[derive(Debug, Clone)]
pub struct Code<'d> {
    segments: Vec<(u64, &'d [u8])>,
    most: usize,
}

impl<'d> Code<'d> {
    /// Reads the segments of `file`. Each question gets at most `most` bytes: as many as a prologue may have.
    #[must_use]
    pub fn of(file: &impl Object<'d>, most: usize) -> Self {
        let segments = file.segments();
        let segments = segments.filter_map(|one| Some((one.address(), one.data().ok()?)));
        Self { segments: segments.collect(), most }
    }

    /// The bytes from `address` on, up to the limit: fewer at the end of a segment, and none if the file has nothing there.
    #[must_use]
    pub fn at(&self, address: u64) -> &'d [u8] {
        let from = |(start, bytes): &(u64, &'d [u8])| {
            let offset = usize::try_from(address.checked_sub(*start)?).ok()?;
            bytes.get(offset..).filter(|bytes| !bytes.is_empty())
        };
        let found = self.segments.iter().find_map(from).unwrap_or_default();
        found.get(..self.most).unwrap_or(found)
    }

    /// The bytes from one address to another; none if that's more than the limit.
    #[must_use]
    pub fn between(&self, start: u64, end: u64) -> &'d [u8] {
        let length = usize::try_from(end.wrapping_sub(start)).unwrap_or(usize::MAX);
        self.at(start).get(..length).unwrap_or_default()
    }

    /// The `size` bytes of the function at `address`, or those up to the limit.
    #[must_use]
    pub fn of_function(&self, address: u64, size: u64) -> &'d [u8] {
        let found = self.at(address);
        usize::try_from(size).ok().and_then(|size| found.get(..size)).unwrap_or(found)
    }
}

/// The address at which execution of a site begins, whose entry in the table is `recorded`. The area of a patchable entry may
/// begin before its function.
#[must_use]
pub fn entry_of(site: &CallSite, recorded: u64) -> u64 {
    let before = site.symbol_offset.filter(|offset| *offset < 0).map_or(0, i64::unsigned_abs);
    recorded.saturating_add(before)
}

/// Whether this is the symbol of `mcount_mark` (`include/mcount/mark.h`), in C or C++, or of a copy that link-time optimization has
/// made of it.
#[must_use]
pub fn is_mark(symbol: &str) -> bool {
    const NAME: &str = "mcount_mark";
    symbol.contains(NAME) && mcount::demangled(symbol).split(['(', '.', ' ']).next() == Some(NAME)
}

/// Whether calls of the function with this symbol return more than once: those of greenlet that switch stacks (`slp_switch` and
/// `g_switchstack`, in C or C++) return when a greenlet starts, and again when its parent goes on. A stub is ready for one return.
#[must_use]
pub fn returns_twice(symbol: &str) -> bool {
    const NAMES: [&str; 2] = ["slp_switch", "g_switchstack"];
    if !NAMES.iter().any(|name| symbol.contains(name)) {
        return false;
    }
    let full = mcount::demangled(symbol);
    let path = full.split(['(', '.', ' ']).next().unwrap_or_default();
    path.rsplit("::").next().is_some_and(|name| NAMES.contains(&name))
}

/// Must calls of this function not be watched, or did the compiler add them?
#[must_use]
pub fn is_left_out(symbol: &str) -> bool {
    /// These return twice, or keep the address that they return to.
    const KEEPS_RETURN: [&str; 9] = [
        "setjmp",
        "sigsetjmp",
        "sigsetjmp_cancel",
        "qsetjmp",
        "setjmp_syscall",
        "savectx",
        "vfork",
        "getcontext",
        "swapcontext",
    ];
    /// These find out who calls them.
    const KNOWS_CALLER: [&str; 4] = ["dlopen", "dlmopen", "dlsym", "dlvsym"];
    /// Calls of these are made by compilers, and by what they link to programs.
    const COMPILERS: [&str; 9] = [
        "libc_start_main",
        "gmon_start__",
        "cxa_finalize",
        "tls_get_addr",
        "mcount",
        "fentry__",
        "morestack",
        "cyg_profile_func_enter",
        "cyg_profile_func_exit",
    ];
    const PREFIXES: [&str; 9] = [
        "_Unwind_",
        "_ITM_",
        "_dl_",
        "__asan_",
        "__hwasan_",
        "__msan_",
        "__tsan_",
        "__ubsan_",
        "__sanitizer_",
    ];
    let name = symbol.trim_start_matches('_');
    [KEEPS_RETURN.as_slice(), &KNOWS_CALLER, &COMPILERS].iter().any(|all| all.contains(&name))
        || name.ends_with("_getcontext")
        || PREFIXES.iter().any(|prefix| symbol.starts_with(prefix))
}

/// Where `file` has functions with these names; 0 for those that it hasn't.
#[must_use]
pub fn definitions<'d, const N: usize>(file: &impl Object<'d>, names: [&str; N]) -> [u64; N] {
    let mut found = [0; N];
    for symbol in file.dynamic_symbols().chain(file.symbols()) {
        if !symbol.is_definition() {
            continue;
        }
        let Ok(name) = symbol.name() else { continue };
        let place = names.iter().position(|one| *one == name);
        if let Some(room) = place.and_then(|place| found.get_mut(place)) {
            *room = symbol.address();
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;
    use object::{File, ObjectSection};

    /// This program: an ELF file that the linker made, and whose functions' addresses `object` knows as well.
    fn with_this_program(look: impl FnOnce(&File<'_>)) {
        let mut bytes = Vec::new();
        let path = std::env::current_exe().unwrap();
        let file = std::fs::OpenOptions::new().read(true).open(path);
        std::io::Read::read_to_end(&mut file.unwrap(), &mut bytes).unwrap();
        look(&File::parse(&*bytes).unwrap());
    }

    #[unsafe(no_mangle)]
    #[inline(never)]
    extern "C" fn mcount_hooks_test_first(value: u64) -> u64 {
        std::hint::black_box(value) + 1
    }

    #[test]
    fn functions_are_found_and_their_code_is() {
        // Called by its address, so that it's there and has its name.
        let first: extern "C" fn(u64) -> u64 = std::hint::black_box(mcount_hooks_test_first);
        assert_eq!(first(1), 2);
        with_this_program(|file| {
            let names = ["nobody", "mcount_hooks_test_first"];
            let [nobody, first] = definitions(file, names);
            assert_eq!(nobody, 0);
            let code = Code::of(file, 24);
            let section = file.section_by_name(".text").unwrap();
            let expected = section.data_range(first, 24).unwrap().unwrap();
            assert_eq!(code.at(first), expected);
            assert_eq!(code.between(first, first + 7), &expected[..7]);
            assert_eq!(code.of_function(first, 5), &expected[..5]);
            assert_eq!(code.of_function(first, 0), b"");
            assert_eq!(code.of_function(first, 25), expected);
            assert_eq!(code.between(first, first + 25), b"");
            assert_eq!(code.between(first, first - 1), b"");
            assert_eq!(code.at(u64::MAX), b"");
        });
    }

    #[test]
    fn what_is_executed_of_a_site() {
        let site = |symbol_offset| {
            let mut site = CallSite::default();
            site.symbol_offset = symbol_offset;
            site
        };
        let table = [
            (None, 0x100, 0x100),
            (Some(4), 0x100, 0x100),
            (Some(-16), 0x100, 0x110),
            (Some(i64::MIN), u64::MAX, u64::MAX),
        ];
        for (offset, recorded, entry) in table {
            assert_eq!(entry_of(&site(offset), recorded), entry, "{offset:?}");
        }
    }

    #[test]
    fn markers_are_known_by_their_symbol() {
        let marks = [
            "mcount_mark",
            "_ZL11mcount_markPKc",
            "mcount_mark.lto_priv.0",
            "_ZL11mcount_markPKc.lto_priv.3",
            "mcount_mark.llvm.1234",
        ];
        assert!(marks.into_iter().all(is_mark));
        let others =
            ["mcount_marks", "my_mcount_mark", "_ZN4mine11mcount_markEPKc", "mcount_live_mark"];
        assert!(!others.into_iter().any(is_mark));
    }

    #[test]
    fn what_switches_the_stacks_of_greenlets_returns_twice() {
        let those = [
            "slp_switch",
            "slp_switch.isra.0",
            "_ZL10slp_switchv",
            "_ZN8greenlet8Greenlet13g_switchstackEv",
            "_ZN8greenlet8Greenlet13g_switchstackEv.constprop.0",
        ];
        for symbol in those {
            assert!(returns_twice(symbol), "{symbol}");
        }
        let others =
            ["slp_switch_stack", "_ZN8greenlet8Greenlet21g_switchstack_successEv", "switch"];
        for symbol in others {
            assert!(!returns_twice(symbol), "{symbol}");
        }
    }

    /// gcc's `special_function_p` and the manual of clang's `returns_twice` name these; and other forms that headers make of them.
    #[test]
    fn functions_that_return_twice_are_left_out() {
        let names = [
            "setjmp",
            "_setjmp",
            "__setjmp",
            "sigsetjmp",
            "__sigsetjmp",
            "savectx",
            "vfork",
            "__vfork",
            "getcontext",
            "setjmp_syscall",
            "qsetjmp",
            "__sigsetjmp_cancel",
            "_Ux86_64_getcontext",
            "__unw_getcontext",
        ];
        assert!(names.into_iter().all(is_left_out));
        let others =
            ["longjmp", "malloc", "fork", "setcontext", "mcountries", "png_setjmper", "exit"];
        assert!(!others.into_iter().any(is_left_out));
    }
}
