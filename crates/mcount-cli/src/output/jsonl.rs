//! One JSON object a line. A field that does not apply is null; a new field is no breaking change, a
//! renamed one is.

use super::{Count, Export, Listing, Named, Out, Row, name_of};
use crate::inputs::Label;
use mcount::Kind;
use serde_json::{Value, json};
use std::io;

/// One JSON object a line.
pub(super) struct Jsonl;

impl Export for Jsonl {
    fn sites(&mut self, out: Out<'_>, of: Named<'_>, listing: &Listing) -> io::Result<()> {
        listing.rows().try_for_each(|row| writeln!(out, "{}", site(of.demangle, of.label, row)))
    }

    fn counts(&mut self, out: Out<'_>, what: &str, counts: &[Count]) -> io::Result<()> {
        counts
            .iter()
            .try_for_each(|(key, count)| writeln!(out, "{}", json!({ what: key, "count": count })))
    }
}

fn site(demangle: bool, label: &Label, row: Row<'_>) -> Value {
    let site = row.site;
    json!({
        "file": label.file.to_string_lossy(),
        "member": label.member,
        "section": site.section.as_deref(),
        "offset": site.offset,
        "address": site.address,
        "symbol": site.symbol.as_deref().map(|name| name_of(name, demangle)),
        "symbol_offset": site.symbol_offset,
        "kind": site.kind.map(Kind::name),
        "hook": site.hook.as_deref(),
        "size": site.size,
        "recorded": site.recorded,
        "excluded": site.excluded,
        "status": row.status.name(),
        "source_file": row.line.map(|line| &*line.file),
        "source_line": row.line.map(|line| line.line),
        "btf": row.btf,
    })
}
