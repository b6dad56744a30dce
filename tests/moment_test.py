"""`shardscope moment` against SQL over the same trace: which ops run, how far they are, what is live; and what it says of times that are not there."""

import json
import os
import struct
import subprocess
import unittest
import zlib

from programs import APP, TIMEOUT_S, ProgramTest

SLOW = ("transport=emulated", "link.bandwidth=5MB/s", "prefetch.backward=none", "host.run_ahead=0")
GROUPS = {"compute": ("compute", "optimizer"), "copies": ("copy",), "communication": ("communication",)}
RUNNING = ("SELECT r.id, r.rank, r.step, r.started_ns, r.ended_ns, p.name, p.category FROM op_run r JOIN plan_op p ON p.id = r.plan_op "
           "WHERE r.started_ns <= {0} AND r.ended_ns > {0} AND p.category != 'host' AND p.kind NOT IN ('reshard', 'release', 'control')")
LIVE = "SELECT rank, category, unit, SUM(bytes) AS bytes FROM memory_event WHERE executed_ns <= {0} GROUP BY rank, category, unit HAVING SUM(bytes) != 0"


def chunks_of(png):
    """(type, data) of each, their checksums found right."""
    assert png.startswith(b"\x89PNG\r\n\x1a\n")
    chunks = []
    at = 8
    while at < len(png):
        length, = struct.unpack(">I", png[at:at + 4])
        body = png[at + 4:at + 8 + length]
        assert struct.unpack(">I", png[at + 8 + length:at + 12 + length])[0] == zlib.crc32(body)
        chunks.append((body[:4], body[4:]))
        at += 12 + length
    return chunks


