//! A server that keeps notes in SQLite: state, structured output, a resource for each note, a prompt
//! with completion, an import with progress, a question to the user, and one to the model.
//!
//! ```sh
//! cargo run -p mcp-guide --example notes -- notes.db
//! ```

use std::{env, error::Error, sync::Mutex};

use mcp_proto::schema::LoggingLevel;
use mcp_service::{
    CompletionRequest, Context, Elicited, Failure, Prompt, RegisterError, ResourceTemplate,
    Service, Structured, Tool,
};
use rusqlite::{Connection, OptionalExtension};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Adds a note.
#[derive(Deserialize, JsonSchema)]
struct Add {
    title: String,
    text: String,
}

/// Finds the notes that contain a text.
#[derive(Deserialize, JsonSchema)]
struct Find {
    text: String,
}

#[derive(Serialize, JsonSchema)]
struct Found {
    titles: Vec<String>,
}

/// Imports one note for each line of a text.
#[derive(Deserialize, JsonSchema)]
struct Import {
    lines: String,
}

#[derive(Deserialize, JsonSchema)]
struct Title {
    title: String,
}

#[derive(Deserialize, JsonSchema)]
struct Confirmation {
    /// Whether the note is deleted for good.
    delete: bool,
}

/// The database. Its calls block, so tools that write are functions and not futures.
pub(crate) struct Notes(Mutex<Connection>);

impl Notes {
    /// Opens a database file, or a database in memory.
    pub(crate) fn open(file: Option<&str>) -> rusqlite::Result<Self> {
        let database = file.map_or_else(Connection::open_in_memory, Connection::open)?;
        database.execute_batch(
            "CREATE TABLE IF NOT EXISTS notes (title TEXT PRIMARY KEY, text TEXT NOT NULL)",
        )?;
        Ok(Self(Mutex::new(database)))
    }

    fn with<T>(&self, f: impl FnOnce(&Connection) -> rusqlite::Result<T>) -> Result<T, Failure> {
        Ok(f(&self.0.lock().expect("no panic"))?)
    }

    /// Returns the titles that a query finds with `text`.
    fn titles_of(&self, query: &str, text: &str) -> Result<Vec<String>, Failure> {
        self.with(|database| {
            let mut query = database.prepare_cached(query)?;
            query.query_map([text], |row| row.get(0))?.collect()
        })
    }

    fn text(&self, title: Title) -> Result<String, Failure> {
        let query = "SELECT text FROM notes WHERE title = ?1";
        let found = |row: &rusqlite::Row<'_>| row.get(0);
        let text = self.with(|database| database.query_row(query, [title.title], found).optional());
        Ok(text?.ok_or("there is no such note")?)
    }

    fn insert(&self, title: &str, text: &str) -> Result<(), Failure> {
        let statement = "INSERT OR REPLACE INTO notes VALUES (?1, ?2)";
        self.with(|database| database.execute(statement, [title, text]))?;
        Ok(())
    }

    fn add(&self, add: Add) -> Result<(), Failure> {
        self.insert(&add.title, &add.text)
    }

    fn find(&self, find: Find) -> Result<Structured<Found>, Failure> {
        let query = "SELECT title FROM notes WHERE instr(text, ?1) ORDER BY title";
        let titles = self.titles_of(query, &find.text)?;
        Ok(Structured(Found { titles }))
    }

    fn import(&self, import: Import, context: Context) -> Result<String, Failure> {
        let count = import.lines.lines().count();
        for (index, line) in import.lines.lines().enumerate() {
            context.check()?; // fails when the call is cancelled
            self.insert(&format!("import {}", index + 1), line)?;
            context
                .progress((index + 1) as f64, Some(count as f64), None)
                .wait()?;
        }
        context
            .log(
                LoggingLevel::Info,
                Some("notes"),
                format!("{count} imported"),
            )
            .wait()?;
        Ok(format!("{count} imported"))
    }

    /// Asks first and deletes after that: in 2026-07-28 the function runs again with the response.
    fn delete(&self, title: Title, context: Context) -> Result<&'static str, Failure> {
        let question = format!("Delete {:?}?", title.title);
        match context.elicit_as::<Confirmation>(question).wait()? {
            Elicited::Accepted(Confirmation { delete: true }) => {
                let statement = "DELETE FROM notes WHERE title = ?1";
                self.with(|database| database.execute(statement, [&title.title]))?;
                Ok("deleted")
            }
            _ => Ok("kept"),
        }
    }

    async fn summarize(&self, title: Title, context: Context) -> Result<String, Failure> {
        let text = self.text(title)?;
        Ok(context
            .sample_text(format!("Summarize in one sentence: {text}"), 100)
            .await?)
    }

    fn titles(&self, request: CompletionRequest) -> Vec<String> {
        let query =
            "SELECT title FROM notes WHERE substr(title, 1, length(?1)) = ?1 ORDER BY title";
        self.titles_of(query, &request.value).unwrap_or_default()
    }
}

pub(crate) fn service(notes: Notes) -> Result<Service, RegisterError> {
    Service::builder("notes", env!("CARGO_PKG_VERSION"))
        .with_state(notes)
        .tool(Tool::new("add", Notes::add))
        .tool(Tool::new("find", Notes::find))
        .tool(Tool::new("import", Notes::import))
        .tool(Tool::new("delete", Notes::delete).description("Deletes a note, if the user agrees"))
        .tool(Tool::new_async("summarize", Notes::summarize).description("Summarizes a note"))
        .template(ResourceTemplate::new(
            "notes://{title}",
            "note",
            Notes::text,
        ))
        .prompt(Prompt::new("improve", Notes::text).complete("title", Notes::titles))
        .build()
}

#[tokio::main]
#[allow(dead_code, reason = "a test includes this file")]
async fn main() -> Result<(), Box<dyn Error>> {
    let service = service(Notes::open(env::args().nth(1).as_deref())?)?;
    Ok(mcp_tokio::serve_stdio(&service).await?)
}
