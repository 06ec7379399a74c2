//! The call sites of an image by what `objdump -d` prints, with the distances of docs/arches.md. Words in
//! memory come from the high-level half of the `object` crate, which the library does not use.

use object::read::{Object, ObjectSection, ObjectSymbol, RelocationTarget};
use object::{File, SectionKind};
use std::collections::{BTreeSet, HashMap};
use std::path::Path;
use std::process::Command;
use testkit::files;
use testkit::tools::Toolchain;

/// What a hook is called, on any processor.
const HOOKS: &[&str] =
    &["mcount", "_mcount", "__fentry__", "__gnu_mcount_nc", "._mcount", "_mcount+0x8"];

/// Parts of the names that linkers give to what leads to a function.
const STUBS: &[&str] = &[
    "veneer",
    "Thunk",
    "thunk",
    "plt_call",
    "plt_branch",
    "long_branch",
    "plt_pic32",
    ".pic.",
    "_from_",
    "__plt_",
];

/// Instructions between a load of the hook's address and the jump through it.
const WINDOW: usize = 16;

/// One line of a disassembly.
#[derive(Clone)]
struct Line {
    address: u64,
    mnemonic: String,
    operands: String,
}

impl Line {
    fn parse(line: &str) -> Option<Self> {
        let (address, rest) = line.trim_start().split_once(':')?;
        let address = u64::from_str_radix(address, 16).ok()?;
        let mut words = rest.trim().splitn(2, [' ', '\t']);
        let mnemonic = words.next().unwrap_or_default().to_owned();
        Some(Self { address, mnemonic, operands: words.next().unwrap_or_default().trim().into() })
    }

    /// The symbol that the last operand, or the comment, names.
    fn symbol(&self) -> Option<&str> {
        let start = self.operands.rfind('<')?;
        self.operands.get(start + 1..)?.split('>').next()
    }

    /// The registers of the operands, or what stands for them, in order.
    fn words(&self) -> Vec<&str> {
        let operands = self.operands.split(['#', '!', '<']).next().unwrap_or_default();
        operands.split([',', '(', ')', ' ']).filter(|word| !word.is_empty()).collect()
    }

    fn word(&self, index: usize) -> &str {
        self.words().get(index).copied().unwrap_or_default()
    }

    fn number(&self, index: usize) -> i64 {
        number(self.word(index)).unwrap_or(0)
    }
}

fn number(text: &str) -> Option<i64> {
    let (sign, digits) = text.strip_prefix('-').map_or((1, text), |digits| (-1, digits));
    let value = match digits.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok()?.cast_signed(),
        None => digits.parse().ok()?,
    };
    Some(value.wrapping_mul(sign))
}

fn is_hook(name: &str) -> bool {
    let name = name.split('@').next().unwrap_or_default();
    let leads = name.contains("mcount") || name.contains("__fentry__");
    HOOKS.contains(&name) || leads && STUBS.iter().any(|part| name.contains(part))
}

/// The recorded addresses of all calls of a hook.
pub(crate) fn calls(toolchain: &Toolchain, image: &Path) -> Result<BTreeSet<u64>, String> {
    let mut command = Command::new(toolchain.utility("objdump"));
    command.args(["-d", "--no-show-raw-insn"]).arg(image);
    // More than a pipe holds.
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    let text = String::from_utf8_lossy(&output.stdout);
    let bytes = files::read(image)?;
    let memory = Memory::new(&bytes)?;
    let mut found = BTreeSet::new();
    let mut reader = Reader { memory, before: Vec::new(), registers: HashMap::new() };
    for line in text.lines() {
        if line.ends_with(">:") {
            reader.before.clear();
            reader.registers.clear();
        } else if let Some(line) = Line::parse(line) {
            found.extend(reader.site(&line));
            reader.before.push(line);
        }
    }
    Ok(found)
}

