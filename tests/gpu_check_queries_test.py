"""What scripts/gpu-check asks of traces and of the trainer: its queries over made-up rows, its settings over the real keys."""

import concurrent.futures
import contextlib
import sqlite3
import unittest

from gpu_check_lab import NAMES, FakeLab, entry_of
from programs import BIN, ProgramTest

from gpu_check import checks_tracing, checks_transport, machine

GOLDEN = BIN.parent / "tests" / "golden_gpu_trace"


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


if __name__ == "__main__":
    unittest.main()
