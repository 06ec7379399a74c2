//! The configuration of a kernel that is as small as it can be and still shows its tracer.

/// Options that every kernel has: the tracer, its self tests, modules, and a user space.
const CONFIG: &str = "\
CONFIG_PRINTK=y
CONFIG_TTY=y
CONFIG_BLK_DEV_INITRD=y
CONFIG_BINFMT_ELF=y
CONFIG_PROC_FS=y
CONFIG_SYSFS=y
CONFIG_DEBUG_FS=y
CONFIG_FTRACE=y
CONFIG_FUNCTION_TRACER=y
CONFIG_FUNCTION_GRAPH_TRACER=y
CONFIG_DYNAMIC_FTRACE=y
CONFIG_FTRACE_STARTUP_TEST=y
CONFIG_EVENT_TRACE_STARTUP_TEST=n
CONFIG_KALLSYMS=y
CONFIG_MULTIUSER=y
CONFIG_FUTEX=y
CONFIG_POSIX_TIMERS=y
CONFIG_MODULES=y
";

/// What Kbuild is told when the recorder runs on each object where the compiler or objtool would
/// record; a variable of the command line wins over the file with the configuration.
pub(super) const BY_RECORDMCOUNT: &[&str] = &[
    "CONFIG_FTRACE_MCOUNT_USE_CC=",
    "CONFIG_FTRACE_MCOUNT_USE_OBJTOOL=",
    "CONFIG_FTRACE_MCOUNT_USE_RECORDMCOUNT=y",
];

/// The same where the compiler records, which Kbuild has found out itself.
pub(super) const BY_COMPILER: &[&str] = &[];

/// The same for objects that nobody records.
pub(super) const BY_NOBODY: &[&str] = &[
    "CONFIG_FTRACE_MCOUNT_USE_CC=",
    "CONFIG_FTRACE_MCOUNT_USE_OBJTOOL=",
    "CONFIG_FTRACE_MCOUNT_USE_RECORDMCOUNT=",
];

/// `base`, the `.config` of `make allnoconfig`, with what all kernels, this machine and the caller
/// want; the last line about an option counts.
pub(super) fn compose(base: &str, machine: &[&str], more: &str) -> String {
    let mut text = base.to_owned();
    for part in [CONFIG].iter().chain(machine).chain([&more]) {
        text.push_str(part);
        if !text.ends_with('\n') {
            text.push('\n');
        }
    }
    text
}

/// The options that were wanted and that `make olddefconfig` dropped, for what they depend on is not
/// there.
pub(super) fn dropped(config: &str, machine: &[&str], more: &str) -> Vec<String> {
    let has = |option: &str| config.lines().any(|line| line == option);
    let wanted = [CONFIG].iter().chain(machine).chain([&more]).flat_map(|part| part.lines());
    let options = wanted.filter(|line| line.starts_with("CONFIG_") && !line.ends_with("=n"));
    options.filter(|option| !has(option)).map(str::to_owned).collect()
}

/// The compiler and its major version, as Kconfig found it.
pub(super) fn compiler(config: &str) -> String {
    let version = |option: &str| -> Option<u32> {
        let line = config.lines().find_map(|line| line.strip_prefix(option))?;
        line.parse().ok().filter(|version| *version > 0)
    };
    let gcc = version("CONFIG_GCC_VERSION=").map(|version| ("gcc", version));
    let clang = || version("CONFIG_CLANG_VERSION=").map(|version| ("clang", version));
    let found = gcc.or_else(clang);
    found.map_or_else(String::new, |(name, version)| format!("{name} {}", version / 10_000))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_compiler_of_a_configuration() {
        let gcc = "CONFIG_CC_IS_GCC=y\nCONFIG_GCC_VERSION=120200\nCONFIG_CLANG_VERSION=0\n";
        assert_eq!(compiler(gcc), "gcc 12");
        let clang = "CONFIG_GCC_VERSION=0\nCONFIG_CLANG_VERSION=140006\n";
        assert_eq!((compiler(clang).as_str(), compiler("").as_str()), ("clang 14", ""));
    }

    #[test]
    fn an_option_that_kconfig_dropped_is_named() {
        let config = compose("# CONFIG_TTY is not set\n", &["CONFIG_MMU=y\n"], "CONFIG_SMP=n");
        assert!(config.starts_with("# CONFIG_TTY is not set\nCONFIG_PRINTK=y\n"));
        assert!(config.ends_with("CONFIG_MODULES=y\nCONFIG_MMU=y\nCONFIG_SMP=n\n"));
        assert!(dropped(&config, &["CONFIG_MMU=y\n"], "CONFIG_SMP=n").is_empty());
        let without = config.replace("CONFIG_FUNCTION_TRACER=y\n", "");
        assert_eq!(dropped(&without, &[], ""), ["CONFIG_FUNCTION_TRACER=y"]);
    }

    #[test]
    fn every_machine_is_complete() {
        for machine in super::super::machines::MACHINES {
            let name = machine.name;
            assert!(!name.is_empty() && !machine.arch.is_empty(), "{name}");
            assert!(machine.qemu.len() > 1 && machine.arguments.contains("console="), "{name}");
            let of_versions = machine.config_of.iter().map(|(_, part)| part);
            for line in machine.config.iter().chain(of_versions).flat_map(|part| part.lines()) {
                let value = line.strip_prefix("CONFIG_").and_then(|line| line.split_once('='));
                assert!(value.is_some_and(|(_, value)| ["y", "n"].contains(&value)), "{line}");
            }
        }
    }
}
