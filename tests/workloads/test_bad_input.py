"""Input no simulation may take: one line that names file, row, field, value and expectation."""

import gzip
import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from workloads import InputError, read_trace

AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens\n"
OWN = "arrival_s,prompt_tokens,output_tokens\n"
BLOCKS = "arrival_s,prompt_tokens,output_tokens,block_tokens,hash_ids\n"
GOOD = '{"arrival_s": 0, "prompt_tokens": 1, "output_tokens": 1}\n'
MOON = '{"timestamp": 0, "input_length": 513, "output_length": 1, "hash_ids": [1, 2]}\n'
STAMP = "2023-11-16 18:17:03.9799600"

BAD: dict[str, tuple[str | bytes, str]] = {
    "empty file": ("", "is empty"),
    "blank file": ("\n\n", "is empty"),
    "header only": (OWN, "has no rows"),
    "header without newline": (OWN.strip(), "has no rows"),
    "binary": (b"\x00\x01\x02", "neither text nor Parquet"),
    "not UTF-8": (b"arrival_s,prompt\xff_tokens\n", "is not UTF-8 text"),
    "not UTF-8 in a row": (OWN.encode() + b"0,1,1\n\xff,1,1\n", "is not UTF-8 text"),
    "JSON array of nothing": ("[{}]", "has no rows with any field"),
    "pretty JSON": (
        '{\n"arrival_s": 1}',
        "expected JSON Lines, or a JSON document that holds a list",
    ),
    "JSON cut short": ('{"arrival_s": 1', "not JSON: "),
    "damaged gzip": (gzip.compress(OWN.encode() * 99)[:30], "damaged or unreadable"),
    "damaged Parquet": (b"PAR1 and no more", "damaged or unreadable"),
    "other columns": (
        "a,b\n1,2\n",
        "no known trace format has these columns: 'a', 'b'. --columns arrival=NAME:UNIT,"
        "prompt=NAME,output=NAME reads any (docs/traces.md). Formats and the columns they need: "
        "kvtwin: arrival_s, prompt_tokens, output_tokens; azure: TIMESTAMP",
    ),
    "column twice": (
        "arrival_s,prompt_tokens,output_tokens,prompt_tokens\n0,1,1,1\n",
        "the column 'prompt_tokens' is there 2 times",
    ),
    "short row": (OWN + "0,1,1\n1,2\n", "line 3: has 2 fields, expected 3 as in the header"),
    "long row": (OWN + "0,1,1,4\n", "line 2: has 4 fields, expected 3"),
    "empty field": (
        OWN + "0,1,1\n0,,1\n",
        "line 3: prompt_tokens is missing, expected a whole number >= 1",
    ),
    "null": (OWN + "0,1,null\n", "line 2: output_tokens is 'null', expected a whole number >= 0"),
    "NaN tokens": (OWN + "0,nan,1\n", "line 2: prompt_tokens is 'nan'"),
    "NaN arrival": (OWN + "nan,1,1\n", "line 2: arrival_s is 'nan', expected a finite number >= 0"),
    "infinite arrival": (OWN + "inf,1,1\n", "line 2: arrival_s is 'inf'"),
    "infinite tokens": (OWN + "0,inf,1\n", "line 2: prompt_tokens is 'inf'"),
    "negative arrival": (OWN + "0,1,1\n-0.5,1,1\n", "line 3: arrival_s is '-0.5'"),
    "negative prompt": (OWN + "0,-1,1\n", "line 2: prompt_tokens is -1, expected a whole number"),
    "negative output": (
        OWN + "0,1,-1\n",
        "line 2: output_tokens is -1, expected a whole number >=",
    ),
    "zero prompt": (OWN + "0,0,1\n", "line 2: prompt_tokens is 0, expected a whole number >= 1"),
    "fraction": (OWN + "0,1.5,1\n", "line 2: prompt_tokens is '1.5', expected a whole number >= 1"),
    "too large": (OWN + f"0,{1 << 63},1\n", "line 2: prompt_tokens is '9223372036854775808'"),
    "line numbers skip no blank line": (
        OWN + "\n\n0,1,1\n\n0,x,1\n",
        "line 6: prompt_tokens is 'x'",
    ),
    "all dropped": (OWN + "0,1,0\n1,2,0\n", "no usable request among 2 rows: 2 zero output tokens"),
    "no time": (
        AZURE + "yesterday,1,1\n",
        "line 2: TIMESTAMP is 'yesterday', expected a time like",
    ),
    "no such day": (AZURE + "2023-02-30 00:00:00,1,1\n", "line 2: TIMESTAMP is '2023-02-30"),
    "no such hour": (AZURE + "2023-02-20 25:00:00,1,1\n", "line 2: TIMESTAMP is '2023-02-20 25"),
    "ten digits": (AZURE + "2023-02-20 05:00:00.0123456789,1,1\n", "line 2: TIMESTAMP is"),
    "missing time": (AZURE + ",1,1\n", "line 2: TIMESTAMP is missing"),
    "mixed clocks": (
        AZURE + f"{STAMP},1,1\n{STAMP}+00:00,1,1\n",
        "line 3: mixed clocks: TIMESTAMP is '2023-11-16 18:17:03.9799600+00:00', with a UTC offset,"
        " expected one without, as on line 2",
    ),
    "mixed clocks, offset first": (
        AZURE + f"{STAMP}Z,1,1\n{STAMP},1,1\n",
        "line 3: mixed clocks: TIMESTAMP is '2023-11-16 18:17:03.9799600', without a UTC offset,"
        " expected one with, as on line 2",
    ),
    "JSON null": (
        GOOD + GOOD.replace('"prompt_tokens": 1', '"prompt_tokens": null'),
        "line 2: prompt_tokens is missing",
    ),
    "JSON key missing": (
        GOOD + '{"arrival_s": 0, "output_tokens": 1}',
        "line 2: prompt_tokens is missing",
    ),
    "JSON text": (
        GOOD.replace('"prompt_tokens": 1', '"prompt_tokens": "1"'),
        "line 1: prompt_tokens",
    ),
    "JSON bool": (GOOD.replace(": 1", ": true"), "line 1: prompt_tokens is True"),
    "JSON float": (GOOD.replace(": 1", ": 1.5"), "line 1: prompt_tokens is 1.5"),
    "JSON NaN": (GOOD.replace(": 0", ": NaN"), "line 1: not JSON: NaN is no number"),
    "JSON arrival beyond all floats": (
        GOOD + GOOD.replace(": 0", f": 1{'0' * 400}"),
        "line 2: not JSON: a number of 401 digits",
    ),
    "JSON number beyond all integers": (
        GOOD + GOOD.replace(": 1", f": {'9' * 5000}"),
        "line 2: not",
    ),
    "number beyond all integers": (OWN + f"0,{'9' * 5000},1\n", "line 2: prompt_tokens is '999"),
    "long field": (BLOCKS + f"0,1,1,16,{'5' * 200_000}\n", "line 2: hash_ids is '555"),
    "blank beyond ASCII": ("\u00a0\n\u2028\n", "is empty"),
    "year beyond nanoseconds": (AZURE + "2300-01-01 00:00:00,1,1\n", "line 2: TIMESTAMP is '2300"),
    "hexadecimal": (OWN + "0,0x10,1\n", "line 2: prompt_tokens is '0x10', expected a whole"),
    "date alone": (AZURE + "2023-11-16,1,1\n", "line 2: TIMESTAMP is '2023-11-16', expected a"),
    "key twice": (GOOD.replace("}", ', "prompt_tokens": 2}'), "line 1: not JSON: the key 'prompt"),
    "deep JSON": (GOOD + "[" * 5000 + "\n", "line 2: not JSON: nested too deep"),
    "JSON cut": (GOOD + GOOD[:20], "line 2: not JSON"),
    "JSON list between": (GOOD + "[1]\n", "line 2: is [1], expected a JSON object"),
    "too few blocks": (
        MOON + MOON.replace("[1, 2]", "[1]"),
        "line 2: hash_ids has 1 ids, expected 2: 513 prompt tokens in blocks of 512",
    ),
    "too many blocks": (MOON.replace("513", "512"), "line 1: hash_ids has 2 ids, expected 1"),
    "no blocks": (MOON + MOON.replace("[1, 2]", "null"), "line 2: hash_ids is missing"),
    "null block": (MOON.replace("[1, 2]", "[1, null]"), "line 1: hash_ids is missing"),
    "text block": (MOON.replace("[1, 2]", '["a", "b"]'), "line 1: hash_ids is 'a'"),
    "blocks of no size": (
        "arrival_s,prompt_tokens,output_tokens,hash_ids\n0,1,1,5\n",
        "the column 'hash_ids' needs the column 'block_tokens'",
    ),
    "blocks of zero": (
        BLOCKS + "0,1,1,0,5\n",
        "line 2: block_tokens is 0, expected a whole number",
    ),
    "blocks of two sizes": (
        BLOCKS + "0,1,1,16,5\n0,1,1,32,5\n",
        "line 3: block_tokens is 32, expected 16, as on line 2",
    ),
    "CSV blocks too few": (BLOCKS + "0,17,1,16,5\n", "line 2: hash_ids has 1 ids, expected 2"),
    "CSV blocks not numbers": (BLOCKS + "0,17,1,16,5 x\n", "line 2: hash_ids is 'x'"),
}


