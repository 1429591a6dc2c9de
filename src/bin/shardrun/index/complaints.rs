//! What is said of a file that was not indexed, or not as it should be.
//! It does not know when files are indexed.
#![forbid(unsafe_code)]

use super::file::FileRef;
use super::host::{IndexError, Indexer};
use super::results::Indexed;
use crate::console::Console;
use crate::work::read::ReadError;
use shardrun::{FailureCause, StageError};
use std::io;

/// Says why a file was not indexed.
pub(crate) fn failed(file: &FileRef, error: &StageError<Indexer>, console: &mut Console) {
    match error.failure().map(|failure| failure.cause()) {
        Some(FailureCause::Host(cause)) => console.complain(file.on_disk(), cause),
        Some(FailureCause::Panicked(report)) => console.complain(file.on_disk(), report),
        _ => console.complain(file.on_disk(), error),
    }
}

/// Whether a file was not indexed because it is not there.
pub(crate) fn is_vanished(error: &StageError<Indexer>) -> bool {
    match error.failure().map(|failure| failure.cause()) {
        Some(FailureCause::Host(IndexError::Read(ReadError::Io(error)))) => error.kind() == io::ErrorKind::NotFound,
        _ => false,
    }
}

/// Says so if a file's text is not UTF-8.
pub(crate) fn odd_text(file: &FileRef, indexed: &Indexed, console: &mut Console) {
    if let Some(at) = indexed.invalid_at {
        console.complain(
            file.on_disk(),
            format_args!("not UTF-8 from byte {at} on; counted all the same, names shown as far as they are text"),
        );
    }
}
