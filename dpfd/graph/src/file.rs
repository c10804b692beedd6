//! `dp-graph.toml(5)`: from text to a graph, with the place of everything in it.
//!
//! As much as possible is told at once: what is no TOML, what is no table of a graph, which rules do not hold. Where a node
//! or a process could not be read, it is not told that edges miss it.

use std::collections::HashMap;
use std::ops::Range;
use std::str::FromStr;

use toml::de::{DeTable, DeValue};
use toml::Spanned;

use crate::faults::{Fault, Faults};
use crate::rules::{Broken, Place, Rule};
use crate::{Addr, Edge, Graph, Node, PeerAddr, Process};

mod trust;

/// Bytes of a file; a longer one is a mistake.
pub const LONGEST: usize = 16 << 20;

/// Where parts of a graph stand in the text, bytes.
type Places = HashMap<Place, Range<usize>>;

impl Graph {
    /// Reads the text of a file and checks all rules.
    ///
    /// # Errors
    ///
    /// What is wrong, in the order of the text.
    pub fn parse(text: &str) -> Result<Graph, Faults> {
        Graph::parse_with(text, |_| Ok(()))
    }

    /// The same, and `look` looks at the file of the key that the graph names: what is wrong with it, and behind a semicolon
    /// what to do.
    ///
    /// # Errors
    ///
    /// As above.
    pub fn parse_with(text: &str, mut look: impl FnMut(&str) -> Result<(), String>) -> Result<Graph, Faults> {
        let (document, syntax) = DeTable::parse_recoverable(text);
        let faults = syntax.iter().map(Fault::of_toml).collect();
        let mut reader = Reader { faults, places: Places::new(), lost: Lost::default(), look: &mut look };
        let graph = reader.graph(document.get_ref());
        // Text that was skipped may have held what now seems to be missing.
        if !syntax.is_empty() {
            return Err(Faults::new(text, reader.faults));
        }
        for broken in graph.broken() {
            if !reader.lost.explains(&broken) {
                let at = |place| reader.places.get(&place).cloned().unwrap_or(0..0);
                reader.faults.push(Fault::of_rule(&broken, at(broken.place), broken.first.map(at)));
            }
        }
        if reader.faults.is_empty() {
            Ok(graph)
        } else {
            Err(Faults::new(text, reader.faults))
        }
    }
}

/// What could not be read.
#[derive(Default)]
struct Lost {
    nodes: bool,
    routes: bool,
    processes: bool,
    key: bool,
    trusts: bool,
}

impl Lost {
    /// Whether a rule may be broken only because of that.
    fn explains(&self, broken: &Broken) -> bool {
        match broken.rule {
            Rule::NoNode { .. } | Rule::EdgeNode { .. } => self.nodes,
            Rule::EdgeEndpoint { .. } => self.processes,
            Rule::NoSuchRoute { .. } | Rule::NoWay { .. } | Rule::RouteNowhere { .. } => self.routes,
            Rule::NoKey { .. } => self.key || self.trusts,
            _ => false,
        }
    }
}

struct Reader<'l> {
    faults: Vec<Fault>,
    places: Places,
    lost: Lost,
    look: &'l mut dyn FnMut(&str) -> Result<(), String>,
}

type Value<'a, 't> = &'a Spanned<DeValue<'t>>;

