"""`lookleft translate`: a sentence, a file, standard input, or a prompt on a terminal."""

from __future__ import annotations

import importlib.util
import json
import os
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, BinaryIO, Literal

from cyclopts import Parameter

from lookleft.bundled import DEFAULT, NAMES
from lookleft.cli.talk import ask, say
from lookleft.errors import FileError, InputError

if TYPE_CHECKING:
    from lookleft.generate.translate import Translation, Translator

CHUNK = 2048  # lines read before they are translated: enough to sort by length
SENTENCE_ENDS = (".", "?", "!", "…", "।")
MODEL_ENDS = (".gguf", ".safetensors", ".json", ".toml")


def translate(
    model: str | None = None,
    text: str | None = None,
    *,
    beam: int = 1,
    n_best: int = 1,
    length_penalty: str | None = None,
    max_new: int | None = None,
    prefix: str = "",
    from_: Annotated[str | None, Parameter(name="--from")] = None,
    to: str | None = None,
    engine: Literal["auto", "torch", "numba"] = "auto",
    activations: Literal[16, 8] = 16,
    cache: Annotated[bool, Parameter(negative="--no-cache")] = True,
    threads: int | None = None,
    quiet: Annotated[bool, Parameter(name=["--quiet", "-q"], negative="")] = False,
    json_: Annotated[bool, Parameter(name="--json", negative="")] = False,
) -> None:
    """Translate TEXT, the lines of a file, or those of standard input, with MODEL.

    Without MODEL the English-Hindi translator that comes along is used; its name is en-hi. One
    argument that names nothing and reads like a sentence is TEXT.

    Lines keep their order; each gives one line. One that cannot be translated gives an empty
    line, and is named on standard error. On a terminal, without TEXT, sentences are asked for.

    Examples:
      lookleft translate "How are you?"
      lookleft translate runs/en-hi "I am fine."
      lookleft translate runs/en-hi in.en --beam 5 > out.hi
      lookleft translate runs/en-hi < in.en > out.hi

    Parameters
    ----------
    model
        A run folder or model folder of an encoder-decoder; en-hi is the one that comes along.
    text
        A sentence, or the name of a file with one on each line.
    beam
        Hypotheses kept side by side; 1 is greedy.
    n_best
        Translations of each sentence, best first, one on each line; at most the beam.
    length_penalty
        power:A divides a sum of log-probabilities by L^A, wu:A by ((5 + L) / 6)^A. Unset: the
        model's own, else power:1.
    max_new
        The longest answer in tokens; unset: twice the source's, and 10.
    prefix
        What every translation begins with.
    from_
        Language of the source, as a code, for models of many languages.
    to
        Language of the target.
    engine
        What computes: auto takes the compiled engine where it can, and for one sentence only if
        that was compiled before.
    activations
        Bits of what weights of 8 bits are multiplied with; 8 is faster with AVX-512 VNNI, and
        rounds more.
    cache
        --no-cache reads the whole text again for every token: slow, the same answers.
    threads
        Of the processor; unset: all.
    quiet
        No progress and no summary.
    json_
        Print one JSON object a line: {"source", "target", "score", "tokens", "finish"}, with
        n_best also "alternatives".
    """
    from lookleft.api import load
    from lookleft.cli.talk import use_threads
    from lookleft.generate.methods import choose, penalty_of
    from lookleft.generate.request import Power
    from lookleft.generate.translate import Options, Translator

    if model is not None and text is None:
        if is_sentence(model):
            model, text = None, model
        elif not os.path.exists(model) and model not in NAMES:
            raise FileError(
                f"{model}: does not exist; give a model folder, or a word to translate as in "
                f'echo "{model}" | lookleft translate {DEFAULT}'
            )
        elif os.path.isfile(model) and not model.endswith(".gguf"):
            raise FileError(
                f"{model}: is a file and no model; to translate what is in it: "
                f"lookleft translate {DEFAULT} {model}"
            )
    use_threads(threads)
    penalty = None if length_penalty is None else penalty_of(length_penalty)
    # What is wrong is found before anything is loaded.
    choose(beam=beam, n_best=n_best, length_penalty=penalty or Power())
    is_one = text is not None and not is_file_name(text)
    if text is not None and not is_one and not os.path.exists(text):
        raise FileError(
            f"{text}: there is no such file; if it is a text to translate: "
            f'echo "{text}" | lookleft translate {model or DEFAULT}'
        )
    if engine == "auto" and is_one and is_cold():
        engine = "torch"
    loaded = load(model, engine=engine, activations=activations)
    penalty = penalty or Power(loaded.length_penalty)
    options = Options(
        method=choose(beam=beam, n_best=n_best, length_penalty=penalty).method,
        max_new=max_new,
        prefix=prefix,
        source_language=from_,
        target_language=to,
        wants_log_probs=True,
    )
    runner = loaded.runner(is_cached=cache, say=None if quiet else say)
    translator = Translator(loaded, options, runner=runner)
    shown = _Shown(json_, n_best)
    label = f"beam {beam}" if beam > 1 else "greedy"
    if text is not None and is_one:
        [(_, found)] = translator.each([text])
        if isinstance(found, InputError):
            raise found
        shown.show(text, found)
    elif text is None and sys.stdin.isatty():
        _converse(translator, loaded.languages[0] or from_ or "src", model or DEFAULT, shown)
    else:
        _translate_lines(translator, text, shown, None if quiet else label)


