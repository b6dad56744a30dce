"""`shardscope area` against SQL over the same trace, counted from border to border of its ops; and what it says of areas that are wrong."""

import json
import unittest

from programs import APP, ProgramTest

SLOW = ("transport=emulated", "link.bandwidth=5MB/s")
OPS = """SELECT r.rank, r.step, r.started_ns AS start, r.ended_ns AS end, p.name, p.kind, p.category FROM op_run r JOIN plan_op p ON p.id = r.plan_op
         WHERE p.category != 'host'"""
SHARES = {"compute": "compute", "optimizer": "compute", "communication": "communication", "copy": "copy"}


def count(ops, start, end):
    """Of the ops of one rank: how long any of a category ran, and what ran alone, between each two borders."""
    cut = [(max(op["start"], start), min(op["end"], end), SHARES[op["category"]]) for op in ops]
    borders = sorted({start, end, *(time for op in cut for time in op[:2] if start < time < end)})
    times = dict.fromkeys(("compute", "communication", "copy", "overlap", "exposed", "exposed_copy", "idle"), 0)
    for begin, stop in zip(borders, borders[1:]):
        running = {share for first, last, share in cut if first <= begin and last >= stop}
        for share in running:
            times[share] += stop - begin
        if {"compute", "communication"} <= running:
            times["overlap"] += stop - begin
        alone = "exposed" if "communication" in running else "exposed_copy" if "copy" in running else "idle"
        if "compute" not in running:
            times[alone] += stop - begin
    return times


