"""A rank that dies, hangs or leaves out a collective (keys fault.die, fault.hang, fault.skip): how the run ends, and who is told what."""

import unittest

from processes_test import LaunchedTest
from programs import APP, ProgramTest

STEPS = 1000000


class RankFaultTest(ProgramTest):
    def fail_with(self, fault, *settings, ranks=3, name="run"):
        out = self.root / name
        done = self.run_program(*self.train_command(
            out, f"train.steps={STEPS}", "comm.timeout=1s", f"fault.{fault}", *settings, ranks=ranks), check=False)
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
        self.assertEqual(report["state"], "failed")
        self.assertEqual([(m["step"], m["new_value"]) for m in report["markers"] if m["kind"] == "error"], [(3, text)])
        self.assertEqual({(row["rank"], row["step"]) for row in report["steps"]}, {(r, s) for r in range(3) for s in range(3)})
        self.assertIn(text, self.run_program(APP, "report", out).stdout)
        self.assertEqual(len(list(out.glob("*.live.db*"))), 0)

    def test_a_rank_that_dies_beside_the_others(self):
        out, done = self.fail_with("die=1:3:F m0 block1.mlp forward")
        self.assert_told(out, done, "rank 1, step 3, op 'F m0 block1.mlp forward' (op ", "the rank dies (fault.die)")

    def test_a_rank_that_hangs_in_compute_is_named_with_who_waits_for_it(self):
        out, done = self.fail_with("hang=1:3:F m0 block1.mlp forward")
        self.assert_told(out, done, "rank 1 hangs in 'F m0 block1.mlp forward' (op ", "step 3) for ",
                         "ranks 0, 2 wait for it in ", "sequence ", "comm.timeout=1.00 s")
        unfinished = self.sql(out, "SELECT t.rank, t.name, n.text FROM span JOIN track t ON t.id = span.track "
                                   "JOIN string n ON n.id = span.name_string")
        self.assertIn({"rank": 1, "name": "compute", "text": "F m0 block1.mlp forward (not ended)"}, unfinished)
        ran = self.sql(out, "SELECT count(*) AS n FROM op_run JOIN plan_op p ON p.id = op_run.plan_op "
                            "WHERE op_run.rank = 1 AND step = 3 AND p.name = 'F m0 block1.mlp forward'")
        self.assertEqual(ran, [{"n": 0}])

    def test_a_rank_that_hangs_in_the_only_compute_slot(self):
        out, done = self.fail_with("hang=1:3:F m0 block1.mlp forward", "engine.compute_slots=1")
        self.assert_told(out, done, "rank 1 hangs in 'F m0 block1.mlp forward'")

    def test_a_rank_that_hangs_before_a_collective(self):
        out, done = self.fail_with("hang=2:3:B m0 block0 reduce_scatter")
        self.assert_told(out, done, "rank 2 has been in the collective 'B m0 block0 reduce_scatter'",
                         "ranks 0, 1 wait for it in reduce_scatter", "; rank 2 does not stop")
        self.assertEqual(done.stderr.count("'B m0 block0 reduce_scatter'"), 2, "said once of it, once of the others")

    def test_a_rank_that_leaves_out_a_collective(self):
        # The first of the step; one after which the rank calls one that looks the same.
        for op, left_out, instead in (("", "F m0 embedding all_gather", "F m0 block0 all_gather"),
                                      (":F m0 block0 all_gather", "F m0 block0 all_gather", "F m0 block1 all_gather")):
            with self.subTest(op=op):
                out, done = self.fail_with(f"skip=1:3{op}", name=f"run{len(op)}")
                self.assert_told(out, done, f"rank 1 left out all_gather '{left_out}' (op ", "step 3), in which ranks 0, 2 wait for it",
                                 f"rank 1 called all_gather for '{instead}'")

    def test_a_rank_that_leaves_out_the_last_collective_of_a_step(self):
        out, done = self.fail_with("skip=1:3:O all_reduce")
        self.assertEqual(done.returncode, 1, done.stderr)
        error, = done.stderr.strip().splitlines()
        for fragment in ("rank 1 ", " in 'control' (op 0, step 4)", "; ranks 0, 2 wait for it in all_reduce 'O all_reduce'", "comm.timeout=1.00 s"):
            self.assertIn(fragment, error)

    def test_a_stage_that_leaves_out_a_send_or_a_receive(self):
        for op, fragments in (
                ("F m0 block0.mlp activation send", ["a rank left out a send or a receive: rank 0 called broadcast for 'F m1 block0.mlp activation'",
                                                     "rank 1 called broadcast for 'F m0 block0.mlp activation'"]),
                # Whichever of them waits too long first.
                ("F m1 block0.mlp activation send", ["rank 0 ", "rank 1 ", "'F m1 block0.mlp activation", " waits for it in broadcast '"])):
            with self.subTest(op=op):
                _, done = self.fail_with(f"skip=0:3:{op}", "strategy=pipeline", "train.micro_batches=2", ranks=2, name=op[3:5])
                self.assertEqual(done.returncode, 1, done.stderr)
                error, = done.stderr.strip().splitlines()
                for fragment in fragments:
                    self.assertIn(fragment, error)

    def test_a_rank_that_draws_other_parameters_ends_the_run_before_its_first_step(self):
        for strategy, *mesh in (("full",), ("ddp",), ("hybrid",), ("full", "mesh.pipeline=2"), ("zero3",)):
            with self.subTest(strategy=strategy, mesh=mesh):
                out, done = self.fail_with("init=1", f"strategy={strategy}", *mesh, ranks=4, name=strategy + str(len(mesh)))
                self.assertEqual(done.returncode, 1, done.stderr)
                error, = done.stderr.strip().splitlines()
                self.assertIn("error: rank 1 draws other initial parameters than ranks 0, 2, 3: ", error)
                report = self.report(out)
                self.assertEqual(report["steps"], [])
                self.assertEqual([m["new_value"] for m in report["markers"] if m["kind"] == "error"], [error.removeprefix("error: ")])

    def test_faults_that_cannot_happen_are_refused(self):
        for fault, fragment in (("hang=9:0:0", "no rank 9"), ("hang=0:0:nothing", "no op 'nothing'"), ("die=x:0", "<op>"),
                                ("skip=0:0:F m0 block1.mlp forward", "no collective"), ("hang=0", "<op>"), ("init=3", "no rank 3")):
            with self.subTest(fault=fault):
                out, done = self.fail_with(fault)
                self.assertEqual(done.returncode, 1)
                self.assertIn(fragment, done.stderr)
                self.assertFalse(out.exists())


