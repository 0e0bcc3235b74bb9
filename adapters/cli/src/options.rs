//! The command line.

use std::{ffi::OsString, path::PathBuf, time::Duration};

use clap::{Args, Parser, Subcommand, ValueEnum};
use mcp_proto::protocol::VersionSet;

/// A client of Model Context Protocol servers, that also records, replays, draws, measures and bridges them.
///
/// TARGET is an http or https URL, the name of a server in the file of --config, or a command line such as
/// 'npx -y @modelcontextprotocol/server-everything'.
///
/// Exit codes: 0 success, 1 the tool has failed or something is wrong (see the command), 2 wrong usage, 3 no
/// connection, 4 the server refused the request, 5 timeout.
#[derive(Debug, Parser)]
#[command(name = "mcp", version, max_term_width = 100)]
pub(crate) struct Options {
    #[command(subcommand)]
    pub(crate) command: Command,
    #[command(flatten)]
    pub(crate) connection: ConnectionOptions,
}

#[derive(Debug, Args)]
#[command(next_help_heading = "Connection")]
pub(crate) struct ConnectionOptions {
    /// A file with servers (`mcpServers` or `servers`), for targets that are names.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// A bearer token for requests over HTTP. Default: the variable MCP_BEARER_TOKEN.
    #[arg(long, global = true, value_name = "TOKEN")]
    pub(crate) bearer: Option<String>,
    /// The file of the tokens of `mcp login`. Default: mcp/tokens.json in XDG_STATE_HOME or ~/.local/state.
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) tokens: Option<PathBuf>,
    /// A header of requests over HTTP.
    #[arg(long = "header", global = true, value_name = "NAME: VALUE")]
    pub(crate) headers: Vec<String>,
    /// A variable of the environment of a program.
    #[arg(long = "env", global = true, value_name = "NAME=VALUE")]
    pub(crate) env: Vec<String>,
    /// The revisions to offer. Default: any.
    #[arg(long, global = true, value_enum)]
    pub(crate) era: Option<EraOption>,
    /// The seconds until a request times out, up to a million. Default: 60, of `check` 10.
    #[arg(long, global = true, value_name = "SECONDS", value_parser = seconds)]
    pub(crate) timeout: Option<Duration>,
    /// Prints results as JSON, one document per line.
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Prints neither progress nor log messages nor the error output of a program.
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
    /// The value of a field in each form of the server: what is no JSON is a text. Without any, forms are refused.
    #[arg(long = "answer", global = true, value_name = "FIELD=VALUE")]
    pub(crate) answers: Vec<String>,
    /// The text with which sampling requests are answered. Without it, they are refused.
    #[arg(long, global = true, value_name = "TEXT")]
    pub(crate) sample: Option<String>,
    /// A folder that the server may work in.
    #[arg(long = "root", global = true, value_name = "FOLDER")]
    pub(crate) roots: Vec<PathBuf>,
}

impl ConnectionOptions {
    pub(crate) fn timeout(&self) -> Duration {
        self.timeout.unwrap_or(Duration::from_secs(60))
    }

    pub(crate) fn versions(&self) -> VersionSet {
        self.era.unwrap_or(EraOption::Any).versions()
    }

