"""scripts/gpu-check without a GPU: its checks over made-up figures, the whole command, JSON and exit codes, its lab."""

import contextlib
import io
import json
import pathlib
import shutil
import tempfile
import time
import unittest
from unittest import mock

from gpu_check_lab import GPU, LOSSES, NAMES, SCRIPT, FakeLab, entry_of

from gpu_check import checks_speed, checks_transport, cli, lab, machine, table


class AcceptanceTest(unittest.TestCase):
    def test_the_list_is_complete_and_every_check_has_limits(self):
        self.assertEqual([check.name for check in table.CHECKS], NAMES)
        for check in table.CHECKS:
            self.assertTrue(check.limits, check.name)
        limits = {(check.name, str(limit)) for check in table.CHECKS for limit in check.limits}
        for promised in (("parity_cpu", "largest_relative_difference <= 0.0001"), ("join_rate", "joined_share >= 0.999"),
                         ("emulated_bandwidth", "largest_deviation <= 0.03"), ("overhead_gpu_bound", "ratio <= 1.03"),
                         ("overhead_cpu_bound", "ratio <= 1.3"), ("memory", "unaccounted_bytes == 0"), ("speed_1b", "of_pytorch >= 1")):
            self.assertIn(promised, limits)

    def test_good_figures_pass(self):
        for name in NAMES:
            entry = entry_of(name, FakeLab())
            self.assertEqual((entry["status"], entry["reason"]), ("pass", ""), name)
            self.assertTrue(entry["measured"])

    def test_bad_figures_fail_and_the_limit_is_named(self):
        off = [line.replace(" 4.", " 4.01") for line in LOSSES]
        for name, wrong, figure in (
                ("parity_cpu", {"parity-gpu": off}, "largest_relative_difference"), ("parity_cpu", {"parity-gpu": []}, "0 steps"),
                ("parity_cpu", {"parity-blocks": off}, "with_logits_in_blocks"), ("parity_cpu", {"parity-adapters-gpu": off}, "of_adapters"),
                ("parity_cpu", {"parity-offload": off}, "of_offload"),
                ("schedules_bitwise", {"bits-fsdp1-1": off}, "different"), ("join_rate", {"joined": 9_980}, "joined_share"),
                ("join_rate", {"kernels": 0, "joined": 0}, "kernels"), ("clock_skew", {"before_launch_us": 51.0}, "before_launch_us"),
                ("clock_skew", {"after_step_us": 60.0}, "after_step_us"),
                ("clock_skew", {"gpu_clocks": 0}, "gpu_clocks"), ("clock_skew", {"low_us": 51.0}, "low_us"),
                ("clock_skew", {"high_us": -51.0}, "high_us"), ("edges", {"violated": 1}, "violated"),
                ("edges", {"missing": 1}, "missing"), ("edges", {"seen_by_cupti": 0}, "seen_by_cupti"), ("memory", {"unaccounted_bytes": 1}, "unaccounted_bytes"),
                ("memory", {"unaccounted_bytes": -1, "step_ends": 0}, "step_ends"), ("memory", {"late_bytes": 8}, "late_bytes"),
                ("memory", {"allocator_on": 0}, "allocator_on"), ("memory", {"held_bytes": 1 << 30}, "held_bytes"),
                ("memory", {"device_used_readings": 0}, "device_used_readings"), ("local_bandwidth", {"transfers": 0}, "collectives"),
                ("emulated_bandwidth", {"slowness": 1.04}, "largest_deviation"),
                ("emulated_bandwidth", {"slowness": 0.96}, "largest_deviation"), ("emulated_bandwidth", {"transfers": 0}, "could not be used"),
                ("nccl_one_rank", {"nccl": off}, "largest_relative_difference"), ("nccl_multi_gpu", {"nccl-two": off}, "largest_relative_difference"), ("nccl_multi_gpu", {"joined": 9_980}, "joined_share"),
                ("injection", {"recorded_output": "x"}, "same_output"),
                ("injection", {"kernels": 0}, "kernels"), ("injection", {"fsdp_ranges": 0}, "fsdp_ranges"), ("injection", {"cupti_on": 0}, "cupti_on"),
                ("prefetch_overlap", {"shift": 150}, "gained_pairs"), ("overhead_gpu_bound", {"overhead": 1.04}, "ratio"),
                ("overhead_cpu_bound", {"overhead": 1.4}, "ratio"), ("overhead_cpu_bound", {"rounds": 3}, "rounds"),
                ("overhead_gpu_bound", {"overhead": None}, "measured nothing"), ("speed_1b", {"pytorch_step_s": 0.09}, "of_pytorch"),
                ("sanitizer", {"sanitizer": 2}, "errors"), ("join_rate", {"train": lab.Failure("it ended with 1: why")}, "why")):
            with self.subTest(name=name, wrong=wrong):
                entry = entry_of(name, FakeLab(**wrong))
                self.assertEqual(entry["status"], "fail")
                self.assertIn(figure, entry["reason"])

    def test_what_cannot_be_checked_is_skipped_with_its_reason(self):
        entry = entry_of("sanitizer", FakeLab(tool=lab.Skip("compute-sanitizer is not on this machine")))
        self.assertEqual((entry["status"], entry["reason"]), ("skipped", "compute-sanitizer is not on this machine"))

    def test_several_gpus_are_checked_only_where_there_are_several(self):
        entry = entry_of("nccl_multi_gpu", FakeLab(gpu=machine.Gpu("NVIDIA H200", "580.1", 1)))
        self.assertEqual((entry["status"], entry["reason"]), ("skipped", "not run: 1 device"))
        self.assertEqual(cli.summary([entry]), {"passed": 0, "failed": 0, "skipped": 1})

    def test_a_check_for_which_there_was_no_time_has_not_passed(self):
        entry = entry_of("memory", FakeLab(left_s=0))
        self.assertEqual((entry["status"], entry["reason"]), ("fail", "no time was left for it"))

    def test_overhead_is_what_the_run_itself_measures(self):
        fake = FakeLab()
        entry_of("overhead_gpu_bound", fake)
        (_, settings, environment), = fake.commands
        self.assertIsNone(environment)  # CUPTI is on, but for the steps that the run leaves out
        self.assertIn(f"record.measure_overhead={checks_speed.ROUNDS}", settings)

    def test_pairs_of_kernels_that_ran_at_once(self):
        rows = [("compute", 0, 10), ("communication", 5, 20), ("compute", 10, 15), ("compute", 20, 30)]
        kernels = [{"rank": rank, "category": category, "start_ns": start, "end_ns": end} for category, start, end in rows
                   for rank in (0, 1)]
        self.assertEqual(checks_transport.overlapping_pairs(kernels), 4)

    def test_operations_of_a_token(self):
        # A weight takes part in one product forward and two backward, each a multiplication and an addition.
        self.assertEqual(checks_speed.operations_a_token(0, 8, 16), 6 * 256 * 8)
        self.assertEqual(checks_speed.operations_a_token(2, 8, 16) - checks_speed.operations_a_token(1, 8, 16),
                         6 * 12 * 64 + 6 * 16 * 8)


