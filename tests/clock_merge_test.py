"""Traces of one run from two machines: one clock is seconds off and drifts; the merged run says what the original says."""

import contextlib
import shutil
import sqlite3

from programs import APP, ProgramTest

SHIFT_NS = -3_210_000_000
DRIFT_PPM = 100
MOMENTS = {"clock": ["monotonic_ns"], "step": ["start_ns", "end_ns"], "marker": ["time_ns"], "counter": ["time_ns"],
           "op_run": ["issued_ns", "ready_ns", "started_ns", "ended_ns"], "span": ["start_ns"],
           "memory_event": ["issued_ns", "executed_ns"]}


class ClockMergeTest(ProgramTest):
    def split(self, run, shift_ns, drift_ppm):
        """The run as two machines would have recorded it: rank 1 by another process, on another clock."""
        merged = self.root / "merged"
        merged.mkdir()
        source, = run.glob("trace-*.db")
        for rank, host in ((0, "first"), (1, "second")):
            path = merged / f"trace-{host}-{rank + 1}.db"
            shutil.copy(source, path)
            with contextlib.closing(sqlite3.connect(path)) as database, database:
                database.execute("DELETE FROM span WHERE track IN (SELECT id FROM track WHERE rank != ?)", [rank])
                for table in ("rank", "track", "op_run", "step", "collective", "memory_event"):
                    database.execute(f"DELETE FROM {table} WHERE rank != ?", [rank])
                database.executemany("UPDATE meta SET value = ? WHERE key = ?", [(host, "host"), (str(rank + 1), "pid")])
                if rank == 0:
                    continue
                start, = database.execute("SELECT min(started_ns) FROM op_run").fetchone()
                for table, columns in MOMENTS.items():
                    to = ", ".join(f"{c} = {c} + {shift_ns} + ({c} - {start}) * {drift_ppm} / 1000000" for c in columns)
                    database.execute(f"UPDATE {table} SET {to}")
        return merged

    def spreads(self, run):
        """How far apart the ends of every collective lie."""
        query = ("SELECT max(o.ended_ns) - min(o.ended_ns) AS spread FROM collective c JOIN op_run o ON o.id = c.op_run "
                 "GROUP BY c.communicator, c.sequence ORDER BY spread")
        return [row["spread"] for row in self.sql(run, query)]

    def test_two_machines_say_what_one_said(self):
        run, _ = self.train("a", "train.steps=40", "transport=emulated", "link.bandwidth=50MB/s")
        merged = self.split(run, SHIFT_NS, DRIFT_PPM)
        original, report = self.report(run), self.report(merged)
        self.assertEqual(original["clocks"], [])

        reference, other = report["clocks"]
        self.assertEqual((reference["method"], reference["processes"], reference["offset_ns"]), ("reference", "first/1", 0))
        self.assertEqual((other["method"], other["processes"]), ("collectives", "second/2"))
        self.assertAlmostEqual(other["offset_ns"] / 1e9, -SHIFT_NS / 1e9, delta=0.01)
        spreads = self.spreads(merged)
        self.assertEqual(other["collectives"], len(spreads))
        self.assertEqual(other["residual_max_ns"], spreads[-1])  # as stated, for every collective
        self.assertGreaterEqual(other["residual_p50_ns"], spreads[(len(spreads) - 1) // 2])
        before = self.spreads(run)
        self.assertEqual(len(before), len(spreads))
        self.assertLessEqual(spreads[len(spreads) // 2], 3 * before[len(before) // 2] + 20_000)
        self.assertLessEqual(spreads[-1], 3 * before[-1] + 20_000)

        text = self.run_program(APP, "report", merged).stdout
        self.assertIn("shared collectives", text)
        self.assertIn("residual", text)
        self.assert_same_steps(original, report)

    def assert_same_steps(self, original, report):
        self.assertEqual(report["state"], "finished")
        self.assertEqual([(row["step"], row["rank"]) for row in report["steps"]],
                         [(row["step"], row["rank"]) for row in original["steps"]])
        for one, other in zip(original["steps"], report["steps"]):
            for key in ("step_ns", "compute_ns", "communication_ns", "copy_ns", "overlap_ns", "exposed_ns", "idle_ns"):
                if one["rank"] == 0:
                    self.assertEqual(one[key], other[key], key)  # the first file is untouched
                else:  # a drift is taken out up to what corrections of it leave
                    self.assertAlmostEqual(one[key], other[key], delta=2_000 + one["step_ns"] * 1e-3, msg=key)
            self.assertEqual((one["loss"], one["tokens"]), (other["loss"], other["tokens"]))
        self.assertEqual([row["peak_bytes"] for row in report["memory"]], [row["peak_bytes"] for row in original["memory"]])

    def test_processes_of_one_machine_share_its_clock(self):
        run, _ = self.train("a", "train.steps=4")
        merged = self.split(run, 0, 0)
        report = self.report(merged)
        self.assertEqual([(clock["method"], clock["processes"]) for clock in report["clocks"]],
                         [("reference", "first/1 second/2")])
        self.assertEqual(report["steps"], self.report(run)["steps"])
        self.assertEqual(self.spreads(merged), self.spreads(run))

    def test_without_shared_collectives_the_time_of_day_is_used_and_said(self):
        run, _ = self.train("a", "train.steps=3")
        merged = self.split(run, SHIFT_NS, 0)
        with contextlib.closing(sqlite3.connect(merged / "trace-second-2.db")) as database, database:
            database.execute("DELETE FROM collective")
        report = self.report(merged)
        self.assertEqual([clock["method"] for clock in report["clocks"]], ["reference", "time_of_day"])
        self.assertAlmostEqual(report["clocks"][1]["offset_ns"], -SHIFT_NS, delta=1_000_000)
        self.assertIn("time of day", self.run_program(APP, "report", merged).stdout)
