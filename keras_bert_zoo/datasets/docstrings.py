"""The docstrings of the installed Python packages: a labelled English corpus without a download.

Python files are parsed with ``ast``; nothing is imported. The libraries are those that come with
this package and its ``examples`` extra, and the standard library, so that what else a machine has
installed does not change the corpus. Names of libraries are masked in all text: "which library is
this from?" would be answered by reading the name otherwise.
"""

import ast
import contextlib
import gc
import inspect
import re
import sys
import sysconfig
import warnings
from collections.abc import Iterator, Mapping
from pathlib import Path

import keras

from keras_bert_zoo.datasets.labelled import LabelledDocument

STANDARD_LIBRARY = "python"
MASK_WORD = "library"

# label -> top-level packages. Small libraries are text to learn from, not classes.
LIBRARIES = {
    "absl": ("absl",),
    "anyio": ("anyio",),
    "attrs": ("attr", "attrs"),
    "click": ("click",),
    "contourpy": ("contourpy",),
    "dateutil": ("dateutil",),
    "etils": ("etils",),
    "filelock": ("filelock",),
    "fonttools": ("fontTools",),
    "fsspec": ("fsspec",),
    "grpc": ("grpc",),
    "h5py": ("h5py",),
    "huggingface_hub": ("huggingface_hub",),
    "keras": ("keras",),
    "markdown": ("markdown", "markdown_it"),
    "matplotlib": ("matplotlib", "mpl_toolkits"),
    "numpy": ("numpy",),
    "opt_einsum": ("opt_einsum",),
    "optree": ("optree",),
    "packaging": ("packaging",),
    "pillow": ("PIL",),
    "protobuf": ("google",),
    "psutil": ("psutil",),
    "pyarrow": ("pyarrow",),
    "pygments": ("pygments",),
    "pyparsing": ("pyparsing",),
    "requests": ("requests", "urllib3"),
    "rich": ("rich",),
    "setuptools": ("setuptools", "pkg_resources"),
    "simple_parsing": ("simple_parsing",),
    "tensorboard": ("tensorboard",),
    "tensorflow": ("tensorflow",),
    "tensorflow_datasets": ("tensorflow_datasets",),
    "tensorflow_text": ("tensorflow_text",),
    "werkzeug": ("werkzeug",),
    "wrapt": ("wrapt",),
}

# Tests, copies of other libraries, and generated re-exports, by the name of a folder …
_LEFT_OUT_FOLDERS = frozenset((
    "_api", "_distutils", "_test", "_testing", "_vendor", "dist-packages", "ensurepip", "extern",
    "externals", "idlelib", "lib2to3", "site-packages", "test", "testdata", "testing", "tests",
    "third_party", "turtledemo", "vendor", "vendored",
))  # fmt: skip
# … or by the beginning of a path.
_LEFT_OUT_PATHS = (
    "google/api/", "google/logging/", "google/longrunning/", "google/rpc/", "google/type/",
    "tensorboard/compat/", "tensorflow/include/", "tensorflow/keras/", "tensorflow/python/keras/",
)  # fmt: skip

