"""`lookleft demo`: train a translator, prove that it looks left, and watch one that does not."""

from __future__ import annotations

import itertools
import json
import shutil
import sys
import time
import webbrowser
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

from cyclopts import Parameter

from lookleft.cli.talk import say
from lookleft.cli.train import finish_step_on_interrupt, follow, silence
from lookleft.errors import InputError
from lookleft.files import make_folder

if TYPE_CHECKING:
    from lookleft.api import Model
    from lookleft.demo.page import Story
    from lookleft.demo.story import Example
    from lookleft.engine.pick import Engine

SENTENCES = ("I am fine", "How are you?", "I am going home", "The tiger drank water")
LANES = ("I am going home", "मैं घर जा रहा हूँ")
CHEAT_STEPS, FAST_CHEAT_STEPS = 150, 20  # by 150 its loss is near zero
FAST = {"train.steps": "40", "train.tokens": "1024", "train.eval_every": "40"}
FAST_TEST = 50  # unseen sentences measured by --fast
LENGTHS, FAST_LENGTHS = (16, 32, 64, 128, 256), (8, 16, 32)


def demo(
    *sentences: str,
    out: Path | None = None,
    fast: Annotated[bool, Parameter(negative="")] = False,
    again: Annotated[bool, Parameter(negative="")] = False,
    open_: Annotated[bool, Parameter(name="--open", negative="")] = False,
    json_: Annotated[bool, Parameter(name="--json", negative="")] = False,
) -> None:
    """Train a small English-Hindi translator and walk through masked attention with it.

    Trains for about three minutes on two cores, translates, shows the mask, compares training
    with inference, audits the model, trains one without the mask to show what cheating looks like,
    and writes it all into report.html. Ctrl-C is safe at any time: the next call goes on.

    Examples:
      lookleft demo
      lookleft demo "The cat sat down" "I love tea" --open

    Parameters
    ----------
    sentences
        English sentences to translate, too; the words should be everyday ones.
    out
        The folder for both runs and the report. Default: runs/demo, with --fast runs/demo-fast.
    fast
        A model too small to be good, in less than a minute: to see that everything works.
    again
        Train anew even if the models are there.
    open_
        Open the report in the browser at the end.
    json_
        Print one JSON object with the results instead of the story.
    """
    if any(not sentence.strip() for sentence in sentences):
        raise InputError("an empty sentence has no translation: give some words, or none at all")
    folder = out or Path("runs") / ("demo-fast" if fast else "demo")
    began = time.perf_counter()
    with silence(json_):
        settled = Teller(folder, is_fast=fast, is_again=again).tell(sentences)
    story, report = settled
    if json_:
        print(json.dumps(as_json(story, report, time.perf_counter() - began)))
    else:
        print(f"\nreport   {report}")
        print(
            f"\nNext:  lookleft translate {folder / 'honest'}\n"
            f"       lookleft explain {folder / 'honest'}\n"
            f"       lookleft audit {folder / 'cheat'}"
        )
    if open_:
        webbrowser.open(report.resolve().as_uri())


def as_json(story: Story, report: Path, seconds: float) -> dict[str, object]:
    """The results under the names that scripts rely on."""
    return {
        "exact_match": story.quality.exact_match,
        "chrf": story.quality.chrf,
        "bleu": story.quality.bleu,
        "honest": story.honest.verdict,
        "cheat": story.cheat.verdict,
        "cheat_module": story.cheat.module,
        "lanes_max_difference": story.lanes.max_difference,
        "seconds": seconds,
        "report": str(report),
    }