/// The areas that the image's list of patchable entries names; it must be linked at its address.
pub(crate) fn areas(image: &Path) -> Result<BTreeSet<u64>, String> {
    let bytes = files::read(image)?;
    let memory = Memory::new(&bytes)?;
    let mut found = BTreeSet::new();
    for section in memory.file.sections() {
        if section.name() == Ok("__patchable_function_entries") {
            let step = if memory.file.is_64() { 8 } else { 4 };
            let places = (section.address()..section.address() + section.size()).step_by(step);
            found.extend(places.filter_map(|place| memory.word(place)));
        }
    }
    Ok(found)
}

/// What is where when the image is loaded.
struct Memory<'a> {
    file: File<'a>,
    symbols: HashMap<String, u64>,
    /// The addresses of hooks.
    hooks: BTreeSet<u64>,
    /// The words that the loader fills with a hook's address.
    slots: BTreeSet<u64>,
    /// The words that the loader fills with an address of the image.
    relative: HashMap<u64, u64>,
}

impl<'a> Memory<'a> {
    fn new(bytes: &'a [u8]) -> Result<Self, String> {
        let file = File::parse(bytes).map_err(|error| error.to_string())?;
        let mut symbols = HashMap::new();
        let mut hooks = BTreeSet::new();
        for symbol in file.symbols().chain(file.dynamic_symbols()) {
            let name = symbol.name().unwrap_or_default();
            if symbol.is_definition() || name == "_gp" || name == "_GLOBAL_OFFSET_TABLE_" {
                symbols.insert(name.to_owned(), symbol.address());
                if HOOKS.contains(&name) {
                    hooks.insert(symbol.address());
                    hooks.insert(symbol.address() & !1);
                }
            }
        }
        let (mut slots, mut relative) = (BTreeSet::new(), HashMap::new());
        for (place, relocation) in file.dynamic_relocations().into_iter().flatten() {
            let target = match relocation.target() {
                RelocationTarget::Symbol(index) => file
                    .dynamic_symbol_table()
                    .and_then(|table| {
                        object::read::ObjectSymbolTable::symbol_by_index(&table, index).ok()
                    })
                    .and_then(|symbol| symbol.name().ok().map(is_hook)),
                _ => None,
            };
            match target {
                Some(true) => drop(slots.insert(place)),
                None => drop(relative.insert(place, relocation.addend().cast_unsigned())),
                Some(false) => {}
            }
        }
        Ok(Self { file, symbols, hooks, slots, relative })
    }

    fn symbol(&self, name: &str) -> u64 {
        self.symbols.get(name).copied().unwrap_or(0)
    }

    /// The word at `address` of the file.
    fn word(&self, address: u64) -> Option<u64> {
        let word = if self.file.is_64() { 8 } else { 4 };
        let inside = |s: &object::Section<'_, '_>| {
            (s.address()..s.address() + s.size()).contains(&address)
                && s.kind() != SectionKind::UninitializedData
        };
        let section = self.file.sections().filter(|s| s.address() != 0).find(inside)?;
        let at = usize::try_from(address - section.address()).ok()?;
        let bytes = section.data().ok()?.get(at..at + word)?;
        let add = |value: u64, byte: &u8| value << 8 | u64::from(*byte);
        Some(if self.file.is_little_endian() {
            bytes.iter().rev().fold(0, add)
        } else {
            bytes.iter().fold(0, add)
        })
    }

    /// Whether the word at `slot` is a hook's address.
    fn holds_hook(&self, slot: u64) -> bool {
        let value = self.relative.get(&slot).copied().filter(|value| *value != 0);
        let value = value.or_else(|| self.word(slot));
        self.slots.contains(&slot) || value.is_some_and(|value| self.hooks.contains(&value))
    }
}

/// What a register holds, and where the instructions that put it there begin.
#[derive(Clone, Copy)]
struct Held {
    value: u64,
    is_slot_of_hook: bool,
    start: u64,
}

struct Reader<'a> {
    memory: Memory<'a>,
    /// The lines of the function so far.
    before: Vec<Line>,
    registers: HashMap<String, Held>,
}

