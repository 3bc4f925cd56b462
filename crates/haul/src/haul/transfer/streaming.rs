//! A transfer whose single file is also written to a stream.

use super::Haul;
use crate::haul::transfer::stream::Streamer;
use inhaul_session::api::error::MoveError;
use inhaul_session::api::stream_output::StreamOutput;

impl Haul {
    /// Writes the one file to `output` as well, if there is one.
    pub(crate) fn stream_to(&mut self, output: Option<StreamOutput>) -> Result<(), MoveError> {
        if let (Some(output), [object]) = (output, &self.objects[..]) {
            self.stream = Some(Streamer::start(&object.landing, output)?);
        }
        Ok(())
    }

    /// Ends the transfer when the stream can no longer be written.
    pub(super) fn check_stream(&mut self) -> Result<(), MoveError> {
        if self.stream.as_ref().is_some_and(Streamer::has_ended) { self.finish_stream() } else { Ok(()) }
    }

    /// Waits until the stream has all of its file.
    pub(crate) fn finish_stream(&mut self) -> Result<(), MoveError> {
        self.stream.take().map_or(Ok(()), Streamer::finish)
    }
}
