//! Checks the frames that the driver of one side reads and writes against the rules of the protocol.

use mcp_proto::protocol::Role;

use super::{
    frames::{Frame, Id, Message},
    violation::{Rule, Violation, ensure},
};

const LISTEN: &str = "subscriptions/listen";
const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";

/// The state of a subscription.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum SubscriptionState {
    /// The request is not an open subscription.
    #[default]
    None,
    /// The subscription has not been acknowledged.
    Requested,
    /// The subscription has been acknowledged. `change_due` tells whether a change has not been sent yet.
    Active { change_due: bool },
}

/// A request of the peer.
#[derive(Clone, Debug, Hash)]
struct Inbound {
    id: Id,
    /// The number that its application put into the params.
    number: Option<u64>,
    /// How often it was received, minus the responses and cancellations.
    open: u8,
    token: Option<Id>,
    /// The progress of the last notification, as bits.
    progress: Option<u64>,
    subscription: SubscriptionState,
}

impl Inbound {
    fn close(&mut self) {
        self.open -= 1;
        if self.open == 0 {
            (self.token, self.progress, self.subscription) = (None, None, SubscriptionState::None);
        }
    }
}

/// A request of this side.
#[derive(Clone, Debug, Hash)]
struct Outbound {
    id: Id,
    /// The number that its application put into the params. Pings of the connection have none.
    number: Option<u64>,
    state: CallState,
}

impl Outbound {
    /// Handles the response. A queued cancellation may still be written after it.
    fn answered(&mut self) {
        if self.state == CallState::Open && self.number.is_some() {
            self.state = CallState::Done;
        }
    }

    fn is_cancellable(&self) -> bool {
        self.state == CallState::Abandoned || self.state == CallState::Open && self.number.is_none()
    }
}

/// The state of a request of this side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum CallState {
    /// It belongs to the handshake, so it is never cancelled.
    Handshake,
    /// It is in flight.
    Open,
    /// The application has cancelled it, or it timed out. Its cancellation may be sent.
    Abandoned,
    /// Its response was received, or its cancellation was sent.
    Done,
}

/// The observed state that determines which messages may follow.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct WireObserver {
    inbound: Vec<Inbound>,
    outbound: Vec<Outbound>,
    /// A list has changed, and no notification was sent yet.
    change_due: bool,
}

impl WireObserver {
    /// Handles a received frame. A `modern_server` cancels requests that it received from this side. Returns the number
    /// of the request that the frame cancels before its response.
    pub(super) fn incoming(&mut self, frame: &Frame, modern_server: bool) -> Option<u64> {
        let mut cancelled = None;
        for messages in &frame.messages {
            match messages {
                Message::Request { id, method, token, number } => {
                    let subscription =
                        if &**method == LISTEN { SubscriptionState::Requested } else { SubscriptionState::None };
                    match self.inbound.iter_mut().find(|request| request.id == *id) {
                        Some(request) if request.open > 0 => request.open += 1,
                        Some(request) => {
                            let number = *number;
                            *request =
                                Inbound { number, open: 1, token: token.clone(), subscription, ..request.clone() };
                        }
                        None => self.inbound.push(Inbound {
                            id: id.clone(),
                            number: *number,
                            open: 1,
                            token: token.clone(),
                            progress: None,
                            subscription,
                        }),
                    }
                }
                Message::Cancelled(id) if !modern_server => {
                    if let Some(request) = self.open(id) {
                        // Of several requests with this id, the accepted one.
                        cancelled = request.number;
                        request.subscription = SubscriptionState::None;
                        request.close();
                    }
                }
                Message::Response(Some(id)) | Message::Cancelled(id) => {
                    if let Some(request) = self.outbound.iter_mut().find(|request| request.id == *id) {
                        request.answered();
                    }
                }
                Message::Response(None) | Message::Progress(..) | Message::Notification(..) => {}
            }
        }
        cancelled
    }

    /// Marks a request as abandoned: the application has cancelled it, or it timed out.
    pub(super) fn abandon(&mut self, number: u64) {
        for request in &mut self.outbound {
            if request.number == Some(number) && request.state == CallState::Open {
                request.state = CallState::Abandoned;
            }
        }
    }

    /// Returns the number of the request with this id.
    pub(super) fn number_of(&self, id: &str) -> Option<u64> {
        self.outbound.iter().find(|request| &*request.id == id)?.number
    }

    /// Returns the id of the open request with this number.
    pub(super) fn id_of(&self, number: u64) -> Option<&Id> {
        let found = |request: &&Outbound| request.number == Some(number) && request.state == CallState::Open;
        Some(&self.outbound.iter().rfind(found)?.id)
    }

