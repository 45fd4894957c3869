"""`lookleft evaluate`: how good a model is, in figures that others can repeat."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from cyclopts import Parameter

from lookleft.errors import FileError, InputError

if TYPE_CHECKING:
    from lookleft.bundle import Bundle
    from lookleft.data.corpus import Corpus, Record
    from lookleft.train.settings import RunSettings


def evaluate(
    model: str,
    *,
    src: Path | None = None,
    ref: Path | None = None,
    text: Path | None = None,
    against: str | None = None,
    hyp: Path | None = None,
    beam: int = 5,
    tokenize: str | None = None,
    lowercase: Annotated[bool, Parameter(negative="")] = False,
    out: Path | None = None,
    threads: int | None = None,
    json_: Annotated[bool, Parameter(name="--json", negative="")] = False,
) -> None:
    """Score MODEL on text that it has not seen.

    A translator is scored on --src and --ref: BLEU and chrF++ by sacreBLEU with their signatures,
    perplexity and bits per byte of the references, and the same by length of the source. A
    language model is scored on --text. Files may be gzipped.

    Examples:
      lookleft evaluate runs/en-hi --src test.en --ref test.hi
      lookleft evaluate runs/mine --src test.en --ref test.de --against runs/other --json
      lookleft evaluate runs/lm --text held-out.txt

    Parameters
    ----------
    model
        A run folder or a model folder.
    src
        Sentences to translate, one a line.
    ref
        Their translations by people, line by line.
    text
        Text for a language model, which a run reads as it was trained: lines, documents, JSON lines
        or one stream.
    against
        Another model, to be compared by paired bootstrap.
    hyp
        Or the translations of another system in a file, to be compared the same way.
    beam
        Beginnings that are followed at once; 1 is greedy.
    tokenize
        How BLEU cuts words: 13a, intl, none, char, zh. Unset: as in training, else intl for Hindi
        and 13a for others. Take none for text that is tokenised already.
    lowercase
        Compare without case.
    out
        Also write the translations to this file.
    threads
        How many CPU threads to use.
    json_
        Print one JSON object.
    """
    from lookleft.bundle import load
    from lookleft.cli.talk import use_threads
    from lookleft.evaluate.bleu import check_tokenize
    from lookleft.files import ready_to_write

    use_threads(threads)
    if beam < 1:
        raise InputError(f"--beam {beam}: give 1 (greedy) or more")
    bundle = load(model)
    if text is not None:
        options: dict[str, object] = {
            "--src": src,
            "--ref": ref,
            "--against": against,
            "--hyp": hyp,
            "--out": out,
        }
        options |= {"--tokenize": tokenize, "--lowercase": lowercase or None}
        wrong = [name for name, value in options.items() if value is not None]
        if wrong:
            raise InputError(f"{wrong[0]} is for translations: leave it out, or --text")
        check_family(bundle, "decoder-only", "--text")
        result = of_text(model, bundle, text)
    elif src is not None and ref is not None:
        check_family(bundle, "encoder-decoder", "--src and --ref")
        way = tokenize or tokenize_of(model, bundle)
        check_tokenize(way)
        counting = {"tokenize": way, "lowercase": lowercase}
        sources, references = read_sides(src, ref)
        if out is not None:
            ready_to_write(out)
        other = other_outputs(against, hyp, sources, beam)  # first: what is wrong is found at once
        outputs = translated(bundle, sources, beam)
        if out is not None:
            write_lines(out, outputs)
        result = of_translations(bundle, sources, outputs, references, counting)
        if other is not None:
            result["against"] = compared(outputs, other, references, counting)
        result["beam"] = beam
    else:
        raise InputError("say what to score on: --src F --ref F, or --text F for a language model")
    print(json.dumps(result, ensure_ascii=False) if json_ else in_words(result))


def check_family(bundle: Bundle, wanted: str, options: str) -> None:
    """Raise if a model of this kind is not scored in this way."""
    family = bundle.network.config.family
    ways = {
        "encoder-decoder": "score it with --src FILE --ref FILE",
        "decoder-only": "score it with --text FILE",
        "encoder-only": "its dev loss is in the metrics.jsonl of its run",
    }
    if family != wanted:
        raise InputError(f"{options} is for {wanted} models, this one is {family}: {ways[family]}")


def of_translations(
    bundle: Bundle,
    sources: Sequence[str],
    outputs: Sequence[str],
    references: Sequence[str],
    options: dict[str, Any],
) -> dict[str, Any]:
    """The figures of a translator, by name."""
    from lookleft.evaluate.bleu import corpus_scores, scores_by_length
    from lookleft.evaluate.perplexity import translation_surprise

    scores = corpus_scores(outputs, references, **options)
    surprise = translation_surprise(bundle, sources, references)
    buckets = scores_by_length(sources, outputs, references, **options)
    return {
        "bleu": scores.bleu,
        "chrf": scores.chrf,
        "signature": scores.signature,
        "chrf_signature": scores.chrf_signature,
        "perplexity": surprise.perplexity,
        "bits_per_byte": surprise.bits_per_byte,
        "sentences": len(references),
        "by_length": [vars(bucket) for bucket in buckets],
    }


def of_text(model: str, bundle: Bundle, path: Path) -> dict[str, Any]:
    """The figures of a language model, by name; it reads the file as it was trained to."""
    from lookleft.data.stream import read_stream
    from lookleft.evaluate.judge import Reading
    from lookleft.evaluate.perplexity import text_surprise

    settings = settings_of(model)
    if settings is None:
        surprise = text_surprise(bundle, read_texts(path))
    else:
        data = settings.data
        if data.stream:
            texts = [read_stream(path)]
        else:
            texts = read_texts(path, data.document_end, data.target)
        surprise = Reading.of(settings).surprise(bundle, texts)
    return {
        "loss": surprise.loss,
        "perplexity": surprise.perplexity,
        "bits_per_byte": surprise.bits_per_byte,
        "tokens": surprise.n_tokens,
        "bytes": surprise.n_bytes,
    }


def compared(
    ours: Sequence[str], theirs: Sequence[str], references: Sequence[str], options: dict[str, Any]
) -> dict[str, Any]:
    """The figures of the other system, and how likely chance alone makes them differ so."""
    from lookleft.evaluate.bleu import compare

    return dict(vars(compare(ours, theirs, references, **options)))


def translated(bundle: Bundle, sources: Sequence[str], beam: int) -> list[str]:
    """The best translations that a beam of that width finds."""
    from lookleft.generate.translate import beam_for, translate

    return translate(bundle, sources, method=beam_for(bundle, beam))


def other_outputs(
    against: str | None, hyp: Path | None, sources: Sequence[str], beam: int
) -> list[str] | None:
    """The translations of the system to compare with, if one was named."""
    from lookleft.bundle import load

    if against is not None and hyp is not None:
        raise InputError("give either --against MODEL or --hyp FILE")
    if against is not None:
        return translated(load(against), sources, beam)
    if hyp is None:
        return None
    lines = every_line(hyp)
    if len(lines) != len(sources):
        raise FileError(f"{hyp}: has {len(lines):,} lines for {len(sources):,} sentences")
    return lines


def tokenize_of(model: str, bundle: Bundle) -> str:
    """How BLEU cut words when the model was trained, if it is a run; else as its target wants."""
    from lookleft.evaluate.bleu import default_tokenize
    from lookleft.evaluate.judge import tokenize_for

    settings = settings_of(model)
    return default_tokenize(bundle.languages[1]) if settings is None else tokenize_for(settings)


def settings_of(model: str) -> RunSettings | None:
    """The settings of a run, or of the run that a model lies in; None for one from elsewhere."""
    from lookleft.train.settings_file import read_settings

    folder = Path(model).resolve()
    places = [folder, folder.parent] if folder.name in ("model", "best") else [folder]
    configs = [place / "config.toml" for place in places]
    found = [config for config in configs if config.is_file()]
    return read_settings(found[0]) if found else None


def read_sides(src: Path, ref: Path) -> tuple[list[str], list[str]]:
    """Sources and references of two files, which must run side by side."""
    from lookleft.data.corpus import ParallelPairs

    pairs = whole(ParallelPairs(source=src, target=ref), src)
    return [pair.source for pair in pairs], [pair.target for pair in pairs]


def read_texts(path: Path, end: str | None = None, language: str | None = None) -> list[str]:
    """The texts of a file as training reads them: lines, JSON lines, or documents."""
    from lookleft.train.corpora import texts_of

    return [line.text for line in whole(texts_of(path, end, language), path)]


def whole(corpus: Corpus[Record], path: Path) -> list[Record]:
    """All records of a corpus; one without a line that is too long would be scored wrongly."""
    from lookleft.data.corpus import TOO_LONG

    reader = corpus.read()
    records = list(reader)
    if TOO_LONG in reader.summary.left_out:
        raise FileError(f"{path}: {TOO_LONG}: {reader.summary.left_out[TOO_LONG]}")
    return records


def every_line(path: Path) -> list[str]:
    """All lines of a file, empty ones too."""
    from lookleft.data.lines import read_lines

    lines = []
    for number, line in read_lines(path):
        if line is None:
            raise FileError(f"{path}:{number}: is too long for one line of text")
        lines.append(line)
    return lines


def write_lines(path: Path, lines: Sequence[str]) -> None:
    """One line per sentence; a line break inside one would shift all that follow."""
    from lookleft.files import write_atomically

    text = "".join(" ".join(line.splitlines()) + "\n" for line in lines)
    write_atomically(path, text.encode("utf-8"))
    print(f"wrote {path}", file=sys.stderr)


def in_words(result: dict[str, Any]) -> str:
    """The figures as lines for people."""
    if "bleu" not in result:
        return "\n".join(
            [
                f"perplexity     {result['perplexity']:.3f}   ({result['tokens']:,} tokens)",
                f"bits per byte  {result['bits_per_byte']:.4f}   ({result['bytes']:,} bytes)",
            ]
        )
    lines = [
        f"chrF++         {result['chrf']:.2f}   {result['chrf_signature']}",
        f"BLEU           {result['bleu']:.2f}   {result['signature']}",
        f"perplexity     {result['perplexity']:.2f}",
        f"bits per byte  {result['bits_per_byte']:.3f}",
        "",
        f"{'words':>8}  {'n':>6}  chrF++   BLEU",
    ]
    for row in result["by_length"]:
        lines.append(f"{row['words']:>8}  {row['n']:>6,}  {row['chrf']:6.2f}  {row['bleu']:5.2f}")
    other = result.get("against")
    if other:
        lines += [
            "",
            f"the other      chrF++ {other['chrf']:.2f} (p = {other['chrf_p']:.4f})   "
            f"BLEU {other['bleu']:.2f} (p = {other['bleu_p']:.4f})",
            f"               {other['signature']}",
        ]
    return "\n".join(lines)
