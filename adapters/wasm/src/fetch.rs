//! An HTTP client on `fetch`.

use std::{fmt, future::Future, future::poll_fn, pin::Pin, sync::Arc};

use http::{Request, Response, response::Parts};
use js_sys::{Array, Function, Promise, Uint8Array};
use mcp_driver::http::{HttpClient, ResponseHandler};
use send_wrapper::SendWrapper;
use wasm_bindgen::{JsCast, JsValue};
use wasm_bindgen_futures::JsFuture;
use web_sys::{AbortController, Headers, RequestCredentials, RequestInit, RequestRedirect, ResponseType};

use crate::{
    body::InboundBody,
    headers::{Received, add_inbound, outbound},
    js::{error_text, global_function},
};

/// An HTTP client that sends requests with `fetch`.
///
/// Neither it nor the host follows redirects. Where the host returns the response, as in Node.js, the connection
/// follows it by its own rules. Browsers do not tell pages where a redirect leads, so there it is an error.
#[derive(Clone)]
pub struct Fetch {
    /// The function, if it is not the global one.
    function: Option<SendWrapper<Function>>,
    credentials: Option<CredentialsMode>,
}

/// The credentials mode: which requests of a page have its cookies and the other credentials of its browser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum CredentialsMode {
    /// No requests.
    Omit,
    /// The requests to the origin of the page.
    SameOrigin,
    /// All requests. The server has to allow that.
    Include,
}

impl Fetch {
    /// Creates a client on the global function `fetch`.
    #[must_use]
    pub const fn new() -> Self {
        Self { function: None, credentials: None }
    }

    /// Creates a client on another function with the interface of `fetch`, such as that of a service binding.
    #[must_use]
    pub fn with_function(function: Function) -> Self {
        Self { function: Some(SendWrapper::new(function)), credentials: None }
    }

    /// Sets which requests have the credentials of the browser. Default: the choice of the host, which for browsers is
    /// [`SameOrigin`](CredentialsMode::SameOrigin).
    #[must_use]
    pub const fn credentials(mut self, credentials: CredentialsMode) -> Self {
        self.credentials = Some(credentials);
        self
    }

    /// Sends a request, and returns the head of the response with its body.
    async fn send(
        &self,
        request: &Request<Arc<[u8]>>,
        abort: &AbortController,
    ) -> Result<(Parts, InboundBody), JsValue> {
        let init = RequestInit::new();
        init.set_method(request.method().as_str());
        init.set_headers(headers(request)?.as_ref());
        init.set_redirect(RequestRedirect::Manual);
        init.set_signal(Some(&abort.signal()));
        if !request.body().is_empty() {
            init.set_body(&Uint8Array::from(&request.body()[..]));
        }
        if let Some(credentials) = self.credentials {
            init.set_credentials(match credentials {
                CredentialsMode::Omit => RequestCredentials::Omit,
                CredentialsMode::SameOrigin => RequestCredentials::SameOrigin,
                CredentialsMode::Include => RequestCredentials::Include,
            });
        }
        let fetch = match &self.function {
            Some(function) => (**function).clone(),
            None => global_function("fetch")?,
        };
        let response = fetch.call2(&JsValue::UNDEFINED, &request.uri().to_string().into(), &init)?;
        let response: web_sys::Response = JsFuture::from(response.dyn_into::<Promise>()?).await?.dyn_into()?;
        if response.type_() == ResponseType::Opaqueredirect {
            let why = "the server redirects, and a browser does not tell where: use the address that it redirects to";
            return Err(js_sys::Error::new(why).into());
        }
        let body = InboundBody::new(response.body())?;
        Ok((head(&response)?, body))
    }
}

/// Returns the headers of a request.
fn headers(request: &Request<Arc<[u8]>>) -> Result<Headers, JsValue> {
    let headers = Headers::new()?;
    for (name, value) in outbound(request.headers()) {
        headers.append(name, &value)?;
    }
    Ok(headers)
}

/// Returns the head of a response.
fn head(response: &web_sys::Response) -> Result<Parts, JsValue> {
    let error = |error: http::Error| JsValue::from(js_sys::Error::new(&error.to_string()));
    let mut head = Response::builder().status(response.status()).body(()).map_err(error)?.into_parts().0;
    for entry in response.headers().entries() {
        let entry: Array = entry?.dyn_into()?;
        if let (Some(name), Some(value)) = (entry.get(0).as_string(), entry.get(1).as_string()) {
            add_inbound(&mut head.headers, Received::Response, &name, &value)
                .map_err(|error| js_sys::Error::new(&error.to_string()))?;
        }
    }
    Ok(head)
}

/// Aborts a request when it is dropped.
struct AbortGuard(AbortController);

impl Drop for AbortGuard {
    fn drop(&mut self) {
        self.0.abort();
    }
}

impl HttpClient for Fetch {
    fn make(
        &self,
        request: Request<Arc<[u8]>>,
        mut response: ResponseHandler,
    ) -> Pin<Box<dyn Future<Output = ()> + Send + 'static>> {
        let client = self.clone();
        Box::pin(SendWrapper::new(async move {
            let abort = match AbortController::new() {
                Ok(abort) => AbortGuard(abort),
                Err(error) => return response.fail(error_text(&error)),
            };
            let (head, mut body) = match client.send(&request, &abort.0).await {
                Ok(received) => received,
                Err(error) => return response.fail(error_text(&error)),
            };
            response.head(&head);
            loop {
                match poll_fn(|cx| body.poll_chunk(cx)).await {
                    Some(Ok(chunk)) => response.chunk(&chunk),
                    Some(Err(error)) => return response.fail(error.to_string()),
                    None => return response.end(),
                }
            }
        }))
    }
}

impl Default for Fetch {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Fetch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fetch").field("credentials", &self.credentials).finish_non_exhaustive()
    }
}
