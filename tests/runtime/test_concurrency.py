"""Threads, forks, processes and the kernels' cache: the same bits, and no failure that is not the caller's.

What compiles the package's own kernels runs in processes of its own with a cache of its own, on the two kernels that
compile soonest; how the cache is handled is tested on a kernel of one line.
"""

from __future__ import annotations

import contextvars
import copy
import errno
import functools
import os
import pickle
import shutil
import signal
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor

import numba
import numpy as np
import pytest

import calibrant
from calibrant import ReliabilityTable, expected_calibration_error
from calibrant.errors import InputError
from calibrant.kernels import compiled, dispatch
from calibrant.kernels.row_blocks import in_order
from calibrant.runtime import cached
from calibrant.runtime.cached import cached_property
from calibrant.sketch.totals import SketchSums
from tests.samples import sketch_of

#: Few resamples: what is tested is that they do not depend on threads and processes.
evaluate = functools.partial(calibrant.evaluate, n_resamples=70)


@functools.cache
def predictions(n=60_000, n_classes=5, dtype=np.float32, seed=0):
    rng = np.random.default_rng(seed)
    probs = rng.dirichlet(np.ones(n_classes), n).astype(dtype)
    return probs, rng.integers(0, n_classes, n), rng.random(n)


# ---------------------------------------------------------------- threads


@pytest.fixture(params=["probs", "logits", "weights", "float16", "event", "multilabel"])
def arguments(request):
    """Arguments of `evaluate`, large enough for several blocks."""
    probs, targets, weights = predictions(dtype=np.float16 if request.param == "float16" else np.float32)
    match request.param:
        case "logits":
            return (np.log(probs + 1e-6), targets), {"logits": True}
        case "weights":
            return (probs, targets), {"weights": weights}
        case "event":
            return (probs[:, 0].copy(), targets == 0), {}
        case "multilabel":
            return (probs, (probs > weights[:, None]).astype(np.int8)), {"notion": "multilabel"}
    return (probs, targets), {}


def test_any_number_of_threads_gives_the_same_bits(monkeypatch, arguments):
    args, options = arguments
    reports = []
    for threads in ("1", "2", "7"):
        monkeypatch.setenv("CALIBRANT_NUM_THREADS", threads)
        reports.append(evaluate(*args, **options).to_json())
    assert reports[1:] == reports[:1] * 2


@pytest.mark.parametrize("threads", [1, 2, 7])
def test_blocks_come_in_order_and_the_first_that_fails_is_the_error(monkeypatch, threads):
    monkeypatch.setenv("CALIBRANT_NUM_THREADS", str(threads))
    before = threading.active_count()
    seen = contextvars.ContextVar("seen", default="nothing")
    seen.set("the caller's")

    def work(block):
        time.sleep(0.005 * (1 + block % 3))
        if block in (20, 21, 25):
            raise ValueError(block)
        return block, threading.get_ident(), seen.get()

    blocks, workers, contexts = zip(*in_order(work, 15), strict=True)
    assert blocks == tuple(range(15))
    assert min(threads, 2) <= len(set(workers)) <= threads  # on a busy machine not all get a block
    assert set(contexts) == {"the caller's"}
    found = in_order(work, 60)
    assert [next(found)[0] for _ in range(20)] == list(range(20))
    with pytest.raises(ValueError, match="20"):
        next(found)
    assert threading.active_count() == before


def test_blocks_that_nobody_asks_for_are_not_worked_on(monkeypatch):
    monkeypatch.setenv("CALIBRANT_NUM_THREADS", "2")
    done = []

    def work(block):
        time.sleep(0.001)
        done.append(block)

    found = in_order(work, 1_000)
    next(found)
    found.close()
    assert 1 <= len(done) < 1_000
    n = len(done)
    time.sleep(0.02)
    assert len(done) == n, "no thread is left"


