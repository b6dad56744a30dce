"""`shardscope search` against SQL over the same trace: which rows, how many, how long; and what it says of queries that are wrong."""

import json
import re
import unittest

from programs import APP, ProgramTest

SLOW = ("transport=emulated", "link.bandwidth=5MB/s")
OPS = "SELECT r.id, r.rank, r.step, r.started_ns, r.ended_ns, p.name, p.kind FROM op_run r JOIN plan_op p ON p.id = r.plan_op WHERE "
# Query, and what it has to be in SQL.
QUERIES = (
    ("all_gather", "p.name LIKE '%all_gather%'"),
    ("kind:all-gather", "p.kind = 'all_gather'"),
    ("BLOCK1 kind:communication rank:1", "p.name LIKE '%block1%' AND p.category = 'communication' AND r.rank = 1"),
    ("kind:op step:2", "r.step = 2"),
    ("kind:op slower:200us", "r.ended_ns - r.started_ns > 200000"),
    ("unit:block0 kind:compute", "p.segment LIKE '%block0%' AND p.category = 'compute'"),
    ("unit:block0", "p.unit LIKE '%block0%' OR p.segment LIKE '%block0%'"),
    ("kind:reduce_scatter slower:1ms step:3 rank:0",
     "p.kind = 'reduce_scatter' AND r.ended_ns - r.started_ns > 1000000 AND r.step = 3 AND r.rank = 0"),
    ("kind:op rank:7", "r.rank = 7"),
)


def percentile(values, share):
    """As numpy.percentile does it."""
    if not values:
        return 0
    values = sorted(values)
    position = share * (len(values) - 1)
    below = int(position)
    above = min(below + 1, len(values) - 1)
    return values[below] + (position - below) * (values[above] - values[below])


def is_covered(start, end, intervals):
    """Whether the intervals hide all of it; a second way, without unions."""
    for begin, stop in sorted(intervals):
        if begin <= start < stop:
            start = stop
    return start >= end


