//! Two processes that share a store, with every order of what happens and a failure at every step.
//!
//! The authorization server rotates refresh tokens, and revokes all tokens of a consent if a spent one is used. A store
//! write and a token request take effect at one moment, and are answered at another one. Whatever is under way can be
//! lost before it has an effect, its answer can be lost, and the process can end before or after it.

extern crate std;

mod fingerprint;

use std::collections::HashSet;

use super::*;

const RESOURCE_BODY: &str = r#"{"resource":"https://mcp.example/mcp","authorization_servers":["https://as.example"]}"#;
const METADATA_BODY: &str = r#"{"issuer":"https://as.example","authorization_endpoint":"https://as.example/authorize",
    "token_endpoint":"https://as.example/token","revocation_endpoint":"https://as.example/revoke",
    "code_challenge_methods_supported":["S256"]}"#;

/// The tokens of one consent: `a0.1` and `r0.1` are the first successors of `a0.0` and `r0.0`.
#[derive(Clone, Debug, Default)]
struct Family {
    /// The valid refresh token.
    index: u64,
    is_revoked: bool,
}

/// The authorization server, the store and the user.
#[derive(Clone)]
struct Model {
    families: Vec<Family>,
    /// How often the first refresh token was used.
    refreshes: usize,
    entry: Option<(Generation, Credentials)>,
    writes: u64,
    /// The families that a process has signed out.
    signed_out: Vec<u64>,
}

#[derive(Clone, Debug)]
enum Answer {
    Response(ActionId, u16, String),
    Stored(ActionId, StoreReply),
}

/// A request of the application. Its first attempt has the token that the process had then.
#[derive(Clone)]
enum State {
    Waiting,
    Running(Call, usize),
    Done(Result<(), AuthError>),
}

#[derive(Clone)]
struct Process {
    client: AuthClient,
    calls: Vec<State>,
    /// The request that has begun the current flow.
    initiator: Option<usize>,
    action: Option<Action>,
    answer: Option<Answer>,
    actions: usize,
    has_signed_out: bool,
    has_crashed: bool,
    /// Whether the last authorization has led to no token, so far.
    has_failed: bool,
}

#[derive(Clone)]
struct System {
    model: Model,
    processes: [Process; 2],
    faults: usize,
    may_sign_out: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    /// A request has no effect, and no response.
    Lost,
    /// It has an effect, and no answer.
    Unanswered,
    /// The process ends before it has an effect.
    Crash,
    /// The process ends after it.
    CrashAfter,
}

#[derive(Clone, Copy, Debug)]
enum Event {
    /// The next request of a process begins.
    Start(usize),
    /// The request of a process takes effect.
    Effect(usize, Fault),
    /// A process gets an answer, or ends before it.
    Answer(usize, Fault),
    SignOut(usize),
}

/// Reads the numbers of a token.
fn numbers(token: &str) -> (u64, u64) {
    let (family, index) = token[1..].split_once('.').expect("a token of the model");
    (family.parse().expect("a number"), index.parse().expect("a number"))
}

fn tokens_of(credentials: &Credentials) -> Option<(u64, u64)> {
    credentials.tokens.as_ref().map(|tokens| numbers(tokens.access.expose()))
}

impl Model {
    /// Returns whether the server takes an access token. The first of all is expired.
    fn takes(&self, token: &str) -> bool {
        let (family, index) = numbers(token);
        let known = &self.families[usize::try_from(family).expect("it is small")];
        !known.is_revoked && (family, index) != (0, 0)
    }

    fn granted(family: usize, index: u64) -> String {
        let (access, refresh) = (format!("a{family}.{index}"), format!("r{family}.{index}"));
        json!({"access_token": access, "token_type": "Bearer", "refresh_token": refresh}).to_string()
    }

