//! Nothing is left of connections that have ended. Alone in its process, so that what is counted is its own.

mod support;

use std::{fs, net::TcpListener, net::TcpStream, os::unix::net::UnixStream};

use mcp_blocking::Transport;
use support::{LONG, joined, within};

fn count(what: &str) -> usize {
    fs::read_dir(format!("/proc/self/{what}")).expect("Linux has it").count()
}

#[test]
fn no_thread_and_no_descriptor_is_left() {
    within(3 * LONG, || {
        let listener = TcpListener::bind("127.0.0.1:0").expect("loopback is there");
        let before = (count("task"), count("fd"));
        for round in 0..60 {
            let pair = match round % 3 {
                0 => Transport::pair(100),
                1 => {
                    let (left, right) = UnixStream::pair().expect("there are sockets");
                    (Transport::unix(left).expect("a socket"), Transport::unix(right).expect("a socket"))
                }
                _ => {
                    let left = TcpStream::connect(listener.local_addr().expect("an address")).expect("it listens");
                    let (right, _) = listener.accept().expect("somebody connects");
                    (Transport::tcp(left).expect("a socket"), Transport::tcp(right).expect("a socket"))
                }
            };
            let (client, server) = joined(pair, |asked| asked.echo());
            let calls: Vec<_> = (0..20).map(|n| client.ask("test/echo", &format!("{{\"n\":{n}}}"))).collect();
            for call in calls {
                call.wait().expect("it is answered");
            }
            // Each way to end comes up.
            match round % 4 {
                0 => drop(client),
                1 => {
                    server.handle.close();
                }
                2 => {
                    client.handle.begin_close();
                    server.handle.begin_close();
                }
                _ => {
                    let _never = client.ask("test/late", "{}");
                    client.handle.close();
                }
            }
        }
        assert_eq!((count("task"), count("fd")), before);
    });
}
