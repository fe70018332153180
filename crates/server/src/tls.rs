//! Encryption of client connections, with certificates that may change while the node runs.

use std::fmt;
use std::io::Write as _;
use std::net::IpAddr;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime};

use arc_swap::ArcSwap;
use parking_lot::Mutex;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::WebPkiClientVerifier;
use rustls::{RootCertStore, ServerConfig};

use crate::config::Tls;

/// The files are looked at when a client connects, at most this often.
const LOOK_INTERVAL: Duration = Duration::from_secs(1);

/// What every encrypted connection starts with; replaced as a whole when a file changes.
pub(crate) struct Certificates {
    files: Files,
    current: ArcSwap<ServerConfig>,
    watch: Mutex<Watch>,
}

struct Files {
    certificate: PathBuf,
    key: PathBuf,
    client_ca: Option<PathBuf>,
    require_client_certificate: bool,
}

struct Watch {
    looked_at: Instant,
    changed_at: Vec<Option<SystemTime>>,
}

/// Why a certificate cannot be used.
#[derive(Debug)]
pub(crate) enum TlsError {
    /// The file cannot be read, or is not what it should be.
    File { path: PathBuf, message: String },
    /// Certificate and key do not belong together, or are of a kind we do not know.
    Unusable { message: String },
}

impl fmt::Display for TlsError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TlsError::File { path, message } => write!(f, "{}: {message}", path.display()),
            TlsError::Unusable { message } => f.write_str(message),
        }
    }
}

impl std::error::Error for TlsError {}

/// How long a certificate lasts that a node makes for itself: the longest that clients of all systems take.
const OWN_LASTS_S: u64 = 825 * DAY_S;
/// A start so shortly before its end makes another one.
const OWN_RENEWED_S: u64 = 30 * DAY_S;
/// Clocks of clients may be behind.
const OWN_BEGINS_EARLIER_S: u64 = DAY_S;
const DAY_S: u64 = 86_400;

/// Who the certificate of a node is about.
pub(crate) struct OwnNames {
    /// What the machine is called.
    pub(crate) host: Option<String>,
    /// Where clients may reach it, besides the addresses of every machine for itself.
    pub(crate) addresses: Vec<IpAddr>,
}

impl OwnNames {
    /// `Helenus HOST`
    fn common_name(&self) -> String {
        format!("Helenus {}", self.host.as_deref().unwrap_or("localhost"))
    }

    /// All names and addresses, each once.
    fn alternatives(&self) -> Vec<String> {
        let mut names = vec!["localhost".to_owned(), "127.0.0.1".to_owned(), "::1".to_owned()];
        let is_name = |name: &&String| {
            name.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'.')
        };
        let addresses = self.addresses.iter().filter(|address| !address.is_unspecified());
        let others = self.host.iter().filter(is_name).cloned();
        for name in others.chain(addresses.map(IpAddr::to_string)) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }
}

/// The node's own certificate in its data folder, made at the first start that needs one, and again before it ends.
/// Nobody signed it: clients must trust it by itself or leave it unchecked, as with the original's emulator.
pub(crate) fn own_certificate(
    data_dir: &Path,
    names: &OwnNames,
    now_s: u64,
) -> Result<(PathBuf, PathBuf), TlsError> {
    let folder = data_dir.join("tls");
    let (certificate, key) = (own_certificate_path(data_dir), folder.join("key.pem"));
    // When it ends; not there for those of version 0.1, which last for two thousand years.
    let end = folder.join("valid-until");
    if certificate.exists() && key.exists() {
        let ends_s = std::fs::read_to_string(&end).ok().and_then(|text| text.trim().parse().ok());
        if ends_s.is_none_or(|ends_s: u64| ends_s > now_s.saturating_add(OWN_RENEWED_S)) {
            return Ok((certificate, key));
        }
        tracing::warn!(certificate = %certificate.display(), "the certificate that this node made for itself ends soon: another one is made, which clients must be told to trust");
    }
    let at = |path: &Path| {
        let path = path.to_owned();
        move |error: std::io::Error| TlsError::File { path, message: error.to_string() }
    };
    let unusable = |error: rcgen::Error| TlsError::Unusable { message: error.to_string() };
    let mut parameters = rcgen::CertificateParams::new(names.alternatives()).map_err(unusable)?;
    parameters.distinguished_name = rcgen::DistinguishedName::new();
    parameters.distinguished_name.push(rcgen::DnType::CommonName, names.common_name());
    let at_s = |seconds: u64| rcgen::date_time_ymd(1970, 1, 1) + Duration::from_secs(seconds);
    let ends_s = now_s.saturating_add(OWN_LASTS_S);
    parameters.not_before = at_s(now_s.saturating_sub(OWN_BEGINS_EARLIER_S));
    parameters.not_after = at_s(ends_s);
    let pair = rcgen::KeyPair::generate().map_err(unusable)?;
    let made = parameters.self_signed(&pair).map_err(unusable)?;
    std::fs::create_dir_all(&folder).map_err(at(&folder))?;
    for (path, text, mode) in [
        (&key, pair.serialize_pem(), 0o600),
        (&certificate, made.pem(), 0o644),
        (&end, format!("{ends_s}\n"), 0o644),
    ] {
        let mut options = std::fs::OpenOptions::new();
        let file = options.write(true).create(true).truncate(true).mode(mode).open(path);
        let mut file = file.map_err(at(path))?;
        file.write_all(text.as_bytes()).and_then(|()| file.sync_all()).map_err(at(path))?;
    }
    Ok((certificate, key))
}

/// Where that certificate is, once it was made.
pub(crate) fn own_certificate_path(data_dir: &Path) -> PathBuf {
    data_dir.join("tls").join("certificate.pem")
}

