"""`shardscope record`: what a recorded program may do to the recorder in it, which is its guest and never its harm."""

import unittest

from programs import BIN
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


del RecordTest  # only a base of the class above


if __name__ == "__main__":
    unittest.main()