class CommandTest(unittest.TestCase):
    """The whole command over the fake machine."""

    def run_main(self, fake, *arguments):
        folder = self.enterContext(tempfile.TemporaryDirectory())
        out = pathlib.Path(folder) / "out"
        torch = machine.Torch("2.11.0+cu130", pathlib.Path("/torch/lib"), "/python3")
        with mock.patch.object(machine, "find_torch", lambda: torch), mock.patch.object(machine, "describe_gpu", lambda: GPU), \
                mock.patch.object(cli, "Lab", lambda *_: fake), contextlib.redirect_stdout(io.StringIO()) as said:
            code = cli.main(["--out", str(out), *arguments], SCRIPT, no_gpu_reason=lambda: None)
        return code, json.loads((out / "gpu-check.json").read_text()), said.getvalue()

    def test_the_json_has_every_check(self):
        code, result, said = self.run_main(FakeLab())
        self.assertEqual(code, cli.PASSED)
        self.assertEqual({"version", "when", "commit", "machine", "checks", "passed", "failed", "skipped", "files", "files_left_out"},
                         set(result))
        self.assertEqual(set(result["machine"]), {"gpu", "gpus", "driver", "torch", "python", "cores"})
        self.assertEqual([entry["name"] for entry in result["checks"]], NAMES)
        for entry in result["checks"]:
            self.assertEqual(set(entry), {"name", "what", "status", "reason", "measured", "limits", "seconds"})
            self.assertIn(entry["status"], ("pass", "fail", "skipped"))
            self.assertTrue(all(isinstance(value, (int, float)) for value in entry["measured"].values()))
        self.assertEqual((result["passed"], result["failed"], result["skipped"]), (len(NAMES), 0, 0))
        self.assertEqual(len(said.splitlines()), len(NAMES) + 2)

    def test_a_failure_is_exit_1_and_a_skip_is_none(self):
        code, result, said = self.run_main(FakeLab(violated=1))
        self.assertEqual((code, result["failed"]), (cli.FAILED, 1))
        self.assertIn("violated == 0", said)
        code, result, _ = self.run_main(FakeLab(tool=lab.Skip("not there")))
        self.assertEqual((code, result["skipped"]), (cli.PASSED, 1))

    def test_only_some(self):
        _, result, _ = self.run_main(FakeLab(), "--only", "memory", "edges")
        self.assertEqual([entry["name"] for entry in result["checks"]], ["edges", "memory"])

    def test_without_libtorch_it_cannot_run(self):
        def nothing():
            raise machine.MachineError("LibTorch 2.11 is not to be found")

        with mock.patch.object(machine, "find_torch", nothing), contextlib.redirect_stderr(io.StringIO()) as said:
            self.assertEqual(cli.main([], SCRIPT, no_gpu_reason=lambda: None), cli.CANNOT_RUN)
        self.assertEqual(len(said.getvalue().splitlines()), 1)


