"""What the tests of whole programs share: where the programs are, small runs, the control socket."""

import json
import os
import pathlib
import re
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
BIN = pathlib.Path(os.environ.get("SHARDSCOPE_BIN", ROOT / "build" / "release" / "bin"))
TRAIN = BIN / "shardscope-train"
APP = BIN / "shardscope"
TIMEOUT_S = 120
INTERRUPTED = 128 + signal.SIGINT  # the exit code of a training that interrupt() has ended

# What scripts/sanitizers.py multiplies the counts of tests with: its programs take several times as long.
SCALE = float(os.environ.get("SHARDSCOPE_TEST_SCALE", 1))


def thinned(cases):
    """All; at SCALE 0.5 every second one: of cases that go the same ways through the programs and differ in their numbers."""
    return list(cases)[::max(1, round(1 / SCALE))]


# A model small enough that a step takes milliseconds, with sizes that no rank count divides.
TINY = ["model.layers=2", "model.dim=24", "model.heads=3", "model.seq=16", "train.batch=2", "train.warmup_steps=2"]


class ProgramTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.mkdtemp(prefix="shardscope test ")  # with spaces on purpose
        self.addCleanup(shutil.rmtree, folder, ignore_errors=True)
        self.root = pathlib.Path(folder)
        self.data = self.root / "data.txt"
        self.data.write_text("the quick brown fox jumps over the lazy dog. " * 200)

    def run_program(self, *arguments, check=True, folder=None):
        """In that folder, or in the one that the tests were started in."""
        done = subprocess.run([str(a) for a in arguments], capture_output=True, text=True, timeout=TIMEOUT_S, cwd=folder)
        if check:
            self.assertEqual(done.returncode, 0, f"{arguments}\n{done.stdout[-2000:]}\n{done.stderr[-2000:]}")
        return done

    def train_command(self, out, *settings, ranks=2):
        # Without a folder (None) nothing is named, for runs that must not start.
        command = [TRAIN, "--ranks", ranks]
        if out is not None:
            command += ["--out", out]
        return command + ["--set", f"data.path={self.data}", *TINY, *settings]

    def train(self, name, *settings, ranks=2, extra=()):
        out = self.root / name
        done = self.run_program(*self.train_command(out, *settings, ranks=ranks), *extra)
        return out, done

    def drawn(self, run, *options):
        """The items of a picture by panel and id."""
        done = self.run_program(APP, "shot", run, *options, "--json", check=False)
        if done.returncode != 0 and "EGL" in done.stderr:
            self.skipTest(done.stderr)
        self.assertEqual(done.returncode, 0, done.stderr)
        return {(item["panel"], item["id"]): item for item in json.loads(done.stdout)["items"]}

    def start_training(self, name, *settings, ranks=2, environment=None):
        """A training in the background, with these variables besides ours; killed when the test ends."""
        out = self.root / name
        process = subprocess.Popen([str(a) for a in self.train_command(out, *settings, ranks=ranks)],
                                   env={**os.environ, **(environment or {})}, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                                   text=True)

        def stop():
            if process.poll() is None:
                process.kill()
            process.wait()
            process.stdout.close()

        self.addCleanup(stop)
        return out, process

    def report(self, run, *options):
        return json.loads(self.run_program(APP, "report", run, "--json", *options).stdout)

    def sql(self, run, query):
        """The rows that `shardscope sql` gives, as dictionaries."""
        return json.loads(self.run_program(APP, "sql", run, query, "--json").stdout)

    def wait_for(self, condition, what):
        deadline = time.monotonic() + TIMEOUT_S
        while time.monotonic() < deadline:
            value = condition()
            if value:
                return value
            time.sleep(0.05)
        self.fail(f"timed out waiting for {what}")

    def wait_for_steps(self, run, steps):
        """Waits until every rank has finished `steps` steps in the live trace; returns the report."""

        def enough():
            done = self.run_program(APP, "report", run, "--json", check=False)
            if done.returncode != 0:
                return None
            report = json.loads(done.stdout)
            return report if report["steps"] and report["steps"][-1]["step"] >= steps else None

        return self.wait_for(enough, f"step {steps} of {run}")

    def wait_for_batch(self, run):
        """Waits until some rank of the live trace has done a batch of an evaluation."""

        def has_batch():
            done = self.run_program(APP, "sql", run, "SELECT count(*) AS n FROM op_run WHERE step < -1", "--json", check=False)
            return done.returncode == 0 and json.loads(done.stdout)[0]["n"] > 0

        self.wait_for(has_batch, f"an evaluation of {run}")

    def assert_left(self, run, output):
        """The run was stopped in its first evaluation, which all ranks left after the same batch."""
        done, of = map(int, re.search(r"evaluation before step 0: stopped after (\d+) of (\d+) batches", output).groups())
        self.assertLess(done, of)
        self.assertIn("stopped before step 0", output)
        self.assertEqual(self.report(run)["state"], "finished")
        batches = self.sql(run, "SELECT rank, min(step) AS last FROM op_run WHERE step < -1 GROUP BY rank")
        self.assertEqual([row["last"] for row in batches], [-1 - done] * 2)
        self.assertEqual(self.sql(run, "SELECT count(*) AS n FROM evaluation"), [{"n": 0}])


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def is_steerable(run):
    """Whether the run has got as far as its control socket."""
    return (run / "run.toml").exists() and "control_socket" in (run / "run.toml").read_text()


def control_socket(run):
    return re.search(r'control_socket\s*=\s*["\'](.*?)["\']', (run / "run.toml").read_text()).group(1)


class ImportTestCase(ProgramTest):
    """Of runs that are imported: with a cache of its own."""

    def setUp(self):
        super().setUp()
        os.environ["XDG_CACHE_HOME"] = str(self.root / "cache")
        self.addCleanup(os.environ.pop, "XDG_CACHE_HOME")


class Control:
    """A plain client of the control socket, as a user's script would write it."""

    def __init__(self, run):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.connect(control_socket(run))
        self.socket.settimeout(30)  # set before, a crowd at the door would make connect() fail at once
        self.file = self.socket.makefile("r")
        self.hello = json.loads(self.file.readline())
        self.next_id = 1

    def close(self):
        self.file.close()
        self.socket.close()

    def ask(self, **body):
        request = {"id": self.next_id, **body}
        self.next_id += 1
        self.socket.sendall((json.dumps(request) + "\n").encode())
        return json.loads(self.file.readline())


def interrupt(process):
    process.send_signal(signal.SIGINT)
