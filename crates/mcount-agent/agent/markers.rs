//! Markers in the middle of functions (`<sys/sdt.h>`). A jump is there, to the marker's unit, which calls `mcount_marker`, and that
//! calls this.
//!
//! A marker is recorded as a call that ends when it begins. Its arguments may be in any register, and in memory. The program itself
//! may not read that memory, so a pointer may lead nowhere.

use crate::host::Agent;
use crate::registers::read;
use crate::texts::{Text, text};
use crate::values::words_of;
use mcount_cpu::here::agent::marker;
use mcount_cpu::marker::Marker;
use mcount_layout::special::ARGUMENTS;
use mcount_recorder::abi::recipe::{
    ADDRESSED, CONSTANT, LEADS_TO_TEXT, NO_REGISTER, REGISTER, SCALE, SITE, VECTORS,
};
use mcount_recorder::payload::Values;
use mcount_recorder::{Host, records, thread};

const PAGE: u64 = 4096;
/// The stack pointer's number among general registers.
const STACK: u64 = 4;

/// A thread passes a marker, and the routine has saved its registers at `frame` and `state`.
#[unsafe(no_mangle)]
unsafe extern "C" fn mcount_marker_of(frame: *const u64, _: u64, state: *const u8) {
    // SAFETY: the caller is the routine, called by the unit of a marker.
    unsafe {
        let Some(found) = marker(frame, state).filter(|_| !Agent::is_paused()) else { return };
        // What it would be if the marker were a function that is called here.
        let slot = (found.stack - 8) & !7;
        let Some(block) = thread::prepare::<Agent>(slot) else { return };
        let mut values = Values::NONE;
        let wanted = words_of(found.id);
        collect(&mut values, wanted, &found);
        let time = thread::now::<Agent>(block);
        let write = |at: u64| {
            if !wanted.is_empty() {
                values.write(at, ARGUMENTS, u64::from(found.id), time);
            }
        };
        let count = if wanted.is_empty() { 0 } else { values.count() };
        records::record_entry_behind::<Agent>(block, slot, (found.id, time), count, write);
    }
}

/// Does what the words of a recipe say. If a value can't be had, those behind it are missing, too.
unsafe fn collect(values: &mut Values, recipe: &[u64], at: &Marker) {
    let mut words = recipe.iter().copied();
    while let Some(word) = words.next() {
        let size = (word >> 24 & 0xff) as usize;
        let mut room = [0_u8; 8];
        let Some(value) = room.get_mut(..size) else { return };
        let is_there = match word & 0xff & !LEADS_TO_TEXT {
            CONSTANT => {
                let constant = words.next().unwrap_or(0).to_le_bytes();
                value.copy_from_slice(constant.get(..size).unwrap_or_default());
                true
            }
            // SAFETY: the caller promises that the registers are where they're said to be.
            REGISTER => unsafe { copy_register(at, word, value) },
            // SAFETY: as above.
            _ => unsafe { copy_memory(at, word, value) },
        };
        if !is_there {
            return;
        }
        if word & LEADS_TO_TEXT != 0 {
            text(values, &Text::ended(u64::from_le_bytes(room)));
        } else {
            values.add(room.get(..size).unwrap_or_default());
        }
    }
}

unsafe fn copy_register(at: &Marker, word: u64, value: &mut [u8]) -> bool {
    let (register, offset) = (word >> 8 & 0xff, word >> 16 & 0xff);
    let bytes = if register < VECTORS {
        // SAFETY: the caller promises that the registers are there.
        u128::from(unsafe { general(at, register) }).to_le_bytes()
    } else {
        let register = ((register - VECTORS) & 0xf) as usize;
        // SAFETY: as above; each has 16 bytes.
        unsafe { at.vectors.add(16 * register).cast::<[u8; 16]>().read_unaligned() }
    };
    let found = bytes.get(offset as usize..).and_then(|bytes| bytes.get(..value.len()));
    if let Some(found) = found {
        value.copy_from_slice(found);
    }
    found.is_some()
}

unsafe fn copy_memory(at: &Marker, word: u64, value: &mut [u8]) -> bool {
    let distance = i64::from(((word >> 32) as u32).cast_signed());
    // SAFETY: the caller promises that the registers are there.
    let (base, index) = unsafe { (general(at, word >> 8 & 0xff), general(at, word >> 16 & 0xff)) };
    let from = base.wrapping_add(index << (word & SCALE)).wrapping_add_signed(distance);
    let last = from.wrapping_add(value.len() as u64).wrapping_sub(1);
    if from / PAGE == at.stack / PAGE && last / PAGE == at.stack / PAGE {
        // SAFETY: that page is there: the function's return address is where the stack pointer leads to, or above it.
        value.copy_from_slice(unsafe {
            core::slice::from_raw_parts(from as *const u8, value.len())
        });
        return true;
    }
    read(from, value) == value.len()
}

/// What a general register had, or what stands for one.
unsafe fn general(at: &Marker, register: u64) -> u64 {
    match register {
        STACK => at.stack,
        // SAFETY: the caller promises that all 16 are there.
        0..VECTORS => unsafe { *at.general.add(register as usize) },
        SITE => at.site,
        _ => {
            const _: () = assert!(NO_REGISTER > SITE && ADDRESSED & SCALE == 0);
            0
        }
    }
}
