"""Times of the GPU in the definitions of HolisticTraceAnalysis, against what the real one said (scripts/compare_hta --record); exact ones
against what the traces were made of."""

import json
import math
import pathlib
import sys
import unittest

from programs import APP, ImportTestCase

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "hta"))
import cases  # noqa: E402

RECORDED = json.loads((HERE / "hta/recorded.json").read_text())["cases"]


# HTA takes the events whose length is below 0 for what they say; we take them for none, and say so.
OTHERWISE = {"negative_durations"}
DESCRIBED = ("count", "mean", "std", "min", "p25", "p50", "p75", "max")


def described(row, unit=1):
    return [row["count"], *(row[key] / unit for key in DESCRIBED[1:])]


def figures(gpu):
    """Ours, as tests/hta/compare.py has HTA's: microseconds, and what is 0 left out where HTA has no row."""
    def us(value):
        return value // 1000 if isinstance(value, int) else value / 1000
    kinds = ("host_wait", "kernel_wait", "other")
    return {
        "temporal": {str(row["rank"]): {key: us(row[f"{name}_ns"]) for key, name in (
            ("kernel", "kernel_time"), ("idle", "idle"), ("compute", "compute"), ("non_compute", "non_compute"))} for row in gpu["ranks"]},
        "overlap": {str(row["rank"]): round(100 * row["overlap_ns"] / row["communication_ns"], 2) if row["communication_ns"] else None
                    for row in gpu["ranks"]},
        "types": {row["type"]: us(row["sum_ns"]) for row in gpu["kernel_types"]},
        "kernels": {f"{row['rank']} {row['type']} {row['name']}": [us(row[f"{key}_ns"]) for key in ("sum", "min", "max", "mean", "std")]
                    for row in gpu["kernels"] if row["type"] != "OTHER"},
        "idle": {f"{row['rank']} {row['stream']} {kind}": us(row[f"{kind}_ns"]) for row in gpu["idle"] for kind in kinds if row[f"{kind}_ns"]},
        "queue_length": {f"{row['rank']} {row['stream']}": described(row) for row in gpu["queue_length"]},
        "memory_bandwidth": {f"{row['rank']} {row['kind']}": described(row["bytes_per_second"], 1e9) for row in gpu["memory_bandwidth"]
                             if row["bytes_per_second"]["count"]}}


