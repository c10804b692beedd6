//! fork, exec, started programs, and connections handed from process to process.

use compat_tests::{same_everywhere, Pair};

/// A ring that is longer than any send buffer that the shim asks for.
fn more_than_tcp_takes(mode: &str) -> Pair {
    Pair::c("left_alone").arg(mode).arg("300000").env("DP_RING", "524288")
}

same_everywhere! {
    fork_after_accept => Pair::c("fork_serve").arg("child_serves");
    fork_before_the_first_read => Pair::c("fork_serve").arg("child_serves_cold");
    fork_before_accept => Pair::c("fork_serve").arg("prefork");
    fork_only_to_exit => Pair::c("fork_serve").arg("snapshot");
    fork_and_take_turns => Pair::c("fork_serve").arg("in_turns");
    children_of_under_fork => Pair::c("forks").arg("_Fork");
    children_of_clone => Pair::c("forks").arg("clone");
    children_of_clone_by_its_second_name => Pair::c("forks").arg("__clone");
    children_of_clone_by_number => Pair::c("forks").arg("number");
    more_children_than_members => Pair::c("forks").arg("fork").arg("270");
    fork_while_a_thread_accepts => Pair::c("fork_window").arg("files");
    fork_and_exec_while_a_thread_accepts => Pair::c("fork_window").arg("exec");
    fork_that_fails => Pair::c("fork_lives").arg("fails");
    forks_of_two_threads => Pair::c("fork_lives").arg("threads");
    a_child_of_vfork_makes_sockets => Pair::c("fork_lives").arg("vfork");
    a_child_executes_and_lasts => Pair::c("fork_lives").arg("exec");
    a_child_cannot_execute_and_goes_on => Pair::c("fork_lives").arg("failed");
    fork_of_the_client => Pair::c("fork_serve").arg("client_child");
    child_in_a_pid_namespace_of_its_own => Pair::c("namespaces").arg("child");
    child_in_a_pid_namespace_closes_and_lives_on => Pair::c("namespaces").arg("close");
    child_in_a_pid_namespace_outlives_its_parent => Pair::c("namespaces").arg("parent_ends");
    child_closes_an_epoll_set_of_its_parent => Pair::c("namespaces").arg("epoll");
    exec_of_cat => Pair::c("exec_live").arg("cat");
    exec_of_cat_without_the_shim => Pair::c("exec_live").arg("bare");
    exec_of_a_static_program => Pair::c("exec_live").arg("static");
    exec_of_a_stdio_program => Pair::c("exec_live").arg("stdio");
    exec_of_a_shell => Pair::c("exec_live").arg("shell");
    exec_in_a_child => Pair::c("exec_live").arg("child");
    pass_to_a_relative => Pair::c("pass_fd").arg("fork");
    pass_to_a_relative_and_keep => Pair::c("pass_fd").arg("fork").arg("1");
    pass_to_another_program => Pair::c("pass_fd").arg("exec");
    pass_to_another_program_and_keep => Pair::c("pass_fd").arg("exec").arg("1");
    pass_to_a_program_without_the_shim => Pair::c("pass_fd").arg("bare");
    stranded_and_passed => Pair::c("stranded").arg("pass");
    stranded_and_passed_after_a_shutdown => Pair::c("stranded").arg("pass").arg("1");
    stranded_and_passed_after_a_close => Pair::c("stranded").arg("pass").arg("2");
    stranded_and_executed => Pair::c("stranded").arg("exec");
    stranded_and_executed_after_a_shutdown => Pair::c("stranded").arg("exec").arg("1").arg("5000");
    stranded_and_executed_by_number => Pair::c("stranded").arg("number").arg("2");
    stranded_under_vfork => Pair::c("stranded").arg("vfork").arg("1");
    stranded_and_spawned => Pair::c("stranded").arg("spawn");
    stranded_and_spawned_after_a_close => Pair::c("stranded").arg("spawn").arg("2").arg("5000");
    stranded_in_stdio => Pair::c("stranded").arg("stdio");
    stranded_in_stdio_after_a_close => Pair::c("stranded").arg("stdio").arg("2").arg("5000");
    stranded_in_stdio_beside_an_epoll_set => Pair::c("stranded").arg("set");
    stranded_in_stdio_beside_an_epoll_set_after_a_shutdown => Pair::c("stranded").arg("set").arg("1");
    stranded_in_stdio_beside_an_epoll_set_after_a_close => Pair::c("stranded").arg("set").arg("2").arg("5000");
    stranded_in_stdio_beside_an_epoll_set_with_edges => Pair::c("stranded").arg("set_edge").arg("1");
    given_away_and_not_read_for_long => Pair::c("slow_taker").arg("more");
    given_away_and_shut_down_meanwhile => Pair::c("slow_taker").arg("shut");
    given_away_and_closed_meanwhile => Pair::c("slow_taker").arg("close");
    given_away_and_spliced_to_meanwhile => Pair::c("slow_taker").arg("splice");
    given_away_and_sent_to_with_a_timeout => Pair::c("slow_taker").arg("timeout");
    given_away_and_sent_to_among_signals => Pair::c("slow_taker").arg("restart");
    given_away_and_followed_by_many_threads => Pair::c("push_again").arg("threads");
    given_away_and_sent_to_by_many_edges => Pair::c("push_again").arg("edges");
    left_by_stdio_and_not_read => Pair::c("left_alone").arg("stdio");
    left_for_signals_and_not_read => Pair::c("left_alone").arg("signals");
    left_to_a_stranger_who_does_not_read => Pair::c("left_alone").arg("stranger");
    left_to_a_child_that_does_not_read => Pair::c("left_alone").arg("inherit");
    left_to_a_child_that_answers => Pair::c("left_alone").arg("answer");
    left_by_stdio_and_closed_at_once => Pair::c("left_alone").arg("close");
    left_by_stdio_with_more_than_tcp_takes => more_than_tcp_takes("stdio");
    left_for_signals_with_more_than_tcp_takes => more_than_tcp_takes("signals");
    left_to_a_stranger_with_more_than_tcp_takes => more_than_tcp_takes("stranger");
    left_to_a_child_with_more_than_tcp_takes => more_than_tcp_takes("inherit");
    left_to_a_child_that_answers_to_more_than_tcp_takes => more_than_tcp_takes("answer");
    left_by_stdio_and_closed_with_more_than_tcp_takes => more_than_tcp_takes("close");
    given_to_stdio_with_much_unsent => Pair::c("full_giver").arg("stdio");
    given_to_dprintf_with_much_unsent => Pair::c("full_giver").arg("dprintf");
    given_to_a_child_with_much_unsent => Pair::c("full_giver").arg("spawn");
    given_to_stdio_among_signals => Pair::c("full_giver").arg("signals");
    inherited_by_system => Pair::c("inherit").arg("system");
    inherited_by_popen => Pair::c("inherit").arg("popen");
    inherited_by_posix_spawn => Pair::c("inherit").arg("spawn");
    inherited_by_vfork_and_exec => Pair::c("inherit").arg("vfork");
    inherited_by_exec_through_syscall => Pair::c("inherit").arg("number");
    last_words_before_a_close => Pair::c("inherit").arg("close");
    last_words_before_a_shutdown => Pair::c("inherit").arg("half");
    last_words_after_a_close => Pair::c("inherit").arg("close").arg("1");
    last_words_after_a_shutdown => Pair::c("inherit").arg("half").arg("1");
    start_programs_in_the_middle_of_a_stream => Pair::c("inherit").arg("stream");
    not_inherited => Pair::c("inherit").arg("system").arg("1");
    start_programs_meanwhile => Pair::c("spawn");
    a_filter_of_system_calls_before_the_first_connection => Pair::c("sandbox").arg("early");
    a_filter_of_system_calls_on_a_live_connection => Pair::c("sandbox").arg("live");
    a_filter_of_system_calls_between_two_connections => Pair::c("sandbox").arg("live").arg("1");
    no_system_calls_but_read_and_write => Pair::c("sandbox").arg("strict");
    no_clock => Pair::c("sandbox").arg("clock");
    a_filter_of_system_calls_beside_an_epoll_set => Pair::c("sandbox").arg("epoll");
    a_filter_of_system_calls_beside_an_epoll_set_with_edges => Pair::c("sandbox").arg("epoll").arg("1");
    a_filter_of_system_calls_before_what_is_unread => Pair::c("sandbox").arg("rest");
    a_filter_of_system_calls_in_a_child => Pair::c("sandbox").arg("child");
    a_filter_of_system_calls_beside_a_blocked_thread => Pair::c("sandbox").arg("threads");
    a_filter_of_system_calls_from_the_start => Pair::c("sandbox").arg("listed");
    questions_about_filters => Pair::c("sandbox").arg("question");
}