def refusal(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        read_trace(path)
    message = str(caught.value)
    assert message.startswith(f"{path}: ")
    assert "\n" not in message
    return message.removeprefix(f"{path}: ")


@pytest.mark.parametrize("case", BAD)
def test_text(tmp_path: Path, case: str) -> None:
    content, expected = BAD[case]
    path = tmp_path / "file"
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    assert refusal(path).startswith(expected)


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ({"prompt_tokens": [1, None]}, "row 2: prompt_tokens is missing, expected a whole number"),
        ({"prompt_tokens": [1, 0]}, "row 2: prompt_tokens is 0"),
        ({"prompt_tokens": [1.0, 2.5]}, "row 2: prompt_tokens is 2.5"),
        ({"prompt_tokens": ["1", "2"]}, "row 1: prompt_tokens is '1'"),
        ({"arrival_s": [0.0, float("nan")]}, "row 2: arrival_s is nan"),
        ({"arrival_s": [0.0, float("inf")]}, "row 2: arrival_s is inf"),
        ({"arrival_s": [0.0, None]}, "row 2: arrival_s is missing"),
        ({"output_tokens": [1, -2]}, "row 2: output_tokens is -2"),
        ({"block_tokens": [1, 1], "hash_ids": [[1], [1, 2]]}, "row 2: hash_ids has 2 ids"),
        ({"block_tokens": [1, 1], "hash_ids": [[1], None]}, "row 2: hash_ids is missing"),
        ({"block_tokens": [1, 2], "hash_ids": [[1], [1]]}, "row 2: block_tokens is 2, expected 1"),
    ],
)
def test_parquet(tmp_path: Path, columns: dict[str, list[object]], expected: str) -> None:
    good = {"arrival_s": [0.0, 1.0], "prompt_tokens": [1, 1], "output_tokens": [1, 1]}
    pq.write_table(pa.table(good | columns), tmp_path / "file")
    assert refusal(tmp_path / "file").startswith(expected)


