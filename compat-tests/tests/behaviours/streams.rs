//! Bytes: sizes, many of them, buffers between the sides, who speaks first.

use compat_tests::{same_everywhere, Pair};

same_everywhere! {
    echo_of_every_size => Pair::c("echo_sizes");
    echo_of_every_size_over_ipv6 => Pair::c("echo_sizes").over_ipv6();
    /// An IPv6 socket whose peer is an IPv4 one.
    echo_of_every_size_from_a_mapped_address => Pair::c("echo_sizes").env("COMPAT_CONNECT", "::ffff:127.0.0.1");
    many_small_exchanges => Pair::c("ping_pong").arg("plain").arg("5000");
    many_small_exchanges_over_ipv6 => Pair::c("ping_pong").over_ipv6();
    a_long_stream => Pair::c("stream").arg("plain").arg("96");
    a_long_stream_from_the_accepting_side => Pair::c("stream").arg("back").arg("96");
    short_connections_closed_by_the_client => Pair::c("short_connections").arg("client");
    short_connections_closed_by_the_server => Pair::c("short_connections").arg("server");
    server_speaks_first => Pair::c("first_words").arg("server_first");
    late_accept => Pair::c("first_words").arg("late_open");
    late_accept_of_a_connection_already_closed => Pair::c("first_words").arg("late_closed");
    connection_closed_without_a_byte => Pair::c("first_words").arg("silent");
    both_sides_write_before_they_read => Pair::c("buffering").arg("both_first");
    slow_reader_with_poll => Pair::c("buffering").arg("slow_poll");
    slow_reader_with_select => Pair::c("buffering").arg("slow_select");
    slow_reader_with_epoll => Pair::c("buffering").arg("slow_epoll");
    what_a_client_with_long_rings_makes_a_server_hold => Pair::c("held");
    slow_reader_with_edges => Pair::c("buffering").arg("slow_edge");
    notices_of_sends_without_copies => Pair::c("queues").arg("zerocopy");
    time_stamps_of_sends => Pair::c("queues").arg("stamps");
    urgent_bytes => Pair::c("queues").arg("urgent");
    urgent_bytes_that_were_passed => Pair::c("queues").arg("passed");
    urgent_bytes_behind_what_was_asked_for => Pair::c("queues").arg("exact");
    urgent_bytes_in_line => Pair::c("queues").arg("inline");
    connect_nonblocking => Pair::c("connect_modes").arg("nonblocking");
    connect_refused => Pair::c("connect_modes").arg("refused");
    connect_refused_nonblocking => Pair::c("connect_modes").arg("nonblocking_refused");
    connect_again_after_disconnecting => Pair::c("connect_modes").arg("reconnect");
    connect_twice => Pair::c("connect_modes").arg("twice");
    connect_asked_for_again_when_it_was_used => Pair::c("connect_modes").arg("late");
}
