"""The words of the built-in grammar: nouns, verbs, adjectives, read from the tables beside it."""

from __future__ import annotations

import csv
from dataclasses import dataclass
from functools import cache
from importlib import resources
from typing import Literal, cast

from lookleft.data.phrases.morphology import Gender, NounForms, noun_forms
from lookleft.errors import InputError

Frame = Literal["none", "direct", "gift", "से", "को", "का", "पर"]
FRAMES = ("none", "direct", "gift", "से", "को", "का", "पर")


@dataclass(frozen=True, slots=True, eq=False)
class Noun:
    """A noun in both languages; `kinds` say which verbs and adjectives it goes with."""

    english: str
    plural: str | None  # None: said in the singular only
    forms: NounForms
    gender: Gender
    kind: str
    kinds: frozenset[str]

    @property
    def is_elder(self) -> bool:
        """Spoken of in the plural, out of respect: मेरे पिता जी आए हैं."""
        return "elder" in self.kinds

    @property
    def is_countable(self) -> bool:
        """Takes "a" and numbers."""
        return self.plural is not None


@dataclass(frozen=True, slots=True, eq=False)
class Verb:
    """A verb in both languages; `host` is the noun or adjective of a compound (काम करना)."""

    english: str
    past: str
    participle: str
    ing: str
    stem: str
    frame: Frame
    host: str
    host_gender: Gender | None  # None: the host is no noun, the verb does not agree with it
    objects: frozenset[str]
    adjuncts: tuple[str, ...]
    tags: frozenset[str]

    @property
    def third(self) -> str:
        """The -s form: "goes", "waits for"."""
        first, _, rest = self.english.partition(" ")
        if first.endswith(("s", "sh", "ch", "x", "z", "o")):
            first += "es"
        elif first.endswith("y") and first[-2] not in "aeiou":
            first = first[:-1] + "ies"
        else:
            first += "s"
        return f"{first} {rest}" if rest else first

    @property
    def is_ergative(self) -> bool:
        """Its subject takes ने in the perfective."""
        return "ergative" in self.tags


@dataclass(frozen=True, slots=True, eq=False)
class Adjective:
    """An adjective in both languages and the kinds of nouns it describes."""

    english: str
    comparative: str | None
    superlative: str | None
    hindi: str
    kinds: frozenset[str]
    is_predicate_only: bool


def _rows(table: str) -> list[dict[str, str]]:
    text = resources.files(__package__).joinpath(f"{table}.tsv").read_text(encoding="utf-8")
    return list(csv.DictReader(text.splitlines(), delimiter="\t", strict=True))


def _gender(text: str) -> Gender:
    if text not in ("m", "f"):
        raise InputError(f"gender must be m or f, not {text!r}")
    return cast(Gender, text)


@cache
def nouns() -> tuple[Noun, ...]:
    """Every noun of the table."""
    found = []
    for row in _rows("nouns"):
        gender, tags = _gender(row["gender"]), frozenset(row["tags"].split())
        forms = noun_forms(row["hindi"], gender, is_fixed="fixed" in tags)
        plural = None if row["plural"] == "-" else row["plural"]
        # An adjective or verb may name a noun itself: "high" goes with mountains alone.
        kinds = tags | {row["kind"], row["english"]}
        found.append(Noun(row["english"], plural, forms, gender, row["kind"], kinds))
    return tuple(found)


@cache
def verbs() -> tuple[Verb, ...]:
    """Every verb of the table."""
    found = []
    for row in _rows("verbs"):
        if row["frame"] not in FRAMES:
            raise InputError(f"verb {row['english']!r} has the unknown frame {row['frame']!r}")
        host, _, gender = row["host"].partition(" ")
        found.append(
            Verb(
                english=row["english"],
                past=row["past"],
                participle=row["participle"],
                ing=row["ing"],
                stem=row["stem"],
                frame=cast(Frame, row["frame"]),
                host=host,
                host_gender=None if gender in ("", "-") else _gender(gender),
                objects=frozenset(row["objects"].split()),
                adjuncts=tuple(row["adjuncts"].split()),
                tags=frozenset(row["tags"].split()),
            )
        )
    return tuple(found)


@cache
def adjectives() -> tuple[Adjective, ...]:
    """Every adjective of the table."""
    return tuple(
        Adjective(
            english=row["english"],
            comparative=None if row["comparative"] == "-" else row["comparative"],
            superlative=None if row["superlative"] == "-" else row["superlative"],
            hindi=row["hindi"],
            kinds=frozenset(row["kinds"].split()),
            is_predicate_only="predicate" in row["tags"],
        )
        for row in _rows("adjectives")
    )


@cache
def nouns_of(kinds: frozenset[str]) -> tuple[Noun, ...]:
    """The nouns that are of at least one of these kinds."""
    return tuple(noun for noun in nouns() if noun.kinds & kinds)


@cache
def adjectives_for(noun: Noun, *, is_predicate: bool = False) -> tuple[Adjective, ...]:
    """The adjectives that may stand before a noun, or after "is" as well."""
    return tuple(
        adjective
        for adjective in adjectives()
        if adjective.kinds & noun.kinds and (is_predicate or not adjective.is_predicate_only)
    )
