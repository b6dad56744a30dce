"""Spaces, Chinese characters, symbolic links and very long paths, through every program that takes a path."""

import os
import subprocess
import unittest

from programs import APP, TIMEOUT_S, TRAIN, Control, ProgramTest, control_socket, interrupt

NAME = "\u8bad\u7ec3 \u8fd0\u884c 'a\" $b"  # Chinese, spaces, quotes


class PathsTest(ProgramTest):
    def assert_readable(self, run):
        self.assertEqual(self.report(run)["state"], "finished")
        rows = self.sql(run, "SELECT count(*) AS n FROM step")
        self.assertEqual(rows, [{"n": 6}])
        picture = self.root / "\u56fe \u7247.png"
        self.run_program(APP, "shot", run, "-o", picture)
        self.assertEqual(picture.read_bytes()[:4], b"\x89PNG")
        picture.unlink()

    def test_chinese_and_spaces_everywhere(self):
        folder = self.root / NAME
        folder.mkdir()
        data = folder / "\u6570\u636e \u4e00.txt"
        data.write_text(self.data.read_text())
        losses, dump = folder / "\u635f\u5931 1.txt", folder / "\u6743\u91cd 1.safetensors"
        run, _ = self.train(f"{NAME}/{NAME}", f"data.path={data}", "train.steps=3", extra=("--losses", losses, "--dump", dump))
        self.assertEqual(len(losses.read_text().splitlines()), 3)
        self.assertTrue(dump.exists())
        self.assert_readable(run)
        # What was written can be given again.
        again = self.root / "again"
        self.run_program(*self.train_command(again), "--config", run / "run.toml")
        self.assertIn(str(data), (run / "run.toml").read_text().replace("\\", ""))

    def test_symbolic_links(self):
        real, link = self.root / "real", self.root / "link"
        real.mkdir()
        link.symlink_to(real)
        (self.root / "data link").symlink_to(self.data)
        run, _ = self.train("link/run", f"data.path={self.root / 'data link'}", "train.steps=3")
        self.assert_readable(run)
        self.assert_readable(real / "run")
        (self.root / "to the run").symlink_to(run)
        self.assert_readable(self.root / "to the run")
        trace, = run.glob("trace-*.db")
        (self.root / "trace link.db").symlink_to(trace)
        self.assert_readable(self.root / "trace link.db")
        config = self.root / "config.toml"
        config.symlink_to(run / "run.toml")
        self.run_program(*self.train_command(self.root / "again"), "--config", config)

    def test_links_that_lead_nowhere(self):
        dangling, loop = self.root / "dangling", self.root / "loop"
        dangling.symlink_to(self.root / "not there")
        loop.symlink_to(loop)
        out = self.root / "never"
        for link in (dangling, loop):
            for what, command in {
                    "data": self.train_command(out, f"data.path={link}"), "config": [*self.train_command(out), "--config", link],
                    "out": self.train_command(link / "run"), "report": [APP, "report", link], "sql": [APP, "sql", link, "SELECT 1"],
                    "shot": [APP, "shot", link, "-o", self.root / "x.png"], "tail": [APP, "tail", "--stdio", link]}.items():
                with self.subTest(link=link.name, what=what):
                    done = self.run_program(*command, check=False)
                    self.assertNotEqual(done.returncode, 0)
                    self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
                    self.assertIn(link.name, done.stderr)
                    self.assertNotIn("owner", done.stderr)  # nobody forbids it
        self.assertFalse(out.exists())
        self.assertFalse((self.root / "not there").exists())

    def test_pipes_with_the_name_of_a_trace_are_no_traces(self):
        folder = self.root / "pipes"
        folder.mkdir()
        pipe = folder / "trace-a-1.db"
        os.mkfifo(pipe)
        for path in (folder, pipe):
            for command in ([APP, "report", path], [APP, "sql", path, "SELECT 1"], [APP, "shot", path, "-o", self.root / "x.png"]):
                with self.subTest(path=path.name, command=command[1]):
                    done = self.run_program(*command, check=False)
                    self.assertEqual(done.returncode, 1)
                    self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
        done = self.run_program(APP, "report", "", check=False)
        self.assertIn("give a run folder", done.stderr)

    def test_a_folder_that_links_to_itself_is_read_once(self):
        folder = self.root / "texts"
        folder.mkdir()
        (folder / "a.txt").write_text(self.data.read_text())
        (folder / "again").symlink_to(folder)
        _, done = self.train("run", f"data.path={folder}", "train.steps=1")
        self.assertIn("data: 1 file, ", done.stdout)

    def test_a_path_that_is_too_long_for_a_trace_is_refused(self):
        out = self.root / "/".join(["x" * 200] * 3)
        done = self.run_program(*self.train_command(out), check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("shorter", done.stderr)
        self.assertFalse((self.root / ("x" * 200)).exists())

    def test_a_path_with_two_slashes_before_it(self):
        run, _ = self.train(f"/{self.root}/run", "train.steps=3")
        self.assert_readable(f"/{self.root}/run")
        self.assertFalse(list((self.root / "run").glob("*.live.db*")))

    def test_the_root_of_the_file_system_is_refused(self):
        for path in ("/", "//", "/tmp/.."):
            done = self.run_program(*self.train_command(path), check=False)
            self.assertEqual(done.returncode, 1)
            self.assertIn("name a folder in it", done.stderr)

    def test_a_path_that_is_no_text_is_refused_in_one_line(self):
        for name in ("two\nlines", b"no \xff text"):
            out = os.fsencode(self.root) + b"/" + (name if isinstance(name, bytes) else name.encode())
            for command in ([TRAIN, "--ranks", "1", "--out", out], [APP, "record", "-o", out, "--", "true"]):
                with self.subTest(name=name, program=command[0].name):
                    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT_S)
                    self.assertNotEqual(done.returncode, 0)
                    self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
                    self.assertIn("newline", done.stderr)
                    self.assertFalse(os.path.exists(out))

    def test_a_path_longer_than_a_socket_path_can_be_steered(self):
        name = "/".join(["\u957f" * 30] * 3)  # 272 bytes
        run, process = self.start_training(name, "train.steps=1000000")
        self.wait_for_steps(run, 1)
        self.assertLessEqual(len(control_socket(run).encode()), 107)
        control = Control(run)
        self.addCleanup(control.close)
        self.assertTrue(control.ask(get="status")["ok"])
        interrupt(process)
        process.communicate(timeout=60)
        self.assertEqual(self.report(run)["state"], "finished")


if __name__ == "__main__":
    unittest.main()
