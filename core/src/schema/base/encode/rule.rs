//! Rules for a member, or for an object as a whole.

use crate::{
    protocol::{Method, ProtocolVersion, VersionSet},
    schema::base::format::Format,
};

/// Returns the revisions that have params of `method`, also as part of a result.
const fn versions(method: Method) -> VersionSet {
    match method {
        Method::CreateMessage | Method::ListRoots | Method::Elicit => {
            method.versions().union(VersionSet::only(ProtocolVersion::V2026_07_28))
        }
        _ => method.versions(),
    }
}

/// The rule for a member: the revisions that have it, and its treatment in others.
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
    /// Creates the rule for a member of every revision.
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

    /// Restricts the member to `version` and later revisions.
    pub(crate) const fn since(mut self, version: ProtocolVersion) -> Self {
        self.versions = self.versions.intersection(VersionSet::since(version));
        self
    }

    /// Restricts the member to `version` and earlier revisions.
    pub(crate) const fn until(mut self, version: ProtocolVersion) -> Self {
        self.versions = self.versions.intersection(VersionSet::between(ProtocolVersion::V2024_11_05, version));
        self
    }

    /// Restricts the member to `version`.
    pub(crate) const fn only(mut self, version: ProtocolVersion) -> Self {
        self.versions = VersionSet::only(version);
        self
    }

    /// Restricts the member to the revisions that have params of `method`, also as part of a result.
    pub(crate) const fn method(mut self, method: Method) -> Self {
        self.versions = self.versions.intersection(versions(method));
        self
    }

    /// Makes it an error to write the member for a revision without it, since the message would have another meaning.
    pub(crate) const fn or_refuse(mut self) -> Self {
        self.refuse = true;
        self
    }

    /// Makes a member required in the revisions that have it, although its type is optional.
    pub(crate) const fn needed(mut self) -> Self {
        self.needed = true;
        self
    }

    /// Restricts the values of each revision. Other values are treated as in revisions without the member.
    pub(crate) const fn fits(mut self, fits: fn(&T, ProtocolVersion) -> bool) -> Self {
        self.fits = Some(fits);
        self
    }

    /// Restricts the values of each revision. Other values are an error.
    pub(crate) const fn has_to(mut self, fits: fn(&T, ProtocolVersion) -> bool) -> Self {
        self.insists = true;
        self.fits(fits)
    }

    /// Sets the value of a missing member. A required one may be missing from the input. An optional one is written for
    /// the revisions that have it.
    pub(crate) const fn or(mut self, fallback: fn() -> T) -> Self {
        self.fallback = Some(fallback);
        self
    }

    /// Sets the format of the text or number.
    pub(crate) const fn is(mut self, format: Format) -> Self {
        self.format = Some(format);
        self
    }

    /// Sets how a random value is changed into one that [`has_to`](Self::has_to) admits, if few are.
    pub(crate) const fn mended(mut self, mend: fn(&mut T)) -> Self {
        self.mend = Some(mend);
        self
    }

    /// Returns the revisions that have the member.
    pub(crate) const fn versions(&self) -> VersionSet {
        self.versions
    }

    /// Returns the value of a missing member, if there is one.
    pub(crate) const fn fallback(&self) -> Option<fn() -> T> {
        self.fallback
    }

    /// Returns whether the member is written with this value.
    pub(crate) fn admits(&self, value: &T, version: ProtocolVersion) -> bool {
        self.versions.contains(version) && self.fits.is_none_or(|fits| fits(value, version))
    }

    /// Returns whether it is an error to write the member with a value that `version` does not admit.
    pub(crate) const fn refuses(&self, version: ProtocolVersion) -> bool {
        self.refuse || (self.insists && self.versions.contains(version))
    }

    /// Returns whether a member that had an unexpected form may be written again.
    pub(crate) fn may_be_malformed(&self, version: Option<ProtocolVersion>) -> bool {
        version.is_none_or(|version| self.versions.contains(version) && !self.must_be_there(version))
    }

    /// Returns whether `version` requires the member in every object.
    pub(crate) fn must_be_there(&self, version: ProtocolVersion) -> bool {
        self.versions.contains(version) && (self.needed || self.fallback.is_some())
    }

    /// Changes a random value into one that the rule admits.
    #[cfg(feature = "arbitrary")]
    pub(crate) fn mend(&self, value: &mut T) {
        if let Some(mend) = self.mend {
            mend(value);
        }
    }

    /// Returns the format of the text or number.
    #[cfg(feature = "arbitrary")]
    pub(crate) const fn format(&self) -> Option<Format> {
        self.format
    }
}
