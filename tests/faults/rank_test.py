"""A rank that throws, hangs or dies (key debug.fault): how the run ends, and who is told what."""

import unittest

from programs import APP, ProgramTest

STEPS = 1000000


class RankFaultTest(ProgramTest):
    def fail_with(self, fault, *settings, ranks=3):
        out = self.root / "run"
        done = self.run_program(*self.train_command(
            out, f"train.steps={STEPS}", "comm.timeout=1s", f"debug.fault={fault}", *settings, ranks=ranks), check=False)
        return out, done

    def assert_told(self, out, done, *fragments):
        """One error line; the same in the log, in the trace and in the report; the trace is finished."""
        self.assertEqual(done.returncode, 1, done.stderr)
        error, = done.stderr.strip().splitlines()
        for fragment in fragments:
            self.assertIn(fragment, error)
        text = error.removeprefix("error: ")
        self.assertIn(text, (out / "log.txt").read_text())
        report = self.report(out)
        self.assertEqual(report["state"], "finished")
        self.assertEqual([(m["step"], m["new_value"]) for m in report["markers"] if m["kind"] == "error"], [(3, text)])
        self.assertEqual({(row["rank"], row["step"]) for row in report["steps"]}, {(r, s) for r in range(3) for s in range(3)})
        self.assertIn(text, self.run_program(APP, "report", out).stdout)
        self.assertEqual(len(list(out.glob("*.live.db*"))), 0)

    def test_a_rank_that_throws(self):
        out, done = self.fail_with("throw:1:3:F m0 block1.mlp forward")
        self.assert_told(out, done, "rank 1, step 3, op 'F m0 block1.mlp forward' (op ", "debug.fault threw")

    def test_a_rank_that_hangs_in_compute_is_named_with_who_waits_for_it(self):
        out, done = self.fail_with("hang:1:3:F m0 block1.mlp forward")
        self.assert_told(out, done, "rank 1 hangs in 'F m0 block1.mlp forward' (op ", "step 3) for ",
                         "ranks 0, 2 wait for it in ", "sequence ", "comm.timeout=1.00 s")
        unfinished = self.sql(out, "SELECT t.rank, t.name, n.text FROM span JOIN track t ON t.id = span.track "
                                   "JOIN string n ON n.id = span.name_string")
        self.assertIn({"rank": 1, "name": "compute", "text": "F m0 block1.mlp forward (unfinished)"}, unfinished)
        ran = self.sql(out, "SELECT count(*) AS n FROM op_run JOIN plan_op p ON p.id = op_run.plan_op "
                            "WHERE op_run.rank = 1 AND step = 3 AND p.name = 'F m0 block1.mlp forward'")
        self.assertEqual(ran, [{"n": 0}])

    def test_a_rank_that_hangs_in_the_only_compute_slot(self):
        out, done = self.fail_with("hang:1:3:F m0 block1.mlp forward", "engine.compute_slots=1")
        self.assert_told(out, done, "rank 1 hangs in 'F m0 block1.mlp forward'")

    def test_a_rank_that_hangs_before_a_collective(self):
        out, done = self.fail_with("hang:2:3:B m0 block0 reduce_scatter")
        self.assert_told(out, done, "rank 2 has been in the collective 'B m0 block0 reduce_scatter'",
                         "ranks 0, 1 wait for it in reduce_scatter", "; rank 2 does not stop")
        self.assertEqual(done.stderr.count("'B m0 block0 reduce_scatter'"), 2, "said once of it, once of the others")

    def test_a_process_that_dies_leaves_a_cut_trace(self):
        out, done = self.fail_with("kill:1:3:0")
        self.assertEqual(done.returncode, -9)
        self.assertEqual(self.report(out)["state"], "cut")

    def test_faults_that_cannot_happen_are_refused(self):
        for fault, fragment in (("hang:9:0:0", "no rank 9"), ("hang:0:0:nothing", "no op 'nothing'"), ("stop:0:0:0", "hang"),
                                ("hang:0:0", "<op>")):
            with self.subTest(fault=fault):
                out, done = self.fail_with(fault)
                self.assertEqual(done.returncode, 1)
                self.assertIn(fragment, done.stderr)
                self.assertFalse(out.exists())


if __name__ == "__main__":
    unittest.main()
