"""Whole runs, as a user starts them: train, report, sql, control, kill."""

import contextlib
import json
import os
import re
import sqlite3
import subprocess
import time
import unittest

from programs import APP, INTERRUPTED, ROOT, TIMEOUT_S, TRAIN, Control, ProgramTest, interrupt, is_steerable

STEP_KEYS = {"step", "rank", "step_ns", "compute_ns", "communication_ns", "copy_ns", "overlap_ns", "exposed_ns",
             "exposed_copy_ns", "idle_ns", "slot_wait_ns", "tokens", "loss", "grad_norm"}


class ReportTest(ProgramTest):
    def assert_tiles(self, report):
        for row in report["steps"]:
            self.assertLessEqual(STEP_KEYS, set(row))
            self.assertEqual(row["compute_ns"] + row["exposed_ns"] + row["exposed_copy_ns"] + row["idle_ns"], row["step_ns"])
            self.assertEqual(row["communication_ns"], row["overlap_ns"] + row["exposed_ns"])
            self.assertGreater(row["compute_ns"], 0)

    def test_a_finished_run_has_every_step_of_every_rank(self):
        run, _ = self.train("a", "train.steps=5", ranks=3)
        report = self.report(run)
        self.assertEqual(report["state"], "finished")
        self.assertEqual({(row["rank"], row["step"]) for row in report["steps"]}, {(r, s) for r in range(3) for s in range(5)})
        self.assert_tiles(report)
        self.assertEqual([row["rank"] for row in report["memory"]], [0, 1, 2])
        for row in report["memory"]:
            self.assertEqual(row["peak_bytes"], sum(row["by_category"].values()))
        self.assertTrue(all(count == 0 for count in report["dropped"].values()), report["dropped"])
        self.assertEqual(report["truth"], "measured")

    def test_printed_steps_count_from_0_as_everywhere(self):
        _, done = self.train("a", "train.steps=3")
        self.assertEqual(re.findall(r"^step (\d+) \((\d+) of 3\)", done.stdout, re.M), [("0", "1"), ("1", "2"), ("2", "3")])

    def test_the_emulated_link_is_called_emulated(self):
        run, _ = self.train("a", "train.steps=3", "transport=emulated", "link.bandwidth=100MB/s")
        self.assertEqual(self.report(run)["truth"], "emulated")
        self.assertIn("emulated", self.run_program(APP, "report", run).stdout.lower())

    def test_sql_is_read_only_and_answers_with_the_views(self):
        run, _ = self.train("a", "train.steps=4")
        rows = self.sql(run, "SELECT count(*) AS n FROM step")
        self.assertEqual(rows, [{"n": 8}])
        # Columns of one name are all there; a name that one has itself is kept for it.
        rows = self.sql(run, "SELECT a.rank, b.rank, a.step AS rank_3, 7 AS rank FROM step a JOIN step b ON b.step = a.step "
                             "WHERE a.rank = 0 AND b.rank = 1 AND a.step = 3")
        self.assertEqual(rows, [{"rank": 0, "rank_2": 1, "rank_3": 3, "rank_4": 7}])
        done = self.run_program(APP, "sql", run, "DELETE FROM step", check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertEqual(len(self.report(run)["steps"]), 8)

    def test_views_and_report_agree(self):
        run, _ = self.train("a", "train.steps=4", "transport=emulated", "link.bandwidth=20MB/s")
        rows = self.sql(run, "SELECT rank, step, exposed_ms, step_ms FROM v_step")
        by_key = {(row["rank"], row["step"]): row for row in rows}
        steps = self.report(run)["steps"]
        self.assertEqual({(row["rank"], row["step"]) for row in steps}, set(by_key))
        self.assertEqual(len(steps), 4 * len({row["rank"] for row in steps}))
        for row in steps:
            view = by_key[row["rank"], row["step"]]
            self.assertAlmostEqual(view["exposed_ms"], row["exposed_ns"] / 1e6, places=3)
            self.assertAlmostEqual(view["step_ms"], row["step_ns"] / 1e6, places=3)

    def test_every_documented_query_answers_in_plain_sqlite3(self):
        run, _ = self.train("a", "train.steps=4", "transport=emulated", "link.bandwidth=5MB/s", "prefetch.backward=none")
        trace, = run.glob("trace-*.db")
        queries = re.findall(r'^sqlite3 .*? "(.*)"$', (ROOT / "docs" / "trace.md").read_text(), re.M)
        self.assertEqual(len(queries), 3)
        with contextlib.closing(sqlite3.connect(f"{trace.as_uri()}?mode=ro", uri=True)) as database:
            database.row_factory = sqlite3.Row
            exposed, stalls, peaks = (database.execute(query).fetchall() for query in queries)
        report = self.report(run)
        self.assertEqual([(row["rank"], row["step"], round(row["exposed_ms"] * 1e6)) for row in exposed],
                         [(row["rank"], row["step"], row["exposed_ns"]) for row in
                          sorted(report["steps"], key=lambda row: (row["step"], row["rank"]))])
        self.assertGreater(len(stalls), 0)
        self.assertTrue(all(row["collective"].endswith("all_gather") and row["waited_ms"] > 0 for row in stalls))
        self.assertEqual({row["rank"]: round(row["peak_mb"] * 1e6) for row in peaks if row["category"] == "total"},
                         {row["rank"]: row["peak_bytes"] for row in report["memory"]})
        others = [(path.name, query) for path in [ROOT / "README.md", ROOT / "ARCHITECTURE.md", *sorted((ROOT / "docs").glob("*.md"))]
                  for query in re.findall(r'"(SELECT [^"]*)"', path.read_text()) if "..." not in query and query not in queries]
        self.assertGreater(len(others), 4)
        for document, query in others:
            with self.subTest(document=document, query=query):
                self.sql(run, query)

    def test_a_run_measures_what_recording_costs_and_says_which_steps_are_missing(self):
        run, _ = self.train("a", "train.steps=14", "record.measure_overhead=2", ranks=2)
        report = self.report(run)
        self.assertEqual(report["overhead"]["left_out_steps"], [4, 9])
        self.assertEqual(report["overhead"]["rounds"], 2)
        self.assertEqual({row["step"] for row in report["steps"]}, set(range(14)) - {4, 9})
        self.assert_tiles(report)
        left_out = [marker["step"] for marker in report["markers"] if "is not recorded" in marker["new_value"]]
        self.assertEqual(left_out, [4, 9])
        overhead, = self.sql(run, "SELECT * FROM v_overhead")
        self.assertAlmostEqual(overhead["ratio"], report["overhead"]["ratio"])
        self.assertAlmostEqual(overhead["not_recorded_ms"], report["overhead"]["unrecorded_ns"] / 1e6, places=5)
        self.assertLessEqual(overhead["lowest"], overhead["highest"])
        for table in ("op_run", "memory_event", "collective"):
            join = "JOIN op_run r ON r.id = t.op_run" if table == "collective" else ""
            rows = self.sql(run, f"SELECT DISTINCT t.step AS step FROM {table} t {join} WHERE t.step >= 0")
            self.assertEqual({row["step"] for row in rows}, set(range(14)) - {4, 9}, table)
        self.assertIn("not recorded for that: steps 4, 9\n", self.run_program(APP, "report", run).stdout)

    def test_the_trace_says_how_many_cores_the_ranks_share(self):
        cores = len(os.sched_getaffinity(0))
        for name, ranks in (("few", 1), ("many", min(cores + 1, 64))):
            run, _ = self.train(name, "train.steps=1", ranks=ranks)
            rows = self.sql(run, "SELECT key, value FROM meta")
            meta = {row["key"]: row["value"] for row in rows}
            self.assertEqual(int(meta["num_cores"]), cores)
            self.assertEqual(meta["contended"], "true" if ranks > cores else "false")


class PauseTest(ProgramTest):
    """A pause is time between steps: steps and pauses of a rank follow one another without a gap."""

    def assert_pauses_lie_between_steps(self, run, paused_s):
        """Returns the causes of the first rank's pauses."""
        rows = self.sql(run, "SELECT rank, start_ns, end_ns, step, '' AS cause FROM step UNION ALL "
                             "SELECT rank, start_ns, end_ns, step, cause FROM pause ORDER BY rank, start_ns, end_ns")
        for before, after in zip(rows, rows[1:]):
            if before["rank"] == after["rank"]:
                self.assertEqual(before["end_ns"], after["start_ns"], (before, after))
        paused = [row for row in rows if row["cause"] == "user"]
        longest = max(row["end_ns"] - row["start_ns"] for row in rows if not row["cause"])
        for rank in (0, 1):
            ns = sum(row["end_ns"] - row["start_ns"] for row in paused if row["rank"] == rank)
            self.assertGreaterEqual(ns, paused_s * 1e9)
            self.assertLess(longest, ns)
        for row in self.sql(run, "SELECT * FROM v_step"):
            parts = row["compute_ms"] + row["exposed_ms"] + row["exposed_copy_ms"] + row["idle_ms"]
            self.assertAlmostEqual(parts, row["step_ms"], places=6)
        return [row["cause"] for row in rows if row["rank"] == 0 and row["cause"]]

    def test_no_step_contains_a_pause_whatever_made_it(self):
        run, process = self.start_training("a", "train.steps=1000000")
        self.wait_for_steps(run, 2)
        control = Control(run)
        self.addCleanup(control.close)
        def status():
            return control.ask(get="status")["status"]

        for _ in range(2):
            self.assertTrue(control.ask(do="pause")["ok"])
            self.wait_for(lambda: status()["state"] == "paused", "pause")
            time.sleep(1)
            step = status()["step"]
            self.assertTrue(control.ask(do="step")["ok"])
            self.wait_for(lambda: status()["step"] == step + 1, "one step")
            time.sleep(1)
            self.assertTrue(control.ask(do="resume")["ok"])
            self.wait_for(lambda: status()["step"] > step + 3, "resume")
        for request in ({"do": "checkpoint"}, {"set": {"prefetch.backward": "none"}}):
            answer = control.ask(**request)
            self.assertTrue(answer["ok"], answer)
            self.wait_for(lambda: status()["step"] > answer["applies_at"] + 2, request)
        interrupt(process)
        process.communicate(timeout=60)
        causes = self.assert_pauses_lie_between_steps(run, 4)
        self.assertEqual(causes, ["user"] * 4 + ["checkpoint", "change"])
        report = self.report(run)
        self.assertEqual([pause["cause"] for pause in report["pauses"]], causes)
        self.assertIn("between steps, in none of them: 4 pauses of ", self.run_program(APP, "report", run).stdout)


    def test_what_comes_after_the_last_step_is_of_a_change_before_it(self):
        run, process = self.start_training("a", "train.steps=40", "checkpoint.every=1000000", "link.bandwidth=1MB/s")
        self.wait_for(lambda: is_steerable(run), "control socket")
        control = Control(run)
        self.addCleanup(control.close)
        def status():
            return control.ask(get="status")["status"]

        self.assertTrue(control.ask(do="pause")["ok"])
        self.wait_for(lambda: status()["state"] == "paused", "pause")
        for step in range(status()["step"], 39):
            self.assertTrue(control.ask(do="step")["ok"])
            self.wait_for(lambda: status()["step"] == step + 1, "one step")
        answer = control.ask(set={"prefetch.backward": "none"})
        self.assertEqual((answer["ok"], answer["applies_at"]), (True, 39))
        self.assertTrue(control.ask(do="resume")["ok"])
        output, _ = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0, output)
        index = json.loads((run / "checkpoints" / "step-40" / "index.json").read_text())
        self.assertEqual(index["config"]["prefetch.backward"], "none")


