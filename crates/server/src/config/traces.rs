//! Who collects spans.

/// The port of OTLP over HTTP.
const PORT_DEFAULT: u16 = 4318;
const PATH_DEFAULT: &str = "/v1/traces";

/// Spans of requests.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Traces {
    /// `None`: requests are not traced.
    pub(crate) endpoint: Option<Endpoint>,
    /// One request in so many is.
    pub(crate) one_in: usize,
}

/// Whoever takes them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Endpoint {
    /// `host:port`
    pub(crate) authority: String,
    pub(crate) path: String,
}

impl Endpoint {
    /// `http://host:port/path`; port and path may be left out.
    pub(super) fn parse(text: &str) -> Option<Endpoint> {
        let rest = text.strip_prefix("http://")?;
        let (authority, path) = match rest.find('/') {
            Some(at) => rest.split_at_checked(at)?,
            None => (rest, PATH_DEFAULT),
        };
        let is_plain = |text: &str| text.chars().all(|it| it.is_ascii_graphic());
        let host_end = authority.rfind(']').unwrap_or(0);
        let has_port = authority.get(host_end..)?.contains(':');
        if authority.is_empty()
            || authority.contains('@')
            || !is_plain(authority)
            || !is_plain(path)
        {
            return None;
        }
        let authority = match has_port {
            true => authority.to_owned(),
            false => format!("{authority}:{PORT_DEFAULT}"),
        };
        let (host, port) = authority.rsplit_once(':')?;
        let is_right = !host.is_empty() && port.parse::<u16>().is_ok();
        is_right.then(|| Endpoint { path: path.to_owned(), authority })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_endpoint_is_read_whole() {
        let cases = [
            ("http://127.0.0.1:4318/v1/traces", Some(("127.0.0.1:4318", "/v1/traces"))),
            ("http://collector", Some(("collector:4318", "/v1/traces"))),
            ("http://[::1]/x", Some(("[::1]:4318", "/x"))),
            ("http://[::1]:80", Some(("[::1]:80", "/v1/traces"))),
            ("https://collector", None),
            ("collector:4318", None),
            ("http://", None),
            ("http://user@host", None),
            ("http://host:port", None),
            ("http://host/\r\nX: y", None),
        ];
        for (text, expected) in cases {
            let found = Endpoint::parse(text);
            let found = found.as_ref().map(|it| (it.authority.as_str(), it.path.as_str()));
            assert_eq!(found, expected, "{text}");
        }
    }
}
