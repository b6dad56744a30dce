"""scripts/gpu-check without a GPU: its checks over made-up figures and rows, the packed folder, JSON and exit codes."""

import concurrent.futures
import contextlib
import io
import json
import pathlib
import shutil
import sqlite3
import subprocess
import sys
import tempfile
import time
import unittest
from unittest import mock

from programs import BIN, ROOT, TIMEOUT_S, ProgramTest

sys.path.insert(0, str(ROOT / "scripts"))
from gpu_check import checks_speed, checks_tracing, checks_transport, cli, lab, machine, pack, table  # noqa: E402

SCRIPT = ROOT / "scripts" / "gpu-check"
# What issue and documentation promise.
NAMES = ["parity_cpu", "schedules_bitwise", "join_rate", "clock_skew", "edges", "memory", "local_bandwidth", "emulated_bandwidth",
         "nccl_one_rank", "nccl_multi_gpu", "injection", "prefetch_overlap", "overhead_gpu_bound", "overhead_cpu_bound", "speed_1b", "sanitizer"]
GOLDEN = BIN.parent / "tests" / "golden_gpu_trace"
GPU = machine.Gpu("NVIDIA H200", "580.1", 2)
LOSSES = [f"{step} {5 - 0.1 * step:.17g} {1 + 0.01 * step:.17g}" for step in range(10)]


class FakeLab:
    """Answers as a machine with a GPU on which all is well; `wrong` replaces some answers."""

    def __init__(self, **wrong):
        self.wrong = wrong
        self.gpu = self.answer("gpu", GPU)
        self.folder = pathlib.Path("/work")
        self.places = lab.Places("/bin", [])
        self.commands = []

    def answer(self, name, right):
        value = self.wrong.get(name, right)
        if isinstance(value, Exception):
            raise value
        return value

    def left_s(self):
        return self.answer("left_s", 100)

    def train_command(self, run, *settings, extra=()):
        return ["shardscope-train", run, *settings]

    def train(self, name, *settings, environment=None, limit_s=0, extra=()):
        self.commands.append((name, settings, environment))
        return self.answer("train", pathlib.Path(name))

    def losses(self, name, *settings, environment=None):
        self.train(name, *settings, environment=environment)
        return self.answer(name, LOSSES)

    def sql(self, run, query):
        if query is checks_transport.TRANSFERS:
            bandwidth = checks_transport.BANDWIDTHS.get(str(run).removeprefix("emulated-").replace("-", "/"), 1e12)
            seconds = (checks_transport.LATENCY_S + 10e6 / bandwidth) * self.answer("slowness", 1.01)
            return [{"wire_bytes": 10_000_000, "seconds": seconds}] * self.answer("transfers", 12)
        if query is checks_transport.KERNELS:
            shift = 0 if "on" in str(run) else 100
            return [{"rank": 0, "category": "compute", "start_ns": 0, "end_ns": 100},
                    {"rank": 0, "category": "communication", "start_ns": self.answer("shift", 50) + shift, "end_ns": 300}]
        right = {checks_tracing.JOIN_RATE: {"kernels": 10_000, "joined": 9_995},
                 checks_tracing.CLOCK_SKEW: {"kernels": 10_000, "before_launch_us": 3.0, "after_step_us": -2.0},
                 checks_tracing.GPU_CLOCK: {"gpu_clocks": 1, "uncertainty_us": 9.0, "low_us": -4.0, "high_us": 9.0},
                 checks_tracing.EDGES: {"checked": 400, "violated": 0},
                 checks_tracing.SEEN_EDGES: {"seen_by_cupti": 90, "missing": 0, "extra": 3},
                 checks_tracing.MEMORY: {"step_ends": 12, "unaccounted_bytes": 0},
                 checks_tracing.UNACCOUNTED: {"held_bytes": 64 << 20, "late_bytes": 0, "allocator_on": 1},
                 checks_tracing.IN_USE: {"device_used_readings": 6, "device_used_bytes": 2 << 30},
                 checks_tracing.SEGMENTS: {"bytes": 1 << 30},
                 checks_tracing.INJECTED: {"kernels": 500, "copies": 4, "nccl_operations": 20, "fsdp_ranges": 80, "cupti_on": 1}}[query]
        return [{**right, **{key: value for key, value in self.wrong.items() if key in right}}]

    def report(self, run):
        ratio = self.answer("overhead", 1.01)
        return {"steps": [{"step": step, "rank": rank, "step_ns": 1e8 * (10 if step < 3 else 1)} for step in range(12) for rank in range(2)],
                "overhead": ratio and {"ratio": ratio, "lowest": ratio - 0.02, "highest": ratio + 0.02, "unrecorded_ns": 1e8,
                                       "rounds": self.answer("rounds", checks_speed.ROUNDS)}}

    def pytorch(self, program, *arguments, prefix=(), environment=None, limit_s=0):
        if program == "fsdp2_small.py":
            return self.answer("recorded_output", "step 0\n") if prefix else "step 0\n"
        return "warning\n" + json.dumps({"steps_s": [9.0] * 3 + [self.answer("pytorch_step_s", 0.11)] * 9})

    def environment(self, more=None):
        return more

    def run_program(self, command, environment=None, limit_s=0):
        assert environment == lab.CUPTI_OFF
        return f"...\n========= ERROR SUMMARY: {self.answer('sanitizer', 0)} errors\n"

    def tool(self, name):
        return self.answer("tool", name)


