//! Lists of handlers: one for each combination that was ever asked for. They're never freed, because calls that began
//! with a list end with it.

use crate::error::{Error, ErrorKind, Result};
use crate::record::{Handlers, List, flags};
use std::sync::atomic::{AtomicPtr, Ordering};

const MOST: usize = 1 << 16;

static ALL: [AtomicPtr<List>; MOST] = [const { AtomicPtr::new(std::ptr::null_mut()) }; MOST];

/// The list with this number; 0 is none.
pub(crate) fn get(index: u16) -> Option<&'static List> {
    let found = ALL.get(usize::from(index))?.load(Ordering::Acquire);
    // SAFETY: lists are never freed.
    unsafe { found.as_ref() }
}

/// The list of these handlers; `None` for none at all. The caller holds the lock of the program.
pub(crate) fn of(all: &[&'static Handlers]) -> Result<Option<&'static List>> {
    if all.is_empty() {
        return Ok(None);
    }
    for index in 1..=u16::MAX {
        let Some(found) = get(index) else { return Ok(Some(add(index, all))) };
        let mut pairs = found.all.iter().zip(all);
        if found.all.len() == all.len() && pairs.all(|(one, other)| std::ptr::eq(*one, *other)) {
            return Ok(Some(found));
        }
    }
    Err(Error::new(ErrorKind::Argument, "too many combinations of handlers"))
}

fn add(index: u16, all: &[&'static Handlers]) -> &'static List {
    let mut of_all = all.iter().fold(0, |flags, handlers| flags | handlers.flags);
    if all.iter().any(|handlers| handlers.exit.is_some()) {
        of_all |= flags::EXITS;
    }
    let list = Box::leak(Box::new(List { index, flags: of_all, all: all.to_vec() }));
    if let Some(room) = ALL.get(usize::from(index)) {
        room.store(std::ptr::from_mut(list), Ordering::Release);
    }
    list
}
