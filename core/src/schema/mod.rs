//! Typed params and results of every method and revision.
