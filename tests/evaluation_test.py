"""Evaluations between steps: the same loss however many ranks share the data, nothing of the training changed, and apart from its times."""

import unittest

from programs import APP, INTERRUPTED, TIMEOUT_S, TRAIN, Control, ProgramTest, interrupt

ENDLESS = "train.steps=1000000"
TEXT = "pack my box with five dozen liquor jugs, said the quick brown fox. "


class EvaluationTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.held_out = self.root / "held out.txt"
        self.held_out.write_text(TEXT * 7)  # 27 samples of 17 bytes, and a rest

    def evaluate(self, name, *settings, ranks=2, check=True):
        """The run, and what it and its losses file say."""
        losses = self.root / f"{name}.losses"
        command = self.train_command(self.root / name, "train.steps=6", f"eval.path={self.held_out}", *settings, ranks=ranks)
        done = self.run_program(*command, "--losses", losses, check=check)
        return self.root / name, done, losses.read_text() if losses.exists() else ""

    def losses(self, run):
        return [row["loss"] for row in self.sql(run, "SELECT loss FROM v_evaluation ORDER BY before_step")]

    def assert_near(self, left, right):
        self.assertEqual(len(left), len(right))
        for a, b in zip(left, right):
            self.assertAlmostEqual(a, b, delta=1e-10 * b)

    def test_the_loss_is_the_same_at_any_number_of_ranks_and_the_training_as_without(self):
        fp64 = ["precision.param=fp64", "eval.every=2"]
        one, _, _ = self.evaluate("one", *fp64, "train.batch=4", ranks=1)
        expected = self.losses(one)
        self.assertEqual(len(expected), 4)
        self.assertLess(expected[-1], expected[0])
        for name, settings, ranks in (("full", ["train.batch=1"], 4), ("ddp", ["strategy=ddp", "train.batch=1"], 4),
                                      ("zero3", ["strategy=zero3", "train.batch=2"], 2),
                                      ("stages", ["mesh.pipeline=2", "strategy=pipeline", "train.batch=2", "train.micro_batches=2"], 2)):
            with self.subTest(name):
                run, _, with_evaluations = self.evaluate(name, *fp64, *settings, ranks=ranks)
                self.assert_near(self.losses(run), expected)
                self.assertEqual([row["tokens"] for row in self.sql(run, "SELECT DISTINCT tokens FROM evaluation")], [27 * 16])
                _, _, without = self.evaluate(f"{name} without", *fp64, *settings, "eval.every=0", "eval.path=", ranks=ranks)
                self.assertEqual(with_evaluations, without)

    def test_it_lies_between_steps_and_is_shown(self):
        run, done, _ = self.evaluate("run", "eval.every=3", "eval.batches=2")
        for step in (0, 3, 6):
            self.assertIn(f"evaluation before step {step}: loss ", done.stdout)
        rows = self.sql(run, "SELECT rank, step, first_batch, batches, tokens, loss, start_ns, end_ns FROM evaluation ORDER BY step, rank")
        self.assertEqual([(row["step"], row["rank"], row["first_batch"], row["batches"], row["tokens"]) for row in rows],
                         [(step, rank, first, 2, 2 * 4 * 16) for step, first in ((0, -2), (3, -4), (6, -6)) for rank in (0, 1)])
        self.assertEqual(len({row["loss"] for row in rows}), 3)
        for row in rows:
            inside = self.sql(run, f"SELECT count(*) AS n FROM step WHERE rank = {row['rank']} AND start_ns < {row['end_ns']} AND end_ns > "
                              f"{row['start_ns']}")
            self.assertEqual(inside[0]["n"], 0, row)
        self.assertEqual(self.sql(run, "SELECT DISTINCT step FROM op_run WHERE step < 0 ORDER BY 1"), [{"step": step} for step in range(-7, -1)])
        phases = self.sql(run, "SELECT DISTINCT p.phase, r.step < 0 AS evaluates FROM op_run r JOIN plan_op p ON p.id = r.plan_op ORDER BY 2, 1")
        self.assertEqual([(row["phase"], row["evaluates"]) for row in phases],
                         [("backward", 0), ("forward", 0), ("optimizer", 0), ("evaluation", 1)])
        kinds = {row["kind"] for row in self.sql(run, "SELECT DISTINCT kind FROM v_op_run WHERE step < 0")}
        self.assertLessEqual(kinds, {"control", "load_batch", "copy_in", "all_gather", "copy_out", "forward", "reshard", "release"})
        # Nothing of it is left: memory comes back to what it was.
        held = self.sql(run, "SELECT rank, sum(bytes) AS bytes FROM memory_event WHERE step < -1 GROUP BY rank")
        self.assertEqual([row["bytes"] for row in held], [0, 0])
        report = self.report(run)
        self.assertEqual([(one["before_step"], one["batches"]) for one in report["evaluations"]], [(0, 2), (3, 2), (6, 2)])
        self.assertEqual([pause["cause"] for pause in report["pauses"]], ["evaluation"])
        text = self.run_program(APP, "report", run).stdout
        self.assertRegex(text, r"held-out data: 3 evaluations of 128 tokens, loss [0-9.]+ nats before step 0, .*last [0-9.]+ nats before step 6\n")
        self.assertIn("1 evaluation of ", text)
        self.assertIn(" evaluation", "".join(path.read_text() for path in (run / "schedules").iterdir()))
        self.run_program(APP, "export", run, "--format", "perfetto", "-o", self.root / "out.json")

    def test_a_run_that_goes_on_evaluates_as_one_that_was_not_stopped(self):
        whole, _, _ = self.evaluate("whole", "eval.every=2", "checkpoint.every=4")
        again = self.root / "again"
        self.run_program(TRAIN, "--resume", whole / "checkpoints" / "step-4", "--out", again)
        self.assertEqual(self.losses(again), self.losses(whole)[2:])

    def test_a_signal_and_a_stop_end_it_between_two_batches(self):
        self.held_out.write_text(TEXT * 100_000)  # long enough that whoever waits for the end of it fails here
        for how, code in (("signal", INTERRUPTED), ("stop", 0)):
            with self.subTest(how):
                run, process = self.start_training(how, ENDLESS, f"eval.path={self.held_out}", "eval.every=1000")
                self.wait_for_batch(run)
                if how == "signal":
                    interrupt(process)
                else:
                    control = Control(run)
                    self.addCleanup(control.close)
                    self.assertTrue(control.ask(do="stop")["ok"])
                output, _ = process.communicate(timeout=TIMEOUT_S)
                self.assertEqual(process.returncode, code, output)
                self.assert_left(run, output)

    def test_only_what_counts_is_in_the_loss_and_batches_may_be_cut(self):
        short, _, _ = self.evaluate("short", "eval.every=6", "eval.batches=1")
        self.assertEqual(self.sql(short, "SELECT DISTINCT tokens FROM evaluation"), [{"tokens": 4 * 16}])

    def test_what_cannot_be_evaluated_is_said_before_the_run(self):
        short = self.root / "short.txt"
        short.write_text("too short")
        empty = self.root / "empty.txt"
        empty.touch()
        for settings, text in ((["eval.every=2", "eval.path="], "eval.every=2 needs held-out data"),
                               (["eval.every=2", f"eval.path={self.root / 'none'}"], f"eval.path: {self.root / 'none'} is not there"),
                               (["eval.every=2", f"eval.path={empty}"], f"eval.path: {empty} has no text in it"),
                               ([], "has no effect with eval.every=0"),
                               (["eval.every=2", f"eval.path={short}"], "has no 17 tokens whose loss counts")):
            with self.subTest(text):
                _, done, _ = self.evaluate("refused", *settings, check=False)
                self.assertEqual(done.returncode, 1, done.stdout)
                self.assertIn(text, done.stderr)
                self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
                self.assertFalse((self.root / "refused").exists())

    def test_the_reference_evaluates_nothing(self):
        for setting in ("precision.param=fp16", "optimizer.state=8bit"):
            done = self.run_program(*self.train_command(None, setting), "--reference", check=False)
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"--reference has no {setting}", done.stderr)
        done = self.run_program(*self.train_command(None, f"eval.path={self.held_out}", "eval.every=2"), "--reference", check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("leave eval.every away", done.stderr)

    def test_plan_prints_its_schedule(self):
        text = self.run_program(APP, "plan", "--evaluation").stdout
        self.assertIn("phase=evaluation", text)
        self.assertNotIn("backward", text.split("program 0")[1])
        path = self.root / "schedule"
        path.write_text(text)
        self.assertIn("ok: ", self.run_program(APP, "plan", "--check", path).stdout)


if __name__ == "__main__":
    unittest.main()
