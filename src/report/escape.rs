//! Text as the strings of JSON and of DOT.
//! It does not know the documents that the strings stand in.
#![forbid(unsafe_code)]

use std::fmt::{self, Write};

/// Shows a text as a JSON string, quotes included.
pub(crate) struct Json<'a>(pub(crate) &'a str);

impl fmt::Display for Json<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for c in self.0.chars() {
            match c {
                '"' => f.write_str("\\\"")?,
                '\\' => f.write_str("\\\\")?,
                '\n' => f.write_str("\\n")?,
                // U+2028 and U+2029 end lines in JavaScript, into which such documents get pasted.
                '\0'..='\x1f' | '\u{2028}' | '\u{2029}' => write!(f, "\\u{:04x}", u32::from(c))?,
                _ => f.write_char(c)?,
            }
        }
        f.write_char('"')
    }
}

/// Shows a text as a quoted string of DOT. A backslash is shown as itself and never begins an escape; NUL and the carriage return,
/// which DOT has no place for, become their pictures, so that different names stay different.
pub(crate) struct Dot<'a>(pub(crate) &'a str);

impl fmt::Display for Dot<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        for c in self.0.chars() {
            match c {
                '"' => f.write_str("\\\"")?,
                '\\' => f.write_str("\\\\")?,
                '\n' => f.write_str("\\n")?,
                '\r' => f.write_char('\u{240d}')?,
                '\0' => f.write_char('\u{2400}')?,
                _ => f.write_char(c)?,
            }
        }
        f.write_char('"')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quotes_backslashes_and_controls_are_escaped() {
        assert_eq!(Json("a\"b\\c\n\x01é\u{2028}").to_string(), "\"a\\\"b\\\\c\\n\\u0001é\\u2028\"");
        assert_eq!(Dot("a\"b\\c\n\0\ré").to_string(), "\"a\\\"b\\\\c\\n\u{2400}\u{240d}é\"");
    }
}
