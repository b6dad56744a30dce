"""The table of op kinds in docs/schedule.md, written by hand, has every kind with its category."""

import importlib.util
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
SPEC = importlib.util.spec_from_file_location("words", ROOT / "trace" / "base" / "words.py")
words = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(words)


def categories(enum):
    """Of each word its first trait."""
    return {word.text: word.traits[0] for found in words.ENUMS if found.name == enum for word in found.words}


class ScheduleDocsTest(unittest.TestCase):
    def test_the_table_has_every_kind_of_op_once_with_its_category(self):
        section = (ROOT / "docs" / "schedule.md").read_text().partition("\n## Op kinds\n")[2].partition("\n## ")[0]
        rows = re.findall(r"^\| (`[^|]*`) \| (\w+) \|", section, re.M)
        documented = [(kind, category) for kinds, category in rows for kind in re.findall(r"`(\w+)`", kinds)]
        category_of = categories("OpClass")
        expected = [(kind, category_of[op_class]) for kind, op_class in categories("OpKind").items()]
        self.assertEqual(sorted(documented), sorted(expected))


if __name__ == "__main__":
    unittest.main()
