//! What the fuzzer's bytes decide, one choice after the other.

/// The bytes that no choice has used yet.
#[derive(Debug)]
pub struct Input<'a>(pub &'a [u8]);

impl<'a> Input<'a> {
    /// The next choice of several; nothing: the run is over.
    pub fn choice(&mut self) -> Option<u8> {
        let (&first, rest) = self.0.split_first()?;
        self.0 = rest;
        Some(first)
    }

    /// The next byte; 0 where none is left.
    pub fn byte(&mut self) -> u8 {
        self.choice().unwrap_or(0)
    }

    /// As above, of two bytes.
    pub fn half(&mut self) -> u16 {
        u16::from_be_bytes([self.byte(), self.byte()])
    }

    /// As above, of four.
    pub fn word(&mut self) -> u32 {
        u32::from(self.half()) << 16 | u32::from(self.half())
    }

    /// As above, of eight.
    pub fn double(&mut self) -> u64 {
        u64::from(self.word()) << 32 | u64::from(self.word())
    }

    /// The next bytes: how many, the first one says.
    pub fn bytes(&mut self) -> &'a [u8] {
        let n = usize::from(self.byte()).min(self.0.len());
        let (bytes, rest) = self.0.split_at(n);
        self.0 = rest;
        bytes
    }

    /// Nanoseconds, from few to many: 0 to 15 microseconds, half a millisecond, and so on up to half a minute.
    pub fn time(&mut self) -> u64 {
        let byte = self.byte();
        u64::from(byte & 15)
            * [1_000, 33_000, 1_000_000, 50_000_000, 300_000_000, 2_000_000_000][usize::from(byte >> 4) % 6]
    }
}
