//! The definition of a check of a client: a row of the catalogue. `needs` is what the client has to do: a method, or
//! the name of a situation.

use super::stage::Stage;
use crate::check::definition::Definition;
pub(super) use crate::check::definition::{legacy, modern};

/// A check of clients.
pub(super) type Check = Definition<Stage>;
