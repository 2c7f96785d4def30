"""What once broke, by number, and the tests that stand for it; each failed before it was mended.

A test's name may stand for many cases. `test_failures.py` looks that all of them are there.
"""

FAILURES: dict[int, tuple[str, tuple[str, ...]]] = {
    1: (
        "the makespan counted time in which nothing ran",
        (
            "tests/sim/run/test_right_numbers.py::test_a_run_ends_with_its_last_step",
            "tests/sim/run/test_right_numbers.py::test_without_a_step_there_is_no_makespan",
        ),
    ),
    2: (
        "a horizon was overshot while idle",
        (
            "tests/sim/run/test_right_numbers.py::test_an_idle_engine_sleeps_no_longer_than_the_horizon",
            "tests/sim/run/test_right_numbers.py::test_a_horizon_is_left_with_the_step_under_way",
        ),
    ),
    3: (
        "samples followed tokens that nobody gets, and ignored the horizon",
        (
            "tests/sim/run/test_right_numbers.py::test_tokens_that_nobody_gets_dont_stretch_the_samples",
            "tests/sim/run/test_right_numbers.py::test_samples_follow_the_horizon",
        ),
    ),
    4: (
        "growing buffers charged a copy twice",
        (
            "tests/sim/policy/test_growing.py::test_a_copy_is_charged_in_its_own_step_alone",
            "tests/sim/run/test_right_numbers.py::test_a_prefill_alone_reads_no_copy",
        ),
    ),
    5: (
        "growing buffers with a retention never charged copies",
        ("tests/sim/policy/test_growing.py::test_copies_are_charged_with_and_without_a_retention",),
    ),
    6: (
        "totals wrapped at 64 bits",
        (
            "tests/sim/run/test_right_numbers.py::test_sums_are_whole",
            "tests/sim/run/test_right_numbers.py::test_what_is_cut_is_counted_whole",
            "tests/sim/run/test_right_numbers.py::test_a_device_is_no_larger_than_can_be_counted",
        ),
    ),
    7: (
        "a cost table of another token size, or of impossible ones, was believed",
        (
            "tests/e2e/test_malformed_files.py::test_it_is_one_line",
            "tests/executor/test_calibrated.py::test_a_table_of_another_token_size_is_refused",
        ),
    ),
    8: (
        "a run whose tables lost rows was drawn",
        ("tests/sim/run/test_right_numbers.py::test_a_cut_table_is_not_drawn",),
    ),
    9: (
        "more null blocks than there are were taken",
        ("tests/sim/run/test_right_numbers.py::test_null_blocks_beyond_the_budget_are_refused",),
    ),
    10: (
        "growing buffers promised what didn't fit",
        ("tests/sim/policy/test_growing.py::test_what_is_asked_is_what_is_admitted",),
    ),
    11: (
        "a closed stderr ended a run without a word",
        (
            "tests/e2e/test_endings.py::test_a_closed_stderr_changes_nothing",
            "tests/e2e/test_endings.py::test_an_error_that_nobody_can_read_keeps_its_code",
        ),
    ),
    12: (
        "names that are no UTF-8 were tracebacks",
        ("tests/workloads/test_bad_input.py::test_a_name_that_is_no_utf_8",),
    ),
    13: (
        "out of memory was a traceback, or a hang",
        (
            "tests/e2e/test_endings.py::test_too_little_memory_is_one_line_and_no_hang",
            "tests/workloads/test_bad_input.py::test_memory_is_named_where_memory_is_the_reason",
        ),
    ),
    14: (
        "quoted line ends in a large CSV were refused",
        ("tests/workloads/test_bad_input.py::test_quoted_line_ends_in_a_large_file",),
    ),
    15: (
        "a file put into the output during a run was deleted",
        (
            "tests/workloads/test_folders.py"
            "::test_a_file_that_came_during_the_run_stays_and_so_do_the_results",
        ),
    ),
    16: (
        "a folder of the user's own report counted as kvtwin's",
        ("tests/workloads/test_folders.py::test_a_file_that_the_user_wrote_stays",),
    ),
    17: (
        "the current folder as output lost the results",
        ("tests/workloads/test_folders.py::test_the_current_folder_is_filled",),
    ),
    18: (
        "a kill between two renames left no output",
        ("tests/workloads/test_folders.py::test_kills_lose_nothing_and_the_next_start_mends",),
    ),
    19: (
        "kills left folders and workers",
        (
            "tests/e2e/test_endings.py::test_workers_end_with_their_parent",
            "tests/fuzz/test_kills.py::test_a_kill_loses_nothing_and_leaves_nothing",
        ),
    ),
    20: (
        "a symlink as output was replaced by a folder",
        ("tests/workloads/test_folders.py::test_a_link_stays_a_link",),
    ),
    21: (
        "a tilde was the home to some and a folder's name to others",
        ("tests/workloads/test_folders.py::test_a_tilde_is_the_home",),
    ),
    22: (
        "blank, deeply nested and far-away traces were tracebacks",
        (
            "tests/workloads/test_bad_input.py::test_text",
            "tests/workloads/test_bad_input.py::test_a_time_beyond_every_calendar",
        ),
    ),
    23: (
        "deeply nested JSON was a traceback",
        (
            "tests/e2e/test_malformed_files.py::test_it_is_one_line",
            "tests/workloads/test_incoming.py::test_what_is_no_json_here",
        ),
    ),
    24: (
        "configurations with impossible numbers were tracebacks",
        (
            "tests/e2e/test_malformed_files.py::test_it_is_one_line",
            "tests/fuzz/test_descriptions.py::test_configurations",
        ),
    ),
    25: (
        "cost tables with empty, zero or falling lines were tracebacks",
        (
            "tests/e2e/test_malformed_files.py::test_it_is_one_line",
            "tests/fuzz/test_descriptions.py::test_cost_tables",
        ),
    ),
    26: (
        "malformed profiles were tracebacks",
        (
            "tests/e2e/test_malformed_files.py::test_it_is_one_line",
            "tests/fuzz/test_descriptions.py::test_profiles",
        ),
    ),
    27: (
        "malformed recorded runs were tracebacks",
        (
            "tests/e2e/test_malformed_files.py::test_it_is_one_line",
            "tests/e2e/test_malformed_files.py"
            "::test_a_line_separator_inside_of_a_text_ends_no_line",
            "tests/fuzz/test_readers.py::test_recorded_runs",
        ),
    ),
    28: (
        "malformed folders of kernel times were tracebacks",
        (
            "tests/e2e/test_malformed_files.py::test_it_is_one_line",
            "tests/fuzz/test_descriptions.py::test_profile_folders",
        ),
    ),
    29: (
        "malformed run folders were tracebacks",
        (
            "tests/e2e/test_malformed_files.py::test_it_is_one_line",
            "tests/e2e/test_malformed_files.py::test_a_limit_with_braces_is_drawn",
            "tests/fuzz/test_readers.py::test_run_tables",
        ),
    ),
    30: (
        "plug-ins' faults were tracebacks without their name",
        (
            "tests/sim/run/test_seam.py::test_answers_that_cant_be_true",
            "tests/sim/run/test_seam.py::test_a_policy_that_makes_no_manager",
            "tests/sim/run/test_seam.py::test_a_policy_that_cant_be_made",
            "tests/sim/run/test_seam.py::test_one_that_always_admits_ends",
            "tests/sim/run/test_seam.py::test_an_exit_while_loading_is_a_note",
            "tests/sim/policy/test_third_party.py"
            "::test_a_broken_package_is_a_note_and_hides_no_other",
        ),
    ),
    31: (
        "numbers that nobody means were tracebacks as options",
        (
            "tests/e2e/test_option_bounds.py::test_it_is_one_line_that_names_the_option",
            "tests/sim/sweep/test_grid.py::test_a_grid_has_bounds",
        ),
    ),
    32: (
        "errors of stamps and quoted cells named no row",
        (
            "tests/workloads/test_bad_input.py::test_text",
            "tests/workloads/test_bad_input.py::test_csv_cell",
        ),
    ),
    33: (
        "the fast path took what the careful one refuses",
        (
            "tests/workloads/test_bad_input.py::test_text",
            "tests/workloads/test_bad_input.py::test_truth_values_are_no_ids",
            "tests/workloads/test_bad_input.py::test_many_blank_lines_first",
        ),
    ),
    34: (
        "a bad row at the end of a large file took minutes to be named",
        (
            "tests/workloads/test_chunks.py::test_little_is_read_row_by_row",
            "tests/workloads/test_bad_input.py::test_memory_is_named_where_memory_is_the_reason",
        ),
    ),
    35: (
        "a terminal was sent what files hold",
        (
            "tests/e2e/test_malformed_files.py::test_it_is_one_line",
            "tests/fuzz/test_hostile.py::test_a_terminal_obeys_none",
            "tests/fuzz/test_hostile_sweeps.py::test_commands",
        ),
    ),
    36: (
        "a run's name was a live link in the charts",
        ("tests/fuzz/test_hostile.py::test_no_page_runs_links_or_obeys_them",),
    ),
    37: (
        "a reader that left was no 141",
        ("tests/e2e/test_endings.py::test_a_reader_that_leaves_ends_it_as_elsewhere",),
    ),
    38: (
        "the umask was ignored, and a hangup printed 48 lines",
        (
            "tests/workloads/test_folders.py::test_the_umask_is_honoured",
            "tests/e2e/test_endings.py::test_workers_end_with_their_parent",
        ),
    ),
    39: (
        "true passed for version 1, and of two equal options the last one counted",
        ("tests/e2e/test_malformed_files.py::test_it_is_one_line",),
    ),
}
