//! The server of the tutorial, as a whole.
//!
//! ```sh
//! cargo run -p mcp-guide --example shelf
//! ```

use std::sync::Mutex;

use mcp_service::{Failure, RegisterError, Service, Tool};

/// Looks up where a book stands.
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Find {
    /// Part of the title.
    title: String,
}

/// Puts a book on a shelf.
#[derive(serde::Deserialize, schemars::JsonSchema)]
struct Put {
    title: String,
    shelf: u8,
}

#[derive(Default)]
struct Shelves(Mutex<Vec<(String, u8)>>);

impl Shelves {
    fn put(&self, put: Put) -> String {
        let text = format!("{:?} is on shelf {}", put.title, put.shelf);
        self.0.lock().unwrap().push((put.title, put.shelf));
        text
    }

    fn find(&self, find: Find) -> Result<String, Failure> {
        let books = self.0.lock().unwrap();
        let found = books.iter().find(|(title, _)| title.contains(&find.title));
        let (title, shelf) = found.ok_or("there is no such book")?;
        Ok(format!("{title:?} is on shelf {shelf}"))
    }
}

fn service() -> Result<Service, RegisterError> {
    Service::builder("shelf", "1.0.0")
        .with_state(Shelves::default())
        .tool(Tool::new("put", Shelves::put))
        .tool(Tool::new("find", Shelves::find))
        .build()
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    mcp_tokio::serve_stdio(&service()?).await?;
    Ok(())
}
