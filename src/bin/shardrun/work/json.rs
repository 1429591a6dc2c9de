//! Writes text and bytes as JSON strings.
//! It does not know the shape of any document.
#![forbid(unsafe_code)]

/// Appends `text` as a JSON string. What is not UTF-8 becomes the replacement character.
pub(crate) fn string(out: &mut String, text: &[u8]) {
    out.push('"');
    for chunk in text.utf8_chunks() {
        escape(out, chunk.valid());
        if !chunk.invalid().is_empty() {
            out.push(char::REPLACEMENT_CHARACTER);
        }
    }
    out.push('"');
}

fn escape(out: &mut String, text: &str) {
    let mut plain = 0;
    for (at, byte) in text.bytes().enumerate() {
        if byte >= 0x20 && byte != b'"' && byte != b'\\' {
            continue;
        }
        out.push_str(&text[plain..at]);
        plain = at + 1;
        match byte {
            b'"' => out.push_str("\\\""),
            b'\\' => out.push_str("\\\\"),
            b'\n' => out.push_str("\\n"),
            b'\t' => out.push_str("\\t"),
            _ => {
                out.push_str("\\u00");
                hex(out, &[byte]);
            }
        }
    }
    out.push_str(&text[plain..]);
}

/// Appends bytes in hexadecimal.
pub(crate) fn hex(out: &mut String, bytes: &[u8]) {
    const DIGITS: [u8; 16] = *b"0123456789abcdef";
    for chunk in bytes.chunks(32) {
        let mut digits = [b'0'; 64];
        for (pair, byte) in digits.chunks_mut(2).zip(chunk) {
            pair.copy_from_slice(&[DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
        }
        out.push_str(std::str::from_utf8(&digits[..2 * chunk.len()]).unwrap_or_default());
    }
}

#[cfg(test)]
mod tests {
    #[test]
    fn strings_are_escaped() {
        let mut out = String::new();
        super::string(&mut out, b"a\"\\\n\x01\xc3\xa9\xff/\x7f");
        assert_eq!(out, "\"a\\\"\\\\\\n\\u0001é\u{fffd}/\u{7f}\"");
    }
}