class SearchTest(ProgramTest):
    def search(self, run, query, *options):
        return json.loads(self.run_program(APP, "search", run, query, "--json", *options).stdout)

    def assert_found(self, found, rows):
        """`rows`: of OPS, in any order."""
        rows = sorted(rows, key=lambda row: (row["started_ns"], row["rank"]))
        self.assertEqual([(hit["start_ns"], hit["rank"]) for hit in found["hits"]], [(row["started_ns"], row["rank"]) for row in rows])
        by_id = {row["id"]: row for row in rows}
        self.assertEqual({hit["op_run"] for hit in found["hits"]}, set(by_id))
        for hit in found["hits"]:
            row = by_id[hit["op_run"]]
            self.assertEqual((hit["name"], hit["kind"], hit["step"], hit["end_ns"]), (row["name"], row["kind"], row["step"], row["ended_ns"]))
        durations = [row["ended_ns"] - row["started_ns"] for row in rows]
        self.assertEqual((found["count"], found["sum_ns"]), (len(rows), sum(durations)))
        self.assertAlmostEqual(found["p50_ns"], percentile(durations, 0.5), places=3)
        self.assertAlmostEqual(found["p95_ns"], percentile(durations, 0.95), places=3)

    def test_finds_the_rows_that_sql_finds(self):
        run, _ = self.train("run", "train.steps=5", "preset=fsdp2", "prefetch.backward=none", "host.run_ahead=0", *SLOW)
        found_any = 0
        for query, where in QUERIES:
            with self.subTest(query):
                found = self.search(run, query)
                self.assertEqual(found["query"], query)
                self.assert_found(found, self.sql(run, OPS + where))
                found_any += found["count"] > 0
        self.assertEqual(found_any, len(QUERIES) - 1)  # there is no rank 7

        with self.subTest("exposed"):
            computed = {}
            for row in self.sql(run, OPS + "p.category IN ('compute', 'optimizer')"):
                computed.setdefault(row["rank"], []).append((row["started_ns"], row["ended_ns"]))
            sent = self.sql(run, OPS + "p.category = 'communication'")
            exposed = [row for row in sent if not is_covered(row["started_ns"], row["ended_ns"], computed[row["rank"]])]
            self.assertTrue(exposed)
            self.assert_found(self.search(run, "exposed"), exposed)
            steps = self.sql(run, "SELECT rank, step FROM v_step WHERE exposed_ms > 0")
            self.assertEqual({(row["rank"], row["step"]) for row in exposed}, {(row["rank"], row["step"]) for row in steps})

        with self.subTest("limit"):
            every = self.search(run, "kind:op")
            few = self.search(run, "kind:op", "--limit", 3)
            self.assertEqual(few["hits"], every["hits"][:3])
            self.assertEqual({**few, "hits": None}, {**every, "hits": None})
            text = self.run_program(APP, "search", run, "kind:op", "--limit", 3).stdout
            self.assertIn(f"{every['count']} hits, ", text)
            self.assertIn(f"and {every['count'] - 3} later", text)

        with self.subTest("times lead back to the hits"):
            for hit, line in zip(few["hits"], text.splitlines()[3:], strict=False):
                at = re.match(r" *(\d+\.\d{6} s) ", line)[1]
                moment = self.run_program(APP, "moment", run, "--at", at).stdout
                self.assertTrue(moment.startswith(f"{at} from the start"), moment)
                exact = json.loads(self.run_program(APP, "moment", run, "--at", at, "--json").stdout)
                self.assertLessEqual(abs(exact["time_ns"] - hit["start_ns"]), 1000)

    def test_markers_are_found_and_queries_that_are_wrong_are_named(self):
        change = self.root / "change.toml"
        change.write_text('[[change]]\nstep = 1\nset = { "prefetch.backward" = "none" }\n')
        run, _ = self.train("run", "train.steps=3", extra=("--config", change))
        markers = self.sql(run, "SELECT time_ns, step, kind FROM marker ORDER BY time_ns, id")
        found = self.search(run, "kind:marker")
        self.assertEqual([(hit["start_ns"], hit["step"], hit["kind"], hit["rank"]) for hit in found["hits"]],
                         [(row["time_ns"], row["step"], row["kind"], None) for row in markers])
        self.assertEqual((found["sum_ns"], found["p50_ns"]), (0, 0))
        for query, said in (("rank:x", "rank:x: give a number"), ("kind:zzz", "no such kind"), ("slower:5", "slower:5ms"),
                            ("", "give a part of a name"), ("step:99", "no step 99: this trace has the steps 0 to 2"),
                            ("kind:op step:99", "no step 99: this trace has the steps 0 to 2")):
            with self.subTest(query):
                done = self.run_program(APP, "search", run, query, check=False)
                self.assertEqual((done.returncode, done.stdout), (1, ""))
                self.assertTrue(done.stderr.startswith("shardscope search: "), done.stderr)
                self.assertIn(said, done.stderr)
                self.assertEqual(done.stderr.count("\n"), 1)
        self.assertIn("no step 99", self.run_program(APP, "search", run, "step:99", "--json", check=False).stderr)
        self.assertEqual(self.search(run, "step:2 kind:op rank:7")["count"], 0)  # the step is there
        # A picture is refused as well.
        for arguments in ((run, "--search", "kind:zzz"), (f"{run}#search=kind:zzz",)):
            done = self.run_program(APP, "shot", *arguments, "-o", self.root / "a.svg", check=False)
            self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1))
            self.assertIn("no such kind", done.stderr)
        self.assertFalse((self.root / "a.svg").exists())

    def test_the_picture_shows_what_the_command_finds(self):
        run, _ = self.train("run", "train.steps=4", *SLOW)
        query = "kind:all_gather exposed"
        found = self.search(run, query)
        items = {name: item for (panel, name), item in self.drawn(run, "--search", query).items() if panel == "search"}
        self.assertEqual(items["query"]["text"], query)
        self.assertEqual(items["count"]["value"], found["count"])
        self.assertEqual(items["sum"]["value"], found["sum_ns"])
        self.assertAlmostEqual(items["p95"]["value"], found["p95_ns"], places=3)
        self.assertEqual(items["hit:0"]["text"], found["hits"][0]["name"])

    def test_a_live_run_is_searched_too(self):
        run, process = self.start_training("live", "train.steps=1000000", *SLOW)
        self.wait_for_steps(run, 3)
        before = self.search(run, "kind:forward", "--limit", 0)["count"]
        self.assertGreater(before, 0)
        self.wait_for_steps(run, 6)
        self.assertGreater(self.search(run, "kind:forward", "--limit", 0)["count"], before)
        process.kill()


if __name__ == "__main__":
    unittest.main()
