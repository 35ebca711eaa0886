"""The command `doctor`."""

import json
from dataclasses import asdict
from typing import Annotated

import typer


def doctor(json_: Annotated[bool, typer.Option("--json", help="Print JSON for machines.")] = False) -> None:
    """Show versions, cores, threads, devices, extras and data, and what each missing part would give."""
    from attangent._doctor import examine

    facts = examine()
    if json_:
        typer.echo(json.dumps([asdict(fact) for fact in facts], indent=1))
        return
    width = max(len(fact.name) for fact in facts)
    for fact in facts:
        typer.echo(f"{'ok' if fact.fine else '--'}  {fact.name:{width}}  {fact.found}")
        if fact.advice:
            typer.echo(f"    {'':{width}}  {fact.advice}")