def entry_of(name, fake):
    return table.judge(next(check for check in table.CHECKS if check.name == name), fake)


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


class QueriesTest(ProgramTest):
    """The queries themselves, on a trace with GPU work put into it by hand."""

    def make_trace(self, *, kernel_start=1000, edge_start=1600):
        run, _ = self.train("run", "train.steps=3", ranks=1)
        trace, = run.glob("trace-*.db")
        with contextlib.closing(sqlite3.connect(trace)) as database:
            (end, step), = database.execute("SELECT end_ns, step FROM step WHERE step = 2")
            (first, second), = database.execute("SELECT predecessor, plan_op FROM plan_edge WHERE kind = 'event' LIMIT 1")

            def add(table_name, **values):
                columns = {name: (0 if kind == "INTEGER" else "" if kind == "TEXT" else 0.0) for _, name, kind, *_ in
                           database.execute(f"PRAGMA table_info({table_name})")}
                columns |= values
                database.execute(f"INSERT INTO {table_name} ({', '.join(columns)}) VALUES ({', '.join('?' * len(columns))})",
                                 list(columns.values()))

            base = end - 10_000
            add("track", id=900, rank=0, name="stream 7", role="gpu")
            for index, (op, start, length) in enumerate(((first, kernel_start, 500), (second, edge_start, 300), (-1, 2000, 100))):
                add("span", id=9000 + index, track=900, start_ns=base + start, duration_ns=length, category="compute")
                add("gpu_work", id=9000 + index, kind="kernel", times="measured", plan_op=op, step=step if op >= 0 else -1,
                    launch_track=900, launch_start_ns=base + 900, correlation=index + 1)
            add("event_edge", id=1, from_track=900, to_track=900, from_plan_op=first, to_plan_op=second)
            add("memory_segment", id=1, bytes=4096, kind="device")
            # A workspace of the first step, and what was kept and given back in the last.
            (early,), = database.execute("SELECT end_ns FROM step WHERE step = 0")
            for number, (time, size) in enumerate(((early, 1000), (end + 1, 24), (end + 2, -24))):
                add("memory_event", id=90_000 + number, issued_ns=time, executed_ns=time, bytes=size, category="other", unit="unaccounted")
            add("capability", id=900, source="allocator", status="on")
            database.execute("UPDATE string SET text = 'device_used_bytes' WHERE text = 'resident_bytes'")
            database.commit()
        return run

    def ask(self, run, query):
        return self.sql(run, query)[0]

    def test_what_they_find(self):
        run = self.make_trace()
        self.assertEqual(self.ask(run, checks_tracing.JOIN_RATE), {"kernels": 3, "joined": 2})
        skew = self.ask(run, checks_tracing.CLOCK_SKEW)
        self.assertEqual((skew["kernels"], skew["before_launch_us"]), (2, -0.1))
        self.assertLess(skew["after_step_us"], 0)
        self.assertEqual(self.ask(run, checks_tracing.EDGES), {"checked": 1, "violated": 0})
        self.assertEqual(self.ask(run, checks_tracing.SEEN_EDGES)["seen_by_cupti"], 1)
        self.assertEqual(self.ask(run, checks_tracing.SEGMENTS), {"bytes": 4096})
        memory = self.ask(run, checks_tracing.MEMORY)
        self.assertEqual((memory["step_ends"], memory["unaccounted_bytes"]), (3, 1000))  # those of the workspace, which is no counter's
        self.assertEqual(self.ask(run, checks_tracing.UNACCOUNTED), {"held_bytes": 1000, "late_bytes": 48, "allocator_on": 1})
        self.assertEqual(self.ask(run, checks_tracing.IN_USE)["device_used_readings"], 3)
        injected = self.ask(run, checks_tracing.INJECTED)
        self.assertEqual((injected["kernels"], injected["copies"], injected["cupti_on"]), (3, 0, 0))
        self.assertEqual(self.sql(run, checks_transport.KERNELS)[0]["category"], "compute")

    def test_clocks_that_differ_and_edges_that_are_not_kept(self):
        run = self.make_trace(kernel_start=700, edge_start=1100)
        self.assertEqual(self.ask(run, checks_tracing.CLOCK_SKEW)["before_launch_us"], 0.2)
        self.assertEqual(self.ask(run, checks_tracing.EDGES), {"checked": 1, "violated": 1})

    @unittest.skipUnless(GOLDEN.exists(), "a build without CUDA's headers has no golden scenario")
    def test_the_golden_training_passes(self):
        runs = {}
        for prefetch in ("pre", "none"):
            runs[prefetch] = self.root / prefetch
            self.run_program(GOLDEN, runs[prefetch], 5, 2, prefetch)
        join = self.ask(runs["pre"], checks_tracing.JOIN_RATE)
        self.assertGreater(join["kernels"], 100)
        self.assertEqual(join["joined"], join["kernels"])
        skew = self.ask(runs["pre"], checks_tracing.CLOCK_SKEW)
        self.assertEqual(skew["kernels"], join["kernels"])
        self.assertLess(skew["before_launch_us"], 0)
        self.assertLessEqual(skew["after_step_us"], 0)
        clock = self.ask(runs["pre"], checks_tracing.GPU_CLOCK)
        self.assertEqual(clock["gpu_clocks"], 2)
        self.assertLess(clock["low_us"], 0)
        self.assertGreaterEqual(clock["high_us"], 0)
        edges = self.ask(runs["pre"], checks_tracing.EDGES)
        self.assertGreater(edges["checked"], 10)
        self.assertEqual(edges["violated"], 0)
        seen = self.ask(runs["pre"], checks_tracing.SEEN_EDGES)
        self.assertGreater(seen["seen_by_cupti"], 10)
        self.assertEqual((seen["missing"], seen["extra"]), (0, 0))
        pairs = {name: checks_transport.overlapping_pairs(self.sql(run, checks_transport.KERNELS)) for name, run in runs.items()}
        self.assertGreater(pairs["pre"], pairs["none"])

    def test_transfers_of_a_paced_link(self):
        run, _ = self.train("paced", "train.steps=4", "transport=emulated", "link.bandwidth=200MB/s", "model.dim=240", "model.layers=1")
        query = checks_transport.TRANSFERS.replace("4000000", "100000")
        rows = self.sql(run, query)
        self.assertTrue(rows)
        for row in rows:
            self.assertGreaterEqual(row["seconds"], row["wire_bytes"] / 200e6)


