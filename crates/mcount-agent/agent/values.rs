//! Arguments and results: what a *recipe* says is copied from registers, the stack, and strings that they lead to.
//!
//! The recorder reads debug information, and makes a recipe for each function whose arguments or result are wanted. It
//! puts it into the room for stubs, and its address into a table at the end of that room, by the function's number. A
//! recipe is a list of words, so nothing of types is known here.
//!
//! Memory that a pointer leads to may not be there, or may go while it's read. So it's read by a system call, which fails
//! then. A load would end the program.
//!
//! Where registers are that an entry or an exit has saved is known by the processor (`saved`).

use crate::conditions;
use crate::config;
use crate::counters::{self, Work};
use crate::follow::follow;
use crate::host::Agent;
use crate::registers::{Registers, place_of, read};
use crate::texts::{Text, text};
use core::sync::atomic::{AtomicU32, AtomicU64, Ordering::Relaxed};
use mcount_cpu::here::agent::PLACE_OF_RESULT;
use mcount_layout as trace;
use mcount_recorder::abi::Recipe;
use mcount_recorder::abi::flags::{ENTRIES, UNTIMED, VALUES};
use mcount_recorder::abi::recipe::{self, KEPT};
use mcount_recorder::block::{Block, put};
use mcount_recorder::numbers::{HAS_MORE, RETURN, has};
use mcount_recorder::pad_table::returned_to;
use mcount_recorder::payload::{MOST, Values};
use mcount_recorder::{calls, pads, records, shadow, thread};

unsafe extern "C" {
    static mcount_stubs_end: u8;
}

/// A part of a recipe.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Part {
    Arguments,
    Result,
    /// The condition that's decided when a call begins.
    Entry,
    /// The one that's decided when it has returned.
    Exit,
}

/// The words of a part of a recipe.
fn words(recipe: &Recipe, part: Part) -> &[u64] {
    let result = recipe.result & !KEPT;
    let entry = recipe.arguments + result;
    let (from, count) = match part {
        Part::Arguments => (0, recipe.arguments),
        Part::Result => (recipe.arguments, result),
        Part::Entry => (entry, recipe.entry),
        Part::Exit => (entry + recipe.entry, recipe.exit),
    };
    // SAFETY: the tracer has put so many words behind it.
    unsafe { core::slice::from_raw_parts(recipe.words.as_ptr().add(from as usize), count as usize) }
}

/// The greatest number of a function that a stub has told of: the table of recipes goes so far, at least.
static GREATEST: AtomicU32 = AtomicU32::new(0);

/// Another recorder makes another table.
pub(crate) fn forget() {
    GREATEST.store(0, Relaxed);
}

/// The recipe of function `id`, as a stub has told.
fn told(id: u32) -> Option<&'static Recipe> {
    if id > GREATEST.load(Relaxed) {
        GREATEST.fetch_max(id, Relaxed);
    }
    recipe_of(id)
}

/// The words that copy the arguments of the marker with number `id`.
pub(crate) fn words_of(id: u32) -> &'static [u64] {
    told(id).map_or(&[], |recipe| words(recipe, Part::Arguments))
}

/// The recipe of function `id`, as the trace has it. A program may have written over that.
fn read_back(id: u32) -> Option<&'static Recipe> {
    if id == 0 || id > GREATEST.load(Relaxed) { None } else { recipe_of(id) }
}

/// The recipes of the arguments and the result of function `id`; `None` if there are none. A table of addresses
/// is at the end of the room for stubs, the last one for function 1.
fn recipe_of(id: u32) -> Option<&'static Recipe> {
    if !has::<Agent>(VALUES) {
        return None;
    }
    let entry = (&raw const mcount_stubs_end) as u64 - 8 * u64::from(id);
    // SAFETY: the recorder keeps that many words free, and what it puts there stays.
    unsafe { (*(entry as *const *const Recipe)).as_ref() }
}

/// Does what the words of a recipe say.
fn collect(values: &mut Values, recipe: &[u64], registers: &Registers) {
    let mut next = 0;
    while let Some(word) = recipe.get(next) {
        let (from, of_length, size) = (word >> 8 & 0xff, word >> 16 & 0xff, word >> 24 & 0xff);
        let (at, length_at) = (word >> 32 & 0xffff, word >> 48);
        match word & 0xff {
            recipe::COPY => {
                let mut room = [0_u8; 255];
                if let Some(room) = room.get_mut(..size as usize) {
                    registers.copy(from, at, room);
                    values.add(room);
                }
            }
            recipe::TEXT => text(values, &Text::ended(registers.word(from, at)).limited(size)),
            recipe::COUNTED => {
                let length = registers.word(of_length, length_at);
                text(values, &Text::counted(registers.word(from, at), length).limited(size));
            }
            recipe::MEMORY => {
                let mut room = [0_u8; 255];
                let Some(room) = room.get_mut(..size as usize) else { return };
                if read(registers.word(from, at), room) != room.len() {
                    // Where values end early, the rest is missing.
                    return;
                }
                values.add(room);
            }
            recipe::STRING => string(values, registers.word(from, at), size),
            recipe::COUNTERS => counters::add(values, from),
            _ => {
                next += follow(values, recipe.get(next..).unwrap_or_default(), registers);
                continue;
            }
        }
        next += 1;
    }
}

