//! The clients of an endpoint, and the share of its limits that each of them uses.

use alloc::{collections::BTreeMap, string::String, sync::Arc};
use core::{
    net::{IpAddr, Ipv6Addr},
    sync::atomic::{AtomicUsize, Ordering},
};

use super::Caller;
use crate::connection::Principal;

/// One client may hold at most this many times the free amount. The first client gets at most seven eighths, a second
/// one at most seven eighths of the rest, and so on: together, a few clients can take nearly everything.
pub(super) const SHARE: usize = 7;

/// A request or a body of at most this many bytes is small.
const SMALL: usize = 64 << 10;

/// One part in this many of a limit is reserved for small requests and bodies.
const RESERVE: usize = 16;

/// The minimum number of clients in the table before clients that hold nothing are removed.
const MIN_CLIENTS: usize = 64;

/// The resources that are held by one client, or by all clients of an endpoint.
#[derive(Debug, Default)]
pub(super) struct ClientUsage {
    /// Bytes of requests that wait or are in flight.
    pub(super) in_flight: AtomicUsize,
    /// Bytes of bodies that are being read.
    pub(super) bodies: AtomicUsize,
    /// The number of idle sessions.
    pub(super) idle: AtomicUsize,
    /// The number of idle sessions that clients have not used since the handshake.
    pub(super) fresh: AtomicUsize,
}

/// The idle sessions among which one is chosen to be closed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Among {
    /// The sessions that clients have not used since the handshake.
    Fresh,
    /// All, those first.
    All,
}

impl ClientUsage {
    /// Returns whether one of these sessions is idle.
    fn has_idle(&self, among: Among) -> bool {
        let idle = match among {
            Among::Fresh => &self.fresh,
            Among::All => &self.idle,
        };
        idle.load(Ordering::Relaxed) > 0
    }
}

/// The principal or the address by which a client is identified.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Holder {
    Principal(Arc<str>),
    Address(IpAddr),
}

/// The identity of a client at an endpoint.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Identity {
    /// All unidentified clients together. The limit of one client's share does not apply to them.
    Unknown,
    /// The users of one session, which are not identified in any other way.
    Session,
    Known(Holder),
}

/// A client and the resources that it holds.
#[derive(Debug)]
pub(super) struct Client {
    all: Arc<ClientUsage>,
    own: ClientUsage,
    identity: Identity,
}

impl Client {
    fn new(all: &Arc<ClientUsage>, identity: Identity) -> Arc<Self> {
        Arc::new(Self { all: all.clone(), own: ClientUsage::default(), identity })
    }

    /// Returns the client of a new session: this client, or a new one if this client is unidentified.
    pub(super) fn of_session(self: &Arc<Self>) -> Arc<Self> {
        if self.identity == Identity::Unknown { Self::new(&self.all, Identity::Session) } else { self.clone() }
    }

    /// Returns whether sessions of this client are reassigned to `other`: this client is identified only by its
    /// session, and `other` by a principal or an address.
    pub(super) fn is_reassigned_to(&self, other: &Self) -> bool {
        self.identity == Identity::Session && other.holder().is_some()
    }

    /// Returns the principal or the address of the client, if it is identified by one.
    pub(super) const fn holder(&self) -> Option<&Holder> {
        if let Identity::Known(holder) = &self.identity { Some(holder) } else { None }
    }

    /// Returns a number below `slots`, which most other clients do not have.
    pub(super) fn slot(&self, slots: usize) -> usize {
        let sum = |bytes: &[u8]| bytes.iter().map(|byte| usize::from(*byte)).sum::<usize>();
        let sum = match self.holder() {
            Some(Holder::Principal(principal)) => sum(principal.as_bytes()),
            Some(Holder::Address(IpAddr::V4(address))) => sum(&address.octets()),
            Some(Holder::Address(IpAddr::V6(address))) => sum(&address.octets()),
            None => 0,
        };
        sum % slots
    }

