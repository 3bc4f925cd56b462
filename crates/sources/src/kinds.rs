//! The kinds of sources that are read by ranges, by the schemes of their URLs.

use std::sync::Arc;

use inhaul_session::api::error::MoveError;
use inhaul_session::api::source::Server;
use inhaul_session::api::trust::Trust;
use inhaul_store::Manifest;

use crate::ranges::RangeSource;

/// Opens the source that `url` names: what it has, as far as it knows, and the source.
///
/// # Errors
/// When it cannot be read, or has no such file.
pub(crate) fn open(server: &Server, url: &str, trust: &Trust) -> Result<(Manifest, Arc<dyn RangeSource>), MoveError> {
    if let Some(path) = url.strip_prefix("file://") {
        return crate::local::open(server, path);
    }
    if ["http://", "https://", "s3://"].iter().any(|scheme| url.starts_with(scheme)) {
        return crate::http::open(server, url, trust);
    }
    #[cfg(any(test, feature = "testing"))]
    if let Some(name) = url.strip_prefix("fake://") {
        return crate::fake::open(server, name);
    }
    Err(MoveError::Unreachable { server: server.clone(), detail: format!("no such kind of source: {url}") })
}
