//! What the code of a hook is described by, of all processors that describe it alike.

/// Defines `Area`: a type for each processor, because each finds and fills areas in its own way. What there may be before an area, and
/// how long it is, are said besides.
macro_rules! area {
    ($start:literal, $length:literal) => {
        /// The compiler's code at the entry of a function.
        #[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
        pub struct Area {
            /// Bytes from where the area was looked for to where it begins:
            #[doc = $start]
            pub start: usize,
            /// Its bytes:
            #[doc = $length]
            pub length: usize,
            /// It was a call of the hook.
            pub is_call: bool,
        }
    };
}

pub(crate) use area;
