//! Who called: the function that has the address at which a call returns.

use super::super::program::{Loaded, Program};
use crate::trace::modules::Module;
use foldhash::HashMap;
use object::read::elf::{ElfFile64, Sym};
use object::{Endianness, StringTable, elf};
use std::collections::BTreeMap;

/// Who called a function.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Caller {
    /// The function with this number, which is sampled.
    Function(u32),
    /// Code of the module at this place in the list that isn't sampled.
    Module(u32),
}

/// Code of one module: where it begins, where it ends, and whose it is.
#[derive(Debug, Default)]
struct Code {
    from: u64,
    to: u64,
    /// In order of their beginnings. They may be in one another, where functions have several entries.
    functions: Vec<(u64, u64, u32)>,
}

/// Where the sampled functions of a program are.
#[derive(Debug, Default)]
pub(super) struct Callers {
    modules: Vec<Code>,
    /// What has been found out. There are no more of them than calls in the code of the program.
    known: HashMap<u64, Option<Caller>>,
    /// The newest address that was looked for, and what has that.
    newest: (u64, Option<Caller>),
}

impl Callers {
    /// More are forgotten: a program may make code as it runs.
    const MOST: usize = 1 << 20;

    /// Those of a program as it's loaded now, and the paths of its modules.
    pub(super) fn of(program: &Program) -> (Self, Vec<String>) {
        let (mut modules, mut paths) = (Vec::new(), Vec::new());
        for one in &program.loaded {
            let Some(module) = program.modules.at(one.index) else { continue };
            let (from, to) = one.extent(module);
            modules.push(Code { from, to, functions: functions(one, module) });
            paths.push(module.path.to_string_lossy().into_owned());
        }
        (Self { modules, ..Self::default() }, paths)
    }

    /// Whose code a call returns to, at this address.
    pub(super) fn find(&mut self, address: u64) -> Option<Caller> {
        if self.newest.0 != address {
            self.newest = (address, self.find_known(address));
        }
        self.newest.1
    }

    fn find_known(&mut self, address: u64) -> Option<Caller> {
        if let Some(known) = self.known.get(&address) {
            return *known;
        }
        if self.known.len() >= Self::MOST {
            self.known.clear();
        }
        let found = self.look_for(address);
        self.known.insert(address, found);
        found
    }

    fn look_for(&self, address: u64) -> Option<Caller> {
        // The call itself is before it, and may be a function's last instruction.
        let call = address.checked_sub(1)?;
        let is_in = |code: &Code| (code.from..code.to).contains(&call);
        let at = self.modules.iter().position(is_in)?;
        let function = self.modules.get(at)?.find(call);
        let module = u32::try_from(at).ok().map(Caller::Module);
        function.map(Caller::Function).or(module)
    }
}

impl Code {
    fn find(&self, address: u64) -> Option<u32> {
        let behind = self.functions.partition_point(|(from, ..)| *from <= address);
        let (_, to, number) = self.functions.get(behind.checked_sub(1)?)?;
        (address < *to).then_some(*number)
    }
}

/// The sampled functions of a module, with the parts of them that compilers move elsewhere.
fn functions(one: &Loaded, module: &Module) -> Vec<(u64, u64, u32)> {
    let wanted = module.hooks.iter().filter(|hook| hook.is_wanted);
    let place = |address: u64, size: u64, number: u32| {
        let from = one.bias.wrapping_add(address);
        (from, from.saturating_add(size.max(1)), number)
    };
    let mut all: Vec<_> =
        wanted.clone().map(|hook| place(hook.function, hook.size, hook.id)).collect();
    let mut by_name: BTreeMap<&str, Option<u32>> = BTreeMap::new();
    for hook in wanted {
        // Of two static functions with one name, nobody can tell whose part it is.
        let known = by_name.entry(&hook.name).or_insert(Some(hook.id));
        *known = known.filter(|id| *id == hook.id);
    }
    let of_part = |name: &str| by_name.get(whole(name)?).copied().flatten();
    all.extend(parts(one.bytes(), of_part).map(|(from, size, id)| place(from, size, id)));
    all.sort_unstable();
    all
}

/// The name of the function of which this is a part: gcc and clang put seldom executed code elsewhere, as `NAME.cold` or `NAME.cold.1`.
fn whole(name: &str) -> Option<&str> {
    let (whole, rest) = name.rsplit_once(".cold")?;
    let number = rest.strip_prefix('.').unwrap_or(rest);
    number.bytes().all(|byte| byte.is_ascii_digit()).then_some(whole)
}

/// The symbols of functions that are parts of others, in a module's file: address before the load bias, size, and what `of_part` says.
fn parts(
    bytes: &[u8],
    of_part: impl Fn(&str) -> Option<u32>,
) -> impl Iterator<Item = (u64, u64, u32)> {
    let file = ElfFile64::<Endianness>::parse(bytes).ok();
    let found = file.map(|file| {
        let (endian, table) = (file.endian(), file.elf_symbol_table());
        let strings: StringTable<'_> = table.strings();
        let part = |symbol: &elf::Sym64<Endianness>| {
            let name = symbol.name(endian, strings).ok()?;
            let number = of_part(std::str::from_utf8(name).ok()?)?;
            Some((symbol.st_value(endian), symbol.st_size(endian), number))
        };
        table.iter().filter_map(part).collect::<Vec<_>>()
    });
    found.into_iter().flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_have_the_names_of_their_functions() {
        let rows = [
            ("f.cold", Some("f")),
            ("f.part.0.cold", Some("f.part.0")),
            ("f.cold.12", Some("f")),
            ("f.colder", None),
            ("f", None),
        ];
        for (name, expected) in rows {
            assert_eq!(whole(name), expected, "{name}");
        }
    }

    #[test]
    fn the_call_is_before_the_address() {
        let code = Code { from: 100, to: 200, functions: vec![(110, 120, 7), (120, 130, 8)] };
        let mut callers = Callers { modules: vec![Code::default(), code], ..Callers::default() };
        let rows = [
            (110, Some(Caller::Module(1))),
            (111, Some(Caller::Function(7))),
            (120, Some(Caller::Function(7))),
            (121, Some(Caller::Function(8))),
            (131, Some(Caller::Module(1))),
            (100, None),
            (201, None),
            (0, None),
        ];
        for (address, expected) in rows.into_iter().chain(rows) {
            assert_eq!(callers.find(address), expected, "{address}");
        }
    }
}
