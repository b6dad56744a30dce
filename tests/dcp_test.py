"""shardscope-train import --dcp: what PyTorch saved is read bit for bit and trained on, and nothing but data is read.

The folders are made by dcp_folders.py; a folder that PyTorch 2.11 itself had written with two ranks gave the same metadata and elements, and
scripts/compare_transformers --live imports what it writes now.
"""

import json
import struct
import unittest
import zipfile

import hugging_face
import llama_cases
from dcp_folders import Folder, Size, fused, in_pairs, product, torchtitan_name
from programs import TINY, TRAIN, ProgramTest

DIM, LAYERS, VOCAB = 24, 2, 256
STATES = {"parameter": "", "exp_avg": "m", "exp_avg_sq": "v"}  # what is added to a parameter's name for state_of()


def shapes():
    """Of this program's own model in PyTorch."""
    yield "embedding.weight", (VOCAB, DIM)
    for block in range(LAYERS):
        for name, shape in (("attention.norm", (DIM,)), ("attention.qkv", (3 * DIM, DIM)), ("attention.projection", (DIM, DIM)),
                            ("mlp.norm", (DIM,)), ("mlp.up", (4 * DIM, DIM)), ("mlp.down", (DIM, 4 * DIM))):
            yield f"block{block}.{name}.weight", shape
    yield "head.norm.weight", (DIM,)
    yield "head.weight", (VOCAB, DIM)


def values_of(name, shape, scale=0.01):
    seed = sum(name.encode())
    return [struct.unpack("<f", struct.pack("<f", scale * (((seed + at * 37) % 199) / 100 - 1)))[0] for at in range(product(shape))]


def state_of(name, tensor, shape):
    """The values of a parameter, or of what Adam keeps of it."""
    values = values_of(name + STATES[tensor], shape)
    return [abs(one) for one in values] if tensor == "exp_avg_sq" else values


