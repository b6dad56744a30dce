"""Wrong configurations through the programs: one clear error, nothing created. The keys come from --help, so that new ones are
tested too. Every key with every kind of wrong value by every way in: engine/config/wrong_values_test.cc, and as the program reads
them app/train/arguments_test.cc."""

import concurrent.futures
import os
import re
import subprocess
import unittest

from programs import APP, TIMEOUT_S, TRAIN, Control, ProgramTest


class WrongConfigTest(ProgramTest):
    def keys(self):
        """name -> (type, live, written by the trainer)"""
        text = self.run_program(TRAIN, "--help").stdout
        found = re.findall(r"^  ([a-z_.]+) +([a-z ]+), default .*?, (not live|live)(, written by the trainer)?$", text, re.M)
        self.assertGreater(len(found), 30)
        return {name: (kind, live == "live", bool(written)) for name, kind, live, written in found}

    @staticmethod
    def wrong_value(kind, name):
        return "two\nlines" if kind == "text" and name not in ("record.steps", "unit.policy") and not name.startswith("fault.") else "wr\u00f6ng"

    def assert_refused(self, done, name):
        self.assertEqual(done.returncode, 1, name)
        self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
        self.assertIn(name, done.stderr)

    def test_a_key_of_every_type_wrong_in_set_and_in_a_file(self):
        # One of each type, either way in turn: a start of the trainer takes a third of a second, mostly for loading LibTorch.
        out = self.root / "never"
        of_type = {}
        for name, (kind, _, _) in self.keys().items():
            of_type.setdefault(kind, name)
        self.assertEqual(len(of_type), 8)

        def run(command):
            return subprocess.run([str(part) for part in command], capture_output=True, text=True, timeout=TIMEOUT_S)

        commands = []
        for kind, name in of_type.items():
            value = self.wrong_value(kind, name)
            if len(commands) % 2:
                commands.append((name, [*self.train_command(out), f"{name}={value}"]))
                continue
            file = self.root / f"{name}.toml"
            file.write_text(f'"{name}" = [1]\n', encoding="utf-8")
            commands.append((name, [*self.train_command(out), "--config", file]))
        with concurrent.futures.ThreadPoolExecutor(4) as pool:
            for (name, _), done in zip(commands, pool.map(run, [command for _, command in commands])):
                with self.subTest(name=name):
                    self.assert_refused(done, name)
                    if "cannot be set" not in done.stderr:
                        self.assertIn("must be", done.stderr)
        self.assertFalse(out.exists())

    def test_every_key_wrong_in_turn_through_the_control_socket(self):
        run, _ = self.start_training("run", "train.steps=1000000")
        self.wait_for_steps(run, 1)
        control = Control(run)
        self.addCleanup(control.close)
        before = control.ask(get="status")["status"]["values"]
        keys = self.keys()
        for name, (kind, live, _) in keys.items():
            with self.subTest(name=name):
                answer = control.ask(set={name: self.wrong_value(kind, name)})
                self.assertFalse(answer["ok"])
                self.assertIn(name, answer["error"])
                if not live:
                    self.assertFalse(control.ask(set={name: before[name]})["ok"])
        self.assertEqual(control.ask(get="status")["status"]["values"], before)

    def test_an_error_that_nobody_can_read_leaves_the_exit_code(self):
        wrong = [[TRAIN, "--no-such-option"], self.train_command(self.root / "never", "model.dim=7"), [APP, "report", self.root / "none"],
                 [APP, "sql", self.root / "none", "SELECT 1"], [APP, "plan", "--check", self.root / "none"]]
        for command in wrong:
            with self.subTest(command=command[:2]), open("/dev/full", "w") as full:
                done = subprocess.run([str(part) for part in command], stderr=full, stdout=subprocess.DEVNULL, timeout=TIMEOUT_S)
                self.assertEqual(done.returncode, 1)  # and no signal

    def test_an_unknown_key_gets_a_suggestion(self):
        out = self.root / "never"
        done = self.run_program(*self.train_command(out, "train.stepz=3"), check=False)
        self.assert_refused(done, "did you mean train.steps?")
        self.assertFalse(out.exists())

    def test_what_would_fail_only_later_is_refused_at_once(self):
        out = self.root / "never"
        for settings, extra, fragment in (
                (["model.dim=8190", "model.layers=128"], [], "lower model.dim"), (["run.name=../../x"], [], "run.name"),
                ([], ["--reference", "--dump", self.root / "missing" / "dump"], "missing")):
            with self.subTest(fragment=fragment):
                done = self.run_program(*self.train_command(out, *settings), *extra, check=False)
                self.assert_refused(done, fragment)
        self.assertFalse(out.exists())

    def test_data_that_is_no_text(self):
        out = self.root / "never"
        for name, content in (("latin1.txt", "caf\u00e9 ".encode("latin-1") * 2000), ("zeros.bin", bytes(20000)),
                              ("random.bin", os.urandom(20000))):
            with self.subTest(name=name):
                (self.root / name).write_bytes(content)
                done = self.run_program(*self.train_command(out, f"data.path={self.root / name}", "train.steps=1"), check=False)
                self.assert_refused(done, name)
                self.assertIn("UTF-8", done.stderr)
        self.assertFalse(out.exists())


if __name__ == "__main__":
    unittest.main()
