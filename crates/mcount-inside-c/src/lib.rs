//! `libmcount-live.a` and `libmcount-live.so`. `cargo xtask dist` gives them these names.
//!
//! Its own package, because cargo builds every kind of library that a package has for whoever depends on it.

// On processors for which there's nothing, it has nothing.
pub use mcount_inside::*;
