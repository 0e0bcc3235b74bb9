//! The Model Context Protocol for programs with threads.
