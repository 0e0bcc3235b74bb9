//! The traffic: each request with its response, notifications, and what else happened. It has bounds: the oldest rows
//! are removed first.

use std::collections::{HashMap, VecDeque};

use super::sighting::{Broken, MAX_TEXT, Observed, Part, PartKind, Seen, Sighting};
use crate::{record::Origin, text::beginning};

/// The most rows.
pub(crate) const MAX_ROWS: usize = 5_000;

/// The most bytes of the texts of all rows.
pub(crate) const MAX_BYTES: usize = 16 << 20;

/// The most broken rules that are kept of a row.
const MAX_FINDINGS: usize = 16;

/// The most requests without a caller that are not seen yet.
const MAX_GIVEN_UP: usize = 64;

/// A line of the traffic.
#[derive(Clone, Debug)]
pub(crate) struct Row {
    pub(crate) number: u64,
    /// Microseconds since the start of the program.
    pub(crate) at: u64,
    /// The side that sent the request or the notification.
    pub(crate) from: Origin,
    pub(crate) state: State,
    pub(crate) id: Option<String>,
    /// The method, or the text of a log line or an event.
    pub(crate) title: String,
    pub(crate) subject: Option<String>,
    /// Microseconds from the request to its response.
    pub(crate) took: Option<u64>,
    /// The bytes of both messages.
    pub(crate) size: usize,
    pub(crate) progress: Option<String>,
    pub(crate) request: Option<Text>,
    pub(crate) response: Option<Text>,
    pub(crate) findings: Vec<Broken>,
    /// The numbers of its messages.
    messages: Vec<u64>,
    token: Option<String>,
}

/// The text of a message.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Text {
    pub(crate) text: String,
    pub(crate) is_cut: bool,
}

/// The state of a row.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    InFlight,
    Done,
    /// The result of a tool says that it is an error.
    Failed,
    /// The response is an error.
    Error(String),
    Cancelled,
    /// The connection ended first.
    Closed,
    Notification,
    /// A response without a request, or no message.
    Stray,
    Log,
    Event,
}

/// The rows.
#[derive(Debug, Default)]
pub(crate) struct Traffic {
    rows: VecDeque<Row>,
    /// The number of the first row.
    first: u64,
    bytes: usize,
    in_flight: usize,
    /// The rows of requests without a response, by the side that sent them and the id.
    open: HashMap<(Origin, String), u64>,
    tokens: HashMap<(Origin, String), u64>,
    /// Requests of the client that had no caller any more before they were seen, and whether they were cancelled.
    given_up: VecDeque<(String, bool)>,
    /// The rows of messages.
    messages: HashMap<u64, u64>,
    filter: String,
    /// The rows that match the filter, in their order.
    visible: VecDeque<u64>,
    pub(crate) violations: u64,
    /// Whether a notification told that a list has changed: tools, resources, prompts.
    pub(crate) changed: [bool; 3],
}

impl Row {
    fn bytes(&self) -> usize {
        let text = |text: &Option<Text>| text.as_ref().map_or(0, |it| it.text.len());
        let findings: usize = self.findings.iter().map(|it| it.what.len()).sum();
        text(&self.request) + text(&self.response) + self.title.len() + findings
    }

    /// Sets the state. One that was cancelled stays. Returns whether the request was in flight.
    fn end(&mut self, state: State) -> bool {
        let was_in_flight = self.state == State::InFlight;
        // The response may come after the caller has given up.
        if was_in_flight || (self.state == State::Closed && state != State::Closed) {
            self.state = state;
        }
        was_in_flight
    }

    fn matches(&self, filter: &str) -> bool {
        let is_in = |text: &str| contains(text, filter);
        let text = |text: &Option<Text>| text.as_ref().is_some_and(|it| is_in(&it.text));
        filter.is_empty()
            || is_in(&self.title)
            || self.subject.as_deref().is_some_and(is_in)
            || self.id.as_deref() == Some(filter)
            || is_in(&self.state.name())
            || self.findings.iter().any(|it| it.rule.is_some_and(is_in) || is_in(&it.what))
            || text(&self.request)
            || text(&self.response)
    }
}