def test_two_threads_at_once_give_the_same_bits(monkeypatch):
    cases = [predictions(30_000, seed=seed)[:2] for seed in range(2)]
    cases += [(probs[:, 0].astype(np.float64), targets == 0) for probs, targets in cases]
    monkeypatch.setenv("CALIBRANT_NUM_THREADS", "1")
    expected = [evaluate(*case).to_json() for case in cases]
    monkeypatch.setenv("CALIBRANT_NUM_THREADS", "2")
    together = threading.Barrier(2)

    def work(order):
        together.wait()
        return {i: evaluate(*cases[i]).to_json() for i in order}

    with ThreadPoolExecutor(2) as pool:
        forward, backward = pool.map(work, [range(len(cases)), range(len(cases))[::-1]])
    assert [forward[i] for i in range(len(cases))] == expected
    assert [backward[i] for i in range(len(cases))] == expected


def test_no_thread_outlives_a_call(monkeypatch):
    monkeypatch.setenv("CALIBRANT_NUM_THREADS", "4")
    before = threading.active_count()
    evaluate(*predictions()[:2])
    assert threading.active_count() == before
    bad = predictions()[0].copy()
    bad[47_777, 0] = np.nan
    with pytest.raises(InputError, match="at row 47777, column 0"):
        evaluate(bad, predictions()[1])
    assert threading.active_count() == before


@pytest.mark.parametrize("wish", ["", "0", "-1", "two", "1.5", " 2"])
def test_a_bad_number_of_threads(monkeypatch, wish):
    monkeypatch.setenv("CALIBRANT_NUM_THREADS", wish)
    with pytest.raises(InputError) as caught:
        expected_calibration_error([0.5], [1])
    assert str(caught.value) == (
        f"CALIBRANT_NUM_THREADS: expected a positive integer, got {wish!r}; correct or unset this environment variable"
    )


# ---------------------------------------------------------------- processes


