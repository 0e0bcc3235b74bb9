//! Every message of every revision, by its sender.

use serde_core::de::Error as _;

use super::{
    CallToolParams, CancelTaskParams, CancelledParams, CompleteParams, CreateMessageParams, DiscoverParams,
    ElicitParams, ElicitationCompleteParams, GetPromptParams, GetSkillParams, GetTaskParams, GetTaskPayloadParams,
    InitializeParams, InitializedParams, InputRequiredResult, ListPromptsParams, ListResourceTemplatesParams,
    ListResourcesParams, ListRootsParams, ListSkillsParams, ListTasksParams, ListToolsParams, LogMessageParams,
    Notification, PingParams, ProgressParams, PromptsListChangedParams, ReadDirectoryParams, ReadResourceParams,
    Request, ResourceUpdatedParams, ResourcesListChangedParams, ResultType, RootsListChangedParams, SetLevelParams,
    SubscribeParams, SubscriptionsAcknowledgedParams, SubscriptionsListenParams, TaskStatusParams,
    ToolsListChangedParams, UnsubscribeParams,
    tasks_extension::{
        CancelTaskParams as ExtCancelTaskParams, CreateTaskResult as ExtCreateTaskResult,
        GetTaskParams as ExtGetTaskParams, TaskParams as ExtTaskParams, UpdateTaskParams as ExtUpdateTaskParams,
    },
};
use crate::{
    protocol::{Method, ProtocolVersion},
    schema::base::encode::{Output, absent, through_write},
    wire::reader::read,
};

