"""Ranks as processes over Gloo, started by the variables that torchrun sets: one run in one folder."""

import contextlib
import os
import re
import signal
import socket
import sqlite3
import subprocess
import threading
import time
import unittest

import hugging_face
import llama_cases
from programs import BIN, Control, ProgramTest, free_port

ENDLESS = "train.steps=1000000"
SHIM = BIN.parent / "tests" / "libdisk_shim.so"


class LaunchedTest(ProgramTest):
    def start(self, name, *settings, ranks=2, extra=(), environment=None, of_rank=None, folders=None, started=None, port=None):
        """One process a rank, or of the ranks `started` alone, started in its folder of `folders`; those of `of_rank` get settings of their own.
        Killed when the test ends."""
        out = self.root / name
        port = port or free_port()
        processes = []
        for rank in range(ranks) if started is None else started:
            command = self.train_command(out, *settings, *(of_rank or {}).get(rank, ()), ranks=ranks) + list(extra)
            variables = {"RANK": rank, "WORLD_SIZE": ranks, "LOCAL_RANK": rank, "LOCAL_WORLD_SIZE": ranks,
                         "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port, **(environment or {})}
            processes.append(subprocess.Popen(
                [str(a) for a in command], env={**os.environ, **{k: str(v) for k, v in variables.items()}},
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, cwd=folders[rank] if folders else None))
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


class EvaluationInProcessesTest(LaunchedTest):
    def test_a_signal_to_any_process_ends_an_evaluation_in_all_between_two_batches(self):
        held_out = self.root / "held out.txt"
        held_out.write_text("pack my box with five dozen liquor jugs. " * 200_000)
        for rank in (0, 1):
            with self.subTest(rank=rank):
                run, processes = self.start(f"run{rank}", ENDLESS, f"eval.path={held_out}", "eval.every=1000")
                self.wait_for_batch(run)
                processes[rank].send_signal(signal.SIGINT)
                output, _ = processes[0].communicate(timeout=60)
                processes[1].communicate(timeout=60)
                self.assertEqual([process.returncode for process in processes], [128 + signal.SIGINT] * 2, output)
                self.assert_left(run, output)


class ProcessesTest(LaunchedTest):
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
        run, processes = self.start("run", ENDLESS, "prefetch.backward=pre", "comm.timeout=8s")
        self.wait_for_steps(run, 2)
        control = Control(run)
        self.addCleanup(control.close)
        answer = control.ask(set={"prefetch.backward": "none", "preset": "fsdp1"})
        self.assertTrue(answer["ok"], answer)
        self.wait_for_steps(run, answer["applies_at"] + 2)
        self.assertTrue(control.ask(do="pause")["ok"])
        self.wait_for(lambda: control.ask(get="status")["status"]["state"] == "paused", "pause")
        time.sleep(9)  # longer than comm.timeout: those who wait for rank 0 know that it lives
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
        errors = self.finish(processes, code=128 + signal.SIGTERM)  # it is the run that was ended
        self.assertEqual(errors[0], "")
        self.assertRegex(errors[1], r"\ASIGTERM: .*\n\Z")
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
        self.assertFalse(out.exists())  # the corrected command may name it again

    def test_relative_paths_of_processes_in_several_folders_are_refused(self):
        folders = [(self.root / name).resolve() for name in ("here", "there")]
        for folder in folders:
            folder.mkdir()
            (folder / "text.txt").write_text(self.data.read_text() + folder.name)
        out, processes = self.start("relative", "train.steps=2", "data.path=text.txt", folders=folders)
        for error in self.finish(processes, code=1):
            self.assertIn(f"rank 1 was given data.path={folders[1]}/text.txt, rank 0 data.path={folders[0]}/text.txt", error)
            self.assertIn("give absolute ones", error)
        # One path, and other data behind it in each process.
        _, processes = self.start("relative", "train.steps=2", "data.path=/proc/self/cwd/text.txt", folders=folders)
        for error in self.finish(processes, code=1):
            self.assertIn("rank 1 reads other data than rank 0", error)
        self.assertFalse(out.exists())
        _, processes = self.start("absolute", "train.steps=2", f"data.path={folders[0] / 'text.txt'}", folders=folders)
        self.finish(processes)

    def test_other_models_behind_one_path_are_refused(self):
        folders = [(self.root / name).resolve() for name in ("one", "two", "three")]
        config = {**llama_cases.CASES[0].config, "vocab_size": 256, "hidden_size": 24, "num_attention_heads": 3, "num_key_value_heads": 3}  # TINY's
        for folder in folders:
            folder.mkdir()
            hugging_face.write_folder(folder / "model", config if folder.name != "two" else {**config, "rope_theta": 123.0})
        weights = folders[2] / "model" / "model.safetensors"
        data = bytearray(weights.read_bytes())
        data[8 + int.from_bytes(data[:8], "little")] ^= 1  # of the first value
        weights.write_bytes(data)
        settings = ("train.steps=2", "model.path=/proc/self/cwd/model", "data.tokenizer=bytes", f"data.path={self.data}")
        for other, fragment in ((folders[1], "rank 1 has another model than rank 0"), (folders[2], "rank 1 reads other weights than rank 0")):
            out, processes = self.start(f"run {other.name}", *settings, folders=(folders[0], other))
            for error in self.finish(processes, code=1):
                self.assertIn(fragment, error)
                self.assertIn("model.path", error)
            self.assertEqual(out.exists(), other == folders[2])  # of other weights in the first step
        _, processes = self.start("same", *settings, folders=(folders[0], folders[0]))
        self.finish(processes)

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


@unittest.skipIf("ASAN_OPTIONS" in os.environ, "the preloaded disk stands in front of the sanitizer's own log, and a process starts slowly")
class ReadOnlyDiskTest(LaunchedTest):
    def test_rank_0_ends_at_once_and_tells_those_who_wait_for_it(self):
        disk, control = self.root / "disk", self.root / "control"
        disk.mkdir()
        control.write_text("read-only")
        self.assertTrue(SHIM.exists(), SHIM)
        shim = {"LD_PRELOAD": SHIM, "DISK_SHIM_FOLDER": disk, "DISK_SHIM_CONTROL": control}
        read_only = f"a file system that can only be read holds {disk}"
        for name, settings, extra, says in (("disk/run", (), (), f"--out {disk}/run: {read_only}; name a folder elsewhere"),
                                            ("run", (f"checkpoint.path={disk}/checkpoints",), (),
                                             f"cannot write checkpoints to {disk}/checkpoints: {read_only}; name another folder with checkpoint.path"),
                                            ("run", (), ("--losses", disk / "losses"), f"{disk}")):
            for others in ((), (1,)):
                with self.subTest(says=says, others=others):
                    # Long before comm.timeout, whether or not the other comes. That one waits already: rank 0 tells for a few seconds only.
                    port = free_port()
                    how = {"extra": extra, "environment": shim, "port": port}
                    arguments = (name, "train.steps=2", "comm.timeout=3000s", *settings)
                    _, waiting = self.start(*arguments, started=others, **how)
                    for process in waiting:
                        self.assertEqual(process.stderr.readline(), f"rank 1: waiting for rank 0 at 127.0.0.1:{port}\n")
                    out, processes = self.start(*arguments, started=(0,), **how)
                    for error in self.finish(processes + waiting, code=1):
                        self.assertIn(says, error)
                        self.assertEqual(len(error.splitlines()), 1, error)
                    self.assertFalse(out.exists())
                    self.assertEqual(list(disk.iterdir()), [])


@unittest.skipIf("ASAN_OPTIONS" in os.environ, "a process that starts under the sanitizer takes most of the time that ranks wait for each other")
class MeetingTest(LaunchedTest):
    """Processes that do not fit together, or whose port is another's: told within comm.timeout, by rank and variable."""

    TIMEOUT = "comm.timeout=7s"

    def start_ranks(self, *ranks, port=None):
        """A process for each (RANK, WORLD_SIZE); killed when the test ends."""
        port = port or free_port()
        started = []
        for number, (rank, size) in enumerate(ranks):
            command = self.train_command(self.root / "never", "train.steps=2", self.TIMEOUT, ranks=size)
            variables = {"RANK": rank, "WORLD_SIZE": size, "MASTER_ADDR": "127.0.0.1", "MASTER_PORT": port}
            started.append(subprocess.Popen(
                [str(a) for a in command], env={**os.environ, **{k: str(v) for k, v in variables.items()}},
                stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True))
            self.addCleanup(self.end, started[-1])
        return port, started

    def refused(self, processes):
        """What each process says in its one error; what it says while it waits comes before."""
        errors = []
        for error in self.finish(processes, code=1):
            *waits, last = error.splitlines()
            self.assertLessEqual(len(waits), 1, error)
            for line in waits:
                self.assertRegex(line, r"\Arank \d+: waiting for ")
            self.assertTrue(last.startswith("error: "), error)
            errors.append((waits[0] if waits else "", last))
        self.assertFalse((self.root / "never").exists())
        return errors

    def stranger(self, answer):
        """The port of a program that accepts connections and sends `answer`."""
        door = socket.create_server(("127.0.0.1", 0))
        self.addCleanup(door.close)
        guests = []
        self.addCleanup(lambda: [guest.close() for guest in guests])

        def serve():
            while True:
                try:
                    guest, _ = door.accept()
                    guests.append(guest)
                    guest.sendall(answer)
                except OSError:
                    return

        threading.Thread(target=serve, daemon=True).start()
        return door.getsockname()[1]

    def test_a_port_that_another_program_has(self):
        for answer in (b"", b"HTTP/1.1 400 Bad Request\r\n\r\n" * 10):
            with self.subTest(answer=answer[:8]):
                port = self.stranger(answer)
                _, processes = self.start_ranks((0, 2), (1, 2), port=port)
                (_, first), (_, second) = self.refused(processes)
                self.assertIn(f"rank 0 cannot listen at 127.0.0.1:{port} (MASTER_ADDR, MASTER_PORT): another program", first)
                self.assertIn(f"rank 1: what listens at 127.0.0.1:{port} (MASTER_ADDR, MASTER_PORT) has not answered", second)
                self.assertIn("another MASTER_PORT", second)

    def test_two_world_sizes(self):
        _, processes = self.start_ranks((0, 2), (1, 3), (2, 3))
        errors = [error for _, error in self.refused(processes)]
        # Who starts last may come when the others have told each other and left.
        met = [error for error in errors if not re.search("nobody listens there|rank 0 is gone", error)]
        self.assertGreaterEqual(len(met), 2)
        for error in met:
            self.assertIn("WORLD_SIZE=2", error)
            self.assertIn("WORLD_SIZE=3", error)
            self.assertRegex(error, r"rank \d was given WORLD_SIZE=\d, rank \d WORLD_SIZE=\d")

    def test_a_rank_that_is_there_twice(self):
        for ranks, twice in ((((0, 3), (1, 3), (1, 3)), 1), (((0, 2), (0, 2)), 0)):
            with self.subTest(twice=twice):
                _, processes = self.start_ranks(*ranks)
                for _, error in self.refused(processes):
                    self.assertRegex(error, rf"rank {twice} is there twice: RANK={twice} was given to process \d+ on .* and "
                                            rf"RANK={twice} to process \d+")

    def test_one_too_many_harms_nobody(self):
        run, processes = self.start("run", ENDLESS)
        self.wait_for_steps(run, 2)
        port = int(open(f"/proc/{processes[1].pid}/environ").read().split("MASTER_PORT=")[1].split("\0")[0])
        _, (late,) = self.start_ranks((1, 2), port=port)
        (_, error), = self.refused([late])
        self.assertIn("rank 1 is there twice", error)
        self.wait_for_steps(run, self.report(run)["steps"][-1]["step"] + 3)
        processes[0].terminate()
        self.assertNotIn("twice", "".join(self.finish(processes, code=128 + signal.SIGTERM)))

    def test_a_rank_that_does_not_come(self):
        port, processes = self.start_ranks((0, 4), (1, 4))
        for rank, (wait, error) in enumerate(self.refused(processes)):
            self.assertEqual(wait, f"rank {rank}: waiting for ranks 2, 3 at 127.0.0.1:{port}")
            self.assertIn("ranks 2, 3 have not come", error)
            self.assertIn("comm.timeout=7.00 s", error)
            self.assertIn("WORLD_SIZE=4", error)

    def test_rank_0_does_not_come(self):
        port, (process,) = self.start_ranks((1, 2))
        self.assertEqual(process.stderr.readline(), f"rank 1: waiting for rank 0 at 127.0.0.1:{port}\n")
        process.send_signal(signal.SIGPIPE)  # as a write to a rank that has just gone raises it
        (_, error), = self.refused([process])
        self.assertIn(f"rank 1 did not reach rank 0 at 127.0.0.1:{port} (MASTER_ADDR, MASTER_PORT) within comm.timeout=7.00 s", error)
        self.assertIn("RANK=0", error)


if __name__ == "__main__":
    unittest.main()
