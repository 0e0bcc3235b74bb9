//! Servers that take too much time.

use std::{sync::OnceLock, time::Duration};

use super::*;

/// Four authorization servers. Each response takes 29 seconds, and leads to another request.
#[derive(Clone, Default)]
struct Slow {
    oauth: Arc<OnceLock<OAuth<Threads>>>,
    requests: Arc<AtomicUsize>,
}

impl AuthTransport<Threads> for Slow {
    fn exchange(
        &self,
        _: &Threads,
        request: client::Request,
        _: UrlPolicy,
    ) -> Pin<Box<dyn Future<Output = io::Result<Response<Vec<u8>>>> + Send>> {
        *lock(&self.oauth.get().expect("it is built").0.ahead) += Duration::from_secs(29);
        let number = self.requests.fetch_add(1, Ordering::SeqCst);
        let response = Response::builder();
        let response = match number {
            0 => {
                let servers: Vec<_> = (0..4).map(|index| format!("https://as{index}.example")).collect();
                let body = json!({"resource": SERVER, "authorization_servers": servers}).to_string();
                response.status(StatusCode::OK).body(body.into_bytes())
            }
            _ if request.url.path().len() < 90 => {
                let path = format!("{}/xxxxxxxxxxxxxxxxxxxx", request.url.path());
                response.status(StatusCode::TEMPORARY_REDIRECT).header(header::LOCATION, path).body(Vec::new())
            }
            _ => response.status(StatusCode::SERVICE_UNAVAILABLE).body(Vec::new()),
        };
        Box::pin(async { response.map_err(io::Error::other) })
    }
}

#[test]
fn slow_servers_end_an_authorization() {
    let slow = Slow::default();
    let builder = builder(&Server::default(), MemoryTokenStore::default()).transport(slow.clone());
    let oauth = builder.user_agent(Headless::new(redirect_uri(), |_| pending())).build().expect("random bytes");
    assert!(slow.oauth.set(oauth.clone()).is_ok());
    assert!(!block_on(oauth.challenged(&mut send(&oauth).1)));
    assert_eq!(oauth.error(), Some(AuthError::TimedOut));
    let requests = slow.requests.load(Ordering::SeqCst);
    assert_eq!(requests, 600_usize.div_ceil(29), "none begins after ten minutes");
}
