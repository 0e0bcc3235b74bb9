//! Answers.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
};

use mcp_proto::{
    connection::{Connection, SendError},
    rpc::ReplyKey,
    schema::{EmptyResult, Encode},
    wire::ErrorObject,
};

use crate::{Link, Role, session::Shared};

/// What became of a request.
pub(crate) type Answer<T> = Result<T, ErrorObject>;

/// An answer that is an error for sure.
pub(crate) type Refusal = Answer<EmptyResult>;

/// Runs code of the user. If it panics, that is the failure of this request alone, and nobody hears details.
pub(crate) fn guarded<T>(f: impl FnOnce() -> Answer<T>) -> Answer<T> {
    // What `f` leaves behind half-done is its own: nothing of this crate is under a lock while it runs.
    catch_unwind(AssertUnwindSafe(f)).unwrap_or_else(|_| Err(ErrorObject::internal("Internal error")))
}

/// Answers a request; `false` if there is no room now. An answer that cannot be sent becomes an error that can.
pub(crate) fn respond<E, T: Encode>(conn: &mut Connection<E>, key: ReplyKey, answer: &Answer<T>) -> bool {
    let sent = match answer {
        Ok(result) => conn.respond(key, result),
        Err(error) => conn.respond_error(key, error),
    };
    let error = match sent {
        Err(SendError::Busy) => return false,
        Err(SendError::TooLarge) => ErrorObject::internal("The result is larger than a message may be"),
        Err(SendError::Encode(why)) => ErrorObject::internal(format!("The result cannot be sent: {why}")),
        Err(wrong @ (SendError::WrongResult | SendError::Undeclared(_))) => ErrorObject::internal(wrong.to_string()),
        // There is nothing to answer any more.
        Ok(()) | Err(_) => return true,
    };
    conn.respond_error(key, &error) != Err(SendError::Busy)
}

/// The answer that a request is owed. It is given once, whatever becomes of whoever should give it.
pub(crate) struct Reply<E: Role> {
    shared: Arc<Shared<E>>,
    link: Arc<dyn Link<E>>,
    key: ReplyKey,
    owed: bool,
}

impl<E: Role> Reply<E> {
    pub(crate) fn new(shared: &Arc<Shared<E>>, link: &Arc<dyn Link<E>>, key: ReplyKey) -> Self {
        Self { shared: shared.clone(), link: link.clone(), key, owed: true }
    }

    /// Answers. Blocks while a peer that does not read leaves no room.
    pub(crate) fn send<T: Encode>(mut self, answer: &Answer<T>) {
        while !self.try_send(answer) {
            self.link.wait_for_room();
        }
    }

    fn try_send<T: Encode>(&mut self, answer: &Answer<T>) -> bool {
        let sent = self.link.run(|conn, _| respond(conn, self.key, answer));
        if sent {
            self.owed = false;
            self.shared.works.end(self.key);
        }
        sent
    }
}

impl<E: Role> Drop for Reply<E> {
    fn drop(&mut self) {
        if self.owed {
            // A driver that ends drops the jobs that it has not run.
            self.try_send(&Refusal::Err(ErrorObject::internal("The request was not served")));
            self.shared.works.end(self.key);
        }
    }
}
