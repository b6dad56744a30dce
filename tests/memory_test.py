"""Memory of whole runs: both ledgers of the trace, what the allocators counted, the limit, and the line in the Memory panel."""

import contextlib
import importlib.util
import json
import sqlite3
import unittest

from programs import APP, ROOT, ProgramTest

spec = importlib.util.spec_from_file_location("memory_bench", ROOT / "tests" / "bench" / "memory.py")
memory = importlib.util.module_from_spec(spec)
spec.loader.exec_module(memory)


class MemoryTest(ProgramTest):
    @contextlib.contextmanager
    def trace_of(self, name, *settings):
        run, _ = self.train(name, "train.steps=3", *settings, ranks=3)
        trace, = run.glob("trace-*.db")
        with contextlib.closing(sqlite3.connect(trace)) as database:
            yield run, database

    def test_the_recorded_issue_ledger_peaks_where_the_schedule_predicts(self):
        for at, policy in enumerate(("preset=fsdp2 prefetch.forward=2", "preset=fsdp1 precision.param=bf16 train.micro_batches=2",
                                     "preset=fsdp2 strategy=no_shard unit.root=true")):
            with self.subTest(policy), self.trace_of(f"run{at}", *policy.split()) as (_, database):
                (text, predicted), = database.execute("SELECT text, predicted_peak_bytes FROM schedule")
                for rank in range(3):
                    self.assertEqual(memory.peak(database, rank, memory.LISTED, "issued_ns"), predicted)
                    self.assertEqual(memory.peak(database, rank, f"category IN {memory.TRANSIENT}", "issued_ns"),
                                     memory.predicted_transient(text))

    def test_events_add_up_to_what_the_allocators_counted_at_every_step_end(self):
        with self.trace_of("a") as (_, database):
            self.assertEqual(len(memory.counter(database, "allocated_bytes")), 9)
            self.assertEqual(memory.unaccounted(database), 0)
            resident = memory.counter(database, "resident_bytes")
            self.assertEqual(len(resident), 3)
            held = max(memory.counter(database, "reserved_bytes"))
            self.assertTrue(all(value > held for value in resident))
            self.assertGreaterEqual(held, max(memory.counter(database, "allocated_bytes")))

    def test_every_step_gives_back_what_it_took_unit_by_unit(self):
        # fsdp2 takes the gradient of the next unit's reduce-scatter with an op of the unit before it.
        policies = [f"preset={preset} strategy={strategy}" for preset in ("fsdp1", "fsdp2") for strategy in ("full", "grad_op", "no_shard")]
        for at, policy in enumerate([*policies, "preset=fsdp2 prefetch.forward=2 precision.param=bf16 train.micro_batches=2"]):
            with self.subTest(policy), self.trace_of(f"run{at}", "train.steps=20", *policy.split()) as (_, database):
                (steps, gaps), = database.execute(
                    "SELECT count(DISTINCT step), count(*) FILTER (WHERE category = 'other' AND unit <> '') FROM memory_event WHERE step >= 0")
                self.assertEqual(steps, 20)
                self.assertGreater(gaps, 0)
                self.assertEqual([], database.execute(
                    "SELECT rank, step, category, unit, sum(bytes) FROM memory_event WHERE step >= 0 GROUP BY 1, 2, 3, 4 HAVING sum(bytes) <> 0"
                ).fetchall())

    def test_the_panel_draws_the_predictions_of_the_report(self):
        run, _ = self.train("a", "train.steps=3")
        picture = self.root / "a.png"
        shot = json.loads(self.run_program(APP, "shot", run, "-o", picture, "--json").stdout)
        lines = {item["id"]: item for item in shot["items"] if item["panel"] == "memory" and item["id"].startswith("predicted_peak:")}
        self.assertEqual(set(lines), {"predicted_peak:0", "predicted_peak:1"})
        for item in lines.values():
            self.assertEqual(item["value"], self.report(run)["predicted_peak_bytes"])

    def test_a_schedule_that_is_predicted_to_need_more_than_the_limit_is_refused(self):
        with self.trace_of("a") as (_, database):
            (predicted,), = database.execute("SELECT predicted_peak_bytes FROM schedule")
            needed = max(memory.peak(database, rank, "true", "executed_ns") for rank in range(3))
        refused = self.run_program(*self.train_command(self.root / "b", f"engine.memory_limit={predicted - 1}B", ranks=3), check=False)
        self.assertNotEqual(refused.returncode, 0)
        self.assertRegex(refused.stderr, r"schedule .* needs .* on a rank, engine.memory_limit is")
        self.assertFalse((self.root / "b").exists())
        # Twice what was ever live, because the two ledgers and the runs differ in time.
        self.train("c", "train.steps=3", f"engine.memory_limit={2 * needed}B", ranks=3)


if __name__ == "__main__":
    unittest.main()
