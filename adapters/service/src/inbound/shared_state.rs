//! The state that the handlers of a service share.

use std::{fmt, ops::Deref, sync::Arc};

/// The shared state of a service, as a parameter of a handler.
///
/// The state is set once, with [`ServiceBuilder::with_state`](crate::ServiceBuilder::with_state). Every handler can
/// have it as its first parameter, in the form that suits it:
///
/// - `&S`, as a method with `&self` has it. An asynchronous handler can use the reference until it ends.
/// - `State<S>`, which dereferences to `S`. The pattern `State(state)` takes the [`Arc`] out of it.
/// - `Arc<S>`, as a method with `self: Arc<Self>` has it.
///
/// ```
/// # #[cfg(feature = "schemas")] {
/// use std::sync::Mutex;
///
/// use mcp_service::{Service, State, Tool};
///
/// #[derive(Default)]
/// struct Counter(Mutex<i64>);
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Amount {
///     by: i64,
/// }
///
/// impl Counter {
///     async fn get(&self) -> String {
///         self.0.lock().expect("no panic").to_string()
///     }
/// }
///
/// async fn add(State(counter): State<Counter>, amount: Amount) -> String {
///     let mut count = counter.0.lock().expect("no panic");
///     *count += amount.by;
///     count.to_string()
/// }
///
/// let service = Service::builder("counter", "1.0.0")
///     .with_state(Counter::default())
///     .tool(Tool::new_async("get", Counter::get))
///     .tool(Tool::new_async("add", add))
///     .build()?;
/// # }
/// # Ok::<(), mcp_service::RegisterError>(())
/// ```
///
/// Cloning it is cheap: the clones share the state. `S` needs no `Clone`; it is `Send` and `Sync`, since handlers run
/// on several threads.
pub struct State<S>(pub Arc<S>);

impl<S> Clone for State<S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<S> Deref for State<S> {
    type Target = S;

    fn deref(&self) -> &S {
        &self.0
    }
}

impl<S> From<S> for State<S> {
    fn from(state: S) -> Self {
        Self(Arc::new(state))
    }
}

impl<S> From<Arc<S>> for State<S> {
    fn from(state: Arc<S>) -> Self {
        Self(state)
    }
}

impl<S: fmt::Debug> fmt::Debug for State<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("State").field(&self.0).finish()
    }
}

/// The state of a service that a handler needs: nothing, which is `()`, or a [`State`].
///
/// The trait is sealed: no other type can implement it.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is not the state of a handler",
    label = "neither `()` nor a `State<..>`",
    note = "the state of a handler is `()` or `State<S>`: write `Tool<State<{Self}>>` for a tool with this state"
)]
pub trait HandlerState: Clone + Send + Sync + sealed::Sealed + 'static {}

impl HandlerState for () {}
impl<S: Send + Sync + 'static> HandlerState for State<S> {}

mod sealed {
    /// The trait that only this crate can name.
    pub trait Sealed {}

    impl Sealed for () {}
    impl<S> Sealed for super::State<S> {}
}

/// State that handlers can get in a service whose state is `S`: the state itself, and nothing.
///
/// Implement it for a part of the state, so that handlers can ask for the part alone:
///
/// ```
/// use std::sync::Arc;
///
/// use mcp_service::{FromState, Service, State, Tool};
///
/// struct Database;
/// struct App {
///     database: Arc<Database>,
/// }
///
/// impl FromState<App> for State<Database> {
///     fn from_state(app: &State<App>) -> Self {
///         Self(app.database.clone())
///     }
/// }
///
/// let service = Service::builder("app", "1.0.0")
///     .with_state(App { database: Arc::new(Database) })
///     .tool(Tool::new("ping", |_database: &Database| "pong"))
///     .tool(Tool::new("pong", |_app: &App| "ping"))
///     .build()?;
/// # Ok::<(), mcp_service::RegisterError>(())
/// ```
#[diagnostic::on_unimplemented(
    message = "the handler needs `{Self}`, and the state of the service is `{S}`",
    label = "its handler needs `{Self}`",
    note = "set the state with `.with_state(..)` before the items whose handlers use it, or `.with_shared_state(..)` for \
            an `Arc`",
    note = "a parameter that is a reference is the state; arguments are taken by value",
    note = "for a part of the state, implement `FromState<{S}>` for `{Self}`"
)]
pub trait FromState<S>: HandlerState {
    /// Returns the state that the handler needs.
    fn from_state(state: &State<S>) -> Self;
}

impl<S> FromState<S> for () {
    fn from_state(_: &State<S>) {}
}

impl<S: Send + Sync + 'static> FromState<S> for State<S> {
    fn from_state(state: &Self) -> Self {
        state.clone()
    }
}

/// The state of an item with several handlers, such as a prompt and the completion of its arguments: what both need.
#[diagnostic::on_unimplemented(
    message = "one handler needs `{Self}` and the other one `{T}`",
    note = "the handlers of one item get the same state"
)]
pub trait JoinState<T: HandlerState>: HandlerState {
    /// The state that both get.
    type Joined: HandlerState;

    /// Returns the state of the first handler.
    #[doc(hidden)]
    fn first(joined: &Self::Joined) -> &Self;

    /// Returns the state of the second handler.
    #[doc(hidden)]
    fn second(joined: &Self::Joined) -> &T;
}

impl<T: HandlerState> JoinState<()> for T {
    type Joined = T;

    fn first(joined: &T) -> &T {
        joined
    }

    fn second(_: &T) -> &() {
        &()
    }
}

impl<S: Send + Sync + 'static> JoinState<State<S>> for () {
    type Joined = State<S>;

    fn first(_: &State<S>) -> &() {
        &()
    }

    fn second(joined: &State<S>) -> &State<S> {
        joined
    }
}

impl<S: Send + Sync + 'static> JoinState<Self> for State<S> {
    type Joined = Self;

    fn first(joined: &Self) -> &Self {
        joined
    }

    fn second(joined: &Self) -> &Self {
        joined
    }
}
