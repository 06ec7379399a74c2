//! What `mcount top` shows: functions that are called now, as lines on a terminal, or once, for scripts.

mod lines;
mod once;
mod order;
mod screen;

pub use self::once::{Format, Once};
pub use self::order::Sort;
pub use self::screen::{Saved, Screen};
