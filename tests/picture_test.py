"""Pictures as SVG: the file is well-formed, its texts are those that `shot --json` lists, and it needs no EGL."""

import json
import os
import re
import shutil
import subprocess
import unittest
import xml.etree.ElementTree

from programs import APP, ProgramTest

SVG = "{http://www.w3.org/2000/svg}"
WITHOUT_EGL = {**os.environ, "__EGL_VENDOR_LIBRARY_FILENAMES": "/nonexistent"}


class PictureTest(ProgramTest):
    def svg(self, run, *options):
        """The file's root element and the items that were drawn, without EGL."""
        picture = self.root / "a.svg"
        done = subprocess.run([APP, "shot", run, "-o", picture, "--json", *options], capture_output=True, text=True, env=WITHOUT_EGL)
        self.assertEqual(done.returncode, 0, done.stderr)
        return xml.etree.ElementTree.parse(picture).getroot(), json.loads(done.stdout)["items"]

    def test_texts_stand_where_the_list_says(self):
        run, _ = self.train("a <b> & c", "train.steps=4", "transport=emulated", "link.bandwidth=5MB/s")
        for options in ((), ("--language", "zh", "--theme", "light"), ("--size", "1100x700", "--panel", "collectives")):
            with self.subTest(options):
                root, items = self.svg(run, *options)
                drawn = {(text.text, float(text.get("x")), float(text.get("y"))) for text in root.iter(SVG + "text")}
                checked = 0
                for item in items:
                    if item["panel"] != "top_bar" or "value" not in item or not item["text"]:
                        continue
                    x, y = item["box"][:2]
                    near = {text for text, at_x, at_y in drawn if abs(at_x - x) < 60 and 0 <= at_y - y < 40}
                    self.assertTrue(any(item["text"].split()[0] in text for text in near), (item, near))
                    checked += 1
                self.assertGreater(checked, 3)
                self.assertIn("Shardscope: a <b> & c", [title.text for title in root.iter(SVG + "title")])

    def test_its_texts_alone_are_those_that_the_list_has(self):
        run, _ = self.train("run", "train.steps=4")
        to = self.root / "a.txt"
        done = subprocess.run([APP, "shot", run, "-o", to, "--json", "--panel", "collectives"], capture_output=True, text=True, env=WITHOUT_EGL)
        self.assertEqual(done.returncode, 0, done.stderr)
        windows = {}
        for part in to.read_text(encoding="utf-8").split("\n\n"):
            name, *lines = part.strip("\n").split("\n")
            windows[name] = lines
        self.assertLessEqual({"Run control:", "Collectives:", "Overlap:", "Details:"}, set(windows))
        self.assertNotIn("Timeline:", windows)  # behind Collectives
        # Names of values stand beside them, which the list of --json has not.
        self.assertTrue(any(re.match(r"Reshard after forward  .*on", line) for line in windows["Run control:"]), windows["Run control:"])
        # Which choice and which tab is on.
        chosen = [text for text in re.split(r"  |\n", to.read_text(encoding="utf-8")) if text.endswith(" (chosen)")]
        self.assertIn("Collectives (chosen)", chosen)
        self.assertGreater(len(chosen), 3, chosen)
        self.assertFalse([item["id"] for item in json.loads(done.stdout)["items"] if item["id"].startswith("chosen:")])
        shown = {item["id"]: item["text"] for item in json.loads(done.stdout)["items"] if item["panel"] == "top_bar"}
        self.assertIn(f"tok/s  {shown['tokens_per_second']}", to.read_text(encoding="utf-8"))

    def test_size_and_ground_are_those_of_the_picture(self):
        run, _ = self.train("run", "train.steps=2")
        grounds = set()
        for theme in ("dark", "light"):
            root, _ = self.svg(run, "--size", "1200x800", "--theme", theme)
            self.assertEqual((root.get("width"), root.get("height")), ("1200", "800"))
            grounds.add(root.find(SVG + "rect").get("fill"))
            self.assertGreater(sum(1 for _ in root.iter(SVG + "path")), 100)
        self.assertEqual(len(grounds), 2)

    def test_the_same_run_gives_the_same_bytes_and_other_endings_are_refused(self):
        run, _ = self.train("run", "train.steps=2")
        pictures = []
        for name in ("one.svg", "two.SVG"):
            self.run_program(APP, "shot", run, "-o", self.root / name)
            pictures.append((self.root / name).read_bytes())
        self.assertEqual(pictures[0], pictures[1])
        for name in ("a.pdf", "a.db", "a.png.part", "a"):
            done = self.run_program(APP, "shot", run, "-o", self.root / name, check=False)
            self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1))
            for part in (".png or an .svg", "a .txt", "a .csv", "a.png"):
                self.assertIn(part, done.stderr)
            self.assertFalse((self.root / name).exists())

    def test_a_file_that_may_not_grow_is_an_error_and_leaves_nothing(self):
        run, _ = self.train("run", "train.steps=2")
        to = self.root / "a.svg"
        done = subprocess.run(["bash", "-c", 'ulimit -f 4; exec "$@"', "bash", APP, "shot", run, "-o", to], capture_output=True, text=True,
                              env=WITHOUT_EGL)
        self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1), done.stderr)
        self.assertIn(f"cannot write {to}: File too large", done.stderr)
        self.assertEqual([path.name for path in self.root.iterdir() if path.name.startswith((".shardscope-", "a."))], [])

    def test_no_picture_table_or_page_replaces_a_file_of_a_run(self):
        run, _ = self.train("run", "train.steps=2")
        other = self.root / "other"
        shutil.copytree(run, other)
        (other / "bookmarks.json").write_text('{"version": 1, "bookmarks": []}')
        trace, = other.glob("trace-*.db")
        for ending in ("png", "svg", "csv", "md", "html"):
            (self.root / f"link.{ending}").symlink_to(trace)
        shutil.copy(trace, self.root / "copy.png")
        kept = {path: path.read_bytes() for path in self.root.rglob("*") if path.is_file()}
        of_run = "that is a file of a run"
        for arguments, error in ((("shot", run, "-o", trace), "a picture is a .png"), (("shot", other, "-o", trace), "a picture is a .png"),
                                 (("shot", run, "--panel", "steps", "-o", trace), "a picture is a .png"),
                                 (("shot", run, "-o", other / "bookmarks.json"), "a picture is a .png"),
                                 (("shot", run, "--json", "-o", run / "run.toml"), "a picture is a .png"),
                                 (("shot", run, "-o", self.root / "link.png"), of_run), (("shot", run, "-o", self.root / "link.svg"), of_run),
                                 (("shot", run, "--panel", "steps", "-o", self.root / "link.csv"), of_run),
                                 (("shot", run, "-o", self.root / "copy.png"), of_run),
                                 (("shot", run, "--animate", self.root / "copy.png"), of_run),
                                 (("lesson", "--print", "-o", self.root / "link.md"), of_run),
                                 (("lesson", "--print", "-o", self.root / "link.html"), of_run)):
            with self.subTest(arguments=arguments):
                done = self.run_program(APP, *arguments, check=False)
                self.assertEqual((done.returncode, done.stderr.count("\n")), (1, 1), done.stderr)
                self.assertIn(error, done.stderr)
                self.assertIn(str(arguments[-1]), done.stderr)
        self.assertEqual(kept, {path: path.read_bytes() for path in self.root.rglob("*") if path.is_file()})


if __name__ == "__main__":
    unittest.main()
