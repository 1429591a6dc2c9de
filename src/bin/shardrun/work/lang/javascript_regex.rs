//! Where a regular expression literal of JavaScript ends.
//! It does not know whether one may stand there: the caller judges that by what came before.
#![forbid(unsafe_code)]

use super::super::cursor::is_word;

/// The place behind the literal that begins with the `/` at `start`, its flags included; nothing if the line ends first, when
/// the `/` is a division.
pub(super) fn end(src: &[u8], start: usize) -> Option<usize> {
    let mut class = false;
    let mut at = start + 1;
    loop {
        match *src.get(at)? {
            b'\n' => return None,
            b'\\' if src.get(at + 1).is_some_and(|&byte| byte != b'\n') => at += 1,
            b'[' => class = true,
            b']' => class = false,
            b'/' if !class => break,
            _ => {}
        }
        at += 1;
    }
    at += 1;
    Some(at + src[at..].iter().take_while(|&&byte| is_word(byte)).count())
}