class HtaTest(ImportTestCase):
    def gpu(self, name, definition):
        folder = self.root / name
        if not folder.exists():
            cases.write(name, folder)
        return self.report(folder, "--definition", definition).get("gpu")

    def assert_same(self, ours, theirs):
        """Equal; floats but for what is left of their last digits."""
        if not isinstance(theirs, dict) or not any(isinstance(value, list) for value in theirs.values()):
            self.assertEqual(ours, theirs)
            return
        self.assertEqual(ours.keys(), theirs.keys())
        for key, values in theirs.items():
            for mine, other in zip(ours[key], values, strict=True):
                self.assertTrue(math.isclose(mine, other, rel_tol=1e-8, abs_tol=2e-9), f"{key}: {ours[key]}, HTA: {values}")

    def test_every_figure_that_hta_gives_is_ours(self):
        self.assertEqual(RECORDED.keys(), cases.CASES.keys())
        for name, answer in RECORDED.items():
            if name in OTHERWISE or name == "without_gpu":
                continue
            ours = figures(self.gpu(name, "hta"))
            self.assertEqual(ours.keys(), answer.keys())
            for figure, theirs in answer.items():
                with self.subTest(name, figure=figure):
                    if isinstance(theirs, str):  # it asserts that this is not negative
                        self.assertEqual((figure, theirs), ("temporal", "AssertionError: "))
                        self.assertTrue(any(row["non_compute"] < 0 for row in ours[figure].values()))
                    else:
                        self.assert_same(ours[figure], theirs)

    def test_durations_below_0_are_said_and_taken_for_none(self):
        answer = RECORDED["negative_durations"]
        ours = figures(self.gpu("negative_durations", "hta"))
        kernel = f"0 COMPUTATION {cases.COMPUTE}"
        self.assertEqual(answer["kernels"][kernel][1], -5)
        self.assertEqual(ours["kernels"][kernel][1], -1)
        losses = self.report(self.root / "negative_durations")["losses"]
        self.assertEqual(losses["kineto: not understood: events with a duration below 0, taken as 0"], 2)

    def test_without_work_of_a_gpu_there_is_no_figure(self):
        answer = RECORDED["without_gpu"]
        self.assertTrue(answer["temporal"].startswith("IndexError"), answer["temporal"])
        self.assertTrue(answer["idle"].startswith("ValueError"), answer["idle"])
        self.assertIsNone(self.gpu("without_gpu", "hta"))
        self.assertIsNone(self.gpu("without_gpu", "exact"))

    def test_text_has_a_line_for_each_rank(self):
        cases.write("fsdp2", self.root / "fsdp2")
        text = self.run_program(APP, "report", self.root / "fsdp2").stdout
        self.assertIn("rank 0: 950 us: compute 690 us, other work 250 us, idle 10.0 us; 38% of 400 us of communication overlap compute", text)
        self.assertEqual(text.count("of communication overlap compute"), 2)

    def test_steps_are_there_one_by_one(self):
        gpu = self.gpu("steps", "exact")
        self.assertEqual([step["step"] for step in gpu["steps"]], [3, 4, 5, 6])
        self.assertEqual([[row["rank"] for row in step["ranks"]] for step in gpu["steps"]], [[0]] * 4)
        whole = gpu["ranks"][0]
        for key in ("compute_ns", "communication_ns"):  # no kernel reaches into the next step
            self.assertEqual(sum(step["ranks"][0][key] for step in gpu["steps"]), whole[key])

    def test_exact_figures_are_those_the_trace_was_made_with(self):
        rank = {row["rank"]: row for row in self.gpu("fsdp2", "exact")["ranks"]}[0]
        # From the first gather, 50 us into the step, to its end.
        self.assertEqual((rank["kernel_time_ns"], rank["communication_ns"]), (950_000, 400_000))
        self.assertEqual(rank["exposed_ns"], rank["communication_ns"] - rank["overlap_ns"])
        self.assertEqual(rank["kernel_time_ns"], rank["idle_ns"] + rank["compute_ns"] + rank["non_compute_ns"])

    def test_exact_figures_are_what_sql_says(self):
        gpu = self.gpu("fractions", "exact")
        run = self.root / "run"
        self.run_program(APP, "import", self.root / "fractions", "-o", run)
        rows = self.sql(run, "SELECT s.start_ns AS begun, s.start_ns + s.duration_ns AS ended, s.category FROM gpu_work g JOIN span s ON s.id = g.id")

        def union(spans):
            total, last = 0, None
            for start, end in sorted(spans):
                total += max(0, end - (start if last is None else max(start, last)))
                last = end if last is None else max(last, end)
            return total

        spans = {category: [(row["begun"], row["ended"]) for row in rows if row["category"] == category] for category in ("compute", "communication", "copy")}
        everything = [span for category in spans.values() for span in category]
        rank = gpu["ranks"][0]
        self.assertEqual(rank["kernel_time_ns"], max(end for _, end in everything) - min(start for start, _ in everything))
        self.assertEqual(rank["compute_ns"], union(spans["compute"]))
        self.assertEqual(rank["communication_ns"], union(spans["communication"]))
        self.assertEqual(rank["idle_ns"], rank["kernel_time_ns"] - union(everything))
        self.assertEqual(rank["overlap_ns"], union(spans["compute"]) + union(spans["communication"]) - union(spans["compute"] + spans["communication"]))
        self.assertEqual(sum(row["sum_ns"] for row in gpu["kernel_types"]), union(everything))
        self.assertEqual(sum(row["count"] for row in gpu["kernels"]), len(rows))


if __name__ == "__main__":
    unittest.main()
