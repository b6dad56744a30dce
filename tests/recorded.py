"""What the tests of recorded programs share."""

import json
import os
import pathlib
import subprocess
import unittest

from programs import APP, BIN, TIMEOUT_S, ProgramTest

LIBRARY = BIN / "libshardscope_inject.so"
CACHE = pathlib.Path(os.environ.get("XDG_CACHE_HOME", pathlib.Path.home() / ".cache")) / "shardscope"
PYTORCH = CACHE / "pytorch" / "bin" / "python"


@unittest.skipUnless(LIBRARY.exists(), "a build with sanitizers has no library to inject")
class RecordTest(ProgramTest):
    def record(self, *command, options=(), environment=None, check=None, name="run"):
        """Runs COMMAND recorded; the folder of its run and how it ended."""
        run = self.root / name
        arguments = [APP, "record", "-o", run, *options, "--", *command]
        done = subprocess.run([str(a) for a in arguments], capture_output=True, text=True, timeout=TIMEOUT_S,
                              env={**os.environ, **(environment or {})})
        if check is not None:
            self.assertEqual(done.returncode, check, done.stderr)
        return run, done

    def start(self, *command, options=(), name="run"):
        run = self.root / name
        process = subprocess.Popen([str(a) for a in (APP, "record", "-o", run, *options, "--", *command)],
                                   stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                                   # As a shell starts it: a group without a parent outside it is never stopped by SIGTSTP.
                                   process_group=0)

        def stop():
            if process.poll() is None:
                process.kill()
            process.communicate()

        self.addCleanup(stop)
        return run, process

    def recorded(self, run):
        return self.report(run)["recorded"]

    def programs(self, run):
        return [p for p in self.recorded(run)["processes"] if not p["launcher"]]

    def sources(self, run):
        return {row["source"]: row["status"] for row in self.report(run)["sources"]}

    def counts(self, run):
        return {row["name"]: row["count"] for row in self.recorded(run)["spans"]}

    def sql(self, run, query):
        return json.loads(self.run_program(APP, "sql", run, query, "--json").stdout)

    def notes(self, run):
        return [marker["new_value"] for marker in self.report(run)["markers"]]
