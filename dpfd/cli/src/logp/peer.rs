//! The other processes: this program again, on a core of their own, told over a socket what to do.

use std::os::fd::OwnedFd;
use std::process::ExitCode;

use dp_measure::logp::probe::Load;
use dpfd::Dpid;
use serde::{Deserialize, Serialize};

use super::many;
use super::pair::{reply, Requester};
use crate::bench::cores;
use crate::bench::endpoints::OneEnd;
use crate::bench::link::{ring_for, Transport};
use crate::bench::peer::{each, End};
use crate::bench::Result;
use crate::helper::{self, Control, Helper};

/// What the first process tells another one. Ends are counted from 0 as they come.
#[derive(Serialize, Deserialize)]
pub enum Job {
    /// Stay on this core.
    Stay(usize),
    /// Take your end of a way: its descriptors come along, or the pair of endpoints to open.
    Open { transport: Transport, size: usize, pair: u16, first: bool },
    /// Take your end of several endpoints that send to one.
    Spoke { transport: Transport, mine: Dpid, hub: Dpid },
    /// Be the one that they send to.
    Hub { transport: Transport, number: Dpid, senders: usize },
    /// Reply to requests of `size` bytes with so many, on this end, until one says stop.
    Reply { end: usize, size: usize, reply: usize },
    /// The same on the first ends at once, one for each sender, or on the hub with so many.
    ReplyToAll { size: usize, reply: usize, senders: usize },
    /// Send requests as fast as they are replied to, on the last end.
    Stream { size: usize, reply: usize, window: u32, seconds: f64 },
    /// Forget all ends.
    Close,
}

/// What it answers: where it is to begin something, that it does; then what came of it.
#[derive(Serialize, Deserialize)]
pub enum Answer {
    Ready,
    Done,
    /// The gap, ns.
    Gap(f64),
}

/// Starts one, on this core.
pub fn start(core: usize) -> Result<Helper> {
    let helper = Helper::start(&["logp", "--peer"])?;
    helper.tell(&Job::Stay(core), &[])?;
    Ok(helper)
}

/// The other process.
pub fn serve() -> ExitCode {
    let (mut ends, mut hub) = (Vec::new(), None);
    helper::serve(|control, job, fds| obey(control, job, fds, &mut ends, &mut hub))
}

fn obey(
    control: &Control,
    job: Job,
    fds: Vec<OwnedFd>,
    ends: &mut Vec<End>,
    hub: &mut Option<OneEnd>,
) -> Result<()> {
    match job {
        Job::Stay(core) => cores::stay(core)?,
        Job::Open { transport, size, pair, first } => {
            ends.push(End::new(transport, fds, ring_for(size), pair, first)?)
        }
        Job::Spoke { transport, mine, hub } => {
            ends.push(End::Endpoint(OneEnd::spoke(transport, &fds, mine, hub)?));
        }
        Job::Hub { transport, number, senders } => {
            *hub = Some(OneEnd::hub(transport, &fds, number, senders)?)
        }
        Job::Close => {
            ends.clear();
            *hub = None;
            // Numbers and memory are free before anybody asks for them again.
            control.say(Answer::Done)?;
        }
        Job::Reply { end, size, reply: back } => {
            let end = ends.get_mut(end).ok_or("no such way")?;
            control.say(Answer::Ready)?;
            each!(end, link => reply(link, size, back))?;
            control.say(Answer::Done)?;
        }
        Job::ReplyToAll { size, reply, senders } => {
            control.say(Answer::Ready)?;
            match hub {
                Some(hub) => many::reply_at_hub(hub, senders, size, reply)?,
                None => many::reply_to_all(ends.get_mut(..senders).ok_or("no such way")?, size, reply)?,
            }
            control.say(Answer::Done)?;
        }
        Job::Stream { size, reply, window, seconds } => {
            let end = ends.last_mut().ok_or("no such way")?;
            let mut requester = Requester::new();
            requester.load(Load { size, reply, window });
            control.say(Answer::Ready)?;
            let (_, gap) = each!(end, link => requester.stream(link, seconds))?;
            control.say(Answer::Gap(gap))?;
        }
    }
    Ok(())
}
