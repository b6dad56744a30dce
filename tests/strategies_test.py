"""Every strategy as a whole program: what it sends beside its formula (docs/strategies.md) and beside what was recorded, and
changes from one to another while a run trains."""

import contextlib
import sqlite3
import sys
import unittest

from programs import APP, ROOT, SCALE, ProgramTest

sys.path.insert(0, str(ROOT / "scripts"))
import strategy_docs  # noqa: E402  (needs the path above)

DIM = 24
TOKENS = 2 * 16  # of a micro-batch
# Embedding, two blocks (norms, qkv and projection, up and down), head; 256 rows of it divide by 4, and so do all of a block.
PARAMETERS = 256 * DIM + 2 * (2 * DIM + 12 * DIM * DIM) + DIM + 256 * DIM
HEAD = 256 * DIM  # without its norm
NORMS = 5 * DIM
SETTINGS = {"ddp": ["ddp.bucket_cap=20kB"], "zero1": ["zero.reduce_bucket_size=5000"], "zero2": ["zero.reduce_bucket_size=5000"],
            # Nothing is kept from forward to backward, or whole.
            "zero3": ["zero.prefetch_bucket_size=8000", "zero.max_reuse_distance=0", "zero.persistence_threshold=0"]}


def passes(strategy, micro_batches):
    """Over all parameters in fp32, how often (N-1)/N of their bytes are sent in a step."""
    return {"single": 0, "ddp": 2, "no_shard": 2 * micro_batches, "zero1": 2, "zero2": micro_batches + 1,
            "grad_op": 2 * micro_batches, "full": 3 * micro_batches, "zero3": 3 * micro_batches}[strategy]


