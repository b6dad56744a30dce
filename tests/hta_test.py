"""Times of the GPU in the definitions of HolisticTraceAnalysis, against what the real one said (scripts/compare_hta --record); exact ones
against what the traces were made of."""

import json
import os
import pathlib
import sys
import unittest

from programs import APP, ProgramTest

HERE = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(HERE / "hta"))
import cases  # noqa: E402

RECORDED = json.loads((HERE / "hta/recorded.json").read_text())["cases"]


class HtaTest(ProgramTest):
    def setUp(self):
        super().setUp()
        os.environ["XDG_CACHE_HOME"] = str(self.root / "cache")
        self.addCleanup(os.environ.pop, "XDG_CACHE_HOME")

    def gpu(self, name, definition):
        folder = self.root / name
        if not folder.exists():
            cases.write(name, folder)
        return self.report(folder, "--definition", definition)["gpu"]

    def test_every_figure_that_hta_gives_is_ours(self):
        self.assertEqual(RECORDED.keys(), cases.CASES.keys())
        for name, answer in RECORDED.items():
            gpu = self.gpu(name, "hta")
            ranks = {str(row["rank"]): row for row in gpu["ranks"]}
            with self.subTest(name, figure="temporal"):
                ours = {rank: {"kernel": row["kernel_time_ns"], "idle": row["idle_ns"], "compute": row["compute_ns"],
                               "non_compute": row["non_compute_ns"]} for rank, row in ranks.items()}
                if isinstance(answer["temporal"], dict):
                    self.assertEqual({rank: {key: value // 1000 for key, value in row.items()} for rank, row in ours.items()}, answer["temporal"])
                else:  # it asserts that this is not negative
                    self.assertIn("AssertionError", answer["temporal"])
                    self.assertTrue(any(row["non_compute"] < 0 for row in ours.values()))
            with self.subTest(name, figure="overlap"):
                self.assertEqual({rank: round(100 * row["overlap_ns"] / row["communication_ns"], 2) for rank, row in ranks.items()},
                                 answer["overlap"])
            with self.subTest(name, figure="types"):
                self.assertEqual({row["type"]: row["sum_ns"] // 1000 for row in gpu["kernel_types"]}, answer["types"])
            with self.subTest(name, figure="idle"):
                ours = {f"{row['rank']} {row['stream']} {kind}": row[f"{kind}_ns"] // 1000
                        for row in gpu["idle"] for kind in ("host_wait", "kernel_wait", "other") if row[f"{kind}_ns"]}
                self.assertEqual(ours, answer["idle"])

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
