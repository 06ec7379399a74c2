//! s390x.

use crate::agent::slow_entry;
use crate::arch::LONG_VECTORS;
use crate::c::mcount_live_mark;
use crate::watch::{entered, passed, personality};

assembly!(
    "../arch/s390x.s";
    slow_entry = sym slow_entry,
    entered = sym entered,
    unwound = sym passed,
    personality = sym personality,
    mark = sym mcount_live_mark,
    long_vectors = sym LONG_VECTORS,
);
