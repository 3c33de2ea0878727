"""Where a model is found: folders, names, and a hub on loopback that plays the real one."""

import hashlib
import json
import pathlib
import sys

import fake_hub
import pytest

from keras_bert_zoo.hub import find_folder
from keras_bert_zoo.presets import PRESETS

SETTINGS = {
    "config.json": b"{}",
    "vocab.txt": b"[PAD]\n[UNK]\n",
    "tokenizer.json": b'{"model": {}}',
    "tokenizer_config.json": b'{"do_lower_case": true}',
    "special_tokens_map.json": b'{"pad_token": "[PAD]"}',
    "added_tokens.json": b'{"[NEW]": 2}',
    "modules.json": b"[]",
    "sentence_bert_config.json": b'{"max_seq_length": 128}',
    "config_sentence_transformers.json": b'{"similarity_fn_name": "cosine"}',
    "1_Pooling/config.json": b'{"pooling_mode_mean_tokens": true}',
}
OTHERS = {
    ".gitattributes": b"*.bin filter=lfs",
    "README.md": b"# A model",
    "tf_model.h5": b"tensorflow",
    "flax_model.msgpack": b"flax",
    "rust_model.ot": b"rust",
    "onnx/model.onnx": b"onnx",
    "onnx/config.json": b'{"onnx": 1}',
    "openvino/model.safetensors": b"elsewhere",
    "training_args.bin": b"pickle",
}
WEIGHTS = bytes(range(256)) * 4000
SHARDS = {
    "model.safetensors.index.json": b'{"weight_map": {}}',
    "model-00001-of-00002.safetensors": b"first",
    "model-00002-of-00002.safetensors": b"second",
}
PICKLES = {
    "pytorch_model.bin.index.json": b'{"weight_map": {"a": ""}}',
    "pytorch_model-00001-of-00001.bin": b"pickled in parts",
}
PLAIN = {"config.json": b"{}", "vocab.txt": b"[PAD]\n[UNK]\n", "model.safetensors": WEIGHTS}
REPOSITORIES = {
    "kbz/full": {
        "main": SETTINGS | OTHERS | {"model.safetensors": WEIGHTS, "pytorch_model.bin": b"pickle"},
        "v1.0": SETTINGS | {"model.safetensors": b"older weights"},
        "refs/pr/7": SETTINGS | {"model.safetensors": b"proposed weights"},
    },
    "kbz/plain": {"main": PLAIN},
    "kbz/sharded": {"main": SETTINGS | SHARDS | OTHERS},
    "kbz/pickle": {"main": SETTINGS | OTHERS | {"pytorch_model.bin": b"pickled weights"}},
    "kbz/pickles": {"main": SETTINGS | PICKLES},
    "kbz/bare": {"main": SETTINGS | OTHERS},
    PRESETS["bert_tiny"].hub_id: {"main": PLAIN},
}

CALLS = """
import hashlib, importlib.util, json, sys

# The package without its __init__, which loads TensorFlow: finding a folder needs none.
spec = importlib.util.find_spec("keras_bert_zoo")
sys.modules["keras_bert_zoo"] = importlib.util.module_from_spec(spec)
from keras_bert_zoo.hub import find_folder

answers = []
for preset, load_weights in json.loads(sys.argv[1]):
    try:
        folder = find_folder(preset, load_weights)
    except Exception as error:
        answers.append(f"{type(error).__name__}: {error}")
    else:
        files = [path for path in folder.rglob("*") if path.is_file()]
        answers.append({str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
                        for path in files})
assert "tensorflow" not in sys.modules
print(json.dumps(answers))
"""


@pytest.fixture
def hub():
    pytest.importorskip("huggingface_hub", reason="the `hub` extra is not installed")
    with fake_hub.serve(REPOSITORIES) as hub:
        yield hub


@pytest.fixture
def call(hub, run_python, tmp_path):
    """Calls find_folder on each preset in one fresh process; gives files' digests, or errors."""

    def run(*presets, load_weights=True, cache="home", **env):
        calls = [[preset, load_weights] for preset in presets]
        settings = {
            "HF_ENDPOINT": hub.url,
            "HF_HOME": str(tmp_path / cache),
            "HF_HUB_CACHE": str(tmp_path / cache / "hub"),
            "HF_TOKEN": "",
            "HF_HUB_OFFLINE": "0",
            "HF_HUB_DISABLE_XET": "1",
            "NO_PROXY": "127.0.0.1",
        }
        said = run_python(CALLS, json.dumps(calls), env=settings | env)
        return json.loads(said.splitlines()[-1])

    return run


def digests(files):
    return {path: hashlib.sha256(content).hexdigest() for path, content in files.items()}


