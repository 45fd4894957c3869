"""The arrows between packages point one way, and nothing in the package runs foreign code.

Imports are read from the syntax tree, also those inside functions: a late import is an arrow too.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

import lookleft

SOURCE = Path(lookleft.__file__).parent

# Each name may import what stands in an earlier line, and itself.
LAYERS = [
    {"errors"},
    {"config", "files"},
    {"tensors", "quantised", "masks", "text", "picture", "pages", "bundled"},
    {"data", "nn"},
    {"models"},
    {"interop", "checkpoint"},
    {"bundle"},
    {"train", "generate", "engine"},
    {"evaluate"},
    {"api"},
    {"explore", "serve"},
    {"bench"},
    {"demo"},
    {"cli"},
]
# The audit stands alone: a checker that shared masks with the checked would share its mistakes.
# `files` writes its reports and decides nothing about models.
AUDIT_MAY_IMPORT = {"errors", "files"}
MAY_IMPORT_AUDIT = {"explore", "serve", "bench", "demo", "cli"}
DOORS = {"__init__", "__main__"}  # the top of the package opens onto everything

FORBIDDEN_MODULES = {"pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve", "joblib"}
FORBIDDEN_CALLS = {"eval", "exec", "torch.load", "yaml.load", "yaml.unsafe_load"}
NETWORK_MODULES = {"requests", "httpx", "urllib3", "aiohttp", "ftplib", "smtplib"}


def python_files(root: Path) -> Iterator[tuple[str, ast.Module]]:
    """(path below root, syntax tree) of every Python file."""
    for path in sorted(root.rglob("*.py")):
        yield path.relative_to(root).as_posix(), ast.parse(path.read_text(encoding="utf-8"))


def imports_of(tree: ast.Module) -> Iterator[str]:
    """Every imported module by its full dotted name, wherever the import stands."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from (alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, "relative imports hide where an arrow points"
            assert node.module is not None
            if node.module == "lookleft":
                yield from (f"lookleft.{alias.name}" for alias in node.names)
            else:
                yield node.module


def wrong_arrows(root: Path) -> list[str]:
    """Imports that point up, sideways, or into or out of the audit; files without a place."""
    height = {name: i for i, names in enumerate(LAYERS) for name in names}
    wrong = []
    for path, tree in python_files(root):
        top = path.split("/")[0].removesuffix(".py")
        if top in DOORS:
            continue
        if top != "audit" and top not in height:
            wrong.append(f"{path}: {top} has no place in LAYERS; give it one")
            continue
        for module in imports_of(tree):
            parts = module.split(".")
            if parts[0] != "lookleft" or len(parts) == 1 or parts[1] == top:
                continue
            target = parts[1]
            if target.startswith("__"):
                continue  # lookleft.__version__ is no module
            if top == "audit":
                is_right = target in AUDIT_MAY_IMPORT
            elif target == "audit":
                is_right = top in MAY_IMPORT_AUDIT
            else:
                is_right = target in height and height[target] < height[top]
            if not is_right:
                wrong.append(f"{path} imports {module}")
    return wrong


def dotted(node: ast.expr) -> str:
    """The name of what is called: "torch.load", "eval"; "" if it is no plain name."""
    if isinstance(node, ast.Name):
        return node.id
    if isinstance(node, ast.Attribute) and (owner := dotted(node.value)):
        return f"{owner}.{node.attr}"
    return ""


def foreign_code(root: Path) -> list[str]:
    """Imports and calls through which a file could run code or reach the network."""
    found = []
    for path, tree in python_files(root):
        for module in imports_of(tree):
            if module.split(".")[0] in FORBIDDEN_MODULES | NETWORK_MODULES:
                found.append(f"{path} imports {module}")
        for node in ast.walk(tree):
            if not isinstance(node, ast.Call):
                continue
            if dotted(node.func) in FORBIDDEN_CALLS:
                found.append(f"{path}:{node.lineno} calls {dotted(node.func)}")
            for key in node.keywords:
                is_refusal = isinstance(key.value, ast.Constant) and key.value.value is False
                if key.arg in {"allow_pickle", "trust_remote_code"} and not is_refusal:
                    found.append(f"{path}:{node.lineno} asks for foreign code")
    return found


def triangles(root: Path) -> list[str]:
    """Files other than masks.py (and the audit, which stands alone) that draw a triangle."""
    return [
        f"{path}:{node.lineno}"
        for path, tree in python_files(root)
        if path != "masks.py" and not path.startswith("audit/")
        for node in ast.walk(tree)
        if isinstance(node, ast.Attribute) and node.attr in {"tril", "triu", "tril_", "triu_"}
    ]


def test_arrows_between_packages_point_one_way() -> None:
    assert wrong_arrows(SOURCE) == []


def test_nothing_in_the_package_runs_foreign_code() -> None:
    assert foreign_code(SOURCE) == []


def test_only_masks_decide_who_sees_whom() -> None:
    assert triangles(SOURCE) == []


def test_transformers_is_imported_late_if_at_all() -> None:
    """It is an extra: importing lookleft must not need it."""
    for path, tree in python_files(SOURCE):
        early = [node for node in tree.body if isinstance(node, ast.Import | ast.ImportFrom)]
        names = set(imports_of(ast.Module(body=early, type_ignores=[])))
        assert not {name for name in names if name.split(".")[0] == "transformers"}, path


# --- the alarms can ring ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "line"),
    [
        ("masks.py", "from lookleft.nn.attention import attend"),
        ("nn/attention.py", "from lookleft.data.batch import Batch"),
        ("nn/attention.py", "from lookleft import models"),
        ("models/base.py", "def late():\n    import lookleft.train.loop"),
        ("text/vocab.py", "from lookleft.masks import causal"),
        ("audit/probes.py", "from lookleft.masks import causal"),
        ("models/base.py", "from lookleft.audit.run import audit"),
        ("helpers.py", "import math"),
    ],
)
def test_an_arrow_that_points_the_wrong_way_is_caught(path: str, line: str, tmp_path: Path) -> None:
    (tmp_path / path).parent.mkdir(exist_ok=True)
    (tmp_path / path).write_text(line, encoding="utf-8")
    assert len(wrong_arrows(tmp_path)) == 1


@pytest.mark.parametrize(
    "line",
    [
        "import pickle",
        "from pickle import loads",
        "def late():\n    import dill",
        "import torch\ntorch.load('x')",
        "import yaml\nyaml.load('x')",
        "eval('1')",
        "exec('1')",
        "import numpy\nnumpy.load('x', allow_pickle=True)",
        "cls.from_pretrained('x', trust_remote_code=True)",
        "import requests",
    ],
)
def test_foreign_code_is_caught(line: str, tmp_path: Path) -> None:
    (tmp_path / "file.py").write_text(line, encoding="utf-8")
    assert len(foreign_code(tmp_path)) == 1


def test_a_second_opinion_on_the_mask_is_caught(tmp_path: Path) -> None:
    (tmp_path / "file.py").write_text("mask = ones.tril()", encoding="utf-8")
    assert triangles(tmp_path) == ["file.py:1"]
    (tmp_path / "file.py").write_text("model.eval()", encoding="utf-8")
    assert triangles(tmp_path) == foreign_code(tmp_path) == []
