//! Waiting on a list: what poll and select say of channels (PROTOCOLS W2-W4, W11).
//!
//! The kernel is asked of the program's own list, and knows of bells alone: a bell without a byte behind it is nothing to read,
//! and a byte without a bell is. So its answer is made true for each channel (`correct`), and before the kernel is slept in each
//! of them hears that somebody sleeps (`arm`), and is looked at once more.
//!
//! ```text
//!          +-> look for a while, where that pays --- something --+
//!          |                                                     v
//!   begin -+-> is there something? ------------------------> ask the kernel, correct --> told
//!          |        ^                                            ^
//!          |        | nothing after all                          | news
//!          +-> arm each channel, look again, sleep in the kernel, correct, all awake --> told, or the time is over
//! ```
//!
//! This module has no I/O: it calls a [`World`], which is the shim or a model. It has no state either but that of one call; nothing
//! here is to be dropped, since a thread may be ended in the kernel's wait.

pub mod select;

use libc::{pollfd, POLLIN, POLLOUT, POLLRDNORM, POLLWRNORM};

/// Something to read.
pub const IN: i16 = POLLIN | POLLRDNORM;
/// Room to write.
pub const OUT: i16 = POLLOUT | POLLWRNORM;

/// A channel as a poll finds it.
pub trait Channel {
    /// Whether all that its program sends and receives goes through rings, as far as nobody has said anything else: no end that was
    /// announced, none of its own, no error.
    fn is_whole(&self) -> bool;
    /// Whether its ring has something for the program. Nothing is followed or taken.
    fn has_data(&self) -> bool;
    /// Whether a send would go into the ring.
    fn sends_by_ring(&self) -> bool;
    /// Follows the sender; whether its ring has something, and nothing is on TCP before it.
    fn is_readable(&self) -> bool;
    /// Whether bytes of the program's are known to be on TCP.
    fn has_counted(&self) -> bool;
    /// Whether it was shut down here for sending.
    fn has_shut_down(&self) -> bool;
    /// Whether the other end has died with bytes unread, of which the kernel knew nothing. It has heard of it now.
    fn hears_of_death(&self) -> bool;
    /// Whether an error was met that the program was not told of, and the kernel does not have any more.
    fn has_error(&self) -> bool;
    /// Whether no bell comes for the next byte, as somebody looks.
    fn is_hot(&self) -> bool;
    /// Takes bells that announce nothing, and asks for a new one with the next byte where `arm` says so. False: only bells were there.
    fn settle(&self, arm: bool) -> bool;
    /// The same before a sleep, which finds ends and errors by itself. Whether there is something that makes it readable.
    fn settle_to_sleep(&self) -> bool;
    /// Whether the kernel says that it is readable.
    fn is_announced(&self) -> bool;
}

/// What stands in a list.
pub trait Lookup {
    /// A channel of the list.
    type Channel: Channel;

    /// The channel behind a descriptor, or one that is about to be one.
    fn channel(&self, fd: i32) -> Option<Self::Channel>;
    /// Whether `fd` is an epoll set of which the kernel says that it is readable, and that has nothing for the program.
    fn is_idle_set(&self, fd: i32) -> bool;
    /// Whether the kernel was asked of the list a moment ago, and said nothing that rings do not say ([`is_told_by_rings`]). Whatever
    /// it has to say since is as if it came a moment later.
    fn knows_the_rest(&self, fds: &[pollfd]) -> bool;
}

/// The surroundings of one call.
pub trait World: Lookup {
    /// What `f` looks at stays mapped meanwhile.
    fn briefly<R>(&mut self, f: impl FnOnce(&mut Self) -> R) -> R;

    /// ppoll(2) of the list; nanoseconds, negative for ever.
    fn kernel(&mut self, fds: &mut [pollfd], timeout: i64) -> Result<i32, i32>;
    /// The time, ns.
    fn now(&self) -> u64;
    /// Whether a signal handler of the program's has run in the call.
    fn is_signalled(&self) -> bool;

    /// How long a look may take, ns; 0: none would pay.
    fn budget(&mut self, fds: &[pollfd]) -> u32;
    /// Looks for a while; whether something came.
    fn look(&mut self, fds: &[pollfd], budget: u32) -> bool;

