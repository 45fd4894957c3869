"""What a model is made of: small frozen records; unknown keys are refused.

What can be derived is a property, never a sentinel patched later.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from difflib import get_close_matches
from typing import Annotated, Any, ClassVar, Literal, Self, TypeVar, get_args

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    PositiveInt,
    ValidationError,
    model_validator,
)

from lookleft.errors import ConfigError

# Caps before allocation: a file that asks for more is broken or hostile.
MAX_WIDTH, MAX_LAYERS, MAX_VOCABULARY, MAX_LENGTH = 65_536, 1_024, 1_000_000, 16_777_216
MAX_BEAM = 1_024
MAX_PENALTY = 10  # beyond that the powers of long texts cannot be held

Width = Annotated[int, Field(ge=1, le=MAX_WIDTH)]
Layers = Annotated[int, Field(ge=1, le=MAX_LAYERS)]
Vocabulary = Annotated[int, Field(ge=1, le=MAX_VOCABULARY)]
Length = Annotated[int, Field(ge=1, le=MAX_LENGTH)]
Offset = Annotated[int, Field(ge=0, le=65_536)]
Rate = Annotated[float, Field(ge=0.0, lt=1.0)]


def _as_list(value: object) -> object:
    """A name alone is a list of one."""
    if not isinstance(value, str):
        return value
    if value.startswith("["):  # a shell took the quotes away
        raise ValueError('a list is written ["a", "b"]; on the command line \'["a", "b"]\'')
    return (value,)


Names = Annotated[tuple[str, ...], BeforeValidator(_as_list)]

Record = TypeVar("Record", bound="Frozen")


class Frozen(BaseModel):
    """A record that cannot change and knows all its keys."""

    model_config = ConfigDict(frozen=True, extra="forbid", allow_inf_nan=False)

    other_names: ClassVar[Mapping[str, str]] = {}  # what people call a key elsewhere -> our name
    see_all: ClassVar[str] = ""  # the command that tells all keys, or those of the sections given

    @classmethod
    def paths_of(cls, name: str) -> list[str]:
        """Where keys called so, here or elsewhere, stand: "batch_size" -> ["train.tokens"]."""
        found = []
        for key, field in cls.model_fields.items():
            sections = _records_in(field.annotation)
            if key == cls.other_names.get(name, name) and not sections:
                found.append(key)
            for section in sections:
                ours = section.other_names.get(name, name)
                if ours in section.model_fields:
                    found.append(f"{key}.{ours}")
        return list(dict.fromkeys(found))

    @classmethod
    def parse(
        cls: type[Record],
        values: dict[str, Any],
        where: str,
        place: Callable[[str], str] = lambda key: "",
    ) -> Record:
        """The record, or one ConfigError naming every wrong key of `where`.

        `place` says where a key stands, to be put behind its name.
        """
        try:
            return cls.model_validate(values)
        except ValidationError as error:
            faults = error.errors()
            told = "; ".join(_in_words(fault, cls, place) for fault in faults)
            told += _how_to_see_all(faults, cls)
            raise ConfigError(f"{where} is no valid {cls.__name__}: {told}") from None


def _how_to_see_all(faults: Sequence[Any], record: type[Frozen]) -> str:
    """The command that tells all keys of the sections in which one is unknown, if there is one."""
    unknown = [fault["loc"] for fault in faults if fault["type"] == "extra_forbidden"]
    if not unknown or not record.see_all:
        return ""
    sections = list(dict.fromkeys(str(loc[0]) for loc in unknown))
    is_in_sections = all(len(loc) > 1 for loc in unknown)
    return f"; to see all: {' '.join([record.see_all, *(sections if is_in_sections else [])])}"


def _in_words(fault: Any, record: type[Frozen], place: Callable[[str], str]) -> str:
    """One fault of a record: which key, what is wrong, and which was meant, there or elsewhere."""
    owner, path = _followed(record, [str(part) for part in fault["loc"]])
    *sections, last = path or [""]
    key = ".".join(path)
    if fault["type"] != "extra_forbidden":
        said = str(fault["msg"]).removeprefix("Value error, ")
        value = fault["input"]
        is_short = isinstance(value, str | int | float | None) and fault["type"] != "missing"
        named = f"{key}={value!r:.40}" if is_short else key
        return f"{named}{place(key)}: {said}" if key else said
    fields, others = owner.model_fields, owner.other_names
    if last in others:
        meant = [".".join([*sections, others[last]])]
    else:
        near = get_close_matches(last, fields, n=1)
        meant = record.paths_of(last) or [".".join([*sections, name]) for name in near]
    hint = f"did you mean {' or '.join(meant)} ?" if meant else f"known: {', '.join(fields)}"
    return f"unknown option {key}{place(key)}; {hint}"


def _followed(record: type[Frozen], loc: list[str]) -> tuple[type[Frozen], list[str]]:
    """The record that a fault lies in, and the way there as people write it.

    Where a key holds one of several records, `loc` also has the kind that was taken: nobody writes
    that as a part of the key.
    """
    path: list[str] = []
    rest = list(loc)
    while rest:
        path.append(rest.pop(0))
        field = record.model_fields.get(path[-1])
        inner = [] if field is None else _records_in(field.annotation)
        kinds = {each.model_fields["kind"].default: each for each in inner if len(inner) > 1}
        if rest and kinds:
            record = kinds.get(rest.pop(0), record)
        elif rest and inner:
            record = inner[0]
    return record, path


def _records_in(annotation: Any) -> list[type[Frozen]]:
    """The records that a value may be, of those that its annotation names."""
    if isinstance(annotation, type):
        return [annotation] if issubclass(annotation, Frozen) else []
    return [record for part in get_args(annotation) for record in _records_in(part)]


class NoPositions(Frozen):
    """Order is seen through the mask only."""

    kind: Literal["none"] = "none"


class Sinusoidal(Frozen):
    """Fixed waves added to the embeddings (Vaswani et al. 2017, 3.5)."""

    kind: Literal["sinusoidal"] = "sinusoidal"
    layout: Literal["interleaved", "halves"] = "interleaved"  # sin, cos, sin, ... or all sin first
    spacing: Literal["paper", "tensor2tensor"] = "paper"  # 2i/d, or i/(d/2 - 1)
    offset: Offset = 0  # position 0 uses wave number `offset`


class Learned(Frozen):
    """One trained vector per position, added to the embeddings."""

    kind: Literal["learned"] = "learned"
    max_len: Length
    offset: Offset = 0  # rows before the first position (BART keeps two)


class RopeScaling(Frozen):
    """How rotary frequencies are stretched for texts longer than those of the first training."""

    kind: Literal["linear", "llama3"]
    factor: float = Field(ge=1.0)
    low_freq_factor: float = 1.0  # llama3 only, as the three below
    high_freq_factor: float = 4.0
    original_max_len: PositiveInt = 8192

    @model_validator(mode="after")
    def _band_has_width(self) -> Self:
        if self.low_freq_factor >= self.high_freq_factor:
            raise ValueError(
                f"low_freq_factor={self.low_freq_factor} must be below "
                f"high_freq_factor={self.high_freq_factor}"
            )
        return self


class Rotary(Frozen):
    """Queries and keys are turned by an angle that grows with position (Su et al. 2021)."""

    kind: Literal["rotary"] = "rotary"
    theta: float = Field(default=10_000.0, gt=0)
    scaling: RopeScaling | None = None


class Relative(Frozen):
    """A learned bias per head and bucket of distances (Raffel et al. 2020, 2.1)."""

    kind: Literal["relative"] = "relative"
    n_buckets: Annotated[int, Field(ge=4, le=4_096)] = 32
    max_distance: PositiveInt = 128

    @model_validator(mode="after")
    def _far_is_beyond_near(self) -> Self:
        n_exact = self.n_buckets // 2  # distances with a bucket of their own, in a causal stack
        if self.max_distance <= n_exact:
            raise ValueError(
                f"max_distance={self.max_distance} must exceed the {n_exact} near distances of "
                f"n_buckets={self.n_buckets}"
            )
        return self


def _of_kind(value: object) -> object:
    """A kind alone stands for the record of that kind: "rotary" -> {"kind": "rotary"}."""
    return {"kind": value} if isinstance(value, str) else value


Positions = Annotated[
    NoPositions | Sinusoidal | Learned | Rotary | Relative,
    Field(discriminator="kind"),
    BeforeValidator(_of_kind),
]


class ModelConfig(Frozen):
    """What all three families share."""

    vocab_size: Vocabulary
    d_model: Width = 256
    n_heads: Width = 4
    n_kv_heads: Width | None = None  # fewer than n_heads: grouped queries; unset: one per head
    head_width: Width | None = None  # unset: d_model / n_heads
    d_ff: Width = 1024
    positions: Positions = Sinusoidal()
    norm: Literal["layer", "rms"] = "layer"
    norm_eps: float = Field(default=1e-5, gt=0)
    norm_order: Literal["pre", "post"] = "post"  # post: the paper's residual + norm
    final_norm: bool = False  # one more norm after the last layer, as pre-norm models need
    embed_norm: bool = False  # a norm right after the embeddings
    activation: Literal["relu", "gelu", "gelu_tanh", "silu", "relu2"] = "relu"
    gated: bool = False  # with silu: SwiGLU
    qkv_bias: bool = True
    out_bias: bool = True
    ff_bias: bool = True
    qk_norm: bool = False  # RMSNorm on each query and key
    attention_scale: float | None = None  # unset: 1 / sqrt(head width); T5 uses 1
    embed_scale: float = 1.0  # the paper multiplies embeddings by sqrt(d_model)
    logit_scale: float = 1.0  # T5 with a tied head multiplies by 1 / sqrt(d_model)
    tie_embeddings: bool = True  # the output projection is the embedding matrix
    logit_bias: bool = False
    dropout: Rate = 0.0
    attention_dropout: Rate = 0.0
    max_len: Length = MAX_LENGTH  # longest text; learned positions bring their own limit

    @model_validator(mode="after")
    def _numbers_fit(self) -> Self:
        if self.head_width is None and self.d_model % self.n_heads:
            raise ValueError(f"d_model={self.d_model} is no multiple of n_heads={self.n_heads}")
        if self.n_heads % self.kv_heads:
            raise ValueError(f"n_heads={self.n_heads} is no multiple of n_kv_heads={self.kv_heads}")
        if isinstance(self.positions, Rotary) and self.head_dim % 2:
            raise ValueError(f"rotary positions turn pairs: head width {self.head_dim} is odd")
        if isinstance(self.positions, Sinusoidal) and self.d_model % 2:
            raise ValueError(f"sinusoidal positions come in pairs: d_model={self.d_model} is odd")
        return self

    @property
    def kv_heads(self) -> int:
        return self.n_kv_heads or self.n_heads

    @property
    def head_dim(self) -> int:
        return self.head_width or self.d_model // self.n_heads

    @property
    def context(self) -> int:
        """The longest text this model can read."""
        if isinstance(self.positions, Learned):
            return min(self.positions.max_len, self.max_len)
        return self.max_len


class DecoderOnlyConfig(ModelConfig):
    """GPT and Llama style: every position predicts the next token."""

    family: Literal["decoder-only"] = "decoder-only"
    n_layers: Layers = 4
    window: Length | None = None  # sees only the last `window` positions
    mask: Literal["causal", "none"] = "causal"  # "none" trains a model that peeks, on request


class EncoderDecoderConfig(ModelConfig):
    """Translation: a bidirectional encoder, a masked decoder, cross-attention between them."""

    family: Literal["encoder-decoder"] = "encoder-decoder"
    n_encoder_layers: Layers = 6
    n_decoder_layers: Layers = 6
    source_vocab_size: Vocabulary | None = None  # unset: both sides share one vocabulary
    start_id: int = Field(default=0, ge=0)  # the token that the decoder reads first
    mask: Literal["causal", "none"] = "causal"

    @model_validator(mode="after")
    def _start_is_in_vocabulary(self) -> Self:
        if self.start_id >= self.vocab_size:
            raise ValueError(f"start_id={self.start_id} is outside 0..{self.vocab_size - 1}")
        return self


class EncoderOnlyConfig(ModelConfig):
    """BERT style: every position sees every other; masked tokens are predicted."""

    family: Literal["encoder-only"] = "encoder-only"
    n_layers: Layers = 4
    n_types: Annotated[int, Field(ge=0, le=1_024)] = 0  # kinds of segment (BERT has two)
    head_transform: bool = True  # dense + activation + norm before the vocabulary
