//! The contract of endpoints, once for every driver: order, boundaries, sizes, waiting, readiness, sharing,
//! closing, errors. A new driver is done when its line at the end of this file passes.
//!
//! Every test has numbers of its own ([`kit::numbers`]), so they run side by side in one process.

mod blocking;
#[cfg(feature = "kernel-tests")]
mod calls;
mod copied;
mod death;
mod errors;
mod gateway;
mod gather;
mod immediate;
mod kit;
mod lifetime;
#[cfg(feature = "kernel-tests")]
mod meddled;
mod modes;
mod order;
mod readiness;
mod sharing;
mod sizes;
mod toy;

macro_rules! conformance {
    ($name:ident, $driver:expr, [$($group:ident: $($test:ident),+;)+]) => {
        mod $name {
            $(mod $group {
                $(#[test] fn $test() { crate::$group::$test($driver) })+
            })+
        }
    };
}

macro_rules! all_of_it {
    ($name:ident, $driver:expr) => {
        conformance!($name, $driver, [
            order: messages_of_one_sender_arrive_in_order, many_senders_each_in_order,
                one_sender_to_many, plain_writes_keep_their_order,
                plain_writes_and_calls_in_turn, boundaries_stay,
                order_holds_while_the_receiver_gets_its_pool, order_holds_from_plain_to_direct,
                a_full_edge_keeps_the_order, plain_writes_go_to_the_target_of_their_moment,
                plain_writes_and_sends_keep_their_order_for_who_asks,
                a_target_can_be_changed_while_messages_wait_for_the_former;
            sizes: empty_messages_are_messages, every_size_around_the_limits, sixteen_mebibytes,
                a_short_read_cuts_the_message, fionread_tells_the_length, plain_writes_of_64_kib,
                messages_larger_than_the_pool, many_writes_larger_than_the_pool, small_and_large_pools,
                the_longest_plain_message_waits_for_room, a_long_message_for_an_absent_receiver_is_taken,
                large_messages_while_the_descriptor_is_full;
            blocking: nothing_there_is_eagain, no_room_is_eagain_and_nothing_is_lost,
                a_receiver_waits_for_a_message, a_sender_waits_for_room, a_sender_waits_for_its_target,
                a_missing_target_does_not_hold_up_others, a_few_messages_for_nobody_do_not_hold_up_others_either,
                a_receiver_that_comes_back_is_found_behind_messages_for_nobody,
                the_next_receiver_gets_what_is_behind_messages_for_nobody,
                plain_writes_do_not_wait_behind_messages_for_nobody, plain_reads_and_writes_wait,
                a_signal_interrupts, a_signal_interrupts_brief_sleeps,
                a_handler_that_restarts_interrupts_none, a_receive_timeout_holds;
            readiness: poll_tells_a_plain_message, poll_is_quiet_after_the_last, pollout_while_there_is_room,
                edge_triggered_tells_every_message, level_triggered_tells_until_read,
                several_watchers, poll_in_pool_mode_is_true, turning_from_waiting_to_polling,
                select_with_many_endpoints;
            sharing: a_duplicate_is_the_same_endpoint, a_child_reads_and_writes, calls_in_a_child_are_refused,
                an_executed_program_reads_and_writes, a_descriptor_passed_to_another_process,
                two_threads_share_one_endpoint, a_childs_own_endpoints;
            lifetime: a_number_is_free_at_once_after_close, a_plain_close_is_enough,
                closing_with_messages_waiting, what_was_written_before_the_close_arrives,
                a_target_that_comes_back, a_reused_descriptor_never_reaches_the_old_endpoint,
                sending_on_a_replaced_descriptor_is_an_error,
                what_was_written_before_the_exit_arrives, many_endpoints_in_one_process, nothing_is_left;
            modes: messages_from_before_the_pool_keep_their_sender, plain_after_in_place,
                messages_are_released_in_any_order, fsync_releases_the_oldest, the_pool_is_bounded,
                a_pool_has_one_size, more_senders_than_the_pool_has_edges;
            copied: a_copy_is_the_message_and_its_sender, a_copy_tells_what_had_no_room, copies_of_every_size,
                copies_and_lent_messages_in_turn, threads_that_copy_share_the_messages,
                a_sender_that_waits_for_room_goes_on_behind_a_copy;
            gather: pieces_are_one_message, pieces_around_the_limits, pieces_for_whoever_reads_plainly,
                pieces_for_nobody_yet, pieces_wait_for_room, too_many_pieces_and_too_many_bytes,
                a_plain_writev_is_one_message;
            immediate: it_comes_with_its_message_and_no_other, it_is_no_part_of_the_message,
                it_keeps_its_place_among_messages_of_every_size, it_waits_with_its_message,
                from_before_the_pool, who_reads_plainly_sees_nothing_of_it, it_comes_with_a_copy,
                more_senders_than_edges;
            errors: numbers, targets, lengths, privileged_numbers, releases, folders, other_users, doors_of_strangers,
                one_that_was_root, folders_of_strangers, strict_graphs;
            death: a_killed_sender_leaves_what_it_sent, a_killed_receiver_is_a_missing_target;
        ]);
    };
}

all_of_it!(user, dpfd::driver::Driver::User);
// The kernel driver knows other nodes itself.
conformance!(user_more, dpfd::driver::Driver::User, [
    gateway: without_one_the_error_names_the_node, another_node_is_reached_through_it,
        one_that_comes_back_is_found_again, a_node_that_it_does_not_know_is_an_error, a_node_has_one,
        one_that_said_no_routes_is_told_of_none,
        a_message_that_names_its_route_says_so,
        who_goes_raw_says_so_and_the_next_one_is_not_taken_for_it,
        what_a_proxy_deposits_is_with_its_receiver_or_nowhere,
        an_unused_proxy_ends_where_its_receiver_is_another,
        an_unused_proxy_ends_where_its_senders_are_through;
]);
// Fails where there is no /dev/dp: .ci/kernel runs it where there is one.
#[cfg(feature = "kernel-tests")]
all_of_it!(kernel, dpfd::driver::Driver::Kernel);
#[cfg(feature = "kernel-tests")]
conformance!(kernel_more, dpfd::driver::Driver::Kernel, [
    calls: messages_that_are_there_cost_no_system_call;
    immediate: older_programs_are_sent_none;
    meddled: nonsense_in_the_control_page_is_survived;
]);
