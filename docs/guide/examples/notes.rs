//! A server that keeps notes in a file: state, structured output, a resource for each note, a prompt
//! with completion, an import with progress, a question to the user, and one to the model.
//!
//! ```sh
//! cargo run -p mcp-guide --example notes -- notes.json
//! ```

use std::{collections::BTreeMap, env, error::Error, fs, io, path::PathBuf, sync::Mutex};

use mcp_proto::schema::LoggingLevel;
use mcp_service::{
    CompletionRequest, Context, Elicited, Failure, Prompt, RegisterError, ResourceTemplate,
    Service, Structured, Tool,
};
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

/// The notes by title, and the file that they are kept in.
pub(crate) struct Notes {
    file: Option<PathBuf>,
    notes: Mutex<BTreeMap<String, String>>,
}

impl Notes {
    pub(crate) fn open(file: Option<PathBuf>) -> io::Result<Self> {
        let notes = match file.as_ref().filter(|file| file.exists()) {
            Some(file) => serde_json::from_slice(&fs::read(file)?)?,
            None => BTreeMap::new(),
        };
        Ok(Self {
            file,
            notes: Mutex::new(notes),
        })
    }

    /// Changes the notes and writes the file. It blocks, so its tools are functions.
    fn change(&self, change: impl FnOnce(&mut BTreeMap<String, String>)) -> io::Result<()> {
        let mut notes = self.notes.lock().expect("no panic");
        change(&mut notes);
        self.file
            .as_ref()
            .map_or(Ok(()), |file| fs::write(file, serde_json::to_vec(&*notes)?))
    }

    fn text(&self, title: Title) -> Result<String, Failure> {
        let notes = self.notes.lock().expect("no panic");
        Ok(notes
            .get(&title.title)
            .ok_or("there is no such note")?
            .clone())
    }

    fn add(&self, add: Add) -> io::Result<()> {
        self.change(|notes| drop(notes.insert(add.title, add.text)))
    }

    fn find(&self, find: Find) -> Structured<Found> {
        let notes = self.notes.lock().expect("no panic");
        let found = notes.iter().filter(|(_, text)| text.contains(&find.text));
        Structured(Found {
            titles: found.map(|(title, _)| title.clone()).collect(),
        })
    }

    fn import(&self, import: Import, context: Context) -> Result<String, Failure> {
        let count = import.lines.lines().count();
        for (index, line) in import.lines.lines().enumerate() {
            context.check()?; // fails when the call is cancelled
            self.change(|notes| drop(notes.insert(format!("import {}", index + 1), line.into())))?;
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
                self.change(|notes| drop(notes.remove(&title.title)))?;
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
        let notes = self.notes.lock().expect("no panic");
        notes
            .keys()
            .filter(|title| title.starts_with(&request.value))
            .cloned()
            .collect()
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
    let service = service(Notes::open(env::args_os().nth(1).map(PathBuf::from))?)?;
    Ok(mcp_tokio::serve_stdio(&service).await?)
}
