//! Credentials in a file.

use std::{
    fmt,
    fs::{self, DirBuilder, File, OpenOptions},
    io::{self, ErrorKind, Read, Write},
    os::unix::fs::{DirBuilderExt, MetadataExt, OpenOptionsExt},
    path::{Path, PathBuf},
    thread,
    time::{Duration, Instant},
};

use mcp_proto::auth::client::{Credentials, Generation, StoreReply};
use rustix::{
    fs::{FlockOperation, flock},
    io::Errno,
    process::geteuid,
};
use serde_json::{Map, Value, json};

use crate::http::auth::store::TokenStore;

/// The most bytes of the file.
const MAX_LEN: u64 = 4 << 20;

/// The time that a change waits for the lock, less than the timeout of a call of a store. A change holds the lock for
/// milliseconds.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);

/// The pause between attempts to take the lock.
const LOCK_PAUSE: Duration = Duration::from_millis(10);

/// The flags for opening the file, without following a symbolic link.
const FLAGS: i32 = rustix::fs::OFlags::NOFOLLOW.bits().cast_signed();

/// A store in a file that only this user can read, safe for several processes.
///
/// A change takes a lock on a second file (`….lock`), writes a third one (`….new`), and renames it. So a reader always
/// finds the old or the new state, also after a crash. The secrets are not encrypted.
pub struct FileTokenStore {
    path: PathBuf,
    /// The user to whom the folder and the file belong.
    user: u32,
    /// The time that a change waits for the lock.
    lock_timeout: Duration,
    /// Synchronizes a folder.
    sync: fn(&Path) -> io::Result<()>,
}

/// The contents of the file.
struct Entries {
    /// The last generation of any key.
    last: u64,
    /// The entries: a generation, and credentials.
    entries: Map<String, Value>,
}

impl FileTokenStore {
    /// Creates a store in a file. A missing folder is created, with access for this user only.
    ///
    /// # Errors
    /// If the folder cannot be created, belongs to another user, or others can write to it.
    pub fn new(path: impl Into<PathBuf>) -> io::Result<Self> {
        Self::for_user(path.into(), geteuid().as_raw())
    }

    fn for_user(path: PathBuf, user: u32) -> io::Result<Self> {
        let folder = folder_of(&path);
        DirBuilder::new().recursive(true).mode(0o700).create(folder)?;
        let metadata = fs::metadata(folder)?;
        if metadata.uid() != user {
            return Err(io::Error::new(
                ErrorKind::PermissionDenied,
                "the folder of the tokens belongs to another user",
            ));
        }
        if metadata.mode() & 0o022 != 0 {
            return Err(io::Error::new(ErrorKind::PermissionDenied, "others can write to the folder of the tokens"));
        }
        Ok(Self { path, user, lock_timeout: LOCK_TIMEOUT, sync: |folder| File::open(folder)?.sync_all() })
    }

    /// Returns the path of another file in the same folder.
    fn beside(&self, ending: &str) -> PathBuf {
        let mut path = self.path.clone().into_os_string();
        path.push(ending);
        path.into()
    }

