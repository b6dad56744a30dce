#!/usr/bin/env python3
"""kill -9 of trainer, app and both at 50 random moments each, against a commit counter in shared memory; and 50 while checkpoints are written."""

import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))
from faults import checkpoint_kills, kills  # noqa: E402

if __name__ == "__main__":
    sys.exit(max(kills.main(), checkpoint_kills.main()))