def test_empty_parquet(tmp_path: Path) -> None:
    table = pa.table({"arrival_s": [0.0], "prompt_tokens": [1], "output_tokens": [1]})
    pq.write_table(table.slice(0, 0), tmp_path / "file")
    assert refusal(tmp_path / "file").startswith("has no rows")


def test_no_such_file_lists_the_names(tmp_path: Path) -> None:
    message = refusal(tmp_path / "azure")
    assert message.startswith("no such file, nor a shipped trace; those are: azure-2023-conv, ")


def test_a_folder(tmp_path: Path) -> None:
    assert refusal(tmp_path).startswith("holds no .json file")


def test_block_size_of_zero() -> None:
    with pytest.raises(InputError, match="block_tokens is 0, expected a whole number >= 1"):
        read_trace("mooncake-synthetic", block_tokens=0)


CELLS = ["0", "1", "7", "-1", "-0", "1.0", "2.5", "1e3", "+4", " 5 ", "", "nan", "inf", "x", "1_0"]
CELLS += [
    "NULL",
    "NA",
    "9223372036854775807",
    "9223372036854775808",
    '"6"',
    "true",
    "1e999",
    "[]",
    "1.",
    ".5",
    "1e",
    "٣",
]


FINITE = {"0", "1", "7", "-0", "1.0", "2.5", "1e3", "+4", " 5 ", '"6"', "1.", ".5"}
FINITE |= {"9223372036854775807", "9223372036854775808"}
WHOLE = {"0", "1", "7", "-0", "1.0", "1.", " 5 ", '"6"', "9223372036854775807"}


