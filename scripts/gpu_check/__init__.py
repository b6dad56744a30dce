"""scripts/gpu-check: everything about the GPU path that cannot be proven without a GPU, in one command under ten minutes.

`scripts/gpu-check --pack DIR` makes a folder of programs (at most 60 MiB) for a machine without compiler and network;
`DIR/gpu-check` runs there, and `scripts/gpu-check` runs here. LibTorch 2.11 is the machine's own: $LIBTORCH, or the torch
package of a Python.

    cli.py      options, exit codes, what is printed
    machine.py  is there a GPU, where is LibTorch
    lab.py      runs the programs, asks their traces
    table.py    every check with what it has to measure: the acceptance
    checks_*.py how each check measures
    pack.py     the folder, its manifest, what is brought back
    programs/   what runs in PyTorch

Exit codes: 0 every check passed or was skipped with a reason; 1 a check failed; 2 it could not run (no LibTorch, a damaged
folder, a wrong option); 3 there is no GPU.
"""
