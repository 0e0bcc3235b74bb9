//! Measures servers over HTTP on 1, 2, 4 and more processors: `cores name=command ...`, where a command is words with
//! spaces in between. Prints a table in Markdown: thousands of calls per second.
//!
//! Each server gets its port in the environment variable `PORT`. With four processors or more, it runs on the first
//! ones, up to half of them, and the clients on the other half. With fewer, server and clients share them, so the rate
//! is that of both. `taskset` assigns the processors.
//!
//! There are 8 clients, one thread each, with 32 connections each. A client sends a call on each of its connections,
//! reads the responses, compares each with the message, and begins again. With `each`, every connection has a session
//! of its own, with `client`, the connections of a client share one, and with `one`, all connections do. Servers whose
//! name begins with `bare` know no sessions. The best of the rounds counts, since a disturbance only lowers a rate.

mod client;

use std::{
    env,
    error::Error,
    io::Read,
    net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream},
    process::{Child, Command, Stdio},
    thread,
    time::{Duration, Instant},
};

use client::Sessions;

const ROUNDS: usize = 3;
/// How long a server may take until it accepts a connection.
const PATIENCE: Duration = Duration::from_secs(10);
const ALL: [Sessions; 3] = [Sessions::Each, Sessions::Client, Sessions::One];

pub(crate) type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// A running server.
struct Server(Child, SocketAddr);

impl Server {
    /// Starts a server on these processors, and waits until it accepts connections.
    fn start(words: &str, processors: &str) -> Outcome<Self> {
        let address = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?;
        let mut command = Command::new("taskset");
        command.args(["-c", processors]).args(words.split_whitespace()).env("PORT", address.port().to_string());
        let server = Self(command.stdin(Stdio::null()).stdout(Stdio::null()).spawn()?, address);
        let begin = Instant::now();
        while TcpStream::connect(address).is_err() {
            if begin.elapsed() > PATIENCE {
                return Err(format!("no server: {words}").into());
            }
            thread::sleep(Duration::from_millis(5));
        }
        Ok(server)
    }

    /// Runs the clients on these processors, and returns the number of calls per second.
    fn rate(&self, sessions: Sessions, processors: &str) -> Outcome<f64> {
        let mut command = Command::new("taskset");
        command.args(["-c", processors]).arg(env::current_exe()?);
        command.args(["client", &self.1.to_string(), sessions.name()]);
        let mut clients = command.stdout(Stdio::piped()).spawn()?;
        let mut rate = String::new();
        if let Some(output) = &mut clients.stdout {
            output.read_to_string(&mut rate)?;
        }
        clients.wait()?;
        rate.trim().parse().map_err(|_| "the clients have failed".into())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Measures a server with the processors of the server and those of the clients, for each use of sessions.
fn measure(name: &str, words: &str, servers: &str, clients: &str) -> Outcome<Vec<f64>> {
    let bare = name.starts_with("bare");
    let used: &[Sessions] = if bare { &[Sessions::None] } else { &ALL };
    let mut best = vec![0_f64; used.len()];
    for _ in 0..ROUNDS {
        for (sessions, best) in used.iter().zip(&mut best) {
            let server = Server::start(words, servers)?;
            *best = best.max(server.rate(*sessions, clients)?);
        }
    }
    Ok(best)
}

fn main() -> Outcome<()> {
    let arguments: Vec<_> = env::args().skip(1).collect();
    if let [client, address, sessions] = &arguments[..]
        && client == "client"
    {
        println!("{}", client::run(address.parse()?, Sessions::parse(sessions)?)?);
        return Ok(());
    }
    let all = thread::available_parallelism()?.get();
    let is_shared = all < 4;
    let most = if is_shared { all } else { all / 2 };
    let steps: Vec<_> = (0..).map(|step| 1 << step).take_while(|cores| *cores <= most).collect();
    let place = if is_shared { "server and clients share" } else { "server has" };
    println!("Thousands of calls per second; {all} processors, of which the {place}:\n");
    print!("| server | sessions |");
    steps.iter().for_each(|cores| print!(" {cores} |"));
    println!("\n| --- | --- |{}", " ---: |".repeat(steps.len()));
    for argument in &arguments {
        let (name, words) = argument.split_once('=').ok_or("usage: cores name=command ...")?;
        let mut columns = Vec::new();
        for cores in &steps {
            let servers = format!("0-{}", cores - 1);
            let clients = if is_shared { servers.clone() } else { format!("{most}-{}", all - 1) };
            columns.push(measure(name, words, &servers, &clients)?);
        }
        let used: &[Sessions] = if columns[0].len() == 1 { &[Sessions::None] } else { &ALL };
        for (row, sessions) in used.iter().enumerate() {
            print!("| {name} | {} |", sessions.name());
            columns.iter().for_each(|column| print!(" {:.1} |", column[row] / 1e3));
            println!();
        }
    }
    Ok(())
}
