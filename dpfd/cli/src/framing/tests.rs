use super::*;

/// Reads that bring at most so many bytes each, every third one interrupted.
struct Dribble<'a> {
    bytes: &'a [u8],
    most: usize,
    calls: usize,
}

impl Read for Dribble<'_> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        self.calls += 1;
        if self.calls % 3 == 0 {
            return Err(io::ErrorKind::Interrupted.into());
        }
        let n = self.most.min(buf.len()).min(self.bytes.len());
        buf[..n].copy_from_slice(&self.bytes[..n]);
        self.bytes = &self.bytes[n..];
        Ok(n)
    }
}

fn all(framing: Framing, bytes: &[u8], most: usize) -> (Vec<Vec<u8>>, Option<Bad>) {
    let mut input = Input::new(Dribble { bytes, most, calls: 0 }, framing);
    let mut got = Vec::new();
    loop {
        match input.next() {
            Ok(Some(message)) => got.push(message.to_vec()),
            Ok(None) => return (got, None),
            Err(Bad::Read(e)) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(bad) => return (got, Some(bad)),
        }
    }
}

fn written(framing: Framing, messages: &[Vec<u8>]) -> Vec<u8> {
    let mut out = Vec::new();
    messages.iter().for_each(|m| framing.write(&mut out, m).unwrap());
    out
}

#[test]
fn what_was_written_is_read_however_it_arrives() {
    let long = vec![b'x'; 3 * CHUNK + 5];
    let lines = [b"one".to_vec(), b"".to_vec(), long.clone(), b"\0\xff\r".to_vec()];
    let any = [b"a\nb".to_vec(), b"".to_vec(), long, vec![0; 4]];
    for most in [1, 3, 4096, usize::MAX] {
        let (got, bad) = all(Framing::Lines, &written(Framing::Lines, &lines), most);
        assert!(got == lines && bad.is_none(), "lines, {most}");
        let (got, bad) = all(Framing::Prefixed, &written(Framing::Prefixed, &any), most);
        assert!(got == any && bad.is_none(), "prefixed, {most}");
        let bytes = written(Framing::Chunks, &any);
        let (got, bad) = all(Framing::Chunks, &bytes, most);
        assert!(got.concat() == bytes && bad.is_none(), "chunks, {most}");
        assert!(got.iter().all(|m| !m.is_empty() && m.len() <= CHUNK), "chunks, {most}");
    }
}

#[test]
fn a_last_line_needs_no_newline() {
    assert_eq!(all(Framing::Lines, b"a\nb", 2).0, [b"a", b"b"]);
    assert_eq!(all(Framing::Lines, b"a\n", 2).0, [b"a"]);
    assert!(all(Framing::Lines, b"", 2).0.is_empty());
}

#[test]
fn half_a_message_is_an_error_and_the_whole_ones_before_it_are_not() {
    let (got, bad) = all(Framing::Prefixed, b"\0\0\0\x02hi\0\0\0\x05abc", 4);
    assert_eq!(got, [b"hi"]);
    assert!(matches!(bad, Some(Bad::Cut { there: 7, want: 9 })), "{bad:?}");
    let (_, bad) = all(Framing::Prefixed, b"\0\0", 4);
    assert!(matches!(bad, Some(Bad::Cut { there: 2, want: 4 })), "{bad:?}");
}

#[test]
fn the_longest_message_is_16_mib() {
    let mut line = vec![b'x'; MAX_MESSAGE];
    line.push(b'\n');
    assert_eq!(all(Framing::Lines, &line, usize::MAX).0[0].len(), MAX_MESSAGE);
    line.insert(0, b'x');
    assert!(matches!(all(Framing::Lines, &line, usize::MAX), (got, Some(Bad::Line)) if got.is_empty()));
    let length = (MAX_MESSAGE as u32 + 1).to_be_bytes();
    assert!(
        matches!(all(Framing::Prefixed, &length, 4).1, Some(Bad::Long(n)) if n == MAX_MESSAGE as u32 + 1)
    );
}
