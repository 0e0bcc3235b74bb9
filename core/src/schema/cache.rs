//! For how long and by whom a result can be reused. Since 2026-07-28.

use super::macros::*;

open_enum! {
    /// Who may reuse a result. Since 2026-07-28; a missing one means private.
    pub enum CacheScope {
        /// Only for the user who asked.
        Private = "private",
        /// For every user.
        Public = "public",
    }
}
