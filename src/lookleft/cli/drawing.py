"""Options that every command shares that writes text: how tokens are drawn, and what computes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Literal

from cyclopts import Parameter


@Parameter(name="*")
@dataclass(frozen=True)
class Drawing:
    """How the next token is chosen among the likely ones."""

    temperature: Annotated[
        float,
        Parameter(
            help="Above 0, tokens are drawn: below 1 likelier ones more often, above 1 less."
        ),
    ] = 0.0
    top_k: Annotated[
        int, Parameter(help="Draw from so many of the likeliest tokens; 0: from all.")
    ] = 0
    top_p: Annotated[
        float, Parameter(help="Draw from the likeliest tokens whose probabilities reach this sum.")
    ] = 1.0
    min_p: Annotated[
        float, Parameter(help="Draw from tokens at least this likely, relative to the likeliest.")
    ] = 0.0
    seed: Annotated[int, Parameter(help="Of the draws.")] = 0
    repetition_penalty: Annotated[
        float, Parameter(help="Above 1, tokens that have occurred get less likely.")
    ] = 1.0

    @property
    def options(self) -> dict[str, Any]:
        """The same as `generate.methods.choose` calls them."""
        options = dict(vars(self))
        options["repetition"] = options.pop("repetition_penalty")
        return options


@Parameter(name="*")
@dataclass(frozen=True)
class Computing:
    """What computes, and how."""

    engine: Annotated[
        Literal["auto", "torch", "numba"],
        Parameter(help="What computes: auto takes the compiled engine where it can."),
    ] = "auto"
    activations: Annotated[
        Literal[16, 8],
        Parameter(help="Bits of what 8-bit weights meet; 8: faster with AVX-512 VNNI, coarser."),
    ] = 16
    cache: Annotated[
        bool,
        Parameter(
            negative="--no-cache",
            help="--no-cache reads the whole text again for every token: slow, the same text.",
        ),
    ] = True
    threads: Annotated[int | None, Parameter(help="Of the processor; unset: all.")] = None


GREEDY = Drawing()
AUTOMATIC = Computing()
