#![no_main]

parsers::target!(parsers::graph);
