//! Tests with processes. The program of the tests starts itself as the child and as the grandchild.

use std::{
    env, fs,
    io::{self, Read, Write},
    net::{TcpListener, TcpStream},
    process::{self, Stdio},
    time::Duration,
};

use crate::Command;
use crate::os::process::{Spawned, spawn};

/// What a started program does: see [`play`].
const ROLE: &str = "MCP_TEST_ROLE";

/// The address to which a grandchild connects.
const ADDRESS: &str = "MCP_TEST_ADDRESS";

/// Starts this program in a role.
fn program(role: &str, address: &str) -> Command {
    let program = env::current_exe().expect("it runs");
    let command = Command::new(program).args(["--exact", "os::windows::tests::play", "--nocapture"]);
    command.env(ROLE, role).env(ADDRESS, address)
}

/// The roles. Without one it is a test of nothing.
#[test]
fn play() {
    let (Ok(role), Ok(address)) = (env::var(ROLE), env::var(ADDRESS)) else { return };
    if role == "grandchild" {
        let mut stream = TcpStream::connect(address).expect("it listens");
        stream.write_all(b"x").expect("it is read");
        // Until it is killed.
        let _ = stream.read(&mut [0]);
        process::exit(1);
    }
    // It has a group of its own, and its output keeps the pipe open.
    let mut grandchild = program("grandchild", &address).to_std();
    drop(grandchild.stdin(Stdio::null()).stdout(Stdio::inherit()).stderr(Stdio::null()).spawn().expect("it starts"));
    if role == "leader that waits" {
        let _ = io::stdin().read(&mut [0]);
    }
    process::exit(7);
}

/// Starts a child with a grandchild that runs, and returns the child and the connection of the grandchild.
fn family(role: &str) -> (Spawned, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("there is a port");
    let address = listener.local_addr().expect("an address").to_string();
    let spawned = spawn(program(role, &address).to_std()).expect("it starts");
    let mut grandchild = listener.accept().expect("it connects").0;
    grandchild.read_exact(&mut [0]).expect("it runs");
    (spawned, grandchild)
}

/// Returns whether the other end of a connection goes in time.
fn is_gone(mut connection: TcpStream) -> bool {
    connection.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
    match connection.read(&mut [0]) {
        Ok(read) => read == 0,
        Err(error) => error.kind() == io::ErrorKind::ConnectionReset,
    }
}

#[test]
fn killed_group_leaves_no_grandchild() {
    let (mut spawned, grandchild) = family("leader that waits");
    assert!(spawned.group.has_members());
    spawned.group.kill();
    assert!(is_gone(grandchild));
    assert!(!spawned.child.wait().expect("it is ours").success());
    assert!(!spawned.group.has_members());
}

#[test]
fn exit_of_leader_leaves_no_grandchild_and_its_output_ends() {
    let (mut spawned, grandchild) = family("leader that exits");
    assert_eq!(spawned.child.wait().expect("it is ours").code(), Some(7));
    spawned.output_end.wait();
    assert!(is_gone(grandchild));
    // The grandchild had the pipe, so this would not end otherwise.
    let mut output = Vec::new();
    spawned.stdout.expect("a pipe").read_to_end(&mut output).expect("it ends");
}

#[test]
fn batch_file_of_path_is_started_with_quoted_arguments() {
    let folder = env::temp_dir().join(format!("mcp-driver-test-{}", process::id()));
    fs::create_dir_all(&folder).expect("a folder");
    fs::write(folder.join("say.cmd"), "@echo off\r\necho [%1] [%2]\r\n").expect("a file");
    let system = env::var("PATH").expect("there is one");
    let path = format!("{};{system}", folder.display());
    let output = |command: Command| {
        let mut spawned = spawn(command.env("PATH", &path).to_std())?;
        let mut text = String::new();
        spawned.stdout.take().expect("a pipe").read_to_string(&mut text)?;
        spawned.child.wait()?;
        io::Result::Ok(text.trim_end().to_owned())
    };
    assert_eq!(output(Command::new("say").args(["a b", "c&d"])).expect("it runs"), r#"["a b"] ["c&d"]"#);
    assert!(output(Command::new("say-nothing")).is_err_and(|error| error.kind() == io::ErrorKind::NotFound));
    // No quotes protect a line feed.
    assert!(output(Command::new("say").arg("a\nb")).is_err_and(|error| error.kind() == io::ErrorKind::InvalidInput));
    fs::remove_dir_all(folder).expect("it is ours");
}
