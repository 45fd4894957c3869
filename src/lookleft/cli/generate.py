"""`lookleft generate`: what a language model writes after a prompt."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from lookleft.cli.drawing import AUTOMATIC, GREEDY, Computing, Drawing
from lookleft.cli.talk import say
from lookleft.errors import InputError

if TYPE_CHECKING:
    from lookleft.generate.write import Written


def generate(
    model: str,
    prompt: str | None = None,
    *,
    max_new: int = 128,
    drawing: Drawing = GREEDY,
    beam: int = 1,
    n_best: int = 1,
    length_penalty: str = "power:1",
    no_repeat_ngram: int = 0,
    stop: list[str] | None = None,
    lookup: Annotated[bool, Parameter(negative="")] = False,
    draft: str | None = None,
    stream: Annotated[bool, Parameter(negative="")] = False,
    computing: Computing = AUTOMATIC,
    json_: Annotated[bool, Parameter(name="--json", negative="")] = False,
) -> None:
    """Write on after PROMPT, or after the text on standard input, with MODEL.

    Prints the prompt and what follows. Greedy unless a temperature or a beam is given; the same
    seed gives the same text.

    Examples:
      lookleft generate model.gguf "Once upon a time" --max-new 40 --stream
      lookleft generate runs/lm "Once upon a time" --temperature 0.8 --top-p 0.95 --seed 1
      lookleft generate model.gguf "The capital of France is" --stop . --json

    Parameters
    ----------
    model
        A run folder, model folder or .gguf file of a language model.
    prompt
        The text to continue; without it standard input is read.
    max_new
        The longest answer in tokens.
    beam
        Hypotheses kept side by side.
    n_best
        Texts, best first; at most the beam.
    length_penalty
        power:A divides a sum of log-probabilities by L^A, wu:A by ((5 + L) / 6)^A.
    no_repeat_ngram
        So many tokens in a row occur only once; 0: no matter.
    stop
        A string before which the text ends; may be given several times.
    lookup
        Guess tokens ahead by copying from the text: faster where it repeats, the same text.
    draft
        A smaller model of the same vocabulary that guesses tokens ahead.
    stream
        Show the text while it is written.
    json_
        Print {"prompt", "text", "finish", "tokens", "ids", "log_probs", "alternatives"}; with
        stream one {"piece"} a line before.
    """
    from lookleft.api import load
    from lookleft.bundle import load as load_bundle
    from lookleft.cli.talk import show_pieces, use_threads
    from lookleft.generate.methods import choose, penalty_of

    use_threads(computing.threads)
    way = choose(
        beam=beam,
        n_best=n_best,
        length_penalty=penalty_of(length_penalty),
        no_repeat_ngram=no_repeat_ngram,
        is_lookup=lookup,
        **drawing.options,
    )
    text = read_prompt() if prompt is None else prompt
    if not text:
        raise InputError("the prompt is empty: there is nothing to go on from; give some text")
    if stream and n_best > 1:
        raise InputError("--stream shows one text while it grows: leave out --n-best, or --stream")
    loaded = load(model, engine=computing.engine, activations=computing.activations)
    writer = loaded.writer(
        way,
        max_new=max_new,
        stop=stop or (),
        draft=None if draft is None else load_bundle(draft),
        runner=loaded.runner(is_cached=computing.cache, say=say),
    )
    if not stream:
        answers = writer.write([text])[0]
    elif json_:
        pieces = writer.stream(text)
        answers = [_told(pieces)]
    else:
        print(text, end="", flush=True)
        show_pieces(writer.stream(text))
        return
    if json_:
        print(json.dumps(described(text, answers), ensure_ascii=False))
    else:
        print("\n".join(text + answer.text for answer in answers))


def _told(pieces: Any) -> Written:
    """Print each piece as a JSON object; get what was written."""
    while True:
        try:
            print(json.dumps({"piece": next(pieces)}, ensure_ascii=False), flush=True)
        except StopIteration as end:
            written: Written = end.value
            return written


def described(prompt: str, answers: list[Written]) -> dict[str, Any]:
    """What `--json` prints."""

    def one(answer: Written) -> dict[str, Any]:
        told: dict[str, Any] = {"text": answer.text, "finish": answer.finish}
        if answer.score is not None:
            told["score"] = answer.score
        return told | {"ids": answer.ids, "log_probs": answer.log_probs}

    best = answers[0]
    tokens = {"prompt": best.n_prompt, "new": len(best.ids)}
    told = {"prompt": prompt, **one(best), "tokens": tokens}
    if len(answers) > 1:
        told["alternatives"] = [one(answer) for answer in answers[1:]]
    return told


def read_prompt() -> str:
    """Standard input as one text, without the line break at its end."""
    try:
        return sys.stdin.buffer.read().decode("utf-8").removesuffix("\n")
    except UnicodeDecodeError as error:
        raise InputError(
            f"standard input: is not UTF-8 at byte {error.start:,}: {error.reason}"
        ) from None
