//! Sessions over HTTP, in every order: see `mcp_tests::sessions`.

use mcp_tests::sessions::explore::{explore, small};

#[test]
fn no_order_of_things_breaks_a_session_over_http() {
    for scenario in small() {
        let explored = explore(&scenario).unwrap_or_else(|broken| panic!("{broken}"));
        assert!(explored.states > 40, "nothing happens in {}: {explored:?}", scenario.name);
    }
}