# Long names are masked wherever they stand, also inside a word ("KerasTensor", "is_numpy_array").
_NAMES = (
    "tensorflow_datasets", "tensorflow_text", "tensorflow", "tensorboard", "keras", "numpy",
    "scipy", "pandas", "matplotlib", "mpl_toolkits", "pyplot", "pylab", "pytorch", "fonttools",
    "fontforge", "hugging_face_hub", "hugging_face", "setuptools", "pkg_resources", "distutils",
    "werkzeug", "pygments", "pyarrow", "h5py", "fsspec", "grpc", "protobuf", "pyparsing",
    "openpyxl", "simple_parsing", "markdown_it", "opt_einsum", "optree", "contourpy", "dateutil",
    "urllib3", "filelock", "psutil", "etils", "cpython",
)  # fmt: skip
# Short ones only where no letter stands beside them ("tf.data", "np_array"), or as the first hump
# of a CamelCase word ("TFRecord"): "np" or "rich" are found inside English words.
_ALIASES = frozenset((
    "tf", "tfds", "tfp", "tft", "tfdbg", "tflite", "tb", "np", "jnp", "jax", "plt", "mpl", "pil",
    "pillow", "hf", "torch", "absl", "abseil", "google", "googleapis", "pip", "click", "attr",
    "attrs", "anyio", "ttlib", "wrapt", "markdown", "packaging", "requests", "rich", "python",
    "py", "xla",
))  # fmt: skip
_NAME = re.compile("|".join(n.replace("_", "[_ -]?") for n in _NAMES), re.IGNORECASE)
_ALIAS = re.compile(rf"(?<![a-z])(?:{'|'.join(sorted(_ALIASES))})(?![a-z])", re.IGNORECASE)
_HUMP = re.compile(r"(?<![A-Za-z])(?:TFDS|T[Ff]|TB|H[Ff]|PIL|N[Pp]|Py)(?=[A-Z][a-z])")
_RUN = re.compile(rf"\b{MASK_WORD}(?:[.\s/_-]*{MASK_WORD})+", re.IGNORECASE)
_LETTERS = re.compile(r"[a-z]+")
_FIRST_PARTS = tuple(re.split("_", n)[0] for n in _NAMES)

_URL = re.compile(r"<?\b(?:https?|ftp)://[^\s>)\]]+>?|\bwww\.[^\s>)\]]+")
_MARKUP = re.compile(r":(?:[a-z]+:)?[a-z]+:(?=`)|``?")
_NO_WORD = re.compile(r"^[\W_\d]*$")
_TABLE = re.compile(r"^\s*[|+]|[|+]\s*$|\s\|\s.*\s\|\s")
_NEW_LINE = re.compile(r"^\s*(?:>>>|\.\.\.|[-*+•]\s|\d+[.)]\s|@|:\w|[`*\w.]+(?:\s*\([^)]*\))?\s*:)")
_CODE = re.compile(r"\s*(?:>>>|\.\.\.)")
# Versions and licences tell the library, not what the text is about.
_BOILERPLATE = re.compile(
    r"\s*(?:\.\. *(?:version|deprecated)\w*::|:?(?:copyright|license)\b)", re.IGNORECASE
)
_SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z\"'`(<\[])")
_WRAPPED_AT = 50


def mask_names(text: str) -> str:
    """Replaces the names, import names and usual aliases of libraries by one neutral word."""
    lowered = text.lower()
    # Most texts hold no name; plain searches see that far sooner than the patterns do.
    if any(part in lowered for part in _FIRST_PARTS):
        text = _NAME.sub(MASK_WORD, text)
    text = _HUMP.sub(MASK_WORD, text)
    if not _ALIASES.isdisjoint(_LETTERS.findall(lowered)):
        text = _ALIAS.sub(MASK_WORD, text)
    return _RUN.sub(MASK_WORD, text)


def clean_docstring(docstring: str) -> tuple[str, ...]:
    """Sentences, and lines of code, of a docstring, without URLs, markup, tables and rules."""
    blocks: list[str] = []
    previous = ""
    # An escape in a docstring may stand for half a character, which is no text.
    docstring = docstring.encode("utf-8", "replace").decode("utf-8")
    text = mask_names(_MARKUP.sub("", _URL.sub("", inspect.cleandoc(docstring))))
    for line in map(str.rstrip, text.splitlines()):
        if _NO_WORD.match(line) or _TABLE.search(line) or _BOILERPLATE.match(line):
            previous = ""
            continue
        # A long line that no new item follows was wrapped by its author.
        wrapped = len(previous) >= _WRAPPED_AT and previous[-1] != ":"
        if wrapped and not _NEW_LINE.match(line) and not _CODE.match(previous):
            blocks[-1] += " " + line.strip()
        else:
            blocks.append(line.strip())
        previous = line
    sentences = (" ".join(s.split()) for block in blocks for s in _SENTENCE_END.split(block))
    return tuple(s for s in sentences if not _NO_WORD.match(s))