    /// Returns whether the client may hold `bytes` more, which are part of a request or body of `whole` bytes. All
    /// clients together hold `all` of at most `most` bytes, and this client holds `own` of them.
    fn has_room(&self, (bytes, whole): (usize, usize), own: usize, all: usize, most: usize) -> bool {
        let Some(rest) = most.checked_sub(all).and_then(|rest| rest.checked_sub(bytes)) else { return false };
        if whole > SMALL && rest < most / RESERVE {
            return false;
        }
        self.identity == Identity::Unknown || own.saturating_add(bytes) <= SHARE.saturating_mul(rest.saturating_add(1))
    }

    /// Returns whether there is room for a request of this many bytes. If no other request is held, there always is: it
    /// would have nothing to wait for.
    pub(super) fn has_room_for_request(&self, bytes: usize, most: usize) -> bool {
        let [own, all] = [&self.own, &*self.all].map(|held| held.in_flight.load(Ordering::Relaxed));
        all == 0 || self.has_room((bytes, bytes), own, all, most)
    }
}

/// The resources of a session that are counted for its client.
#[derive(Debug)]
pub(super) struct Load {
    client: Arc<Client>,
    /// The counted bytes of the session's requests.
    taken: usize,
    idle: bool,
    /// Whether the session is idle, and the client has not used it since the handshake.
    fresh: bool,
}

impl Load {
    pub(super) const fn new(client: Arc<Client>) -> Self {
        Self { client, taken: 0, idle: false, fresh: false }
    }

    fn each(&self) -> [&ClientUsage; 2] {
        [&self.client.own, &self.client.all]
    }

    /// Sets how many bytes the session's requests take.
    pub(super) fn set(&mut self, bytes: usize) {
        if bytes > self.taken {
            self.each()
                .into_iter()
                .for_each(|held| _ = held.in_flight.fetch_add(bytes - self.taken, Ordering::Relaxed));
        } else if bytes < self.taken {
            self.each()
                .into_iter()
                .for_each(|held| _ = held.in_flight.fetch_sub(self.taken - bytes, Ordering::Relaxed));
        }
        self.taken = bytes;
    }

    /// Sets whether the session is idle, and whether the client has used it since the handshake.
    pub(super) fn set_idle(&mut self, idle: bool, used: bool) {
        let fresh = idle && !used;
        for held in self.each() {
            for (counter, now, before) in [(&held.idle, idle, self.idle), (&held.fresh, fresh, self.fresh)] {
                match (before, now) {
                    (false, true) => _ = counter.fetch_add(1, Ordering::Relaxed),
                    (true, false) => _ = counter.fetch_sub(1, Ordering::Relaxed),
                    _ => {}
                }
            }
        }
        (self.idle, self.fresh) = (idle, fresh);
    }

    /// Reassigns the session to this client, if the client is better identified than the current one.
    pub(super) fn belongs_to(&mut self, client: &Arc<Client>) {
        if self.client.is_reassigned_to(client) {
            let (taken, idle, fresh) = (self.taken, self.idle, self.fresh);
            *self = Self::new(client.clone());
            self.set(taken);
            self.set_idle(idle, !fresh);
        }
    }
}

impl Drop for Load {
    fn drop(&mut self) {
        self.set(0);
        self.set_idle(false, true);
    }
}

/// The share of one body in the limit of all bodies that are being read.
#[derive(Debug)]
pub(super) struct Share {
    client: Arc<Client>,
    most: usize,
    taken: usize,
    refused: bool,
}

impl Share {
    pub(super) const fn new(client: Arc<Client>, most: usize) -> Self {
        Self { client, most, taken: 0, refused: false }
    }

    /// Returns the client that sends the body.
    pub(super) const fn client(&self) -> &Arc<Client> {
        &self.client
    }

