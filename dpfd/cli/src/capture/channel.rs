//! One channel that is followed: what its two directions carry, as packets in the file.

use std::io;
use std::net::SocketAddr;
use std::time::Duration;

use dp_channel::family::View;
use dp_channel::follow::{After, Follower, Piece};
use dp_channel::observed::Observed;
use dp_channel::slot::{Side, State};

use super::conversation::{Conversation, End};
use super::file::File;
use super::notes::Notes;

/// A program at one end, and where its family notes the connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Program {
    pub family: u64,
    pub conn: u32,
    pub pid: u32,
    pub uid: u32,
    pub name: String,
}

impl Program {
    /// Its name, which it chose itself, for people.
    fn shown(&self) -> String {
        self.name.escape_debug().to_string()
    }

    fn described(&self) -> String {
        format!("{} (pid {}, user {})", self.shown(), self.pid, self.uid)
    }
}

/// When something is looked at: since 1970, and since the capture began.
#[derive(Debug, Clone, Copy)]
pub struct Now {
    pub time: Duration,
    pub since: Duration,
}

/// What a look came to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    Nothing,
    Found,
    /// The channel is over; whether its connection goes on, on TCP.
    Over {
        on_tcp: bool,
    },
}

/// See the module.
pub struct Channel {
    observed: Observed,
    generation: u32,
    addresses: [SocketAddr; 2],
    pub ends: [Option<Program>; 2],
    followers: Option<[Follower; 2]>,
    conversation: Conversation,
    /// From the first packet on.
    interface: Option<usize>,
    from_start: bool,
    /// Bytes of each direction that went over TCP before it was followed.
    before_on_tcp: [u64; 2],
    /// Notes that go with the next packet of each end.
    notes: [Notes; 2],
}

/// What both directions of a look are put into; kept, so that a look allocates nothing.
#[derive(Default)]
pub struct Scratch {
    bytes: [Vec<u8>; 2],
    pieces: [Vec<Piece>; 2],
}

const SIDES: [Side; 2] = [Side::Client, Side::Server];

impl Channel {
    pub fn new(observed: Observed, generation: u32, addresses: [SocketAddr; 2]) -> Channel {
        Channel {
            observed,
            generation,
            addresses,
            ends: [None, None],
            followers: None,
            conversation: Conversation::new(addresses[0], addresses[1], [0; 2]),
            interface: None,
            from_start: false,
            before_on_tcp: [0; 2],
            notes: Default::default(),
        }
    }

    /// The process that has end `end` (0: the client's).
    pub fn attach(&mut self, end: usize, program: Program) {
        if self.interface.is_some() && self.ends[end].is_none() {
            self.notes[end].say(format!("sent by {}", program.described()));
        }
        self.ends[end] = Some(program);
    }

