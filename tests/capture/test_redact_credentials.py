"""Credentials of all kinds are found in any text, and no name of an event is taken for one."""

import lzma
import random
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from time import process_time

import pytest
from credential_kinds import NAMED, Planted, made, planted, rows_of
from sampled import sampled
from tiny_export import Row, kernel, nvml_samples, nvtx, row, write

from nsyswrap.analysis.usage import nvml_curves_of
from nsyswrap.api import CaptureReader
from nsyswrap.capture import schema
from nsyswrap.capture.redact import check, credentials, places, redact, search
from nsyswrap.capture.redact.search import Search

ROOT = Path(__file__).resolve().parents[2]
CAPTURES = [
    path
    for folder in ("tests/data", "tests/labelled", "nsyswrap/recorded")
    for path in sorted((ROOT / folder).rglob("*.sqlite*"))
]
SEARCH = Search({}, (), ())
PLANTED = planted()
KINDS: dict[str, list[Planted]] = {}
for _one in PLANTED:
    KINDS.setdefault(_one.kind, []).append(_one)
# Begin with too little to be known without a name.
ONLY_BY_NAME = {"Laravel key", "Ethereum key", "Okta token", "PayPal secret", "PagerDuty key", "Asana token"}
NAMES = """
step 12
pass 3
pass=forward
forward_pass=compute_loss_v2
XlaPass:#name=dce,module=jit_stage,program_id=0#
token_embedding
token_embedding=Embedding(32000, 4096)
token=17
tokens: 512, next_token: hello
max_new_tokens=512
eos_token="<|endoftext|>"
key_proj=Linear4bit(4096, 4096)
attn.k_proj
query/key/value
key=(8, 128, 64), key: torch.float16
key=model.layers.1.attention.weight
quant_key=kFp8StaticTokenSym
hf_hub
hf_hub_download_the_model_files_to_disk
cache_key=3f786850e387550fdab836ed7e6dc881de23001b
commit 3f786850e387550fdab836ed7e6dc881de23001b
triton_poi_fused_add_mul_0d1d2d3de
triton_per_fused__softmax_backward_data_7c1e9f0a
key=9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
kernel sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08
_ZN2at6native29vectorized_elementwise_kernelILi4ENS0_15FillFunctorIfEESt5arrayIPcLm1EEEEviT0_T1_
?foo@@YAXXZ
void cub::DeviceRadixSortOnesweepKernel<KeyT=float, ValueT=int>(KeyT *, ValueT *)
acc@1, acc@top5, recall@10, mAP@0.5, resnet50@v1.5, loss@epoch3, model@step100
memcpy@plt, pthread_create@GLIBC_2.34
signature: forward(Tensor x) -> Tensor
auth: none, session: 3, secret: none
password: ********
password=$PASSWORD, password=${DB_PASSWORD}, password=args.password
--password-file /run/secrets/db
-pthread -parallel4 -p8080 -pedantic
conv2.weight.data.at, torch.nn.modules.conv, google.protobuf.internal.decoder
files.pythonhosted.org, github.com/pytorch/pytorch, huggingface.co/bert-base
sk-learn-linear-model-fit-transform
Wav2Vec2ConformerPositionalConvEmbedding
StableDiffusionControlNetImg2ImgPipeline.forward
password was wrong, password is resnet50v2
basic block of resnet, bearer of bad news
/opt/cray/libfabric/1.15.2.0/lib64, cuDNN 9.10.2.21
\\u2581\\u2581
12:30:45.123456
docker run -p 8080:80 image
mysql -p db
curl -o out.bin https://example.org/x
test_distributed_data_parallel_forward
aten::_scaled_dot_product_flash_attention, op_id = 5, seq = 10
"""


def left_of(one: Planted, text: str) -> list[str]:
    """Return the secrets of which 8 characters are left in a text, and were only in the secret."""
    rest = one.text
    for secret in one.secrets:
        rest = rest.replace(secret, "")
    parts = {secret: {secret[i : i + 8] for i in range(max(len(secret) - 7, 1))} for secret in one.secrets}
    return [
        secret for secret, each in parts.items() if any(part in text and part not in rest for part in each)
    ]


