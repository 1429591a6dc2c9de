//! What a command printed: kept up to a limit, watched for a word, and cut into lines.
//! It does not know commands, nor where the text is shown.
#![forbid(unsafe_code)]

use std::collections::VecDeque;

/// A line that is longer is cut.
const LINE_BYTES_MAX: usize = 64 << 10;

/// The beginning and the end of an output.
#[derive(Default)]
pub(super) struct Capture {
    head: Vec<u8>,
    tail: VecDeque<u8>,
    left_out: u64,
}

impl Capture {
    /// Takes more in. At most `limit` bytes are kept: the first half of them, and the last.
    pub(super) fn push(&mut self, bytes: &[u8], limit: usize) {
        let room = (limit / 2).saturating_sub(self.head.len()).min(bytes.len());
        // Once something is in the tail, the head is full.
        self.head.extend_from_slice(&bytes[..room]);
        let rest = &bytes[room..];
        if rest.is_empty() {
            return;
        }
        let tail_max = limit - limit / 2;
        let kept = &rest[rest.len().saturating_sub(tail_max)..];
        let over = (self.tail.len() + kept.len()).saturating_sub(tail_max);
        self.tail.drain(..over);
        self.tail.extend(kept);
        self.left_out += (over + rest.len() - kept.len()) as u64;
    }

    pub(super) fn is_empty(&self) -> bool {
        self.head.is_empty()
    }

    pub(super) fn len(&self) -> usize {
        self.head.len() + self.tail.len()
    }

    /// The output, with a line end at its end, and a line where something is left out.
    pub(super) fn write(&self, into: &mut Vec<u8>) {
        into.extend_from_slice(&self.head);
        if self.left_out > 0 {
            end_line(into);
            into.extend_from_slice(
                format!("shardrun: {} bytes of output are left out here\n", self.left_out).as_bytes(),
            );
        }
        let (first, second) = self.tail.as_slices();
        into.extend_from_slice(first);
        into.extend_from_slice(second);
        end_line(into);
    }
}

fn end_line(text: &mut Vec<u8>) {
    if text.last().is_some_and(|last| *last != b'\n') {
        text.push(b'\n');
    }
}

/// Looks for a text in what comes piece by piece.
pub(super) struct Needle {
    text: Vec<u8>,
    /// The end of what came, too short to hold the text.
    last: Vec<u8>,
}

impl Needle {
    pub(super) fn new(text: &str) -> Self {
        Self { text: text.as_bytes().to_vec(), last: Vec::new() }
    }

    /// Whether it has come by now.
    pub(super) fn found_in(&mut self, bytes: &[u8]) -> bool {
        self.last.extend_from_slice(bytes);
        let found = memchr::memmem::find(&self.last, &self.text).is_some();
        let keep = self.last.len().min(self.text.len() - 1);
        self.last.drain(..self.last.len() - keep);
        found
    }
}

/// Cuts into lines what comes piece by piece.
#[derive(Default)]
pub(super) struct Lines {
    begun: Vec<u8>,
}

impl Lines {
    /// Calls `line` for every line that is whole by now, its end included.
    pub(super) fn push(&mut self, bytes: &[u8], mut line: impl FnMut(&[u8])) {
        for piece in bytes.split_inclusive(|byte| *byte == b'\n') {
            self.begun.extend_from_slice(piece);
            if piece.ends_with(b"\n") || self.begun.len() >= LINE_BYTES_MAX {
                end_line(&mut self.begun);
                line(&self.begun);
                self.begun.clear();
            }
        }
    }

    /// There will be no more: what has no end yet gets one.
    pub(super) fn finish(&mut self, line: impl FnOnce(&[u8])) {
        end_line(&mut self.begun);
        if !self.begun.is_empty() {
            line(&self.begun);
            self.begun.clear();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(capture: &Capture) -> String {
        let mut text = Vec::new();
        capture.write(&mut text);
        String::from_utf8(text).unwrap()
    }

    #[test]
    fn the_beginning_and_the_end_are_kept() {
        for piece in [1, 3, 7, 100] {
            let mut capture = Capture::default();
            let all: Vec<u8> = (b'a'..=b'z').collect();
            all.chunks(piece).for_each(|piece| capture.push(piece, 8));
            assert_eq!(text(&capture), "abcd\nshardrun: 18 bytes of output are left out here\nwxyz\n", "by {piece}");
            assert_eq!(capture.len(), 8);
        }
        let mut whole = Capture::default();
        whole.push(b"abcd\n", 8);
        assert_eq!((text(&whole).as_str(), text(&Capture::default()).as_str()), ("abcd\n", ""));
    }

    #[test]
    fn a_text_is_found_across_pieces() {
        for piece in 1..9 {
            let mut needle = Needle::new("ready");
            let found: Vec<bool> = b"rearready.".chunks(piece).map(|piece| needle.found_in(piece)).collect();
            assert_eq!(found.iter().filter(|found| **found).count(), 1, "by {piece}: {found:?}");
        }
    }

    #[test]
    fn lines_are_cut_at_their_ends() {
        let (mut lines, mut seen) = (Lines::default(), Vec::new());
        for piece in ["a\nb", "c\n\nd"] {
            lines.push(piece.as_bytes(), |line| seen.push(String::from_utf8(line.to_vec()).unwrap()));
        }
        lines.finish(|line| seen.push(String::from_utf8(line.to_vec()).unwrap()));
        assert_eq!(seen, ["a\n", "bc\n", "\n", "d\n"]);
    }
}
