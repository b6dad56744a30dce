"""scripts/compare_pytorch: sets up PyTorch 2.11, records its figures, or compares with it live."""

import argparse
import json
import os
import pathlib
import sys
import tempfile

import environment
import number_cases
import order_cases
from ranks import Ranks

BIN = pathlib.Path(os.environ.get("SHARDSCOPE_BIN", environment.ROOT / "build" / "release" / "bin"))


def pytorch_numbers(case: number_cases.Case, strategy: str, dump: pathlib.Path) -> number_cases.Numbers:
    """Trains with PyTorch from the trainer's own weights and batches."""
    numbers = (case.layers, case.dim, case.heads, case.seq, case.batch, number_cases.learning_rate(strategy), number_cases.WARM_UP_STEPS,
               number_cases.STEPS)
    with Ranks("train_dumped.py", case.ranks, str(dump), strategy, *map(str, numbers)) as ranks:
        return json.loads(ranks.receive()[0])


def compare_numbers(record: bool, group: str | None) -> bool:
    """Trainer and PyTorch from the same weights and batches; a table; optionally PyTorch's figures as JSON. `group`: only its cases."""
    print(f"largest relative difference of loss and gradient norm over {number_cases.STEPS} steps:\n")
    print("| ranks | PyTorch's | trainer's settings | difference |\n|---|---|---|---|")
    agree = True
    for case in number_cases.CASES:
        if group not in (None, case.group):
            continue
        recorded = {}
        for strategy in case.strategies:
            with tempfile.TemporaryDirectory() as folder:
                ours = number_cases.train(BIN / "shardscope-train", case, strategy, pathlib.Path(folder))
                recorded[strategy] = pytorch_numbers(case, strategy, pathlib.Path(folder) / "dump.safetensors")
            deviation = number_cases.largest_deviation(ours, recorded[strategy])
            agrees = deviation <= number_cases.tolerance(strategy)
            agree = agree and agrees
            print(f"| {case.ranks} | {strategy} | `{' '.join(number_cases.STRATEGIES[strategy])}` | {deviation:.1e}{'' if agrees else ' MISS'} |", flush=True)
        if record:
            case.path.parent.mkdir(exist_ok=True)
            content = {"torch": "2.11.0", "settings": case.settings(), "numbers": recorded}
            case.path.write_text(json.dumps(content, indent=1) + "\n")
    print(f"\n{'within' if agree else 'MISS: not within'} {number_cases.TOLERANCE:.0e}, bf16 and fp16 {number_cases.NARROW_TOLERANCE:.0e}")
    return agree


def compare_orders(record: bool) -> bool:
    """What PyTorch issues now beside our Schedules; optionally as JSON."""
    issued: dict[str, list[str]] = {}
    for count in sorted({case.ranks for case in order_cases.CASES}):
        with Ranks("order.py", count) as ranks:
            by_rank = [json.loads(line) for line in ranks.receive()]
        if any(other != by_rank[0] for other in by_rank):
            raise RuntimeError("PyTorch's ranks issued in different orders")
        issued |= by_rank[0]
    agree = True
    print("\n| order of | ops | |\n|---|---|---|")
    for case in order_cases.CASES:
        theirs, ours = issued[case.name], order_cases.planned(BIN / "shardscope", case)
        matches = theirs == case.expected(ours)
        agree = agree and matches
        verdict = "MISS" if not matches else "as explained in docs/schedule.md" if case.differences else "the same"
        print(f"| {case.name} | {len(theirs)} | {verdict} |")
        if record:
            case.path.parent.mkdir(exist_ok=True)
            case.path.write_text(json.dumps({"torch": "2.11.0", "order": theirs}, indent=1) + "\n")
    return agree


def main() -> int:
    parser = argparse.ArgumentParser(prog="scripts/compare_pytorch", description=__doc__)
    action = parser.add_mutually_exclusive_group(required=True)
    action.add_argument("--setup", action="store_true", help="make PyTorch's environment (0.55 GB); nothing else needs it")
    action.add_argument("--live", action="store_true", help="run PyTorch and the trainer now and compare")
    action.add_argument("--record", action="store_true", help="the same, and write tests/parity's JSON anew")
    parser.add_argument("--group", choices=sorted({case.group for case in number_cases.CASES}), help="only the numbers of these cases, no orders")
    options = parser.parse_args()
    try:
        if options.setup:
            environment.make()
            return 0
        environment.python()
        numbers_agree = compare_numbers(options.record, options.group)
        orders_agree = options.group is not None or compare_orders(options.record)
        return 0 if orders_agree and numbers_agree else 1
    except (environment.SetupError, RuntimeError, OSError) as error:
        print(f"compare_pytorch: {error}", file=sys.stderr)
        return 1


if __name__ == "__main__":
    sys.exit(main())
