"""A network driven by compiled code: the same calls as the PyTorch models, and the same answers.

Tokens of a batch are laid one after another, without padding; the compiled forward takes any
number of them, whether a prompt, several tokens on a warm cache, or one token per row.
Dimensions: B rows of the batch, T positions, V vocabulary.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
from itertools import pairwise

import numpy as np
import torch
from torch import Tensor

from lookleft.config import EncoderDecoderConfig
from lookleft.data.batch import Batch, Rows
from lookleft.engine.space import Space
from lookleft.engine.state import EngineState, Integers, Memory, Pool
from lookleft.engine.tables import PositionTables
from lookleft.engine.team import team_of, usable_cores
from lookleft.engine.weights import Record, place_weights
from lookleft.errors import InputError
from lookleft.models import DecoderOnly, EncoderDecoder
from lookleft.models.base import last_places
from lookleft.quantised import Floats, Kind, Quantised

CHUNK = 128  # tokens of a prompt at once: their activations fit into the cache of a core
SPLIT_ROWS = 8  # rows per thread from which each thread takes rows of its own


class Runner:
    """Generates with compiled kernels. Weights are copied: changing the network changes nothing."""

    def __init__(
        self,
        network: DecoderOnly | EncoderDecoder,
        *,
        stored: Mapping[str, Quantised] | None = None,
        kind: Kind | None = None,
        n_threads: int | None = None,
    ) -> None:
        """stored: matrices to use in the few bits a file holds them in, by parameter name.
        kind: what to make of all others ("int8", "int4"); None: float32.
        n_threads: unset, as many as torch uses."""
        self.config = network.config
        self._order = threading.Lock()  # a job and its work space serve one caller at a time
        if n_threads is None:
            n_threads = min(usable_cores(), torch.get_num_threads())
        if n_threads < 1:
            raise InputError(f"n_threads={n_threads}: at least one thread must run")
        self.team = team_of(n_threads)
        self.weights = place_weights(network, stored or {}, kind)
        jobs = [job for job in (self.weights.decoder, self.weights.encoder) if job is not None]
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
        rows = batch.inputs
        last = last_places(rows.is_token)  # (B,)
        state = self._start(batch, room)
        wanted = torch.zeros_like(rows.is_token)
        wanted[torch.arange(len(last)), last] = True
        return self._read(rows, state, wanted), state

    @torch.no_grad()
    def extend(self, rows: Rows, state: EngineState) -> Tensor:
        """Feed several more tokens per row; padding rests. -> logits (B, T, V), 0 at padding."""
        logits = torch.zeros(*rows.shape, self.config.vocab_size)
        logits[rows.is_token] = self._read(rows, state, rows.is_token)
        return logits

    def step(self, ids: Tensor, state: EngineState) -> Tensor:
        """Feed one more token per row. (B,) -> logits (B, V)."""
        sequence, position = self._next(ids, state)
        return self._logits(ids.numpy(), sequence, position, state, sequence)

    def step_best(
        self, ids: Tensor, state: EngineState, n: int, forbidden: Integers
    ) -> tuple[Floats, Integers, Floats]:
        """As `step`, but of each row only its n best tokens: logits (B, n), ids (B, n), norms (B,).

        The best come first, of equal ones the lower id. norms: log of the summed exponentials of
        all logits. forbidden: (B, F) ids that are not to be among the best; -1 forbids nothing.
        """
        sequence, position = self._next(ids, state)
        if len(forbidden) != len(sequence) or forbidden.max(initial=-1) >= self.config.vocab_size:
            raise InputError(
                f"forbidden ids of {len(forbidden)} rows up to {forbidden.max(initial=-1)}: give "
                f"{len(sequence)} rows of ids below {self.config.vocab_size}"
            )
        search = Search(len(sequence), min(n, self.config.vocab_size), forbidden)
        self._forward(ids.numpy(), sequence, position, state, sequence, search)
        return search.logits, search.ids, search.norms

    def _next(self, ids: Tensor, state: EngineState) -> tuple[Integers, Integers]:
        """The rows and positions that one more token per row goes to."""
        if ids.shape != (state.batch,):
            raise InputError(
                f"a step takes one id per row, shape ({state.batch},), got {tuple(ids.shape)}"
            )
        position = state.held.copy()
        self._check(ids.numpy(), position, self.config.vocab_size)
        return np.arange(state.batch), position

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
            window=int(self.weights.decoder["window"][0]),
            prefix=prefix,
            memory=self._encode(batch) if isinstance(config, EncoderDecoderConfig) else None,
        )

    def _read(self, rows: Rows, state: EngineState, wanted: Tensor) -> Tensor:
        """Feed the real tokens of these rows. -> logits of those wanted (B, T), row by row."""
        if rows.shape[0] != state.batch:
            raise InputError(f"{rows.shape[0]} rows for a state of {state.batch}")
        is_token = rows.is_token.numpy()
        sequence, column = is_token.nonzero()
        order = is_token.cumsum(1) - 1  # how many came before
        position = state.held[sequence] + order[sequence, column]
        ids, is_wanted = rows.ids.numpy()[is_token], wanted.numpy()[is_token]
        self._check(ids, position, self.config.vocab_size)
        logits = []
        for part in self._parts(sequence, state):
            places = is_wanted[part].nonzero()[0]
            logits.append(self._logits(ids[part], sequence[part], position[part], state, places))
        return torch.cat(logits)

    def _parts(self, sequence: Integers, state: EngineState) -> list[slice]:
        """Which tokens go through together: pieces of the work space's size.

        Where a token sees later ones, those must be there: then rows stay whole.
        """
        size = CHUNK * self.team.n_threads
        if self.weights.decoder["is_causal"][0] and not state.prefix.any():
            return [slice(i, i + size) for i in range(0, len(sequence), size)]
        return whole_rows(sequence, size)

    def _logits(
        self,
        ids: Integers,
        sequence: Integers,
        position: Integers,
        state: EngineState,
        wanted: Integers,
    ) -> Tensor:
        """One compiled forward. -> logits of the wanted tokens, (wanted, V)."""
        logits = torch.empty(len(wanted), int(self.weights.decoder["logit_width"][0]))
        self._forward(ids, sequence, position, state, wanted, logits)
        return logits[:, : self.config.vocab_size]

    def _forward(
        self,
        ids: Integers,
        sequence: Integers,
        position: Integers,
        state: EngineState,
        wanted: Integers,
        into: Tensor | Search,
    ) -> None:
        """One compiled forward; logits of the wanted tokens, or what is looked for, go into it."""
        job = self.weights.decoder
        state.place(sequence, position)
        longest = int(position.max(initial=-1)) + 1
        n_source = 0 if state.memory is None else int(state.memory.length.max())
        with self._order:
            self.decoder_tables.reach(longest)
            self.space.fit(max(len(ids), 1), max(longest, n_source))
            state.fill(job)
            job["n_wanted"], job["wanted"] = len(wanted), wanted.ctypes.data
            if isinstance(into, Tensor):
                job["logits"], job["n_best"] = into.data_ptr(), 0
            else:
                job["logits"] = self.space.logits(len(wanted))
                into.fill(job)
            job["n_sources"] = 0
            self._run(job, ids, sequence, position)

    def _run(self, job: Record, ids: Integers, sequence: Integers, position: Integers) -> None:
        """Let the team run a job on these tokens."""
        job["n_rows"] = len(ids)
        arrays = [np.ascontiguousarray(a, np.int64) for a in (ids, sequence, position)]
        job["ids"], job["sequence"], job["position"] = (a.ctypes.data for a in arrays)
        job["is_split"] = self._split(sequence)
        self.team.run(job)

    def _split(self, sequence: Integers) -> bool:
        """Whether each thread takes rows of its own; then `bounds` says which.

        Many short rows: no thread waits for another. Rows of one sequence stay together, for they
        look at each other's keys within a layer.
        """
        n_threads, n = self.team.n_threads, len(sequence)
        if n_threads == 1 or n < SPLIT_ROWS * n_threads:
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
        ids = source.ids.numpy()[is_token]
        self._check(ids, position, config.source_vocab_size or config.vocab_size)
        n_layers = int(self.weights.decoder["n_layers"][0])
        pool = Pool((n_layers, config.kv_heads, config.head_dim), max(len(ids), 1))
        memory = Memory(pool, lengths.cumsum() - lengths, lengths)
        for part in whole_rows(sequence, CHUNK * self.team.n_threads):
            with self._order:
                self._encode_part(
                    job, ids[part], sequence[part], position[part], memory, part.start
                )
        return memory

    def _encode_part(
        self,
        job: Record,
        ids: Integers,
        sequence: Integers,
        position: Integers,
        memory: Memory,
        first: int,
    ) -> None:
        """Some whole sources: through the encoder, then to keys and values of each layer."""
        shape = (1, *memory.pool.shape[1:])
        state = EngineState(batch=len(memory.length), room=int(memory.length.max()), shape=shape)
        state.place(sequence, position)
        self.encoder_tables.reach(state.table.shape[1])
        self.space.fit(len(ids), state.table.shape[1])
        state.fill(job)
        job["is_kept"] = 0  # layers share one pool: keys are needed within a layer only
        job["n_wanted"] = 0
        self._run(job, ids, sequence, position)
        project = self.weights.decoder
        project["memory_keys"], project["memory_values"] = memory.pool.addresses
        project["memory_size"] = memory.pool.size
        project["n_sources"] = len(ids)
        self._run(project, ids, sequence, np.arange(first, first + len(ids)))

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


class Search:
    """What is looked for among the logits of a forward, and the arrays that it is written to."""

    def __init__(self, n_rows: int, n: int, forbidden: Integers) -> None:
        self.logits: Floats = np.empty((n_rows, n), np.float32)
        self.ids: Integers = np.empty((n_rows, n), np.int64)
        self.norms: Floats = np.empty(n_rows, np.float32)
        self._forbidden = np.ascontiguousarray(forbidden, np.int64)

    def fill(self, job: Record) -> None:
        """Write into a job where everything lies."""
        job["n_best"], job["n_forbidden"] = self.ids.shape[1], self._forbidden.shape[1]
        job["forbidden"], job["best_ids"] = self._forbidden.ctypes.data, self.ids.ctypes.data
        job["best_logits"], job["norms"] = self.logits.ctypes.data, self.norms.ctypes.data


def whole_rows(sequence: Integers, size: int) -> list[slice]:
    """Neighbouring tokens in pieces of about this size, no row cut in two."""
    starts = [*np.flatnonzero(np.diff(sequence, prepend=-1)).tolist(), len(sequence)]
    parts, first = [], 0
    for start, end in pairwise(starts):
        if end - first > size and start > first:
            parts.append(slice(first, start))
            first = start
    return [*parts, slice(first, len(sequence))]