    /// Answers a request to the authorization server, or for metadata.
    fn respond(&mut self, request: &Request) -> (u16, String) {
        let body = request.body.expose();
        let param = |name: &str| body.split('&').find_map(|pair| pair.strip_prefix(name));
        match request.url.path() {
            "/token" if param("code=").is_some() => {
                self.families.push(Family::default());
                (200, Self::granted(self.families.len() - 1, 0))
            }
            "/token" => {
                let (family, index) = numbers(param("refresh_token=").expect("a refresh token"));
                self.refreshes += usize::from((family, index) == (0, 0));
                let number = usize::try_from(family).expect("it is small");
                let known = &mut self.families[number];
                if known.is_revoked || known.index != index {
                    known.is_revoked = true;
                    return (400, json!({"error": "invalid_grant"}).to_string());
                }
                known.index += 1;
                (200, Self::granted(number, known.index))
            }
            "/revoke" => {
                let (family, _) = numbers(param("token=").expect("a token"));
                self.families[usize::try_from(family).expect("it is small")].is_revoked = true;
                (200, String::new())
            }
            "/.well-known/oauth-protected-resource/mcp" => (200, RESOURCE_BODY.into()),
            _ => (200, METADATA_BODY.into()),
        }
    }

    /// Writes to the store, and checks what is written.
    fn write(&mut self, expected: Option<Generation>, new: Option<Credentials>, is_sign_out: bool) -> StoreReply {
        if self.entry.as_ref().map(|(generation, _)| *generation) != expected {
            return StoreReply::Conflict(self.entry.clone().map(Box::new));
        }
        let before = self.entry.as_ref().and_then(|(_, known)| tokens_of(known));
        match (before, new.as_ref().and_then(tokens_of)) {
            (Some(old), Some(new)) => assert!(new > old || new.1 == 0, "{new:?} overwrites {old:?}"),
            (Some((family, index)), None) if !is_sign_out => {
                let known = &self.families[usize::try_from(family).expect("it is small")];
                assert!(known.is_revoked || known.index != index, "tokens that are good are removed");
            }
            _ => {}
        }
        self.writes += 1;
        let generation = Generation(self.writes);
        self.entry = new.map(|new| (generation, new));
        StoreReply::Stored(generation)
    }
}

fn settings_of_process() -> Settings {
    let mut settings = registered(AuthMethod::None);
    settings.identities.pre_registered[0].secret = None;
    settings
}

impl Process {
    fn new(seed: u8, calls: usize) -> Self {
        let mut process = Self {
            client: AuthClient::new(url(SERVER), settings_of_process(), [seed; 32]),
            calls: vec![State::Waiting; calls],
            initiator: None,
            action: None,
            answer: None,
            actions: 0,
            has_signed_out: false,
            has_crashed: false,
            has_failed: false,
        };
        process.action = process.client.poll_action();
        process
    }

    /// Goes on as far as nothing happens that has another order.
    fn settle(&mut self, model: &Model) {
        for _ in 0..100 {
            if self.action.is_none() && self.answer.is_none() {
                self.action = self.client.poll_action();
                self.actions += usize::from(self.action.is_some());
                assert!(self.actions < 80, "it does not end: {:?}", self.client);
                if let Some(Action::OpenBrowser(_)) = &self.action {
                    assert!(!self.has_failed, "the user is asked again after a failure, at the same moment");
                    self.has_failed = true;
                }
                if let (Some(Action::OpenBrowser(_)), Some(initiator)) = (&self.action, self.initiator)
                    && let State::Running(_, asked) = &mut self.calls[initiator]
                {
                    *asked += 1;
                    assert!(*asked < 2, "the user is asked twice for one request");
                }
            }
            if self.client.is_busy() {
                assert!(self.action.is_some() || self.answer.is_some(), "it waits for nothing: {:?}", self.client);
                return;
            }
            let running = |state: &State| matches!(state, State::Running(..));
            let Some(index) = self.calls.iter().position(running) else { return };
            self.go_on(index, model);
        }
        panic!("it does not settle: {:?}", self.client);
    }

