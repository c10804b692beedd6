//! The steps of a receiver's state against what is so: bells on its descriptor, messages in its edge, what senders look at.

use std::cell::Cell;
use std::rc::Rc;

use proptest::prelude::*;

use crate::edge::arm::{Arm, Due, Rung};
use crate::edge::wake::{doze, settle, Bell, Event, Sleeper, Wake};

/// What happens next.
#[derive(Debug, Clone, Copy)]
enum Do {
    /// The sender publishes a message, and looks at the word at once or later.
    Publish,
    PublishSlowly,
    /// It looks.
    Look,
    /// A call takes a message; the program is believed to wait in its calls, or not.
    Take {
        believed: bool,
    },
    /// A call finds nothing, and sleeps on the descriptor; or messages come while it lies down.
    Listen {
        come: u32,
    },
    /// It sleeps on the edge's word instead; or one comes before it asks for that.
    Doze {
        before: bool,
        come: u32,
    },
    /// It spins first, and a message comes.
    Spin,
    /// Whoever sleeps on the word is woken.
    Wake,
    /// The service brings a sender that may write to the descriptor, and does; or it ends the lease.
    Rouse,
    EndLease,
}

fn deeds() -> impl Strategy<Value = Vec<Do>> {
    let deed = prop_oneof![
        4 => Just(Do::Publish),
        1 => Just(Do::PublishSlowly),
        2 => Just(Do::Look),
        4 => any::<bool>().prop_map(|believed| Do::Take { believed }),
        2 => (0..3u32).prop_map(|come| Do::Listen { come }),
        4 => (any::<bool>(), 0..3u32).prop_map(|(before, come)| Do::Doze { before, come }),
        1 => Just(Do::Spin),
        4 => Just(Do::Wake),
        1 => Just(Do::Rouse),
        1 => Just(Do::EndLease),
    ];
    prop::collection::vec(deed, 1..60)
}

#[derive(Default)]
struct World {
    word: Rc<Arm>,
    rung: Cell<Rung>,
    wake: Wake,
    bells: Cell<u32>,
    messages: Cell<u32>,
    /// So many messages are published, and told, between what the receiver asks for and its look.
    come: Cell<u32>,
    /// The sender has published, and not looked since; and did so ever.
    slow: bool,
    was_slow: bool,
    /// The word on which a call sleeps was changed.
    notified: Cell<bool>,
    late: bool,
    /// There is a second sender: no call dozes any more.
    crowded: bool,
}

impl Sleeper for World {
    type Error = ();
    fn wake(&mut self) -> &mut Wake {
        &mut self.wake
    }
    fn drain(&mut self) -> Result<(), ()> {
        let heard = self.bells.take() > 0;
        self.late = !heard;
        self.wake = self.wake.step(Event::Drained { heard });
        Ok(())
    }
    fn waiting(&self) -> bool {
        (0..self.come.take()).for_each(|_| self.publish());
        self.messages.get() > 0
    }
}

impl World {
    fn go(&mut self, event: Event) {
        self.wake.go(event, &self.word);
    }

    fn settles(&mut self) -> bool {
        let word = self.word.clone();
        let there = settle(self, &word) == Ok(true);
        if there {
            self.keep_readable();
        }
        there
    }

    fn dozes(&mut self) {
        let (word, late) = (self.word.clone(), self.late);
        // What was told before the key was read is of no use.
        self.notified.set(false);
        doze(self, &word, late);
    }

    fn keep_readable(&mut self) {
        if self.wake.bell() != Bell::There {
            self.go(Event::Look);
            self.bells.set(self.bells.get().max(1));
            self.go(Event::Told(true));
        }
    }

    fn rouse(&mut self) {
        self.notified.set(self.notified.get() || self.wake.is_dozing());
        self.go(Event::Rouse);
    }

    fn publish(&self) {
        self.messages.set(self.messages.get() + 1);
        self.look();
    }

    /// The sender looks at the word.
    fn look(&self) {
        let mut rung = self.rung.get();
        match self.word.owes(&mut rung) {
            Due::Nothing => {}
            Due::Bell => self.bells.set(self.bells.get() + 1),
            Due::Futex => self.notified.set(true),
        }
        self.rung.set(rung);
    }

    /// A call comes in: one that dozes is woken first.
    fn call(&mut self) {
        if self.wake.is_dozing() {
            self.rouse();
        }
    }

    fn take(&mut self, believed: bool) {
        self.messages.set(self.messages.get() - 1);
        if self.wake.is_silent() {
            return;
        }
        if believed {
            let by_sender = matches!(self.wake, Wake::Woken { by_sender: true, .. });
            let _ = self.drain();
            if !self.late || by_sender {
                self.late = false;
                return self.go(Event::Silence { emptied: true });
            }
        }
        if self.messages.get() > 0 {
            self.keep_readable();
        } else {
            self.settles();
        }
    }

