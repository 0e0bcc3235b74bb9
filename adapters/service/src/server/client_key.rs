//! Clients, as far as the shares of a limit distinguish them.

use std::sync::Arc;

use mcp_proto::connection::ServerRole;

use crate::driver_api::{connection_handle::ConnectionHandle, holder::Holder};

/// How much one client may hold, as a multiple of what is still free: as with the quotas of drivers.
const SHARE: usize = 7;

/// A client that shares a limit with others: a principal or an address, or else a connection.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ClientKey {
    Holder(Holder),
    Connection(u64),
}

impl ClientKey {
    /// Returns the client at the other end of the connection with this number.
    pub(crate) fn of(connection: &Arc<dyn ConnectionHandle<ServerRole>>, number: u64) -> Self {
        match connection.holder() {
            Holder::Unknown => Self::Connection(number),
            holder => Self::Holder(holder),
        }
    }
}

/// Returns whether a client that holds `held` of `taken` may take one more, of `capacity`: it holds less than seven
/// times as much as is free. So one client gets at most seven eighths of a large capacity, and all of one below 8.
pub(crate) const fn has_share(capacity: usize, taken: usize, held: usize) -> bool {
    taken < capacity && held < SHARE.saturating_mul(capacity - taken)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_client_leaves_an_eighth_to_others() {
        let fill = |capacity: usize, mut taken: usize| {
            let before = taken;
            while has_share(capacity, taken, taken - before) {
                taken += 1;
            }
            taken
        };
        assert_eq!((fill(1024, 0), fill(1024, 896), fill(1024, 1008)), (896, 1008, 1022));
        assert_eq!((fill(3, 0), fill(1, 0), fill(0, 0)), (3, 1, 0));
        assert!(!has_share(8, 9, 0));
    }
}
