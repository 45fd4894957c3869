"""What the page asks for, as functions: models, traces, proofs. Knows no HTTP.

One lock guards the models: `capture` watches a whole network, so one sentence runs at a time.
"""

from __future__ import annotations

import copy
import threading
from collections import OrderedDict
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Literal

import lookleft
from lookleft.bundle import Bundle, load
from lookleft.explore.beam_tree import BeamRequest, beam_tree
from lookleft.explore.card import ModelCard, make_card, run_settings
from lookleft.explore.evidence import LARGE, audit_view, prove
from lookleft.explore.examples import Example, first_example, held_out_examples
from lookleft.explore.layout import VERSION, head_json, trace_json
from lookleft.explore.lesson import Kind, TraceRequest
from lookleft.explore.one_file import Scope, file_data
from lookleft.explore.page import weights_table
from lookleft.explore.states import ExploreError
from lookleft.explore.tokens import Tokens, read_text
from lookleft.explore.trace import Trace, make_trace
from lookleft.models import EncoderDecoder

MAX_TRACES = 16
MAX_BYTES = 1 << 30  # of all traces kept
MAX_OPENED = 3  # known models held in memory at once
KEPT = ("main", "cheater")  # those of the command line, whatever else has such a name

State = Literal["loading", "ready", "failed"]


@dataclass
class Shown:
    """A model that the page can show."""

    bundle: Bundle
    card: ModelCard
    examples: list[Example] = field(default_factory=list)


