import subprocess
import sys

from attangent import __version__


def test_version_and_help_do_without_torch():
    script = (
        "import sys; sys.argv = ['attangent', {!r}]\n"
        "from attangent.cli.commands import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "assert 'torch' not in sys.modules and 'numpy' not in sys.modules, 'heavy import'\n"
    )
    for option, expected in (("--version", f"attangent {__version__}"), ("--help", "audit")):
        done = subprocess.run(
            [sys.executable, "-c", script.format(option)], capture_output=True, text=True, check=True
        )
        assert expected in done.stdout