    /// Records the change of a list of this side.
    pub(super) fn list_changed(&mut self, modern: bool) {
        self.change_due |= !modern;
        for request in &mut self.inbound {
            if let SubscriptionState::Active { change_due } = &mut request.subscription {
                *change_due = true;
            }
        }
    }

    /// Checks that no notification is missing when the outbox is empty.
    pub(super) fn check_all_sent(&self) -> Result<(), Violation> {
        for Inbound { id, subscription, .. } in &self.inbound {
            let has_cause =
                matches!(subscription, SubscriptionState::None | SubscriptionState::Active { change_due: false });
            ensure(has_cause, Rule::Output, || format!("subscription {id} misses a notification: {subscription:?}"))?;
        }
        ensure(!self.change_due, Rule::Output, || "a list has changed without a notification".into())
    }

    /// Checks that every request was responded to or cancelled.
    pub(super) fn check_settled(&self) -> Result<(), Violation> {
        let open = self.inbound.iter().find(|request| request.open > 0);
        ensure(open.is_none(), Rule::Rest, || format!("never answered: {open:?}"))
    }

    fn open(&mut self, id: &Id) -> Option<&mut Inbound> {
        self.inbound.iter_mut().find(|request| request.id == *id && request.open > 0)
    }

    /// Checks a written frame.
    pub(super) fn outgoing(&mut self, frame: &Frame, role: Role, modern: bool) -> Result<(), Violation> {
        ensure(
            !frame.is_batch || frame.messages.iter().all(|messages| matches!(messages, Message::Response(_))),
            Rule::OneAnswer,
            || "a batch holds something other than answers".into(),
        )?;
        for messages in &frame.messages {
            self.on_sent(messages, role, modern)?;
        }
        Ok(())
    }

    fn on_sent(&mut self, messages: &Message, role: Role, modern: bool) -> Result<(), Violation> {
        match messages {
            Message::Request { id, method, number, .. } => {
                ensure(self.outbound.iter().all(|request| request.id != *id), Rule::FreshIds, || {
                    format!("{id} was used before")
                })?;
                ensure(!(modern && role == Role::Server), Rule::FreshIds, || {
                    "a server of the modern era sends no requests".into()
                })?;
                let opens = matches!(&**method, "initialize" | "server/discover");
                let state = if opens { CallState::Handshake } else { CallState::Open };
                self.outbound.push(Outbound { id: id.clone(), number: *number, state });
            }
            Message::Response(None) => {}
            Message::Response(Some(id)) => match self.open(id) {
                Some(request) => {
                    ensure(request.subscription != SubscriptionState::Requested, Rule::Subscriptions, || {
                        format!("{id} has ended and was never acknowledged")
                    })?;
                    request.close();
                }
                None => {
                    return Err(Violation::new(Rule::OneAnswer, format!("a response to {id}, which is not open")));
                }
            },
            // The cancellation after the result of a subscription.
            Message::Cancelled(id) if modern && role == Role::Server => {
                let ended = self.inbound.iter().any(|request| request.id == *id && request.open == 0);
                ensure(ended, Rule::Subscriptions, || format!("{id} is cancelled and was not answered"))?;
            }
            Message::Cancelled(id) => {
                let of = self.outbound.iter_mut().find(|request| request.id == *id);
                let Some(request) = of.filter(|request| request.is_cancellable()) else {
                    return Err(Violation::new(Rule::CancelsOwn, format!("{id} is cancelled and is not in flight")));
                };
                request.state = CallState::Done;
            }
            Message::Progress(token, progress) => {
                let of =
                    self.inbound.iter_mut().find(|request| request.open > 0 && request.token == Some(token.clone()));
                let Some(request) = of else {
                    return Err(Violation::new(
                        Rule::Progress,
                        format!("no open request has the progress token {token}"),
                    ));
                };
                ensure(request.progress.is_none_or(|last| f64::from_bits(last) < *progress), Rule::Progress, || {
                    format!("{progress} of {token} is no progress")
                })?;
                request.progress = Some(progress.to_bits());
            }
            Message::Notification(_, None) => self.change_due = false,
            Message::Notification(method, Some(id)) => {
                let Some(request) = self.open(id) else {
                    return Err(Violation::new(Rule::Subscriptions, format!("{method} for {id}, which has ended")));
                };
                let first = &**method == ACKNOWLEDGED;
                request.subscription = match request.subscription {
                    SubscriptionState::Requested if first => SubscriptionState::Active { change_due: false },
                    SubscriptionState::Active { .. } if !first => SubscriptionState::Active { change_due: false },
                    other => return Err(Violation::new(Rule::Subscriptions, format!("{method} for {id}: {other:?}"))),
                };
            }
        }
        Ok(())
    }
}
