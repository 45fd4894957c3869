"""Where text may be cut before it is encoded: no piece ever reaches across such a cut."""

from __future__ import annotations

from lookleft.errors import FileError

# A letter with its vowel signs, virama and joiners is one thing: `\p{L}+` alone, as in GPT-2, cuts
# Hindi words at every sign. A space belongs to the word after it, so that nothing is ever lost.
_IN_WORD = r"\p{L}\p{M}\x{200C}\x{200D}"
OWN_PATTERN = "|".join(
    (
        rf" ?[{_IN_WORD}]+",
        r" ?\p{N}{1,3}",
        rf" ?[^\s\p{{N}}{_IN_WORD}]+[\r\n]*",
        r"\s+(?!\S)",
        r"\s+",
    )
)
"""Keeps words of any script whole, and letters, digits and signs apart.

Because `<`, letters and `>` never share a chunk, no text can spell a special or byte piece.
"""

_ENGLISH_ENDINGS = r"'s|'t|'re|'ve|'m|'ll|'d"
_GPT2 = rf"{_ENGLISH_ENDINGS}| ?\p{{L}}+| ?\p{{N}}+| ?[^\s\p{{L}}\p{{N}}]+|\s+(?!\S)|\s+"
_ONE_DIGIT = r"\p{N}"


def _tiktoken_like(digits: str) -> str:
    return (
        rf"(?i:{_ENGLISH_ENDINGS})|[^\r\n\p{{L}}\p{{N}}]?\p{{L}}+|{digits}"
        r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
    )


_FAMILIES: tuple[tuple[tuple[str, ...], tuple[str, ...]], ...] = (
    ((_GPT2,), ("gpt-2", "phi-2", "mpt", "olmo", "jais")),
    (
        (_ONE_DIGIT, _GPT2),
        ("smollm", "starcoder", "refact", "command-r", "codeshell", "exaone", "minerva-7b"),
    ),
    (
        (_tiktoken_like(r"\p{N}{1,3}"),),
        ("llama-bpe", "llama3", "llama-v3", "falcon3", "dbrx", "smaug-bpe"),
    ),
    ((_tiktoken_like(_ONE_DIGIT),), ("qwen2", "stablelm2", "deepseek-r1-qwen", "megrez")),
)
_PATTERNS = {name: patterns for patterns, names in _FAMILIES for name in names}
# These look a whole chunk up in the vocabulary before they try to build it by merges.
_WHOLE_CHUNK_FIRST = frozenset({"llama-bpe", "llama3", "llama-v3", "falcon3"})


def gguf_patterns(pre: str, where: str) -> tuple[str, ...]:
    """The patterns, applied one after the other, that `tokenizer.ggml.pre` stands for."""
    if pre not in _PATTERNS:
        raise FileError(
            f"{where}: unknown pre-tokeniser {pre!r} (tokenizer.ggml.pre);"
            f" known are {', '.join(sorted(_PATTERNS))}"
        )
    return _PATTERNS[pre]


def tries_whole_chunk_first(pre: str) -> bool:
    """Whether a chunk that is itself in the vocabulary is taken without looking at merges."""
    return pre in _WHOLE_CHUNK_FIRST
