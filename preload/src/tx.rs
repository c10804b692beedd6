//! Sending: into the ring while it has room, onto TCP when it has not (PROTOCOLS E5, E7, W1, W8-W10).
//!
//! A full ring means the receiver is slower. The sender looks for room for a short while, then hands the
//! direction back to TCP, whose buffers are large and whose blocking, EPOLLOUT and timeouts are the
//! kernel's own truth; once the receiver has caught up, the direction goes back into the ring. So there
//! are no bells for space, and writability never has to be faked.

pub mod back;
pub mod behind;
mod bell;
mod chaos;
pub mod gone;
mod kernel;
pub mod left;
pub mod over;
pub mod owed;
mod room;
#[cfg(test)]
mod tests;

use core::sync::atomic::{fence, Ordering};

use dp_channel::arena::SHORT as SHORT_LINES;
use dp_channel::bell::Owed;
use dp_channel::family::{Conn, End, Held, Reason, Stage};
use dp_channel::stream::{self, Sink};
use dp_channel::switch::{in_ring, OWN, SHORT};
use dp_channel::tcp;
use dp_edge::ring::{Cursor, Lines};
use dp_edge::{ring, Error};

use self::gone::Gone;
use self::kernel::Rest;
use self::room::{room, Limit};
use crate::channel::Channel;
use crate::inside::brief::briefly;
use crate::inside::Inside;
use crate::walk::Walk;
use crate::{events, fdtable, inside, signals, state};

/// Flags a channel serves; a call with others hands the direction back first.
pub const FLAGS: i32 = libc::MSG_DONTWAIT | libc::MSG_NOSIGNAL | libc::MSG_MORE | libc::MSG_EOR;

/// What a call is to do under the sender's lock.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Call {
    /// A send, with its flags.
    Send(i32),
    /// One whose bytes only the kernel can move.
    ByKernel,
}

impl Call {
    /// Whether a channel serves it.
    fn is_served(self) -> bool {
        matches!(self, Call::Send(flags) if flags & !FLAGS == 0)
    }

    /// Whether its byte is an urgent one.
    fn is_urgent(self) -> bool {
        matches!(self, Call::Send(flags) if flags & libc::MSG_OOB != 0)
    }
}

/// Unread bytes on TCP up to which a direction may go (back) into the ring.
const NEARLY_READ: u64 = 1 << 20;

/// What is left to do after the locked part.
enum Then {
    /// Everything is in the ring.
    Done(usize),
    /// `sent` bytes are in the ring (or nowhere); the kernel takes the rest. `flight` is counted.
    Kernel(usize),
}

impl Channel {
    /// The fast path: a live ring with room, the lock free. `None`: take the long way, with all of `w`, of which nothing was taken
    /// before.
    #[inline(always)]
    pub fn quick_send(&self, entry: u32, w: &mut Walk) -> Option<usize> {
        // A channel of its own: what is stored elsewhere meanwhile cannot change it, so it stays in registers.
        let Channel { family, fd, conn } = *self;
        briefly(|| Channel { family, fd, conn }.quick_send_inside(entry, w))
    }

