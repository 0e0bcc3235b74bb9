//! What holds for a member, or for an object as a whole.

use crate::{
    protocol::{Method, ProtocolVersion, VersionSet},
    schema::base::format::Format,
};

/// The revisions in which params of `method` occur: also those where they travel inside of a result.
const fn versions(method: Method) -> VersionSet {
    match method {
        Method::CreateMessage | Method::ListRoots | Method::Elicit => {
            method.versions().union(VersionSet::only(ProtocolVersion::V2026_07_28))
        }
        _ => method.versions(),
    }
}

/// What holds for a member: which revisions have it, and what is done about the others.
pub(crate) struct Rule<T> {
    versions: VersionSet,
    refuse: bool,
    needed: bool,
    insists: bool,
    fits: Option<fn(&T, ProtocolVersion) -> bool>,
    fallback: Option<fn() -> T>,
    format: Option<Format>,
    mend: Option<fn(&mut T)>,
}

impl<T> Rule<T> {
    /// In every revision.
    pub(crate) const fn new() -> Self {
        Self {
            versions: VersionSet::ALL,
            refuse: false,
            needed: false,
            insists: false,
            fits: None,
            fallback: None,
            format: None,
            mend: None,
        }
    }

    /// In `version` and all later ones.
    pub(crate) const fn since(mut self, version: ProtocolVersion) -> Self {
        self.versions = self.versions.intersection(VersionSet::since(version));
        self
    }

    /// In `version` and all earlier ones.
    pub(crate) const fn until(mut self, version: ProtocolVersion) -> Self {
        self.versions = self.versions.intersection(VersionSet::between(ProtocolVersion::V2024_11_05, version));
        self
    }

    /// Only in `version`.
    pub(crate) const fn only(mut self, version: ProtocolVersion) -> Self {
        self.versions = VersionSet::only(version);
        self
    }

    /// Where `method` exists, also inside of another message.
    pub(crate) const fn method(mut self, method: Method) -> Self {
        self.versions = self.versions.intersection(versions(method));
        self
    }

    /// Without it the message would mean something else: writing it for another revision is an error.
    pub(crate) const fn or_refuse(mut self) -> Self {
        self.refuse = true;
        self
    }

    /// Optional in the type, required by the revisions that have it.
    pub(crate) const fn needed(mut self) -> Self {
        self.needed = true;
        self
    }

    /// Only values of this kind exist in a revision. Others are treated as in revisions without the member.
    pub(crate) const fn fits(mut self, fits: fn(&T, ProtocolVersion) -> bool) -> Self {
        self.fits = Some(fits);
        self
    }

    /// Only values of this kind exist in a revision, and others are refused.
    pub(crate) const fn has_to(mut self, fits: fn(&T, ProtocolVersion) -> bool) -> Self {
        self.insists = true;
        self.fits(fits)
    }

    /// What a missing member stands for. A required one may be missing from the input; an optional one is written
    /// for the revisions that have it.
    pub(crate) const fn or(mut self, fallback: fn() -> T) -> Self {
        self.fallback = Some(fallback);
        self
    }

    /// What the text or number has to look like.
    pub(crate) const fn is(mut self, format: Format) -> Self {
        self.format = Some(format);
        self
    }

    /// How a random value becomes one that [`has_to`](Self::has_to) lets through, where few of them are.
    pub(crate) const fn mended(mut self, mend: fn(&mut T)) -> Self {
        self.mend = Some(mend);
        self
    }

    /// The revisions that have the member.
    pub(crate) const fn versions(&self) -> VersionSet {
        self.versions
    }

    /// What a missing member stands for.
    pub(crate) const fn fallback(&self) -> Option<fn() -> T> {
        self.fallback
    }

    /// Whether the member is written with this value.
    pub(crate) fn admits(&self, value: &T, version: ProtocolVersion) -> bool {
        self.versions.contains(version) && self.fits.is_none_or(|fits| fits(value, version))
    }

    /// Whether it is an error to write the member with a value that `version` does not admit.
    pub(crate) const fn refuses(&self, version: ProtocolVersion) -> bool {
        self.refuse || (self.insists && self.versions.contains(version))
    }

    /// Whether a member that had an unexpected form may be written out again.
    pub(crate) fn may_be_odd(&self, version: Option<ProtocolVersion>) -> bool {
        version.is_none_or(|version| self.versions.contains(version) && !self.must_be_there(version))
    }

    /// Whether `version` wants the member in every object.
    pub(crate) fn must_be_there(&self, version: ProtocolVersion) -> bool {
        self.versions.contains(version) && (self.needed || self.fallback.is_some())
    }

    /// Makes a random value one that the rule admits.
    #[cfg(feature = "arbitrary")]
    pub(crate) fn mend(&self, value: &mut T) {
        if let Some(mend) = self.mend {
            mend(value);
        }
    }

    /// What the text or number has to look like.
    #[cfg(feature = "arbitrary")]
    pub(crate) const fn format(&self) -> Option<Format> {
        self.format
    }
}
