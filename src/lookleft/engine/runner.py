"""A network driven by compiled code: the same calls as the PyTorch models, and the same answers.

Tokens of a batch are laid one after another, without padding; the compiled forward takes any
number of them, whether a prompt, several tokens on a warm cache, or one token per row.
Dimensions: B rows of the batch, T positions, V vocabulary.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor

from lookleft.config import EncoderDecoderConfig
from lookleft.data.batch import Batch, Rows
from lookleft.engine.search import BeamSearch, Doubles, Search
from lookleft.engine.space import Space
from lookleft.engine.state import EngineState, Integers, Memory, Pool
from lookleft.engine.tables import PositionTables
from lookleft.engine.team import Turn, team_of, usable_cores
from lookleft.engine.weights import Record, place_weights
from lookleft.errors import InputError
from lookleft.models import DecoderOnly, EncoderDecoder
from lookleft.models.base import last_places
from lookleft.quantised import Floats, Kind, Quantised

CHUNK = 128  # tokens of a prompt at once: their activations fit into the cache of a core
SPLIT_ROWS = 8  # rows per thread from which each thread takes rows of its own


class Tokens(NamedTuple):
    """Tokens to read, those of each row in their order. (N,) each."""

    ids: Integers
    sequence: Integers  # which row of the batch each belongs to
    position: Integers

    def part(self, which: slice) -> Tokens:
        """Some of them, neighbours."""
        return Tokens(*(column[which] for column in self))


class Runner:
    """Generates with compiled kernels. Weights are copied: changing the network changes nothing."""

    def __init__(
        self,
        network: DecoderOnly | EncoderDecoder,
        *,
        stored: Mapping[str, Quantised] | None = None,
        kind: Kind | None = None,
        activations: int = 16,
        n_threads: int | None = None,
    ) -> None:
        """stored: matrices to use in the few bits a file holds them in, by parameter name.
        kind: what to make of all others ("int8", "int4"); None: float32.
        activations: bits of the numbers that quantised matrices are multiplied with.
        n_threads: unset, as many as torch uses."""
        self.config = network.config
        self._order = Turn()  # a job and its work space serve one caller at a time
        if n_threads is None:
            n_threads = min(usable_cores(), torch.get_num_threads())
        if n_threads < 1:
            raise InputError(f"n_threads={n_threads}: at least one thread must run")
        self.team = team_of(n_threads)
        self.weights = place_weights(network, stored or {}, kind, is_narrow=activations == 8)
        jobs = [job for job in (self.weights.decoder, self.weights.encoder) if job is not None]
        self._n_bytes = int(self.weights.decoder["kept_bytes"][0])  # of a key's numbers
        self.space = Space(jobs, n_threads)
        self.bounds = np.zeros(n_threads + 1, np.int64)
        for job in jobs:
            job["bounds"] = self.bounds.ctypes.data
        self.decoder_tables = PositionTables(network.decoder, self.weights.decoder)
        if isinstance(network, EncoderDecoder) and self.weights.encoder is not None:
            self.encoder_tables = PositionTables(network.encoder, self.weights.encoder)

    @property
    def device(self) -> torch.device:
        return torch.device("cpu")

    @torch.no_grad()
    def score(self, batch: Batch) -> Tensor:
        """Logits of every position, as the network's `score`. -> (B, T, V)."""
        return self.extend(batch.inputs, self._start(batch, room=0))

    @torch.no_grad()
    def prefill(self, batch: Batch, *, room: int) -> tuple[Tensor, EngineState]:
        """Read a prompt and keep room for so many more tokens. -> logits (B, V), state."""
        state = self._start(batch, room)
        return self._read(batch.inputs, state, are_last(batch.inputs)), state

    @torch.no_grad()
    def extend(self, rows: Rows, state: EngineState) -> Tensor:
        """Feed several more tokens per row; padding rests. -> logits (B, T, V), 0 at padding."""
        logits = torch.zeros(*rows.shape, self.config.vocab_size)
        logits[rows.is_token] = self._read(rows, state, rows.is_token)
        return logits

    def step(self, ids: Tensor, state: EngineState) -> Tensor:
        """Feed one more token per row. (B,) -> logits (B, V)."""
        tokens = self._next(ids, state)
        return self._logits(tokens, state, tokens.sequence)

    @torch.no_grad()
    def prefill_best(
        self, batch: Batch, *, room: int, n: int, forbidden: Integers
    ) -> tuple[tuple[Floats, Integers, Floats], EngineState]:
        """As `prefill`, but of each row only its n best tokens: logits (B, n), ids (B, n), norms
        (B,).

        The best come first, of equal ones the lower id. norms: log of the summed exponentials of
        all logits. forbidden: (B, F) ids that are not to be among the best; -1 forbids nothing.
        """
        state = self._start(batch, room)
        forbidden = self._table("forbidden", forbidden, state)
        n, n_found, found = min(n, self.config.vocab_size), 0, []
        for tokens, places in self._pieces(batch.inputs, state, are_last(batch.inputs)):
            search = Search(n, forbidden[n_found : n_found + len(places)])
            self._forward(tokens, state, places, search)
            n_found += len(places)
            found.append(search.best(0))
        logits, ids, norms = (np.concatenate(column) for column in zip(*found, strict=True))
        return (logits, ids, norms), state

    def write_best(
        self, ids: Tensor, state: EngineState, n_steps: int, ends: Integers, forbidden: Integers
    ) -> list[tuple[Floats, Integers, Floats]]:
        """Feed one more token per row; get the best after it, feed that, up to n_steps times.

        What each step gives is what `prefill_best` gives with n = 1. The last step is one in which
        a row found one of its ends (B, E; -1: none), or nothing that is possible, or the end of
        the context. Python is left out between the steps.
        """
        tokens = self._next(ids, state)
        search = Search(
            1,
            self._table("forbidden", forbidden, state),
            self._table("end", ends, state),
            n_steps=self._n_steps(n_steps, tokens, state),
        )
        self._go(tokens, state, search)
        return [search.best(step) for step in range(search.n_done)]

    def write_beams(
        self,
        ids: Tensor,
        state: EngineState,
        n_steps: int,
        sums: Doubles,
        n: int,
        ends: Integers,
        forbidden: Integers,
    ) -> tuple[list[tuple[Doubles, Integers, Integers, Doubles]], tuple[Floats, Integers, Floats]]:
        """The same for rows that are hypotheses with these sums of log-probabilities, W of each
        request and neighbours. (B / W, W).

        After each step but the last all requests go on with the best W of their n best
        continuations: totals, parents, ids, gains, (B / W, W) each; the state is in the new order.
        The last is one in which an end was among those n, or too few were possible; of it only
        the n best tokens of each row are given. Nobody has gone on from there.
        """
        tokens = self._next(ids, state)
        if sums.ndim != 2 or sums.size != state.batch:
            raise InputError(f"sums of {sums.shape} are not those of {state.batch} rows")
        wide = min(n, self.config.vocab_size)
        n_steps = self._n_steps(n_steps if wide == n >= sums.shape[1] else 1, tokens, state)
        search = BeamSearch(
            wide,
            self._table("forbidden", forbidden, state),
            self._table("end", ends, state),
            sums,
            n_steps=n_steps,
        )
        self._go(tokens, state, search)
        last = search.n_done - 1
        return [search.went_on(step) for step in range(last)], search.best(last)

    def _n_steps(self, n_steps: int, tokens: Tokens, state: EngineState) -> int:
        """How many of so many steps can be made in one go."""
        if not self.weights.decoder["is_causal"][0] or (state.prefix > tokens.position).any():
            return 1  # a token that sees later ones must not see what is not there yet
        return min(n_steps, self.config.context - int(tokens.position.max()))

    def _go(self, tokens: Tokens, state: EngineState, search: Search) -> None:
        """Make the steps of a search; the state holds what they read and no more."""
        # The compiled loop writes what it reads next into these.
        tokens = tokens._replace(ids=tokens.ids.copy())
        self._forward(tokens, state, tokens.sequence, search)
        state.give_back(search.n_steps - search.n_done)

    def _table(self, name: str, ids: Integers, state: EngineState) -> Integers:
        """A list of ids for each row, or an error that says what does not fit."""
        if len(ids) != state.batch or ids.max(initial=-1) >= self.config.vocab_size:
            raise InputError(
                f"{name} ids of {len(ids)} rows up to {ids.max(initial=-1)}: give "
                f"{state.batch} rows of ids below {self.config.vocab_size}"
            )
        return np.ascontiguousarray(ids, np.int64)

    def _next(self, ids: Tensor, state: EngineState) -> Tokens:
        """One more token per row, and where it goes."""
        if ids.shape != (state.batch,):
            raise InputError(
                f"a step takes one id per row, shape ({state.batch},), got {tuple(ids.shape)}"
            )
        position = state.held.copy()
        self._check(ids.numpy(), position, self.config.vocab_size)
        return Tokens(ids.numpy(), np.arange(state.batch), position)

    def _start(self, batch: Batch, room: int) -> EngineState:
        """A state that has read nothing of the target yet, but all of the source."""
        rows, config = batch.inputs, self.config
        if rows.docs is not None:
            raise InputError("packed documents cannot be continued: give each document its own row")
        prefix = None
        if batch.prefix is not None:
            prefix = batch.prefix.expand(rows.shape[0]).numpy().astype(np.int64)
        return EngineState(
            batch=rows.shape[0],
            room=max(int(rows.is_token.sum(1).max()) + room, 1),
            shape=(int(self.weights.decoder["n_layers"][0]), config.kv_heads, config.head_dim),
            n_bytes=self._n_bytes,
            window=int(self.weights.decoder["window"][0]),
            prefix=prefix,
            memory=self._encode(batch) if isinstance(config, EncoderDecoderConfig) else None,
        )

    def _read(self, rows: Rows, state: EngineState, wanted: Tensor) -> Tensor:
        """Feed the real tokens of these rows. -> logits of those wanted (B, T), row by row."""
        pieces = self._pieces(rows, state, wanted)
        logits = [self._logits(tokens, state, places) for tokens, places in pieces]
        return torch.cat([torch.empty(0, self.config.vocab_size), *logits])

    def _pieces(
        self, rows: Rows, state: EngineState, wanted: Tensor
    ) -> Iterator[tuple[Tokens, Integers]]:
        """The real tokens of these rows in pieces that go through together, and which are wanted.

        wanted: (B, T). The state must have read one piece before the next is asked for.
        """
        if rows.shape[0] != state.batch:
            raise InputError(f"{rows.shape[0]} rows for a state of {state.batch}")
        is_token = rows.is_token.numpy()
        sequence, column = is_token.nonzero()
        order = is_token.cumsum(1) - 1  # how many came before
        position = state.held[sequence] + order[sequence, column]
        tokens = Tokens(rows.ids.numpy()[is_token], sequence, position)
        is_wanted = wanted.numpy()[is_token]
        self._check(tokens.ids, position, self.config.vocab_size)
        if len(sequence):
            for part in self._parts(sequence, state):
                yield tokens.part(part), is_wanted[part].nonzero()[0]

    def _parts(self, sequence: Integers, state: EngineState) -> list[slice]:
        """Which tokens go through together: pieces of the work space's size.

        Where a token sees later ones, those must be there: then rows stay whole.
        """
        size = CHUNK * self.team.n_threads
        if self.weights.decoder["is_causal"][0] and not state.prefix.any():
            return [slice(i, i + size) for i in range(0, len(sequence), size)]
        return whole_rows(sequence, size)

    def _logits(self, tokens: Tokens, state: EngineState, wanted: Integers) -> Tensor:
        """One compiled forward. -> logits of the wanted tokens, (wanted, V)."""
        logits = torch.empty(len(wanted), int(self.weights.decoder["logit_width"][0]))
        self._forward(tokens, state, wanted, logits)
        return logits[:, : self.config.vocab_size]

    def _forward(
        self, tokens: Tokens, state: EngineState, wanted: Integers, into: Tensor | Search
    ) -> None:
        """One compiled forward; logits of the wanted tokens, or what is looked for, go into it."""
        job = self.weights.decoder
        n_steps = into.n_steps if isinstance(into, Search) else 1
        state.place(tokens.sequence, tokens.position, n_steps)
        longest = int(tokens.position.max(initial=-1)) + n_steps
        n_source = 0 if state.memory is None else int(state.memory.length.max())
        with self._order:
            self.decoder_tables.reach(longest)
            self.space.fit(max(len(tokens.ids), 1), max(longest, n_source))
            state.fill(job)
            job["n_wanted"], job["wanted"] = len(wanted), wanted.ctypes.data
            if isinstance(into, Tensor):
                job["logits"], job["n_best"], job["n_steps"] = into.data_ptr(), 0, 1
            else:
                job["logits"] = self.space.logits(len(wanted))
                into.fill(job)
            job["n_sources"] = 0
            self._run(job, tokens)

    def _run(self, job: Record, tokens: Tokens) -> None:
        """Let the team run a job on these tokens."""
        job["n_rows"] = len(tokens.ids)
        arrays = [np.ascontiguousarray(column, np.int64) for column in tokens]
        job["ids"], job["sequence"], job["position"] = (a.ctypes.data for a in arrays)
        job["is_split"] = self._split(tokens.sequence)
        self.team.run(job)

    def _split(self, sequence: Integers) -> bool:
        """Whether each thread takes rows of its own; then `bounds` says which.

        Many short rows: no thread waits for another. Rows of one sequence stay together, for they
        look at each other's keys within a layer.
        """
        n_threads, n = self.team.n_threads, len(sequence)
        if n_threads == 1 or n < SPLIT_ROWS * n_threads or sequence[0] == sequence[-1]:
            return False
        starts = np.flatnonzero(np.diff(sequence, prepend=-1))  # of the sequences
        ideal = np.arange(1, n_threads) * n // n_threads
        cuts = starts[np.searchsorted(starts, ideal).clip(max=len(starts) - 1)]
        self.bounds[:] = (0, *cuts, n)
        sizes = np.diff(self.bounds)
        return bool(sizes.min() * n_threads > 0.8 * n)

    def _encode(self, batch: Batch) -> Memory:
        """Read the sources; keep what every decoder layer will look at in them."""
        source, job, config = batch.source, self.weights.encoder, self.config
        assert isinstance(config, EncoderDecoderConfig)
        assert job is not None
        if source is None:
            raise InputError("an encoder-decoder needs a source: Batch(inputs=..., source=...)")
        if source.shape[0] != batch.inputs.shape[0]:
            raise InputError(
                f"{source.shape[0]} source rows but {batch.inputs.shape[0]} target rows"
            )
        is_token = source.is_token.numpy()
        sequence, column = is_token.nonzero()
        position = (is_token.cumsum(1) - 1)[sequence, column]
        lengths = is_token.sum(1)
        tokens = Tokens(source.ids.numpy()[is_token], sequence, position)
        self._check(tokens.ids, position, config.source_vocab_size or config.vocab_size)
        n_layers = int(self.weights.decoder["n_layers"][0])
        shape = (n_layers, config.kv_heads, config.head_dim)
        pool = Pool(shape, max(len(sequence), 1), self._n_bytes)
        memory = Memory(pool, lengths.cumsum() - lengths, lengths)
        for part in whole_rows(sequence, CHUNK * self.team.n_threads):
            with self._order:
                self._encode_part(job, tokens.part(part), memory, part.start)
        return memory

    def _encode_part(self, job: Record, tokens: Tokens, memory: Memory, first: int) -> None:
        """Some whole sources: through the encoder, then to keys and values of each layer."""
        shape = (1, *memory.pool.shape[1:])
        state = EngineState(
            batch=len(memory.length),
            room=int(memory.length.max()),
            shape=shape,
            n_bytes=self._n_bytes,
        )
        state.place(tokens.sequence, tokens.position)
        self.encoder_tables.reach(state.table.shape[1])
        n_tokens = len(tokens.ids)
        self.space.fit(n_tokens, state.table.shape[1])
        state.fill(job)
        job["is_kept"] = 0  # layers share one pool: keys are needed within a layer only
        job["n_wanted"] = 0
        self._run(job, tokens)
        project = self.weights.decoder
        project["memory_keys"], project["memory_values"] = memory.pool.addresses
        project["memory_size"] = memory.pool.size
        project["n_sources"] = n_tokens
        self._run(project, tokens._replace(position=np.arange(first, first + n_tokens)))

    def _check(self, ids: Integers, position: Integers, vocab_size: int) -> None:
        """Refuse ids outside the vocabulary and texts beyond the context, naming both."""
        longest = int(position.max(initial=-1)) + 1
        if len(ids) and (ids.min() < 0 or ids.max() >= vocab_size):
            wrong = ids[(ids < 0) | (ids >= vocab_size)][0]
            raise InputError(f"id {int(wrong)} is outside the vocabulary 0..{vocab_size - 1}")
        if longest > self.config.context:
            raise InputError(
                f"{longest} tokens, but this model reads at most {self.config.context}"
            )


def are_last(rows: Rows) -> Tensor:
    """True at the last token of each row. (B, T)."""
    wanted = torch.zeros_like(rows.is_token)
    wanted[torch.arange(rows.shape[0]), last_places(rows.is_token)] = True
    return wanted


def whole_rows(sequence: Integers, size: int) -> list[slice]:
    """Neighbouring tokens in pieces of about this size, no row cut in two."""
    starts = [*np.flatnonzero(np.diff(sequence, prepend=-1)).tolist(), len(sequence)]
    parts, first = [], 0
    for start, end in pairwise(starts):
        if end - first > size and start > first:
            parts.append(slice(first, start))
            first = start
    return [*parts, slice(first, len(sequence))]