/// Adds the text that two words at `object` tell of.
fn string(values: &mut Values, object: u64, limit: u64) {
    let mut fields = [0; 16];
    if read(object, &mut fields) != fields.len() {
        return values.read_text(object, &[], trace::value::BAD);
    }
    let field = |bytes: Option<&[u8; 8]>| bytes.map_or(0, |bytes| u64::from_le_bytes(*bytes));
    let wanted = Text::counted(field(fields.first_chunk()), field(fields.last_chunk()));
    text(values, &wanted.limited(limit));
}

/// The entry of function `word`, when its arguments are still in their registers.
pub(crate) unsafe extern "C" fn mcount_entry_with(
    slot: *mut u64,
    word: u32,
    state: *const u8,
) -> u64 {
    // SAFETY: the caller is the entry trampoline.
    unsafe {
        let own_work = Work::begin::<Agent>(slot as u64);
        let answer = entry_with(slot, word, state);
        own_work.end();
        answer
    }
}

unsafe fn entry_with(slot: *mut u64, word: u32, state: *const u8) -> u64 {
    // SAFETY: the caller's.
    unsafe {
        if let Some(recipe) = told(word & 0xff_ffff)
            && !conditions::holds(
                words(recipe, Part::Entry),
                &Registers { slot: slot as u64, state },
            )
        {
            return 1;
        }
        if has::<Agent>(ENTRIES)
            && let Some(recipe) = told(word & 0xff_ffff)
        {
            enter_only(slot as u64, word & 0xff_ffff, recipe, state);
            return 1;
        }
        let answer = calls::mcount_slow_entry::<Agent>(slot, word);
        if let Some(recipe) = told(word & 0xff_ffff) {
            enter(slot as u64, word & 0xff_ffff, recipe, Some(state));
        }
        answer
    }
}

/// The entry of function `word` when arguments may have left their registers, which was recorded: only a result can be had.
pub(crate) unsafe fn late_entry(slot: *mut u64, word: u32) {
    // SAFETY: the caller, an entry routine, has a frame there that is a call of this function.
    unsafe {
        if let Some(recipe) = told(word & 0xff_ffff) {
            enter(slot as u64, word & 0xff_ffff, recipe, None);
        }
    }
}

/// Records that function `id` was entered, with its arguments.
unsafe fn enter_only(slot: u64, id: u32, recipe: &Recipe, state: *const u8) {
    // SAFETY: the caller, an entry routine, has a frame there that is a call of this function.
    unsafe {
        let Some(block) = thread::prepare::<Agent>(slot) else { return };
        let mut values = Values::NONE;
        collect(&mut values, words(recipe, Part::Arguments), &Registers { slot, state });
        let time = thread::now::<Agent>(block);
        let write = |at: u64| values.write(at, trace::special::ARGUMENTS, u64::from(id), time);
        records::record_entry_behind::<Agent>(block, slot, (id, time), values.count(), write);
    }
}

/// The call of function `id` at `slot` was recorded as open, or wasn't.
unsafe fn enter(slot: u64, id: u32, recipe: &Recipe, state: Option<*const u8>) {
    if has::<Agent>(ENTRIES) {
        return;
    }
    let shadow = shadow::of::<Agent>(slot);
    // SAFETY: the shadows are mapped if there's a block for the slot.
    unsafe {
        let Some(block) = thread::prepare::<Agent>(slot) else { return };
        let open = shadow.open.read_volatile();
        if open & 0xff_ffff != u64::from(id) || open >> 32 != (*block).tag >> 32 {
            return;
        }
        let mut wanted = words(recipe, Part::Arguments);
        if state.is_none() {
            // Counters don't need registers.
            let is_counters = |word: &u64| word & 0xff == recipe::COUNTERS;
            let count = usize::from(wanted.first().is_some_and(is_counters));
            wanted = wanted.get(..count).unwrap_or_default();
        }
        if !wanted.is_empty() {
            let state = state.unwrap_or(core::ptr::null());
            let mut values = Values::NONE;
            collect(&mut values, wanted, &Registers { slot, state });
            // What this took isn't the function's time.
            if !has::<Agent>(UNTIMED) {
                let began = shadow.start.read_volatile();
                shadow.start.write_volatile(thread::now::<Agent>(block).max(began));
            }
            let start = shadow.start.read_volatile();
            add(block, &values, (u64::from(id), start));
        }
        // Arguments of a call that was too short are taken back.
        let is_looked_at = |part| !words(recipe, part).is_empty();
        if is_looked_at(Part::Result) || is_looked_at(Part::Exit) || config().shortest != 0 {
            if let (Some(state), Some(found)) = (state, PLACE_OF_RESULT) {
                place_of(slot).write_volatile(found(state));
            }
            shadow.open.write_volatile(open | HAS_MORE);
        }
    }
}

