//! The input requests of one task (2026-07-28) and the state of their answers.

use alloc::{
    collections::{BTreeMap, BTreeSet},
    string::String,
    sync::Arc,
    vec::Vec,
};
use core::mem;

use crate::rpc::ReplyKey;

/// All input requests of a task. Only writing and acknowledging answers iterates over all of them.
#[derive(Clone, Debug, Default)]
pub(crate) struct TaskQuestions {
    asked: Vec<TaskQuestion>,
    /// The index of each input request by name.
    by_name: BTreeMap<Arc<str>, usize>,
    /// The input requests that the application has not answered.
    open: BTreeSet<usize>,
    /// The batches with unanswered input requests.
    incomplete: BTreeMap<u32, Incomplete>,
    /// The number of answers in complete batches that have not been sent.
    ready: usize,
    /// The number of answers in flight.
    sending: usize,
    /// The bytes of names and answers.
    bytes: usize,
    /// The number of the current batch.
    batch: u32,
}

#[derive(Clone, Debug)]
struct TaskQuestion {
    /// The name, as JSON.
    name: Arc<str>,
    /// The batch of the input request. The answers of a batch are sent together.
    batch: u32,
    answer: Answer,
}

/// The counts of a batch that waits for answers.
#[derive(Clone, Copy, Debug, Default)]
struct Incomplete {
    open: usize,
    given: usize,
}

/// The answer to an input request of a task.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Answer {
    /// The application has not answered yet.
    Open(ReplyKey),
    /// The answer as JSON, not sent yet.
    Given(Vec<u8>),
    /// The answer as JSON, in flight.
    Sent(Vec<u8>),
    /// The server has the answer or does not need it any more.
    Done,
}

impl Answer {
    const fn len(&self) -> usize {
        match self {
            Self::Given(text) | Self::Sent(text) => text.len(),
            Self::Open(_) | Self::Done => 0,
        }
    }
}

impl TaskQuestions {
    /// Returns the number of input requests so far.
    pub(crate) const fn len(&self) -> usize {
        self.asked.len()
    }

    /// Returns the memory that they take, in bytes.
    pub(crate) const fn weight(&self) -> usize {
        // A growing list may have twice the capacity that it needs, and so may the nodes of a tree.
        const ENTRY: usize = 2 * (size_of::<TaskQuestion>() + size_of::<(Arc<str>, usize)>() + size_of::<usize>());
        self.asked.len() * ENTRY + self.bytes
    }

