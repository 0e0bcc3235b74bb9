//! The proofs that were accepted, so that each is accepted once (RFC 9449, section 11.1).

use alloc::{collections::BTreeMap, vec::Vec};
use core::fmt;

use hmac_sha256::Hash;

use super::proof::{ProofError, VerifiedProof};

/// The part of a hash that identifies a proof or a principal. Finding two texts with the same part takes about 2⁶⁴
/// attempts, and two such proofs concern only the owner of their key.
type Id = [u8; 16];

/// The most old proofs that are removed for each proof that is admitted. It is more than one, so that their number
/// decreases.
const REMOVED: usize = 16;

/// The part of its share that each principal has in the reserve.
const RESERVED_PART: usize = 512;

/// The proofs that were accepted and are not too old yet.
///
/// An entry has a fixed size. The number of entries is bounded, and no entry is removed before it is too old: without
/// room, a proof is refused. The entries of a principal are bounded as well, for all of its keys together:
///
/// - Half of the entries are a **reserve**, of which each principal gets a 512th of its share at most. So a principal
///   that sends few requests is served, whatever the others send, unless there are more principals than the reserve has
///   parts: 1,024 by default.
/// - In the **other half** a principal gets another entry while it has fewer than its share and fewer than are free. So
///   a principal that fills its share locks out only itself. Several together lock out only those that need more than
///   their parts of the reserve.
///
/// Proofs that are too old count no longer. They are removed a few at a time, when others are admitted. Proofs whose
/// last second has passed are refused also after the clock was set back.
pub struct ReplayCache {
    /// Each proof and the last second at which it is accepted.
    seen: BTreeMap<Id, u64>,
    /// The proofs by that second, and their principals. The rules for proofs bound the number of seconds.
    pub(super) by_second: BTreeMap<u64, Second>,
    /// The proofs that are too old and were not removed yet, by second.
    pub(super) old: Vec<(u64, Vec<Entry>)>,
    /// The last second whose proofs became too old.
    passed: Option<u64>,
    /// The number of proofs of each principal, by their last seconds.
    pub(super) held: BTreeMap<(Id, u64), Count>,
    /// The number of proofs that are not too old.
    len: Count,
    total: usize,
    share: usize,
}

/// A proof and its principal.
type Entry = (Id, Id);

/// The proofs with the same last second.
#[derive(Default)]
pub(super) struct Second {
    entries: Vec<Entry>,
    count: Count,
}

/// A number of proofs, in the reserve and in the other half.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Count {
    reserved: usize,
    shared: usize,
}

impl Count {
    const fn add(&mut self, is_reserved: bool) {
        *(if is_reserved { &mut self.reserved } else { &mut self.shared }) += 1;
    }

    const fn sum(self) -> usize {
        self.reserved + self.shared
    }
}

impl ReplayCache {
    /// The default bound of entries. Full, they take about 40 MiB: 24 bytes in the index of ids, 32 in the list by
    /// second, at most 40 in the counts, and the space that these leave free.
    pub const TOTAL: usize = 1 << 18;

    /// The default share of a principal.
    pub const SHARE: usize = Self::TOTAL / 4;

    /// Creates an empty cache for `total` proofs, of which at most `share` are of one principal, and a 512th of its
    /// share more. With a share below 512 there is no reserve.
    ///
    /// The proofs of two minutes have to fit, with the default [rules](super::ProofRules): `share` divided by 120 is
    /// the rate of requests that one busy principal can sustain; a second one gets half of it. With a longer
    /// [age](super::ProofRules::max_age) it is less in proportion: divide by the age and twice the
    /// [leeway](super::ProofRules::leeway).
    #[must_use]
    pub const fn new(total: usize, share: usize) -> Self {
        Self {
            seen: BTreeMap::new(),
            by_second: BTreeMap::new(),
            old: Vec::new(),
            passed: None,
            held: BTreeMap::new(),
            len: Count { reserved: 0, shared: 0 },
            total,
            share,
        }
    }