impl Reader<'_> {
    fn graph(&mut self, document: &DeTable<'_>) -> Graph {
        let mut graph = Graph::default();
        let keys = ["strict", "endpoints", "security", "route", "node", "process", "edge"];
        self.known(document, &keys, "of a graph");
        if let Some(value) = document.get("strict") {
            graph.strict = self.boolean(value, "strict").unwrap_or(false);
        }
        if let Some(value) = document.get("endpoints") {
            self.places.insert(Place::Endpoints, value.span());
            let numbers = self.list(value, "endpoints", |me, v, _| me.number(v, "an endpoint's number"));
            match numbers.as_deref() {
                Some([Some(first), Some(last)]) => graph.endpoints = *first..=*last,
                Some(numbers) if numbers.iter().all(Option::is_some) => {
                    let what = "endpoints is a list of something else than two numbers";
                    self.fault(value.span(), "shape", what, "write endpoints = [FIRST, LAST]");
                }
                _ => {}
            }
        }
        (graph.key, graph.trusts) = (self.key(document), self.trusts(document));
        for (value, table) in self.tables(document, "node") {
            match self.node(table, value.span(), graph.nodes.len()) {
                Some(node) => graph.nodes.push(node),
                None => (self.lost.nodes, self.lost.routes) = (true, true),
            }
        }
        for (value, table) in self.tables(document, "process") {
            match self.process(table, value.span(), graph.processes.len()) {
                Some(process) => graph.processes.push(process),
                None => self.lost.processes = true,
            }
        }
        for (value, table) in self.tables(document, "edge") {
            graph.edges.extend(self.edge(table, value.span(), graph.edges.len()));
        }
        graph
    }

    fn node(&mut self, table: &DeTable<'_>, at: Range<usize>, i: usize) -> Option<Node> {
        self.known(table, &["nid", "name", "routes"], "of a node");
        let nid = self.needed(table, "nid", &at, "a node", "nid = 1");
        let name = table.get("name");
        let routes = table.get("routes");
        if let Some(value) = name {
            self.places.insert(Place::NodeName(i), value.span());
        }
        let name = name.map(|value| self.string(value, "name"));
        let mut all = Vec::new();
        if let Some(value) = routes {
            let routes = self.list(value, "routes", |me, v, k| {
                me.places.insert(Place::NodeRoute(i, k), v.span());
                let text = me.string(v, "a route")?;
                me.parsed::<PeerAddr>(v, &text, "route")
            });
            match routes.and_then(|routes| routes.into_iter().collect()) {
                Some(routes) => all = routes,
                None => self.lost.routes = true,
            }
        }
        let value = nid?;
        self.places.insert(Place::Node(i), value.span());
        let nid = self.number(value, "nid")?;
        // A name that is no string was told of; the node is there.
        Some(Node { nid, name: name.flatten(), routes: all })
    }

    fn process(&mut self, table: &DeTable<'_>, at: Range<usize>, i: usize) -> Option<Process> {
        self.known(table, &["name", "node", "endpoints"], "of a process");
        let name = self.needed(table, "name", &at, "a process", "name = \"P1\"");
        let node = self.needed(table, "node", &at, "a process", "node = 1");
        let endpoints = self.needed(table, "endpoints", &at, "a process", "endpoints = [5001, 5002]");
        let name = name.and_then(|value| {
            self.places.insert(Place::Process(i), value.span());
            self.string(value, "name")
        });
        let nid = node.and_then(|value| {
            self.places.insert(Place::ProcessNode(i), value.span());
            self.number(value, "node")
        });
        let endpoints = endpoints.and_then(|value| {
            let all = self.list(value, "endpoints", |me, v, k| {
                me.places.insert(Place::ProcessEndpoint(i, k), v.span());
                me.number(v, "an endpoint's number")
            });
            all.and_then(|all| all.into_iter().collect())
        });
        Some(Process { name: name?, nid: nid?, endpoints: endpoints? })
    }

    fn edge(&mut self, table: &DeTable<'_>, at: Range<usize>, i: usize) -> Option<Edge> {
        self.known(table, &["from", "to", "route", "raw"], "of an edge");
        let from = self.needed(table, "from", &at, "an edge", "from = \"1/5001\"");
        let to = self.needed(table, "to", &at, "an edge", "to = \"2/5001\"");
        self.places.insert(Place::Edge(i), at);
        let from = from.and_then(|value| self.addr(value, "from", Place::From(i)));
        let to = to.and_then(|value| self.addr(value, "to", Place::To(i)));
        let mut by = None;
        if let Some(value) = table.get("route") {
            self.places.insert(Place::EdgeRoute(i), value.span());
            by = Some(self.string(value, "route")?);
        }
        let raw = table.get("raw").and_then(|value| self.boolean(value, "raw")).unwrap_or(false);
        Some(Edge { from: from?, to: to?, route: by, raw })
    }

    fn addr(&mut self, value: Value<'_, '_>, key: &str, place: Place) -> Option<Addr> {
        self.places.insert(place, value.span());
        let text = self.string(value, key)?;
        match text.parse::<Addr>() {
            Ok(addr) if addr.nid != 0 => Some(addr),
            _ => {
                let what = format!("{text:?} is no endpoint of a graph");
                let way = "write NID/DPID, each from 1 on, as in \"1/5001\"";
                self.fault(value.span(), "address", what, way);
                None
            }
        }
    }
}

