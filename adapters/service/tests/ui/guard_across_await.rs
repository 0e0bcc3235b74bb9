//! A method whose future has the guard of a lock.

//~ MESSAGE is not an asynchronous handler
//~ LABEL not an asynchronous handler
//~ NOTE the future is `Send`: it holds no `Rc`, and no guard of a lock of `std`, across an `.await`

use std::sync::Mutex;

use mcp_service::{Context, Service, Tool};

struct Counter(Mutex<i64>);

impl Counter {
    async fn get(&self, context: Context) -> i64 {
        let count = self.0.lock().expect("no panic");
        let _ = context.sleep(std::time::Duration::from_secs(1)).await;
        *count
    }
}

fn main() {
    Service::builder("counter", "1.0.0")
        .with_state(Counter(Mutex::new(0)))
        .tool(Tool::new_async("get", Counter::get));
}
