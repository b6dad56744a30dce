"""The folder that scripts/gpu-check packs for a machine with a GPU, and what it brings back."""

import pathlib
import subprocess
import sys
import tempfile
import unittest

from gpu_check_lab import NAMES, SCRIPT
from programs import BIN, TIMEOUT_S

from gpu_check import cli, machine, pack


@unittest.skipUnless((BIN / "libshardscope_inject.so").exists(), "a build with sanitizers has nothing to pack")
class PackTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.packed = self.folder / "packed"

    def run_script(self, script, *arguments):
        return subprocess.run([sys.executable, script, *map(str, arguments)], capture_output=True, text=True, timeout=TIMEOUT_S,
                              cwd=self.folder)

    def make(self):
        done = self.run_script(SCRIPT, "--pack", self.packed, "--build", BIN.parent, "--without-cuda")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_it_is_small_and_has_what_it_needs(self):
        self.make()
        size = sum(path.stat().st_size for path in self.packed.rglob("*") if path.is_file())
        self.assertLessEqual(size, pack.MAX_BYTES)
        for name in ("gpu-check", "bin/shardscope", "bin/shardscope-train", "bin/libshardscope_inject.so", "bin/python/sitecustomize.py", "programs/model.py",
                     "programs/fsdp2_small.py", "programs/fsdp2_speed.py", "gpu_check/table.py", "manifest.json"):
            self.assertTrue((self.packed / name).exists(), name)
        # LibTorch, CUDA and the C library are the machine's own.
        self.assertFalse([path.name for path in (self.packed / "lib").iterdir() if pack.SYSTEM.match(path.name)])
        listed = self.run_script(self.packed / "gpu-check", "--list")
        self.assertEqual([line.split()[0] for line in listed.stdout.splitlines()], NAMES)
        # Its programs find the libraries that came along.
        done = subprocess.run([self.packed / "bin" / "shardscope", "--help"], capture_output=True, text=True,
                              env={"LD_LIBRARY_PATH": str(self.packed / "lib")})
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_damaged_folder_is_refused(self):
        self.make()
        (self.packed / "programs" / "model.py").write_text("other")
        done = self.run_script(self.packed / "gpu-check")
        self.assertEqual(done.returncode, cli.CANNOT_RUN)
        self.assertIn("damaged", done.stderr)
        (self.packed / "programs" / "model.py").unlink()
        self.assertIn("missing", self.run_script(self.packed / "gpu-check").stderr)
        for damaged in ("{", "{}", "[]"):
            (self.packed / "manifest.json").write_text(damaged)
            done = self.run_script(self.packed / "gpu-check")
            self.assertEqual(done.returncode, cli.CANNOT_RUN)
            line, = done.stderr.splitlines()
            self.assertIn("manifest.json is damaged", line)
        again = self.run_script(SCRIPT, "--pack", self.packed, "--build", BIN.parent)
        self.assertEqual(again.returncode, cli.CANNOT_RUN)
        self.assertIn("not empty", again.stderr)

    def test_a_place_that_cannot_be_packed_into(self):
        self.packed.write_text("a file")
        done = self.run_script(SCRIPT, "--pack", self.packed, "--build", BIN.parent, "--without-cuda")
        self.assertEqual(done.returncode, cli.CANNOT_RUN)
        line, = done.stderr.splitlines()
        self.assertIn(str(self.packed), line)

    @unittest.skipIf(machine.no_gpu_reason() is None, "this machine has a GPU")
    def test_without_a_gpu_it_says_so_in_one_line(self):
        self.make()
        for script in (SCRIPT, self.packed / "gpu-check"):
            done = self.run_script(script)
            self.assertEqual((done.returncode, done.stderr), (cli.NO_GPU, ""))
            line, = done.stdout.splitlines()
            self.assertIn("no GPU here", line)
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["packed"])

    def test_what_is_brought_back_is_bounded(self):
        work, out = self.folder / "work", self.folder / "out"
        out.mkdir()
        for run in ("base", "injected", "emulated-20GB-s", "nccl", "prefetch-on"):
            (work / run).mkdir(parents=True)
            (work / run / "trace-host-1.db").write_bytes(b"x" * 10)
        for index in range(9):
            (work / f"cupti-{index}.buffers").write_bytes(b"x" * (10 + index))
        with open(work / "nccl" / "trace-host-1.db", "wb") as large:
            large.truncate(pack.MAX_FILE_BACK_BYTES + 1)
        names, left_out = pack.bring_back(work, out)
        self.assertEqual(names, ["cupti-8.buffers", "cupti-7.buffers", "base.db", "injected.db", "emulated-20GB-s.db", "prefetch-on.db"])
        self.assertEqual(len(left_out), 1)
        self.assertLess(len(names), pack.MAX_FILES_BACK)


if __name__ == "__main__":
    unittest.main()
