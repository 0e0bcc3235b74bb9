//! The example `completion` of rmcp, ported: proposals for the arguments of a prompt, which depend
//! on the arguments that are there, with fuzzy matching.

use mcp_proto::schema::{GetPromptResult, PromptMessage};
use mcp_service::{CompletionRequest, Prompt, RegisterError, Service};
use schemars::JsonSchema;
use serde::Deserialize;

#[derive(Deserialize, JsonSchema)]
struct Query {
    /// SELECT, INSERT, UPDATE or DELETE
    operation: String,
    /// The table to work on
    table: String,
    /// The columns, for SELECT and UPDATE
    columns: Option<String>,
    /// The condition of WHERE
    where_clause: Option<String>,
    /// The values, for INSERT
    values: Option<String>,
}

fn sql_query(query: Query) -> GetPromptResult {
    let Query {
        operation, table, ..
    } = &query;
    let given = |text: &Option<String>| text.clone().filter(|text| !text.is_empty());
    let columns = given(&query.columns);
    let condition = given(&query.where_clause)
        .map(|it| format!(" WHERE {it}"))
        .unwrap_or_default();
    let (question, answer) = match operation.to_uppercase().as_str() {
        "" => (
            "I need help with a SQL query.".into(),
            "Which operation do you want?".into(),
        ),
        _ if table.is_empty() => (
            format!("I want to {operation} data."),
            "In which table?".into(),
        ),
        name => {
            let sql = match name {
                "SELECT" => {
                    format!(
                        "SELECT {} FROM {table}{condition}",
                        columns.as_deref().unwrap_or("*")
                    )
                }
                "INSERT" => match given(&query.values) {
                    Some(values) => format!("INSERT INTO {table} VALUES ({values})"),
                    None => format!("INSERT INTO {table} (...) VALUES (...)"),
                },
                "UPDATE" => {
                    format!(
                        "UPDATE {table} SET {}{condition}",
                        columns.as_deref().unwrap_or("...")
                    )
                }
                _ => format!("{name} FROM {table}{condition}"),
            };
            let answer = format!("```sql\n{sql}\n```\nIt works on the table {table}.");
            ("Generate the query and explain it.".to_owned(), answer)
        }
    };
    let messages = [
        PromptMessage::user(question),
        PromptMessage::assistant(answer),
    ];
    let mut prompt = GetPromptResult::new(messages);
    prompt.description = Some(format!("SQL: {operation} on {table}"));
    prompt
}

/// Returns up to ten candidates that match the text, the best ones first.
fn best(text: &str, candidates: &[&'static str]) -> Vec<&'static str> {
    let text = text.to_lowercase();
    let score = |candidate: &str| {
        let name = candidate.to_lowercase();
        let initials = name
            .split([' ', '_'])
            .filter_map(|word| word.chars().next());
        let mut rest = name.chars();
        Some(match () {
            () if name == text => 0,
            () if name.starts_with(&text) => 1,
            () if name.contains(&text) => 2,
            () if initials.eq(text.chars()) => 3,
            () if text.chars().all(|wanted| rest.any(|found| found == wanted)) => 4,
            () => return None,
        })
    };
    let mut found: Vec<_> = candidates
        .iter()
        .filter_map(|it| Some((score(it)?, *it)))
        .collect();
    if !text.is_empty() {
        found.sort_unstable();
    }
    found.into_iter().map(|(_, name)| name).take(10).collect()
}

fn columns(request: CompletionRequest) -> Vec<&'static str> {
    let candidates: &[_] = match operation(&request).as_deref() {
        Some("SELECT" | "UPDATE") => &["id", "name", "email", "created_at", "*"],
        Some(_) => &["(not for this operation)"],
        None => &["(the operation comes first)"],
    };
    best(&request.value, candidates)
}

fn values(request: CompletionRequest) -> Vec<&'static str> {
    let candidates: &[_] = match operation(&request).as_deref() {
        Some("INSERT") => &["'Ada'", "'ada@example.com'", "7", "NOW()"],
        Some(_) => &["(not for this operation)"],
        None => &["(the operation comes first)"],
    };
    best(&request.value, candidates)
}

fn conditions(request: CompletionRequest) -> Vec<&'static str> {
    let candidates: &[_] = if request.known.len() < 2 {
        &["(operation and table come first)"]
    } else {
        &[
            "id = 1",
            "name = 'example'",
            "created_at > '2023-01-01'",
            "status = 'active'",
        ]
    };
    best(&request.value, candidates)
}

fn operation(request: &CompletionRequest) -> Option<String> {
    request
        .known
        .get("operation")
        .map(|operation| operation.to_uppercase())
}

pub(crate) fn service() -> Result<Service, RegisterError> {
    let prompt = Prompt::new("sql_query", sql_query)
        .description("Builds a SQL query")
        .complete("operation", |request: CompletionRequest| {
            best(&request.value, &["SELECT", "INSERT", "UPDATE", "DELETE"])
        })
        .complete("table", |request: CompletionRequest| {
            best(&request.value, &["users", "orders", "invoices"])
        })
        .complete("columns", columns)
        .complete("values", values)
        .complete("where_clause", conditions);
    Service::builder("sql", env!("CARGO_PKG_VERSION"))
        .instructions("Builds SQL queries. Choose the operation first, then the table.")
        .prompt(prompt)
        .build()
}

#[tokio::main]
#[allow(dead_code, reason = "a test includes this file")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    Ok(mcp_tokio::serve_stdio(&service()?).await?)
}
