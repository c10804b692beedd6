//! Descriptor numbers, names, options.

use compat_tests::{same_everywhere, Pair};

same_everywhere! {
    copies_from_before_the_connect => Pair::c("before_connect").arg("dup");
    copies_by_fcntl_from_before_the_connect => Pair::c("before_connect").arg("fcntl");
    copies_by_dup2_from_before_the_connect => Pair::c("before_connect").arg("dup2");
    a_child_from_before_the_connect => Pair::c("before_connect").arg("fork");
    a_program_started_before_the_connect => Pair::c("before_connect").arg("spawn");
    a_program_started_by_vfork_before_the_connect => Pair::c("before_connect").arg("vfork");
    a_program_started_by_pidfd_spawn_before_the_connect => Pair::c("before_connect").arg("pidfd");
    a_copy_that_was_passed_before_the_connect => Pair::c("before_connect").arg("passed");
    a_stream_from_before_the_connect => Pair::c("before_connect").arg("stream");
    a_connect_that_was_refused_first => Pair::c("before_connect").arg("again");
    dup_in_every_way => Pair::c("dup_family").arg("chain");
    dup_and_use_both => Pair::c("dup_family").arg("alias");
    dup2_onto_a_live_connection => Pair::c("dup_family").arg("onto");
    number_used_again => Pair::c("dup_family").arg("reuse");
    descriptor_replaced_unseen => Pair::c("replaced").env("DP_AFTER", "6");
    close_range_and_closefrom => Pair::c("dup_family").arg("range");
    close_range_with_a_flag_that_does_not_exist => Pair::c("refused").arg("close_range");
    dup3_with_a_flag_that_does_not_exist => Pair::c("refused").arg("dup3");
    shutdown_in_a_way_that_does_not_exist => Pair::c("refused").arg("shutdown");
    control_data_that_says_more_than_it_has => Pair::c("spared").arg("control");
    close_range_in_a_table_of_the_threads_own => Pair::c("spared").arg("unshare");
    dup2_beyond_a_limit => Pair::c("spared").arg("beyond");
    dup2_of_nothing_to_every_number => Pair::c("spared").arg("numbers");
    closefrom_where_close_range_is_forbidden => Pair::c("spared").arg("closefrom");
    no_files_may_be_written => Pair::c("refused").arg("limited");
    names_and_options => Pair::c("names_options");
    a_pacing_rate_that_nobody_sets => Pair::c("pacing").arg("none");
    a_pacing_rate_of_the_programs_own => Pair::c("pacing").arg("own");
    a_pacing_rate_set_again_and_again => Pair::c("pacing").arg("late");
    a_pacing_rate_after_the_channel => Pair::c("pacing").arg("back");
    names_and_options_over_ipv6 => Pair::c("names_options").over_ipv6();
}
