//! A call graph as one JSON object. Nodes are a list with the places of their parents: readers bound how deep objects can be.

use super::Graph;
use super::tree::{Node, Tree};
use crate::replay::chains::Last;
use crate::replay::{json_string, program_name};
use serde_json::json;
use std::io::{self, Write};

pub(super) fn print(out: &mut impl Write, graph: &Graph<'_, '_, '_>) -> io::Result<()> {
    let pattern = graph.manner.function.as_ref();
    let function = pattern.map_or_else(|| "null".to_owned(), |one| json_string(one.text()));
    write!(out, "{{\"function\":{function}")?;
    if let Some(paths) = &graph.paths {
        self::paths(out, graph, paths)?;
    }
    write!(out, ",\"nodes\":[")?;
    let tree = graph.shown;
    let whole = tree.whole();
    let mut written = 0;
    // Nodes with their depths, and the places of their parents in the list.
    let mut rest: Vec<(usize, usize, Option<usize>)> =
        tree.roots.iter().rev().map(|at| (*at, 0, None)).collect();
    let is_worth =
        |at: usize| tree.nodes.get(at).is_some_and(|node| graph.is_worth(node.total(), whole));
    let starts_with_process = tree.roots.first().and_then(|at| tree.nodes.get(*at));
    let starts_with_process =
        starts_with_process.is_some_and(|node| matches!(node.last, Last::Process(..)));
    let deepest = graph.manner.depth + usize::from(starts_with_process);
    while let Some((at, depth, parent)) = rest.pop() {
        let Some(node) = tree.nodes.get(at) else { continue };
        let is_shown = |at: &usize| depth + 1 < deepest && is_worth(*at);
        let (shown, others): (Vec<usize>, Vec<usize>) =
            node.children.iter().partition(|at| is_shown(at));
        writeln!(out, "{}", if written == 0 { "" } else { "," })?;
        self::node(out, graph, node, parent, (others.len(), sum(tree, &others)))?;
        rest.extend(shown.into_iter().rev().map(|at| (at, depth + 1, Some(written))));
        written += 1;
    }
    writeln!(out, "],\"deeper_calls\":{}}}", tree.deeper)
}

fn sum(tree: &Tree, nodes: &[usize]) -> u64 {
    let totals = nodes.iter().filter_map(|at| tree.nodes.get(*at)).map(Node::total);
    totals.fold(0, u64::saturating_add)
}

/// The ways to the functions that are meant.
fn paths(out: &mut impl Write, graph: &Graph<'_, '_, '_>, paths: &[usize]) -> io::Result<()> {
    let tree = graph.whole;
    let whole = graph.shown.whole();
    let is_worth =
        |at: &usize| tree.nodes.get(*at).is_some_and(|node| graph.is_worth(node.total(), whole));
    let (shown, others): (Vec<usize>, Vec<usize>) = paths.iter().partition(|at| is_worth(at));
    write!(out, ",\"paths\":[")?;
    for (number, at) in shown.into_iter().enumerate() {
        let Some(node) = tree.nodes.get(at) else { continue };
        let steps = tree.path(at).into_iter().filter_map(|step| tree.nodes.get(step));
        let steps: Vec<String> = steps.map(|step| name(graph, step.last)).collect();
        let comma = if number == 0 { "" } else { "," };
        write!(out, "{comma}\n{{\"path\":[{}],", steps.join(","))?;
        numbers(out, graph, node)?;
        write!(out, "}}")?;
    }
    write!(out, "],\"left_out_paths\":{}", others.len())
}

/// A name as a JSON string.
fn name(graph: &Graph<'_, '_, '_>, last: Last) -> String {
    match last {
        Last::Function(number) => graph.names.function(number).json.clone(),
        Last::Process(at, _) => json_string(&program_name(graph.names.trace, at)),
    }
}

fn numbers(out: &mut impl Write, graph: &Graph<'_, '_, '_>, node: &Node) -> io::Result<()> {
    let time = |time: u64| if graph.has_times { json!(time) } else { json!(null) };
    let (total, own) = (time(node.total()), time(node.own()));
    write!(out, "\"calls\":{},\"total_ns\":{total},\"self_ns\":{own}", node.calls)
}

fn node(
    out: &mut impl Write,
    graph: &Graph<'_, '_, '_>,
    node: &Node,
    parent: Option<usize>,
    (others, sum): (usize, u64),
) -> io::Result<()> {
    let name = name(graph, node.last);
    write!(out, "{{\"parent\":{},", json!(parent))?;
    match node.last {
        Last::Process(..) => {
            write!(out, "\"process\":{name},\"function\":null,\"module\":null,\"address\":null,")?;
        }
        Last::Function(number) => {
            let of = graph.names.function(number);
            let (module, address) = (&of.module_json, json!(of.address));
            write!(
                out,
                "\"process\":null,\"function\":{name},\"module\":{module},\"address\":{address},"
            )?;
        }
    }
    numbers(out, graph, node)?;
    let sum = if graph.has_times { json!(sum) } else { json!(null) };
    write!(out, ",\"left_out\":{others},\"left_out_ns\":{sum}}}")
}