/// Returns whether a text contains another one, with upper and lower case of ASCII taken as the same.
pub(crate) fn contains(text: &str, part: &str) -> bool {
    part.is_empty() || text.as_bytes().windows(part.len()).any(|window| window.eq_ignore_ascii_case(part.as_bytes()))
}

impl State {
    /// Returns the state of a request without a caller.
    const fn given_up(is_cancelled: bool) -> Self {
        if is_cancelled { Self::Cancelled } else { Self::Closed }
    }

    pub(crate) fn name(&self) -> String {
        match self {
            Self::InFlight => "in flight",
            Self::Done => "ok",
            Self::Failed => "failed",
            Self::Error(error) => {
                let code = error.split(' ').next().unwrap_or_default();
                return format!("error {code}");
            }
            Self::Cancelled => "cancelled",
            Self::Closed => "closed",
            Self::Notification => "notified",
            Self::Stray => "stray",
            Self::Log => "stderr",
            Self::Event => "",
        }
        .to_owned()
    }
}

impl Traffic {
    /// Takes what was seen.
    pub(crate) fn take(&mut self, sighting: Sighting) {
        let Sighting { at, what } = sighting;
        match what {
            Seen::Message(observed) => self.take_message(at, observed),
            Seen::Broken { number, findings } => self.take_broken(number, findings),
            Seen::Log(text) => self.push_text(at, State::Log, text),
            Seen::Event(text) => self.push_text(at, State::Event, text),
        }
    }

    fn take_message(&mut self, at: u64, observed: Observed) {
        let Observed { number, from, size, text, is_cut, parts } = observed;
        for part in parts {
            let text = Text { text: text.clone(), is_cut };
            let row = match part.kind {
                PartKind::Request => None,
                PartKind::Notification => self.row_of_notification(from, &part),
                PartKind::Result | PartKind::Failure | PartKind::Error | PartKind::Invalid => {
                    self.row_of_response(from, &part)
                }
            };
            match row {
                Some(row) => self.update(row, at, number, size, &part, text),
                None => self.push(Self::row(at, from, size, part, text), Some(number)),
            }
        }
    }

    fn row(at: u64, from: Origin, size: usize, part: Part, text: Text) -> Row {
        let state = match part.kind {
            PartKind::Request => State::InFlight,
            PartKind::Notification => State::Notification,
            _ => State::Stray,
        };
        let title = match (part.method, &part.error) {
            (Some(method), _) => method,
            (None, Some(error)) => format!("error {error}"),
            (None, None) if part.kind == PartKind::Invalid => "(no message)".to_owned(),
            (None, None) => "response".to_owned(),
        };
        let (id, subject, token, progress) = (part.id, part.subject, part.token, part.progress);
        Row {
            number: 0,
            at,
            from,
            state,
            id,
            title,
            subject,
            took: None,
            size,
            progress,
            request: Some(text),
            response: None,
            findings: Vec::new(),
            messages: Vec::new(),
            token,
        }
    }

    /// Returns the row of the request that a notification belongs to.
    fn row_of_notification(&mut self, from: Origin, part: &Part) -> Option<u64> {
        let changed = match part.method.as_deref()? {
            "notifications/cancelled" => return self.open.get(&(from, part.id.clone()?)).copied(),
            "notifications/progress" => return self.tokens.get(&(from.other(), part.token.clone()?)).copied(),
            "notifications/tools/list_changed" => 0,
            "notifications/resources/list_changed" => 1,
            "notifications/prompts/list_changed" => 2,
            _ => return None,
        };
        self.changed[changed] = true;
        None
    }

