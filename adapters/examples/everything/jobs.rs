//! Tools that can run as tasks.

use std::time::Duration;

use mcp_proto::{
    schema::{ElicitAction, TaskSupport},
    wire::ErrorObject,
};
use mcp_service::{
    CallError, Context, Failure, ServiceBuilder, TaskPolicy, Tool,
    form::{BooleanField, Form},
};
use schemars::JsonSchema;
use serde::Deserialize;

use super::rounds::{Named, name_request, text, text_request};

#[derive(Deserialize, JsonSchema)]
struct Job {
    /// The duration in milliseconds.
    ms: u32,
    /// The name of the job.
    label: String,
}

#[derive(Deserialize, JsonSchema)]
struct Compute {
    /// The duration in seconds.
    seconds: f64,
    /// The name of the job.
    label: String,
}

#[derive(Deserialize, JsonSchema)]
struct Delete {
    /// The file to delete. The tool only pretends to delete it.
    filename: String,
}

pub(super) fn register(builder: ServiceBuilder) -> ServiceBuilder {
    // A short poll interval, so that tours and tests are fast.
    let mut policy = TaskPolicy::default();
    policy.poll_interval = Duration::from_millis(200);
    builder
        .task_policy(policy)
        .tool(
            Tool::new_async("test_task", async |job: Job, context: Context| {
                run(&context, Duration::from_millis(job.ms.into())).await?;
                Ok::<_, Failure>(format!("task {} done", job.label))
            })
            .task_support(TaskSupport::Optional)
            .description("Takes its time, as a task or without"),
        )
        .tool(
            Tool::new_async("slow_compute", async |job: Compute, context: Context| {
                run(&context, Duration::try_from_secs_f64(job.seconds)?).await?;
                Ok::<_, Failure>(format!("computed {}", job.label))
            })
            .task_support(TaskSupport::Optional)
            .description("Runs for some time and reports progress, as a task or without"),
        )
        .tool(
            Tool::new_async("failing_job", async |context: Context| {
                run(&context, Duration::from_secs(1)).await?;
                Err::<&str, _>(Failure::new("The job failed, as it always does"))
            })
            .task_support(TaskSupport::Required)
            .description("Fails after a second, as the result of a task"),
        )
        .tool(
            Tool::new("protocol_error_job", || {
                Err::<&str, _>(ErrorObject::internal("The job ended with an error of the protocol"))
            })
            .task_support(TaskSupport::Optional)
            .description("Ends with an error of the protocol"),
        )
        .tool(
            Tool::new_async("confirm_delete", confirm)
                .task_support(TaskSupport::Optional)
                .description("Requests confirmation before it pretends to delete a file"),
        )
        .tool(
            Tool::new_async("multi_input", async |context: Context| {
                let answers = context.request_inputs([name_request()?, color_request()?]).await?;
                let (name, color) = (text(&answers, "user_name", "name")?, text(&answers, "user_color", "name")?);
                Ok::<_, Failure>(format!("{name} likes {color}"))
            })
            .task_support(TaskSupport::Optional)
            .description("Requests two inputs at once"),
        )
        .tool(
            Tool::new_async("test_tool_with_task", async |context: Context| {
                let answers = context.request_inputs([name_request()?]).await?;
                let name = text(&answers, "user_name", "name")?;
                context.become_task().await?;
                run(&context, Duration::from_millis(100)).await?;
                Ok::<_, Failure>(format!("Hello, {name}! This took a while."))
            })
            .task_support(TaskSupport::Required)
            .defer_task()
            .description("Requests a name before it becomes a task"),
        )
}

fn color_request() -> Result<Named, Failure> {
    text_request("user_color", "What is the name of a color that you like?", "name")
}

/// Works in ten steps, and reports the progress after each.
async fn run(context: &Context, time: Duration) -> Result<(), CallError> {
    for step in 1..=10_u8 {
        context.sleep(time / 10).await?;
        context.progress(step.into(), Some(10.0), Some(&format!("step {step} of 10"))).await?;
    }
    Ok(())
}

async fn confirm(delete: Delete, context: Context) -> Result<String, Failure> {
    let form = Form::new().field("confirm", BooleanField::new().title("Delete it"));
    let answer = context.elicit(format!("Delete {}?", delete.filename), form).await?;
    let confirmed =
        answer.content.and_then(|content| Some(serde_json::to_value(content.get("confirm")?).ok()? == true));
    Ok(match (answer.action, confirmed) {
        (ElicitAction::Accept, Some(true)) => format!("{} would be deleted", delete.filename),
        _ => format!("{} stays", delete.filename),
    })
}
