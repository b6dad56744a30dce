"""`shardscope record` where a program closes the recorder's files, starts threads, or may not write: it runs as it would alone."""

import os
import shutil
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


class Threads(RecordTest):
    def test_ranges_that_are_started_have_a_track_that_names_their_thread(self):
        run, _ = self.record(PROGRAM, "thread_ranges", check=0)
        rows = self.sql(run, "SELECT n.text AS range, t.name AS track FROM span s JOIN track t ON t.id = s.track "
                             "JOIN string n ON n.id = s.name_string")
        tracks = {row["range"]: row["track"] for row in rows}
        program = f"{PROGRAM.name[:15]} {self.programs(run)[0]['pid']}"  # as the kernel names it
        self.assertEqual(tracks["of main"], f"{program} ranges")
        self.assertRegex(tracks["of a thread"], rf"^{program} thread \d+ ranges$")


class WhereNothingCanBeWritten(RecordTest):
    def test_a_launcher_whose_files_may_not_grow_says_so_and_runs_nothing(self):
        command = f"ulimit -f 8; exec '{APP}' record -o '{self.root / 'run'}' -- echo never"
        done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, timeout=TIMEOUT_S)
        self.assertEqual((done.returncode, done.stdout), (125, ""))
        self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)

    @unittest.skipUnless(os.geteuid() == 0, "only root makes a small disk")
    def test_a_full_disk_leaves_no_run_that_seems_alive(self):
        disk = self.root / "disk"
        disk.mkdir()
        if subprocess.run(["mount", "-t", "tmpfs", "-o", "size=776k", "tmpfs", disk], capture_output=True).returncode != 0:
            self.skipTest("no small disk can be mounted here")
        self.addCleanup(subprocess.run, ["umount", disk], check=True)
        # Room for the launcher's trace, none for that of the program; then for the start of both.
        for size, words in (("776k", "is not recorded: cannot write a trace"), ("1100k", "disk is full")):
            with self.subTest(size):
                subprocess.run(["mount", "-o", f"remount,size={size}", disk], check=True)
                run, done = self.record(PROGRAM, "ranges", check=0, name=f"disk/{size}")
                self.assertIn(words, done.stderr)
                self.assertLessEqual({p["state"] for p in self.recorded(run)["processes"]}, {"cut", "finished"})
                self.assertIn("exit code 0", self.run_program(APP, "report", run).stdout)
                shutil.rmtree(run)


del RecordTest  # only a base of the classes above


if __name__ == "__main__":
    unittest.main()
