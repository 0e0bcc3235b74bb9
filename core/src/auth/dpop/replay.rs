//! The proofs that were accepted, so that each is accepted once (RFC 9449, section 11.1).

use alloc::{collections::BTreeMap, vec::Vec};
use core::fmt;

use hmac_sha256::Hash;

use super::proof::{ProofError, VerifiedProof};

/// The part of a hash by which a proof, or a principal, is known. Finding two texts with the same part takes about 2⁶⁴
/// attempts, and two such proofs concern only the owner of their key.
type Id = [u8; 16];

/// The most old proofs that are removed for each proof that is admitted. More than one, so that they become fewer.
const REMOVED: usize = 16;

/// The proofs that were accepted and are not too old yet.
///
/// An entry has a fixed size, whatever the proof contains. The entries in total are bounded, and so are those of a
/// principal: it has at most its share, and less than half of what the others have left. So a principal that fills its
/// share locks out itself. Proofs that are too old count no longer. They are removed a few at a time, when others are
/// admitted. Those whose last second has passed once are refused also after the clock was set back.
pub struct ReplayCache {
    /// Each proof and the last second at which it is accepted.
    seen: BTreeMap<Id, u64>,
    /// The proofs by that second, and their principals. The rules for proofs bound the number of seconds.
    pub(super) by_second: BTreeMap<u64, Vec<Entry>>,
    /// The proofs that are too old and were not removed yet, by second.
    pub(super) old: Vec<(u64, Vec<Entry>)>,
    /// The last second whose proofs became too old.
    passed: Option<u64>,
    /// How many proofs each principal has, by their last seconds.
    pub(super) held: BTreeMap<(Id, u64), usize>,
    /// How many proofs are not too old.
    len: usize,
    total: usize,
    share: usize,
}

/// A proof and its principal.
type Entry = (Id, Id);

impl ReplayCache {
    /// The default bound of entries. Full, they take about 40 MiB.
    pub const TOTAL: usize = 1 << 18;

    /// The default share of a principal.
    pub const SHARE: usize = Self::TOTAL / 4;

    /// Creates an empty cache for `total` proofs, of which at most `share` are of one principal.
    ///
    /// The proofs of two minutes have to fit, with the default [rules](super::ProofRules): `share` divided by 120 is
    /// the rate of requests that a principal can sustain. With a longer [age](super::ProofRules::max_age) it is less in
    /// proportion: divide by the age and twice the [leeway](super::ProofRules::leeway).
    #[must_use]
    pub const fn new(total: usize, share: usize) -> Self {
        Self {
            seen: BTreeMap::new(),
            by_second: BTreeMap::new(),
            old: Vec::new(),
            passed: None,
            held: BTreeMap::new(),
            len: 0,
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
            // It may have been removed, if it was accepted before.
            return Err(ProofError::TooOld);
        }
        let id = id(&[proof.thumbprint.as_bytes(), proof.id.as_bytes()]);
        if self.seen.get(&id).is_some_and(|second| !self.is_old(*second)) {
            return Err(ProofError::Replayed);
        }
        let principal = self::id(&[principal.as_bytes()]);
        if self.held_by(principal) >= self.share.min(self.total.saturating_sub(self.len)) {
            return Err(ProofError::TooMany);
        }
        self.seen.insert(id, second);
        self.by_second.entry(second).or_default().push((id, principal));
        *self.held.entry((principal, second)).or_default() += 1;
        self.len += 1;
        Ok(())
    }

    /// Returns whether proofs with this last second are too old, or were before the clock was set back.
    fn is_old(&self, second: u64) -> bool {
        self.passed.is_some_and(|passed| second <= passed)
    }

    /// Returns how many proofs a principal has that are not too old.
    fn held_by(&self, principal: Id) -> usize {
        let first = self.passed.map_or(0, |passed| passed.saturating_add(1));
        self.held.range((principal, first)..=(principal, u64::MAX)).map(|(_, count)| count).sum()
    }

    /// Stops to count the proofs that are refused for their age.
    fn pass(&mut self, now: u64) {
        while let Some(entry) = self.by_second.first_entry()
            && *entry.key() < now
        {
            let (second, entries) = entry.remove_entry();
            self.len -= entries.len();
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
    pub fn len(&self) -> usize {
        self.len
    }

    /// Returns whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len == 0
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
