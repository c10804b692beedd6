#![no_main]

parsers::target!(parsers::node);
