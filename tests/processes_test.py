"""Ranks as processes over Gloo, started by the variables that torchrun sets: one run in one folder."""

import contextlib
import os
import sqlite3
import subprocess
import time
import unittest

from programs import Control, ProgramTest, free_port

ENDLESS = "train.steps=1000000"


class ProcessesTest(ProgramTest):
    def start(self, name, *settings, ranks=2, extra=(), environment=None, of_rank=None):
        """One process a rank; those of `of_rank` get settings of their own. Killed when the test ends."""
        out = self.root / name
        port = free_port()
        processes = []
        for rank in range(ranks):
            command = self.train_command(out, *settings, *(of_rank or {}).get(rank, ()), ranks=ranks) + list(extra)
            variables = {"RANK": rank, "WORLD_SIZE": ranks, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": ranks,
                         "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, **(environment or {})}
            processes.append(subprocess.Popen(
                [str(a) for a in command], env={**os.environ, **{k: str(v) for k, v in variables.items()}},
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
            self.addCleanup(self.end, processes[-1])
        return out, processes

    @staticmethod
    def end(process):
        if process.poll() is None:
            process.kill()
        process.wait()
        process.stdout.close()
        process.stderr.close()

    def finish(self, processes, code=0):
        """Waits for all; returns their error streams."""
        errors = []
        for rank, process in enumerate(processes):
            output, error = process.communicate(timeout=60)
            self.assertEqual(process.returncode, code, f"rank {rank}: {output[-1000:]} {error[-1000:]}")
            errors.append(error)
        return errors

    @staticmethod
    def sql(trace, query):
        """Of one process's finished trace; the app would show the whole run."""
        with contextlib.closing(sqlite3.connect(f"{trace.as_uri()}?mode=ro", uri=True)) as database:
            database.row_factory = sqlite3.Row
            return [dict(row) for row in database.execute(query)]

    def test_processes_and_threads_compute_the_same_and_the_folder_is_one_run(self):
        settings = ("train.steps=4", "train.micro_batches=2")
        losses = {name: self.root / f"{name}.losses" for name in ("processes", "gloo", "shared")}
        run, processes = self.start("run", *settings, ranks=3, extra=("--losses", losses["processes"]))
        self.assertEqual(self.finish(processes), ["", "", ""])
        self.train("gloo", *settings, "transport=gloo", ranks=3, extra=("--losses", losses["gloo"]))
        self.train("shared", *settings, ranks=3, extra=("--losses", losses["shared"]))
        expected = losses["shared"].read_text()
        self.assertEqual(len(expected.splitlines()), 4)
        for name in ("processes", "gloo"):
            self.assertEqual(losses[name].read_text(), expected)

        report = self.report(run)
        self.assertEqual(report["state"], "finished")
        self.assertEqual({(row["rank"], row["step"]) for row in report["steps"]}, {(r, s) for r in range(3) for s in range(4)})
        traces = sorted(run.glob("trace-*.db"))
        self.assertEqual(len(traces), 3)
        query = "SELECT communicator, sequence, kind, payload_bytes, group_size, transport, truth FROM collective ORDER BY 1, 2"
        collectives = [self.sql(trace, query) for trace in traces]
        self.assertGreater(len(collectives[0]), 4 * 5)
        self.assertEqual(collectives[0], collectives[1])
        self.assertEqual(collectives[0], collectives[2])
        self.assertEqual({(row["transport"], row["truth"], row["group_size"]) for row in collectives[0]}, {("gloo", "measured", 3)})
        ranks = [self.sql(trace, "SELECT DISTINCT rank FROM op_run") for trace in traces]
        self.assertEqual(sorted(row["rank"] for rows in ranks for row in rows), [0, 1, 2])
        ids = {self.sql(trace, "SELECT value FROM meta WHERE key='run_id'")[0]["value"] for trace in traces}
        self.assertEqual(len(ids), 1)

    def test_every_process_says_what_it_could_not_have(self):
        run, processes = self.start("run", "train.steps=2", "run.device=auto", environment={"CUDA_VISIBLE_DEVICES": "-1"})
        outputs = [process.communicate(timeout=60)[0] for process in processes]
        self.assertEqual([process.returncode for process in processes], [0, 0])
        self.assertEqual(["device: cpu (" in output for output in outputs], [True, False])  # said once, by rank 0
        for trace in sorted(run.glob("trace-*.db")):
            rows = self.sql(trace, "SELECT status, reason FROM capability WHERE source = 'device'")
            self.assertEqual([row["status"] for row in rows], ["partial"], trace)
            self.assertIn("run.device=auto took cpu", rows[0]["reason"])

    def test_knobs_pause_and_stop_reach_all_processes(self):
        run, processes = self.start("run", ENDLESS, "prefetch.backward=pre", "comm.timeout=1s")
        self.wait_for_steps(run, 2)
        control = Control(run)
        self.addCleanup(control.close)
        answer = control.ask(set={"prefetch.backward": "none", "preset": "fsdp1"})
        self.assertTrue(answer["ok"], answer)
        self.wait_for_steps(run, answer["applies_at"] + 2)
        self.assertTrue(control.ask(do="pause")["ok"])
        self.wait_for(lambda: control.ask(get="status")["status"]["state"] == "paused", "pause")
        time.sleep(1.5)  # longer than comm.timeout: those who wait for rank 0 know that it lives
        step = control.ask(get="status")["status"]["step"]
        self.assertTrue(control.ask(do="step")["ok"])
        self.wait_for(lambda: control.ask(get="status")["status"]["step"] == step + 1, "one step")
        self.assertTrue(control.ask(do="checkpoint")["ok"])
        self.assertTrue(control.ask(do="resume")["ok"])
        self.wait_for(lambda: control.ask(get="status")["status"]["step"] > step + 2, "resume")
        self.assertTrue(control.ask(do="stop")["ok"])
        self.assertEqual(self.finish(processes), ["", ""])
        first_steps = []
        markers = []
        for trace in run.glob("trace-*.db"):
            first_steps += self.sql(trace, "SELECT rank, min(step) AS first, max(step) AS last FROM step "
                                           "WHERE schedule = (SELECT max(schedule) FROM step) GROUP BY rank")
            markers += self.sql(trace, "SELECT kind FROM marker WHERE kind != 'change'")
            # Each process records its own rank's pauses, and its steps contain none of them.
            pauses = self.sql(trace, "SELECT cause, start_ns, end_ns FROM pause ORDER BY start_ns")
            self.assertEqual([row["cause"] for row in pauses], ["change", "user", "user"])
            self.assertGreater(pauses[1]["end_ns"] - pauses[1]["start_ns"], 1.5e9)
            steps = self.sql(trace, "SELECT start_ns, end_ns FROM step")
            for pause in pauses:
                self.assertIn(pause["start_ns"], {row["end_ns"] for row in steps})
                self.assertFalse([row for row in steps if row["start_ns"] < pause["end_ns"] and row["end_ns"] > pause["start_ns"]])
        first_steps.sort(key=lambda row: row["rank"])
        self.assertEqual([(row["rank"], row["first"]) for row in first_steps],
                         [(0, answer["applies_at"]), (1, answer["applies_at"])])
        self.assertEqual(first_steps[0]["last"], first_steps[1]["last"])
        # Each once, although two processes recorded; a single step resumes and pauses again.
        self.assertEqual(sorted(row["kind"] for row in markers), ["checkpoint", "pause", "pause", "resume", "resume", "stop"])
        self.assertEqual(len(list((run / "checkpoints").glob("*/rank-*-of-2.safetensors"))), 2)

    def test_a_process_told_to_stop_stops_all(self):
        run, processes = self.start("run", ENDLESS)
        self.wait_for_steps(run, 2)
        processes[1].terminate()
        self.assertEqual(self.finish(processes), ["", ""])
        report = self.report(run)
        self.assertEqual(report["state"], "finished")
        last = max(row["step"] for row in report["steps"])
        self.assertEqual(len(report["steps"]), 2 * (last + 1))

    def test_a_killed_process_ends_the_others_which_name_it(self):
        for killed in (0, 1):
            with self.subTest(killed=killed):
                run, processes = self.start(f"run{killed}", ENDLESS, "comm.timeout=5s")
                self.wait_for_steps(run, 2)
                processes[killed].kill()
                other = processes[1 - killed]
                _, error = other.communicate(timeout=30)
                self.assertEqual(other.returncode, 1)
                lines = error.splitlines()
                self.assertEqual(len(lines), 1, error)
                self.assertIn(f"rank {killed} is gone", lines[0])
                self.assertIn(f"rank {1 - killed} waits for it in", lines[0])
                self.assertIn(f"rank {killed} is gone", (run / "log.txt").read_text())

    def test_one_that_fails_tells_the_others_why(self):
        taken = self.root / "taken"
        taken.mkdir()
        (taken / "run.toml").write_text("")
        _, processes = self.start("taken", "train.steps=2")
        for error in self.finish(processes, code=1):
            self.assertIn("has a run in it already", error)
            self.assertEqual(len(error.splitlines()), 1, error)
        out, processes = self.start("differ", "train.steps=2", of_rank={1: ["train.batch=3"]})
        for error in self.finish(processes, code=1):
            self.assertIn("rank 1 was given train.batch=3, rank 0 train.batch=2", error)

    def test_what_does_not_go_with_a_launcher_is_refused(self):
        for settings, environment, fragment in (
                (["transport=shared_memory"], {}, "transport=shared_memory is for ranks that are threads"),
                (["link.bandwidth=1MB/s"], {}, "transport=emulated is for ranks that are threads"),
                ([], {"WORLD_SIZE": 5}, "run.ranks=1 contradicts the launcher's WORLD_SIZE=5"),
                ([], {"MASTER_PORT": ""}, "MASTER_PORT is not set")):
            with self.subTest(fragment=fragment):
                out, processes = self.start("never", *settings, ranks=1, environment=environment)
                error, = self.finish(processes, code=1)
                self.assertIn(fragment, error)
                self.assertEqual(len(error.splitlines()), 1, error)
                self.assertFalse(out.exists())


if __name__ == "__main__":
    unittest.main()