def is_cold() -> bool:
    """Whether the engine would have to be compiled: torch is done with one sentence before that."""
    if importlib.util.find_spec("numba") is None:
        return False  # the engine says so itself
    from lookleft.engine.compiling import is_compiled

    return not is_compiled()


def is_sentence(word: str) -> bool:
    """Whether the only argument is a thing to translate rather than a model, misspelt or not.

    What exists is a model. A sentence has a blank or ends like one; a slash makes it a path,
    unless it has both.
    """
    if os.path.exists(word):  # which, unlike Path.exists, bears names that no file can have
        return False
    has_blank, is_ended = len(word.split()) > 1, word.rstrip().endswith(SENTENCE_ENDS)
    if "/" in word or "\\" in word or word.endswith(MODEL_ENDS):
        return has_blank and is_ended
    return has_blank or is_ended


def is_file_name(text: str) -> bool:
    """Whether a word names a file rather than a thing to translate."""
    if os.path.isfile(text):
        return True
    return len(text.split()) == 1 and ("/" in text or len(Path(text).suffix) > 1)


def _translate_lines(
    translator: Translator, file: str | None, shown: _Shown, label: str | None
) -> None:
    """Every line of a file or of standard input, in order, chunk by chunk."""
    where = file or "standard input"
    begin = time.monotonic()
    n_lines = n_tokens = n_bad = 0
    lines = _lines(file)
    while chunk := list(islice(lines, CHUNK)):
        texts = [line if isinstance(line, str) else "" for line in chunk]
        done: dict[int, list[Translation] | InputError] = {
            place: line for place, line in enumerate(chunk) if isinstance(line, InputError)
        }
        for place, found in translator.each(texts):
            done.setdefault(place, found)
            if label is not None and sys.stderr.isatty():
                say(f"\r{n_lines + len(done):,} sentences", end="")
        for place, line in enumerate(texts):
            answer = done[place]
            if isinstance(answer, InputError):
                n_bad += 1
                say(f"{where}, line {n_lines + place + 1}: {answer}")
                shown.refuse(n_lines + place + 1, answer)
            else:
                n_tokens += len(answer[0].answer.ids)
                shown.show(line, answer)
        n_lines += len(chunk)
    if label is not None:
        say("\r" if sys.stderr.isatty() else "", end="")  # over what showed the progress
        seconds = max(time.monotonic() - begin, 1e-9)
        say(
            f"{n_lines:,} sentences · {seconds:.1f} s · {n_lines / seconds:,.0f} sent/s · "
            f"{n_tokens / seconds:,.0f} tok/s · {label}"
        )
    if n_bad:
        raise FileError(f"{where}: {n_bad:,} of {n_lines:,} lines were not translated, see above")


