#![no_main]

parsers::target!(parsers::words);
