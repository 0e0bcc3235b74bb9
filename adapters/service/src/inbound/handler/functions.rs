//! The functions that are handlers: each form of the state with each form of the other parameters.

use std::{future::Future, sync::Arc};

use serde_core::de::DeserializeOwned;

use super::{
    Arguments, AsyncHandler, BadArguments, Handler, sealed,
    signature::{
        ArgumentsAndContext, ArgumentsOnly, BorrowedState, CompletionOnly, ContextOnly, ExtractedState, Input, NoInput,
        NoState, SharedState, Signature,
    },
};
use crate::inbound::{completion_request::CompletionRequest, context::Context, shared_state::State};

/// Implements the traits for functions with one form of the state, which they own, and one form of other parameters.
macro_rules! owning {
    (
        ($($S:ident)?; $form:ty; $State:ty; $($P:ty = $take:expr)?)
        ($($A:ident)?; $input:ty; $($T:ty = $read:expr),*)
    ) => {
        impl<F, R, $($S: Send + Sync + 'static,)? $($A: DeserializeOwned)?> Handler<Signature<$form, $input>> for F
        where
            F: Fn($($P,)? $($T),*) -> R + Send + Sync + 'static,
        {
            type State = $State;
            type Output = R;

            const TAKES_CONTEXT: bool = <$input as Input>::HAS_CONTEXT;

            fn call(&self, state: &$State, arguments: Arguments<'_>, context: &Context) -> Result<R, BadArguments> {
                let _ = (state, arguments, context);
                Ok(self($(($take)(state),)? $(($read)(arguments, context)?),*))
            }

            fn sealed() -> sealed::Sealed {
                sealed::Sealed
            }
        }

        impl<F, R, $($S: Send + Sync + 'static,)? $($A: DeserializeOwned)?> AsyncHandler<Signature<$form, $input>> for F
        where
            F: Fn($($P,)? $($T),*) -> R + Send + Sync + 'static,
            R: Future + Send + 'static,
        {
            type State = $State;
            type Output = R::Output;

            const TAKES_CONTEXT: bool = <$input as Input>::HAS_CONTEXT;

            fn call(
                self: &Arc<Self>,
                state: &$State,
                arguments: Arguments<'_>,
                context: &Context,
            ) -> Result<impl Future<Output = R::Output> + Send + 'static + use<F, R, $($S,)? $($A)?>, BadArguments> {
                let _ = (state, arguments, context);
                Ok(self($(($take)(state),)? $(($read)(arguments, context)?),*))
            }

            fn sealed() -> sealed::Sealed {
                sealed::Sealed
            }
        }
    };
}

/// Implements the traits for functions that borrow the state, and have one form of other parameters.
macro_rules! borrowing {
    (($($A:ident)?; $input:ty; $($T:ty = $read:expr),*)) => {
        impl<F, R, S: Send + Sync + 'static, $($A: DeserializeOwned)?> Handler<Signature<BorrowedState<S>, $input>> for F
        where
            F: Fn(&S, $($T),*) -> R + Send + Sync + 'static,
        {
            type State = State<S>;
            type Output = R;

            const TAKES_CONTEXT: bool = <$input as Input>::HAS_CONTEXT;

            fn call(&self, state: &State<S>, arguments: Arguments<'_>, context: &Context) -> Result<R, BadArguments> {
                let _ = (arguments, context);
                Ok(self(state, $(($read)(arguments, context)?),*))
            }

            fn sealed() -> sealed::Sealed {
                sealed::Sealed
            }
        }

        impl<F, R, S: Send + Sync + 'static, $($A: DeserializeOwned + Send + 'static)?>
            AsyncHandler<Signature<BorrowedState<S>, $input>> for F
        where
            F: for<'a> AsyncMethod<'a, S, ($($T,)*), Output = R> + Send + Sync + 'static,
        {
            type State = State<S>;
            type Output = R;

            const TAKES_CONTEXT: bool = <$input as Input>::HAS_CONTEXT;

            fn call(
                self: &Arc<Self>,
                state: &State<S>,
                arguments: Arguments<'_>,
                context: &Context,
            ) -> Result<impl Future<Output = R> + Send + 'static + use<F, R, S, $($A)?>, BadArguments> {
                let _ = (arguments, context);
                let parameters = ($(($read)(arguments, context)?,)*);
                let (function, state) = (self.clone(), state.clone());
                // The future owns the state from which that of the function borrows.
                Ok(async move { function.invoke(&state, parameters).await })
            }

            fn sealed() -> sealed::Sealed {
                sealed::Sealed
            }
        }
    };
}

/// A function whose future borrows the state for `'a`. This names the future, whose type depends on `'a`.
pub trait AsyncMethod<'a, S: 'a, P> {
    /// The output of the future.
    type Output;
    /// The future.
    type Future: Future<Output = Self::Output> + Send + 'a;

    /// Calls the function.
    fn invoke(&self, state: &'a S, parameters: P) -> Self::Future;
}

macro_rules! methods {
    ($(($($P:ident $name:ident),*))*) => {
        $(impl<'a, S: 'a, F, R, $($P),*> AsyncMethod<'a, S, ($($P,)*)> for F
        where
            F: Fn(&'a S, $($P),*) -> R,
            R: Future + Send + 'a,
        {
            type Output = R::Output;
            type Future = R;

            fn invoke(&self, state: &'a S, ($($name,)*): ($($P,)*)) -> R {
                self(state, $($name),*)
            }
        })*
    };
}

methods! { () (P p) (P p, Q q) }

macro_rules! handlers {
    ($($parameters:tt)*) => {
        $(
            owning! { (; NoState; (); ) $parameters }
            owning! { (S; ExtractedState<S>; State<S>; State<S> = State::clone) $parameters }
            owning! { (S; SharedState<S>; State<S>; Arc<S> = |state: &State<S>| state.0.clone()) $parameters }
            borrowing! { $parameters }
        )*
    };
}

handlers! {
    (; NoInput; )
    (; ContextOnly; Context = context)
    (A; ArgumentsOnly<A>; A = arguments)
    (A; ArgumentsAndContext<A>; A = arguments, Context = context)
    (; CompletionOnly; CompletionRequest = completion)
}

#[allow(clippy::unnecessary_wraps, reason = "the other parameters can fail")]
fn context(_: Arguments<'_>, context: &Context) -> Result<Context, BadArguments> {
    Ok(context.clone())
}

fn arguments<A: DeserializeOwned>(arguments: Arguments<'_>, _: &Context) -> Result<A, BadArguments> {
    arguments.read()
}

fn completion(arguments: Arguments<'_>, _: &Context) -> Result<CompletionRequest, BadArguments> {
    arguments.completion()
}
