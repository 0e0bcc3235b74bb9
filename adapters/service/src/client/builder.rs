//! The builder of a host.

use std::{fmt, future::Future, sync::Arc};

use mcp_proto::{
    connection::{ClientConfig, ClientRole},
    protocol::{Capability, CapabilitySet},
    schema::{
        ClientCapabilities, CreateMessageParams, CreateMessageResult, ElicitAction, ElicitFormParams, ElicitResult,
        ElicitUrlParams, ListRootsParams, ListRootsResult,
    },
};

use super::{Host, Inner, Observer, TypedHandler, roots::Roots};
use crate::{
    driver_api::{
        deferred::Deferred,
        job::{BoxedHandler, HandlerKind},
    },
    inbound::{
        builder_common::{Common, common_methods, declared},
        context::Context,
        failure::Failure,
        task_policy::TaskPolicy,
    },
};

/// A builder of a [`Host`].
#[must_use = "nothing happens before `build`"]
pub struct HostBuilder {
    common: Common<ClientRole>,
    sampling: Option<TypedHandler<CreateMessageParams, CreateMessageResult>>,
    form: Option<TypedHandler<ElicitFormParams, ElicitResult>>,
    url: Option<TypedHandler<ElicitUrlParams, ElicitAction>>,
    roots: Option<Roots>,
    list_roots: Option<TypedHandler<ListRootsParams, ListRootsResult>>,
    observer: Option<Observer>,
    forwards_forms: bool,
    tasks: Option<TaskPolicy>,
    /// The capabilities of the model.
    given: CapabilitySet,
}

impl HostBuilder {
    pub(super) fn new(name: String, version: String) -> Self {
        Self {
            common: Common::new(name, version),
            sampling: None,
            form: None,
            url: None,
            roots: None,
            list_roots: None,
            observer: None,
            forwards_forms: false,
            tasks: None,
            given: CapabilitySet::EMPTY,
        }
    }

    /// Sets the handler of `sampling/createMessage`, which samples the model. It returns [`Failure::rejected`] if the
    /// user refuses.
    ///
    /// Requests whose tool results do not match their uses are refused before it is called.
    pub fn sampling<F: Into<Failure>>(
        mut self,
        f: impl Fn(CreateMessageParams, Context<ClientRole>) -> Result<CreateMessageResult, F> + Send + Sync + 'static,
    ) -> Self {
        self.sampling = Some(typed_handler(f));
        self
    }

    /// Sets a handler as [`sampling`](Self::sampling) does, from a function that returns a future.
    pub fn sampling_async<F: Into<Failure>, T>(
        mut self,
        f: impl Fn(CreateMessageParams, Context<ClientRole>) -> T + Send + Sync + 'static,
    ) -> Self
    where
        T: Future<Output = Result<CreateMessageResult, F>> + Send + 'static,
    {
        self.sampling = Some(typed_handler_async(f));
        self
    }

    /// Declares that the model can be given tools (2025-11-25). Without it, requests with tools are refused.
    pub fn sampling_with_tools(mut self) -> Self {
        self.given = self.given.with(Capability::SamplingTools);
        self
    }

    /// Declares that the model can be given the context of this server or of all servers (2025-11-25).
    pub fn sampling_with_context(mut self) -> Self {
        self.given = self.given.with(Capability::SamplingContext);
        self
    }

    /// Sets the handler of `elicitation/create` with a form (2025-06-18), which shows the form to the user.
    ///
    /// Fields without a value get their defaults. If the response does not match the form, the server gets an error
    /// instead.
    pub fn elicitation<F: Into<Failure>>(
        mut self,
        f: impl Fn(ElicitFormParams, Context<ClientRole>) -> Result<ElicitResult, F> + Send + Sync + 'static,
    ) -> Self {
        self.form = Some(typed_handler(f));
        self
    }

    /// Sets a handler as [`elicitation`](Self::elicitation) does, from a function that returns a future.
    pub fn elicitation_async<F: Into<Failure>, T>(
        mut self,
        f: impl Fn(ElicitFormParams, Context<ClientRole>) -> T + Send + Sync + 'static,
    ) -> Self
    where
        T: Future<Output = Result<ElicitResult, F>> + Send + 'static,
    {
        self.form = Some(typed_handler_async(f));
        self
    }

    /// Sets the handler of `elicitation/create` with a page (2025-11-25). It shows the user where the page leads, and
    /// opens it if the user consents. Nothing else opens it.
    pub fn elicitation_url<F: Into<Failure>>(
        mut self,
        f: impl Fn(ElicitUrlParams, Context<ClientRole>) -> Result<ElicitAction, F> + Send + Sync + 'static,
    ) -> Self {
        self.url = Some(typed_handler(f));
        self
    }