class LabTest(unittest.TestCase):
    """The real Lab over programs that are a shell."""

    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        torch = machine.Torch("2.11.0", self.folder / "torch" / "lib", None)
        self.lab = lab.Lab(lab.Places(self.folder / "bin", [self.folder], self.folder / "lib"), torch, self.folder / "work", GPU, 60)

    def test_a_program_that_fails_or_hangs_fails_the_check(self):
        self.assertEqual(self.lab.run_program(["echo", "hi"]), "hi\n")
        with self.assertRaisesRegex(lab.Failure, "sh ended with 3: why"):
            self.lab.run_program(["sh", "-c", "echo why >&2; exit 3"])
        with self.assertRaisesRegex(lab.Failure, "took longer"):
            self.lab.run_program(["sleep", "60"], limit_s=1.1)
        started = self.folder / "started"
        with self.assertRaisesRegex(lab.Failure, "took longer"):
            self.lab.run_program(["sh", "-c", f"sleep 60 & echo $! > {started}; wait"], limit_s=1.1)
        state = pathlib.Path(f"/proc/{started.read_text().strip()}/stat")

        def is_over():  # ended, or ended and not yet collected
            try:
                return state.read_text().rpartition(")")[2].split()[0] == "Z"
            except OSError:
                return True

        give_up = time.monotonic() + 20
        while not is_over() and time.monotonic() < give_up:
            time.sleep(0.01)
        self.assertTrue(is_over())
        self.lab.deadline = 0
        with self.assertRaisesRegex(lab.Failure, "no time"):
            self.lab.run_program(["true"])

    def test_a_run_is_made_once_and_its_error_is_everyones(self):
        made = []
        self.assertEqual([self.lab.once("a", lambda: made.append(1) or 7) for _ in range(2)], [7, 7])
        self.assertEqual(len(made), 1)

        def fail():
            made.append(2)
            raise lab.Failure("why")

        for _ in range(2):
            with self.assertRaisesRegex(lab.Failure, "why"):
                self.lab.once("b", fail)
        self.assertEqual(made, [1, 2])

    def test_python_is_needed_for_pytorch_only(self):
        with self.assertRaises(lab.Skip):
            self.lab.pytorch("x.py")
        self.assertIn(str(self.folder / "torch" / "lib"), self.lab.environment()["LD_LIBRARY_PATH"])
        self.assertNotIn("torch", self.lab.environment(with_torch=False)["LD_LIBRARY_PATH"])

    def test_libtorch_by_its_folder(self):
        torch = self.folder / "torch"
        (torch / "lib").mkdir(parents=True)
        (torch / "lib" / "libtorch_cpu.so").touch()
        with mock.patch.dict("os.environ", {"LIBTORCH": str(torch)}), mock.patch.object(machine, "torch_of_python", lambda _: None):
            self.assertEqual(machine.find_torch().lib, torch / "lib")
            (torch / "version.py").write_text("__version__ = '2.11.0+cu130'\n")
            self.assertEqual(machine.find_torch().version, "2.11.0+cu130")
            (torch / "version.py").write_text("__version__ = '2.10.0'\n")
            with self.assertRaisesRegex(machine.MachineError, "version 2.10.0"):
                machine.find_torch()
            shutil.rmtree(torch)
            with self.assertRaisesRegex(machine.MachineError, "no libtorch_cpu.so"):
                machine.find_torch()


if __name__ == "__main__":
    unittest.main()