    /// Asks what becomes of a request, and sends it again if it may be.
    fn go_on(&mut self, index: usize, model: &Model) {
        let State::Running(mut call, asked) = self.calls[index].clone() else { return };
        let verdict = call.ask(&mut self.client, at(1));
        self.calls[index] = match verdict {
            Verdict::Wait => {
                self.initiator = Some(index);
                State::Running(call, asked)
            }
            Verdict::Fail(error) => State::Done(Err(error)),
            Verdict::Retry => {
                let token = self.client.token().expect("it is there");
                call.used = Some(token.id);
                if model.takes(token.token.expose()) {
                    self.client.handle_accepted(token.id);
                    State::Done(Ok(()))
                } else {
                    State::Running(call, asked)
                }
            }
        };
    }

    fn start(&mut self, model: &Model) {
        let Some(index) = self.calls.iter().position(|state| matches!(state, State::Waiting)) else { return };
        let call = Call::new(&self.client);
        let is_good = token(&self.client).is_some_and(|token| model.takes(token));
        if let (true, Some(used)) = (is_good, call.used) {
            self.client.handle_accepted(used);
        }
        self.calls[index] = if is_good { State::Done(Ok(())) } else { State::Running(call, 0) };
        if !is_good && self.client.is_busy() {
            // It is refused while something is under way: it waits for that.
            let State::Running(call, _) = &mut self.calls[index] else { return };
            if let Verdict::Fail(error) = call.ask(&mut self.client, at(1)) {
                self.calls[index] = State::Done(Err(error));
            }
        }
    }

    /// Lets what was sent take effect, and returns the answer.
    fn perform(&mut self, model: &mut Model, action: Action, is_lost: bool) {
        let answer = match action {
            Action::Load { id, .. } => {
                let found = if is_lost { Err(()) } else { Ok(model.entry.clone()) };
                return self.client.handle_loaded(id, found);
            }
            Action::OpenBrowser(_) if is_lost => return self.client.handle_cancelled(),
            Action::OpenBrowser(url) => {
                let state = url.query().and_then(|query| query.split('&').find(|it| it.starts_with("state=")));
                let query = format!("{}&code=c", state.expect("a state"));
                return self.client.handle_redirect(at(1), &query).unwrap_or(());
            }
            Action::Request(request) if is_lost => return self.client.handle_response(at(1), request.id, None),
            Action::Request(request) => {
                let (status, body) = model.respond(&request);
                Answer::Response(request.id, status, body)
            }
            Action::Store { id, .. } if is_lost => Answer::Stored(id, StoreReply::Failed),
            Action::Store { id, expected, credentials, .. } => {
                let credentials = credentials.map(|it| *it);
                Answer::Stored(id, model.write(expected, credentials, self.has_signed_out))
            }
            other => panic!("the grant of the model has no {other:?}"),
        };
        self.answer = Some(answer);
        // Only the answers about tokens are worth another order: all else has no effect.
        if matches!(&self.answer, Some(Answer::Response(_, _, body)) if body.contains("issuer") || body.contains("resource"))
        {
            self.deliver(Fault::None);
        }
    }

    fn deliver(&mut self, fault: Fault) {
        match self.answer.take() {
            Some(Answer::Response(id, status, body)) => {
                // Those of a refresh have another number.
                self.has_failed &= fault != Fault::None || !body.contains(".0\"");
                let response = Response { status, location: None, dpop_nonce: None, body: body.as_bytes() };
                self.client.handle_response(at(1), id, (fault == Fault::None).then_some(response));
            }
            Some(Answer::Stored(id, reply)) => {
                self.client.handle_stored(id, if fault == Fault::None { reply } else { StoreReply::Failed });
            }
            None => {}
        }
    }
}

