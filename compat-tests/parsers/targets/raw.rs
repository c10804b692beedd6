#![no_main]

parsers::target!(parsers::raw);
