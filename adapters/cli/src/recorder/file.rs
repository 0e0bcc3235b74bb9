//! The file of a record. Each event is one call to the system, so an event that was written survives the end of this
//! process at any moment.

use std::{
    fs::{File, OpenOptions},
    io::{self, Write},
    path::{Path, PathBuf},
    sync::{Arc, Mutex, PoisonError, mpsc},
    thread,
    time::{Duration, Instant, SystemTime},
};

use crate::{
    error::Failed,
    record::{Entry, Header, Kind, Masker, Origin, What, file_stamp},
    show,
};

/// The bytes that are kept free for the line that says why the recording stopped.
const RESERVE: u64 = 256;

/// How many names are tried if a file exists.
const NAMES: u32 = 10_000;

/// A file that events are appended to.
#[derive(Debug)]
pub(crate) struct RecordFile {
    start: Instant,
    max_bytes: u64,
    quiet: bool,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    file: File,
    written: u64,
    stopped: bool,
    line: Vec<u8>,
    /// Ends when the note about the end of the recording is printed.
    note: Option<mpsc::Receiver<()>>,
}

/// Returns the path of a new record: `{time}` and `{pid}` are replaced.
fn path_of(template: &Path) -> PathBuf {
    let text = template.to_string_lossy();
    let text = text.replace("{time}", &file_stamp(SystemTime::now())).replace("{pid}", &std::process::id().to_string());
    PathBuf::from(text)
}