class LiveTest(ProgramTest):
    def test_report_works_during_the_run_and_interrupt_finishes_it(self):
        run, process = self.start_training("a", "train.steps=1000000")
        self.assertEqual(self.wait_for_steps(run, 3)["state"], "live")
        interrupt(process)
        output, _ = process.communicate(timeout=60)
        self.assertEqual(process.returncode, INTERRUPTED, output)
        self.assertIn(str(run), output)
        report = self.report(run)
        self.assertEqual(report["state"], "finished")
        last = max(row["step"] for row in report["steps"])
        self.assertEqual(len(report["steps"]), 2 * (last + 1))

    def test_a_killed_run_opens_and_says_cut(self):
        run, process = self.start_training("a", "train.steps=1000000")
        self.wait_for_steps(run, 3)
        process.kill()
        process.wait()
        report = self.report(run)
        self.assertEqual(report["state"], "cut")
        self.assertGreaterEqual(report["steps"][-1]["step"], 3)

    def test_a_knob_turned_through_the_socket_arrives_on_all_ranks_at_the_step_named(self):
        run, process = self.start_training("a", "train.steps=1000000", "prefetch.backward=pre")
        self.wait_for_steps(run, 2)
        control = Control(run)
        self.addCleanup(control.close)
        self.assertEqual(control.hello["shardscope"], 1)
        answer = control.ask(set={"prefetch.backward": "none"})
        self.assertTrue(answer["ok"], answer)
        step = answer["applies_at"]
        self.wait_for_steps(run, step + 2)
        schedules = self.sql(run, "SELECT rank, min(step) AS first FROM step WHERE schedule = (SELECT max(schedule) FROM step) "
                                  "GROUP BY rank")
        self.assertEqual([row["first"] for row in schedules], [step, step])
        markers = self.sql(run, "SELECT * FROM marker WHERE kind='change'")
        self.assertEqual([(m["step"], m["key"], m["old_value"], m["new_value"]) for m in markers],
                         [(step, "prefetch.backward", "pre", "none")])
        interrupt(process)
        process.communicate(timeout=60)

    def test_a_refused_change_changes_nothing(self):
        run, _ = self.start_training("a", "train.steps=1000000")
        self.wait_for_steps(run, 1)
        control = Control(run)
        self.addCleanup(control.close)
        before = control.ask(get="status")
        answer = control.ask(set={"prefetch.forward": "1", "prefetch.backwrd": "none"})
        self.assertFalse(answer["ok"])
        self.assertIn("prefetch.backward", answer["error"])
        after = control.ask(get="status")
        self.assertEqual(before["status"]["values"]["prefetch.forward"], after["status"]["values"]["prefetch.forward"])

    def test_pause_step_resume_stop(self):
        run, process = self.start_training("a", "train.steps=1000000")
        self.wait_for_steps(run, 1)
        control = Control(run)
        self.addCleanup(control.close)
        self.assertTrue(control.ask(do="pause")["ok"])
        self.wait_for(lambda: control.ask(get="status")["status"]["state"] == "paused", "pause")
        step = control.ask(get="status")["status"]["step"]
        self.assertTrue(control.ask(do="step")["ok"])
        self.wait_for(lambda: control.ask(get="status")["status"]["step"] == step + 1, "one step")
        self.assertEqual(control.ask(get="status")["status"]["state"], "paused")
        self.assertTrue(control.ask(do="resume")["ok"])
        self.wait_for(lambda: control.ask(get="status")["status"]["step"] > step + 2, "resume")
        self.assertTrue(control.ask(do="stop")["ok"])
        process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0)
        self.assertEqual(self.report(run)["state"], "finished")


