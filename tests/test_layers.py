"""The arrows between packages point one way, and nothing in the package runs foreign code.

Imports are read from the syntax tree, also those inside functions: a late import is an arrow too.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator, Mapping
from pathlib import Path

import pytest

import lookleft

SOURCE = Path(lookleft.__file__).parent

# Each name may import what stands in an earlier line, and itself.
LAYERS = [
    {"errors"},
    {"config", "files", "once"},
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

# By their full names, with all that lies in them.
FORBIDDEN_MODULES = {
    *("pickle", "cPickle", "dill", "cloudpickle", "marshal", "shelve", "joblib"),
    *("multiprocessing", "torch.multiprocessing"),  # its queues and pools pickle what they carry
    *("requests", "httpx", "urllib3", "aiohttp", "ftplib", "smtplib"),  # the network
    *("urllib.request", "http.client", "socket", "huggingface_hub", "torch.hub"),
}
FORBIDDEN_NAMES = {
    *("builtins.eval", "builtins.exec"),
    *("torch.load", "yaml.load", "yaml.unsafe_load"),
    "concurrent.futures.ProcessPoolExecutor",
}
# Whatever module they come from: collectives of torch.distributed that pickle.
FORBIDDEN_LAST_PARTS = {
    *("all_gather_object", "gather_object", "scatter_object_list"),
    *("broadcast_object_list", "send_object_list", "recv_object_list"),
}


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


def dotted(node: ast.AST, meant: Mapping[str, str]) -> str:
    """The full name of what an expression names: "torch.load"; "" if it is no name.

    `meant` tells what the imported names of a file stand for; others may be built in.
    """
    if isinstance(node, ast.Name):
        return meant.get(node.id, f"builtins.{node.id}")
    if isinstance(node, ast.Attribute) and (owner := dotted(node.value, meant)):
        return f"{owner}.{node.attr}"
    return ""


def imported_names(tree: ast.Module) -> dict[str, str]:
    """What each imported name stands for: {"dist": "torch.distributed", "load": "torch.load"}."""
    meant = {}
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            for alias in node.names:  # `import a.b` binds a; `import a.b as c` binds c to a.b
                first = alias.name.split(".")[0]
                meant |= {alias.asname: alias.name} if alias.asname else {first: first}
        elif isinstance(node, ast.ImportFrom):
            meant |= {a.asname or a.name: f"{node.module}.{a.name}" for a in node.names}
    return meant


def is_forbidden(name: str) -> bool:
    """Whether a full name is one through which foreign code could run."""
    parts = name.split(".")
    modules = {".".join(parts[:n]) for n in range(1, len(parts) + 1)}
    # Of templates only those that are kept from the rest of Python.
    is_template = parts[-1].endswith(("Environment", "Template")) and parts[0] == "jinja2"
    return (
        bool(modules & FORBIDDEN_MODULES)
        or name in FORBIDDEN_NAMES
        or parts[-1] in FORBIDDEN_LAST_PARTS
        or (is_template and parts[1] != "sandbox")
    )


def foreign_code(root: Path) -> list[str]:
    """Names through which a file could run code or reach the network, imported or used."""
    found = []
    for path, tree in python_files(root):
        meant = imported_names(tree)
        used = {dotted(node, meant) for node in ast.walk(tree)} | set(meant.values())
        forbidden = {name for name in {*used, *imports_of(tree)} if is_forbidden(name)}
        # The shortest of names that begin alike is the one to blame: pickle, not pickle.loads.
        to_blame = {n for n in forbidden if not any(n.startswith(f"{m}.") for m in forbidden)}
        found += [f"{path} uses {name}" for name in sorted(to_blame)]
        for node in ast.walk(tree):
            for key in node.keywords if isinstance(node, ast.Call) else ():
                is_refusal = isinstance(key.value, ast.Constant) and key.value.value is False
                if key.arg in {"allow_pickle", "trust_remote_code"} and not is_refusal:
                    found.append(f"{path}:{node.lineno} asks for foreign code")
            if isinstance(node, ast.Call) and dotted(node.func, meant).endswith(".from_pretrained"):
                given = {key.arg: ast.unparse(key.value) for key in node.keywords}
                if given.get("local_files_only") != "True":
                    found.append(f"{path}:{node.lineno} may fetch a model")
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
        "import torch as t\nt.load('x')",
        "from torch import load",
        "from torch import load as read\nread('x')",
        "import torch\nread = torch.load\nread('x')",
        "import yaml\nyaml.load('x')",
        "eval('1')",
        "exec('1')",
        "from builtins import exec as run\nrun('1')",
        "import jinja2\njinja2.Environment()",
        "import jinja2\njinja2.Template('x')",
        "from jinja2 import Environment",
        "from jinja2.nativetypes import NativeEnvironment",
        "import jinja2 as j\nclass Own(j.environment.Environment): pass",
        "import torch.distributed as dist\ndist.all_gather_object([], 1)",
        "import torch.distributed as dist\ndist.gather_object(1)",
        "import torch.distributed as dist\ndist.scatter_object_list([], [])",
        "from torch import distributed\ndistributed.broadcast_object_list([])",
        "from torch.distributed import send_object_list",
        "from torch.distributed import recv_object_list as receive\nreceive([])",
        "import multiprocessing",
        "from multiprocessing import Queue\nQueue()",
        "import torch.multiprocessing as mp\nmp.Queue()",
        "from torch import multiprocessing",
        "from concurrent.futures import ProcessPoolExecutor",
        "import concurrent.futures\nconcurrent.futures.ProcessPoolExecutor()",
        "import numpy\nnumpy.load('x', allow_pickle=True)",
        "cls.from_pretrained('x', local_files_only=True, trust_remote_code=True)",
        "cls.from_pretrained('x')",
        "cls.from_pretrained('x', local_files_only=False)",
        "import requests",
        "import urllib.request",
        "import urllib\nurllib.request.urlopen('x')",
        "from http import client",
        "import socket",
        "from huggingface_hub import snapshot_download",
        "import torch\ntorch.hub.load('x', 'y')",
    ],
)
def test_foreign_code_is_caught(line: str, tmp_path: Path) -> None:
    (tmp_path / "file.py").write_text(line, encoding="utf-8")
    assert len(foreign_code(tmp_path)) == 1


@pytest.mark.parametrize(
    "line",
    [
        "from jinja2.sandbox import ImmutableSandboxedEnvironment\nImmutableSandboxedEnvironment()",
        "import jinja2\nerrors = jinja2.TemplateError",
        "from concurrent.futures import ThreadPoolExecutor",
        "import json\njson.load(file)",
        "from lookleft import load\nload('x')",
        "requests = [1]\nrequests.append(2)",
        "import torch.distributed as dist\ndist.all_gather([], tensor)",
        "model.eval()",
        "cls.from_pretrained('x', local_files_only=True, trust_remote_code=False)",
        "from urllib.parse import urlsplit",
        "from http.server import ThreadingHTTPServer",
    ],
)
def test_what_only_looks_like_foreign_code_is_let_through(line: str, tmp_path: Path) -> None:
    (tmp_path / "file.py").write_text(line, encoding="utf-8")
    assert foreign_code(tmp_path) == []


def test_a_second_opinion_on_the_mask_is_caught(tmp_path: Path) -> None:
    (tmp_path / "file.py").write_text("mask = ones.tril()", encoding="utf-8")
    assert triangles(tmp_path) == ["file.py:1"]
    (tmp_path / "file.py").write_text("model.eval()", encoding="utf-8")
    assert triangles(tmp_path) == []
