//! The connection to a node: plain, or with TLS.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore,
    SignatureScheme, StreamOwned,
};

/// Whose certificate is taken.
#[derive(Clone, Debug)]
pub enum Trust {
    /// These themselves, as the one a node makes for itself, and what they signed.
    Certificates(Vec<CertificateDer<'static>>),
    /// Anybody's: what is sent is encrypted, and whoever stands in between can read it.
    Anyone,
}

/// Bytes to and from a node.
pub(crate) enum Stream {
    Plain(TcpStream),
    Encrypted(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Stream {
    /// A handshake with a node that is trusted so far.
    pub(crate) fn encrypt(stream: TcpStream, host: &str, trust: &Trust) -> Result<Stream, String> {
        let unusable = |error: &dyn std::fmt::Display| format!("TLS: {error}");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = Verifier::new(trust, Arc::clone(&provider));
        let config = ClientConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()
            .map_err(|error| unusable(&error))?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(verifier))
            .with_no_client_auth();
        let name = ServerName::try_from(host.to_owned()).map_err(|error| unusable(&error))?;
        let mut connection =
            ClientConnection::new(Arc::new(config), name).map_err(|error| unusable(&error))?;
        let mut stream = stream;
        while connection.is_handshaking() {
            connection.complete_io(&mut stream).map_err(|error| unusable(&error))?;
        }
        Ok(Stream::Encrypted(Box::new(StreamOwned::new(connection, stream))))
    }
}

impl Read for Stream {
    fn read(&mut self, bytes: &mut [u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(stream) => stream.read(bytes),
            Stream::Encrypted(stream) => stream.read(bytes),
        }
    }
}

impl Write for Stream {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        match self {
            Stream::Plain(stream) => stream.write(bytes),
            Stream::Encrypted(stream) => stream.write(bytes),
        }
    }

    fn flush(&mut self) -> io::Result<()> {
        match self {
            Stream::Plain(stream) => stream.flush(),
            Stream::Encrypted(stream) => stream.flush(),
        }
    }
}

/// Judges the certificate of a node.
#[derive(Debug)]
struct Verifier {
    trust: Trust,
    /// None if none of the trusted certificates may sign others.
    signed: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl Verifier {
    fn new(trust: &Trust, provider: Arc<CryptoProvider>) -> Verifier {
        let mut roots = RootCertStore::empty();
        if let Trust::Certificates(certificates) = trust {
            roots.add_parsable_certificates(certificates.iter().cloned());
        }
        let signed =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
        Verifier { trust: trust.clone(), signed: signed.build().ok(), provider }
    }
}

impl ServerCertVerifier for Verifier {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        let is_known = match &self.trust {
            Trust::Certificates(known) => known.iter().any(|trusted| trusted == certificate),
            Trust::Anyone => true,
        };
        if is_known {
            return Ok(ServerCertVerified::assertion());
        }
        match &self.signed {
            Some(signed) => {
                signed.verify_server_cert(certificate, intermediates, name, ocsp_response, now)
            }
            None => Err(CertificateError::UnknownIssuer.into()),
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signed, algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        let algorithms = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}
