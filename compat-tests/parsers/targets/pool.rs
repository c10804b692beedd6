#![no_main]

parsers::target!(parsers::pool);
