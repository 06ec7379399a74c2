//! The bytes of a section as instructions, to read and to write.
//!
//! Byte order applies to a *unit*, which may be smaller than an instruction. For example, Thumb's `bl` is
//! two halfwords, and each of them has its bytes reversed separately.

/// The byte order of a processor's instructions.
#[derive(Clone, Copy)]
pub(crate) enum CodeOrder {
    /// The same as that of data.
    Data,
    Little,
    Big,
}

/// The bytes of a section, read as instructions.
#[derive(Clone, Copy)]
pub(crate) struct Code<'a> {
    pub(super) bytes: &'a [u8],
    pub(super) big_endian: bool,
}

impl<'a> Code<'a> {
    /// The `unit` at `offset`. `None` if the section ends before it does.
    pub(crate) fn get(self, unit: Unit, offset: u64) -> Option<u32> {
        let start = usize::try_from(offset).ok()?;
        let bytes = self.bytes.get(start..start.checked_add(unit.size())?)?;
        let bytes = bytes.iter().copied();
        Some(if self.big_endian { bytes.fold(0, append) } else { bytes.rev().fold(0, append) })
    }

    /// The 32-bit instruction at `offset`.
    pub(crate) fn word(self, offset: u64) -> Option<u32> {
        self.get(Unit::Word, offset)
    }

    /// The 16-bit instruction, or half of one, at `offset`.
    pub(crate) fn half(self, offset: u64) -> Option<u32> {
        self.get(Unit::Half, offset)
    }

    /// The bytes from `offset` on.
    pub(crate) fn from(self, offset: u64) -> &'a [u8] {
        let start = usize::try_from(offset).unwrap_or(usize::MAX);
        self.bytes.get(start..).unwrap_or_default()
    }

    /// The 32-bit number at `offset`, in the byte order of x86.
    pub(crate) fn little_word(self, offset: u64) -> Option<u32> {
        self.from(offset).first_chunk().map(|bytes| u32::from_le_bytes(*bytes))
    }

    /// Whether instructions are big endian.
    pub(crate) fn is_big_endian(self) -> bool {
        self.big_endian
    }

    /// The number of bytes.
    pub(crate) fn len(self) -> u64 {
        self.bytes.len() as u64
    }
}

/// `value`, with `byte` after it.
fn append(value: u32, byte: u8) -> u32 {
    value << 8 | u32::from(byte)
}

/// The bytes of a section, for writing instructions.
pub(crate) struct CodeMut<'a> {
    pub(crate) bytes: &'a mut [u8],
    pub(crate) big_endian: bool,
}

impl CodeMut<'_> {
    /// Writes `instruction` at `offset`. `None`, and nothing is written, if the section ends before it
    /// does.
    pub(crate) fn put(&mut self, offset: u64, instruction: &Instruction) -> Option<()> {
        self.put_units(offset, instruction.unit, instruction.values)
    }

    /// Writes the 16-bit instruction `value` at `offset`, as [`CodeMut::put`] does.
    pub(crate) fn put_half(&mut self, offset: u64, value: u32) -> Option<()> {
        self.put_units(offset, Unit::Half, &[value])
    }

    fn put_units(&mut self, offset: u64, unit: Unit, values: &[u32]) -> Option<()> {
        let start = usize::try_from(offset).ok()?;
        let end = start.checked_add(unit.size() * values.len())?;
        let target = self.bytes.get_mut(start..end)?;
        for (place, value) in target.chunks_exact_mut(unit.size()).zip(values) {
            let bytes = value.to_be_bytes();
            let (_, low) = bytes.split_at_checked(bytes.len() - place.len())?;
            place.copy_from_slice(low);
            if !self.big_endian {
                place.reverse();
            }
        }
        Some(())
    }

    /// The same bytes, for reading.
    pub(crate) fn as_code(&self) -> Code<'_> {
        Code { bytes: self.bytes, big_endian: self.big_endian }
    }
}

/// The unit that the byte order applies to.
#[derive(Clone, Copy)]
pub(crate) enum Unit {
    Byte,
    Half,
    Word,
}

impl Unit {
    const fn size(self) -> usize {
        match self {
            Self::Byte => 1,
            Self::Half => 2,
            Self::Word => 4,
        }
    }
}

/// An instruction with all its bits.
#[derive(Clone, Copy)]
pub(crate) struct Instruction {
    pub(super) unit: Unit,
    pub(super) values: &'static [u32],
}

impl Instruction {
    pub(super) const fn bytes(values: &'static [u32]) -> Self {
        Self { unit: Unit::Byte, values }
    }

    pub(super) const fn halves(values: &'static [u32]) -> Self {
        Self { unit: Unit::Half, values }
    }

    pub(super) const fn words(values: &'static [u32]) -> Self {
        Self { unit: Unit::Word, values }
    }

    pub(super) fn size(&self) -> u64 {
        (self.unit.size() * self.values.len()) as u64
    }

    pub(super) fn is_at(&self, code: Code<'_>, offset: u64) -> bool {
        let fits = offset.checked_add(self.size()).is_some_and(|end| end <= code.len());
        fits && (offset..)
            .step_by(self.unit.size())
            .zip(self.values)
            .all(|(at, value)| code.get(self.unit, at) == Some(*value))
    }
}

/// Some bits of an instruction near a relocation.
pub(crate) struct Pattern {
    /// The distance from `r_offset`, in bytes.
    pub(super) at: i8,
    pub(super) unit: Unit,
    pub(super) mask: u32,
    pub(super) value: u32,
}

impl Pattern {
    pub(super) const fn byte(at: i8, value: u32) -> Self {
        Self { at, unit: Unit::Byte, mask: 0xff, value }
    }

    pub(super) const fn half(at: i8, mask: u32, value: u32) -> Self {
        Self { at, unit: Unit::Half, mask, value }
    }

    pub(super) const fn word(at: i8, mask: u32, value: u32) -> Self {
        Self { at, unit: Unit::Word, mask, value }
    }

    /// Whether it has bits in common with `instruction`, which is `at` bytes from the relocation.
    pub(super) fn overlaps(&self, at: i8, instruction: &Instruction) -> bool {
        let (own, other) = (i64::from(self.at), i64::from(at));
        own < other + instruction.size().cast_signed()
            && other < own + (self.unit.size() as u64).cast_signed()
    }

    pub(super) fn fits(&self, code: Code<'_>, offset: u64) -> bool {
        let at = offset.checked_add_signed(self.at.into());
        let bits = at.and_then(|at| code.get(self.unit, at));
        bits.is_some_and(|bits| bits & self.mask == self.value)
    }
}
