//! The search for a document at its candidates.

use alloc::{format, string::String, string::ToString, vec, vec::Vec};

use super::action::Response;
use crate::auth::{
    discovery::{Attempt, Candidate, NotFound, conclude},
    document::DocumentError,
    policy::{UrlPolicy, UrlRefused},
    url::Url,
};

/// The most redirects of one candidate that are followed.
const MAX_REDIRECTS: usize = 3;

/// A search for a document: the remaining candidates, and the results of the earlier ones.
#[cfg_attr(test, derive(Clone))]
#[derive(Debug)]
pub(super) struct Search<T> {
    left: vec::IntoIter<Candidate>,
    /// The URL that was requested last, and the number of redirects before it.
    at: Option<(Url, usize)>,
    attempts: Vec<Attempt<T, String>>,
}

/// The next step of a search.
pub(super) enum Next<T> {
    /// A request to this URL.
    Request(Url),
    /// The search has ended.
    Over(Result<T, NotFound<String>>),
}

impl<T> Search<T> {
    pub(super) fn new(candidates: Vec<Candidate>) -> Self {
        Self { left: candidates.into_iter(), at: None, attempts: Vec::new() }
    }

    /// Continues with the next candidate that passes the policy.
    pub(super) fn next(&mut self, policy: &UrlPolicy) -> Next<T> {
        for candidate in self.left.by_ref() {
            match policy.check(&candidate.url) {
                Ok(()) => {
                    self.at = Some((candidate.url.clone(), 0));
                    return Next::Request(candidate.url);
                }
                Err(refused) => self.attempts.push(Attempt::Refused(format!("{:?}: {refused}", candidate.url))),
            }
        }
        Next::Over(conclude(self.attempts.drain(..)))
    }

    /// Handles that the policy refuses all addresses of the host of the last request.
    pub(super) fn handle_refused_address(&mut self, refused: UrlRefused, policy: &UrlPolicy) -> Next<T> {
        if let Some((url, _)) = self.at.take() {
            self.attempts.push(Attempt::Refused(format!("{url:?}: {refused}")));
        }
        self.next(policy)
    }

    /// Handles the response to the last request; `None` if there was none.
    pub(super) fn handle(
        &mut self,
        response: Option<Response<'_>>,
        policy: &UrlPolicy,
        parse: impl FnOnce(&[u8]) -> Result<T, DocumentError>,
    ) -> Next<T> {
        let Some((url, redirects)) = self.at.take() else { return self.next(policy) };
        let attempt = match response {
            None => Attempt::Transient(format!("{url:?}: no response")),
            Some(Response { status: 200..=299, body, .. }) => match parse(body) {
                Ok(found) => Attempt::Found(found),
                // Some servers return a page for every path.
                Err(error @ DocumentError::NotAnObject) => Attempt::NotHere(format!("{url:?}: {error}")),
                Err(error) => Attempt::Refused(format!("{url:?}: {error}")),
            },
            Some(Response { status: 301 | 302 | 303 | 307 | 308, location, .. }) => {
                let to = location.map_or(Err("a redirect to nowhere".into()), |to| target(&url, to, redirects, policy));
                match to {
                    Ok(to) => {
                        self.at = Some((to.clone(), redirects + 1));
                        return Next::Request(to);
                    }
                    Err(reason) => Attempt::Refused(format!("{url:?}: {reason}")),
                }
            }
            Some(Response { status: status @ (408 | 429 | 500..=599), .. }) => {
                Attempt::Transient(format!("{url:?}: status {status}"))
            }
            Some(Response { status: status @ 400..=499, .. }) => Attempt::NotHere(format!("{url:?}: status {status}")),
            Some(Response { status, .. }) => Attempt::Refused(format!("{url:?}: status {status}")),
        };
        let is_found = matches!(attempt, Attempt::Found(_));
        self.attempts.push(attempt);
        if is_found { Next::Over(conclude(self.attempts.drain(..))) } else { self.next(policy) }
    }
}

