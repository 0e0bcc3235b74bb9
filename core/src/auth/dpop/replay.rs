//! The proofs that were accepted, so that each is accepted once (RFC 9449, section 11.1).

use alloc::{
    collections::{BTreeMap, btree_map::Entry},
    vec::Vec,
};
use core::fmt;

use hmac_sha256::Hash;

use super::proof::{ProofError, VerifiedProof};

/// The part of a hash by which a proof, or a principal, is known. Finding two texts with the same part takes about 2⁶⁴
/// attempts, and two such proofs concern only the owner of their key.
type Id = [u8; 16];

/// The proofs that were accepted and are not too old yet.
///
/// An entry has a fixed size, whatever the proof contains. The entries in total are bounded, and so are those of a
/// principal: it has at most its share, and less than half of what the others have left. So a principal that fills its
/// share locks out itself. Entries are removed when their proofs are too old.
pub struct ReplayCache {
    /// Each proof and its principal.
    seen: BTreeMap<Id, Id>,
    /// The proofs by the last second at which they are accepted. The rules for proofs bound the number of seconds.
    pub(super) by_second: BTreeMap<u64, Vec<Id>>,
    /// How many proofs each principal has.
    pub(super) held: BTreeMap<Id, usize>,
    total: usize,
    share: usize,
}

impl ReplayCache {
    /// The default bound of entries. Full, they take about 30 MiB.
    pub const TOTAL: usize = 1 << 18;

    /// The default share of a principal.
    pub const SHARE: usize = Self::TOTAL / 4;

    /// Creates an empty cache for `total` proofs, of which at most `share` are of one principal.
    ///
    /// The proofs of two minutes have to fit, with the default [rules](super::ProofRules): `share` divided by 120 is
    /// the rate of requests that a principal can sustain.
    #[must_use]
    pub const fn new(total: usize, share: usize) -> Self {
        Self { seen: BTreeMap::new(), by_second: BTreeMap::new(), held: BTreeMap::new(), total, share }
    }

    /// Accepts a proof of a principal, the first time.
    ///
    /// # Errors
    /// Returns [`ProofError::Replayed`] if it was accepted before, [`ProofError::TooOld`] if it became too old while
    /// its token was verified, and [`ProofError::TooMany`] if there is no room for it.
    pub fn admit(&mut self, now: u64, principal: &str, proof: &VerifiedProof) -> Result<(), ProofError> {
        self.remove_old(now);
        if proof.last_second < now {
            // It was removed, if it was accepted before.
            return Err(ProofError::TooOld);
        }
        let id = id(&[proof.thumbprint.as_bytes(), proof.id.as_bytes()]);
        let principal = self::id(&[principal.as_bytes()]);
        let left = self.total.saturating_sub(self.seen.len());
        let held = self.held.get(&principal).copied().unwrap_or_default();
        match self.seen.entry(id) {
            Entry::Occupied(_) => return Err(ProofError::Replayed),
            Entry::Vacant(_) if held >= self.share.min(left) => return Err(ProofError::TooMany),
            Entry::Vacant(entry) => entry.insert(principal),
        };
        *self.held.entry(principal).or_default() += 1;
        self.by_second.entry(proof.last_second).or_default().push(id);
        Ok(())
    }

    /// Removes the proofs that are refused for their age. Each is removed once.
    fn remove_old(&mut self, now: u64) {
        while let Some(entry) = self.by_second.first_entry()
            && *entry.key() < now
        {
            for id in entry.remove() {
                let Some(principal) = self.seen.remove(&id) else { continue };
                let Entry::Occupied(mut held) = self.held.entry(principal) else { continue };
                *held.get_mut() -= 1;
                if *held.get() == 0 {
                    held.remove();
                }
            }
        }
    }

    /// Returns the number of entries.
    #[must_use]
    pub fn len(&self) -> usize {
        self.seen.len()
    }

    /// Returns whether there are none.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.seen.is_empty()
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
