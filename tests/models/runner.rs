//! Shows that each model notices its seeded bugs: the model runs in a child process with the bug switched on, and must fail.
//! A child process, since a deadlock found by loom aborts, and a bug that is noticed by a hang must be ended from outside.

use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

/// A seeded bug and the model that must notice it.
type Seeded = (&'static str, &'static str);

/// Bugs that the models must notice in both worlds.
const BOTH: &[Seeded] = &[
    ("batch.take_by_store", "models::runtime_jobs::each_closure_of_a_batch_has_one_taker"),
    ("hot.take_without_claim", "models::runtime_jobs::a_continuation_is_taken_once"),
    ("timer.no_second_look", "models::runtime_jobs::b07_an_early_deadline_is_not_slept_past"),
    ("permits.leave_without_look", "models::runtime_jobs::permits_reach_all_who_wait"),
    ("permits.abandon_without_serving", "models::runtime_jobs::b84_who_gives_up_makes_way"),
    ("permits.deliver_at_the_end", "models::runtime_jobs::b84_a_grant_is_delivered_before_the_line_is_served_again"),
    ("permits.let_go_and_forget", "models::runtime_jobs::b84_a_grant_is_delivered_before_the_line_is_served_again"),
    ("flight.first_told_early", "models::flight_join::the_first_waiter_withdraws_or_finds_the_outcome"),
    ("flight.joins_unlisted", "models::flight_join::two_joiners_a_publisher_and_a_supersession"),
    ("oneshot.marks_twice", "models::flight_join::the_first_waiter_withdraws_or_finds_the_outcome"),
    ("many.take_by_look", "models::stages_many::each_piece_is_run_by_one_popper"),
    ("many.queues_once", "models::stages_many::each_piece_is_run_by_one_popper"),
    ("flight.seal_by_store", "models::flight_state::two_publishers_and_a_cancel"),
    ("flight.claim_ignores_gates", "models::flight_state::gates_against_admission"),
    ("flight.failure_after_drop", "models::flight_state::gates_against_admission"),
    ("flight.leave_then_kill", "models::flight_state::join_against_leave"),
    ("flight.wake_lost_while_running", "models::flight_state::suspend_against_two_wakes"),
    ("graph.gives_up_standing", "models::flight_graph::of_three_in_a_ring_one_gives_up"),
    ("nested.ticket_keeps_its_job", "models::flight_waiting::each_job_of_a_run_is_run_or_dropped_once"),
    ("list.two_tidiers", "models::flight_list::two_tidiers_and_a_sealer"),
    ("list.double_retire", "models::flight_list::two_tidiers_and_a_sealer"),
    ("oneshot.no_recheck", "models::flight_oneshot::two_resolve_while_the_reader_replaces_its_waker"),
    ("budget.put_without_look", "models::admission_budget::two_give_back_while_two_begin_to_wait"),
    ("budget.wait_without_bringing", "models::admission_budget::two_give_back_while_two_begin_to_wait"),
    ("reservation.give_back_by_look", "models::keyed_dag::what_a_graph_holds_is_given_back_once"),
    ("dag.word.claim_by_look", "models::keyed_dag::one_ticket_has_the_node_and_its_end_and_a_cancel_agree"),
    ("dag.word.cancel_blind", "models::keyed_dag::one_ticket_has_the_node_and_its_end_and_a_cancel_agree"),
    (
        "dag.word.each_grower_releases",
        "models::keyed_dag::what_is_behind_is_released_once_and_after_all_that_was_added",
    ),
    ("dag.word.gate_ready", "models::keyed_dag::what_is_behind_is_released_once_and_after_all_that_was_added"),
    ("dag.word.queue_by_look", "models::keyed_dag::what_is_urged_while_it_is_queued_has_a_ticket_for_that"),
    ("dag.joined.by_look", "models::keyed_dag::one_goes_on_with_a_node_that_waits"),
    ("dag.word.shut_after", "models::keyed_dag::the_last_of_three_owns_the_node_and_knows_that_an_edge_stayed_shut"),
    ("demand.stale_look", "models::stages_demand::one_of_two_wishes_and_the_completion_starts_analysis"),
    ("gate.failure_after_drop", "models::stages_edges::who_passes_the_gate_has_seen_the_failure"),
    ("edge.held_for_nobody", "models::stages_edges::an_owner_that_goes_while_it_registers_leaves_no_demand"),
    ("edge.refuse_forgets", "models::stages_edges::a_refused_edge_is_answered_by_one"),
    ("ready.forgets_the_oldest", "models::stages_ready::what_is_ready_is_run_once_by_poppers_that_take_one_each"),
    ("ready.clears_late", "models::stages_ready::what_is_made_ready_again_is_found"),
    ("tickets.look_first", "models::stages_tickets::work_is_never_left_without_a_ticket"),
    ("origin.forget_any", "models::stages_origin::of_two_that_ask_beside_a_withdrawal_one_is_the_first_or_none"),
    ("origin.no_take_over", "models::stages_origin::of_two_that_ask_beside_a_withdrawal_one_is_the_first_or_none"),
    ("graph.section.count_after", "models::graph_section::each_request_is_served_once_also_over_a_hand_over"),
    ("graph.section.baton_dropped", "models::graph_section::each_request_is_served_once_also_over_a_hand_over"),
    ("graph.section.bring_by_look", "models::graph_section::each_request_is_served_once_also_over_a_hand_over"),
    ("graph.section.no_guard", "models::graph_section::a_panic_ends_its_own_request_alone"),
    ("keyed.token_by_any", "models::keyed_aggregate::one_of_two_owners_withdraws_beside_the_end_of_the_builder"),
    (
        "keyed.join_the_ended",
        "models::keyed_aggregate::a_late_owner_begins_anew_and_the_old_end_leaves_its_flight_alone",
    ),
    ("semaphore.keeps_it_asleep", "models::keyed_semaphore::a_body_that_sleeps_lends_its_permit_and_goes_on_with_one"),
    ("held.in_any_order", "models::keyed_semaphore::two_bodies_that_take_two_permits_back_do_not_wait_for_each_other"),
    ("claim.count_after", "models::stages_quiesce::what_is_still_has_nothing_that_runs"),
    ("quiesce.begun_first", "models::stages_quiesce::what_is_still_has_nothing_that_runs"),
    ("shelf.counted_without_look", "models::keyed_shelf::an_entry_is_put_in_while_it_is_evicted_and_pushed_out"),
    ("lanes.leave_without_judging", "models::lanes_word::a_reader_and_a_writer_each_run_once_and_never_together"),
    ("lanes.exchange_over_news", "models::lanes_word::a_reader_and_a_writer_each_run_once_and_never_together"),
    ("lanes.release_without_ticket", "models::lanes_word::two_writers_each_run_once_and_never_together"),
    ("lanes.take_by_store", "models::lanes_word::what_is_submitted_beside_a_close_runs_or_is_refused"),
    ("lanes.first_without_look", "models::lanes_cells::who_stands_first_is_taken_once"),
    ("lanes.retire_looks_first", "models::lanes_word::nothing_is_retired_under_a_submission"),
    ("lanes.fatal_after_release", "models::lanes_word::nothing_runs_after_a_writer_has_panicked"),
    (
        "lanes.cancel_signals_begun",
        "models::lanes_cells::a_cancel_of_all_that_is_queued_signals_nothing_that_has_begun",
    ),
    ("lanes.lent_before_it_is_noted", "models::lanes_cells::what_is_lent_is_given_back_once_whoever_ends_the_wait"),
    ("lanes.start_without_claim", "models::lanes_cells::a_job_runs_or_is_cancelled_and_one_answers_it"),
    ("lanes.alone_without_look", "models::lanes_cells::who_has_a_job_alone_finds_what_others_did_before"),
    ("lanes.adopt_without_look", "models::lanes_cells::who_follows_is_answered_once_or_runs_itself"),
    ("lanes.seal_by_store", "models::lanes_cells::of_a_seal_and_a_cancel_one_wins"),
    ("lanes.reserve_apart", "models::lanes_cells::maintenance_keeps_to_its_cap_and_the_reserve"),
    ("lanes.stop_without_count", "models::lanes_cells::of_those_who_see_one_slot_too_many_one_stops"),
    ("lanes.stop_without_look", "models::lanes_cells::work_that_is_queued_beside_a_stop_is_found"),
];