    #[inline(always)]
    fn quick_send_inside(&self, entry: u32, w: &mut Walk) -> Option<usize> {
        let c = self.conn;
        if c.stage() != Stage::Live {
            return None;
        }
        let tx = c.sending_unasked();
        if !in_ring(tx.tx.epoch()) || w.left() > stream::MAX_TOKEN || !c.tx_lock.try_lock(state::me()) {
            return None;
        }
        let mut done = None;
        // Asked again under the lock: another thread may have handed back, or closed the descriptor. Whoever gives the entry
        // away takes the lock once before.
        if fdtable::word(self.fd) == entry
            && in_ring(tx.tx.epoch())
            && !c.has(Conn::SHUT_WR | Conn::TX_TCP)
            // A receiver that has left reads the ring for a moment still, where what it left for, as a low-water mark, does not hold.
            && !tx.word.is_raw()
            && c.slot_live()
        {
            let mut tail = c.tail();
            let want = w.left();
            let whole = dp_edge::ring::lines_for(want);
            let ring = tx.ring();
            if want > 0
                && tail.reserve(ring.count(), whole, &tx.rx.cursor).is_ok()
                && self.listens(&tx, tail.pos)
                && (self.is_suspected() || !self.is_left_to_chaos())
            {
                match stream::push(&ring, &mut tail, &tx.rx.cursor, w) {
                    Ok(n) => {
                        c.set_tail(tail);
                        let sum = c.tx_bytes.load(Ordering::Relaxed);
                        c.tx_bytes.store(sum + n as u64, Ordering::Relaxed);
                        // A bell to nobody would take the error that the kernel has for the program.
                        if !self.is_suspected() {
                            self.published(&tx);
                        }
                        done = Some(n);
                    }
                    // The long way meets the same, with all of the bytes still to be sent: with none, it would have sent nothing.
                    Err(_) => w.rewind(),
                }
            }
        }
        c.tx_lock.unlock_to_others();
        done
    }

    /// W13: a bell, or the kernel's part of a send that succeeds all the same, took the connection's error; the program's next
    /// call shall get it. EPIPE the kernel says again, and the rest are only the call's.
    #[cold]
    pub fn keep_error_of_send(&self, e: i32) {
        let of_the_call =
            [libc::EAGAIN, libc::EINTR, libc::EPIPE, libc::EFAULT, libc::EBADF, libc::ENOMEM, libc::ENOBUFS];
        if !of_the_call.contains(&e) {
            self.error.store(e as u32, Ordering::Relaxed);
        }
    }

    /// A whole send on a connection that may be live.
    ///
    /// `kernel(w, flags)` is libc's sendmsg on what is left of `w`, blocking as the descriptor is.
    pub fn send(
        &self,
        at: &Inside,
        w: &mut Walk,
        flags: i32,
        kernel: impl Fn(&Walk, i32) -> Result<usize, i32>,
    ) -> Result<usize, i32> {
        let pending = self.error.swap(0, Ordering::Relaxed);
        if pending != 0 {
            return Err(pending as i32);
        }
        let blocking = flags & libc::MSG_DONTWAIT == 0 && !self.by(at.fd()).is_nonblocking();
        signals::begin();
        let mut sum = 0;
        // What has gone out is the result, and the error waits in the connection, as on TCP.
        let begun = |sum, e| {
            if sum == 0 {
                return Err(e);
            }
            self.keep_error_of_send(e);
            Ok(sum)
        };
        loop {
            // The program may close its number meanwhile: then it is another one.
            let c = self.by(at.fd());
            if c.has(Conn::OWES) {
                match c.wait_behind(blocking) {
                    Err(libc::EAGAIN) if at.fd() != c.fd => continue,
                    Err(e) => return begun(sum, e),
                    Ok(()) => {}
                }
            }
            match c.enter_as_sender() {
                Err(_) if at.fd() != c.fd => continue,
                Err(e) => return begun(sum, e),
                Ok(()) => {}
            }
            let then = c.send_locked(w, Call::Send(flags), blocking);
            match then {
                // A receiver that left: what follows it must wait.
                Ok(Then::Kernel(n)) if c.has(Conn::OWES) => {
                    c.tx_lock.unlock();
                    sum += n;
                }
                Ok(Then::Kernel(n)) => {
                    let result = match (blocking, sum + n > 0) {
                        (false, false) => c.in_kernel(false, || kernel(w, flags | libc::MSG_DONTWAIT)),
                        // A handler has run while this looked for room.
                        (true, false) if signals::came() => c.rest_in_kernel(w, flags, Rest::Whole, &kernel),
                        (true, false) => c.in_kernel(true, || kernel(w, flags)),
                        // The call succeeds, and nothing is to be told of the rest.
                        (_, true) => {
                            let rest = if blocking { Rest::Part } else { Rest::NoWait };
                            c.rest_in_kernel(w, flags | libc::MSG_NOSIGNAL, rest, &kernel)
                        }
                    };
                    return result.map_or_else(|e| begun(sum + n, e), |more| Ok(sum + n + more));
                }
                Ok(Then::Done(n)) => {
                    c.tx_lock.unlock_to_others();
                    return Ok(sum + n);
                }
                Err(e) => {
                    c.tx_lock.unlock();
                    if e != libc::EAGAIN || !c.has(Conn::OWES) {
                        return begun(sum, e);
                    }
                }
            }
        }
    }

