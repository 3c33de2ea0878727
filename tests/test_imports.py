"""The rooms of the package import one way only, and importing it is cheap."""

import ast
import json
import pathlib

import pytest

import keras_bert_zoo

PACKAGE = pathlib.Path(keras_bert_zoo.__file__).parent
# A room may import from rooms of a lower number, and from itself.
ORDER = {
    "config": 0,
    "presets": 0,
    "hub": 0,
    "folders": 0,
    "metrics": 1,
    "layers": 2,
    "text": 3,
    "optimizers": 4,
    "checkpoints": 5,
    "serving": 6,
    "encoders": 7,
    "tasks": 8,
    "datasets": 9,
    "training": 10,
}
# Rooms that need nothing of some room below them, and must not begin to.
APART = [("text", "layers"), ("config", "presets"), ("optimizers", "layers"), ("serving", "layers")]


def modules():
    """All modules of the package by dotted name, as syntax trees."""
    found = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        parts = path.relative_to(PACKAGE.parent).with_suffix("").parts
        parts = parts[:-1] if parts[-1] == "__init__" else parts
        found[".".join(parts)] = ast.parse(path.read_text(encoding="utf-8"), str(path))
    return found


def imported(module, tree, known):
    """The modules of the package that a module imports, anywhere in it."""
    names = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            names.update(alias.name for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{module}, line {node.lineno}: a relative import"
            for alias in node.names:
                inner = f"{node.module}.{alias.name}"
                names.add(inner if inner in known else node.module)
    return {name for name in names if name.split(".")[0] == "keras_bert_zoo"}


def room(module):
    parts = module.split(".")
    return parts[1] if len(parts) > 1 else None


@pytest.fixture(scope="module")
def graph():
    trees = modules()
    return {module: imported(module, tree, trees) for module, tree in trees.items()}


def test_the_graph_is_seen(graph):
    assert len(graph) > 20
    assert "keras_bert_zoo.layers.attention" in graph["keras_bert_zoo.layers.transformer"]
    assert "keras_bert_zoo.tasks.classifier" in graph["keras_bert_zoo"]


def test_every_room_has_a_place_in_the_order(graph):
    rooms = {room(module) for module in graph} - {None}
    assert rooms <= ORDER.keys()
    assert rooms >= {"config", "presets", "layers", "text", "optimizers", "encoders", "tasks"}


def test_rooms_import_downwards_only(graph):
    wrong = [
        f"{module} imports {other}"
        for module, others in graph.items()
        for other in others
        if room(module) is not None
        and (
            room(other) is None  # The package itself, which imports everything.
            or (room(module) != room(other) and ORDER[room(module)] < ORDER[room(other)])
        )
    ]
    assert not wrong, "\n".join(wrong)


def test_rooms_that_stay_apart(graph):
    wrong = [
        f"{module} imports {other}"
        for module, others in graph.items()
        for other in others
        if (room(module), room(other)) in APART
    ]
    assert not wrong, "\n".join(wrong)


def test_no_cycles(graph):
    done, path = set(), []

    def visit(module):
        assert module not in path, " -> ".join([*path[path.index(module) :], module])
        if module in done:
            return
        path.append(module)
        for other in sorted(graph[module]):
            visit(other)
        path.pop()
        done.add(module)

    for module in graph:
        visit(module)


def test_every_module_says_what_it_is():
    silent = [module for module, tree in modules().items() if not ast.get_docstring(tree)]
    assert not silent


HEAVY = (
    "tensorflow_datasets",
    "tokenizers",
    "torch",
    "transformers",
    "matplotlib",
    "safetensors",
    "huggingface_hub",
)
MEASURE = """
import json, sys, time
import tensorflow, keras, tensorflow_text
before = set(sys.modules)
start = time.process_time()
import keras_bert_zoo
seconds = time.process_time() - start
print(json.dumps({"seconds": seconds, "new": sorted(set(sys.modules) - before)}))
"""


def test_importing_is_cheap_and_loads_nothing_heavy(run_python):
    """At most 0.3 s of CPU over TensorFlow, Keras and tensorflow-text, best of three processes.

    These load some of the heavy ones themselves where they are installed (Keras: matplotlib and
    huggingface_hub), so what counts is what we load beyond them.
    """
    seconds = []
    for _ in range(3):
        answer = json.loads(run_python(MEASURE).splitlines()[-1])
        assert "keras_bert_zoo" in answer["new"]
        assert not {name.split(".")[0] for name in answer["new"]} & set(HEAVY)
        seconds.append(answer["seconds"])
        if min(seconds) <= 0.3:
            break
    assert min(seconds) <= 0.3, seconds


@pytest.mark.parametrize("backend", ["jax", "torch"])
def test_another_backend_is_refused_in_one_sentence(run_python, backend):
    said = run_python("import keras_bert_zoo", check=False, env={"KERAS_BACKEND": backend})
    last = said.strip().splitlines()[-1]
    assert last.startswith("ImportError: keras_bert_zoo runs on Keras with the TensorFlow backend")
    assert f"'{backend}'" in last
    assert "KERAS_BACKEND=tensorflow" in last
