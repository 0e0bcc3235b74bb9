//! Tasks: requests that are answered at once and done later. Only 2025-11-25.
//!
//! Spec: [tasks](https://modelcontextprotocol.io/specification/2025-11-25/basic/utilities/tasks)

use super::macros::*;

object! {
    /// The member `task` of params: run this request as a task. Only 2025-11-25.
    pub struct TaskMetadata: data, only(V2025_11_25) {
        /// For how many milliseconds the task should be kept.
        "ttl" => ttl: optional u64;
    }
}
