"""Scores are sacreBLEU's own, digit by digit; two systems are told apart only when they differ."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from lookleft.errors import InputError
from lookleft.evaluate.bleu import compare, corpus_scores, default_tokenize, scores_by_length

HINDI = [
    ("मैं घर जा रहा हूँ।", "मैं घर जा रहा हूँ।"),
    ("वह किताब पढ़ती है।", "वह एक किताब पढ़ती है।"),
    ("क्या आप ठीक हैं?", "क्या तुम ठीक हो?"),
    ("बच्चे बाहर खेल रहे हैं।", "बच्चे बाहर खेलते हैं।"),
]
OUTPUTS, REFERENCES = [o for o, _ in HINDI], [r for _, r in HINDI]


@pytest.mark.parametrize(
    ("tokenize", "lowercase"), [("intl", False), ("13a", True), ("none", False)]
)
def test_sacrebleu_as_a_command_gives_the_same_scores(
    tokenize: str, lowercase: bool, tmp_path: Path
) -> None:
    outputs, references = tmp_path / "out.hi", tmp_path / "ref.hi"
    outputs.write_text("\n".join([*OUTPUTS, "A Cat sat ."]) + "\n", encoding="utf-8")
    references.write_text("\n".join([*REFERENCES, "a cat Sat ."]) + "\n", encoding="utf-8")
    command = [sys.executable, "-m", "sacrebleu", str(references), "-i", str(outputs)]
    command += ["-m", "bleu", "chrf", "--chrf-word-order", "2", "--tokenize", tokenize, "-w", "6"]
    command += ["--force"] + ["-lc", "--chrf-lowercase"] * lowercase
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    bleu, chrf = json.loads(done.stdout)
    ours = corpus_scores(
        [*OUTPUTS, "A Cat sat ."],
        [*REFERENCES, "a cat Sat ."],
        tokenize=tokenize,
        lowercase=lowercase,
    )
    assert round(ours.bleu, 6) == bleu["score"]
    assert round(ours.chrf, 6) == chrf["score"]
    assert ours.signature == f"BLEU|{bleu['signature']}"
    assert ours.chrf_signature == f"chrF2++|{chrf['signature']}"


def test_the_danda_is_cut_off_only_by_intl() -> None:
    assert default_tokenize("hi") == "intl"
    assert default_tokenize("de") == default_tokenize(None) == "13a"
    one, other = ["यह एक बहुत अच्छा घर है।"], ["यह एक बहुत अच्छा घर है ।"]
    assert corpus_scores(one, other, tokenize="intl").bleu == pytest.approx(100)
    assert corpus_scores(one, other, tokenize="13a").bleu < 100


def test_a_system_against_itself_differs_by_chance_and_a_bad_one_does_not() -> None:
    references = [f"the {n} cats sat on the {n} mats today" for n in range(40)]
    bad = [f"some {n} dogs" for n in range(40)]
    swapped = [text.replace("cats", "dogs") if n % 2 else text for n, text in enumerate(references)]
    mirrored = [
        text if n % 2 else text.replace("cats", "dogs") for n, text in enumerate(references)
    ]
    same = compare(references, references, references, n_samples=100)
    close = compare(swapped, mirrored, references, n_samples=100)
    far = compare(references, bad, references, n_samples=100)
    assert same.bleu == pytest.approx(100)
    assert same.bleu_p == same.chrf_p == 1.0
    assert close.chrf_p > 0.05
    assert far.bleu_p < 0.05
    assert far.chrf_p < 0.05
    assert far.bleu < 5
    assert "bs:100" in far.signature


def test_buckets_hold_every_sentence_once_and_score_as_they_would_alone() -> None:
    sources = ["one", "one two three four five six", "seven eight", "word " * 60]
    found = scores_by_length(sources, OUTPUTS, REFERENCES)
    assert [(bucket.words, bucket.n) for bucket in found] == [("0-5", 2), ("6-10", 1), ("51+", 1)]
    alone = corpus_scores([OUTPUTS[1]], [REFERENCES[1]])
    assert found[1].bleu == alone.bleu
    assert found[1].chrf == alone.chrf


@pytest.mark.parametrize(
    ("outputs", "references", "tokenize", "message"),
    [
        (["a"], ["a", "b"], "13a", "1 translations but 2 references"),
        ([], [], "13a", "no sentence"),
        (["a"], ["a"], "flores200", "use one of 13a, intl"),
    ],
)
def test_what_cannot_be_scored_is_refused(
    outputs: list[str], references: list[str], tokenize: str, message: str
) -> None:
    with pytest.raises(InputError, match=message):
        corpus_scores(outputs, references, tokenize=tokenize)