    /// Waits for the lock, which is released when the file is dropped, or its process ends. The wait has a timeout,
    /// because a stopped process keeps the lock.
    fn lock(&self) -> io::Result<File> {
        let mut options = OpenOptions::new();
        let options = options.create(true).truncate(false).write(true).mode(0o600).custom_flags(FLAGS);
        let file = options.open(self.beside(".lock"))?;
        let until = Instant::now() + self.lock_timeout;
        loop {
            match flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => return Ok(file),
                Err(Errno::WOULDBLOCK | Errno::INTR) if Instant::now() < until => thread::sleep(LOCK_PAUSE),
                Err(Errno::WOULDBLOCK | Errno::INTR) => {
                    return Err(io::Error::new(ErrorKind::TimedOut, "another process holds the lock of the tokens"));
                }
                Err(error) => return Err(error.into()),
            }
        }
    }

    fn read(&self) -> io::Result<Entries> {
        let file = match OpenOptions::new().read(true).custom_flags(FLAGS).open(&self.path) {
            Ok(file) => file,
            Err(error) if error.kind() == ErrorKind::NotFound => return Entries::empty(),
            Err(error) => return Err(error),
        };
        let metadata = file.metadata()?;
        if metadata.uid() != self.user {
            return Err(io::Error::new(ErrorKind::PermissionDenied, "the file of the tokens belongs to another user"));
        }
        if metadata.mode() & 0o077 != 0 {
            return Err(io::Error::new(ErrorKind::PermissionDenied, "others have access to the file of the tokens"));
        }
        let mut bytes = Vec::new();
        file.take(MAX_LEN + 1).read_to_end(&mut bytes)?;
        if bytes.len() as u64 > MAX_LEN {
            return Err(invalid());
        }
        Entries::parse(&bytes).ok_or_else(invalid)
    }

    /// Replaces the file. The caller holds the lock.
    fn write(&self, entries: Entries) -> io::Result<()> {
        let text = json!({"last": entries.last, "entries": entries.entries}).to_string();
        if text.len() as u64 > MAX_LEN {
            return Err(io::Error::new(ErrorKind::FileTooLarge, "there are too many credentials"));
        }
        let new = self.beside(".new");
        // Left by a process that crashed.
        match fs::remove_file(&new) {
            Err(error) if error.kind() != ErrorKind::NotFound => return Err(error),
            _ => {}
        }
        let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&new)?;
        file.write_all(text.as_bytes())?;
        file.sync_all()?;
        fs::rename(&new, &self.path)?;
        // The file is replaced, so an error would wrongly say that nothing has changed. Some file systems cannot
        // synchronize a folder.
        let _ = (self.sync)(folder_of(&self.path));
        Ok(())
    }
}

fn folder_of(path: &Path) -> &Path {
    match path.parent() {
        Some(folder) if folder.as_os_str().is_empty() => Path::new("."),
        Some(folder) => folder,
        None => path,
    }
}

/// Returns an error that contains no part of the file.
fn invalid() -> io::Error {
    io::Error::new(ErrorKind::InvalidData, "the file of the tokens is damaged")
}

impl Entries {
    /// Returns an empty file. Its first generation is random, because an earlier file may have been deleted.
    fn empty() -> io::Result<Self> {
        let mut bytes = [0; 8];
        getrandom::fill(&mut bytes).map_err(io::Error::other)?;
        // 52 bits leave enough room for later generations.
        Ok(Self { last: u64::from_le_bytes(bytes) >> 12, entries: Map::new() })
    }

    fn parse(bytes: &[u8]) -> Option<Self> {
        let mut value: Value = serde_json::from_slice(bytes).ok()?;
        let Value::Object(entries) = value.get_mut("entries")?.take() else { return None };
        Some(Self { last: value.get("last")?.as_u64()?, entries })
    }

    fn get(&self, key: &str) -> io::Result<Option<(Generation, Credentials)>> {
        let Some(entry) = self.entries.get(key) else { return Ok(None) };
        let parse = || {
            let credentials = entry.get("credentials")?.to_string();
            let generation = Generation(entry.get("generation")?.as_u64()?);
            Some((generation, Credentials::from_json(credentials.as_bytes()).ok()?))
        };
        parse().map(Some).ok_or_else(invalid)
    }
}

impl TokenStore for FileTokenStore {
    fn load(&self, key: &str) -> io::Result<Option<(Generation, Credentials)>> {
        self.read()?.get(key)
    }