rows_of_cells = st.lists(
    st.tuples(*[st.one_of(st.just("1"), st.sampled_from(CELLS))] * 3), min_size=1, max_size=4
)


def check_csv(path: Path, rows: list[tuple[str, ...]]) -> None:
    def is_good(arrival: str, prompt: str, output: str) -> bool:
        return arrival in FINITE and prompt in WHOLE - {"0", "-0"} and output in WHOLE

    path.write_text(OWN + "".join(",".join(row) + "\n" for row in rows))
    good = [is_good(*row) for row in rows]
    if not all(good):
        assert refusal(path).startswith(f"line {good.index(False) + 2}: ")
    elif all(row[2] in {"0", "-0"} for row in rows):
        assert refusal(path).startswith("no usable request")
    else:
        trace = read_trace(path)
        assert len(trace) + sum(trace.provenance.dropped.values()) == len(rows)
        assert (trace.arrival_s[1:] >= trace.arrival_s[:-1]).all()
        assert trace.arrival_s[0] == 0


@pytest.mark.parametrize("cell", CELLS)
def test_csv_cell(tmp_path: Path, cell: str) -> None:
    for column in range(3):
        row = ["1", "1", "1"]
        row[column] = cell
        check_csv(tmp_path / "file", [tuple(row)])


@settings(deadline=None, derandomize=True, max_examples=100)
@given(rows_of_cells)
def test_csv_is_taken_whole_or_refused_at_its_first_bad_row(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[str, ...]]
) -> None:
    check_csv(tmp_path_factory.mktemp("csv") / "file", rows)


VALUES: list[object] = [
    0,
    1,
    7,
    -1,
    1.0,
    2.5,
    None,
    "1",
    True,
    [],
    [1],
    {},
    float("nan"),
    float("inf"),
    1 << 63,
]


@settings(deadline=None, derandomize=True, max_examples=150)
@given(
    st.lists(
        st.tuples(*[st.one_of(st.just(1), st.sampled_from(VALUES))] * 3), min_size=1, max_size=3
    )
)
def test_json_is_taken_whole_or_refused_at_its_first_bad_row(
    tmp_path_factory: pytest.TempPathFactory, rows: list[tuple[object, object, object]]
) -> None:
    def is_whole(value: object, least: int) -> bool:
        whole = type(value) is int or (isinstance(value, float) and value.is_integer())
        return whole and least <= value < 1 << 63  # type: ignore[operator]

    def is_good(row: tuple[object, object, object]) -> bool:
        arrival, prompt, output = row
        time = type(arrival) in (int, float) and 0 <= arrival < float("inf")  # type: ignore[operator]
        return time and is_whole(prompt, 1) and is_whole(output, 0)

    names = ("arrival_s", "prompt_tokens", "output_tokens")
    path = tmp_path_factory.mktemp("json") / "file"
    path.write_text("".join(json.dumps(dict(zip(names, row, strict=True))) + "\n" for row in rows))
    good = [is_good(row) for row in rows]
    if not all(good):
        assert refusal(path).startswith(f"line {good.index(False) + 1}: ")
    elif all(row[2] == 0 for row in rows):
        assert refusal(path).startswith("no usable request")
    else:
        assert len(read_trace(path)) == sum(row[2] != 0 for row in rows)


