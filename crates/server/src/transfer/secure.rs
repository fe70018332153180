//! The connection of an export or import: plain, or with TLS.

use std::io::{self, Read, Write};
use std::net::TcpStream;
use std::path::Path;
use std::sync::Arc;

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, ClientConnection, DigitallySignedStruct, RootCertStore,
    SignatureScheme, StreamOwned,
};

use crate::tls::read_certificates;

/// Bytes to and from a node.
pub(super) enum Stream {
    Plain(TcpStream),
    Encrypted(Box<StreamOwned<ClientConnection, TcpStream>>),
}

impl Stream {
    /// A handshake with a node whose certificate is in a file, or was signed by one that is.
    pub(super) fn encrypt(stream: TcpStream, host: &str, trusted: &Path) -> Result<Stream, String> {
        let unusable = |error: &dyn std::fmt::Display| format!("TLS: {error}");
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = Trusted::read(trusted, Arc::clone(&provider))?;
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

/// Trusts the certificates of a file themselves, as the one a node makes for itself, and what they
/// signed.
#[derive(Debug)]
struct Trusted {
    certificates: Vec<CertificateDer<'static>>,
    /// None if none of them may sign others.
    signed: Option<Arc<WebPkiServerVerifier>>,
    provider: Arc<CryptoProvider>,
}

impl Trusted {
    fn read(path: &Path, provider: Arc<CryptoProvider>) -> Result<Trusted, String> {
        let certificates = read_certificates(path).map_err(|error| error.to_string())?;
        let mut roots = RootCertStore::empty();
        roots.add_parsable_certificates(certificates.iter().cloned());
        let signed =
            WebPkiServerVerifier::builder_with_provider(Arc::new(roots), Arc::clone(&provider));
        Ok(Trusted { certificates, signed: signed.build().ok(), provider })
    }
}

impl ServerCertVerifier for Trusted {
    fn verify_server_cert(
        &self,
        certificate: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        if self.certificates.iter().any(|trusted| trusted == certificate) {
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
