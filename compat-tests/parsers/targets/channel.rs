#![no_main]

parsers::target!(parsers::channel);
