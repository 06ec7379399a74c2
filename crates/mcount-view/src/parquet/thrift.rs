//! Thrift's compact protocol, as far as the descriptions in Parquet files need it
//! (<https://github.com/apache/thrift/blob/master/doc/specs/thrift-compact-protocol.md>).

use crate::varint::varint;

/// The types of fields and of elements.
const TRUE: u8 = 1;
const FALSE: u8 = 2;
const BYTE: u8 = 3;
const I32: u8 = 5;
const I64: u8 = 6;
const BINARY: u8 = 8;
const LIST: u8 = 9;
const STRUCT: u8 = 12;

/// A struct without its end. Fields are added in the order of their numbers.
#[derive(Debug, Clone, Default)]
pub(super) struct Struct {
    bytes: Vec<u8>,
    /// The number of the field before.
    last: u8,
}

impl Struct {
    pub(super) fn new() -> Self {
        Self::default()
    }

    fn head(&mut self, number: u8, kind: u8) {
        // All structs here have fewer than 16 fields.
        self.bytes.push(number.wrapping_sub(self.last) << 4 | kind);
        self.last = number;
    }

    pub(super) fn boolean(&mut self, number: u8, value: bool) {
        self.head(number, if value { TRUE } else { FALSE });
    }

    pub(super) fn byte(&mut self, number: u8, value: u8) {
        self.head(number, BYTE);
        self.bytes.push(value);
    }

    pub(super) fn i32(&mut self, number: u8, value: i32) {
        self.head(number, I32);
        varint(&mut self.bytes, zigzag(i64::from(value)));
    }

    pub(super) fn i64(&mut self, number: u8, value: u64) {
        self.head(number, I64);
        varint(&mut self.bytes, zigzag(value.cast_signed()));
    }

    pub(super) fn bytes(&mut self, number: u8, value: &[u8]) {
        self.head(number, BINARY);
        self.binary(value);
    }

    fn binary(&mut self, value: &[u8]) {
        varint(&mut self.bytes, value.len() as u64);
        self.bytes.extend_from_slice(value);
    }

    pub(super) fn inner(&mut self, number: u8, value: Self) {
        self.head(number, STRUCT);
        self.bytes.extend(value.finish());
    }

    pub(super) fn structs(&mut self, number: u8, values: Vec<Self>) {
        self.list(number, STRUCT, values.len());
        for value in values {
            self.bytes.extend(value.finish());
        }
    }

    pub(super) fn numbers(&mut self, number: u8, values: &[i32]) {
        self.list(number, I32, values.len());
        for value in values {
            varint(&mut self.bytes, zigzag(i64::from(*value)));
        }
    }

    pub(super) fn texts(&mut self, number: u8, values: &[&str]) {
        self.list(number, BINARY, values.len());
        for value in values {
            self.binary(value.as_bytes());
        }
    }

    fn list(&mut self, number: u8, kind: u8, length: usize) {
        self.head(number, LIST);
        if let Ok(few @ 0..15) = u8::try_from(length) {
            self.bytes.push(few << 4 | kind);
        } else {
            self.bytes.push(0xf0 | kind);
            varint(&mut self.bytes, length as u64);
        }
    }

    /// Its bytes, with its end.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.bytes.push(0);
        self.bytes
    }
}

/// Numbers near 0 as small numbers.
fn zigzag(value: i64) -> u64 {
    (value << 1 ^ value >> 63).cast_unsigned()
}
