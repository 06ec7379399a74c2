//! Tables whose entries have another layout in each class and byte order.

/// A table in the file.
pub(super) enum ByClass<'d, Little32, Big32, Little64, Big64> {
    Little32(&'d [Little32]),
    Big32(&'d [Big32]),
    Little64(&'d [Little64]),
    Big64(&'d [Big64]),
}

/// What `$result` says of the entries of a table: an expression that holds for each of the four kinds.
macro_rules! by_class {
    ($table:expr, $entries:ident => $result:expr) => {
        match $table {
            $crate::elf::by_class::ByClass::Little32($entries) => $result,
            $crate::elf::by_class::ByClass::Big32($entries) => $result,
            $crate::elf::by_class::ByClass::Little64($entries) => $result,
            $crate::elf::by_class::ByClass::Big64($entries) => $result,
        }
    };
}

pub(super) use by_class;
