#![no_main]

parsers::target!(parsers::seal);
