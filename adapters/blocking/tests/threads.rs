//! Threads as a runtime: tasks, functions and timers.

use std::{
    future::{Future, pending, poll_fn},
    sync::{
        Arc,
        mpsc::{Sender, channel},
    },
    task::Poll,
    thread,
    time::{Duration, Instant},
};

use mcp_blocking::http::Threads;
use mcp_driver::{Runtime, Timer, Watched};

/// A timeout that no operation of a passing test reaches.
const LONG: Duration = Duration::from_secs(20);

fn threads() -> Threads {
    Threads::current().expect("there are threads")
}

/// Sends a message when it is dropped.
struct Dropped(Sender<&'static str>);

impl Drop for Dropped {
    fn drop(&mut self) {
        let _ = self.0.send("dropped");
    }
}

#[test]
fn blocking_tasks_do_not_delay_other_tasks() {
    let (threads, gate, done) = (threads(), Arc::new(Watched::new(false)), Arc::new(Watched::new(0)));
    let run = |blocks: bool| {
        let (gate, done) = (gate.clone(), done.clone());
        Threads::detach(threads.spawn(async move {
            if blocks {
                gate.wait_until(LONG, |open| *open);
            } else {
                gate.wait_for(|open| open.then_some(())).await;
            }
            done.update(|done| *done += 1);
        }));
    };
    // More tasks than there are threads.
    (0..20).for_each(|_| run(true));
    (0..100).for_each(|_| run(false));
    let opens = gate.clone();
    Threads::detach(threads.spawn(async move { opens.update(|open| *open = true) }));
    assert!(done.wait_until(LONG, |done| *done == 120), "they all end");
    drop(threads);
}

#[test]
fn blocking_functions_run_in_parallel_despite_panics() {
    let (threads, begun) = (threads(), Arc::new(Watched::new(0)));
    for number in 0..50 {
        let begun = begun.clone();
        threads.spawn_blocking(move || {
            begun.update(|begun| *begun += 1);
            assert!(number % 2 == 0, "on purpose");
            assert!(begun.wait_until(LONG, |begun| *begun == 51), "they all run at once");
        });
    }
    let told = begun.clone();
    let panics = poll_fn(move |_| -> Poll<()> {
        told.update(|begun| *begun += 1);
        panic!("on purpose")
    });
    Threads::detach(threads.spawn(panics));
    assert!(begun.wait_until(LONG, |begun| *begun == 51), "they all begin");
    drop(threads);
}

#[test]
fn dropped_handle_or_pool_drops_tasks() {
    let (threads, (sender, heard)) = (threads(), channel());
    let task = |sender: Sender<&'static str>| {
        let said = sender.clone();
        async move {
            let _dropped = Dropped(sender);
            let _ = said.send("begun");
            pending::<()>().await;
        }
    };
    let running = threads.spawn(task(sender.clone()));
    assert_eq!(heard.recv_timeout(LONG), Ok("begun"));
    drop(running);
    assert_eq!(heard.recv_timeout(LONG), Ok("dropped"));
    // A detached task that can never be woken is dropped with the threads.
    Threads::detach(threads.spawn(task(sender)));
    assert_eq!(heard.recv_timeout(LONG), Ok("begun"));
    drop(threads);
    assert_eq!(heard.recv_timeout(LONG), Ok("dropped"));
}

/// Waits until a time, after the timer was set to a later one.
fn until(threads: &Threads, at: Instant) -> impl Future<Output = ()> + Send + use<> {
    let (mut timer, mut first) = (threads.timer(), true);
    poll_fn(move |cx| {
        if std::mem::take(&mut first) {
            assert!(timer.poll_until(at + LONG, cx).is_pending());
        }
        timer.poll_until(at, cx)
    })
}

#[test]
fn timers_fire_and_never_early() {
    let (threads, (sender, heard)) = (threads(), channel());
    let start = Instant::now();
    for number in [3_u32, 1, 2, 0] {
        let (sender, at) = (sender.clone(), start + number * Duration::from_millis(20));
        let ends = until(&threads, at);
        Threads::detach(threads.spawn(async move {
            ends.await;
            let _ = sender.send((number, Instant::now() >= at));
        }));
    }
    let mut all: Vec<_> = (0..4).map(|_| heard.recv_timeout(LONG).expect("they all run out")).collect();
    all.sort_unstable();
    assert_eq!(all, [0, 1, 2, 3].map(|number| (number, true)));
    drop(threads);
}

#[test]
fn detached_tasks_finish_after_last_handle_drops() {
    let (sender, heard) = channel();
    let gate = Arc::new(Watched::new(false));
    {
        let threads = threads();
        let (waits, ends) = (gate.clone(), until(&threads, Instant::now() + Duration::from_millis(20)));
        Threads::detach(threads.spawn(async move {
            waits.wait_for(|open| open.then_some(())).await;
            ends.await;
            let _ = sender.send(thread::current().name().map(str::to_owned));
        }));
    }
    gate.update(|open| *open = true);
    assert_eq!(heard.recv_timeout(LONG), Ok(Some("mcp-http".to_owned())));
}