    /// Returns the options of a client that were given, which a bridge has no use for: it has the clients that connect
    /// to it.
    pub(crate) fn of_client(&self) -> Vec<&'static str> {
        let all = [
            ("--era", self.era.is_some()),
            ("--timeout", self.timeout.is_some()),
            ("--answer", !self.answers.is_empty()),
            ("--sample", self.sample.is_some()),
            ("--root", !self.roots.is_empty()),
        ];
        all.into_iter().filter(|(_, is_given)| *is_given).map(|(name, _)| name).collect()
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum EraOption {
    /// All revisions: the era of the server is probed.
    Any,
    /// Sessions: 2024-11-05 to 2025-11-25.
    Legacy,
    /// Without sessions: 2026-07-28.
    Modern,
}

impl EraOption {
    pub(crate) const fn versions(self) -> VersionSet {
        match self {
            Self::Any => VersionSet::ALL,
            Self::Legacy => VersionSet::LEGACY,
            Self::Modern => VersionSet::MODERN,
        }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Lists what a server offers.
    List {
        /// The server.
        target: String,
        /// The kinds of items to list. Default: everything.
        #[arg(value_enum)]
        kinds: Vec<ListKind>,
    },
    /// Calls a tool.
    Call {
        /// The server.
        target: String,
        /// The tool.
        tool: String,
        /// The arguments: `name=value` (by the type in the schema of the tool), `name:=JSON`, one JSON object, `@FILE`
        /// with one, or `-` for one on the standard input.
        arguments: Vec<String>,
    },
    /// Reads a resource.
    Read {
        /// The server.
        target: String,
        /// The URI of the resource.
        uri: String,
    },
    /// Gets a prompt.
    Prompt {
        /// The server.
        target: String,
        /// The prompt.
        name: String,
        /// The arguments: `name=text`.
        arguments: Vec<String>,
    },
    /// Completes an argument of a prompt or a variable of a resource template.
    Complete {
        /// The server.
        target: String,
        /// The name of the prompt, or the URI template.
        of: String,
        /// The name of the argument.
        argument: String,
        /// The value so far.
        #[arg(default_value = "")]
        value: String,
        /// The other arguments: `name=text`.
        known: Vec<String>,
    },
    /// Prints notifications: changes of lists and of resources, log messages.
    Subscribe {
        /// The server.
        target: String,
        /// The URIs of resources.
        uris: Vec<String>,
        /// Ends after this many notifications.
        #[arg(long, value_name = "COUNT")]
        count: Option<u64>,
    },
    /// Opens a server in the terminal: its lists, forms for its calls, results, and the traffic as it happens.
    ///
    /// It needs a terminal. `?` shows the keys. Messages are judged by the rules of the specification, as `replay`
    /// does.
    Inspect {
        /// The server.
        target: String,
    },
    /// Signs the user in at a server over HTTP, and stores the tokens for the other commands.
    ///
    /// The user agrees in a browser on this machine. Without --client-id the program registers itself. The tokens are
    /// refreshed when they expire. The user has ten minutes, whatever --timeout is.
    Login(LoginOptions),
    /// Removes the stored tokens of a server, and revokes them.
    Logout {
        /// The server: its URL, or its name in the file of --config.
        server: String,
    },
    /// Writes a Rust module with a typed client of the tools of a server.
    Generate {
        /// The server.
        target: String,
        /// The file to write. Default: the standard output.
        #[arg(long, short, value_name = "FILE")]
        output: Option<PathBuf>,
    },
    /// Records all messages between a client and a server, and changes none.
    ///
    /// Write it before the command of a server in the configuration of a client: `mcp record -o FILE -- COMMAND`. For a
    /// server over HTTP: `mcp record -o FILE --listen 127.0.0.1:8000 URL`, and the client gets the address that is
    /// printed. The record is in JSON Lines: see docs/mcp.md. Values of passwords, tokens, keys and cookies are masked.
    /// The exit code is that of the server, or 128 and the number of the signal that ended it.
    #[command(
        override_usage = "mcp record [OPTIONS] -- <COMMAND>...\n       mcp record [OPTIONS] --listen <ADDRESS> <URL>"
    )]
    Record {
        /// The file, which must not exist: else a number is added to its name. `{time}` and `{pid}` are replaced.
        #[arg(long, short, value_name = "FILE", default_value = "mcp-{time}-{pid}.jsonl")]
        output: PathBuf,
        /// Records secrets as they are.
        #[arg(long)]
        no_mask: bool,
        /// The most bytes of the record. After them messages are forwarded and not recorded.
        #[arg(long, value_name = "BYTES", default_value_t = 1 << 30, value_parser = clap::value_parser!(u64).range(1024..))]
        max_bytes: u64,
        /// The address to listen at, such as 127.0.0.1:8000. Requests are forwarded to URL.
        #[arg(long, value_name = "ADDRESS", requires = "url")]
        listen: Option<String>,
        /// Asks the server for bodies that are not compressed, which can be masked and read.
        #[arg(long, requires = "listen")]
        no_compression: bool,
        /// The server over HTTP.
        #[arg(requires = "listen", conflicts_with = "command")]
        url: Option<String>,
        /// The program of the server, and its arguments.
        #[arg(last = true, required_unless_present_any = ["listen", "url"], value_name = "COMMAND")]
        command: Vec<OsString>,
    },
    /// Plays a record through the state machines of both sides, and prints each message with what it broke.
    ///
    /// The same record has the same output, byte for byte. Exit code 1: a rule of the specification was broken; with
    /// --against, a response or a request of the server differs.
    Replay {
        /// The record, as `mcp record` writes it.
        file: PathBuf,
        /// Plays the client's side against this server instead, and compares its responses with those of the record.
        #[arg(long, value_name = "COMMAND")]
        against: Option<String>,
        /// A member of responses that is not compared, wherever it is.
        #[arg(long = "ignore", value_name = "MEMBER", requires = "against")]
        ignore: Vec<String>,
        /// Steps through the record in the terminal, forwards and backwards. `?` shows the keys.
        #[arg(long, conflicts_with = "against")]
        step: bool,
    },
    /// Draws a record: as a page that loads nothing (.html), or as an image (.svg).
    Trace {
        /// The record, as `mcp record` writes it.
        file: PathBuf,
        /// The file to write. The end of its name is .html or .svg.
        #[arg(long, short, value_name = "FILE")]
        output: PathBuf,
    },
    /// Offers a server over another transport, and in all revisions.
    ///
    /// Without --listen over standard input and output, with it over HTTP: Streamable HTTP at /mcp and HTTP+SSE at
    /// /sse. Requests of the server for input, progress, cancellation, log messages and subscriptions are carried.
    Bridge {
        /// The server, unless there is a COMMAND.
        #[arg(required_unless_present = "command")]
        target: Option<String>,
        /// The address to listen at, such as 127.0.0.1:8000.
        #[arg(long, value_name = "ADDRESS")]
        listen: Option<String>,
        /// Lets all clients of --listen share one connection to the server.
        #[arg(long)]
        shared: bool,
        /// The name of the server that clients see.
        #[arg(long, default_value = "mcp-bridge")]
        name: String,
        /// The program of the server, and its arguments.
        #[arg(last = true, value_name = "COMMAND", conflicts_with = "target")]
        command: Vec<String>,
    },
    /// Measures calls of a tool: calls per second and latencies, with each result checked.
    ///
    /// Exit code 1: a call failed, or had another result than the first one.
    Bench {
        /// The server.
        target: String,
        /// The tool.
        tool: String,
        /// The arguments, as those of `call`.
        arguments: Vec<String>,
        /// The calls at each concurrency.
        #[arg(long, value_name = "COUNT", default_value_t = 1000, value_parser = clap::value_parser!(u64).range(1..=1_000_000))]
        calls: u64,
        /// How many calls are in flight at once: one measurement for each.
        #[arg(long, value_name = "COUNT", value_delimiter = ',', default_value = "1,4,16", value_parser = concurrency)]
        concurrency: Vec<usize>,
        /// Accepts results that differ from the first one, unless they are errors.
        #[arg(long)]
        any_answer: bool,
        /// Writes an image of the latencies.
        #[arg(long, value_name = "FILE")]
        svg: Option<PathBuf>,
    },
    /// Judges a server by the rules of the specification, each with the bytes that show it.
    ///
    /// Each check sends exact bytes and judges those that come back. Rules that are MUST fail, rules that are SHOULD
    /// warn. No tool is called. Exit code 1: a check failed.
    Check(CheckOptions),
    /// Relays the standard input and output of a server to the program that judges its client.
    #[command(hide = true)]
    CheckRelay { port: u16, file: PathBuf },
    /// Creates a project in a new folder: a server, or a client, that builds and passes its own test.
    New(NewOptions),
    /// Writes the man pages of this program into a folder.
    ///
    /// For example `mcp man ~/.local/share/man/man1`.
    Man {
        /// The folder, which must exist.
        folder: PathBuf,
    },
    /// Prints the completions of a shell for this program.
    ///
    /// For example `mcp completions bash > ~/.local/share/bash-completion/completions/mcp`.
    Completions {
        /// The shell.
        shell: clap_complete::Shell,
    },
}

