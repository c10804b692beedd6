//! Receiving for a gateway that looks at several endpoints in turns, and at other things between: while it looks nobody rings,
//! which would be a call of the kernel for each message at either end.

use super::drain::Drain;
use super::endpoint::UserEndpoint;
use crate::edge::wake::Event;
use crate::error::Result;
use crate::sys::loaned::Got;

impl UserEndpoint {
    /// The next message, if one is in an edge. From now on the descriptor does not tell of those that come there: whoever
    /// calls this calls it again and again, and [`UserEndpoint::rest`] before it stops. What senders put on the descriptor is
    /// told as ever, and taken by [`UserEndpoint::recv_now`].
    ///
    /// # Errors
    ///
    /// As [`UserEndpoint::try_recv`].
    pub fn recv_looking(&self, fd: i32) -> Result<Option<Got>> {
        let Some(inbox) = self.inbox.get() else { return Ok(None) };
        let mut rx = self.rx();
        rx.wake.go(Event::Look, inbox.arm());
        let got = self.next(&mut rx, fd)?;
        match &got {
            Some(got) => {
                rx.peer = got.from();
                rx.immediate = if got.has_immediate() { rx.tokens.immediate(got.number) } else { None };
            }
            None if !rx.tokens.returned.is_nothing() => self.give_back(&mut rx),
            None => {}
        }
        Ok(got)
    }

    /// The next message, if one is in an edge. What senders were asked for stays as it is: those that ring have rung, and a bell that
    /// was for this message is heard in vain. Where the look had to take bells off the descriptor, or is the first, it asks for others
    /// when nothing is left: who rang once does not ring again. For a gateway whose senders step it, until there is none.
    ///
    /// # Errors
    ///
    /// As [`UserEndpoint::try_recv`].
    pub fn recv_aside(&self, fd: i32) -> Result<Option<Got>> {
        let mut rx = self.rx();
        loop {
            if let Some(got) = self.next(&mut rx, fd)? {
                rx.peer = got.from();
                rx.immediate = if got.has_immediate() { rx.tokens.immediate(got.number) } else { None };
                return Ok(Some(got));
            }
            if !rx.tokens.returned.is_nothing() {
                self.give_back(&mut rx);
            }
            if rx.wake.is_settled() || !self.settle(&mut rx, fd, Drain::Some)? {
                return Ok(None);
            }
        }
    }

    /// The descriptor tells of messages again. Whether one is there.
    ///
    /// # Errors
    ///
    /// As [`UserEndpoint::try_recv`].
    pub fn rest(&self, fd: i32) -> Result<bool> {
        let mut rx = self.rx();
        self.settle(&mut rx, fd, Drain::Some)
    }
}