    fn replace(
        &self,
        key: &str,
        expected: Option<Generation>,
        credentials: Option<&Credentials>,
    ) -> io::Result<StoreReply> {
        let _lock = self.lock()?;
        let mut entries = self.read()?;
        let found = entries.get(key)?;
        if found.as_ref().map(|(generation, _)| *generation) != expected {
            return Ok(StoreReply::Conflict(found.map(Box::new)));
        }
        entries.last = entries.last.checked_add(1).ok_or_else(invalid)?;
        let generation = entries.last;
        match credentials {
            Some(credentials) => {
                let credentials: Value = serde_json::from_str(credentials.to_json().expose()).map_err(|_| invalid())?;
                let entry = json!({"generation": generation, "credentials": credentials});
                drop(entries.entries.insert(key.to_owned(), entry));
            }
            None => drop(entries.entries.remove(key)),
        }
        self.write(entries)?;
        Ok(StoreReply::Stored(Generation(generation)))
    }
}

impl fmt::Debug for FileTokenStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FileTokenStore").field("path", &self.path).finish()
    }
}

#[cfg(test)]
mod tests {
    use std::{
        env,
        os::unix::fs::PermissionsExt as _,
        process::{self, Command},
    };

    use mcp_proto::auth::{AuthMethod, ClientIdentity, Scopes, Secret, TokenType, Url, client::StoredTokens};

    use super::*;
    use crate::http::auth::store::memory::MemoryTokenStore;

    const KEY: &str = "https://mcp.example/mcp";

    /// A folder that is removed after the test.
    struct Folder(PathBuf);

    impl Folder {
        fn new(name: &str) -> Self {
            let folder = env::temp_dir().join(format!("mcp-tokens-{name}-{}", process::id()));
            let _ = fs::remove_dir_all(&folder);
            Self(folder)
        }

        fn store(&self) -> FileTokenStore {
            FileTokenStore::new(self.0.join("tokens.json")).expect("a folder")
        }
    }

    impl Drop for Folder {
        fn drop(&mut self) {
            let _ = fs::remove_dir_all(&self.0);
        }
    }

    fn credentials(access: &str) -> Credentials {
        let client = ClientIdentity {
            issuer: "https://as.example".into(),
            client_id: "client".into(),
            secret: Some(Secret::new("canary")),
            secret_expires_at: Some(9),
            redirect_uris: Vec::new(),
            auth_method: Some(AuthMethod::ClientSecretBasic),
        };
        let tokens = StoredTokens {
            access: Secret::new(access),
            token_type: TokenType::Bearer,
            refresh: Some(Secret::new("canary")),
            resource: Url::parse(KEY).expect("a URL"),
            key_thumbprint: None,
            scopes: Scopes::parse("a b").expect("scopes"),
            requested: Scopes::default(),
            issued_at: 1,
            expires_at: Some(u64::MAX),
        };
        Credentials::new(client, Some(tokens))
    }

    fn stored(reply: io::Result<StoreReply>) -> Generation {
        match reply.expect("it can be written") {
            StoreReply::Stored(generation) => generation,
            reply => panic!("{reply:?}"),
        }
    }

    /// Checks a store, with two handles to the same entries.
    fn compares_and_swaps(one: &dyn TokenStore, other: &dyn TokenStore) {
        let (first, second) = (credentials("first"), credentials("second"));
        assert_eq!(one.load(KEY).expect("it can be read"), None);
        let a = stored(one.replace(KEY, None, Some(&first)));
        assert_eq!(other.load(KEY).expect("it can be read"), Some((a, first.clone())));
        for late in [None, Some(Generation(a.0 + 1))] {
            let reply = other.replace(KEY, late, Some(&second)).expect("it can be written");
            assert_eq!(reply, StoreReply::Conflict(Some(Box::new((a, first.clone())))));
        }
        let b = stored(other.replace(KEY, Some(a), Some(&second)));
        assert_eq!(one.load(KEY).expect("it can be read"), Some((b, second)));
        stored(one.replace(KEY, Some(b), None));
        assert_eq!(other.replace(KEY, Some(b), None).expect("it can be written"), StoreReply::Conflict(None));
        let c = stored(one.replace(KEY, None, Some(&first)));
        assert!(c != a && c != b, "a generation has come back");
        assert_eq!(one.load("https://other.example").expect("it can be read"), None);
    }

