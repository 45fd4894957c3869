"""What a run is: one frozen record. `settings_file.py` reads it from TOML and writes it back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, Literal, Self

from pydantic import Field, model_validator

from lookleft.config import (
    DecoderOnlyConfig,
    EncoderDecoderConfig,
    EncoderOnlyConfig,
    Frozen,
    Names,
    Positions,
    Rate,
    Vocabulary,
    Width,
)
from lookleft.models import AnyConfig
from lookleft.train.device import DeviceName, Precision, PrecisionName
from lookleft.train.judge import Choice
from lookleft.train.objective import Mode, Objective
from lookleft.train.schedule import Kind
from lookleft.train.team import Parallel

Part = Literal["train", "dev"]
Spec = str | tuple[str, str]
Layers = Annotated[int, Field(ge=1, le=1_024)]
Count = Annotated[int, Field(ge=1, le=10**15)]  # beyond that nothing can be counted through
CountOrZero = Annotated[int, Field(ge=0, le=10**15)]
Seed = Annotated[int, Field(ge=0, lt=2**63)]
TextKind = Literal["bpe", "unigram", "char", "byte"]
Activation = Literal["relu", "gelu", "gelu_tanh", "silu", "relu2"]
Tokenize = Literal["13a", "intl", "none", "char", "zh"]  # of sacreBLEU's, without a download
PHRASES = "phrases"  # stands for the built-in English-Hindi grammar where a file is asked for


class DataSettings(Frozen):
    """Where the text comes from."""

    dir: str | None = None  # where relative names begin; in a file, as seen from that file
    train: Spec = PHRASES  # a .tsv, .jsonl or text file, or two parallel ones: ["a.en", "a.de"]
    dev: Spec | Literal[False] | None = None  # the same; unset: the built-in text's own, or none
    source: str | None = None  # language code, "en": also the end of a file train.en, a .jsonl key
    target: str | None = None  # language code, "hi": also the end of a file train.hi, a .jsonl key
    origins: Names = ()  # ["tatoeba"]: only pairs that are, as *.origin.txt beside the file says
    add_phrases: CountOrZero = 0  # pairs of the built-in grammar put to the file's
    document_end: str | None = None  # line that ends a document; unset: each is one (lm, mlm)
    stream: bool = False  # the file is one text, cut anew each epoch; line ends count (lm)
    dev_share: Rate = 0.0  # of a stream: so much of its end is kept apart to measure on
    skip_empty: bool = False  # leave out, and count, pairs with an empty side
    max_tokens: Count = 128  # of either side; longer pairs are left out and counted
    bpe_dropout: Rate = 0.0  # share of merges left out at random, redrawn each epoch (bpe)
    joined: Rate = 0.0  # share of pairs read two by two as one, anew each epoch (translate)

    @property
    def dev_set(self) -> Spec | None:
        """What to measure on: unset, the built-in text brings its own and a file has none."""
        if self.dev is None:
            is_inside = self.train == PHRASES or self.dev_share > 0
            return self.train if is_inside else None
        return self.dev or None

    def stream_part(self, part: Part) -> tuple[float, float]:
        """Where a part of a stream begins and ends, as shares of the file that it is in."""
        if not self.dev_share or self.dev:
            return 0.0, 1.0
        return (0.0, 1 - self.dev_share) if part == "train" else (1 - self.dev_share, 1.0)

    @property
    def languages(self) -> tuple[str | None, str | None]:
        """Codes of source and target; those of the built-in text are known."""
        built_in: tuple[str | None, str | None] = (None, None)
        if self.train == PHRASES:
            built_in = ("hi", "en") if self.phrases_to_english else ("en", "hi")
        return self.source or built_in[0], self.target or built_in[1]

    @property
    def has_phrases(self) -> bool:
        """Whether any of it is the built-in text."""
        return PHRASES in (self.train, self.dev) or self.add_phrases > 0

    @property
    def is_json(self) -> bool:
        """Whether it is a file of JSON lines."""
        return ".jsonl" in str(self.train)

    @property
    def phrases_to_english(self) -> bool:
        """Whether the built-in text is read from Hindi to English."""
        return self.source == "hi" or self.target == "en"


class TextSettings(Frozen):
    """How text becomes ids."""

    kind: TextKind = "bpe"  # bpe or unigram: parts of words; char; byte
    vocab_size: Vocabulary = 4_000  # pieces at most; of each language, if they do not share them
    joint: bool = True  # both languages share one vocabulary; false: each has its own (translate)


class ModelSettings(Frozen):
    """The network: the choices of `config.py` that a run makes; the rest follows from the task."""

    d_model: Width = 128  # width of the residual stream
    n_heads: Width = 4  # of attention, in each layer
    n_kv_heads: Width | None = None  # fewer than n_heads: grouped queries; unset: one per head
    d_ff: Width = 256  # width of the feed-forwards
    n_layers: Layers = 4  # of the decoder, and of the encoder unless set
    n_encoder_layers: Layers | None = None  # unset: n_layers
    positions: Positions | None = None  # like "rotary"; unset: sinusoidal, lm: rotary, mlm: learned
    norm: Literal["layer", "rms"] = "layer"  # "rms": Llama style
    norm_order: Literal["pre", "post"] | None = None  # unset: pre; mlm: post, as in BERT
    activation: Activation | None = None  # relu, gelu, gelu_tanh, silu, relu2; unset: by task
    gated: bool = False  # feed-forwards with a gate; with silu: SwiGLU
    qk_norm: bool = False  # a norm on each query and key
    bias: bool = True  # numbers added behind each product; false: none, as in Llama
    dropout: Rate = 0.1  # share of activations set to zero in training
    mask: Literal["causal", "none"] = "causal"  # "none" trains a model that peeks


class TrainSettings(Frozen):
    """How it is trained."""

    other_names: ClassVar[Mapping[str, str]] = {
        "learning_rate": "lr",
        "batch_size": "tokens",
        "max_steps": "steps",
        "epochs": "steps",
        "max_time": "minutes",
        "grad_accum": "accumulate",
        "clip": "max_norm",
        "label_smoothing": "smoothing",
        "early_stopping": "patience",
    }

    steps: Count = 2_000  # optimiser steps
    minutes: float | None = Field(default=None, gt=0)  # at most; steps that do not fit are left out
    tokens: Count = 4_096  # of one micro-batch, both sides and padding counted
    accumulate: Count = 1  # micro-batches per step
    length: Count = 256  # of a packed row (lm); of a text, else it is cut (mlm)
    length_warmup: CountOrZero = 0  # steps over which rows grow from 64 to it (lm)
    lr: float = Field(default=2e-3, gt=0)  # the highest rate, reached after the warm-up
    matrix_lr: float | None = Field(default=None, gt=0)  # set: Muon for the matrices
    warmup: CountOrZero = 200  # steps over which the rate rises from 0
    schedule: Kind = "inverse-sqrt"  # inverse-sqrt, cosine, constant; wsd: stays, falls at the end
    decay_share: float = Field(default=0.2, gt=0, le=1)  # of all steps: the fall at the end (wsd)
    weight_decay: float = Field(default=0.0, ge=0)  # of the matrices
    smoothing: Rate = 0.1  # of the labels: how much of each target goes to all other tokens
    max_norm: float = Field(default=1.0, gt=0)  # longer gradients are clipped to it
    mode: Mode = "parallel"  # "sequential": one position at a time, same result, for teaching
    rdrop: float = Field(default=0.0, ge=0)  # two passes must agree (R-Drop); 5 is usual, 0: off
    rdrop_after: CountOrZero = 0  # steps with one pass before that, at half the cost
    dropout_warmup: CountOrZero = 0  # steps over which model.dropout grows from 0
    dropout_fade: Rate = 0.0  # while the rate is below this share of its peak dropout is less too
    own_words: Rate = 0.0  # share of inputs the model predicted itself (scheduled sampling)
    own_words_warmup: CountOrZero = 0  # steps over which that share grows from 0
    ema: Rate = 0.0  # decay of a moving average of the weights, which is then the model; 0: off
    average: CountOrZero = 0  # the model is the mean of the last so many saves; 0: off
    precision: PrecisionName = "float32"  # of products; auto: bfloat16 where it has units
    compile: bool = False  # let torch.compile write the kernels; the first steps take minutes
    parallel: Parallel = "ddp"  # under torchrun: ddp, or fsdp for a model too large for one process
    device: DeviceName = "auto"  # where to compute: auto, cpu, cuda or mps
    seed: Seed = 1234  # of weights, shuffling, dropout and all other chance
    log_every: Count = 50  # steps between two lines of metrics.jsonl
    eval_every: Count = 500  # steps between two looks at the dev set
    save_every: Count = 500  # steps between two checkpoints
    patience: CountOrZero = 0  # evaluations without gain before stopping; 0: never
    choose: Choice = "loss"  # what decides which model is the best: loss, bleu or chrf
    eval_sentences: CountOrZero = 500  # of dev, translated at each evaluation
    tune_beam: int = Field(default=0, ge=0, le=64)  # whose length penalty dev chooses; 0: none
    bleu_tokenize: Tokenize | None = None  # sacreBLEU's way to cut words; unset: 13a, Hindi intl
    samples: CountOrZero = 3  # of the translated sentences, kept to be read
    track: Names = ()  # trackers besides metrics.jsonl: ["tensorboard"]

    @property
    def objective(self) -> Objective:
        """What a micro-batch costs under these settings."""
        return Objective(
            smoothing=self.smoothing,
            mode=self.mode,
            rdrop=self.rdrop,
            rdrop_after=self.rdrop_after,
            dropout_warmup=self.dropout_warmup,
            dropout_fade=self.dropout_fade,
            own_words=self.own_words,
            own_words_warmup=self.own_words_warmup,
            precision=self.precision,
        )


class RunSettings(Frozen):
    """A whole run."""

    see_all: ClassVar[str] = "lookleft config keys"

    task: Literal["translate", "lm", "mlm"] = "translate"  # lm: next token; mlm: hidden tokens
    data: DataSettings = DataSettings()
    text: TextSettings = TextSettings()
    model: ModelSettings = ModelSettings()
    train: TrainSettings = TrainSettings()

    def with_precision(self, precision: Precision) -> Self:
        """The same with train.precision settled."""
        train = self.train.model_copy(update={"precision": precision})
        return self.model_copy(update={"train": train})

    def as_begun(self, begun: RunSettings) -> Self:
        """The same with what a run begun with them has settled: what "auto" found."""
        found = begun.train.precision
        is_open = self.train.precision == "auto"
        return self.with_precision(found) if is_open and found != "auto" else self

    @model_validator(mode="after")
    def _settings_go_together(self) -> Self:
        train, is_mlm = self.train, self.task == "mlm"
        has_moving_dropout = train.dropout_warmup > 0 or train.dropout_fade > 0
        has_ends, is_json = self.data.document_end is not None, self.data.is_json
        is_sequential, peeks = train.mode == "sequential", self.model.mask == "none"
        is_scored = self.task == "translate" and train.eval_sentences > 0
        is_cut_by_bpe = self.task == "translate" and self.text.kind == "bpe"
        longest = self.data.max_tokens if self.task == "translate" else train.length
        most = getattr(self.model.positions, "max_len", None) or longest
        named = [code for code in (self.data.source, self.data.target) if code is not None]
        is_hindi = set(named) <= {"en", "hi"} and len(set(named)) == len(named)
        for is_wrong, why in (
            (is_mlm and is_sequential, 'task = "mlm" has no order for train.mode = "sequential"'),
            (is_mlm and train.own_words > 0, 'task = "mlm" reads no words of its own'),
            (is_mlm and peeks, 'task = "mlm" sees both sides anyway: leave model.mask out'),
            (is_sequential and peeks, 'train.mode = "sequential" cannot peek: model.mask = "none"'),
            (
                is_sequential and train.parallel == "fsdp",
                'train.mode = "sequential" needs train.parallel = "ddp": processes that go through '
                "texts of different lengths cannot share a model",
            ),
            (is_sequential and train.rdrop > 0, 'train.rdrop needs train.mode = "parallel"'),
            (train.rdrop_after > 0 and not train.rdrop, "train.rdrop_after needs train.rdrop"),
            (
                has_moving_dropout and not self.model.dropout,
                "train.dropout_warmup and train.dropout_fade need model.dropout",
            ),
            (
                has_moving_dropout and train.compile,
                "train.dropout_warmup and train.dropout_fade change what train.compile would "
                "compile: leave them or it out",
            ),
            (train.rdrop > 0 and not self.model.dropout, "train.rdrop needs model.dropout"),
            (
                train.dropout_fade > 0 and train.schedule not in ("cosine", "wsd"),
                f'train.dropout_fade needs a rate that falls to 0: train.schedule = "wsd" or '
                f'"cosine", not "{train.schedule}"',
            ),
            (
                train.own_words_warmup > 0 and not train.own_words,
                "train.own_words_warmup needs train.own_words",
            ),
            (
                train.patience > 0 and self.data.dev_set is None,
                "train.patience needs a dev set: give data.dev",
            ),
            (train.ema > 0 and train.average > 0, "give either train.ema or train.average"),
            (not self.text.joint and self.task != "translate", "text.joint is for translate"),
            (train.length_warmup > 0 and self.task != "lm", "train.length_warmup is for lm"),
            (
                train.choose != "loss" and not is_scored,
                f'train.choose = "{train.choose}" needs task = "translate" and '
                f"train.eval_sentences above 0",
            ),
            (train.tune_beam == 1, "train.tune_beam = 1 is greedy, without a length penalty"),
            (
                train.tune_beam > 0 and (self.task != "translate" or self.data.dev_set is None),
                'train.tune_beam needs task = "translate" and a dev set: give data.dev, or 0',
            ),
            (
                self.data.bpe_dropout > 0 and not is_cut_by_bpe,
                'data.bpe_dropout needs task = "translate" and text.kind = "bpe"',
            ),
            (self.data.joined > 0 and self.task != "translate", "data.joined is for translate"),
            (
                most < longest,
                f"model.positions has {most} places, and texts have up to {longest} tokens: lower "
                f"{'data.max_tokens' if self.task == 'translate' else 'train.length'}",
            ),
            (
                self.data.has_phrases and not is_hindi,
                f'the built-in text ("{PHRASES}", data.add_phrases) is English and Hindi, not '
                f"{' and '.join(named)}: data.source and data.target are en and hi, or hi and en",
            ),
            (self.data.stream and self.task != "lm", "data.stream is for lm"),
            (has_ends and self.task == "translate", "data.document_end is for lm and mlm"),
            (has_ends and self.data.stream, "give either data.document_end or data.stream"),
            (
                has_ends and is_json,
                "data.document_end: the texts of a .jsonl file end with its lines",
            ),
            (
                self.data.stream and is_json,
                "data.stream: a .jsonl file is not one text, but one a line: leave it out",
            ),
            (self.data.dev_share > 0 and not self.data.stream, "data.dev_share needs data.stream"),
        ):
            if is_wrong:
                raise ValueError(why)
        return self


def model_config(
    settings: RunSettings, vocab_size: int, start_id: int, source_vocab_size: int | None = None
) -> AnyConfig:
    """The network that the settings ask for, over vocabularies of these sizes."""
    chosen, is_mlm = settings.model, settings.task == "mlm"
    norm_order = chosen.norm_order or ("post" if is_mlm else "pre")
    is_pre = norm_order == "pre"
    shared: dict[str, Any] = chosen.model_dump(
        exclude={"n_layers", "n_encoder_layers", "positions", "bias"}
    ) | {
        "qkv_bias": chosen.bias,
        "out_bias": chosen.bias,
        "ff_bias": chosen.bias,
        "vocab_size": vocab_size,
        "norm_order": norm_order,
        "activation": chosen.activation or ("gelu" if is_mlm else "relu"),
        "attention_dropout": 0.0,
        "final_norm": is_pre,
        "embed_scale": chosen.d_model**0.5,
    }
    if is_mlm:
        del shared["mask"]  # nothing is hidden from it but what is covered
        values = shared | {
            "n_layers": chosen.n_layers,
            "positions": chosen.positions or {"kind": "learned", "max_len": settings.train.length},
            "embed_scale": 1.0,
            "embed_norm": True,
            "norm_eps": 1e-12,
            "n_types": 2,
            "logit_bias": chosen.bias,
        }
        return EncoderOnlyConfig.parse(values, "[model]")
    if settings.task == "lm":
        positions = chosen.positions or {"kind": "rotary"}
        values = shared | {"n_layers": chosen.n_layers, "positions": positions}
        return DecoderOnlyConfig.parse(values, "[model]")
    values = shared | {
        "n_encoder_layers": chosen.n_encoder_layers or chosen.n_layers,
        "n_decoder_layers": chosen.n_layers,
        "positions": chosen.positions or {"kind": "sinusoidal", "layout": "halves"},
        "start_id": start_id,
        "source_vocab_size": source_vocab_size,
    }
    return EncoderDecoderConfig.parse(values, "[model]")
