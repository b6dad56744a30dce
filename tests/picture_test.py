"""Pictures as SVG: the file is well-formed, its texts are those that `shot --json` lists, and it needs no EGL."""

import json
import os
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
        done = self.run_program(APP, "shot", run, "-o", self.root / "a.pdf", check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("a.png", done.stderr)


if __name__ == "__main__":
    unittest.main()
