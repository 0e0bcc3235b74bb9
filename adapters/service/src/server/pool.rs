//! Pools of the queued calls of tools: a thread reuses their memory, so that a call needs no allocation.

use std::{cell::RefCell, thread::LocalKey};

/// The most calls of a type that a thread keeps.
const MAX_POOLED: usize = 64;

/// The calls of a type that a thread keeps, in their boxes.
pub(super) struct Pool<T>(RefCell<Vec<Box<T>>>);

impl<T> Pool<T> {
    pub(super) const fn new() -> Self {
        Self(RefCell::new(Vec::new()))
    }
}

/// A queued call whose memory is pooled.
pub(super) trait Pooled: Default + 'static {
    /// The pool of each thread.
    const POOL: &'static LocalKey<Pool<Self>>;

    /// Returns a call from the pool, or a new one.
    fn take() -> Box<Self> {
        Self::POOL.try_with(|pool| pool.0.borrow_mut().pop()).ok().flatten().unwrap_or_default()
    }

    /// Puts a call back into the pool, unless the pool is full.
    fn put_back(self: Box<Self>) {
        let _ = Self::POOL.try_with(|Pool(pool)| {
            let mut pool = pool.borrow_mut();
            if pool.len() < MAX_POOLED {
                pool.push(self);
            }
        });
    }
}
