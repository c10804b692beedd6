//! The listing for programs that read line by line: one JSON object each, told apart by `kind`.

use serde::Serialize;
use serde_json::{to_value, Value};

use super::Listing;

/// A line for each family, connection, endpoint, edge, node and flow; the fields are those of `--json`.
pub fn text(listing: &Listing) -> String {
    let mut text = String::new();
    for family in &listing.families {
        let mut fields = object("family", family);
        fields.as_object_mut().expect("a family is an object").remove("connections");
        add(&mut text, &fields);
        family.connections.iter().for_each(|c| add(&mut text, &object("connection", c)));
    }
    listing.graph.endpoints.iter().for_each(|endpoint| add(&mut text, &object("endpoint", endpoint)));
    listing.graph.edges.iter().for_each(|edge| add(&mut text, &object("edge", edge)));
    for node in listing.gateway.iter().flat_map(|gateway| &gateway.nodes) {
        let mut fields = object("node", node);
        fields.as_object_mut().expect("a node is an object").remove("flows");
        add(&mut text, &fields);
        node.flows.iter().for_each(|flow| add(&mut text, &object("flow", flow)));
    }
    text
}

fn object(kind: &str, of: &impl Serialize) -> Value {
    let mut value = to_value(of).expect("plain data");
    value["kind"] = kind.into();
    value
}

fn add(text: &mut String, value: &Value) {
    text.push_str(&value.to_string());
    text.push('\n');
}
