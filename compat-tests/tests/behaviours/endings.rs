//! How connections end, and what the other side is told.

use compat_tests::{same_everywhere, Pair};

same_everywhere! {
    half_close_by_the_tester => Pair::c("half_close").arg("tester_first");
    half_close_by_the_helper => Pair::c("half_close").arg("helper_first");
    half_close_by_both => Pair::c("half_close").arg("both");
    shutdown_of_the_reading_side => Pair::c("half_close").arg("read_side");
    linger_zero_resets => Pair::c("endings").arg("linger");
    close_with_unread_bytes_resets_the_reader => Pair::c("endings").arg("unread");
    close_with_unread_bytes_resets_the_writer => Pair::c("endings").arg("unread_write");
    answer_arrives_before_the_reset => Pair::c("endings").arg("answer_then_reset");
    writing_to_a_closed_peer_gives_epipe => Pair::c("endings").arg("epipe");
    writing_to_a_closed_peer_gives_sigpipe => Pair::c("endings").arg("sigpipe");
    bytes_of_a_killed_peer_arrive => Pair::c("endings").arg("killed");
    bytes_of_a_peer_that_only_exits_arrive => Pair::c("endings").arg("exits");
    bells_that_are_only_claimed_do_not_hold_up_a_close => Pair::c("claims").arg("bells");
    core_dumps_hold_nothing_of_channels => Pair::c("claims").arg("dump");
    sender_killed_at_the_bell_and_its_relative => Pair::c("bell_death").arg("same");
    sender_killed_at_the_bell_and_another_connection => Pair::c("bell_death").arg("other");
}