/// Bugs that loom alone must notice: fences, orderings, and what needs one schedule of very many.
#[cfg(shardrun_loom)]
const ALONE: &[Seeded] = &[
    ("flight.completes_first", "models::flight_join::a_claimer_alone_beside_a_supersession_and_a_joiner"),
    ("graph.enter_no_fence", "models::flight_waiting::a_job_of_a_run_is_run_by_who_waits_for_that"),
    ("graph.block_no_fence", "models::flight_waiting::a_job_of_a_run_is_run_by_who_waits_for_that"),
    ("offers.want_no_fence", "models::flight_waiting::a_node_that_is_queued_is_taken_by_who_waits_for_its_graph"),
    ("offers.put_no_fence", "models::flight_waiting::a_node_that_is_added_is_taken_by_who_waits_for_its_graph"),
    ("dag.word.queue_no_fence", "models::flight_waiting::a_node_that_is_queued_is_taken_by_who_waits_for_its_graph"),
    ("semaphore.goes_on_without", "models::keyed_semaphore::a_body_that_sleeps_lends_its_permit_and_goes_on_with_one"),
    ("lanes.turn_over_turn", "models::lanes_word::runners_that_go_on_with_an_actor_take_turns"),
    ("shelf.evict_without_claim", "models::keyed_shelf::an_entry_is_put_in_while_it_is_evicted_and_pushed_out"),
    ("dag.word.open_relaxed", "models::keyed_dag::the_last_of_three_owns_the_node_and_knows_that_an_edge_stayed_shut"),
    ("park.push_without_barrier", "models::runtime_parking::two_sleepers_two_submitters"),
    ("park.announce_without_barrier", "models::runtime_parking::two_sleepers_two_submitters"),
    ("park.no_second_look", "models::runtime_parking::two_sleepers_two_submitters"),
    ("park.no_hand_over", "models::runtime_parking::two_sleepers_two_submitters"),
    ("park.trust_forgotten", "models::runtime_parking::two_searchers_two_submitters"),
    ("park.found_without_barrier", "models::runtime_parking::two_searchers_two_submitters"),
    ("park.found_without_look", "models::runtime_parking::two_searchers_two_submitters"),
    ("park.waker_without_look", "models::runtime_parking::two_searchers_two_submitters"),
    ("park.hint_without_barrier", "models::runtime_parking::hints_outlast_the_jobs"),
    ("park.hint_without_look", "models::runtime_parking::hints_outlast_the_jobs"),
    ("close.no_barrier", "models::runtime_parking::two_sleepers_two_closers"),
    ("close.push_without_look", "models::runtime_parking::push_against_close"),
    ("hot.empty_relaxed", "models::runtime_jobs::a_continuation_is_read_before_the_next_is_put"),
    ("timer.arm_without_barrier", "models::runtime_jobs::b07_an_early_deadline_is_not_slept_past"),
    ("timer.sleep_without_barrier", "models::runtime_jobs::b07_an_early_deadline_is_not_slept_past"),
    ("permits.queue_without_serving", "models::runtime_jobs::permits_reach_all_who_wait"),
    ("list.sealer_looks_first", "models::flight_list::two_tidiers_and_a_sealer"),
    ("list.tidier_only_looks", "models::flight_list::two_tidiers_and_a_sealer"),
    ("oneshot.replace_ignores_done", "models::flight_oneshot::two_resolve_while_the_reader_replaces_its_waker"),
    ("budget.put_without_fence", "models::admission_budget::two_give_back_while_two_begin_to_wait"),
    ("flight.claims_unwanted", "models::stages_demand::an_analysis_starts_only_for_who_wants_it"),
    ("flight.withdraw_without_look", "models::stages_demand::a_wish_beside_a_withdrawal_and_a_popper_is_served"),
    ("known.no_fence", "models::stages_edges::an_edge_beside_the_end_of_the_analysis_is_answered_once"),
    (
        "demand.touch_only_looks",
        "models::stages_edges::what_is_registered_beside_the_completion_of_source_is_taken_in_once",
    ),
    (
        "demand.touch_only_looks",
        "models::stages_edges::what_is_registered_while_the_file_moves_on_is_taken_in_by_the_new_generation",
    ),
    ("versions.join_installing", "models::stages_versions::joiners_see_all_of_a_batch_or_nothing"),
    ("versions.nil_is_unknown", "models::stages_versions::readers_see_all_of_a_batch_or_nothing"),
    (
        "versions.predecessor_unhelped",
        "models::stages_versions::what_was_seen_is_shown_by_a_view_that_is_captured_then",
    ),
    ("look.unsettled", "models::stages_versions::a_look_at_source_shows_all_of_a_batch_or_nothing"),
    ("versions.install_by_store", "models::stages_versions::a_retry_is_never_lost_under_a_batch"),
    ("advance.end_before_commit", "models::stages_versions::joiners_see_all_of_a_batch_or_nothing"),
    ("sequencer.open", "models::stages_versions::two_batches_have_one_order"),
    ("seal.no_look", "models::stages_versions::a_seal_after_the_commit_is_refused_and_a_poll_helps"),
    ("poll.no_help", "models::stages_versions::a_seal_after_the_commit_is_refused_and_a_poll_helps"),
    (
        "trie.replace_without_freezing",
        "models::stages_trie::what_is_added_beside_a_removal_is_found_and_what_stays_always_is",
    ),
    (
        "trie.widen_without_freezing",
        "models::stages_trie::what_is_added_beside_a_root_that_widens_is_found_and_what_stays_always_is",
    ),
    ("trie.empty_no_fence", "models::stages_trie::a_node_that_two_leave_with_one_goes"),
    (
        "profiles.enter_one_alone",
        "models::stages_profiles::what_stands_in_the_list_is_found_while_two_put_cells_at_its_head",
    ),
    ("entry.take_out_by_name", "models::stages_lives::a_remover_and_two_requests"),
    ("entry.add_over_the_live", "models::stages_lives::a_remover_and_two_requests"),
    ("world.add_no_fence", "models::stages_lives::two_add_files_to_a_world_that_is_left"),
    ("world.move_no_fence", "models::stages_lives::two_add_files_to_a_world_that_is_left"),
    ("world.add_no_look", "models::stages_lives::two_add_files_to_a_world_that_is_left"),
    ("needs.of_the_buried", "models::stages_names::names_that_come_and_go"),
    ("needs.bury_beside_others", "models::stages_names::names_that_come_and_go"),
    ("needs.create_over_burial", "models::stages_names::a_world_that_is_left_beside_the_last_name"),
    ("lifecycle.close_once", "models::stages_lives::a_slot_that_is_closed_beside_retries_and_first_requests"),
    ("stamp.help_no_fence", "models::stages_versions::a_captured_view_is_sealed"),
    ("stamp.capture_no_fence", "models::stages_versions::a_captured_view_is_sealed"),
    ("line.wait_without_look", "models::stages_line::each_ticket_gets_a_permit_and_the_permit_comes_back"),
    ("line.give_past_the_line", "models::stages_line::each_ticket_gets_a_permit_and_the_permit_comes_back"),
    ("leases.no_announce", "models::stages_root::what_a_root_sees_is_kept_and_nothing_else"),
    ("leases.open_sees_nothing", "models::stages_root::what_a_root_sees_is_kept_and_nothing_else"),
    ("leases.hold_without_look", "models::stages_root::what_is_held_is_let_go_with_the_last_that_sees_it"),
    ("chain.two_sweepers", "models::stages_root::two_sweepers_of_one_chain"),
    ("chain.sweep_once", "models::stages_root::two_sweepers_of_one_chain"),
    ("chain.finish_ignores_death", "models::stages_root::a_retry_beside_the_end_of_a_transition"),
    (
        "graph.hands.push_no_fence",
        "models::graph_hands::pushed_work_is_seen_by_who_leaves_or_its_pusher_sends_for_somebody",
    ),
    (
        "graph.hands.leave_no_fence",
        "models::graph_hands::pushed_work_is_seen_by_who_leaves_or_its_pusher_sends_for_somebody",
    ),
    ("graph.seats.give_up_relaxed", "models::graph_hands::who_takes_a_seat_finds_what_its_last_owner_left"),
    ("graph.word.look_relaxed", "models::graph_word::the_last_of_three_owns_the_task_and_sees_what_all_did"),
    ("graph.word.release_relaxed", "models::graph_word::the_last_of_three_owns_the_task_and_sees_what_all_did"),
    (
        "fifo.room_up_to_next",
        "models::runtime_fifo::each_item_has_one_taker_who_reads_it_before_its_cell_is_written_again",
    ),
    (
        "fifo.tail_relaxed",
        "models::runtime_fifo::each_item_has_one_taker_who_reads_it_before_its_cell_is_written_again",
    ),
    ("fifo.two_thieves", "models::runtime_fifo::each_item_has_one_taker_who_reads_it_before_its_cell_is_written_again"),
    ("lanes.two_turns", "models::lanes_word::a_reader_and_a_writer_each_run_once_and_never_together"),
    ("lanes.queue_without_barrier", "models::lanes_cells::work_that_is_queued_beside_a_stop_is_found"),
    (
        "lanes.fence_taken_under_looks",
        "models::lanes_cells::what_a_job_waits_for_is_let_go_of_once_by_who_takes_it_or_looks_last",
    ),
    ("lanes.aged_without_barrier", "models::lanes_cells::aged_work_that_is_queued_beside_a_stop_is_found"),
    ("lanes.announce_without_barrier", "models::lanes_word::a_read_that_comes_while_a_ticket_is_out_is_found"),
    ("lanes.turn_without_barrier", "models::lanes_word::two_writers_each_run_once_and_never_together"),
    ("lanes.exchange_without_barrier", "models::lanes_cells::work_that_stands_first_beside_a_stop_is_found"),
    ("lanes.stop_without_barrier", "models::lanes_cells::work_that_is_queued_beside_a_stop_is_found"),
    ("lanes.key_relaxed", "models::lanes_cells::an_event_whose_key_is_found_set_is_seen_by_the_queued_job"),
];

