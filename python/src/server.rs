//! Servers.

use std::net::{SocketAddr, ToSocketAddrs};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use inhaul::{Server, Stop};
use pyo3::prelude::*;

use crate::common::{rate, usage};
use crate::job::{Made, PyJob};
use crate::outside::Outside;

/// A server for tests and for programs that offer data: see `inhaul.Server`.
#[pyclass(name = "Server", module = "inhaul._inhaul", frozen)]
pub(crate) struct PyServer {
    /// `None` when it was stopped.
    server: Mutex<Option<Outside<Server>>>,
}

impl PyServer {
    fn with<T>(&self, look: impl FnOnce(&Server) -> T) -> PyResult<T> {
        let server = self.server.lock().unwrap_or_else(PoisonError::into_inner);
        server.as_ref().map(|server| look(server)).ok_or_else(|| usage("the server has ended"))
    }
}

/// An address and its port. The interface of an address of a link may have a name, which the system's resolver knows:
/// `[fe80::1%eth0]:4321`.
fn address(text: &str) -> Option<SocketAddr> {
    let in_zone = || {
        let (host, port) = text.strip_prefix('[')?.split_once("]:")?;
        let port: u16 = port.parse().ok()?;
        (host, port).to_socket_addrs().ok()?.next().filter(|_| host.contains('%'))
    };
    text.parse().ok().or_else(in_zone)
}

#[pymethods]
impl PyServer {
    /// Starts one.
    #[staticmethod]
    fn start(
        py: Python<'_>,
        paths: Vec<(Option<String>, PathBuf)>,
        listen: &str,
        public: bool,
        state: Option<PathBuf>,
        send_rate: Option<String>,
    ) -> PyResult<PyJob> {
        let listen = address(listen).ok_or_else(|| usage(&format!("'{listen}' is no address and port")))?;
        let mut builder = Server::builder().listen(listen);
        for (name, path) in paths {
            builder = match name {
                Some(name) => builder.offer_as(&name, path),
                None => builder.offer(path),
            };
        }
        if public {
            builder = builder.public();
        }
        if let Some(state) = state {
            builder = builder.state(state);
        }
        if let Some(limit) = rate(send_rate.as_deref())? {
            builder = builder.send_rate(limit);
        }
        PyJob::begin(py, Stop::new(), move |_| {
            let server = Outside::new(builder.start()?);
            let made: Made = Box::new(move |py| Ok(Py::new(py, Self { server: Mutex::new(Some(server)) })?.into_any()));
            Ok(made)
        })
    }

    /// Where it listens.
    #[getter]
    fn address(&self) -> PyResult<String> {
        self.with(|server| server.address().to_string())
    }

    /// The address of a path.
    fn address_of(&self, path: &str) -> PyResult<String> {
        self.with(|server| server.address_of(path))
    }

    /// Ends it, unless it is another process's.
    fn stop(&self, py: Python<'_>) -> PyResult<PyJob> {
        let server = self.server.lock().unwrap_or_else(PoisonError::into_inner).take();
        let server = server.and_then(Outside::into_inner);
        PyJob::begin(py, Stop::new(), move |_| {
            server.map_or(Ok(()), Server::stop)?;
            let made: Made = Box::new(|py| Ok(py.None()));
            Ok(made)
        })
    }
}