class StrategiesTest(ProgramTest):
    def recorded(self, run):
        """Bytes of units' collectives that one rank sent in one step, by Schedule; the same of all ranks and steps."""
        trace, = run.glob("trace-*.db")
        with contextlib.closing(sqlite3.connect(trace)) as database:
            rows = database.execute(
                "SELECT schedule.name, collective.rank, collective.step, sum(wire_bytes) FROM collective "
                "JOIN step ON step.rank = collective.rank AND step.step = collective.step "
                "JOIN schedule ON schedule.id = step.schedule WHERE payload_bytes > 8 GROUP BY 1, 2, 3").fetchall()
        sent = {}
        for name, _, _, sent_bytes in rows:
            sent.setdefault(name, set()).add(sent_bytes)
        for name, different in sent.items():
            self.assertEqual(len(different), 1, name)
        return {name: different.pop() for name, different in sent.items()}

    def planned(self, run):
        sent = {}
        for schedule in self.report(run)["schedules"]:
            # Without the norm's.
            sent[schedule["name"]] = sum(row["wire_bytes"] for row in schedule["traffic"]
                                         if row["kind"] != "all_reduce" or row["wire_bytes"] > 16)
        return sent

    def test_a_step_sends_what_the_formula_says(self):
        for strategy in ("single", "ddp", "no_shard", "zero1", "zero2", "grad_op", "full", "zero3"):
            for micro_batches in (1, 2):
                ranks = 1 if strategy == "single" else 4
                with self.subTest(strategy, micro_batches=micro_batches):
                    run, _ = self.train(f"{strategy}{micro_batches}", f"strategy={strategy}", "train.steps=3",
                                        f"train.micro_batches={micro_batches}", *SETTINGS.get(strategy, []), ranks=ranks)
                    expected = passes(strategy, micro_batches) * 4 * PARAMETERS * (ranks - 1) // ranks
                    self.assertEqual(sum(self.recorded(run).values()), expected)
                    self.assertEqual(sum(self.planned(run).values()), expected)

    def test_a_stage_sends_its_boundaries(self):
        micro_batches, layers = 4, 4
        single, _ = self.train("single", "strategy=single", "train.steps=4", f"train.micro_batches={micro_batches}",
                               f"model.layers={layers}", ranks=1)
        expected = [row["loss"] for row in self.report(single)["steps"]]
        for name, stages, *settings in (("model_parallel", 4, "strategy=model_parallel"),
                                        ("gpipe", 4, "strategy=pipeline", "pipeline.schedule=gpipe"),
                                        ("1f1b", 4, "strategy=pipeline"),
                                        ("interleaved", 4, "strategy=pipeline", "pipeline.schedule=interleaved")):
            ranks = 2 if name == "interleaved" else stages
            with self.subTest(name):
                run, _ = self.train(name, *settings, "train.steps=4", f"train.micro_batches={micro_batches}",
                                    f"model.layers={layers}", ranks=ranks)
                trace, = run.glob("trace-*.db")
                with contextlib.closing(sqlite3.connect(trace)) as database:
                    sent = database.execute("SELECT rank, communicator, sum(wire_bytes), count(*) FROM collective WHERE kind = 'send' "
                                            "AND step = 3 GROUP BY 1, 2").fetchall()
                    unmatched = database.execute(
                        "SELECT count(*) FROM (SELECT communicator, sequence FROM collective WHERE kind IN ('send', 'receive') "
                        "GROUP BY 1, 2 HAVING count(*) != 2 OR count(DISTINCT kind) != 2 OR count(DISTINCT rank) != 2)").fetchone()
                activation = 4 * TOKENS * DIM
                total = sum(sent_bytes for _, _, sent_bytes, _ in sent)
                self.assertEqual(total, 2 * micro_batches * (stages - 1) * activation)
                self.assertEqual(unmatched, (0,))
                for rank, communicator, sent_bytes, count in sent:
                    self.assertEqual(sent_bytes, count * activation)
                    direction, _, ends = communicator.partition("/")
                    self.assertIn(direction, ("activation", "gradient"))
                    self.assertEqual(ends.partition(">")[0], str(rank))
                report = self.report(run)
                losses = [row["loss"] for row in report["steps"] if row["rank"] == ranks - 1]
                for got, want in zip(losses, expected, strict=True):
                    self.assertAlmostEqual(got, want, delta=1e-5 * want)
                # Only the last stage has a loss; the others count no tokens.
                self.assertEqual({row["tokens"] for row in report["steps"] if row["rank"] != ranks - 1}, {0})
                self.assertAlmostEqual(report["summary"]["last_loss"], expected[-1], delta=1e-5)
                self.assertIn("bubble", {stall["cause"] for stall in report["stalls"]})

    def test_groups_of_communicators_are_named_with_their_ranks(self):
        run, _ = self.train("hybrid", "strategy=hybrid", "mesh.replicate=2", "train.steps=2", ranks=4)
        trace, = run.glob("trace-*.db")
        with contextlib.closing(sqlite3.connect(trace)) as database:
            groups = set(database.execute("SELECT communicator, dimensions, number, members FROM communicator_group"))
            met = set(database.execute("SELECT communicator, group_concat(DISTINCT rank) FROM (SELECT communicator, rank FROM collective "
                                       "ORDER BY rank) GROUP BY 1"))
        self.assertEqual(groups, {("shard/0", "shard", 0, "0,1"), ("shard/1", "shard", 1, "2,3"),
                                  ("replicate/0", "replicate", 0, "0,2"), ("replicate/1", "replicate", 1, "1,3")})
        self.assertEqual({(name, members) for name, _, _, members in groups}, met)

    def test_rank_0_of_data_parallel_has_the_model_alone(self):
        micro_batches, ranks = 2, 4
        settings = ["train.steps=4", f"train.micro_batches={micro_batches}"]
        ddp, _ = self.train("ddp", "strategy=ddp", *settings, ranks=ranks)
        run, _ = self.train("data_parallel", "strategy=data_parallel", *settings, ranks=ranks)
        trace, = run.glob("trace-*.db")
        with contextlib.closing(sqlite3.connect(trace)) as database:
            sent = {(kind, rank): total for kind, rank, total in database.execute(
                "SELECT kind, rank, sum(wire_bytes) FROM collective WHERE step = 3 GROUP BY 1, 2")}
            (updates,), = database.execute("SELECT count(DISTINCT rank) FROM op_run JOIN plan_op ON plan_op.id = op_run.plan_op "
                                           "WHERE plan_op.kind = 'optimizer'")
        self.assertEqual(updates, 1)
        for rank in range(ranks):
            model = micro_batches * 4 * PARAMETERS * (ranks - 1) // ranks
            self.assertEqual(sent["broadcast", rank], model)
            self.assertEqual(sent["reduce", rank], model)
            self.assertEqual(sent["scatter", rank], 0 if rank else micro_batches * (ranks - 1) * 2 * 8 * TOKENS)
            self.assertEqual(sent["gather", rank], micro_batches * 4 if rank else 0)
        losses = [[row["loss"] for row in self.report(one)["steps"]] for one in (ddp, run)]
        for got, want in zip(*losses, strict=True):
            self.assertAlmostEqual(got, want, delta=1e-5 * want)
        peaks = {row["rank"]: row for row in self.report(run)["memory"]}
        self.assertEqual({rank: peak["by_category"]["optimizer"] for rank, peak in peaks.items()}, {rank: 0 if rank else 8 * PARAMETERS for rank in range(ranks)})

    def test_tensor_ranks_add_up_four_times_a_block(self):
        micro_batches, layers, heads = 2, 2, 4
        settings = ["train.steps=4", f"train.micro_batches={micro_batches}", f"model.layers={layers}", f"model.heads={heads}"]
        single, _ = self.train("single", "strategy=single", *settings, ranks=1)
        expected = [row["loss"] for row in self.report(single)["steps"]]
        for ranks in (2, 4):
            with self.subTest(ranks=ranks):
                run, _ = self.train(f"tensor{ranks}", "strategy=tensor", *settings, ranks=ranks)
                activation = 4 * TOKENS * DIM
                sent = 4 * layers * micro_batches * 2 * activation * (ranks - 1) // ranks
                self.assertEqual(self.recorded(run), {"tensor": sent})
                self.assertEqual(self.planned(run), {"tensor": sent})
                report = self.report(run)
                losses = [row["loss"] for row in report["steps"] if row["rank"] == 0]
                for got, want in zip(losses, expected, strict=True):
                    self.assertAlmostEqual(got, want, delta=1e-5 * want)
                self.assertEqual({row["tokens"] for row in report["steps"] if row["rank"] == 0}, {micro_batches * TOKENS})
                self.assertEqual({row["tokens"] for row in report["steps"] if row["rank"] != 0}, {0})
                causes = {stall["cause"] for stall in report["stalls"] if stall["title"].startswith("AR block")}
                self.assertLessEqual(causes, {"on_path", "late_rank", "queued_behind", "issued_late"})

    def test_ranks_that_share_the_sequence_send_as_much(self):
        micro_batches, layers, heads = 2, 2, 4
        settings = ["train.steps=4", f"train.micro_batches={micro_batches}", f"model.layers={layers}", f"model.heads={heads}"]
        whole = 2 * 256 * DIM + (2 * layers + 1) * DIM  # on each of them: embedding, head, norms
        for ranks in (2, 4):
            with self.subTest(ranks=ranks):
                tensor, _ = self.train(f"tensor{ranks}", "strategy=tensor", *settings, ranks=ranks)
                run, _ = self.train(f"sequence{ranks}", "strategy=tensor", "tensor.sequence_parallel=true", *settings, ranks=ranks)
                sent = (4 * layers * micro_batches * 2 * 4 * TOKENS * DIM + 2 * 4 * whole) * (ranks - 1) // ranks
                self.assertEqual(self.recorded(run), {"tensor sequence": sent})
                self.assertEqual(self.planned(run), {"tensor sequence": sent})
                reports = [self.report(one) for one in (tensor, run)]
                # Each rank has the loss of its positions; the mean of them is that of all.
                expected = [row["loss"] for row in reports[0]["steps"] if row["rank"] == 0]
                for step, want in enumerate(expected):
                    rows = [row for row in reports[1]["steps"] if row["step"] == step]
                    self.assertEqual({row["tokens"] for row in rows}, {micro_batches * TOKENS // ranks})
                    self.assertAlmostEqual(sum(row["loss"] for row in rows) / ranks, want, delta=1e-5 * want)
                self.assertAlmostEqual(reports[1]["summary"]["last_loss"], expected[-1], delta=1e-5 * expected[-1])
                peaks = [max(row["by_category"]["activation"] for row in report["memory"]) for report in reports]
                self.assertLess(peaks[1], peaks[0])
                causes = {stall["cause"] for stall in reports[1]["stalls"] if stall["title"].startswith(("AG block", "RS block"))}
                self.assertLessEqual(causes, {"on_path", "late_rank", "queued_behind", "issued_late"})

    def test_weights_gradients_are_made_under_the_sum(self):
        # A link so slow that what does not wait for it is over long before.
        run, _ = self.train("async", "strategy=tensor", "tensor.async=true", "model.heads=4", "train.steps=3", "link.latency=20ms", ranks=2)
        trace, = run.glob("trace-*.db")
        with contextlib.closing(sqlite3.connect(trace)) as database:
            rows = database.execute(
                "SELECT op_run.rank, op_run.step, plan_op.name, ready_ns, ended_ns FROM op_run JOIN plan_op ON plan_op.id = op_run.plan_op").fetchall()
        runs = {(rank, step, name): (ready, ended) for rank, step, name, ready, ended in rows}
        made = [(key, times) for key, times in runs.items() if key[2].endswith(" weight_backward")]
        self.assertEqual(len(made), 2 * 3 * 2 * 2)
        for (rank, step, name), (ready, ended) in made:
            sum_ready, sum_ended = runs[rank, step, name.replace("weight_backward", "all_reduce")]
            self.assertEqual(ready, sum_ready)
            self.assertLess(ended, sum_ended)

    def test_the_sequence_is_shared_from_one_step_to_the_next(self):
        settings = ["strategy=tensor", "train.steps=8", "precision.param=fp64", "model.heads=4"]
        plain, _ = self.train("plain", *settings, ranks=4)
        changes = self.root / "changes.toml"
        changes.write_text("".join(f'[[change]]\nstep = {step}\nset = {{ "tensor.sequence_parallel" = {value} }}\n'
                                   for step, value in ((2, "true"), (5, "false"))))
        changed, _ = self.train("changed", *settings, ranks=4, extra=["--config", changes])
        losses = [[], []]
        for found, run in zip(losses, (plain, changed), strict=True):
            rows = self.report(run)["steps"]
            for step in range(8):
                of_step = [row["loss"] for row in rows if row["step"] == step and row["tokens"] > 0]
                found.append(sum(of_step) / len(of_step))
        for want, got in zip(*losses, strict=True):
            self.assertAlmostEqual(got, want, delta=1e-9 * want)
        self.assertEqual([schedule["name"] for schedule in self.report(changed)["schedules"]], ["tensor", "tensor sequence"])

    def test_zero3_gathers_less_of_what_is_kept(self):
        # The head from forward to backward, norms from one update to the next.
        for micro_batches in (1, 2):
            run, _ = self.train(f"kept{micro_batches}", "strategy=zero3", "train.steps=3", f"train.micro_batches={micro_batches}",
                                "zero.max_reuse_distance=1", "zero.persistence_threshold=100", ranks=4)
            elements = (3 * micro_batches * (PARAMETERS - HEAD - NORMS) + 2 * micro_batches * HEAD + (micro_batches + 1) * NORMS)
            self.assertEqual(self.recorded(run), {"zero3": elements * 4 * 3 // 4})
            self.assertEqual(self.planned(run), self.recorded(run))

    def test_compute_waits_for_each_collective_without_overlap(self):
        for strategy in ("zero1", "zero2", "zero3"):
            run, _ = self.train(f"serial_{strategy}", f"strategy={strategy}", "zero.overlap_comm=false", "train.steps=3",
                                *SETTINGS[strategy], ranks=4)
            trace, = run.glob("trace-*.db")
            with contextlib.closing(sqlite3.connect(trace)) as database:
                (overlapping,), = database.execute(
                    "SELECT count(*) FROM collective JOIN op_run AS sent ON sent.id = collective.op_run "
                    "JOIN op_run AS computed ON computed.rank = sent.rank AND computed.step = sent.step "
                    "JOIN plan_op ON plan_op.id = computed.plan_op WHERE plan_op.kind IN ('forward', 'backward') "
                    "AND computed.started_ns < sent.ended_ns AND sent.started_ns < computed.ended_ns")
            self.assertEqual(overlapping, 0, strategy)

    def test_plan_prints_each_strategy_and_reads_it_back(self):
        for settings in (["strategy=" + name] for name in ("full", "grad_op", "no_shard", "ddp", "zero1", "zero2", "zero3", "pipeline",
                                                          "model_parallel")):
            with self.subTest(settings):
                options = ["--ranks", "3", "--units", "3", "--micro-batches", "4", "--set", *settings]
                printed = self.run_program(APP, "plan", *options).stdout
                path = self.root / "plan.txt"
                path.write_text(printed)
                self.assertIn("ok: ", self.run_program(APP, "plan", "--check", path).stdout)
        parts = self.run_program(APP, "plan", "--ranks", "4", "--units", "2", "--set", "mesh.tensor=2", "tensor.sequence_parallel=true").stdout
        path.write_text(parts)
        self.assertIn("norm_forward", parts)
        self.assertIn("ok: ", self.run_program(APP, "plan", "--check", path).stdout)
        composed = self.run_program(APP, "plan", "--ranks", "4", "--units", "2", "--set", "mesh.pipeline=2", "train.micro_batches=3").stdout
        self.assertIn("mesh=2,1,2,1", composed)
        self.assertIn("rank_programs ranks=0,0,1,1", composed)

    def test_stages_come_and_go_while_a_run_trains(self):
        changes = self.root / "changes.toml"
        changes.write_text("".join(f'[[change]]\nstep = {2 * at + 2}\nset = {{ {what} }}\n' for at, what in enumerate((
            '"strategy" = "pipeline"', '"pipeline.schedule" = "gpipe"', '"strategy" = "full", "mesh.pipeline" = "2"',
            '"strategy" = "ddp", "mesh.pipeline" = "1"'))))
        run, _ = self.train("run", "train.steps=12", "model.layers=4", "train.micro_batches=2", ranks=4, extra=["--config", changes])
        report = self.report(run)
        self.assertEqual(report["state"], "finished")
        self.assertEqual([schedule["name"] for schedule in report["schedules"]],
                         ["fsdp2 full pre1", "pipeline 1f1b", "pipeline gpipe", "fsdp2 full pre1 gpipe", "ddp"])
        # Each step of a pipeline counts its samples once.
        tokens = {}
        for row in report["steps"]:
            tokens[row["step"]] = tokens.get(row["step"], 0) + row["tokens"]
        self.assertEqual([tokens[step] // (2 * TOKENS) for step in (1, 3, 5, 7, 9)], [4, 1, 1, 2, 4])

    def test_changes_go_on_where_the_run_was(self):
        settings = ["train.steps=14", "precision.param=fp64"]
        plain, _ = self.train("plain", *settings, ranks=4)
        changes = self.root / "changes.toml"
        order = ["ddp", "zero2", "hybrid", "zero3", "zero1", "full"]
        changes.write_text("".join(f'[[change]]\nstep = {2 * at + 2}\nset = {{ "strategy" = "{strategy}" }}\n'
                                   for at, strategy in enumerate(order)))
        changed, _ = self.train("changed", *settings, ranks=4, extra=["--config", changes])
        expected = [row["loss"] for row in self.report(plain)["steps"] if row["rank"] == 0]
        found = [row["loss"] for row in self.report(changed)["steps"] if row["rank"] == 0]
        self.assertEqual(len(found), len(expected))
        for step, (got, want) in enumerate(zip(found, expected)):
            self.assertAlmostEqual(got, want, delta=1e-9 * want, msg=f"step {step}")
        names = [schedule["name"] for schedule in self.report(changed)["schedules"]]
        self.assertEqual(names, ["fsdp2 full pre1", "ddp", "zero2", "fsdp2 hybrid pre1", "zero3", "zero1"])
        sent = self.recorded(changed)
        self.assertEqual(sent, self.planned(changed))
        # Each within its bound, though what ranks keep came and went.
        for schedule in self.report(changed)["schedules"]:
            self.assertLessEqual(schedule["peak_bytes"], schedule["executed_bound_bytes"], schedule["name"])
            self.assertGreater(schedule["peak_bytes"], 0.9 * schedule["predicted_peak_bytes"], schedule["name"])

    def test_units_and_mesh_change_too(self):
        changes = self.root / "changes.toml"
        changes.write_text('[[change]]\nstep = 2\nset = { "unit.policy" = "blocks:2", "unit.root" = "true" }\n'
                           '[[change]]\nstep = 4\nset = { "strategy" = "hybrid" }\n'
                           '[[change]]\nstep = 6\nset = { "mesh.replicate" = "4" }\n')
        run, _ = self.train("run", "train.steps=8", ranks=4, extra=["--config", changes])
        self.assertEqual(len(self.report(run)["schedules"]), 4)
        self.assertEqual(self.report(run)["state"], "finished")

    def test_budgets_of_zero3_change_too(self):
        settings = ["strategy=zero3", "zero.persistence_threshold=0", "train.steps=8", "precision.param=fp64"]
        plain, _ = self.train("plain", *settings, ranks=4)
        changes = self.root / "changes.toml"
        changes.write_text('[[change]]\nstep = 2\nset = { "zero.persistence_threshold" = "100", "zero.max_reuse_distance" = "0" }\n'
                           '[[change]]\nstep = 4\nset = { "zero.prefetch_bucket_size" = "0" }\n'
                           '[[change]]\nstep = 6\nset = { "zero.overlap_comm" = "false" }\n')
        changed, _ = self.train("changed", *settings, ranks=4, extra=["--config", changes])
        self.assertEqual([schedule["name"] for schedule in self.report(changed)["schedules"]], ["zero3", "zero3", "zero3", "zero3 serial"])
        expected = [row["loss"] for row in self.report(plain)["steps"] if row["rank"] == 0]
        found = [row["loss"] for row in self.report(changed)["steps"] if row["rank"] == 0]
        for step, (got, want) in enumerate(zip(found, expected, strict=True)):
            self.assertAlmostEqual(got, want, delta=1e-9 * want, msg=f"step {step}")

    def test_what_cannot_be_is_one_line_and_creates_nothing(self):
        for settings, said in (
                (["strategy=single"], "strategy=single is one rank, not run.ranks=4"),
                (["strategy=ddp", "mesh.shard=2", "mesh.replicate=2"], "mesh.shard=2 means shards, which strategy=ddp does not have"),
                (["strategy=zero1", "ddp.bucket_cap=1MB"], "ddp.bucket_cap=1MB has no effect with strategy=zero1: leave it out, or set "
                                                           "strategy=ddp"),
                (["zero.prefetch_bucket_size=5"], "zero.prefetch_bucket_size=5 has no effect with strategy=full: leave it out, or set "
                                                  "strategy=zero3"),
                (["strategy=zero3", "zero.max_reuse_distance=-1"], "zero.max_reuse_distance=-1"),
                (["strategy=zero3", "mesh.replicate=2"], "mesh.replicate=2 means replicas, which strategy=zero3 does not have"),
                (["zero.reduce_bucket_size=0"], "zero.reduce_bucket_size"),
                (["strategy=pipeline"], "4 ranks with pipeline.chunks=1 are 4 stages, but model.layers=2: set model.layers=4"),
                (["strategy=pipeline", "model.layers=8", "unit.root=true"], "set unit.root=false"),
                (["strategy=pipeline", "model.layers=8", "pipeline.chunks=2"], "set pipeline.schedule=interleaved, or pipeline.chunks=1"),
                (["strategy=pipeline", "model.layers=8", "pipeline.schedule=interleaved", "pipeline.chunks=1"], "or pipeline.schedule=1f1b"),
                (["strategy=pipeline", "model.layers=8", "pipeline.schedule=interleaved", "train.micro_batches=9"],
                 "train.micro_batches=9 with pipeline.schedule=interleaved and 4 stages in a row: set it to a multiple of 4"),
                (["strategy=zero2", "mesh.pipeline=2"], "mesh.pipeline=2 means stages, which strategy=zero2 does not have"),
                (["tensor.sequence_parallel=true"], "tensor.sequence_parallel=true needs ranks that share layers, and mesh.tensor=1 has none"),
                (["strategy=tensor", "model.heads=4", "tensor.sequence_parallel=true", "model.seq=18"],
                 "model.seq=18 cannot be split among 4 ranks along mesh.tensor, as tensor.sequence_parallel=true asks for: set model.seq=20"),
                (["mesh.tensor=1", "tensor.async=true"], "tensor.async=true needs ranks that share layers, and mesh.tensor=1 has none"),
                (["strategy=zero2", "tensor.sequence_parallel=true"],
                 "tensor.sequence_parallel=true has no effect with strategy=zero2: leave it out"),
                (["strategy=zero2", "pipeline.schedule=gpipe"], "pipeline.schedule=gpipe has no effect with strategy=zero2")):
            with self.subTest(settings):
                done = self.run_program(*self.train_command(self.root / "none", *settings, ranks=4), check=False)
                self.assertNotEqual(done.returncode, 0)
                self.assertIn(said, done.stderr)
                self.assertEqual(len(done.stderr.splitlines()), 1)
                self.assertFalse((self.root / "none").exists())

    @unittest.skipIf(SCALE < 1, "compares texts, which other tests make as well")
    def test_the_schedules_in_the_docs_are_those_that_run(self):
        text = strategy_docs.DOCS.read_text()
        self.assertEqual(text, strategy_docs.write_schedules(text))
        for name in strategy_docs.TRAININGS:
            self.assertIn(f"(strategies/{name}.png)", text)
            self.assertLess((strategy_docs.PICTURES / f"{name}.png").stat().st_size, 150_000)


if __name__ == "__main__":
    unittest.main()
