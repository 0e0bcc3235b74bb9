//! A recorder of all that a test and its dependencies log and trace.

use std::{
    fmt,
    fmt::Write as _,
    sync::{Mutex, Once},
};

use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span::{Attributes, Id, Record},
};

/// Everything that was logged, at all levels.
static RECORDS: Mutex<String> = Mutex::new(String::new());

/// Records the events of `log` and `tracing`.
pub(crate) struct Recorder;

impl Recorder {
    /// Records from now on.
    pub(crate) fn install() {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            log::set_logger(&Recorder).expect("there is no other logger");
            log::set_max_level(log::LevelFilter::Trace);
            tracing::subscriber::set_global_default(Recorder).expect("there is no other subscriber");
        });
    }

    /// Returns what was recorded so far.
    pub(crate) fn records() -> String {
        RECORDS.lock().expect("no panic").clone()
    }

    fn push(text: &str) {
        RECORDS.lock().expect("no panic").push_str(text);
    }
}

impl log::Log for Recorder {
    fn enabled(&self, _: &log::Metadata<'_>) -> bool {
        true
    }

    fn log(&self, record: &log::Record<'_>) {
        Self::push(&format!("{} {}\n", record.target(), record.args()));
    }

    fn flush(&self) {}
}

#[derive(Default)]
struct Fields(String);

impl Visit for Fields {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        let _ = write!(self.0, " {}={value:?}", field.name());
    }
}

impl Subscriber for Recorder {
    fn enabled(&self, _: &Metadata<'_>) -> bool {
        true
    }

    fn new_span(&self, attributes: &Attributes<'_>) -> Id {
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        Self::push(&format!("{}{}\n", attributes.metadata().name(), fields.0));
        Id::from_u64(1)
    }

    fn record(&self, _: &Id, values: &Record<'_>) {
        let mut fields = Fields::default();
        values.record(&mut fields);
        Self::push(&format!("{}\n", fields.0));
    }

    fn record_follows_from(&self, _: &Id, _: &Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut fields = Fields::default();
        event.record(&mut fields);
        Self::push(&format!("{}{}\n", event.metadata().target(), fields.0));
    }

    fn enter(&self, _: &Id) {}

    fn exit(&self, _: &Id) {}
}