    /// Takes `bytes` more if they fit, and returns whether they did. If not, the body is refused for good, and all its
    /// bytes are released in the same atomic update: of two bodies that together exceed the limit, one continues.
    pub(super) fn take(&mut self, bytes: usize) -> bool {
        let Self { client, most, taken, refused } = self;
        if *refused {
            return false;
        }
        let own = client.own.bodies.fetch_add(bytes, Ordering::Relaxed);
        let mut fits = false;
        let _ = client.all.bodies.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |all| {
            fits = client.has_room((bytes, taken.saturating_add(bytes)), own, all, *most);
            Some(if fits { all + bytes } else { all - *taken })
        });
        *refused = !fits;
        if fits {
            *taken += bytes;
        } else {
            client.own.bodies.fetch_sub(*taken + bytes, Ordering::Relaxed);
            *taken = 0;
        }
        fits
    }
}

impl Drop for Share {
    fn drop(&mut self) {
        for held in [&self.client.own, &*self.client.all] {
            held.bodies.fetch_sub(self.taken, Ordering::Relaxed);
        }
    }
}

/// The clients that hold resources of an endpoint.
#[derive(Debug)]
pub(super) struct Clients {
    all: Arc<ClientUsage>,
    unknown: Arc<Client>,
    principals: BTreeMap<String, Arc<Client>>,
    addresses: BTreeMap<IpAddr, Arc<Client>>,
    /// The number of clients that remained after the last cleanup.
    kept: usize,
}

impl Clients {
    pub(super) fn new() -> Self {
        let all = Arc::default();
        let unknown = Client::new(&all, Identity::Unknown);
        Self { all, unknown, principals: BTreeMap::new(), addresses: BTreeMap::new(), kept: 0 }
    }

    /// Returns whether a session of this client is idle, or of any client.
    pub(super) fn has_idle(&self, of: Option<&Holder>, among: Among) -> bool {
        let client = match of {
            None => return self.all.has_idle(among),
            Some(Holder::Principal(id)) => self.principals.get(&**id),
            Some(Holder::Address(address)) => self.addresses.get(address),
        };
        client.is_some_and(|client| client.own.has_idle(among))
    }

    /// Returns the client that sends a request.
    pub(super) fn of(&mut self, caller: &Caller) -> Arc<Client> {
        match caller {
            Caller::Known(principal) => self.principal(principal),
            Caller::Anonymous(address) => self.address(*address),
            Caller::Anybody | Caller::Refused(_) => self.unknown.clone(),
        }
    }

    /// Returns the client of a session that is known only by its principal.
    pub(super) fn of_principal(&mut self, principal: Option<&Arc<Principal>>) -> Arc<Client> {
        match principal {
            Some(principal) => self.principal(principal),
            None => self.unknown.clone(),
        }
    }

    fn principal(&mut self, principal: &Principal) -> Arc<Client> {
        if let Some(client) = self.principals.get(&principal.id) {
            return client.clone();
        }
        self.tidy();
        let client = Client::new(&self.all, Identity::Known(Holder::Principal(principal.id.as_str().into())));
        self.principals.insert(principal.id.clone(), client.clone());
        client
    }

    /// Returns the client of an address. All addresses of an IPv6 network of 64 bits are one client, since one host can
    /// use all of them.
    fn address(&mut self, address: IpAddr) -> Arc<Client> {
        let address = match address.to_canonical() {
            IpAddr::V6(address) => Ipv6Addr::from_bits(address.to_bits() & !u128::from(u64::MAX)).into(),
            address @ IpAddr::V4(_) => address,
        };
        if let Some(client) = self.addresses.get(&address) {
            return client.clone();
        }
        self.tidy();
        let client = Client::new(&self.all, Identity::Known(Holder::Address(address)));
        self.addresses.insert(address, client.clone());
        client
    }

