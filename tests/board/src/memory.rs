//! The heap: one array of the size that the limits need, which never grows.

use core::{
    mem::MaybeUninit,
    sync::atomic::{AtomicUsize, Ordering},
};

use linked_list_allocator::LockedHeap;
use static_cell::ConstStaticCell;

use crate::budget::HEAP;

#[global_allocator]
static ALLOCATOR: LockedHeap = LockedHeap::empty();

/// The host of the emulator finds this array and `HEAP_IN_USE` by their names.
static HEAP_ARRAY: ConstStaticCell<[MaybeUninit<u8>; HEAP]> = ConstStaticCell::new([MaybeUninit::uninit(); HEAP]);

// It is only written here.
#[used]
static HEAP_IN_USE: AtomicUsize = AtomicUsize::new(0);

/// Sets up the heap. Must be called once, before anything is allocated.
pub(crate) fn init() {
    ALLOCATOR.lock().init_from_slice(HEAP_ARRAY.take());
}

/// Records the bytes that are allocated now.
pub(crate) fn note() {
    HEAP_IN_USE.store(ALLOCATOR.lock().used(), Ordering::Relaxed);
}