/// Bugs that only the larger models of shuttle meet.
#[cfg(shardrun_shuttle)]
const ALONE: &[Seeded] = &[
    ("park.no_second_look", "models::runtime_parking::four_jobs_at_once_get_four_workers"),
    ("park.no_hand_over", "models::runtime_parking::four_jobs_at_once_get_four_workers"),
    ("park.found_without_look", "models::runtime_parking::four_jobs_at_once_get_four_workers"),
    ("spare.rest_without_look", "models::runtime_parking::two_that_block_get_two_spares"),
    ("spare.rest_unwanted", "models::runtime_parking::one_that_blocks_again_gets_the_spare_that_goes_to_rest"),
    (
        "semaphore.gives_up_what_it_was_granted",
        "models::keyed_semaphore::a_body_that_must_not_sleep_goes_on_and_no_permit_is_lost",
    ),
    ("park.moved_in_silence", "models::runtime_parking::four_jobs_at_once_get_four_workers"),
    ("versions.join_installing", "models::stages_whole::batches_are_seen_whole_by_requests_readers_and_cancels"),
    ("ready.forgets_the_oldest", "models::stages_ready::what_is_ready_is_run_once_by_poppers_that_take_one_each"),
    ("ready.clears_late", "models::stages_ready::what_is_made_ready_again_is_found"),
    ("tickets.look_first", "models::stages_whole::four_clients_ask_edit_and_drive"),
    ("submit.joins_newer", "models::stages_whole::an_edit_is_answered_from_its_own_text_or_superseded"),
    ("flight.withdraw_without_look", "models::stages_whole::batches_are_seen_whole_by_requests_readers_and_cancels"),
    ("edges.no_look_after_hang", "models::stages_edges_whole::an_owner_that_asks_as_the_analysis_ends_is_answered"),
    ("edges.supersede_answers", "models::stages_edges_whole::owners_are_answered_and_none_runs_without_its_blocker"),
    (
        "edges.close_forgets",
        "models::stages_edges_whole::an_owner_that_goes_while_its_blocker_moves_on_leaves_no_demand",
    ),
    (
        "edges.end_leaves_open",
        "models::stages_edges_whole::a_registration_beside_the_removal_of_its_owner_asks_for_nothing",
    ),
    ("edges.moves_over_late", "models::stages_edges_whole::an_edge_that_two_registrations_take_over_answers_the_last"),
    ("edges.no_second_look", "models::stages_edges_whole::what_is_registered_beside_source_or_an_edit_is_taken_in"),
    (
        "edges.registered_waits",
        "models::stages_edges_whole::what_is_registered_beside_source_or_an_edit_is_asked_for_at_once",
    ),
    (
        "edges.asks_the_old_revision",
        "models::stages_edges_whole::an_owner_that_asks_as_the_last_other_withdraws_is_answered",
    ),
    ("publish.evict_current_alone", "models::stages_publish::an_eviction_beside_a_worker"),
    ("submit.number_first", "models::stages_whole::a_later_life_has_a_greater_number"),
    ("edit.over_the_mark", "models::stages_whole::lives_end_and_begin_again_beside_requests_and_edits"),
    ("lanes.view_commit_without_look", "models::lanes_whole::the_newest_publication_shows_all_that_was_asked_for"),
    (
        "lanes.follower_ends_in_silence",
        "models::lanes_whole::what_waits_for_one_who_follows_another_begins_when_that_is_answered",
    ),
    ("lanes.key_before_room", "models::lanes_whole::nobody_relies_on_an_equal_job_that_is_refused"),
    ("lanes.permit_kept", "models::lanes_whole::builds_hand_the_permit_on"),
];