@pytest.mark.parametrize("kind", KINDS)
def test_a_kind_of_credential_is_removed_in_all_notations(kind: str) -> None:
    for one in KINDS[kind]:
        cleaned = SEARCH.text(one.text)
        assert left_of(one, cleaned) == [], one.text
        assert "redacted" in cleaned
        assert one.rest in cleaned
        assert SEARCH.text(cleaned) == cleaned


def test_there_are_many_kinds_and_notations() -> None:
    assert len(KINDS) > 250
    assert len(PLANTED) > 4000


@sampled("seed", range(3), fast=1)
def test_no_kind_depends_on_its_random_characters(seed: int) -> None:
    assert [one.text for one in planted(seed) if left_of(one, SEARCH.text(one.text))] == []


def test_what_begins_as_a_token_is_found_without_a_name() -> None:
    chance = random.Random(7)  # noqa: S311 - not for secrets
    forms = {kind: form for kind, _, form in rows_of(NAMED, 3) if not form.startswith("{")}
    cleaned = {kind: SEARCH.text(f"load {made(form, chance)} now") for kind, form in forms.items()}
    assert {kind for kind, text in cleaned.items() if text != "load redacted now"} == ONLY_BY_NAME
    assert len(forms) > 90


@pytest.mark.parametrize("name", NAMES.strip().splitlines())
def test_a_name_is_no_credential(name: str) -> None:
    assert SEARCH.text(name) == name