/// Returns the target of a redirect, if it is followed: an absolute URL, or a path of the same origin.
fn target(from: &Url, to: &str, redirects: usize, policy: &UrlPolicy) -> Result<Url, String> {
    if redirects == MAX_REDIRECTS {
        return Err("too many redirects".into());
    }
    let is_path = to.starts_with('/') && !to.starts_with("//");
    let to = if is_path { from.with_path(to) } else { Url::parse(to) };
    let to = to.map_err(|error| error.to_string())?;
    policy.check_redirect(from, &to).map_err(|refused| refused.to_string())?;
    Ok(to)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::auth::discovery::Kind;

    fn url(text: &str) -> Url {
        Url::parse(text).expect(text)
    }

    /// Returns the result of a search with one candidate for these responses: statuses with locations.
    fn result(responses: &[(u16, Option<&str>)]) -> (usize, Result<usize, NotFound<String>>) {
        let server = url("https://a.example/");
        let policy = UrlPolicy::new(&server);
        let mut search = Search::new(vec![Candidate { url: server, kind: Kind::AuthorizationServer }]);
        let (mut next, mut requests) = (search.next(&policy), 0);
        for (status, location) in responses {
            match next {
                Next::Request(_) => requests += 1,
                Next::Over(result) => return (requests, result),
            }
            let response = Response { status: *status, location: *location, dpop_nonce: None, body: b"body" };
            next = search.handle(Some(response).filter(|_| *status > 0), &policy, |body| Ok(body.len()));
        }
        match next {
            Next::Request(url) => (requests, Err(NotFound::Transient(url.as_str().into()))),
            Next::Over(result) => (requests, result),
        }
    }

    #[test]
    fn statuses_decide_what_a_search_finds() {
        let refused = |status: u16| Err(NotFound::Refused(format!("https://a.example/: status {status}")));
        let missing = |status: u16| Err(NotFound::Missing(vec![format!("https://a.example/: status {status}")]));
        let transient = |status: u16| Err(NotFound::Transient(format!("https://a.example/: status {status}")));
        for (status, expected) in [
            (0, Err(NotFound::Transient("https://a.example/: no response".into()))),
            (199, refused(199)),
            (200, Ok(4)),
            (299, Ok(4)),
            (300, refused(300)),
            (304, refused(304)),
            (301, Err(NotFound::Refused("https://a.example/: a redirect to nowhere".into()))),
            (400, missing(400)),
            (407, missing(407)),
            (408, transient(408)),
            (429, transient(429)),
            (499, missing(499)),
            (500, transient(500)),
            (599, transient(599)),
            (600, refused(600)),
        ] {
            assert_eq!(result(&[(status, None)]), (1, expected), "{status}");
        }
    }

    #[test]
    fn redirects_are_followed_three_times() {
        let there = |count: usize| {
            let mut all = vec![(307, Some("/x")); count];
            all.push((200, None));
            all
        };
        assert_eq!(result(&there(MAX_REDIRECTS)), (MAX_REDIRECTS + 1, Ok(4)));
        let (requests, found) = result(&there(MAX_REDIRECTS + 1));
        let reason = "https://a.example/x: too many redirects".to_string();
        assert_eq!((requests, found), (MAX_REDIRECTS + 1, Err(NotFound::Refused(reason))));
        for status in [301, 302, 303, 307, 308] {
            for (to, expected) in [
                ("/x", Ok("https://a.example/x")),
                ("https://a.example/y", Ok("https://a.example/y")),
                ("//a.example/x", Err("not an absolute URL")),
                ("x", Err("not an absolute URL")),
                ("https://b.example/", Err("the redirect leads to another origin")),
            ] {
                let expected = match expected {
                    // The next request.
                    Ok(next) => NotFound::Transient(next.into()),
                    Err(reason) => NotFound::Refused(format!("https://a.example/: {reason}")),
                };
                assert_eq!(result(&[(status, Some(to))]), (1, Err(expected)), "{status} {to}");
            }
        }
    }
}