    /// Removes clients that hold nothing, when there are many.
    fn tidy(&mut self) {
        let Self { principals, addresses, kept, .. } = self;
        if principals.len() + addresses.len() >= 2 * *kept + MIN_CLIENTS {
            principals.retain(|_, client| Arc::strong_count(client) > 1);
            addresses.retain(|_, client| Arc::strong_count(client) > 1);
            *kept = principals.len() + addresses.len();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use alloc::{string::ToString, vec::Vec};

    const MIB: usize = 1 << 20;

    fn at(text: &str) -> Caller {
        Caller::Anonymous(text.parse().expect("an address"))
    }

    #[test]
    fn an_ipv6_network_is_one_client() {
        let mut clients = Clients::new();
        let mut same = |one: &str, other: &str| Arc::ptr_eq(&clients.of(&at(one)), &clients.of(&at(other)));
        assert!(same("2001:db8:1:2::1", "2001:db8:1:2:ffff::9"));
        assert!(!same("2001:db8:1:2::1", "2001:db8:1:3::1"));
        assert!(same("::ffff:10.0.0.1", "10.0.0.1"));
        assert!(!same("10.0.0.1", "10.0.0.2"));
    }

    #[test]
    fn principal_is_one_client_at_any_address() {
        let mut clients = Clients::new();
        let mut of = |name: &str| clients.of(&Caller::Known(Arc::new(Principal::new(name))));
        assert!(Arc::ptr_eq(&of("ada"), &of("ada")));
        assert!(!Arc::ptr_eq(&of("ada"), &of("eve")));
    }

    #[test]
    fn similar_clients_have_different_slots() {
        let mut clients = Clients::new();
        let mut slot = |caller: &Caller| clients.of(caller).slot(16);
        let named = |name: &str| Caller::Known(Arc::new(Principal::new(name)));
        assert_eq!([slot(&at("10.0.0.1")), slot(&at("10.0.0.7")), slot(&at("::ffff:10.0.0.7"))], [11, 1, 1]);
        assert_ne!(slot(&at("2001:db8:1:2::1")), slot(&at("2001:db8:1:3::1")));
        assert_ne!(slot(&named("ada")), slot(&named("adb")));
    }

    #[test]
    fn forgets_clients_without_usage() {
        let mut clients = Clients::new();
        let kept: Vec<_> =
            (0..100).map(|number: u32| clients.of(&Caller::Anonymous(IpAddr::V4(number.into())))).collect();
        for number in 1000..100_000_u32 {
            let principal = Principal::new(number.to_string());
            clients.of(&if number % 2 == 0 {
                Caller::Anonymous(IpAddr::V4(number.into()))
            } else {
                Caller::Known(Arc::new(principal))
            });
            assert!(clients.principals.len() + clients.addresses.len() <= 2 * kept.len() + MIN_CLIENTS);
        }
        assert!(Arc::ptr_eq(&kept[7], &clients.of(&Caller::Anonymous(IpAddr::V4(7.into())))));
    }

    /// Each client in turn takes bytes until it is refused.
    #[test]
    fn later_clients_get_a_share() {
        for whole in [4096, MIB] {
            let mut clients = Clients::new();
            let mut held = Vec::new();
            let mut got = [0; 3];
            for (number, got) in (0..3_u8).zip(&mut got) {
                let client = clients.of(&Caller::Anonymous(IpAddr::from([10, 0, 0, number])));
                loop {
                    let mut share = Share::new(client.clone(), 256 * MIB);
                    if !share.take(whole) {
                        break;
                    }
                    *got += whole;
                    held.push(share);
                }
            }
            assert!(got[0] > 220 * MIB && got[0] <= 224 * MIB, "{got:?}");
            // The reserve for small bodies reduces what is left for large ones.
            assert!(if whole < SMALL { got[1] > 27 * MIB && got[2] > 3 * MIB } else { got[1] >= 15 * MIB }, "{got:?}");
            let late = clients.of(&at("192.0.2.1"));
            assert!(Share::new(late, 256 * MIB).take(SMALL));
            held.clear();
            assert_eq!(clients.all.bodies.load(Ordering::Relaxed), 0);
        }
    }

    #[test]
    fn session_usage_moves_to_its_client() {
        let mut clients = Clients::new();
        let (session, known) = (clients.unknown.of_session(), clients.of(&at("10.0.0.1")));
        let held = |client: &Client| {
            let own = &client.own;
            [&own.in_flight, &own.idle, &own.fresh].map(|it| it.load(Ordering::Relaxed))
        };
        let mut load = Load::new(session.clone());
        load.set(1000);
        load.set_idle(true, false);
        load.belongs_to(&clients.unknown.clone());
        assert_eq!((held(&session), held(&known)), ([1000, 1, 1], [0, 0, 0]));
        load.belongs_to(&known);
        assert_eq!((held(&session), held(&known)), ([0, 0, 0], [1000, 1, 1]));
        // A session of an identified client is not reassigned.
        load.belongs_to(&clients.of(&at("10.0.0.2")));
        assert_eq!((held(&known), clients.all.in_flight.load(Ordering::Relaxed)), ([1000, 1, 1], 1000));
        load.set_idle(true, true);
        assert_eq!(held(&known), [1000, 1, 0]);
        drop(load);
        assert_eq!((held(&known), clients.all.in_flight.load(Ordering::Relaxed)), ([0, 0, 0], 0));
        assert!(!clients.has_idle(None, Among::All) && !clients.has_idle(known.holder(), Among::All));
    }

    #[test]
    fn shares_end_at_exact_bytes() {
        let mut clients = Clients::new();
        let (known, unknown) = (clients.of(&at("10.0.0.1")), clients.unknown.clone());
        for (bytes, own, all, most, of_known, of_unknown) in [
            // Seven times what is left, and one.
            (700, 0, 0, 800, true, true),
            (701, 0, 0, 800, false, true),
            (699, 1, 1, 800, true, true),
            (700, 1, 1, 800, false, true),
            (800, 0, 0, 800, false, true),
            (801, 0, 0, 800, false, false),
            (1, 0, 800, 800, false, false),
            (0, 7, 800, 800, true, true),
            (0, 8, 800, 800, false, true),
            (0, 0, 801, 800, false, false),
        ] {
            let rooms = [&known, &unknown].map(|client| client.has_room((bytes, bytes), own, all, most));
            assert_eq!(rooms, [of_known, of_unknown], "{bytes} {own} {all}");
        }
        // A sixteenth is reserved for what is small.
        for (whole, rest, expected) in
            [(SMALL, 0, true), (SMALL + 1, MIB - 1, false), (SMALL + 1, MIB, true), (SMALL, MIB - 1, true)]
        {
            let all = 16 * MIB - rest - 10;
            assert_eq!(unknown.has_room((10, whole), 0, all, 16 * MIB), expected, "{whole} {rest}");
        }
        // The first request always has room.
        assert!(known.has_room_for_request(1000, 10));
        let mut load = Load::new(known.clone());
        load.set(1);
        assert!(!known.has_room_for_request(1000, 10) && known.has_room_for_request(1, 10));
        load.set(0);
        assert!(known.has_room_for_request(1000, 10));
    }

    #[test]
    fn unused_clients_are_searched_for_above_64() {
        let mut clients = Clients::new();
        let mut add = |number: u32| {
            let client = clients.of(&Caller::Anonymous(IpAddr::V4(number.into())));
            (client, clients.principals.len() + clients.addresses.len())
        };
        let mut held: Vec<_> = (0..10).map(|number| add(number).0).collect();
        assert_eq!((10..64).map(|number| add(number).1).last(), Some(64));
        assert_eq!(add(64).1, 11, "ten are used, and there is a new one");
        held.truncate(5);
        // Twice those that remained, and 64.
        assert_eq!((65..138).map(|number| add(number).1).last(), Some(84));
        assert_eq!(add(138).1, 6);
    }

    #[test]
    fn refused_bodies_release_their_bytes() {
        let mut clients = Clients::new();
        let client = clients.of(&at("10.0.0.1"));
        let held = || [&client.own, &*client.all].map(|held| held.bodies.load(Ordering::Relaxed));
        let mut share = Share::new(client.clone(), 800);
        assert!(share.take(300) && share.take(400));
        assert_eq!((held(), Arc::ptr_eq(share.client(), &client)), ([700; 2], true));
        assert!(!share.take(1));
        assert_eq!(held(), [0; 2]);
        assert!(!share.take(1), "it is refused for good");
        let mut other = Share::new(client.clone(), 800);
        assert!(other.take(5));
        drop(share);
        assert_eq!(held(), [5; 2]);
        drop(other);
        assert_eq!(held(), [0; 2]);
    }
}
