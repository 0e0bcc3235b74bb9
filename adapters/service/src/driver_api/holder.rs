//! The holder of a shared capacity.

use std::{
    net::{IpAddr, Ipv6Addr},
    sync::Arc,
};

/// A holder of permits: a client, as far as a server can distinguish clients.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Holder {
    /// A client that cannot be distinguished from others, such as one on a Unix domain socket. It has no share: it may
    /// hold as much as is free.
    Unknown,
    /// A client at an address. See [`Holder::at`].
    Address(IpAddr),
    /// A principal, by its id.
    Principal(Arc<str>),
}

impl Holder {
    /// Returns the holder for a peer address. All addresses of an IPv6 network of 64 bits are one holder, since one
    /// host has them all; an IPv4 address that is written as an IPv6 address is that IPv4 address.
    #[must_use]
    pub fn at(address: IpAddr) -> Self {
        Self::Address(match address.to_canonical() {
            IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into(),
            address @ IpAddr::V4(_) => address,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_ipv6_network_is_one_holder() {
        let at = |text: &str| Holder::at(text.parse().expect("an address"));
        assert_eq!(at("2001:db8:1:2::1"), at("2001:db8:1:2:ffff::9"));
        assert_ne!(at("2001:db8:1:2::1"), at("2001:db8:1:3::1"));
        assert_eq!(at("::ffff:10.0.0.1"), at("10.0.0.1"));
        assert_ne!(at("::1"), at("127.0.0.1"));
    }
}
