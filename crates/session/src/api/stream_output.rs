//! The output for a file that is written in order, as its bytes are verified.

use std::fs::File;
use std::io::{self, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use inhaul_base::format_bytes;

use crate::api::error::MoveError;

/// Where a file is written in order while it comes. Clones share it.
#[derive(Clone, Debug)]
pub struct StreamOutput {
    output: Arc<File>,
    written_bytes: Arc<AtomicU64>,
}

impl StreamOutput {
    /// A pipe, a device, or whatever else takes bytes in order.
    pub fn new(output: File) -> Self {
        Self { output: Arc::new(output), written_bytes: Arc::default() }
    }

    /// Bytes that have been written, all of them verified.
    pub fn written_bytes(&self) -> u64 {
        self.written_bytes.load(Ordering::Relaxed)
    }

    /// Writes all of them.
    pub fn write(&self, bytes: &[u8]) -> Result<(), MoveError> {
        (&*self.output).write_all(bytes).map_err(|error| {
            let written = format_bytes(self.written_bytes());
            let what = match error.kind() {
                io::ErrorKind::BrokenPipe => "whoever read the stream has closed it".to_owned(),
                _ => format!("the stream cannot be written: {error}"),
            };
            let detail = format!("{what}; {written} were written before");
            match error.kind() {
                io::ErrorKind::StorageFull => MoveError::NoSpace { detail },
                _ => MoveError::Destination { detail },
            }
        })?;
        self.written_bytes.fetch_add(bytes.len() as u64, Ordering::Relaxed);
        Ok(())
    }
}
