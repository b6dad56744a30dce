"""Schedules that users have written: a run's own text with ops moved trains the same, at the start, live and in processes."""

import re
import unittest

from processes_test import LaunchedTest
from programs import APP, TINY, Control, ProgramTest

NO_PREFETCH = ("train.steps=6", "prefetch.backward=none", "unit.root=true", "model.layers=3")
GATHER = "B m0 block0 all_gather"
BACKWARD = "B m0 block2.mlp backward"
ENDLESS = ("train.steps=1000000", *NO_PREFETCH[1:])


def moved_earlier(text):
    """The gather of block0's backward, with its copy-in, right before the backward of block2: lines move as they are."""
    lines = text.splitlines(keepends=True)

    def one(pattern):
        return next(at for at, line in enumerate(lines) if re.search(rf"# {pattern}( |$)", line.rstrip()))

    for name in ("copy_in", "all_gather"):
        line = lines.pop(one(f"B m0 block0 {name}"))
        lines.insert(one("B m0 block2.mlp backward"), line)
    return "".join(lines)


class WrittenScheduleTest(ProgramTest):
    def schedule(self, run, number=0):
        return (run / "schedules" / f"{number}.txt").read_text()

    def written(self, name="mine.txt"):
        run, _ = self.train("built", *NO_PREFETCH, extra=("--losses", self.root / "built.losses"))
        path = self.root / name
        path.write_text(moved_earlier(self.schedule(run)))
        self.run_program(APP, "plan", "--check", path)
        return path

    def issued(self, run, step, rank=0):
        return [row["op"] for row in self.sql(run, f"SELECT op FROM v_op_run WHERE rank = {rank} AND step = {step} ORDER BY issued_ms")]

    def test_the_same_work_in_another_order_trains_the_same(self):
        path = self.written()
        run, _ = self.train("mine", *NO_PREFETCH, f"schedule.file={path}", extra=("--losses", self.root / "mine.losses"))
        self.assertEqual((self.root / "mine.losses").read_bytes(), (self.root / "built.losses").read_bytes())
        built, mine = self.issued(self.root / "built", 3), self.issued(run, 3)
        self.assertEqual(sorted(built), sorted(mine))
        self.assertGreater(built.index(GATHER), built.index(BACKWARD))
        self.assertLess(mine.index(GATHER), mine.index(BACKWARD))
        # Numbers are those of the new order, and the text is what ran.
        self.assertNotEqual(self.schedule(run), path.read_text())
        self.run_program(APP, "plan", "--check", run / "schedules" / "0.txt")

    def test_a_live_run_takes_it_up_and_goes_back(self):
        path = self.written()
        run, process = self.start_training("live", *ENDLESS)
        self.wait_for_steps(run, 3)
        control = Control(run)
        self.addCleanup(control.close)
        for wrong, why in ((self.root / "none.txt", "none.txt"), (self.data, "data.txt: line 1")):
            answer = control.ask(set={"schedule.file": str(wrong)})
            self.assertFalse(answer["ok"])
            self.assertIn(why, answer["error"])
            self.assertIn("schedule.file=)", answer["error"])
        other = self.root / "other.txt"
        other.write_text(self.run_program(APP, "plan", "--units", 3, "--ranks", 2).stdout)
        answer = control.ask(set={"schedule.file": str(other)})
        self.assertIn("its units are other than this run's", answer["error"])

        answer = control.ask(set={"schedule.file": str(path)})
        self.assertTrue(answer["ok"], answer)
        taken = answer["applies_at"]
        # It is what was read then that runs, whatever becomes of the file.
        path.unlink()
        self.wait_for_steps(run, taken + 3)
        answer = control.ask(set={"prefetch.backward": "pre"})
        self.assertIn("would change nothing", answer["error"])
        answer = control.ask(set={"prefetch.backward": "pre", "schedule.file": ""})
        self.assertTrue(answer["ok"], answer)
        self.wait_for_steps(run, answer["applies_at"] + 3)
        control.ask(do="stop")
        self.assertEqual(process.wait(60), 0)
        markers = self.sql(run, "SELECT step, key FROM marker WHERE key <> '' ORDER BY 1, 2")
        self.assertEqual([(row["step"], row["key"]) for row in markers],
                         [(taken, "schedule.file"), (answer["applies_at"], "prefetch.backward"), (answer["applies_at"], "schedule.file")])
        for step, early in ((taken - 1, False), (taken, True), (answer["applies_at"] - 1, True), (answer["applies_at"], False)):
            issued = self.issued(run, step)
            self.assertEqual(issued.index(GATHER) < issued.index(BACKWARD), early, step)

    def test_what_cannot_be_run_does_not_start(self):
        path = self.written()
        done = self.run_program(*self.train_command(None, *NO_PREFETCH, f"schedule.file={path}", "train.micro_batches=2"), check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("its micro-batches are other than this run's", done.stderr)
        path.write_text(path.read_text().replace("wait=event:", "wait=event:9"))
        done = self.run_program(*self.train_command(None, *NO_PREFETCH, f"schedule.file={path}"), check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("mine.txt: line ", done.stderr)

    def test_memory_is_that_of_the_written_one(self):
        path = self.written()
        peaks = {}
        for name, settings in (("built", ()), ("mine", (f"schedule.file={path}",))):
            out = self.run_program(APP, "plan", "--memory", "--json", *(word for key in (*TINY, *NO_PREFETCH, *settings)
                                                                       for word in ("--set", key)), "--ranks", 2, check=False)
            self.assertEqual(out.returncode, 0, out.stderr)
            peaks[name] = out.stdout
        self.assertNotEqual(peaks["built"], peaks["mine"])


class WrittenInProcessesTest(LaunchedTest):
    def test_all_processes_run_what_rank_0_has_read(self):
        run, _ = self.train("built", *NO_PREFETCH)
        path = self.root / "mine.txt"
        path.write_text(moved_earlier((run / "schedules" / "0.txt").read_text()))
        live, processes = self.start("live", *ENDLESS)
        self.wait_for_steps(live, 3)
        control = Control(live)
        self.addCleanup(control.close)
        answer = control.ask(set={"schedule.file": str(path)})
        self.assertTrue(answer["ok"], answer)
        path.unlink()  # the others are told it, and read no file
        self.wait_for_steps(live, answer["applies_at"] + 3)
        control.ask(do="stop")
        self.finish(processes)
        for rank in (0, 1):
            issued = [row["op"] for row in self.sql(live, f"SELECT op FROM v_op_run WHERE rank = {rank} AND step = {answer['applies_at']} ORDER BY issued_ms")]
            self.assertLess(issued.index(GATHER), issued.index(BACKWARD))


if __name__ == "__main__":
    unittest.main()
