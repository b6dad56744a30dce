"""docs/training.md from its first step to its last, with a small model: adapters, bf16, recomputation and offload on four ranks; stopped; gone on with on
two ranks by another strategy; exported, and the export compared with weights and adapters of the checkpoint."""

import json
import pathlib
import struct
import subprocess
import sys
import unittest

import hugging_face
import llama_cases
from programs import APP, INTERRUPTED, TIMEOUT_S, TRAIN, ProgramTest, interrupt, is_steerable

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "tokenizer"))
import material  # noqa: E402  (needs the path above)

RANK, ALPHA = 4, 8
ADAPTERS = [f"lora.rank={RANK}", f"lora.alpha={ALPHA}", "lora.targets=all"]


class FineTuningTest(ProgramTest):
    def setUp(self):
        super().setUp()
        self.config = {**next(case.config for case in llama_cases.CASES if case.name == "grouped"), "vocab_size": 400}
        self.folder = hugging_face.write_folder(self.root / "llama", self.config)
        tokenizer = self.root / "tokenizer"
        material.write_folder(tokenizer, material.kinds(material.train(100))["qwen2"])
        for path in tokenizer.iterdir():
            path.rename(self.folder / path.name)
        dice = material.Dice(7)
        lines = [{"messages": [{"role": "user", "content": " ".join(dice.one(material.WORDS) for _ in range(8))},
                               {"role": "assistant", "content": "the optimizer shards the gradient"}]} for _ in range(80)]
        self.chats, self.held_out = self.root / "chats.jsonl", self.root / "held-out.jsonl"
        self.chats.write_text("".join(json.dumps(line) + "\n" for line in lines[:64]))
        self.held_out.write_text("".join(json.dumps(line) + "\n" for line in lines[64:]))
        self.model = [f"model.path={self.folder}", f"data.path={self.chats}", f"data.cache={self.root / 'cache'}", "model.seq=16", *ADAPTERS]
        self.options = ["precision.param=bf16", "checkpointing=full", "offload=all", "train.batch=2"]

    def test_from_folder_to_folder(self):
        planned = self.run_program(APP, "plan", "--memory", "--limit", "2GB", "--ranks", 4, "--set", *self.model, *self.options).stdout
        self.assertIn("Peak of the rank that needs most", planned)
        largest = planned.partition("The largest of each key that fits 2.00 GB a rank")[2]
        self.assertRegex(largest, r"fits +train\.batch +model\.seq\n")
        self.assertRegex(largest, r"as given \(strategy=full\) +yes +(>= )?\d+ +(>= )?\d+\n")

        run = self.root / "tuned"
        command = [TRAIN, "--ranks", 4, "--out", run, "--set", *self.model, *self.options, "train.steps=100000", "train.lr=1e-2", "train.schedule=cosine",
                   "checkpoint.every=10", "checkpoint.keep=2", "eval.every=10", f"eval.path={self.held_out}"]
        with subprocess.Popen([str(part) for part in command], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True) as trainer:
            self.wait_for(lambda: is_steerable(run) and any(path.name.removeprefix("step-").isdigit() and path.name != "step-0"
                                                            for path in (run / "checkpoints").glob("step-*")), "a checkpoint")
            self.run_program(APP, "shot", run, "-o", self.root / "live.png")  # while it trains
            interrupt(trainer)
            said, _ = trainer.communicate(timeout=TIMEOUT_S)
        self.assertEqual(trainer.returncode, INTERRUPTED, said)

        self.assertIn("held-out data: ", self.run_program(APP, "report", run).stdout)
        before, *_ = self.report(run)["evaluations"]
        self.assertEqual(before["before_step"], 0)

        # Of the blocks only adapters are reduced and updated.
        bytes_of = {row["kind"]: row["bytes"] for row in self.sql(
            run, "SELECT p.kind, sum(c.payload_bytes) AS bytes FROM collective c JOIN op_run o ON o.id = c.op_run JOIN plan_op p ON p.id = o.plan_op "
                 "WHERE p.unit LIKE 'block%' GROUP BY 1")}
        self.assertLess(bytes_of["reduce_scatter"], bytes_of["all_gather"] / 2)
        kinds = {row["kind"] for row in self.sql(run, "SELECT DISTINCT kind FROM plan_op")}
        self.assertLessEqual({"recompute", "copy_to_device", "copy_to_host"}, kinds)
        shot = self.run_program(APP, "shot", run, "-o", self.root / "lanes.png", "--size", "4000x900", "--json").stdout
        drawn = [item for item in json.loads(shot)["items"] if item["panel"] == "timeline"]
        self.assertIn("legend:recompute", {item["id"] for item in drawn})
        tops = {word: {item["box"][1] for item in drawn if item["id"].startswith("op_run:0:") and item["text"].endswith(f" {word}")}
                for word in ("backward", "recompute", "copy_to_host")}
        self.assertEqual({word: len(lanes) for word, lanes in tops.items()}, {"backward": 1, "recompute": 1, "copy_to_host": 1})
        self.assertEqual(tops["recompute"], tops["backward"])
        self.assertNotEqual(tops["recompute"], tops["copy_to_host"])
        on_path = {(part["kind"], part["name"]) for part in self.report(run)["critical_path"]}
        self.assertLessEqual({("compute", "recompute"), ("compute", "backward")}, on_path)

        more = self.root / "more"
        step = max(int(path.name.split("-")[1]) for path in (run / "checkpoints").glob("step-*"))
        done = self.run_program(TRAIN, "--resume", run, "--ranks", 2, "--out", more, "--set", "strategy=zero2", f"train.steps={step + 12}")
        self.assertIn("give way: offload=all (now none)\n", done.stderr)
        self.assertRegex(done.stdout, rf"step {step}\b")
        # Over all ranks: the samples of one may be prompts alone, which are not in the loss.
        mean = "SELECT avg(loss) AS loss FROM (SELECT step, loss FROM step ORDER BY step {} LIMIT {})"
        first, = self.sql(run, mean.format("ASC", 4 * 5))
        last, = self.sql(more, mean.format("DESC", 2 * 5))
        self.assertLess(last["loss"], first["loss"])
        *_, after = self.report(more)["evaluations"]
        self.assertEqual((after["before_step"], after["tokens"]), (step + 12, before["tokens"]))
        self.assertLess(after["loss"], before["loss"])  # of what no step learns from

        # What a user says, as the messages were that it has learned from; the answer alone is written.
        sample = (TRAIN, "sample", "--checkpoint", more, "--tokens", 20, "--prompt")
        answer = self.run_program(*sample, "which rank?", "--chat").stdout
        asked = ("<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n<|im_start|>user\nwhich rank?<|im_end|>\n"
                 "<|im_start|>assistant\n")
        self.assertEqual(self.run_program(*sample, asked).stdout, asked + answer)

        out = self.root / "tuned-hf"
        self.run_program(TRAIN, "export", "--checkpoint", more, "--out", out)
        checkpoint = more / "checkpoints" / f"step-{step + 12}"
        exported = hugging_face.read_folder(out)
        self.assert_merged(checkpoint, exported)
        narrow = self.root / "tuned-bf16"
        self.run_program(TRAIN, "export", "--checkpoint", more, "--out", narrow, "--dtype", "bf16")
        self.assert_nearest(exported, hugging_face.read_folder(narrow))
        adapter = self.root / "tuned-adapter"
        self.run_program(TRAIN, "export", "--adapter", "--checkpoint", more, "--out", adapter)
        self.assert_adapters(checkpoint, adapter)

    def test_a_broken_folder_is_one_error_and_makes_nothing(self):
        weights, config = self.folder / "model.safetensors", self.folder / "config.json"
        whole, described = weights.read_bytes(), json.loads(config.read_text())
        length, = struct.unpack("<Q", whole[:8])
        header, data = json.loads(whole[8:8 + length]), whole[8 + length:]
        first, second, *_ = (name for name in header if name != "__metadata__")

        last = max((name for name in header if name != "__metadata__"), key=lambda name: header[name]["data_offsets"])

        def with_header(change, data=data):
            changed = json.loads(json.dumps(header))
            change(changed)
            text = json.dumps(changed).encode()
            return struct.pack("<Q", len(text)) + text + data

        broken = {
            "missing": (with_header(lambda one: one.pop(last), data[:header[last]["data_offsets"][0]]), last),
            "shape": (with_header(lambda one: one[first].update(shape=one[first]["shape"][::-1])), first),
            "truncated": (whole[:-10], "model.safetensors"),
            "overlapping": (with_header(lambda one: one[second].update(data_offsets=one[first]["data_offsets"], shape=one[first]["shape"])), second),
            "10 GB of header": (struct.pack("<Q", 10 * 10**9) + whole[8:], "model.safetensors"),
            "no header": (b"", "model.safetensors"),
        }
        for name, (content, named) in broken.items():
            with self.subTest(name):
                weights.write_bytes(content)
                self.assert_refused(named)
        weights.write_bytes(whole)
        config.write_text(json.dumps({**described, "architectures": ["MambaForCausalLM"]}))
        self.assert_refused("MambaForCausalLM")

    def assert_refused(self, named):
        out = self.root / "refused"
        done = self.run_program(TRAIN, "--ranks", 2, "--out", out, "--set", *self.model, "train.steps=1", check=False)
        self.assertEqual(done.returncode, 1, done.stdout)
        self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
        self.assertIn(named, done.stderr)
        self.assertFalse(out.exists())

    def assert_nearest(self, exported, narrow):
        """The same tensors in bf16."""
        self.assertEqual(sorted(narrow), sorted(exported))
        for name, (dtype, shape, data) in narrow.items():
            self.assertEqual((dtype, shape), ("BF16", exported[name][1]), name)
            bits = struct.unpack(f"<{len(data) // 2}H", data)
            self.assertEqual(list(bits), [hugging_face.nearest_bf16(value) for value in struct.unpack(f"<{len(bits)}f", exported[name][2])], name)

    def assert_adapters(self, checkpoint, adapter):
        """All of the checkpoint's, bit for bit, in peft's names."""
        config = json.loads((adapter / "adapter_config.json").read_text())
        self.assertEqual((config["peft_type"], config["r"], config["lora_alpha"]), ("LORA", RANK, ALPHA))
        weights = hugging_face.read_checkpoint(checkpoint)
        tensors, _ = hugging_face.read_safetensors(adapter / "adapter_model.safetensors")
        self.assertEqual(len(tensors), 2 * 7 * self.config["num_hidden_layers"])
        for name, (_, shape, data) in tensors.items():
            weight = name.removeprefix("base_model.model.").replace(".lora_A.", ".").replace(".lora_B.", ".")
            ours = hugging_face.our_name(weight).replace(".weight", ".lora_A.weight" if ".lora_A." in name else ".lora_B.weight")
            self.assertEqual((shape, list(struct.unpack(f"<{len(data) // 4}f", data))), weights[ours], name)

    def assert_merged(self, checkpoint, exported):
        """W + alpha/rank B A of every target, everything else as the folder had it."""
        weights = hugging_face.read_checkpoint(checkpoint)
        before = hugging_face.read_folder(self.folder)
        num_merged = 0
        for name, (_, shape, data) in exported.items():
            values = struct.unpack(f"<{len(data) // 4}f", data)
            original = struct.unpack(f"<{len(data) // 4}f", before[name][2])
            ours = hugging_face.our_name(name)
            if ours.replace(".weight", ".lora_A.weight") not in weights:
                self.assertEqual(values, original, name)
                continue
            a_shape, a = weights[ours.replace(".weight", ".lora_A.weight")]
            _, b = weights[ours.replace(".weight", ".lora_B.weight")]
            rows, columns = shape
            self.assertEqual(a_shape, [RANK, columns], name)
            for at in range(0, rows * columns, 7):
                row, column = divmod(at, columns)
                added = sum(b[row * RANK + r] * a[r * columns + column] for r in range(RANK)) * ALPHA / RANK
                self.assertAlmostEqual(values[at], original[at] + added, delta=1e-5, msg=f"{name} {at}")
            self.assertNotEqual(values, original, name)
            num_merged += 1
        self.assertEqual(num_merged, 7 * self.config["num_hidden_layers"])


if __name__ == "__main__":
    unittest.main()