class MomentTest(ProgramTest):
    def moment(self, run, at):
        return json.loads(self.run_program(APP, "moment", run, "--at", at, "--json").stdout)

    def times_of(self, run, step):
        """The middle between two starts or ends of ops, all through the step."""
        rows = self.sql(run, f"SELECT started_ns, ended_ns FROM op_run WHERE step = {step}")
        ends = sorted({row[name] for row in rows for name in ("started_ns", "ended_ns")})
        return [(a + b) // 2 for a, b in zip(ends, ends[1:])][::7]

    def test_tells_what_sql_tells(self):
        run, _ = self.train("run", "train.steps=5", *SLOW)
        start = self.sql(run, "SELECT MIN(start_ns) AS ns FROM step WHERE step = 3")[0]["ns"]
        states = set()
        for time_ns in self.times_of(run, 3):
            moment = self.moment(run, f"step=3+{time_ns - start}ns")
            self.assertEqual(moment["time_ns"], time_ns)
            self.assertEqual([rank["rank"] for rank in moment["ranks"]], [0, 1])
            running = self.sql(run, RUNNING.format(time_ns))
            live = self.sql(run, LIVE.format(time_ns))
            for rank in moment["ranks"]:
                mine = [row for row in running if row["rank"] == rank["rank"]]
                for group, categories in GROUPS.items():
                    expected = {row["id"]: row for row in mine if row["category"] in categories}
                    self.assertEqual({op["op_run"] for op in rank[group]}, set(expected), (time_ns, group))
                    for op in rank[group]:
                        row = expected[op["op_run"]]
                        self.assertEqual(op["name"], row["name"])
                        self.assertAlmostEqual(op["done"], (time_ns - row["started_ns"]) / (row["ended_ns"] - row["started_ns"]))
                self.assertEqual(rank["state"] == "computes", bool(rank["compute"]))
                self.assertEqual(rank["exposed"], bool(rank["communication"]) and not rank["compute"])
                self.assertEqual(rank["hidden"], bool(rank["communication"]) and bool(rank["compute"]))
                self.assertIn(f"rank {rank['rank']} ", rank["words"])
                self.assertEqual("exposed" in rank["words"], rank["exposed"], rank["words"])
                units = {(row["category"], row["unit"]): row["bytes"] for row in live if row["rank"] == rank["rank"]}
                self.assertEqual({(row["category"], row["unit"]): row["bytes"] for row in rank["memory"]["units"]}, units)
                self.assertEqual(rank["memory"]["live_bytes"], sum(bytes for (category, _), bytes in units.items() if category != "host"))
                states.add(rank["state"])
        self.assertLessEqual({"computes", "waits"}, states)

    def test_the_change_of_memory_is_that_of_sql(self):
        run, _ = self.train("run", "train.steps=4", *SLOW)
        start = self.sql(run, "SELECT MIN(start_ns) AS ns FROM step WHERE step = 2")[0]["ns"]
        changed = ("SELECT rank, category, unit, SUM(bytes) AS bytes FROM memory_event WHERE executed_ns > {0} AND executed_ns <= {1} "
                   "GROUP BY rank, category, unit HAVING SUM(bytes) != 0")
        for time_ns in self.times_of(run, 2):
            at = f"step=2+{time_ns - start}ns"
            told = json.loads(self.run_program(APP, "moment", run, "--at", at, "--since", "step=2", "--json").stdout)
            self.assertEqual(told["since_ns"], start)
            rows = self.sql(run, changed.format(start, time_ns))
            self.assertEqual([change["rank"] for change in told["memory_changes"]], [0, 1])
            for change in told["memory_changes"]:
                units = {(row["category"], row["unit"]): row["bytes"] for row in rows if row["rank"] == change["rank"]}
                self.assertEqual({(row["category"], row["unit"]): row["bytes"] for row in change["units"]}, units)
                self.assertEqual(change["bytes"], sum(bytes for (category, _), bytes in units.items() if category != "host"))
        text = self.run_program(APP, "moment", run, "--at", at, "--since", "step=2").stdout
        self.assertIn("  rank 0: ", text)
        done = self.run_program(APP, "moment", run, "--at", at, "--since", "step=77", check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("--since no step 77", done.stderr)

    def test_the_text_has_the_sentences_of_the_json(self):
        run, _ = self.train("run", "train.steps=3", *SLOW)
        for at in ("step=1+2ms", "step=2", "0"):
            text = self.run_program(APP, "moment", run, "--at", at).stdout
            if at == "step=1+2ms":
                self.assertIn(", step 1 + 2.000 ms\n", text)
            for rank in self.moment(run, at)["ranks"]:
                self.assertIn(f"\n{rank['words']}\n", text)

    def test_the_picture_says_what_the_command_says(self):
        run, _ = self.train("run", "train.steps=4", *SLOW)
        at = "step=2+3ms"
        items = self.drawn(run, "--at", at)
        moment = self.moment(run, at)
        self.assertEqual(items["timeline", "lens_now"]["value"], 3_000_000)
        for rank in moment["ranks"]:
            self.assertEqual(items["timeline", f"moment:{rank['rank']}"]["text"], rank["words"])
            self.assertEqual(items["memory", f"live:{rank['rank']}"]["value"], rank["memory"]["live_bytes"])

    def test_a_step_becomes_an_animation(self):
        run, _ = self.train("run", "train.steps=3")
        small = ("--size", "700x500", "--frames", "3")
        picture = self.root / "step.png"
        done = self.run_program(APP, "shot", run, "--animate", picture, "--step", 1, *small, check=False)
        if done.returncode != 0 and "EGL" in done.stderr:
            self.skipTest(done.stderr)
        self.assertEqual(done.returncode, 0, done.stderr)
        chunks = chunks_of(picture.read_bytes())
        self.assertEqual([kind for kind, _ in chunks if kind != b"IDAT"],
                         [b"IHDR", b"acTL", b"fcTL", b"fcTL", b"fdAT", b"fcTL", b"fdAT", b"IEND"])
        sequence = []
        for kind, data in chunks:
            if kind == b"fcTL":
                number, width, height = struct.unpack(">III", data[:12])
                sequence.append(number)
            elif kind == b"fdAT":
                sequence.append(struct.unpack(">I", data[:4])[0])
                self.assertEqual(len(zlib.decompress(data[4:])), height * (width * 4 + 1))
        self.assertEqual(sequence, list(range(5)))
        for arguments, said in ((("--animate", "x.gif"), "name a .png"), (("--animate", "x.png", "--json"), "leave out"),
                                (("--animate", "x.png", "--frames", "0"), "--frames 0"), (("--animate", "x.png", "--speed", "3"), "1/1 to"),
                                (("--animate", "x.png", "--step", "9"), "no step 9"), (("--animate", "/nowhere/x.png"), "/nowhere"),
                                (("--animate", "x.png", "--with", run), "leave out --with"), (("--animate", "x.png", "--steps-a", "0:1"), "leave out --with"),
                                (("-o", "x.png", "--frames", "3"), "--frames requires --animate"), (("-o", "x.png", "--speed", "1/2"), "--speed requires --animate")):
            with self.subTest(arguments):
                done = self.run_program(APP, "shot", run, *arguments, check=False)
                self.assertEqual(done.returncode, 1)
                self.assertIn(said, done.stderr)
                self.assertEqual(done.stderr.count("\n"), 1)

    def test_an_mp4_is_what_ffmpeg_makes_of_the_frames(self):
        run, _ = self.train("run", "train.steps=2")
        tools = self.root / "tools"
        tools.mkdir()
        ffmpeg = tools / "ffmpeg"
        movie = self.root / "step.mp4"
        others = self.root / "step.mp4.part"
        others.write_text("of the user")

        def shot():
            return subprocess.run([str(APP), "shot", str(run), "--animate", str(movie), "--size", "700x500", "--frames", "3"],
                                  env={**os.environ, "PATH": f"{tools}:/bin:/usr/bin"}, capture_output=True, text=True, timeout=TIMEOUT_S)

        # The last word is the file; it takes what comes in.
        ffmpeg.write_text('#!/bin/sh\nfor file; do :; done\ncat > "${file#file:}"\n')
        ffmpeg.chmod(0o755)
        done = shot()
        if done.returncode != 0 and "EGL" in done.stderr:
            self.skipTest(done.stderr)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(movie.stat().st_size, 3 * 700 * 500 * 4)
        ffmpeg.write_text("#!/bin/sh\nexit 3\n")
        movie.write_text("old")
        done = shot()
        self.assertEqual(done.returncode, 1)
        self.assertIn("exit code is 3", done.stderr)
        self.assertEqual(movie.read_text(), "old")
        self.assertEqual([path.name for path in self.root.iterdir() if "part" in path.name], [others.name])
        self.assertEqual(others.read_text(), "of the user")
        movie.unlink()
        os.mkfifo(movie)
        self.addCleanup(os.close, os.open(movie, os.O_RDONLY | os.O_NONBLOCK))  # a pipe with a reader
        done = shot()
        self.assertEqual(done.returncode, 1)
        self.assertIn("is no regular file", done.stderr)
        self.assertTrue(movie.is_fifo())

    def test_times_that_are_not_there_are_named(self):
        run, _ = self.train("run", "train.steps=2")
        for at, said in (("step=9", "no step 9: this trace has the steps 0 to 1"), ("12", "step=3+4.2ms"), ("step=x", "step=3+4.2ms"),
                         ("1000s", "the run ends")):
            with self.subTest(at):
                done = self.run_program(APP, "moment", run, "--at", at, check=False)
                self.assertEqual((done.returncode, done.stdout), (1, ""))
                self.assertTrue(done.stderr.startswith("shardscope moment: --at "), done.stderr)
                self.assertIn(said, done.stderr)
                self.assertEqual(done.stderr.count("\n"), 1)


if __name__ == "__main__":
    unittest.main()
