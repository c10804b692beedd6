// SPDX-License-Identifier: GPL-2.0

//! Sending to another node: nothing waits for room there, and what is lost is lost.

use kernel::prelude::*;

use crate::{abi, endpoint::Endpoint, frame::REMOTE_MAX, sender::Tx, source::Source};

impl Endpoint {
    /// Sends one message to another node that is in this kernel, if that takes no more than almost every one does.
    #[inline(never)]
    pub(crate) fn send_away_at_once(
        &self,
        tx: &mut Tx,
        from: u32,
        to: abi::Addr,
        len: usize,
        fill: &mut dyn FnMut(*mut u8) -> bool,
    ) -> bool {
        let sent = len <= REMOTE_MAX as usize
            && self.table.network.send_at_once(&mut tx.away, from, self.uid, to, len as u32, fill);
        if sent {
            tx.count_sent(from, to, len as u64);
        }
        sent
    }

    /// Sends one message to another node.
    pub(crate) fn send_away(
        &self,
        from: u32,
        to: abi::Addr,
        mut source: Source<'_, '_>,
        len: usize,
    ) -> Result<usize> {
        if len > REMOTE_MAX as usize {
            return Err(EMSGSIZE);
        }
        let network = &self.table.network;
        let whole = match &mut source {
            Source::Iter(message) => network.send_whole(from, self.uid, to, message),
            _ => None,
        };
        let mut tx = if let Some(sent) = whole {
            sent?;
            self.tx.lock()
        } else {
            // Its parts go one after the other, while no page has to be waited for.
            let source = source.fetch(len)?;
            let tx = self.tx.lock();
            source.with_iter(len, |message| network.send(from, self.uid, to, message))?;
            tx
        };
        tx.count_sent(from, to, len as u64);
        Ok(len)
    }
}
