"""One audit in progress: variants of the subject, counted forwards, comparisons."""

from __future__ import annotations

import random
import sys
import warnings
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from typing import Any

import torch
from torch import Tensor, nn

from lookleft.audit.guard import amplify, scramble
from lookleft.audit.huggingface import plain_experts, set_backend
from lookleft.audit.inputs import Draw
from lookleft.audit.precision import Rung, float64_throughout, judge
from lookleft.audit.spec import Rule
from lookleft.audit.subject import Answer, Call, Subject, cast
from lookleft.audit.verdict import Finding


@dataclass(frozen=True)
class Setting:
    """One configuration of the subject; `words` is what a finding calls it."""

    backend: str | None = None
    is_training: bool = False
    dropout: float | None = None  # forced on every dropout, when training
    grad: bool = False
    dtype: torch.dtype | None = torch.float64  # float64 means promoted; None: as given
    is_scrambled: bool = False
    mask: str = "none"  # none, ones, left, right
    use_cache: bool | None = None
    attentions: bool = False
    rows: int | None = None
    length: int | None = None
    magnitude: float = 1.0
    loudness: float = 1.0  # every matrix of weights is multiplied by this
    around: str = ""  # "inference mode" or "autocast"
    compiler: str = ""  # a backend of torch.compile
    is_brief: bool = False  # fewer probes: another setting runs them all
    note: str = ""

    @property
    def words(self) -> str:
        parts = [
            self.backend or "",
            "train" if self.is_training else "eval",
            f"dropout {self.dropout}" if self.dropout else "",
            "grad" if self.grad else "",
            f"mask {self.mask}" if self.mask != "none" else "",
            f"use_cache={self.use_cache}" if self.use_cache is not None else "",
            "attention outputs" if self.attentions else "",
            f"B={self.rows}" if self.rows else "",
            f"T={self.length}" if self.length else "",
            f"inputs x{self.magnitude:g}" if self.magnitude != 1.0 else "",
            "scrambled weights" if self.is_scrambled else "",
            f"weights x{self.loudness:g}" if self.loudness != 1.0 else "",
            self.around,
            f"compiled by {self.compiler}" if self.compiler else "",
            self.note,
            str(self.dtype).removeprefix("torch.") if self.dtype else "native dtype",
        ]
        return ", ".join(part for part in parts if part)


@dataclass(frozen=True)
class Difference:
    """How far two answers are apart where they had to agree."""

    worst: float  # absolute
    relative: float  # to the largest output anywhere in both
    where: tuple[int, int] | None  # (row, output position) of the worst
    elsewhere: float  # largest change at outputs that were free to change
    is_finite: bool


