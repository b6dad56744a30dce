"""`shardscope record`: what a recorded program may do to the recorder in it, which is its guest and never its harm."""

import subprocess
import unittest

from programs import APP, BIN, TIMEOUT_S
from recorded import RecordTest

PROGRAM = BIN.parent / "tests" / "recorded_program"


class FilesOfTheProgram(RecordTest):
    def test_a_program_that_closes_every_descriptor_keeps_its_files_and_stays_recorded(self):
        mine = self.root / "mine"
        mine.mkdir()
        run, done = self.record(PROGRAM, "close_all", mine, check=0)
        self.assertEqual({p.name: p.read_bytes() for p in mine.iterdir()}, {name: b"mine" for name in "abcdefghijkl"})
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
        self.assertEqual([p["state"] for p in self.programs(run)], ["finished"])
        self.assertEqual(self.counts(run)["before"], 1)
        # What came between the closing and the next batch may be lost; what is, is counted.
        lost = self.report(run)["dropped"]
        self.assertEqual(self.counts(run)["after"] + sum(lost.values()), 2000)


class WhereNothingCanBeWritten(RecordTest):
    def test_a_launcher_whose_files_may_not_grow_says_so_and_runs_nothing(self):
        command = f"ulimit -f 8; exec '{APP}' record -o '{self.root / 'run'}' -- echo never"
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=TIMEOUT_S)
        self.assertEqual((done.returncode, done.stdout), (125, ""))
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)


del RecordTest  # only a base of the classes above


if __name__ == "__main__":
    unittest.main()