def shift_second_chunk(folder):
    """One of three boxes of rows begins half its height later: as many elements as before, of which some are there twice and some not at all."""
    name = "model.block0.attention.projection.weight"
    chunk = folder.entries[name].chunks[1]
    chunk.offsets = Size((chunk.offsets[0] + chunk.sizes[0] // 2, 0))
    index, = [one for one in folder.places if (one.fqn, one.index) == (name, 1)]
    index.offset = chunk.offsets


class DcpTest(ProgramTest):
    def folder(self, name="dcp", change=None):
        folder = Folder(self.root / name)
        for parameter, shape in shapes():
            folder.add(f"model.{parameter}", shape, values_of(parameter, shape), cut=3)
            folder.add(f"optimizer.state.{parameter}.exp_avg", shape, values_of(parameter + "m", shape), cut=3)
            folder.add(f"optimizer.state.{parameter}.exp_avg_sq", shape, [abs(one) for one in values_of(parameter + "v", shape)], cut=3)
            folder.add(f"optimizer.state.{parameter}.step", (), [5.0])
        folder.add_object("optimizer.param_groups.0.lr")
        if change:
            change(folder)
        folder.write()
        return folder.path

    def run_import(self, folder, out, *settings, check=True):
        return self.run_program(TRAIN, "import", "--dcp", folder, "--out", out, "--set", *(settings or ("model.heads=3",)), check=check)

    def test_the_new_folder_may_be_named_in_any_way(self):
        folder = self.folder()
        for name in ("alone", "./beside", "slash/", "in/one/", "dots/."):
            with self.subTest(name):
                self.run_program(TRAIN, "import", "--dcp", folder, "--out", name, "--set", "model.heads=3", folder=self.root)
                self.assertTrue((self.root / name / "index.json").exists())
                self.assertEqual(list(self.root.rglob("*.partial")), [])

    def element(self, checkpoint, parameter, tensor):
        index = json.loads((checkpoint / "index.json").read_text())
        entry, = [one for one in index["parameters"] if one["name"] == parameter]
        part, = next(one for one in entry["tensors"] if one["name"] == tensor)["parts"]
        data = (checkpoint / index["files"][part["file"]]["name"]).read_bytes()
        return list(struct.unpack_from(f"<{product(entry['shape'])}f", data, part["offset"]))

    def test_every_element_is_there_and_a_run_goes_on(self):
        out = self.root / "imported"
        done = self.run_import(self.folder(), out)
        self.assertIn("left out, as no part of the model: optimizer.param_groups.0.lr", done.stdout)
        for parameter, shape in shapes():
            self.assertEqual(self.element(out, parameter, "parameter"), values_of(parameter, shape), parameter)
            self.assertEqual(self.element(out, parameter, "exp_avg"), values_of(parameter + "m", shape), parameter)
        done = self.run_program(TRAIN, "--resume", out, "--out", self.root / "run", "--set", f"data.path={self.data}", *TINY[3:], "train.steps=8",
                                "checkpoint.every=1")
        self.assertIn("with step 5", done.stdout)
        self.assertIn("finished after 8 of 8 steps", done.stdout)

    def test_state_of_another_shape_is_named_and_left_out(self):
        name = "optimizer.state.block0.attention.projection.weight"

        def odd(folder):
            folder.add(f"{name}.exp_avg_row", (DIM,), values_of("row", (DIM,)))
            folder.add(f"{name}.max_exp_avg", (DIM + 1, DIM), values_of("max", (DIM + 1, DIM)))
            folder.add(f"{name}.count", (1,), [5.0])  # a scalar, as its step

        done = self.run_import(self.folder(change=odd), self.root / "imported")
        named = done.stdout.split("left out, as no part of the model: ")[1].split("\n")[0].split(", ")
        self.assertEqual(sorted(named), ["optimizer.param_groups.0.lr", f"{name}.exp_avg_row", f"{name}.max_exp_avg"])
        entry, = [one for one in json.loads((self.root / "imported" / "index.json").read_text())["parameters"]
                  if one["name"] == "block0.attention.projection.weight"]
        self.assertEqual(sorted(one["name"] for one in entry["tensors"]), ["exp_avg", "exp_avg_sq", "parameter"])

    def test_what_cannot_be_read_is_named_and_nothing_is_left(self):
        def odd(**how):
            shape = (DIM, DIM)
            return lambda folder: folder.add("model.block0.attention.projection.weight", shape, values_of("x", shape), **how)

        for name, change, text in (
                ("compressed", odd(compression=zipfile.ZIP_DEFLATED), "compressed"),
                ("strided", odd(strides=(1, DIM)), "not in row-major order"),
                ("complex", odd(dtype="complex64"), "torch.complex64"),
                ("twice", lambda folder: folder.add("module.block0.mlp.norm.weight", (DIM,), values_of("y", (DIM,))), "are both parameter of"),
                ("shifted", shift_second_chunk, "some of its elements are missing, or there twice"),
                ("cut", lambda folder: folder.files.update({"__1_0.distcp": folder.files["__1_0.distcp"][:5000]}), "ends before it")):
            with self.subTest(name=name):
                out = self.root / f"out {name}"
                done = self.run_import(self.folder(name, change), out, check=False)
                self.assertEqual(done.returncode, 1)
                self.assertIn(text, done.stderr)
                self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
                self.assertFalse(list(self.root.glob(f"out {name}*")))

    def test_a_pickle_that_asks_for_more_than_data_is_refused(self):
        folder = self.folder()
        (folder / ".metadata").write_bytes(b"\x80\x04\x8c\x05posix\x8c\x06system\x93\x8c\x04true\x85R.")
        done = self.run_import(folder, self.root / "out", check=False)
        self.assertIn("asks for posix.system: refused, nothing was run", done.stderr)
        for path, text in ((self.root / "none", "has no .metadata"), (self.root, "has no .metadata")):
            self.assertIn(text, self.run_import(path, self.root / "out", check=False).stderr)

    def llama(self, case, **differs):
        """A folder of torch.distributed.checkpoint of a model of llama_cases, its names as in transformers, and the model's own folder."""
        config = {**next(one.config for one in llama_cases.CASES if one.name == case), "vocab_size": 256, **differs}
        return self.state_dict(f"dcp {case}", config), hugging_face.write_folder(self.root / case, config)

    def state_dict(self, name, config, head=None):
        """That of a model of this config.json. `head`: the parameter whose values lm_head.weight has, where embeddings are tied."""
        folder = Folder(self.root / name)
        for parameter, shape in hugging_face.tensor_shapes(config):
            folder.add(parameter, tuple(shape), values_of(parameter, shape))
        if head:
            shape = (config["vocab_size"], config["hidden_size"])
            folder.add("lm_head.weight", shape, values_of(head, shape))
        folder.write()
        return folder.path

    def test_the_folder_of_a_llama_says_how_it_computes(self):
        dcp, model = self.llama("llama3_scaling")
        out, assumed = self.root / "imported", self.root / "assumed"
        note = "are assumed: import with --set model.path=FOLDER"
        self.assertNotIn(note, self.run_import(dcp, out, f"model.path={model}").stdout)
        says = json.loads((out / "index.json").read_text())["model"]
        self.assertEqual((says["rope_theta"], says["rope_scaling.factor"]), ("500000", "8"))
        self.assertIn(f"rope_theta=10000 and rms_norm_eps=1e-05 {note}", self.run_import(dcp, assumed, "model.heads=6").stdout)
        self.assertNotIn("model", json.loads((assumed / "index.json").read_text()))

        settings = (f"data.path={self.data}", "model.seq=16", "train.batch=2", "train.steps=2")
        done = self.run_program(TRAIN, "--resume", out, "--out", self.root / "run", "--set", *settings)
        self.assertIn("finished after 2 of 2 steps", done.stdout)
        config = json.loads((model / "config.json").read_text())
        (model / "config.json").write_text(json.dumps({**config, "rope_theta": 10000.0}))
        done = self.run_program(TRAIN, "--resume", out, "--out", self.root / "other", "--set", *settings, check=False)
        self.assertIn("it was trained with rope_theta=500000", done.stderr)

    def test_a_tied_head_is_the_embedding(self):
        dcp, model = self.llama("tied")
        config = json.loads((model / "config.json").read_text())
        embedding = "model.embed_tokens.weight"
        for name, source in (("bare", dcp), ("both", self.state_dict("dcp both", config, embedding))):
            with self.subTest(name):
                out = self.root / name
                self.run_import(source, out, f"model.path={model}")
                self.assertEqual(self.element(out, "embedding.weight", "parameter"), values_of(embedding, (config["vocab_size"], config["hidden_size"])))
                self.assertNotIn("head.weight", [one["name"] for one in json.loads((out / "index.json").read_text())["parameters"]])
                done = self.run_program(TRAIN, "--resume", out, "--out", self.root / f"run {name}", "--set", f"data.path={self.data}", "model.seq=16",
                                        "train.batch=2", "train.steps=2")
                self.assertIn("finished after 2 of 2 steps", done.stdout)
        other = self.state_dict("dcp other", config, "lm_head.weight")
        done = self.run_import(other, self.root / "other", f"model.path={model}", check=False)
        self.assertEqual(done.returncode, 1)
        self.assertIn("lm_head.weight and model.embed_tokens.weight differ", done.stderr)
        self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
        self.assertFalse(list(self.root.glob("other*")))

    def trained_llama(self, name, config, prefix="", style="transformers", change=None):
        """Weights, moments and counters of one training, as transformers, torchtitan, or torchtitan of 2026 (`newer`) name and order them."""
        folder = Folder(self.root / name)
        heads, kv_heads = config["num_attention_heads"], config["num_key_value_heads"]
        together = {}
        for parameter, shape in hugging_face.tensor_shapes(config):
            theirs = parameter if style == "transformers" else torchtitan_name(parameter, style == "newer")
            for tensor in STATES:
                flat = state_of(parameter, tensor, shape)
                width = product(shape[1:])
                rows = [flat[at:at + width] for at in range(0, len(flat), width)]
                if style != "transformers" and ("q_proj" in parameter or "k_proj" in parameter):
                    rows = in_pairs(rows, heads if "q_proj" in parameter else kv_heads)
                is_fused = style == "newer" and tensor != "parameter" and any(one in theirs for one in (".wq.", ".wk.", ".wv."))
                if is_fused:
                    together.setdefault((theirs.replace(theirs.split(".")[-2], "wqkv"), tensor), []).append(rows)
                    continue
                at = f"{prefix}{theirs}" if tensor == "parameter" else f"optimizer.state.{theirs}.{tensor}"
                folder.add(at, tuple(shape), [value for row in rows for value in row], cut=3)
            if not (style == "newer" and "self_attn" in parameter and "o_proj" not in parameter):
                folder.add(f"optimizer.state.{theirs}.step", (), [5.0])
                folder.add_object(f"optimizer.param_groups.{theirs}.lr")
        for (theirs, tensor), parts in together.items():
            rows = fused(*parts, heads, kv_heads)
            folder.add(f"optimizer.state.{theirs}.{tensor}", (len(rows), len(rows[0])), [value for row in rows for value in row], cut=3)
        folder.add("train_state.step", (), [5.0])
        folder.add_object("dataloader.dp_rank_0")
        folder.add_object("lr_scheduler.last_epoch")
        if change:
            change(folder)
        folder.write()
        return folder.path

    def grouped(self):
        """A config.json of grouped queries and heads that are wider than dim/heads, and a folder with it."""
        config = {**next(one.config for one in llama_cases.CASES if one.name == "grouped"), "vocab_size": 256}
        return config, hugging_face.write_folder(self.root / "grouped", config)

    def test_hugging_faces_and_torchtitans_names_are_one_model(self):
        config, model = self.grouped()
        parameters = dict(hugging_face.tensor_shapes(config))
        for number, (style, prefix) in enumerate((("transformers", ""), ("transformers", "model."), ("torchtitan", ""), ("torchtitan", "model."),
                                                  ("torchtitan", "model._orig_mod."), ("newer", ""), ("newer", "model."))):
            with self.subTest(style=style, prefix=prefix):
                out = self.root / f"imported {number}"
                done = self.run_import(self.trained_llama(f"dcp {number}", config, prefix, style), out, f"model.path={model}")
                # Three that are not the optimizer's, and a group of each parameter, or of three in one.
                *named, more = done.stdout.split("left out, as no part of the model: ")[1].split(", ")
                groups = len(parameters) - (3 * config["num_hidden_layers"] if style == "newer" else 0)
                self.assertEqual(len(named) + int(more.split()[1]), 3 + groups, done.stdout)
                for parameter, shape in parameters.items():
                    for tensor in STATES:
                        self.assertEqual(self.element(out, hugging_face.our_name(parameter), tensor), state_of(parameter, tensor, shape),
                                         (parameter, tensor))
        rows = list(range(60))  # what is read from torchtitan's has another order, which none of these leaves as it is
        self.assertEqual([in_pairs(rows, 6) == rows, fused(rows, rows[:20], rows[:20], 6, 2) == rows + rows[:20] + rows[:20]], [False, False])
        done = self.run_program(TRAIN, "--resume", out, "--out", self.root / "run", "--set", f"data.path={self.data}", "model.seq=16", "train.batch=2",
                                "train.steps=7")
        self.assertIn("with step 5", done.stdout)
        self.assertIn("finished after 7 of 7 steps", done.stdout)

    def test_a_model_that_has_more_in_its_blocks_is_not_imported(self):
        config, model = self.grouped()
        for number, (style, name) in enumerate((("newer", "layers.0.attention.q_norm.weight"), ("torchtitan", "model.layers.1.moe.experts.w1"),
                                                ("newer", "layers.1.attention.qkv_linear.wqkv.weight"),
                                                ("transformers", "model.layers.0.self_attn.q_proj.lora_A.default.weight"))):
            with self.subTest(name):
                dcp = self.trained_llama(f"dcp {number}", config, "", style, lambda folder: folder.add(name, (4, 36), values_of(name, (4, 36))))
                done = self.run_import(dcp, self.root / f"out {number}", f"model.path={model}", check=False)
                self.assertEqual(done.returncode, 1)
                self.assertIn(f"has {name}, which no model of this program has", done.stderr)
                self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
                self.assertFalse(list(self.root.glob("out*")))

    def test_weights_of_another_model_are_not_imported(self):
        dcp, model = self.llama("qwen2", tie_word_embeddings=False)
        other = self.root / "other"
        other.mkdir()
        config = json.loads((model / "config.json").read_text())
        (other / "config.json").write_text(json.dumps({**config, "num_hidden_layers": config["num_hidden_layers"] + 1}))
        for setting, text in (("model.heads=6", "k_proj.bias, which the model does not have: set model.* as it was trained, or model.path=FOLDER"),
                              (f"model.path={other}", "has no block2.attention.norm.weight, which the model has: set model.path to the folder")):
            done = self.run_import(dcp, self.root / "out", setting, check=False)
            self.assertEqual(done.returncode, 1)
            self.assertIn(text, done.stderr)
            self.assertEqual(len(done.stderr.strip().splitlines()), 1, done.stderr)
            self.assertFalse(list(self.root.glob("out*")))
        done = self.run_import(self.folder(), self.root / "out", "model.heads=3", "model.dim=48", check=False)
        self.assertIn(f"model.embedding.weight is [{VOCAB}, {DIM}], and embedding.weight of the model is [{VOCAB}, 48]", done.stderr)
        self.run_import(dcp, self.root / "out", f"model.path={model}")

    def test_an_embedding_that_is_no_matrix_is_not_imported(self):
        config, _ = self.grouped()
        folder = Folder(self.root / "dcp scalar")
        for parameter, shape in hugging_face.tensor_shapes(config):
            shape = () if parameter == "model.embed_tokens.weight" else tuple(shape)
            folder.add(parameter, shape, values_of(parameter, shape))
        folder.write()
        done = self.run_import(folder.path, self.root / "out", "model.heads=8", check=False)
        self.assertEqual(done.returncode, 1, done.stderr)
        self.assertIn("model.embed_tokens.weight is [], and embedding.weight of the model is [", done.stderr)
        self.assertFalse(list(self.root.glob("out*")))

    def test_what_another_import_has_left_is_not_taken(self):
        left = self.root / "out.partial" / "index.json"
        left.parent.mkdir()
        left.write_text("x")
        done = self.run_import(self.folder(), self.root / "out", check=False)
        self.assertIn("out.partial is there already: an import that was killed has left it", done.stderr)
        self.assertEqual(left.read_text(), "x")

    def test_heads_have_to_be_said(self):
        done = self.run_import(self.folder(), self.root / "out", "train.steps=9", check=False)
        self.assertIn("--set model.heads=N", done.stderr)


if __name__ == "__main__":
    unittest.main()
