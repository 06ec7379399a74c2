//! What the kernel says of its records: the fields in the files `format` and `header_page` of tracefs
//! (`Documentation/trace/events.rst`).

/// What such a file says.
#[derive(Debug, Default)]
pub(super) struct Format {
    /// The kernel's number of these records, if they have one.
    pub(super) id: Option<u16>,
    lines: Vec<Line>,
}

/// A line about a field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Line {
    pub(super) name: String,
    /// Its type in C, without how many there are.
    pub(super) kind: String,
    /// How many there are, as the text has it: for each dimension of an array.
    pub(super) counts: Vec<String>,
    pub(super) at: Field,
    pub(super) is_signed: bool,
}

/// Where a field is in a record, in bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Field {
    pub(super) offset: usize,
    pub(super) size: usize,
}

impl Format {
    pub(super) fn parse(text: &str) -> Self {
        let id = text.lines().find_map(|line| line.strip_prefix("ID: ")?.trim().parse().ok());
        Self { id, lines: text.lines().filter_map(line).collect() }
    }

    /// The lines about fields, in their order.
    pub(super) fn lines(&self) -> impl Iterator<Item = &Line> {
        self.lines.iter()
    }

    /// The field with this name.
    pub(super) fn field(&self, wanted: &str) -> Option<Field> {
        self.lines.iter().find(|line| line.name == wanted).map(|line| line.at)
    }
}

impl Field {
    /// The number that is in this field of a record, of 1, 2, 4 or 8 bytes.
    pub(super) fn number(self, record: &[u8]) -> Option<u64> {
        let bytes = record.get(self.offset..)?.get(..self.size)?;
        match *bytes {
            [byte] => Some(byte.into()),
            [a, b] => Some(u16::from_ne_bytes([a, b]).into()),
            _ => match self.size {
                4 => bytes.first_chunk().map(|bytes| u32::from_ne_bytes(*bytes).into()),
                8 => bytes.first_chunk().map(|bytes| u64::from_ne_bytes(*bytes)),
                _ => None,
            },
        }
    }
}

/// What a line says, such as `field:unsigned long args[6]; offset:16; size:48; signed:0;`.
fn line(text: &str) -> Option<Line> {
    let mut parts = text.trim().strip_prefix("field:")?.split(';').map(str::trim);
    let declared = parts.next()?;
    let number = |part: &str, of: &str| part.strip_prefix(of)?.parse::<usize>().ok();
    let offset = number(parts.next()?, "offset:")?;
    let size = number(parts.next()?, "size:")?;
    let is_signed = parts.next().and_then(|part| number(part, "signed:")) == Some(1);
    let (kind, name) = declaration(declared)?;
    let mut counts = name.split('[');
    let name = counts.next()?.to_owned();
    let counts = counts.map(|count| count.trim_end_matches(']').to_owned()).collect();
    Some(Line { name, kind, counts, at: Field { offset, size }, is_signed })
}

/// Type and name of what is declared, such as `unsigned long args[6]`, or `void (*function)(int)`.
fn declaration(text: &str) -> Option<(String, String)> {
    if let Some((before, behind)) = text.split_once("(*") {
        let (name, rest) = behind.split_once(')')?;
        return Some((format!("{before}(*){rest}"), name.to_owned()));
    }
    let (kind, name) = text.rsplit_once(' ')?;
    // `void *name`, too.
    let bare = name.trim_start_matches('*');
    let stars = name.get(..name.len() - bare.len()).unwrap_or_default();
    Some((format!("{} {stars}", kind.trim()).trim_end().to_owned(), bare.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_say_where_fields_are() {
        let text = "name: sys_enter\nID: 443\nformat:\n\
            \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\
            \tfield:unsigned long args[6];\toffset:16;\tsize:48;\tsigned:0;\n\n\
            \tfield:long odd;\toffset:many;\tsize:8;\tsigned:1;\n\
            print fmt: \"NR %ld\", REC->id\n";
        let format = Format::parse(text);
        assert_eq!(format.id, Some(443));
        assert_eq!(format.field("common_type"), Some(Field { offset: 0, size: 2 }));
        assert_eq!(format.field("args"), Some(Field { offset: 16, size: 48 }));
        assert_eq!(format.field("odd").or(format.field("id")), None);
        assert_eq!(Format::parse("ID: many\n").id, None);
    }

    #[test]
    fn numbers_are_in_their_fields() {
        let record: Vec<u8> = (1..=8).collect();
        let number = |offset, size| Field { offset, size }.number(&record);
        assert_eq!(number(0, 1), Some(1));
        assert_eq!(number(1, 2), Some(u16::from_ne_bytes([2, 3]).into()));
        assert_eq!(number(4, 4), Some(u32::from_ne_bytes([5, 6, 7, 8]).into()));
        assert_eq!(number(0, 8), Some(u64::from_ne_bytes([1, 2, 3, 4, 5, 6, 7, 8])));
        for (offset, size) in [(0, 3), (1, 8), (8, 1), (usize::MAX, 4), (0, usize::MAX)] {
            assert_eq!(number(offset, size), None, "{offset} {size}");
        }
    }
}
