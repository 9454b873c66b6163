"""Texts from the templates of the package's resources."""

from __future__ import annotations

from jinja2 import Environment, PackageLoader, StrictUndefined


def render(name: str, **values: object) -> str:
    """A text that is no HTML: nothing in it is escaped, so every value must be one that may stand there.

    Args:
        name: of the template in `resources/`.
        **values: what it is given; one that it wants and does not get is an error.
    """
    environment = Environment(
        loader=PackageLoader("py_driver", "resources"),
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        keep_trailing_newline=True,
        autoescape=False,  # noqa: S701  (no HTML)
    )
    return environment.get_template(name).render(values)
