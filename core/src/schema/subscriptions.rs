//! Subscriptions to notifications of changes. Since 2026-07-28.
//!
//! Spec: [subscriptions](https://modelcontextprotocol.io/specification/2026-07-28/basic/utilities/subscriptions)

use alloc::{collections::BTreeSet, string::String, vec::Vec};

use super::{Meta, keys};
use crate::{protocol::Method, schema::base::macros::*, wire::RequestId};

object! {
    /// Params of `subscriptions/listen`. Since 2026-07-28.
    pub struct SubscriptionsListenParams: params(Listen => SubscriptionsListenResult) {
        /// The changes that the client subscribes to.
        "notifications" => notifications: required SubscriptionFilter;
    }
}

object! {
    /// The changes that a client subscribes to, or that a server announces. Since 2026-07-28.
    pub struct SubscriptionFilter: data, since(V2026_07_28) {
        /// Changes of the list of tools.
        "toolsListChanged" => tools_list_changed: optional bool;
        /// Changes of the list of prompts.
        "promptsListChanged" => prompts_list_changed: optional bool;
        /// Changes of the list of resources.
        "resourcesListChanged" => resources_list_changed: optional bool;
        /// Changes of the resources with these URIs.
        "resourceSubscriptions" => resource_subscriptions: optional Vec<String>;
        /// Changes of the tasks with these ids. Part of the tasks extension.
        "taskIds" => task_ids: optional Vec<String>;
    }
}

impl SubscriptionFilter {
    /// Returns the part of the filter that `requested` contains as well. Further entries of the server's filter are
    /// ignored.
    pub(crate) fn within(self, requested: Self) -> Self {
        let flag = |promised: Option<bool>, requested: Option<bool>| promised.filter(|_| requested == Some(true));
        let names = |promised: Option<Vec<String>>, requested: Option<Vec<String>>| {
            let promised: BTreeSet<String> = promised?.into_iter().collect();
            Some(requested.into_iter().flatten().filter(|name| promised.contains(name)).collect())
        };
        Self {
            tools_list_changed: flag(self.tools_list_changed, requested.tools_list_changed),
            prompts_list_changed: flag(self.prompts_list_changed, requested.prompts_list_changed),
            resources_list_changed: flag(self.resources_list_changed, requested.resources_list_changed),
            resource_subscriptions: names(self.resource_subscriptions, requested.resource_subscriptions),
            task_ids: names(self.task_ids, requested.task_ids),
            ..Self::default()
        }
    }

    /// Returns whether the filter includes a change of this kind. `subject` is the URI of the resource or the id of the
    /// task that has changed, if any.
    ///
    /// A subscription to a resource includes the resources below it.
    #[must_use]
    pub fn wants(&self, change: Method, subject: Option<&str>) -> bool {
        let names = |names: &Option<Vec<String>>, is_meant: fn(&str, &str) -> bool| {
            names.iter().flatten().any(|name| subject.is_some_and(|subject| is_meant(subject, name)))
        };
        match change {
            Method::ToolsListChanged => self.tools_list_changed == Some(true),
            Method::PromptsListChanged => self.prompts_list_changed == Some(true),
            Method::ResourcesListChanged => self.resources_list_changed == Some(true),
            Method::ResourceUpdated => names(&self.resource_subscriptions, is_at_or_below),
            Method::ExtTaskChanged => names(&self.task_ids, |task, name| task == name),
            _ => false,
        }
    }
}

/// Returns whether the resource `uri` is `above` or below it.
pub(crate) fn is_at_or_below(uri: &str, above: &str) -> bool {
    uri.strip_prefix(above).is_some_and(|rest| rest.is_empty() || rest.starts_with('/') || above.ends_with('/'))
}

object! {
    /// The result of `subscriptions/listen`, which ends the subscription. Since 2026-07-28.
    pub struct SubscriptionsListenResult: result, since(V2026_07_28) {}
}

impl SubscriptionsListenResult {
    /// Creates the result that ends the subscription opened by the request with this id.
    ///
    /// # Errors
    /// Never in practice, since JSON can represent every id.
    pub fn of(subscription: &RequestId) -> Result<Self, serde_json::Error> {
        let mut meta = Meta::new();
        meta.set(keys::SUBSCRIPTION_ID, subscription)?;
        Ok(Self { meta: Some(meta), ..Self::default() })
    }
}

object! {
    /// Params of `notifications/subscriptions/acknowledged`, the first notification of each subscription.
    /// Since 2026-07-28.
    pub struct SubscriptionsAcknowledgedParams: params(SubscriptionsAcknowledged) {
        /// The changes that the server announces.
        "notifications" => notifications: required SubscriptionFilter;
    }
}
