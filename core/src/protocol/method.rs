//! The method table: one row for each method of the specification. Every rule that depends on the name of a method is
//! read here.

use alloc::borrow::Cow;
use core::fmt;

use super::{Capability, Era, ProtocolVersion, VersionSet};

/// The side that sends a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Sender {
    /// Only clients.
    Client,
    /// Only servers.
    Server,
    /// Either side.
    Both,
}

impl Sender {
    /// Returns whether clients send the message.
    #[must_use]
    pub const fn is_client(self) -> bool {
        matches!(self, Self::Client | Self::Both)
    }

    /// Returns whether servers send the message.
    #[must_use]
    pub const fn is_server(self) -> bool {
        matches!(self, Self::Server | Self::Both)
    }
}

/// The kind of message that a method belongs to.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum MethodKind {
    /// A request has an id and gets a response.
    Request,
    /// A notification has no id and gets no response.
    Notification,
}

const LEGACY: VersionSet = VersionSet::LEGACY;
const MODERN: VersionSet = VersionSet::MODERN;
const ALL: VersionSet = VersionSet::ALL;
const ONLY_2025_11_25: VersionSet = VersionSet::only(ProtocolVersion::V2025_11_25);
const EXTENDED: VersionSet = VersionSet::since(ProtocolVersion::V2025_11_25);
const ELICITING: VersionSet = VersionSet::between(ProtocolVersion::V2025_06_18, ProtocolVersion::V2025_11_25);

