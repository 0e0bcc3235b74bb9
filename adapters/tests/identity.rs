//! The TLS identity of test servers.

use std::sync::Arc;

use super::rustls::{
    ClientConfig, RootCertStore, ServerConfig,
    crypto::ring,
    pki_types::{CertificateDer, PrivateKeyDer},
};

/// A certificate for `localhost`, with the configurations of servers and clients.
pub(crate) struct Identity {
    pub(crate) server: Arc<ServerConfig>,
    pub(crate) client: Arc<ClientConfig>,
}

impl Identity {
    pub(crate) fn new() -> Self {
        let made = rcgen::generate_simple_self_signed(["localhost".to_owned()]).expect("a certificate");
        let certificate: CertificateDer<'static> = made.cert.into();
        let key = PrivateKeyDer::try_from(made.signing_key.serialize_der()).expect("a key");
        let mut roots = RootCertStore::empty();
        roots.add(certificate.clone()).expect("it can be trusted");
        let provider = Arc::new(ring::default_provider());
        let server = ServerConfig::builder_with_provider(provider.clone());
        let server = server.with_safe_default_protocol_versions().expect("versions").with_no_client_auth();
        let client = ClientConfig::builder_with_provider(provider);
        let client = client.with_safe_default_protocol_versions().expect("versions").with_root_certificates(roots);
        Self {
            server: Arc::new(server.with_single_cert(vec![certificate], key).expect("they belong together")),
            client: Arc::new(client.with_no_client_auth()),
        }
    }
}