/// A child that has not failed after this long has missed its bug; loom ends endless spinning by its own bound on branches. Long, since
/// on a busy machine a child may need many times as long as alone.
const LIMIT: Duration = Duration::from_secs(1200);

/// Schedules of each kind that a child tries under shuttle, ten times as many as the model alone: to notice must not be luck.
const SCHEDULES: &str = "20000";

/// Whether `model` fails with the bug `name` switched on.
fn notices(name: &str, model: &str) -> bool {
    let exe = std::env::current_exe().expect("the test binary has a path");
    let mut child = Command::new(exe)
        .args(["--exact", model, "--include-ignored", "--test-threads=1"])
        .env("SHARDRUN_MUTANT", name)
        .env("SHARDRUN_SCHEDULES", SCHEDULES)
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .expect("the test binary starts");
    // Read from the start: a schedule that is printed can be longer than a pipe holds, and its writer would wait for ever.
    let mut stdout = child.stdout.take().expect("stdout is piped");
    let reader = std::thread::spawn(move || {
        let mut printed = String::new();
        std::io::Read::read_to_string(&mut stdout, &mut printed).expect("the child's output is text");
        printed
    });
    let begun = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("the child can be waited for") {
            let printed = reader.join().expect("the reader does not panic");
            assert!(!printed.contains("running 0 tests"), "no model is named {model}: mend the list");
            println!("{name}: {:.1} s", begun.elapsed().as_secs_f64());
            return !status.success();
        }
        if begun.elapsed() > LIMIT {
            child.kill().expect("the child can be killed");
            child.wait().expect("the child can be reaped");
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn every_model_notices_its_seeded_bugs() {
    if std::env::var_os("SHARDRUN_MUTANT").is_some() {
        return;
    }
    let missed: Vec<_> = BOTH.iter().chain(ALONE).filter(|(name, model)| !notices(name, model)).collect();
    assert!(missed.is_empty(), "these seeded bugs went unnoticed: {missed:?}");
}
