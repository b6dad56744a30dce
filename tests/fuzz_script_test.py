"""`scripts/fuzz`: what it can be told to fuzz, without building anything."""

import pathlib
import re
import subprocess
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent


class FuzzScriptTest(unittest.TestCase):
    def test_every_importer_has_seeds_and_is_a_target(self):
        formats = set(re.findall(r'^ +\{\.key = "(\w+)"', (ROOT / "trace" / "import" / "format.cc").read_text(), re.M))
        self.assertIn("kineto", formats)
        usage = subprocess.run([str(ROOT / "scripts" / "fuzz"), "no_such"], capture_output=True, text=True)
        self.assertEqual(usage.returncode, 2, usage.stderr)
        targets = usage.stderr.partition("targets: ")[2].split()
        self.assertEqual(set(targets) - {"trace", "schedule", "toml", "control", "tail", "cupti"}, formats)
        self.assertEqual(len(targets), len(set(targets)))


if __name__ == "__main__":
    unittest.main()