class BrokenProcessTest(LaunchedTest):
    def test_a_process_that_leaves_out_a_collective_is_named_by_all(self):
        for op, fragments in (("F m0 block0 all_gather", ["rank 1 left out all_gather 'F m0 block0 all_gather' (op ",
                                                          "rank 1 called all_gather for 'F m0 block1 all_gather'"]),
                              ("O all_reduce", ["rank 1, which waits in all_gather 'step report', has not come; rank ",
                                                " waits for it in all_reduce 'O all_reduce' (op "])):
            with self.subTest(op=op):
                out, processes = self.start(op, f"train.steps={STEPS}", "comm.timeout=2s", f"fault.skip=1:3:{op}", ranks=3)
                for error in self.finish(processes, code=1):
                    self.assertEqual(len(error.splitlines()), 1, error)
                    for fragment in fragments:
                        self.assertIn(fragment, error)
                        self.assertIn(fragment, (out / "log.txt").read_text())

    def test_processes_that_draw_other_parameters(self):
        _, processes = self.start("run", f"train.steps={STEPS}", "comm.timeout=5s", "fault.init=2", ranks=3)
        for error in self.finish(processes, code=1):
            self.assertIn("rank 2 draws other initial parameters than ranks 0, 1: ", error)
            self.assertEqual(len(error.splitlines()), 1, error)

    def test_a_process_that_dies_leaves_a_cut_trace_and_is_named_by_the_others(self):
        out, processes = self.start("run", f"train.steps={STEPS}", "comm.timeout=5s", "fault.die=1:3", ranks=3)
        errors = [process.communicate(timeout=60)[1] for process in processes]
        self.assertEqual([process.returncode for process in processes], [1, -9, 1], errors)
        for error in (errors[0], errors[2]):
            self.assertIn("rank 1 is gone", error)
            self.assertRegex(error, "rank [02] waits for it in [a-z_]+ '")
            self.assertEqual(len(error.splitlines()), 1, error)
        report = self.report(out)
        self.assertEqual(report["state"], "cut")
        # What the dead one had not written yet has gone with it.
        self.assertEqual({(row["rank"], row["step"]) for row in report["steps"] if row["rank"] != 1}, {(r, s) for r in (0, 2) for s in range(3)})


if __name__ == "__main__":
    unittest.main()
