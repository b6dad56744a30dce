"""run.device: what is said where there is no driver, GPU or plugin, and what auto does then. Drivers and plugins are fakes, so
that the answers are the same on machines that have a GPU."""

import os
import unittest

from programs import BIN, ProgramTest

FAKES = BIN.parent / "tests"
WORKS = "run.device=cpu trains the same schedules"


class DeviceTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.libraries = self.root / "libraries"
        self.libraries.mkdir()
        self.variables = {"LD_LIBRARY_PATH": str(self.libraries), "SHARDSCOPE_CUDA_PLUGIN": str(FAKES / "libfake_plugin.so")}

    def use_driver(self, **answers):
        (self.libraries / "libcuda.so.1").symlink_to(FAKES / "libfake_cuda.so")
        self.variables.update(answers)

    def use_no_driver(self):
        (self.libraries / "libcuda.so.1").write_text("no library")

    def run_with(self, name, *settings):
        out = self.root / name
        before = dict(os.environ)
        os.environ.update(self.variables)
        try:
            return out, self.run_program(*self.train_command(out, "train.steps=2", *settings), check=False)
        finally:
            os.environ.clear()
            os.environ.update(before)

    def assert_refused(self, *fragments):
        out, done = self.run_with("never", "run.device=cuda")
        self.assertEqual(done.returncode, 1)
        errors = [line for line in done.stderr.splitlines() if line.strip()]
        self.assertEqual(len(errors), 1, done.stderr)
        for fragment in ("run.device=cuda: ", *fragments, WORKS):
            self.assertIn(fragment, errors[0])
        self.assertFalse(out.exists())

    def test_without_a_driver(self):
        self.use_no_driver()
        self.assert_refused("no NVIDIA driver", "libcuda.so.1")

    def test_without_a_gpu(self):
        self.use_driver(FAKE_CUDA_INIT="100", CUDA_VISIBLE_DEVICES="")
        self.assert_refused("finds no GPU", "CUDA_VISIBLE_DEVICES")

    def test_with_an_old_driver(self):
        self.use_driver(FAKE_CUDA_VERSION="12020")
        self.assert_refused("CUDA 12.2", "CUDA 13.0 is needed")

    def test_without_the_plugin(self):
        self.use_driver()
        self.variables["SHARDSCOPE_CUDA_PLUGIN"] = str(self.root / "nowhere.so")
        self.assert_refused("the CUDA plugin is not there", "nowhere.so", "SHARDSCOPE_CUDA=ON")

    def test_with_what_is_no_plugin(self):
        self.use_driver()
        self.variables["SHARDSCOPE_CUDA_PLUGIN"] = str(FAKES / "libfake_cuda.so")
        self.assert_refused("is no plugin of Shardscope")

    def test_with_what_is_no_library(self):
        self.use_driver()
        self.variables["SHARDSCOPE_CUDA_PLUGIN"] = str(self.data)
        self.assert_refused("the CUDA plugin cannot be loaded")

    def test_with_the_plugin_of_another_build(self):
        self.use_driver()
        self.assert_refused("of another build", "shardscope 0.0.0, another compiler", "build both together")

    def test_auto_takes_the_cpu_and_says_why(self):
        self.use_no_driver()
        out, done = self.run_with("auto", "run.device=auto")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("device: cpu (this machine has no NVIDIA driver", done.stdout)
        self.assertIn("no NVIDIA driver", (out / "log.txt").read_text())
        rows = self.sql(out, "SELECT status, reason FROM capability WHERE source = 'device'")
        self.assertEqual([row["status"] for row in rows], ["partial"])
        self.assertIn("run.device=auto took cpu", rows[0]["reason"])
        self.assertEqual(self.sql(out, "SELECT value FROM config WHERE key = 'run.device'"), [{"value": "cpu"}])

    def test_the_cpu_is_asked_for_nothing(self):
        self.use_no_driver()
        out, done = self.run_with("cpu", "run.device=cpu")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(self.sql(out, "SELECT count(*) AS n FROM capability WHERE source = 'device'"), [{"n": 0}])

    def test_a_transport_of_gpus_needs_one(self):
        for transport in ("nccl", "local"):
            out, done = self.run_with("never", f"transport={transport}")
            self.assertEqual(done.returncode, 1)
            self.assertIn(f"transport={transport}", done.stderr)
            self.assertIn("run.device=cuda", done.stderr)
            self.assertFalse(out.exists())

    def test_the_reference_computes_on_the_cpu(self):
        done = self.run_program(*self.train_command(None, "run.device=cuda"), "--reference", check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("--reference computes on the CPU", done.stderr)


if __name__ == "__main__":
    unittest.main()
