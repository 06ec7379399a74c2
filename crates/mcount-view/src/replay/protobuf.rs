//! Protocol buffers (<https://protobuf.dev/programming-guides/encoding/>), written by hand: the messages of traces and profiles have few
//! fields.

pub(super) use crate::varint::varint;

/// Appends a field that is a number.
pub(super) fn number(out: &mut Vec<u8>, field: u32, value: u64) {
    varint(out, u64::from(field) << 3);
    varint(out, value);
}

/// Appends a field that is a text or a message.
pub(super) fn bytes(out: &mut Vec<u8>, field: u32, value: &[u8]) {
    varint(out, u64::from(field) << 3 | 2);
    varint(out, value.len() as u64);
    out.extend_from_slice(value);
}

/// Appends a field that is a number of eight bytes.
pub(super) fn fixed64(out: &mut Vec<u8>, field: u32, bits: u64) {
    varint(out, u64::from(field) << 3 | 1);
    out.extend_from_slice(&bits.to_le_bytes());
}

/// Appends a field that is several numbers, packed.
pub(super) fn numbers(out: &mut Vec<u8>, field: u32, values: impl Iterator<Item = u64>) {
    let mut packed = Vec::new();
    values.for_each(|value| varint(&mut packed, value));
    bytes(out, field, &packed);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The examples of the specification.
    #[test]
    fn numbers_and_texts() {
        let mut out = Vec::new();
        number(&mut out, 1, 150);
        bytes(&mut out, 2, b"testing");
        numbers(&mut out, 6, [3, 270, 86_942].into_iter());
        let expected = b"\x08\x96\x01\x12\x07testing\x32\x06\x03\x8e\x02\x9e\xa7\x05";
        assert_eq!(out, expected);
    }
}
