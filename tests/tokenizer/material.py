"""What the tokenizer's tests are made of: text of all kinds and tokenizers of each kind, the same on every machine."""

import collections
import heapq
import json
import pathlib
import random

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|"
          r"\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")

WORDS = """the of and to in is that for it as was with be by on not he his but at are this have from or had an they which one you were all
her she there would their we him been has when who will no more if out so up said what its about than into them can only other time new some
could these two may first then do any like my now over such our man me even most made after also did many off before must well back through
years where much your way down should because long each just state those people too mr how little good world make very year still see own work
men day get here between both life being under three never know same last another while us might great go come since against right came take
gradient shard optimizer schedule bandwidth collective tensor parallel pipeline overlap communication computation memory parameter""".split()
SUFFIXES = ["", "", "", "s", "ed", "ing", "ly", "er", "'s", "'ll", "n't", "'VE", "'\u017f", "\u2019s"]
CODE = ["for (int i = 0; i < {n}; ++i) {{\n\tsum += values[i];\n}}\n", "def {w}({v}):\n    return {v} * {n}  # {w}\n",
        "std::vector<{w}> {v}({n}, 0x{n:x});\r\n", "if ({v} != nullptr && {v}->{w}() >= {n}.{n}e-5f) return;\n\n\n",
        "SELECT {w}, COUNT(*) FROM {v} WHERE id = {n};\n", "\t\t<a href=\"http://{w}.example/{v}?q={n}\">{w}</a>   \n"]
CHINESE = "的一是不了在人有我他这个们中来上大为和国地到以说时要就出会可也你对生能而子那得于着下自之年过发后作里用道行所然家种事成方多经么去法学如都同现当没动面起看定天分还进好小部其些主样理心她本前开但因只从想实"
OTHERS = ["caf\u00e9", "cafe\u0301", "na\u00efve", "A\u030angstro\u0308m", "\u1112\u1161\u11ab\u1100\u1173\u11af", "\ud55c\uad6d\uc5b4", "\u0928\u092e\u0938\u094d\u0924\u0947", "\u0645\u0631\u062d\u0628\u0627", "\u05e9\u05dc\u05d5\u05dd",
          "\u041f\u0440\u0438\u0432\u0435\u0442", "\u0438\u0306", "\u3053\u3093\u306b\u3061\u306f", "\u304b\u3099", "\u30ab\u30bf\u30ab\u30ca", "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35", "\u0661\u0662\u0663", "\u216b", "\u00bd\u00b2", "\u2126", "\u212b", "\ufb01\ufb02", "\uff21\uff22\uff11", "\u0958",
          "\u1e9b\u0323", "a\u0315\u0300\u05ae\u0301b"]
EMOJI = ["\U0001f600", "\U0001f44d\U0001f3fd", "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\u2764\ufe0f", "\U0001f1e9\U0001f1ea", "\U0001f9ea", "\u2603"]
SPACES = [" ", " ", "  ", "   ", "\n", "\n\n", "\r\n", " \n ", "\t", "\t \t", "\u00a0", "\u2003", "\u3000", "\u200b", "\u2028", "\u0085", "\u180e", "\u1680", "     \n\n\n   "]
CONTROLS = [chr(i) for i in range(1, 32)] + ["\x7f", "\x80", "\ufeff", "\ufffd", "\ufffe", "\U0010ffff", "\ue000", "\x1c\x1d", "\x1e \x1f"]
# Nothing here is younger than Unicode 5: versions of its tables differ in what they know.
STABLE = [(0x21, 0x7e), (0xa1, 0x24f), (0x250, 0x2ad), (0x300, 0x34e), (0x391, 0x3a1), (0x3a3, 0x3ce), (0x400, 0x486), (0x5d0, 0x5ea), (0x621, 0x63a),
          (0x660, 0x669), (0x904, 0x939), (0x966, 0x96f), (0xe01, 0xe3a), (0x10d0, 0x10f6), (0x1100, 0x1159), (0x1e00, 0x1e9b), (0x2000, 0x2027),
          (0x2030, 0x2052), (0x2160, 0x2182), (0x2190, 0x23cf), (0x2460, 0x24ea), (0x2500, 0x259f), (0x3041, 0x3096), (0x30a1, 0x30fa), (0xac00, 0xd7a3),
          (0xf900, 0xfa2d), (0xff01, 0xff5e), (0x1d400, 0x1d454)]
