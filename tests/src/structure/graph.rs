//! Finds the circles of a graph.

use std::collections::BTreeSet;

/// Returns the strongly connected components of two nodes and more, each sorted, the largest first.
///
/// `edges[n]` holds the nodes that node `n` points to.
pub(super) fn circles(edges: &[BTreeSet<usize>]) -> Vec<Vec<usize>> {
    let mut search = Search {
        edges,
        order: vec![None; edges.len()],
        low: vec![0; edges.len()],
        stack: Vec::new(),
        found: Vec::new(),
    };
    for node in 0..edges.len() {
        if search.order[node].is_none() {
            search.visit(node);
        }
    }
    let mut found = search.found;
    found.sort_by_key(|circle| (usize::MAX - circle.len(), circle.first().copied()));
    found
}

/// Tarjan's algorithm.
struct Search<'a> {
    edges: &'a [BTreeSet<usize>],
    order: Vec<Option<usize>>,
    low: Vec<usize>,
    stack: Vec<usize>,
    found: Vec<Vec<usize>>,
}

impl Search<'_> {
    fn visit(&mut self, node: usize) {
        let order = self.order.iter().flatten().count();
        self.order[node] = Some(order);
        self.low[node] = order;
        self.stack.push(node);
        for &next in &self.edges[node] {
            match self.order[next] {
                None => {
                    self.visit(next);
                    self.low[node] = self.low[node].min(self.low[next]);
                }
                Some(order) if self.stack.contains(&next) => self.low[node] = self.low[node].min(order),
                Some(_) => {}
            }
        }
        if self.low[node] == order {
            let at = self.stack.iter().position(|&other| other == node).unwrap_or(0);
            let mut circle = self.stack.split_off(at);
            circle.sort_unstable();
            if circle.len() > 1 {
                self.found.push(circle);
            }
        }
    }
}
