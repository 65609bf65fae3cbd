"""What the reviewers' pages need in templates: text of strangers made visible, figures, links.

Guarantees: filters return plain strings, which the template escapes as it escapes any text; control and
invisible characters are written as escapes, as on a terminal. Does not mark anything as safe.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from django import template

from memory.admin_desk import DeskPage, pages_for
from memory.terminal import visible

if TYPE_CHECKING:
    from django.template.context import RequestContext

register = template.Library()

NOTHING = "–"


@register.filter
def line(text: object, limit: int = 160) -> str:
    """*text* on one line, cut."""
    return visible(text, limit=limit)


@register.filter
def block(text: object, limit: int = 20_000) -> str:
    """*text* with its lines, for a ``<pre>``; cut, and says so."""
    whole = str(text)
    more = len(whole) - limit
    shown = visible(whole[:limit], lines=True)
    return f"{shown}\n… {more} more characters" if more > 0 else shown


@register.filter
def numbered(text: object, limit: int = 40_000) -> str:
    """As :func:`block`, with the numbers of its lines, by which evidence names them."""
    lines = block(text, limit).split("\n")
    return "\n".join(f"{number:>4}  {one}" for number, one in enumerate(lines, start=1))


@register.filter
def words(code: object) -> str:
    """``lucky_neighbour`` -> ``lucky neighbour``."""
    return str(code).replace("_", " ")


@register.filter
def signed(number: Any) -> str:
    """``+0.25``; what is not known is a dash."""
    return NOTHING if number is None else f"{round(number, 2) + 0.0:+.2f}"


@register.filter
def mean(shrunk: Any) -> str:
    """The mean of a shrunk mean; a dash for none."""
    return NOTHING if shrunk is None else signed(shrunk.mean)


@register.filter
def interval(shrunk: Any) -> str:
    """The ends of a shrunk mean's 95 % interval; a dash for none."""
    return NOTHING if shrunk is None else f"{signed(shrunk.low)} to {signed(shrunk.high)}"


@register.simple_tag(takes_context=True)
def desk_pages(context: RequestContext) -> list[DeskPage]:
    """The pages that the user of this request may open."""
    return pages_for(context["request"].user)
