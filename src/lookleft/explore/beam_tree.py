"""A beam search as a tree: every hypothesis that was held at some step, and what became of it.

The search itself is the one that translates (`generate/beam.py`); here it is only watched.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Annotated, Any, Literal

import torch
from pydantic import Field

from lookleft.bundle import Bundle
from lookleft.config import Frozen
from lookleft.data.batch import Batch, pad_rows
from lookleft.explore.states import LIMIT, MAX_NEW, ExploreError
from lookleft.explore.tokens import label_of, read_text, written_text
from lookleft.generate.beam import Beams
from lookleft.generate.request import Answer, Beam, Done, Power, Request, admit
from lookleft.models import EncoderDecoder

Path = tuple[int, ...]  # the tokens of a hypothesis


class BeamRequest(Frozen):
    """A source to translate, and how widely to search."""

    model: str = "main"
    source: str
    size: Annotated[int, Field(ge=1, le=8)] = 4
    max_new: Annotated[int, Field(ge=1, le=MAX_NEW)] = 32


@dataclass
class Node:
    """A hypothesis: its parent and one token more."""

    id: int
    parent: int | None
    step: int
    token: dict[str, Any]
    log_prob: float  # summed over the hypothesis
    score: float  # the same per token
    state: Literal["open", "ended", "dropped"] = "open"
    is_best: bool = False


class Tree:
    """Hypotheses by their tokens."""

    def __init__(self, bundle: Bundle) -> None:
        self.bundle = bundle
        self.nodes: dict[Path, Node] = {}

    def grow(self, path: Path, log_prob: float, state: Literal["open", "ended"]) -> None:
        """Put a hypothesis in, behind the one it goes on from."""
        if path in self.nodes:
            return
        parent = self.nodes.get(path[:-1])
        token = {"id": path[-1], "text": label_of(self.bundle, path[-1])}
        self.nodes[path] = Node(
            id=len(self.nodes),
            parent=None if parent is None else parent.id,
            step=len(path) - 1,
            token=token,
            log_prob=log_prob,
            score=log_prob / len(path),
            state=state,
        )

    def drop_leaves(self) -> None:
        """What neither ended nor went on was dropped."""
        parents = {node.parent for node in self.nodes.values()}
        for node in self.nodes.values():
            if node.state == "open" and node.id not in parents:
                node.state = "dropped"


@torch.no_grad()
def beam_tree(bundle: Bundle, request: BeamRequest) -> dict[str, Any]:
    """The tree of one search, its best path, and the hypotheses it ended with."""
    network, eos = bundle.network, bundle.specials.eos
    if not isinstance(network, EncoderDecoder):
        raise ExploreError("cannot", "the beam view is for translation: this model does not do it")
    source = read_text(bundle, request.source, is_ended=True).ids
    if len(source) > LIMIT:
        raise ExploreError(
            "too_long",
            f"{len(source)} tokens; this page shows up to {LIMIT}",
            side="source",
            tokens=len(source),
            limit=LIMIT,
            hard_limit=LIMIT,
        )
    ends = () if eos is None else (eos,)
    asked = Request(
        source=tuple(source),
        max_new=request.max_new,
        ends=ends,
        method=Beam(request.size, Power(bundle.length_penalty), n_best=request.size),
    )
    entry = admit(asked, 0, network.config)
    batch = Batch(pad_rows([entry.read]), source=pad_rows([source]))
    logits, state = network.prefill(batch, room=entry.max_new)
    tree, beams = Tree(bundle), Beams([entry])
    answers: list[Answer] = []
    while not answers:
        pool = beams.pools[0]  # the search lets go of it when it is done
        move, events = beams.advance(logits)
        for ended in pool:
            tree.grow(_path(ended, ends), _total(ended), "ended")
        answers = next((event.answers for event in events if isinstance(event, Done)), [])
        if not answers:
            _grow_running(tree, beams)
            rows, ids = move.tensors(logits.device)
            state.reorder(rows)
            logits = network.step(ids, state)
    tree.drop_leaves()
    return _as_json(tree, answers, ends, request.size)


def _grow_running(tree: Tree, beams: Beams) -> None:
    for total, written in zip(beams.paths.sums[0].tolist(), beams.paths.tokens[0], strict=True):
        if total != -torch.inf:
            tree.grow(tuple(written.tolist()), total, "open")


def _path(answer: Answer, ends: Path) -> Path:
    """The tokens of an answer, its end token included."""
    return (*answer.ids, *(ends if answer.finish == "end" else ()))


def _total(answer: Answer) -> float:
    return sum(answer.log_probs or [])


def _as_json(tree: Tree, answers: list[Answer], ends: Path, size: int) -> dict[str, Any]:
    paths = [_path(answer, ends) for answer in answers]
    best = [tree.nodes[paths[0][:n]] for n in range(1, len(paths[0]) + 1)] if paths[0] else []
    for node in best:
        node.is_best = True
    return {
        "size": size,
        "nodes": [asdict(node) for node in tree.nodes.values()],
        "best": [node.id for node in best],
        "hypotheses": [
            {
                "text": written_text(tree.bundle, answer.ids).text,
                "log_prob": _total(answer),
                "score": answer.score,
                "node": tree.nodes[path].id if path else None,
            }
            for answer, path in zip(answers, paths, strict=True)
        ],
    }