impl Certificates {
    /// Reads the files of these settings; `None` when they name no certificate.
    pub(crate) fn open(tls: &Tls, now: Instant) -> Result<Option<Certificates>, TlsError> {
        let (Some(certificate), Some(key)) = (&tls.certificate, &tls.key) else { return Ok(None) };
        let files = Files {
            certificate: certificate.clone(),
            key: key.clone(),
            client_ca: tls.client_ca.clone(),
            require_client_certificate: tls.require_client_certificate,
        };
        let changed_at = files.changed_at();
        let current = ArcSwap::from_pointee(files.read()?);
        let watch = Mutex::new(Watch { looked_at: now, changed_at });
        Ok(Some(Certificates { files, current, watch }))
    }

    /// What the next handshake uses: read again if a file changed since the last look.
    pub(crate) fn for_handshake(&self, now: Instant) -> Arc<ServerConfig> {
        // Whoever finds the lock taken goes on with what is there.
        if let Some(mut watch) = self.watch.try_lock()
            && now.saturating_duration_since(watch.looked_at) >= LOOK_INTERVAL
        {
            watch.looked_at = now;
            let changed_at = self.files.changed_at();
            if changed_at != watch.changed_at && self.reload() {
                watch.changed_at = changed_at;
            }
        }
        self.current.load_full()
    }

    /// Reads the files again. If that fails the old certificate stays, and the log says so.
    pub(crate) fn reload(&self) -> bool {
        match self.files.read() {
            Ok(config) => {
                self.current.store(Arc::new(config));
                tracing::info!("certificates were read again");
                true
            }
            Err(error) => {
                tracing::warn!(%error, "changed certificates cannot be used, the old ones stay");
                false
            }
        }
    }
}

impl Files {
    fn changed_at(&self) -> Vec<Option<SystemTime>> {
        let changed = |path: &Path| std::fs::metadata(path).and_then(|meta| meta.modified()).ok();
        [Some(&self.certificate), Some(&self.key), self.client_ca.as_ref()]
            .into_iter()
            .flatten()
            .map(|path| changed(path))
            .collect()
    }

    fn read(&self) -> Result<ServerConfig, TlsError> {
        let chain = read_certificates(&self.certificate)?;
        let key =
            PrivateKeyDer::from_pem_file(&self.key).map_err(|error| bad(&self.key, &error))?;
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let builder = ServerConfig::builder_with_provider(Arc::clone(&provider))
            .with_safe_default_protocol_versions()
            .map_err(|error| TlsError::Unusable { message: error.to_string() })?;
        let builder = match &self.client_ca {
            None => builder.with_no_client_auth(),
            Some(path) => {
                let mut roots = RootCertStore::empty();
                for certificate in read_certificates(path)? {
                    roots.add(certificate).map_err(|error| bad(path, &error))?;
                }
                let verifier =
                    WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
                let verifier = if self.require_client_certificate {
                    verifier
                } else {
                    verifier.allow_unauthenticated()
                };
                builder
                    .with_client_cert_verifier(verifier.build().map_err(|error| bad(path, &error))?)
            }
        };
        builder.with_single_cert(chain, key).map_err(|error| bad(&self.certificate, &error))
    }
}

/// The certificates of a file.
pub(crate) fn read_certificates(path: &Path) -> Result<Vec<CertificateDer<'static>>, TlsError> {
    let chain: Vec<_> = CertificateDer::pem_file_iter(path)
        .map_err(|error| bad(path, &error))?
        .collect::<Result<_, _>>()
        .map_err(|error| bad(path, &error))?;
    if chain.is_empty() {
        return Err(TlsError::File {
            path: path.to_owned(),
            message: "holds no certificate".into(),
        });
    }
    Ok(chain)
}

fn bad(path: &Path, error: &dyn fmt::Display) -> TlsError {
    TlsError::File { path: path.to_owned(), message: error.to_string() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_certificate_names_its_host_and_is_made_again_before_it_ends() {
        let folder = std::env::temp_dir().join(format!("helenus-tls-{}", std::process::id()));
        let names = OwnNames {
            host: Some("db1".to_owned()),
            addresses: vec!["10.1.2.3".parse().unwrap(), "0.0.0.0".parse().unwrap()],
        };
        assert_eq!(names.common_name(), "Helenus db1");
        assert_eq!(names.alternatives(), ["localhost", "127.0.0.1", "::1", "db1", "10.1.2.3"]);
        let now_s = 1_800_000_000;
        let make = |now_s| {
            let (certificate, _) = own_certificate(&folder, &names, now_s).unwrap();
            std::fs::read(certificate).unwrap()
        };
        let first = make(now_s);
        let der = read_certificates(&own_certificate_path(&folder)).unwrap();
        let holds = |words: &[u8]| der[0].as_ref().windows(words.len()).any(|part| part == words);
        assert!(holds(b"Helenus db1") && holds(b"db1") && holds(&[10, 1, 2, 3]));
        // 1 800 000 000 s is 2027-01-15; 825 days later it is 2029-04-19.
        assert!(holds(b"270114080000Z") && holds(b"290419080000Z"));
        assert_eq!(make(now_s + OWN_LASTS_S - OWN_RENEWED_S - 1), first);
        assert_ne!(make(now_s + OWN_LASTS_S - OWN_RENEWED_S), first);
        // One of version 0.1 does not say when it ends, and stays.
        let kept = make(now_s);
        std::fs::remove_file(folder.join("tls/valid-until")).unwrap();
        assert_eq!(make(now_s + 10 * OWN_LASTS_S), kept);
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
