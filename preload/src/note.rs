//! Which version this library is, in its file: `dp ls` reads it of programs that have no family yet.

use dp_channel::family::{NOTE, SHIM};

/// An ELF note: lengths of name and text, the type, the name, the text.
#[repr(C, align(4))]
struct Note {
    lengths: [u32; 2],
    kind: u32,
    name: [u8; 8],
    text: [u8; 24],
}

const fn padded<const N: usize>(from: &[u8]) -> [u8; N] {
    let mut to = [0; N];
    let mut i = 0;
    while i < from.len() && i < N {
        to[i] = from[i];
        i += 1;
    }
    to
}

#[used]
#[link_section = ".note.dp"]
static VERSION: Note =
    Note { lengths: [NOTE.len() as u32, 24], kind: 1, name: padded(NOTE), text: padded(SHIM.as_bytes()) };

const _: () = assert!(NOTE.len() > 4 && NOTE.len() <= 8 && SHIM.len() < 24);
