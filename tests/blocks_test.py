"""`shardscope blocks`: what is live at a moment, block by block, against `moment`, `report`, SQL and the picture."""

import collections
import json
import unittest

from programs import APP, ProgramTest

SLOW = ("transport=emulated", "link.bandwidth=5MB/s")
RUNS = (("fsdp2", (*SLOW, "preset=fsdp2")), ("ddp", ("strategy=ddp", *SLOW)), ("offload", ("preset=fsdp2", "offload=optimizer", *SLOW)))


class BlocksTest(ProgramTest):
    def blocks(self, run, *options):
        return json.loads(self.run_program(APP, "blocks", run, "--json", *options).stdout)

    def refused(self, *arguments):
        done = self.run_program(APP, "blocks", *arguments, check=False)
        self.assertEqual(done.returncode, 1, done.stdout + done.stderr)
        self.assertEqual(done.stderr.strip().count("\n"), 0, done.stderr)
        return done.stderr

    def test_sums_are_those_of_the_moment_and_of_sql(self):
        for name, settings in RUNS:
            run, _ = self.train(name, "train.steps=4", *settings)
            for at in ("step=1+1ms", "step=2+4ms", "step=3"):
                moment = json.loads(self.run_program(APP, "moment", run, "--at", at, "--json").stdout)
                for of_rank in moment["ranks"]:
                    with self.subTest(run=name, at=at, rank=of_rank["rank"]):
                        found = self.blocks(run, "--at", at, "--rank", of_rank["rank"])
                        self.assertEqual(found["time_ns"], moment["time_ns"])
                        self.assertEqual(found["live_bytes"], of_rank["memory"]["live_bytes"])
                        sums = collections.Counter()
                        for block in found["live"]:
                            sums[block["category"], block["unit"]] += block["bytes"]
                        self.assertEqual({(row["category"], row["unit"]): row["bytes"] for row in of_rank["memory"]["units"]}, dict(sums))
                        rows = self.sql(run, "SELECT sum(bytes) AS bytes FROM memory_event WHERE category != 'host' "
                                             f"AND rank = {of_rank['rank']} AND executed_ns <= {found['time_ns']}")
                        self.assertEqual(rows[0]["bytes"], found["live_bytes"])

    def test_each_block_lived_then_from_one_op_of_the_plan_to_another(self):
        run, _ = self.train("run", "train.steps=4", *SLOW)
        ops = {row["name"] for row in self.sql(run, "SELECT DISTINCT name FROM plan_op")}
        # In backward: gradients, activations and gathered parameters are all there.
        at, = self.sql(run, "SELECT MIN(r.started_ns) - (SELECT MIN(start_ns) FROM step WHERE step = 2) AS ns FROM op_run r JOIN plan_op p "
                            "ON p.id = r.plan_op WHERE r.step = 2 AND r.rank = 0 AND p.kind = 'reduce_scatter'")
        found = self.blocks(run, "--at", f"step=2+{at['ns']}ns")
        of_ops = 0
        for block in found["live"]:
            self.assertLessEqual(block["allocated_ns"], found["time_ns"])
            if block["freed_ns"] is not None:
                self.assertGreater(block["freed_ns"], found["time_ns"])
            for op in filter(None, (block["allocated_by"], block["freed_by"])):
                self.assertIn(op, ops)
            if block["allocated_by"] and block["freed_by"]:
                of_ops += 1
                self.assertEqual(block["step"], 2)
        self.assertGreater(of_ops, 2)
        self.assertEqual([block["bytes"] for block in found["live"]], sorted((block["bytes"] for block in found["live"]), reverse=True))

    def test_without_a_moment_it_is_the_highest_peak(self):
        run, _ = self.train("run", "train.steps=4", *SLOW)
        peaks = {row["rank"]: row for row in self.report(run)["memory"]}
        found = self.blocks(run)
        self.assertEqual(found["live_bytes"], max(peak["peak_bytes"] for peak in peaks.values()))
        for rank, peak in peaks.items():
            self.assertEqual(self.blocks(run, "--rank", rank)["live_bytes"], peak["peak_bytes"])

    def test_what_came_and_went_is_the_difference(self):
        run, _ = self.train("run", "train.steps=4", *SLOW)
        before = self.blocks(run, "--at", "step=2+1ms", "--rank", 0)
        for later_ms in (9, 20, 40, 80):  # on a busy machine ops come later
            after = self.blocks(run, "--at", f"step=2+{later_ms}ms", "--since", "step=2+1ms", "--rank", 0)
            if after["came_bytes"] > 0:
                break
        self.assertEqual(after["live_bytes"] - before["live_bytes"], after["came_bytes"] - after["gone_bytes"])
        self.assertEqual(sum(block["bytes"] for block in after["live"] if block["came"]), after["came_bytes"])
        self.assertGreater(after["came_bytes"], 0)
        for block in after["gone"]:
            self.assertTrue(before["time_ns"] < block["freed_ns"] <= after["time_ns"])

    def test_the_picture_says_what_the_command_says(self):
        run, _ = self.train("run", "train.steps=4", *SLOW)
        for options in ((), ("--at", "step=2+5ms")):
            found = self.blocks(run, *options)
            items = {name: item for (panel, name), item in self.drawn(run, "--panel", "blocks", *options).items() if panel == "blocks"}
            self.assertEqual(items["live"]["value"], found["live_bytes"])
            self.assertEqual(items["at"]["value"], found["time_ns"])
            self.assertEqual(items["rank"]["value"], found["rank"])
            shown = [item for name, item in items.items() if name.startswith("block:")]
            self.assertGreater(len(shown), 2)
            for item, block in zip(shown, found["live"]):
                self.assertEqual(item["value"], block["bytes"])
                self.assertIn(block["unit"], item["text"])
                self.assertIn(block["freed_by"], item["text"])

    def test_what_one_change_would_make_of_it(self):
        """`plan --memory --run` is `plan --memory` of the run's own keys; a run that is so set up needs what was said."""
        run, _ = self.train("run", "train.steps=2", "model.layers=3")
        plan = lambda *options: json.loads(self.run_program(APP, "plan", "--memory", *options, "--json").stdout)
        of_run = plan("--run", run)
        self.assertEqual(of_run, plan("--config", run / "run.toml"))
        changed, _ = self.train("changed", "train.steps=2", "model.layers=3", "checkpointing=full")
        said = next(row for row in of_run["rows"] if row["settings"] == {"checkpointing": "full"})
        given = plan("--run", changed)["rows"][0]
        self.assertEqual({key: value for key, value in given.items() if key not in ("kind", "settings", "results")},
                         {key: value for key, value in said.items() if key not in ("kind", "settings", "results")})
        refused = self.run_program(APP, "plan", "--memory", "--run", self.root / "none", check=False)
        self.assertEqual((refused.returncode, refused.stdout), (1, ""))
        self.assertIn("--memory only", self.run_program(APP, "plan", "--run", run, check=False).stderr)

    def test_bad_input_is_one_error(self):
        run, _ = self.train("run", "train.steps=3", *SLOW)
        self.assertIn("--rank 7: the run has the ranks 0, 1", self.refused(run, "--rank", 7))
        self.assertIn("--at", self.refused(run, "--at", "soon"))
        self.assertIn("swap them", self.refused(run, "--at", "step=1", "--since", "step=2"))
        self.assertIn("shardscope blocks", self.refused(self.root / "nowhere"))


if __name__ == "__main__":
    unittest.main()
