"""How a training ends from outside: signals, readers that leave, files that may not grow, kills."""

import os
import resource
import signal
import subprocess
import unittest

from programs import TIMEOUT_S, TRAIN, ProgramTest

ENDLESS = "train.steps=1000000"


class SignalsTest(ProgramTest):
    def start(self, name, *settings, ranks=2, **options):
        """A training whose output and errors come apart; killed when the test ends."""
        run = self.root / name
        process = subprocess.Popen([str(part) for part in self.train_command(run, *settings, ranks=ranks)], stdout=subprocess.PIPE,
                                   stderr=subprocess.PIPE, text=True, **options)

        def stop():
            if process.poll() is None:
                process.kill()
            process.wait()
            process.stdout.close()
            process.stderr.close()

        self.addCleanup(stop)
        return run, process

    def assert_finished(self, run):
        self.assertEqual(self.report(run)["state"], "finished")
        self.assertFalse(list(run.glob("*.live.db*")))

    def test_each_signal_finishes_the_trace_and_is_the_exit_code(self):
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT, signal.SIGPIPE):
            with self.subTest(number.name):
                run, process = self.start(number.name, ENDLESS)
                self.wait_for_steps(run, 2)
                process.send_signal(number)
                output, error = process.communicate(timeout=TIMEOUT_S)
                self.assertEqual(process.returncode, 128 + number, error)
                self.assertEqual(error, f"{number.name}: ends after the running step and finishes the trace; a second signal ends "
                                        "at once\n")
                self.assertIn("stopped after ", output)
                self.assert_finished(run)

    def test_one_that_comes_while_the_run_begins_leaves_a_whole_run(self):
        run, process = self.start("run", ENDLESS)
        while not run.exists() and process.poll() is None:
            pass  # at once, as it takes but a moment
        process.send_signal(signal.SIGINT)
        output, error = process.communicate(timeout=TIMEOUT_S)
        self.assertEqual(process.returncode, 128 + signal.SIGINT, error)
        self.assertIn("SIGINT: ends after the running step", error)
        self.assertIn("stopped after ", output)
        self.assertFalse(list(run.glob("*.live.db*")))

    def test_the_reference_too(self):
        command = self.train_command(self.root / "run", ENDLESS) + ["--reference"]
        process = subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        process.stdout.readline()
        process.stdout.readline()
        process.terminate()
        _, error = process.communicate(timeout=TIMEOUT_S)
        self.assertEqual(process.returncode, 128 + signal.SIGTERM, error)
        self.assert_finished(self.root / "run")

    def test_output_that_nobody_reads_any_more_ends_the_run(self):
        run, process = self.start("run", "train.steps=3000")
        process.stdout.readline()
        process.stdout.close()
        self.assertEqual(process.wait(TIMEOUT_S), 128 + signal.SIGPIPE)
        self.assertEqual(process.stderr.read(), "")
        self.assert_finished(run)

    def test_the_second_signal_ends_at_once(self):
        run, process = self.start("run", ENDLESS, "fault.hang=1:4:3", "comm.timeout=3600s")
        self.wait_for_steps(run, 3)
        process.terminate()
        self.assertIn("SIGTERM: ends after the running step", process.stderr.readline())
        process.send_signal(signal.SIGINT)
        self.assertEqual(process.wait(TIMEOUT_S), 128 + signal.SIGINT)
        self.assertEqual(self.report(run)["state"], "cut")

    def test_a_terminal_that_goes_does_not_end_what_nohup_started(self):
        run, process = self.start("run", ENDLESS, preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN))
        self.wait_for_steps(run, 2)
        process.send_signal(signal.SIGHUP)
        self.wait_for_steps(run, self.report(run)["steps"][-1]["step"] + 3)
        process.terminate()
        process.communicate(timeout=TIMEOUT_S)
        self.assertEqual(process.returncode, 128 + signal.SIGTERM)

    def test_a_file_that_may_not_grow_is_an_error_of_the_trace(self):
        def limit():
            resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, 400_000))

        for on_error, code, text in (("continue", 0, "training goes on without it"), ("stop", 1, "record.on_error=stop")):
            with self.subTest(on_error=on_error):
                _, process = self.start(on_error, "train.steps=400", f"record.on_error={on_error}", preexec_fn=limit)
                output, error = process.communicate(timeout=TIMEOUT_S)
                self.assertEqual(process.returncode, code, output + error)
                self.assertIn(text, output + error)

    def test_at_the_end_libraries_of_tools_end_too(self):
        # As the loader does itself, which counts its relocations behind all libraries.
        variables = {"CUDA_INJECTION64_PATH": "none", "NVTX_INJECTION64_PATH": "none"}
        if "ASAN_OPTIONS" not in os.environ:  # it has to be the first library
            variables["LD_PRELOAD"] = "libc.so.6"
        for name, value in variables.items():
            with self.subTest(name):
                done = subprocess.run([str(TRAIN), "--help"], env={**os.environ, name: value, "LD_DEBUG": "statistics"},
                                      capture_output=True, text=True, timeout=TIMEOUT_S)
                self.assertEqual(done.returncode, 0, done.stderr)
                self.assertIn("final number of relocations", done.stderr)

    def test_what_a_killed_training_left_in_the_temporary_folder_goes_with_the_next(self):
        temporary = self.root / "tmp"
        temporary.mkdir()
        environment = {"TMPDIR": str(temporary), "XDG_RUNTIME_DIR": ""}
        run, process = self.start_training("killed", ENDLESS, environment=environment)
        self.wait_for_steps(run, 2)
        self.assertEqual(len(list(temporary.glob("shardscope-*"))), 1)
        process.kill()
        process.wait()
        self.assertEqual(len(list(temporary.glob("shardscope-*"))), 1)
        _, process = self.start_training("next", "train.steps=2", environment=environment)
        process.communicate(timeout=TIMEOUT_S)
        self.assertEqual(process.returncode, 0)
        self.assertEqual(os.listdir(temporary), [])


if __name__ == "__main__":
    unittest.main()
