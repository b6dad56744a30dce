"""Files of a real GPU (tests/h200): what torch.profiler wrote of an FSDP2 training on an H200, imported."""

import collections
import gzip
import json
import shutil
import unittest

from programs import APP, ROOT, ProgramTest

TRACE = ROOT / "tests" / "h200" / "fsdp2.trace.json.gz"


class ProfilerTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.run_folder = self.root / "imported"
        shutil.copy(TRACE, self.root / "fsdp2.trace.json.gz")
        self.run_program(APP, "import", self.root / "fsdp2.trace.json.gz", "-o", self.run_folder)
        with gzip.open(TRACE, "rt") as file:
            self.events = json.load(file)["traceEvents"]

    def of(self, category):
        return [event for event in self.events if event.get("cat") == category]

    def test_all_work_of_the_gpu_is_there(self):
        expected = collections.Counter({"kernel": len(self.of("kernel")), "copy": len(self.of("gpu_memcpy"))})
        found = {row["kind"]: row["count"] for row in self.sql(self.run_folder, "SELECT kind, count(*) AS count FROM gpu_work GROUP BY kind")}
        self.assertEqual(found.pop("kernel"), expected["kernel"])
        self.assertEqual(sum(found.values()), expected["copy"])
        busy = sum(event["dur"] for event in self.of("kernel")) * 1e3
        ours, = self.sql(self.run_folder, "SELECT sum(duration_ns) AS ns FROM span WHERE id IN (SELECT id FROM gpu_work WHERE kind = 'kernel')")
        self.assertAlmostEqual(ours["ns"], busy, delta=len(self.of("kernel")))

    def test_steps_end_with_the_optimizer(self):
        """profiler.step() was not called: nothing else marks them."""
        self.assertFalse([event for event in self.events if str(event.get("name")).startswith("ProfilerStep")])
        optimizers = [event for event in self.of("user_annotation") if event["name"].startswith("Optimizer.step#")]
        numbers = list(range(len(optimizers)))
        self.assertGreater(len(numbers), 1)
        steps = self.sql(self.run_folder, "SELECT step, start_ns, end_ns FROM step ORDER BY step")
        self.assertEqual([row["step"] for row in steps], numbers)
        # Each has a forward, a backward and an update that ends behind the backward; setting gradients to zero may begin the next step.
        for step in steps:
            phases = self.sql(self.run_folder, "SELECT p.phase AS phase, min(r.started_ns) AS start_ns, max(r.ended_ns) AS end_ns FROM op_run r "
                              f"JOIN plan_op p ON p.id = r.plan_op WHERE r.step = {step['step']} AND p.category IN ('compute', 'optimizer') GROUP BY 1")
            times = {row["phase"]: row for row in phases}
            self.assertLess(times["forward"]["start_ns"], times["backward"]["start_ns"])
            self.assertLess(times["backward"]["end_ns"], times["optimizer"]["end_ns"])
            self.assertLessEqual(times["optimizer"]["end_ns"], step["end_ns"])

    def test_units_are_those_of_fsdp(self):
        units = {row["unit"] for row in self.sql(self.run_folder, "SELECT DISTINCT unit FROM v_op_run WHERE unit <> ''")}
        named = {event["name"].split("(")[1].rstrip(")") for event in self.of("user_annotation") if event["name"].startswith("FSDP::pre_forward (")}
        self.assertLessEqual(named, units)


if __name__ == "__main__":
    unittest.main()