    fn row_of_response(&mut self, from: Origin, part: &Part) -> Option<u64> {
        let key = (from.other(), part.id.clone()?);
        let row = self.open.remove(&key)?;
        if let Some(token) = self.get(row).and_then(|it| it.token.clone()) {
            self.tokens.remove(&(key.0, token));
        }
        Some(row)
    }

    /// Adds a message to the row of its request.
    fn update(&mut self, number: u64, at: u64, message: u64, size: usize, part: &Part, text: Text) {
        let Some(index) = self.index(number) else { return };
        let row = &mut self.rows[index];
        let before = row.bytes();
        // Progress is only counted, so that a row stays small.
        match part.kind {
            PartKind::Notification => match &part.progress {
                Some(progress) => row.progress = Some(progress.clone()),
                None => self.in_flight -= usize::from(row.end(State::Cancelled)),
            },
            kind => {
                row.took = Some(at.saturating_sub(row.at));
                row.response = Some(text);
                let state = match kind {
                    PartKind::Failure => State::Failed,
                    PartKind::Error => State::Error(part.error.clone().unwrap_or_default()),
                    _ => State::Done,
                };
                self.in_flight -= usize::from(row.end(state));
            }
        }
        row.size += size;
        if row.messages.len() == MAX_FINDINGS {
            self.messages.remove(&row.messages.remove(1));
        }
        row.messages.push(message);
        self.bytes = self.bytes + row.bytes() - before;
        self.messages.insert(message, number);
        self.show(number);
        self.shrink();
    }

    fn take_broken(&mut self, message: u64, findings: Vec<Broken>) {
        self.violations += findings.len() as u64;
        let Some(number) = self.messages.get(&message).copied() else { return };
        let Some(index) = self.index(number) else { return };
        let row = &mut self.rows[index];
        let before = row.bytes();
        for finding in findings {
            if row.findings.len() < MAX_FINDINGS && !row.findings.contains(&finding) {
                row.findings.push(finding);
            }
        }
        self.bytes = self.bytes + row.bytes() - before;
        self.show(number);
        self.shrink();
    }

    fn push_text(&mut self, at: u64, state: State, mut text: String) {
        text.truncate(beginning(&text, MAX_TEXT).len());
        let row = Row { state, title: text, ..Self::row(at, Origin::Server, 0, Part::default(), Text::empty()) };
        self.push(Row { request: None, ..row }, None);
    }

    fn push(&mut self, mut row: Row, message: Option<u64>) {
        let number = self.first + self.rows.len() as u64;
        row.number = number;
        if let Some(message) = message {
            row.messages.push(message);
            self.messages.insert(message, number);
        }
        if row.state == State::InFlight && row.from == Origin::Client {
            if row.title == "initialize" {
                // Ids begin again.
                self.given_up.clear();
            }
            if let Some(place) = self.given_up.iter().position(|(id, _)| row.id.as_ref() == Some(id)) {
                let is_cancelled = self.given_up.remove(place).is_some_and(|(_, is_cancelled)| is_cancelled);
                row.end(State::given_up(is_cancelled));
            }
        }
        if row.state == State::InFlight {
            if let Some(id) = &row.id
                && let Some(earlier) = self.open.insert((row.from, id.clone()), number)
                && let Some(index) = self.index(earlier)
            {
                // It was sent again.
                self.in_flight -= usize::from(self.rows[index].end(State::Closed));
                self.show(earlier);
            }
            if let Some(token) = &row.token {
                self.tokens.insert((row.from, token.clone()), number);
            }
        }
        self.bytes += row.bytes();
        self.in_flight += usize::from(row.state == State::InFlight);
        self.rows.push_back(row);
        self.show(number);
        self.shrink();
    }

