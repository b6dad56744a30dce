"""What a finished trace derives while it is finished is what its rows give."""

import json
import unittest

from programs import APP, ProgramTest


class DerivedTest(ProgramTest):
    def test_a_report_from_derived_rows_is_that_of_all_rows(self):
        run, _ = self.train("run", "train.steps=8", "transport=emulated", "link.bandwidth=5MB/s", ranks=3)
        for table in ("step_part", "stall", "slow_collective", "memory_peak"):
            self.assertGreater(self.sql(run, f"SELECT count(*) AS n FROM {table}")[0]["n"], 0, table)
        derived = self.report(run)
        computed = json.loads(self.run_program(APP, "report", run, "--json", "--steps", "0:8").stdout)
        self.assertNotEqual(derived.pop("scope"), computed.pop("scope"))
        self.assertEqual(derived, computed)

    def test_its_collectives_keep_their_communicators(self):
        run, _ = self.train("run", "train.steps=4", "comm.communicators=2")
        computed = json.loads(self.run_program(APP, "report", run, "--json", "--steps", "0:4").stdout)
        self.assertEqual(self.report(run)["collectives"], computed["collectives"])
        self.assertEqual({run["communicator"] for run in computed["collectives"]}, {0, 1})

    def test_a_killed_run_has_them_from_whoever_finishes_it(self):
        run, process = self.start_training("run", "train.steps=1000000")
        self.wait_for_steps(run, 5)
        process.kill()
        process.wait()
        self.report(run)
        self.assertGreater(self.sql(run, "SELECT count(*) AS n FROM step_part")[0]["n"], 0)


if __name__ == "__main__":
    unittest.main()
