//! The cost of the operations of a document.

use super::{error::Refusal, limits::OpenApiLimits};

/// The values of one operation, and the patterns of all. Texts are values too, because operations may share long ones.
pub(super) struct Budget<'a> {
    pub(super) limits: &'a OpenApiLimits,
    /// The values of the operation so far, at most [`OpenApiLimits::schema_nodes`].
    pub(super) nodes: usize,
    patterns: usize,
}

impl<'a> Budget<'a> {
    pub(super) const fn new(limits: &'a OpenApiLimits) -> Self {
        Self { limits, nodes: 0, patterns: 0 }
    }

    /// Counts values.
    pub(super) const fn values(&mut self, count: usize) -> Result<(), Refusal> {
        if count > self.limits.schema_nodes.saturating_sub(self.nodes) {
            return Err(Refusal::SchemaNodes(self.limits.schema_nodes));
        }
        self.nodes += count;
        Ok(())
    }

    /// Counts what a text has beyond the value that it is, or that it names.
    pub(super) const fn length(&mut self, text: &str) -> Result<(), Refusal> {
        self.values(text.len() / 64)
    }

    /// Counts a text.
    pub(super) const fn text(&mut self, text: &str) -> Result<(), Refusal> {
        self.values(1 + text.len() / 64)
    }

    /// Counts patterns.
    pub(super) const fn patterns(&mut self, count: usize) -> Result<(), Refusal> {
        if count > self.limits.total_patterns.saturating_sub(self.patterns) {
            return Err(Refusal::Patterns(self.limits.total_patterns));
        }
        self.patterns += count;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn values_texts_and_patterns_have_exact_limits() {
        let limits = OpenApiLimits { schema_nodes: 10, total_patterns: 3, ..OpenApiLimits::default() };
        let mut budget = Budget::new(&limits);
        // Each 64 bytes of a text are a value.
        for (bytes, length, text) in [(0, 0, 1), (63, 0, 1), (64, 1, 2), (127, 1, 2), (128, 2, 3)] {
            budget.nodes = 0;
            assert_eq!((budget.length(&"x".repeat(bytes)), budget.nodes), (Ok(()), length), "{bytes}");
            budget.nodes = 0;
            assert_eq!((budget.text(&"x".repeat(bytes)), budget.nodes), (Ok(()), text), "{bytes}");
        }
        budget.nodes = 7;
        assert_eq!(budget.values(4), Err(Refusal::SchemaNodes(10)));
        assert_eq!((budget.values(3), budget.values(0), budget.nodes), (Ok(()), Ok(()), 10));
        assert_eq!(budget.values(1), Err(Refusal::SchemaNodes(10)));
        assert_eq!((budget.patterns(1), budget.patterns(2)), (Ok(()), Ok(())));
        assert_eq!((budget.patterns(0), budget.patterns(1)), (Ok(()), Err(Refusal::Patterns(3))));
    }
}
