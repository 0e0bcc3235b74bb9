//! Sessions over HTTP with all orders of events: see `mcp_tests::sessions`.

use mcp_tests::sessions::explore::{explore, small};

#[test]
fn all_orders_hold_for_http_sessions() {
    for scenario in small() {
        let explored = explore(&scenario).unwrap_or_else(|broken| panic!("{broken}"));
        assert!(explored.states > 40, "nothing happens in {}: {explored:?}", scenario.name);
    }
}
