//! Requests over HTTP/1.1.

use std::{
    error::Error,
    future::{Future, poll_fn},
    marker::PhantomData,
    pin::{Pin, pin},
    sync::Arc,
    time::Duration,
};

use http::{HeaderValue, Request, Uri, header, uri::Scheme};
use http_body::Body as _;
use hyper::client::conn::http1;

use super::{
    Net,
    dial::dial,
    pool::{Line, Origin, Pool},
};
use crate::drive::{
    http::{Body, Requests, Response},
    runtime::within,
};

/// How long a connection may take to come about.
const CONNECT: Duration = Duration::from_secs(30);

/// hyper over TCP: each request on a connection that was used before, or on a new one.
pub(super) struct Http1<N> {
    pool: Arc<Pool>,
    net: PhantomData<fn() -> N>,
}

impl<N: Net> Http1<N> {
    pub(super) fn new() -> Self {
        Self { pool: Arc::default(), net: PhantomData }
    }
}

impl<N: Net> Requests for Http1<N> {
    fn make(&self, request: Request<Arc<[u8]>>, mut response: Response) -> Pin<Box<dyn Future<Output = ()> + Send>> {
        let pool = self.pool.clone();
        Box::pin(async move {
            match exchange::<N>(&pool, request.map(Body::shared), &mut response).await {
                Ok(()) => response.end(),
                Err(why) => response.fail(why),
            }
        })
    }
}

/// Makes a request, and tells what comes of it except for the end.
async fn exchange<N: Net>(pool: &Arc<Pool>, mut request: Request<Body>, response: &mut Response) -> Result<(), String> {
    let runtime = N::current().map_err(|error| error.to_string())?;
    let origin = Origin::of(request.uri())?;
    prepare(&mut request, &origin)?;
    let (line, answer) = loop {
        let used = pool.take(&origin);
        let is_used = used.is_some();
        let mut line = match used {
            Some(line) => line,
            None => connect(&runtime, &origin).await?,
        };
        match line.sender.try_send_request(request).await {
            Ok(answer) => break (line, answer),
            Err(mut error) => match error.take_message() {
                // It was closed before anything was said on it.
                Some(unsent) if is_used => request = unsent,
                _ => return Err(whole_story(&error.into_error())),
            },
        }
    };
    let (head, body) = answer.into_parts();
    response.head(&head);
    let mut body = pin!(body);
    while let Some(frame) = poll_fn(|cx| body.as_mut().poll_frame(cx)).await {
        if let Some(data) = frame.map_err(|error| whole_story(&error))?.data_ref() {
            response.chunk(data);
        }
    }
    keep(&runtime, pool, line);
    Ok(())
}

/// Keeps a connection for the next request, which may well come of the end of this one.
fn keep<N: Net>(runtime: &N, pool: &Arc<Pool>, mut line: Line) {
    if line.sender.is_ready() {
        return pool.keep(line);
    }
    // It is about to be.
    let pool = Arc::downgrade(pool);
    N::detach(runtime.spawn(async move {
        if line.sender.ready().await.is_ok()
            && let Some(pool) = pool.upgrade()
        {
            pool.keep(line);
        }
    }));
}

/// What HTTP/1.1 wants of a request to an origin: a path, and the name of the host.
fn prepare(request: &mut Request<Body>, origin: &Origin) -> Result<(), String> {
    if !request.headers().contains_key(header::HOST) {
        let is_usual = origin.port == 80;
        let host = if is_usual { origin.host.clone() } else { format!("{}:{}", origin.host, origin.port) };
        let host = HeaderValue::try_from(host).map_err(|error| error.to_string())?;
        request.headers_mut().insert(header::HOST, host);
    }
    let path = request.uri().path_and_query().cloned();
    *request.uri_mut() = path.map_or_else(|| Uri::from_static("/"), Uri::from);
    Ok(())
}

async fn connect<N: Net>(runtime: &N, origin: &Origin) -> Result<Line, String> {
    let Origin { host, port } = origin;
    let cannot = |why: &dyn std::fmt::Display| format!("cannot connect to {host}:{port}: {why}");
    let stream = match within(runtime, CONNECT, dial(runtime, host, *port)).await {
        Some(stream) => stream.map_err(|error| cannot(&error))?,
        None => return Err(cannot(&"it takes too long")),
    };
    let (sender, connection) = http1::handshake(stream).await.map_err(|error| cannot(&whole_story(&error)))?;
    Ok(Line::new(runtime, origin.clone(), sender, connection))
}

impl Origin {
    fn of(uri: &Uri) -> Result<Self, String> {
        if uri.scheme() != Some(&Scheme::HTTP) {
            return Err("there is no encryption here".to_owned());
        }
        let host = uri.host().unwrap_or_default().to_ascii_lowercase();
        Ok(Self { host, port: uri.port_u16().unwrap_or(80) })
    }
}

/// An error, and what it came from.
fn whole_story(error: &dyn Error) -> String {
    let mut story = error.to_string();
    let mut source = error.source();
    while let Some(error) = source {
        story = format!("{story}: {error}");
        source = error.source();
    }
    story
}
