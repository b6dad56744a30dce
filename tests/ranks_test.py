"""`shardscope ranks` against SQL over the same trace: who came last to which collective, by how much, and who is named."""

import json
import statistics
import unittest

from programs import APP, ProgramTest

ARRIVALS = """SELECT c.communicator, c.sequence, c.group_size, r.rank, r.step, r.started_ns
FROM collective c JOIN op_run r ON r.id = c.op_run WHERE r.step >= 0 AND c.kind NOT IN ('send', 'receive')"""


class RanksTest(ProgramTest):
    def ranks(self, run, *options):
        return json.loads(self.run_program(APP, "ranks", run, "--json", *options).stdout)

    def test_counts_what_sql_counts(self):
        run, _ = self.train("run", "train.steps=6", "preset=fsdp2", ranks=3)
        joined = {}
        for row in self.sql(run, ARRIVALS):
            joined.setdefault((row["communicator"], row["sequence"]), []).append(row)
        expected = {}
        for rows in joined.values():
            if len(rows) < rows[0]["group_size"]:
                continue
            last = min(rows, key=lambda row: (-row["started_ns"], row["rank"]))
            for row in rows:
                others = sorted(other["started_ns"] for other in rows if other is not row)
                late = max(0, row["started_ns"] - others[len(others) // 2])
                cell = expected.setdefault((row["rank"], row["step"]), {"collectives": 0, "came_last": 0, "late_ns": 0, "last_late_ns": 0})
                cell["collectives"] += 1
                cell["late_ns"] += late
                if row is last:
                    cell["came_last"] += 1
                    cell["last_late_ns"] += late
        found = self.ranks(run)
        self.assertEqual(len(found["cells"]), 3 * 6)
        for cell in found["cells"]:
            wanted = expected[cell["rank"], cell["step"]]
            self.assertEqual({key: cell[key] for key in wanted}, wanted)
            self.assertGreater(cell["peak_bytes"], 0)

        report = self.report(run, "--whole-run")
        steps = {(row["rank"], row["step"]): (row["step_ns"], row["exposed_ns"]) for row in report["steps"]}
        self.assertEqual({(cell["rank"], cell["step"]): (cell["step_ns"], cell["exposed_ns"]) for cell in found["cells"]}, steps)

        with self.subTest("figures of the timed steps"):
            for rank in found["ranks"]:
                cells = [cell for cell in found["cells"] if cell["rank"] == rank["rank"] and cell["step"] >= 2]
                self.assertEqual(rank["num_steps"], len(cells))
                self.assertEqual(rank["came_last"], sum(cell["came_last"] for cell in cells))
                self.assertAlmostEqual(rank["step_ns"], statistics.median(cell["step_ns"] for cell in cells))
                self.assertAlmostEqual(rank["late_ns"], sum(cell["late_ns"] for cell in cells) / sum(cell["collectives"] for cell in cells))
            self.assertEqual(sorted(rank for group in found["groups"] for rank in group), [0, 1, 2])

        with self.subTest("text"):
            text = self.run_program(APP, "ranks", run, "--all").stdout
            self.assertEqual(text.splitlines()[0], found["sentence"])
            self.assertEqual([line.split()[0] for line in text.splitlines()[4:7]], ["0", "1", "2"])

        with self.subTest("errors"):
            refused = self.run_program(APP, "ranks", run, "--scope", "90:99", check=False)
            self.assertEqual(refused.returncode, 1)
            self.assertIn("steps", refused.stderr)
            self.assertEqual(refused.stdout, "")
            for word in ("selection", "in-view"):  # which a window alone has
                refused = self.run_program(APP, "ranks", run, "--scope", word, check=False)
                self.assertEqual((refused.returncode, refused.stdout), (1, ""))
                self.assertEqual(len(refused.stderr.splitlines()), 1)
                self.assertIn(f"--scope {word}: give since-change", refused.stderr)

    def test_the_app_shows_the_numbers_of_the_report(self):
        run, _ = self.train("run", "train.steps=6", "transport=emulated", "link.bandwidth=50MB/s", ranks=3)
        table = self.report(run, "--collectives")["all_collectives"]
        self.assertTrue(table["groups"])
        rows = self.sql(run, """SELECT p.kind, p.unit, c.communicator, count(*) AS calls, sum(c.wire_bytes) AS wire_bytes
FROM collective c JOIN op_run r ON r.id = c.op_run JOIN plan_op p ON p.id = r.plan_op WHERE r.step >= 2 GROUP BY 1, 2, 3""")
        keys = ("kind", "unit", "communicator", "calls", "wire_bytes")
        self.assertEqual([tuple(group[key] for key in keys) for group in table["groups"]], sorted(tuple(row[key] for key in keys) for row in rows))
        with self.subTest("waits end where the last rank arrives"):
            arrivals = self.sql(run, """SELECT sum(last_ns - r.started_ns) AS wait_ns FROM collective c JOIN op_run r ON r.id = c.op_run
JOIN (SELECT c.communicator, c.sequence, max(r.started_ns) AS last_ns FROM collective c JOIN op_run r ON r.id = c.op_run GROUP BY 1, 2) AS last
ON last.communicator = c.communicator AND last.sequence = c.sequence WHERE r.step >= 2""")
            self.assertEqual(sum(group["wait_ns"] for group in table["groups"]), arrivals[0]["wait_ns"])
        with self.subTest("collectives"):
            shown = self.drawn(run, "collectives")
            for group in table["groups"]:
                name = f"{group['kind']} {group['unit']} {group['communicator']}".replace("  ", " ")
                if f"wait:{name}" not in shown:
                    continue  # below what is in sight
                self.assertEqual(shown[f"calls:{name}"]["value"], group["calls"])
                self.assertAlmostEqual(shown[f"wait:{name}"]["value"], group["wait_ns"] / group["calls"])
                self.assertAlmostEqual(shown[f"transfer:{name}"]["value"], group["transfer_ns"] / group["calls"])
                self.assertAlmostEqual(shown[f"bandwidth:{name}"]["value"], group["bus_bandwidth"])
                self.assertAlmostEqual(shown[f"sent:{name}"]["value"], group["wire_bytes"] / table["rank_steps"])
                self.assertAlmostEqual(shown[f"exposed:{name}"]["value"], group["exposed_ns"] / table["rank_steps"])
            self.assertGreater(sum(item.startswith("wait:") for item in shown), 3)
        with self.subTest("ranks"):
            ranks = self.ranks(run)
            shown = self.drawn(run, "ranks")
            self.assertEqual(shown["sentence"]["text"].replace("\u00b5s", "us"), ranks["sentence"])
            for rank in ranks["ranks"]:
                self.assertAlmostEqual(shown[f"value:{rank['rank']}"]["value"], rank["late_ns"])

    def drawn(self, run, panel):
        """What the panel shows, by id."""
        picture = json.loads(self.run_program(APP, "shot", run, "--panel", panel, "--json").stdout)
        return {item["id"]: item for item in picture["items"] if item["panel"] == panel}


if __name__ == "__main__":
    unittest.main()
