//! BTF made byte by byte, in either order: the kernel's document bpf/btf, and `include/uapi/linux/btf.h` of Linux 7.2 for the
//! layout. Kinds 20 to 22 are those of Alan Maguire's series "Bpf next base btf inline v4" (kernel-patches/bpf, pull request
//! 13895).

use std::collections::BTreeMap;

/// The sizes of a kind in a layout, in bytes: what follows a type, and each of its members.
pub type Sizes = (u8, u8);

/// Types and strings of a part, which may continue another.
#[derive(Debug, Default, Clone)]
pub struct Made {
    /// Whether the most significant byte is the first.
    pub big_endian: bool,
    /// The bytes of the types.
    pub types: Vec<u8>,
    /// The bytes of the strings.
    pub strings: Vec<u8>,
    /// The number of the next type.
    pub next: u32,
    /// Where its strings begin.
    pub first_string: u32,
    /// The sizes by the number of the kind, if the header is to have a layout.
    pub layout: Option<Vec<Sizes>>,
    names: BTreeMap<String, u32>,
}

impl Made {
    /// BTF that continues no other.
    #[must_use]
    pub fn whole(big_endian: bool) -> Self {
        Self { big_endian, strings: vec![0], next: 1, ..Self::default() }
    }

    /// What continues this.
    #[must_use]
    pub fn split(&self) -> Self {
        let first_string = self.end_of_strings();
        Self { big_endian: self.big_endian, next: self.next, first_string, ..Self::default() }
    }

    fn end_of_strings(&self) -> u32 {
        self.first_string + u32::try_from(self.strings.len()).unwrap_or(u32::MAX)
    }

    fn word(&self, word: u32) -> [u8; 4] {
        if self.big_endian { word.to_be_bytes() } else { word.to_le_bytes() }
    }

    /// The place of `text`, which is added unless it's there.
    pub fn string(&mut self, text: &str) -> u32 {
        if text.is_empty() {
            return 0;
        }
        if let Some(at) = self.names.get(text) {
            return *at;
        }
        let at = self.end_of_strings();
        self.strings.extend(text.bytes().chain([0]));
        self.names.insert(text.to_owned(), at);
        at
    }

    /// A type of `kind`, with `members` of `each` words; its number.
    pub fn add(&mut self, name: &str, kind: u32, target: u32, members: &[u32], each: usize) -> u32 {
        let name = self.string(name);
        self.add_named(name, kind, target, members, each)
    }

    /// The same, with a name at `name`.
    pub fn add_named(
        &mut self,
        name: u32,
        kind: u32,
        target: u32,
        members: &[u32],
        each: usize,
    ) -> u32 {
        let count = members.len().checked_div(each).unwrap_or(0);
        self.add_counted((name, kind, target), count, members)
    }

    /// A type with name, kind and target, that says that it has `count` members, and is followed by `words`.
    pub fn add_counted(
        &mut self,
        (name, kind, target): (u32, u32, u32),
        count: usize,
        words: &[u32],
    ) -> u32 {
        let info = kind << 24 | u32::try_from(count).unwrap_or(u32::MAX);
        for word in [name, info, target].iter().chain(words) {
            let bytes = self.word(*word);
            self.types.extend(bytes);
        }
        self.next += 1;
        self.next - 1
    }

    /// A function and its prototype; the number of the function.
    pub fn function(&mut self, name: &str, result: u32, arguments: &[u32]) -> u32 {
        let members: Vec<u32> = arguments.iter().flat_map(|argument| [0, *argument]).collect();
        let prototype = self.add_named(0, 13, result, &members, 2);
        self.add(name, 12, prototype, &[], 0)
    }

    /// Where functions were inlined in `section`: their numbers, and offsets in bytes. Each has a parameter in a register.
    pub fn inlined(&mut self, section: &str, places: &[(u32, u32)]) -> u32 {
        // A parameter of four bytes in register 5.
        let parameter = self.add_counted((0, 20, 4), 1, &[8, 5]);
        let prototype = self.add_named(0, 21, 0, &[parameter], 1);
        let words: Vec<u32> =
            places.iter().flat_map(|(function, offset)| [*function, prototype, *offset]).collect();
        self.add(section, 22, 0, &words, 3)
    }

    /// The whole. A header of 32 bytes says where the layout is.
    #[must_use]
    pub fn bytes(&self) -> Vec<u8> {
        let magic = 0xeb9f_u16;
        let mut out = Vec::new();
        out.extend(if self.big_endian { magic.to_be_bytes() } else { magic.to_le_bytes() });
        out.extend([1, 0]);
        let layout: Vec<u8> =
            self.layout.iter().flatten().flat_map(|(a, b)| [*a, *b, 0, 0]).collect();
        let (types, strings) = (self.types.len(), self.strings.len());
        let mut words = vec![24, 0, types, types + layout.len(), strings];
        if self.layout.is_some() {
            words = vec![32, 0, types, types + layout.len(), strings, types, layout.len()];
        }
        for word in words {
            out.extend(self.word(u32::try_from(word).unwrap_or(u32::MAX)));
        }
        [out, self.types.clone(), layout, self.strings.clone()].concat()
    }
}

/// Every kind of type, and a function behind them: `kernel(int, const pointer)`.
#[must_use]
pub fn kernel(big_endian: bool) -> Made {
    let mut made = Made::whole(big_endian);
    let int = made.add("int", 1, 4, &[0x0100_0020], 0);
    let pointer = made.add("", 2, int, &[], 0);
    made.add("", 3, 0, &[int, int, 4], 0);
    made.add("s", 4, 8, &[0, int, 0, 0, int, 32], 3);
    made.add("u", 5, 4, &[0, int, 0], 3);
    made.add("e", 6, 4, &[0, 0, 0, 1], 2);
    made.add("f", 7, 0, &[], 0);
    let name = made.add("t", 8, int, &[], 0);
    made.add("", 9, int, &[], 0);
    let constant = made.add("", 10, pointer, &[], 0);
    made.add("", 11, pointer, &[], 0);
    let variable = made.add("v", 14, int, &[1], 0);
    made.add(".data", 15, 4, &[variable, 0, 4], 3);
    made.add("double", 16, 8, &[], 0);
    made.add("tag", 17, int, &[u32::MAX], 0);
    made.add("tag", 18, int, &[], 0);
    made.add("e64", 19, 8, &[0, 1, 0], 3);
    made.function("kernel", name, &[int, constant]);
    made
}
