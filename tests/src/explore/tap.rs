//! What goes over the wire, as one end's driver sees it, held against the rules of the wire.

use mcp_proto::protocol::Role;

use super::{
    fault::{Fault, Rule, demand},
    frames::{Frame, Id, Said},
};

const LISTEN: &str = "subscriptions/listen";
const ACKNOWLEDGED: &str = "notifications/subscriptions/acknowledged";

/// How far a subscription is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
enum Listening {
    /// It is none, or over.
    #[default]
    No,
    /// It has not been acknowledged.
    Asked,
    /// It has been acknowledged. Whether it has yet to hear of a change.
    Heard { owed: bool },
}

/// A request of the peer.
#[derive(Clone, Debug, Hash)]
struct Inbound {
    id: Id,
    /// The number that its application has given to it.
    number: Option<u64>,
    /// How often it has come in, less how often it was answered or cancelled.
    open: u8,
    token: Option<Id>,
    /// The progress that was reported, as bits.
    progress: Option<u64>,
    listening: Listening,
}

impl Inbound {
    fn close(&mut self) {
        self.open -= 1;
        if self.open == 0 {
            (self.token, self.progress, self.listening) = (None, None, Listening::No);
        }
    }
}

/// A request of this end.
#[derive(Clone, Debug, Hash)]
struct Outbound {
    id: Id,
    /// The number that its application has given to it. Pings of the connection have none.
    number: Option<u64>,
    fate: Fate,
}

impl Outbound {
    /// The answer comes in. A cancellation that waits to be written may still go: the two have crossed.
    fn answered(&mut self) {
        if self.fate == Fate::Open && self.number.is_some() {
            self.fate = Fate::Over;
        }
    }

    fn is_cancellable(&self) -> bool {
        self.fate == Fate::GivenUp || self.fate == Fate::Open && self.number.is_none()
    }
}

/// How far a request of this end is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Fate {
    /// It opens the connection, so it is never cancelled.
    Opens,
    /// It is in flight.
    Open,
    /// Its application has given up on it, and the peer may be told.
    GivenUp,
    /// Its answer has come in, or its cancellation has gone out.
    Over,
}

/// What has gone over the wire, in as far as it decides what may still go.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Tap {
    inbound: Vec<Inbound>,
    outbound: Vec<Outbound>,
    /// A list has changed, and no peer was told.
    owes_change: bool,
}

impl Tap {
    /// A frame comes in, perhaps from a server of the modern era, which cancels what it was asked. The number of the
    /// request that it cancels before it was answered.
    pub(super) fn incoming(&mut self, frame: &Frame, modern_server: bool) -> Option<u64> {
        let mut cancelled = None;
        for said in &frame.said {
            match said {
                Said::Request { id, method, token, number } => {
                    let listening = if &**method == LISTEN { Listening::Asked } else { Listening::No };
                    match self.inbound.iter_mut().find(|request| request.id == *id) {
                        Some(request) if request.open > 0 => request.open += 1,
                        Some(request) => {
                            let number = *number;
                            *request = Inbound { number, open: 1, token: token.clone(), listening, ..request.clone() };
                        }
                        None => self.inbound.push(Inbound {
                            id: id.clone(),
                            number: *number,
                            open: 1,
                            token: token.clone(),
                            progress: None,
                            listening,
                        }),
                    }
                }
                Said::Cancelled(id) if !modern_server => {
                    if let Some(request) = self.open(id) {
                        // Of several with this id, the one that was let in.
                        cancelled = request.number;
                        request.listening = Listening::No;
                        request.close();
                    }
                }
                Said::Answer(Some(id)) | Said::Cancelled(id) => {
                    if let Some(request) = self.outbound.iter_mut().find(|request| request.id == *id) {
                        request.answered();
                    }
                }
                Said::Answer(None) | Said::Progress(..) | Said::Note(..) => {}
            }
        }
        cancelled
    }

    /// The application gives up on a request: it is not answered, so the peer may be told.
    pub(super) fn give_up(&mut self, number: u64) {
        for request in &mut self.outbound {
            if request.number == Some(number) && request.fate == Fate::Open {
                request.fate = Fate::GivenUp;
            }
        }
    }

    /// The number of the request that has this id.
    pub(super) fn number_of(&self, id: &str) -> Option<u64> {
        self.outbound.iter().find(|request| &*request.id == id)?.number
    }

    /// The id that the request with this number is in flight under.
    pub(super) fn id_of(&self, number: u64) -> Option<&Id> {
        let found = |request: &&Outbound| request.number == Some(number) && request.fate == Fate::Open;
        Some(&self.outbound.iter().rfind(found)?.id)
    }