def docstrings_of(source: str) -> Iterator[str]:
    """Docstrings of the module, classes and functions of one file's text, in order of line.

    Raises:
        SyntaxError, ValueError, RecursionError: the text is no Python that this Python can parse.
    """
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # invalid escapes in other people's files
        tree = ast.parse(source)
    pending: list[ast.AST] = [tree]
    while pending:
        node = pending.pop()
        if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
            docstring = ast.get_docstring(node, clean=False)
            if docstring:
                yield docstring
        if not isinstance(node, ast.expr):  # expressions hold no definitions: skip what is most
            pending.extend(reversed(list(ast.iter_child_nodes(node))))


def python_files(root: Path, top: str = "") -> list[str]:
    """Paths of the Python files of ``root/top``, sorted, relative to ``root``, without tests."""
    found = []
    for path in (root / top).rglob("*.py"):
        relative = path.relative_to(root)
        name = relative.name
        if _LEFT_OUT_FOLDERS.isdisjoint(relative.parts) and not (
            name.startswith("test_") or name.endswith("_test.py") or name == "conftest.py"
        ):
            found.append(relative.as_posix())
    return sorted(p for p in found if not p.startswith(_LEFT_OUT_PATHS))


def read_docstrings(
    site_packages: str | Path | None = None,
    standard_library: str | Path | None = None,
    libraries: Mapping[str, tuple[str, ...]] = LIBRARIES,
    verbose: bool = True,
) -> tuple[list[LabelledDocument], int]:
    """Reads all docstrings of the libraries and of the standard library.

    Order and content depend on the files alone, not on where they lie or how a folder lists them.

    Args:
        site_packages: folder of installed packages; by default those that Python imports from.
        standard_library: folder of the standard library; that of the running Python by default.
        libraries: label -> names of top-level packages; those not installed are passed over.
        verbose: whether to show a progress bar.

    Returns:
        The documents, duplicates included, and the number of files that could not be read or
        parsed.

    Raises:
        ValueError: a folder does not exist, or holds nothing to read.
    """
    installed = [p for p in map(Path, sys.path) if p.name in ("site-packages", "dist-packages")]
    roots = installed if site_packages is None else [Path(site_packages)]
    standard_library = Path(standard_library or sysconfig.get_paths()["stdlib"])
    for folder in (standard_library, *(roots if site_packages else ())):
        if not folder.is_dir():
            raise ValueError(f"No docstrings to read: {str(folder)!r} is not a folder.")
    files = []
    for label in sorted(libraries):
        for top in libraries[label]:
            root = next((r for r in roots if (r / top).is_dir()), None)
            files += [(root, label, p) for p in python_files(root, top)] if root else []
    files += [(standard_library, STANDARD_LIBRARY, p) for p in python_files(standard_library)]
    if not files:
        raise ValueError(f"No Python file in {[*map(str, roots)]} nor {str(standard_library)!r}.")
    bar = keras.utils.Progbar(len(files), verbose=int(verbose), unit_name="file", interval=0.5)
    documents, skipped = [], 0
    with _no_garbage_collection():
        for number, (root, label, path) in enumerate(files, 1):
            try:
                texts = _read_file(root / path)
            except (OSError, SyntaxError, ValueError, RecursionError):
                skipped += 1
                texts = []
            for lines in filter(None, map(clean_docstring, texts)):
                documents.append(LabelledDocument(path, label, lines))
            bar.update(number)
    return documents, skipped


@contextlib.contextmanager
def _no_garbage_collection() -> Iterator[None]:
    """Syntax trees have no cycles; looking for some is three quarters of the reading time."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _read_file(path: Path) -> list[str]:
    source = path.read_text(encoding="utf-8-sig")
    return list(docstrings_of(source)) if '"""' in source or "'''" in source else []
