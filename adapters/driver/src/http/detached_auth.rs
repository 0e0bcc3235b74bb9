//! Credentials whose provider may block.

use std::{fmt, io, mem, sync::Arc};

use http::{Extensions, Request, Uri, response::Parts};

use crate::{
    http::client::{AuthProvider, BoxFuture, Refusal},
    runtime::{Runtime, run_in_task},
};

/// A provider whose futures run as tasks of a runtime of their own.
///
/// The tasks of a client may all run on one thread, even on one of the application. A provider that blocks would stop
/// them, and could wait for a lock that this thread of the application holds.
pub struct DetachedAuth<R> {
    provider: Arc<dyn AuthProvider>,
    runtime: R,
}

impl<R: Runtime> DetachedAuth<R> {
    /// Creates a provider that calls another one in tasks of the runtime.
    #[must_use]
    pub const fn new(provider: Arc<dyn AuthProvider>, runtime: R) -> Self {
        Self { provider, runtime }
    }
}

impl<R> fmt::Debug for DetachedAuth<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DetachedAuth").finish_non_exhaustive()
    }
}

impl<R: Runtime> AuthProvider for DetachedAuth<R> {
    fn check_server(&self, url: &Uri) -> io::Result<()> {
        self.provider.check_server(url)
    }

    fn authorize<'a>(&'a self, request: &'a mut Request<Arc<[u8]>>) -> BoxFuture<'a, io::Result<()>> {
        Box::pin(async move {
            let (provider, mut moved) = (self.provider.clone(), mem::replace(request, Request::new(Arc::default())));
            let authorized = run_in_task(&self.runtime, async move {
                let result = provider.authorize(&mut moved).await;
                (moved, result)
            });
            let (moved, result) =
                authorized.await.ok_or_else(|| io::Error::other("the provider of credentials has panicked"))?;
            *request = moved;
            result
        })
    }

    fn handle_response(&self, head: &Parts, extensions: &Extensions) {
        self.provider.handle_response(head, extensions);
    }

    fn principal(&self) -> Option<Arc<str>> {
        self.provider.principal()
    }

    fn challenged<'a>(&'a self, refusal: &'a mut Refusal) -> BoxFuture<'a, bool> {
        Box::pin(async move {
            let empty = Refusal { status: refusal.status, challenges: Vec::new(), extensions: Extensions::new() };
            let (provider, mut moved) = (self.provider.clone(), mem::replace(refusal, empty));
            let challenged = run_in_task(&self.runtime, async move {
                let is_there = provider.challenged(&mut moved).await;
                (moved, is_there)
            });
            let Some((moved, is_there)) = challenged.await else { return false };
            *refusal = moved;
            is_there
        })
    }
}
