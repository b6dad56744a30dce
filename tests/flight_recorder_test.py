"""Dumps of PyTorch's flight recorder: imported from every form, and the report says who holds up whom."""

import json
import pickle
import re
import unittest

from chrome_traces import Trace
from pickles import BASE_US, Flight, forms
from programs import APP, ImportTestCase

SENTENCE = ("Ranks 0, 2, 3 wait in all_gather #5 of group 0 (default_pg); rank 1 has not issued it: its last was reduce_scatter #4")
IN_PROGRAM = SENTENCE + ", asked for in backward (train.py:34)."


def hanging(rank, world_size=4):
    """Rank 1 does not come to the fifth collective."""
    flight = Flight(rank, world_size)
    for _ in range(3):
        flight.ask("nccl:all_gather", outputs=((16, 2),))
    flight.ask("nccl:reduce_scatter", sizes=((8, 2),), outputs=((2, 2),))
    if rank != 1:
        flight.ask("nccl:all_gather", "started" if rank else "scheduled", outputs=((16, 2),))
    return flight


class FlightRecorderTest(ImportTestCase):
    def dumps(self, name, values):
        """A folder with a file for each rank, named as PyTorch does."""
        folder = self.root / name
        folder.mkdir()
        for rank, data in values.items():
            (folder / f"nccl_trace_rank_{rank}").write_bytes(data if isinstance(data, bytes) else pickle.dumps(data))
        return folder

    def hang(self, folder):
        return self.report(folder)["hang"]

    def test_the_culprit_is_named_from_every_form(self):
        dumps = {rank: hanging(rank) for rank in range(4)}
        made = {rank: forms(flight.value(), flight.json_value()) for rank, flight in dumps.items()}
        for form in made[0]:
            with self.subTest(form):
                hang = self.hang(self.dumps(form, {rank: data[form] for rank, data in made.items()}))
                self.assertEqual(hang["sentence"], SENTENCE + "." if form == "json" else IN_PROGRAM)
                self.assertEqual((hang["is_hang"], hang["dumps"]), (True, 4))
                (group,) = hang["groups"]
                self.assertEqual((group["group"], group["description"], group["mismatch"]), ("0", "default_pg", None))
                self.assertEqual(group["pending"], {"sequence": 5, "name": "all_gather", "waiting": [0, 2, 3], "not_started": [0],
                                                    "not_issued": [1], "without_dump": [], "completed": []})
                positions = [(one["rank"], one["last_completed"], one["last_started"], one["last_enqueued"], one["last_name"])
                             for one in group["positions"]]
                self.assertEqual(positions, [(0, 4, 4, 5, "all_gather"), (1, 4, 4, 4, "reduce_scatter"), (2, 4, 5, 5, "all_gather"),
                                             (3, 4, 5, 5, "all_gather")])

    def test_text_begins_with_the_sentence_and_lists_the_ranks(self):
        text = self.run_program(APP, "report", self.dumps("run", {rank: hanging(rank).value() for rank in range(4)})).stdout
        self.assertTrue(text.startswith("run: failed, 4 ranks, "), text)
        self.assertEqual(self.report(self.root / "run")["state"], "failed")
        self.assertEqual(text.splitlines()[2], IN_PROGRAM)
        self.assertEqual(text.count("wait in all_gather"), 1)
        self.assertIn("Group 0 (default_pg): the last collectives of each rank\n", text)
        self.assertRegex(text, r"\n +1 +#4 +#4 +#4 +reduce_scatter +backward \(train.py:34\)\n")
        shot = self.run_program(APP, "shot", self.root / "run", "-o", self.root / "shot.png", "--json").stdout
        self.assertIn(IN_PROGRAM[:60], shot)  # the banner of the window
        self.assertGreater((self.root / "shot.png").stat().st_size, 10_000)

    def test_rows_are_what_the_dump_says(self):
        run = self.root / "imported"
        self.run_program(APP, "import", self.dumps("run", {2: hanging(2).value()}), "-o", run)
        rows = self.sql(run, "SELECT e.*, s.text AS stack FROM flight_entry e LEFT JOIN string s ON s.id = e.stack_string ORDER BY e.id")
        self.assertEqual(len(rows), 5)
        self.assertEqual({key: rows[3][key] for key in rows[3] if key not in ("id", "stack_string", "stack")}, {
            "rank": 2, "group_name": "0", "sequence": 4, "is_p2p": 0, "record": 3, "operation": 4, "name": "nccl:reduce_scatter",
            "state": "completed", "input": "Float [8, 2]", "output": "Float [2, 2]", "created_ns": (BASE_US + 300) * 1000,
            "started_after_ns": 20_000, "completed_after_ns": 50_000, "timeout_ns": 600 * 10**9, "retired": 1})
        self.assertEqual(rows[3]["stack"], "all_gather (/site/torch/distributed/c10d.py:1)\nbackward (train.py:34)")
        self.assertEqual((rows[4]["state"], rows[4]["started_after_ns"], rows[4]["completed_after_ns"]), ("started", 20_000, -1))
        self.assertEqual(self.sql(run, "SELECT rank, name, description, members, last_enqueued, last_started, last_completed FROM flight_group"),
                         [{"rank": 2, "name": "0", "description": "default_pg", "members": "0,1,2,3", "last_enqueued": 5, "last_started": 5,
                           "last_completed": 4}])
        spans = self.sql(run, "SELECT t.name AS track, n.text AS name, s.start_ns, s.duration_ns, s.category FROM span s "
                              "JOIN track t ON t.id = s.track JOIN string n ON n.id = s.name_string ORDER BY s.start_ns")
        self.assertEqual(spans[3], {"track": "collectives of group 0 (default_pg)", "name": "nccl:reduce_scatter",
                                    "start_ns": (BASE_US + 320) * 1000, "duration_ns": 30_000, "category": "communication"})
        self.assertEqual(spans[4], {"track": "collectives of group 0 (default_pg)", "name": "nccl:all_gather (not ended)",
                                    "start_ns": (BASE_US + 420) * 1000, "duration_ns": 0, "category": "communication"})
        versions = self.sql(run, "SELECT key, value FROM config WHERE key LIKE 'import.flight%' ORDER BY key")
        self.assertEqual([row["value"] for row in versions], ["2.21.5", "2.9"])

    def test_what_never_ended_is_found_and_in_no_sum(self):
        run = self.dumps("run", {rank: hanging(rank).value() for rank in range(2)})
        flight = Flight(2)
        flight.ask("nccl:all_gather", "scheduled", at_us=100)
        flight.ask("nccl:send 2->3", at_us=900, is_p2p=True)  # long after it
        (run / "nccl_trace_rank_2").write_bytes(pickle.dumps(flight.value()))
        found = json.loads(self.run_program(APP, "search", run, "all_gather", "--json").stdout)
        waits = [(hit["rank"], hit["name"]) for hit in found["hits"] if hit["end_ns"] is None]
        self.assertEqual(waits, [(2, "nccl:all_gather (not ended)"), (0, "nccl:all_gather (not ended)")])
        self.assertEqual((found["count"], found["sum_ns"], found["p95_ns"]), (8, 6 * 30_000, 30_000))
        text = self.run_program(APP, "search", run, "all_gather").stdout
        self.assertEqual(len(re.findall(r" s  not ended  ", text)), 2, text)

    def test_a_rank_without_a_dump_is_said(self):
        hang = self.hang(self.dumps("run", {rank: hanging(rank).value() for rank in (0, 2)}))
        self.assertEqual(hang["sentence"], "Ranks 0, 2 wait in all_gather #5 of group 0 (default_pg); there is no dump of ranks 1, 3: whether they "
                                           "have issued it is not known.")
        self.assertEqual([one["rank"] for one in hang["groups"][0]["positions"] if not one["has_dump"]], [1, 3])

    def test_the_first_difference_is_found(self):
        cases = {
            "sizes": ({"name": "nccl:all_gather", "sizes": ((9, 2),)}, "sizes", "all_gather of Float [9, 2]", "all_gather of Float [4, 2]"),
            "types": ({"name": "nccl:all_gather", "dtype": "Half"}, "types", "all_gather of Half [4, 2]", "all_gather of Float [4, 2]"),
            "operation": ({"name": "nccl:broadcast"}, "operation", "broadcast", "all_gather"),
        }
        for name, (asked, kind, mine, others) in cases.items():
            with self.subTest(name):
                flights = {rank: Flight(rank) for rank in range(4)}
                for rank, flight in flights.items():
                    flight.ask("nccl:all_reduce")
                    flight.ask(**{"name": "nccl:all_gather", **(asked if rank == 2 else {}), "state": "started"})
                mismatch = self.hang(self.dumps(name, {rank: flight.value() for rank, flight in flights.items()}))["groups"][0]["mismatch"]
                self.assertEqual(mismatch, {"kind": kind, "sequence": 2, "ranks": [2], "asked": mine, "other_ranks": [0, 1, 3],
                                            "others_asked": others})

    def test_groups_that_hold_up_others_come_first(self):
        """Ranks 0 and 1, and 2 and 3, are a group each; rank 3 does not come to its, and rank 2 not to that of all."""
        flights = {}
        for rank in range(4):
            pair = [0, 1] if rank < 2 else [2, 3]
            flight = flights[rank] = Flight(rank, groups=(("0", "default_pg", None), (str(pair[0] + 1), "mesh_shard", pair)))
            flight.ask("nccl:all_reduce")
            flight.ask("nccl:all_gather", group=1)
            if rank == 2:
                flight.ask("nccl:all_gather", "started", group=1)
            if rank < 2:
                flight.ask("nccl:all_reduce", "started")
        hang = self.hang(self.dumps("run", {rank: flight.value() for rank, flight in flights.items()}))
        self.assertTrue(hang["sentence"].startswith("Rank 2 waits in all_gather #2 of group 3 (mesh_shard); rank 3 has not issued it: its last was "
                                                    "all_gather #1"), hang["sentence"])
        self.assertEqual([group["group"] for group in hang["groups"]], ["3", "0", "1"])
        self.assertEqual(hang["groups"][1]["pending"]["not_issued"], [2, 3])

    def test_sends_and_receives(self):
        flights = {rank: Flight(rank, 2) for rank in (0, 1)}
        flights[0].ask("nccl:send 0->1", "completed", is_p2p=True)
        flights[1].ask("nccl:recv 1<-0", "completed", is_p2p=True)
        flights[0].ask("nccl:send 0->1", "started", is_p2p=True)
        hang = self.hang(self.dumps("run", {rank: flight.value() for rank, flight in flights.items()}))
        self.assertEqual(hang["sentence"], "Rank 0 waits in send 0->1 #2 of group 0 (default_pg); rank 1 has not asked for the receive.")

    def test_dumps_of_older_versions(self):
        """Before 2.2 groups have a name alone, or no more than a number, and one sequence."""
        folder = self.dumps("run", {})
        for rank in (0, 1):
            entries = [{"record_id": at, "pg_id": 0, "seq_id": at + 1, "profiling_name": "nccl:all_reduce", "time_created_ns": BASE_US * 1000 + at,
                        "input_sizes": [[4]], "state": "completed" if at < 2 else "started", "retired": False,
                        "time_discovered_started_ns": None, "time_discovered_completed_ns": None} for at in range(2 + rank)]
            (folder / f"rank{rank}").write_bytes(pickle.dumps({"version": "1.5", "nccl_version": "2.18", "entries": entries, "pg_config": {}}, 2))
        self.assertEqual(self.hang(folder)["sentence"],
                         "Rank 1 waits in all_reduce #3 of group 0; rank 0 has not issued it: its last was all_reduce #2.")

    def test_dumps_of_gloo(self):
        """As PyTorch 2.11 writes them: no events to look at, and its first group has no name where groups are listed."""
        folder = self.dumps("run", {})
        for rank in (0, 1):
            flight = Flight(rank, 3)
            flight.ask("gloo:all_reduce")
            if rank:
                flight.ask("gloo:all_gather", "scheduled")
            value = flight.value()
            value["pg_config"] = {"": {"name": "", "desc": "", "ranks": "[0, 1, 2]"}}
            value["pg_status"]["0"]["last_started_collective"] = -1
            value["entries"][0].update(state="scheduled", time_discovered_started_ns=None, time_discovered_completed_ns=None)
            (folder / f"rank{rank}").write_bytes(forms(value)["libtorch"])
        hang = self.hang(folder)
        self.assertEqual(hang["sentence"], "Rank 1 waits in all_gather #2 of group 0 (default_pg); rank 0 has not issued it: its last was all_reduce "
                                           "#1, asked for in backward (train.py:31); there is no dump of rank 2.")
        self.assertEqual([group["group"] for group in hang["groups"]], ["0"])
        self.assertEqual(self.sql(folder, "SELECT DISTINCT state FROM flight_entry WHERE sequence = 1"),
                         [{"state": "completed"}])

    def test_what_has_ended_is_no_hang_and_other_runs_say_nothing(self):
        flight = Flight(0, 1)
        flight.ask("nccl:all_reduce")
        hang = self.hang(self.dumps("run", {0: flight.value()}))
        self.assertEqual((hang["is_hang"], hang["sentence"]), (False, "Nothing is pending: all that rank 0 remembered has ended."))
        self.assertEqual(self.report(self.root / "run")["state"], "finished")
        trace = Trace(0)
        trace.host("aten::mm", 10, 20, category="cpu_op")
        trace.write(self.root / "trace.json")
        self.assertIsNone(self.report(self.root / "trace.json")["hang"])

    def test_what_is_not_known_is_counted(self):
        value = hanging(0).value()
        value["weather"] = 1
        value["nccl_comm_state"] = {"0x1": {"rank": "0"}, "0x2": {"rank": "0"}}
        value["entries"][0]["mood"] = "good"
        value["entries"][1]["state"] = "asleep"
        value["entries"][2]["collective_seq_id"] = 2**62  # what no row may have
        value["pg_status"]["0"]["last_started_collective"] = 2**63 - 1
        value["entries"].append({"profiling_name": "nccl:x"})
        value["entries"].append(value["entries"][3])
        losses = self.report(self.dumps("run", {0: value}))["losses"]
        self.assertEqual({what.removeprefix("flight_recorder: not understood: "): count for what, count in losses.items()}, {
            'field "weather" of the dump': 1, 'field "mood" of an entry': 1, "states of NCCL's communicators": 2,
            "entries in a state that is not known": 1, "entries without a sensible time": 1, "entries without a sensible sequence": 1, "entries that are no record, or stand twice": 1})

    def test_a_trace_of_the_same_rank_is_one_run_with_it(self):
        folder = self.dumps("run", {rank: hanging(rank).value() for rank in range(2)})
        trace = Trace(1, process=101)
        trace.host("ProfilerStep#5", 0, 1000)
        trace.work("gemm", 7, 10, 20, 90)
        trace.write(folder / "anything.json")
        report = self.report(folder)
        self.assertEqual([(row["rank"], row["step"], row["compute_ns"]) for row in report["steps"]], [(1, 5, 70_000)])
        self.assertTrue(report["hang"]["sentence"].startswith("Rank 0 waits in all_gather #5"), report["hang"]["sentence"])
        # Without marks the step is as long as the trace, and not as what the recorder remembers.
        trace = Trace(1, process=101)
        trace.work("gemm", 7, 10, 20, 90)
        trace.write(folder / "anything.json")
        self.assertEqual([(row["rank"], row["step"], row["step_ns"]) for row in self.report(folder)["steps"]], [(1, 0, 80_000)])

    def test_odd_shapes_do_no_harm(self):
        cycle = []
        cycle.append(cycle)
        for at, odd in enumerate((None, 7, "text", [], {}, [[None]], {"a": {}}, {0: {"ranks": "[1, x, -5, 99999999999999999999]"}}, cycle, 2**70, -1,
                                  float("nan"), b"x")):
            with self.subTest(at):
                keys = ("version", "pg_config", "pg_status", "comm_lib_version", "nccl_comm_state", "entries")
                self.report(self.dumps(f"top{at}", {0: {key: odd for key in keys}}))
                entry = {**{key: odd for key in hanging(0).value()["entries"][0]}, "time_created_ns": 5}
                value = {"version": "2.9", "pg_config": {odd if at < 3 else 0: odd}, "pg_status": {"0": odd}, "entries": [
                    odd, entry, {**entry, "is_p2p": True, "state": "started", "profiling_name": "nccl:send 9->99999999999"},
                    {**entry, "process_group": (odd, odd), "collective_seq_id": 2**62}]}
                self.report(self.dumps(f"deep{at}", {0: value}))


if __name__ == "__main__":
    unittest.main()
