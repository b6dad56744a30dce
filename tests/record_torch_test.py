"""`shardscope record` of PyTorch programs: ranges of FSDP, blocks of the caching allocator."""

import sys
import unittest

from programs import BIN, free_port
from recorded import LIBRARY, PYTORCH, RecordTest

# FSDP2 on the CPU. The loader of rank 0 forks a worker while the process is being recorded. Nothing of Python's may be left to Gloo's
# threads when Python ends: one that frees it then ends the process, "terminate called without an active exception" (PyTorch's issue 38228).
TORCH_PROGRAM = """
import os, sys, torch, torch.distributed as dist
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard
dist.init_process_group("gloo")
class Numbers(torch.utils.data.Dataset):
    def __len__(self): return 8
    def __getitem__(self, i):
        torch.cuda.nvtx.range_push("in worker"); torch.cuda.nvtx.range_pop()
        return torch.full((4,), float(i))
def train():
    mesh = init_device_mesh("cpu", (dist.get_world_size(),))
    layers = [torch.nn.Linear(4, 4) for _ in range(3)]
    model = torch.nn.Sequential(*layers)
    for layer in layers: fully_shard(layer, mesh=mesh)
    fully_shard(model, mesh=mesh)
    for batch in torch.utils.data.DataLoader(Numbers(), batch_size=4, num_workers=1 if dist.get_rank() == 0 else 0):
        model(batch).sum().backward()
torch.cuda.nvtx.range_push("training")
train()
torch.cuda.nvtx.range_pop()
total = torch.ones(1)
dist.all_reduce(total)
sys.stdout.write(f"rank {dist.get_rank()} of {int(total)} done\\n")
sys.stdout.flush()
dist.barrier()
dist.destroy_process_group()
"""


# Events of an allocator, as engine/torch_ranges hands them over: trace/record/inject/allocator/allocator_event.h.
ALLOCATOR_PROGRAM = """
import ctypes, sys, time
class Event(ctypes.Structure):
    _fields_ = [("time_ns", ctypes.c_int64), ("action", ctypes.c_int32), ("device", ctypes.c_int32), ("address", ctypes.c_uint64),
                ("stream", ctypes.c_uint64), ("bytes", ctypes.c_int64), ("active_bytes", ctypes.c_int64),
                ("reserved_bytes", ctypes.c_int64), ("range", ctypes.c_char_p), ("unit", ctypes.c_char_p),
                ("phase", ctypes.c_char_p), ("category", ctypes.c_char_p)]
library = ctypes.CDLL(sys.argv[1])
def tell(action, address=0, size=0, active=0, owner=(None,) * 4):
    library.ShardscopeAllocator(ctypes.byref(Event(time.monotonic_ns(), action, 0, address, 7, size, active, 2048, *owner)))
ATTACHED, ALLOC, FREE_REQUESTED, FREE_COMPLETED, GAINED = range(5)
tell(ATTACHED)
tell(GAINED, 4096, 2048)
tell(ALLOC, 4096, 1000, 0, (b"FSDP::all_gather (layers.0)", b"layers.0", b"forward", b"communication_buffer"))
tell(ALLOC, 5120, 100, 1024, (None, b"layers.0", b"forward", b"activation"))
tell(FREE_REQUESTED, 4096, 1000, 1536)
time.sleep(0.002)
tell(FREE_COMPLETED, 4096, 1000, 1536)
tell(FREE_REQUESTED, 0, 0, 512)
"""


