"""What was read behind the findings: meant to be so, or a fault described in the docs."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class ByDesign:
    """A violation the authors of the class chose, or wrote down as a limit."""

    classes: tuple[str, ...]
    checks: tuple[str, ...]
    reason: str


@dataclass(frozen=True)
class Fault:
    """A violation nobody asked for; `anchor` is its heading in docs/zoo-findings.md."""

    classes: tuple[str, ...]
    checks: tuple[str, ...]
    anchor: str


_PADDED_LEFT = (
    "only if padded on the left, which MiniMaxM3VLIndexer says it cannot be "
    "(zoo-findings.md tells what follows): "
)

BY_DESIGN: tuple[ByDesign, ...] = (
    ByDesign(
        ("CpmAntForCausalLM",),
        ("K1", "K1g", "K2", "K3", "K4"),
        "a prefix model: forward() treats all ids as context that sees itself both ways",
    ),
    ByDesign(
        ("CpmAntForCausalLM",),
        ("K10",),
        "a prefix model: forward() takes generated ids for context too, which generate() does not",
    ),
    ByDesign(
        ("ReformerModelWithLMHead",),
        ("K1", "K2", "K3", "K4", "K5"),
        "LSH attention sorts all tokens into chunks, so later tokens decide who shares a chunk",
    ),
    ByDesign(
        ("DeepseekV4ForCausalLM", "MiniMaxM3VLForCausalLM"),
        ("K4",),
        "blocks start at absolute slots; MiniMaxM3VLIndexer says that neither can be padded left",
    ),
    ByDesign(
        ("DeepseekV4ForCausalLM",),
        ("K3",),
        _PADDED_LEFT + "compressed entries are bounded by position in prompts, in single steps not",
    ),
    ByDesign(
        ("MiniMaxM3VLForCausalLM",),
        ("K3", "K10"),
        _PADDED_LEFT + "slots of keys are compared with positions of queries",
    ),
    ByDesign(
        ("BigBirdPegasusForConditionalGeneration",),
        ("K7",),
        "sparse blocks are laid over the padded length of the source, so padding moves them",
    ),
    ByDesign(
        ("XLNetLMHeadModel",),
        ("K9",),
        "labels belong to the positions picked by `target_mapping`, as its description says",
    ),
    ByDesign(
        (
            "BartForCausalLM",
            "BigBirdPegasusForCausalLM",
            "BlenderbotForCausalLM",
            "BlenderbotSmallForCausalLM",
            "CpmAntForCausalLM",
            "MBartForCausalLM",
            "MarianForCausalLM",
            "MvpForCausalLM",
            "PLBartForCausalLM",
            "PegasusForCausalLM",
            "TrOCRForCausalLM",
            "WhisperForCausalLM",
        ),
        ("K9",),
        "labels belong to the position they stand at: the caller shifts, and no description says "
        "otherwise (zoo-findings.md tells what follows for `labels=input_ids`)",
    ),
    ByDesign(
        ("RwkvForCausalLM",),
        ("K4",),
        "takes an attention mask for form's sake and warns that it is unused",
    ),
    ByDesign(
        ("SwitchTransformersForConditionalGeneration",),
        ("K2", "K3", "K4", "K7"),
        "experts drop tokens beyond a capacity, counted per call and over padding too",
    ),
    ByDesign(
        ("XLMWithLMHeadModel",),
        ("K10",),
        "generate puts a mask token behind the text and reads its output, as for covered words",
    ),
    ByDesign(
        ("NllbMoeForConditionalGeneration",),
        ("K1", "K5"),
        "in training experts drop tokens beyond a capacity, counted over the whole batch",
    ),
)

FAULTS: tuple[Fault, ...] = (
    Fault(
        ("FSMTForConditionalGeneration",),
        ("K1", "K1g", "K2", "K3", "K4", "K10"),
        "fsmt-has-no-causal-mask-unless-the-cache-is-off",
    ),
    Fault(
        ("ProphetNetForCausalLM", "ProphetNetForConditionalGeneration"),
        ("K1", "K1g", "K2", "K3", "K4", "K10"),
        "prophetnet-mixes-up-positions-in-its-relative-bias",
    ),
    Fault(
        ("BigBirdForCausalLM",),
        ("K0", "K1", "K1g", "K2", "K3", "K4", "K10"),
        "bigbird-is-bidirectional-as-a-long-decoder",
    ),
    Fault(
        ("RwkvForCausalLM",),
        ("K2", "K3", "K10"),
        "rwkv-mixes-the-rows-of-a-batch-in-cached-steps",
    ),
    Fault(
        ("FalconMambaForCausalLM", "JambaForCausalLM", "MambaForCausalLM", "ZambaForCausalLM"),
        ("K3",),
        "mamba-forgets-its-state-when-several-tokens-meet-a-warm-cache",
    ),
    Fault(
        ("BambaForCausalLM",),
        ("K3",),
        "bamba-restarts-positions-at-zero-in-cached-steps",
    ),
    Fault(
        ("NemotronHForCausalLM", "Zamba2ForCausalLM"),
        ("K3",),
        "two-mamba-2-hybrids-bound-the-time-step-only-in-prompts",
    ),
    Fault(
        ("MoshiForCausalLM",),
        ("K3", "K10"),
        "moshi-has-a-window-in-its-cache-but-not-in-its-mask",
    ),
    Fault(
        ("XLMWithLMHeadModel",),
        ("K4",),
        "xlm-sees-left-padding-when-it-is-causal",
    ),
    Fault(
        ("RecurrentGemmaForCausalLM",),
        ("K4",),
        "recurrentgemma-lets-padding-into-its-state",
    ),
    Fault(
        ("BltForCausalLM",),
        ("K4", "K10"),
        "blt-reads-padding-through-its-hashes",
    ),
    Fault(
        (
            "CamembertForCausalLM",
            "Data2VecTextForCausalLM",
            "RobertaForCausalLM",
            "RobertaPreLayerNormForCausalLM",
            "XLMRobertaForCausalLM",
            "XLMRobertaXLForCausalLM",
            "XmodForCausalLM",
        ),
        ("K10",),
        "generate-counts-robertas-positions-from-zero",
    ),
    Fault(
        ("GitForCausalLM",),
        ("K3", "K10"),
        "git-moves-the-padding-mask-when-there-is-no-image",
    ),
    Fault(
        ("LEDForConditionalGeneration",),
        ("K3",),
        "led-forgets-padding-in-cached-single-steps",
    ),
    Fault(
        ("XLMWithLMHeadModel",),
        ("K9",),
        "some-decoders-do-not-shift-their-labels",
    ),
)


def explained(class_name: str, check: str) -> str | None:
    """Why a violation of this check is meant to be, or None if nobody says so."""
    for entry in BY_DESIGN:
        if class_name in entry.classes and check in entry.checks:
            return entry.reason
    return None


def anchor(class_name: str, check: str) -> str | None:
    """Heading of the description of this violation, or None if it has not been described."""
    for fault in FAULTS:
        if class_name in fault.classes and check in fault.checks:
            return fault.anchor
    return None
