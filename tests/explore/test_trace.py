"""Every number of a trace is what plain PyTorch makes of the model's own weights."""

from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from explore.speakers import ENGLISH, guesser, llama, trace_of, translator, writer
from torch import Tensor

from lookleft.bundle import Bundle
from lookleft.config import Relative
from lookleft.explore.layout import head_json, trace_json
from lookleft.explore.lesson import Kind

Weights = dict[str, Tensor]


def by_hand(q: Tensor, k: Tensor, v: Tensor, n_heads: int, head: int, is_causal: bool) -> Weights:
    """One head of attention, written out. (T, D), (S, D), (S, D)."""
    width = q.size(1) // n_heads
    part = slice(head * width, (head + 1) * width)
    q, k, v = q[:, part], k[:, part], v[:, part]
    scores = torch.einsum("tk,sk->ts", q, k) / math.sqrt(width)
    hidden = torch.tensor([[is_causal and s > t for s in range(len(k))] for t in range(len(q))])
    masked = scores.clone()
    masked[hidden] = -math.inf
    weights = torch.exp(masked) / torch.exp(masked).sum(1, keepdim=True)
    named = {"q": q, "k": k, "v": v, "scores": scores, "masked": masked, "weights": weights}
    return named | {"out": weights @ v}


def gpt_by_hand(w: Weights, ids: Tensor, n_heads: int) -> tuple[list[list[Weights]], Tensor]:
    """A pre-norm GPT in plain PyTorch: what every head did in every layer, and the logits."""
    x = w["embedding.tokens.weight"][ids] + w["decoder.positions.table.weight"][: len(ids)]
    width, layers = x.size(1), []

    def linear(x: Tensor, name: str) -> Tensor:
        return x @ w[f"{name}.weight"].T + w[f"{name}.bias"]

    def norm(x: Tensor, name: str) -> Tensor:
        return F.layer_norm(x, (width,), w[f"{name}.weight"], w[f"{name}.bias"])

    for layer in range(2):
        at = f"decoder.layers.{layer}"
        h = norm(x, f"{at}.self_norm")
        q, k, v = (linear(h, f"{at}.self_attention.to_{name}") for name in "qkv")
        layers.append([by_hand(q, k, v, n_heads, head, True) for head in range(n_heads)])
        mixed = torch.cat([one["out"] for one in layers[-1]], 1)
        x = x + linear(mixed, f"{at}.self_attention.to_out")
        h = F.gelu(
            linear(norm(x, f"{at}.feed_norm"), f"{at}.feed_forward.to_hidden"), approximate="tanh"
        )
        x = x + linear(h, f"{at}.feed_forward.to_out")
    return layers, norm(x, "decoder.norm") @ w["embedding.tokens.weight"].T


def as_tensor(rows: list[list[float | None]], absent: float = math.nan) -> Tensor:
    return torch.tensor([[absent if x is None else x for x in row] for row in rows])


def test_every_head_of_a_gpt_is_what_its_weights_say() -> None:
    speaker = writer()
    trace = trace_of(speaker)
    ids = torch.tensor([token.id for token in trace.lesson.columns])
    layers, logits = gpt_by_hand(dict(speaker.network.state_dict()), ids, n_heads=2)
    torch.testing.assert_close(trace.training.logits, logits, rtol=1e-4, atol=1e-5)
    for layer in range(2):
        for head in range(2):
            shown = head_json(trace, "decoder_self", layer, head)["training"]
            for name, values in layers[layer][head].items():
                absent = -math.inf if name == "masked" else math.nan
                given = as_tensor(shown[name], absent)
                torch.testing.assert_close(given, values, rtol=1e-4, atol=1e-5, msg=name)


def test_the_inference_lane_shows_the_same_rows_of_the_same_heads() -> None:
    speaker = writer()
    trace = trace_of(speaker)
    ids = torch.tensor([token.id for token in trace.lesson.columns])
    layers, _ = gpt_by_hand(dict(speaker.network.state_dict()), ids, n_heads=2)
    stepped = head_json(trace, "decoder_self", 1, 1)["inference"]
    for t in range(len(ids)):
        for name in ("scores", "weights"):
            assert len(stepped[name][t]) == t + 1  # later keys did not exist
            expected = layers[1][1][name][t, : t + 1]
            torch.testing.assert_close(
                torch.tensor(stepped[name][t]), expected, rtol=1e-4, atol=1e-5
            )
    for name in ("q", "k", "v", "out"):
        torch.testing.assert_close(
            as_tensor(stepped[name]), layers[1][1][name], rtol=1e-4, atol=1e-5
        )


