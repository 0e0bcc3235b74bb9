//! The cost of HTTP: hyper parses a request, and the program finds the parts of the response by searching for bytes. It
//! listens on any free port, or on that of the environment variable `PORT`, and prints its address. It runs on one
//! thread, or with the argument `many` on one for each processor.

use std::convert::Infallible;

use http_body_util::{BodyExt, Full};
use hyper::{
    Request, Response,
    body::{Bytes, Incoming},
    server::conn::http1,
    service::service_fn,
};
use hyper_util::rt::TokioIo;
use memchr::{memmem, memrchr};
use tokio::{net::TcpListener, runtime::Builder};

fn answer(body: &[u8]) -> Vec<u8> {
    let id = memmem::find(body, b"\"id\":").map_or(&b"0"[..], |at| &body[at + 5..]);
    let digits = id.iter().take_while(|byte| byte.is_ascii_digit()).count();
    let message = memmem::find(body, b"\"message\":\"").map(|at| at + 11);
    let message = message.map_or(&b""[..], |at| &body[at..memrchr(b'"', body).expect("the end of it")]);
    [
        b"{\"jsonrpc\":\"2.0\",\"id\":",
        &id[..digits],
        b",\"result\":{\"content\":[{\"type\":\"text\",\"text\":\"",
        message,
        b"\"}]}}",
    ]
    .concat()
}

async fn serve(request: Request<Incoming>) -> Result<Response<Full<Bytes>>, Infallible> {
    let body = request.into_body().collect().await.map(|body| body.to_bytes()).unwrap_or_default();
    let response = Response::builder().header("content-type", "application/json");
    Ok(response.body(Full::new(answer(&body).into())).expect("a response"))
}

fn main() -> std::io::Result<()> {
    let is_many = std::env::args().nth(1).as_deref() == Some("many");
    let mut runtime = if is_many { Builder::new_multi_thread() } else { Builder::new_current_thread() };
    runtime.enable_all().build()?.block_on(async {
        let port = std::env::var("PORT").ok().and_then(|port| port.parse().ok()).unwrap_or(0);
        let listener = TcpListener::bind(("127.0.0.1", port)).await?;
        println!("{}", listener.local_addr()?);
        loop {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), service_fn(serve)));
        }
    })
}
