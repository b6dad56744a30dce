"""Disks that are full, slow, read-only or gone: the training goes on or stops by record.on_error, and the loss is said."""

import json
import os
import re
import resource
import shutil
import subprocess
import time

from programs import APP, BIN, Control, INTERRUPTED, ProgramTest, TIMEOUT_S, TRAIN, interrupt, is_steerable

SHIM = BIN.parent / "tests" / "libdisk_shim.so"


class DiskTest(ProgramTest):
    def setUp(self):
        super().setUp()
        if "log_path" in os.environ.get("ASAN_OPTIONS", ""):
            self.skipTest("the preloaded disk stands in front of the address sanitizer's own log, and both wait for each other")
        self.run_folder = self.root / "run"
        self.control_file = self.root / "disk"
        self.disk("")
        self.shim = {"LD_PRELOAD": str(SHIM), "DISK_SHIM_FOLDER": str(self.run_folder), "DISK_SHIM_CONTROL": str(self.control_file)}
        self.assertTrue(SHIM.exists(), SHIM)

    def disk(self, state):
        self.control_file.write_text(state)

    def start(self, *settings):
        _, process = self.start_training(self.run_folder.name, "train.steps=1000000", *settings, environment=self.shim)
        self.wait_for(lambda: is_steerable(self.run_folder), "the run")
        self.control = Control(self.run_folder)
        self.addCleanup(self.control.close)
        self.wait_for_more_steps(5)
        return process

    def step(self):
        return self.control.ask(get="status")["status"]["step"]

    def wait_for_more_steps(self, steps):
        start = self.step()
        self.wait_for(lambda: self.step() >= start + steps, f"{steps} more steps")

    def end(self, process, code=INTERRUPTED):
        output, _ = process.communicate(timeout=TIMEOUT_S)
        self.assertEqual(process.returncode, code, output)
        return output

    def app(self, command, *arguments, shim=True):
        environment = {**os.environ, **(self.shim if shim else {})}
        done = subprocess.run([str(APP), command, str(self.run_folder), *arguments], env=environment, capture_output=True, text=True,
                              timeout=TIMEOUT_S)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def count(self, sql):
        return json.loads(self.app("sql", f"SELECT ({sql}) AS n", "--json"))[0]["n"]

    def assert_every_record_is_there_or_counted(self, report):
        ops = self.count("SELECT max(n) FROM (SELECT count(*) AS n FROM op_run GROUP BY rank, step)")
        steps = self.count("SELECT max(step) + 1 FROM step")
        counters = self.count("SELECT count(DISTINCT track || ' ' || name_string) FROM counter")  # each once a step
        there = self.count("SELECT (SELECT count(*) FROM op_run) + (SELECT count(*) FROM step) + (SELECT count(*) FROM counter)")
        self.assertEqual(there + report["dropped"]["engine"], steps * (2 * (ops + 1) + counters))

    def test_a_disk_that_is_full_for_a_while_costs_records_that_are_counted(self):
        process = self.start()
        self.disk("full")
        self.wait_for_more_steps(50)
        self.disk("")
        self.wait_for_more_steps(50)
        interrupt(process)
        output = self.end(process)
        self.assertIn("full", output)
        report = json.loads(self.app("report", "--json"))
        self.assertEqual(report["state"], "finished")
        self.assertGreater(report["dropped"]["engine"], 0)
        self.assertIn("the trace has holes", self.app("report"))
        self.assert_every_record_is_there_or_counted(report)
        self.assertIn("writing the trace failed", self.app("sql", "SELECT reason FROM v_dropped"))

    def test_a_disk_that_stays_full_leaves_the_count_of_what_it_cost(self):
        steps = 300  # some 8 MB
        for room in range(1_200_000, 3_600_000, 300_000):  # the last page that fits is another one each time
            with self.subTest(room=room):
                shutil.rmtree(self.run_folder, ignore_errors=True)
                self.disk(f"room {room}")
                command = [str(part) for part in self.train_command(self.run_folder, f"train.steps={steps}")]
                done = subprocess.run(command, env={**os.environ, **self.shim}, capture_output=True, text=True, timeout=TIMEOUT_S)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertRegex(done.stdout, r"the trace is not whole \([1-9][0-9]* records lost\)")
                self.disk("")
                report = json.loads(self.app("report", "--json", shim=False))
                rows = self.count("SELECT (SELECT count(*) FROM op_run) + (SELECT count(*) FROM step) + (SELECT count(*) FROM counter)")
                of_a_step = self.count("SELECT (SELECT count(*) FROM op_run WHERE step = 1) + (SELECT count(*) FROM step WHERE step = 1)")
                counters = self.count("SELECT count(DISTINCT track || ' ' || name_string) FROM counter")
                self.assertEqual(rows + report["dropped"]["engine"], steps * (of_a_step + counters))

    def test_a_knob_or_a_checkpoint_on_a_full_disk_costs_no_training(self):
        process = self.start()
        self.disk("full")
        self.assertTrue(self.control.ask(set={"prefetch.backward": "none"})["ok"])
        self.assertTrue(self.control.ask(do="checkpoint")["ok"])
        self.wait_for_more_steps(20)
        self.disk("")
        self.wait_for_more_steps(20)
        self.assertTrue(self.control.ask(do="checkpoint")["ok"])
        self.wait_for_more_steps(5)
        interrupt(process)
        output = self.end(process)
        self.assertIn("schedules/1.txt: No space left on device", output)
        self.assertIn("no checkpoint before step", output)
        report = json.loads(self.app("report", "--json"))
        lost, = [row for row in report["sources"] if row["source"] == "schedules"]
        self.assertEqual((lost["status"], lost["dropped"]), ("partial", 1))
        self.assertIn("1.txt", lost["reason"])
        made, = [row["new_value"] for row in report["markers"] if row["kind"] == "checkpoint"]
        self.assertEqual([str(path) for path in (self.run_folder / "checkpoints").iterdir()], [made])

    def test_a_checkpoint_of_the_end_that_is_lost_is_an_error(self):
        checkpoints = self.root / "checkpoints"
        checkpoints.mkdir()
        self.disk("room 20000")
        for settings, code in (["checkpoint.every=2"], 1), (["checkpoint.every=0"], 0):
            with self.subTest(settings):
                shutil.rmtree(self.run_folder, ignore_errors=True)
                command = self.train_command(self.run_folder, "train.steps=4", f"checkpoint.path={checkpoints}", *settings)
                done = subprocess.run([str(part) for part in command], env={**os.environ, **self.shim, "DISK_SHIM_FOLDER": str(checkpoints)},
                                      capture_output=True, text=True, timeout=TIMEOUT_S)
                self.assertEqual(done.returncode, code, done.stdout)
                self.assertEqual(len(done.stderr.strip().splitlines()), code, done.stderr)
                if code:
                    self.assertIn("its result is lost: no checkpoint before step 4", done.stderr)
                    self.assertIn("No space left on device", done.stderr)
                    self.assertIn("and train again", done.stderr)  # there is no earlier one
                    self.assertIn("no checkpoint before step 2", done.stdout)  # which is said, and no error
                report = json.loads(self.app("report", "--json", shim=False))
                self.assertEqual((report["state"], report["steps"][-1]["step"]), ("failed" if code else "finished", 3))

    def test_on_error_stop_ends_the_training_and_what_was_written_can_be_read(self):
        process = self.start("record.on_error=stop")
        self.wait_for_steps(self.run_folder, 4)
        self.disk("full")
        output = self.end(process, code=1)
        self.assertIn("record.on_error=stop", output)
        self.assertIn("full", output)
        self.assertTrue(list(self.run_folder.glob("*.live.db")))
        self.disk("")  # SQLite cannot even read a live file where it has no room for its index
        report = json.loads(self.app("report", "--json"))
        self.assertGreaterEqual(report["steps"][-1]["step"], 4)
        self.assertEqual(report["state"], "cut")
        self.assertFalse(list(self.run_folder.glob("*.live.db")))

    def test_a_disk_that_becomes_read_only(self):
        process = self.start()
        self.wait_for_steps(self.run_folder, 4)
        checkpoints = self.run_folder / "checkpoints"
        self.assertTrue(self.control.ask(do="checkpoint")["ok"])
        index, = self.wait_for(lambda: list(checkpoints.glob("step-*[0-9]/index.json")), "a checkpoint")
        earlier = {path.name: path.read_bytes() for path in index.parent.iterdir()}
        self.disk("read-only")
        self.assertTrue(self.control.ask(do="checkpoint")["ok"])
        self.wait_for_more_steps(50)
        interrupt(process)
        output = self.end(process)
        self.assertIn("training goes on", output)
        self.assertRegex(output, r"no checkpoint before step \d+: 0 of 2 ranks could be written \(rank 0: .*Read-only file system")
        self.assertEqual(list(checkpoints.iterdir()), [index.parent])
        self.assertEqual({path.name: path.read_bytes() for path in index.parent.iterdir()}, earlier)
        report = json.loads(self.app("report", "--json"))
        self.assertEqual(report["state"], "cut")
        self.assertTrue(list(self.run_folder.glob("*.live.db")))
        self.disk("")
        self.assertEqual(json.loads(self.app("report", "--json"))["steps"], report["steps"])
        step = int(index.parent.name.removeprefix("step-"))
        done = self.run_program(TRAIN, "--resume", self.run_folder, "--out", self.root / "next", "--set", f"train.steps={step + 1}")
        self.assertIn(f"step-{step} with step {step}\n", done.stdout)

    def test_a_run_folder_that_is_removed(self):
        for on_error, code in (("continue", INTERRUPTED), ("stop", 1)):
            with self.subTest(on_error=on_error):
                process = self.start(f"record.on_error={on_error}")
                follower = subprocess.Popen([str(APP), "tail", str(self.run_folder)], stdout=subprocess.PIPE, text=True)
                self.assertIn("step", follower.stdout.readline())
                shutil.rmtree(self.run_folder)
                followed, _ = follower.communicate(timeout=TIMEOUT_S)
                self.assertIn("its folder is gone", followed.splitlines()[-1])
                if on_error == "continue":
                    time.sleep(1.5)  # the file is looked for once a second
                    self.wait_for_more_steps(20)
                    interrupt(process)
                output = self.end(process, code)
                self.assertIn("was removed", output)
                self.assertFalse(self.run_folder.exists())

    def test_what_is_gone_at_the_end_is_not_named_as_if_it_were_there(self):
        moved = self.root / "moved"
        process = self.start()
        self.wait_for_steps(self.run_folder, 4)
        self.run_folder.rename(moved)
        self.addCleanup(shutil.rmtree, moved, ignore_errors=True)
        time.sleep(1.5)  # the file is looked for once a second
        interrupt(process)
        output = self.end(process)  # the training itself went well
        self.assertRegex(output, r"trace: .+ is gone: it was removed or moved")
        self.assertRegex(output, rf"run: {re.escape(str(self.run_folder))} is gone")
        done = subprocess.run([str(APP), "report", str(moved), "--json"], capture_output=True, text=True, timeout=TIMEOUT_S)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(json.loads(done.stdout)["state"], "cut")

    def test_a_trace_without_room_for_its_start_leaves_nothing_and_says_what_helps(self):
        def small_files():
            resource.setrlimit(resource.RLIMIT_FSIZE, (200 * 1024, 200 * 1024))

        for state, prepare, words in (("room 60000", None, "No space left on device: make room"), ("", small_files, "ulimit -f")):
            with self.subTest(words):
                self.disk(state)
                command = [str(part) for part in self.train_command(self.run_folder)]
                done = subprocess.run(command, env={**os.environ, **self.shim}, capture_output=True, text=True, timeout=TIMEOUT_S,
                                      preexec_fn=prepare)
                self.assertEqual(done.returncode, 1, done.stdout)
                self.assertIn(words, done.stderr)
                self.assertIn(str(self.run_folder), done.stderr)
                self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
                self.assertFalse(self.run_folder.exists())

    def test_memory_behind_a_hole_is_within_its_bound(self):
        process = self.start()
        for _ in range(3):
            self.disk("full")
            self.wait_for_more_steps(50)
            self.disk("")
            self.wait_for_more_steps(50)
        interrupt(process)
        self.end(process)
        report = json.loads(self.app("report", "--json"))
        self.assertGreater(report["dropped"]["memory"], 0)
        for schedule in report["schedules"]:
            self.assertLessEqual(schedule["peak_bytes"], schedule["executed_bound_bytes"])
        held = "SELECT sum(bytes) AS live FROM memory_event WHERE category = 'activation' GROUP BY rank"
        self.assertEqual(self.count(f"SELECT max(abs(live)) FROM ({held})"), 0)  # all is given back in each step

    def test_a_slow_disk_slows_nothing_and_loses_nothing_uncounted(self):
        process = self.start()
        self.disk("slow 30")
        self.wait_for_more_steps(100)
        self.disk("")
        interrupt(process)
        self.end(process)
        report = json.loads(self.app("report", "--json"))
        self.assertEqual(report["state"], "finished")
        self.assert_every_record_is_there_or_counted(report)

    def test_a_folder_that_cannot_be_written_to_is_named_before_the_training_starts(self):
        self.disk("read-only")
        command = [str(part) for part in self.train_command(self.run_folder)]
        done = subprocess.run(command, env={**os.environ, **self.shim}, capture_output=True, text=True, timeout=TIMEOUT_S)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(str(self.run_folder), done.stderr)
        self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
        self.assertFalse(self.run_folder.exists())