/// Values of one kind.
impl Reader<'_> {
    fn fault(
        &mut self,
        at: Range<usize>,
        word: &'static str,
        what: impl Into<String>,
        way: impl Into<String>,
    ) {
        self.faults.push(Fault::new(at, word, what.into(), way.into()));
    }

    /// Tells of keys that nobody reads: most are slips of the pen.
    fn known(&mut self, table: &DeTable<'_>, keys: &[&'static str], of: &str) {
        for key in table.keys().filter(|key| !keys.contains(&key.get_ref().as_ref())) {
            let what = format!("{:?} is no key {of}", key.get_ref());
            let are = if keys.len() == 1 { "is only" } else { "are" };
            self.fault(key.span(), "key", what, format!("there {are} {}", keys.join(", ")));
        }
    }

    fn needed<'a, 't>(
        &mut self,
        table: &'a DeTable<'t>,
        key: &str,
        at: &Range<usize>,
        of: &str,
        example: &str,
    ) -> Option<Value<'a, 't>> {
        let value = table.get(key);
        if value.is_none() {
            self.fault(
                at.clone(),
                "missing",
                format!("{of} without {key}"),
                format!("add a line such as {example}"),
            );
        }
        value
    }

    fn wrong(&mut self, value: Value<'_, '_>, key: &str, should: &str) {
        let is = value.get_ref().type_str();
        let an = if is.starts_with(['a', 'i']) { "an" } else { "a" };
        self.fault(value.span(), "type", format!("{key} is {an} {is} here"), format!("write {should}"));
    }

    /// `[[key]]`, each with its place.
    fn tables<'a, 't>(
        &mut self,
        document: &'a DeTable<'t>,
        key: &str,
    ) -> Vec<(Value<'a, 't>, &'a DeTable<'t>)> {
        let Some(value) = document.get(key) else { return Vec::new() };
        let mut tables = Vec::new();
        let mut lost = true;
        if let Some(array) = value.get_ref().as_array() {
            lost = false;
            for element in array.iter() {
                match element.get_ref().as_table() {
                    Some(table) => tables.push((element, table)),
                    None => {
                        lost = true;
                        self.wrong(element, key, &format!("[[{key}]] above the lines of each"));
                    }
                }
            }
        } else {
            self.wrong(value, key, &format!("[[{key}]], with two brackets, above the lines of each"));
        }
        match key {
            "node" => (self.lost.nodes, self.lost.routes) = (lost, lost),
            "process" => self.lost.processes = lost,
            _ => {}
        }
        tables
    }

    fn boolean(&mut self, value: Value<'_, '_>, key: &str) -> Option<bool> {
        let is = value.get_ref().as_bool();
        if is.is_none() {
            self.wrong(value, key, "true or false");
        }
        is
    }

    fn string(&mut self, value: Value<'_, '_>, key: &str) -> Option<String> {
        let is = value.get_ref().as_str().map(str::to_string);
        if is.is_none() {
            self.wrong(value, key, "text in quotes");
        }
        is
    }

    fn number(&mut self, value: Value<'_, '_>, key: &str) -> Option<u16> {
        let Some(integer) = value.get_ref().as_integer() else {
            self.wrong(value, key, "a whole number without quotes");
            return None;
        };
        let number = i128::from_str_radix(integer.as_str(), integer.radix()).ok();
        let is = number.and_then(|n| u16::try_from(n).ok());
        if is.is_none() {
            let what = format!("{key} cannot be {}", integer.as_str());
            self.fault(
                value.span(),
                "number",
                what,
                "numbers of nodes go from 1 to 65534, of endpoints from 1 to 65535",
            );
        }
        is
    }

    /// The elements; None of one that is wrong.
    fn list<T>(
        &mut self,
        value: Value<'_, '_>,
        key: &str,
        mut each: impl FnMut(&mut Self, Value<'_, '_>, usize) -> Option<T>,
    ) -> Option<Vec<Option<T>>> {
        let Some(array) = value.get_ref().as_array() else {
            self.wrong(value, key, "a list in brackets");
            return None;
        };
        Some(array.iter().enumerate().map(|(k, v)| each(self, v, k)).collect())
    }

    fn parsed<T: FromStr>(&mut self, value: Value<'_, '_>, text: &str, word: &'static str) -> Option<T>
    where
        T::Err: std::fmt::Display,
    {
        match text.parse() {
            Ok(parsed) => Some(parsed),
            Err(why) => {
                let why = why.to_string();
                let (what, way) = why.split_once("; ").unwrap_or((&why, ""));
                self.fault(value.span(), word, what, way);
                None
            }
        }
    }
}
