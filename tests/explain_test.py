"""What bounds a run, in report --json: its verdict, what would help, whose delay it was and the critical path; recomputed from the
trace with SQL."""

import collections
import json
import unittest

from programs import APP, ProgramTest

SLOTS = "engine.compute_slots=3"  # a rank that is late keeps its own slot, and none that another needs
SLOW_LINK = ("transport=emulated", "link.bandwidth=5MB/s")


class ExplainTest(ProgramTest):
    def check_sums(self, run, report):
        """The parts of each step add up to it: from the start of the rank that begins last to the end of the one that ends last."""
        steps = {row["step"]: row["ns"] for row in self.sql(run, "SELECT step, max(end_ns) - max(start_ns) AS ns FROM step GROUP BY step")}
        for table, column in (("front_part", "front_ns"), ("path_part", "path_ns")):
            sums = {row["step"]: row["ns"] for row in self.sql(run, f"SELECT step, sum({column}) AS ns FROM {table} GROUP BY step")}
            self.assertEqual(sums, steps, table)
        for step in report["front"]["steps"]:
            self.assertEqual(sum(part["front_ns"] for part in step["increments"]), step["step_ns"])
            self.assertEqual(step["step_ns"], steps[step["step"]])
        self.assertAlmostEqual(sum(group["share"] for group in report["critical_path"]), 1)

    def test_a_slow_rank_is_named_with_what_it_costs(self):
        run, _ = self.train("run", "train.steps=6", SLOTS, "fault.delay=1:300ms", ranks=3)
        report = self.report(run)
        self.check_sums(run, report)
        self.assertEqual(report["verdict"]["bound"], "ranks")
        self.assertIn("rank 1 holds up the others", report["verdict"]["sentence"])
        first = report["front"]["delays"][0]
        self.assertEqual((first["rank"], first["lasting"]), (1, True))
        self.assertEqual(report["advice"][0]["cause"], "slow_rank")
        on_path = collections.Counter()
        for row in self.sql(run, "SELECT rank, sum(path_ns) AS ns FROM path_part GROUP BY rank"):
            on_path[row["rank"]] = row["ns"]
        self.assertEqual(on_path.most_common(1)[0][0], 1)
        self.assertTrue(self.run_program(APP, "report", run).stdout.splitlines()[3].startswith(report["verdict"]["sentence"][:20]))

    def test_a_slow_link_gives_the_same_verdict_each_time(self):
        verdicts = set()
        for repeat in range(10):
            run, _ = self.train(f"run{repeat}", "train.steps=4", *SLOW_LINK, ranks=2)
            report = self.report(run)
            verdicts.add(report["verdict"]["bound"])
        self.assertEqual(verdicts, {"communication"})
        self.check_sums(run, report)
        lost = [step["step_ns"] - step["compute_ns"] for step in report["steps"] if step["step"] >= 2]
        lost_ns = sum(lost) / len(lost)
        self.assertGreater(len(report["advice"]), 0)
        self.assertLessEqual(len(report["advice"]), 3)
        self.assertLessEqual(sum(item["saving_ns_per_step"] for item in report["advice"]), lost_ns * 1.000001)
        losses = sum(loss["ns_per_step"] for loss in report["losses_per_step"] if not loss["within_others"])
        self.assertEqual({loss["cause"] for loss in report["losses_per_step"] if loss["within_others"]} - {"slow_rank"}, set())
        self.assertAlmostEqual(losses / lost_ns, 1, places=6)

    def test_the_picture_has_the_path_of_the_report(self):
        run, _ = self.train("run", "train.steps=5", SLOTS, *SLOW_LINK, ranks=2)
        for step in (2, 3):
            items = self.drawn(run, "--step", step, "--critical-path")
            parts = {key[1].removeprefix("path_part:"): item["value"] for key, item in items.items() if key[1].startswith("path_part:")}
            expected = collections.Counter()
            for group in self.report(run, "--steps", f"{step}:{step + 1}")["critical_path"]:
                expected[group["kind"]] += group["ns_per_step"]
            self.assertEqual(parts, dict(expected))
            kinds = {row["kind"]: row["ns"] for row in
                     self.sql(run, f"SELECT kind, sum(path_ns) AS ns FROM path_part WHERE step = {step} GROUP BY kind")}
            self.assertEqual(parts, kinds)
            length_ns = self.sql(run, f"SELECT max(end_ns) - max(start_ns) AS ns FROM step WHERE step = {step}")[0]["ns"]
            self.assertEqual(sum(parts.values()), length_ns)
            self.assertIn(f"Step {step}: ", items["timeline", "critical_path"]["text"])

    def test_the_cards_have_the_advice_of_the_report(self):
        run, _ = self.train("run", "train.steps=5", SLOTS, *SLOW_LINK, "host.run_ahead=0", ranks=2)
        advice = self.report(run)["advice"]
        self.assertGreater(len(advice), 0)
        items = self.drawn(run, "--panel", "advice", "--size", "1600x1800")
        for at, item in enumerate(advice):
            self.assertEqual(items["advice", f"title:{at}"]["text"], item["title"])
            self.assertEqual(items["advice", f"remedy:{at}"]["text"], item["remedy"])
            self.assertEqual(items["advice", f"saving:{at}"]["value"], item["saving_ns_per_step"])
        self.assertNotIn(("advice", f"title:{len(advice)}"), items)


if __name__ == "__main__":
    unittest.main()