class AllocatorOfAProgram(RecordTest):
    def test_blocks_become_rows_that_add_up(self):
        run, _ = self.record(sys.executable, "-c", ALLOCATOR_PROGRAM, LIBRARY, check=0, environment={"RANK": "2"})
        blocks = self.sql(run, "SELECT a.rank, a.stream, a.requested_bytes, a.block_bytes, a.state, a.unit, a.phase, a.category, "
                               "s.text AS range, a.free_completed_ns - a.free_requested_ns > 1000000 AS waited "
                               "FROM allocation a LEFT JOIN string s ON s.id = a.range_string ORDER BY a.allocated_ns")
        gather = {"rank": 2, "stream": 7, "requested_bytes": 1000, "block_bytes": 1024, "state": "freed", "unit": "layers.0",
                  "phase": "forward", "category": "communication_buffer", "range": "FSDP::all_gather (layers.0)", "waited": 1}
        activation = {**gather, "requested_bytes": 100, "block_bytes": 512, "state": "held", "category": "activation",
                      "range": None, "waited": 0}
        self.assertEqual(blocks, [gather, activation])
        live = self.sql(run, "SELECT device, category, unit, sum(bytes) AS bytes FROM memory_event GROUP BY 1, 2, 3 ORDER BY 2")
        self.assertEqual(live, [{"device": "GPU 0", "category": "activation", "unit": "layers.0", "bytes": 512},
                                {"device": "GPU 0", "category": "communication_buffer", "unit": "layers.0", "bytes": 0}])
        reserved = self.sql(run, "SELECT c.value FROM counter c JOIN string s ON s.id = c.name_string WHERE s.text = 'reserved_bytes'")
        self.assertEqual([row["value"] for row in reserved], [2048])
        self.assertEqual([row for row in self.report(run)["sources"] if row["source"] == "memory"], [])


# PyTorch would call what waits for CUDA once it has that; this machine may have none.
CALL_WHAT_WAITS_FOR_CUDA = """
import torch
torch.cuda.nvtx.range_push("x"); torch.cuda.nvtx.range_pop()
for call, _ in torch.cuda._queued_calls:
    if call.__name__ == "attach": call()
"""


@unittest.skipUnless(PYTORCH.exists(), "PyTorch is not installed in the cache folder")
class PyTorchProgram(RecordTest):
    @unittest.skipUnless((BIN / "libshardscope_torch.so").exists(), "built without LibTorch")
    def test_who_could_not_attach_to_the_allocator_does_not_say_that_cuda_was_not_used(self):
        run, _ = self.record(PYTORCH, "-c", CALL_WHAT_WAITS_FOR_CUDA, check=0)
        reason, = [row["reason"] for row in self.report(run)["sources"] if row["source"] == "memory"]
        self.assertIn("PyTorch has not initialised CUDA", reason)

    def test_a_cpu_job_under_torchrun_runs_unharmed_and_its_fsdp_ranges_are_seen(self):
        script = self.root / "train.py"
        script.write_text(TORCH_PROGRAM)
        run, done = self.record(PYTORCH, "-m", "torch.distributed.run", "--master-addr", "127.0.0.1", "--master-port",
                                free_port(), "--nproc-per-node", "2", script,
                                # Where no name of this machine can be resolved (a chroot without /etc/hosts) Gloo needs the interface's.
                                environment={"OMP_NUM_THREADS": "1", "GLOO_SOCKET_IFNAME": "lo"}, check=0)
        self.assertEqual(sorted(done.stdout.splitlines()), ["rank 0 of 2 done", "rank 1 of 2 done"])
        ranks = [p for p in self.programs(run) if "train.py" in p["command"] and "torch.distributed.run" not in p["command"]]
        self.assertEqual([(p["rank"], p["state"]) for p in ranks], [(0, "finished"), (1, "finished")])
        counts = self.counts(run)
        self.assertEqual(counts.get("training"), 2)
        # Rank 1 has no worker, so it loads its 8 numbers itself; in a forked worker nothing is recorded.
        self.assertEqual(counts.get("in worker"), 8)
        has_module = (BIN / "libshardscope_torch.so").exists()
        self.assertEqual(self.sources(run), {"nvtx": "on", "nccl": "off", "cupti": "off", **({"memory": "off"} if has_module else {})})
        gathers = self.sql(run, "SELECT t.rank, count(*) AS n FROM span s JOIN track t ON t.id = s.track JOIN string n ON "
                                "n.id = s.name_string WHERE n.text LIKE 'torch: FSDP::all_gather%' GROUP BY 1 ORDER BY 1")
        if not has_module:
            self.assertEqual(gathers, [])
            return
        reasons = {row["reason"] for row in self.report(run)["sources"] if row["source"] == "memory"}
        self.assertEqual(reasons, {"PyTorch has not used CUDA; tensors of the CPU are not recorded"})
        self.assertEqual([row["rank"] for row in gathers], [0, 1])
        self.assertGreaterEqual(gathers[0]["n"], 2 * 3)  # forward of every layer, in both steps at least
        self.assertEqual(gathers[0]["n"], gathers[1]["n"])


del RecordTest  # only a base of the classes above


if __name__ == "__main__":
    unittest.main()
