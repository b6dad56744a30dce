"""Memory of whole runs: both ledgers of the trace, what the allocators counted, the limit, and the line in the Memory panel."""

import contextlib
import importlib.util
import json
import os
import pathlib
import re
import sqlite3
import subprocess
import unittest

from programs import APP, ROOT, TINY, ProgramTest

spec = importlib.util.spec_from_file_location("memory_bench", ROOT / "tests" / "bench" / "memory.py")
memory = importlib.util.module_from_spec(spec)
spec.loader.exec_module(memory)


def bf16_copies_operands():
    """Whether matrix products in bf16 may copy their operands, of which the bound is not exact (engine/model/matmul_scratch.h)."""
    flags = set(re.search(r"^flags\s*:(.*)$|\Z", pathlib.Path("/proc/cpuinfo").read_text(), re.M)[0].split())
    most = (os.environ.get("ONEDNN_MAX_CPU_ISA") or os.environ.get("DNNL_MAX_CPU_ISA") or "").lower()
    is_known = {"avx512f", "avx512bw", "avx512dq", "avx512vl"} <= flags and not re.match("(sse41|avx|avx2.*)$", most)
    return not is_known or ("avx512_bf16" in flags and most not in ("avx512_core", "avx512_core_vnni"))


class MemoryTest(ProgramTest):
    @contextlib.contextmanager
    def trace_of(self, name, *settings):
        run, _ = self.train(name, "train.steps=3", *settings, ranks=3)
        trace, = run.glob("trace-*.db")
        with contextlib.closing(sqlite3.connect(trace)) as database:
            yield run, database

    def test_the_recorded_issue_ledger_peaks_where_the_schedule_predicts(self):
        for at, policy in enumerate(("preset=fsdp2 prefetch.forward=2", "preset=fsdp1 precision.param=bf16 train.micro_batches=2",
                                     "preset=fsdp2 strategy=no_shard unit.root=true",
                                     "strategy=ddp train.micro_batches=2", "strategy=zero1 precision.param=bf16", "strategy=zero2",
                                     "model.kind=llama model.vocab=300 prefetch.forward=1",
                                     "model.kind=llama model.vocab=300 train.logits_block=128",
                                     "model.kind=llama strategy=zero2 precision.param=bf16 checkpointing=full",
                                     "strategy=zero3 zero.prefetch_bucket_size=8000 zero.max_reuse_distance=13000 "
                                     "zero.persistence_threshold=100",
                                     "strategy=zero3 precision.param=bf16 train.micro_batches=2 zero.max_reuse_distance=0 "
                                     "zero.overlap_comm=false")):
            with self.subTest(policy), self.trace_of(f"run{at}", *policy.split()) as (_, database):
                (text, predicted), = database.execute("SELECT text, predicted_peak_bytes FROM schedule")
                self.assertEqual(list(database.execute("SELECT DISTINCT predicted_peak_bytes FROM rank_peak")), [(predicted,)])
                for rank in range(3):
                    self.assertEqual(memory.peak(database, rank, memory.LISTED, "issued_ns"), predicted)
                    self.assertEqual(memory.peak(database, rank, f"category IN {memory.TRANSIENT} AND step >= 0", "issued_ns"),
                                     memory.predicted_transient(text))

    def test_ranks_that_need_more_than_others_have_predictions_of_their_own(self):
        for at, policy in enumerate(("strategy=data_parallel", "strategy=pipeline model.layers=3 train.micro_batches=4")):
            with self.subTest(policy), self.trace_of(f"run{at}", *policy.split()) as (_, database):
                predicted = database.execute("SELECT predicted_peak_bytes, executed_peak_bytes FROM rank_peak ORDER BY rank").fetchall()
                self.assertEqual(len(predicted), 3)
                self.assertGreater(len({issued for issued, _ in predicted}), 1)
                self.assertEqual([(max(issued for issued, _ in predicted),)], list(database.execute("SELECT predicted_peak_bytes FROM schedule")))
                for rank, (issued, bound) in enumerate(predicted):
                    self.assertEqual(memory.peak(database, rank, memory.LISTED, "issued_ns"), issued)
                    self.assertLessEqual(memory.peak(database, rank, "1", "executed_ns"), bound)

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

    def test_the_panel_draws_the_predictions_of_each_rank(self):
        with self.trace_of("a", "strategy=pipeline", "model.layers=3", "train.micro_batches=4") as (run, database):
            expected = {f"{line}:{rank}": size for rank, *sizes in database.execute(
                "SELECT rank, predicted_peak_bytes, executed_peak_bytes FROM rank_peak")
                for line, size in zip(("predicted_peak", "executed_bound"), sizes, strict=True)}
        shot = json.loads(self.run_program(APP, "shot", run, "-o", self.root / "a.png", "--json").stdout)
        lines = {item["id"]: item["value"] for item in shot["items"]
                 if item["panel"] == "memory" and item["id"].startswith(("predicted_peak:", "executed_bound:"))}
        drawn = {line.split(":")[1] for line in lines}
        self.assertGreaterEqual(len(drawn), 2)  # as many ranks as there is room for
        self.assertEqual(lines, {line: size for line, size in expected.items() if line.split(":")[1] in drawn})
        schedule, = self.report(run)["schedules"]
        for line in ("predicted_peak", "executed_bound"):
            self.assertGreaterEqual(schedule[f"{line}_bytes"], max(size for name, size in expected.items() if name.startswith(line)))

    def test_each_schedule_stays_under_its_own_bound(self):
        changes = self.root / "run.toml"
        changes.write_text('[[change]]\nstep = 3\nset = {"prefetch.forward" = 2}\n[[change]]\nstep = 6\nset = {"strategy" = "grad_op"}\n')
        run, _ = self.train("a", "train.steps=9", extra=("--config", changes))
        schedules = self.report(run)["schedules"]
        self.assertEqual([schedule["steps"] for schedule in schedules], [[[0, 2]], [[3, 5]], [[6, 8]]])
        for schedule in schedules:
            self.assertGreater(schedule["peak_bytes"], 0)
            self.assertLessEqual(schedule["predicted_peak_bytes"], schedule["executed_bound_bytes"])
            self.assertLessEqual(schedule["peak_bytes"], schedule["executed_bound_bytes"])
        text = self.run_program(APP, "report", run).stdout
        self.assertIn("Peak memory of each schedule", text)

    def test_a_schedule_that_is_predicted_to_need_more_than_the_limit_is_refused(self):
        with self.trace_of("a") as (_, database):
            (bound,), = database.execute("SELECT executed_peak_bytes FROM schedule_bound")
            shared, = database.execute("SELECT bytes FROM memory_event WHERE unit = 'rotary table'").fetchone()
        needed = bound - shared  # of one rank alone
        refused = self.run_program(*self.train_command(self.root / "b", f"engine.memory_limit={needed - 1}B", ranks=3), check=False)
        self.assertNotEqual(refused.returncode, 0)
        self.assertRegex(refused.stderr, r"schedule .* can need .* on a rank .*, engine.memory_limit is")
        self.assertFalse((self.root / "b").exists())
        # No run that was let in comes to the limit.
        self.train("c", "train.steps=3", f"engine.memory_limit={needed}B", ranks=3)

    def plan_memory(self, *settings, ranks=3, limit=None):
        given = ["--limit", limit] if limit else []
        return json.loads(self.run_program(APP, "plan", "--memory", "--ranks", ranks, *given, "--json", "--set", *TINY, *settings).stdout)

    def test_the_planned_largest_batch_and_model_train_within_5_percent_of_the_plan(self):
        limit = 3_000_000
        # Slow links keep what is on its way in memory for as long as the waits allow; of more steps one comes to the bound.
        slow = ("link.bandwidth=50MB/s", "link.host.bandwidth=50MB/s", "train.steps=10")
        for at, (policy, key) in enumerate((("strategy=full", "train.batch"), ("strategy=ddp", "model.layers"), ("strategy=zero1", "model.dim"),
                                            ("strategy=full", "model.seq"), ("strategy=full model.kind=llama", "model.layers"),
                                            ("strategy=zero2", "train.batch"), ("strategy=zero3", "train.batch"),
                                            ("strategy=zero1 offload=optimizer", "train.batch"), ("offload=optimizer", "model.dim"),
                                            ("model.kind=llama checkpointing=full", "train.batch"),
                                            ("model.kind=llama lora.rank=4 checkpointing=full offload=all", "train.batch"),
                                            ("model.kind=llama precision.param=bf16", "train.batch"),
                                            ("model.kind=llama lora.rank=4 precision.param=bf16", "train.batch"),
                                            ("model.kind=llama lora.rank=4 precision.param=bf16 checkpointing=full offload=all", "train.batch"))):
            if "bf16" in policy and bf16_copies_operands():
                continue
            settings = (*policy.split(), *slow, "model.dim=48", "model.heads=2", "train.batch=2")
            given = self.plan_memory(*settings, limit=f"{limit}B")["rows"][0]
            largest = given["largest"][key]
            settings = (*settings, f"{key}={largest}")
            planned = self.plan_memory(*settings)["rows"][0]["executed_bound_bytes"]
            with self.subTest(f"{policy} {key}={largest}"):
                self.assertGreater(largest, 2)
                self.assertLessEqual(planned, limit)
                with self.trace_of(f"run{at}", *settings, f"engine.memory_limit={limit}B") as (_, database):
                    own = "unit <> 'rotary table' AND category <> 'host'"
                    took = max(memory.peak(database, rank, own, "executed_ns") for rank in range(3))
                self.assertLessEqual(took, planned)
                self.assertGreaterEqual(took, 0.95 * planned)

    def test_the_plan_counts_the_copy_that_checkpoints_are_written_from(self):
        for at, policy in enumerate(("strategy=full", "strategy=ddp", "strategy=zero1 precision.param=bf16", "preset=double_buffer",
                                     "strategy=data_parallel", "strategy=pipeline model.layers=3 train.micro_batches=3",
                                     "model.kind=llama strategy=full", "offload=all",
                                     "optimizer.state=8bit", "strategy=ddp optimizer.state=8bit model.dim=48")):
            settings = (*policy.split(), "checkpoint.every=2")
            planned = self.plan_memory(*settings)["rows"][0]["executed_bound_bytes"]
            copy = planned - self.plan_memory(*policy.split())["rows"][0]["executed_bound_bytes"]
            with self.subTest(policy), self.trace_of(f"run{at}", *settings, f"engine.memory_limit={planned}B") as (run, database):
                own = "unit <> 'rotary table' AND category <> 'host'"
                took = max(memory.peak(database, rank, own, "executed_ns") for rank in range(3))
                copies = [memory.peak(database, rank, "unit = 'checkpoint copy'", "executed_ns") for rank in range(3)]
                self.assertLessEqual(took, planned)
                if policy.startswith("offload"):  # in the host's memory, as what is copied
                    self.assertEqual((copy, max(copies)), (0, 0))
                elif "pipeline" in policy:  # the stage that needs most is not the one that copies most
                    self.assertGreater(max(copies), 0)
                else:
                    self.assertLessEqual(max(copies), copy)
                    self.assertGreaterEqual(max(copies), 0.9 * copy)
                    self.assertEqual(memory.unaccounted(database), 0)
                schedule, = self.report(run)["schedules"]
                self.assertLessEqual(schedule["peak_bytes"], schedule["executed_bound_bytes"])

    def test_the_copy_of_state_that_has_moved_is_given_back(self):
        changes = self.root / "run.toml"
        changes.write_text('[[change]]\nstep = 3\nset = {"strategy" = "ddp"}\n')
        run, _ = self.train("a", "train.steps=5", "checkpoint.every=2", extra=("--config", changes))
        trace, = run.glob("trace-*.db")
        with contextlib.closing(sqlite3.connect(trace)) as database:
            copies = [size for size, in database.execute(
                "SELECT bytes FROM memory_event WHERE unit = 'checkpoint copy' AND rank = 0 ORDER BY executed_ns, id")]
        self.assertEqual([size > 0 for size in copies], [True, False, True])
        self.assertEqual(copies[0], -copies[1])
        checkpoints = self.report(run)["checkpoints"]
        self.assertEqual([one["before_step"] for one in checkpoints], [2, 4, 5])
        self.assertTrue(all(one["whole"] and one["copy_ns"] > 0 for one in checkpoints))

    def test_the_error_at_the_limit_names_what_makes_it_fit(self):
        needed = self.plan_memory("train.batch=4")["rows"][0]["executed_bound_bytes"]
        limit = f"engine.memory_limit={needed - 1}B"
        refused = self.run_program(*self.train_command(self.root / "a", "train.batch=4", limit, ranks=3), check=False)
        self.assertNotEqual(refused.returncode, 0)
        found = re.search(r"At the peak runs op \d+ '.*' on rank 0, with .* What fits: (.*)", refused.stderr)
        self.assertTrue(found, refused.stderr)
        remedies = found[1].split("; ")
        self.assertEqual(len(remedies), 3, remedies)
        for at, remedy in enumerate(remedies):
            settings = remedy.split(" saves ")[0].split()
            with self.subTest(remedy):
                self.train(f"run{at}", "train.steps=2", "train.batch=4", limit, *settings, ranks=3)

    def test_what_is_above_the_limit_is_refused_before_the_ranks_take_memory_for_it(self):
        layers, dim = 8, 1026
        state_bytes = 16 * (layers * (12 * dim * dim + 2 * dim) + 513 * dim)  # of a rank; docs/strategies.md, "What a rank keeps"
        command = self.train_command(self.root / "a", "strategy=no_shard", f"model.layers={layers}", f"model.dim={dim}",
                                     f"engine.memory_limit={state_bytes + 1000}B")
        with subprocess.Popen(list(map(str, command)), stderr=subprocess.PIPE, text=True) as refused:
            said = refused.stderr.read()
            _, status, usage = os.wait4(refused.pid, 0)
            refused.returncode = os.waitstatus_to_exitcode(status)
        self.assertNotEqual(refused.returncode, 0)
        self.assertRegex(said, r"schedule .* can need .* on a rank .*, engine.memory_limit is")
        self.assertLess(1024 * usage.ru_maxrss, state_bytes / 2)


if __name__ == "__main__":
    unittest.main()
