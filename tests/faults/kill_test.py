"""Kill -9 at a few random moments; scripts/bench kills does many."""

import unittest

from faults import kills
from programs import BIN


class KillTest(unittest.TestCase):
    def test_every_committed_batch_survives_and_an_app_harms_nothing(self):
        facts, failures = kills.attack(BIN, moments=3, seed=7, jobs=3)
        self.assertEqual(failures, [])
        self.assertEqual(facts["trainer"]["cut"] + facts["trainer"]["finished"], 3)
        self.assertEqual(facts["both"]["cut"] + facts["both"]["finished"], 3)
        self.assertEqual(facts["app"]["runs_unharmed"], 1)
        self.assertGreater(facts["trainer"]["rows"], 0)


if __name__ == "__main__":
    unittest.main()
