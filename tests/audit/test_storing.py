import json
import math
import os
import zipfile
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from attangent import AttangentError
from attangent.audit import Conclusion, Figure, Finding, Hypothesis, Series, Verdict, load
from attangent.audit.report.markdown import render_markdown
from attangent.audit.report.page import render
from attangent.audit.storing import Damaged, FindingRecord, Origin, Store, _wrap
from tests.audit import examples


def make_record(claim="P2/lemma-1", seed=0, **changes) -> FindingRecord:
    finding = Finding(
        conclusions=(Conclusion("c", "<=", math.inf, -math.inf, log10=True, first_violation=3),),
        hypotheses=(Hypothesis("h", ">=", 1.0, math.nan),),
        numbers={"tiny": 5e-324, "third": 1 / 3, "none": math.nan},
        figures=(
            Figure(
                "f", "x", "y", (Series.of("a", [1, 2], [0.1, math.inf]), Series.of("b", [], [], "points"))
            ),
            Figure("g", "x", "y", (Series.of("bars", [0], [1.5], "bars"),), log_y=True, ticks=("one",)),
        ),
        remark="ünïcode",
    )
    origin = Origin(claim, "t", "p", "s", "quick", {"n": 8, "list": [1, 2.5]}, seed, "code")
    return FindingRecord(origin, finding, 0.25, {"python": "3"}, **changes)


@pytest.fixture
def store(tmp_path):
    store = Store(tmp_path / "run")
    store.prepare("quick")
    return store


def test_round_trip_to_the_last_bit(store):
    record = make_record()
    store.write(record)
    read = store.read("P2--lemma-1--seed-0")
    assert read.content() == record.content()
    assert read.finding.numbers["tiny"] == 5e-324
    assert math.isnan(read.finding.hypotheses[0].measured)
    assert read.finding.conclusions == record.finding.conclusions
    assert read.finding.figures[1].ticks == ("one",)


@given(st.dictionaries(st.text(max_size=8), st.floats(), max_size=4))
def test_every_float_survives(numbers):
    plain = make_record()
    record = FindingRecord(plain.origin, Finding(plain.finding.conclusions, numbers=numbers), 0.0, {})
    body, arrays = record.encode()
    written = json.dumps(body, allow_nan=False)
    assert FindingRecord.decode(json.loads(written), arrays).content() == record.content()


def test_key_depends_on_claim_settings_seed_and_code():
    base = make_record().origin
    others = [
        make_record("P2/lemma-2").origin,
        make_record(seed=1).origin,
        Origin(**{**vars(base), "settings": {"n": 9}}),
        Origin(**{**vars(base), "code": "other"}),
    ]
    assert len({base.key, *(origin.key for origin in others)}) == 5
    assert Origin(**{**vars(base), "profile": "full"}).key == base.key


def damage_json(store, change):
    path = store.findings / "P2--lemma-1--seed-0.json"
    file = json.loads(path.read_text())
    change(file)
    path.write_text(json.dumps(file))


DAMAGES = {
    "changed number": lambda s: damage_json(s, lambda f: f["body"]["finding"]["numbers"].update(third=1.0)),
    "other schema": lambda s: damage_json(s, lambda f: f.update(schema=99)),
    "no checksum": lambda s: damage_json(s, lambda f: f.pop("checksum")),
    "cut off": lambda s: (s.findings / "P2--lemma-1--seed-0.json").write_text('{"schema": 1, "che'),
    "empty": lambda s: (s.findings / "P2--lemma-1--seed-0.json").write_bytes(b""),
    "binary": lambda s: (s.findings / "P2--lemma-1--seed-0.json").write_bytes(os.urandom(64)),
    "deep nesting": lambda s: (s.findings / "P2--lemma-1--seed-0.json").write_text("[" * 100_000),
    "arrays gone": lambda s: (s.findings / "P2--lemma-1--seed-0.npz").unlink(),
    "arrays changed": lambda s: np.savez(s.findings / "P2--lemma-1--seed-0.npz", x=np.zeros(3)),
    "arrays cut": lambda s: (s.findings / "P2--lemma-1--seed-0.npz").write_bytes(b"PK\x03\x04"),
}