    /// The thread is about to sleep on some of the list: nothing is said to anybody yet.
    fn goes_to_sleep(&mut self, fds: &[pollfd]);
    /// Whether what stands `at` that place is kept from being a channel while the call lasts: its sleepers are woken by the kernel
    /// alone, whatever it is for the moment.
    fn is_held(&self, at: usize, fd: i32) -> bool;
    /// The sender of `c` hears that this thread sleeps (W2). Whoever looks afterwards sees what it has
    /// sent, or is woken.
    fn falls_asleep(&mut self, c: &Self::Channel);
    /// The same sleep of the list as [`World::kernel`], by whatever senders were told of. How many answers there are is no matter, but
    /// whether there is one.
    fn sleep(&mut self, fds: &mut [pollfd], timeout: i64) -> Result<i32, i32>;
    /// The thread is awake again, or does not sleep after all: those hear of it that heard that it sleeps. `in_vain`: it slept for
    /// long, and nothing came.
    fn wakes(&mut self, fds: &[pollfd], in_vain: bool);

    /// How much of that time the thread may sleep, ns, before it looks after something else of its own.
    fn may_sleep(&mut self, time: i64) -> i64;
    /// A sleep that lasts long looks again for wake-ups that were lost: first after so long, ns, and at last.
    fn nets(&self) -> [i64; 2];
    /// Whether what is not there for the kernel stays so, when whatever was on its way has come.
    fn never_comes(&mut self, unheard: impl Fn(&Self) -> bool) -> bool;
    /// A wake-up was lost.
    fn lost_one(&mut self);
    /// The kernel has ended so many sleeps in a row, and there was nothing to tell.
    fn woke_in_vain(&mut self, fds: &[pollfd], times: u32);
}

/// poll(2) where the kernel's own answer will not do: `timeout` in nanoseconds, negative for ever. `quiet`: nothing may delay signals.
pub fn poll<W: World>(fds: &mut [pollfd], timeout: i64, quiet: bool, w: &mut W) -> Result<i32, i32> {
    let start = if timeout > 0 { w.now() } else { 0 };
    let [first_net, last_net] = w.nets();
    let (mut spun, mut net, mut in_vain) = (quiet, first_net, 0);
    // For how long the last sleeps brought nothing: one may be shorter than the net.
    let mut silent = 0i64;
    // What the kernel may have to say at once must not wait for a look. The call that sleeps asks it anyway.
    let mut ask = fds.iter().any(|p| p.fd >= 0 && (p.events & !IN != 0 || w.channel(p.fd).is_none()));
    loop {
        let look = if spun || timeout == 0 { 0 } else { w.budget(fds) };
        if timeout == 0 || (look > 0 && core::mem::take(&mut ask)) || any_news(fds, w) {
            w.kernel(fds, 0)?;
            let n = corrected(fds, w);
            if n > 0 || timeout == 0 {
                return Ok(n);
            }
        }
        if look > 0 {
            spun = true;
            // No longer than there is time.
            let left = if timeout < 0 { u64::MAX } else { (timeout as u64).saturating_sub(w.now() - start) };
            if left > 0 && w.look(fds, look.min(u32::try_from(left).unwrap_or(u32::MAX))) {
                continue;
            }
        }
        let remaining = if timeout < 0 { -1 } else { (timeout - (w.now() - start) as i64).max(0) };
        let rest = net - silent;
        let slice = w.may_sleep(if (0..rest).contains(&remaining) { remaining } else { rest });
        let (n, woken) = sleep(fds, slice, w)?;
        silent = if woken { 0 } else { silent + slice };
        if silent >= net {
            silent = 0;
            net = (net * 2).min(last_net);
            if w.never_comes(|w| is_lost(fds, w)) {
                w.lost_one();
                net = first_net;
            }
        }
        if n > 0 || remaining == 0 {
            return Ok(n);
        }
        spun = true;
        in_vain = if woken { in_vain + 1 } else { 0 };
        if in_vain > 0 {
            w.woke_in_vain(fds, in_vain);
        }
    }
}

/// The commonest case without any system call: all of the list are channels, and one has something. The answer is the whole one: where
/// only the kernel could know more, it is to be asked, unless it was just now. `None`: it is; 0: nothing was seen.
pub fn at_once(fds: &mut [pollfd], w: &impl Lookup) -> Option<i32> {
    let mut n = 0;
    for p in fds.iter_mut() {
        p.revents = 0;
        if p.fd < 0 {
            continue;
        }
        // Urgent bytes, ends and errors are the kernel's to tell, and all of what is no channel.
        let c = w.channel(p.fd).filter(|_| p.events & !(IN | OUT) == 0)?;
        if !c.is_whole() {
            return None;
        }
        if p.events & IN != 0 && c.has_data() {
            p.revents |= p.events & IN;
        }
        if p.events & OUT != 0 {
            // A caller that waits for bytes as well wants to know of an end or an error first.
            if !c.sends_by_ring() || p.revents == 0 && p.events & IN != 0 {
                return None;
            }
            p.revents |= p.events & OUT;
        }
        n += i32::from(p.revents != 0);
    }
    (n == 0 || fds.len() == 1 || w.knows_the_rest(fds)).then_some(n)
}

