import json

from typer.testing import CliRunner

from attangent.cli import app


def test_doctor_prints_every_fact_and_the_same_as_json():
    told = CliRunner().invoke(app, ["doctor"])
    assert told.exit_code == 0
    facts = json.loads(CliRunner().invoke(app, ["doctor", "--json"]).stdout)
    assert {"attangent", "cores", "threads", "data", "compiled code"} <= {fact["name"] for fact in facts}
    assert all(fact["name"] in told.stdout for fact in facts)
