"""scripts/fetch_archives.py against a package index on this machine: what it fetches, skips and refuses."""

import functools
import hashlib
import http.server
import io
import os
import pathlib
import subprocess
import sys
import tempfile
import threading
import unittest
import zipfile

SCRIPT = pathlib.Path(__file__).resolve().parent.parent / "scripts" / "fetch_archives.py"
WHEEL = "toy-1.0-py3-none-any.whl"


class QuietHandler(http.server.SimpleHTTPRequestHandler):
    def log_message(self, *arguments):
        pass


class FetchArchivesTest(unittest.TestCase):
    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.root = pathlib.Path(folder.name)
        self.site = self.root / "site"
        (self.site / "simple" / "toy").mkdir(parents=True)
        wheel = io.BytesIO()
        with zipfile.ZipFile(wheel, "w") as archive:
            archive.writestr("toy/include/a.h", "// a\n")
            program = zipfile.ZipInfo("toy/include/compiler")
            program.external_attr = 0o100755 << 16
            archive.writestr(program, "#!/bin/sh\n")
            archive.writestr("toy/python/b.py", "b = 1\n")
        self.wheel = wheel.getvalue()
        (self.site / WHEEL).write_bytes(self.wheel)
        (self.site / "simple" / "toy" / "index.html").write_text(f'<a href="/{WHEEL}#sha256=0">{WHEEL}</a>')
        self.server = http.server.ThreadingHTTPServer(
            ("127.0.0.1", 0), functools.partial(QuietHandler, directory=str(self.site)))
        threading.Thread(target=self.server.serve_forever, daemon=True).start()
        self.addCleanup(self.server.server_close)
        self.addCleanup(self.server.shutdown)
        self.index = f"http://127.0.0.1:{self.server.server_address[1]}/simple"

    def fetch(self, *arguments, checksum=None, index=None, file_name=WHEEL, section=""):
        checksum = checksum or hashlib.sha256(self.wheel).hexdigest()
        listing = self.root / "archives.txt"
        listing.write_text(f"# comment\n{section}toy {file_name} {checksum} wheels toy/include/\n")
        environment = dict(os.environ, PIP_INDEX_URL=index or self.index)
        return subprocess.run(
            [sys.executable, str(SCRIPT), "--list", str(listing), "--cache", str(self.root / "cache"), *arguments],
            env=environment, capture_output=True, text=True, timeout=120)

    def test_unpacks_only_the_wanted_members(self):
        done = self.fetch()
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue((self.root / "cache/wheels/toy/include/a.h").exists())
        self.assertFalse((self.root / "cache/wheels/toy/python").exists())

    def test_a_program_stays_executable_and_the_rest_does_not_become_so(self):
        self.assertEqual(self.fetch().returncode, 0)
        self.assertTrue(os.access(self.root / "cache/wheels/toy/include/compiler", os.X_OK))
        self.assertEqual((self.root / "cache/wheels/toy/include/a.h").stat().st_mode & 0o111, 0)

    def test_a_section_can_be_left_out(self):
        self.assertEqual(self.fetch("--without", "compiler", section="[compiler]\n").returncode, 0)
        self.assertFalse((self.root / "cache/wheels").exists())
        done = self.fetch("--without", "other", section="[compiler]\n")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertTrue((self.root / "cache/wheels/toy/include/a.h").exists())

    def test_says_which_of_how_many_is_fetched(self):
        self.assertIn(f"fetching {WHEEL} (1 of 1)", self.fetch().stdout)

    def test_a_second_run_needs_no_network(self):
        self.assertEqual(self.fetch().returncode, 0)
        done = self.fetch(index="http://127.0.0.1:1/simple")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_wrong_checksum_is_refused_and_nothing_is_unpacked(self):
        done = self.fetch(checksum="0" * 64)
        self.assertEqual(done.returncode, 1)
        self.assertIn("SHA-256", done.stderr)
        self.assertIn(WHEEL, done.stderr)
        self.assertFalse((self.root / "cache/wheels").exists())

    def test_a_failed_download_names_the_archive_and_the_remedy(self):
        done = self.fetch(index="http://127.0.0.1:1/simple")
        self.assertEqual(done.returncode, 1)
        self.assertIn(WHEEL, done.stderr)
        self.assertIn("check the network", done.stderr)

    def test_a_file_that_the_index_lacks_is_named(self):
        done = self.fetch(file_name="toy-2.0-py3-none-any.whl")
        self.assertEqual(done.returncode, 1)
        self.assertIn("toy-2.0", done.stderr)


if __name__ == "__main__":
    unittest.main()
