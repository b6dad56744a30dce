"""Ranks that compute more slowly than planned (keys fault.delay and fault.jitter): the report names them as the late rank that the
others wait for."""

import collections
import unittest

from programs import Control, ProgramTest

SLOTS = "engine.compute_slots=3"  # a rank that is late keeps its own slot, and none that another needs


class LateRankTest(ProgramTest):
    def late_ns(self, run, *options):
        """By step, rank that waits and rank that is waited for: stalls whose cause is a late rank."""
        late = collections.Counter()
        for stall in self.report(run, "--all", *options)["every_stall"]:
            if stall["cause"] == "late_rank":
                late[stall["step"], stall["rank"], stall["cause_object"]] += stall["stall_ns"]
        return late

    def test_a_delayed_rank_is_what_the_others_wait_for_in_these_steps_alone(self):
        run, _ = self.train("run", "train.steps=8", SLOTS, "fault.delay=1:300ms:4:7", ranks=3)
        late = self.late_ns(run)
        for step in (4, 5, 6):
            for rank in (0, 2):
                self.assertGreater(late[step, rank, "rank 1"], 150e6, (step, rank))
        compute = {(row["step"], row["rank"]): row["compute_ns"] for row in self.report(run)["steps"] if row["step"] >= 2}
        self.assertEqual({place for place, ns in compute.items() if ns > 290e6}, {(4, 1), (5, 1), (6, 1)})
        dearest = self.report(run)["stalls"][0]
        self.assertEqual((dearest["cause"], dearest["cause_object"]), ("late_rank", "rank 1"))

    def test_a_rank_that_is_slower_by_a_share_of_its_own_time(self):
        run, _ = self.train("run", "train.steps=8", "model.dim=96", "model.seq=64", SLOTS, "fault.delay=2:1000%", ranks=3)
        waited_for = collections.Counter()
        for (_, _, rank), ns in self.late_ns(run).items():
            waited_for[rank] += ns
        self.assertEqual(waited_for.most_common(1)[0][0], "rank 2", waited_for)

    def test_a_delay_comes_and_goes_while_the_run_trains(self):
        run, _ = self.start_training("run", "train.steps=1000000", SLOTS, ranks=3)
        self.wait_for_steps(run, 1)
        control = Control(run)
        self.addCleanup(control.close)
        begins = control.ask(set={"fault.delay": "0:300ms"})
        self.assertTrue(begins["ok"], begins)
        self.wait_for_steps(run, begins["applies_at"] + 2)
        ends = control.ask(set={"fault.delay": ""})
        self.assertTrue(ends["ok"], ends)
        self.wait_for_steps(run, ends["applies_at"] + 2)
        self.assertTrue(control.ask(do="stop")["ok"])
        last = ends["applies_at"]
        rows = self.report(run, "--steps", f"{begins['applies_at'] - 1}:{last + 1}")["steps"]
        slow = {row["step"] for row in rows if row["rank"] == 0 and row["compute_ns"] > 290e6}
        self.assertEqual(slow, set(range(begins["applies_at"], last)))
        late = self.late_ns(run, "--steps", f"{begins['applies_at']}:{last}")
        for rank in (1, 2):
            self.assertGreater(late[last - 1, rank, "rank 0"], 150e6)

    def test_jitter_makes_one_rank_late_after_the_other_and_changes_no_loss(self):
        losses = {}
        for jitter in ("", "40ms"):
            run, _ = self.train(f"run{jitter}", "train.steps=5", SLOTS, f"fault.jitter={jitter}", ranks=3)
            report = self.report(run, "--all")
            losses[jitter] = {(row["step"], row["rank"]): row["loss"] for row in report["steps"]}
        self.assertEqual(len(losses[""]), 5 * 3)
        self.assertEqual(losses["40ms"], losses[""])
        late = {(stall["cause_object"], stall["rank"]) for stall in report["every_stall"]
                if stall["cause"] == "late_rank" and stall["stall_ns"] > 10e6}
        # Every rank is late for another sooner or later.
        self.assertEqual({rank for rank, _ in late}, {"rank 0", "rank 1", "rank 2"}, late)
        self.assertEqual({rank for _, rank in late}, {0, 1, 2}, late)


if __name__ == "__main__":
    unittest.main()
