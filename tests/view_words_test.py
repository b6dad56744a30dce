"""A view compares columns with words that are in trace/base/words.py: the generator refuses any other."""

import importlib.util
import pathlib
import re
import unittest

ROOT = pathlib.Path(__file__).resolve().parent.parent
SPEC = importlib.util.spec_from_file_location("generate", ROOT / "trace" / "schema" / "generate.py")
generate = importlib.util.module_from_spec(SPEC)
SPEC.loader.exec_module(generate)


class ViewWordsTest(unittest.TestCase):
    def refused(self, sql):
        with self.assertRaises(SystemExit) as refused:
            generate.check_words(sql)
        return refused.exception.code

    def test_every_view_is_made_of_known_words(self):
        self.assertGreater(len(generate.views()), 10)
        for _, _, body in generate.views():
            generate.check_words(re.sub(r"--[^\n]*", "", body))

    def test_a_word_that_was_renamed_is_an_error(self):
        generate.check_words("SELECT id FROM plan_op p WHERE p.category NOT IN ('compute', 'optimizer') AND p.kind = 'stream'")
        self.assertIn("'computing'", self.refused("SELECT id FROM plan_op WHERE category IN ('optimizer', 'computing')"))
        self.assertIn("'waiting'", self.refused("SELECT CASE WHEN id IS NULL THEN 'waiting' ELSE blocking_kind END FROM op_run"))

    def test_a_word_of_another_column_is_an_error(self):
        self.assertIn("column role", self.refused("SELECT id FROM track WHERE role <> 'slot'"))
        self.assertIn("column state", self.refused("SELECT id FROM allocation WHERE state = 'compute'"))

    def test_every_enum_that_is_named_is_there(self):
        names = {enum.name for enum in generate.words.ENUMS}
        for column, enums in generate.WORDS_OF.items():
            self.assertLessEqual(set(enums), names, column)


if __name__ == "__main__":
    unittest.main()
