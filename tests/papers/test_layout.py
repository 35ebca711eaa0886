"""Every file of claims has its tests at the same path, and every claim is named in the tests of its file."""

from pathlib import Path

from attangent import papers
from attangent.audit import registry

HERE = Path(__file__).parent
SOURCE = Path(papers.__path__[0])


def test_every_file_of_claims_has_its_tests():
    files = [path.relative_to(SOURCE) for path in SOURCE.glob("*/claims/**/*.py")]
    files = [path for path in files if path.name != "__init__.py"]
    missing = [str(path) for path in files if not (HERE / path.parent / f"test_{path.name}").is_file()]
    assert missing == ["p1_prefix/claims/small_tasks.py"]  # the claims of the adapters test it


def test_every_claim_is_named_in_the_tests_of_its_file():
    for id, claim in registry.all_claims().items():
        *folders, name = claim.module.partition(".papers.")[2].split(".")
        assert f'"{id}"' in HERE.joinpath(*folders, f"test_{name}.py").read_text(), id