    #[test]
    fn stores_compare_and_swap() {
        let memory = MemoryTokenStore::default();
        compares_and_swaps(&memory, &memory);
        let folder = Folder::new("swap");
        compares_and_swaps(&folder.store(), &folder.store());
    }

    #[test]
    fn a_folder_that_cannot_be_synchronized_does_not_fail_a_change() {
        let folder = Folder::new("sync");
        let store = FileTokenStore { sync: |_| Err(Errno::INVAL.into()), ..folder.store() };
        let first = stored(store.replace(KEY, None, Some(&credentials("first"))));
        stored(store.replace(KEY, Some(first), Some(&credentials("second"))));
        assert_eq!(store.load(KEY).expect("it can be read").map(|found| found.1), Some(credentials("second")));
    }

    #[test]
    fn threads_do_not_overwrite_unseen_generations() {
        let folder = Folder::new("race");
        let store = folder.store();
        let first = stored(store.replace(KEY, None, Some(&credentials("x"))));
        let wins: u64 = thread::scope(|scope| {
            let writer = |_| {
                let store = folder.store();
                scope.spawn(move || race(&store))
            };
            let writers: Vec<_> = (0..4).map(writer).collect();
            writers.into_iter().map(|writer| writer.join().expect("no panic")).sum()
        });
        let (last, _) = store.load(KEY).expect("it can be read").expect("one has won");
        assert_eq!(last.0, first.0 + wins);
    }

    #[test]
    fn crash_during_write_keeps_old_state() {
        let folder = Folder::new("crash");
        let store = folder.store();
        let generation = stored(store.replace(KEY, None, Some(&credentials("old"))));
        // The crash of a process that has written a part of the new file. Its lock is released with it.
        drop(store.lock().expect("a lock"));
        fs::write(store.beside(".new"), b"{\"entries\":").expect("it can be written");
        let other = folder.store();
        assert_eq!(other.load(KEY).expect("it can be read"), Some((generation, credentials("old"))));
        stored(other.replace(KEY, Some(generation), Some(&credentials("new"))));
        assert!(!other.beside(".new").exists());
        assert_eq!(store.load(KEY).expect("it can be read").expect("an entry").1, credentials("new"));
    }

    // req: AUTH-016 AUTH-069
    #[test]
    fn requires_owner_only_permissions() {
        let folder = Folder::new("mode");
        let store = folder.store();
        stored(store.replace(KEY, None, Some(&credentials("x"))));
        let mode = |path: &Path| fs::metadata(path).expect("it is there").mode() & 0o777;
        assert_eq!((mode(&folder.0), mode(&store.path), mode(&store.beside(".lock"))), (0o700, 0o600, 0o600));
        fs::set_permissions(&store.path, fs::Permissions::from_mode(0o640)).expect("it is ours");
        assert_eq!(store.load(KEY).expect_err("others can read it").kind(), ErrorKind::PermissionDenied);
        fs::set_permissions(&folder.0, fs::Permissions::from_mode(0o770)).expect("it is ours");
        assert!(FileTokenStore::new(folder.0.join("tokens.json")).is_err(), "others can replace it");
    }

    #[test]
    fn folders_and_files_of_another_user_are_not_used() {
        let folder = Folder::new("owner");
        let mut store = folder.store();
        stored(store.replace(KEY, None, Some(&credentials("x"))));
        let other = store.user + 1;
        let error = FileTokenStore::for_user(store.path.clone(), other).expect_err("the folder is not theirs");
        assert_eq!(error.kind(), ErrorKind::PermissionDenied);
        store.user = other;
        assert_eq!(store.load(KEY).expect_err("the file is not theirs").kind(), ErrorKind::PermissionDenied);
    }

