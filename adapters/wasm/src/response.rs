//! Responses of an endpoint as responses of the Fetch standard.

use std::{
    cell::RefCell,
    future::poll_fn,
    io,
    pin::Pin,
    rc::Rc,
    task::{Context, Poll, Waker, ready},
};

use bytes::Bytes;
use http::{HeaderMap, StatusCode};
use http_body::Body as _;
use js_sys::{Object, Promise, Reflect, Uint8Array};
use mcp_driver::http::Body;
use wasm_bindgen::{JsValue, closure::Closure};
use wasm_bindgen_futures::future_to_promise;
use web_sys::{Headers, ReadableStream, ReadableStreamDefaultController, Response, ResponseInit};

use crate::{abort::Aborted, headers::outbound};

/// Creates the response of the host. A body whose length is known is sent as a whole, and every other one as a stream.
/// The stream ends early when the request is aborted.
pub(crate) async fn respond(response: http::Response<Body>, aborted: Aborted) -> Result<Response, JsValue> {
    let (head, body) = response.into_parts();
    let init = init(head.status, &head.headers)?;
    match body.size_hint().exact() {
        // A response without content may have no body, not even an empty one.
        Some(0) => Response::new_with_opt_str_and_init(None, &init),
        Some(_) => {
            let bytes = collect(body).await.map_err(|error| js_sys::Error::new(&error.to_string()))?;
            Response::new_with_opt_js_u8_array_and_init(Some(&Uint8Array::from(&bytes[..])), &init)
        }
        None => {
            let stream = stream(body, aborted)?;
            Response::new_with_opt_readable_stream_and_init(Some(&stream), &init)
        }
    }
}

/// Returns the head of a response of the host.
fn init(status: StatusCode, headers: &HeaderMap) -> Result<ResponseInit, JsValue> {
    let list = Headers::new()?;
    for (name, value) in outbound(headers) {
        list.append(name, &value)?;
    }
    let init = ResponseInit::new();
    init.set_status(status.as_u16());
    init.set_headers(list.as_ref());
    Ok(init)
}

/// Returns all bytes of a body.
async fn collect(mut body: Body) -> io::Result<Vec<u8>> {
    let mut bytes = Vec::new();
    while let Some(chunk) = poll_fn(|cx| poll_chunk(&mut body, cx)).await {
        bytes.extend_from_slice(&chunk?);
    }
    Ok(bytes)
}

/// Returns the next bytes of a body, or `None` at its end.
fn poll_chunk(body: &mut Body, cx: &mut Context<'_>) -> Poll<Option<io::Result<Bytes>>> {
    loop {
        match ready!(Pin::new(&mut *body).poll_frame(cx)) {
            Some(Ok(frame)) => {
                if let Ok(data) = frame.into_data() {
                    return Poll::Ready(Some(Ok(data)));
                }
            }
            Some(Err(error)) => return Poll::Ready(Some(Err(error))),
            None => return Poll::Ready(None),
        }
    }
}

/// A body that the host reads. Dropping it means that the client has disconnected.
struct OutboundBody {
    /// The body, and the listener of the signal. `None` after the end, and after the client has disconnected.
    body: Option<(Body, Rc<Aborted>)>,
    /// The waker of the read in progress.
    waker: Option<Waker>,
}

/// The next part of a body.
enum Part {
    Data(Bytes),
    End,
    Failed(io::Error),
    /// The client has disconnected, and nothing reads the stream any more.
    Cancelled,
}

impl OutboundBody {
    fn poll_part(&mut self, cx: &mut Context<'_>) -> Poll<Part> {
        let Some((body, _)) = &mut self.body else { return Poll::Ready(Part::Cancelled) };
        let chunk = poll_chunk(body, cx);
        self.waker = chunk.is_pending().then(|| cx.waker().clone());
        let part = match ready!(chunk) {
            Some(Ok(data)) => return Poll::Ready(Part::Data(data)),
            Some(Err(error)) => Part::Failed(error),
            None => Part::End,
        };
        self.body = None;
        Poll::Ready(part)
    }

    /// Notes that the client has disconnected.
    fn disconnect(this: &RefCell<Self>) {
        let (body, waker) = {
            let mut this = this.borrow_mut();
            (this.body.take(), this.waker.take())
        };
        // Not under the borrow: the end of a body wakes other tasks.
        drop(body);
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

/// Creates a stream of a body: the host pulls its parts, and cancels it when the client has disconnected.
fn stream(body: Body, aborted: Aborted) -> Result<ReadableStream, JsValue> {
    let aborted = Rc::new(aborted);
    let body = Rc::new(RefCell::new(OutboundBody { body: Some((body, aborted.clone())), waker: None }));
    // The body owns the listener, so the listener does not own the body.
    let weak = Rc::downgrade(&body);
    let start = Closure::once(move |controller: ReadableStreamDefaultController| {
        aborted.on_abort(move |reason| {
            if let Some(body) = weak.upgrade() {
                OutboundBody::disconnect(&body);
            }
            // Chunks that are not read yet are dropped.
            controller.error_with_e(&reason);
        });
    });
    let pulled = body.clone();
    let pull = Closure::<dyn FnMut(ReadableStreamDefaultController) -> Promise>::new(move |controller| {
        let body = pulled.clone();
        future_to_promise(async move {
            let part = poll_fn(|cx| body.borrow_mut().poll_part(cx)).await;
            pass_on(&controller, part)?;
            Ok(JsValue::UNDEFINED)
        })
    });
    let cancel = Closure::<dyn FnMut()>::new(move || OutboundBody::disconnect(&body));
    let source = Object::new();
    Reflect::set(&source, &"start".into(), &start.into_js_value())?;
    Reflect::set(&source, &"pull".into(), &pull.into_js_value())?;
    Reflect::set(&source, &"cancel".into(), &cancel.into_js_value())?;
    ReadableStream::new_with_underlying_source(&source)
}

fn pass_on(controller: &ReadableStreamDefaultController, part: Part) -> Result<(), JsValue> {
    match part {
        Part::Data(data) => controller.enqueue_with_chunk(&Uint8Array::from(&data[..])),
        Part::End => controller.close(),
        Part::Failed(error) => {
            controller.error_with_e(&js_sys::Error::new(&error.to_string()));
            Ok(())
        }
        Part::Cancelled => Ok(()),
    }
}
