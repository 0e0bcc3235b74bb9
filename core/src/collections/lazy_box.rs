//! A box that is allocated at the first change.

use alloc::{boxed::Box, collections::VecDeque};
use core::{
    fmt,
    ops::{Deref, DerefMut},
};

/// A value that is allocated when it is changed for the first time. Until then it reads as an empty one and takes the
/// size of a pointer, so idle connections do not pay for features that they do not use.
#[derive(Clone)]
pub(crate) struct LazyBox<T>(Option<Box<T>>);

/// The empty value as which a [`LazyBox`] reads before it is allocated.
pub(crate) trait StaticDefault: 'static {
    /// The empty value.
    const EMPTY: &'static Self;
}

impl<T> LazyBox<T> {
    /// Returns the value, if it was allocated.
    pub(crate) fn allocated(&self) -> Option<&T> {
        self.0.as_deref()
    }

    /// Returns the value to change it, if it was allocated.
    pub(crate) fn allocated_mut(&mut self) -> Option<&mut T> {
        self.0.as_deref_mut()
    }

    /// Returns the value, which `make` creates if it was not allocated.
    pub(crate) fn or_make(&mut self, make: impl FnOnce() -> T) -> &mut T {
        self.0.get_or_insert_with(|| Box::new(make()))
    }
}

impl<T> Default for LazyBox<T> {
    fn default() -> Self {
        Self(None)
    }
}

impl<T: StaticDefault> Deref for LazyBox<T> {
    type Target = T;

    fn deref(&self) -> &T {
        self.0.as_deref().unwrap_or(T::EMPTY)
    }
}

impl<T: StaticDefault + Default> DerefMut for LazyBox<T> {
    fn deref_mut(&mut self) -> &mut T {
        self.or_make(T::default)
    }
}

impl<T: 'static> StaticDefault for VecDeque<T> {
    const EMPTY: &'static Self = &Self::new();
}

/// Prints the value.
impl<T: StaticDefault + fmt::Debug> fmt::Debug for LazyBox<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn allocates_on_first_mutation() {
        let mut rare = LazyBox::<VecDeque<u8>>::default();
        assert_eq!((rare.len(), size_of_val(&rare)), (0, size_of::<usize>()));
        assert!(rare.allocated_mut().is_none(), "looking at it makes nothing");
        rare.push_back(1);
        assert_eq!(std::format!("{rare:?}"), "[1]");
        assert_eq!(rare.allocated_mut(), Some(&mut VecDeque::from([1])));
    }
}