#[derive(Debug, Args)]
pub(crate) struct LoginOptions {
    /// The server: its URL, or its name in the file of --config.
    pub(crate) server: String,
    /// A scope to ask for. Default: those that the server names.
    #[arg(long = "scope", value_name = "SCOPE")]
    pub(crate) scopes: Vec<String>,
    /// The identifier of a client that is registered at the authorization server. The variable MCP_CLIENT_SECRET has
    /// its secret.
    #[arg(long, value_name = "ID", requires = "issuer")]
    pub(crate) client_id: Option<String>,
    /// The issuer of that authorization server.
    #[arg(long, value_name = "URL", requires = "client_id")]
    pub(crate) issuer: Option<String>,
    /// The port of the redirect URI, http://127.0.0.1:PORT/callback. Default: a free one.
    #[arg(long)]
    pub(crate) port: Option<u16>,
    /// Prints the address to open, and opens no browser.
    #[arg(long)]
    pub(crate) no_browser: bool,
}

#[derive(Debug, Args)]
pub(crate) struct NewOptions {
    /// The name of the package and of the folder, which must not exist.
    pub(crate) name: String,
    /// Creates a client instead of a server.
    #[arg(long)]
    pub(crate) client: bool,
    /// The adapter that runs it.
    #[arg(long, value_enum, default_value = "tokio")]
    pub(crate) adapter: AdapterOption,
    /// A checkout of mcp-proto to depend on, instead of its repository.
    #[arg(long, value_name = "FOLDER")]
    pub(crate) path: Option<PathBuf>,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum AdapterOption {
    /// tokio.
    Tokio,
    /// smol.
    Smol,
    /// Threads, without a runtime.
    Blocking,
}

impl AdapterOption {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Self::Tokio => "tokio",
            Self::Smol => "smol",
            Self::Blocking => "blocking",
        }
    }
}

