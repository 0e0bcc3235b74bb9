//! The handshake of a legacy session.
//!
//! Spec: [lifecycle](https://modelcontextprotocol.io/specification/2025-11-25/basic/lifecycle)

use alloc::{string::String, vec::Vec};

use super::{ClientCapabilities, Icon, ServerCapabilities};
use crate::schema::base::macros::*;

object! {
    /// The name and version of a client or server.
    pub struct Implementation: data {
        /// The name, for programs.
        "name" => name: required String;
        /// The name, for people. Since 2025-06-18.
        "title" => title: optional String, since(V2025_06_18);
        /// The version.
        "version" => version: required String;
        /// A description of the program. Since 2025-11-25.
        "description" => description: optional String, since(V2025_11_25);
        /// The home page of the program. Since 2025-11-25.
        "websiteUrl" => website_url: optional String, since(V2025_11_25), is(Uri);
        /// Pictures for user interfaces. Since 2025-11-25.
        "icons" => icons: optional Vec<Icon>, since(V2025_11_25), fits(|icons, _| Icon::all_valid(icons));
    }
}

impl Implementation {
    /// Returns the name to show: the title if there is one, otherwise the name.
    #[must_use]
    pub fn display_name(&self) -> &str {
        self.title.as_deref().unwrap_or(&self.name)
    }
}

object! {
    /// Params of `initialize`, with which a client opens a session. Up to 2025-11-25.
    pub struct InitializeParams: params(Initialize => InitializeResult) {
        /// The revision that the client requests, the newest one that it supports.
        "protocolVersion" => protocol_version: required String;
        /// The capabilities of the client.
        "capabilities" => capabilities: required ClientCapabilities;
        /// The name and version of the client.
        "clientInfo" => client_info: required Implementation;
    }
}

object! {
    /// The result of `initialize`, with which a server accepts a session. Up to 2025-11-25.
    pub struct InitializeResult: result, until(V2025_11_25) {
        /// The revision of the session. A client that does not support it disconnects.
        "protocolVersion" => protocol_version: required String;
        /// The capabilities of the server.
        "capabilities" => capabilities: required ServerCapabilities;
        /// The name and version of the server.
        "serverInfo" => server_info: required Implementation;
        /// How to use the server, for models.
        "instructions" => instructions: optional String;
    }
}

object! {
    /// Params of `notifications/initialized`: the client is ready. Up to 2025-11-25.
    pub struct InitializedParams: params(Initialized) {}
}

object! {
    /// Params of `ping`. Up to 2025-11-25.
    pub struct PingParams: params(Ping => EmptyResult) {}
}

object! {
    /// A result without specific members.
    pub struct EmptyResult: result {}
}
