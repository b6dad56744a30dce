"""`shardscope compare`: what differs is named, what does not is not, and the figures add up."""

import json
import re
import unittest

from chrome_traces import fsdp2_step
from programs import APP, ImportTestCase

SLOW_LINK = ["model.layers=3", "model.dim=64", "model.heads=4", "model.seq=32", "train.batch=4", "train.warmup_steps=2", "train.steps=16",
             "transport=emulated", "link.latency=20us"]


class CompareTest(ImportTestCase):
    def compare(self, *arguments, code=0):
        done = self.run_program(APP, "compare", *arguments, "--json", check=False)
        self.assertEqual(done.returncode, code, done.stdout + done.stderr)
        return json.loads(done.stdout)

    def steps_of(self, run):
        """Mean length of each step, warm-up left out."""
        return [row["ns"] for row in self.sql(run, "SELECT avg(end_ns - start_ns) AS ns FROM step WHERE step > 1 GROUP BY step ORDER BY step")]

    def test_a_slower_link_is_named_and_its_parts_add_up(self):
        fast, _ = self.train("fast", *SLOW_LINK, "link.bandwidth=200MB/s")
        slow, _ = self.train("slow", *SLOW_LINK, "link.bandwidth=4MB/s")
        result = self.compare(fast, slow, "--fail-if-slower", "5%", code=3)
        self.assertEqual(result["verdict"], "worse")
        self.assertIn("exposed", result["sentence"])
        self.assertIn("link.bandwidth is 200MB/s in A and 4MB/s in B", result["sentence"])
        step = result["step"]
        for side in ("a_ns", "b_ns"):
            self.assertAlmostEqual(sum(part[side] for part in result["parts"].values()), step[side], delta=1)
            self.assertAlmostEqual(sum(row["on_path"][side] for row in result["rows"]), step[side], delta=1)
        # The mean of the middle half of the steps.
        for run, side in ((fast, "a_ns"), (slow, "b_ns")):
            steps = sorted(self.steps_of(run))
            cut = (len(steps) + 3) // 4
            middle = steps[cut:len(steps) - cut]
            self.assertAlmostEqual(step[side], sum(middle) / len(middle), delta=1)
        for delta in (step, *result["parts"].values(), *(row["on_path"] for row in result["rows"])):
            self.assertLessEqual(delta["low_ns"], delta["difference_ns"])
            self.assertGreaterEqual(delta["high_ns"], delta["difference_ns"])
        exposed = result["parts"]["exposed communication"]["difference_ns"]
        self.assertGreater(exposed, 0.8 * step["difference_ns"])
        self.assertEqual(self.compare(slow, fast, "--fail-if-slower", "5%")["verdict"], "better")

    def test_a_run_is_as_fast_as_itself_and_as_its_export(self):
        run, _ = self.train("run", *SLOW_LINK, "link.bandwidth=100MB/s")
        result = self.compare(run, run, "--fail-if-slower", "0%")
        self.compare(run, run, "--fail-if-slower", "100%")
        self.assertEqual((result["verdict"], result["step"]["difference_ns"], result["settings"]), ("within_noise", 0, []))
        self.run_program(APP, "export", run, "--format", "kineto", "-o", self.root / "traces")
        back = self.compare(run, self.root / "traces")
        self.assertEqual((back["verdict"], back["step"]["difference_ns"]), ("within_noise", 0))
        self.assertEqual([row for row in back["rows"] if row["on_path"]["difference_ns"] != 0 or row["state"]], [])

    def test_prefetch_is_named(self):
        slow = [*SLOW_LINK, "link.bandwidth=60MB/s"]
        ahead, _ = self.train("ahead", *slow, "prefetch.backward=pre", "prefetch.forward=1")
        late, _ = self.train("late", *slow, "prefetch.backward=none", "prefetch.forward=0")
        result = self.compare(ahead, late)
        self.assertIn("all-gathers of forward are issued 1 unit ahead in A and 0 in B", result["sentence"])
        self.assertIn("all-gathers of backward are issued 1 unit ahead in A and 0 in B", result["sentence"])
        self.assertEqual((result["a"]["forward_lead"], result["b"]["forward_lead"]), (1, 0))
        self.assertEqual({row["key"] for row in result["settings"]}, {"prefetch.backward", "prefetch.forward"})

    def test_compute_of_units_is_that_of_their_segments(self):
        full, _ = self.train("full", *SLOW_LINK, "link.bandwidth=200MB/s", "strategy=full")
        ddp, _ = self.train("ddp", *SLOW_LINK, "link.bandwidth=200MB/s", "strategy=ddp")
        for one, other in ((full, ddp), (ddp, full)):
            rows = [row for row in self.compare(one, other)["rows"] if row["kind"] in ("forward", "backward")]
            self.assertEqual({row["unit"] for row in rows}, {"embedding", "block0", "block1", "block2", "head"})
            self.assertEqual([row for row in rows if row["state"] in ("added", "gone")], [])
        # Units that are made otherwise stay what they are.
        modules, _ = self.train("modules", *SLOW_LINK, "link.bandwidth=200MB/s", "strategy=full", "unit.policy=module")
        units = {row["unit"] for row in self.compare(full, modules)["rows"] if row["kind"] == "forward"}
        self.assertLessEqual({"block0", "block0.mlp"}, units)

    def test_ranges_of_one_run_and_too_few_steps(self):
        run, _ = self.train("run", *SLOW_LINK, "link.bandwidth=100MB/s")
        result = self.compare(run, "--steps-a", "2:9", "--steps-b", "9:16")
        self.assertEqual((result["a"]["first_step"], result["a"]["last_step"], result["b"]["first_step"]), (2, 8, 9))
        few = self.compare(run, "--steps-a", "2:4", "--steps-b", "4:6", "--fail-if-slower", "5%", code=4)
        self.assertEqual((few["verdict"], few["step"]["noise_known"]), ("not_comparable", False))

    def test_the_gate_judges_the_token_where_steps_differ_in_their_tokens(self):
        slow = [*SLOW_LINK, "link.bandwidth=20MB/s"]
        few, _ = self.train("few", *slow, "train.batch=2")
        many, _ = self.train("many", *slow, "train.batch=16")
        for a, b in ((few, many), (many, few)):
            with self.subTest(b=b.name):
                done = self.run_program(APP, "compare", a, b, "--json", "--fail-if-slower", "5%", check=False)
                result = json.loads(done.stdout)
                gate = result["gate"]
                self.assertEqual((gate["per"], gate["most"]), ("token", 0.05))
                time_a, time_b = (result["step"][f"{side}_ns"] / result[side]["tokens_per_step"] for side in "ab")
                self.assertAlmostEqual(gate["slower"], time_b / time_a - 1, places=6)
                passes = gate["verdict"] != "worse" or gate["slower"] <= 0.05
                self.assertEqual((gate["passes"], done.returncode), (passes, 0 if passes else 3))
                text = self.run_program(APP, "compare", a, b, "--fail-if-slower", "5%", check=False)
                self.assertEqual((text.returncode, text.stdout.splitlines()[-1]), (done.returncode, gate["sentence"]))
        alike = self.compare(few, few, "--fail-if-slower", "5%")["gate"]
        self.assertEqual((alike["per"], alike["passes"]), ("step", True))
        self.assertNotIn("gate", self.compare(few, few))

    def test_an_engine_run_against_a_pytorch_trace_matches_units_by_order(self):
        run, _ = self.train("run", *SLOW_LINK, "link.bandwidth=100MB/s")
        traces = self.root / "traces"
        traces.mkdir()
        for rank in (0, 1):
            fsdp2_step(rank).write(traces / f"rank{rank}.json")
        result = self.compare(run, traces)
        self.assertTrue(result["units_by_order"])
        self.assertIn({"a": "block0", "b": "layers.0"}, result["units"])

    def test_the_panel_says_what_the_command_says(self):
        fast, _ = self.train("fast", *SLOW_LINK, "link.bandwidth=200MB/s")
        slow, _ = self.train("slow", *SLOW_LINK, "link.bandwidth=4MB/s", "prefetch.forward=1")
        for arguments, options in (([slow], ["--with", slow]),
                                   (["--steps-a", "2:9", "--steps-b", "9:16"], ["--steps-a", "2:9", "--steps-b", "9:16"])):
            result = self.compare(fast, *arguments)
            items = self.drawn(fast, "--panel", "compare", *options, "--size", "1600x4000")
            drawn = {id: item for (panel, id), item in items.items() if panel == "compare"}
            # JSON is ASCII; the window writes as its other panels do.
            self.assertTrue(result["sentence"].isascii(), result["sentence"])
            shown = re.sub(r"(?<=\d) us\b", " µs", result["sentence"]).replace(" -> ", " → ")
            self.assertEqual(drawn["sentence"]["text"], shown)
            self.assertEqual(drawn["sentence"]["value"], result["slower"])
            for side in "ab":
                self.assertEqual(drawn[f"side_{side}"]["value"], result[side]["num_steps"])
                bins = [drawn[f"bin_{side}:{at}"]["value"] for at in range(len(result["histogram"][side]))]
                self.assertEqual(bins, result["histogram"][side])
                self.assertEqual(sum(bins), len(result[side]["step_ns"]))
            for name, part in {"step": result["step"], **result["parts"]}.items():
                for id, key in (("a", "a_ns"), ("b", "b_ns"), ("difference", "difference_ns"), ("low", "low_ns"), ("high", "high_ns")):
                    self.assertEqual(drawn[f"part_{id}:{name}"]["value"], part[key], (name, key))
            self.assertGreater(len(result["rows"]), 10)
            for at, row in enumerate(result["rows"]):
                name = "|".join(row[key] for key in ("part", "kind", "phase", "unit", "communicator"))
                self.assertEqual(drawn[f"row:{at}"]["text"], name)
                for id in ("a", "b", "difference"):
                    self.assertEqual(drawn[f"{id}:{name}"]["value"], row["on_path"][f"{id}_ns"], (name, id))
                if row["state"]:
                    self.assertEqual(drawn["state:" + name]["text"], {"added": "new", "gone": "gone"}[row["state"]])
            self.assertEqual({id.removeprefix("setting:") for id in drawn if id.startswith("setting:")}, {one["key"] for one in result["settings"]})
        for options, part in ((["--with", self.root / "none"], "none"), (["--steps-a", "2-9"], "--steps-a 2-9"), (["--steps-b", "90:99"], "B: ")):
            done = self.run_program(APP, "shot", fast, "--panel", "compare", *options, "--json", check=False)
            self.assertEqual(done.returncode, 1, done.stdout[:300])
            self.assertEqual(done.stderr.strip().count("\n"), 0, done.stderr)
            self.assertIn(part, done.stderr)

    def test_bad_input_is_one_error(self):
        run, _ = self.train("run", *SLOW_LINK, "link.bandwidth=100MB/s")
        for arguments, part in (([run], "--steps-a"), ([run, self.root / "none"], "none"), ([run, run, "--steps-a", "90:99"], "steps"),
                                ([run, run, "--fail-if-slower", "much"], "such as 5%"), ([run, run, "--fail-if-slower", "1"], "write 1%"),
                                ([run, run, "--fail-if-slower", "5"], "write 5%")):
            done = self.run_program(APP, "compare", *arguments, check=False)
            self.assertEqual(done.returncode, 1)
            self.assertEqual(done.stderr.strip().count("\n"), 0, done.stderr)
            self.assertIn(part, done.stderr)


if __name__ == "__main__":
    unittest.main()
