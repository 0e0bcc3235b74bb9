//! Child processes of systems without processes.

use crate::process::state::Exit;

/// A child process, of which there is none.
#[derive(Clone)]
pub(crate) enum Child {}

impl Child {
    pub(crate) const fn exit(&self) -> Option<Exit> {
        match *self {}
    }

    #[cfg(feature = "signals")]
    pub(crate) const fn kill(&self) {
        match *self {}
    }
}
