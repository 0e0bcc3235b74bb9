//! Scenarios: functions that are generic over the adapter, with their names.

use std::{
    panic::resume_unwind,
    sync::mpsc::{RecvTimeoutError, channel},
    thread,
};

use libtest_mimic::Trial;

use crate::{
    LONG, adapter::Adapter, calls, children, early_responses, eras, flood, flood_http, handlers, hostile_peers,
    http_load, load, pitfalls, public_api, shutdown, stdio, transports,
};

/// A scenario, which runs on every adapter. It fails by panicking.
pub(crate) struct Scenario {
    /// The file of the scenario.
    pub(crate) module: &'static str,
    pub(crate) name: &'static str,
    pub(crate) run: fn(),
}

/// Names the scenarios of a file: functions that take an adapter and nothing else.
macro_rules! scenarios {
    ($($name:ident,)*) => {
        /// Returns the scenarios of this file.
        pub(crate) fn scenarios<A: crate::adapter::Adapter>() -> Vec<crate::scenario::Scenario> {
            let module = module_path!();
            vec![$(crate::scenario::Scenario { module, name: stringify!($name), run: $name::<A> },)*]
        }
    };
}
pub(crate) use scenarios;

/// Returns all scenarios.
pub(crate) fn all<A: Adapter>() -> Vec<Scenario> {
    [
        load::scenarios::<A>(),
        calls::scenarios::<A>(),
        children::scenarios::<A>(),
        shutdown::scenarios::<A>(),
        eras::scenarios::<A>(),
        flood::scenarios::<A>(),
        flood_http::scenarios::<A>(),
        public_api::scenarios::<A>(),
        handlers::scenarios::<A>(),
        pitfalls::scenarios::<A>(),
        hostile_peers::scenarios::<A>(),
        stdio::scenarios::<A>(),
        transports::scenarios::<A>(),
        http_load::scenarios::<A>(),
        early_responses::scenarios::<A>(),
    ]
    .into_iter()
    .flatten()
    .collect()
}

impl Scenario {
    /// Returns the test of the scenario on an adapter. It fails, instead of hanging, if it takes too long.
    pub(crate) fn on(self, adapter: &'static str) -> Trial {
        let module = self.module.rsplit("::").next().unwrap_or_default();
        Trial::test(format!("{adapter}::{module}::{}", self.name), move || {
            let (done, ended) = channel();
            let thread = thread::Builder::new().name(self.name.into()).spawn(move || {
                (self.run)();
                let _ = done.send(());
            });
            let thread = thread.expect("there are threads");
            match ended.recv_timeout(LONG) {
                // The channel is closed without a message: the scenario has panicked, and the panic is passed on.
                Ok(()) | Err(RecvTimeoutError::Disconnected) => {
                    thread.join().unwrap_or_else(|panic| resume_unwind(panic))
                }
                Err(RecvTimeoutError::Timeout) => panic!("took longer than {LONG:?}"),
            }
            Ok(())
        })
    }
}