@pytest.mark.parametrize("damage", DAMAGES.values(), ids=DAMAGES)
def test_a_damaged_finding_is_never_trusted(store, damage):
    store.write(make_record())
    damage(store)
    with pytest.raises(Damaged):
        store.read("P2--lemma-1--seed-0")
    records, problems = store.read_all()
    assert records == []
    assert [path.name for path in problems] == ["P2--lemma-1--seed-0.json"]


def test_a_finding_under_another_name_is_not_trusted(store):
    store.write(make_record())
    for suffix in ("json", "npz"):
        os.rename(
            store.findings / f"P2--lemma-1--seed-0.{suffix}", store.findings / f"P2--lemma-9--seed-0.{suffix}"
        )
    with pytest.raises(Damaged, match="holds the finding P2--lemma-1"):
        store.read("P2--lemma-9--seed-0")


def test_pickled_arrays_do_not_run(store, tmp_path):
    """A finding whose checksums are right, but whose arrays hold a pickle that would write a file."""
    proof = tmp_path / "ran"

    class Attack:
        def __reduce__(self):
            return open, (str(proof), "w")

    record = make_record()
    store.write(record)
    np.savez(store.findings / "P2--lemma-1--seed-0.npz", x=np.array([Attack()], dtype=object))
    reseal(store)
    with pytest.raises(Damaged, match="arrays"):
        store.read("P2--lemma-1--seed-0")
    assert not proof.exists()


def test_an_archive_that_would_unpack_to_gigabytes_is_refused(store):
    store.write(make_record())
    packed = store.findings / "P2--lemma-1--seed-0.npz"
    with zipfile.ZipFile(packed, "w", zipfile.ZIP_DEFLATED) as archive, archive.open("x.npy", "w") as file:
        for _ in range(300):
            file.write(bytes(2**20))
    reseal(store)
    with pytest.raises(Damaged, match="unpack to more"):
        store.read("P2--lemma-1--seed-0")


def reseal(store):
    """Make the checksums of a tampered finding fit, as an attacker would."""
    import hashlib

    path = store.findings / "P2--lemma-1--seed-0.json"
    body = json.loads(path.read_text())["body"]
    body["arrays"] = hashlib.sha256(path.with_suffix(".npz").read_bytes()).hexdigest()
    path.write_bytes(_wrap(body))


def test_foreign_files_are_named_and_links_not_followed(store, tmp_path):
    store.write(make_record())
    (store.findings / "notes.txt").write_text("mine")
    (store.findings / "folder.json").mkdir()
    (store.findings / "link.json").symlink_to(store.findings / "P2--lemma-1--seed-0.json")
    (store.findings / "orphan.npz").write_bytes(b"")
    records, problems = store.read_all()
    assert len(records) == 1
    assert {path.name for path in problems} == {"notes.txt", "folder.json", "link.json", "orphan.npz"}


def test_set_aside_moves_a_finding_with_its_arrays(store):
    store.write(make_record())
    for _ in range(2):
        moved = store.set_aside(store.findings / "P2--lemma-1--seed-0.json")
        assert moved.exists()
        assert os.listdir(store.findings) == []
        store.write(make_record())
    assert len(os.listdir(store.folder / "set-aside")) == 4


def test_a_finding_replaces_the_failure_noted_before(store):
    record = make_record()
    store.write_failure(record.origin, "Traceback: boom")
    (failure,) = store.read_failures()
    assert (failure["claim"], failure["seed"], failure["traceback"]) == ("P2/lemma-1", 0, "Traceback: boom")
    assert failure["origin"] == record.origin
    store.write(record)
    assert store.read_failures() == []


def test_a_run_folder_belongs_to_one_profile(store):
    store.prepare("quick")
    with pytest.raises(AttangentError, match="holds a quick run, not a full one"):
        store.prepare("full")


