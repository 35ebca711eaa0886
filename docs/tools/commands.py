"""Mark the blocks of a page that are commands, so that they wrap on narrow screens (a hook of mkdocs)."""

import re

_PROGRAMS = "attangent|curl|echo|export|llama-server|make|pip|python|vllm"
_COMMANDS = re.compile(
    r'class="language-text highlight"'
    rf"(?=><pre><span></span><code>(?:(?:{_PROGRAMS}) |scripts/|[A-Z_]+=))"
)


def on_page_content(html: str, **_: object) -> str:
    """Call blocks that begin with a command shell code (called by mkdocs)."""
    return _COMMANDS.sub('class="language-sh highlight"', html)