    /// Sets a handler as [`elicitation_url`](Self::elicitation_url) does, from a function that returns a future.
    pub fn elicitation_url_async<F: Into<Failure>, T>(
        mut self,
        f: impl Fn(ElicitUrlParams, Context<ClientRole>) -> T + Send + Sync + 'static,
    ) -> Self
    where
        T: Future<Output = Result<ElicitAction, F>> + Send + 'static,
    {
        self.url = Some(typed_handler_async(f));
        self
    }

    /// Sets the roots for `roots/list`. Servers are notified when the list changes.
    pub fn roots(mut self, roots: &Roots) -> Self {
        self.roots = Some(roots.clone());
        self
    }

    /// Sets the handler of `roots/list`, in place of fixed [`roots`](Self::roots).
    pub(crate) fn roots_async<T>(
        mut self,
        f: impl Fn(ListRootsParams, Context<ClientRole>) -> T + Send + Sync + 'static,
    ) -> Self
    where
        T: Future<Output = Result<ListRootsResult, Failure>> + Send + 'static,
    {
        self.list_roots = Some(typed_handler_async(f));
        self
    }

    /// Sends responses to forms as the handler returns them: without defaults, and without a check.
    pub(crate) fn forwards_forms(mut self) -> Self {
        self.forwards_forms = true;
        self
    }

    /// Sets what sees messages of the server when they arrive.
    pub(crate) fn observe(mut self, observer: Observer) -> Self {
        self.observer = Some(observer);
        self
    }

    /// Supports tasks for sampling and elicitation, for servers that request them (2025-11-25).
    pub fn tasks(mut self, policy: TaskPolicy) -> Self {
        self.tasks = Some(policy);
        self
    }

    common_methods!(ClientRole);

    /// Builds the host.
    #[must_use]
    pub fn build(self) -> Host {
        let mut config = ClientConfig::new(self.common.info.clone(), self.common.random.seed());
        config.capabilities = self.capabilities();
        config.settings = self.common.chosen_settings();
        Host(Arc::new(Inner {
            config: Arc::new(config),
            sampling: self.sampling,
            form: self.form,
            url: self.url,
            roots: self.roots,
            list_roots: self.list_roots,
            observer: self.observer,
            forwards_forms: self.forwards_forms,
            custom: self.common.custom,
            tasks: Arc::new(self.tasks.unwrap_or_default()),
            random: self.common.random,
        }))
    }

    /// Returns the capabilities, which follow from the handlers.
    fn capabilities(&self) -> ClientCapabilities {
        let (sampling, form, url) = (self.sampling.is_some(), self.form.is_some(), self.url.is_some());
        let tasks = self.tasks.is_some();
        let gives = |capability| sampling && self.given.contains(capability);
        let there = [
            (Capability::Roots, self.roots.is_some() || self.list_roots.is_some()),
            (Capability::RootsListChanged, self.roots.is_some()),
            (Capability::Sampling, sampling),
            (Capability::SamplingTools, gives(Capability::SamplingTools)),
            (Capability::SamplingContext, gives(Capability::SamplingContext)),
            (Capability::ElicitationForm, form),
            (Capability::ElicitationUrl, url),
            (Capability::TasksList, tasks && (sampling || form || url)),
            (Capability::TasksCancel, tasks && (sampling || form || url)),
            (Capability::TasksSampling, tasks && sampling),
            (Capability::TasksElicitation, tasks && (form || url)),
            // Calls that become tasks stay calls.
            (Capability::TasksExtension, true),
        ];
        let mut capabilities: ClientCapabilities = declared(&there, self.common.withheld).collect();
        if !self.common.experimental.is_empty() {
            capabilities.experimental = Some(self.common.experimental.clone());
        }
        capabilities
    }
}

fn typed_handler<P: 'static, R: 'static, F: Into<Failure>>(
    f: impl Fn(P, Context<ClientRole>) -> Result<R, F> + Send + Sync + 'static,
) -> TypedHandler<P, R> {
    let run = move |params, context| Deferred::ready(f(params, context).map_err(Into::into));
    BoxedHandler { kind: HandlerKind::Blocking, run: Box::new(run) }
}

fn typed_handler_async<P: 'static, R: 'static, F: Into<Failure>, T: Future<Output = Result<R, F>> + Send + 'static>(
    f: impl Fn(P, Context<ClientRole>) -> T + Send + Sync + 'static,
) -> TypedHandler<P, R> {
    let run = move |params, context| {
        let future = f(params, context);
        Deferred::new(async move { future.await.map_err(Into::into) })
    };
    BoxedHandler { kind: HandlerKind::Async, run: Box::new(run) }
}

impl fmt::Debug for HostBuilder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostBuilder").field("info", &self.common.info).finish_non_exhaustive()
    }
}
