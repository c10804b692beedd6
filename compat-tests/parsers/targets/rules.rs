#![no_main]

parsers::target!(parsers::rules);