    #[test]
    fn unreleased_lock_times_out() {
        let folder = Folder::new("lock");
        let (one, mut other) = (folder.store(), folder.store());
        let held = one.lock().expect("a lock");
        other.lock_timeout = Duration::ZERO;
        let error = other.replace(KEY, None, Some(&credentials("x"))).expect_err("it is held");
        assert_eq!(error.kind(), ErrorKind::TimedOut);
        drop(held);
        stored(other.replace(KEY, None, Some(&credentials("x"))));
    }

    /// The variable with the path of the file to which a process of the test writes.
    const SHARED: &str = "MCP_TEST_TOKENS";

    /// Replaces an entry several times, and returns how often no other process had replaced it.
    fn race(store: &FileTokenStore) -> u64 {
        let mut wins = 0;
        for _ in 0..8 {
            let found = store.load(KEY).expect("it can be read").map(|(generation, _)| generation);
            let reply = store.replace(KEY, found, Some(&credentials("x"))).expect("it can be written");
            wins += u64::from(matches!(reply, StoreReply::Stored(_)));
        }
        wins
    }

    // `cargo test -- --ignored` runs it without the variable.
    #[test]
    #[ignore = "run by processes_do_not_overwrite_unseen_generations"]
    fn child_process_races_for_the_store() {
        if let Some(path) = env::var_os(SHARED) {
            let store = FileTokenStore::new(path).expect("a folder");
            let wins = race(&store);
            fs::write(store.beside(&format!(".{}", process::id())), wins.to_string()).expect("it can be written");
        }
    }

    #[test]
    fn processes_do_not_overwrite_unseen_generations() {
        let folder = Folder::new("processes");
        let store = folder.store();
        let first = stored(store.replace(KEY, None, Some(&credentials("x"))));
        let start = || {
            let mut command = Command::new(env::current_exe().expect("a test"));
            let test = "http::auth::store::file::tests::child_process_races_for_the_store";
            let command = command.args(["--exact", test, "--ignored"]).env(SHARED, &store.path);
            command.stdout(process::Stdio::null()).spawn().expect("it starts")
        };
        let both = [start(), start()];
        let wins = both.map(|mut process| {
            assert!(process.wait().expect("it ends").success());
            let wins = fs::read_to_string(store.beside(&format!(".{}", process.id()))).expect("it has run");
            wins.parse::<u64>().expect("a number")
        });
        let (last, _) = store.load(KEY).expect("it can be read").expect("both have won");
        assert!(wins.iter().all(|wins| *wins > 0), "{wins:?}");
        assert_eq!(last.0, first.0 + wins.iter().sum::<u64>());
    }

    #[test]
    fn damaged_files_are_errors_without_their_content() {
        let folder = Folder::new("damaged");
        let store = folder.store();
        let write = |text: &[u8]| {
            let _ = fs::remove_file(&store.path);
            let mut file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&store.path).expect("new");
            file.write_all(text).expect("it can be written");
        };
        let large = vec![b' '; usize::try_from(MAX_LEN).expect("small") + 1];
        let entry = format!("{{\"last\":1,\"entries\":{{\"{KEY}\":{{\"generation\":1,\"credentials\":\"canary\"}}}}}}");
        for text in [&b""[..], b"canary", b"{}", &large, entry.as_bytes()] {
            write(text);
            let error = store.load(KEY).expect_err("it is damaged");
            assert_eq!(error.kind(), ErrorKind::InvalidData);
            assert!(!format!("{error} {error:?}").contains("canary"));
            assert!(store.replace(KEY, None, None).is_err(), "it is not overwritten");
        }
        fs::remove_file(&store.path).expect("it is there");
        std::os::unix::fs::symlink("/dev/zero", &store.path).expect("a link");
        assert!(store.load(KEY).is_err(), "links are not followed");
    }
}