impl System {
    fn new(calls: usize, faults: usize, may_sign_out: bool) -> Self {
        let client = settings_of_process().identities.pre_registered[0].clone();
        let tokens = StoredTokens {
            access: Secret::new("a0.0"),
            token_type: TokenType::Bearer,
            refresh: Some(Secret::new("r0.0")),
            resource: url(SERVER),
            scopes: Scopes::default(),
            requested: Scopes::default(),
            issued_at: 0,
            expires_at: None,
            key_thumbprint: None,
        };
        let entry = Some((Generation(1), Credentials::new(client, Some(tokens))));
        let model = Model { families: vec![Family::default()], refreshes: 0, entry, writes: 1, signed_out: Vec::new() };
        let mut processes = [Process::new(1, calls), Process::new(2, 1)];
        for process in &mut processes {
            let Some(Action::Load { id, .. }) = process.action.take() else { panic!("it loads first") };
            process.client.handle_loaded(id, Ok(model.entry.clone()));
        }
        Self { model, processes, faults, may_sign_out }
    }

    fn events(&self) -> Vec<Event> {
        let mut events = Vec::new();
        // What has no effect on others, and sees none of theirs, is not worth another order.
        let is_alone = |process: &Process| match &process.action {
            Some(Action::OpenBrowser(_)) => true,
            Some(Action::Request(request)) => request.method == "GET",
            _ => false,
        };
        let alone = self.processes.iter().position(is_alone);
        for (index, process) in self.processes.iter().enumerate() {
            if alone.is_some_and(|alone| alone != index) {
                continue;
            }
            if process.calls.iter().any(|state| matches!(state, State::Waiting)) {
                events.push(Event::Start(index));
            }
            let faults = [Fault::Lost, Fault::Unanswered, Fault::Crash, Fault::CrashAfter];
            let count = if self.faults > 0 { faults.len() } else { 0 };
            if process.answer.is_some() {
                events.push(Event::Answer(index, Fault::None));
                events.extend(faults[1..count.clamp(1, 3)].iter().map(|fault| Event::Answer(index, *fault)));
            } else if let Some(action) = &process.action {
                // What only reads has no effect that could be lost.
                let reads = !matches!(action, Action::Store { .. })
                    && !matches!(action, Action::Request(it) if it.method == "POST");
                let is_new = |fault: &&Fault| !reads || matches!(fault, Fault::Lost | Fault::Crash);
                events.push(Event::Effect(index, Fault::None));
                events.extend(faults[..count].iter().filter(is_new).map(|fault| Event::Effect(index, *fault)));
            }
            if index == 0 && self.may_sign_out && !process.has_signed_out && !process.has_crashed {
                events.push(Event::SignOut(index));
            }
        }
        events
    }

    fn apply(&mut self, event: Event) {
        let (Event::Start(index) | Event::Effect(index, _) | Event::Answer(index, _) | Event::SignOut(index)) = event;
        let (model, process) = (&mut self.model, &mut self.processes[index]);
        if let Event::Effect(_, fault) | Event::Answer(_, fault) = event {
            self.faults -= usize::from(fault != Fault::None);
        }
        match event {
            Event::Start(_) => process.start(model),
            Event::SignOut(_) => {
                let known = [process.client.credentials.as_ref(), model.entry.as_ref().map(|entry| &entry.1)];
                model.signed_out.extend(known.into_iter().flatten().filter_map(tokens_of).map(|(family, _)| family));
                process.has_signed_out = true;
                process.has_failed = false;
                process.client.sign_out(at(1));
                let is_kept = matches!(&process.action, Some(Action::OpenBrowser(_)));
                if is_kept {
                    process.action = None;
                }
            }
            Event::Effect(_, fault) => {
                let action = process.action.take().expect("it has sent something");
                match fault {
                    Fault::None | Fault::Unanswered | Fault::Lost => {
                        process.perform(model, action, fault == Fault::Lost)
                    }
                    Fault::CrashAfter => process.perform(model, action, false),
                    Fault::Crash => {}
                }
                if fault == Fault::Unanswered {
                    process.deliver(fault);
                }
            }
            Event::Answer(_, fault) => process.deliver(fault),
        }
        let is_crash =
            matches!(event, Event::Effect(_, Fault::Crash | Fault::CrashAfter) | Event::Answer(_, Fault::Crash));
        if is_crash {
            *process = Process { has_crashed: true, ..Process::new(10 + u8::from(index == 1), 1) };
        }
        process.settle(&self.model);
    }

