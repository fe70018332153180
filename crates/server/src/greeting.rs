//! What a node says when it has started: what runs, where, and a command that connects to it.

use std::fmt::Write as _;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::path::Path;

use roles::DEFAULT_SUPERUSER;

use crate::facts::RELEASE_VERSION;

/// What it depends on.
pub(crate) struct Greeting<'a> {
    /// Where the node listens.
    pub(crate) listens: SocketAddr,
    /// Where others reach it, if it listens everywhere.
    pub(crate) from_elsewhere: Option<IpAddr>,
    pub(crate) folder: &'a Path,
    /// The certificate that clients are to trust, where they must speak TLS.
    pub(crate) certificate: Option<&'a Path>,
    pub(crate) requires_login: bool,
    /// The password of the first superuser, if it was made just now.
    pub(crate) account_key: Option<&'a str>,
    /// Where the dashboard is, if there is one.
    pub(crate) dashboard: Option<SocketAddr>,
}

impl Greeting<'_> {
    /// A few lines. An account key is their last word.
    pub(crate) fn text(&self) -> String {
        let version = crate::version::VERSION;
        let listens = self.listens;
        let mut text = format!(
            "Helenus {version}, compatible with Cassandra {RELEASE_VERSION}\n\
             listening on {listens}\n\
             data in {}\n\
             connect with: {}\n\
             or with: {}\n",
            self.folder.display(),
            self.shell(near(listens.ip())),
            self.command(near(listens.ip()))
        );
        if let Some(address) = self.from_elsewhere.filter(|_| listens.ip().is_unspecified()) {
            let _ = writeln!(text, "from elsewhere: {}", self.command(address));
        }
        if let Some(at) = self.dashboard {
            let at = SocketAddr::new(near(at.ip()), at.port());
            let _ = writeln!(text, "dashboard: http://{at}/");
        }
        text.push_str("stop with Ctrl-C\n");
        if let Some(key) = self.account_key {
            let _ = writeln!(
                text,
                "the account key, shown this once: log in as {DEFAULT_SUPERUSER} with {key}"
            );
        }
        text
    }

    /// The shell that is in the binary; it asks for the password.
    fn shell(&self, host: IpAddr) -> String {
        let address = SocketAddr::new(host, self.listens.port());
        let tls = match self.certificate {
            Some(path) => format!(" --ca {}", quoted(&path.display().to_string())),
            None => String::new(),
        };
        let login = match self.requires_login {
            true => format!(" -u {DEFAULT_SUPERUSER}"),
            false => String::new(),
        };
        format!("helenus cql {address}{tls}{login}")
    }

    /// What connects, as it can be pasted into a shell; cqlsh asks for the password.
    fn command(&self, host: IpAddr) -> String {
        let port = self.listens.port();
        let tls = match self.certificate {
            Some(path) => format!("SSL_CERTFILE={} ", quoted(&path.display().to_string())),
            None => String::new(),
        };
        let ssl = if self.certificate.is_some() { " --ssl" } else { "" };
        let login = match self.requires_login {
            true => format!(" -u {DEFAULT_SUPERUSER}"),
            false => String::new(),
        };
        format!("{tls}cqlsh{ssl}{login} {host} {port}")
    }
}

/// The address by which what listens there is reached on this machine.
fn near(listens: IpAddr) -> IpAddr {
    match listens {
        IpAddr::V4(v4) if v4.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(v6) if v6.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        other => other,
    }
}

/// A word as a shell takes it whatever is in it.
fn quoted(word: &str) -> String {
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "/._-+:@%".contains(c);
    match word.chars().all(is_plain) {
        true => word.to_owned(),
        false => format!("'{}'", word.replace('\'', "'\\''")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn plain(listens: &str) -> Greeting<'static> {
        Greeting {
            listens: listens.parse().unwrap(),
            from_elsewhere: Some("10.1.2.3".parse().unwrap()),
            folder: Path::new("/data"),
            certificate: None,
            requires_login: false,
            account_key: None,
            dashboard: None,
        }
    }

    #[test]
    fn the_command_names_an_address_that_is_reached() {
        let text = plain("127.0.0.2:9042").text();
        assert!(
            text.contains(
                "connect with: helenus cql 127.0.0.2:9042\nor with: cqlsh 127.0.0.2 9042\nstop"
            ),
            "{text}"
        );
        let text = plain("0.0.0.0:9042").text();
        assert!(text.contains("or with: cqlsh 127.0.0.1 9042\n"), "{text}");
        assert!(text.contains("from elsewhere: cqlsh 10.1.2.3 9042\n"), "{text}");
        let dashboard = Some("0.0.0.0:9180".parse().unwrap());
        let text = Greeting { dashboard, ..plain("0.0.0.0:9042") }.text();
        assert!(text.contains("dashboard: http://127.0.0.1:9180/\nstop"), "{text}");
        let text = plain("[::]:9042").text();
        assert!(
            text.contains("connect with: helenus cql [::1]:9042\nor with: cqlsh ::1 9042\n"),
            "{text}"
        );
    }

    #[test]
    fn tls_and_a_login_are_part_of_the_command() {
        let greeting = Greeting {
            certificate: Some(Path::new("/my data/tls/certificate.pem")),
            requires_login: true,
            account_key: Some("c0ffee"),
            ..plain("127.0.0.1:10350")
        };
        let text = greeting.text();
        let command = "connect with: helenus cql 127.0.0.1:10350 --ca '/my data/tls/certificate.pem' -u cassandra\nor with: SSL_CERTFILE='/my data/tls/certificate.pem' cqlsh --ssl -u cassandra 127.0.0.1 10350\n";
        assert!(text.contains(command), "{text}");
        assert!(text.ends_with(" with c0ffee\n"), "{text}");
    }
}
