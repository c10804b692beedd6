//! The fast part of the matrix: each row's check, natively and with the shim on both sides.

use std::time::Duration;

use compat_tests::matrix::judge::{judge, Plan};
use compat_tests::matrix::{named, rows, tool};
use compat_tests::measure::cores::Cores;
use compat_tests::measure::kit::Kit;
use compat_tests::measure::turns::Progress;
use compat_tests::measure::Error;
use compat_tests::programs::target_dir;
use compat_tests::tools::skip;

fn holds(name: &str) {
    let row = named(name).unwrap_or_else(|| panic!("no row {name}"));
    let dp = target_dir().join("release/dp");
    let kit = Kit::new(Some(dp), Cores::single().expect("a core")).unwrap_or_else(|error| panic!("{error}"));
    let plan = Plan { fast: true, rounds: 0, time: Duration::from_secs(1), keep: false };
    let outcome = judge(&kit, row, &plan, &Progress::new()).unwrap_or_else(|error| panic!("{error}"));
    assert!(outcome.faults().is_empty(), "{}", outcome.faults().join("\n"));
}

/// Tests of others whose sources cannot be fetched here are left out, which is said.
fn holds_if_there(name: &str) {
    let row = named(name).unwrap_or_else(|| panic!("no row {name}"));
    let mut errors = row.tools.iter().filter_map(|tool| tool::find(*tool).err());
    let Some(Error::NotBuilt { program, how }) = errors.find(|error| matches!(error, Error::NotBuilt { .. }))
    else {
        return holds(name);
    };
    skip(&format!("matrix {name}: no {program} here; {how}"));
}

/// A test for each row, and one that says when a row has none.
macro_rules! tested {
    ($($name:ident)+; if they are there: $($other:ident)+) => {
        $(#[test] fn $name() { holds(stringify!($name)); })+
        $(#[test] fn $other() { holds_if_there(stringify!($other)); })+

        #[test]
        fn every_row_is_tested() {
            let tested = [$(stringify!($name),)+ $(stringify!($other)),+];
            let untested: Vec<_> = rows().map(|row| row.name).filter(|name| !tested.contains(name)).collect();
            assert!(untested.is_empty(), "add to tests/matrix/main.rs: {untested:?}");
        }
    };
}

tested! {
    // web
    nginx
    apache_event
    apache_prefork
    haproxy
    php_fpm
    node
    uvicorn
    grpc_python
    hyper
    java
    go
    // data
    postgres
    mariadb
    memcached
    redis
    mosquitto
    openssh
    rsync
    git;
    if they are there: redis_tests
}
