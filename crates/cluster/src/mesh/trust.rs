//! Whom to believe: exactly the keys that are pinned. Others may finish a handshake while there is a desk for those who ask to join, and are
//! strangers then (see `desk`). No authority signs anything, names and dates in certificates count for
//! nothing; that the other side has the private key is verified by TLS itself, as always.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use arc_swap::ArcSwap;
use replica::group::KINDS_KNOWN;
use rustls::client::Resumption;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{
    CryptoProvider, WebPkiSupportedAlgorithms, verify_tls12_signature, verify_tls13_signature,
};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::NoServerSessionStorage;
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::version::TLS13;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, Error, ServerConfig,
    SignatureScheme,
};

use crate::{Fingerprint, Identity};

/// The keys of those who may connect; replaced as a whole.
pub(crate) type Pinned = Arc<ArcSwap<Vec<Fingerprint>>>;

/// For connections that this node accepts, from anyone whose key is pinned at that moment, and from anyone at all while there is a desk.
pub(crate) fn accepting(
    identity: &Identity,
    pinned: Pinned,
    has_desk: Arc<AtomicBool>,
) -> Result<ServerConfig, Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let algorithms = provider.signature_verification_algorithms;
    let verifier = PinnedKeys { pinned, has_desk, algorithms };
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&TLS13])?
        .with_client_cert_verifier(Arc::new(verifier))
        .with_single_cert(vec![identity.certificate()], identity.private_key())?;
    // A resumed session would not show its key again, and keys can be taken back.
    config.send_tls13_tickets = 0;
    config.alpn_protocols = protocols();
    config.session_storage = Arc::new(NoServerSessionStorage {});
    Ok(config)
}

/// For connections to one node, which must have this key.
pub(crate) fn dialing(identity: &Identity, key: Fingerprint) -> Result<ClientConfig, Error> {
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let algorithms = provider.signature_verification_algorithms;
    let pinned = Arc::new(ArcSwap::from_pointee(vec![key]));
    let verifier = PinnedKeys { pinned, has_desk: Arc::default(), algorithms };
    let mut config = builder(provider)?
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(verifier))
        .with_client_auth_cert(vec![identity.certificate()], identity.private_key())?;
    config.enable_sni = false;
    config.alpn_protocols = protocols();
    config.resumption = Resumption::disabled();
    Ok(config)
}

/// How what a node knows of messages begins, among the protocols that TLS agrees on: a node of a version before there was that says nothing, and
/// nothing is lost.
const PROTOCOL: &[u8] = b"helenus-mesh-";

/// How the protocols end of those who take packed frames.
const PACKED: &[u8] = b"+lz4";

/// What both sides know.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Agreed {
    /// The last kind of message; `None` with a node of a version that does not tell.
    pub(crate) kinds: Option<u8>,
    /// Whether frames may be packed.
    pub(crate) packs: bool,
}

/// What versions knew that may be in one cluster with this one, the latest first.
const VERSIONS: [Agreed; 4] = [
    Agreed { kinds: Some(KINDS_KNOWN), packs: true },
    Agreed { kinds: Some(23), packs: true },
    Agreed { kinds: Some(22), packs: true },
    Agreed { kinds: Some(21), packs: false },
];

fn protocols() -> Vec<Vec<u8>> {
    let name = |version: Agreed| {
        let kinds = version.kinds.unwrap_or(KINDS_KNOWN).to_string();
        [PROTOCOL, kinds.as_bytes(), if version.packs { PACKED } else { &[] }].concat()
    };
    VERSIONS.into_iter().map(name).collect()
}

/// What the protocol says that was agreed on.
pub(crate) fn agreed(protocol: Option<&[u8]>) -> Agreed {
    let Some(version) = protocol.and_then(|it| it.strip_prefix(PROTOCOL)) else {
        return Agreed::default();
    };
    let (number, packs) = match version.strip_suffix(PACKED) {
        Some(number) => (number, true),
        None => (version, false),
    };
    let kinds = std::str::from_utf8(number).ok().and_then(|number| number.parse().ok());
    Agreed { kinds, packs: packs && kinds.is_some() }
}

fn builder(
    provider: Arc<CryptoProvider>,
) -> Result<rustls::ConfigBuilder<ClientConfig, rustls::WantsVerifier>, Error> {
    ClientConfig::builder_with_provider(provider).with_protocol_versions(&[&TLS13])
}

/// Accepts a certificate for its key, and a handshake only if it was signed by that key.
struct PinnedKeys {
    pinned: Pinned,
    /// Whether other keys are accepted from those who dial. Never asked of a key that is dialed.
    has_desk: Arc<AtomicBool>,
    algorithms: WebPkiSupportedAlgorithms,
}

impl fmt::Debug for PinnedKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PinnedKeys").field(&self.pinned.load()).finish()
    }
}

impl PinnedKeys {
    fn is_pinned(&self, certificate: &CertificateDer<'_>) -> Result<bool, Error> {
        let fingerprint = Fingerprint::of(certificate)?;
        Ok(self.pinned.load().contains(&fingerprint))
    }
}

fn unknown_key() -> Error {
    Error::InvalidCertificate(CertificateError::UnknownIssuer)
}

impl ServerCertVerifier for PinnedKeys {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _server_name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        match self.is_pinned(end_entity)? {
            true => Ok(ServerCertVerified::assertion()),
            false => Err(unknown_key()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}

impl ClientCertVerifier for PinnedKeys {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        match self.is_pinned(end_entity)? || self.has_desk.load(Ordering::Acquire) {
            true => Ok(ClientCertVerified::assertion()),
            false => Err(unknown_key()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls12_signature(message, certificate, signed, &self.algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        verify_tls13_signature(message, certificate, signed, &self.algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.algorithms.supported_schemes()
    }
}