@dataclass
class Session:
    """Shared by all checks of one audit."""

    subject: Subject
    rule: Rule
    length: int
    seed: int = 0
    quick: bool = False
    forwards: int = 0
    notes: list[str] = field(default_factory=list)
    is_wide: bool = True  # float64 is possible
    noise: float = 0.0  # relative difference of two identical calls: zero for honest kernels
    is_random: bool = False  # outputs in eval mode change with the random seed
    asked: tuple[str, ...] = ()  # checks the user named
    seconds_traced: float | None = None  # what torch.compile took without generating code
    explained: dict[str, Finding] = field(default_factory=dict)  # the first violation of each check
    _variants: dict[tuple[Any, ...], Subject | None] = field(default_factory=dict)
    _compiled: dict[tuple[Any, ...], Subject] = field(default_factory=dict)

    @property
    def base(self) -> Setting:
        """The plainest setting: float64 if the subject can, else its own dtype."""
        return Setting() if self.is_wide else Setting(dtype=None)

    @property
    def closeness(self) -> str:
        """To what answers of other shapes have to agree, in words."""
        return "1e-9" if self.is_wide else "1e-5"

    @property
    def brief_length(self) -> int:
        """A length for checks that do not need the whole one, when time is short."""
        return min(self.length, 20) if self.quick else self.length

    def choose_precision(self) -> None:
        """Find out whether float64 is possible at all, and say so when it is not."""
        call, _ = self.dress(Setting(), self.draw(0).x(2, min(self.length, 9)))
        try:
            if not self.subject.modules and self.subject.kind.is_discrete:
                raise TypeError("a function of ids has no weights that could be cast")
            if (kind := self.run(Setting(), call).out.dtype) != torch.float64:
                raise TypeError(f"it answers in {str(kind).removeprefix('torch.')} all the same")
            self.noise = self.noise_of(Setting(), call)
            outs = [self.run(Setting(), call, seed=self.seed + n).out for n in (0, 4321)]
            self.is_random = not torch.equal(*outs)
        except Exception as error:
            self.is_wide = False
            self.note(
                f"float64 cannot be run ({type(error).__name__}: {error})"[:160]
                + "; in comparisons of other shapes 1e-5 counts as rounding and 1e-2 as a fault"
            )
            with suppress(Exception):  # the checks themselves say what is wrong
                self.noise = self.noise_of(self.base, call)

    def draw(self, offset: int = 0) -> Draw:
        """A source of probe inputs; the same offset draws the same inputs."""
        return Draw(self.subject.kind, self.seed * 1000 + offset)

    def is_asked(self, check: str) -> bool:
        """Did the user name this check? Then what it looks for is demanded, not optional."""
        return check in self.asked

    def is_explained(self, check: str) -> bool:
        return check in self.explained

    def note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)

    def variant(self, setting: Setting) -> Subject:
        """The subject with the dtype and weights of a setting; made once."""
        key = (setting.dtype, setting.is_scrambled, setting.loudness)
        if key not in self._variants:
            twin = self.subject.copied()
            if setting.is_scrambled:
                for module in twin.modules:
                    scramble(module, self.seed)
            if setting.loudness != 1.0:
                for module in twin.modules:
                    amplify(module, setting.loudness)
            if setting.dtype is not None:
                for module in twin.modules:
                    module.to(setting.dtype)
                    if setting.dtype == torch.float64:
                        plain_experts(module)
            self._variants[key] = twin
        found = self._variants[key]
        assert found is not None
        return found

    def live(self, setting: Setting) -> Subject:
        """A fresh twin in the given setting; nothing done to it outlives it.

        A compiled one is kept: every fresh one would be compiled anew.
        """
        key = (setting.compiler, setting.dtype, setting.is_scrambled, setting.is_training)
        if key in self._compiled:
            return self._compiled[key]
        twin = self.variant(setting).copied(share_parameters=True)
        for module in twin.modules:
            module.train(setting.is_training)
            if setting.is_training and setting.dropout is not None:
                _force_dropout(module, setting.dropout)
            if setting.backend is not None:
                set_backend(module, setting.backend)
        if setting.compiler:
            whole = torch.compile(twin.parts["target"], backend=setting.compiler, dynamic=False)
            twin.parts = {**twin.parts, "target": whole}
            self._compiled[key] = twin
        return twin

    @contextmanager
    def running(self, setting: Setting, seed: int | None = None) -> Iterator[None]:
        """The surroundings of a forward: precision, gradients, one fixed random state."""
        with ExitStack() as stack:
            stack.callback(torch.set_default_dtype, torch.get_default_dtype())
            stack.enter_context(warnings.catch_warnings())
            warnings.simplefilter("ignore")
            stack.enter_context(torch.set_grad_enabled(setting.grad))
            if setting.around == "inference mode":
                stack.enter_context(torch.inference_mode())
            elif setting.around == "autocast":
                stack.enter_context(torch.autocast("cpu", dtype=torch.bfloat16))
            if setting.dtype == torch.float64:
                stack.enter_context(float64_throughout())
            reseed(self.seed if seed is None else seed)
            yield

    def run(
        self,
        setting: Setting,
        call: Call,
        live: Subject | None = None,
        *,
        seed: int | None = None,
    ) -> Answer:
        """One forward on a fresh twin, or on the one given."""
        live = self.live(setting) if live is None else live
        self.forwards += 1
        with self.running(setting, seed):
            answer = live.forward(cast(call, setting.dtype))
        return replace(answer, out=answer.out.detach()) if not setting.grad else answer

    def out(self, setting: Setting, call: Call) -> Tensor:
        return self.run(setting, call).out.detach()

    def dress(self, setting: Setting, x: Tensor, pads: int = 3) -> tuple[Call, Tensor]:
        """A call with the setting's mask around `x`, and where its tokens are. -> (B, T) bool"""
        rows, length = x.shape[:2]
        is_token = torch.ones(rows, length, dtype=torch.bool)
        if setting.mask == "left":
            is_token[:, : min(pads, length - 1)] = False
        elif setting.mask == "right":
            is_token[:, max(length - pads, 1) :] = False
        call = Call(x, use_cache=setting.use_cache, attentions=setting.attentions)
        if setting.mask != "none":
            call = replace(call, is_token=is_token)
        if setting.mask == "left" and self.subject.plan.has("positions"):
            call = replace(call, positions=positions_of(is_token))
        if self.subject.plan.has("source"):
            call = replace(call, source=self.draw(977).source(rows))
        if self.rule.documents is not None and length == len(self.rule.documents):
            call = self._with_documents(call, self.rule.documents)
        return call, is_token

    def _with_documents(self, call: Call, documents: Sequence[int]) -> Call:
        """Tell a packed row's documents in whatever way the subject understands."""
        rows, known = call.x.size(0), torch.tensor(documents)
        if self.subject.plan.has("documents"):
            return replace(call, documents=known.expand(rows, -1))
        if not self.subject.plan.has("positions"):
            return call
        starts = torch.cat([torch.tensor([True]), known[1:] != known[:-1]])
        at = torch.arange(known.numel())
        begins = torch.where(starts, at, 0).cummax(0).values
        return replace(call, positions=(at - begins).expand(rows, -1))

    def noise_of(self, setting: Setting, call: Call) -> float:
        """How far two identical calls on fresh twins are apart, relative to their size."""
        first, second = self.out(setting, call), self.out(setting, call)
        diff = compare(first, second, torch.ones(first.shape[:2], dtype=torch.bool))
        return diff.relative if diff.is_finite else 0.0

    def draws_alike(self, setting: Setting, a: Call, b: Call) -> bool:
        """Do two calls use up equally many random numbers? Else the same seed means little."""
        states = []
        for call in (a, b):
            self.out(setting, call)
            states.append(torch.get_rng_state())
        return torch.equal(*states)

    def ladder(
        self, setting: Setting, a: Call, b: Call, keep: Tensor
    ) -> tuple[Rung, float | None, float | None]:
        """Judge a pair that had to agree at `keep` (B, T_out) in float32 and float64."""
        sizes: list[float | None] = []
        for dtype in (torch.float32, torch.float64):
            try:
                if dtype == torch.float64 and not self.is_wide:
                    raise TypeError("known not to work")
                twin = replace(setting, dtype=dtype)
                diff = compare(self.out(twin, a), self.out(twin, b), keep)
                sizes.append(diff.relative if diff.is_finite else None)
            except Exception:  # this precision is not possible here, which `judge` allows for
                sizes.append(None)
        return judge(sizes[0], sizes[1]), sizes[0], sizes[1]


