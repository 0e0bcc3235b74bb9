//! Scenarios that a page runs against a server, each on a connection of its own.

use std::{
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use mcp_wasm::{
    Client, Connector, DriverOptions, Error,
    mcp_proto::{
        connection::ClientRole,
        protocol::{Era, VersionSet},
        schema::{
            CallToolResult, ElicitAction, ElicitFormParams, ElicitResult, SubscriptionFilter, ToolsListChangedParams,
        },
    },
    mcp_service::{CallError, Context, Failure, Host, HostBuilder},
};
use send_wrapper::SendWrapper;
use serde_json::json;
use wasm_bindgen::prelude::*;

#[wasm_bindgen]
extern "C" {
    /// Shows a form of the page with this message, and returns the name that its user enters.
    #[wasm_bindgen(js_namespace = globalThis, catch)]
    async fn ask(message: &str) -> Result<JsValue, JsValue>;

    /// Returns a counter of the proxy of this page.
    #[wasm_bindgen(js_namespace = globalThis, catch)]
    async fn counter(name: &str) -> Result<JsValue, JsValue>;

    /// Tells the proxy of this page that a message has arrived on a stream that it will cut.
    #[wasm_bindgen(js_namespace = globalThis)]
    fn arrived();
}

/// Runs a scenario against the server at an address, in the era `legacy` or `modern`. Returns what it has seen.
#[wasm_bindgen]
pub async fn scenario(name: String, url: String, era: String) -> Result<String, JsValue> {
    let run = Run { url, era: if era == "modern" { Era::Modern } else { Era::Legacy } };
    let seen = match name.as_str() {
        "list" => run.list().await,
        "call" => run.call().await,
        "progress" => run.progress().await,
        "cancel" => run.cancel().await,
        "timeout" => run.timeout().await,
        "elicitation" => run.elicitation().await,
        "resume" => run.resume().await,
        "refused" => run.refused("Failed to fetch").await,
        "redirected" => run.refused("a browser does not tell where").await,
        _ => Err(format!("there is no scenario {name}").into()),
    };
    seen.map_err(|error| js_sys::Error::new(&error.to_string()).into())
}

type Seen = Result<String, Box<dyn std::error::Error>>;

struct Run {
    url: String,
    era: Era,
}

impl Run {
    fn host(&self) -> HostBuilder {
        let versions = match self.era {
            Era::Legacy => VersionSet::LEGACY,
            Era::Modern => VersionSet::MODERN,
        };
        Host::builder("page", env!("CARGO_PKG_VERSION")).versions(versions)
    }

    async fn connect(&self, host: &Host) -> Result<Client, Error> {
        Connector::new(&self.url)?.options(DriverOptions::default()).connect(host).await
    }

    async fn client(&self) -> Result<Client, Error> {
        self.connect(&self.host().build()).await
    }

    async fn list(&self) -> Seen {
        let client = self.client().await?;
        let tools = client.all_tools().try_collect().await?;
        let version = client.version().ok_or("no revision")?;
        if !tools.iter().any(|tool| tool.name == "greet") {
            return Err("the tool is missing".into());
        }
        client.close().await.into_result()?;
        Ok(format!("{} tools in {version}", tools.len()))
    }

    async fn call(&self) -> Seen {
        let client = self.client().await?;
        let greeting = text(&client.call_tool("greet", json!({"name": "Ada"}))?.await?)?;
        if greeting != "Hello, Ada!" {
            return Err(greeting.into());
        }
        client.close().await.into_result()?;
        Ok(greeting)
    }

    async fn progress(&self) -> Seen {
        let client = self.client().await?;
        let mut seen = Vec::new();
        let call = client.call_tool("test_tool_with_progress", json!({}))?;
        let result = call.await_with(|progress| seen.push(progress.progress.to_string())).await?;
        text(&result)?;
        if seen != ["0", "50", "100"] {
            return Err(format!("progress {seen:?}").into());
        }
        client.close().await.into_result()?;
        Ok(seen.join(", "))
    }

    /// The server learns of a cancellation from a notification or, in the modern era, from the end of the request.
    async fn cancel(&self) -> Seen {
        let name = if self.era == Era::Legacy { "cancelled" } else { "aborted" };
        let before = count(name).await?;
        let client = self.client().await?;
        let call = client.call_tool("test_slow", json!({"ms": 60_000}))?;
        let canceller = call.canceller();
        let peer = client.clone();
        let cancel = async move {
            let _ = peer.sleep(Duration::from_millis(300)).await;
            canceller.cancel(Some("the user has left"));
        };
        let (result, ()) = futures(call, cancel).await;
        match result {
            Err(CallError::Cancelled) => {}
            other => return Err(format!("{other:?}").into()),
        }
        // The connection goes on, and the server has learned of it.
        text(&client.call_tool("greet", json!({"name": "Ada"}))?.await?)?;
        for _ in 0..50 {
            if count(name).await? > before {
                client.close().await.into_result()?;
                return Ok(format!("the proxy has counted it as {name}"));
            }
            client.sleep(Duration::from_millis(100)).await?;
        }
        Err(format!("the proxy has not seen that the request was {name}").into())
    }

    async fn timeout(&self) -> Seen {
        let client = self.client().await?;
        let start = js_sys::Date::now();
        let result = client.within(Duration::from_millis(400)).call_tool("test_slow", json!({"ms": 60_000}))?.await;
        let took = js_sys::Date::now() - start;
        if !matches!(result, Err(CallError::TimedOut { .. })) || !(390.0..5_000.0).contains(&took) {
            return Err(format!("{result:?} after {took} ms").into());
        }
        client.close().await.into_result()?;
        Ok(format!("after {took} ms"))
    }

    async fn elicitation(&self) -> Seen {
        let host = self.host().elicitation_async(|params: ElicitFormParams, _: Context<ClientRole>| {
            SendWrapper::new(async move {
                let name = ask(&params.message).await.map_err(|_| Failure::new("the form was closed"))?;
                let name = name.as_string().ok_or_else(|| Failure::new("not a name"))?;
                let content = serde_json::from_value(json!({"name": name}))?;
                Ok::<_, Failure>(ElicitResult { content: Some(content), ..ElicitResult::new(ElicitAction::Accept) })
            })
        });
        let client = self.connect(&host.build()).await?;
        let answer = text(&client.call_tool("test_input_required_result_elicitation", json!({}))?.await?)?;
        client.close().await.into_result()?;
        if answer == "Hello, Grace!" { Ok(answer) } else { Err(answer.into()) }
    }

    /// The proxy cuts a stream once. A session resumes it; the modern era subscribes again.
    async fn resume(&self) -> Seen {
        if self.era == Era::Modern {
            return self.resubscribe().await;
        }
        let (cut, resumed) = (count("cut").await?, count("resumed").await?);
        let client = self.client().await?;
        let mut seen = 0;
        let call = client.call_tool("test_tool_with_progress", json!({}))?;
        let on_progress = |_| {
            seen += 1;
            arrived();
        };
        let result = call.await_with(on_progress).await?;
        text(&result)?;
        let (cuts, resumptions) = (count("cut").await? - cut, count("resumed").await? - resumed);
        if (seen, cuts) != (3, 1) || resumptions == 0 {
            return Err(format!("{seen} of 3 notifications, {cuts} cuts, {resumptions} resumptions").into());
        }
        client.close().await.into_result()?;
        Ok(format!("all {seen} notifications and the result, after {cuts} cut"))
    }

    async fn resubscribe(&self) -> Seen {
        let cut = count("cut").await?;
        let changes = Arc::new(AtomicUsize::new(0));
        let counted = changes.clone();
        let host = self.host().on(move |_: ToolsListChangedParams, _| {
            counted.fetch_add(1, Ordering::Relaxed);
        });
        let client = self.connect(&host.build()).await?;
        let filter = SubscriptionFilter { tools_list_changed: Some(true), ..SubscriptionFilter::default() };
        let subscription = client.listen(filter)?.await?;
        arrived();
        for _ in 0..100 {
            // The tool adds or removes another tool each time.
            text(&client.call_tool("test_trigger_tool_change", json!({}))?.await?)?;
            client.sleep(Duration::from_millis(100)).await?;
            if count("listened").await? > 1 && changes.load(Ordering::Relaxed) > 0 {
                let cuts = count("cut").await? - cut;
                let seen = changes.load(Ordering::Relaxed);
                subscription.close();
                client.close().await.into_result()?;
                return if cuts == 1 {
                    Ok(format!("{seen} changes, after {cuts} cut"))
                } else {
                    Err(cuts.to_string().into())
                };
            }
        }
        Err(format!("no change was seen: {:?}", subscription.error()).into())
    }

    /// The client cannot connect, for this reason.
    async fn refused(&self, reason: &str) -> Seen {
        match self.client().await {
            Err(error) if error.to_string().contains(reason) => Ok(error.to_string()),
            result => Err(format!("{result:?}").into()),
        }
    }
}

async fn count(name: &str) -> Result<usize, String> {
    let value = counter(name).await.map_err(|error| format!("{error:?}"))?;
    value.as_f64().map(|value| value as usize).ok_or_else(|| "not a number".into())
}

fn text(result: &CallToolResult) -> Result<String, String> {
    let text = result.content.first().and_then(|content| content.as_text()).map(str::to_owned);
    match text {
        Some(text) if result.is_error != Some(true) => Ok(text),
        other => Err(format!("{other:?}")),
    }
}

/// Runs two futures to their ends.
async fn futures<A, B>(a: impl IntoFuture<Output = A>, b: impl IntoFuture<Output = B>) -> (A, B) {
    let (a, b) = (std::pin::pin!(a.into_future()), std::pin::pin!(b.into_future()));
    let (mut a, mut b) = (Some(a), Some(b));
    let (mut first, mut second) = (None, None);
    std::future::poll_fn(move |cx| {
        use std::task::Poll;
        if let Some(Poll::Ready(value)) = a.as_mut().map(|a| a.as_mut().poll(cx)) {
            (first, a) = (Some(value), None);
        }
        if let Some(Poll::Ready(value)) = b.as_mut().map(|b| b.as_mut().poll(cx)) {
            (second, b) = (Some(value), None);
        }
        match (first.take(), second.take()) {
            (Some(first), Some(second)) => Poll::Ready((first, second)),
            (one, other) => {
                (first, second) = (one, other);
                Poll::Pending
            }
        }
    })
    .await
}
