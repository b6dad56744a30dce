"""scripts/compare_transformers: sets up transformers, records its figures, or says how far they are from the recorded ones."""

import argparse
import json
import subprocess
import sys

import environment
import llama_cases


def run(case: llama_cases.Case) -> dict:
    """Transformers' own figures."""
    here = environment.ROOT / "tests" / "parity"
    done = subprocess.run([str(environment.transformers_python()), "run_transformers.py", case.name], cwd=here, capture_output=True,
                          text=True)
    if done.returncode != 0:
        raise RuntimeError(f"transformers failed on {case.name}:\n{done.stderr[-2000:]}")
    return json.loads(done.stdout.splitlines()[-1])


def settings() -> dict:
    """What the test has to train with."""
    return {"steps": llama_cases.STEPS, "ranks": llama_cases.RANKS, "batch": llama_cases.BATCH, "seq": llama_cases.SEQ,
            "learning_rate": llama_cases.LEARNING_RATE, "warmup_steps": llama_cases.WARM_UP_STEPS,
            "tolerance": llama_cases.TOLERANCE}


def record() -> None:
    llama_cases.FOLDER.mkdir(exist_ok=True)
    for case in llama_cases.CASES:
        content = {"config": case.config, "settings": settings(), **run(case)}
        logits = content.pop("logits")
        width = case.config["vocab_size"]
        lines = [" " + ", ".join(map(repr, logits[at:at + width])) for at in range(0, len(logits), width)]
        text = json.dumps(content, indent=1)[:-2] + ',\n "logits": [\n' + ",\n".join(lines) + "\n ]\n}\n"
        case.path.write_text(text)
        print(f"{case.path.relative_to(environment.ROOT)}: losses {', '.join(f'{loss:.6f}' for loss in content['losses']['fp32'])}")


def largest_difference(ours: list[float], theirs: list[float]) -> float:
    scale = max(abs(value) for value in theirs)
    return max(abs(a - b) for a, b in zip(ours, theirs, strict=True)) / scale


def live() -> bool:
    """Whether transformers still says what is recorded, which the tests compare the engine with."""
    agree = True
    print("| model | logits | losses fp32 | losses bf16 |\n|---|---|---|---|")
    for case in llama_cases.CASES:
        recorded = json.loads(case.path.read_text())
        now = run(case)
        found = {"logits": largest_difference(now["logits"], recorded["logits"])}
        found |= {name: largest_difference(now["losses"][name], recorded["losses"][name]) for name in ("fp32", "bf16")}
        agree = agree and all(found[name] <= llama_cases.TOLERANCE["bf16" if name == "bf16" else "fp32"] for name in found)
        print(f"| {case.name} | {found['logits']:.1e} | {found['fp32']:.1e} | {found['bf16']:.1e} |", flush=True)
    return agree


def main() -> int:
    parser = argparse.ArgumentParser(prog="compare_transformers", description=__doc__)
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--setup", action="store_true", help="fetch PyTorch and transformers (0.6 GB, once)")
    action.add_argument("--record", action="store_true", help="write tests/parity/transformers/*.json anew")
    action.add_argument("--live", action="store_true", help="compare transformers with what is recorded")
    options = parser.parse_args()
    try:
        if options.setup:
            environment.make()
            environment.add_transformers()
        elif options.record:
            record()
        else:
            return 0 if live() else 1
    except (environment.SetupError, RuntimeError) as error:
        print(f"error: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
