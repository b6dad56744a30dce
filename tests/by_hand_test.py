"""The checklist of docs/by_hand.md is what scripts/by_hand does."""

import unittest

from by_hand import cli
from programs import ROOT


class ByHandTest(unittest.TestCase):
    def test_the_checklist_is_in_the_documentation(self):
        self.assertGreaterEqual(len(cli.ITEMS), 30)
        self.assertIn(cli.checklist(), (ROOT / "docs" / "by_hand.md").read_text(), "put the output of scripts/by_hand --list there")


if __name__ == "__main__":
    unittest.main()