/// Creates a file that did not exist. If there is one of that name, a number is added.
fn create(path: &Path) -> Result<(File, PathBuf), Failed> {
    let mut options = OpenOptions::new();
    options.append(true).create_new(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    let wrong = |error: io::Error| Failed::usage(format!("{} cannot be written: {error}", path.display()));
    for number in 1..=NAMES {
        let name = if number == 1 { path.to_owned() } else { numbered(path, number) };
        match options.open(&name) {
            Ok(file) => return Ok((file, name)),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(wrong(error)),
        }
    }
    Err(Failed::usage(format!("{} and {NAMES} numbered names exist already", path.display())))
}

fn numbered(path: &Path, number: u32) -> PathBuf {
    let stem = path.file_stem().unwrap_or_default().to_string_lossy();
    let end = path.extension().map(|end| format!(".{}", end.to_string_lossy())).unwrap_or_default();
    path.with_file_name(format!("{stem}-{number}{end}"))
}

impl RecordFile {
    /// Creates a record of at most `max_bytes`.
    pub(crate) fn create(path: &Path, max_bytes: u64, quiet: bool, header: &Header) -> Result<Self, Failed> {
        let (mut file, path) = create(&path_of(path))?;
        let line = header.line();
        file.write_all(line.as_bytes())?;
        if !quiet {
            show::note(&format!("recording to {}", path.display()));
        }
        let state = State { file, written: line.len() as u64, stopped: false, line: Vec::new(), note: None };
        Ok(Self { start: Instant::now(), max_bytes, quiet, state: Mutex::new(state) })
    }

    /// Writes an event, unless the recording has stopped.
    pub(crate) fn write(&self, what: What) {
        self.append(&mut self.state.lock().unwrap_or_else(PoisonError::into_inner), what);
    }

    /// Writes the last event, and ends the program. No byte is forwarded in between, because it is recorded first.
    #[cfg(unix)]
    pub(crate) fn exit(&self, why: String, code: i32) -> ! {
        let mut state = self.state.lock().unwrap_or_else(PoisonError::into_inner);
        self.append(&mut state, What::Stopped(why));
        std::process::exit(code)
    }

    fn append(&self, state: &mut State, what: What) {
        if state.stopped {
            return;
        }
        // Within the lock, so that times grow from line to line.
        let at = u64::try_from(self.start.elapsed().as_micros()).unwrap_or(u64::MAX);
        let mut line = std::mem::take(&mut state.line);
        line.clear();
        // Nothing is recorded after the end of the server: the client may still write.
        let is_last = matches!(what, What::Exit(_) | What::Signal(_) | What::Stopped(_));
        Entry { at, what }.encode(&mut line);
        let is_full = state.written + line.len() as u64 + RESERVE > self.max_bytes;
        if is_full {
            line.clear();
            let why = format!("the record has reached {} bytes", self.max_bytes);
            Entry { at, what: What::Stopped(why) }.encode(&mut line);
        }
        let outcome = state.file.write_all(&line);
        match outcome {
            Ok(()) => state.written += line.len() as u64,
            // A part of the line may be there. If it cannot be removed, readers ignore it.
            Err(_) => drop(state.file.set_len(state.written)),
        }
        state.line = line;
        let why = match outcome {
            Ok(()) if !is_full => {
                state.stopped = is_last;
                return;
            }
            Ok(()) => format!("the record has reached {} bytes", self.max_bytes),
            Err(error) => format!("the record cannot be written: {error}"),
        };
        state.stopped = true;
        if !self.quiet {
            state.note = note_aside(format!("{why}; messages are still forwarded"));
        }
    }

    /// Waits for the note about the end of the recording, at most this long.
    pub(crate) fn finish_note(&self, most: Duration) {
        let note = self.state.lock().unwrap_or_else(PoisonError::into_inner).note.take();
        if let Some(note) = note {
            let _ = note.recv_timeout(most);
        }
    }
}

/// Prints a note on another thread: an error output that is full must not stop the messages.
fn note_aside(text: String) -> Option<mpsc::Receiver<()>> {
    let (sender, receiver) = mpsc::channel::<()>();
    let print = move || {
        // Dropped at the end.
        let _sender = sender;
        show::note(&text);
    };
    thread::Builder::new().name("note".into()).spawn(print).ok().map(|_| receiver)
}

/// Records the bytes of one stream.
#[derive(Debug)]
pub(crate) struct StreamRecorder {
    file: Arc<RecordFile>,
    from: Origin,
    stream: String,
    masker: Option<Masker>,
}

impl StreamRecorder {
    /// Creates a recorder of a stream. `kind` is the syntax in which secrets are masked.
    pub(crate) fn new(file: &Arc<RecordFile>, from: Origin, stream: impl Into<String>, kind: Option<Kind>) -> Self {
        Self { file: Arc::clone(file), from, stream: stream.into(), masker: kind.map(Masker::new) }
    }

    /// Records bytes. They may be forwarded after it.
    pub(crate) fn bytes(&mut self, bytes: &[u8]) {
        let bytes = match &mut self.masker {
            Some(masker) => {
                let mut masked = Vec::with_capacity(bytes.len());
                masker.mask(bytes, &mut masked);
                masked
            }
            None => bytes.to_vec(),
        };
        if !bytes.is_empty() {
            self.file.write(What::Bytes { from: self.from, stream: self.stream.clone(), bytes });
        }
    }

    /// Records the end of the stream.
    pub(crate) fn end(self) {
        self.file.write(What::End { from: self.from, stream: self.stream });
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("mcp-cli-record-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("a folder");
        folder
    }

    fn header() -> Header {
        Header { started: String::new(), transport: "stdio".into(), server: "x".into(), masked: false }
    }

    #[test]
    fn files_stay_below_their_limit() {
        let folder = folder("limit");
        let path = folder.join("a.jsonl");
        let file = Arc::new(RecordFile::create(&path, 2_000, true, &header()).expect("a file"));
        let mut stream = StreamRecorder::new(&file, Origin::Client, "stdin", None);
        (0..100).for_each(|_| stream.bytes(&[b'x'; 50]));
        stream.end();
        let text = fs::read_to_string(&path).expect("it is there");
        assert!(text.len() <= 2_000 && text.len() > 1_500, "{}", text.len());
        let last = text.lines().last().expect("a line");
        assert!(last.contains("\"stopped\":\"the record has reached 2000 bytes\""), "{last}");
        fs::remove_dir_all(folder).expect("it is removed");
    }

    #[test]
    fn nothing_follows_the_end_of_the_server() {
        let folder = folder("end");
        let path = folder.join("a.jsonl");
        let file = RecordFile::create(&path, 2_000, true, &header()).expect("a file");
        file.write(What::Exit(7));
        file.write(What::End { from: Origin::Client, stream: "stdin".into() });
        let text = fs::read_to_string(&path).expect("it is there");
        assert!(text.lines().last().is_some_and(|line| line.contains("\"exit\":7")), "{text}");
        fs::remove_dir_all(folder).expect("it is removed");
    }

    #[test]
    fn no_file_is_overwritten() {
        let folder = folder("names");
        for name in ["a.jsonl", "a-2.jsonl", "a-3.jsonl"] {
            RecordFile::create(&folder.join("a.jsonl"), 1_000, true, &header()).expect("a file");
            assert!(folder.join(name).exists(), "{name}");
        }
        RecordFile::create(&folder.join("{pid}.jsonl"), 1_000, true, &header()).expect("a file");
        assert!(folder.join(format!("{}.jsonl", std::process::id())).exists());
        fs::remove_dir_all(folder).expect("it is removed");
    }
}
