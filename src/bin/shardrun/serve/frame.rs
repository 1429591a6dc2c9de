//! Messages on a stream of bytes, each behind headers with its length, as the Language Server Protocol frames them.
//! It does not know what is in a message.
#![forbid(unsafe_code)]

use std::io::{self, ErrorKind, Read};

/// Headers of one message, in bytes.
const HEADERS_MAX: usize = 4 << 10;
/// What is read at once.
const CHUNK: usize = 64 << 10;
const LENGTH: &[u8] = b"content-length:";
/// A longer message cannot be meant: to skip it would be to hear nothing any more.
const LENGTH_MAX: u64 = 1 << 40;

/// What comes next on a stream.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// A whole message.
    Message(Vec<u8>),
    /// One of so many bytes, which are more than may be. They are skipped.
    TooLarge(u64),
    /// No headers of a message. What follows is skipped up to where a length is said.
    Malformed(&'static str),
}

/// Cuts a stream into messages.
pub(super) struct Frames<R> {
    stream: R,
    bytes: Vec<u8>,
    /// What of `bytes` is used up.
    used: usize,
    /// What is to be skipped of a message that is too large.
    skip: u64,
    /// Whether the next length is looked for.
    lost: bool,
    limit: u64,
}

impl<R: Read> Frames<R> {
    /// Messages of more than `limit` bytes are skipped.
    pub(super) fn new(stream: R, limit: u64) -> Self {
        Frames { stream, bytes: Vec::new(), used: 0, skip: 0, lost: false, limit }
    }

    /// The next one; nothing at the end of the stream, also if it is in the middle of a message.
    pub(super) fn next(&mut self) -> io::Result<Option<Frame>> {
        loop {
            if !self.skipped()? || !self.found()? {
                return Ok(None);
            }
            match self.headers() {
                Some(Ok(length)) if length > self.limit => {
                    self.skip = length;
                    return Ok(Some(Frame::TooLarge(length)));
                }
                Some(Ok(length)) => return self.body(length as usize),
                Some(Err(why)) => {
                    self.lost = true;
                    return Ok(Some(Frame::Malformed(why)));
                }
                None if !self.fill()? => return Ok(None),
                None => {}
            }
        }
    }

    fn rest(&self) -> &[u8] {
        &self.bytes[self.used..]
    }

    /// Reads more. False at the end.
    fn fill(&mut self) -> io::Result<bool> {
        self.bytes.drain(..self.used);
        self.used = 0;
        if self.bytes.is_empty() && self.bytes.capacity() > 16 * CHUNK {
            self.bytes = Vec::new();
        }
        let filled = self.bytes.len();
        self.bytes.resize(filled + CHUNK, 0);
        let count = loop {
            match self.stream.read(&mut self.bytes[filled..]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                other => break other,
            }
        };
        self.bytes.truncate(filled + count.as_ref().copied().unwrap_or(0));
        Ok(count? > 0)
    }

    /// Skips what is left of a message that is too large. False at the end of the stream.
    fn skipped(&mut self) -> io::Result<bool> {
        while self.skip > 0 {
            let here = (self.rest().len() as u64).min(self.skip);
            self.used += here as usize;
            self.skip -= here;
            if self.skip > 0 && !self.fill()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Skips up to where a length is said, after what was no header. False at the end of the stream.
    fn found(&mut self) -> io::Result<bool> {
        while self.lost {
            let rest = self.rest();
            if let Some(at) = rest.windows(LENGTH.len()).position(|word| word.eq_ignore_ascii_case(LENGTH)) {
                self.used += at;
                self.lost = false;
            } else {
                // The word may have begun.
                self.used += rest.len().saturating_sub(LENGTH.len() - 1);
                if !self.fill()? {
                    return Ok(false);
                }
            }
        }
        Ok(true)
    }

    /// The length that the headers say, if they are there to their end.
    fn headers(&mut self) -> Option<Result<u64, &'static str>> {
        let rest = self.rest();
        let shown = &rest[..rest.len().min(HEADERS_MAX)];
        let Some(end) = shown.windows(4).position(|four| four == b"\r\n\r\n") else {
            if rest.len() < HEADERS_MAX {
                return None;
            }
            self.used += HEADERS_MAX;
            return Some(Err("headers that do not end"));
        };
        let length = length(&rest[..end]);
        self.used += end + 4;
        Some(length)
    }

    fn body(&mut self, length: usize) -> io::Result<Option<Frame>> {
        while self.rest().len() < length {
            if !self.fill()? {
                return Ok(None);
            }
        }
        let message = self.rest()[..length].to_vec();
        self.used += length;
        Ok(Some(Frame::Message(message)))
    }
}

fn length(headers: &[u8]) -> Result<u64, &'static str> {
    let mut found = None;
    for line in headers.split(|byte| *byte == b'\n') {
        let line = line.strip_suffix(b"\r").unwrap_or(line);
        let Some(colon) = line.iter().position(|byte| *byte == b':') else { return Err("a header without a colon") };
        if line[..=colon].eq_ignore_ascii_case(LENGTH) {
            let digits = line[colon + 1..].trim_ascii();
            let digits = Some(digits).filter(|digits| digits.iter().all(u8::is_ascii_digit));
            let number = digits.and_then(|digits| std::str::from_utf8(digits).ok()?.parse().ok());
            let number = number.ok_or("a length that is no number")?;
            if number > LENGTH_MAX {
                return Err("a length that cannot be meant");
            }
            if found.replace(number).is_some_and(|other| other != number) {
                return Err("two lengths");
            }
        }
    }
    found.ok_or("headers without a length")
}