    /// Accepts a proof of a principal, the first time.
    ///
    /// # Errors
    /// Returns [`ProofError::Replayed`] if it was accepted before, [`ProofError::TooOld`] if it became too old while
    /// its token was verified, or before the clock was set back, and [`ProofError::TooMany`] if there is no room for
    /// it.
    pub fn admit(&mut self, now: u64, principal: &str, proof: &VerifiedProof) -> Result<(), ProofError> {
        self.pass(now);
        self.remove_old();
        let second = proof.last_second;
        if second < now || self.is_old(second) {
            // If it was accepted before, its entry may have been removed.
            return Err(ProofError::TooOld);
        }
        let id = id(&[proof.thumbprint.as_bytes(), proof.id.as_bytes()]);
        if self.seen.get(&id).is_some_and(|second| !self.is_old(*second)) {
            return Err(ProofError::Replayed);
        }
        let principal = self::id(&[principal.as_bytes()]);
        let is_reserved = self.place(principal).ok_or(ProofError::TooMany)?;
        self.seen.insert(id, second);
        let of_second = self.by_second.entry(second).or_default();
        of_second.entries.push((id, principal));
        of_second.count.add(is_reserved);
        self.held.entry((principal, second)).or_default().add(is_reserved);
        self.len.add(is_reserved);
        Ok(())
    }

    /// Returns whether the next proof of a principal belongs to the reserve; `None` if there is no room for it.
    fn place(&self, principal: Id) -> Option<bool> {
        let part = self.share / RESERVED_PART;
        let reserve = if part > 0 { self.total / 2 } else { 0 };
        let held = self.held_by(principal);
        if held.reserved < part && self.len.reserved < reserve {
            return Some(true);
        }
        let left = (self.total - reserve).saturating_sub(self.len.shared);
        (held.shared < self.share.min(left)).then_some(false)
    }

    /// Returns whether proofs with this last second are too old, or were before the clock was set back.
    fn is_old(&self, second: u64) -> bool {
        self.passed.is_some_and(|passed| second <= passed)
    }

    /// Returns the number of proofs of a principal that are not too old.
    fn held_by(&self, principal: Id) -> Count {
        let first = self.passed.map_or(0, |passed| passed.saturating_add(1));
        let held = self.held.range((principal, first)..=(principal, u64::MAX));
        held.fold(Count::default(), |sum, (_, count)| Count {
            reserved: sum.reserved + count.reserved,
            shared: sum.shared + count.shared,
        })
    }

    /// Stops counting the proofs that are refused for their age.
    fn pass(&mut self, now: u64) {
        while let Some(entry) = self.by_second.first_entry()
            && *entry.key() < now
        {
            let (second, Second { entries, count }) = entry.remove_entry();
            self.len.reserved -= count.reserved;
            self.len.shared -= count.shared;
            self.passed = self.passed.max(Some(second));
            self.old.push((second, entries));
        }
    }

    /// Removes some of the proofs that are too old.
    fn remove_old(&mut self) {
        for _ in 0..REMOVED {
            let Some((second, entries)) = self.old.last_mut() else { return };
            let second = *second;
            if let Some((id, principal)) = entries.pop() {
                // Another proof with the same id may have been accepted since.
                if self.seen.get(&id) == Some(&second) {
                    self.seen.remove(&id);
                }
                self.held.remove(&(principal, second));
            }
            if entries.is_empty() {
                self.old.pop();
            }
        }
    }

    /// Returns the number of proofs that are not too old, at the time of the last one.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.len.sum()
    }

    /// Returns whether there are no such proofs.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl Default for ReplayCache {
    fn default() -> Self {
        Self::new(Self::TOTAL, Self::SHARE)
    }
}

impl fmt::Debug for ReplayCache {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ReplayCache").field("len", &self.len()).finish_non_exhaustive()
    }
}

/// Returns the id of texts. Only the last one has a length that is not fixed.
fn id(texts: &[&[u8]]) -> Id {
    let mut hash = Hash::new();
    texts.iter().for_each(|text| hash.update(text));
    let mut id = Id::default();
    id.copy_from_slice(&hash.finalize()[..16]);
    id
}