@dataclass(frozen=True)
class Teller:
    """Tells the story chapter by chapter, and keeps what each found for the report."""

    folder: Path
    is_fast: bool
    is_again: bool

    @property
    def engine(self) -> Engine:
        """What translates: torch is done with a few sentences before the engine is compiled."""
        return "torch" if self.is_fast else "auto"

    def tell(self, sentences: tuple[str, ...]) -> tuple[Story, Path]:
        """All chapters in order, then the report."""
        from lookleft.bench.scale import compare_generation, compare_training
        from lookleft.data.phrases import split
        from lookleft.demo.page import Story, write_page
        from lookleft.demo.story import (
            compare_lanes,
            last_dev_loss,
            losses_of,
            measure_quality,
            prove,
            translate_given,
        )
        from lookleft.train.track import read_metrics

        began = time.perf_counter()
        make_folder(self.folder)
        chapter(1, "Training an English-Hindi translator, every sentence in one parallel pass.")
        honest = self.trained("honest", {})
        test = split().test[: FAST_TEST if self.is_fast else None]
        quality = measure_quality(honest, test)
        given = translate_given(honest, [*SENTENCES, *sentences])
        for example in given:
            show(example)
        print(
            f"\n{quality.exact_match:.1%} of {quality.n:,} unseen sentences exactly right"
            f" · chrF++ {quality.chrf:.1f} · BLEU {quality.bleu:.1f}  {quality.signature}"
        )

        chapter(2, "The mask: each word may look at itself and to its left, never to its right.")
        print(causal_picture(LANES[1].split()))

        chapter(3, "Training computes all rows at once, inference one per step. The same rows?")
        lanes = compare_lanes(honest, *LANES)
        for number, row in enumerate(lanes.rows, start=1):
            print(
                f"  row {number}   training {row.training:.6f}   inference {row.inference:.6f}"
                f"   {row.read} → {row.predicted}"
            )
        print(f"\nlargest difference between any two logits: {lanes.max_difference:.1e} (rounding)")

        chapter(4, "The proof: change the future, and watch whether the past moves.")
        proof = prove(honest)
        print(f"{proof.verdict}: {proof.n_checks} checks. {proof.reason}")

        chapter(5, "The same model without the mask: it may look at the answer it has to give.")
        steps = FAST_CHEAT_STEPS if self.is_fast else CHEAT_STEPS
        cheater = self.trained("cheat", {"model.mask": "none", "train.steps": str(steps)})
        honest_rows, cheat_rows = (read_metrics(self.folder / n) for n in ("honest", "cheat"))
        honest_loss, cheat_loss = last_dev_loss(honest_rows), last_dev_loss(cheat_rows)
        cheat_examples = translate_given(cheater, SENTENCES)
        print(
            f"its loss on unseen sentences is {cheat_loss:.3f}; the honest model's, after more "
            f"steps, {honest_loss:.3f}.\nAnd this is how it translates:"
        )
        for example in cheat_examples:
            show(example)
        caught = prove(cheater)
        where = f" in {caught.module}" if caught.module else ""
        print(f"\n{caught.verdict}{where}: {caught.reason}")

        chapter(6, "What the mask buys: one pass instead of many, and a cache.")
        lengths = FAST_LENGTHS if self.is_fast else LENGTHS
        costs = (compare_training(lengths), compare_generation(lengths))
        for comparison in costs:
            fast, slow = comparison.lines[:2]
            (length, least), (_, most) = fast.points[-1], slow.points[-1]
            ratio = most / least
            print(
                f"  {comparison.job} at {length} tokens: {slow.name} takes "
                f"{ratio:.{0 if ratio >= 10 else 1}f} times as long as {fast.name}; "
                f"the results differ by {comparison.max_difference:.0e}"
            )
        story = Story(
            quality=quality,
            given=given,
            lanes=lanes,
            honest=proof,
            cheat=caught,
            cheat_examples=cheat_examples,
            honest_losses=losses_of(honest_rows),
            cheat_losses=losses_of(cheat_rows),
            honest_dev_loss=honest_loss,
            cheat_dev_loss=cheat_loss,
            costs=costs,
            seconds=time.perf_counter() - began,
        )
        return story, write_page(story, self.folder)

    def trained(self, name: str, changes: dict[str, str]) -> Model:
        """The model of that name: found finished, gone on with, or trained from nothing."""
        from lookleft.api import load
        from lookleft.cli.recipes import find_recipe
        from lookleft.train.prepare import is_begun_with
        from lookleft.train.run import Run
        from lookleft.train.settings_file import read_settings

        folder = self.folder / name
        wanted = read_settings(find_recipe("demo"), (FAST if self.is_fast else {}) | changes)
        is_there = (folder / "config.toml").exists()
        if is_there and not is_begun_with(folder, wanted):
            say(f"{folder} was trained with other settings: now {set_aside(folder)}")
            is_there = False
        elif is_there and self.is_again:
            shutil.rmtree(folder)
            is_there = False
        if is_there:
            run = Run.resume(folder)
            if run.is_finished and is_reuse_wanted(folder):
                return load(folder, engine=self.engine)
            if run.is_finished:
                shutil.rmtree(folder)
                is_there = False
        if not is_there:
            run = Run.start(folder, wanted)
        with finish_step_on_interrupt() as asked:
            follow(run, asked, as_json=False, is_plain=False)
        if not run.is_finished:
            say("stopped and saved. The same command goes on from here")
            sys.exit(130)
        return load(folder, engine=self.engine)


def set_aside(folder: Path) -> Path:
    """Move a folder out of the way, to a name that is free, which is given."""
    names = (folder.with_name(f"{folder.name}-{number}") for number in itertools.count(1))
    free = next(name for name in names if not name.exists())
    return folder.rename(free)


def is_reuse_wanted(folder: Path) -> bool:
    """Ask on a terminal whether to use the model that is there; elsewhere it is used."""
    if not (sys.stdin.isatty() and sys.stderr.isatty()):
        say(f"using the model in {folder}; --again trains it anew")
        return True
    say(f"there is a trained model in {folder}. Use it? [Y/n]")
    return not sys.stdin.readline().strip().lower().startswith("n")


def causal_picture(words: list[str]) -> str:
    """The causal mask over words, drawn for the terminal."""
    import torch

    from lookleft.masks import causal
    from lookleft.picture import draw_mask

    pos = torch.arange(len(words))[None]
    return draw_mask(causal(pos, pos).allowed[0, 0], words)


def chapter(number: int, sentence: str) -> None:
    """Announce what comes next."""
    print(f"\n{number}. {sentence}\n", flush=True)


def show(example: Example) -> None:
    """A sentence and its translation, which stands last: nobody knows how wide Hindi is."""
    print(f"  {example.source:<28} {example.output or '(nothing)'}")
