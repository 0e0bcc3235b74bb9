//! Records the standard streams of a server.

use std::{
    io::{self, Read, Write},
    process::{Command, ExitCode, Stdio},
    sync::{Arc, mpsc},
    thread,
    time::{Duration, SystemTime},
};

use super::{
    RecordOptions,
    file::{RecordFile, StreamRecorder},
    system::{self, Server},
};
use crate::{
    error::Failed,
    record::{Header, Kind, Origin, iso},
    show,
};

/// The bytes that are read at once from a stream. No more are held.
const CHUNK: usize = 64 * 1024;

/// How long the error output is read after the server has ended: a process that it started may hold it open.
const STDERR_WAIT: Duration = Duration::from_secs(1);

/// Starts the server and forwards everything between it and the client until it ends.
pub(crate) fn record_stdio(options: &RecordOptions<'_>) -> Result<ExitCode, Failed> {
    let Some((program, arguments)) = options.command.split_first() else {
        return Err(Failed::usage("there is no command"));
    };
    let name = program.to_string_lossy();
    let mut command = Command::new(program);
    command.args(arguments).envs(options.variables.iter().copied());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let header = Header {
        started: iso(SystemTime::now()),
        transport: "stdio".into(),
        // Arguments may be secrets.
        server: name.to_string(),
        masked: options.is_masked,
    };
    let (input, output) = (system::input()?, system::output()?);
    let file = Arc::new(RecordFile::create(options.output, options.max_bytes, options.quiet, &header)?);
    let mut child = command.spawn().map_err(|error| Failed::start(&name, &error))?;
    let pipes = (child.stdin.take(), child.stdout.take(), child.stderr.take());
    let (Some(server_in), Some(server_out), Some(server_err)) = pipes else {
        return Err(Failed::usage("the server has no standard streams"));
    };
    let mut server = Server::new(child)?;
    let stream = |from, name, kind| StreamRecorder::new(&file, from, name, options.is_masked.then_some(kind));
    let requests = stream(Origin::Client, "stdin", Kind::Json);
    let responses = stream(Origin::Server, "stdout", Kind::Json);
    let errors = stream(Origin::Server, "stderr", Kind::Text);

    // Is never joined: it may wait for the client when the server has ended.
    let _ = start("client", move || {
        let is_cut = forward(input, server_in, requests);
        if is_cut {
            system::close_input();
        }
    })?;
    let answering = start("server", move || {
        forward(server_out, output, responses);
        system::close_output();
    })?;
    let (sender, stderr_end) = mpsc::channel::<()>();
    let _ = start("errors", move || {
        // Dropped at the end.
        let _sender = sender;
        forward(server_err, io::stderr(), errors);
    })?;

    let status = server.wait()?;
    let _ = answering.join();
    let _ = stderr_end.recv_timeout(STDERR_WAIT);
    let (end, code) = system::end_of(status);
    file.write(end);
    file.finish_note(STDERR_WAIT);
    Ok(ExitCode::from(code))
}

fn start(name: &str, run: impl FnOnce() + Send + 'static) -> io::Result<thread::JoinHandle<()>> {
    thread::Builder::new().name(name.into()).spawn(run)
}

/// Forwards bytes until the end of the source or until the receiver is gone. Returns whether the receiver was gone.
/// Both are closed then.
fn forward(mut source: impl Read, mut sink: impl Write, mut recorder: StreamRecorder) -> bool {
    let mut chunk = vec![0; CHUNK];
    loop {
        let bytes = match source.read(&mut chunk) {
            Ok(0) => break,
            Ok(len) => &chunk[..len],
            Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
            Err(error) => {
                show::note(&format!("a stream cannot be read: {error}"));
                break;
            }
        };
        recorder.bytes(bytes);
        if sink.write_all(bytes).and_then(|()| sink.flush()).is_err() {
            recorder.end();
            return true;
        }
    }
    recorder.end();
    false
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    /// A receiver that checks that bytes are in the record before they arrive.
    struct Checking(std::path::PathBuf);

    impl Write for Checking {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            let record = fs::read_to_string(&self.0)?;
            assert!(record.contains(str::from_utf8(bytes).expect("text")), "it is recorded before it is forwarded");
            Ok(bytes.len())
        }

        fn flush(&mut self) -> io::Result<()> {
            Ok(())
        }
    }

    #[test]
    fn bytes_are_recorded_before_they_are_forwarded() {
        let path = std::env::temp_dir().join(format!("mcp-cli-order-{}.jsonl", std::process::id()));
        let _ = fs::remove_file(&path);
        let header = Header { started: String::new(), transport: "stdio".into(), server: "x".into(), masked: false };
        let file = Arc::new(RecordFile::create(&path, 1 << 20, true, &header).expect("a file"));
        let recorder = StreamRecorder::new(&file, Origin::Client, "stdin", None);
        let is_cut = forward(&b"some bytes"[..], Checking(path.clone()), recorder);
        assert!(!is_cut && fs::read_to_string(&path).expect("a record").contains("\"end\":true"));
        fs::remove_file(path).expect("it is there");
    }
}