def compare(a: Tensor, b: Tensor, keep: Tensor) -> Difference:
    """Largest difference of two (B, T, ...) outputs where `keep` (B, T) says they must agree."""
    per_position = changes(a, b)
    is_finite = bool(torch.isfinite(a).all() and torch.isfinite(b).all())
    inside = per_position.masked_fill(~keep, 0.0)
    worst = float(inside.max()) if inside.numel() else 0.0
    scale = max(_largest(a), _largest(b))
    outside = per_position.masked_fill(keep, 0.0)
    where = None
    if worst > 0 or not is_finite:
        row, position = divmod(int(inside.nan_to_num(torch.inf).argmax()), keep.size(1))
        where = (row, position)
    return Difference(
        worst,
        worst / scale if scale else worst,
        where,
        float(outside.max()) if outside.numel() else 0.0,
        is_finite,
    )


def changes(a: Tensor, b: Tensor) -> Tensor:
    """Largest absolute difference at each position. (B, T, ...) twice -> (B, T)"""
    apart = (a.to(torch.float64) - b.to(torch.float64)).abs()
    return apart.flatten(2).amax(-1) if apart.dim() > 2 else apart


def _largest(values: Tensor) -> float:
    return float(values.abs().max().to(torch.float64)) if values.numel() else 0.0


def positions_of(is_token: Tensor) -> Tensor:
    """Position of each token counted from the first real one; padding gets 0. (B, T)"""
    return (is_token.long().cumsum(1) - 1).clamp(min=0)


def reseed(seed: int) -> None:
    """Put every random generator a model may use at the same start."""
    torch.default_generator.manual_seed(seed)
    if torch.cuda._initialized:  # torch.manual_seed costs more than a small forward
        torch.cuda.manual_seed_all(seed)
    random.seed(seed)
    if (numpy := sys.modules.get("numpy")) is not None:
        numpy.random.seed(seed)


@contextmanager
def untouched() -> Iterator[None]:
    """Restore random states, gradient mode and default dtype afterwards."""
    python_state = random.getstate()
    numpy = sys.modules.get("numpy")
    numpy_state = numpy.random.get_state() if numpy is not None else None
    dtype, grad = torch.get_default_dtype(), torch.is_grad_enabled()
    deterministic = torch.are_deterministic_algorithms_enabled()
    with torch.random.fork_rng(devices=[]):
        try:
            yield
        finally:
            random.setstate(python_state)
            if numpy is not None and numpy_state is not None:
                numpy.random.set_state(numpy_state)
            torch.set_default_dtype(dtype)
            torch.set_grad_enabled(grad)
            if torch.are_deterministic_algorithms_enabled() != deterministic:
                torch.use_deterministic_algorithms(deterministic)  # slow to import, so not always


def _force_dropout(module: nn.Module, probability: float) -> None:
    for part in module.modules():
        if isinstance(part, nn.modules.dropout._DropoutNd):
            part.p = probability
        for name in ("dropout_p", "attn_dropout", "attention_dropout", "dropout_rate", "dropout"):
            if isinstance(getattr(part, name, None), float):
                setattr(part, name, probability)
