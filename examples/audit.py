"""The verdict on two statements of a paper, and the numbers behind it.

`attangent audit --list` names all of them; `attangent audit --profile quick` runs them and writes a report.
"""

import tempfile

from attangent import audit

with tempfile.TemporaryDirectory() as folder:
    run = audit.run(["P2/definition-3.6", "P2/equation-25"], seeds=1, out=folder)
    for result in run.results():
        print(f"{result.claim}: {result.verdict.value}")
    print(run.frame()[["claim", "conclusion", "relation", "bound", "measured"]].to_string(index=False))
