//! A statically linked program cannot be preloaded; its shimmed peer must get along with it over TCP.

use compat_tests::{same_everywhere, Pair};

same_everywhere! {
    static_client => Pair::c("ping_pong").static_client();
    static_server => Pair::c("ping_pong").static_server();
    static_client_of_a_poll_server => Pair::c("ready_server").arg("poll").static_client();
    static_client_sends_every_size => Pair::c("echo_sizes").static_client();
}