    /// Checks what is left when nothing is under way any more.
    fn check_end(&self, has_faults: bool) {
        let mut is_signed_out = false;
        for process in &self.processes {
            assert!(!process.client.is_busy() && process.action.is_none());
            is_signed_out |= process.has_signed_out && process.client.error().is_none();
            for state in &process.calls {
                match state {
                    State::Done(Ok(())) => {}
                    // One process signs the other out as well, also when that has just got its tokens.
                    State::Done(Err(AuthError::SignedOut | AuthError::Refused)) if self.may_sign_out => {}
                    State::Done(Err(error)) => assert!(has_faults, "it fails without a reason: {error}"),
                    State::Waiting | State::Running(..) => panic!("a request has no answer"),
                }
            }
        }
        if let (true, Some((_, entry))) = (is_signed_out, &self.model.entry) {
            let family = tokens_of(entry).map(|(family, _)| family);
            assert!(!family.is_some_and(|family| self.model.signed_out.contains(&family)), "a sign-out is lost");
        }
        if !has_faults && !self.may_sign_out {
            assert!(self.model.refreshes <= 2, "{} refreshes", self.model.refreshes);
            let stored = self.model.entry.as_ref().and_then(|(_, it)| it.tokens.as_ref()).expect("tokens");
            assert!(self.model.takes(stored.access.expose()), "the newest tokens are lost");
        }
        self.check_recovery();
    }

    /// Checks that the next process gets a token, with the user at most once.
    fn check_recovery(&self) {
        let mut model = self.model.clone();
        let mut process = Process::new(99, 1);
        for _ in 0..40 {
            process.settle(&model);
            if !process.client.is_busy() {
                process.start(&model);
                process.settle(&model);
            }
            match process.action.take() {
                Some(action) => process.perform(&mut model, action, false),
                None => process.deliver(Fault::None),
            }
        }
        process.settle(&model);
        assert!(matches!(process.calls[0], State::Done(Ok(()))), "the next process gets no token");
    }
}

/// Explores every order of events, and returns how many states and ends there are.
fn explore(calls: usize, faults: usize, may_sign_out: bool) -> (usize, usize) {
    let mut seen = HashSet::new();
    let mut left = vec![System::new(calls, faults, may_sign_out)];
    let mut ends = 0;
    while let Some(system) = left.pop() {
        let events = system.events();
        let is_end = events.iter().all(|event| matches!(event, Event::SignOut(_)));
        if is_end {
            ends += 1;
            system.check_end(system.faults < faults);
        }
        for event in events {
            let mut next = system.clone();
            next.apply(event);
            if seen.insert(next.fingerprint()) {
                left.push(next);
            }
        }
    }
    (seen.len(), ends)
}

#[test]
fn two_processes_refresh_at_most_twice() {
    let (states, ends) = explore(2, 0, false);
    assert!(states > 1_000 && ends > 10, "{states} states, {ends} ends");
}

#[test]
fn two_processes_recover_from_a_failure_at_every_step() {
    let (states, ends) = explore(1, 1, false);
    assert!(states > 1_000 && ends > 100, "{states} states, {ends} ends");
}

#[test]
fn sign_out_at_any_step_is_not_lost() {
    let (states, ends) = explore(1, 0, true);
    assert!(states > 1_000 && ends > 100, "{states} states, {ends} ends");
}

#[test]
#[ignore = "takes minutes without optimization"]
fn failures_and_sign_out_keep_invariants() {
    for (calls, faults, may_sign_out) in [(2, 1, false), (1, 2, false), (1, 1, true)] {
        let (states, ends) = explore(calls, faults, may_sign_out);
        assert!(states > 10_000 && ends > 1_000, "{states} states, {ends} ends");
    }
}
