"""Continuous batching: finished rows leave at once, waiting requests join at the next step.

Knows neither text nor HTTP. Rows do not see each other, so an answer is the same whatever its
neighbours are and whenever they come and go.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Generic

import torch
from torch import Tensor

from lookleft.config import EncoderDecoderConfig
from lookleft.data.batch import Batch, pad_rows
from lookleft.errors import InputError
from lookleft.generate.beam import Beams
from lookleft.generate.best import Chooser
from lookleft.generate.group import Group, Move, Singles
from lookleft.generate.request import Beam, Done, Entry, Event, Request, admit
from lookleft.models.base import Runner, StateT

ROWS = 64  # rows decoded together
AHEAD = 32  # tokens written at once where nobody waits for each


@dataclass
class Flight(Generic[StateT]):
    """A group on its way: its state, and what its rows read next."""

    group: Group
    state: StateT
    ids: Tensor


class Lane(Generic[StateT]):
    """Requests decoded by one kind of group, in one batch that changes from step to step."""

    def __init__(self, runner: Runner[StateT], ahead: int) -> None:
        self.runner, self.ahead = runner, ahead
        self.chooser: Chooser[StateT] | None = runner if isinstance(runner, Chooser) else None
        self.flight: Flight[StateT] | None = None

    @property
    def n_rows(self) -> int:
        return 0 if self.flight is None else self.flight.group.n_rows

    def step(self, newcomers: Sequence[Entry]) -> list[Event]:
        """At least one token further for everybody; the newcomers read their prompts first."""
        events: list[Event] = []
        flight = self.flight
        if flight is not None:
            n_rows = flight.group.n_rows
            flight = self._moved(flight.group, flight.state, n_rows, self._chosen(flight), events)
        if newcomers:
            flight = _joined(flight, self._begun(newcomers, events))
        self.flight = flight
        return events

    def drop(self, tickets: set[int]) -> None:
        """Forget these requests."""
        if self.flight is None:
            return
        n_before = self.flight.group.n_rows
        rows = self.flight.group.drop(tickets).to(self.flight.ids.device)
        if not rows.numel():
            self.flight = None
        elif rows.numel() < n_before:
            self.flight.state.reorder(rows)
            self.flight.ids = self.flight.ids[rows]

    def _chosen(self, flight: Flight[StateT]) -> tuple[Move, list[Event]]:
        """One step of the runner, or a few, and what the group makes of them."""
        group, ids, state = flight.group, flight.ids, flight.state
        if self.chooser is None or group.wants_logits:
            return group.advance(self.runner.step(ids, state))
        found, events = group.ask(self.chooser, ids, state, self.ahead)
        move, news = group.choose(found)
        return move, events + news

    def _moved(
        self,
        group: Group,
        state: StateT,
        n_rows: int,
        chosen: tuple[Move, list[Event]],
        events: list[Event],
    ) -> Flight[StateT] | None:
        """The group with its state in the new order; None if nothing runs any more."""
        move, news = chosen
        events += news
        if not len(move.rows):
            return None
        rows, ids = move.tensors(self.runner.device)
        if not move.is_still(n_rows):
            state.reorder(rows)
        return Flight(group, state, ids)

    def _begun(self, newcomers: Sequence[Entry], events: list[Event]) -> Flight[StateT] | None:
        """The newcomers after their first token; None if that was the last of all."""
        device = self.runner.device
        kind = Beams if isinstance(newcomers[0].request.method, Beam) else Singles
        group: Group = kind(newcomers)
        inputs = pad_rows([entry.read for entry in newcomers]).to(device)
        source = None
        if isinstance(self.runner.config, EncoderDecoderConfig):
            source = pad_rows([entry.request.source or () for entry in newcomers]).to(device)
        batch, room = Batch(inputs, source=source), max(entry.max_new for entry in newcomers)
        if self.chooser is None or group.wants_logits:
            logits, state = self.runner.prefill(batch, room=room)
            chosen = group.advance(logits)
        else:
            found, state = group.begin(self.chooser, batch, room)
            chosen = group.choose(found)
        return self._moved(group, state, len(newcomers), chosen, events)


def _joined(flight: Flight[StateT] | None, joining: Flight[StateT] | None) -> Flight[StateT] | None:
    if flight is None or joining is None:
        return flight or joining
    flight.group.join(joining.group)
    flight.state.join(joining.state)
    flight.ids = torch.cat((flight.ids, joining.ids))
    return flight


class Scheduler(Generic[StateT]):
    """Takes requests at any time and answers them step by step."""

    def __init__(
        self,
        runner: Runner[StateT],
        *,
        max_rows: int = ROWS,
        join_at_least: int = 1,
        ahead: int = 1,
    ) -> None:
        """max_rows: decoded together at most; a beam takes `width` of them.

        join_at_least: rows that must be free before waiting requests join those that run. Reading
        prompts a few at a time costs; 1 is for those who wait for an answer, more for files.
        ahead: tokens of a step at most, where the runner can write several at once; 1 is for
        those who watch them come.
        """
        if max_rows < 1:
            raise InputError(f"max_rows={max_rows}: at least one row must run")
        if ahead < 1:
            raise InputError(f"ahead={ahead}: a step writes at least one token")
        self.runner = runner
        self.max_rows, self.join_at_least = max_rows, min(join_at_least, max_rows)
        self.ahead = ahead
        self._waiting: deque[Entry] = deque()
        self._lanes: dict[Any, Lane[StateT]] = {}  # by method: beams of different width run apart
        self._open: set[int] = set()  # tickets that wait or run
        self._n_submitted = 0

    @property
    def n_waiting(self) -> int:
        return len(self._waiting)

    @property
    def n_rows(self) -> int:
        """Rows that run now."""
        return sum(lane.n_rows for lane in self._lanes.values())

    @property
    def is_idle(self) -> bool:
        return not self._waiting and not self.n_rows

    def submit(self, request: Request) -> int:
        """Take a request, or refuse it at once; get the ticket that its events carry."""
        ticket = self._n_submitted
        entry = admit(request, ticket, self.runner.config)
        if rows_of(request) > self.max_rows:
            raise InputError(
                f"a beam of {rows_of(request)} does not fit into {self.max_rows} rows; "
                "take a narrower one or raise max_rows"
            )
        self._n_submitted += 1
        self._waiting.append(entry)
        self._open.add(ticket)
        return ticket

    def cancel(self, ticket: int) -> None:
        """Forget a request, waiting or running; it takes part in no further step."""
        self._open.discard(ticket)
        self._waiting = deque(entry for entry in self._waiting if entry.ticket != ticket)
        for lane in self._lanes.values():
            lane.drop({ticket})

    def abandon(self) -> list[int]:
        """Forget all requests, for instance after a step that failed; get their tickets."""
        forgotten = sorted(self._open)
        self._open.clear()
        self._waiting.clear()
        self._lanes.clear()
        return forgotten

    @torch.no_grad()
    def step(self) -> list[Event]:
        """At least one token further for every running request; those that wait join as rows
        permit."""
        newcomers: dict[Any, list[Entry]] = {}
        free = self.max_rows - self.n_rows
        if free >= self.join_at_least or free == self.max_rows:
            while self._waiting and rows_of(self._waiting[0].request) <= free:
                entry = self._waiting.popleft()
                free -= rows_of(entry.request)
                newcomers.setdefault(lane_of(entry.request), []).append(entry)
        events: list[Event] = []
        for key in {**self._lanes, **newcomers}:
            if key not in self._lanes:
                self._lanes[key] = Lane(self.runner, self.ahead)
            lane = self._lanes[key]
            events += lane.step(newcomers.get(key, []))
            if not lane.n_rows:
                del self._lanes[key]
        self._open -= {event.ticket for event in events if isinstance(event, Done)}
        return events

    def run(self) -> Iterator[Event]:
        """Everything that happens until all is answered."""
        while not self.is_idle:
            yield from self.step()


def rows_of(request: Request) -> int:
    """How many rows a request takes while it runs."""
    return request.method.width if isinstance(request.method, Beam) else 1


def lane_of(request: Request) -> Any:
    """Requests with the same key can share a batch."""
    return request.method if isinstance(request.method, Beam) else None


def answer_all(
    runner: Runner[StateT],
    requests: Sequence[Request],
    *,
    max_rows: int = ROWS,
    join_at_least: int = 1,
) -> Iterator[Done]:
    """Answer requests together, each as soon as it is done; tickets count from 0."""
    scheduler = Scheduler(runner, max_rows=max_rows, join_at_least=join_at_least, ahead=AHEAD)
    for request in requests:
        scheduler.submit(request)
    for event in scheduler.run():
        if isinstance(event, Done):
            yield event
