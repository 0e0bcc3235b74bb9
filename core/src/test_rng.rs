//! Numbers that look random, for tests: the same ones in each run.

/// Returns the next number. The upper bits are better distributed.
pub(crate) fn roll(state: &mut u64) {
    *state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
}
