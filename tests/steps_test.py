"""`report --step-table`, the panel Steps and its CSV against SQL over the same trace; who sends to whom; other tables as CSV."""

import csv
import json
import math
import unittest

from programs import APP, ProgramTest

OF_STEP = """SELECT step, count(*) AS ranks, max(end_ns - start_ns) AS step_ns, sum(tokens) AS tokens,
sum(loss * tokens) / sum(tokens) AS loss, min(start_ns) AS start_ns FROM step GROUP BY step ORDER BY step"""


class StepsTest(ProgramTest):
    def table(self, run, panel, *options):
        path = self.root / "table.csv"
        self.run_program(APP, "shot", run, "--panel", panel, "-o", path, *options)
        with open(path, newline="", encoding="utf-8") as file:
            return list(csv.DictReader(file))

    def test_a_row_a_step(self):
        run, _ = self.train("run", "train.steps=8", "checkpoint.every=4", ranks=3)
        rows = self.report(run, "--step-table", "--whole-run")["step_table"]
        expected = self.sql(run, OF_STEP)
        self.assertEqual(len(rows), 8)
        shown = {item: drawn for (panel, item), drawn in self.drawn(run, "--panel", "steps").items() if panel == "steps"}
        listed = self.table(run, "steps")
        self.assertEqual([row["step"] for row in listed], [str(step) for step in range(8)])
        for row, wanted, cells in zip(rows, expected, listed):
            self.assertEqual([row[key] for key in ("step", "ranks", "step_ns", "tokens", "start_ns")],
                             [wanted[key] for key in ("step", "ranks", "step_ns", "tokens", "start_ns")])
            self.assertAlmostEqual(row["loss"], wanted["loss"])
            self.assertAlmostEqual(row["compute_ns"] + row["exposed_ns"] + row["exposed_copy_ns"] + row["idle_ns"], row["mean_step_ns"], delta=1)
            self.assertAlmostEqual(row["tokens_per_second"], row["tokens"] / row["step_ns"] * 1e9)
            self.assertEqual(row["warm_up"], row["step"] < 2)
            self.assertEqual(shown[f"bar:{row['step']}"]["value"], row["step_ns"])
            for key in ("step_ns", "compute_ns", "exposed_ns", "idle_ns", "loss", "grad_norm", "slowest_rank", "tokens_per_second"):
                self.assertTrue(math.isclose(float(cells[key]), row[key], rel_tol=1e-12), key)
                if f"{key}:{row['step']}" in shown:
                    self.assertEqual(shown[f"{key}:{row['step']}"]["value"], row[key])
        split = self.sql(run, "SELECT avg(exposed_ms) * 1e6 AS exposed_ns, avg(compute_ms) * 1e6 AS compute_ns, avg(idle_ms) * 1e6 AS idle_ns FROM v_step GROUP BY step ORDER BY step")
        for row, wanted in zip(rows, split):
            for key, value in wanted.items():
                self.assertAlmostEqual(row[key], value, delta=1)
        self.assertEqual([[event["kind"] for event in row["events"]] for row in rows if row["events"]], [["checkpoint"]])
        with self.subTest("text"):
            text = self.run_program(APP, "report", run, "--step-table", "--steps", "2:6").stdout
            lines = text[text.index("Steps over all ranks"):].splitlines()
            self.assertEqual([line.split()[0] for line in lines[2:6]], ["2", "3", "4", "5"])
            self.assertIn("checkpoint", lines[4])
            self.assertNotIn("Steps over all ranks", self.run_program(APP, "report", run).stdout)

    def test_skipped_steps_are_marked(self):
        init, steps = 2**30, 24  # far too large for gradients in fp16, of which some fit in the end
        losses = self.root / "losses"
        run, _ = self.train("run", "precision.param=fp16", f"scaler.init={init}", f"train.steps={steps}", extra=["--losses", losses])
        self.assertEqual(losses.read_text().splitlines()[0].split()[2], "nan")  # of a step that is skipped, without a sign
        marked = self.sql(run, "SELECT step, key, old_value, new_value FROM marker WHERE kind = 'skip' ORDER BY id")
        scales = [row["value"] for row in self.sql(run, """SELECT c.value FROM counter c JOIN string s ON s.id = c.name_string
WHERE s.text = 'loss_scale' ORDER BY c.time_ns""")]
        self.assertEqual((len(scales), scales[0]), (steps, init))
        expected = [(step, "scaler", scale, scale / 2) for step, scale in enumerate(scales[:-1]) if scales[step + 1] < scale]
        self.assertEqual([(row["step"], row["key"], float(row["old_value"]), float(row["new_value"]))
                          for row in marked if row["step"] < steps - 1], expected)  # the last step's is in no later scale
        self.assertGreater(len(expected), 5)
        self.assertLess(len(marked), steps)
        self.assertEqual(self.report(run, "--whole-run")["skipped_steps"], len(marked))
        self.assertEqual(self.report(run, "--steps", "3:6")["skipped_steps"], sum(3 <= row["step"] < 6 for row in marked))
        listed = [row for row in self.report(run, "--whole-run")["markers"] if row["kind"] == "skip"]
        self.assertEqual([{key: row[key] for key in ("step", "key", "old_value", "new_value")} for row in listed], marked)
        self.assertIn(f"gradient scaler: {len(marked)} steps skipped, the last at {marked[-1]['step']}, scale {marked[-1]['old_value']} -> ",
                      self.run_program(APP, "report", run, "--whole-run").stdout)

    def test_who_sends_to_whom(self):
        run, _ = self.train("run", "train.steps=5", ranks=3)
        matrix = self.report(run, "--collectives", "--whole-run")["all_collectives"]["matrix"]
        rows = self.sql(run, "SELECT r.rank, sum(c.wire_bytes) AS bytes FROM collective c JOIN op_run r ON r.id = c.op_run WHERE r.step >= 2 GROUP BY 1")
        self.assertEqual(matrix["sent"], [{"from": row["rank"], "to": (row["rank"] + 1) % 3, "bytes": row["bytes"]} for row in rows])
        self.assertEqual((matrix["ranks"], matrix["unplaced_bytes"]), ([0, 1, 2], 0))
        self.assertIn("Who sends to whom", self.run_program(APP, "report", run, "--collectives").stdout)
        with self.subTest("a pipeline sends to its neighbours"):
            run, _ = self.train("pipeline", "train.steps=4", "strategy=pipeline", "model.layers=3", "train.batch=2", "train.micro_batches=2", ranks=3)
            matrix = self.report(run, "--collectives", "--whole-run")["all_collectives"]["matrix"]
            sent = self.sql(run, """SELECT r.rank, p.phase, sum(c.wire_bytes) AS bytes FROM collective c JOIN op_run r ON r.id = c.op_run
JOIN plan_op p ON p.id = r.plan_op WHERE r.step >= 2 AND p.kind = 'send' GROUP BY 1, 2""")
            # Outputs go to the next stage, gradients to the one before.
            expected = {(row["rank"], row["rank"] + (1 if row["phase"] == "forward" else -1)): row["bytes"] for row in sent}
            found = {(row["from"], row["to"]): row["bytes"] for row in matrix["sent"]}
            for pair, bytes in expected.items():
                self.assertGreaterEqual(found[pair], bytes)
            # All else is what all ranks reduce together, a ring of three.
            others = {pair: bytes - expected.get(pair, 0) for pair, bytes in found.items() if bytes != expected.get(pair, 0)}
            self.assertLessEqual(set(others), {(0, 1), (1, 2), (2, 0)})
            self.assertEqual(set(found), {(0, 1), (1, 2), (1, 0), (2, 1), *others})
            self.assertEqual(matrix["unplaced_bytes"], 0)

    def test_the_schedule_as_a_grid(self):
        run, _ = self.train("run", "train.steps=3", ranks=2)
        ops = self.sql(run, "SELECT op, name, kind, stream FROM plan_op WHERE schedule = (SELECT min(schedule) FROM plan_op) ORDER BY op")
        rows = self.table(run, "schedule")
        self.assertEqual([(int(row["op"]), row["kind"], row["stream"]) for row in rows], [(op["op"], op["kind"], op["stream"]) for op in ops])
        self.assertEqual([row["name"] for row in rows], [op["name"] for op in ops])
        for row in rows:
            self.assertTrue(all(int(before) < int(row["op"]) for before in row["after"].split()))
        shown = {item: drawn for (panel, item), drawn in self.drawn(run, "--panel", "schedule").items() if panel == "schedule"}
        self.assertIn(f"{len(ops)} ops, 2 ranks", shown["valid"]["text"])

    def test_other_tables(self):
        run, _ = self.train("run", "train.steps=4", ranks=2)
        table = self.report(run, "--collectives")["all_collectives"]
        rows = self.table(run, "collectives")
        self.assertEqual([(row["collective"], row["unit"], int(row["calls"])) for row in rows],
                         [(group["kind"], group["unit"], group["calls"]) for group in table["groups"]])
        for row, group in zip(rows, table["groups"]):
            self.assertTrue(math.isclose(float(row["wait_ns"]), group["wait_ns"] / group["calls"]))
        ranks = json.loads(self.run_program(APP, "ranks", run, "--json").stdout)["ranks"]
        self.assertEqual([(int(row["rank"]), float(row["late_ns"])) for row in self.table(run, "ranks")], [(rank["rank"], rank["late_ns"]) for rank in ranks])
        stalls = self.report(run)["stalls"]
        self.assertEqual([(row["stall"], int(row["total_ns"])) for row in self.table(run, "overlap")], [(stall["title"], stall["total_ns"]) for stall in stalls])
        hits = json.loads(self.run_program(APP, "search", run, "kind:all_gather", "--json").stdout)
        path = self.root / "hits.csv"
        self.run_program(APP, "shot", run, "--search", "kind:all_gather", "-o", path)
        with open(path, newline="", encoding="utf-8") as file:
            listed = list(csv.DictReader(file))
        self.assertEqual(len(listed), hits["count"])
        self.assertEqual({row["kind"] for row in listed}, {"all_gather"})
        refused = self.run_program(APP, "shot", run, "--panel", "memory", "-o", self.root / "memory.csv", check=False)
        self.assertEqual(refused.returncode, 1)
        tables = "sql, steps, ranks, collectives, schedule, compare, bookmarks, overlap, details, blocks"
        self.assertIn(f"--panel memory: a CSV is of one of the tables: --panel {tables}", refused.stderr)
        self.assertFalse((self.root / "memory.csv").exists())


if __name__ == "__main__":
    unittest.main()