    /// A list of this end has changed.
    pub(super) fn changed(&mut self, modern: bool) {
        self.owes_change |= !modern;
        for request in &mut self.inbound {
            if let Listening::Heard { owed } = &mut request.listening {
                *owed = true;
            }
        }
    }

    /// Whether nothing of what there was to say is still unsaid: nothing waits to be written.
    pub(super) fn said_all(&self) -> Result<(), Fault> {
        for Inbound { id, listening, .. } in &self.inbound {
            let told = matches!(listening, Listening::No | Listening::Heard { owed: false });
            demand(told, Rule::Output, || format!("subscription {id} was not told: {listening:?}"))?;
        }
        demand(!self.owes_change, Rule::Output, || "a list has changed without a notification".into())
    }

    /// Whether every request was answered or cancelled.
    pub(super) fn settled(&self) -> Result<(), Fault> {
        let open = self.inbound.iter().find(|request| request.open > 0);
        demand(open.is_none(), Rule::Rest, || format!("never answered: {open:?}"))
    }

    fn open(&mut self, id: &Id) -> Option<&mut Inbound> {
        self.inbound.iter_mut().find(|request| request.id == *id && request.open > 0)
    }

    /// A frame leaves.
    pub(super) fn outgoing(&mut self, frame: &Frame, role: Role, modern: bool) -> Result<(), Fault> {
        demand(
            !frame.is_batch || frame.said.iter().all(|said| matches!(said, Said::Answer(_))),
            Rule::OneAnswer,
            || "a batch holds something other than answers".into(),
        )?;
        for said in &frame.said {
            self.leaves(said, role, modern)?;
        }
        Ok(())
    }

    fn leaves(&mut self, said: &Said, role: Role, modern: bool) -> Result<(), Fault> {
        match said {
            Said::Request { id, method, number, .. } => {
                demand(self.outbound.iter().all(|request| request.id != *id), Rule::FreshIds, || {
                    format!("{id} was used before")
                })?;
                demand(!(modern && role == Role::Server), Rule::FreshIds, || {
                    "a server of the modern era asks nothing".into()
                })?;
                let opens = matches!(&**method, "initialize" | "server/discover");
                let fate = if opens { Fate::Opens } else { Fate::Open };
                self.outbound.push(Outbound { id: id.clone(), number: *number, fate });
            }
            Said::Answer(None) => {}
            Said::Answer(Some(id)) => match self.open(id) {
                Some(request) => {
                    demand(request.listening != Listening::Asked, Rule::Subscriptions, || {
                        format!("{id} has ended and was never acknowledged")
                    })?;
                    request.close();
                }
                None => return Err(Fault::new(Rule::OneAnswer, format!("an answer to {id}, to which none is owed"))),
            },
            // The one that follows the result of a subscription.
            Said::Cancelled(id) if modern && role == Role::Server => {
                let ended = self.inbound.iter().any(|request| request.id == *id && request.open == 0);
                demand(ended, Rule::Subscriptions, || format!("{id} is cancelled and was not answered"))?;
            }
            Said::Cancelled(id) => {
                let of = self.outbound.iter_mut().find(|request| request.id == *id);
                let Some(request) = of.filter(|request| request.is_cancellable()) else {
                    return Err(Fault::new(Rule::CancelsOwn, format!("{id} is cancelled and is not in flight")));
                };
                request.fate = Fate::Over;
            }
            Said::Progress(token, progress) => {
                let of =
                    self.inbound.iter_mut().find(|request| request.open > 0 && request.token == Some(token.clone()));
                let Some(request) = of else {
                    return Err(Fault::new(Rule::Progress, format!("no request waits for the progress of {token}")));
                };
                demand(request.progress.is_none_or(|last| f64::from_bits(last) < *progress), Rule::Progress, || {
                    format!("{progress} of {token} is no progress")
                })?;
                request.progress = Some(progress.to_bits());
            }
            Said::Note(_, None) => self.owes_change = false,
            Said::Note(method, Some(id)) => {
                let Some(request) = self.open(id) else {
                    return Err(Fault::new(Rule::Subscriptions, format!("{method} for {id}, which has ended")));
                };
                let first = &**method == ACKNOWLEDGED;
                request.listening = match request.listening {
                    Listening::Asked if first => Listening::Heard { owed: false },
                    Listening::Heard { .. } if !first => Listening::Heard { owed: false },
                    other => return Err(Fault::new(Rule::Subscriptions, format!("{method} for {id}: {other:?}"))),
                };
            }
        }
        Ok(())
    }
}
