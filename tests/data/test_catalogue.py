import re
from pathlib import Path

import pandas as pd
import pytest

from attangent import AttangentError
from attangent.audit.registry import all_claims
from attangent.data import SAMPLES, all_sets, get_set, sample


def test_every_set_says_what_it_is_and_names_its_files_once():
    files = [file for one in all_sets() for file in one.files]
    assert len({file.path for file in files}) == len(files) > 30
    assert all(re.fullmatch("([0-9a-f]{64})?", file.content) for file in files)
    assert all(file.content for file in files if file.url)
    assert all(one.licence and one.source and one.used_by for one in all_sets())
    assert all(file.url.startswith("https://") for file in files if file.url)


def test_every_file_that_a_claim_reads_is_in_the_catalogue():
    listed = {file.path for one in all_sets() for file in one.files}
    wanted = {name for claim in all_claims().values() for name in claim.data}
    assert wanted
    assert wanted <= listed


def test_a_misspelt_name_is_refused_with_a_guess():
    with pytest.raises(AttangentError, match="did you mean gsm8k"):
        get_set("gsm8")


def test_the_page_on_data_lists_every_set_and_whether_it_can_be_fetched():
    page = (Path(__file__).parents[2] / "docs/data.md").read_text()
    for one in all_sets():
        (line,) = [row for row in page.splitlines() if row.startswith("|") and f"`{one.name}`" in row]
        assert line.endswith("| yes |" if one.can_be_fetched else "| no |")


def test_samples_are_small_and_whole():
    assert sum(sample(name).stat().st_size for name in SAMPLES) < 100_000
    weather = pd.read_csv(sample("weather"), parse_dates=["date"])
    assert len(weather) == 1461
    assert (weather.date.diff().dropna() == pd.Timedelta(days=1)).all()
    assert not weather.isna().any().any()
    employment = pd.read_csv(sample("employment"))
    assert employment.groupby("unique_id").size().tolist() == [120] * 22


def test_an_unknown_sample_is_refused():
    with pytest.raises(AttangentError, match="weather"):
        sample("wether")