    /// Does `f` under the sender's lock. `None`: this is a signal handler inside a send of its own thread, which is half
    /// done. Nothing was done then, and the caller must not wait for it.
    pub fn as_sender<R>(&self, f: impl FnOnce() -> R) -> Option<R> {
        self.enter_as_sender().ok()?;
        let result = f();
        self.tx_lock.unlock();
        Some(result)
    }

    /// Takes the sender's lock.
    fn enter_as_sender(&self) -> Result<(), i32> {
        match self.tx_lock.lock(state::me(), self.family) {
            held @ (Held::Clean | Held::Inherited) if inside::is_another(self.fd, self.family, self) => {
                self.tx_lock.unlock_as_it_was(held);
                return Err(libc::EBADF);
            }
            Held::Clean => {}
            // A signal handler inside our own send: half a token may lie there. It must not wait (L5).
            Held::Mine => return Err(libc::EAGAIN),
            Held::Inherited if self.stage() == Stage::Live => self.mend(),
            Held::Inherited => {}
        }
        Ok(())
    }

    fn send_locked(&self, w: &mut Walk, call: Call, blocking: bool) -> Result<Then, i32> {
        if self.stage() != Stage::Live {
            return Ok(Then::Kernel(0));
        }
        if self.has(Conn::OWES) {
            return Err(libc::EAGAIN);
        }
        let tx = self.sending();
        if tx.word.is_raw() {
            self.follow(&tx);
            return match self.error.swap(0, Ordering::Relaxed) {
                0 if self.has(Conn::OWES) => Err(libc::EAGAIN),
                0 => Ok(Then::Kernel(0)),
                e => Err(e as i32),
            };
        }
        let mut ring = in_ring(tx.tx.epoch());
        if call.is_urgent() {
            // An urgent byte is counted by one end and not by the other: no more switches.
            self.set(Conn::TX_TCP);
            let nothing = Cursor { pos: self.tail().pos, ..Cursor::default() };
            if ring && Cursor::unpack(tx.rx.cursor.load(Ordering::Acquire)) != nothing {
                // A bell stands for the unread bytes on TCP: where nothing lies before an urgent byte there, the next urgent byte drops it.
                self.announce(&tx);
            }
        }
        // The quick way has asked already, but for what is too long for it, or for the room that there is.
        let too_long = || {
            let lines = dp_edge::ring::lines_for(w.left());
            w.left() > stream::MAX_TOKEN
                || self.tail().reserve(tx.ring().count(), lines, &tx.rx.cursor).is_err()
        };
        let asks = ring && !self.has(Conn::SHUT_WR | Conn::TX_TCP) && w.left() > 0 && too_long();
        if asks && self.slot_live() && self.listens(&tx, self.tail().pos) && self.is_suspected() {
            // The first send to an end that is gone succeeds, and its bytes are nobody's.
            let n = w.left();
            w.skip(n);
            return Ok(Then::Done(n));
        }
        if ring && self.is_suspected() && self.probe(&tx) == Gone::Unread {
            return Err(libc::ECONNRESET);
        }
        if !call.is_served() || self.has(Conn::SHUT_WR | Conn::TX_TCP) || !self.slot_live() {
            if ring {
                self.hand_back(&tx);
            }
            return Ok(Then::Kernel(0));
        }
        if ring && self.is_forced_back() {
            // Now and then the way to a longer ring.
            match self.back.load(Ordering::Relaxed) % 8 {
                3 => self.set(Conn::NARROW),
                7 if tx.tx.ring() == OWN => self.ask_for_longer(&tx),
                _ => {}
            }
            self.hand_back(&tx);
            ring = false;
        } else if !ring && !self.is_gone_without_a_word() {
            if w.left() > stream::MAX_TOKEN {
                self.outgrown_on_tcp(&tx);
            }
            ring = self.goes_to_ring(&tx);
        }
        if !ring || w.left() == 0 {
            return Ok(Then::Kernel(0));
        }
        self.fill(&tx, w, blocking)
    }

