"""What the views of a trace say, against the report: the same stalls and the same waits for a slot, in ten different runs."""

import collections
import unittest

from programs import Control, ProgramTest

SLOW = ("transport=emulated", "link.bandwidth=5MB/s")
RUNS = (
    (2, ("preset=fsdp2", *SLOW)),
    (2, ("preset=fsdp1", *SLOW)),
    (3, ("preset=fsdp2", "prefetch.backward=none", "host.run_ahead=0", *SLOW)),
    (3, ("preset=fsdp1", "prefetch.backward=post", "prefetch.forward=1", "prefetch.limit=1", *SLOW)),
    (2, ("preset=fsdp2", "strategy=grad_op", "train.micro_batches=2", *SLOW)),
    (2, ("preset=fsdp1", "strategy=no_shard", *SLOW)),
    (4, ("preset=fsdp2", "prefetch.forward=2", "engine.compute_slots=1")),
    (4, ("preset=fsdp1", "engine.compute_slots=1", "precision.param=bf16")),
    (1, ("preset=fsdp2", "unit.root=true")),
)


class ViewsTest(ProgramTest):
    def assert_same_stalls(self, run):
        """Every stall of the view is one of the report, and the other way round. Returns how many there are."""
        report = self.report(run, "--all")
        listed = collections.Counter((stall["rank"], stall["step"], stall["op"], stall["blocking_op"], stall["stall_ns"])
                                     for stall in report["every_stall"])
        rows = self.sql(run, "SELECT * FROM v_stall WHERE step >= 2")  # the report leaves warm-up out
        self.assertEqual(listed, collections.Counter((row["rank"], row["step"], row["op"], row["collective"], round(row["waited_ms"] * 1e6))
                                                     for row in rows))
        # The verdict is said in one place.
        self.assertFalse({"why", "cause"} & {name for row in rows for name in row})
        return sum(listed.values())

    def assert_same_slot_waits(self, run):
        """Returns all of them, in ms."""
        rows = self.sql(run, "SELECT rank, step, slot_wait_ms, idle_ms FROM v_step")
        self.assertEqual({(row["rank"], row["step"]): row["slot_wait_ns"] for row in self.report(run)["steps"]},
                         {(row["rank"], row["step"]): round(row["slot_wait_ms"] * 1e6) for row in rows})
        for row in rows:
            self.assertLessEqual(row["slot_wait_ms"], row["idle_ms"])
        return sum(row["slot_wait_ms"] for row in rows)

    def test_stalls_and_slot_waits_are_those_of_the_report(self):
        stalls = slot_wait_ms = 0
        for at, (ranks, settings) in enumerate(RUNS):
            with self.subTest(settings):
                run, _ = self.train(f"run{at}", "train.steps=5", *settings, ranks=ranks)
                stalls += self.assert_same_stalls(run)
                slot_wait_ms += self.assert_same_slot_waits(run)
        self.assertGreater(stalls, 50)
        self.assertGreater(slot_wait_ms, 0)

    def test_stalls_of_a_run_that_was_paused_are_those_of_the_report(self):
        run, process = self.start_training("paused", "train.steps=1000000", *SLOW)
        self.wait_for_steps(run, 3)
        control = Control(run)
        self.addCleanup(control.close)
        for action in ("pause", "step"):
            self.assertTrue(control.ask(do=action)["ok"])
            self.wait_for(lambda: control.ask(get="status")["status"]["state"] == "paused", action)
        self.assertTrue(control.ask(do="resume")["ok"])
        self.wait_for_steps(run, self.report(run)["steps"][-1]["step"] + 3)
        self.assertTrue(control.ask(do="stop")["ok"])
        process.communicate(timeout=60)
        self.assertGreater(self.assert_same_stalls(run), 0)
        self.assert_same_slot_waits(run)


if __name__ == "__main__":
    unittest.main()
