//! `[security]` and `[route.NAME]`.

use toml::de::DeTable;

use super::{Reader, Value};
use crate::rules::Place;
use crate::speed::Speed;
use crate::trust::{Mapped, Security, Trust, Users};
use crate::Xdp;

impl Reader<'_> {
    /// The name of the file that has the graph's key. Who checks the graph may look at the file, too.
    pub(super) fn key(&mut self, document: &DeTable<'_>) -> Option<String> {
        let value = document.get("security")?;
        let Some(table) = value.get_ref().as_table() else {
            self.lost.key = true;
            self.wrong(value, "security", "[security] above a line such as key = \"cluster.key\"");
            return None;
        };
        self.known(table, &["key"], "of [security]");
        let key = self.needed(table, "key", &value.span(), "[security]", "key = \"cluster.key\"");
        let name = key.and_then(|key| {
            let name = self.string(key, "key")?;
            if name.is_empty() || name.chars().any(char::is_control) {
                let what = format!("{name:?} is no name of a file");
                self.fault(key.span(), "shape", what, "name the file that `dp graph key FILE` made");
                return None;
            }
            if let Err(why) = (self.look)(&name) {
                let (what, way) = why.split_once("; ").unwrap_or((&why, ""));
                self.fault(key.span(), "key-file", format!("{name:?}: {what}"), way);
            }
            Some(name)
        });
        self.lost.key = name.is_none();
        name
    }

    /// The routes that the graph speaks of, in the order of their names.
    pub(super) fn trusts(&mut self, document: &DeTable<'_>) -> Vec<Trust> {
        let Some(value) = document.get("route") else { return Vec::new() };
        let Some(routes) = value.get_ref().as_table() else {
            self.lost.trusts = true;
            self.wrong(value, "route", "[route.NAME], as in [route.udp], above the lines of each");
            return Vec::new();
        };
        let mut all: Vec<_> = routes.iter().collect();
        all.sort_by_key(|(name, _)| name.get_ref().to_string());
        let mut trusts = Vec::new();
        for (name, value) in all {
            let route = name.get_ref().to_string();
            self.places.insert(Place::Trust(trusts.len()), name.span());
            match value.get_ref().as_table() {
                Some(table) => trusts.extend(self.trust(route, table, trusts.len())),
                None => self.wrong(value, &format!("{route:?}"), "[route.NAME] above the lines of each"),
            }
        }
        self.lost.trusts |= trusts.len() < routes.len();
        trusts
    }

    fn trust(&mut self, route: String, table: &DeTable<'_>, i: usize) -> Option<Trust> {
        self.known(table, &["security", "users", "map", "speed", "xdp"], "of a route");
        let security = match table.get("security") {
            None => Some(Security::by_default(&route)),
            Some(value) => self.one_of(value, "security", Security::words(), Security::of_word),
        };
        let speed = match table.get("speed") {
            None => Some(None),
            Some(value) => {
                let text = self.string(value, "speed");
                text.and_then(|text| self.parsed::<Speed>(value, &text, "speed")).map(Some)
            }
        };
        let xdp = match table.get("xdp") {
            None => Some(Xdp::default()),
            Some(value) if route == "eth" => self.one_of(value, "xdp", Xdp::words(), Xdp::of_word),
            Some(value) => {
                let what = format!("xdp is of the route eth, and not of {route}");
                self.fault(value.span(), "shape", what, "take it away, or put it below [route.eth]");
                return None;
            }
        };
        let map = table.get("map");
        let users = match table.get("users") {
            None => Some(false),
            Some(value) => {
                self.places.insert(Place::TrustUsers(i), value.span());
                self.one_of(value, "users", ["squash", "map"].into_iter(), |word| match word {
                    "squash" => Some(false),
                    "map" => Some(true),
                    _ => None,
                })
            }
        };
        let users = match (users?, map) {
            (false, None) => Users::Squash,
            (true, Some(value)) => Users::Map(self.map(value, i)?),
            (false, Some(value)) => {
                let what = "here are users to map, but users are squashed";
                self.fault(value.span(), "shape", what, "add users = \"map\", or take the list away");
                return None;
            }
            (true, None) => {
                let at = self.places.get(&Place::TrustUsers(i)).cloned().unwrap_or(0..0);
                let way = "add a line such as map = [\"1000-1999:1000\"]: users there, and who they are here";
                self.fault(at, "missing", "users are to be mapped, but none is", way);
                return None;
            }
        };
        Some(Trust { route, security: security?, users, speed: speed?, xdp: xdp? })
    }

    fn map(&mut self, value: Value<'_, '_>, i: usize) -> Option<Vec<Mapped>> {
        let all = self.list(value, "map", |me, v, k| {
            me.places.insert(Place::TrustMap(i, k), v.span());
            let text = me.string(v, "map")?;
            me.parsed::<Mapped>(v, &text, "user")
        })?;
        all.into_iter().collect()
    }

    /// A word of several.
    fn one_of<T>(
        &mut self,
        value: Value<'_, '_>,
        key: &str,
        words: impl Iterator<Item = &'static str>,
        of_word: impl Fn(&str) -> Option<T>,
    ) -> Option<T> {
        let word = self.string(value, key)?;
        let found = of_word(&word);
        if found.is_none() {
            let words: Vec<_> = words.map(|word| format!("\"{word}\"")).collect();
            let what = format!("{key} cannot be {word:?}");
            self.fault(value.span(), "word", what, format!("write one of {}", words.join(", ")));
        }
        found
    }
}