class BadInputTest(ProgramTest):
    CASES = [
        (["prefetch.bakward=none"], "prefetch.backward"),
        (["train.steps=many"], "train.steps"),
        (["train.steps=0"], "train.steps"),
        (["prefetch.backward=sideways"], "pre"),
        (["model.heads=5"], "model.heads"),
        (["link.bandwidth=fast"], "link.bandwidth"),
        (["=3"], "key=value"),
        (["data.path=/nonexistent/nothing.txt"], "/nonexistent/nothing.txt"),
        (["strategy=grad_op", "reshard_after_forward=true"], "reshard_after_forward"),
        (["transport=nccl"], "run.device=cuda"),
    ]

    def assert_refused(self, done, fragment, out):
        self.assertNotEqual(done.returncode, 0)
        errors = [line for line in done.stderr.splitlines() if line.strip()]
        self.assertEqual(len(errors), 1, done.stderr)
        self.assertIn(fragment, errors[0])
        self.assertFalse(out.exists())

    def test_each_bad_setting_gives_one_error_and_creates_nothing(self):
        for settings, fragment in self.CASES:
            with self.subTest(settings=settings):
                out = self.root / "never"
                self.assert_refused(self.run_program(*self.train_command(out, *settings), check=False), fragment, out)

    def test_rank_counts_out_of_range(self):
        for ranks in (0, -1, 10000):
            with self.subTest(ranks=ranks):
                out = self.root / "never"
                self.assert_refused(self.run_program(*self.train_command(out, ranks=ranks), check=False), "ranks", out)

    def test_an_empty_option_is_an_error_and_not_the_default(self):
        for option in ("--ranks", "--out", "--config", "--dump", "--losses"):
            with self.subTest(option=option):
                out = self.root / "never"
                command = self.train_command(out)
                if option in command:
                    command[command.index(option) + 1] = ""
                else:
                    command[1:1] = [option, ""]
                self.assert_refused(self.run_program(*command, check=False), option, out)

    def test_bad_usage_of_the_app_is_one_line(self):
        for arguments, remedy in ((["report"], "--help"), (["nonsense"], "--help"), (["plan", "--help-me"], "--help"),
                                  (["plan", "--ranks", "abc"], "from 1 to 64")):
            with self.subTest(arguments=arguments):
                self.assert_refused(self.run_program(APP, *arguments, check=False), remedy, self.root / "never")

    def test_what_may_not_be_read_is_not_called_missing_or_foreign(self):
        locked = self.root / "locked"
        locked.mkdir(mode=0o755)
        (locked / "data.txt").write_text(self.data.read_text())
        as_user = []
        if os.geteuid() == 0:  # root without its right to read everything
            os.chown(locked, 65534, 65534)
            as_user = ["setpriv", "--bounding-set=-dac_override,-dac_read_search", "--inh-caps=-all"]
        locked.chmod(0)
        self.addCleanup(locked.chmod, 0o755)
        out = self.root / "never"
        training = self.train_command(out, f"data.path={locked / 'data.txt'}")
        for command in (training, [APP, "report", locked], [APP, "report", locked / "run"]):
            with self.subTest(command=command):
                self.assert_refused(self.run_program(*as_user, *command, check=False), "ermission", out)
        self.assert_refused(self.run_program(*as_user, *self.train_command(locked / "run"), check=False), "ermission", out)

    def test_a_cut_off_trace_is_called_damaged(self):
        run, _ = self.train("a", "train.steps=4")
        trace, = run.glob("trace-*.db")
        trace.write_bytes(trace.read_bytes()[:40000])
        self.assert_refused(self.run_program(APP, "report", run, check=False), "damaged", self.root / "never")

    def test_empty_and_short_data(self):
        for text in ("", "tiny"):
            with self.subTest(text=text):
                self.data.write_text(text)
                out = self.root / "never"
                self.assert_refused(self.run_program(*self.train_command(out), check=False), str(self.data), out)

    def test_a_folder_with_a_run_in_it_is_left_alone(self):
        run, _ = self.train("a", "train.steps=2")
        before = {path.name: path.stat().st_mtime_ns for path in run.iterdir()}
        done = self.run_program(*self.train_command(run, "train.steps=2"), check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn(str(run), done.stderr)
        self.assertEqual(before, {path.name: path.stat().st_mtime_ns for path in run.iterdir()})

    def test_a_folder_with_what_a_run_would_write_is_left_alone(self):
        for name in ("log.txt", "schedules"):
            with self.subTest(name=name):
                theirs = self.root / f"theirs {name}"
                theirs.mkdir()
                (theirs / name).write_text("mine")
                done = self.run_program(*self.train_command(theirs, "train.steps=2"), check=False)
                self.assertEqual(done.returncode, 1)
                self.assertIn(name, done.stderr)
                self.assertEqual([(path.name, path.read_text()) for path in theirs.iterdir()], [(name, "mine")])

    def test_runs_that_start_in_the_same_second_get_folders_of_their_own(self):
        command = [str(part) for part in self.train_command(None, "train.steps=2")]
        runs = [subprocess.Popen(command, cwd=self.root, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) for _ in range(3)]
        outputs = [run.communicate(timeout=TIMEOUT_S)[0] for run in runs]
        self.assertEqual([run.returncode for run in runs], [0, 0, 0], outputs)
        folders = {re.search("^run: (.*)$", output, re.M).group(1) for output in outputs}
        self.assertEqual(len(folders), 3)
        for folder in folders:
            self.assertEqual(self.report(self.root / folder)["state"], "finished")

    def test_what_is_no_run_is_named(self):
        (self.root / "empty").mkdir()
        fake = self.root / "fake.db"
        fake.write_text("not a database, but long enough to be looked at as one " * 50)
        for command in ("report", "sql", "shot"):
            for path in (self.root / "empty", fake, self.root / "missing"):
                with self.subTest(command=command, path=path.name):
                    extra = {"sql": ["SELECT 1"], "shot": ["-o", self.root / "x.png"]}.get(command, [])
                    done = self.run_program(APP, command, path, *extra, check=False)
                    self.assertNotEqual(done.returncode, 0)
                    self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
                    self.assertIn(path.name, done.stderr)
        self.assertFalse((self.root / "x.png").exists())

    def test_help_lists_every_key(self):
        text = self.run_program(TRAIN, "--help").stdout
        for key in ("prefetch.backward_depth", "link.bandwidth", "host.run_ahead", "record.on_error", "engine.compute_slots"):
            self.assertIn(key, text)


if __name__ == "__main__":
    unittest.main()
