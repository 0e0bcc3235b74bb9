//! Room for what most connections never have.

use alloc::{boxed::Box, collections::VecDeque};
use core::{
    fmt,
    ops::{Deref, DerefMut},
};

/// A value that is made when it is changed for the first time. Until then it reads as an empty one, and takes the room of a
/// pointer: what only few connections use is not to be paid for by all the others, most of which are idle.
#[derive(Clone)]
pub(crate) struct LazyBox<T>(Option<Box<T>>);

/// What a [`LazyBox`] value is like before it is made.
pub(crate) trait StaticDefault: 'static {
    /// Nothing that anything was put into.
    const EMPTY: &'static Self;
}

impl<T> LazyBox<T> {
    /// The value, if it was ever made.
    pub(crate) fn made(&mut self) -> Option<&mut T> {
        self.0.as_deref_mut()
    }

    /// The value, which is made like this if it has to be.
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

/// It prints as what it holds.
impl<T: StaticDefault + fmt::Debug> fmt::Debug for LazyBox<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        (**self).fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    #[test]
    fn it_is_made_when_it_is_changed() {
        let mut rare = LazyBox::<VecDeque<u8>>::default();
        assert_eq!((rare.len(), size_of_val(&rare)), (0, size_of::<usize>()));
        assert!(rare.made().is_none(), "looking at it makes nothing");
        rare.push_back(1);
        assert_eq!(std::format!("{rare:?}"), "[1]");
        assert_eq!(rare.made(), Some(&mut VecDeque::from([1])));
    }
}
