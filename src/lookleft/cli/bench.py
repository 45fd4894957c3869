"""`lookleft bench JOB`: what something costs on this machine, beside something known."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Annotated, Literal

from cyclopts import App, Parameter

from lookleft.errors import InputError

bench = App(
    name="bench",
    help="Measure what something costs on this machine, beside something known.",
    help_epilogue="Examples:\n  lookleft bench train\n  lookleft bench scale --out plots\n"
    "  lookleft bench decode --peers\n"
    "  lookleft bench audit --lengths 64,128 --json",
    help_format="plaintext",
)
Json = Annotated[bool, Parameter(name="--json", negative="")]


@bench.command
def audit(
    *,
    lengths: str = "64,128,256,512",
    width: int = 320,
    layers: int = 8,
    threads: int = 1,
    json_: Json = False,
) -> None:
    """Forwards and processor time of the audit, beside one plain forward of the same network.

    Parameters
    ----------
    lengths
        Positions per row, with commas between; the full audit runs at the first.
    width
        Of the decoder; 320 and 8 layers make 10 million parameters.
    layers
        Of the decoder.
    threads
        That torch may use.
    json_
        Print one JSON object instead of a table.
    """
    import torch

    from lookleft.bench.audit import measure, random_decoder

    sizes = numbers("--lengths", lengths, at_least=8)
    if min(width // 64, layers, threads) < 1:
        raise InputError(f"too small: width {width} (64 or more), {layers=}, {threads=}")
    torch.set_num_threads(threads)
    model = random_decoder(width - width % 64, layers)
    if json_:
        cells = list(measure(model, sizes))
        print(json.dumps({"parameters": model.n_parameters, "threads": threads, "cells": cells}))
        return
    print(f"{model.n_parameters:,} parameters, {threads} thread{'s' * (threads > 1)}")
    print(f"{'job':<14} {'length':>6} {'forwards':>8} {'x one forward':>13} {'seconds':>8}")
    for cell in measure(model, sizes):
        line = (
            f"{cell['job']:<14} {cell['length']:>6} {cell['forwards']:>8} "
            f"{cell['ratio_to_one_forward']:>13,.0f} {cell['seconds']:>8.1f}"
        )
        print(line, flush=True)  # the next one takes minutes


@bench.command
def train(
    *,
    rounds: int = 5,
    steps: int = 4,
    tokens: int = 4096,
    threads: int = 2,
    precision: Literal["auto", "float32", "bfloat16"] = "auto",
    json_: Json = False,
) -> None:
    """Training throughput on batches shaped like image captions, beside transformers' Marian.

    The same rows go through both, in turn: through this package's training loop, and through
    MarianMTModel of the same sizes in a plain loop with AdamW. Useful arithmetic, padding not
    counted, is given as a share of what torch.mm reaches in the same rounds. Marian and torch.mm
    compute in float32.

    Parameters
    ----------
    rounds
        Alternations that count, after one that does not.
    steps
        Optimiser steps per round.
    tokens
        Of one micro-batch, both sides; a step has as many micro-batches as there are threads.
    threads
        That torch may use.
    precision
        Of our products, as train.precision; auto is what the recipes take.
    json_
        Print one JSON object instead of a table.
    """
    import torch

    from lookleft.bench.train import measure

    if min(rounds, steps, tokens // 256, threads) < 1:
        raise InputError(f"too small: {rounds=}, {steps=}, {tokens=} (256 or more), {threads=}")
    torch.set_num_threads(threads)
    found = measure(
        rounds=rounds, steps=steps, tokens=tokens, n_micro=threads, precision=precision, say=say
    )
    if json_:
        print(json.dumps(found.as_json()))
    else:
        print(found)


@bench.command
def decode(
    *,
    jobs: str = "all",
    peers: Annotated[bool, Parameter(negative="")] = False,
    rounds: int = 5,
    threads: int = 2,
    json_: Json = False,
) -> None:
    """Tokens per second of generation, in turn with other programs on the same weights.

    Peers are llama-cpp-python, ctranslate2 and transformers, those of them that are installed;
    one that is not is named as missing.

    Parameters
    ----------
    jobs
        With commas between: smollm2-int8, smollm2-4bit, smollm2-prompt-int8, smollm2-prompt-4bit,
        marian-1x1, marian-1x5, marian-32x1, marian-32x5 (sentences x beam), length, batch, beam.
    peers
        Measure the peers too.
    rounds
        Alternations that count, after one that does not.
    threads
        That everybody may use.
    json_
        Print one JSON object instead of a table.
    """
    import torch

    from lookleft.bench.decode import Plan, Skipped, measure, named_jobs
    from lookleft.cli.check import peak_bytes

    names = named_jobs(jobs)
    plan = Plan(rounds, threads, peers, say)
    torch.set_num_threads(threads)
    cells, skipped = [], []
    for found in measure(names, plan):
        if isinstance(found, Skipped):
            skipped.append(vars(found))
        else:
            cells.append(found.as_json())
        if not json_:
            say("")
            print(found, flush=True)  # the next one takes minutes
    if json_:
        facts = {"cells": cells, "skipped": skipped, "threads": threads, "rounds": rounds}
        print(json.dumps(facts | {"peak_bytes": peak_bytes()}))  # of all together


@bench.command
def scale(
    *,
    quick: Annotated[bool, Parameter(negative="")] = False,
    out: Path | None = None,
    threads: int = 1,
    json_: Json = False,
) -> None:
    """What the length of a text costs: training, attention memory, generation, with exponents.

    Parallel against sequential training, attention with scores written out against the fused
    kernel, cached against recomputed generation. Each pair must give the same numbers.

    Parameters
    ----------
    quick
        Stop at short lengths.
    out
        A folder for the plots (SVG) and the numbers (scale.json).
    threads
        That torch may use.
    json_
        Print one JSON object instead of tables.
    """
    import torch

    from lookleft.bench.scale import compare_all
    from lookleft.bench.tables import as_table, write_plots

    torch.set_num_threads(max(threads, 1))
    found = []
    for comparison in compare_all(quick=quick, say=say):
        found.append(comparison)
        if not json_:
            say("")
            print(as_table(comparison), flush=True)
    if out is not None:
        for path in write_plots(found, out):
            print(f"wrote {path}", file=sys.stderr)
    if json_:
        print(json.dumps({"threads": threads, "jobs": [each.as_json() for each in found]}))


def numbers(option: str, text: str, at_least: int) -> list[int]:
    """ "64,128" as numbers, each of a sensible size."""
    try:
        found = [int(part) for part in text.split(",")]
    except ValueError:
        raise InputError(f"{option} {text!r}: give numbers with commas, as in 64,128") from None
    if min(found) < at_least:
        raise InputError(f"{option} {text!r}: must be {at_least} or more, below there is nothing")
    return found


def say(line: str) -> None:
    """Progress on stderr, on a terminal only."""
    if sys.stderr.isatty():
        print(f"\r\033[K{line}", end="", file=sys.stderr, flush=True)
