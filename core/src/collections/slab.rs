//! A slab whose `Debug` prints its entries.

use core::{
    fmt,
    ops::{Deref, DerefMut},
};

use slab::Slab;

use super::StaticDefault;

/// A [`Slab`] that prints as a map of its entries; a bare one prints their number.
#[derive(Clone)]
pub(crate) struct DebugSlab<T>(Slab<T>);

impl<T> DebugSlab<T> {
    pub(crate) const fn new() -> Self {
        Self(Slab::new())
    }
}

impl<T> Default for DebugSlab<T> {
    fn default() -> Self {
        Self::new()
    }
}

impl<T: 'static> StaticDefault for DebugSlab<T> {
    const EMPTY: &'static Self = &Self::new();
}

impl<T> Deref for DebugSlab<T> {
    type Target = Slab<T>;

    fn deref(&self) -> &Slab<T> {
        &self.0
    }
}

impl<T> DerefMut for DebugSlab<T> {
    fn deref_mut(&mut self) -> &mut Slab<T> {
        &mut self.0
    }
}

impl<T: fmt::Debug> fmt::Debug for DebugSlab<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_map().entries(self.iter()).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn debug_shows_occupied_slots() {
        let mut slots = DebugSlab::default();
        let first = slots.insert("one");
        slots.insert("two");
        slots.remove(first);
        assert_eq!(std::format!("{slots:?}"), r#"{1: "two"}"#);
    }
}
