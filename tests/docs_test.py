"""Links between the documents lead somewhere, what they name is there, and the README lists every subcommand."""

import functools
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
DOCS = [ROOT / "README.md", ROOT / "ARCHITECTURE.md", ROOT / "CONTRIBUTING.md", *sorted((ROOT / "docs").glob("*.md"))]
FOLDERS = ("app", "assets", "cmake", "docs", "engine", "lesson", "scripts", "tests", "trace", "ui")
FENCED = re.compile(r"^ *```.*?^ *```", re.M | re.S)


@functools.cache
def prose(path):
    return FENCED.sub("", path.read_text())


def anchor(heading):
    """As GitHub names a heading."""
    return re.sub(r"[^\w\- ]", "", heading.strip().lower()).replace(" ", "-")


def anchors(path):
    return {anchor(heading) for heading in re.findall(r"^#+ (.*)$", prose(path), re.M)}


class DocsTest(unittest.TestCase):
    def test_every_link_leads_to_a_file_and_a_heading_of_it(self):
        links = 0
        for path in DOCS:
            for link in re.findall(r"\]\(([^)\s]+)\)", prose(path)):
                if "://" in link:
                    continue
                links += 1
                name, _, heading = link.partition("#")
                target = (path.parent / name).resolve() if name else path
                with self.subTest(document=path.name, link=link):
                    self.assertTrue(target.exists())
                    if heading:
                        self.assertIn(heading, anchors(target))
        self.assertGreater(links, 100)

    def test_every_path_that_is_named_is_there(self):
        named = 0
        for path in DOCS:
            if path.name == "benchmarks.md":  # says what was measured then
                continue
            for name in re.findall(r"`([a-z]\w*/[\w./-]+)`", prose(path)):
                if name.split("/")[0] not in FOLDERS or re.search("NAME|NUMBER", name):
                    continue
                named += 1
                with self.subTest(document=path.name, path=name):
                    self.assertTrue((ROOT / name).exists())
        self.assertGreater(named, 200)

    def test_the_readme_lists_every_subcommand(self):
        commands = {name for source in (ROOT / "app").rglob("command_*.cc")
                    for name in re.findall(r'add_subcommand\(\s*"(\w+)"', source.read_text())} | {"record"}
        section = prose(ROOT / "README.md").partition("\n## Commands\n")[2].partition("\n## ")[0]
        listed = re.findall(r"^\| `(\w+)", section, re.M)
        self.assertIn("shot", commands)
        self.assertEqual(sorted(set(listed) - {"shardscope"}), sorted(commands))


if __name__ == "__main__":
    unittest.main()