    /// Begins to follow it: from now on, or `all` that is still there.
    pub fn begin<'a>(&mut self, view: &impl Fn(u64) -> Option<&'a View>, all: bool) {
        if self.followers.is_some() {
            return;
        }
        let [client, server] = [End::Client, End::Server].map(|from| {
            let sender = self.sender(from, view);
            Follower::new(&self.observed.direction(SIDES[from as usize]), sender.as_ref(), all)
        });
        // Another time, where somebody is sending just now.
        let (Some(client), Some(server)) = (client, server) else { return };
        let followers = [client, server];
        self.from_start = followers.iter().all(Follower::is_at_start);
        let before = [0, 1].map(|i| if self.from_start { 0 } else { followers[i].offset() });
        self.conversation = Conversation::new(self.addresses[0], self.addresses[1], before);
        if self.from_start {
            for from in End::BOTH {
                let on_tcp = followers[from as usize].on_tcp();
                self.before_on_tcp[from as usize] = on_tcp;
                self.conversation.gap(from, on_tcp);
                self.notes[from as usize].went_over_tcp(on_tcp);
            }
        }
        self.followers = Some(followers);
    }

    fn sender<'a>(
        &self,
        from: End,
        view: &impl Fn(u64) -> Option<&'a View>,
    ) -> Option<dp_channel::family::Sender<'a>> {
        let program = self.ends[from as usize].as_ref()?;
        let view = view(program.family)?;
        // The entry may be another connection's by now.
        let (_, _, generation) = view.place(program.conn);
        (generation == self.generation).then(|| view.sender(program.conn))
    }

    /// Looks once, and writes what there is.
    ///
    /// # Errors
    ///
    /// Those of write(2).
    pub fn look<'a>(
        &mut self,
        view: &impl Fn(u64) -> Option<&'a View>,
        now: impl Fn() -> Now,
        scratch: &mut Scratch,
        file: &mut File,
    ) -> io::Result<Look> {
        let Some(mut followers) = self.followers.take() else { return Ok(Look::Nothing) };
        // Before what it ended with is looked at.
        let slot = self.observed.slot();
        let mut over =
            !slot.is_of(self.generation) || matches!(slot.get(), Some((_, State::Dead | State::Free)) | None);
        // The server first: what its answers answer is found then, and told before them.
        for from in [End::Server, End::Client] {
            let (bytes, pieces) = (&mut scratch.bytes[from as usize], &mut scratch.pieces[from as usize]);
            bytes.clear();
            pieces.clear();
            let direction = self.observed.direction(SIDES[from as usize]);
            let sender = self.sender(from, view);
            let after = followers[from as usize].look(&direction, sender.as_ref(), bytes, pieces);
            // Without addresses for a ring it cannot be followed any more.
            let after = after.unwrap_or(After::Over);
            over |= after == After::Over || direction.word.is_raw();
        }
        if !self.observed.slot().is_of(self.generation) {
            // What seemed to be missing is the next connection's.
            scratch
                .pieces
                .iter_mut()
                .for_each(|pieces| pieces.retain(|piece| matches!(piece, Piece::Bytes(_))));
        }
        let found = scratch.pieces.iter().any(|pieces| !pieces.is_empty());
        if found || over || self.interface.is_some() {
            let now = now();
            if found {
                self.write(scratch, now, file)?;
            }
            for from in End::BOTH {
                if followers[from as usize].is_taken(&self.observed.direction(SIDES[from as usize])) {
                    self.conversation.taken(from);
                }
            }
            self.late(now, file)?;
        }
        self.followers = Some(followers);
        if over {
            return self.end(now(), file);
        }
        Ok(if found { Look::Found } else { Look::Nothing })
    }

    fn write(&mut self, scratch: &Scratch, now: Now, file: &mut File) -> io::Result<()> {
        let interface = self.interface_in(file, now)?;
        for from in End::BOTH {
            for piece in &scratch.pieces[from as usize] {
                let counts = &mut file.interfaces[interface];
                match piece {
                    Piece::Bytes(range) => {
                        counts.bytes += range.len() as u64;
                        let bytes = &scratch.bytes[from as usize][range.clone()];
                        let mut done = Ok(());
                        let notes = &mut self.notes[from as usize];
                        self.conversation.data(from, bytes, now.since, &mut |packet| {
                            done = file.packet(interface, &packet, now.time, notes.take());
                        });
                        done?;
                    }
                    Piece::Missed(n) => {
                        counts.gaps += u64::from(self.notes[from as usize].missed(*n));
                        counts.missed = counts.missed.saturating_add(*n);
                        self.conversation.gap(from, *n);
                    }
                    Piece::OnTcp(n) => {
                        counts.on_tcp = counts.on_tcp.saturating_add(*n);
                        self.notes[from as usize].went_over_tcp(*n);
                        self.conversation.gap(from, *n);
                    }
                }
            }
        }
        Ok(())
    }

    /// Its interface; with the first packet, the handshake if the beginning was seen.
    fn interface_in(&mut self, file: &mut File, now: Now) -> io::Result<usize> {
        if let Some(interface) = self.interface {
            return Ok(interface);
        }
        let name = |end: &Option<Program>| end.as_ref().map_or("?".into(), |program| program.shown());
        let interface = file.interface(&name(&self.ends[0]), &name(&self.ends[1]))?;
        self.interface = Some(interface);
        let described = |end: &Option<Program>| {
            end.as_ref().map_or("a program that is not known".into(), Program::described)
        };
        let whose = format!("{} > {}", described(&self.ends[0]), described(&self.ends[1]));
        if !self.from_start {
            self.notes.iter_mut().for_each(|notes| notes.say(whose.clone()));
            return Ok(interface);
        }
        let (mut whose, mut done) = (Some(whose), Ok(()));
        self.conversation.begin(&mut |packet| {
            let written = file.packet(interface, &packet, now.time, whose.take());
            done = std::mem::replace(&mut done, Ok(())).and(written);
        });
        done?;
        file.interfaces[interface].on_tcp += self.before_on_tcp.iter().sum::<u64>();
        Ok(interface)
    }

    /// Acknowledges what came, where the end itself sends nothing.
    fn late(&mut self, now: Now, file: &mut File) -> io::Result<()> {
        let Some(interface) = self.interface else { return Ok(()) };
        let (notes, mut done) = (&mut self.notes, Ok(()));
        self.conversation.acknowledge_late(now.since, &mut |packet| {
            let comment = notes[packet.from as usize].take();
            let written = file.packet(interface, &packet, now.time, comment);
            done = std::mem::replace(&mut done, Ok(())).and(written);
        });
        done
    }

    /// It is over: the last packets.
    ///
    /// # Errors
    ///
    /// Those of write(2).
    pub fn end(&mut self, now: Now, file: &mut File) -> io::Result<Look> {
        let directions = SIDES.map(|side| self.observed.direction(side));
        let on_tcp = directions.iter().any(|direction| direction.word.is_raw());
        let (Some(interface), false) = (self.interface, on_tcp) else { return Ok(Look::Over { on_tcp }) };
        let (notes, mut done) = (&mut self.notes, Ok(()));
        let mut give = |packet: super::conversation::Packet| {
            let comment = notes[packet.from as usize].take();
            let written = file.packet(interface, &packet, now.time, comment);
            done = std::mem::replace(&mut done, Ok(())).and(written);
        };
        let followers = self.followers.as_ref();
        for from in End::BOTH {
            let (out, back) = (&directions[from as usize], &directions[from.other() as usize]);
            let unread = followers.is_some_and(|all| !all[from.other() as usize].is_taken(back));
            if out.tx.is_abrupt() || unread {
                self.conversation.reset(from, &mut give);
            } else if out.tx.is_ending() {
                self.conversation.end(from, &mut give);
                self.conversation.taken(from);
            }
        }
        self.conversation.close(&mut give);
        done.map(|()| Look::Over { on_tcp })
    }
}
