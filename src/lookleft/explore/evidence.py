"""Proof by trying: change a token, and see which outputs move, and by how much exactly.

Dimensions: T rows, S columns, V vocabulary.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

import torch
from torch import Tensor

from lookleft.audit.run import audit
from lookleft.audit.verdict import Report, Verdict
from lookleft.data.batch import Batch, Rows
from lookleft.explore.heads import numbers
from lookleft.explore.lesson import PLACES, Kind
from lookleft.explore.states import ExploreError
from lookleft.explore.tokens import label_of
from lookleft.explore.trace import Trace
from lookleft.masks import causal
from lookleft.models import EncoderDecoder
from lookleft.nn.attention import capture

TRIES = 16
MAX_MAP = 24  # tokens of the map of inputs and outputs: one forward pass each
AUDIT_LENGTH = 16
LARGE = 50_000_000  # parameters from which the audit asks only what no other check can tell
LARGE_CHECKS, LARGE_LENGTH = ("K0", "K1", "K2"), 8
_SEED = 0


@dataclass(frozen=True)
class Proof:
    """What 16 other tokens in one column did to one row."""

    row: int
    column: int
    is_hidden: bool
    moved: float  # largest movement of any number this row puts out, exact
    head_moved: float  # the same of this head's part of it
    control_row: int | None  # a row that may look at the column
    control_moved: float | None
    replacements: tuple[str, ...]
    tries: int = TRIES

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"sentence": self.sentence}

    @property
    def sentence(self) -> str:
        """The finding in words; rows and columns count from 1."""
        by = "exactly 0" if self.moved == 0 else f"up to {self.moved:.3g}"
        said = f"Token {self.column + 1} was changed {self.tries} times: row {self.row + 1} moved "
        said += f"by {by}"
        if self.is_hidden and self.control_row is not None and self.control_moved is not None:
            said += (
                f"; row {self.control_row + 1}, which may look at it, moved by up to "
                f"{self.control_moved:.3g}"
            )
        return said + "."


@torch.no_grad()
def prove(trace: Trace, kind: Kind, layer: int, head: int, row: int, column: int) -> Proof:
    """Replace the token of a column by 16 others and measure what this row makes of it."""
    trace.check_head(kind, layer, head)
    allowed = trace.masks[kind][2]
    n_rows, n_columns = allowed.shape
    if not (0 <= row < n_rows and 0 <= column < n_columns):
        raise ExploreError(
            "bad_request",
            f"row {row}, column {column}: there are {n_rows} rows and {n_columns} columns",
            field="row",
        )
    generator = torch.Generator().manual_seed(_SEED)
    is_source = kind != "decoder_self" and trace.lesson.batch.source is not None
    may_look = allowed[:, column].nonzero()[:, 0].tolist()
    control = next((t for t in may_look if t != row), None)
    before, head_before = _outputs(trace, trace.lesson.batch, kind, layer, head)
    moved = torch.zeros(n_rows, dtype=torch.double)
    head_moved, labels = 0.0, []
    for _ in range(TRIES):
        batch, new = _changed(trace, column, is_source, generator)
        after, head_after = _outputs(trace, batch, kind, layer, head)
        moved = torch.maximum(moved, (after - before).abs().amax(-1).double()[:n_rows])
        head_moved = max(head_moved, float((head_after - head_before)[row].abs().max()))
        labels.append(label_of(trace.bundle, new))
    return Proof(
        row=row,
        column=column,
        is_hidden=not bool(allowed[row, column]),
        moved=float(moved[row]),
        head_moved=head_moved,
        control_row=control,
        control_moved=None if control is None else float(moved[control]),
        replacements=tuple(labels),
    )


@torch.no_grad()
def movement_map(trace: Trace) -> Tensor:
    """How far output i moves when input j is another token. -> (n, n), n at most 24 tokens."""
    count = min(trace.lesson.n_rows, MAX_MAP)
    generator = torch.Generator().manual_seed(_SEED)
    network = trace.lesson.network
    before = network.score(trace.lesson.batch)[0, :count]
    moved = torch.zeros(count, count, dtype=torch.double)
    # One change a pass: rows of a batch may be rounded differently, and exact means exact.
    for column in range(count):
        batch, _ = _changed(trace, column, False, generator)
        moved[:, column] = (network.score(batch)[0, :count] - before).abs().amax(-1).double()
    return moved


def audit_view(trace: Trace, command: str) -> dict[str, Any]:
    """The map of what moves what, and the verdict of the audit on these weights."""
    if trace.inference is None:
        raise ExploreError("cannot", trace.card.why_not["audit"])
    moved = movement_map(trace)
    count = moved.size(0)
    pos = trace.lesson.batch.inputs.pos[:, :count]
    rule = causal(pos, pos).allowed[0, 0]  # what it should keep to, also with the mask taken away
    leaks = moved.masked_fill(rule, 0.0)
    largest, (output, input_) = float(leaks.max()), divmod(int(leaks.argmax()), count)
    report = _audited(trace)
    # The audit calls the network through a module of its own; its name says nothing here.
    modules = [f.module.removeprefix("network.") for f in report.violations if f.module]
    return {
        "verdict": str(report.verdict),
        "sentence": _sentence(report, largest),
        "seconds": round(report.seconds, 2),
        "tokens": [asdict(token) for token in trace.lesson.columns[:count]],
        "moved": numbers(moved),
        "allowed": rule.tolist(),
        "worst": {"output": output, "input": input_, "moved": largest} if largest > 0 else None,
        "module": modules[0] if modules else None,
        "findings": [
            {
                "check": finding.check,
                "title": finding.title,
                "verdict": str(finding.verdict),
                "reason": finding.reason,
            }
            for finding in report.findings
        ],
        "pytest": pytest_line(command),
    }


def _audited(trace: Trace) -> Report:
    """The quick audit; of a large model its heart alone, which takes seconds, not minutes."""
    network = trace.lesson.network
    if network.n_parameters < LARGE:
        return audit(network, quick=True, length=AUDIT_LENGTH)
    return audit(network, quick=True, checks=LARGE_CHECKS, length=LARGE_LENGTH)


def pytest_line(command: str) -> str:
    """A test that keeps this verdict; `command` is the one that shows the model."""
    model = command.removeprefix("lookleft explain").strip() or "MODEL"
    return (
        "def test_the_model_only_looks_left():\n"
        f"    lookleft.audit(lookleft.load({model!r}), quick=True).raise_for_violations()"
    )


def _sentence(report: Report, leak: float) -> str:
    if report.verdict is Verdict.DISPROVED:
        return report.violations[0].reason
    if leak > 0:
        return f"On this sentence an output moved by {leak:.3g} when a later input changed."
    if report.verdict is Verdict.VERIFIED:
        return "No output moved when a later input changed, in any of the listed probes."
    return "The probes could not decide: " + next(
        (f.reason for f in report.findings if f.verdict is Verdict.INCONCLUSIVE), "none applied"
    )


def _changed(
    trace: Trace, column: int, is_source: bool, generator: torch.Generator
) -> tuple[Batch, int]:
    """The batch with another token in one column, and which."""
    batch = trace.lesson.batch
    rows = batch.source if is_source else batch.inputs
    assert rows is not None
    config = trace.lesson.network.config
    vocab_size = config.vocab_size
    if is_source:
        vocab_size = getattr(config, "source_vocab_size", None) or vocab_size
    old = int(rows.ids[0, column])
    new = (old + 1 + int(torch.randint(vocab_size - 1, (), generator=generator))) % vocab_size
    ids = rows.ids.clone()
    ids[0, column] = new
    changed: Rows = replace(rows, ids=ids)
    return (replace(batch, source=changed) if is_source else replace(batch, inputs=changed)), new


def _outputs(
    trace: Trace, batch: Batch, kind: Kind, layer: int, head: int
) -> tuple[Tensor, Tensor]:
    """What the rows put out in the end, and what this head gives them. (T, V or D), (T, K)."""
    network = trace.lesson.network
    with capture(network) as seen:
        if kind == "encoder_self" and isinstance(network, EncoderDecoder):
            assert batch.source is not None
            out = network.encode(batch.source)[0]  # (S, D)
        else:
            out = network.score(batch)[0]  # (T, V)
    return out, seen[f"{PLACES[kind].format(layer)}.out"][0][0, head]
