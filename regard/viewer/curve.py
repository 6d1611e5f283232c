"""Lines over numbers, with how far they spread: a picture, its format by the file's extension."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.viewer.figure import write_figure


@dataclass(frozen=True)
class Curve:
    """What came out for each number, and a level to compare with."""

    across: str  # what the numbers are
    up: str  # and what came out
    numbers: Sequence[int]
    values: Sequence[float]
    spreads: Sequence[float]
    level: tuple[str, float]

    def picture(self, path: str | Path) -> None:
        write_figure(Path(path), self._figure)

    def _figure(self) -> Any:
        from matplotlib.figure import Figure

        figure = Figure(figsize=(5, 3.5))
        axes = figure.add_subplot()
        axes.errorbar(self.numbers, self.values, self.spreads, marker="o", capsize=3)
        axes.axhline(self.level[1], linestyle=":", color="0.5", label=self.level[0])
        axes.set_xscale("symlog", base=2, linthresh=1)  # 0 has a place, and each doubling is as wide as the last
        axes.set_xticks(self.numbers, [str(number) for number in self.numbers])
        axes.minorticks_off()
        axes.set_xlim(min(self.numbers) - 0.3, max(self.numbers) * 1.25 + 0.3)
        axes.set_xlabel(self.across)
        axes.set_ylabel(self.up)
        axes.legend()
        return figure