def test_fetches_what_is_wanted_once(hub, call):
    full = SETTINGS | {"model.safetensors": WEIGHTS}
    assert call("hf://kbz/full", "hf://kbz/sharded") == [digests(full), digests(SETTINGS | SHARDS)]
    assert hub.fetched() == sorted([*full, *SETTINGS, *SHARDS])
    assert call("hf://kbz/full") == [digests(full)]
    assert hub.fetched() == []


def test_without_weights_none_are_fetched_until_they_are_asked_for(hub, call):
    assert call("hf://kbz/full", load_weights=False) == [digests(SETTINGS)]
    assert hub.fetched() == sorted(SETTINGS)
    assert call("hf://kbz/full") == [digests(SETTINGS | {"model.safetensors": WEIGHTS})]
    assert hub.fetched() == ["model.safetensors"]


def test_pickled_weights_only_where_there_are_no_others(hub, call):
    single = SETTINGS | {"pytorch_model.bin": b"pickled weights"}
    assert call("hf://kbz/pickle", "hf://kbz/pickles") == [
        digests(single),
        digests(SETTINGS | PICKLES),
    ]
    resolved = [path for _, path in hub.requests if path.endswith("/revision/main")]
    assert len(resolved) == 2  # A branch may move: both steps are of the commit found first.
    assert hub.fetched() == sorted([*single, *SETTINGS, *PICKLES])
    assert call("hf://kbz/pickle", HF_HUB_OFFLINE="1") == [digests(single)]
    assert not hub.requests


def test_a_repository_without_weights(hub, call):
    (said,) = call("hf://kbz/bare")
    assert said.startswith("ValueError: No weights that can be read (model.safetensors, ")
    assert "hf://kbz/bare has none, or" in said
    assert "load_weights=False" in said
    assert call("hf://kbz/bare", load_weights=False) == [digests(SETTINGS)]


def test_a_revision_is_a_branch_a_tag_a_commit_or_a_proposal(hub, call):
    commit = hub.commit("kbz/full", "v1.0")
    main, tag, by_commit, proposal = call(
        "hf://kbz/full",
        "hf://kbz/full@v1.0",
        f"hf://kbz/full@{commit}",
        "hf://kbz/full@refs/pr/7",
    )
    assert main == digests(SETTINGS | {"model.safetensors": WEIGHTS})
    assert tag == by_commit == digests(SETTINGS | {"model.safetensors": b"older weights"})
    assert proposal == digests(SETTINGS | {"model.safetensors": b"proposed weights"})


def test_a_name_of_a_preset_means_its_hub_id(hub, call, tmp_path):
    (tmp_path / "bert_tiny").mkdir()  # In the process's working directory.
    assert call("bert_tiny", "./bert_tiny") == [digests(PLAIN), {}]
    assert hub.fetched() == sorted(PLAIN)


def test_offline_the_cache_is_all_there_is(hub, call):
    call("hf://kbz/plain")
    call("hf://kbz/full", load_weights=False)
    hub.requests.clear()
    whole, half, none = call(
        "hf://kbz/plain", "hf://kbz/full", "hf://kbz/full@v1.0", HF_HUB_OFFLINE="1"
    )
    assert whole == digests(PLAIN)
    for said, fetch in ((half, "hf download kbz/full"), (none, "kbz/full --revision v1.0")):
        assert said.startswith("ValueError: ")
        assert "HF_HUB_OFFLINE" in said
        assert fetch in said
    assert not hub.requests


def test_a_cache_that_was_filled_file_by_file_may_lack_the_weights(call, tmp_path):
    """As other libraries fill it: without the listing that tells that a file is missing."""
    call("hf://kbz/full", load_weights=False)
    for listing in (tmp_path / "home").rglob("trees/*.json"):
        listing.unlink()
    (said,) = call("hf://kbz/full", HF_HUB_OFFLINE="1")
    assert said.startswith("ValueError: ")
    assert "the network" in said
    assert call("hf://kbz/full", load_weights=False, HF_HUB_OFFLINE="1") == [digests(SETTINGS)]


def test_what_the_hub_refuses(hub, call):
    hub.gated["kbz/plain"] = "hf_secret"
    missing, revision, gated = call("hf://kbz/none", "hf://kbz/full@v9", "hf://kbz/plain")
    assert missing.startswith("ValueError: The hub shows no model kbz/none")
    assert "HF_TOKEN" in missing
    assert revision.startswith("ValueError: kbz/full has no revision 'v9'")
    assert gated.startswith("ValueError: Access to hf://kbz/plain must be granted first")
    assert "hf auth login" in gated
    assert call("hf://kbz/plain", HF_TOKEN="hf_secret") == [digests(PLAIN)]


def test_a_hub_that_is_down_is_no_trouble_for_what_is_cached(hub, call):
    call("hf://kbz/plain")
    hub.down = True
    cached, down = call("hf://kbz/plain", "hf://kbz/full")
    assert cached == digests(PLAIN)
    assert down.startswith("ValueError: hf://kbz/full could not be fetched from the hub (")
    assert "500" in down
    (nobody,) = call("hf://kbz/full", HF_ENDPOINT="http://127.0.0.1:9")
    assert nobody.startswith("ValueError: hf://kbz/full could not be fetched from the hub (")
    assert "hf download kbz/full" in nobody