    /// Removes the oldest rows until there is room.
    fn shrink(&mut self) {
        while self.rows.len() > MAX_ROWS || self.bytes > MAX_BYTES {
            let Some(row) = self.rows.pop_front() else { return };
            self.first += 1;
            self.bytes -= row.bytes();
            self.in_flight -= usize::from(row.state == State::InFlight);
            for message in &row.messages {
                self.messages.remove(message);
            }
            // A later request may have the same id.
            let of_row = |number: &mut u64| *number == row.number;
            for (map, key) in [(&mut self.open, &row.id), (&mut self.tokens, &row.token)] {
                if let Some(key) = key {
                    let key = (row.from, key.clone());
                    if map.get_mut(&key).is_some_and(of_row) {
                        map.remove(&key);
                    }
                }
            }
            if self.visible.front() == Some(&row.number) {
                self.visible.pop_front();
            }
        }
    }

    /// Lets a row be visible exactly if it matches the filter.
    fn show(&mut self, number: u64) {
        let Some(row) = self.get(number) else { return };
        let matches = row.matches(&self.filter);
        match self.visible.binary_search(&number) {
            Err(place) if matches => self.visible.insert(place, number),
            Ok(place) if !matches => drop(self.visible.remove(place)),
            _ => {}
        }
    }

    /// Ends the requests in flight, because their connection has ended.
    pub(crate) fn close(&mut self) {
        self.open.clear();
        self.tokens.clear();
        self.given_up.clear();
        self.messages.clear();
        self.changed = [false; 3];
        for row in &mut self.rows {
            row.messages.clear();
            row.end(State::Closed);
        }
        self.in_flight = 0;
    }

    /// Ends a request of the client that its caller does not wait for any more. Over HTTP no message tells it.
    pub(crate) fn give_up(&mut self, id: u64, is_cancelled: bool) {
        let id = id.to_string();
        let Some(number) = self.open.get(&(Origin::Client, id.clone())).copied() else {
            // The request may be on its way to the server.
            if self.given_up.len() == MAX_GIVEN_UP {
                self.given_up.pop_front();
            }
            return self.given_up.push_back((id, is_cancelled));
        };
        let Some(index) = self.index(number) else { return };
        self.in_flight -= usize::from(self.rows[index].end(State::given_up(is_cancelled)));
        self.show(number);
    }

    /// Shows only rows that contain a text.
    pub(crate) fn set_filter(&mut self, filter: &str) {
        filter.clone_into(&mut self.filter);
        self.visible = self.rows.iter().filter(|row| row.matches(filter)).map(|row| row.number).collect();
    }

    pub(crate) fn filter(&self) -> &str {
        &self.filter
    }

    fn index(&self, number: u64) -> Option<usize> {
        usize::try_from(number.checked_sub(self.first)?).ok().filter(|index| *index < self.rows.len())
    }

    pub(crate) fn get(&self, number: u64) -> Option<&Row> {
        self.rows.get(self.index(number)?)
    }

    /// Returns the numbers of the rows that match the filter.
    pub(crate) fn visible(&self) -> &VecDeque<u64> {
        &self.visible
    }

    /// Returns the number of rows since the start, with those that were removed.
    pub(crate) fn total(&self) -> u64 {
        self.first + self.rows.len() as u64
    }

    pub(crate) const fn in_flight(&self) -> usize {
        self.in_flight
    }
}

impl Text {
    const fn empty() -> Self {
        Self { text: String::new(), is_cut: false }
    }
}

#[cfg(test)]
mod tests {
    use mcp_proto::wire::Message;

    use super::*;

    fn observed(number: u64, from: Origin, text: &str) -> Sighting {
        let part = Message::parse(text, 16).map(|message| Part::of(&message)).unwrap_or_default();
        let parts = vec![part];
        let what = Seen::Message(Observed { number, from, size: text.len(), text: text.into(), is_cut: false, parts });
        Sighting { at: number * 1_000, what }
    }

