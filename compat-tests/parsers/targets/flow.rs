#![no_main]

parsers::target!(parsers::flow);