    /// Returns whether there was an input request with this name.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.by_name.contains_key(name)
    }

    /// Returns the name of an input request, as JSON.
    pub(crate) fn name(&self, at: usize) -> &str {
        self.asked.get(at).map_or("", |asked| &*asked.name)
    }

    /// Returns the input requests that the application has not answered.
    pub(crate) fn open(&self) -> impl Iterator<Item = (usize, ReplyKey)> {
        self.open.iter().filter_map(|at| match self.asked.get(*at)?.answer {
            Answer::Open(key) => Some((*at, key)),
            _ => None,
        })
    }

    /// Returns whether an input request waits for an answer.
    pub(crate) fn is_asking(&self) -> bool {
        !self.open.is_empty()
    }

    /// Returns whether answers are ready to be sent.
    pub(crate) const fn has_answers(&self) -> bool {
        self.ready > 0
    }

    /// Returns whether answers are in flight.
    pub(crate) const fn is_sending(&self) -> bool {
        self.sending > 0
    }

    /// Begins a batch. The answers to the input requests that are added next are sent together.
    pub(crate) const fn begin_batch(&mut self) {
        self.batch = self.batch.saturating_add(1);
    }

    /// Adds an input request that was handed to the application.
    pub(crate) fn ask(&mut self, name: String, key: ReplyKey) {
        let (name, at): (Arc<str>, _) = (name.into(), self.asked.len());
        self.bytes += name.len();
        self.by_name.insert(name.clone(), at);
        self.asked.push(TaskQuestion { name, batch: self.batch, answer: Answer::Done });
        self.set(at, Answer::Open(key));
    }

    /// Sets the answer to an input request.
    pub(crate) fn set(&mut self, at: usize, answer: Answer) {
        let Some(asked) = self.asked.get_mut(at) else { return };
        let batch = asked.batch;
        self.bytes += answer.len();
        if let Answer::Open(_) = answer {
            self.open.insert(at);
            self.incomplete.entry(batch).or_default().open += 1;
        }
        let waits = self.incomplete.get_mut(&batch);
        let was = mem::replace(&mut asked.answer, answer);
        self.bytes -= was.len();
        // Answers wait until their batch is complete.
        let given = match waits {
            Some(Incomplete { given, .. }) => given,
            None => &mut self.ready,
        };
        *given += usize::from(matches!(asked.answer, Answer::Given(_)));
        *given -= usize::from(matches!(was, Answer::Given(_)));
        self.sending += usize::from(matches!(asked.answer, Answer::Sent(_)));
        self.sending -= usize::from(matches!(was, Answer::Sent(_)));
        if let Answer::Open(_) = was {
            self.open.remove(&at);
            let waits = self.incomplete.entry(batch).or_default();
            waits.open -= 1;
            if waits.open == 0 {
                self.ready += waits.given;
                self.incomplete.remove(&batch);
            }
        }
    }

    /// Appends the answers that are ready, as a JSON object, and marks them as in flight.
    pub(crate) fn write_answers(&mut self, out: &mut Vec<u8>) {
        let mut open = b'{';
        for at in 0..self.asked.len() {
            let TaskQuestion { name, batch, answer } = &self.asked[at];
            let Answer::Given(text) = answer else { continue };
            if self.incomplete.contains_key(batch) {
                continue;
            }
            out.push(open);
            open = b',';
            out.extend_from_slice(name.as_bytes());
            out.push(b':');
            out.extend_from_slice(text);
            let sent = Answer::Sent(text.clone());
            self.set(at, sent);
        }
        out.push(b'}');
    }

    /// Records whether the answers in flight have arrived. Returns whether there were any.
    pub(crate) fn sent(&mut self, arrived: bool) -> bool {
        if self.sending == 0 {
            return false;
        }
        for at in 0..self.asked.len() {
            if let Answer::Sent(text) = &mut self.asked[at].answer {
                let text = mem::take(text);
                // The text was taken out, so `set` cannot subtract its length.
                self.bytes -= text.len();
                self.set(at, if arrived { Answer::Done } else { Answer::Given(text) });
            }
        }
        true
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        rpc::{Incoming, Inserted, Timestamp},
        wire::RequestId,
    };

    /// Checks that all counts stay equal to the contents under random operations.
    #[test]
    fn what_is_counted_is_what_is_there() {
        let mut table = Incoming::new(1);
        let Inserted::New(key) = table.insert(Timestamp::ZERO, RequestId::from(1), ()) else { panic!("it is free") };
        let (mut questions, mut state) = (TaskQuestions::default(), 5);
        for step in 0..20_000_usize {
            crate::test_rng::roll(&mut state);
            let at = (state >> 20) as usize % (questions.len() + 1);
            let is_open = questions.asked.get(at).is_some_and(|asked| matches!(asked.answer, Answer::Open(_)));
            match state >> 60 {
                0..5 if questions.len() < 100 => questions.ask(alloc::format!("\"{step}\""), key),
                5 => questions.begin_batch(),
                6..11 if is_open => questions.set(at, Answer::Given(b"{}".to_vec())),
                11 if is_open => questions.set(at, Answer::Done),
                12 | 13 => {
                    let mut out = Vec::new();
                    let had = questions.has_answers();
                    questions.write_answers(&mut out);
                    assert_eq!(had, out.len() > 1, "{out:?}");
                }
                14 => drop(questions.sent(true)),
                _ => drop(questions.sent(false)),
            }
            let count = |is: fn(&Answer) -> bool| questions.asked.iter().filter(|asked| is(&asked.answer)).count();
            let is_incomplete = |batch| {
                questions.asked.iter().any(|asked| asked.batch == batch && matches!(asked.answer, Answer::Open(_)))
            };
            let ready = |asked: &&TaskQuestion| matches!(asked.answer, Answer::Given(_)) && !is_incomplete(asked.batch);
            assert_eq!(questions.open().count(), count(|answer| matches!(answer, Answer::Open(_))));
            assert_eq!(questions.is_asking(), questions.open().next().is_some());
            assert_eq!(questions.ready, questions.asked.iter().filter(ready).count());
            assert_eq!(questions.sending, count(|answer| matches!(answer, Answer::Sent(_))));
            let bytes = |asked: &TaskQuestion| asked.name.len() + asked.answer.len();
            assert_eq!(questions.bytes, questions.asked.iter().map(bytes).sum::<usize>());
            assert!(questions.asked.iter().all(|asked| questions.has(&asked.name)));
        }
    }
}