/// Whether rings say all that was told of a list. As long as that holds ([`Lookup::knows_the_rest`]), they need no kernel.
pub fn is_told_by_rings(fds: &[pollfd], w: &impl Lookup) -> bool {
    let has_data = |p: &pollfd| w.channel(p.fd).is_some_and(|c| c.has_data());
    fds.iter().all(|p| p.revents & !(IN | OUT) == 0 && (p.revents & IN == 0 || has_data(p)))
}

/// Whether a ring has something. Of sets the kernel tells.
fn any_news<W: World>(fds: &[pollfd], w: &mut W) -> bool {
    let has_some = |w: &W, p: &pollfd| p.events & IN != 0 && w.channel(p.fd).is_some_and(|c| c.is_readable());
    w.briefly(|w| fds.iter().any(|p| has_some(w, p)))
}

fn corrected<W: World>(fds: &mut [pollfd], w: &mut W) -> i32 {
    w.briefly(|w| correct(fds, w))
}

/// What the kernel said of these descriptors, made true for channels; of how many there is something to say.
fn correct(fds: &mut [pollfd], w: &impl Lookup) -> i32 {
    let (mut n, mut died) = (0, false);
    for p in fds.iter_mut() {
        match w.channel(p.fd) {
            Some(c) => correct_one(p, &c, &mut died),
            None if p.revents & IN != 0 && w.is_idle_set(p.fd) => p.revents &= !IN,
            None => {}
        }
        n += i32::from(p.revents != 0);
    }
    n
}

/// `died`: the death of one in the list was heard of since the kernel was asked.
fn correct_one(p: &mut pollfd, c: &impl Channel, died: &mut bool) {
    let over = p.revents & if c.has_shut_down() { libc::POLLERR } else { libc::POLLHUP } != 0;
    let told = p.revents & (IN | libc::POLLRDHUP | libc::POLLHUP) != 0;
    *died |= told && !over && c.hears_of_death();
    if p.revents & IN != 0 && !c.has_counted() && !c.settle(!c.is_hot()) {
        p.revents &= !IN;
    }
    // While the word is hot no bell tells that the sender went over to the ring: it is followed here.
    if p.events & IN != 0 && c.is_readable() {
        p.revents |= p.events & IN;
    }
    // A receive that had bytes to give met it, so the kernel does not have it any more (W13).
    if c.has_error() {
        p.revents |= libc::POLLERR;
        if *died {
            // What the other end's death draws, the kernel has only since: for another entry of the same connection as well.
            p.revents |= libc::POLLHUP | p.events & (IN | OUT | libc::POLLRDHUP);
        }
    }
}

/// W2 for every channel in the list, one more look, then the kernel's wait. What there is to tell, and whether the kernel had something.
fn sleep<W: World>(fds: &mut [pollfd], timeout: i64, w: &mut W) -> Result<(i32, bool), i32> {
    w.goes_to_sleep(fds);
    let news = w.briefly(|w| arm(fds, w)) || any_news(fds, w);
    let got = match news {
        true => w.kernel(fds, 0),
        false if w.is_signalled() => Err(libc::EINTR),
        false => w.sleep(fds, timeout),
    };
    let woken = news || timeout == 0 || got != Ok(0);
    let told = got.map(|_| (corrected(fds, w), woken));
    let in_vain = matches!(told, Ok((0, _))) && timeout >= w.nets()[0];
    w.briefly(|w| w.wakes(fds, in_vain));
    told
}

/// Falls asleep on one channel after the other, as far as there is nothing new: whether there is.
pub fn arm(fds: &[pollfd], w: &mut impl World) -> bool {
    for (at, p) in fds.iter().enumerate() {
        let Some(c) = w.channel(p.fd).filter(|_| p.events & IN != 0) else { continue };
        if w.is_held(at, p.fd) {
            continue;
        }
        // Stale bells out, so that the kernel's readiness means something.
        let news = c.settle_to_sleep();
        w.falls_asleep(&c);
        if news {
            return true;
        }
    }
    false
}

/// Whether a channel holds something of which no bell told, and which nobody looks for.
#[cold]
fn is_lost(fds: &[pollfd], w: &impl World) -> bool {
    fds.iter().any(|p| {
        let c = w.channel(p.fd).filter(|_| p.events & IN != 0);
        c.is_some_and(|c| !c.is_hot() && !c.is_announced() && c.is_readable())
    })
}

#[cfg(test)]
mod tests;
