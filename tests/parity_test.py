"""Against PyTorch 2.11 as scripts/compare_pytorch recorded it: losses and gradient norms, and the order of collectives."""

import copy
import pathlib
import sys
import tempfile
import unittest

from programs import TRAIN

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "parity"))
import number_cases  # noqa: E402  (needs the path above)


class NumbersTest(unittest.TestCase):
    def test_losses_and_gradient_norms_of_every_strategy(self):
        for case in number_cases.CASES:
            for strategy in number_cases.STRATEGIES:
                with self.subTest(ranks=case.ranks, strategy=strategy), tempfile.TemporaryDirectory() as folder:
                    ours = number_cases.train(TRAIN, case, strategy, pathlib.Path(folder))
                    deviation = number_cases.largest_deviation(ours, number_cases.recorded(case)[strategy])
                    self.assertLessEqual(deviation, number_cases.TOLERANCE)

    def test_a_figure_that_is_a_little_off_is_seen(self):
        case = number_cases.CASES[0]
        theirs = number_cases.recorded(case)["fsdp2"]
        for kind in ("loss", "grad_norm"):
            off = copy.deepcopy(theirs)
            off[kind][-1] *= 1 + 2 * number_cases.TOLERANCE
            self.assertGreater(number_cases.largest_deviation(off, theirs), number_cases.TOLERANCE)


if __name__ == "__main__":
    unittest.main()