def test_run_folder_must_be_real(tmp_path):
    outside = tmp_path / "outside"
    outside.mkdir()
    run = tmp_path / "run"
    run.mkdir()
    (run / "findings").symlink_to(outside)
    with pytest.raises(AttangentError, match="symbolic link"):
        Store(run).prepare("quick")
    assert os.listdir(outside) == []


CHANGES = {
    "a relation": ("finding", "conclusions", 0, "relation", "~"),
    "a threshold": ("finding", "conclusions", 0, "threshold", "mine"),
    "a name": ("finding", "conclusions", 0, "name", 7),
    "a step": ("finding", "conclusions", 0, "first_violation", "soon"),
    "a value": ("finding", "conclusions", 0, "measured", "much"),
    "a trend": ("finding", "conclusions", 0, "trend", {"sizes": [1], "values": [1]}),
    "an unknown field": ("finding", "conclusions", 0, "colour", "red"),
    "a kind of series": ("finding", "figures", 0, "series", 0, "kind", "pie"),
    "a logarithm": ("finding", "figures", 0, "log_y", "yes"),
    "a remark": ("finding", "remark", ["x"]),
    "a number": ("finding", "numbers", {"n": None}),
    "a seed": ("origin", "seed", "0"),
    "a claim": ("origin", "claim", "../../etc"),
    "settings": ("origin", "settings", [1]),
    "what it rests on": ("origin", "rests_on", [3]),
    "versions": ("versions", ["x"]),
}


@pytest.fixture
def folder(tmp_path):
    store = Store(tmp_path / "run")
    store.prepare("quick")
    for claim in ("P2/lemma-1", "P2/lemma-2"):
        store.write(examples.make_record(claim, examples.bounded(0.5, figures=(examples.curves(),))))
    return store.folder


def rewrite(path, change):
    """Change one value of a file and give it the checksum that fits."""
    body = json.loads(path.read_text())["body"]
    place = body
    for key in change[:-2]:
        place = place[key]
    place[change[-2]] = change[-1]
    path.write_bytes(_wrap(body))


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_one_unreadable_finding_is_named_and_the_rest_shown(folder, change):
    rewrite(folder / "findings" / "P2--lemma-1--seed-0.json", change)
    run = load(folder)
    assert [path.name for path in run.problems] == ["P2--lemma-1--seed-0.json"]
    assert [result.claim for result in run.results()] == ["P2/lemma-2"]
    assert "P2--lemma-1--seed-0.json" in render(run)
    assert "P2/lemma-2" in render_markdown(run)


def test_letters_that_cannot_be_written_are_replaced(folder):
    rewrite(folder / "findings" / "P2--lemma-1--seed-0.json", ("origin", "title", "odd \ud800 letter"))
    run = load(folder)
    assert run.problems == {}
    render(run).encode()
    render_markdown(run).encode()
    assert run.results()[0].origin.title == "odd ? letter"


FOLDER = Path(__file__).parents[1] / "fixtures" / "audit"


def test_findings_written_before_are_read():
    run = load(FOLDER)
    assert run.problems == {}
    kept, broken = run.results()
    assert (kept.claim, kept.verdict) == ("P2/definition-3.6", Verdict.HOLDS)
    assert (broken.claim, broken.verdict) == ("P3/proposition-3", Verdict.VIOLATED)
    assert broken.deciding.finding.deciding.measured == broken.deciding.finding.conclusions[0].measured
    assert [len(result.deciding.finding.figures) for result in (kept, broken)] == [1, 1]
    assert kept.deciding.finding.lacks == ""


def test_they_are_shown():
    run = load(FOLDER)
    html, page = render(run), render_markdown(run)
    for result in run.results():
        assert f'id="{result.claim}"' in html
        row = next(line for line in page.splitlines() if line.startswith(f"| {result.claim} |"))
        assert f"| {result.verdict} |" in row
    assert html.count('class="plot"') == 2
