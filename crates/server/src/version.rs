//! Which Helenus this is.

/// The version.
pub(crate) const VERSION: &str = env!("CARGO_PKG_VERSION");

/// The commit it was built from, as far as the build knew it.
pub(crate) const COMMIT: &str = env!("BUILD_COMMIT");

/// All of it: version, commit, profile and target.
pub(crate) const LONG: &str =
    concat!(env!("CARGO_PKG_VERSION"), " (", env!("BUILD_COMMIT"), ", ", env!("BUILD_KIND"), ")");