SPECIALS = ["<|begin_of_text|>", "<|end|>", "<|im_start|>", " <|end|> ", "<|en", "[MASK]", "  [MASK]  x", "qzone", "aqzone qzone qzonely", "caf\u00e9!", "cafe\u0301!"]


class Dice:
    """random() alone is the same in every version of Python."""

    def __init__(self, seed):
        self.random = random.Random(seed).random

    def below(self, count):
        return int(self.random() * count)

    def one(self, values):
        return values[self.below(len(values))]


def piece(dice):
    kind = dice.below(100)
    if kind < 55:
        word = dice.one(WORDS) + dice.one(SUFFIXES)
        return (word.upper() if dice.below(20) == 0 else word.capitalize() if dice.below(8) == 0 else word) + dice.one(
            [" ", " ", " ", " ", ", ", ". ", "! ", "?\n", "-", " (", ") ", "...", "\n\n"])
    if kind < 65:
        return dice.one(CODE).format(w=dice.one(WORDS), v=dice.one(WORDS)[:3], n=dice.below(100000))
    if kind < 78:
        return "".join(dice.one(CHINESE) for _ in range(1 + dice.below(12))) + dice.one(["\uff0c", "\u3002", "", " ", "\n"])
    if kind < 81:
        return "".join(chr(0x4e00 + dice.below(20000)) for _ in range(1 + dice.below(6)))
    if kind < 85:
        return dice.one(OTHERS) + dice.one(["", " ", dice.one(OTHERS)])
    if kind < 88:
        return dice.one(EMOJI) * (1 + dice.below(3))
    if kind < 92:
        return dice.one(SPACES) * (1 + dice.below(3))
    if kind < 94:
        return dice.one(CONTROLS)
    if kind < 96:
        return str(dice.below(10 ** (1 + dice.below(12))))
    if kind < 97:
        return dice.one(SPECIALS)
    if kind < 98:
        return "".join(chr(0x21 + dice.below(94)) for _ in range(1 + dice.below(30)))
    if kind < 99:
        return dice.one("aA=-# \n") * dice.below(80)
    first, last = dice.one(STABLE)
    return chr(first + dice.below(last - first + 1))


def texts(seed=17, count=16, size=65536):
    """`count` texts of `size` bytes of UTF-8 and a little more."""
    result = []
    dice = Dice(seed)
    for _ in range(count):
        parts, length = [], 0
        while length < size:
            parts.append(piece(dice).replace("\0", ""))
            length += len(parts[-1].encode("utf-8"))
        result.append("".join(parts))
    return result


EXPLICIT = ["", " ", "a", "Hello, world!", "  leading", "trailing  ", "\n", "\r\n\r\n", "a\u0301", "it's IT'S we'LL '\u017f", "1234567890", "x" * 1000,
            "ab" * 700, " " * 500 + "x", "<|end|>", "a<|end|>b", " <|end|> <|end|>", "  [MASK]  [MASK] x", "qzone aqzone qzone.", "cafe\u0301! caf\u00e9!", "\u00e9" * 40,
            "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\x01\x02\x1f\x7f", "<|begin_of_text|>", "a\u180eb\u200bc\x85d", "\u4f60\u597d\uff0c\u4e16\u754c\u3002"]


def byte_characters():
    """GPT-2's table: the character that stands for each byte."""
    shown = [*range(0x21, 0x7f), *range(0xa1, 0xad), *range(0xae, 0x100)]
    others = [byte for byte in range(256) if byte not in shown]
    return {byte: chr(byte) for byte in shown} | {byte: chr(256 + i) for i, byte in enumerate(others)}


def train(num_merges):
    """Merges of a plain byte-pair encoding of words of the material; ties go to the pair that is first in the alphabet."""
    characters = byte_characters()
    dice = Dice(3)
    counts = collections.Counter()
    for _ in range(6000):
        for word in piece(dice).split(" "):
            counts[(" " if dice.below(3) else "") + word[:24]] += 1
    words = [([characters[byte] for byte in word.encode("utf-8")], count) for word, count in sorted(counts.items())]
    pairs, places = collections.Counter(), collections.defaultdict(set)
    for index, (symbols, count) in enumerate(words):
        for pair in zip(symbols, symbols[1:]):
            pairs[pair] += count
            places[pair].add(index)
    queue = [(-count, pair) for pair, count in pairs.items()]
    heapq.heapify(queue)
    merges = []
    while queue and len(merges) < num_merges:
        count, best = heapq.heappop(queue)
        if pairs[best] != -count or count == 0:
            if pairs[best] > 0:
                heapq.heappush(queue, (-pairs[best], best))
            continue
        merges.append(best)
        touched = set()
        for index in places.pop(best):
            symbols, times = words[index]
            for pair in zip(symbols, symbols[1:]):
                pairs[pair] -= times
            position = 0
            while position + 1 < len(symbols):
                if (symbols[position], symbols[position + 1]) == best:
                    symbols[position:position + 2] = ["".join(best)]
                position += 1
            for pair in zip(symbols, symbols[1:]):
                pairs[pair] += times
                places[pair].add(index)
                touched.add(pair)
        for pair in touched:
            heapq.heappush(queue, (-pairs[pair], pair))
    return merges