    /// Puts what is left of `w` into the ring, looking for room for a while when it is full.
    fn fill(&self, tx: &End, w: &mut Walk, blocking: bool) -> Result<Then, i32> {
        if w.left() > stream::MAX_TOKEN && self.is_stream(tx) && !self.over_to_longer(tx, blocking) {
            return Ok(Then::Kernel(0));
        }
        let mut tail = self.tail();
        let mut sent = 0;
        let mut began = 0;
        let mut wait = Limit::default();
        if w.left() > ring::max_payload(SHORT_LINES) && tx.tx.ring() == SHORT {
            self.widen(tx, &mut tail);
        }
        while w.left() > 0 {
            if sent > 0 && self.is_forced_back() {
                break;
            }
            match stream::push(&tx.ring(), &mut tail, &tx.rx.cursor, w) {
                Ok(n) => {
                    sent += n;
                    self.set_tail(tail);
                    match tx.word.after_publish(self.peer_groups(), &tx.rx.event) {
                        Owed::Nothing => {}
                        Owed::Bell(telling) => self.ring_bell(tx, telling),
                        Owed::Event(number, telling) => self.wake_set(tx, number, telling),
                        Owed::Left if !tx.word.is_raw() => break,
                        Owed::Left => {
                            self.tx_bytes.fetch_add(sent as u64, Ordering::Relaxed);
                            self.follow_behind(tx);
                            return Ok(if w.left() == 0 { Then::Done(sent) } else { Then::Kernel(sent) });
                        }
                    }
                }
                Err(Error::Full) => {
                    if self.widen(tx, &mut tail) {
                        self.set_tail(tail);
                        continue;
                    }
                    if self.is_outgrown(tx, sent) {
                        if !self.over_to_longer(tx, blocking) {
                            self.tx_bytes.fetch_add(sent as u64, Ordering::Relaxed);
                            return Ok(Then::Kernel(sent));
                        }
                        (tail, began) = (self.tail(), 0);
                    } else if self.has(Conn::SHUT_WR) || wait.is_long() && self.tx_lock.is_wanted() {
                        // The kernel's to wait, without the lock; and to say that this end was shut down, by a handler inside this call.
                        break;
                    } else if let Some(e) = wait.is_over(self.fd, sent).filter(|_| blocking) {
                        self.tx_bytes.fetch_add(sent as u64, Ordering::Relaxed);
                        return if sent > 0 { Ok(Then::Done(sent)) } else { Err(e) };
                    } else if fdtable::conn_inside(self.fd).is_none()
                        || !wait.counted(|| room(tx, &mut began, blocking))
                    {
                        // Closed meanwhile, it is the kernel's to wait.
                        break;
                    } else if self.widen(tx, &mut tail) {
                        // A receiver on our own processor has taken everything, and waits.
                        self.set_tail(tail);
                    }
                }
                Err(_) => {
                    self.reset_by(Reason::Corrupt);
                    return Err(libc::ECONNRESET);
                }
            }
        }
        self.tx_bytes.fetch_add(sent as u64, Ordering::Relaxed);
        if w.left() == 0 {
            return Ok(Then::Done(sent));
        }
        // It has waited, and the slot may be another connection's by now.
        self.hand_back(&self.sending());
        Ok(Then::Kernel(sent))
    }

