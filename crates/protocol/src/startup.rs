//! What STARTUP agrees on.

use crate::compression::Compression;
use crate::error::ProtocolError;
use crate::maps::StringMap;
use crate::version::Version;

/// The choices of a client that the connection must honour. Other options are read from the map
/// itself: `DRIVER_NAME`, `DRIVER_VERSION`, `APPLICATION_NAME`, `CLIENT_ID`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct StartupChoice {
    /// The compression of both directions.
    pub compression: Option<Compression>,
    /// The client rather gets an OVERLOADED error than waits.
    pub throw_on_overload: bool,
    /// The client wants to be told by answers which node it should have asked.
    pub learns_routes: bool,
}

/// The extension of ScyllaDB by which answers tell which node to ask, as SUPPORTED and STARTUP name it.
pub const TABLETS_ROUTING: &str = "TABLETS_ROUTING_V1";

impl StartupChoice {
    /// What the options of a STARTUP ask for, in Cassandra's order of checks.
    pub fn from_options(
        options: &StringMap<'_>,
        version: Version,
    ) -> Result<StartupChoice, ProtocolError> {
        let cql_version = options.get("CQL_VERSION").ok_or(ProtocolError::MissingCqlVersion)?;
        check_cql_version(cql_version)?;
        let compression = match options.get("COMPRESSION") {
            None => None,
            Some(name) if name.eq_ignore_ascii_case("lz4") => Some(Compression::Lz4),
            Some(name) if name.eq_ignore_ascii_case("snappy") => {
                if version >= Version::V5 {
                    return Err(ProtocolError::SnappyTooLate);
                }
                Some(Compression::Snappy)
            }
            Some(name) => {
                return Err(ProtocolError::UnknownCompression { name: name.to_lowercase() });
            }
        };
        let throw_on_overload = options.get("THROW_ON_OVERLOAD") == Some("1");
        let learns_routes = options.get(TABLETS_ROUTING).is_some();
        Ok(StartupChoice { compression, throw_on_overload, learns_routes })
    }
}

/// Any version from 2.99 on will do: `major.minor`, perhaps followed by a patch and labels.
fn check_cql_version(version: &str) -> Result<(), ProtocolError> {
    let number = |part: Option<&str>| part.and_then(|digits| digits.parse::<u32>().ok());
    let release = version.split(['-', '~', '+']).next().unwrap_or_default();
    let mut parts = release.split('.');
    let (major, minor) = (number(parts.next()), number(parts.next()));
    match (major, minor) {
        (Some(major), Some(minor)) if (major, minor) >= (2, 99) => Ok(()),
        (Some(_), Some(_)) => {
            Err(ProtocolError::UnsupportedCqlVersion { version: version.to_owned() })
        }
        (None, _) | (_, None) => {
            Err(ProtocolError::InvalidCqlVersion { version: version.to_owned() })
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::maps::MapBuilder;

    fn check(options: &[(&str, &str)], version: Version, expected: &str) {
        let mut builder = MapBuilder::new();
        for (key, value) in options {
            builder.string(key, value);
        }
        let got = match StartupChoice::from_options(&builder.string_map(), version) {
            Ok(choice) => format!("{:?} {}", choice.compression, choice.throw_on_overload),
            Err(error) => error.to_string(),
        };
        assert_eq!(got, expected, "{options:?}");
    }

    #[test]
    fn startup_is_judged_as_cassandra_does() {
        let cql = ("CQL_VERSION", "3.0.0");
        check(&[cql], Version::V5, "None false");
        check(&[("cql_version", "3.4.7")], Version::V3, "None false");
        check(&[cql, ("COMPRESSION", "LZ4")], Version::V5, "Some(Lz4) false");
        check(&[cql, ("COMPRESSION", "snappy")], Version::V4, "Some(Snappy) false");
        check(&[cql, ("THROW_ON_OVERLOAD", "1")], Version::V4, "None true");
        check(
            &[cql, ("COMPRESSION", "snappy")],
            Version::V5,
            "Snappy compression is not supported in protocol V5",
        );
        check(&[cql, ("COMPRESSION", "FOO")], Version::V4, "Unknown compression algorithm: foo");
        check(&[], Version::V4, "Missing value CQL_VERSION in STARTUP message");
        check(
            &[("CQL_VERSION", "2.0.0")],
            Version::V4,
            "CQL version 2.0.0 is not supported by the binary protocol \
             (supported version are >= 3.0.0)",
        );
        check(&[("CQL_VERSION", "xx")], Version::V4, "Invalid version value: xx");
    }
}
