//! Files of which only lines are counted: blank, or not.
//! It does not know comments, so every line with anything on it counts as code.
#![forbid(unsafe_code)]

use super::super::cursor::Cursor;

/// Reads the whole file.
pub(super) fn scan(cursor: &mut Cursor<'_>) {
    while cursor.pos < cursor.src.len() {
        cursor.skip_spaces();
        match cursor.byte() {
            Some(b'\n') => cursor.newline(),
            Some(_) => {
                let rest = &cursor.src[cursor.pos..];
                cursor.bump(memchr::memchr(b'\n', rest).unwrap_or(rest.len()));
            }
            None => {}
        }
    }
}
