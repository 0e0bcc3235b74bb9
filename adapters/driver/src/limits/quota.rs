//! A quota that several peers share.

use std::{collections::BTreeMap, fmt, sync::Arc, time::Duration};

use crate::watched::Watched;
use mcp_service::driver_api::Holder;

/// How much one holder may hold, as a multiple of what is still free. A single holder gets seven eighths of a quota,
/// two get seven fifteenths each, and so on: a few holders together can take all of it.
const SHARE: usize = 7;

/// A capacity that holders share: connections, running functions, or bytes.
///
/// A holder gets a permit while it holds less than seven times as much as is still free. So one holder gets at most
/// seven eighths of a large capacity, and a second one at most seven eighths of the rest. It is no protection against
/// many holders: three of them take all of a capacity of 64, and a single one may take all of a capacity below 8.
#[derive(Debug)]
pub struct Quota {
    capacity: usize,
    taken: Watched<Taken>,
}

#[derive(Debug, Default)]
struct Taken {
    total: usize,
    holders: BTreeMap<Holder, usize>,
}

impl Quota {
    /// Creates a quota with this capacity.
    #[must_use]
    pub fn new(capacity: usize) -> Arc<Self> {
        Arc::new(Self { capacity, taken: Watched::default() })
    }

    /// Returns the capacity.
    #[must_use]
    pub const fn capacity(&self) -> usize {
        self.capacity
    }

    /// Returns how much of it is taken.
    #[must_use]
    pub fn taken(&self) -> usize {
        self.taken.read(|taken| taken.total)
    }

    /// Takes a permit for `amount`. Returns `None` if that is more than the share of this holder, or more than is free.
    #[must_use]
    pub fn take(self: &Arc<Self>, holder: &Holder, amount: usize) -> Option<Permit> {
        let mut permit = Permit { quota: self.clone(), holder: holder.clone(), amount: 0 };
        permit.set(amount).then_some(permit)
    }

    /// Returns whether this holder could take `amount` now.
    #[must_use]
    pub fn has_room(&self, holder: &Holder, amount: usize) -> bool {
        self.taken.read(|taken| taken.has_room(self.capacity, holder, amount))
    }

    /// Changes a part of a holder from `amount` to `to`. Returns `false` and changes nothing if there is no room.
    /// Making it smaller always succeeds.
    #[inline]
    pub(crate) fn change(&self, holder: &Holder, amount: &mut usize, to: usize) -> bool {
        // Most sessions hold little, and their amounts are rounded: they rarely change.
        to == *amount || self.change_to(holder, amount, to)
    }

    fn change_to(&self, holder: &Holder, amount: &mut usize, to: usize) -> bool {
        let changed = self.taken.update(|taken| match to.checked_sub(*amount) {
            Some(more) if !taken.has_room(self.capacity, holder, more) => false,
            Some(more) => {
                taken.add(holder, more);
                true
            }
            None => {
                taken.remove(holder, *amount - to);
                true
            }
        });
        if changed {
            *amount = to;
        }
        changed
    }

    /// Waits until less than all of it is taken.
    pub async fn until_free(&self) {
        self.taken.wait_for(|taken| (taken.total < self.capacity).then_some(())).await;
    }

    /// Waits until none of it is taken.
    pub async fn until_unused(&self) {
        self.taken.wait_for(|taken| (taken.total == 0).then_some(())).await;
    }

    /// Blocks until less than all of it is taken, but no longer than `timeout`, and returns whether that is the case.
    pub fn wait_free(&self, timeout: Duration) -> bool {
        self.taken.wait_until(timeout, |taken| taken.total < self.capacity)
    }
}

impl Taken {
    fn has_room(&self, capacity: usize, holder: &Holder, amount: usize) -> bool {
        let Some(rest) = capacity.saturating_sub(self.total).checked_sub(amount) else { return false };
        let held = self.holders.get(holder).copied().unwrap_or(0);
        // The amount is compared with what was free before its last unit was taken, so that a holder can take a
        // capacity of one.
        *holder == Holder::Unknown || held.saturating_add(amount) <= SHARE.saturating_mul(rest.saturating_add(1))
    }

    fn add(&mut self, holder: &Holder, amount: usize) {
        self.total += amount;
        match self.holders.get_mut(holder) {
            Some(held) => *held += amount,
            None => _ = self.holders.insert(holder.clone(), amount),
        }
    }

    fn remove(&mut self, holder: &Holder, amount: usize) {
        self.total -= amount;
        if let Some(held) = self.holders.get_mut(holder) {
            *held -= amount;
            if *held == 0 {
                self.holders.remove(holder);
            }
        }
    }
}

/// A part of a [`Quota`]. Dropping it returns the part.
#[must_use = "dropping it gives it back"]
pub struct Permit {
    quota: Arc<Quota>,
    holder: Holder,
    amount: usize,
}

impl Permit {
    /// Changes the amount. Returns `false` and changes nothing if there is no room. Making it smaller always succeeds.
    pub fn set(&mut self, amount: usize) -> bool {
        self.quota.change(&self.holder, &mut self.amount, amount)
    }

    /// Returns the amount.
    #[must_use]
    pub const fn amount(&self) -> usize {
        self.amount
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        self.set(0);
    }
}

impl fmt::Debug for Permit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Permit").field("holder", &self.holder).field("amount", &self.amount).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::IpAddr;

    fn address(last: u8) -> Holder {
        Holder::at(IpAddr::from([127, 0, 0, last]))
    }

    /// Takes permits of one until one is refused.
    fn fill(quota: &Arc<Quota>, holder: &Holder) -> Vec<Permit> {
        std::iter::from_fn(|| quota.take(holder, 1)).collect()
    }

    #[test]
    fn one_holder_cannot_take_all_capacity() {
        for (capacity, first, second, third) in [(1024, 896, 112, 14), (64, 56, 7, 1), (4, 4, 0, 0), (1, 1, 0, 0)] {
            let quota = Quota::new(capacity);
            let held = [address(1), address(2), address(3)].map(|holder| fill(&quota, &holder));
            assert_eq!(held.each_ref().map(Vec::len), [first, second, third], "of {capacity}");
            drop(held);
            assert_eq!((quota.taken(), quota.taken.read(|taken| taken.holders.len())), (0, 0));
        }
        let quota = Quota::new(64);
        assert_eq!(fill(&quota, &Holder::Unknown).len(), 64);
    }

    #[test]
    fn holder_share_depends_on_remaining_capacity() {
        let quota = Quota::new(800);
        let mut first = quota.take(&address(1), 600).expect("there is room");
        assert!(!first.set(701) && first.set(700), "seven eighths are {}", first.amount());
        assert!(quota.take(&address(1), 8).is_none());
        let second = quota.take(&address(2), 80).expect("there is room for others");
        assert!(quota.take(&address(3), 21).is_none() && quota.has_room(&address(3), 17));
        assert!(first.set(0) && quota.has_room(&address(3), 600));
        drop(second);
        assert_eq!(quota.taken(), 0);
        assert!(quota.take(&address(1), 801).is_none(), "more than there is");
    }
}
