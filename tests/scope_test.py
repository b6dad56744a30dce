"""Figures of a scope: those of the report and of the window, against medians over the rows of the trace; and what panels show, against the report."""

import json
import statistics
import unittest

from chrome_traces import fsdp2_step
from programs import APP, ImportTestCase, ProgramTest

CHANGES = """
[[change]]
step = 6
set = { "link.bandwidth" = "400MB/s", "prefetch.backward" = "pre" }
"""
# Of the steps [first, last]; warm-up, 0 and 1, left out where there is more.
SCOPES = {"--whole-run": (0, 11), "--since-change": (6, 11), "--steps 3:6": (3, 5), "--steps 0:2": (0, 1), "--last 4": (8, 11)}
SHOT_WORDS = {"--whole-run": "whole-run", "--since-change": "since-change", "--steps 3:6": "3:6"}
COLUMNS = ("step", "compute", "communication", "exposed", "idle")


class ScopeTest(ProgramTest):
    def setUp(self):
        super().setUp()
        config = self.root / "changes.toml"
        config.write_text(CHANGES)
        self.run_folder, _ = self.train("a", "train.steps=12", "transport=emulated", "link.bandwidth=20MB/s",
                                        "prefetch.backward=none", extra=("--config", config))
        self.rows = self.sql(self.run_folder, "SELECT * FROM v_step")

    def recompute(self, first, last):
        rows = [row for row in self.rows if first <= row["step"] <= last]
        rows = [row for row in rows if row["step"] >= 2] or rows
        p50 = {column: statistics.median(row[f"{column}_ms"] for row in rows) for column in COLUMNS}
        return p50 | {"share": p50["exposed"] / p50["step"], "overlap": sum(row["overlap_ms"] for row in rows) / sum(row["communication_ms"] for row in rows),
                      "peak": self.recompute_peak(first, last)}

    def recompute_peak(self, first, last):
        """The largest sum of the events of a rank so far, at any time of its steps."""
        peak = 0
        for rank in (0, 1):
            (start, end), = ((row["a"], row["b"]) for row in self.sql(
                self.run_folder, f"SELECT min(start_ns) a, max(end_ns) b FROM step WHERE rank = {rank} AND step BETWEEN {first} AND {last}"))
            live = 0
            for event in self.sql(self.run_folder, f"SELECT executed_ns t, bytes FROM memory_event WHERE rank = {rank} ORDER BY executed_ns, id"):
                if event["t"] > end:
                    break
                if event["t"] >= start:
                    peak = max(peak, live)
                live += event["bytes"]
                if event["t"] >= start:
                    peak = max(peak, live)
            peak = max(peak, live)
        return peak

    def test_figures_are_those_of_the_rows(self):
        for option, (first, last) in SCOPES.items():
            with self.subTest(option):
                report = json.loads(self.run_program(APP, "report", self.run_folder, "--json", *option.split()).stdout)
                expected = self.recompute(first, last)
                self.assertEqual((report["scope"]["first_step"], report["scope"]["last_step"]), (first, last))
                self.assertEqual({row["step"] for row in report["steps"]}, set(range(first, last + 1)))
                summary = report["summary"]
                for column in COLUMNS:
                    self.assertAlmostEqual(summary[f"{column}_ns"]["p50"] / 1e6, expected[column], places=3)
                self.assertAlmostEqual(summary["exposed_share"], expected["share"], places=4)
                self.assertAlmostEqual(summary["overlap_ratio"], expected["overlap"], places=4)
                # What is shown together agrees.
                self.assertAlmostEqual(summary["exposed_ns"]["p50"] / summary["step_ns"]["p50"], summary["exposed_share"], places=12)
                if option != "--whole-run":  # that counts what was live before its first step as well
                    self.assertEqual(max(row["peak_bytes"] for row in report["memory"]), expected["peak"])
                self.assertTrue(all(first <= stall["worst_step"] <= last for stall in report["stalls"]))

    def test_the_window_shows_the_figures_of_the_report(self):
        for option, word in SHOT_WORDS.items():
            with self.subTest(word):
                report = json.loads(self.run_program(APP, "report", self.run_folder, "--json", *option.split()).stdout)
                shot = json.loads(self.run_program(APP, "shot", self.run_folder, "--json", "--scope", word).stdout)
                shown = {item["id"]: item.get("value") for item in shot["items"] if item["panel"] == "top_bar"}
                summary = report["summary"]
                self.assertEqual(shown["step_ns_p50"], summary["step_ns"]["p50"])
                self.assertEqual(shown["exposed_ns_p50"], summary["exposed_ns"]["p50"])
                self.assertEqual(shown["exposed_share"], summary["exposed_share"])
                self.assertEqual(shown["overlap_ratio"], summary["overlap_ratio"])
                self.assertEqual(shown["peak_bytes"], max(row["peak_bytes"] for row in report["memory"]))
                stalls = {item["id"]: item["value"] for item in shot["items"] if item["id"].startswith("stall:")}
                self.assertEqual(stalls, {f"stall:{stall['title']}:{stall['sentence']}": stall["ns_per_step"] for stall in report["stalls"][:len(stalls)]})
                self.assertGreaterEqual(len(stalls), min(5, len(report["stalls"])))