/// Records the arguments of a call that began just now.
unsafe fn add(block: *mut Block, values: &Values, (function, start): (u64, u64)) {
    // SAFETY: the block is this thread's.
    unsafe {
        if let Some(at) = thread::take_records::<Agent>(block, values.count()) {
            values.write(at, trace::special::ARGUMENTS, function, start);
        }
    }
}

/// The exit of the call of `slot`, when its result is still in its registers; the caller's address.
pub(crate) unsafe extern "C" fn mcount_exit_with(
    slot: *mut u64,
    end: u64,
    state: *const u8,
) -> u64 {
    // SAFETY: the caller is the exit trampoline.
    unsafe {
        let own_work = Work::begin::<Agent>(slot as u64);
        let address = returned_to(slot);
        pads::claim::<Agent>(slot as u64, address);
        if end == RETURN
            && let Some(block) = thread::prepare::<Agent>(slot as u64)
            && shadow::of::<Agent>(slot as u64).open.read_volatile() & HAS_MORE != 0
        {
            leave(block, slot as u64, state);
        }
        calls::finish::<Agent>(slot, end);
        let caller = calls::let_go::<Agent>(slot as u64, address);
        own_work.end();
        caller
    }
}

/// Records the call of `slot` with its result.
unsafe fn leave(block: *mut Block, slot: u64, state: *const u8) {
    let shadow = shadow::of::<Agent>(slot);
    // SAFETY: the block is this thread's, and the call is open.
    unsafe {
        let id = shadow.open.read_volatile() & 0xff_ffff;
        let (time, start) = (thread::now::<Agent>(block), shadow.start.read_volatile());
        let Some(recipe) = read_back(id as u32) else { return };
        let is_kept = recipe.result & KEPT != 0 || time.wrapping_sub(start) >= config().shortest;
        let registers = Registers { slot, state };
        if !is_kept || !conditions::holds(words(recipe, Part::Exit), &registers) {
            take_back(block, start);
        } else if words(recipe, Part::Result).is_empty() {
            records::record_behind::<Agent>(block, slot, (RETURN, time), 0, |_| ());
        } else {
            let mut values = Values::NONE;
            collect(&mut values, words(recipe, Part::Result), &registers);
            let write = |at: u64| values.write(at, trace::special::RESULT, id, start);
            records::record_behind::<Agent>(block, slot, (RETURN, time), values.count(), write);
        }
        shadow.open.write_volatile(0);
    }
}

/// Takes the arguments of the call that began at `start` out of the trace, if nothing was recorded since.
unsafe fn take_back(block: *mut Block, start: u64) {
    // SAFETY: the block is this thread's, and what lies before its head in its chunk.
    unsafe {
        let head = (&raw const (*block).head).read_volatile();
        if head > (*block).end {
            return;
        }
        // A share is smaller; it begins with a record that isn't of values.
        let first = (*block).end.saturating_sub(trace::CHUNK_SIZE);
        let most = (1 + MOST.div_ceil(trace::value::IN_RECORD)) as u64;
        for count in 1..=most {
            let at = head - 16 * count;
            if at <= first {
                return;
            }
            let (low, high) = (*(at as *const u64), *((at + 8) as *const u64));
            if low == trace::special::ARGUMENTS << trace::special::KIND_SHIFT | low & !0xffff_ffff
                && high == start
            {
                for record in (0..count).rev() {
                    put(at + 16 * record, 0, 0);
                }
                // A signal handler that has recorded something meanwhile finds its place taken, and zeroes before it.
                let place = AtomicU64::from_ptr(&raw mut (*block).head);
                let _ = place.compare_exchange(head, at, Relaxed, Relaxed);
                return;
            }
            if low & 0xffff_ffff != trace::special::BYTES << trace::special::KIND_SHIFT {
                return;
            }
        }
    }
}
