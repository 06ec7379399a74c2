//! Options are set one by one: `Options::default().nops(true)`. New ones can be added without breaking
//! callers, because none of them writes down all.

/// Gives `$options` a method for each field, which sets it.
macro_rules! setters {
    ($options:ident { $($field:ident: $type:ty),* $(,)? }) => {
        impl $options {
            $(
                #[doc = concat!(
                    "Sets [`", stringify!($field), "`](field@", stringify!($options), "::",
                    stringify!($field), ")."
                )]
                #[must_use]
                pub fn $field(mut self, $field: $type) -> Self {
                    self.$field = $field;
                    self
                }
            )*
        }
    };
}

pub(crate) use setters;