    fn request(number: u64, id: u64, extra: &str) -> Sighting {
        let text = format!(
            r#"{{"jsonrpc":"2.0","id":{id},"method":"tools/call","params":{{"name":"echo","_meta":{{"progressToken":{id}}}{extra}}}}}"#
        );
        observed(number, Origin::Client, &text)
    }

    #[test]
    fn responses_belong_to_their_requests() {
        let mut traffic = Traffic::default();
        traffic.take(request(0, 1, ""));
        traffic.take(request(1, 2, ""));
        assert_eq!(traffic.in_flight(), 2);
        let progress = r#"{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1,"total":2}}"#;
        traffic.take(observed(2, Origin::Server, progress));
        traffic.take(observed(3, Origin::Server, r#"{"jsonrpc":"2.0","id":2,"error":{"code":-32602,"message":"no"}}"#));
        traffic.take(observed(5, Origin::Server, r#"{"jsonrpc":"2.0","id":1,"result":{}}"#));
        traffic.take(observed(6, Origin::Server, r#"{"jsonrpc":"2.0","id":1,"result":{}}"#));
        let seen: Vec<_> = traffic
            .visible()
            .iter()
            .filter_map(|number| traffic.get(*number))
            .map(|row| (row.state.name(), row.took, row.progress.clone()))
            .collect();
        let expected = [
            ("ok".to_owned(), Some(5_000), Some("1/2".to_owned())),
            ("error -32602".to_owned(), Some(2_000), None),
            ("stray".to_owned(), None, None),
        ];
        assert_eq!(seen, expected);
        assert_eq!(traffic.in_flight(), 0);
    }

    #[test]
    fn cancelled_requests_stay_cancelled() {
        let mut traffic = Traffic::default();
        traffic.take(request(0, 1, ""));
        let cancel = r#"{"jsonrpc":"2.0","method":"notifications/cancelled","params":{"requestId":1}}"#;
        traffic.take(observed(1, Origin::Client, cancel));
        assert_eq!(traffic.get(0).map(|row| row.state.clone()), Some(State::Cancelled));
        assert_eq!(traffic.in_flight(), 0);
        traffic.take(observed(2, Origin::Server, r#"{"jsonrpc":"2.0","id":1,"result":{}}"#));
        let row = traffic.get(0).expect("the request");
        assert_eq!((&row.state, row.took), (&State::Cancelled, Some(2_000)));
        traffic.take(request(3, 2, ""));
        traffic.close();
        assert_eq!(traffic.get(1).map(|row| row.state.clone()), Some(State::Closed));
        assert_eq!(traffic.in_flight(), 0);
    }

    #[test]
    fn requests_that_are_sent_again_are_in_flight_once() {
        let mut traffic = Traffic::default();
        traffic.take(request(0, 1, ""));
        traffic.take(request(1, 1, ""));
        assert_eq!(traffic.in_flight(), 1);
        traffic.take(observed(2, Origin::Server, r#"{"jsonrpc":"2.0","id":1,"result":{}}"#));
        let states: Vec<_> = (0..2).filter_map(|row| traffic.get(row)).map(|row| row.state.name()).collect();
        assert_eq!((states, traffic.in_flight()), (vec!["closed".to_owned(), "ok".to_owned()], 0));
    }

    #[test]
    fn requests_without_a_caller_are_not_in_flight() {
        let mut traffic = Traffic::default();
        for id in 0..3 {
            traffic.take(request(id, id, ""));
        }
        traffic.give_up(0, true);
        traffic.give_up(1, false);
        traffic.give_up(7, false);
        assert_eq!(traffic.in_flight(), 1);
        // The error was the response, which is seen only now.
        traffic.take(observed(3, Origin::Server, r#"{"jsonrpc":"2.0","id":1,"error":{"code":-1,"message":""}}"#));
        let states: Vec<_> = (0..3).filter_map(|row| traffic.get(row)).map(|row| row.state.name()).collect();
        assert_eq!(states, ["cancelled", "error -1", "in flight"]);
        assert_eq!(traffic.in_flight(), 1);
    }

    #[test]
    fn broken_rules_are_in_the_row_of_their_message() {
        let mut traffic = Traffic::default();
        traffic.take(request(0, 1, ""));
        traffic.take(observed(1, Origin::Server, r#"{"jsonrpc":"2.0","id":1,"result":[]}"#));
        let broken =
            Broken { by: Origin::Server, rule: Some("BASE-017"), text: "", what: "the result is no object".into() };
        traffic.take(Sighting { at: 0, what: Seen::Broken { number: 1, findings: vec![broken.clone()] } });
        assert_eq!(traffic.get(0).map(|row| row.findings.clone()), Some(vec![broken]));
        assert_eq!(traffic.violations, 1);
    }

    #[test]
    fn floods_stay_within_the_bounds() {
        let mut traffic = Traffic::default();
        let filler = "x".repeat(10_000);
        for number in 0..20_000 {
            let text = if number % 8 == 0 { format!(r#","filler":"{filler}""#) } else { String::new() };
            traffic.take(request(number, number, &text));
            traffic.take(Sighting { at: 0, what: Seen::Log(filler.repeat(number as usize % 3)) });
            assert!(traffic.rows.len() <= MAX_ROWS && traffic.bytes <= MAX_BYTES);
            assert!(traffic.visible.len() <= MAX_ROWS && traffic.open.len() <= MAX_ROWS);
            assert!(traffic.tokens.len() <= MAX_ROWS && traffic.messages.len() <= MAX_ROWS);
        }
        let bytes: usize = traffic.rows.iter().map(Row::bytes).sum();
        assert_eq!(bytes, traffic.bytes);
        let in_flight = traffic.rows.iter().filter(|row| row.state == State::InFlight).count();
        assert_eq!(in_flight, traffic.in_flight());
        assert_eq!(traffic.total(), 40_000);
        // Progress of one request without an end does not grow its row.
        for number in 20_000..40_000 {
            let progress = format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":19999,"progress":{number}}}}}"#
            );
            traffic.take(observed(number, Origin::Server, &progress));
        }
        assert_eq!(traffic.total(), 40_000);
        assert!(traffic.messages.len() <= MAX_ROWS * MAX_FINDINGS, "{}", traffic.messages.len());
    }

    #[test]
    fn filters_find_methods_ids_rules_and_texts() {
        let mut traffic = Traffic::default();
        traffic.take(request(0, 7, r#","arguments":{"a":"Needle"}"#));
        traffic.take(request(1, 8, ""));
        for (filter, found) in
            [("needle", vec![0]), ("8", vec![1]), ("TOOLS/", vec![0, 1]), ("in flight", vec![0, 1]), ("z", vec![])]
        {
            traffic.set_filter(filter);
            assert_eq!(traffic.visible(), &VecDeque::from(found), "{filter}");
        }
        traffic.set_filter("error -7");
        traffic.take(observed(2, Origin::Server, r#"{"jsonrpc":"2.0","id":7,"error":{"code":-7,"message":""}}"#));
        assert_eq!(traffic.visible(), &VecDeque::from(vec![0]));
        traffic.set_filter("in flight");
        traffic.take(observed(3, Origin::Server, r#"{"jsonrpc":"2.0","id":8,"result":{}}"#));
        assert!(traffic.visible().is_empty(), "it has ended");
    }

    #[test]
    fn requests_may_be_seen_after_their_caller_has_given_up() {
        let mut traffic = Traffic::default();
        traffic.give_up(0, true);
        traffic.give_up(1, false);
        (0..3).for_each(|id| traffic.take(request(id, id, "")));
        let states: Vec<_> = (0..3).filter_map(|row| traffic.get(row)).map(|row| row.state.name()).collect();
        assert_eq!((states.join(" "), traffic.in_flight()), ("cancelled closed in flight".into(), 1));
    }
}
