"""Maps and curves of memory: addresses over time, capacity, a grid of two numbers, lost time."""

import base64
import struct
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kvtwin import simulate
from reports.build import render
from reports.charts import charts
from reports.figures.address_map import SCALE, address_map
from reports.figures.waterfall import lives
from reports.grid import find_grid
from reports.load import Run, load_runs
from reports.png import as_link
from sim.policy.counting.address import FirstFit
from sim.policy.counting.stretches import held
from sim.run.folder import write_run
from sim.run.simulation import execute, prepare
from tests.reports.synthetic import PAGING, write_folder


def pixels(link: str) -> np.ndarray:
    """(height, width, 4) of a PNG without filters, as RFC 2083 lays it out."""
    content = base64.b64decode(link.removeprefix("data:image/png;base64,"))
    assert content[:8] == b"\x89PNG\r\n\x1a\n"
    width, height = struct.unpack(">II", content[16:24])
    at, packed = 8, b""
    while at < len(content):
        (size,) = struct.unpack(">I", content[at : at + 4])
        kind, body = content[at + 4 : at + 8], content[at + 8 : at + 8 + size]
        assert struct.unpack(">I", content[at + 8 + size : at + 12 + size])[0] == zlib.crc32(
            kind + body
        )
        packed += body if kind == b"IDAT" else b""
        at += 12 + size
    rows = np.frombuffer(zlib.decompress(packed), np.uint8).reshape(height, 1 + 4 * width)
    assert not rows[:, 0].any()
    return rows[:, 1:].reshape(height, width, 4)


def test_a_picture_reads_back() -> None:
    picture = np.arange(2 * 3 * 4, dtype=np.uint8).reshape(2, 3, 4)
    assert (pixels(as_link(picture)) == picture).all()


def test_held_stretches_by_hand() -> None:
    """Of 12 units, 0 to 5 and 8 to 10 are held: thirds of 4 hold 4, 2 and 3 of them."""
    space = FirstFit(12)
    assert [space.allocate(units) for units in (6, 2, 3)] == [0, 6, 8]
    space.release(6, 2)
    holes = space.holes()
    assert held([2], holes, 12, 3).tolist() == [[1.0, 0.5, 0.75]]
    assert held([2], holes, 12, 1).tolist() == [[0.75]]
    assert held([2], holes, 12, 24).tolist() == [[1.0] * 12 + [0.0] * 4 + [1.0] * 6 + [0.0] * 2]
    # three samples: all free, nothing free, and the above
    shares = held([1, 0, 2], [(0, 12), *holes], 12, 3).tolist()
    assert shares == [[0.0] * 3, [1.0] * 3, [1.0, 0.5, 0.75]]


@pytest.fixture(scope="module")
def growing(tmp_path_factory: pytest.TempPathFactory) -> Run:
    """A run under pressure whose buffers are contiguous."""
    setup = prepare("azure-2023-conv", model="llama-2-13b", gpu="a100-40gb", first=120,
                    request_rate=3.0, policy="growing")  # fmt: skip
    folder = tmp_path_factory.mktemp("runs") / "growing"
    folder.mkdir()
    write_run(execute(setup), folder, "kvtwin simulate")
    return load_runs([folder])[0]


def test_the_map_is_what_was_held(growing: Run) -> None:
    """What isn't held is free or external, as the timeline has it to the byte."""
    assert growing.held is not None
    line, capacity = growing.timeline, growing.info.pool.capacity_bytes
    held = growing.held.mean(axis=1) / 255
    counted = 1 - (line["free_bytes"] + line["external_bytes"]) / capacity
    assert held == pytest.approx(counted, abs=0.5 / 255)
    figure, table = address_map([growing])
    (picture,) = figure.layout.images
    drawn = pixels(picture.source)
    first = drawn[::-SCALE, 0, 3]  # of the first sample, from the lowest address
    assert (first == growing.held[0]).all()
    assert len(table.rows) == 8


def test_paging_has_no_map_and_says_why(tmp_path: Path, growing: Run) -> None:
    run = simulate("azure-2023-conv", model="llama-2-13b", gpu="a100-40gb", first=20,
                   policy="paging")  # fmt: skip
    assert not len(run.log.held)
    page = render([growing])
    assert 'id="address-map"' in page
    assert "any free block serves a paged request" in page


def test_time_lost_to_preemption_tiles_the_gaps() -> None:
    """Between a request's last token before and its next after a preemption it is away, then
    recomputed: together the gaps that the recorder keeps, however often it was preempted."""
    run = simulate("azure-2023-conv", model="llama-2-13b", gpu="a100-40gb", first=200,
                   request_rate=3.0, policy="paging")  # fmt: skip
    requests = run.log.requests
    assert requests["preemptions"].sum() > 20
    lost = requests["preempted_s"] + requests["recomputing_s"]
    assert lost.sum() == pytest.approx(run.log.resume_gaps_s.sum())
    assert (lost[requests["preemptions"] == 0] == 0).all()
    assert (requests["preempted_s"] > 0).sum() > 5
    assert (requests["recomputing_s"] > 0).sum() > 5


def test_a_life_adds_up(growing: Run) -> None:
    table = growing.requests
    for life in lives(growing):
        whole = table["finish_s"][life.request] - table["arrival_s"][life.request]
        parts = life.queued + life.prefill + life.decode + life.preempted + life.recomputing
        assert parts == pytest.approx(whole)
        assert min(life.queued, life.prefill, life.decode, life.preempted) >= 0


def test_the_capacity_curve_is_what_fits(growing: Run) -> None:
    """10.64 GiB hold 13,946 tokens of 819,200 B: three requests of 4,096, and 6 of 8 bits."""
    curves = {curve.label: dict(curve.points) for curve in growing.info.capacity}
    tokens = growing.info.pool.capacity_bytes // 819_200
    assert curves["growing, auto"] == {n: tokens // n for n in (1024, 2048, 4096)}
    assert curves["growing, fp8"] == {n: 2 * tokens // n for n in (1024, 2048, 4096)}
    assert curves["growing, auto"][4096] == 3


def test_two_numbers_are_a_grid(tmp_path: Path) -> None:
    """A request takes some 10 s, so 7 at once serve 0.7 a second, and 24 serve 2.4."""
    runs = []
    for servers in (7, 24):
        for rate in (0.2, 1.0):
            spec = replace(PAGING, name="paging", servers=servers, rate=rate)
            limits = {"max_num_seqs": servers, "max_model_len": 2048}
            runs.append(write_folder(tmp_path / f"{servers}-{rate}", spec, {"limits": limits}))
    loaded = load_runs(runs)
    grid = find_grid(loaded)
    assert grid is not None
    assert (grid.across.name, grid.up.name) == ("request rate", "max_num_seqs")
    drawn = next(chart for chart in charts(loaded, None) if chart.id == "grid")
    assert drawn.table is not None
    load = {(row[2], row[1][:3].strip()): row[3] for row in drawn.table.rows}
    assert sorted(load.values()) == ["falls behind", "keeps up", "keeps up", "keeps up"]
    assert [key[0] for key, said in load.items() if said == "falls behind"] == ["7"]
    page = render(loaded)
    assert "What varies: request rate and max_num_seqs" in page
    assert find_grid(loaded[:3]) is None
