"""Settings are checked before anything is loaded."""

import pytest

from attangent import AttangentError
from attangent.serving import ServeSettings


@pytest.mark.parametrize("host", ["0.0.0.0", "192.168.1.4", "::", "example.org", ""])
def test_another_host_needs_a_key(host):
    with pytest.raises(AttangentError, match="set ATTANGENT_API_KEY"):
        ServeSettings(host=host)
    assert ServeSettings(host=host, api_key="long enough").api_key == "long enough"


@pytest.mark.parametrize("host", ["127.0.0.1", "127.1.2.3", "::1", "localhost"])
def test_this_machine_needs_none(host):
    assert ServeSettings(host=host).is_local


@pytest.mark.parametrize(
    "change",
    [
        {"port": 70_000},
        {"port": -1},
        {"most_rows": 0},
        {"most_bytes": 0},
        {"request_seconds": 0},
        {"api_key": "short"},
        {"api_key": "schlüssel-schlüssel"},
    ],
)
def test_values_out_of_range(change):
    with pytest.raises(AttangentError):
        ServeSettings(**change)