def test_short_and_cut_off_texts() -> None:
    for one in PLANTED:
        for text in (one.text[: len(one.text) // 2], one.text[len(one.text) // 2 :], one.text[:9]):
            SEARCH.text(text)


def hostile() -> Iterator[str]:
    """Yield texts that begin what a pattern looks for again and again, and end none of it."""
    parts = {
        *credentials.HINTS,
        *credentials.ENDS,
        *credentials.PLACE_HINTS,
        *" ".join(credentials.FORMATS.values()).split(),
    }
    ends = ("", "=", " ", ": ")
    parts = {f"-{part}{ends[i % len(ends)]}" for i, part in enumerate(sorted(parts))}
    parts |= {
        "://",
        "://a:",
        "a@",
        "@",
        "a.",
        "1.1.",
        "a:",
        "key:",
        "sig=",
        'password="',
        "--password ",
        "\\'",
    }
    parts |= {
        "-----BEGIN PRIVATE KEY-----",
        "machine a login a ",
        "://hook/key",
        "ssh a ",
        "curl -u a",
        "$6$a$",
    }
    yield from sorted(parts)
    chance = random.Random(5)  # noqa: S311 - not for secrets
    yield from ("".join(chance.choices(sorted(parts), k=3)) for _ in range(150))


def test_no_text_takes_more_than_linear_time() -> None:
    SEARCH.text("password=")  # makes the patterns
    slow = {}
    for part in hostile():
        text = (part * 10_000)[:10_000]
        start = process_time()
        SEARCH.text(text)
        slow[part] = process_time() - start
    assert {part: seconds for part, seconds in slow.items() if seconds > 0.5} == {}


def names_in(capture: Path, folder: Path) -> set[str]:
    """Return the names of events and modules in a capture, and the texts of its ranges."""
    if capture.suffix == ".xz":
        (folder / "x.sqlite").write_bytes(lzma.decompress(capture.read_bytes()))
        capture = folder / "x.sqlite"
    with closing(sqlite3.connect(f"{capture.as_uri()}?mode=ro&immutable=1", uri=True)) as db:
        db.text_factory = lambda raw: raw.decode("utf-8", "surrogateescape")
        texts = db.execute("SELECT value FROM StringIds").fetchall()
        columns = {column[1] for column in db.execute("PRAGMA table_info(NVTX_EVENTS)")}
        for column in columns & {"text", "jsonText"}:
            texts += db.execute(f"SELECT DISTINCT {column} FROM NVTX_EVENTS").fetchall()  # noqa: S608
    return {text for (text,) in texts if text}


@sampled(("step", "least"), [(1, 3_000), (6, 1_000)], fast=[(6, 1_000)])
def test_no_name_in_any_capture_is_changed(step: int, least: int, tmp_path: Path) -> None:
    """Only folders that name a person may change, and names of machines."""
    names = set[str]().union(*(names_in(capture, tmp_path) for capture in CAPTURES[::step]))
    table = (ROOT / "tests" / "data" / "kernel_names.tsv").read_text(encoding="utf-8")
    names |= {cell for line in table.splitlines() for cell in line.split("\t")}
    assert len(names) > least
    changed = {name: cleaned for name in names if (cleaned := SEARCH.text(name)) != name}
    assert {name for name in changed if not name.startswith(("/home/", "/global/u"))} == set()
    assert all(cleaned.count("redacted") == 1 for cleaned in changed.values())


def test_all_kinds_are_removed_from_ranges_and_arguments(tmp_path: Path) -> None:
    some = [one for i, one in enumerate(PLANTED) if i % 5 == 0]
    texts = [one.text.replace("\0", ";") for one in some]
    arguments = [
        row("META_DATA_CAPTURE", name=f"PROCESS_0:ARGUMENT_{i}", value=text) for i, text in enumerate(texts)
    ]
    ranges = [nvtx(text, i, i + 5) for i, text in enumerate(texts)]
    write(tmp_path / "x.sqlite", kernel("k", 0, 5), *ranges, *arguments)
    redact(tmp_path / "x.sqlite", tmp_path / "copy.sqlite")
    raw = (tmp_path / "copy.sqlite").read_bytes().decode("latin-1")
    assert [one.text for one in some if any(secret in raw for secret in one.secrets if len(secret) > 7)] == []
    with closing(sqlite3.connect(tmp_path / "copy.sqlite")) as db:
        [(different,)] = db.execute("SELECT count(DISTINCT text) FROM NVTX_EVENTS")
    assert different == len(set(texts))
    assert check(tmp_path / "copy.sqlite").secrets == ()


@pytest.mark.parametrize(
    ("words", "secret"),
    [
        (["sshpass", "-p", "Slartibartfast", "ssh", "node"], "Slartibartfast"),
        (["mysql", "-u", "root", "-pSlartibartfast"], "Slartibartfast"),
        (["train.py", "--db-password", "slartibartfast"], "slartibartfast"),
        (["train.py", "--passphrase", "forty-two brown towels"], "forty-two brown towels"),
        (["docker", "login", "-u", "arthur", "-p", "Slartibartfast"], "Slartibartfast"),
        (["curl", "-u", "arthur:Slartibartfast", "x"], "Slartibartfast"),
        (["ssh", "arthur@magrathea", "true"], "arthur@magrathea"),
        (["redis-cli", "-a", "Slartibartfast"], "Slartibartfast"),
    ],
)
def test_a_secret_argument_is_known_by_those_before_it(tmp_path: Path, words: list[str], secret: str) -> None:
    names = ["COMMAND", *(f"ARGUMENT_{i}" for i in range(len(words) - 1))]
    rows = [
        row("META_DATA_CAPTURE", name=f"PROCESS_0:{name}", value=word)
        for name, word in zip(names, words, strict=True)
    ]
    write(tmp_path / "x.sqlite", kernel("k", 0, 5), *rows, row("LOG", text=f"used {secret} here"))
    redact(tmp_path / "x.sqlite", tmp_path / "copy.sqlite")
    raw = (tmp_path / "copy.sqlite").read_bytes()
    assert secret.encode() not in raw
    assert b"used redacted here" in raw
    assert all(word.encode() in raw for word in words if secret not in word)
    assert check(tmp_path / "copy.sqlite").secrets == ()


@pytest.mark.parametrize(("before", "found"), [("--password", ["mnist"]), ("password", []), ("--passes", [])])
def test_what_follows_an_option_is_a_secret_and_what_follows_a_word_is_none(
    before: str, found: list[str]
) -> None:
    names = ("PROCESS_0:COMMAND", "PROCESS_0:ARGUMENT_0", "PROCESS_0:ARGUMENT_1")
    lines = [*zip(names, ("train", before, "mnist"), strict=True), ("PROCESS_1:ARGUMENT_0", "other")]
    assert [value for _, value in places.secret_arguments(lines)] == found


RECORDED = Path(__file__).resolve().parents[1] / "data" / "recorded"
SHIPPED = Path(__file__).resolve().parents[2] / "nsyswrap" / "recorded"
SHARED = Path(__file__).resolve().parents[3] / "shared" / "exports"
EXPORTS = [
    *sorted(SHIPPED.glob("*/*/*.sqlite")),
    *sorted(RECORDED.rglob("*.sqlite.xz")),
    *sorted(SHARED.rglob("*.sqlite*")),
]
# Tables of nsys 2023.4 that stay empty without special hardware: no export here holds rows of them.
RARE = (
    *("CUDA_GPU_MEMORY_POOL_EVENTS", "ETW_EVENTS", "ETW_PROVIDERS", "ETW_TASKS", "GPU_CONTEXT_SWITCH_EVENTS"),
    *("MEMORY_TRANSFER_EVENTS", "MPI_COMMUNICATORS", "MPI_RANKS", "NET_IB_SWITCH_METRIC", "NET_NIC_METRIC"),
    *("NIC_ID_MAP", "NVVIDEO_JPEG_API", "PERF_EVENT_CPU_RAW_EVENT", "PMU_EVENTS", "PMU_EVENT_COUNTERS"),
    *("PMU_EVENT_REQUESTS", "TARGET_INFO_NETWORK_METRICS", "TARGET_INFO_PERF_METRIC"),
    *("TRACE_PROCESS_EVENT_NVMEDIA", "UCP_EVENTS", "UCP_PROGRESS_EVENTS", "UCP_SUBMIT_EVENTS", "UCP_WORKERS"),
    *("UNCORE_PMU_EVENTS", "UNCORE_PMU_EVENT_VALUES"),
)


def texts_of(export: Path, folder: Path, query: str) -> set[str]:
    """Return the texts that a query of one column finds in an export, which may be packed."""
    if export.suffix == ".xz":
        content = lzma.decompress(export.read_bytes())
        export = folder / "x.sqlite"
        export.write_bytes(content)
    with closing(sqlite3.connect(f"{export.as_uri()}?mode=ro&immutable=1", uri=True)) as db:
        return {text for (text,) in db.execute(query)}


def tables_of(export: Path, folder: Path) -> set[str]:
    return texts_of(export, folder, "SELECT name FROM sqlite_master WHERE type = 'table'")


@pytest.mark.slow
def test_the_command_line_of_a_recording_names_no_folder_of_a_person(tmp_path: Path) -> None:
    """Redacting leaves the command line: who adds a recording looks at it."""
    words = "SELECT value FROM META_DATA_CAPTURE WHERE name LIKE 'PROCESS%:ARGUMENT%' AND value LIKE '/%'"
    tests = Path(__file__).resolve().parents[1]
    recordings = [*SHIPPED.rglob("*.sqlite"), *tests.rglob("*.sqlite.xz")]
    paths = set[str]().union(*(texts_of(export, tmp_path, words) for export in recordings))
    assert "/data/lines.py" in paths
    assert {path.split("/")[1] for path in paths} <= {"data", "opt", "tmp", "usr"}


def without_rule(tables: set[str]) -> set[str]:
    return {table for table in tables if search.rule_of(table) is None and not table.startswith("sqlite_")}


def test_every_table_that_reports_read_has_a_rule() -> None:
    constants = {
        *(schema.STRINGS, *schema.EXPORT_METADATA, schema.CAPTURE_METADATA, schema.SYSTEM_ENV, schema.GPUS),
        *(schema.THREAD_NAMES, schema.SESSION_START, schema.ANALYSIS, schema.CUDA_DEVICES),
    }
    read = {events.table.replace("*", "ANY") for events in schema.EVENTS.values()}
    read |= {table for table, _ in schema.ENUMS.values()}
    assert without_rule(read | constants | set(RARE)) == set()


def test_every_table_of_every_export_has_a_rule(tmp_path: Path) -> None:
    tables = set[str]().union(*(tables_of(export, tmp_path) for export in EXPORTS))
    assert schema.GPUS in tables
    assert without_rule(tables) == set()


def test_the_longest_pattern_is_the_rule() -> None:
    assert search.rule_of("CUPTI_ACTIVITY_KIND_OPENACC_DATA") == search.Rule(searched=("srcFile",))
    assert search.rule_of("CUPTI_ACTIVITY_KIND_NEW") == search.Rule(kept=("name",))
    assert search.rule_of("NEW") is None


def test_strings_that_a_rule_searches_are_string_columns() -> None:
    columns = {column for rule in search.RULES.values() for column in rule.searched}
    assert all(schema.STRING_COLUMN.fullmatch(column) for column in columns)


def test_a_table_without_a_rule_is_named(tmp_path: Path) -> None:
    write(tmp_path / "x.sqlite", row("CUPTI_ACTIVITY_KIND_KERNEL", start=1), row("NEW_TABLE", text="a"))
    assert check(tmp_path / "x.sqlite").unknown == ("NEW_TABLE",)


@pytest.mark.parametrize("table", ["NVTX_EVENTS", "DIAGNOSTIC_EVENT", "PROCESSES"])
def test_a_table_with_a_rule_is_not_named(tmp_path: Path, table: str) -> None:
    write(tmp_path / "x.sqlite", row("CUPTI_ACTIVITY_KIND_KERNEL", start=1), row(table, value="a"))
    assert check(tmp_path / "x.sqlite").unknown == ()


def test_texts_of_plugins_and_of_traces_of_the_system_are_removed(tmp_path: Path) -> None:
    """Their JSON can hold an environment, and paths with escapes; what the plugin sampled stays."""
    source, target = tmp_path / "x.sqlite", tmp_path / "y.sqlite"
    text = r'{"env": ["TOKEN=dont-panic-42"], "cwd": "\/home\/trillian"}'
    rows = [
        Row(one.table, {**one.cells, "data": text}) if one.table == "GENERIC_EVENTS" else one
        for one in nvml_samples((74, 36), (310, 41))
    ]
    described = row("GENERIC_EVENT_TYPES", typeId=7, sourceId=1, nameId="", data=text)
    write(source, row("CUPTI_ACTIVITY_KIND_KERNEL", start=1), *rows, described)
    secret = next(one for one in check(source).secrets if one.kind == "texts of system events")
    assert (secret.count, set(secret.names)) == (3, {"GENERIC_EVENTS", "GENERIC_EVENT_TYPES"})
    redact(source, target)
    assert check(target).secrets == ()
    for word in (b"dont-panic", b"trillian"):
        assert word not in target.read_bytes()
    assert [one.values.tolist() for one in nvml_curves_of(CaptureReader(target))] == [[74, 310], [36, 41]]


def test_the_process_of_a_plugin_is_another_process(tmp_path: Path) -> None:
    plugin = 4711 << 24
    rows = [
        Row(one.table, {**one.cells, "globalTid": plugin + 4711}) if one.table == "GENERIC_EVENTS" else one
        for one in nvml_samples((74, 36))
    ]
    write(
        tmp_path / "x.sqlite",
        row("CUPTI_ACTIVITY_KIND_KERNEL", start=1, globalPid=100 << 24),
        row("PROCESSES", globalPid=plugin, name="nvml"),
        *rows,
    )
    kinds = {one.kind: one.count for one in check(tmp_path / "x.sqlite").secrets}
    assert kinds == {"other processes' names": 1}