@unittest.skipIf(machine.no_gpu_reason() is None, "this machine has a GPU: what is asked for would be trained")
class SettingsTest(ProgramTest):
    def test_the_trainer_knows_every_key_and_value(self):
        fake = FakeLab()
        for name in NAMES:
            entry_of(name, fake)
        pairs = {tuple(setting.split("=", 1)) for _, settings, _ in fake.commands if "run.device=cuda" in settings
                 for setting in settings}
        # As few commands as give every key each of its words, and one of its numbers.
        values = {}
        for key, value in sorted(pairs):
            if not value.isdigit() or key not in values:
                values.setdefault(key, []).append(value)
        self.assertEqual(values["transport"], ["emulated", "local", "nccl"])
        commands = [[f"{key}={of_key[index % len(of_key)]}" for key, of_key in values.items()]
                    for index in range(max(map(len, values.values())))]

        def run(settings):
            return self.run_program(*self.train_command(self.root / "never", *settings, ranks=2), check=False)

        with concurrent.futures.ThreadPoolExecutor(2) as pool:
            for settings, done in zip(commands, pool.map(run, commands)):
                # All that is wrong is the machine.
                self.assertEqual(done.returncode, 1, settings)
                self.assertTrue(done.stderr.startswith("error: run.device=cuda: "), f"{settings}: {done.stderr}")


