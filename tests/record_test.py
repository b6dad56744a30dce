"""`shardscope record`: any program runs as it would alone, and leaves a trace that can be opened."""

import json
import os
import pathlib
import pty
import signal
import subprocess
import sys
import unittest

from programs import APP, BIN, TIMEOUT_S
from recorded import LIBRARY, RecordTest

PROGRAM = BIN.parent / "tests" / "recorded_program"


class ProgramsPassThrough(RecordTest):
    def test_exit_code_and_output_are_the_programs(self):
        for command, code, out in ((["sleep", "0.1"], 0, ""), (["false"], 1, ""),
                                   ([sys.executable, "-c", "print('hi'); raise SystemExit(3)"], 3, "hi\n")):
            with self.subTest(command=command):
                run, done = self.record(*command, check=code, name=command[0].rpartition("/")[2])
                self.assertEqual(done.stdout, out)
                line, = done.stderr.splitlines()  # where the trace is, and what to do with it
                self.assertIn(f"shardscope report '{run}'", line)
                self.assertEqual(self.report(run)["state"], "finished")
                self.assertEqual(self.programs(run), [])
                self.assertEqual(self.sources(run), {"cupti": "off", "nccl": "off", "nvtx": "off"})
                self.assertIn(f"exit code {code}", self.notes(run)[-1])
                text = self.run_program(APP, "report", run).stdout
                self.assertIn(" ".join(command), text)
                self.assertIn("no process used NVTX", text)

    def test_arguments_are_passed_on_as_they_are(self):
        odd = ["[1,2]", "[]", "", "--", "-h", "-o", "report", "{}", "a b"]
        script = "import json, sys; print(json.dumps(sys.argv[1:]))"
        _, done = self.record(sys.executable, "-c", script, *odd, check=0)
        self.assertEqual(json.loads(done.stdout), odd)

    def test_an_error_while_the_program_runs_leaves_it_alone(self):
        environment = {**os.environ, "LD_PRELOAD": str(PROGRAM.parent / "libno_memory_after_start.so")}
        done = subprocess.run([APP, "record", "-o", self.root / "run", "--", "sh", "-c", "sleep 0.2; echo hi; exit 3"], env=environment,
                              capture_output=True, text=True, timeout=TIMEOUT_S)
        self.assertEqual((done.returncode, done.stdout), (3, "hi\n"), done.stderr)
        self.assertIn("shardscope record: std::bad_alloc\n", done.stderr)
        self.assertIn("exit code 3", self.notes(self.root / "run")[-1])

    def test_nothing_to_record(self):
        done = subprocess.run([APP, "record", "-o", self.root / "run"], capture_output=True, text=True, timeout=TIMEOUT_S)
        self.assertEqual(done.returncode, 125)
        self.assertIn("shardscope record -- COMMAND", done.stderr)

    def test_the_exit_code_is_the_programs_where_nothing_can_be_said(self):
        for redirection in ("2>/dev/full", "2>&-", "2>&1 | true"):
            with self.subTest(redirection):
                run = self.root / redirection.replace("/", "_")
                command = f"set -o pipefail; '{APP}' record -o '{run}' -- sh -c 'sleep 0.1; exit 3' {redirection}"
                self.assertEqual(subprocess.run(["bash", "-c", command], timeout=TIMEOUT_S).returncode, 3)

    def test_a_script_without_a_first_line(self):
        script = self.root / "my script"
        script.write_text("echo \"$0\" \"$1\"\n")
        script.chmod(0o755)
        _, done = self.record(script, "a b", check=0)
        self.assertEqual(done.stdout, f"{script} a b\n")

    def test_a_terminal_that_is_gone_ends_the_program(self):
        pid, terminal = pty.fork()
        if pid == 0:
            signal.signal(signal.SIGHUP, signal.SIG_DFL)  # whoever runs the tests under nohup ignores it
            os.execv(APP, [str(APP), "record", "-o", str(self.root / "run"), "--", "sh", "-c", "echo ready; exec sleep 60"])
        seen = b""
        while b"ready" not in seen:
            seen += os.read(terminal, 1000)
        os.close(terminal)
        ended, status = 0, 0

        def has_ended():
            nonlocal ended, status
            ended, status = os.waitpid(pid, os.WNOHANG)
            return ended == pid

        try:
            self.wait_for(has_ended, "the launcher to end")
        finally:
            if ended != pid:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)
        self.assertEqual(os.waitstatus_to_exitcode(status), -signal.SIGHUP)

    def test_a_program_that_is_not_there(self):
        run, done = self.record("nonexistent", "-x", check=127)
        self.assertEqual(done.stderr, "shardscope record: there is no program 'nonexistent': nothing was run\n")
        self.assertFalse(run.exists())

    def test_a_file_that_is_no_program(self):
        run, done = self.record(self.data, check=126)
        self.assertIn("cannot start", done.stderr)
        self.assertFalse(run.exists())
        self.record("true", check=0)  # the corrected command may name the folder again

    def test_a_command_of_several_lines_stays_on_one(self):
        run, _ = self.record("sh", "-c", "true\n: \x1b[31m", check=0)
        text = self.run_program(APP, "report", run).stdout
        self.assertNotIn("\x1b", text)
        self.assertEqual(len([line for line in text.splitlines() if "[31m" in line]), 3)  # process, span, note

    def test_a_run_is_not_written_over(self):
        run, _ = self.record("true", check=0)
        before = sorted(p.name for p in run.iterdir())
        _, done = self.record("true", check=125)
        self.assertIn("holds a run already", done.stderr)
        self.assertEqual(sorted(p.name for p in run.iterdir()), before)

    def test_output_is_the_same_byte_for_byte(self):
        script = "import os; [os.write(fd, bytes(range(256)) * 4000) for fd in (1, 2, 1)]"
        done = subprocess.run([APP, "record", "-o", self.root / "run", "--", sys.executable, "-c", script], capture_output=True,
                              timeout=TIMEOUT_S)
        block = bytes(range(256)) * 4000
        self.assertEqual(done.stdout, 2 * block)
        self.assertEqual(done.stderr[:len(block)], block)
        self.assertTrue(done.stderr[len(block):].startswith(b"shardscope record: "))

    def test_it_does_not_wait_for_what_the_program_leaves_behind(self):
        _, done = self.record("sh", "-c", "sleep 30 >/dev/null 2>&1 & echo $!", check=0)
        left_behind = int(done.stdout)
        self.assertTrue(pathlib.Path(f"/proc/{left_behind}").exists())
        os.kill(left_behind, signal.SIGKILL)

    def test_a_killed_launcher_leaves_a_trace_too(self):
        run, process = self.start("sh", "-c", "echo $$; exec sleep 30")
        child = int(process.stdout.readline())
        self.wait_for(lambda: any("started" in note for note in self.notes(run)), "the note of the start")
        process.kill()
        process.wait(TIMEOUT_S)
        os.kill(child, signal.SIGKILL)  # it went on meanwhile
        self.assertEqual(self.report(run)["state"], "cut")
        self.assertIn(f"process {child} started", self.notes(run)[0])
        self.assertIn("how the program ended", self.run_program(APP, "report", run).stdout)

    def test_options_without_a_value_are_refused(self):
        for option, said in ((("--duration", ""), "--duration ''"), (("-o", ""), "-o ''"), (("--duration=",), "--duration")):
            with self.subTest(option=option):
                done = subprocess.run([APP, "record", *option, "--", "true"], capture_output=True, text=True, timeout=TIMEOUT_S,
                                      cwd=self.root)
                self.assertEqual(done.returncode, 125)
                self.assertIn(said, done.stderr)
        self.assertEqual([p.name for p in self.root.iterdir()], ["data.txt"])

    def test_a_record_inside_takes_the_records_and_the_outer_run_says_so(self):
        inner = self.root / "inner"
        outer, _ = self.record(APP, "record", "-o", inner, "--", PROGRAM, "ranges", check=0, name="outer")
        self.assertEqual(self.counts(inner).get("step"), 3)
        self.assertEqual(self.programs(outer), [])
        rows = self.report(outer)["sources"]
        self.assertEqual({row["source"] for row in rows}, {"nvtx", "cupti", "nccl"})
        self.assertEqual({row["reason"] for row in rows},
                         {f"another `shardscope record` inside took the records; its run is {inner}"})

    def test_a_file_that_cannot_be_read_is_named(self):
        script = f"'{PROGRAM}' ranges; echo garbage > '{self.root}/run/trace-host-1.db'"
        run, done = self.record("sh", "-c", script, check=0)
        self.assertIn("1 process in", done.stderr)
        self.assertIn("trace-host-1.db", done.stderr)

    def test_the_duration_of_a_program_that_uses_nothing(self):
        run, _ = self.record("sh", "-c", "sleep 0.2; exit 5", options=("--duration", "50ms"), check=5)
        self.assertIn("exit code 5", self.notes(run)[-1])

    def test_pythons_own_start_file_still_runs(self):
        folder = self.root / "site"
        folder.mkdir()
        (folder / "sitecustomize.py").write_text("print('own start file')\n")
        _, done = self.record(sys.executable, "-c", "import sys; print('sitecustomize' in sys.modules)", check=0,
                              environment={"PYTHONPATH": str(folder)})
        self.assertEqual(done.stdout, "own start file\nTrue\n")

    @unittest.skipUnless((BIN / "python").exists(), "built without LibTorch")
    def test_a_torch_whose_ranges_cannot_be_recorded_is_said(self):
        for version, said in (("2.9.1", "PyTorch 2.9.1"), ("2.11.0+x", "libtorch_cpu.so")):
            with self.subTest(version=version):
                folder = self.root / version
                (folder / "torch").mkdir(parents=True)
                (folder / "torch" / "__init__.py").write_text(f"__version__ = '{version}'\n")
                run, done = self.record(sys.executable, "-c", "from importlib.util import find_spec; find_spec('torch'); "
                                        "import torch, torch; print(torch.__version__)", check=0,
                                        environment={"PYTHONPATH": str(folder)}, name=f"run-{version}")
                self.assertEqual(done.stdout, version + "\n")
                reason, = [row["reason"] for row in self.report(run)["sources"] if row["source"] == "torch"]
                self.assertIn(said, reason)

    def test_input_passes_through(self):
        done = subprocess.run([APP, "record", "-o", self.root / "run", "--", "cat"], input="a\nb\n", capture_output=True,
                              text=True, timeout=TIMEOUT_S)
        self.assertEqual((done.returncode, done.stdout), (0, "a\nb\n"))

    def test_signals_reach_the_program(self):
        script = "import signal, sys, time\nfor s in (2, 15, 10): signal.signal(s, lambda n, _: sys.exit(40 + n))\n" \
                 "print('ready', flush=True)\ntime.sleep(60)"
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGUSR1):
            with self.subTest(signal=number):
                _, process = self.start(sys.executable, "-c", script, name=number.name)
                self.assertEqual(process.stdout.readline(), "ready\n")
                process.send_signal(number)
                self.assertEqual(process.wait(TIMEOUT_S), 40 + number)

    def test_a_program_ended_by_a_signal_ends_the_launcher_likewise(self):
        run, process = self.start("sh", "-c", "kill -TERM $$")
        self.assertEqual(process.wait(TIMEOUT_S), -signal.SIGTERM)
        self.assertIn("signal 15", self.notes(run)[-1])

    def test_stop_and_continue(self):
        run, process = self.start("sh", "-c", "echo $$; read line; echo $line")
        child = int(process.stdout.readline())

        def state(pid):
            return pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]

        process.send_signal(signal.SIGTSTP)
        self.wait_for(lambda: state(child) == "T" and state(process.pid) == "T", "both to stop")
        process.send_signal(signal.SIGCONT)
        self.wait_for(lambda: state(child) != "T" and state(process.pid) != "T", "both to go on")

    def test_the_terminals_interrupt_arrives_once(self):
        script = "import signal, time\nn = []\nsignal.signal(2, lambda *_: n.append(1))\nprint('ready', flush=True)\n" \
                 "end = time.monotonic() + 0.5\nwhile time.monotonic() < end: time.sleep(0.05)\nprint(len(n), 'interrupts')"
        pid, terminal = pty.fork()
        if pid == 0:
            os.execv(APP, [str(APP), "record", "-o", str(self.root / "run"), "--", sys.executable, "-c", script])
        with os.fdopen(terminal, "rb", buffering=0) as screen:
            seen = b""
            while b"ready" not in seen:
                seen += screen.read(1000)
            os.write(terminal, b"\x03")
            try:
                while chunk := screen.read(1000):
                    seen += chunk
            except OSError:
                pass  # the terminal's other end is closed
        self.assertEqual(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), 0)
        self.assertIn(b"1 interrupts", seen)

    def test_what_the_program_sends_to_its_own_group_it_gets_once(self):
        # A real-time signal: of others two that wait are one.
        script = "import os, signal\ns = {signal.SIGRTMIN}\nsignal.pthread_sigmask(signal.SIG_BLOCK, s)\n" \
                 "os.kill(0, signal.SIGRTMIN)\nn = 0\nwhile signal.sigtimedwait(s, 0.3): n += 1\nprint(n, 'signals')"
        _, process = self.start(sys.executable, "-c", script)
        self.assertEqual(process.stdout.readline(), "1 signals\n")

    def test_what_the_program_finds_in_its_environment(self):
        script = "import os, json; print(json.dumps(dict(os.environ)))"
        _, done = self.record(sys.executable, "-c", script, check=0)
        found = json.loads(done.stdout)
        for variable in ("NVTX_INJECTION64_PATH", "CUDA_INJECTION64_PATH", "NCCL_PROFILER_PLUGIN"):
            self.assertEqual(pathlib.Path(found[variable]).resolve(), LIBRARY.resolve())
        self.assertEqual(found["CUDA_DEVICE_MAX_CONNECTIONS"], "32")

        run, done = self.record(sys.executable, "-c", script, check=0, name="taken",
                                environment={"CUDA_DEVICE_MAX_CONNECTIONS": "1", "NVTX_INJECTION64_PATH": "/other/tool.so"})
        found = json.loads(done.stdout)
        self.assertEqual((found["CUDA_DEVICE_MAX_CONNECTIONS"], found["NVTX_INJECTION64_PATH"]), ("1", "/other/tool.so"))
        self.assertIn("/other/tool.so", self.run_program(APP, "report", run).stdout)


if __name__ == "__main__":
    unittest.main()