def start(code, **environment):
    env = {**os.environ, "CALIBRANT_NUM_THREADS": "2", **{key: str(value) for key, value in environment.items()}}
    return subprocess.Popen(
        [sys.executable, "-W", "error", "-c", code], env=env, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


def answer(process):
    out, err = process.communicate(timeout=120)
    assert process.returncode == 0, err
    assert err == ""
    return out


FORK = """
import multiprocessing, warnings
import numpy as np
import calibrant

def report():
    rng = np.random.default_rng(3)
    probs = rng.dirichlet(np.ones(3), 60_000).astype(np.float32)
    return calibrant.evaluate(probs, rng.integers(0, 3, 60_000), n_resamples=70).to_json()

def child(queue):
    queue.put(report())

if __name__ == "__main__":
    first = report() if HOT else None
    # Python 3.12 warns at a fork when the process has more than one thread, those of NumPy's BLAS included.
    warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
    context = multiprocessing.get_context("fork")
    queue = context.Queue()
    children = [context.Process(target=child, args=(queue,)) for _ in range(2)]
    for process in children:
        process.start()
    answers = [queue.get(timeout=60) for _ in children]
    for process in children:
        process.join(60)
    assert [process.exitcode for process in children] == [0, 0]
    assert answers[0] == answers[1] == report() == (first or answers[0])
    print("same")
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize("hot", [True, False], ids=["after the parent used it", "before"])
def test_use_after_fork(hot):
    assert answer(start(FORK.replace("HOT", str(hot)))) == "same\n"


MEASURE = """
import threading
import numpy as np
from calibrant.kernels import dispatch
rng = np.random.default_rng(4)
scores = rng.random(100_000).astype(np.{dtype})
outcomes = (rng.random(100_000) < scores).astype(np.uint8)
answers = []
def work():
    residuals, total, _ = dispatch.residuals(scores, outcomes, None)
    answers.append((total, *dispatch.residual_moments(scores, residuals, 3, 1.0)[0][:, 1].tolist()))
threads = [threading.Thread(target=work) for _ in range(2)]
for thread in threads:
    thread.start()
for thread in threads:
    thread.join()
print(set(answers))
"""
# Without this, Numba falls back from the named cache directory to the one beside the source, warm or not.
ALONE = {"NUMBA_CACHE_LOCATOR_CLASSES": "UserProvidedCacheLocator", "CALIBRANT_KERNELS": "numba"}


def expected_measure(dtype="float32"):
    """Return what a process with compiled kernels prints, computed with them here."""
    rng = np.random.default_rng(4)
    scores = rng.random(100_000).astype(dtype)
    outcomes = (rng.random(100_000) < scores).astype(np.uint8)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CALIBRANT_KERNELS", "numba")
        residuals, total, _ = dispatch.residuals(scores, outcomes, None)
        return f"{ {(total, *dispatch.residual_moments(scores, residuals, 3, 1.0)[0][:, 1].tolist())} }\n"


def files(folder, suffix):
    return sorted(path.name for path in folder.rglob(f"*{suffix}"))


@pytest.mark.slow
def test_processes_that_start_together_on_a_cold_cache(tmp_path):
    """Two types, two processes each, two threads in each, the names independent of Python's hash seed."""
    kinds = ["float32", "float64"] * 2
    started = [
        start(MEASURE.format(dtype=kind), NUMBA_CACHE_DIR=tmp_path, PYTHONHASHSEED=seed, **ALONE)
        for seed, kind in enumerate(kinds)
    ]
    assert [answer(process) for process in started] == [expected_measure(kind) for kind in kinds]
    indices, codes = files(tmp_path, ".nbi"), files(tmp_path, ".nbc")
    assert len(indices) == 4  # two kernels for each of two types
    assert codes == [name.replace(".nbi", ".1.nbc") for name in indices]
    assert files(tmp_path, "") == sorted([tmp_path.name, *(p.name for p in tmp_path.iterdir()), *indices, *codes][1:])
    stamps = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.nb?")}
    answer(start(MEASURE.format(dtype="float32"), NUMBA_CACHE_DIR=tmp_path, PYTHONHASHSEED=99, **ALONE))
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*.nb?")} == stamps  # it was found


@pytest.mark.slow
def test_a_cache_directory_that_is_none(tmp_path):
    (tmp_path / "file").write_text("in its place")
    process = start(MEASURE.format(dtype="float32"), NUMBA_CACHE_DIR=tmp_path / "file", **ALONE)
    assert answer(process) == expected_measure()


@pytest.mark.slow
def test_a_cache_directory_that_vanishes_after_import(tmp_path):
    own = tmp_path / "cache"
    code = f"""
import os, shutil
import numpy as np
from calibrant.kernels import dispatch
own = {str(own)!r}
def measure(dtype):
    print(dispatch.residuals(np.array([0.25, 0.5], dtype), np.array([0, 1], np.uint8), None)[1])
os.makedirs(own)
shutil.rmtree(own)
measure(np.float32)
assert os.listdir(own)  # made again
shutil.rmtree(own)
open(own, "w").close()
measure(np.float64)
measure(np.float32)
"""
    assert answer(start(code, NUMBA_CACHE_DIR=own, **ALONE)) == "0.25\n" * 3


@pytest.mark.slow
def test_torn_cache_files(tmp_path):
    code = MEASURE.format(dtype="float32")
    expected = answer(start(code, NUMBA_CACHE_DIR=tmp_path, **ALONE))
    whole = {path: path.stat().st_size for path in tmp_path.rglob("*.nb?")}
    index, data = sorted(tmp_path.rglob("*.nbi")), sorted(tmp_path.rglob("*.nbc"))
    assert len(index) == len(data) == 2
    index[0].write_bytes(b"")
    data[1].write_bytes(data[1].read_bytes()[:1000])
    assert answer(start(code, NUMBA_CACHE_DIR=tmp_path, **ALONE)) == expected
    mended = {path: path.stat().st_size for path in tmp_path.rglob("*.nb?")}
    assert {path: size for path, size in mended.items() if size > 1000}.keys() == whole.keys()


FORK_DURING_AN_IMPORT = """
import os, signal, sys, threading, time, warnings
import calibrant, calibrant.kernels.compiling

warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)

calibrant.__path__.append({folder!r})
thread = threading.Thread(target=__import__, args=("calibrant.slow",))
thread.start()
while "calibrant.slow" not in sys.modules:
    time.sleep(0.01)
child = os.fork()
if child == 0:
    signal.alarm(20)  # a child that waits for a lock of no thread is ended by this signal
    import calibrant.slow
    os._exit(0 if calibrant.slow.WHOLE else 1)
print(os.waitpid(child, 0)[1])
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_fork_during_an_import_of_another_thread(tmp_path):
    tmp_path.joinpath("slow.py").write_text("import time; time.sleep(1); WHOLE = True")
    assert answer(start(FORK_DURING_AN_IMPORT.format(folder=str(tmp_path)))) == "0\n"


FORK_DURING_A_FIRST_CALL = """
import os, signal, sys, threading, time, warnings
import numpy as np
import calibrant
from calibrant.kernels import dispatch

warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
rng = np.random.default_rng(3)
probs, targets = rng.dirichlet(np.ones(3), 300), rng.integers(0, 3, 300)

def rows():
    return calibrant.evaluate(probs, targets, n_resamples=70).to_json()

def sketch():
    sketch = calibrant.CalibrationSketch()
    sketch.update(probs, targets)
    return calibrant.evaluate(sketch, n_resamples=70).to_json()

def kernel():
    return repr([dispatch.residuals(probs[:, 0], (targets == 0).astype(np.uint8), None)])

if WARM:  # compiles the kernels onto the disk; otherwise every child would
    FIRST()
    raise SystemExit

first = []
thread = threading.Thread(target=lambda: first.append(FIRST()))
thread.start()
children = []
while thread.is_alive() and len(children) < 12:
    time.sleep(rng.uniform(0, 0.15))
    child = os.fork()
    if child == 0:
        signal.alarm(60)  # a child that waits for a lock of no thread is ended by this signal
        os._exit(0 if len(FIRST()) > 100 else 1)
    children.append(child)
    if len(children) % 3 == 0:  # the processors are few
        assert os.waitpid(child, 0)[1] == 0, "the child hung or failed"
        children[-1] = 0
thread.join()
ends = [os.waitpid(child, 0)[1] for child in children if child]
assert not any(ends), ends
assert first == [FIRST()]
print(len(children) > 0)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
@pytest.mark.parametrize(("call", "empty"), [("rows", False), ("sketch", False), ("kernel", True)])
def test_a_fork_during_the_first_call_of_another_thread(tmp_path, call, empty):
    environment = {"NUMBA_CACHE_DIR": tmp_path, **ALONE} if empty else {"CALIBRANT_KERNELS": "numba"}
    code = FORK_DURING_A_FIRST_CALL.replace("FIRST", call)
    if not empty:
        answer(start(code.replace("WARM", "True"), **environment))
    assert answer(start(code.replace("WARM", "False"), **environment)) == "True\n"


FORK_DURING_UPDATES = """
import os, signal, threading, time, warnings
import numpy as np
import calibrant

warnings.filterwarnings("ignore", "This process .* is multi-threaded", DeprecationWarning)
rng = np.random.default_rng(3)
probs, targets = rng.random(50), rng.integers(0, 2, 50)
groups, clusters = np.arange(50) % 2, np.arange(50) // 2
sketch, other, over = calibrant.CalibrationSketch(), calibrant.CalibrationSketch(), threading.Event()

def work(sketch):
    while not over.is_set():
        sketch.update(probs, targets, groups=groups, clusters=clusters)

def child():
    signal.alarm(20)  # a child that waits for a lock of no thread is ended by this signal
    n = sketch.n
    sketch.update(probs, targets, groups=groups, clusters=clusters)
    both = sketch + other
    whole = n % 50 == 0 and sketch.n == n + 50 == sum(group.n for group in sketch.groups.values())
    os._exit(0 if whole and both.n == sketch.table.total + other.n == both.table.total else 1)

sketch.update(probs, targets, groups=groups, clusters=clusters)
other.update(probs, targets, groups=groups, clusters=clusters)
threads = [threading.Thread(target=work, args=(each,)) for each in (sketch, sketch, other)]
for thread in threads:
    thread.start()
ends = []
for _ in range(FORKS):
    time.sleep(rng.uniform(0, 0.01))
    pid = os.fork()
    if pid == 0:
        child()
    ends.append(os.waitpid(pid, 0)[1])
over.set()
for thread in threads:
    thread.join()
assert not any(ends), ends
print(sketch.n == sketch.table.total)
"""


@pytest.mark.slow
@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_fork_while_other_threads_update_a_sketch_has_whole_sums():
    """Threads of BLAS are another matter (docs/large-data.md): one thread here."""
    code = FORK_DURING_UPDATES.replace("FORKS", "40")
    assert answer(start(code, OPENBLAS_NUM_THREADS="1")) == "True\n"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no fork here")
def test_a_fork_waits_for_an_update_that_is_under_way(monkeypatch):
    """The thread that adds signals when it holds the lock, and adds a little later."""
    held, adds = threading.Event(), SketchSums.add

    def slowly(self, other):
        held.set()
        time.sleep(0.2)
        return adds(self, other)

    sketch = sketch_of([0.2, 0.8], [0, 1])
    monkeypatch.setattr(SketchSums, "add", slowly)
    thread = threading.Thread(target=sketch.update, args=([0.2, 0.8], [0, 1]))
    thread.start()
    held.wait(20)
    child = os.fork()
    if child == 0:
        signal.alarm(10)
        os._exit(sketch.n)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 4
    thread.join()


@pytest.mark.covering
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
@pytest.mark.parametrize("kind", ["empty", "event", "weights", "classes", "groups", "clusters"])
def test_sketches_go_through_every_protocol(kind, protocol):
    probs, targets, weights = predictions(n=200)
    sketch = calibrant.CalibrationSketch(classwise=kind == "classes", class_names=list("abcde"))
    extra = {"weights": weights} if kind == "weights" else {}
    extra |= {kind: np.arange(200) // 50} if kind in ("groups", "clusters") else {}
    if kind != "empty":
        sketch.update(probs, targets, **extra)
    other = pickle.loads(pickle.dumps(sketch, protocol))
    assert other == sketch == copy.deepcopy(sketch)
    other.update(probs, targets, **extra)
    assert other.n == sketch.n + 200
    assert {name: group.n for name, group in sketch.groups.items()} == (
        {} if kind != "groups" else dict.fromkeys("0123", 50)
    )


def test_no_class_refuses_the_oldest_protocols():
    """Protocols 0 and 1 refuse slots without a ``__getstate__``."""
    for module in [module for name, module in sys.modules.items() if name.startswith("calibrant")]:
        for kind in [value for value in vars(module).values() if isinstance(value, type)]:
            if kind.__module__.startswith("calibrant") and getattr(kind, "__slots__", ()):
                assert kind.__getstate__ is not object.__getstate__, kind


def test_a_property_is_computed_once_and_holds_no_lock():
    class Slow:
        calls = 0

        @cached_property
        def value(self):
            """What it is."""
            self.calls += 1
            return [self.calls]

    slow = Slow()
    assert slow.value is slow.value
    assert slow.value == [1]
    assert Slow.value.__doc__ == "What it is."
    together = threading.Barrier(2, timeout=20)

    class Pair:
        @cached_property
        def value(self):
            together.wait()  # two objects at the same time
            return id(self)

    pairs = Pair(), Pair()
    with ThreadPoolExecutor(2) as threads:
        both = list(threads.map(lambda pair: pair.value, pairs))
    assert both == [id(pair) for pair in pairs]


# ---------------------------------------------------------------- the handling of the cache


def double(values, out):
    for i in range(values.shape[0]):
        out[i] = 2 * values[i]


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """A cache directory of Numba's for this test alone."""
    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    monkeypatch.setattr(numba.config, "CACHE_LOCATOR_CLASSES", "UserProvidedCacheLocator", raising=False)  # Numba 0.62
    return tmp_path


def doubled(own, dtype=np.float64):
    out = np.zeros(3, dtype)
    own(np.arange(3, dtype=dtype), out)
    return out.tolist()


def fresh():
    """As in a new process: a kernel that has compiled nothing."""
    return compiled.kernel()(double)


def test_a_variant_has_files_of_its_own(folder):
    own = fresh()
    for count, dtype in enumerate((np.float32, np.float64, np.int8), start=1):
        assert doubled(own, dtype) == [0, 2, 4]
        assert len(files(folder, ".nbi")) == len(files(folder, ".1.nbc")) == count
    readonly = np.ones(3)
    readonly.flags.writeable = False
    own(readonly, np.zeros(3))
    assert len(files(folder, ".nbi")) == 4
    own(np.ones(6)[:3], np.zeros(3))  # of the same type, though of other flags
    assert len(files(folder, ".nbi")) == 4
    assert files(folder, ".2.nbc") == []
    doubled(compiled.kernel(reassociate=True)(double))
    assert len(files(folder, ".nbi")) == 5


def test_a_variant_is_found_again(folder, monkeypatch):
    assert doubled(fresh()) == [0, 2, 4]
    stamps = {path: path.stat().st_mtime_ns for path in folder.rglob("*.nb?")}
    assert doubled(fresh()) == [0, 2, 4]
    assert {path: path.stat().st_mtime_ns for path in folder.rglob("*.nb?")} == stamps
    monkeypatch.setattr(compiled, "_platform", lambda: "another processor, or another source")
    assert doubled(fresh()) == [0, 2, 4]
    assert len(files(folder, ".nbi")) == 2


def is_whole(path, torn):
    """Whether a torn file was replaced by a longer one that is then left as it is.

    Not its very size: Numba numbers the functions of a process, and the numbers' digits are in the file.
    """
    written = path.read_bytes()
    assert doubled(fresh()) == [0, 2, 4]
    return len(written) > len(torn) and path.read_bytes() == written


def torn():
    """Names of faults, and what they make of the bytes of a file: other bytes, or a share of them."""
    yield "empty", b""
    yield "text", b"not a pickle at all"
    yield "of another shape", pickle.dumps(numba.__version__) + pickle.dumps([1, 2, 3])
    yield "of an unknown class", pickle.dumps(numba.__version__) + b"cno_such_module\nThing\n."
    yield "of an unknown attribute", b"cnumpy\nno_such_thing\n."
    yield "a number", pickle.dumps(3)
    yield from ((f"{share} of it", share) for share in (0.1, 0.5, 0.99))


@pytest.mark.covering
@pytest.mark.parametrize("content", [pytest.param(content, id=name) for name, content in torn()])
@pytest.mark.parametrize("suffix", [".nbi", ".nbc"])
def test_a_torn_file_is_written_again(folder, suffix, content):
    doubled(fresh())
    (path,) = folder.rglob(f"*{suffix}")
    if isinstance(content, float):
        content = path.read_bytes()[: int(content * path.stat().st_size)]
    path.write_bytes(content)
    assert doubled(fresh()) == [0, 2, 4]
    assert is_whole(path, content)


@pytest.mark.parametrize("suffix", [".nbi", ".nbc"])
def test_a_missing_file_is_written_again(folder, suffix):
    doubled(fresh())
    (path,) = folder.rglob(f"*{suffix}")
    path.unlink()
    assert doubled(fresh()) == [0, 2, 4]
    assert path.exists()


@pytest.mark.parametrize("suffix", [".nbi", ".nbc"])
def test_a_directory_in_the_place_of_a_file(folder, suffix):
    doubled(fresh())
    (path,) = folder.rglob(f"*{suffix}")
    path.unlink()
    path.mkdir()
    assert doubled(fresh()) == [0, 2, 4]


def full(*_):
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk(folder, monkeypatch):
    monkeypatch.setattr(os, "replace", full)
    own = fresh()
    assert doubled(own) == [0, 2, 4]
    assert doubled(own, np.float32) == [0, 2, 4]
    assert files(folder, ".nb?") == []


def test_no_directory_to_write_to(folder, monkeypatch):
    shutil.rmtree(folder)
    folder.write_text("a file in its place")
    assert doubled(fresh()) == [0, 2, 4]
    monkeypatch.setattr(numba.config, "CACHE_DIR", "")
    assert doubled(fresh()) == [0, 2, 4]


@pytest.mark.usefixtures("folder")
def test_a_fault_of_the_kernel_is_not_hidden():
    with pytest.raises(numba.TypingError):
        fresh()(np.zeros(3, complex), np.zeros(3))


@pytest.mark.usefixtures("folder")
def test_threads_of_a_first_call_compile_once(monkeypatch):
    own, calls = fresh(), []
    plain = own._compile
    monkeypatch.setattr(own, "_compile", lambda signature: calls.append(signature) or plain(signature))
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(lambda _: doubled(own), range(32))) == [[0, 2, 4]] * 32
    assert len(calls) == 1


def test_a_kernel_runs_uncompiled_where_numba_is_told_so(folder, monkeypatch):
    monkeypatch.setattr(numba.config, "DISABLE_JIT", True)
    assert doubled(fresh()) == [0, 2, 4]
    assert files(folder, ".nbi") == []


def test_the_reference_of_a_kernel_runs_where_numba_is_told_so(monkeypatch):
    from calibrant.kernels import host, host_tables

    monkeypatch.setattr(numba.config, "DISABLE_JIT", True)
    for module in (host, host_tables):
        kernels = {name: value for name, value in vars(module).items() if isinstance(value, compiled.Compiled)}
        assert kernels
        for name, own in kernels.items():
            readable = own._compile(())
            assert readable.__name__ == name
            assert readable.__module__.startswith("calibrant.kernels.reference")


def test_a_kernel_is_named_and_documented():
    from calibrant.kernels import host

    assert host.read_probs.__name__ == "read_probs"
    assert "reference.read_probs" in host.read_probs.__doc__


# ---------------------------------------------------------------- pickles


@pytest.mark.parametrize("again", [lambda x: pickle.loads(pickle.dumps(x)), copy.deepcopy], ids=["pickle", "copy"])
def test_results_travel(again):
    probs, targets, weights = predictions(200)
    for report in (evaluate(probs, targets, class_names=list("abcde")), evaluate([0.0], [1])):
        same = again(report)
        assert type(same) is calibrant.Report
        assert same.to_json() == report.to_json()
        assert str(same) == str(report)
        assert again(report["ece"]) == report["ece"]
    for options in ({}, {"weights": weights}, {"grid": "standard"}):
        table = ReliabilityTable.from_scores(probs[:, 0], targets == 0, **options)
        same = again(table)
        assert evaluate(same).to_json() == evaluate(table).to_json()
        assert (same.n, same.grid) == (table.n, table.grid)
        assert evaluate(same + table).to_json() == evaluate(table + table).to_json()
    for result in (
        calibrant.reliability_diagram(probs, targets),
        calibrant.classwise_calibration(probs, targets),
        calibrant.score_decomposition(probs, targets),
    ):
        same = again(result)
        for name in result.__dataclass_fields__:
            np.testing.assert_equal(getattr(same, name), getattr(result, name))


class Kept(cached.Memo):
    """An object that counts how often a part of it is computed."""

    def __init__(self) -> None:
        self.computed = 0


def part_of(kept: Kept) -> object:
    kept.computed += 1
    return object()


def test_a_part_is_computed_once_and_left_out_of_pickles() -> None:
    kept = Kept()
    part = kept.of(part_of)
    assert kept.of(part_of) is part
    copied = pickle.loads(pickle.dumps(kept))
    assert (kept.computed, copied.computed, "_parts" in vars(copied)) == (1, 1, False)
    assert copied.of(part_of) is not part
    kept = Kept()
    with ThreadPoolExecutor(8) as pool:
        assert len(set(map(id, pool.map(lambda _: kept.of(part_of), range(64))))) == 1