def _lines(file: str | None) -> Iterator[str | InputError]:
    """The lines of a file or of standard input; for one that is not UTF-8, what is wrong."""
    if file is None:
        yield from _decoded(sys.stdin.buffer)
        return
    try:
        with open(file, "rb") as opened:
            yield from _decoded(opened)
    except OSError as error:
        raise FileError(f"{file}: cannot be read: {error.strerror}") from error


def _decoded(raw_lines: BinaryIO) -> Iterator[str | InputError]:
    for number, raw in enumerate(raw_lines):
        try:
            # A first line may begin with a mark that only says that this is UTF-8.
            yield raw.decode("utf-8" if number else "utf-8-sig").rstrip("\r\n")
        except UnicodeDecodeError as error:
            yield InputError(f"is not UTF-8: {error.reason}")


def _converse(translator: Translator, language: str, model: str, shown: _Shown) -> None:
    """Ask for sentences until the end."""
    from lookleft.generate.request import Beam

    say("one sentence a line; :n 3 for three alternatives, :why for the explorer, :q to leave")
    last, n_shown = "", 1
    for line in ask(f"{language}> "):
        if line.startswith(":n"):
            count = line[2:].strip()
            if not count.isdecimal() or not 1 <= int(count) <= 16:
                say("    :n takes a number from 1 to 16, as in  :n 3")
                continue
            n_shown, method = int(count), translator.options.method
            shown = _Shown(shown.is_json, n_shown)
            beam = method if isinstance(method, Beam) else Beam(1)
            beam = replace(beam, width=max(n_shown, beam.width), n_best=n_shown)
            translator = translator.with_method(beam)
            continue
        if line == ":why":
            command = f'    lookleft explain {model} --src "{last}" --text'
            say(command if last else "    translate first")
            continue
        last, begin = line, time.monotonic()
        [(_, found)] = translator.each([line])
        if isinstance(found, InputError):
            say(f"    {found}")
            continue
        if shown.is_json:
            shown.show(line, found[:n_shown])
            continue
        milliseconds = 1000 * (time.monotonic() - begin)
        for one in found[:n_shown]:
            print(f"    {one.text}")
            n_tokens = len(one.answer.ids)
            say(f"    score {score_of(one):.2f} · {n_tokens} tokens · {milliseconds:.0f} ms")


def score_of(found: Translation) -> float:
    """The score of a beam, or what greedy decoding would have there: the mean log-probability."""
    if found.answer.score is not None:
        return found.answer.score
    log_probs = found.answer.log_probs or [0.0]
    return sum(log_probs) / len(log_probs)


class _Shown:
    """How answers are printed."""

    def __init__(self, is_json: bool, n_best: int) -> None:
        self.is_json, self.n_best = is_json, n_best

    def show(self, source: str, found: list[Translation]) -> None:
        if not self.is_json:
            # An empty line has one answer; readers count on n_best of them.
            texts = [one.text for one in found] + [""] * (self.n_best - len(found))
            print("\n".join(text.replace("\n", " ") for text in texts))
            return
        told: dict[str, Any] = {"source": source, **_described(found[0])}
        if self.n_best > 1:
            told["alternatives"] = [_described(one) for one in found[1:]]
        print(json.dumps(told, ensure_ascii=False))

    def refuse(self, line: int, error: InputError) -> None:
        print(
            json.dumps({"line": line, "error": str(error)})
            if self.is_json
            else "\n" * (self.n_best - 1)
        )


def _described(found: Translation) -> dict[str, Any]:
    answer = found.answer
    return {
        "target": found.text,
        "score": score_of(found),
        "tokens": len(answer.ids),
        "finish": answer.finish,
    }