    /// E7: the ring ends here; data is data again on TCP. Under the lock.
    pub fn hand_back(&self, tx: &End) {
        tx.tx.to_tcp(self.tail().pos, self.tx_kernel.load(Ordering::Relaxed));
        self.back.fetch_add(1, Ordering::Relaxed);
        events::hand_back(self);
        self.sends_at_once();
        // A receiver that left before it could see that counts on us to take back what it has not read.
        fence(Ordering::SeqCst);
        if tx.word.is_raw() {
            self.clear_behind(tx);
        }
    }

    /// E5: the ring takes over from here, if the receiver has caught up and no send is under way.
    pub fn goes_to_ring(&self, tx: &End) -> bool {
        // A peer that says that the slot is another's, and then that it is not, does not bring this into a ring that all such have.
        if !self.slot_live()
            || tx.is_nobodys()
            || tx.word.has_left()
            || self.tx_flight.load(Ordering::SeqCst) != 0
            || !tx.rx.caught_up(tx.tx)
        {
            return false;
        }
        let taken = tx.rx.consumed.load(Ordering::Acquire);
        // A cheap guess first; the kernel's own count decides.
        // A sender that is to have a longer ring has been quicker than the receiver, and may be so on TCP, too.
        let longer = self.is_granted(tx);
        let nearly = if longer { u64::MAX } else { NEARLY_READ };
        if tx.tx.epoch() > 0 && self.tx_kernel.load(Ordering::Relaxed).saturating_sub(taken) > nearly {
            return false;
        }
        let Some(written) = tcp::written(self.fd, self.is_client()) else { return false };
        let p = written.bytes;
        if p.saturating_sub(taken) > nearly {
            return false;
        }
        // A receiver that has read all, and mapped nothing, has refused.
        if longer || self.has(Conn::NARROW) || self.has(Conn::OUTGROWN) && p == taken {
            self.go_over(tx);
        }
        self.tx_kernel.store(p, Ordering::Relaxed);
        let mine = state::cpu();
        tx.tx.cpu.store(mine, Ordering::Relaxed);
        let goes = tx.tx.to_ring(tx.rx, p);
        if goes && !written.is_all_on_its_way {
            // What the kernel holds back for more to come: that comes in the ring, behind it, and pushes nothing.
            tcp::push(self.fd);
        }
        goes
    }

    /// A sender of this family died in the middle, or was left by longjmp: step over what it had published, count
    /// what it had put on TCP, and ring (L4). It may have counted a bell without sending it, and no other would
    /// be sent before the receiver, who sleeps, has taken that one.
    #[cold]
    fn mend(&self) {
        if self.has(Conn::OWES) {
            // How much of it is on TCP, the dead one knew.
            return self.reset_by(Reason::PeerLeft);
        }
        let tx = self.sending();
        self.drop_claim(&tx);
        self.tx_lines.store(tx.ring().count() as u32, Ordering::Relaxed);
        if in_ring(tx.tx.epoch()) {
            let mut tail = self.tail();
            stream::recover(&tx.ring(), &mut tail);
            self.set_tail(tail);
            if let Some(p) = tcp::written_so_far(self.fd, self.is_client()) {
                self.tx_kernel.store(p, Ordering::Relaxed);
            }
            self.announce(&tx);
        }
    }

    /// The peer is not honest, memory is not what it should be, or bytes would be missing: the connection ends, loudly.
    pub fn reset_by(&self, why: Reason) {
        self.reason.store(why as u32, Ordering::Relaxed);
        state::count(why);
        events::reset(self, why);
        self.kill_slot();
        // Dissolving the association resets it: the peer gets ECONNRESET, and so does the program's next call. What has the number by
        // now is not to pay for it; the program may have another one.
        if let Some(fd) = self.number() {
            tcp::disconnect(fd);
        }
        // From here on the kernel answers; nothing of the peer's is looked at again.
        self.set_stage(Stage::Plain);
    }
}
