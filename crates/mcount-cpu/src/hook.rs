//! What processors have in common about hooks: why one can't be armed, and where in its function it is.

/// Why a site can't be armed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Unusable {
    /// There are NOPs, but fewer bytes of them than it takes: this many. On PowerPC: that many are before the global
    /// entry, so not every call comes by.
    TooSmall(usize),
    /// There is neither a NOP nor a call of the form that is known.
    NotAHook,
}

/// Where in its function a hook is. It decides where the caller's address is found.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Position {
    /// The first instruction but for a landing pad: the caller's address is where a call puts it.
    Entry,
    /// After a prologue that has stored it or set up a frame (`-pg`). The file of each processor says where it is then.
    AfterPrologue,
}
