//! Patterns for names and paths: `*` is any run of bytes, `?` any one byte, the rest stands for itself.

use std::fmt;

/// The longest pattern, in bytes.
pub const MAX_PATTERN: usize = 63;

/// A pattern of 1 to [`MAX_PATTERN`] bytes, without pointers. `*` matches every name.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Pattern {
    bytes: [u8; MAX_PATTERN],
    len: u8,
}

impl Pattern {
    /// `*`: every program.
    pub const ANY: Pattern = {
        let mut bytes = [0; MAX_PATTERN];
        bytes[0] = b'*';
        Pattern { bytes, len: 1 }
    };

    /// Keeps a pattern for names; None if it is empty, too long, or has a character that no rule can carry
    /// (white space, control characters, `;`, `#`) or no name has (`/`).
    pub fn new(text: &str) -> Option<Pattern> {
        Pattern::path(text).filter(|_| !text.contains('/'))
    }

    /// The same for paths.
    pub fn path(text: &str) -> Option<Pattern> {
        let unfit = |c: char| c.is_whitespace() || c.is_control() || matches!(c, ';' | '#');
        if text.is_empty() || text.len() > MAX_PATTERN || text.contains(unfit) {
            return None;
        }
        let mut bytes = [0; MAX_PATTERN];
        bytes[..text.len()].copy_from_slice(text.as_bytes());
        // The length was checked against a limit below 256.
        Some(Pattern { bytes, len: text.len() as u8 })
    }

    /// Whether the whole name matches; `*` stands for `/`, too. Time grows with the product of the lengths at worst.
    pub fn matches(&self, name: &[u8]) -> bool {
        let pattern = self.as_bytes();
        let (mut p, mut n) = (0, 0);
        // Where to take up again on a mismatch: behind the last star, and one byte further in the name.
        let mut retry: Option<(usize, usize)> = None;
        while n < name.len() {
            match pattern.get(p) {
                Some(b'*') => {
                    retry = Some((p + 1, n));
                    p += 1;
                }
                Some(&byte) if byte == b'?' || byte == name[n] => {
                    p += 1;
                    n += 1;
                }
                _ => match retry {
                    Some((after_star, start)) => {
                        retry = Some((after_star, start + 1));
                        (p, n) = (after_star, start + 1);
                    }
                    None => return false,
                },
            }
        }
        pattern[p..].iter().all(|&byte| byte == b'*')
    }

    fn as_bytes(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }
}

impl fmt::Display for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        // A pattern was made from text, so nothing is lost here.
        f.write_str(std::str::from_utf8(self.as_bytes()).unwrap_or_default())
    }
}

impl fmt::Debug for Pattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Pattern({self})")
    }
}