macro_rules! methods {
    (@option) => { None };
    (@option $need:ident) => { Some(Capability::$need) };
    ($(
        $(#[$doc:meta])*
        $variant:ident = $name:literal, $kind:ident from $from:ident in $versions:ident $(, needs $need:ident)?;
    )*) => {
        /// A method of the specification, in any revision.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
        #[non_exhaustive]
        pub enum Method { $(#[doc = concat!("`", $name, "`")] $(#[$doc])* $variant,)* }

        impl Method {
            /// Every method, in the order of the table.
            pub const ALL: &[Self] = &[$(Self::$variant,)*];

            /// Returns the name on the wire.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self { $(Self::$variant => $name,)* }
            }

            /// Returns the method with this name, compared byte for byte, or `None` if the specification has none.
            ///
            /// If the eras have different methods with this name, the result is that of the legacy era, see
            /// [`in_era`](Self::in_era).
            #[must_use]
            #[allow(unreachable_patterns, reason = "methods of two eras can share a name")]
            pub fn parse(name: &str) -> Option<Self> {
                match name { $($name => Some(Self::$variant),)* _ => None }
            }

            const fn spec(self) -> MethodSpec {
                match self {
                    $(Self::$variant => MethodSpec {
                        kind: MethodKind::$kind,
                        from: Sender::$from,
                        versions: $versions,
                        needs: methods!(@option $($need)?),
                    },)*
                }
            }
        }
    };
}

struct MethodSpec {
    kind: MethodKind,
    from: Sender,
    versions: VersionSet,
    needs: Option<Capability>,
}

// The capability is that of the side which answers the request or sends the notification. Where two eras share a name,
// the method of the legacy era stands first.
methods! {
    Initialize = "initialize", Request from Client in LEGACY;
    Initialized = "notifications/initialized", Notification from Client in LEGACY;
    Ping = "ping", Request from Both in LEGACY;
    Discover = "server/discover", Request from Client in MODERN;
    ListTools = "tools/list", Request from Client in ALL, needs Tools;
    CallTool = "tools/call", Request from Client in ALL, needs Tools;
    ListPrompts = "prompts/list", Request from Client in ALL, needs Prompts;
    GetPrompt = "prompts/get", Request from Client in ALL, needs Prompts;
    ListResources = "resources/list", Request from Client in ALL, needs Resources;
    ListResourceTemplates = "resources/templates/list", Request from Client in ALL, needs Resources;
    ReadResource = "resources/read", Request from Client in ALL, needs Resources;
    Subscribe = "resources/subscribe", Request from Client in LEGACY, needs ResourcesSubscribe;
    Unsubscribe = "resources/unsubscribe", Request from Client in LEGACY, needs ResourcesSubscribe;
    Listen = "subscriptions/listen", Request from Client in MODERN;
    Complete = "completion/complete", Request from Client in ALL, needs Completions;
    SetLevel = "logging/setLevel", Request from Client in LEGACY, needs Logging;
    ListRoots = "roots/list", Request from Server in LEGACY, needs Roots;
    CreateMessage = "sampling/createMessage", Request from Server in LEGACY, needs Sampling;
    Elicit = "elicitation/create", Request from Server in ELICITING, needs Elicitation;
    GetTask = "tasks/get", Request from Both in ONLY_2025_11_25, needs Tasks;
    GetTaskResult = "tasks/result", Request from Both in ONLY_2025_11_25, needs Tasks;
    ListTasks = "tasks/list", Request from Both in ONLY_2025_11_25, needs TasksList;
    CancelTask = "tasks/cancel", Request from Both in ONLY_2025_11_25, needs TasksCancel;
    /// of the tasks extension
    ExtGetTask = "tasks/get", Request from Client in MODERN, needs TasksExtension;
    /// of the tasks extension
    ExtUpdateTask = "tasks/update", Request from Client in MODERN, needs TasksExtension;
    /// of the tasks extension
    ExtCancelTask = "tasks/cancel", Request from Client in MODERN, needs TasksExtension;
    /// of the skills extension
    ListSkills = "skills/list", Request from Client in EXTENDED, needs SkillsExtension;
    /// of the skills extension
    GetSkill = "skills/get", Request from Client in EXTENDED, needs SkillsExtension;
    /// of the skills extension
    ReadDirectory = "resources/directory/read", Request from Client in EXTENDED, needs SkillsDirectories;
    Cancelled = "notifications/cancelled", Notification from Both in ALL;
    Progress = "notifications/progress", Notification from Both in ALL;
    LogMessage = "notifications/message", Notification from Server in ALL, needs Logging;
    ToolsListChanged = "notifications/tools/list_changed", Notification from Server in ALL, needs ToolsListChanged;
    PromptsListChanged = "notifications/prompts/list_changed", Notification from Server in ALL, needs PromptsListChanged;
    ResourcesListChanged = "notifications/resources/list_changed", Notification from Server in ALL, needs ResourcesListChanged;
    ResourceUpdated = "notifications/resources/updated", Notification from Server in ALL, needs ResourcesSubscribe;
    RootsListChanged = "notifications/roots/list_changed", Notification from Client in LEGACY, needs RootsListChanged;
    ElicitationComplete = "notifications/elicitation/complete", Notification from Server in ONLY_2025_11_25, needs ElicitationUrl;
    TaskStatus = "notifications/tasks/status", Notification from Both in ONLY_2025_11_25, needs Tasks;
    /// of the tasks extension
    ExtTaskChanged = "notifications/tasks", Notification from Server in MODERN, needs TasksExtension;
    SubscriptionsAcknowledged = "notifications/subscriptions/acknowledged", Notification from Server in MODERN;
}

impl Method {
    /// Returns the method that has this name in `era`, or this method if `era` has no other one.
    ///
    /// 2025-11-25 and the tasks extension have different methods of one name.
    #[must_use]
    pub const fn in_era(self, era: Era) -> Self {
        match (self, era) {
            (Self::GetTask, Era::Modern) => Self::ExtGetTask,
            (Self::CancelTask, Era::Modern) => Self::ExtCancelTask,
            (Self::ExtGetTask, Era::Legacy) => Self::GetTask,
            (Self::ExtCancelTask, Era::Legacy) => Self::CancelTask,
            (method, _) => method,
        }
    }

    /// Returns whether the method is a request or a notification.
    #[must_use]
    pub const fn kind(self) -> MethodKind {
        self.spec().kind
    }

    /// Returns the side that sends the method.
    #[must_use]
    pub const fn from(self) -> Sender {
        self.spec().from
    }

    /// The notifications of changes that a client of 2026-07-28 receives only through `subscriptions/listen`.
    pub(crate) const SUBSCRIBED: [Self; 4] =
        [Self::ToolsListChanged, Self::PromptsListChanged, Self::ResourcesListChanged, Self::ResourceUpdated];

    /// Returns whether the result may be `input_required`, after which the client sends the request again with its
    /// answers (2026-07-28).
    #[must_use]
    pub const fn may_require_input(self) -> bool {
        matches!(self, Self::CallTool | Self::GetPrompt | Self::ReadResource)
    }

    /// Returns whether a client may cache the result (2026-07-28).
    #[must_use]
    pub const fn is_cacheable(self) -> bool {
        matches!(
            self,
            Self::Discover
                | Self::ListTools
                | Self::ListPrompts
                | Self::ListResources
                | Self::ListResourceTemplates
                | Self::ReadResource
                | Self::ListSkills
                | Self::GetSkill
        )
    }

    /// Returns the param that the header `Mcp-Name` repeats, if any (2026-07-28 over HTTP).
    #[must_use]
    pub const fn mirrored_param(self) -> Option<&'static str> {
        match self {
            Self::CallTool | Self::GetPrompt => Some("name"),
            Self::ReadResource => Some("uri"),
            Self::ExtGetTask | Self::ExtUpdateTask | Self::ExtCancelTask => Some("taskId"),
            _ => None,
        }
    }

    /// Returns the param that names the subject of a request, if any: the name of a tool or a prompt, the URI of a
    /// resource, the id of a task.
    #[must_use]
    pub const fn subject_param(self) -> Option<&'static str> {
        match self {
            Self::Subscribe | Self::Unsubscribe | Self::GetSkill | Self::ReadDirectory => Some("uri"),
            Self::GetTask | Self::GetTaskResult | Self::CancelTask => Some("taskId"),
            _ => self.mirrored_param(),
        }
    }

    /// Returns the methods whose cached results this notification makes stale (2026-07-28).
    ///
    /// Of `resources/read`, only the results for the resource of the notification and for those above or below it are
    /// stale.
    #[must_use]
    pub const fn makes_stale(self) -> &'static [Self] {
        match self {
            Self::ToolsListChanged => &[Self::ListTools],
            Self::PromptsListChanged => &[Self::ListPrompts],
            // Skills are made of resources, and have no word of their own.
            Self::ResourcesListChanged => {
                &[Self::ListResources, Self::ListResourceTemplates, Self::ListSkills, Self::GetSkill]
            }
            Self::ResourceUpdated => &[Self::ReadResource],
            _ => &[],
        }
    }

    /// Returns the revisions that have the method.
    #[must_use]
    pub const fn versions(self) -> VersionSet {
        self.spec().versions
    }

    /// Returns whether the server may turn the request into a task of the tasks extension (2026-07-28).
    #[must_use]
    pub const fn may_become_task(self) -> bool {
        matches!(self, Self::CallTool)
    }

    /// Returns whether the params can request a task instead of a result (2025-11-25).
    #[must_use]
    pub const fn can_be_task(self) -> bool {
        matches!(self, Self::CallTool | Self::CreateMessage | Self::Elicit)
    }

    /// Returns the capability that the method needs in `version`, or `None` if it needs none.
    ///
    /// The receiver of a request declares it, or the sender of a notification; for `notifications/elicitation/complete`
    /// the receiver does.
    ///
    /// `completion/complete` needs no capability in 2024-11-05, which has the method but not the capability.
    #[must_use]
    pub fn needs(self, version: ProtocolVersion) -> Option<Capability> {
        if self == Self::Complete && version == ProtocolVersion::V2024_11_05 {
            return None;
        }
        self.spec().needs
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// The method of a message: one of the specification, or a custom one.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum MethodName<'a> {
    /// A method that the specification has in some revision.
    Known(Method),
    /// The name of a method that the specification does not have.
    Custom(Cow<'a, str>),
}

impl<'a> MethodName<'a> {
    /// Creates the method with this name.
    #[must_use]
    pub fn new(name: impl Into<Cow<'a, str>>) -> Self {
        let name = name.into();
        Method::parse(&name).map_or(Self::Custom(name), Self::Known)
    }

    /// Returns the name on the wire.
    #[must_use]
    pub fn as_str(&self) -> &str {
        match self {
            Self::Known(method) => method.as_str(),
            Self::Custom(name) => name,
        }
    }

    /// Returns the method that has this name in `era`, see [`Method::in_era`].
    #[must_use]
    pub fn in_era(self, era: Era) -> Self {
        match self {
            Self::Known(method) => Self::Known(method.in_era(era)),
            custom @ Self::Custom(_) => custom,
        }
    }

    /// Returns the method of the specification, or `None` for a custom one.
    #[must_use]
    pub const fn known(&self) -> Option<Method> {
        match self {
            Self::Known(method) => Some(*method),
            Self::Custom(_) => None,
        }
    }

    /// Converts the name into one that does not borrow.
    #[must_use]
    pub fn into_owned(self) -> MethodName<'static> {
        match self {
            Self::Known(method) => MethodName::Known(method),
            Self::Custom(name) => MethodName::Custom(Cow::Owned(name.into_owned())),
        }
    }
}

impl From<Method> for MethodName<'_> {
    fn from(method: Method) -> Self {
        Self::Known(method)
    }
}

impl fmt::Display for MethodName<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[cfg(test)]
mod tests {
    use alloc::string::ToString;

    use super::*;

    #[test]
    fn method_names_are_displayed_as_on_the_wire() {
        for name in ["tools/list", "vendor/x", ""] {
            assert_eq!(MethodName::new(name).to_string(), name);
        }
        assert_eq!(MethodName::from(Method::Ping).to_string(), "ping");
    }
}