#[derive(Debug, Args)]
pub(crate) struct CheckOptions {
    /// The server.
    #[arg(required_unless_present_any = ["list", "client"])]
    pub(crate) target: Option<String>,
    /// Judges the client that this command line starts, instead of a server.
    ///
    /// It is started anew for each check, with a server of this program. `{url}` in a word is the URL of the server.
    /// `{server}` is the command of a server for the client to start, as several words, and `{command}` is the same as
    /// one word. Without any of them, the URL is the last argument.
    #[arg(long, value_name = "COMMAND", num_args = 0..=1, default_missing_value = "", conflicts_with_all = ["target", "hostile"])]
    pub(crate) client: Option<String>,
    /// Runs only this check, or the checks of this rule, such as BASE-022.
    #[arg(long = "only", value_name = "CHECK")]
    pub(crate) only: Vec<String>,
    /// Lists the checks with their rules.
    #[arg(long)]
    pub(crate) list: bool,
    /// Writes the results for JUnit.
    #[arg(long, value_name = "FILE")]
    pub(crate) junit: Option<PathBuf>,
    /// Writes a page that loads nothing.
    #[arg(long, value_name = "FILE")]
    pub(crate) html: Option<PathBuf>,
    /// Warnings have the exit code 1, too.
    #[arg(long)]
    pub(crate) strict: bool,
    /// Also sends malformed, large and deep messages and many at once. Only to servers of your own.
    #[arg(long)]
    pub(crate) hostile: bool,
    /// The bytes of a large message.
    #[arg(long, value_name = "BYTES", default_value_t = 1 << 20, requires = "hostile", value_parser = up_to::<67_108_864>)]
    pub(crate) hostile_bytes: usize,
    /// The depth of a deep message.
    #[arg(long, value_name = "COUNT", default_value_t = 10_000, requires = "hostile", value_parser = up_to::<1_000_000>)]
    pub(crate) hostile_depth: usize,
    /// The messages that are sent at once.
    #[arg(long, value_name = "COUNT", default_value_t = 1000, requires = "hostile", value_parser = up_to::<100_000>)]
    pub(crate) hostile_messages: usize,
}

/// Parses a number from 1 to `MOST`.
fn up_to<const MOST: usize>(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(count) if (1..=MOST).contains(&count) => Ok(count),
        _ => Err(format!("not a number from 1 to {MOST}")),
    }
}

impl Command {
    /// Returns the server, if the command has one.
    pub(crate) fn target(&self) -> Option<&str> {
        match self {
            Self::List { target, .. }
            | Self::Call { target, .. }
            | Self::Read { target, .. }
            | Self::Prompt { target, .. }
            | Self::Complete { target, .. }
            | Self::Subscribe { target, .. }
            | Self::Generate { target, .. }
            | Self::Bench { target, .. } => Some(target),
            Self::Inspect { .. }
            | Self::Login(_)
            | Self::Logout { .. }
            | Self::Bridge { .. }
            | Self::Record { .. }
            | Self::Replay { .. }
            | Self::Trace { .. }
            | Self::Check(_)
            | Self::CheckRelay { .. }
            | Self::New(_)
            | Self::Man { .. }
            | Self::Completions { .. } => None,
        }
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum ListKind {
    /// Tools.
    Tools,
    /// Resources.
    Resources,
    /// Resource templates.
    Templates,
    /// Prompts.
    Prompts,
}

impl ListKind {
    pub(crate) const ALL: [Self; 4] = [Self::Tools, Self::Resources, Self::Templates, Self::Prompts];

    /// Returns the words for these items within a sentence.
    pub(crate) const fn words(self) -> &'static str {
        match self {
            Self::Tools => "tools",
            Self::Resources => "resources",
            Self::Templates => "resource templates",
            Self::Prompts => "prompts",
        }
    }
}

fn seconds(text: &str) -> Result<Duration, String> {
    let seconds = text.parse().ok().and_then(|seconds| Duration::try_from_secs_f64(seconds).ok());
    // A point in time so far away must exist.
    let timeout = seconds.filter(|timeout| *timeout <= Duration::from_secs(1_000_000));
    timeout.ok_or_else(|| "not a number of seconds from 0 to a million".to_owned())
}

fn concurrency(text: &str) -> Result<usize, String> {
    match text.parse() {
        Ok(number @ 1..=256) => Ok(number),
        _ => Err("not a number from 1 to 256".to_owned()),
    }
}