macro_rules! messages {
    (
        requests {
            client { $($cr:ident($cr_params:ident),)* }
            server { $($sr:ident($sr_params:ident),)* }
            both { $($br:ident($br_params:ident),)* }
        }
        notifications {
            client { $($cn:ident($cn_params:ident),)* }
            server { $($sn:ident($sn_params:ident),)* }
            both { $($bn:ident($bn_params:ident),)* }
        }
    ) => {
        messages! {
            @params Request,
            /// A request of a client.
            ClientRequest { $($cr($cr_params),)* $($br($br_params),)* }
        }
        messages! {
            @params Request,
            /// A request of a server.
            ServerRequest { $($sr($sr_params),)* $($br($br_params),)* }
        }
        messages! {
            @params Notification,
            /// A notification of a client.
            ClientNotification { $($cn($cn_params),)* $($bn($bn_params),)* }
        }
        messages! {
            @params Notification,
            /// A notification of a server.
            ServerNotification { $($sn($sn_params),)* $($bn($bn_params),)* }
        }
        messages! {
            @results
            /// A result of a server, by the method of the request.
            ServerResult { $($cr($cr_params),)* $($br($br_params),)* }
            {
                /// Input requests instead of a result. Since 2026-07-28.
                InputRequired(Method, InputRequiredResult) if InputRequired among INPUT_REQUIRED_METHODS;
                /// A task instead of a result. Part of the tasks extension of 2026-07-28.
                Task(Method, ExtCreateTaskResult) if Task among TASK_METHODS;
            }
        }
        messages! {
            @results
            /// A result of a client, by the method of the request.
            ClientResult { $($sr($sr_params),)* $($br($br_params),)* }
            {}
        }
    };

    (@params $Trait:ident, $(#[$doc:meta])* $Name:ident { $($Variant:ident($Params:ident),)* }) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[allow(clippy::large_enum_variant, reason = "messages are handed on one by one")]
        pub enum $Name { $(#[doc = concat!("[`Method::", stringify!($Variant), "`]")] $Variant($Params),)* }

        $(impl From<$Params> for $Name {
            fn from(params: $Params) -> Self {
                Self::$Variant(params)
            }
        })*

        impl $Name {
            /// The methods of these messages, in all revisions.
            pub const METHODS: &[Method] = &[$(Method::$Variant,)*];

            /// Decodes the params of `method`. Absent params and `null` are read like `{}`.
            ///
            /// # Errors
            /// Returns an error if `method` is not one of [`METHODS`](Self::METHODS), or if the params do not fit their
            /// type.
            pub fn decode(method: Method, params: Option<&str>) -> Result<Self, serde_json::Error> {
                let params = params.unwrap_or("{}");
                match method {
                    $(Method::$Variant => read(params).map(Self::$Variant),)*
                    other => Err(misplaced(other, stringify!($Name))),
                }
            }

            /// Returns the method.
            #[must_use]
            pub const fn method(&self) -> Method {
                match self { $(Self::$Variant(_) => Method::$Variant,)* }
            }

            /// Returns whether the params have no members, so that the message can omit them.
            #[must_use]
            pub fn is_empty(&self) -> bool {
                match self { $(Self::$Variant(params) => $Trait::is_empty(params),)* }
            }
        }

        impl $Name {
            /// Writes the params.
            fn write<O: Output>(&self, version: Option<ProtocolVersion>, out: O) -> Result<O::Done, O::Error> {
                check(self.method(), version)?;
                match self { $(Self::$Variant(params) => out.value(params, version),)* }
            }
        }

        through_write! { $Name }

        #[cfg(feature = "arbitrary")]
        impl super::ArbitraryAt for $Name {
            fn arbitrary_at(
                u: &mut arbitrary::Unstructured<'_>,
                version: Option<ProtocolVersion>,
            ) -> arbitrary::Result<Self> {
                crate::schema::base::arbitrary::one_of(u, version, &[$((
                    Method::$Variant.versions(),
                    |u, version| super::ArbitraryAt::arbitrary_at(u, version).map(Self::$Variant),
                ),)*])
            }
        }
    };

    (
        @results $(#[$doc:meta])* $Name:ident { $($Variant:ident($Params:ident),)* }
        { $($(#[$other_doc:meta])* $Other:ident(Method, $Body:ident) if $kind:ident among $methods:ident;)* }
    ) => {
        $(#[$doc])*
        #[derive(Clone, Debug, PartialEq, Eq)]
        #[allow(clippy::large_enum_variant, reason = "messages are handed on one by one")]
        pub enum $Name {
            $(#[doc = concat!("The answer to [`Method::", stringify!($Variant), "`]")] $Variant(<$Params as Request>::Result),)*
            $($(#[$other_doc])* $Other(Method, $Body),)*
        }

        impl $Name {
            /// Decodes the result of a request for `method`. Only the method and `resultType` decide on its type.
            ///
            /// # Errors
            /// Returns an error if the sender of these results does not handle `method`, or if the result does not fit
            /// its type.
            pub fn decode(method: Method, result: &str) -> Result<Self, serde_json::Error> {
                $(if $methods.contains(&method) && ResultType::of(result) == Some(ResultType::$kind) {
                    return read(result).map(|other| Self::$Other(method, other));
                })*
                match method {
                    $(Method::$Variant => read(result).map(Self::$Variant),)*
                    other => Err(misplaced(other, stringify!($Name))),
                }
            }

            /// Returns the method of the request.
            #[must_use]
            pub const fn method(&self) -> Method {
                match self {
                    $(Self::$Variant(_) => Method::$Variant,)*
                    $(Self::$Other(method, _) => *method,)*
                }
            }
        }

        impl $Name {
            fn write<O: Output>(&self, version: Option<ProtocolVersion>, out: O) -> Result<O::Done, O::Error> {
                check(self.method(), version)?;
                match self {
                    $(Self::$Variant(result) => out.value(result, version),)*
                    $(Self::$Other(_, other) => out.value(other, version),)*
                }
            }
        }

        through_write! { $Name }

        #[cfg(feature = "arbitrary")]
        impl super::ArbitraryAt for $Name {
            fn arbitrary_at(
                u: &mut arbitrary::Unstructured<'_>,
                version: Option<ProtocolVersion>,
            ) -> arbitrary::Result<Self> {
                crate::schema::base::arbitrary::one_of(u, version, &[
                    $((
                        Method::$Variant.versions(),
                        |u, version| super::ArbitraryAt::arbitrary_at(u, version).map(Self::$Variant),
                    ),)*
                    $((
                        crate::protocol::VersionSet::only(ProtocolVersion::V2026_07_28),
                        |u, version| {
                            let other = super::ArbitraryAt::arbitrary_at(u, version)?;
                            Ok(Self::$Other(*u.choose(&$methods)?, other))
                        },
                    ),)*
                ])
            }
        }
    };
}

messages! {
    requests {
        client {
            Initialize(InitializeParams),
            Discover(DiscoverParams),
            ListTools(ListToolsParams),
            CallTool(CallToolParams),
            ListPrompts(ListPromptsParams),
            GetPrompt(GetPromptParams),
            ListResources(ListResourcesParams),
            ListResourceTemplates(ListResourceTemplatesParams),
            ReadResource(ReadResourceParams),
            Subscribe(SubscribeParams),
            Unsubscribe(UnsubscribeParams),
            Listen(SubscriptionsListenParams),
            Complete(CompleteParams),
            SetLevel(SetLevelParams),
            ExtGetTask(ExtGetTaskParams),
            ExtUpdateTask(ExtUpdateTaskParams),
            ExtCancelTask(ExtCancelTaskParams),
            ListSkills(ListSkillsParams),
            GetSkill(GetSkillParams),
            ReadDirectory(ReadDirectoryParams),
        }
        server {
            ListRoots(ListRootsParams),
            CreateMessage(CreateMessageParams),
            Elicit(ElicitParams),
        }
        both {
            Ping(PingParams),
            GetTask(GetTaskParams),
            GetTaskResult(GetTaskPayloadParams),
            ListTasks(ListTasksParams),
            CancelTask(CancelTaskParams),
        }
    }
    notifications {
        client {
            Initialized(InitializedParams),
            RootsListChanged(RootsListChangedParams),
        }
        server {
            LogMessage(LogMessageParams),
            ToolsListChanged(ToolsListChangedParams),
            PromptsListChanged(PromptsListChangedParams),
            ResourcesListChanged(ResourcesListChangedParams),
            ResourceUpdated(ResourceUpdatedParams),
            ElicitationComplete(ElicitationCompleteParams),
            SubscriptionsAcknowledged(SubscriptionsAcknowledgedParams),
            ExtTaskChanged(ExtTaskParams),
        }
        both {
            Cancelled(CancelledParams),
            Progress(ProgressParams),
            TaskStatus(TaskStatusParams),
        }
    }
}

/// The methods whose results can be `input_required`.
const INPUT_REQUIRED_METHODS: [Method; 3] = [Method::CallTool, Method::GetPrompt, Method::ReadResource];

/// The methods whose results can be tasks of the extension.
const TASK_METHODS: [Method; 1] = [Method::CallTool];

/// Checks that `version` has the method.
fn check<E: serde_core::ser::Error>(method: Method, version: Option<ProtocolVersion>) -> Result<(), E> {
    match version {
        Some(version) if !method.versions().contains(version) => Err(absent(method.as_str(), version)),
        _ => Ok(()),
    }
}

fn misplaced(method: Method, place: &str) -> serde_json::Error {
    serde_json::Error::custom(format_args!("{method} is not allowed in {place}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::protocol::{MethodKind, Sender};

    #[test]
    fn result_alternatives_match_the_method_table() {
        for method in Method::ALL.iter().copied() {
            assert_eq!(INPUT_REQUIRED_METHODS.contains(&method), method.may_require_input(), "{method}");
            assert_eq!(TASK_METHODS.contains(&method), method.may_become_task(), "{method}");
        }
    }

    #[test]
    fn methods_belong_to_their_message_types() {
        for method in Method::ALL.iter().copied() {
            let expected = |kind, sends: fn(Sender) -> bool| method.kind() == kind && sends(method.from());
            assert_eq!(
                ClientRequest::METHODS.contains(&method),
                expected(MethodKind::Request, Sender::is_client),
                "{method}"
            );
            assert_eq!(
                ServerRequest::METHODS.contains(&method),
                expected(MethodKind::Request, Sender::is_server),
                "{method}"
            );
            let notified = expected(MethodKind::Notification, Sender::is_client);
            assert_eq!(ClientNotification::METHODS.contains(&method), notified, "{method}");
            let notified = expected(MethodKind::Notification, Sender::is_server);
            assert_eq!(ServerNotification::METHODS.contains(&method), notified, "{method}");
        }
    }
}
