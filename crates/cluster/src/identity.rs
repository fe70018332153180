//! What a node is known by: a key of its own, that nobody signed. Others keep its fingerprint.

use std::fmt;
use std::str::FromStr;

use rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer};
use rustls::server::ParsedCertificate;
use rustls::sign::CertifiedKey;
use sha2::{Digest, Sha256};

/// How the document begins.
const MAGIC: [u8; 4] = *b"HLNK";
/// The form of the document.
const VERSION: u8 = 1;
/// A certificate stands for a key and nothing else: the name in it is the same everywhere and looked at by nobody.
const NAME: &str = "helenus";

/// A node's private key with the certificate around its public half.
///
/// The certificate is there because TLS wants one. Its names, its dates and who signed it count for nothing; only the key does.
#[derive(Clone)]
pub struct Identity {
    certificate: CertificateDer<'static>,
    /// PKCS #8.
    key: Vec<u8>,
    fingerprint: Fingerprint,
}

impl fmt::Debug for Identity {
    /// The key is nobody's business.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Identity").field("fingerprint", &self.fingerprint).finish_non_exhaustive()
    }
}

impl Identity {
    /// A new key.
    pub fn generate() -> Result<Identity, String> {
        let made = rcgen::generate_simple_self_signed(vec![NAME.to_owned()])
            .map_err(|error| format!("a key for this node cannot be made: {error}"))?;
        Identity::new(made.cert.der().clone(), made.key_pair.serialize_der())
    }

    /// The document that the data folder keeps. Whoever has it is this node: it belongs into files that nobody else may read.
    pub fn to_bytes(&self) -> Vec<u8> {
        let mut bytes = MAGIC.to_vec();
        bytes.push(VERSION);
        for part in [self.certificate.as_ref(), &self.key] {
            bytes.extend_from_slice(&u32::try_from(part.len()).unwrap_or(u32::MAX).to_be_bytes());
            bytes.extend_from_slice(part);
        }
        bytes
    }

    /// Reads that document.
    pub fn from_bytes(bytes: &[u8]) -> Result<Identity, String> {
        let damaged = || "the document with this node's key is damaged".to_owned();
        let rest = bytes.strip_prefix(&MAGIC).ok_or_else(damaged)?;
        let (version, rest) = rest.split_first().ok_or_else(damaged)?;
        if *version != VERSION {
            return Err(format!(
                "the document with this node's key has version {version}, which this version of Helenus does not know"
            ));
        }
        let (certificate, rest) = counted(rest).ok_or_else(damaged)?;
        let (key, rest) = counted(rest).ok_or_else(damaged)?;
        if !rest.is_empty() {
            return Err(damaged());
        }
        Identity::new(CertificateDer::from(certificate.to_vec()), key.to_vec())
    }

    fn new(certificate: CertificateDer<'static>, key: Vec<u8>) -> Result<Identity, String> {
        let unusable = |error: rustls::Error| format!("this node's key cannot be used: {error}");
        let fingerprint = Fingerprint::of(&certificate).map_err(unusable)?;
        let identity = Identity { certificate, key, fingerprint };
        identity.certified_key().map_err(unusable)?;
        Ok(identity)
    }

    /// What other nodes know this one by.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }

    /// As TLS wants it. Fails if certificate and key do not belong together.
    fn certified_key(&self) -> Result<CertifiedKey, rustls::Error> {
        let provider = rustls::crypto::ring::default_provider();
        CertifiedKey::from_der(vec![self.certificate.clone()], self.private_key(), &provider)
    }

    pub(crate) fn certificate(&self) -> CertificateDer<'static> {
        self.certificate.clone()
    }

    pub(crate) fn private_key(&self) -> PrivateKeyDer<'static> {
        PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(self.key.clone()))
    }
}

fn counted(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
    let (length, rest) = bytes.split_first_chunk::<4>()?;
    rest.split_at_checked(usize::try_from(u32::from_be_bytes(*length)).ok()?)
}

/// SHA-256 of a key, as a certificate holds it (its SubjectPublicKeyInfo): a new certificate around the same key is the same node.
#[derive(Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Fingerprint(pub [u8; 32]);

impl Fingerprint {
    /// Of the key in a certificate.
    pub(crate) fn of(certificate: &CertificateDer<'_>) -> Result<Fingerprint, rustls::Error> {
        let parsed = ParsedCertificate::try_from(certificate)?;
        Ok(Fingerprint(Sha256::digest(parsed.subject_public_key_info()).into()))
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Fingerprint({self})")
    }
}

/// The text is not 64 hexadecimal digits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NotAFingerprint;

impl fmt::Display for NotAFingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a fingerprint has 64 hexadecimal digits")
    }
}

impl std::error::Error for NotAFingerprint {}

impl FromStr for Fingerprint {
    type Err = NotAFingerprint;

    fn from_str(text: &str) -> Result<Fingerprint, NotAFingerprint> {
        let mut digits = text.chars().map(|digit| digit.to_digit(16).ok_or(NotAFingerprint));
        let mut next = || digits.next().ok_or(NotAFingerprint)?;
        let mut bytes = [0; 32];
        for byte in &mut bytes {
            *byte = (next()? * 16 + next()?) as u8;
        }
        if digits.next().is_some() { Err(NotAFingerprint) } else { Ok(Fingerprint(bytes)) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_identity_comes_back_from_its_document() {
        let identity = Identity::generate().unwrap();
        let bytes = identity.to_bytes();
        let again = Identity::from_bytes(&bytes).unwrap();
        assert_eq!(again.fingerprint(), identity.fingerprint());
        assert_eq!(again.to_bytes(), bytes);
        assert_ne!(Identity::generate().unwrap().fingerprint(), identity.fingerprint());
    }

    #[test]
    fn a_damaged_document_is_refused_with_a_sentence() {
        let bytes = Identity::generate().unwrap().to_bytes();
        for length in 0..bytes.len() {
            assert!(Identity::from_bytes(&bytes[..length]).is_err(), "{length} bytes");
        }
        for at in 0..bytes.len() {
            let mut flipped = bytes.clone();
            flipped[at] ^= 0x10;
            let _ = Identity::from_bytes(&flipped);
        }
        let other = Identity::generate().unwrap();
        let mixed = Identity { key: other.key, ..Identity::from_bytes(&bytes).unwrap() };
        let error = Identity::from_bytes(&mixed.to_bytes()).unwrap_err();
        assert!(error.starts_with("this node's key cannot be used"), "{error}");
        let mut newer = bytes;
        newer[4] = 2;
        assert!(Identity::from_bytes(&newer).unwrap_err().contains("version 2"));
    }

    #[test]
    fn a_fingerprint_is_written_and_read_as_hex() {
        let fingerprint = Identity::generate().unwrap().fingerprint();
        let text = fingerprint.to_string();
        assert_eq!(text.len(), 64);
        assert_eq!(text.parse(), Ok(fingerprint));
        assert_eq!(text.to_uppercase().parse(), Ok(fingerprint));
        for wrong in ["", "0", &text[1..], &format!("{text}0"), &format!("{}g", &text[1..])] {
            assert_eq!(wrong.parse::<Fingerprint>(), Err(NotAFingerprint), "{wrong}");
        }
    }
}
