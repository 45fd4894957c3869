"""What compiled code is told: records of plain numbers and addresses, filled in by Python.

Threads stay inside compiled code between steps, so their orders cannot be Python objects. A `JOB`
says all about one forward; `LAYER` and `MATRIX` say where weights lie. In compiled code a record
is read by attribute: `job.n_rows`, `layer.to_q`. An index of -1 means that the part is absent.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numba import carray, from_dtype, types

from lookleft.engine.compiling import compiled, instruction

MATRIX = np.dtype(
    [
        ("address", np.int64),  # of the first panel
        ("kind", np.int64),
        ("n_tiles", np.int64),
        ("panel_bytes", np.int64),
        ("n_blocks", np.int64),
        ("row_scales", np.int64),  # addresses of float32
        ("bias", np.int64),
        ("code", np.int64),  # of `tiles.tiles_code`
    ]
)

# Indices: of matrices, or (norms) of the first of their numbers among the vectors.
LAYER = np.dtype(
    [
        (name, np.int64)
        for name in (
            "self_norm",
            "to_q",
            "to_k",
            "to_v",
            "to_out",
            "norm_q",
            "norm_k",
            "cross_norm",
            "cross_q",
            "cross_k",
            "cross_v",
            "cross_out",
            "feed_norm",
            "to_hidden",
            "to_gate",
            "from_hidden",
        )
    ]
)

_SIZES = (
    # The stack
    "n_layers",
    "d_model",
    "n_heads",
    "n_kv_heads",
    "head_dim",
    "d_ff",
    "vocab_size",
    "is_rms",
    "is_pre",
    "activation",
    "is_quantised",  # some matrix needs activations of few bits
    "is_narrow",  # of 8, not of 16
    "kept_bytes",  # of each number among the keys and values: 4, or 2
    "has_cross",
    "embed_norm",  # indices into the vectors
    "final_norm",
    "embedding",  # indices of matrices
    "head",
    "is_causal",
    "window",  # 0: none
    # One forward
    "n_rows",
    "n_wanted",  # rows whose logits are wanted
    "n_best",  # so many of the best logits of each are looked for; 0: none
    "n_forbidden",  # ids per wanted row that may not be among them
    "n_steps",  # forwards at most, each with the best tokens of the one before; 1: no more
    "n_ends",  # ids per row after which there is no other step
    "n_beams",  # neighbouring rows that are hypotheses of one request; 0: rows are on their own
    "is_split",  # 1: each thread takes rows of its own; 0: all threads share every row
    "n_sources",  # source tokens, when cross keys and values are made
    "table_width",
    "pool_size",  # tokens in the pool of keys and values
    "is_kept",  # 1: every layer has a pool of its own; 0: all write into the first
    "memory_size",
    "bias_reach",  # distances beyond it share the last number
    "max_keys",
)
_ADDRESSES = (
    "layers",
    "matrices",
    "vectors",
    "added",  # (positions, D): what positions add to embeddings; 0: nothing
    "turns",  # (positions, K): cosines, then sines; 0: none
    "bias",  # (2 reach + 1, H): what distances add to scores; 0: nothing
    "bounds",  # (threads + 1,): rows of each thread, if split
    "ids",  # (rows,), as the two below
    "sequence",  # which row of the batch a token belongs to
    "position",
    "wanted",  # (wanted,)
    "lengths",  # (batch,): tokens of a sequence after this forward
    "prefix",  # (batch,): positions that see each other both ways
    "table",  # (batch, table_width): where in the pool each token of a sequence lies
    "keys",  # (layers, G, pool_size, K) of so many bytes
    "values",
    "memory_start",  # (batch,): first source token of a sequence
    "memory_length",
    "memory_keys",  # (layers, G, memory_size, K)
    "memory_values",
    # Space to work in: a row per token, all of one width
    "x",
    "h",
    "q",
    "k",
    "v",
    "mixed",
    "hidden",
    "gate",
    "codes",  # int16, or int8 in the first half of a row
    "code_scales",
    "code_sums",  # float32, or int32
    "scores",  # (threads, max_keys)
    "logits",
    # What is looked for among the logits
    "forbidden",  # (wanted, n_forbidden) ids; -1: none
    "best_logits",  # (steps, wanted, n_best)
    "best_ids",
    "norms",  # (steps, wanted)
    "ends",  # (rows, n_ends) ids; -1: none
    "is_over",  # (steps,): 1 if a row came to an end in this one
    # Beams: what the hypotheses have, and what they went on with
    "sums",  # (rows,), float64 as all below but the whole numbers
    "parents",  # (steps, rows): which hypothesis of the request
    "chosen",  # (steps, rows): with which token
    "gains",  # (steps, rows): its log-probability
    "totals",  # (steps, rows): the sum with it
    "rank_totals",  # (n_best,), to work in, as the two below
    "rank_places",
    "spare_table",  # (n_beams, table_width)
)
_WIDTHS = ("width", "hidden_width", "logit_width")  # numbers in a row of work space
_NUMBERS = ("norm_eps", "attention_scale", "embed_scale", "logit_scale")

JOB = np.dtype(
    [(name, np.int64) for name in _SIZES + _ADDRESSES + _WIDTHS]
    + [(name, np.float32) for name in _NUMBERS],
    align=True,
)

ACTIVATIONS = ("relu", "gelu", "gelu_tanh", "silu", "relu2")
RELU, GELU, GELU_TANH, SILU, RELU2 = range(len(ACTIVATIONS))


def make_pointer(kind: Any) -> Callable[[int], Any]:
    """A function for compiled code: the pointer to numbers of this kind at an address."""

    def pointer(typing: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, signature: Any, values: Any) -> Any:
            return builder.inttoptr(values[0], context.get_value_type(types.CPointer(kind)))

        return types.CPointer(kind)(types.int64), generate

    return instruction(pointer)


_float32, _float64 = make_pointer(types.float32), make_pointer(types.float64)
_int64 = make_pointer(types.int64)
_int32, _int16 = make_pointer(types.int32), make_pointer(types.int16)
_uint8 = make_pointer(types.uint8)
_layer, _matrix = make_pointer(from_dtype(LAYER)), make_pointer(from_dtype(MATRIX))
_job = make_pointer(from_dtype(JOB))


@compiled
def floats(address: int, size: int) -> Any:
    """So many float32 at an address."""
    return carray(_float32(address), (size,))


@compiled
def doubles(address: int, size: int) -> Any:
    """So many float64 at an address."""
    return carray(_float64(address), (size,))


@compiled
def integers(address: int, size: int) -> Any:
    """So many int64 at an address."""
    return carray(_int64(address), (size,))


@compiled
def slots(address: int, size: int) -> Any:
    """So many int32 at an address."""
    return carray(_int32(address), (size,))


@compiled
def codes(address: int, size: int) -> Any:
    """So many int16 at an address."""
    return carray(_int16(address), (size,))


@compiled
def octets(address: int, size: int) -> Any:
    """So many bytes at an address."""
    return carray(_uint8(address), (size,))


@compiled
def job_at(address: int) -> Any:
    return carray(_job(address), (1,))[0]


@compiled
def layer_of(job: Any, index: int) -> Any:
    return carray(_layer(job.layers), (job.n_layers,))[index]


@compiled
def matrix_of(job: Any, index: int) -> Any:
    return carray(_matrix(job.matrices), (index + 1,))[index]
