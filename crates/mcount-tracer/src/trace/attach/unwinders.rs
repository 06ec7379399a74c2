//! Exceptions in a program that wasn't started with the agent: its unwinder has to be told where the agent's unwind
//! information is. libgcc's has a function for that, `__register_frame_info`, which one thread is made to call, while all
//! others run. It's told once; the information stays as long as the agent does.
//!
//! The unwinder takes a lock there. So it must not be called by a thread that may have it: one on whose stack is anything
//! that looks like an address in the unwinder.

use super::maps::{self, Mapping};
use super::program::{Loaded, Program};
use super::session::Session;
use crate::trace::modules::Module;
use mcount_ptrace::{Memory, Standing, stop};
use object::read::elf::ElfFile64;
use object::{Endianness, Object, ObjectSymbol};
use std::io;
use std::time::Duration;

/// What a static program that throws exceptions has in it, even if it's stripped.
const THROWS: [&[u8]; 2] = [b"St9exception", b"rust_panic"];

/// How a module's file tells of an unwinder in it.
pub(super) enum Unwinder {
    /// It has none.
    None,
    /// It can be told, by a function at this address; its code is there.
    Told(u64, (u64, u64)),
    /// It can't be.
    Deaf,
}

impl Unwinder {
    pub(super) fn of(one: &Loaded, module: &Module) -> Self {
        let Ok(file) = ElfFile64::<Endianness>::parse(one.bytes()) else { return Self::None };
        if module.unwinder.is_none() {
            return if is_hidden(one, &file) { Self::Deaf } else { Self::None };
        }
        let (mut function, mut range) = (None, (u64::MAX, 0));
        for symbol in file.dynamic_symbols().chain(file.symbols()) {
            let name = symbol.name().unwrap_or_default();
            let is_its = ["_Unwind_", "__register_frame", "__deregister_frame"];
            let is_its = is_its.iter().any(|start| name.starts_with(start));
            if !symbol.is_definition() || !is_its || name.contains(".cold") {
                continue;
            }
            let end = symbol.address().saturating_add(symbol.size());
            range = (range.0.min(symbol.address()), range.1.max(end));
            if name == "__register_frame_info" {
                function = Some(symbol.address());
            }
        }
        // A library of its own may have parts that no symbol tells of.
        let is_program = file.entry() != 0;
        let range = if is_program { range } else { module.extent };
        function.map_or(Self::Deaf, |function| Self::Told(function, range))
    }
}

/// May there be an unwinder in a file without symbols? It'd ask the dynamic linker where unwind information is; or the
/// program is static, and throws exceptions.
fn is_hidden(one: &Loaded, file: &ElfFile64<'_, Endianness>) -> bool {
    if file.symbols().next().is_some() {
        return false;
    }
    if one.is_static() {
        return THROWS.iter().any(|name| memchr::memmem::find(one.bytes(), name).is_some());
    }
    let wants = |name: &str| {
        file.dynamic_symbols().any(|symbol| symbol.is_undefined() && symbol.name() == Ok(name))
    };
    (wants("_dl_find_object") || wants("dl_iterate_phdr")) && !wants("_Unwind_Resume")
}

/// Is there an unwinder that can't be told? Then returns aren't traced.
pub(super) fn has_deaf_one(program: &Program) -> bool {
    let mut all = program.loaded.iter().filter_map(|one| Some((one, program.module(one)?)));
    all.any(|(one, module)| matches!(Unwinder::of(one, module), Unwinder::Deaf))
}

/// Tells all unwinders of the agent that don't know it yet. `false` if one couldn't be told, as no thread was out of it
/// for long.
pub(super) fn tell(program: &Program, session: &Session) -> io::Result<bool> {
    let Session { memory, image, block, .. } = session;
    for one in &program.loaded {
        let Some(module) = program.module(one) else { continue };
        let Unwinder::Told(register, (from, to)) = Unwinder::of(one, module) else {
            continue;
        };
        let function = one.bias.wrapping_add(register);
        let Some((object, note)) = block.room_for(memory, function)? else { continue };
        let range = (one.bias.wrapping_add(from), one.bias.wrapping_add(to));
        let told = outside(program.process, memory, range, |standing| {
            let Some(thread) = standing.threads.first_mut() else { return Ok(()) };
            let mut remote = block.remote(image, thread, memory)?;
            // Noted first: doing it twice would be worse than not at all.
            memory.write(note, &function.to_le_bytes())?;
            let begin = block.bias + image.frames;
            remote.function(function, [begin, object], block.end(image)).map(|_| ())
        })?;
        if !told {
            return Ok(false);
        }
    }
    Ok(true)
}

/// Has `act` done with one thread that stands, and has nothing to do with the code at `extent`. `false` if there's none.
pub(super) fn outside(
    process: i32,
    memory: &Memory,
    extent: (u64, u64),
    mut act: impl FnMut(&mut Standing) -> io::Result<()>,
) -> io::Result<bool> {
    const TRIES: u32 = 500;
    for _ in 0..TRIES {
        for id in stop::threads(process)? {
            let Some(mut standing) = Standing::one(process, id)? else { continue };
            let maps = maps::read(process)?;
            if standing.threads.iter().all(|one| !stands_in(one, memory, &maps, extent)) {
                act(&mut standing)?;
                return Ok(true);
            }
        }
        std::thread::sleep(Duration::from_millis(2));
    }
    Ok(false)
}

/// Is `thread` in the code at `extent`, or may it return there?
fn stands_in(
    thread: &stop::Thread,
    memory: &Memory,
    maps: &[Mapping],
    (from, to): (u64, u64),
) -> bool {
    const MOST: u64 = 1 << 20;
    let stack = thread.registers.stack() & !7;
    let Some(map) = maps::find(maps, stack) else { return true };
    let size = usize::try_from((map.end - stack).min(MOST)).unwrap_or(0);
    let mut bytes = vec![0; size];
    let is_in = |address: u64| (from..to).contains(&address);
    is_in(thread.registers.instruction())
        || memory.read(stack, &mut bytes).is_err()
        || bytes
            .chunks_exact(8)
            .any(|word| word.try_into().is_ok_and(|word| is_in(u64::from_le_bytes(word))))
}