def test_a_file_that_breaks_off_is_taken_up_again(hub, call):
    hub.cut["model.safetensors"] = ("end", 1)
    assert call("hf://kbz/plain") == [digests(PLAIN)]
    assert hub.fetched().count("model.safetensors") == 2


def test_a_file_that_broke_off_for_good_is_fetched_by_the_next_call(hub, call, tmp_path):
    hub.cut["model.safetensors"] = ("reset", 1)
    (said,) = call("hf://kbz/plain")
    assert said.startswith("ValueError: hf://kbz/plain could not be fetched from the hub (")
    (snapshot,) = (tmp_path / "home").rglob("snapshots/*")
    assert not (snapshot / "model.safetensors").exists()
    (said,) = call("hf://kbz/plain", HF_HUB_OFFLINE="1")
    assert said.startswith("ValueError: hf://kbz/plain is not in the cache, or not whole")
    assert call("hf://kbz/plain") == [digests(PLAIN)]


def test_a_cache_that_cannot_be_written_is_trouble_of_this_machine(call, tmp_path):
    (tmp_path / "file").write_text("in the way")
    (said,) = call("hf://kbz/plain", cache="file")
    assert said.startswith(("NotADirectoryError", "FileExistsError"))


@pytest.mark.parametrize(
    "address",
    [
        "hf://",
        "hf://x",
        "hf://a/b/c",
        "hf://a/b/",
        "hf:///b",
        "hf://a/b@",
        "hf://a/b@c@d",
        "hf://a/b@/etc",
        "hf://a/b@v 1",
        "hf://a/b c",
        " hf://a/b"[1:] + "\n",
        "hf://a/..",
        "hf://a/b@../../c",
        "hf://a/b?revision=c",
    ],
)
def test_malformed_addresses_show_the_form(address):
    with pytest.raises(ValueError, match=r"'hf://owner/name@revision'. Received: 'hf://"):
        find_folder(address)


def test_addresses_that_the_library_refuses():
    pytest.importorskip("huggingface_hub", reason="the `hub` extra is not installed")
    for address in ("hf://a/b--c", "hf://-a/b", "hf://a/b.git", f"hf://a/{'b' * 99}"):
        with pytest.raises(ValueError, match=f"{address} is no address of the Hugging Face hub"):
            find_folder(address)


@pytest.mark.parametrize("preset", ["hf://a/b", "bert_base_uncased"])
def test_without_the_library(preset, monkeypatch):
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    with pytest.raises(ImportError, match=r"pip install 'keras-bert-zoo\[hub\]'"):
        find_folder(preset)


def test_a_folder_is_itself(tmp_path, monkeypatch):
    folder = tmp_path / "my model \u5317"
    folder.mkdir()
    monkeypatch.setitem(sys.modules, "huggingface_hub", None)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    (tmp_path / "bert_tiny").mkdir()
    assert find_folder(folder) == find_folder(str(folder)) == folder
    assert find_folder("~/my model \u5317") == find_folder(f"{folder}/") == folder
    assert find_folder("./bert_tiny") == find_folder(pathlib.Path("bert_tiny"))
    with pytest.raises(ImportError):
        find_folder("bert_tiny")


def test_a_file_names_its_folder(tmp_path):
    for name in ("model.safetensors", "bert_model.ckpt.index"):
        (tmp_path / name).touch()
    for name in ("model.safetensors", "bert_model.ckpt.index", "bert_model.ckpt"):
        for path in (tmp_path / name, str(tmp_path / name)):
            with pytest.raises(ValueError, match=f"Name the folder: '{tmp_path}'"):
                find_folder(path)


@pytest.mark.parametrize(
    ("preset", "said"),
    [
        ("bert-base-uncased", r"or one of: bert_base_uncased, "),
        ("bert_basecased", r"or one of: bert_base_cased, "),
        ("google-bert/bert-large-cased", r"\(here 'hf://google-bert/bert-large-cased'\)"),
        ("https://huggingface.co/a/b", r"\(here 'hf://a/b'\)"),
        ("nowhere", r"nowhere is no folder\. Name an existing folder, .*or one of: bert_tiny, "),
        (pathlib.Path("nowhere"), r"'nowhere', and .*nowhere is no folder"),
        ("x" * 5000, r"or one of: bert_tiny"),
        ("", r"Received: ''"),
        (b"bert_tiny", r"Received: b'bert_tiny'"),
        (None, r"Received: None"),
    ],
)
def test_anything_else_is_told_what_would_do(preset, said):
    with pytest.raises(ValueError, match=said):
        find_folder(preset)
