"""The command `doctor`."""

import json
from dataclasses import asdict

import typer

from attangent.cli.common_options import AsJson, Quiet


def doctor(json_: AsJson = False, quiet: Quiet = False) -> None:
    """Show versions, cores, threads, devices, extras and data, and what each missing part would give.

    With --quiet only what is missing is shown.
    """
    from attangent.cli.environment import examine

    facts = [fact for fact in examine() if not (quiet and fact.fine)]
    if json_:
        typer.echo(json.dumps([asdict(fact) for fact in facts], indent=1))
        return
    width = max((len(fact.name) for fact in facts), default=0)
    for fact in facts:
        typer.echo(f"{'ok' if fact.fine else '--'}  {fact.name:{width}}  {fact.found}")
        if fact.advice:
            typer.echo(f"    {'':{width}}  {fact.advice}")
