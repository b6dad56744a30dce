"""What the benchmarks of tests/bench share: a table of figures beside their budgets."""


class Table:
    def __init__(self):
        self.rows = []

    def add(self, what, measured, budget="", good=None):
        """`good`: whether the budget is kept; None where there is none."""
        self.rows.append((what, measured, budget, "" if good is None else "PASS" if good else "MISS"))

    def print(self):
        print("| | measured | budget | |\n|---|---|---|---|")
        # Misses first.
        for row in sorted(self.rows, key=lambda row: row[3] != "MISS"):
            print("| " + " | ".join(row) + " |")