/// A message with its header.
pub(super) fn framed(message: &str) -> Vec<u8> {
    format!("Content-Length: {}\r\n\r\n{message}", message.len()).into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives its bytes one by one.
    struct Drops<'a>(&'a [u8]);

    impl Read for Drops<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
            let Some((first, rest)) = self.0.split_first() else { return Ok(0) };
            (buffer[0], self.0) = (*first, rest);
            Ok(1)
        }
    }

    fn all(bytes: &[u8]) -> Vec<Frame> {
        let whole = frames(bytes);
        assert_eq!(whole, frames(Drops(bytes)));
        whole
    }

    fn frames(stream: impl Read) -> Vec<Frame> {
        let mut frames = Frames::new(stream, 10);
        std::iter::from_fn(|| frames.next().unwrap()).collect()
    }

    fn message(text: &str) -> Frame {
        Frame::Message(text.as_bytes().to_vec())
    }

    #[test]
    fn messages_are_cut_out_wherever_the_bytes_come_in_parts() {
        let bytes =
            b"Content-Length: 2\r\n\r\n{}content-length:3\r\nContent-Type: x\r\n\r\n[1]Content-Length: 0\r\n\r\n";
        assert_eq!(all(bytes), [message("{}"), message("[1]"), message("")]);
        assert_eq!(all(b"Content-Length: 5\r\n\r\nhalf"), []);
        assert_eq!(all(b"Content-Le"), []);
    }

    #[test]
    fn what_is_too_large_is_skipped() {
        let bytes = b"Content-Length: 11\r\n\r\n01234567890Content-Length: 1\r\n\r\n7";
        assert_eq!(all(bytes), [Frame::TooLarge(11), message("7")]);
    }

    #[test]
    fn after_what_is_no_header_the_next_message_is_found() {
        for (bad, why) in [
            ("Content-Length: x\r\n\r\nbody", "a length that is no number"),
            ("Content-Length: -1\r\n\r\n", "a length that is no number"),
            ("Content-Length: +1\r\n\r\n", "a length that is no number"),
            ("Content-Length:\r\n\r\n", "a length that is no number"),
            ("Content-Length: 99999999999999999999\r\n\r\n", "a length that is no number"),
            ("Content-Length: 18446744073709551615\r\n\r\n", "a length that cannot be meant"),
            ("Content-Length: 1\r\nContent-Length: 2\r\n\r\n", "two lengths"),
            ("X: 1\r\n\r\n{}", "headers without a length"),
            ("{\"jsonrpc\":\"2.0\"}\r\n\r\n", "headers without a length"),
            ("nothing\r\n\r\n", "a header without a colon"),
            (&"a".repeat(3 * HEADERS_MAX), "headers that do not end"),
        ] {
            let bytes = format!("{bad}Content-Length: 2\r\n\r\n{{}}");
            assert_eq!(all(bytes.as_bytes()), [Frame::Malformed(why), message("{}")], "{bad}");
        }
    }
}