    fn act(&mut self, deed: Do) {
        match deed {
            Do::Publish | Do::PublishSlowly if self.slow => {}
            Do::Publish => self.publish(),
            Do::PublishSlowly => {
                self.messages.set(self.messages.get() + 1);
                (self.slow, self.was_slow) = (true, true);
            }
            Do::Look if self.slow => {
                self.slow = false;
                self.look();
            }
            Do::Take { believed } if self.messages.get() > 0 => {
                self.call();
                self.take(believed);
            }
            Do::Listen { come } if self.messages.get() == 0 => {
                self.call();
                self.go(Event::Cool);
                if self.wake.is_settled() {
                    // What came while it sleeps has rung.
                    self.go(Event::Spent);
                } else {
                    self.come.set(come);
                    self.settles();
                }
            }
            Do::Doze { before, come } if self.messages.get() == 0 && !self.crowded => {
                self.call();
                self.go(Event::Cool);
                if self.wake.bell() == Bell::None || self.wake.is_settled() || !self.settles() {
                    (0..u32::from(before)).for_each(|_| self.publish());
                    self.come.set(come);
                    self.dozes();
                    if self.wake.bell() == Bell::None && !self.wake.is_dozing() {
                        self.go(Event::Silence { emptied: false });
                    } else if self.messages.get() > 0 {
                        self.take(false);
                    }
                }
            }
            Do::Spin if self.messages.get() == 0 && !self.slow => {
                self.call();
                self.go(Event::Look);
                self.publish();
                if self.bells.get() == 0 {
                    self.go(Event::Silence { emptied: false });
                }
                self.take(false);
            }
            Do::Wake if self.notified.get() && self.wake.is_dozing() => {
                self.go(Event::Woken);
                if self.wake.bell() == Bell::None {
                    self.go(Event::Silence { emptied: false });
                }
            }
            Do::Rouse => {
                self.rouse();
                self.bells.set(self.bells.get() + 1);
                self.crowded = true;
            }
            Do::EndLease if !self.wake.is_armed() => {
                self.rouse();
                self.go(Event::Ask);
                if self.messages.get() > 0 {
                    self.go(Event::Look);
                    self.bells.set(self.bells.get() + 1);
                    self.go(Event::Told(true));
                }
            }
            _ => {}
        }
    }

    fn check(&self) {
        match self.wake {
            Wake::Armed { .. } => assert!(self.word.is_armed_for_bells()),
            Wake::Awake(_) | Wake::Silent(_) => assert!(!self.word.is_armed()),
            Wake::Dozing(_) | Wake::Woken { .. } => {
                assert!(self.word.is_armed() && !self.word.is_armed_for_bells());
            }
        }
        assert!(self.wake.bell() != Bell::There || self.bells.get() > 0, "no bell is there");
        // A sender that is slow can ring for what was taken.
        assert!(
            self.was_slow || self.wake.bell() != Bell::None || self.bells.get() == 0,
            "a bell that nobody takes"
        );
        if self.messages.get() == 0 || self.slow {
            return;
        }
        // Nobody but the sender tells from here on.
        match self.wake {
            Wake::Armed { .. } | Wake::Awake(_) => assert!(self.bells.get() > 0, "lost bell"),
            Wake::Dozing(_) => assert!(self.notified.get(), "lost wake-up"),
            // The call is about to look; or the service does.
            Wake::Woken { .. } | Wake::Silent(_) => {}
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 4096, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_a_receiver_believes_is_so_and_no_message_goes_untold(deeds in deeds()) {
        let mut world = World::default();
        world.word.arm();
        for deed in deeds {
            world.act(deed);
            world.check();
        }
    }
}

#[test]
fn what_makes_no_difference_leaves_a_state_as_it_is() {
    let states = [
        Wake::Armed { settled: true },
        Wake::Awake(Bell::There),
        Wake::Silent(Bell::None),
        Wake::Dozing(Bell::None),
        Wake::Woken { bell: Bell::None, by_sender: true },
    ];
    let of = |event: Event| states.map(|state| state.step(event) != state);
    assert_eq!(of(Event::Drained { heard: false }), [false, true, false, false, false]);
    assert_eq!(of(Event::Drained { heard: true }), [true, true, false, false, false]);
    assert_eq!(of(Event::Nothing), [false; 5]);
    assert_eq!(of(Event::Spent), [true, false, false, false, false]);
    assert_eq!(of(Event::Cool), [false, false, true, false, false]);
    assert_eq!(of(Event::Woken), [false, false, false, true, false]);
    assert_eq!(of(Event::Rouse), [false, false, true, true, true]);
    assert_eq!(of(Event::LieDown { late: true }), [false, false, false, true, false]);
}