def added(content, number, **flags):
    return {"id": number, "content": content, "single_word": False, "lstrip": False, "rstrip": False, "normalized": False, "special": True} | flags


def byte_level(**settings):
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True} | settings


def split(expression):
    return {"type": "Split", "pattern": {"Regex": expression}, "behavior": "Isolated", "invert": False}


def kinds(merges):
    """tokenizer.json of each kind, by name."""
    vocabulary = {}
    for token in [*sorted(byte_characters().values()), *("".join(pair) for pair in merges)]:
        vocabulary.setdefault(token, len(vocabulary))
    # Words of whole tokens that no merge leads to: only ignore_merges finds them.
    for token in ["\u0120schedules", "optimizers"]:
        vocabulary[token] = len(vocabulary)
    size = len(vocabulary)
    specials = [added(text, size + i) for i, text in enumerate(["<|end|>", "<|begin_of_text|>", "<|im_start|>", "<|im_end|>"])]
    odd = [added("[MASK]", size + 4, lstrip=True, rstrip=True), added("qzone", size + 5, special=False, single_word=True),
           added("caf\u00e9!", size + 6, special=False, normalized=True), added("  [", size + 7, special=False)]
    begin = {"id": "<|begin_of_text|>", "type_id": 0}
    template = {"type": "TemplateProcessing", "single": [{"SpecialToken": begin}, {"Sequence": {"id": "A", "type_id": 0}}],
                "pair": [{"Sequence": {"id": "A", "type_id": 0}}, {"Sequence": {"id": "B", "type_id": 1}}],
                "special_tokens": {begin["id"]: {"id": begin["id"], "ids": [size + 1], "tokens": [begin["id"]]}}}

    def made(tokens, normalizer, pre_tokenizer, post_processor, as_text=False, ignore_merges=False):
        model = {"type": "BPE", "dropout": None, "unk_token": None, "continuing_subword_prefix": None, "end_of_word_suffix": None, "fuse_unk": False,
                 "byte_fallback": False, "ignore_merges": ignore_merges, "vocab": vocabulary,
                 "merges": [" ".join(pair) if as_text else list(pair) for pair in merges]}
        return {"version": "1.0", "truncation": None, "padding": None, "added_tokens": tokens, "normalizer": normalizer, "pre_tokenizer": pre_tokenizer,
                "post_processor": post_processor, "decoder": byte_level(add_prefix_space=True), "model": model}

    def sequence(*parts):
        return {"type": "Sequence", "pretokenizers": list(parts)}

    def llama3(tokens):
        return made(tokens, None, sequence(split(LLAMA3), byte_level(use_regex=False)), {"type": "Sequence", "processors": [byte_level(), template]},
                    ignore_merges=True)

    def qwen2(tokens):
        return made(tokens, {"type": "NFC"}, sequence(split(QWEN2), byte_level(use_regex=False)), byte_level(use_regex=False))

    return {"gpt2": made(specials[:1], None, byte_level(), byte_level(trim_offsets=False), as_text=True),
            "gpt2_space": made(specials[:1], None, byte_level(add_prefix_space=True), None),
            "llama3": llama3(specials), "qwen2": qwen2(specials), "odd_tokens": qwen2(specials + odd), "odd_tokens_raw": llama3(specials + odd),
            "digits": made(specials, None, sequence({"type": "Digits", "individual_digits": True}, byte_level()), template)}


CHATML = ("{% for message in messages %}{% if loop.first and messages[0]['role'] != 'system' %}{{ '<|im_start|>system\nYou are a helpful assistant.<|im_end|>\n' }}"
          "{% endif %}{{'<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n'}}{% endfor %}"
          "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}")


def write_folder(folder, tokenizer, **config):
    folder = pathlib.Path(folder)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "tokenizer.json").write_text(json.dumps(tokenizer))
    (folder / "tokenizer_config.json").write_text(json.dumps({"eos_token": "<|end|>", "chat_template": CHATML} | config))
