//! The input requests of an `input_required` result (2026-07-28), as a client stores them.

use alloc::{collections::BTreeSet, format, string::String, vec::Vec};

use crate::{
    connection::json_splice,
    protocol::Method,
    rpc::{CallId, ReplyKey},
    wire::{
        RawJson, encode,
        scan::{MAX_DEPTH, Scanner, StringToken},
    },
};

/// The latest round of input requests of a call.
#[derive(Clone, Debug)]
pub(crate) struct InputRound {
    /// The number of `input_required` results.
    pub(crate) count: u32,
    /// The number of consecutive `input_required` results without input requests, which only carry `requestState`.
    pub(crate) deferrals: u32,
    /// The `requestState` of the latest result, as JSON.
    pub(crate) state: Option<String>,
    /// The input requests of the latest result: name as JSON, and response.
    pub(crate) answers: Vec<(String, InputResponseState)>,
}

/// The response to an input request.
#[derive(Clone, Debug)]
pub(crate) enum InputResponseState {
    /// The input request was not handed to the application.
    Unsent,
    /// The application has the input request and has not responded to it.
    Open(ReplyKey),
    /// The response, as JSON.
    Ready(Vec<u8>),
}

impl InputResponseState {
    fn text(&self) -> &[u8] {
        if let Self::Ready(text) = self { text } else { &[] }
    }

    pub(crate) const fn is_ready(&self) -> bool {
        matches!(self, Self::Ready(_))
    }
}

impl InputRound {
    pub(crate) const fn new() -> Self {
        Self { count: 0, deferrals: 0, state: None, answers: Vec::new() }
    }

    pub(crate) fn weight(&self) -> usize {
        let answer = |(name, answer): &(String, InputResponseState)| {
            size_of::<(String, InputResponseState)>() + name.len() + answer.text().len()
        };
        self.state.as_ref().map_or(0, String::len) + self.answers.iter().map(answer).sum::<usize>()
    }

    pub(crate) const fn has_begun(&self) -> bool {
        self.count > 0
    }

    /// Returns the input requests without a response of the application.
    pub(crate) fn open_input_requests(&self) -> impl Iterator<Item = ReplyKey> {
        self.answers
            .iter()
            .filter_map(|(_, answer)| if let InputResponseState::Open(key) = answer { Some(*key) } else { None })
    }

    /// Returns whether a response is missing.
    pub(crate) fn is_open(&self) -> bool {
        self.answers.iter().any(|(_, answer)| !answer.is_ready())
    }

    /// Sets `requestState` and `inputResponses` in the params of the next request to those of the latest result.
    /// Without a result, the params keep what the application has written.
    pub(crate) fn add(&self, params: &mut Vec<u8>) {
        if !self.has_begun() {
            return;
        }
        match &self.state {
            Some(state) => json_splice::set(params, 0, "requestState", state),
            None => json_splice::remove(params, 0, "requestState"),
        }
        if self.answers.is_empty() {
            return json_splice::remove(params, 0, "inputResponses");
        }
        let mut answers = Vec::new();
        for (name, answer) in &self.answers {
            answers.push(if answers.is_empty() { b'{' } else { b',' });
            answers.extend_from_slice(name.as_bytes());
            answers.push(b':');
            answers.extend_from_slice(answer.text());
        }
        answers.push(b'}');
        json_splice::set(params, 0, "inputResponses", core::str::from_utf8(&answers).unwrap_or("{}"));
    }
}

/// A reference to an input request of a call.
#[derive(Clone, Copy, Debug)]
pub(crate) struct InputRequestRef {
    pub(crate) call: CallId,
    pub(crate) index: usize,
}

/// An input request of a server.
pub(crate) struct InputRequest {
    /// The name, as JSON.
    pub(crate) name: String,
    pub(crate) method: Method,
    pub(crate) params: Option<RawJson<'static>>,
}

/// Reads the members of `inputRequests`. Fails without reading further if there are more than `most`.
pub(crate) fn parse_input_requests(requests: &RawJson<'_>, most: usize) -> Result<Vec<InputRequest>, ()> {
    let mut scanner = Scanner::new(requests.get(), MAX_DEPTH);
    scanner.expect(b'{').map_err(|_| ())?;
    let (mut requests, mut names) = (Vec::new(), BTreeSet::new());
    while let Some(name) = scanner.next_member(requests.is_empty()).map_err(|_| ())? {
        if requests.len() >= most {
            return Err(());
        }
        let request = RawJson::trusted(scanner.value(1).map_err(|_| ())?);
        let method: String = request.member("method").and_then(|method| method.decode().ok()).ok_or(())?;
        let method = Method::parse(&method)
            .filter(|method| matches!(method, Method::Elicit | Method::CreateMessage | Method::ListRoots))
            .ok_or(())?;
        let params = request.member("params").map(RawJson::into_owned);
        let name = name_of(name);
        if !names.insert(name.clone()) {
            return Err(());
        }
        requests.push(InputRequest { name, method, params });
    }
    Ok(requests)
}

/// Returns the name of an input request as normalized JSON, so that equal names have equal texts.
fn name_of(name: StringToken<'_>) -> String {
    // An escape of a lone surrogate has no text, so it is kept as written.
    match name.is_escaped().then(|| name.text()).flatten() {
        Some(text) => {
            let mut json = Vec::new();
            encode::text(&mut json, &text);
            String::from_utf8(json).unwrap_or_default()
        }
        None => format!("\"{}\"", name.written()),
    }
}

#[cfg(test)]
mod tests {
    use alloc::vec;

    use super::*;

    #[test]
    fn weight_counts_names_responses_and_state() {
        let ready = ("\"name\"".into(), InputResponseState::Ready(b"{\"a\":1}".to_vec()));
        let unsent = ("\"\"".into(), InputResponseState::Unsent);
        let round = InputRound { state: Some("\"s\"".into()), answers: vec![ready, unsent], ..InputRound::new() };
        assert_eq!(round.weight(), 3 + 6 + 7 + 2 + 2 * size_of::<(String, InputResponseState)>());
    }
}
