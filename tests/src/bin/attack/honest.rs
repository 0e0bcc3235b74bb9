//! The client whose requests have to be served during the attack.

use std::{
    fmt,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::{self, JoinHandle},
    time::{Duration, Instant},
};

use serde_json::json;

use crate::{
    Outcome,
    client::{connect, initialize, modern_call, round_trip},
};

/// The last byte of its address.
const HONEST: u8 = 2;

/// The pause between two requests.
const PAUSE: Duration = Duration::from_millis(20);

/// A client that sends one request after the other on a thread of its own: a call of 2026-07-28 on a connection that is
/// kept, and the beginning of a session on a new connection, in turn.
pub(crate) struct Honest {
    stop: Arc<AtomicBool>,
    running: Option<JoinHandle<Outcome<Report>>>,
}

/// How long the requests took.
pub(crate) struct Report {
    times: Vec<Duration>,
}

impl Honest {
    /// Starts the client, after a first request that is not counted.
    pub(crate) fn start(server: SocketAddr) -> Outcome<Self> {
        let mut stream = connect(HONEST, server)?;
        let call = modern_call("greet", &json!({"name": "you"}));
        round_trip(&mut stream, &call)?;
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let running = thread::spawn(move || {
            let mut times = Vec::new();
            while !stopped.load(Ordering::Relaxed) {
                let begin = Instant::now();
                let response = round_trip(&mut stream, &call)?;
                if response.status != 200 || !response.body.contains("Hello, you!") {
                    return Err(format!("a call got status {}: {}", response.status, response.body).into());
                }
                times.push(begin.elapsed());
                thread::sleep(PAUSE);
                let begin = Instant::now();
                let response = round_trip(&mut connect(HONEST, server)?, &initialize())?;
                if response.session.is_none() {
                    return Err(format!("no session: status {}: {}", response.status, response.body).into());
                }
                times.push(begin.elapsed());
                thread::sleep(PAUSE);
            }
            Ok(Report { times })
        });
        Ok(Self { stop, running: Some(running) })
    }

    /// Stops the client.
    pub(crate) fn finish(&mut self) -> Outcome<Report> {
        self.stop.store(true, Ordering::Relaxed);
        let running = self.running.take().ok_or("it was stopped already")?;
        running.join().map_err(|_| "the client has panicked")?
    }
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut times = self.times.clone();
        times.sort_unstable();
        let ms = |time: Option<&Duration>| time.map_or(f64::NAN, |time| time.as_secs_f64() * 1000.0);
        write!(f, "{} | {:.1} ms | {:.1} ms", times.len(), ms(times.get(times.len() / 2)), ms(times.last()))
    }
}
