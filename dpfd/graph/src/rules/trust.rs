//! Rules of what is said of routes.

use super::{Check, Place, Rule};
use crate::trust::{Security, Trust, Users};

impl Check<'_> {
    pub(super) fn trusts(&mut self) {
        let used = self.graph.routes();
        for (i, trust) in self.graph.trusts.iter().enumerate() {
            let route = trust.route.clone();
            if !used.contains(&route.as_str()) {
                let used = used.iter().map(|name| name.to_string()).collect();
                self.report(Place::Trust(i), None, Rule::RouteNowhere { route: route.clone(), used });
            }
            if trust.security == Security::None && trust.users != Users::Squash {
                self.report(Place::TrustUsers(i), None, Rule::UsersUnproven { route });
            }
            self.mapped(i, trust);
        }
        if self.graph.key.is_none() {
            self.without_key(&used);
        }
    }

    fn mapped(&mut self, i: usize, trust: &Trust) {
        let Users::Map(all) = &trust.users else { return };
        let mut sorted: Vec<_> = all.iter().enumerate().collect();
        sorted.sort_by_key(|(k, mapped)| (*mapped.there.start(), *k));
        for pair in sorted.windows(2) {
            let [(first, before), (second, mapped)] = [pair[0], pair[1]];
            if mapped.there.start() <= before.there.end() {
                let (first, second) = (first.min(second), first.max(second));
                let rule = Rule::UserTwice { user: *mapped.there.start() };
                self.report(Place::TrustMap(i, second), Some(Place::TrustMap(i, first)), rule);
            }
        }
    }

    /// Without a key nothing can be authenticated.
    fn without_key(&mut self, used: &[&str]) {
        for name in used.iter().filter(|name| self.graph.security(name) != Security::None) {
            let of_node = |i: usize| {
                let routes = &self.graph.nodes[i].routes;
                routes.iter().position(|route| route.route() == *name).map(|k| Place::NodeRoute(i, k))
            };
            let said = self.graph.trusts.iter().position(|trust| trust.route == *name).map(Place::Trust);
            let Some(place) = said.or_else(|| (0..self.graph.nodes.len()).find_map(of_node)) else {
                continue;
            };
            let (route, security) = (name.to_string(), self.graph.security(name));
            self.report(place, None, Rule::NoKey { route, security });
        }
    }
}