def test_a_translator_shows_its_encoder_without_a_mask() -> None:
    speaker = translator()
    trace = trace_of(speaker)
    network = speaker.network
    ids = torch.tensor([token.id for token in trace.lesson.source.tokens])
    w = dict(network.state_dict())
    x = w["embedding.tokens.weight"][ids] * 4.0
    x = x + network.encoder.positions(torch.arange(len(ids))[None], x.dtype)[0]
    at = "encoder.layers.0.self_attention"
    q, k, v = (x @ w[f"{at}.to_{n}.weight"].T + w[f"{at}.to_{n}.bias"] for n in "qkv")
    shown = head_json(trace, "encoder_self", 0, 1)
    assert shown["inference"] is None
    for name, values in by_hand(q, k, v, 2, 1, is_causal=False).items():
        torch.testing.assert_close(as_tensor(shown["training"][name]), values, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("speaker", [translator(), writer(), llama(), guesser()])
def test_rows_add_up_to_one_and_the_forbidden_weighs_exactly_nothing(speaker: Bundle) -> None:
    trace = trace_of(speaker)
    for (kind, _), attention in trace.training.layers.items():
        allowed = trace.masks[kind][2]
        sums = attention.weights.sum(-1)
        torch.testing.assert_close(sums, torch.ones_like(sums))
        assert bool((attention.weights[:, ~allowed] == 0.0).all())
    assert trace_json(trace)["problems"] == []


def test_cross_attention_sees_the_source_and_only_the_decoder_is_masked() -> None:
    shown = trace_json(trace_of(translator()))
    n_source, n_rows = shown["source"]["n"], len(shown["wanted"])
    assert shown["masks"]["decoder_self"]["causal"] == [
        [s <= t for s in range(n_rows)] for t in range(n_rows)
    ]
    assert shown["masks"]["cross"]["causal"] is None
    assert shown["masks"]["cross"]["allowed"] == [[True] * n_source] * n_rows
    assert [kind["is_masked"] for kind in shown["model"]["kinds"]] == [True, False, False]


def test_grouped_heads_name_the_keys_they_share() -> None:
    trace = trace_of(llama())
    shown = [head_json(trace, "decoder_self", 0, head) for head in range(4)]
    assert [head["kv_head"] for head in shown] == [0, 0, 1, 1]
    assert shown[0]["training"]["k"] == shown[1]["training"]["k"] != shown[2]["training"]["k"]
    for head in shown:
        lane = head["training"]
        scores = as_tensor(lane["q"]) @ as_tensor(lane["k"]).T * head["scale"]
        torch.testing.assert_close(scores, as_tensor(lane["scores"]), rtol=1e-4, atol=1e-5)


def test_relative_positions_are_shown_as_what_they_add() -> None:
    trace = trace_of(translator(positions=Relative(n_buckets=8, max_distance=12)))
    head = head_json(trace, "decoder_self", 1, 0)
    lane = head["training"]
    product = as_tensor(lane["q"]) @ as_tensor(lane["k"]).T * head["scale"]
    assert not torch.allclose(product, as_tensor(lane["scores"]))
    torch.testing.assert_close(
        product + as_tensor(lane["bias"]), as_tensor(lane["scores"]), rtol=1e-4, atol=1e-4
    )


def test_a_window_smaller_than_the_text_leaves_old_keys_unseen() -> None:
    network = writer().network
    config = network.config.model_copy(update={"window": 2})
    speaker = Bundle(type(network)(config).eval(), writer().tokenizer, writer().specials)
    trace = trace_of(speaker, target="the cat sat on the mat how are you")
    lane = head_json(trace, "decoder_self", 1, 0)["inference"]
    for t, row in enumerate(lane["weights"]):
        assert all((weight > 0) == (s > t - 2) for s, weight in enumerate(row))
    assert trace_json(trace)["sameness"]["is_same"]


def test_training_rows_say_how_likely_the_right_token_was() -> None:
    trace = trace_of(translator())
    shown = trace_json(trace)["training"]
    probs = trace.training.logits.double().softmax(-1)
    for t, row in enumerate(shown["rows"]):
        target = trace.lesson.wanted[t].id
        assert row["prob"] == pytest.approx(float(probs[t, target]), rel=1e-6)
        assert row["loss"] == pytest.approx(-math.log(row["prob"]), rel=1e-6)
        assert row["rank"] == int((probs[t] > probs[t, target]).sum())
        likeliest = [one["prob"] for one in row["candidates"]]
        assert likeliest == sorted(likeliest, reverse=True)
    assert shown["loss"] == pytest.approx(
        sum(row["loss"] for row in shown["rows"]) / shown["n_targets"]
    )


def test_steps_say_what_they_cost() -> None:
    cached, recomputed = (trace_of(translator(), is_cached=on) for on in (True, False))
    with_cache, without = (trace_json(trace)["inference"] for trace in (cached, recomputed))
    n = len(with_cache["steps"])
    assert [step["cache_length"] for step in with_cache["steps"]] == list(range(1, n + 1))
    # two layers, keys and values, 16 numbers of 4 bytes each
    assert with_cache["steps"][2]["cache_bytes"] == 3 * 2 * 2 * 16 * 4
    assert with_cache["scores"] == n * (n + 1) // 2
    assert without["scores"] == with_cache["scores_uncached"] == sum(i * i for i in range(1, n + 1))


def test_a_covered_word_is_guessed_and_only_it_counts() -> None:
    trace = trace_of(guesser(), cover=(1,))
    shown = trace_json(trace)
    assert shown["columns"][1]["role"] == "mask"
    assert shown["wanted"][1]["text"] == "cat"
    assert [row["is_counted"] for row in shown["training"]["rows"]] == [False, True, False]
    assert shown["training"]["loss"] == pytest.approx(shown["training"]["rows"][1]["loss"])
    assert shown["inference"] is None
    assert "no second lane" in shown["model"]["why_not"]["inference"]


def test_padding_is_a_column_that_nobody_sees() -> None:
    plain, padded = trace_of(translator()), trace_of(translator(), pad=2)
    shown = trace_json(padded)
    assert [token["role"] for token in shown["columns"][-2:]] == ["pad", "pad"]
    assert all(row[-2:] == [False, False] for row in shown["masks"]["decoder_self"]["padding"])
    weights = padded.training.layers["decoder_self", 0].weights
    assert bool((weights[..., -2:] == 0).all())
    torch.testing.assert_close(padded.training.logits, plain.training.logits)
    assert shown["sameness"]["is_same"]


def test_weights_that_are_not_sound_are_reported_row_by_row() -> None:
    speaker = writer()
    with torch.no_grad():
        speaker.network.decoder.layers[1].self_attention.to_q.weight.fill_(math.nan)
    shown = trace_json(trace_of(speaker))
    assert {problem["what"] for problem in shown["problems"]} == {"not_finite"}
    assert shown["head"]["training"]["weights"][0][0] == 1.0  # layer 0 is still sound
    assert not shown["sameness"]["is_same"]


def test_the_same_request_has_the_same_name_and_another_sentence_another() -> None:
    speaker = translator()
    one, again = trace_of(speaker), trace_of(speaker, layer=1)
    other, unmasked = trace_of(speaker, source="how are you?"), trace_of(speaker, is_masked=False)
    assert one.id == again.id
    assert len({one.id, other.id, unmasked.id}) == 3


def test_a_head_that_is_not_there_is_refused_with_those_that_are() -> None:
    trace = trace_of(translator())
    for place in (("decoder_self", 2, 0), ("decoder_self", 0, 2)):
        with pytest.raises(ValueError, match="layers 0 to 1 and heads 0 to 1"):
            head_json(trace, *place)
    kind: Kind = "cross"
    with pytest.raises(ValueError, match="has no cross attention"):
        head_json(trace_of(writer()), kind, 0, 0)


def test_the_source_of_a_trace_is_the_sentence_that_was_typed() -> None:
    shown = trace_json(trace_of(translator()))
    assert shown["source"]["text"] == ENGLISH
    assert shown["target"]["lang"] == "hi"
    assert shown["version"] == 1
