"""Token ids, decoded text and chat templates are those of `tokenizers` and `transformers`, as scripts/compare_tokenizers recorded them."""

import json
import pathlib
import subprocess
import sys
import tempfile
import unittest

from programs import BIN

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "tokenizer"))
import chat_cases  # noqa: E402  (needs the path above)
import compare  # noqa: E402
import material  # noqa: E402


class TokenizerTest(unittest.TestCase):
    def test_ids_and_text_are_those_of_tokenizers(self):
        recorded = json.loads(compare.RECORDED.read_text())["tokenizers"]
        ours = compare.ours()
        self.assertEqual(set(recorded), set(ours))
        self.assertEqual([], compare.differences(recorded, ours))

    def test_a_tokenizer_that_a_person_has_is_compared_in_its_folder(self):
        recorded = json.loads(compare.RECORDED.read_text())["tokenizers"]
        with tempfile.TemporaryDirectory() as scratch:
            folder = pathlib.Path(scratch) / "qwen2"
            material.write_folder(folder, material.kinds(material.train(compare.NUM_MERGES))["qwen2"])
            self.assertEqual({"qwen2": recorded["qwen2"]}, compare.ours(folder))
            (folder / "tokenizer.json").write_text("{}")
            with self.assertRaisesRegex(RuntimeError, "qwen2"):
                compare.ours(folder)

    def test_conversations_are_written_as_by_transformers(self):
        recorded = json.loads(compare.RECORDED.read_text())["chat"]
        tokenizer = material.kinds(material.train(8))["qwen2"]
        for name, template in chat_cases.TEMPLATES.items():
            with self.subTest(name), tempfile.TemporaryDirectory() as folder:
                material.write_folder(folder, tokenizer, chat_template=template, bos_token="<|begin|>")
                for messages, (whole, prompt) in zip(chat_cases.CONVERSATIONS, recorded[name]):
                    spans = self.spans(folder, messages)
                    self.assertEqual(whole, "".join(text for text, _ in spans))
                    # The last answer and what closes it count; white space behind that does not.
                    while not spans[-1][0].strip():
                        spans.pop()
                    *before, (answer, counted) = spans
                    self.assertTrue(counted)
                    self.assertEqual(prompt, "".join(text for text, _ in before))
                    self.assertEqual(answer, whole[len(prompt):].rstrip())

    def spans(self, folder, messages):
        path = pathlib.Path(folder) / "messages.json"
        path.write_text(json.dumps([messages]))
        done = subprocess.run([str(BIN / "tokenize"), folder, "chat", str(path)], capture_output=True, text=True, check=True)
        return json.loads(done.stdout)[0]