@unittest.skipUnless((BIN / "libshardscope_inject.so").exists(), "a build with sanitizers has nothing to pack")
class PackTest(unittest.TestCase):
    def setUp(self):
        self.folder = pathlib.Path(self.enterContext(tempfile.TemporaryDirectory()))
        self.packed = self.folder / "packed"

    def run_script(self, script, *arguments):
        return subprocess.run([sys.executable, script, *map(str, arguments)], capture_output=True, text=True, timeout=TIMEOUT_S,
                              cwd=self.folder)

    def make(self):
        done = self.run_script(SCRIPT, "--pack", self.packed, "--build", BIN.parent, "--without-cuda")
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_it_is_small_and_has_what_it_needs(self):
        self.make()
        size = sum(path.stat().st_size for path in self.packed.rglob("*") if path.is_file())
        self.assertLessEqual(size, pack.MAX_BYTES)
        for name in ("gpu-check", "bin/shardscope", "bin/shardscope-train", "bin/libshardscope_inject.so", "bin/python/sitecustomize.py", "programs/model.py",
                     "programs/fsdp2_small.py", "programs/fsdp2_speed.py", "gpu_check/table.py", "manifest.json"):
            self.assertTrue((self.packed / name).exists(), name)
        # LibTorch, CUDA and the C library are the machine's own.
        self.assertFalse([path.name for path in (self.packed / "lib").iterdir() if pack.SYSTEM.match(path.name)])
        listed = self.run_script(self.packed / "gpu-check", "--list")
        self.assertEqual([line.split()[0] for line in listed.stdout.splitlines()], NAMES)
        # Its programs find the libraries that came along.
        done = subprocess.run([self.packed / "bin" / "shardscope", "--help"], capture_output=True, text=True,
                              env={"LD_LIBRARY_PATH": str(self.packed / "lib")})
        self.assertEqual(done.returncode, 0, done.stderr)

    def test_a_damaged_folder_is_refused(self):
        self.make()
        (self.packed / "programs" / "model.py").write_text("other")
        done = self.run_script(self.packed / "gpu-check")
        self.assertEqual(done.returncode, cli.CANNOT_RUN)
        self.assertIn("damaged", done.stderr)
        (self.packed / "programs" / "model.py").unlink()
        self.assertIn("missing", self.run_script(self.packed / "gpu-check").stderr)
        for damaged in ("{", "{}", "[]"):
            (self.packed / "manifest.json").write_text(damaged)
            done = self.run_script(self.packed / "gpu-check")
            self.assertEqual(done.returncode, cli.CANNOT_RUN)
            line, = done.stderr.splitlines()
            self.assertIn("manifest.json is damaged", line)
        again = self.run_script(SCRIPT, "--pack", self.packed, "--build", BIN.parent)
        self.assertEqual(again.returncode, cli.CANNOT_RUN)
        self.assertIn("not empty", again.stderr)

    def test_a_place_that_cannot_be_packed_into(self):
        self.packed.write_text("a file")
        done = self.run_script(SCRIPT, "--pack", self.packed, "--build", BIN.parent, "--without-cuda")
        self.assertEqual(done.returncode, cli.CANNOT_RUN)
        line, = done.stderr.splitlines()
        self.assertIn(str(self.packed), line)

    @unittest.skipIf(machine.no_gpu_reason() is None, "this machine has a GPU")
    def test_without_a_gpu_it_says_so_in_one_line(self):
        self.make()
        for script in (SCRIPT, self.packed / "gpu-check"):
            done = self.run_script(script)
            self.assertEqual((done.returncode, done.stderr), (cli.NO_GPU, ""))
            line, = done.stdout.splitlines()
            self.assertIn("no GPU here", line)
        self.assertEqual(sorted(path.name for path in self.folder.iterdir()), ["packed"])

    def test_what_is_brought_back_is_bounded(self):
        work, out = self.folder / "work", self.folder / "out"
        out.mkdir()
        for run in ("base", "injected", "emulated-20GB-s", "nccl", "prefetch-on"):
            (work / run).mkdir(parents=True)
            (work / run / "trace-host-1.db").write_bytes(b"x" * 10)
        for index in range(9):
            (work / f"cupti-{index}.buffers").write_bytes(b"x" * (10 + index))
        with open(work / "nccl" / "trace-host-1.db", "wb") as large:
            large.truncate(pack.MAX_FILE_BACK_BYTES + 1)
        names, left_out = pack.bring_back(work, out)
        self.assertEqual(names, ["cupti-8.buffers", "cupti-7.buffers", "base.db", "injected.db", "emulated-20GB-s.db", "prefetch-on.db"])
        self.assertEqual(len(left_out), 1)
        self.assertLess(len(names), pack.MAX_FILES_BACK)


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