impl Reader<'_> {
    /// The recorded address of the call that ends in `line`.
    fn site(&mut self, line: &Line) -> Option<u64> {
        use object::Architecture as A;
        let names_hook = line.symbol().is_some_and(is_hook);
        let is = |names: &[&str]| names.contains(&line.mnemonic.as_str());
        let direct = |names: &[&str]| (names_hook && is(names)).then_some(line.address);
        match self.memory.file.architecture() {
            A::X86_64 | A::X86_64_X32 | A::I386 => self.x86(line, names_hook),
            A::Aarch64 | A::PowerPc | A::PowerPc64 => direct(&["bl"]),
            A::Arm => direct(&["bl", "blx"]),
            A::Sparc | A::Sparc32Plus | A::Sparc64 => direct(&["call"]),
            A::Hppa => direct(&["b,l"]),
            A::S390x => direct(&["brasl"]).map(|site| self.s390(site, line)),
            A::Riscv32 | A::Riscv64 => direct(&["jal"]).or_else(|| self.riscv(line, names_hook)),
            A::LoongArch64 => direct(&["bl"]),
            A::SuperH => self.superh(line),
            A::Mips | A::Mips64 | A::Mips64_N32 => self.mips(line, names_hook),
            _ => None,
        }
    }

    fn x86(&self, line: &Line, names_hook: bool) -> Option<u64> {
        let is_call = line.mnemonic == "call"
            || line.mnemonic.starts_with("addr") && line.operands.starts_with("call");
        if !is_call {
            return self.large(line);
        }
        let slot = if let Some((_, comment)) = line.operands.split_once("# ") {
            u64::from_str_radix(comment.split(' ').next()?, 16).ok()?
        } else if line.operands.starts_with('*') && line.operands.contains("(%e") {
            let distance = number(line.operands.trim_start_matches('*').split('(').next()?)?;
            self.memory.symbol("_GLOBAL_OFFSET_TABLE_").wrapping_add_signed(distance)
        } else if let Some(slot) = line.operands.strip_prefix('*') {
            number(slot).map_or_else(|| self.large(line).map_or(0, |_| 0), i64::cast_unsigned)
        } else {
            return names_hook.then_some(line.address);
        };
        if self.memory.holds_hook(slot) { Some(line.address) } else { self.large(line) }
    }

    /// `movabs $hook,%r10; call *%r10`, or by `%rax`, as clang does
    fn large(&self, line: &Line) -> Option<u64> {
        let load = self.before.last()?;
        let value = number(load.word(0).strip_prefix('$')?)?.cast_unsigned();
        let register = line.operands.strip_prefix('*').filter(|_| line.mnemonic == "call");
        let is_call = register.is_some_and(|r| ["%r10", "%rax"].contains(&r) && r == load.word(1));
        let loads = load.mnemonic == "movabs" && self.memory.hooks.contains(&value);
        (is_call && loads).then_some(load.address)
    }

    /// `stg %r14,8(%r15)` opens the block of `-pg`, before an optional `larl`.
    fn s390(&self, site: u64, line: &Line) -> u64 {
        let mut before = self.before.iter().rev();
        let mut last = before.next();
        if last.is_some_and(|line| line.mnemonic == "larl") {
            last = before.next();
        }
        let stores = |line: &&Line| line.mnemonic == "stg" && line.operands == "%r14,8(%r15)";
        let opens = last.filter(|_| line.word(0) == "%r14").filter(stores);
        opens.map_or(site, |line| line.address)
    }

    /// `auipc` and `jalr`, whose target is in the comment.
    fn riscv(&self, line: &Line, names_hook: bool) -> Option<u64> {
        let first = self.before.last()?;
        let links = line.mnemonic == "jalr" && !line.operands.starts_with("zero");
        if links && names_hook && line.word(line.words().len().checked_sub(1)?) == "zero" {
            return Some(line.address);
        }
        (links && names_hook && first.mnemonic == "auipc").then_some(first.address)
    }

    /// A literal that is loaded into a register and jumped through; in a GOT, with one more load.
    fn superh(&mut self, line: &Line) -> Option<u64> {
        match line.mnemonic.as_str() {
            "mov.l" if line.symbol().is_some() || line.operands.contains('!') => {
                let literal = u64::from_str_radix(line.word(0), 16).ok()?;
                let register = line.operands.split(['!', '\t']).next()?.rsplit(',').next()?;
                let value = self.memory.word(literal)?;
                let held = Held { value, is_slot_of_hook: false, start: literal };
                self.registers.insert(register.trim().to_owned(), held);
                None
            }
            // Either register may be the base of the GOT; the other has the offset.
            "mov.l" if line.operands.starts_with("@(r0,") => {
                let other = line.operands.strip_prefix("@(r0,")?.split(')').next()?;
                let offset = if other == "r12" { "r0" } else { other };
                let mut held = *self.registers.get(offset)?;
                let got = self.memory.symbol("_GLOBAL_OFFSET_TABLE_");
                held.is_slot_of_hook = self.memory.holds_hook(got.wrapping_add(held.value));
                self.registers.insert(line.operands.rsplit(',').next()?.to_owned(), held);
                None
            }
            "jmp" | "jsr" => {
                let held = self.registers.get(line.operands.trim_start_matches('@'))?;
                self.is_hook(held).then_some(held.start)
            }
            _ => None,
        }
    }

    fn is_hook(&self, held: &Held) -> bool {
        held.is_slot_of_hook || self.memory.hooks.contains(&held.value)
    }

    /// Calls through a register, computed as the processor would.
    fn mips(&mut self, line: &Line, names_hook: bool) -> Option<u64> {
        if matches!(line.mnemonic.as_str(), "jal" | "bal" | "balc" | "jals") {
            let loads = |line: &&Line| {
                matches!(line.mnemonic.as_str(), "lw" | "ld") && line.word(0) == "t9"
            };
            let near = self.before.iter().rev().take(WINDOW);
            let mut near = near.take_while(|line| !line.mnemonic.starts_with('j'));
            // What was a jalr once: the load of its register is still there.
            let load = near.find(loads).filter(|_| line.mnemonic == "bal");
            let held = self.registers.get("t9").filter(|_| load.is_some());
            return names_hook.then_some(held.map_or(line.address, |held| held.start));
        }
        if matches!(line.mnemonic.as_str(), "jalr" | "jalrs") {
            let register = *line.words().last()?;
            let held = self.registers.get(register)?;
            return self.is_hook(held).then_some(held.start);
        }
        let held = self.mips_value(line);
        match held {
            Some(held) => self.registers.insert(line.word(0).to_owned(), held),
            None => self.registers.remove(line.word(0)),
        };
        None
    }

    fn mips_value(&self, line: &Line) -> Option<Held> {
        let get = |index: usize| self.registers.get(line.word(index)).copied();
        let is_32 = !self.memory.file.is_64();
        let fit = |value: u64| if is_32 { value & 0xffff_ffff } else { value };
        let plus = |held: Held, value: i64| Held {
            value: fit(held.value.wrapping_add_signed(value)),
            ..held
        };
        match line.mnemonic.as_str() {
            "lui" => {
                let high = i64::from(u32::try_from(line.number(1) << 16).ok()?.cast_signed());
                let value = fit(high.cast_unsigned());
                Some(Held { value, is_slot_of_hook: false, start: line.address })
            }
            "addiu" | "daddiu" => Some(plus(get(1)?, line.number(2))),
            "dsll" => get(1).map(|h| Held { value: h.value << line.number(2), ..h }),
            "dsll32" => get(1).map(|h| Held { value: h.value << (32 + line.number(2)), ..h }),
            "addu" | "daddu" => {
                if line.word(2) == "gp" {
                    return Some(plus(get(1)?, self.memory.symbol("_gp").cast_signed()));
                }
                let (a, b) = (get(1)?, get(2)?);
                Some(Held { start: a.start.min(b.start), ..plus(a, b.value.cast_signed()) })
            }
            "lw" | "ld" => {
                // What is unknown was added up from $t9, which is $gp.
                let held = get(2).filter(|_| line.word(2) != "gp");
                let gp = self.memory.symbol("_gp");
                let (base, start) =
                    held.map_or((gp, line.address), |held| (held.value, held.start));
                let slot = fit(base.wrapping_add_signed(line.number(1)));
                let is_slot_of_hook = self.memory.holds_hook(slot);
                Some(Held { value: self.memory.word(slot)?, is_slot_of_hook, start })
            }
            _ => None,
        }
    }
}