class Explorer:
    """The models of one page, and the traces it asked for last."""

    def __init__(self, command: str = "lookleft explain") -> None:
        self.command = command
        self.models: dict[str, Shown] = {}
        self.known: dict[str, Path] = {}  # models that can be opened too, by name
        self.state: State = "loading"
        self.name, self.phase = "", "reading weights"
        self.message: str | None = None
        self._traces: OrderedDict[str, Trace] = OrderedDict()
        self._audits: dict[str, dict[str, Any]] = {}
        self._table: str | None = None
        self._lock = threading.Lock()

    # --- models ---

    def load(self, path: Path, cheater: Path | None = None) -> None:
        """Read the model, and the one trained without a mask if there is one; then be ready."""
        self.name = path.name
        try:
            self.add(load(path), "main", path)
            if cheater is not None:
                self.phase = f"reading weights of {cheater.name}"
                self.add(load(cheater), "cheater", cheater)
        except Exception as error:  # whatever it is, the page must not wait for ever
            self.state, self.message = "failed", str(error)
            raise
        self.state = "ready"

    def add(self, bundle: Bundle, key: str, path: Path | None = None) -> None:
        """Offer a model under a key; one that is being trained is copied and left as it is."""
        network = bundle.network
        if network.training or network.device.type != "cpu":
            bundle = replace(bundle, network=copy.deepcopy(network).cpu().eval())
        name = "model" if path is None else path.resolve().name
        card = make_card(bundle, key, name, path)
        self.models[key] = Shown(bundle, card, [first_example(card)])
        if key == "main":
            self.name, self.state = name, "ready"

    def open(self, name: str) -> dict[str, Any]:
        """Read one of the known models, unless it is open; get what there is to see then."""
        if name not in self.models:
            if name not in self.known:
                raise ExploreError("unknown_model", f"there is no model {name!r:.80} to open")
            with self._lock:
                self.add(load(self.known[name]), name, self.known[name])
                opened = [key for key in self.models if key in self.known and key not in KEPT]
                for key in opened[:-MAX_OPENED]:
                    del self.models[key]
        return self.describe()

    def load_examples(self, path: Path) -> None:
        """Find more sentences to begin with; takes seconds, so it comes after everything else."""
        shown = self.models["main"]
        shown.examples = held_out_examples(shown.card, run_settings(path))

    def describe(self) -> dict[str, Any]:
        """What there is to see."""
        is_ready = self.state == "ready"
        shown = list(self.models.values()) if is_ready else []
        return {
            "version": VERSION,
            "state": self.state,
            "name": self.name,
            "phase": None if is_ready else self.phase,
            "message": self.message,
            "models": [one.card.to_json() for one in shown],
            "examples": [e.to_json() for one in shown[:1] for e in one.examples],
            "first": {one.card.key: one.examples[0].to_json() for one in shown},
            "known": [name for name in self.known if name not in self.models],
            "command": self.command,
            "lookleft": lookleft.__version__,
        }

    def model(self, key: str) -> Shown:
        """The model with that key."""
        if key not in self.models:
            raise ExploreError(
                "unknown_model", f"there is no model {key!r:.40}: {', '.join(self.models)}"
            )
        return self.models[key]

    # --- sentences ---

    def tokens(self, key: str, side: Literal["source", "target"], text: str) -> dict[str, Any]:
        """The tokens of a text, of any length and also of none."""
        shown = self.model(key)
        if not text.strip():
            return Tokens(text, ()).to_json()
        is_ended = isinstance(shown.bundle.network, EncoderDecoder)
        return read_text(shown.bundle, text, is_ended=is_ended).to_json()

    def trace(self, request: TraceRequest) -> Trace:
        """Run a sentence and remember what happened."""
        shown = self.model(request.model)
        with self._lock:
            made = make_trace(shown.bundle, shown.card, request)
            self._traces[made.id] = made
            self._traces.move_to_end(made.id)
            while len(self._traces) > 1 and self._is_full():
                self._traces.popitem(last=False)
        return made

    def recall(self, id: str) -> Trace:
        """A trace that was made before."""
        with self._lock:
            if id not in self._traces:
                raise ExploreError(
                    "unknown_trace",
                    f"trace {id!r:.40} is no longer kept: run the sentence again",
                )
            self._traces.move_to_end(id)
            return self._traces[id]

    def trace_json(self, request: TraceRequest) -> dict[str, Any]:
        """A sentence as the page reads it, with one head."""
        return trace_json(self.trace(request))

    def head_json(self, id: str, kind: Kind | None, layer: int, head: int) -> dict[str, Any]:
        """One head of a trace; no kind means the first there is."""
        trace = self.recall(id)
        return head_json(trace, kind or trace.first_kind, layer, head)

    def prove(
        self, id: str, kind: Kind, layer: int, head: int, row: int, column: int
    ) -> dict[str, Any]:
        """What happens to a row when a token changes."""
        trace = self.recall(id)
        with self._lock:
            return prove(trace, kind, layer, head, row, column).to_json()

    def audit(self, id: str) -> dict[str, Any]:
        """Which inputs move which outputs, and the verdict."""
        trace = self.recall(id)
        with self._lock:
            if id not in self._audits:
                self._audits = {id: audit_view(trace, self.command)}  # the last one is kept
            return self._audits[id]

    def beam(self, request: BeamRequest) -> dict[str, Any]:
        """The tree of a beam search."""
        shown = self.model(request.model)
        with self._lock:
            return beam_tree(shown.bundle, request)

    def file_data(
        self, id: str, scope: Scope | None, kind: Kind | None, layer: int, head: int
    ) -> dict[str, Any]:
        """All that a one-file page needs of a trace and its variants, seen from one head."""
        trace = self.recall(id)
        view = {"kind": kind, "layer": layer, "head": head}
        request, cards = (
            trace.request.model_copy(update=view),
            [m.card for m in self.models.values()],
        )
        data = file_data(request, self.trace, cards, command=self.command, scope=scope)
        if trace.card.n_parameters < LARGE:  # else the page says how to ask for them
            data["audit"] = None if trace.inference is None else self.audit(id)
            if trace.lesson.source is not None:
                search = BeamRequest(model=request.model, source=trace.lesson.source.text)
                data["beam"] = self.beam(search)
        return data

    def first_table(self) -> str:
        """The first sentence as a table, for browsers that run no scripts."""
        if self.state != "ready":
            return ""
        if self._table is None:
            example = self.models["main"].examples[0]
            trace = self.trace(TraceRequest(source=example.source, target=example.target))
            self._table = weights_table(trace)
        return self._table

    def _is_full(self) -> bool:
        total = sum(trace.n_bytes for trace in self._traces.values())
        return len(self._traces) > MAX_TRACES or total > MAX_BYTES
