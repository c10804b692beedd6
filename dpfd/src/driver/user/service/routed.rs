//! How many links of a sender name a route, so that the end of one does not take it from the others.
//!
//! A sender has one link to a receiver. Where its process died and another opened the same number, the former one's link may be
//! found to have ended after the new one has named its route.

use std::collections::HashMap;

use crate::addr::Addr;

/// By receiver, one of our endpoints, and sender.
#[derive(Debug, Default)]
pub struct Routed(HashMap<(u32, Addr), usize>);

impl Routed {
    /// A link had a route, or had none, and `has` one now.
    pub fn change(&mut self, serial: u32, from: Addr, had: bool, has: bool) {
        match (had, has) {
            (false, true) => *self.0.entry((serial, from)).or_default() += 1,
            (true, false) => {
                if let Some(n) = self.0.get_mut(&(serial, from)) {
                    *n -= 1;
                    if *n == 0 {
                        self.0.remove(&(serial, from));
                    }
                }
            }
            _ => {}
        }
    }

    /// Whether any link of that sender names one.
    pub fn has(&self, serial: u32, from: Addr) -> bool {
        self.0.contains_key(&(serial, from))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_end_of_a_former_owners_link_leaves_the_new_ones_route() {
        let (mut routed, from) = (Routed::default(), Addr::local(4000));
        routed.change(7, from, false, true);
        routed.change(7, from, false, true);
        routed.change(7, from, true, true);
        routed.change(8, from, false, true);
        routed.change(7, from, true, false);
        assert!(routed.has(7, from), "the new one's");
        routed.change(7, from, true, false);
        assert!(!routed.has(7, from) && routed.has(8, from));
        routed.change(7, from, true, false);
        routed.change(7, from, false, false);
        assert_eq!(routed.0.len(), 1, "nothing is kept of those that have ended");
    }
}
