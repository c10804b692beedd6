//! What the next packet of an end is to say: who sends, and what is missing before it. Sums are kept, and the sentences made
//! when that packet is written: there may be very many pieces until then.

/// See the module.
#[derive(Debug, Default)]
pub struct Notes {
    said: Vec<String>,
    /// Bytes before the packet.
    missed: u64,
    on_tcp: u64,
}

impl Notes {
    /// A sentence; of who sends, of which there are two at most.
    pub fn say(&mut self, text: String) {
        self.said.push(text);
    }

    /// So many bytes were missed, one at least. Whether a gap begins with them; else they belong to one that was told.
    pub fn missed(&mut self, bytes: u64) -> bool {
        let begins = self.missed == 0;
        self.missed = self.missed.saturating_add(bytes);
        begins
    }

    /// So many bytes went over TCP.
    pub fn went_over_tcp(&mut self, bytes: u64) {
        self.on_tcp = self.on_tcp.saturating_add(bytes);
    }

    /// The comment of the packet that is written now.
    pub fn take(&mut self) -> Option<String> {
        let Notes { mut said, missed, on_tcp } = std::mem::take(self);
        if missed > 0 {
            said.push(format!("{missed} bytes before this were missed"));
        }
        if on_tcp > 0 {
            said.push(format!("{on_tcp} bytes before this went over TCP, where tcpdump(8) sees them"));
        }
        (!said.is_empty()).then(|| said.join("; "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn however_many_pieces_are_missing_they_are_one_gap_and_one_sentence() {
        let mut notes = Notes::default();
        notes.say("sent by x".into());
        assert!(notes.missed(1));
        for _ in 0..100_000 {
            assert!(!notes.missed(2));
            notes.went_over_tcp(1);
        }
        let said = notes.take().unwrap();
        assert!(
            said.starts_with(
                "sent by x; 200001 bytes before this were missed; 100000 bytes before this went"
            ),
            "{said}"
        );
        assert!(notes.take().is_none() && notes.missed(1));
    }
}
