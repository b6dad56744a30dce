"""run.device: what is said where there is no driver, GPU or plugin, and what auto does then. Drivers and plugins are fakes, so
that the answers are the same on machines that have a GPU."""

import os
import unittest

from programs import BIN, ProgramTest

FAKES = BIN.parent / "tests"
WORKS = "run.device=cpu trains the same schedules"


class FakesTest(ProgramTest):
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


class DeviceTest(FakesTest):
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

    def test_what_goes_with_a_gpu_only_is_refused_with_the_reason(self):
        self.use_no_driver()
        _, done = self.run_with("never", "run.device=auto", "transport=local")
        self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1))
        self.assertTrue(done.stderr.startswith("error: run.device=auto took cpu (this machine has no NVIDIA driver"), done.stderr)
        self.assertIn("transport=local", done.stderr)

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


@unittest.skipUnless((BIN / "libshardscope_cuda.so").exists(), "a build without the plugin")
@unittest.skipIf(os.path.exists("/dev/nvidiactl"), "this machine has a GPU: CUDA works here")
class BrokenCudaTest(FakesTest):
    """A driver that only says that it is there, and the real plugin: nothing is wrong until the CUDA runtime is asked."""

    def setUp(self):
        super().setUp()
        del self.variables["SHARDSCOPE_CUDA_PLUGIN"]
        self.use_driver()

    def test_auto_takes_the_cpu_and_says_why(self):
        out, done = self.run_with("auto", "run.device=auto")
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        said = [line for line in done.stdout.splitlines() if line.startswith("device: ")]
        self.assertEqual(len(said), 1, done.stdout)
        self.assertTrue(said[0].startswith("device: cpu (no GPU can be used: cudaGetDeviceCount"), said)
        report = self.report(out)
        self.assertEqual(len(report["steps"]), 4)
        reasons = [source["reason"] for source in report["sources"] if source["source"] == "device"]
        self.assertEqual(len(reasons), 1)
        self.assertIn("run.device=auto took cpu: no GPU can be used", reasons[0])
        self.assertEqual(self.sql(out, "SELECT value FROM config WHERE key = 'run.device'"), [{"value": "cpu"}])

    def test_cuda_says_before_all_else_what_is_missing(self):
        self.assert_refused("no GPU can be used: cudaGetDeviceCount")
        _, done = self.run_with("never", "run.device=cuda")
        self.assertEqual(done.stdout, "")



if __name__ == "__main__":
    unittest.main()
