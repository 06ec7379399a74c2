//! What is mapped in the process.

use crate::files;

/// One mapping: its first address, the one behind its last, and what may be done there.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Map {
    start: u64,
    pub(crate) end: u64,
    pub(crate) is_readable: bool,
    pub(crate) is_code: bool,
}

/// The mappings in ascending order, as they were when they were read; none without `/proc`.
#[derive(Debug)]
pub(crate) struct Maps(Vec<Map>);

impl Maps {
    /// Reads them.
    pub(crate) fn read() -> Self {
        Self(files::read_text("/proc/self/maps").lines().filter_map(parse).collect())
    }

    /// The mapping that has the byte at `address`.
    pub(crate) fn find(&self, address: u64) -> Option<&Map> {
        let behind = self.0.partition_point(|map| map.start <= address);
        self.0.get(behind.checked_sub(1)?).filter(|map| address < map.end)
    }
}

fn parse(line: &str) -> Option<Map> {
    let mut words = line.split(' ');
    let (start, end) = words.next()?.split_once('-')?;
    let flags = words.next()?;
    Some(Map {
        start: address(start)?,
        end: address(end)?,
        is_readable: flags.starts_with('r'),
        is_code: flags.contains('x'),
    })
}

fn address(text: &str) -> Option<u64> {
    u64::from_str_radix(text, 16).ok()
}

#[cfg(test)]
mod tests {
    use super::Maps;

    #[test]
    fn this_function_is_code() {
        let maps = Maps::read();
        let here = maps.find(this_function_is_code as *const () as u64).unwrap();
        assert!(here.is_code && here.is_readable);
        let local = 1;
        let there = maps.find((&raw const local) as u64).unwrap();
        assert!(!there.is_code && there.is_readable);
        assert!(maps.find(8).is_none());
    }
}
