"""Where output goes: devices, pipes and links stay what they are, full disks are said, and no file steers the terminal."""

import json
import os
import re
import sqlite3
import stat
import subprocess
import threading
import unittest

from programs import APP, TIMEOUT_S, ProgramTest

STEPS = 6
PRINTING = (("report", "RUN"), ("report", "RUN", "--json"), ("sql", "RUN", "SELECT * FROM op_run"), ("sql", "RUN", "SELECT 1", "--json"),
            ("sql", "RUN", "SELECT * FROM plan_op", "--csv"), ("tail", "RUN"), ("tail", "RUN", "--stdio"), ("shot", "RUN", "--json"),
            ("plan",), ("--help",), ("--version",), ("report", "--help"))


class OutputTest(ProgramTest):
    def run_with_files(self, *extra):
        done = self.run_program(*self.train_command(self.root / f"run{len(list(self.root.iterdir()))}", f"train.steps={STEPS}"), *extra,
                                check=False)
        self.assertFalse(list(self.root.glob(".shardscope-*")), "nothing is left beside")
        return done

    def assert_is_still_null(self, path):
        self.assertTrue(stat.S_ISCHR(os.stat(path).st_mode))
        self.assertEqual(os.stat(path).st_rdev, os.makedev(1, 3))

    def test_a_device_stays_a_device(self):
        null = self.root / "null"
        try:
            os.mknod(null, 0o666 | stat.S_IFCHR, os.makedev(1, 3))
        except PermissionError:
            null.symlink_to("/dev/null")  # only root may make devices, and only root could harm this one
        self.assertEqual(self.run_with_files("--dump", null, "--losses", null).returncode, 0)
        self.assert_is_still_null(null)
        run, _ = self.train("shown", "train.steps=2")
        self.run_program(APP, "shot", run, "-o", null)
        self.assert_is_still_null(null)

    def test_a_link_stays_and_its_file_is_written(self):
        (self.root / "far").mkdir()
        for name in ("dump", "losses"):
            (self.root / name).symlink_to(f"far/{name}")
        (self.root / "far" / "losses").write_text("old")
        self.assertEqual(self.run_with_files("--dump", self.root / "dump", "--losses", self.root / "losses").returncode, 0)
        self.assertTrue((self.root / "dump").is_symlink() and (self.root / "losses").is_symlink())
        self.assertEqual(len((self.root / "far" / "losses").read_text().splitlines()), STEPS)
        self.assertGreater((self.root / "far" / "dump").stat().st_size, 1000)
        self.assertEqual(len(list((self.root / "far").iterdir())), 2)

    def test_losses_go_through_a_pipe(self):
        pipe = self.root / "pipe"
        os.mkfifo(pipe)
        read = []
        reader = threading.Thread(target=lambda: read.extend(pipe.read_text().splitlines()))
        reader.start()
        self.assertEqual(self.run_with_files("--losses", pipe).returncode, 0)
        reader.join()
        self.assertEqual([line.split()[0] for line in read], [str(step) for step in range(STEPS)])

    def test_a_full_disk_is_an_error_that_costs_no_training(self):
        for option in ("--losses", "--dump"):
            with self.subTest(option):
                done = self.run_with_files(option, "/dev/full")
                self.assertEqual(done.returncode, 1, done.stdout)
                self.assertIn("cannot write /dev/full: No space left on device", done.stderr.splitlines()[-1])
                self.assertIn(f"step {STEPS - 1} ({STEPS} of {STEPS})", done.stdout)
        done = self.run_with_files("--losses", "/dev/full")
        self.assertIn("the training goes on", done.stderr.splitlines()[0], "said at the first step")

    def test_a_path_that_cannot_be_written_is_refused_before_the_training(self):
        for option in ("--losses", "--dump"):
            for path in (self.root, self.root / "nowhere" / "file"):
                with self.subTest(option=option, path=path):
                    done = self.run_with_files(option, path)
                    self.assertEqual(done.returncode, 1)
                    self.assertIn(f"{option}: cannot write {path}: ", done.stderr)
                    self.assertNotIn("step 0 (", done.stdout)

    def test_no_command_ends_well_whose_output_nobody_gets(self):
        run, _ = self.train("shown", "train.steps=2")
        for arguments in PRINTING:
            command = [str(APP), *[str(run) if word == "RUN" else word for word in arguments]]
            for redirection, reason in ((">/dev/full", "No space left"), (">&-", "Bad file descriptor")):
                with self.subTest(arguments=arguments, redirection=redirection):
                    done = subprocess.run(["bash", "-c", f'"$@" {redirection}', "bash", *command], capture_output=True, text=True,
                                          timeout=TIMEOUT_S)
                    self.assertEqual(done.returncode, 1, done.stderr)
                    self.assertEqual(len(done.stderr.splitlines()), 1, done.stderr)
                    self.assertIn(f"cannot write all to standard output: {reason}", done.stderr)

    def test_a_picture_is_a_png_of_a_size_that_ends(self):
        run, _ = self.train("shown", "train.steps=2")
        for arguments, said in ((("-o", self.root / "x.jpg"), "x.png"), (("--json", "--size", "16384x16384"), "million pixels"),
                                (("-o", self.root), "it is a folder")):
            with self.subTest(arguments=arguments):
                done = self.run_program(APP, "shot", run, *arguments, check=False)
                self.assertEqual(done.returncode, 1)
                self.assertIn(said, done.stderr)

    def test_what_a_trace_says_is_text_to_the_terminal(self):
        run, _ = self.train("hostile", "train.steps=2", "strategy=full")
        trace, = run.glob("trace-*.db")
        columns = {"meta": ("value", "key IN ('name', 'model', 'host')"), "string": ("text", "1"), "plan_op": ("name", "1"),
                   "schedule": ("name", "1"), "capability": ("reason", "1"), "rank": ("host", "1"), "track": ("name", "1")}
        with sqlite3.connect(trace) as database:
            for table, (column, where) in columns.items():
                database.execute(f"UPDATE {table} SET {column} = {column} || char(27) || ']0;mine' || char(7) || char(155) || '2J' "
                                 f"WHERE {where}")
            database.execute("INSERT INTO marker(time_ns, step, kind, key, old_value, new_value) VALUES(0, 1, 'error', '', '', "
                             "char(27) || '[2J')")
        for arguments in (("report", run), ("report", run, "--all"), ("sql", run, "SELECT * FROM v_op_run"), ("tail", run),
                          ("sql", run, "SELECT name FROM plan_op"), ("sql", run, "SELECT nothing FROM \x1b[2J")):
            with self.subTest(arguments=arguments):
                done = self.run_program(APP, *arguments, check=False)
                self.assertFalse(re.search(r"[\x00-\x08\x0b-\x1f\x7f-\x9f]", done.stdout + done.stderr))
        self.assertIn("mine", self.run_program(APP, "report", run).stdout)
        self.assertIn("\x1b", json.loads(self.run_program(APP, "sql", run, "SELECT name FROM plan_op", "--json").stdout)[0]["name"])


if __name__ == "__main__":
    unittest.main()