def test_a_time_beyond_every_calendar(tmp_path: Path) -> None:
    stamps = pa.array([0, 9 * 10**14], pa.timestamp("s"))
    columns = {"TIMESTAMP": stamps, "ContextTokens": [1, 1], "GeneratedTokens": [1, 1]}
    pq.write_table(pa.table(columns), tmp_path / "file")
    assert refusal(tmp_path / "file").startswith("row 2: holds a time outside of the years")


def test_truth_values_are_no_ids(tmp_path: Path) -> None:
    columns = {"arrival_s": [0.0], "prompt_tokens": [1], "output_tokens": [1]}
    ids = {"block_tokens": [16], "hash_ids": [[True]]}
    pq.write_table(pa.table(columns | ids), tmp_path / "file")
    assert refusal(tmp_path / "file").startswith("row 1: hash_ids is True")


def test_quoted_line_ends_in_a_large_file(tmp_path: Path) -> None:
    """Arrow looks for them only when asked to; 20,000 rows are more than one of its blocks."""
    rows = [f'{i},1,2,"said\non two lines {"x" * 60}"' for i in range(20_000)]
    text = "arrival_s,prompt_tokens,output_tokens,note\n" + "\n".join(rows) + "\n"
    (tmp_path / "file.csv").write_text(text)
    trace = read_trace(tmp_path / "file.csv")
    assert (len(trace), int(trace.output_tokens.sum())) == (20_000, 40_000)


def test_many_blank_lines_first(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("\n" * 5000 + OWN + "0,1,1\n")
    assert len(read_trace(tmp_path / "file")) == 1


def test_a_name_that_is_no_utf_8(tmp_path: Path) -> None:
    path = tmp_path / "caf\udce9.csv"
    path.write_text(OWN + "0,1,1\n")
    trace = read_trace(path)
    assert trace.name == "caf\\xe9"
    trace.provenance.source.encode()


@pytest.mark.parametrize("bad", [150_000, 299_999])
def test_a_bad_row_far_behind_is_found_without_walking_to_it(
    tmp_path: Path, bad: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Counted in rows that the careful path looks at: far fewer than stand before the bad one."""
    from workloads.readers import fault

    rows = [f"{i},10,20" for i in range(300_000)]
    rows[bad] = f"{bad},ten,20"
    (tmp_path / "file.csv").write_text(OWN + "\n".join(rows) + "\n")
    looked = 0
    finite = fault.finite

    def counted(column: str, value: object) -> None:
        nonlocal looked
        looked += 1
        finite(column, value)

    monkeypatch.setattr(fault, "finite", counted)
    assert refusal(tmp_path / "file.csv").startswith(f"line {bad + 2}: prompt_tokens is 'ten'")
    assert looked < 102_000


def test_memory_is_named_where_memory_is_the_reason(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from workloads.readers import chunks

    def short(*_: object) -> None:
        raise pa.ArrowMemoryError("malloc of size 64 failed")

    (tmp_path / "file").write_text(OWN + "0,1,1\n")
    monkeypatch.setitem(chunks.KINDS, "csv", short)
    with pytest.raises(MemoryError):
        read_trace(tmp_path / "file")


def test_a_name_that_is_nearly_one_is_offered() -> None:
    with pytest.raises(InputError) as raised:
        read_trace("azure-conv")
    assert str(raised.value).endswith("did you mean 'azure-2023-conv'?")
