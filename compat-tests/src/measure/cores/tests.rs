use super::*;

fn topology(cores: usize, threads: usize, cache: usize) -> Topology {
    let share = |width: usize| {
        (0..cores).map(|core| (core / width * width..core / width * width + width).collect()).collect()
    };
    Topology { execution_units: share(threads), cache: share(cache) }
}

fn chosen(allowed: &[usize], topology: &Topology) -> Option<(usize, usize)> {
    choose(allowed, topology).map(|cores| (cores.server, cores.client))
}

#[test]
fn two_cores_are_both_taken() {
    assert_eq!(chosen(&[0, 1], &topology(2, 1, 2)), Some((0, 1)));
}

#[test]
fn one_core_is_not_enough() {
    assert_eq!(chosen(&[3], &topology(1, 1, 1)), None);
}

#[test]
fn hardware_threads_of_one_core_are_the_last_choice() {
    assert_eq!(chosen(&[0, 1, 2, 3], &topology(4, 2, 4)), Some((1, 2)));
    assert_eq!(chosen(&[0, 1], &topology(2, 2, 2)), Some((0, 1)));
}

#[test]
fn core_zero_is_left_to_interrupts_where_others_share_a_cache() {
    assert_eq!(chosen(&[0, 1, 2, 3], &topology(4, 1, 4)), Some((1, 2)));
    assert_eq!(chosen(&[0, 1, 2, 3], &topology(4, 1, 2)), Some((2, 3)));
}

#[test]
fn a_machine_that_tells_nothing_about_itself_gets_a_pair_too() {
    let nothing = || vec![Vec::new(); 3];
    assert_eq!(chosen(&[0, 4, 9], &Topology { execution_units: nothing(), cache: nothing() }), Some((4, 9)));
}

#[test]
fn lists_of_the_kernel_are_read() {
    assert_eq!(parse_list("0-2,8\n"), [0, 1, 2, 8]);
    assert_eq!(parse_list("5"), [5]);
    assert_eq!(parse_list(""), [] as [usize; 0]);
    assert_eq!(parse_list("x-3,7"), [7]);
}