class PanelsTest(ImportTestCase):
    """What each panel of the window shows is what `report --json` says, of a run of the engine and of an imported one."""

    def runs(self):
        run, _ = self.train("run", "train.steps=8", "transport=emulated", "link.bandwidth=20MB/s")
        folder = self.root / "traces"
        folder.mkdir()
        for rank in (0, 1):
            fsdp2_step(rank, 40 * rank).write(folder / f"worker{rank}.pt.trace.json.gz")
        imported = self.root / "imported"
        self.run_program(APP, "import", folder, "-o", imported)
        return {"engine": run, "imported": imported}

    def shown(self, run, panel, *options):
        return {item: drawn.get("value") for (of, item), drawn in self.drawn(run, "--size", "1600x1800", *options).items() if of == panel}

    def test_panels(self):
        for name, run in self.runs().items():
            report = self.report(run, "--whole-run", "--step-table")
            with self.subTest(name, panel="memory"):
                self.check_memory(run, report)
            with self.subTest(name, panel="overlap"):
                self.check_overlap(run, report)
            with self.subTest(name, panel="steps"):
                self.check_steps(run, report)
            if name == "engine":
                self.assertTrue(report["stalls"] and all(row["peak_bytes"] > 0 for row in report["memory"]))

    def check_memory(self, run, report):
        for peak in report["memory"]:
            rank = peak["rank"]
            began = self.sql(run, f"SELECT max(step) AS step FROM step WHERE rank = {rank} AND start_ns <= {peak['peak_time_ns']}")
            step = began[0]["step"]
            shown = self.shown(run, "memory", *(() if step is None else ("--step", step)))  # the peak is in view
            prefix = f"highest:{rank}:"
            self.assertEqual(shown.get(f"peak:{rank}", 0), peak["peak_bytes"])
            self.assertEqual({item.removeprefix(prefix): value for item, value in shown.items() if item.startswith(prefix)},
                             {category: value for category, value in peak["by_category"].items() if value > 0 and category != "host"})

    def check_overlap(self, run, report):
        shown = self.shown(run, "overlap", "--scope", "whole-run")
        stalls = {item: value for item, value in shown.items() if item.startswith("stall:")}
        self.assertEqual(stalls, {f"stall:{stall['title']}:{stall['sentence']}": stall["ns_per_step"] for stall in report["stalls"][:len(stalls)]})
        self.assertGreaterEqual(len(stalls), min(5, len(report["stalls"])))  # more where there is room
        for rank in sorted({row["rank"] for row in report["steps"]}):
            shown = self.shown(f"{run}#rank={rank}", "overlap")
            self.assertEqual(shown["rank"], rank)
            rows = [row for row in report["steps"] if row["rank"] == rank]
            if len(rows) > 2:
                rows = [row for row in rows if row["step"] >= 2]  # warm-up has no bars
            for part in ("compute", "exposed", "idle"):
                bars = {item: value for item, value in shown.items() if item.startswith(f"{part}:")}
                self.assertEqual(bars, {f"{part}:{row['step']}": row[f"{part}_ns"] for row in rows})

    def check_steps(self, run, report):
        shown = self.shown(run, "steps", "--panel", "steps")
        for row in report["step_table"]:
            for key in ("step_ns", "slowest_rank", "compute_ns", "exposed_ns", "idle_ns"):
                self.assertEqual(shown[f"{key}:{row['step']}"], row[key], key)


if __name__ == "__main__":
    unittest.main()
