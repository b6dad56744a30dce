"""A build folder stands for itself: everybody who may read it can run its programs, and it can be moved."""

import os
import pathlib
import re
import shutil
import subprocess
import unittest

from programs import BIN, TRAIN, ProgramTest

BUILD = BIN.parent


def dynamic_section(path):
    return subprocess.run(["readelf", "-d", str(path)], capture_output=True, text=True).stdout


def paths_of(section):
    """Where the loader looks for libraries of the file."""
    return [path for line in re.findall(r"\((?:RPATH|RUNPATH)\).*\[(.*)\]", section) for path in line.split(":") if path]


def built_files():
    for folder in (BIN, BUILD / "tests"):
        for path in sorted(folder.rglob("*")):
            if path.is_file() and not path.is_symlink() and path.open("rb").read(4) == b"\x7fELF":
                yield path


class BuildFolderTest(ProgramTest):
    def test_no_program_looks_for_libraries_outside(self):
        files = list(built_files())
        self.assertIn(TRAIN, files)
        for file in files:
            for path in paths_of(dynamic_section(file)):
                with self.subTest(file=file.name, path=path):
                    self.assertTrue(path.startswith("$ORIGIN"), path)
                    place = pathlib.Path(os.path.normpath(path.replace("$ORIGIN", str(file.parent))))
                    self.assertTrue(place.is_relative_to(BUILD), place)

    def moved(self):
        """The trainer and what it loads, where everybody may read it; links where that is possible."""
        folder = self.root / "moved"
        for part in ("bin", "lib"):
            (folder / part).mkdir(parents=True)
        shutil.copy(TRAIN, folder / "bin")
        for library in (BUILD / "lib").iterdir():
            try:
                os.link(library, folder / "lib" / library.name)
            except OSError:
                shutil.copy(library, folder / "lib")
        self.root.chmod(0o755)
        return folder

    def test_others_can_run_it_where_it_was_moved_to(self):
        folder = self.moved()
        out = self.root / "runs"
        out.mkdir()
        as_other = []
        if os.geteuid() == 0:
            os.chown(out, 65534, 65534)
            as_other = ["setpriv", "--reuid=65534", "--regid=65534", "--clear-groups"]
        command = self.train_command(out / "run", "train.steps=2")[1:]
        done = self.run_program(*as_other, folder / "bin" / TRAIN.name, *command)
        self.assertIn("finished after 2 of 2 steps", done.stdout)
        loaded = subprocess.run(["ldd", folder / "bin" / TRAIN.name], capture_output=True, text=True).stdout
        self.assertIn(f"{folder}/lib/libtorch_cpu.so", os.path.normpath(loaded.replace("bin/../", "")))

    def test_a_library_that_is_missing_is_named(self):
        folder = self.moved()
        (folder / "lib" / "libtorch_cpu.so").unlink()
        done = self.run_program(folder / "bin" / TRAIN.name, "--help", check=False)
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("libtorch_cpu.so", done.stderr)


if __name__ == "__main__":
    unittest.main()
