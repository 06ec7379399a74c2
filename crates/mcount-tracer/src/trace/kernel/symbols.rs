//! The names of the kernel's functions, by their addresses (`/proc/kallsyms`).

use std::io;

/// Addresses and names, in the order of addresses.
#[derive(Debug, Default)]
pub(super) struct Symbols {
    all: Vec<(u64, Box<str>)>,
}

impl Symbols {
    /// Those of the kernel that runs.
    ///
    /// # Errors
    ///
    /// It doesn't tell.
    pub(super) fn read() -> io::Result<Self> {
        let text = std::fs::read_to_string("/proc/kallsyms")?;
        let symbols = Self::parse(&text);
        if symbols.all.iter().all(|(address, _)| *address == 0) {
            let hint = "addresses in /proc/kallsyms are hidden: sysctl kernel.kptr_restrict=1";
            return Err(io::Error::other(hint));
        }
        Ok(symbols)
    }

    /// The code among lines such as `ffffffff81000000 T name`, behind which there may be a module.
    fn parse(text: &str) -> Self {
        let line = |line: &str| {
            let mut words = line.split_ascii_whitespace();
            let address = u64::from_str_radix(words.next()?, 16).ok()?;
            let is_code = matches!(words.next()?, "t" | "T" | "w" | "W");
            let name = words.next()?;
            // `$x` and the like only say what is code and what is data (AArch64 ELF, "Mapping symbols").
            (is_code && !name.starts_with('$')).then_some((address, name.into()))
        };
        let mut all: Vec<(u64, Box<str>)> = text.lines().filter_map(line).collect();
        // Of several names, the kernel has the first one.
        all.sort_by_key(|(address, _)| *address);
        all.dedup_by_key(|(address, _)| *address);
        Self { all }
    }

    /// The name of the function that an address is in.
    pub(super) fn at(&self, address: u64) -> Option<&str> {
        let behind = self.all.partition_point(|(start, _)| *start <= address);
        self.all.get(behind.checked_sub(1)?).map(|(_, name)| &**name)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_in_functions() {
        let text = "0000000000001000 T first\n0000000000001000 T also\n0000000000003000 D data\n\
            0000000000002000 t $x.1\t[module]\n0000000000002000 t second\t[module]\n0000000000002010 t $x\nodd\n0000000000004000\n";
        let symbols = Symbols::parse(text);
        let rows = [
            (0xfff, None),
            (0x1000, Some("first")),
            (0x1004, Some("first")),
            (0x2000, Some("second")),
            (0x2010, Some("second")),
            (u64::MAX, Some("second")),
        ];
        for (address, expected) in rows {
            assert_eq!(symbols.at(address), expected, "{address:#x}");
        }
    }
}
