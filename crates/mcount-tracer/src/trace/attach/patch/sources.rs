//! Where unwind information is: in the modules' files, in the kernel's own code (the vDSO), in the agent, and in patches.

use super::super::block::Block;
use super::super::maps;
use super::super::program::Program;
use super::frames::{Tables, Unwinder};
use super::hub::{Hub, PATCHES};
use super::region::Region;
use crate::trace::agent::Agent;
use crate::trace::image::Image;
use mcount_ptrace::Memory;
use std::io;

/// The extent of a piece of code, its load bias, and its file, or its unwind information alone at an address.
struct Source {
    extent: (u64, u64),
    bias: u64,
    bytes: Vec<u8>,
    frames: Option<u64>,
}

/// What isn't a module.
pub(super) struct Sources(Vec<Source>);

impl Sources {
    pub(super) fn of(process: i32, memory: &Memory, hub: &Hub) -> io::Result<Self> {
        let maps = maps::read(process)?;
        let mut all = Vec::new();
        if let Some(map) = maps.iter().find(|map| map.path.as_os_str() == "[vdso]") {
            let mut bytes = vec![0; usize::try_from(map.end - map.start).unwrap_or(0)];
            if memory.read(map.start, &mut bytes).is_ok() {
                all.push(Source {
                    extent: (map.start, map.end),
                    bias: map.start,
                    bytes,
                    frames: None,
                });
            }
        }
        let image = Image::new()?;
        if let Some(block) = Block::find(&image, memory, &maps) {
            let stubs = block.stubs(&image);
            let code = block.code(&image);
            let extent = (code.0.min(stubs.0), code.1.max(stubs.1));
            all.push(Source {
                extent,
                bias: block.bias,
                bytes: Agent::image()?.to_vec(),
                frames: None,
            });
        }
        let table = hub.table(memory)?;
        for (start, _) in (0..PATCHES).filter_map(|one| table.patch(one)) {
            let Some(region) = Region::read(memory, &maps, start) else { continue };
            if let Some(bytes) = region.frames(memory, &maps) {
                let (extent, frames) = (region.extent(), Some(region.frames));
                all.push(Source { extent, bias: 0, bytes, frames });
            }
        }
        Ok(Self(all))
    }

    /// All that there is, for looking at stacks of `program`.
    pub(super) fn unwinder<'d>(&'d self, program: &'d Program, memory: &'d Memory) -> Unwinder<'d> {
        let others = self.0.iter().filter_map(|one| match one.frames {
            Some(address) => Some(Tables::alone(&one.bytes, address, one.extent)),
            None => Tables::of(&one.bytes, one.bias, one.extent),
        });
        let modules = program
            .loaded
            .iter()
            .filter_map(|one| Tables::of(one.bytes(), one.bias, one.extent(program.module(one)?)));
        Unwinder { memory, tables: others.chain(modules).collect() }
    }
}