class AreaTest(ProgramTest):
    def area(self, run, *options):
        return json.loads(self.run_program(APP, "area", run, "--json", *options).stdout)

    def assert_counted(self, found, ops):
        start, end = found["start_ns"], found["end_ns"]
        self.assertEqual(found["length_ns"], end - start)
        self.assertTrue(found["complete"])
        names = {}
        for rank in found["ranks"]:
            mine = [op for op in ops if op["rank"] == rank["rank"] and op["start"] < end and op["end"] > start]
            times = count(mine, start, end)
            got = {share: rank[share]["union_ns"] for share in ("compute", "communication", "copy")}
            got.update({key: rank[key + "_ns"] for key in ("overlap", "exposed", "exposed_copy", "idle")})
            self.assertEqual(got, times)
            self.assertEqual(got["compute"] + got["exposed"] + got["exposed_copy"] + got["idle"], end - start)
            self.assertEqual(rank["count"], len(mine))
            self.assertEqual(rank["unexplained_idle_ns"] + sum(cause["idle_ns"] for cause in rank["causes"]), rank["idle_ns"])
            for op in mine:
                names.setdefault((op["name"], op["kind"]), []).append(min(op["end"], end) - max(op["start"], start))
        self.assertEqual({(row["name"], row["kind"]): (row["count"], row["sum_ns"], row["max_ns"]) for row in found["names"]},
                         {name: (len(times), sum(times), max(times)) for name, times in names.items()})
        sums = [row["sum_ns"] for row in found["names"]]
        self.assertEqual(sums, sorted(sums, reverse=True))
        self.assertEqual(sum(bucket["count"] for bucket in found["durations"]), sum(rank["count"] for rank in found["ranks"]))
        for bucket in found["durations"]:
            inside = [time for times in names.values() for time in times if bucket["from_ns"] <= time < bucket["to_ns"]]
            self.assertEqual(bucket["count"], len(inside))

    def test_counts_what_sql_has(self):
        run, _ = self.train("run", "train.steps=5", "preset=fsdp2", "prefetch.backward=none", "host.run_ahead=0", *SLOW)
        ops = self.sql(run, OPS)
        step = self.sql(run, "SELECT MIN(start_ns) AS start, MAX(end_ns) AS end FROM step WHERE step = 3")[0]
        found = self.area(run, "--step", 3)
        self.assertEqual((found["start_ns"], found["end_ns"]), (step["start"], step["end"]))
        self.assert_counted(found, ops)
        self.assertTrue(found["causes"])

        whole = self.area(run)
        self.assert_counted(whole, ops)
        begin = whole["start_ns"]

        with self.subTest("from the middle of a step to the middle of another"):
            times = self.sql(run, "SELECT (start_ns + end_ns) / 2 AS middle FROM step WHERE rank = 0 AND step IN (1, 3) ORDER BY step")
            from_ns, to_ns = (time["middle"] - begin for time in times)
            found = self.area(run, "--from", f"{from_ns}ns", "--to", f"{to_ns}ns", "--ranks", "1")
            self.assertEqual((found["start_ns"] - begin, found["end_ns"] - begin), (from_ns, to_ns))
            self.assertEqual([rank["rank"] for rank in found["ranks"]], [1])
            self.assert_counted(found, [op for op in ops if op["rank"] == 1])

        with self.subTest("the breakdown's figures, of a step of one rank"):
            row = json.loads(self.run_program(APP, "report", run, "--json").stdout)["steps"]
            row = next(row for row in row if row["step"] == 4 and row["rank"] == 0)
            rank = self.area(run, "--step", 4, "--ranks", "0")["ranks"][0]
            self.assertEqual([rank[key] for key in ("exposed_ns", "idle_ns", "overlap_ns")], [row[key] for key in ("exposed_ns", "idle_ns", "overlap_ns")])

        with self.subTest("as text"):
            text = self.run_program(APP, "area", run, "--step", 3, "--limit", 2).stdout
            for word in ("exposed copy", "no stall", "p95", "shorter (--limit"):
                self.assertIn(word, text)

    def test_areas_that_are_wrong_are_named(self):
        run, _ = self.train("run", "train.steps=2")
        for options, said in ((("--step", 9), "this trace has the steps 0 to 1"), (("--from", "5"), "--from 5: give the time"),
                              (("--from", "2s", "--to", "1s"), "has to be after"), (("--from", "9000s"), "nothing from 9000 s on"),
                              (("--ranks", "0,7"), "no rank 7")):
            with self.subTest(options):
                done = self.run_program(APP, "area", run, *options, check=False)
                self.assertEqual((done.returncode, done.stdout), (1, ""))
                self.assertTrue(done.stderr.startswith("shardscope area: "), done.stderr)
                self.assertIn(said, done.stderr)
                self.assertEqual(done.stderr.count("\n"), 1)

    def test_the_picture_shows_what_the_command_prints(self):
        run, _ = self.train("run", "train.steps=4", *SLOW)
        for options, area in ((("--step", 2), "2"), (("--from", "1ms", "--to", "20ms"), "1ms:20ms")):
            found = self.area(run, *options)
            items = self.drawn(run, "--area", area)
            shown = {name: item.get("value") for (panel, name), item in items.items() if panel == "details"}
            self.assertEqual(shown["area_length"], found["length_ns"])
            for rank in found["ranks"]:
                of_rank = {key: shown[f"area_{key}:{rank['rank']}"] for key in ("compute", "exposed", "exposed_copy", "idle")}
                self.assertEqual(of_rank, {"compute": rank["compute"]["union_ns"], **{key: rank[key + "_ns"] for key in list(of_rank)[1:]}})
            for cause in found["causes"]:
                self.assertEqual(shown["area_cause:" + cause["cause"]], cause["idle_ns"])
                self.assertEqual(shown["area_cause_exposed:" + cause["cause"]], cause["exposed_ns"])
            for bucket in found["durations"]:
                self.assertEqual(shown[f"area_bucket:{bucket['from_ns']}"], bucket["count"])
            names = [item["text"] for (_, name), item in items.items() if name.startswith("area_name:")]
            self.assertEqual(names, [row["name"] for row in found["names"]][:len(names)])
            for at, row in enumerate(found["names"][:len(names)]):
                self.assertEqual((shown[f"area_name:{at}"], shown[f"area_name_sum:{at}"]), (row["count"], row["sum_ns"]))
            self.assertEqual(items["timeline", "area"]["value"], found["length_ns"])
        done = self.run_program(APP, "shot", run, "--area", "9", "--json", check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("the steps 0 to 3", done.stderr)

    def test_a_live_run_is_not_complete_at_its_end(self):
        run, process = self.start_training("live", "train.steps=1000000", *SLOW)
        self.wait_for_steps(run, 4)
        self.assertFalse(self.area(run)["complete"])
        self.assertTrue(self.area(run, "--step", 1)["complete"])
        process.kill()


if __name__ == "__main__":
    unittest.main()
